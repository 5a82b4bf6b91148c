//! Owners from an optional column: one number per fragment.
//!
//! ```text
//! id    the one object that the fragment belongs to
//! -1    none
//! -2    several: only the manifests say which
//! ```
//!
//! If the column does not determine the owners, it is ignored and the manifests are read.

use zvf_error::Result;
use zvf_format::key::ChunkKey;
use zvf_format::num::i64s_from_le;
use zvf_metadata::Dtype;
use zvf_store::Caching;

use super::table::{ChunkOwners, Owner};
use crate::{LevelReader, ObjectId, ObjectIndex};

/// Returns the owners of the fragments of `chunks`, if the column determines them.
pub(super) async fn owners(
    level: &LevelReader,
    index: &ObjectIndex,
    chunks: &[ChunkKey],
) -> Result<Option<Vec<ChunkOwners>>> {
    let Some(column) = level.fragment_attribute(NAME).await? else { return Ok(None) };
    if (column.dtype(), column.width()) != (Dtype::INT64, 1) {
        return Ok(None); // a column of that name and of another meaning
    }
    let mut ids = Vec::with_capacity(chunks.len());
    for values in column.values_where_written(chunks, Caching::Keep).await {
        let Some(values) = values? else { return Ok(None) };
        ids.push(values);
    }
    let mut listed_ids: Vec<ObjectId> =
        ids.iter().flat_map(|ids| i64s_from_le(ids.bytes())).map(ObjectId).collect();
    listed_ids.sort_unstable();
    listed_ids.dedup();
    if listed_ids.binary_search(&SEVERAL).is_ok() {
        return Ok(None);
    }
    listed_ids.retain(|id| *id != NONE);
    let rows = index.find(&listed_ids).await?;
    let row = |id: i64| {
        let at = listed_ids.binary_search(&ObjectId(id)).ok()?;
        u32::try_from(rows.get(at).copied()??).ok()
    };
    let mut all = Vec::with_capacity(chunks.len());
    for ids in &ids {
        let mut owners = Vec::with_capacity(ids.len());
        for (fragment, id) in
            (0_u32..).zip(i64s_from_le(ids.bytes())).filter(|(_, id)| *id != NONE.0)
        {
            let Some(row) = row(id) else { return Ok(None) };
            owners.push(Owner { fragment, row });
        }
        all.push(ChunkOwners::from_owners(owners));
    }
    Ok(Some(all))
}

const NAME: &str = "object_id";
const NONE: ObjectId = ObjectId(-1);
const SEVERAL: ObjectId = ObjectId(-2);
