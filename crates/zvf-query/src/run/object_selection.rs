//! Selects objects by id, by group or both: finds the fragments of the objects of the query.
//!
//! ```text
//! few named objects        ->  their manifests, followed once per query
//! otherwise                ->  the owners of the fragments of each chunk (inverted index), filtered by
//!                              ids, groups and conditions on objects
//! ```
//!
//! Neither reads irrelevant objects.

use std::collections::{BTreeSet, HashMap};

use zvf_error::{Error, Result};
use zvf_format::key::ChunkKey;
use zvf_format::num::{index_u32, to_u64, usize_from_u32};
use zvf_model::{ChunkOwners, Groups, Members, ObjectId, ObjectIndex, Owner};

use super::{Context, distinct};
use crate::error::BadQuery;

/// The objects that the query names by id or by group.
#[derive(Debug)]
pub(crate) struct NamedObjects {
    /// Their rows in the index, in the order of the answer.
    pub(super) rows: Vec<u64>,
    sorted: Vec<u64>,
    /// Their fragments by chunk, if they are few; only for objects that pass the conditions.
    followed: Option<HashMap<ChunkKey, Vec<Owner>>>,
}

/// Returns whether one of the `owners`, which are sorted by fragment, owns this fragment.
pub(super) fn is_owned(owners: &[Owner], fragment: u32) -> bool {
    owners.binary_search_by_key(&fragment, |owner| owner.fragment).is_ok()
}

