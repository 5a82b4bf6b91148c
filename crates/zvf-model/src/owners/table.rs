//! Owners by chunk and fragment, in flat arrays.

use std::ops::Range;
use std::sync::Arc;

use zvf_format::num::usize_from_u32;
use zvf_store::KeyTable;

use super::Near;

/// One fragment and one object that owns it.
///
/// ```
/// use zvf_model::Owner;
///
/// assert!(Owner { fragment: 1, row: 9 } < Owner { fragment: 2, row: 0 });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner {
    /// The fragment, by its number in the chunk.
    pub fragment: u32,
    /// The object, by its row in the index.
    pub row: u32,
}

/// A step of an object between chunks that share no face.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Crossing {
    pub(super) from: u32, // a place in the table of chunks
    pub(super) to: u32,   // likewise
    pub(super) row: u32,
}

/// The owners of all fragments of a level.
#[derive(Debug, Default)]
pub(crate) struct Table {
    starts: Vec<usize>, // one more than chunks; never descending, the last is the number of owners
    owners: Vec<Owner>, // ascending within a chunk, each once
    crossings: Vec<Crossing>,
}

impl Table {
    /// Creates the table of owners with their chunks, in any order, for this number of chunks.
    pub(super) fn new(
        chunks: usize,
        mut owners: Vec<(u32, Owner)>,
        mut crossings: Vec<Crossing>,
    ) -> Self {
        owners.sort_unstable();
        owners.dedup();
        crossings.sort_unstable();
        crossings.dedup();
        let mut starts = Vec::with_capacity(chunks + 1);
        let mut at = 0_usize;
        for chunk in 0..=chunks {
            let below = owners[at..].iter().take_while(|(c, _)| usize_from_u32(*c) < chunk);
            at += below.count();
            starts.push(at);
        }
        let owners = owners.into_iter().map(|(_, owner)| owner).collect();
        Self { starts, owners, crossings }
    }

    /// Returns the rows of objects with a crossing that is `near`.
    pub(super) fn crossing_objects(&self, chunks: &KeyTable, near: Near<'_>) -> Vec<u64> {
        let (mut rows, mut last) = (Vec::new(), None);
        for Crossing { from, to, row } in &self.crossings {
            // Crossings are sorted by chunks: many objects take the same step.
            let step = (*from, *to);
            let is_near = match last {
                Some((same, is_near)) if same == step => is_near,
                _ => {
                    let place = |at: u32| chunks.row(usize_from_u32(at));
                    place(*from).zip(place(*to)).is_some_and(|(from, to)| near(from, to))
                }
            };
            last = Some((step, is_near));
            if is_near {
                rows.push(u64::from(*row));
            }
        }
        rows.sort_unstable();
        rows.dedup();
        rows
    }

    fn chunk_range(&self, chunk: usize) -> Range<usize> {
        // A table without objects has no chunks.
        let start = self.starts.get(chunk).copied().unwrap_or(0);
        let end = self.starts.get(chunk + 1).copied().unwrap_or(start);
        start..end
    }
}

/// The cached owners of a level.
#[derive(Debug, Default)]
pub(crate) struct CachedOwners {
    pub(super) window: Option<Window>,
    /// Whether the owners of all chunks are too large for the cache.
    pub(super) is_too_large: bool,
}

/// The owners of some chunks, by position, and all crossings.
#[derive(Debug)]
pub(super) struct Window {
    pub(super) places: Range<u32>,
    pub(super) table: Arc<Table>,
}

/// All crossings of a level; `None` if they do not fit in memory.
pub(crate) type CachedCrossings = Option<Arc<Table>>;

/// The owners of the fragments of one chunk.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/bridge.zarrvectors");
/// # let store = zvf_store::Store::open(path, Default::default()).await?;
/// # let level = zvf_model::LevelReader::open(&store, zvf_model::LevelId(0)).await?;
/// let chunk = level.chunks().await?.get(1).expect("there are two");
/// let owners = level.owners(&[chunk], None).await?.expect("the level has objects");
/// assert_eq!((owners.chunks[0].rows(), owners.chunks[0].all().len()), (vec![0], 1));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ChunkOwners {
    owners: Arc<[Owner]>, // ascending, each once; used where there is no table
    table: Option<(Arc<Table>, Range<usize>)>,
}

