//! Columns of vertices that come from joins with their fragment and with the groups of their object.
//!
//! ```text
//! fragment.NAME    the value of the fragment that the vertex is in
//! groups           the numbers of the groups that its object is in, ascending; an empty list without an object
//! group.name       the names of these groups, in that order
//! group.NAME       an attribute of these groups, in that order
//! ```
//!
//! An object may be in several groups, so columns of groups are lists.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, ListArray, StringArray, UInt64Array};
use arrow_schema::{DataType, Field};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::compute::{cast, take};
use datafusion::error::Result;
use zvf::ObjectId;
use zvf::model::{LevelReader, Members};
use zvf::predicate::Scope;

use crate::columns::{Origin, TableLayout, arrow_field, attribute_names, empty_column, row_field};
use crate::limits::{check_list_items, group_numbers};
use crate::table::{TableName, TableOptions};
use crate::values::attribute_values;
use crate::{bad_request, external_error};

/// Prefix of columns of fragments.
const FRAGMENT_PREFIX: &str = "fragment.";
/// Prefix of columns of groups.
const GROUP_PREFIX: &str = "group.";

/// Returns the name of an attribute of fragments in queries and as a column.
pub(crate) fn fragment_column(name: &str) -> String {
    format!("{FRAGMENT_PREFIX}{name}")
}

impl TableLayout {
    /// Adds the columns of fragments and groups that `options` ask for.
    pub(crate) async fn push_joined(
        &mut self,
        level: &LevelReader,
        options: TableOptions,
    ) -> Result<()> {
        let TableOptions { table, fragment_attributes, group_attributes, .. } = options;
        if !fragment_attributes && !group_attributes {
            return Ok(());
        }
        if table != TableName::Vertices {
            let what = "columns of fragments or groups";
            return Err(bad_request(what, "the vertices of a level", table.word()));
        }
        if fragment_attributes {
            self.push_fragment_attributes(level).await?;
        }
        if group_attributes {
            self.push_group_attributes(level).await?;
        }
        Ok(())
    }

    async fn push_fragment_attributes(&mut self, level: &LevelReader) -> Result<()> {
        for name in attribute_names(level, Scope::Fragment).await? {
            let found = level.fragment_attribute(&name).await.map_err(external_error)?;
            let Some(attribute) = found else { continue };
            let empty = empty_column(attribute.dtype(), attribute.width())?;
            let field = arrow_field(&attribute.field(empty))?;
            let column = fragment_column(&name);
            let data_type = field.data_type().clone();
            self.push_new(&column, data_type, true, Origin::FragmentAttribute(name))?;
        }
        Ok(())
    }

    async fn push_group_attributes(&mut self, level: &LevelReader) -> Result<()> {
        if level.groups().await.map_err(external_error)?.is_none() {
            return Err(bad_request("columns of groups", "a level with groups", "one without"));
        }
        let list = |item: DataType| DataType::List(Arc::new(Field::new_list_field(item, true)));
        self.push_new("groups", list(DataType::Int64), false, Origin::Groups)?;
        let name = format!("{GROUP_PREFIX}name");
        self.push_new(&name, list(DataType::Utf8), false, Origin::GroupNames)?;
        for attribute in level.group_attributes().await.map_err(external_error)? {
            let name = attribute.name().to_owned();
            let item = row_field(&attribute)?.data_type().clone();
            let mut column = format!("{GROUP_PREFIX}{name}");
            if self.find(&column).is_some() {
                column = format!("{GROUP_PREFIX}{column}");
            }
            self.push_new(&column, list(item), false, Origin::GroupAttribute(name))?;
        }
        Ok(())
    }

    /// Adds a column; refuses a name that another column has.
    fn push_new(
        &mut self,
        name: &str,
        data_type: DataType,
        nullable: bool,
        origin: Origin,
    ) -> Result<()> {
        if self.find(name).is_some() {
            let expected = "no attribute of that name";
            return Err(bad_request(&format!("the column {name}"), expected, "one"));
        }
        self.push(name, data_type, nullable, origin);
        Ok(())
    }
}

/// The groups of each object, and the attributes of groups.
#[derive(Debug)]
pub(crate) struct Memberships {
    /// Pairs of an object and a group that lists it, ascending.
    listed: Vec<(i64, u64)>,
    /// Groups that are ranges of ids: the first id, one past the last id, the group.
    ranges: Vec<(i64, i64, u64)>,
    names: ArrayRef,
    /// Attributes by name, a value for each group.
    attributes: HashMap<String, ArrayRef>,
}

