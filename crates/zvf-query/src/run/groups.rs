//! Selection of objects by id, by group, or both.

use std::collections::BTreeSet;

use zvf_error::Result;
use zvf_format::num::to_u64;
use zvf_model::{Members, ObjectId, ObjectIndex};

use super::Context;
use crate::error::BadQuery;

impl Context {
    /// Returns the index rows that ids and groups select, in the order of the answer; `None` if they select
    /// all.
    ///
    /// By id: in the order of the query. By group: members ascending, each once. By both: the ids that are
    /// members, in the order of the query.
    pub(super) async fn find_named_rows(&self) -> Result<Option<Vec<u64>>> {
        let ids = &self.query.objects;
        let groups = match (&self.query.groups, self.groups_where().await?) {
            (Some(asked), None) => Some(asked.clone()),
            (None, found) => found,
            (Some(asked), Some(found)) => {
                Some(asked.iter().filter(|group| found.contains(group)).copied().collect())
            }
        };
        if ids.is_none() && groups.is_none() {
            return Ok(None);
        }
        if self.lenient && self.cache.level.objects().await?.is_none() {
            return Ok(Some(Vec::new()));
        }
        let index = self.index().await?;
        let members = match groups {
            Some(groups) => Some(self.members(&groups).await?),
            None => None,
        };
        let rows = match (ids, members) {
            (Some(ids), None) => self.find_rows(&index, ids).await?,
            (Some(ids), Some(members)) => {
                let is_member = |id: &&ObjectId| members.iter().any(|group| group.contains(**id));
                let both: Vec<ObjectId> = ids.iter().filter(is_member).copied().collect();
                self.find_rows(&index, &both).await?
            }
            (None, Some(members)) => rows_of_members(&index, &members).await?,
            (None, None) => return Ok(None),
        };
        Ok(Some(rows))
    }

    async fn members(&self, groups: &[u64]) -> Result<Vec<Members>> {
        let all = self.cache.level.groups().await?;
        let group_count = all.as_ref().map_or(0, zvf_model::Groups::len);
        let existing: Vec<u64> =
            groups.iter().copied().filter(|group| *group < group_count).collect();
        if let Some(unknown) = groups.iter().find(|group| **group >= group_count && !self.lenient) {
            return Err(BadQuery::NoSuchGroup(*unknown).into());
        }
        match all {
            Some(all) => Ok(all.members(&existing).await?),
            None => Ok(Vec::new()),
        }
    }
}

/// Returns the index rows of the members, ascending by id. Scans the index once for ranges. Skips members
/// that are no objects.
async fn rows_of_members(index: &ObjectIndex, members: &[Members]) -> Result<Vec<u64>> {
    let mut found: BTreeSet<(ObjectId, u64)> = BTreeSet::new();
    let mut ids: Vec<ObjectId> = Vec::new();
    let mut ranges = false;
    for group in members {
        match group {
            Members::Ids(group_ids) => ids.extend_from_slice(group_ids),
            Members::Range { .. } => ranges = true,
        }
    }
    ids.sort_unstable();
    ids.dedup();
    for (id, row) in ids.iter().zip(index.find(&ids).await?) {
        found.extend(row.map(|row| (*id, row)));
    }
    let slots = if ranges { index.slots() } else { 0 };
    for start in (0..slots).step_by(BATCH_IDS) {
        let end = start.saturating_add(to_u64(BATCH_IDS)).min(slots); // at most the slots
        for (id, row) in index.ids(start..end).await?.into_iter().zip(start..) {
            let in_range =
                |group: &Members| matches!(group, Members::Range { .. }) && group.contains(id);
            if members.iter().any(in_range) {
                found.insert((id, row));
            }
        }
    }
    Ok(found.into_iter().map(|(_, row)| row).collect())
}

/// Ids of the index that are read at a time.
const BATCH_IDS: usize = 1 << 16;
