//! Groups: rows of ids, and ranges of ids.

use zvf_error::Result;
use zvf_format::num::{i64s_from_le, to_u64};
use zvf_metadata::arrays::{ArrayAttributes as _, GroupsAttrs};

use super::columns;
use crate::array::check_orphan_folders;
use crate::level::LevelState;
use crate::rule::Rule;
use crate::rules::{C, S};
use crate::validation::{Validation, batches};

/// Checks C26, C38: the groups of a level, and their attributes.
pub(crate) async fn check(run: &mut Validation, level: &LevelState) -> Result<()> {
    let path = level.path("groups");
    let Some(rows) = run.take(S[17], &path, level.node.rows("groups").await)? else {
        return Ok(());
    };
    let Some(rows) = rows else { return check_orphan_folders(run, &path).await };
    let doc = GroupsAttrs::parse(rows.attributes().clone());
    let Some(doc) = run.parsed(&path, doc) else { return Ok(()) };
    columns::check(run, level, "group_attributes", Some(doc.num_groups)).await?;
    let Some(count) = run.take(C[2], &path, rows.count().await)? else { return Ok(()) };
    if count != doc.num_groups {
        run.add(C[38].at(&path).expects("num_groups", count, doc.num_groups));
    }
    let sorted: Vec<_> = level.with_extra_kinds().map(|level| (level, sorted_ids(level))).collect();
    let is_object = |id: i64| {
        sorted.iter().any(|(level, sorted)| match (sorted, level.objects.rows) {
            (Some(ids), _) => ids.binary_search(&id).is_ok(),
            (None, Some(objects)) if !level.objects.has_ids => {
                u64::try_from(id).is_ok_and(|id| id < objects)
            }
            // Unknown: the index cannot be read, or has too many ids to be kept.
            (None, _) => level.has_objects(), // which the report says
        })
    };
    for range in doc.ranges.iter().flatten() {
        let finding = |rule: &'static Rule| rule.at(&path).in_row(range.group);
        if range.group >= count || range.stop < range.start {
            let found = format!("[{}, {}] of group {}", range.start, range.stop, range.group);
            run.add(finding(C[38]).expects("group_ranges", "a range of a group", found));
        } else if range.start < range.stop
            && (!is_object(range.start) || !is_object(range.stop - 1))
        {
            let found = format!("{} to {}", range.start, range.stop);
            run.add(finding(C[26]).expects("group_ranges", "ids of objects", found));
        }
    }
    for batch in batches(count, BATCH_GROUPS) {
        run.step(&path, batch.start, count)?;
        let members = rows.range(batch.clone()).await;
        let Some(members) = run.take(C[2], &path, members)? else { return Ok(()) };
        for (group, ids) in batch.zip(members) {
            let finding = |rule: &'static Rule| rule.at(&path).in_row(group);
            if !ids.len().is_multiple_of(8) {
                run.add(finding(C[38]).expects("bytes of the ids", "a multiple of 8", ids.len()));
                continue;
            }
            let mut bad = i64s_from_le(&ids).enumerate().filter(|(_, id)| !is_object(*id));
            if let Some((n, id)) = bad.next() {
                let found = format!("{id}, and {} more that are not", bad.count());
                let finding = finding(C[26]).with_offset(to_u64(n) * 8);
                run.add(finding.expects("member", "the id of an object", found));
            }
        }
    }
    Ok(())
}

/// Returns the sorted ids of all objects, if they are a column and kept.
pub(crate) fn sorted_ids(level: &LevelState) -> Option<Vec<i64>> {
    let mut ids = level.objects.ids.as_ref()?.to_vec();
    ids.sort_unstable();
    Some(ids)
}

/// Groups that are read at once.
const BATCH_GROUPS: u64 = 1024;
