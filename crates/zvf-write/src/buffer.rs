//! Routed rows until they are put aside, in memory.
//!
//! Not here: what becomes of them (`stages`).

use zvf_format::num::{index_u32, usize_from_u32};

use crate::chunks::ChunkTable;
use crate::run::{Piece, RoutedBatch};

/// All rows given so far.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    runs: Vec<RoutedBatch>,
    bytes: u64, // of the runs
}

impl Buffer {
    /// Takes one more batch.
    pub(crate) fn push(&mut self, run: RoutedBatch) {
        self.bytes += run.bytes();
        self.runs.push(run);
    }

    /// Gives away all rows, and for each chunk of `table` where its rows are.
    pub(crate) fn take(&mut self, table: &ChunkTable) -> (Vec<RoutedBatch>, Vec<Vec<(u32, u32)>>) {
        let runs = std::mem::take(&mut self.runs);
        self.bytes = 0;
        let by_chunk = index(&runs, table);
        (runs, by_chunk)
    }

    /// Returns about how many bytes it holds.
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// Returns the pieces of a chunk, in the order given.
pub(crate) fn pieces<'a>(runs: &'a [RoutedBatch], places: &[(u32, u32)]) -> Vec<Piece<'a>> {
    let piece =
        |(run, segment): &(u32, u32)| runs[usize_from_u32(*run)].piece(usize_from_u32(*segment));
    places.iter().map(piece).collect()
}

/// Returns, for each chunk, which segments of which runs it is.
fn index(runs: &[RoutedBatch], table: &ChunkTable) -> Vec<Vec<(u32, u32)>> {
    let mut by_chunk = vec![Vec::new(); table.len()];
    for (number, run) in runs.iter().enumerate() {
        for (at, segment) in run.segments.iter().enumerate() {
            by_chunk[usize_from_u32(segment.chunk)].push((index_u32(number), index_u32(at)));
        }
    }
    by_chunk
}
