//! Groups: rows of ids, and ranges of ids.

use zvf_format::num::{i64s_from_le, to_u64};
use zvf_metadata::arrays::Groups;

use super::columns;
use crate::array::check_orphan_folders;
use crate::finding::Finding;
use crate::level::LevelState;
use crate::rules::consistency::{C2, C26, C38};
use crate::rules::metadata::M20;
use crate::rules::structure::S17;
use crate::stop::Stop;
use crate::validation::Validation;

/// Checks C26, C38: the groups of a level, and their attributes.
pub(crate) async fn check(run: &mut Validation, level: &LevelState) -> Result<(), Stop> {
    let path = level.path("groups");
    let rows = match level.node.rows("groups").await {
        Ok(Some(rows)) => rows,
        Ok(None) => return check_orphan_folders(run, &path).await,
        Err(error) => return run.add_store_error(&S17, &path, &error),
    };
    let doc = match Groups::parse(rows.attributes().clone()) {
        Ok(doc) => doc,
        Err(error) => {
            run.add(Finding::from_metadata(&M20, &path, &error));
            return Ok(());
        }
    };
    columns::check(run, level, "group_attributes", Some(doc.num_groups)).await?;
    let count = match rows.count().await {
        Ok(count) => count,
        Err(error) => return run.add_store_error(&C2, &path, &error),
    };
    if count != doc.num_groups {
        run.add(Finding::new(&C38, &path).with_details("num_groups", count, doc.num_groups));
    }
    let sorted: Vec<_> = level.with_extra_kinds().map(|level| (level, sorted_ids(level))).collect();
    let is_object = |id: i64| {
        sorted.iter().any(|(level, sorted)| match (sorted, level.objects.rows) {
            (Some(ids), _) => ids.binary_search(&id).is_ok(),
            (None, Some(objects)) if !level.objects.has_ids => {
                u64::try_from(id).is_ok_and(|id| id < objects)
            }
            // Not known: the index cannot be read, or has too many ids to be kept.
            (None, _) => level.has_objects(), // which the report says
        })
    };
    for range in doc.ranges.iter().flatten() {
        let finding = |rule| Finding::new(rule, &path).in_row(range.group);
        if range.group >= count || range.stop < range.start {
            let found = format!("[{}, {}] of group {}", range.start, range.stop, range.group);
            run.add(finding(&C38).with_details("group_ranges", "a range of a group", found));
        } else if range.start < range.stop
            && (!is_object(range.start) || !is_object(range.stop - 1))
        {
            let found = format!("{} to {}", range.start, range.stop);
            run.add(finding(&C26).with_details("group_ranges", "ids of objects", found));
        }
    }
    let mut at = 0_u64;
    while at < count {
        run.step(&path, at, count)?;
        let end = at.saturating_add(BATCH_GROUPS).min(count); // at most the groups
        let members = match rows.range(at..end).await {
            Ok(members) => members,
            Err(error) => return run.add_store_error(&C2, &path, &error),
        };
        for (group, ids) in (at..).zip(members) {
            let finding = |rule| Finding::new(rule, &path).in_row(group);
            if !ids.len().is_multiple_of(8) {
                let details = ("bytes of the ids", "a multiple of 8", ids.len());
                run.add(finding(&C38).with_details(details.0, details.1, details.2));
                continue;
            }
            let mut bad = i64s_from_le(&ids).enumerate().filter(|(_, id)| !is_object(*id));
            if let Some((n, id)) = bad.next() {
                let found = format!("{id}, and {} more that are not", bad.count());
                let finding = finding(&C26).with_offset(to_u64(n) * 8);
                run.add(finding.with_details("member", "the id of an object", found));
            }
        }
        at = end;
    }
    Ok(())
}

/// Returns the ids of all objects in order, where they are a column and kept.
pub(crate) fn sorted_ids(level: &LevelState) -> Option<Vec<i64>> {
    let mut ids = level.objects.ids.as_ref()?.to_vec();
    ids.sort_unstable();
    Some(ids)
}

/// Groups that are read at once.
const BATCH_GROUPS: u64 = 1024;