impl Context {
    /// Returns the index rows that ids and groups select, in the order of the answer; `None` if they select
    /// all.
    ///
    /// By id: in the order of the query. By group: members ascending, without duplicates. By both:
    /// the ids that are members, in the order of the query.
    async fn find_named_rows(&self) -> Result<Option<Vec<u64>>> {
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
        if self.lenient && self.level.objects().await?.is_none() {
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
        let all = self.level.groups().await?;
        let group_count = all.as_ref().map_or(0, Groups::len);
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

    /// Returns the named objects; `None` if the query names none and selects all.
    pub(super) async fn named_objects(&self) -> Result<Option<&NamedObjects>> {
        let named = self.named_objects.get_or_try_init(|| async {
            let Some(rows) = self.find_named_rows().await? else { return Ok(None) };
            let sorted = distinct(rows.iter().copied());
            let max_objects = if self.reach.is_some() {
                MAX_FOLLOWED_OBJECTS_IN_REGION
            } else {
                MAX_FOLLOWED_OBJECTS
            };
            let followed = match sorted.len() <= max_objects && !self.goes_by_objects() {
                true => Some(self.follow_named(&sorted).await?),
                false => None,
            };
            Ok::<_, Error>(Some(NamedObjects { rows, sorted, followed }))
        });
        Ok(named.await?.as_ref())
    }

    /// Follows objects; returns their fragments by chunk.
    async fn follow_named(&self, rows: &[u64]) -> Result<HashMap<ChunkKey, Vec<Owner>>> {
        let rows = self.objects_where(rows.to_vec()).await?;
        let followed = self.follow(&self.index().await?, &rows).await?;
        // Group by chunk number first, which is faster than looking up a key for each fragment.
        let mut by_chunk: Vec<Vec<Owner>> = vec![Vec::new(); followed.chunks.len()];
        for object in &followed.objects {
            let row = to_number("row of the object index", object.row)?;
            for run in &object.runs {
                let fragment = to_number("fragment", run.fragment)?;
                by_chunk[run.chunk].push(Owner { fragment, row });
            }
        }
        let mut all: HashMap<ChunkKey, Vec<Owner>> = HashMap::new();
        for (chunk, owners) in followed.chunks.iter().zip(by_chunk) {
            if !owners.is_empty() {
                all.entry(*chunk.chunk()).or_default().extend(owners);
            }
        }
        for owners in all.values_mut() {
            owners.sort_unstable();
            owners.dedup();
        }
        Ok(all)
    }

    /// Filters `places` to the chunks that can contain selected objects.
    pub(super) async fn filter_places(&self, mut places: Vec<u32>) -> Result<Vec<u32>> {
        if let Some(NamedObjects { followed: Some(followed), .. }) = self.named_objects().await? {
            if followed.len() < places.len() {
                let mut followed_places: Vec<u32> = followed
                    .keys()
                    .filter_map(|key| Some(index_u32(self.chunks.find(key)?)))
                    .filter(|place| places.binary_search(place).is_ok())
                    .collect();
                followed_places.sort_unstable();
                return Ok(followed_places);
            }
            let key = |place: &u32| self.chunks.get(usize_from_u32(*place));
            places.retain(|place| key(place).is_some_and(|key| followed.contains_key(&key)));
        }
        Ok(places)
    }

    /// Returns for each of `keys` the fragments of selected objects, ascending, with their objects; `None` if the
    /// query selects all objects.
    pub(super) async fn find_owners(&self, keys: &[ChunkKey]) -> Result<Option<Vec<Vec<Owner>>>> {
        if !self.asks_for_objects() {
            return Ok(None);
        }
        let named = self.named_objects().await?;
        if let Some(NamedObjects { followed: Some(followed), .. }) = named {
            let owners_of = |key| followed.get(key).cloned().unwrap_or_default();
            return Ok(Some(keys.iter().map(owners_of).collect()));
        }
        let Some(owners) = self.read_owners(keys).await? else {
            return match self.lenient {
                true => Ok(Some(vec![Vec::new(); keys.len()])),
                false => Err(BadQuery::NoObjects.into()),
            };
        };
        let is_named = |owner: &&Owner| {
            named.is_none_or(|named| named.sorted.binary_search(&owner.row.into()).is_ok())
        };
        let mut owners_by_chunk: Vec<Vec<Owner>> = owners
            .iter()
            .map(|chunk| chunk.all().iter().filter(is_named).copied().collect())
            .collect();
        let rows = distinct(owners_by_chunk.iter().flatten().map(|owner| owner.row.into()));
        let rows = self.objects_where(rows).await?;
        for owners in &mut owners_by_chunk {
            owners.retain(|owner| rows.binary_search(&owner.row.into()).is_ok());
        }
        Ok(Some(owners_by_chunk))
    }

    /// Reads the owners of the fragments of `keys`; none for a chunk whose fragments are missing,
    /// if the query allows that. Returns `None` if the level has no objects.
    pub(super) async fn read_owners(&self, keys: &[ChunkKey]) -> Result<Option<Vec<ChunkOwners>>> {
        if !self.query.allow_missing {
            return Ok(self.level.owners(keys, None).await?.map(|owners| owners.chunks));
        }
        let written = self.find_written_chunks(keys).await?;
        let Some(owners) = self.level.owners(&written, None).await? else { return Ok(None) };
        let mut found = written.iter().zip(owners.chunks).peekable();
        let owners_by_chunk =
            keys.iter().map(|key| match found.next_if(|(chunk, _)| *chunk == key) {
                Some((_, owners)) => owners,
                None => ChunkOwners::empty(),
            });
        Ok(Some(owners_by_chunk.collect()))
    }

    /// Returns the `keys` whose fragments exist; reports the others.
    pub(super) async fn find_written_chunks(&self, keys: &[ChunkKey]) -> Result<Vec<ChunkKey>> {
        let mut written = Vec::with_capacity(keys.len());
        for (key, found) in keys.iter().zip(self.level.fragments(keys).await) {
            if self.allow_missing(found)?.is_some() {
                written.push(*key);
            }
        }
        Ok(written)
    }
}

/// Returns the index rows of the members, ascending by id. Scans the index once for ranges. Skips
/// members that are not objects.
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

/// Converts a number to 32 bits; refuses larger ones.
fn to_number(what: &'static str, found: u64) -> Result<u32> {
    u32::try_from(found).map_err(|_too_large| Error::limit(what, u32::MAX.into(), found))
}

/// Maximum number of named objects that are followed; for more, the owners of fragments are
/// searched.
const MAX_FOLLOWED_OBJECTS: usize = 1 << 16;
/// The same if a region restricts the search.
const MAX_FOLLOWED_OBJECTS_IN_REGION: usize = 64;
/// Number of ids of the index that are read at a time.
const BATCH_IDS: usize = 1 << 16;
