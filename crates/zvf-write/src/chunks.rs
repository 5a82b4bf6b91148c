//! The non-empty chunks, numbered in the order of their first occurrence.
//!
//! Rows store the number of their chunk, four bytes, instead of its key. At the end, the chunks are
//! put in writing order: shard by shard, and numerically within each.
//!
//! Not here: the chunk of a position (`route`).

use std::collections::HashMap;

use rustc_hash::FxHashMap;
use zvf_error::{Error, Result};
use zvf_format::key::ChunkKey;
use zvf_format::num::{index_u32, to_u64, usize_from_u32};

use crate::error::task_error;

/// Keys and their numbers.
#[derive(Debug)]
pub(crate) struct ChunkTable {
    rank: usize,    // components of a key, not 0
    keys: Vec<i64>, // `rank` for each chunk
    numbers: FxHashMap<Box<[i64]>, u32>,
}

impl ChunkTable {
    /// Returns an empty table for keys with `rank` components.
    pub(crate) fn new(rank: usize) -> Self {
        Self { rank: rank.max(1), keys: Vec::new(), numbers: FxHashMap::default() }
    }

    /// Returns the number of components of a key.
    pub(crate) const fn rank(&self) -> usize {
        self.rank
    }

    /// Returns the number of chunks.
    pub(crate) fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Returns the number of the chunk `key`.
    pub(crate) fn number(&mut self, key: &[i64]) -> Result<u32> {
        if let Some(number) = self.numbers.get(key) {
            return Ok(*number);
        }
        let next = self.len();
        if to_u64(next) >= MAX_CHUNKS {
            return Err(Error::limit("chunks of a level", MAX_CHUNKS, MAX_CHUNKS + 1));
        }
        let number = index_u32(next);
        self.keys.extend_from_slice(key);
        self.numbers.insert(key.into(), number);
        Ok(number)
    }

    /// Returns the number of a chunk, if it exists.
    pub(crate) fn find(&self, key: &[i64]) -> Option<u32> {
        self.numbers.get(key).copied()
    }

    /// Returns the number of an existing chunk; fast if it is `next` or slightly larger.
    pub(crate) fn find_from(&self, next: u32, key: &[i64]) -> Result<u32> {
        (next..next.saturating_add(NEAR_CHUNKS)) // numbers end there
            .find(|number| self.components(*number) == key)
            .or_else(|| self.find(key))
            .ok_or_else(|| {
                task_error(
                    "lists of chunks",
                    "only chunks of the merged lists",
                    format!("chunk {key:?}"),
                )
            })
    }

    /// Returns the components of chunk `number`; empty for a missing chunk.
    pub(crate) fn components(&self, number: u32) -> &[i64] {
        self.keys.chunks_exact(self.rank).nth(usize_from_u32(number)).unwrap_or(&[])
    }

    /// Returns the key of chunk `number`.
    pub(crate) fn key(&self, number: u32) -> Result<ChunkKey> {
        Ok(ChunkKey::new(self.components(number))?)
    }

    /// Returns the lowest and the highest component on every axis, if there are chunks.
    pub(crate) fn extent(&self) -> Option<[Vec<i64>; 2]> {
        let mut keys = self.keys.chunks_exact(self.rank);
        let first = keys.next()?;
        let mut corners = [first.to_vec(), first.to_vec()];
        keys.for_each(|key| widen(&mut corners, key));
        Some(corners)
    }

    /// Returns the shard shape, halved until the cells of each shard take at most `max_bytes`
    /// together; `None` if not even two cells do. In clustered data, most rows are in a few shards,
    /// whatever the mean is.
    pub(crate) fn fitting_shard(
        &self,
        origin: &[i64],
        mut shard: Vec<u64>,
        bytes: impl Fn(u32) -> u64,
        max_bytes: u64,
    ) -> Option<Vec<u64>> {
        loop {
            let mut held: HashMap<Vec<u64>, (u64, u64)> = HashMap::new();
            for number in 0..index_u32(self.len()) {
                let (cells, sum) = held.entry(self.shard_of(number, origin, &shard)).or_default();
                *cells += 1;
                *sum = sum.saturating_add(bytes(number)); // too much is too much
            }
            // A single cell does not wait for others.
            if held.values().all(|(cells, sum)| *cells < 2 || *sum <= max_bytes) {
                return shard.iter().any(|side| *side > 1).then_some(shard);
            }
            let longest = shard.iter_mut().max().filter(|side| **side > 1)?;
            *longest = longest.div_ceil(2);
        }
    }

    /// Returns the shard of a chunk, counted from `origin` on each axis.
    fn shard_of(&self, number: u32, origin: &[i64], shard: &[u64]) -> Vec<u64> {
        let axes = self.components(number).iter().zip(origin).zip(shard);
        axes.map(|((at, from), cells)| at.abs_diff(*from) / cells).collect()
    }

