//! Which vertices of chains are joined: the rows of a fragment in their order, and the end of one fragment with the
//! beginning of the next one of the same object, in whichever chunk that is.
//!
//! A step belongs to the chunk that it leaves, so that every step of a level is found in exactly one chunk.

use std::collections::{BTreeMap, HashMap};

use zvf_error::{Error, Result};
use zvf_format::key::ChunkKey;
use zvf_format::num::{index_u32, to_u64};
use zvf_model::{ChunkFragments, LevelReader};

use crate::neighbours::{StoredRow, note, note_strays};

/// Two vertices that are joined.
pub(crate) type Step = [StoredRow; 2];

/// Finds the steps of `chunks`, with those into other chunks; and whether these are all. Adds to `faults` why steps into
/// other chunks cannot be followed.
pub(crate) async fn find_steps(
    level: &LevelReader,
    chunks: &[(u32, ChunkKey)],
    faults: &mut Vec<Error>,
) -> Result<(Vec<Step>, bool)> {
    let keys: Vec<ChunkKey> = chunks.iter().map(|(_, key)| *key).collect();
    let mut is_complete = true;
    let mut ends: HashMap<(Vec<i64>, u64), [StoredRow; 2]> = HashMap::new();
    let mut steps = Vec::new();
    for ((place, key), fragments) in chunks.iter().zip(level.fragments(&keys).await) {
        let fragments = fragments?;
        for number in 0..fragments.len() {
            let (rows, is_whole) = fragment_rows(&fragments, number)?;
            is_complete &= is_whole;
            for pair in rows.windows(2) {
                if let [a, b] = *pair {
                    steps.push([(*place, a), (*place, b)]);
                }
            }
            if let (Some(first), Some(last), true) = (rows.first(), rows.last(), is_whole) {
                let ends_of_one = [(*place, *first), (*place, *last)];
                ends.insert((key.components().to_vec(), number), ends_of_one);
            }
        }
    }
    let jumps = find_jumps(level, &keys).await?;
    let mut far: BTreeMap<Vec<i64>, FarSteps> = BTreeMap::new();
    for (from, to) in jumps {
        let Some([_, last]) = ends.get(&(from.0.components().to_vec(), from.1)) else { continue };
        if let Some([first, _]) = ends.get(&(to.0.components().to_vec(), to.1)) {
            steps.push([*last, *first]);
        } else {
            let chunk = far.entry(to.0.components().to_vec());
            chunk.or_insert_with(|| (to.0, Vec::new())).1.push((*last, to.1));
        }
    }
    steps.extend(follow(level, far.into_values().collect(), faults).await?);
    Ok((steps, is_complete))
}

/// A chunk, and the steps into it: from a stored row, to a fragment of that chunk.
type FarSteps = (ChunkKey, Vec<(StoredRow, u64)>);

/// A fragment of a chunk.
type FragmentAt = (ChunkKey, u64);

/// Finds from which fragment in `keys` objects go on to which.
async fn find_jumps(
    level: &LevelReader,
    keys: &[ChunkKey],
) -> Result<Vec<(FragmentAt, FragmentAt)>> {
    let Some(index) = level.objects().await? else { return Ok(Vec::new()) };
    let Some(owners) = level.owners(keys, None).await? else { return Ok(Vec::new()) };
    let mut rows: Vec<u64> = owners.chunks.iter().flat_map(|chunk| chunk.rows()).collect();
    rows.sort_unstable();
    rows.dedup();
    let mut jumps = Vec::new();
    for manifest in index.manifests(&rows).await? {
        jumps.extend(manifest.steps().filter(|(before, _)| keys.contains(&before.0)));
    }
    Ok(jumps)
}

/// Finds the rows that steps into other chunks lead to.
async fn follow(
    level: &LevelReader,
    far: Vec<FarSteps>,
    faults: &mut Vec<Error>,
) -> Result<Vec<Step>> {
    let keys: Vec<ChunkKey> = far.iter().map(|(key, _)| *key).collect();
    let table = level.chunks().await?;
    let mut steps = Vec::new();
    for (fragments, (key, list)) in level.fragments(&keys).await.into_iter().zip(&far) {
        // A neighbour that cannot be read costs the step into it, not this chunk.
        let Some(fragments) = note(fragments, faults) else { continue };
        let mut ends = Vec::with_capacity(list.len());
        for (from, number) in list {
            let (rows, _) = fragment_rows(&fragments, *number)?;
            let first = rows.first().zip(table.find(key));
            ends.push(first.map(|(first, place)| [*from, (index_u32(place), *first)]));
        }
        steps.extend(note_strays(ends.into_iter(), faults));
    }
    Ok(steps)
}

/// Returns the first rows of a fragment, and whether these are all; none where there is no such fragment.
fn fragment_rows(fragments: &ChunkFragments, number: u64) -> Result<(Vec<u32>, bool)> {
    let view = fragments.view();
    let Some(fragment) = view.get(number) else { return Ok((Vec::new(), true)) };
    let rows = fragment.rows().take(MAX_FRAGMENT_ROWS).map(|row| u32::try_from(row).ok());
    // A row above 2^32 is in no chunk that can be read: the reader has said so before.
    let rows: Vec<u32> = rows.map_while(|row| row).collect();
    let is_whole = to_u64(rows.len()) == fragment.len();
    Ok((rows, is_whole))
}

/// Rows of one fragment that are joined: what a claim inside the bytes may cost.
const MAX_FRAGMENT_ROWS: usize = 1 << 24;
