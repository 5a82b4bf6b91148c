//! Which links can meet a condition: those that are stored with chunks from which the chunks of the condition are reached.
//!
//! A link is stored with the chunk of one of its ends. Which cells of links have an end in a chunk is known without reading
//! one of them, and of an object the chunks in which it is: a condition on an end leaves the chunks whose cells reach there.

use std::collections::{BTreeMap, HashSet};

use datafusion::error::Result;
use zvf::format::key::{ChunkKey, Delta};
use zvf::model::LevelReader;

use crate::external;

/// The chunks with which links are stored that have an end in one of `chunks`, ascending; nothing where not all cells of
/// links are known.
pub(crate) async fn stored_with(
    level: &LevelReader,
    chunks: &[ChunkKey],
) -> Result<Option<Vec<ChunkKey>>> {
    let mut found: BTreeMap<Vec<i64>, ChunkKey> = BTreeMap::new();
    // Links that follow from the order of vertices are with them.
    found.extend(chunks.iter().map(|key| (key.components().to_vec(), *key)));
    let Some(family) = level.links(Delta::SAME).await.map_err(external)? else {
        return Ok(Some(found.into_values().collect()));
    };
    if !family.is_complete() {
        return Ok(None);
    }
    let wanted: HashSet<&ChunkKey> = chunks.iter().collect();
    for segment in family.segments() {
        let cells = segment.cells().await.map_err(external)?;
        for place in 0..cells.len() {
            let ends = cells.chunks(place).map_err(external)?;
            if !ends.iter().any(|end| wanted.contains(end)) {
                continue;
            }
            // A cell that names no source cannot be told from others.
            let Some(source) = cells.source(place).or_else(|| ends.first().copied()) else {
                return Ok(None);
            };
            found.insert(source.components().to_vec(), source);
        }
    }
    Ok(Some(found.into_values().collect()))
}