    /// Returns the chunks in writing order: by shard, if cells are in shards of this shape from
    /// `origin` on, then numerically.
    pub(crate) fn order(&self, origin: &[i64], shard: Option<&[u64]>) -> Order {
        let mut chunks: Vec<u32> = (0..index_u32(self.len())).collect();
        chunks.sort_unstable_by(|a, b| self.components(*a).cmp(self.components(*b)));
        let Some(shape) = shard else {
            let places = inverse(&chunks);
            return Order { shards: places.clone(), places, chunks };
        };
        let shard_of = |number: u32| self.shard_of(number, origin, shape);
        chunks.sort_by_cached_key(|number| shard_of(*number));
        let (mut shards, mut shard) = (vec![0; chunks.len()], 0_u32);
        for same in chunks.chunk_by(|a, b| shard_of(*a) == shard_of(*b)) {
            same.iter().for_each(|number| shards[usize_from_u32(*number)] = shard);
            shard += 1;
        }
        Order { places: inverse(&chunks), shards, chunks }
    }
}

/// Chunk numbers have 31 bits, so that records have room for a flag.
const MAX_CHUNKS: u64 = (1 << 31) - 1;
/// Number of chunks that are compared before a number is looked up.
const NEAR_CHUNKS: u32 = 4;

/// Returns the position of each number in a list of all numbers.
fn inverse(numbers: &[u32]) -> Vec<u32> {
    let mut places = vec![0; numbers.len()];
    for (at, number) in (0_u32..).zip(numbers) {
        places[usize_from_u32(*number)] = at;
    }
    places
}

/// The chunks in order.
#[derive(Debug)]
pub(crate) struct Order {
    /// Chunk numbers in writing order.
    pub(crate) chunks: Vec<u32>,
    places: Vec<u32>, // of each chunk, where it stands in that order
    shards: Vec<u32>, // of each chunk, the number of its shard
}

impl Order {
    /// Returns the position of chunk `number` in writing order.
    pub(crate) fn place(&self, number: u32) -> u32 {
        // A missing chunk comes last: counting links detects it.
        self.places.get(usize_from_u32(number)).copied().unwrap_or(u32::MAX)
    }

    /// Returns the shard of chunk `number`; without shards, each chunk has its own.
    fn shard(&self, number: u32) -> u32 {
        self.shards[usize_from_u32(number)]
    }

    /// Returns the shards of consecutive chunks of this order.
    pub(crate) fn shards<'a>(&'a self, chunks: &'a [u32]) -> impl Iterator<Item = &'a [u32]> {
        chunks.chunk_by(|a, b| self.shard(*a) == self.shard(*b))
    }
}

/// Widens a box to a chunk.
pub(crate) fn widen([low, high]: &mut [Vec<i64>; 2], chunk: &[i64]) {
    for ((low, high), at) in low.iter_mut().zip(high).zip(chunk) {
        (*low, *high) = ((*low).min(*at), (*high).max(*at));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_have_fewer_cells_where_rows_are_dense() {
        let mut table = ChunkTable::new(2);
        let keys = [[0, 0], [0, 1], [1, 0], [5, 5], [9, 9]];
        let bytes = [90, 10, 10, 10, 10];
        for key in keys {
            table.number(&key).unwrap();
        }
        for (shard, max_bytes, fits) in [
            (vec![4, 4], 110, Some(vec![4, 4])),
            (vec![4, 4], 109, Some(vec![2, 1])), // 4 x 2 and 2 x 2 hold the first three
            (vec![2, 2], 100, Some(vec![2, 1])),
            (vec![2, 2], 99, None),
            (vec![8, 8], 110, Some(vec![8, 4])),
            (vec![1, 1], 110, None),
            (vec![4, 4], 0, None),
        ] {
            let bytes = |number: u32| bytes[number as usize];
            let found = table.fitting_shard(&[0, 0], shard.clone(), bytes, max_bytes);
            assert_eq!(found, fits, "{shard:?} {max_bytes}");
        }
    }

    #[test]
    fn chunks_are_written_shard_by_shard_and_otherwise_numerically() {
        let mut table = ChunkTable::new(2);
        for key in [[3, 0], [0, 3], [0, 1], [-1, 9], [0, 3]] {
            table.number(&key).unwrap();
        }
        assert_eq!((table.len(), table.extent()), (4, Some([vec![-1, 0], vec![3, 9]])));
        assert_eq!(table.order(&[0, 0], None).chunks, [3, 2, 1, 0]);
        let order = table.order(&[-1, 0], Some(&[2, 2]));
        assert_eq!(order.chunks, [2, 1, 3, 0]);
        assert_eq!([0, 1, 2, 3].map(|n| order.place(n)), [3, 1, 0, 2]);
        assert_eq!([0, 1, 2, 3].map(|n| order.shard(n)), [3, 1, 0, 2]);
        assert_eq!(table.key(3).unwrap().to_string(), "-1.9");
        assert_eq!(ChunkTable::new(1).extent(), None);
    }

    #[test]
    fn a_chunk_that_must_be_there_is_refused_where_it_is_not() {
        let mut table = ChunkTable::new(1);
        for key in 0..9 {
            table.number(&[key]).unwrap();
        }
        // Near, behind, far ahead, and past the end.
        for (next, key) in [(3, 4), (3, 0), (0, 8), (u32::MAX, 8)] {
            assert_eq!(u64::from(table.find_from(next, &[key]).unwrap()), key as u64);
        }
        assert_eq!(table.find(&[9]), None);
        assert_eq!(
            table.find_from(8, &[9]).unwrap_err().sentence(),
            "lists of chunks: expected only chunks of the merged lists, found chunk [9]"
        );
    }
}
