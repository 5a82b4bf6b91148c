//! Which fragments belong to the objects asked for.
//!
//! ```text
//! few objects are named    ->  their manifests, followed once a question
//! otherwise                ->  the owners of the fragments in the chunks at hand, held against the
//!                              names, the groups and the conditions on objects
//! ```
//!
//! Neither goes through objects that have nothing to do with the answer.

use std::collections::HashMap;

use zvf_format::key::ChunkKey;
use zvf_format::num::{saturating_u32, to_u64, usize_from_u32};
use zvf_model::{ChunkOwners, Owner};

use super::Context;
use crate::error::{BadQuery, QueryError};

/// The objects that are named by id or by group.
#[derive(Debug)]
pub(crate) struct Named {
    /// Their rows in the index, in the order of the answer.
    pub(super) rows: Vec<u64>,
    sorted: Vec<u64>,
    /// What of each chunk is theirs, where they are few; conditions on objects hold.
    followed: Option<HashMap<ChunkKey, Vec<Owner>>>,
}

/// Returns whether one of the `owners`, which are sorted by fragment, has this fragment.
pub(super) fn is_owned(owners: &[Owner], fragment: u32) -> bool {
    owners.binary_search_by_key(&fragment, |owner| owner.fragment).is_ok()
}

impl Context {
    /// The objects that are named; `None` when none are, and all count.
    pub(super) async fn named(&self) -> Result<Option<&Named>, QueryError> {
        let named = self.named.get_or_try_init(|| async {
            let Some(rows) = self.named_rows().await? else { return Ok(None) };
            let mut sorted = rows.clone();
            sorted.sort_unstable();
            sorted.dedup();
            let most = if self.reach.is_some() {
                MAX_FOLLOWED_OBJECTS_IN_REGION
            } else {
                MAX_FOLLOWED_OBJECTS
            };
            let followed = match sorted.len() <= most && !self.goes_by_objects() {
                true => Some(self.follow_named(&sorted).await?),
                false => None,
            };
            Ok::<_, QueryError>(Some(Named { rows, sorted, followed }))
        });
        Ok(named.await?.as_ref())
    }

    async fn follow_named(
        &self,
        rows: &[u64],
    ) -> Result<HashMap<ChunkKey, Vec<Owner>>, QueryError> {
        let rows = self.objects_where(rows.to_vec()).await?;
        let followed = self.follow(&self.index().await?, &rows).await?;
        // By number first: to look up a key for each of their fragments takes longer.
        let mut of_chunks: Vec<Vec<Owner>> = vec![Vec::new(); followed.chunks.len()];
        for object in &followed.objects {
            let row = to_number("row of the object index", object.row)?;
            for run in &object.runs {
                if let Some(owners) = of_chunks.get_mut(run.chunk) {
                    let fragment = to_number("fragment", run.fragment)?;
                    owners.push(Owner { fragment, row });
                }
            }
        }
        let mut all: HashMap<ChunkKey, Vec<Owner>> = HashMap::new();
        for (chunk, owners) in followed.chunks.iter().zip(of_chunks) {
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

    /// Those of the chunks at `places` in which objects that are asked for can be.
    pub(super) async fn places_asked(&self, mut places: Vec<u32>) -> Result<Vec<u32>, QueryError> {
        if let Some(Named { followed: Some(followed), .. }) = self.named().await? {
            if followed.len() < places.len() {
                let mut own: Vec<u32> = followed
                    .keys()
                    .filter_map(|key| Some(saturating_u32(to_u64(self.chunks.find(key)?))))
                    .filter(|place| places.binary_search(place).is_ok())
                    .collect();
                own.sort_unstable();
                return Ok(own);
            }
            places.retain(|place| {
                self.chunks
                    .get(usize_from_u32(*place))
                    .is_some_and(|key| followed.contains_key(&key))
            });
        }
        Ok(places)
    }

    /// For each of `keys` the fragments that belong to objects that are asked for, ascending, and to
    /// which; `None` when nothing is asked of objects.
    pub(super) async fn owners_asked(
        &self,
        keys: &[ChunkKey],
    ) -> Result<Option<Vec<Vec<Owner>>>, QueryError> {
        if !self.asks_for_objects() {
            return Ok(None);
        }
        let named = self.named().await?;
        if let Some(Named { followed: Some(followed), .. }) = named {
            let own = |key| followed.get(key).cloned().unwrap_or_default();
            return Ok(Some(keys.iter().map(own).collect()));
        }
        let Some(owners) = self.read_owners(keys).await? else {
            return match self.lenient {
                true => Ok(Some(Vec::new())),
                false => Err(BadQuery::NoObjects.into()),
            };
        };
        let is_named = |owner: &&Owner| {
            named.is_none_or(|named| named.sorted.binary_search(&owner.row.into()).is_ok())
        };
        let mut each: Vec<Vec<Owner>> = owners
            .iter()
            .map(|chunk| chunk.all().iter().filter(is_named).copied().collect())
            .collect();
        let mut rows: Vec<u64> = each.iter().flatten().map(|owner| owner.row.into()).collect();
        rows.sort_unstable();
        rows.dedup();
        let rows = self.objects_where(rows).await?;
        for owners in &mut each {
            owners.retain(|owner| rows.binary_search(&owner.row.into()).is_ok());
        }
        Ok(Some(each))
    }

    /// The owners of the fragments of `keys`; of none where a chunk has no fragments although it should,
    /// and that is allowed. `None` when the level has no objects.
    pub(super) async fn read_owners(
        &self,
        keys: &[ChunkKey],
    ) -> Result<Option<Vec<ChunkOwners>>, QueryError> {
        if !self.query.allow_missing {
            return Ok(self.warm.level.owners(keys, None).await?.map(|owners| owners.chunks));
        }
        let there = self.with_fragments(keys).await?;
        let Some(owners) = self.warm.level.owners(&there, None).await? else { return Ok(None) };
        let mut found = there.iter().zip(owners.chunks).peekable();
        let each = keys.iter().map(|key| match found.next_if(|(one, _)| *one == key) {
            Some((_, owners)) => owners,
            None => ChunkOwners::none(),
        });
        Ok(Some(each.collect()))
    }

    /// Those of `keys` whose fragments are there; the others are reported.
    pub(super) async fn with_fragments(
        &self,
        keys: &[ChunkKey],
    ) -> Result<Vec<ChunkKey>, QueryError> {
        let mut there = Vec::with_capacity(keys.len());
        for (key, found) in keys.iter().zip(self.warm.level.fragments(keys).await) {
            if self.allow_missing(found)?.is_some() {
                there.push(*key);
            }
        }
        Ok(there)
    }
}

/// A number that must fit in 32 bits.
fn to_number(what: &'static str, found: u64) -> Result<u32, QueryError> {
    u32::try_from(found).map_err(|_too_large| QueryError::limit(what, u32::MAX.into(), found))
}

/// So few objects are followed rather than looked for.
const MAX_FOLLOWED_OBJECTS: usize = 1 << 16;
/// The same, where a region says where to look.
const MAX_FOLLOWED_OBJECTS_IN_REGION: usize = 64;
