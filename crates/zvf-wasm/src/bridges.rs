//! Which vertices of chains are joined: the rows of a fragment in their order, and the end of one fragment with the
//! beginning of the next one of the same object, in whichever chunk that is.
//!
//! A step belongs to the chunk that it leaves, so that every step of a level is found in exactly one chunk.

use std::collections::{BTreeMap, HashMap};

use zvf_error::Result;
use zvf_format::key::ChunkKey;
use zvf_format::num::{index_u32, to_u64, usize_from_u32};
use zvf_model::{ChunkFragments, LevelReader};
use zvf_store::Caching;

/// A chunk, and the steps into it: from a stored row, to a fragment or row of that chunk.
type FarSteps = (ChunkKey, Vec<(StoredRow, u64)>);

/// A stored row: the place of its chunk in the table of the level, and its number there.
type StoredRow = (u32, u32);

/// Two vertices that are joined.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Step {
    pub(crate) from: StoredRow,
    pub(crate) to: StepEnd,
}

/// Where a step leads.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum StepEnd {
    /// To a row of the same chunks.
    Row(StoredRow),
    /// To a row of another chunk, that lies there.
    Position(StoredRow, Vec<f64>),
}

/// Finds the steps of `chunks`, with those into other chunks where `ghosts` says so; and whether these are all.
pub(crate) async fn find_steps(
    level: &LevelReader,
    chunks: &[(u32, ChunkKey)],
    ghosts: bool,
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
                    steps.push(Step { from: (*place, a), to: StepEnd::Row((*place, b)) });
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
            steps.push(Step { from: *last, to: StepEnd::Row(*first) });
        } else if ghosts {
            let chunk = far.entry(to.0.components().to_vec());
            chunk.or_insert_with(|| (to.0, Vec::new())).1.push((*last, to.1));
        }
    }
    steps.extend(follow(level, far.into_values().collect()).await?);
    Ok((steps, is_complete))
}

/// A fragment of a chunk.
type Place = (ChunkKey, u64);

/// Finds from which fragment in `keys` objects go on to which.
async fn find_jumps(level: &LevelReader, keys: &[ChunkKey]) -> Result<Vec<(Place, Place)>> {
    let Some(index) = level.objects().await? else { return Ok(Vec::new()) };
    let Some(owners) = level.owners(keys, None).await? else { return Ok(Vec::new()) };
    let mut rows: Vec<u64> = owners.chunks.iter().flat_map(|chunk| chunk.rows()).collect();
    rows.sort_unstable();
    rows.dedup();
    let mut jumps = Vec::new();
    for manifest in index.manifests(&rows).await? {
        let mut last: Option<Place> = None;
        for next in manifest.references()? {
            if let Some(before) = last.filter(|before| keys.contains(&before.0)) {
                jumps.push((before, next));
            }
            last = Some(next);
        }
    }
    Ok(jumps)
}

/// Finds the steps into other chunks, with where they lead.
async fn follow(
    level: &LevelReader,
    far: Vec<(ChunkKey, Vec<(StoredRow, u64)>)>,
) -> Result<Vec<Step>> {
    let keys: Vec<ChunkKey> = far.iter().map(|(key, _)| *key).collect();
    let table = level.chunks().await?;
    let mut starts = Vec::new();
    for (fragments, (_, list)) in level.fragments(&keys).await.into_iter().zip(&far) {
        let mut rows = Vec::new();
        // A neighbour that cannot be read costs the step into it, not this chunk.
        if let Ok(fragments) = fragments {
            for (from, number) in list {
                if let Some(first) = fragment_rows(&fragments, *number)?.0.first() {
                    rows.push((*from, *first));
                }
            }
        }
        starts.push(rows);
    }
    let mut steps = Vec::new();
    let some: Vec<usize> = (0..keys.len()).filter(|at| !starts[*at].is_empty()).collect();
    let asked: Vec<ChunkKey> = some.iter().map(|at| keys[*at]).collect();
    let positions = level.positions(&asked, Caching::Keep).await;
    for (at, column) in some.into_iter().zip(positions) {
        let (Ok(column), Some(place)) = (column, table.find(&keys[at])) else { continue };
        let place = index_u32(place);
        for (from, row) in &starts[at] {
            let i = usize_from_u32(*row);
            let axes = 0..level.axes();
            let position: Option<Vec<f64>> = axes.map(|axis| column.float(i, axis)).collect();
            if let Some(position) = position {
                steps.push(Step { from: *from, to: StepEnd::Position((place, *row), position) });
            }
        }
    }
    Ok(steps)
}

/// Returns the first rows of a fragment, and whether these are all; none where there is no such fragment.
fn fragment_rows(fragments: &ChunkFragments, number: u64) -> Result<(Vec<u32>, bool)> {
    let view = fragments.view()?;
    let Some(fragment) = view.get(number) else { return Ok((Vec::new(), true)) };
    let rows = fragment.rows().take(MAX_FRAGMENT_ROWS).map(|row| u32::try_from(row).ok());
    // A row above 2^32 is in no chunk that can be read: the reader has said so before.
    let rows: Vec<u32> = rows.map_while(|row| row).collect();
    let is_whole = to_u64(rows.len()) == fragment.len();
    Ok((rows, is_whole))
}

/// Rows of one fragment that are joined: what a claim inside the bytes may cost.
const MAX_FRAGMENT_ROWS: usize = 1 << 24;
