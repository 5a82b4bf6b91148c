//! Groups of objects: names, members and columns, stored at level 0 and held in memory.

use std::cell::OnceCell;
use std::collections::HashMap;

use rustc_hash::FxHashSet;
use serde_json::{Value as Json, json};
use zvf_format::{Class, num};
use zvf_metadata::arrays::{ArrayAttributes as _, GroupRange, GroupsAttrs as GroupsDoc};

use crate::changes::Changes;
use crate::error::{At, OrFail, Result, fail};
use crate::indexes::{RowColumn, open_row_columns};
use crate::row_array::RowArray;
use crate::snapshot::{Snapshot, attributes_object};

/// Expands the members of a group that is stored as a range of ids.
fn range_members(&GroupRange { group, start, stop }: &GroupRange) -> Result<Vec<i64>> {
    // The difference is compared with the cap, which a clamped one exceeds.
    if stop.saturating_sub(start) > MAX_RANGE_MEMBERS {
        let text = format!(
            "{GROUPS_PATH}, group_ranges of group {group}: expected at most {MAX_RANGE_MEMBERS} \
             objects, found {start} to {stop}"
        );
        return fail(Class::BadShape, text);
    }
    Ok((start..stop).collect())
}

/// Reads the members of a group that is stored as a list of ids.
fn read_members(number: usize, row: &[u8]) -> Result<Vec<i64>> {
    if !row.len().is_multiple_of(8) {
        let text = format!(
            "{GROUPS_PATH}, group {number}: expected ids of 8 bytes, found {} bytes",
            row.len()
        );
        return fail(Class::Misaligned, text);
    }
    Ok(num::i64s_from_le(row).collect())
}

/// Maximum number of members of a group that is stored as a range, as they are expanded in memory.
const MAX_RANGE_MEMBERS: i64 = 1 << 28;

/// The groups of a store.
#[derive(Clone, Debug)]
pub(crate) struct Groups {
    array: Option<RowArray>,
    pub(crate) list: Vec<Group>,
    pub(crate) columns: Vec<RowColumn>,
    pub(crate) changed: bool,
    /// The number of groups before the edit.
    pub(crate) count_before: usize,
}

/// One group.
#[derive(Clone, Debug, Default)]
pub(crate) struct Group {
    pub(crate) name: Option<String>,
    /// Its members in the order in which they joined, and ids that left.
    listed: Vec<i64>,
    /// The ids of its members, once it is asked for one.
    ids: OnceCell<FxHashSet<i64>>,
}

impl Group {
    fn new(name: Option<String>, listed: Vec<i64>) -> Self {
        Self { name, listed, ..Self::default() }
    }

    /// Returns the members in the order in which they joined.
    pub(crate) fn members(&self) -> impl Iterator<Item = i64> {
        let ids = self.ids.get().filter(|ids| ids.len() < self.listed.len());
        self.listed.iter().copied().filter(move |id| ids.is_none_or(|ids| ids.contains(id)))
    }

    fn has_member(&self, id: i64) -> bool {
        self.ids.get_or_init(|| self.listed.iter().copied().collect()).contains(&id)
    }

    /// Adds or removes a member. Returns whether it was none, or one.
    #[expect(clippy::expect_used, reason = "`has_member` reads the ids")]
    fn set_member(&mut self, id: i64, joins: bool) -> bool {
        let is_other = self.has_member(id) != joins;
        let ids = self.ids.get_mut().expect("the ids were asked for");
        if is_other && joins {
            // One that left and joins again is the last.
            if ids.len() < self.listed.len() {
                self.listed.retain(|listed| ids.contains(listed));
            }
            self.listed.push(id);
            ids.insert(id);
        } else if !joins {
            ids.remove(&id);
        }
        is_other
    }
}

impl Groups {
    pub(crate) fn open(snap: &Snapshot) -> Result<Self> {
        let array = RowArray::open(snap, GROUPS_PATH)?;
        let mut list = Vec::new();
        if let Some(array) = &array {
            let attrs = attributes_object(&array.stored.doc["attributes"]);
            let doc = GroupsDoc::parse(attrs).at(GROUPS_PATH)?;
            let ranges: HashMap<u64, &GroupRange> =
                doc.ranges.iter().flatten().map(|range| (range.group, range)).collect();
            for (number, row) in array.rows.now.iter().enumerate() {
                let own_name =
                    |name: &String| !name.is_empty() && *name != format!("group_{number}");
                let name = doc.names.iter().flatten().nth(number).filter(|name| own_name(name));
                let members = match ranges.get(&num::to_u64(number)) {
                    Some(range) => range_members(range)?,
                    None => read_members(number, row)?,
                };
                list.push(Group::new(name.cloned(), members));
            }
        }
        let columns = open_row_columns(snap, GROUP_COLUMNS_PATH, |_name| true)?;
        let count_before = list.len();
        Ok(Self { array, list, columns, changed: false, count_before })
    }

