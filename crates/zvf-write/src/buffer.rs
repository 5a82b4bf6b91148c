//! Routed rows until they are put aside, in memory.
//!
//! Not here: what becomes of them (`stages`).

use zvf_format::num::{index_u32, usize_from_u32};

use crate::chunks::ChunkTable;
use crate::routed::{Piece, RoutedBatch};

/// All rows given so far.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    batches: Vec<RoutedBatch>,
    bytes: u64, // of the batches
}

impl Buffer {
    /// Takes one more batch.
    pub(crate) fn push(&mut self, batch: RoutedBatch) {
        self.bytes += batch.bytes();
        self.batches.push(batch);
    }

    /// Gives away all rows, and for each chunk of `table` where its rows are.
    pub(crate) fn take(&mut self, table: &ChunkTable) -> (Vec<RoutedBatch>, Vec<Vec<(u32, u32)>>) {
        let batches = std::mem::take(&mut self.batches);
        self.bytes = 0;
        let by_chunk = index(&batches, table);
        (batches, by_chunk)
    }

    /// Returns about how many bytes it holds.
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// Returns the pieces of a chunk, in the order given.
pub(crate) fn pieces<'a>(batches: &'a [RoutedBatch], places: &[(u32, u32)]) -> Vec<Piece<'a>> {
    let piece = |(batch, segment): &(u32, u32)| {
        batches[usize_from_u32(*batch)].piece(usize_from_u32(*segment))
    };
    places.iter().map(piece).collect()
}

/// Returns, for each chunk, which segments of which batches it is.
fn index(batches: &[RoutedBatch], table: &ChunkTable) -> Vec<Vec<(u32, u32)>> {
    let mut by_chunk = vec![Vec::new(); table.len()];
    for (number, batch) in batches.iter().enumerate() {
        for (at, segment) in batch.segments.iter().enumerate() {
            by_chunk[usize_from_u32(segment.chunk)].push((index_u32(number), index_u32(at)));
        }
    }
    by_chunk
}