impl ChunkOwners {
    /// Creates the owners of the chunk at `place`; empty without a position.
    pub(super) fn new(table: &Arc<Table>, place: Option<usize>) -> Self {
        let range = place.map_or(0..0, |place| table.chunk_range(place));
        Self { owners: Arc::new([]), table: Some((Arc::clone(table), range)) }
    }

    /// Returns no owners.
    pub fn empty() -> Self {
        Self::from_owners(Vec::new())
    }

    /// Creates a list of these owners.
    pub(super) fn from_owners(mut owners: Vec<Owner>) -> Self {
        owners.sort_unstable();
        Self { owners: owners.into(), table: None }
    }

    /// Returns all owners, ascending by fragment, then by row.
    pub fn all(&self) -> &[Owner] {
        match &self.table {
            Some((table, range)) => &table.owners[range.clone()],
            None => &self.owners,
        }
    }

    /// Returns the rows of the objects that own `fragment`, ascending.
    pub fn fragment_owners(&self, fragment: u64) -> impl Iterator<Item = u64> + '_ {
        let all = self.all();
        let first = all.partition_point(|owner| u64::from(owner.fragment) < fragment);
        let same = all[first..].iter();
        same.take_while(move |owner| u64::from(owner.fragment) == fragment)
            .map(|owner| owner.row.into())
    }

    /// Returns the rows of the objects that own any fragment, ascending, without duplicates.
    pub fn rows(&self) -> Vec<u64> {
        let mut rows: Vec<u64> = self.all().iter().map(|owner| owner.row.into()).collect();
        rows.sort_unstable();
        rows.dedup();
        rows
    }
}

#[cfg(test)]
mod tests {
    use zvf_format::key::ChunkKey;

    use super::*;

    fn owner(fragment: u32, row: u32) -> Owner {
        Owner { fragment, row }
    }

    #[test]
    fn owners_by_chunk_and_fragment() {
        let owners = vec![
            (2, owner(1, 7)),
            (0, owner(0, 3)),
            (2, owner(0, 9)),
            (2, owner(1, 2)),
            (0, owner(0, 3)),
        ];
        let table = Arc::new(Table::new(4, owners, Vec::new()));
        #[rustfmt::skip]
        let chunks: [(Option<usize>, &[Owner], &[u64]); 5] = [
            (Some(0), &[owner(0, 3)], &[3]),
            (Some(1), &[], &[]),
            (Some(2), &[owner(0, 9), owner(1, 2), owner(1, 7)], &[2, 7, 9]),
            (Some(3), &[], &[]),
            (None, &[], &[]),
        ];
        for (place, all, rows) in chunks {
            let chunk = ChunkOwners::new(&table, place);
            assert_eq!((chunk.all(), &chunk.rows()[..]), (all, rows), "{place:?}");
        }
        let shared = ChunkOwners::new(&table, Some(2));
        assert_eq!(shared.fragment_owners(1).collect::<Vec<_>>(), [2, 7]);
        assert_eq!(shared.fragment_owners(2).count(), 0);
        let unshared = ChunkOwners::from_owners(vec![owner(5, 1), owner(4, 0)]);
        assert_eq!(unshared.fragment_owners(5).collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn crossings_are_tested_once_per_step() {
        let chunks = KeyTable::new(1, [0, 4, 9].map(|x| ChunkKey::new(&[x]).unwrap())).unwrap();
        let step = |from, to, row| Crossing { from, to, row };
        let crossings =
            vec![step(0, 2, 8), step(0, 1, 5), step(0, 2, 5), step(2, 0, 1), step(0, 2, 8)];
        let table = Table::new(3, Vec::new(), crossings);
        let calls = std::sync::Mutex::new(Vec::new());
        let rows = table.crossing_objects(&chunks, &|from, to| {
            calls.lock().unwrap().push((from[0], to[0]));
            to[0] == 9
        });
        assert_eq!(rows, [5, 8]);
        assert_eq!(*calls.lock().unwrap(), [(0, 4), (0, 9), (9, 0)]);
    }
}
