//! Bridges of lines, polylines and streamlines, derived from the manifests.
//!
//! Writers before 0.9 stored row 0 at both ends of a bridge, or numbers of fragments, which cannot be resolved. The
//! manifest determines the ends of a bridge: the last row of a run and the first row of the next one, where these are
//! in different chunks.

use std::collections::{BTreeMap, HashMap};

use zvf_format::key::ChunkKey;
use zvf_format::link::{Endpoint, LinkPolicy};
use zvf_model::{ChunkFragments, ModelError, ObjectManifest};

use crate::cells::Target;
use crate::links::Records;
use crate::progress::Progress;
use crate::rows::batches;

/// Writes the bridges of a level, where there are any.
pub(crate) async fn write(
    target: &Target<'_>,
    progress: &mut Progress<'_>,
) -> Result<(), ModelError> {
    let Some(index) = target.reader.objects().await? else { return Ok(()) };
    let mut records = Records::new(LinkPolicy::new(2, target.reader.key_rank())?);
    for rows in batches(index.slots(), BATCH) {
        let rows: Vec<u64> = rows.collect();
        let manifests = index.manifests(&rows).await?;
        let ends = ends(target, &manifests).await?;
        for manifest in &manifests {
            let runs = manifest.references()?.filter_map(|(chunk, fragment)| {
                let (first, last) = *ends.get(&chunk)?.get(&fragment)?;
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
    records.write(target, progress).await
}

/// Returns the first and the last row of each fragment in `manifests`; `None` for empty ones.
async fn ends(
    target: &Target<'_>,
    manifests: &[ObjectManifest],
) -> Result<HashMap<ChunkKey, HashMap<u64, (u64, u64)>>, ModelError> {
    let mut numbers_by_chunk: BTreeMap<Vec<i64>, Vec<u64>> = BTreeMap::new();
    for manifest in manifests {
        for (chunk, fragment) in manifest.references()? {
            numbers_by_chunk.entry(chunk.components().to_vec()).or_default().push(fragment);
        }
    }
    let keys = numbers_by_chunk.keys().map(|key| ChunkKey::new(key));
    let keys: Vec<ChunkKey> = keys.collect::<Result<_, _>>()?;
    let mut found = HashMap::with_capacity(keys.len());
    let chunks = keys.iter().zip(numbers_by_chunk.values());
    for (fragments, (key, numbers)) in target.reader.fragments(&keys).await.into_iter().zip(chunks)
    {
        found.insert(*key, of_chunk(&fragments?, numbers)?);
    }
    Ok(found)
}

/// Returns the first and the last row of each fragment in `numbers`; none of empty ones.
fn of_chunk(
    fragments: &ChunkFragments,
    numbers: &[u64],
) -> Result<HashMap<u64, (u64, u64)>, ModelError> {
    let view = fragments.view()?;
    let mut ends = HashMap::with_capacity(numbers.len());
    for number in numbers {
        let fragment = view.get(*number).ok_or_else(|| {
            let expected = zvf_format::Expected::AtMost(i128::from(view.len()) - 1);
            let class = zvf_format::Class::OutOfBounds;
            ModelError::refused(class, "fragment of an object", expected, *number)
                .in_chunk(fragments.chunk())
        })?;
        let mut rows = fragment.rows();
        if let Some(first) = rows.next() {
            ends.insert(*number, (first, rows.last().unwrap_or(first)));
        }
    }
    Ok(ends)
}

/// The number of objects that are processed at once.
const BATCH: u64 = 4096;
