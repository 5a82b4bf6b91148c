//! Pruning of links: finds the chunks whose links can meet a condition on an end.
//!
//! A link is stored with the chunk of one of its ends. The keys of link cells name the chunks of all ends, so the chunks whose
//! links reach a given chunk are known without reading a cell.

use std::collections::{BTreeMap, HashSet};

use datafusion::error::Result;
use zvf::format::key::ChunkKey;
use zvf::model::LinkFamily;

use crate::external_error;

/// Returns the chunks that store links with an end in one of `chunks`, ascending; `None` where the
/// chunk of a cell is not known.
pub(crate) async fn find_source_chunks(
    family: Option<&LinkFamily>,
    chunks: &[ChunkKey],
) -> Result<Option<Vec<ChunkKey>>> {
    let mut sources: BTreeMap<Vec<i64>, ChunkKey> = BTreeMap::new();
    // Implied links have both ends in the chunk of their vertices.
    sources.extend(chunks.iter().map(|key| (key.components().to_vec(), *key)));
    let targets: HashSet<&ChunkKey> = chunks.iter().collect();
    for segment in family.into_iter().flat_map(LinkFamily::segments) {
        let cells = segment.cells().await.map_err(external_error)?;
        for place in 0..cells.len() {
            let ends = cells.chunks(place).map_err(external_error)?;
            if !ends.iter().any(|end| targets.contains(end)) {
                continue;
            }
            // Without a source the chunk of the cell is unknown.
            let Some(source) = cells.source(place).or_else(|| ends.first().copied()) else {
                return Ok(None);
            };
            sources.insert(source.components().to_vec(), source);
        }
    }
    Ok(Some(sources.into_values().collect()))
}
