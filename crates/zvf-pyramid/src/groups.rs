//! Groups of objects, of one level or of several that add to each other.
//!
//! Of levels that add to each other, each has all groups, with the members that are at that level. So the
//! groups of all are those of each, and their members together.

use zvf_model::{Field, LevelReader, Members, ObjectId};
use zvf_write::Writer;

use crate::PyramidError;
use crate::carry::Objects;

/// A group: its name, and who is in it.
pub(crate) type Group = (Option<String>, Members);

/// The groups of `levels`; those of one level as they are stored.
pub(crate) async fn read_groups(levels: &[LevelReader]) -> Result<Vec<Group>, PyramidError> {
    let mut all: Option<Vec<Group>> = None;
    for level in levels {
        let Some(groups) = level.groups().await? else { continue };
        let numbers: Vec<u64> = (0..groups.len()).collect();
        let names = numbers.iter().map(|number| groups.name(*number));
        let level_groups = names.zip(groups.members(&numbers).await?);
        let Some(all) = &mut all else {
            all = Some(level_groups.collect());
            continue;
        };
        let level_groups: Vec<Group> = level_groups.collect();
        if !all.iter().map(|(name, _)| name).eq(level_groups.iter().map(|(name, _)| name)) {
            return Err(refuse_mismatch("groups", &format!("others at level {}", level.level().0)));
        }
        for ((_, members), (_, more)) in all.iter_mut().zip(level_groups) {
            let mut ids = ids_of(std::mem::replace(members, Members::Ids(Vec::new())));
            ids.extend(ids_of(more));
            ids.sort_unstable();
            ids.dedup();
            *members = Members::Ids(ids.into_iter().map(ObjectId).collect());
        }
    }
    Ok(all.unwrap_or_default())
}

/// The attributes of the groups of `levels`.
pub(crate) async fn fields(levels: &[LevelReader]) -> Result<Vec<Field>, PyramidError> {
    let mut all: Vec<Field> = Vec::new();
    for level in levels {
        let Some(groups) = level.groups().await? else { continue };
        for name in level.group_attribute_names().await?.names {
            let Some(attribute) = level.group_attribute(&name).await? else { continue };
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

/// Gives `writer` the groups of `levels`: those of objects of all kinds, with the members that are kept.
pub(crate) async fn carry(
    levels: &[LevelReader],
    kinds: &[&Objects],
    writer: &mut Writer,
) -> Result<(), PyramidError> {
    let others = kinds.iter().any(|kind| kind.changes_groups());
    for (name, members) in read_groups(levels).await? {
        let members = if others { filter_kept(members, kinds) } else { members };
        writer.group(name.as_deref(), members);
    }
    for field in fields(levels).await? {
        writer.group_field(field);
    }
    Ok(())
}

/// The members of a group that are kept, under their new ids.
fn filter_kept(members: Members, kinds: &[&Objects]) -> Members {
    let ids = ids_of(members).into_iter();
    let new = |id| kinds.iter().find(|kind| kind.keeps(id)).map(|kind| ObjectId(kind.new_id(id)));
    Members::Ids(ids.filter_map(new).collect())
}

/// The ids of members.
pub(crate) fn ids_of(members: Members) -> Vec<i64> {
    match members {
        Members::Ids(ids) => ids.into_iter().map(|id| id.0).collect(),
        Members::Range { start, stop } => (start..stop).collect(),
    }
}

fn refuse_mismatch(what: &'static str, found: &str) -> PyramidError {
    let expected = "the same at all levels that add to each other: nothing says which hold";
    PyramidError::unsupported(what, expected, found)
}
