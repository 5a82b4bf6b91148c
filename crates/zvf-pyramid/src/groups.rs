//! Groups of objects, of one level or of several additive ones.
//!
//! Each additive level has all groups, with the members at that level. So the groups of the pyramid
//! are those of any level, each with its members of all levels.
//!
//! A range may name more ids than fit in memory: it stays a range, or only its kept members are
//! written out.

use zvf_error::{Error, Result};
use zvf_model::{Field, LevelReader, Members, ObjectId};
use zvf_write::Writer;

use crate::carry::Objects;
use crate::choose::sort_ids;
use crate::error::unsupported_error;

/// A group: its name and members.
pub(crate) type Group = (Option<String>, Members);

/// A group of several levels: its name, and its members at each level that has groups.
pub(crate) type SpreadGroup = (Option<String>, Vec<Members>);

/// Reads the groups of a level as they are stored; `None` where it has none.
pub(crate) async fn read_level_groups(level: &LevelReader) -> Result<Option<Vec<Group>>> {
    let Some(groups) = level.groups().await? else { return Ok(None) };
    if groups.len() > MAX_GROUPS {
        let expected = "at most 134217728";
        return Err(unsupported_error("groups of a level", expected, groups.len()));
    }
    let mut all = Vec::new();
    for start in (0..groups.len()).step_by(GROUP_BATCH) {
        let numbers: Vec<u64> = (start..groups.len()).take(GROUP_BATCH).collect();
        let members = groups.members(&numbers).await?;
        all.extend(numbers.iter().map(|number| groups.name(*number)).zip(members));
    }
    Ok(Some(all))
}

/// Reads the groups of `levels`.
pub(crate) async fn read_groups(levels: &[LevelReader]) -> Result<Vec<SpreadGroup>> {
    let mut all: Option<Vec<SpreadGroup>> = None;
    for level in levels {
        let Some(groups) = read_level_groups(level).await? else { continue };
        let Some(all) = &mut all else {
            all = Some(groups.into_iter().map(|(name, members)| (name, vec![members])).collect());
            continue;
        };
        if !all.iter().map(|(name, _)| name).eq(groups.iter().map(|(name, _)| name)) {
            return Err(refuse_mismatch("groups", &format!("others at level {}", level.level().0)));
        }
        for ((_, members), (_, more)) in all.iter_mut().zip(groups) {
            members.push(more);
        }
    }
    Ok(all.unwrap_or_default()) // no level has groups
}

/// Returns the attributes of the groups of `levels`.
pub(crate) async fn fields(levels: &[LevelReader]) -> Result<Vec<Field>> {
    let mut all: Vec<Field> = Vec::new();
    for level in levels {
        let Some(groups) = level.groups().await? else { continue };
        for attribute in level.group_attributes().await? {
            let name = attribute.name();
            let column = attribute.range(0..groups.len()).await?.column().clone();
            match all.iter().find(|field| *field.name == *name) {
                None => all.push(attribute.field(column)),
                Some(field) if field.column.bytes() == column.bytes() => {}
                Some(_) => {
                    let found = format!("other values of {name} at level {}", level.level().0);
                    return Err(refuse_mismatch("attributes of groups", &found));
                }
            }
        }
    }
    Ok(all)
}

/// Writes the groups of `levels` to `writer`, for objects of all kinds, with the kept members.
pub(crate) async fn carry(
    levels: &[LevelReader],
    kinds: &[&Objects],
    writer: &mut Writer,
) -> Result<()> {
    let others = kinds.iter().any(|kind| kind.changes_groups());
    for (name, members) in read_groups(levels).await? {
        let members = match members.as_slice() {
            [only] if !others => only.clone(),
            _ => filter_kept(&members, kinds),
        };
        writer.group(name.as_deref(), members);
    }
    for field in fields(levels).await? {
        writer.group_field(field);
    }
    Ok(())
}

/// Returns the kept members of a group, under their new ids.
fn filter_kept(members: &[Members], kinds: &[&Objects]) -> Members {
    let kept: Vec<&[i64]> = kinds.iter().map(|kind| kind.kept_ids.as_slice()).collect();
    let ids = ids_of(members, &kept).into_iter();
    let new = |id| kinds.iter().find(|kind| kind.keeps(id)).map(|kind| ObjectId(kind.new_id(id)));
    Members::Ids(ids.filter_map(new).collect())
}

/// Returns the ids of members, sorted if they come from several levels. A range gives only ids in
/// the sorted lists `kept`.
pub(crate) fn ids_of(members: &[Members], kept: &[&[i64]]) -> Vec<i64> {
    let mut all = Vec::new();
    for level_members in members {
        match level_members {
            Members::Ids(ids) => all.extend(ids.iter().map(|id| id.0)),
            Members::Range { start, stop } => {
                let mut found = Vec::new();
                for ids in kept {
                    let place = |bound: &i64| ids.partition_point(|id| id < bound);
                    // A descending range is empty.
                    let in_range = ids.get(place(start)..place(stop)).unwrap_or_default();
                    found.extend_from_slice(in_range);
                }
                all.extend(sort_ids(found));
            }
        }
    }
    if members.len() > 1 { sort_ids(all) } else { all }
}

fn refuse_mismatch(what: &'static str, found: &str) -> Error {
    let expected = "the same at all levels that add to each other: nothing says which hold";
    unsupported_error(what, expected, found)
}

/// Groups whose members are read at once.
const GROUP_BATCH: usize = 65_536;
/// Equal to the limit for the objects of a level.
const MAX_GROUPS: u64 = 1 << 27;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_never_written_out() {
        let all = Members::Range { start: 2, stop: i64::MAX };
        let none = Members::Range { start: 9, stop: -9 };
        let ids = Members::Ids(vec![ObjectId(8), ObjectId(1)]);
        let kept: [&[i64]; 2] = [&[-3, 1, 2, 7], &[2, 5]];
        assert_eq!(ids_of(std::slice::from_ref(&all), &kept), [2, 5, 7]);
        assert_eq!(ids_of(std::slice::from_ref(&none), &kept), [0_i64; 0]);
        assert_eq!(ids_of(std::slice::from_ref(&ids), &kept), [8, 1]);
        assert_eq!(ids_of(&[ids, none, all], &kept), [1, 2, 5, 7, 8]);
    }
}