impl Memberships {
    /// Reads the memberships of a level, with the attributes that are columns of `layout`.
    pub(crate) async fn read(level: &LevelReader, layout: &TableLayout) -> Result<Self> {
        let found = level.groups().await.map_err(external_error)?;
        let groups = found.ok_or_else(|| bad_request("columns of groups", "groups", "none"))?;
        let all: Vec<u64> = group_numbers(&groups)?.collect();
        let (mut listed, mut ranges) = (Vec::new(), Vec::new());
        for (group, members) in all.iter().zip(groups.members(&all).await.map_err(external_error)?)
        {
            match members {
                Members::Ids(ids) => {
                    listed.extend(ids.into_iter().map(|id| (id.0, *group)));
                }
                Members::Range { start, stop } => ranges.push((start, stop, *group)),
            }
        }
        listed.sort_unstable();
        listed.dedup();
        let names = all.iter().map(|group| groups.name(*group)).collect::<StringArray>();
        let mut attributes = HashMap::new();
        for column in &layout.columns {
            let Origin::GroupAttribute(name) = &column.origin else { continue };
            let found = level.group_attribute(name).await.map_err(external_error)?;
            let found = found.ok_or_else(|| bad_request("an attribute of groups", "one", name))?;
            let values = attribute_values(Some(&found), column.field.data_type(), &all).await?;
            attributes.insert(name.clone(), values);
        }
        Ok(Self { listed, ranges, names: Arc::new(names), attributes })
    }

    /// Returns the groups of each of `owners`, as concatenated lists.
    pub(crate) fn lists(
        &self,
        owners: impl Iterator<Item = Option<ObjectId>>,
    ) -> Result<GroupLists> {
        let (mut groups, mut lengths) = (Vec::new(), Vec::new());
        let mut last: Option<ObjectId> = None;
        let mut object_groups = Vec::new(); // without an object, none
        for owner in owners {
            if last != owner {
                (last, object_groups) = (owner, self.find_groups(owner));
            }
            check_list_items(groups.len() + object_groups.len())?;
            groups.extend_from_slice(&object_groups);
            lengths.push(object_groups.len());
        }
        Ok(GroupLists { groups: UInt64Array::from(groups), lengths })
    }

    fn find_groups(&self, owner: Option<ObjectId>) -> Vec<u64> {
        let Some(id) = owner.map(|id| id.0) else { return Vec::new() };
        let first = self.listed.partition_point(|(object, _)| *object < id);
        let listed = self.listed.iter().skip(first).take_while(|(object, _)| *object == id);
        let ranges = self.ranges.iter().filter(|(start, stop, _)| (*start..*stop).contains(&id));
        let mut groups: Vec<u64> = listed.map(|(_, group)| *group).collect();
        groups.extend(ranges.map(|(_, _, group)| *group));
        groups.sort_unstable();
        groups.dedup();
        groups
    }

    /// Builds the column of `origin` for rows with the groups `lists`.
    pub(crate) fn column(
        &self,
        origin: &Origin,
        data_type: &DataType,
        lists: &GroupLists,
    ) -> Result<ArrayRef> {
        let DataType::List(item) = data_type else {
            return Err(bad_request("a column of groups", "lists", &data_type.to_string()));
        };
        let values: ArrayRef = match origin {
            // Literals are signed, and functions of lists do not mix signed with unsigned integers.
            Origin::Groups => cast(&lists.groups, &DataType::Int64)?,
            Origin::GroupNames => take(&self.names, &lists.groups, None)?,
            Origin::GroupAttribute(name) => {
                let found = self.attributes.get(name);
                let found = found.ok_or_else(|| bad_request("groups", "their attributes", name))?;
                take(found, &lists.groups, None)?
            }
            _ => return Err(bad_request("a column of groups", "another", "one of vertices")),
        };
        let offsets = OffsetBuffer::from_lengths(lists.lengths.iter().copied());
        Ok(Arc::new(ListArray::try_new(Arc::clone(item), offsets, values, None)?))
    }
}

/// The groups of rows, as concatenated lists.
#[derive(Debug)]
pub(crate) struct GroupLists {
    groups: UInt64Array,
    lengths: Vec<usize>,
}

/// Returns whether a column holds groups or their attributes.
pub(crate) const fn is_group_column(origin: &Origin) -> bool {
    matches!(origin, Origin::Groups | Origin::GroupNames | Origin::GroupAttribute(_))
}

#[cfg(test)]
mod tests {
    use arrow_array::Array as _;

    use super::*;

    fn memberships() -> Memberships {
        Memberships {
            listed: vec![(3, 0), (3, 2), (7, 2)],
            ranges: vec![(5, 8, 1)],
            names: Arc::new(StringArray::from(vec!["left", "range", "right"])),
            attributes: HashMap::new(),
        }
    }

    #[test]
    fn finds_groups_by_list_and_by_range() {
        let find = |id| memberships().find_groups(Some(ObjectId(id)));
        assert_eq!((find(3), find(5), find(7), find(8)), (vec![0, 2], vec![1], vec![1, 2], vec![]));
        assert!(memberships().find_groups(None).is_empty());
    }

    #[test]
    fn lists_are_in_the_order_of_owners() {
        let owners = [3, 3, 8, 7].map(|id| Some(ObjectId(id))).into_iter().chain([None]);
        let members = memberships();
        let lists = members.lists(owners).unwrap();
        assert_eq!(lists.lengths, [2, 2, 0, 2, 0]);
        let item = Arc::new(Field::new_list_field(DataType::Utf8, true));
        let names = members.column(&Origin::GroupNames, &DataType::List(item), &lists).unwrap();
        let names = names.as_any().downcast_ref::<ListArray>().unwrap().value(3);
        let names: &StringArray = names.as_any().downcast_ref().unwrap();
        assert_eq!(names.iter().flatten().collect::<Vec<_>>(), ["range", "right"]);
    }
}
