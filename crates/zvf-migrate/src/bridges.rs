//! Bridges of lines, polylines and streamlines, derived from the manifests.
//!
//! Writers before 0.9 stored row 0 at both ends of a bridge, or numbers of fragments, which cannot
//! be resolved. The manifest determines the ends of a bridge: the last row of a run and the first
//! row of the next one, if these are in different chunks.

use std::collections::{BTreeMap, HashMap};

use zvf_error::{Error, Result};
use zvf_format::key::ChunkKey;
use zvf_format::link::{Endpoint, LinkPolicy};
use zvf_format::manifest::BlockFragments;
use zvf_model::{ChunkFragments, ObjectManifest};

use crate::cells::Target;
use crate::links::Records;
use crate::rows::batches;

/// Writes the bridges of a level, if there are any.
pub(crate) async fn write(target: &mut Target<'_>) -> Result<()> {
    let Some(index) = target.reader.objects().await? else { return Ok(()) };
    let mut records = Records::new(LinkPolicy::new(2, target.reader.key_rank())?);
    for rows in batches(index.slots(), BATCH) {
        let rows: Vec<u64> = rows.collect();
        let manifests = index.manifests(&rows).await?;
        let ends = ends(target, &manifests).await?;
        for manifest in &manifests {
            let runs = manifest.references().filter_map(|(chunk, fragment)| {
                let (first, last) = *ends.get(&chunk)?.get(&fragment)?; // nothing of empty ones
                Some((chunk, first, last))
            });
            let mut before: Option<(ChunkKey, u64)> = None;
            for (chunk, first, last) in runs {
                if let Some((from, row)) = before.filter(|(from, _)| *from != chunk) {
                    let ends =
                        [Endpoint { chunk: &from, row }, Endpoint { chunk: &chunk, row: first }];
                    records.add(&ends, (0, 0))?;
                }
                before = Some((chunk, last));
            }
        }
    }
    if records.is_empty() {
        return Ok(());
    }
    records.write(target, &[], false).await
}

/// Returns the first and the last row of each fragment in `manifests`; `None` for an empty
/// fragment.
async fn ends(
    target: &Target<'_>,
    manifests: &[ObjectManifest],
) -> Result<HashMap<ChunkKey, HashMap<u64, (u64, u64)>>> {
    let mut blocks_by_chunk: BTreeMap<Vec<i64>, Vec<BlockFragments<'_>>> = BTreeMap::new();
    for manifest in manifests {
        for block in manifest.view().blocks().filter(|block| !block.fragments.is_empty()) {
            let chunk = block.chunk.iter().map(|at| at.get()).collect();
            blocks_by_chunk.entry(chunk).or_default().push(block.fragments);
        }
    }
    let keys = blocks_by_chunk.keys().map(|key| ChunkKey::new(key));
    let keys: Vec<ChunkKey> = keys.collect::<Result<_, _>>()?;
    let mut found = HashMap::with_capacity(keys.len());
    let chunks = keys.iter().zip(blocks_by_chunk.values());
    for (fragments, (key, blocks)) in target.reader.fragments(&keys).await.into_iter().zip(chunks) {
        found.insert(*key, fragment_ends(&fragments?, blocks)?);
    }
    Ok(found)
}

/// Returns the first and the last row of each fragment in `blocks`; empty fragments are omitted.
///
/// A block of a few bytes may claim any number of fragments, and a fragment any number of rows: the
/// walk ends at the first fragment that the chunk does not have, and rows between the ends are not
/// visited.
fn fragment_ends(
    fragments: &ChunkFragments,
    blocks: &[BlockFragments<'_>],
) -> Result<HashMap<u64, (u64, u64)>> {
    let view = fragments.view();
    let mut ends = HashMap::new();
    for number in blocks.iter().flatten() {
        let fragment = view.get(number).ok_or_else(|| {
            Error::new(
                zvf_format::Class::OutOfBounds,
                "fragment of an object",
                zvf_format::Expected::AtMost(i128::from(view.len()) - 1),
                number,
            )
            .at_chunk(fragments.chunk())
        })?;
        if let (Some(first), Some(last)) = (fragment.rows().next(), fragment.rows().last()) {
            ends.insert(number, (first, last));
        }
    }
    Ok(ends)
}

/// The number of objects that are processed at once.
const BATCH: u64 = 4096;

#[cfg(test)]
mod tests {
    use zvf_format::Class;
    use zvf_format::fragment::FragmentIndexBuilder;
    use zvf_store::Key;

    use super::*;

    #[test]
    fn claims_of_any_size_are_not_walked_through() {
        let mut builder = FragmentIndexBuilder::new();
        builder.push_range(5, 1 << 62).unwrap();
        builder.push_rows(&[9, 7]).unwrap();
        builder.push_range(0, 0).unwrap();
        let chunk = ChunkKey::new(&[4]).unwrap();
        let fragments = ChunkFragments::new(builder.encode().into(), &Key::root(), chunk).unwrap();
        let ends = |count| fragment_ends(&fragments, &[BlockFragments::Range { start: 0, count }]);
        assert_eq!(ends(3).unwrap(), HashMap::from([(0, (5, (1 << 62) + 4)), (1, (9, 7))]));
        assert_eq!(ends(1 << 62).unwrap_err().class(), Class::OutOfBounds);
    }
}