    /// Returns the name of a group; `group_<number>` for one without.
    pub(crate) fn name(&self, number: usize) -> String {
        let name = self.list.get(number).and_then(|group| group.name.clone());
        name.unwrap_or_else(|| format!("group_{number}"))
    }

    /// Finds the number of a group that is given by number or name.
    pub(crate) fn find_group(&self, group: &Json) -> Option<usize> {
        if let Some(name) = group.as_str() {
            return (0..self.list.len()).find(|number| self.name(*number) == name);
        }
        group.as_u64().and_then(|n| usize::try_from(n).ok()).filter(|n| *n < self.list.len())
    }

    pub(crate) fn need_group(&self, group: &Json) -> Result<usize> {
        self.find_group(group).or_refused(|| format!("there is no group {group}"))
    }

    /// Adds a group without members, and returns its number.
    pub(crate) fn push_group(&mut self, name: Option<String>) -> usize {
        self.list.push(Group::new(name, Vec::new()));
        for column in &mut self.columns {
            let row = column.ty.sentinel();
            let at = column.array.len();
            column.array.resize(at + 1);
            column.array.set_row(at, &row);
        }
        self.changed = true;
        self.list.len() - 1
    }

    /// Adds or removes a member. Returns whether it was none, or one.
    pub(crate) fn set_member(&mut self, group: usize, id: i64, joins: bool) -> bool {
        let is_other = self.list[group].set_member(id, joins);
        self.changed |= is_other;
        is_other
    }

    /// Maps the ids of members by `new`, and removes members without a new id.
    pub(crate) fn renumber(&mut self, new: &HashMap<i64, i64>) {
        for group in &mut self.list {
            let members: Vec<i64> =
                group.members().filter_map(|id| new.get(&id).copied()).collect();
            self.changed |= !group.members().eq(members.iter().copied());
            *group = Group::new(group.name.take(), members);
        }
    }

    /// Returns the groups of an object.
    pub(crate) fn with_member(&self, id: i64) -> Vec<usize> {
        (0..self.list.len()).filter(|group| self.list[*group].has_member(id)).collect()
    }

    pub(crate) fn flush(&mut self, snap: &Snapshot, out: &mut Changes) -> Result<()> {
        if self.array.is_none() && !self.list.is_empty() {
            self.array = Some(RowArray::create(
                GROUPS_PATH,
                json!({"zv_array": "groups", "num_groups": 0}),
            )?);
            self.changed = true;
        }
        // A group without a name gets its default name, as not every reader takes an empty one for none.
        let names: Vec<String> = (0..self.list.len()).map(|number| self.name(number)).collect();
        if let Some(array) = self.array.as_mut().filter(|_| self.changed) {
            let bytes = |group: &Group| {
                group.members().flat_map(i64::to_le_bytes).collect::<Vec<u8>>().into()
            };
            *array.rows.change() = self.list.iter().map(bytes).collect();
            let attrs = &mut array.stored.doc["attributes"];
            let before = attrs.clone();
            attrs["num_groups"] = json!(self.list.len());
            if let Some(attrs) = attrs.as_object_mut() {
                // Once a group changes, ranges are written as lists.
                attrs.shift_remove("group_ranges");
                let is_named = self.list.iter().any(|group| group.name.is_some());
                if is_named || attrs.contains_key("group_names") {
                    attrs.insert("group_names".to_owned(), json!(names));
                }
            }
            array.stored.changed |= array.stored.doc["attributes"] != before;
            array.flush(out, usize::MAX)?;
            self.changed = false;
        }
        if !self.columns.is_empty() {
            out.ensure_group(snap, GROUP_COLUMNS_PATH)?;
        }
        for column in &mut self.columns {
            column.array.flush(out, true)?;
        }
        Ok(())
    }
}

pub(crate) const GROUPS_PATH: &str = "0/groups";
pub(crate) const GROUP_COLUMNS_PATH: &str = "0/group_attributes";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_ranges_within_the_limit() {
        let members = |start, stop| range_members(&GroupRange { group: 7, start, stop });
        assert_eq!(members(-1, 2).unwrap(), [-1, 0, 1]);
        assert!(members(5, 5).unwrap().is_empty());
        let error = members(i64::MIN, i64::MAX).unwrap_err();
        assert_eq!(error.class, Class::BadShape);
        assert!(error.message.contains("group_ranges of group 7"), "{error}");
    }

    #[test]
    fn refuses_members_that_are_no_whole_ids() {
        assert_eq!(read_members(0, &(-1_i64).to_le_bytes()).unwrap(), [-1]);
        assert_eq!(read_members(0, &[0; 12]).unwrap_err().class, Class::Misaligned);
    }

    #[test]
    fn members_are_in_the_order_in_which_they_joined() {
        let mut group = Group::new(None, vec![5, 3, 9]);
        let changes = [(3, false), (3, false), (4, true), (3, true), (5, true), (4, false)];
        let changed = changes.map(|(id, joins)| group.set_member(id, joins));
        assert_eq!(changed, [true, false, true, true, false, true]);
        assert_eq!(Vec::from_iter(group.members()), [5, 9, 3]);
    }
}
