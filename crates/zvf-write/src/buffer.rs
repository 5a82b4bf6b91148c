//! Routed rows in memory, until they are spilled.
//!
//! Not here: their further processing (`stages`).

use zvf_format::num::{index_u32, usize_from_u32};

use crate::chunks::ChunkTable;
use crate::routed::{ChunkPiece, RoutedBatch};

/// All rows so far.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    batches: Vec<RoutedBatch>,
    bytes: u64, // of the batches
}

impl Buffer {
    /// Adds a batch.
    pub(crate) fn push(&mut self, batch: RoutedBatch) {
        self.bytes += batch.bytes();
        self.batches.push(batch);
    }

    /// Takes all rows, with the location of the rows of each chunk of `table`.
    pub(crate) fn take(&mut self, table: &ChunkTable) -> (Vec<RoutedBatch>, Vec<Vec<(u32, u32)>>) {
        let batches = std::mem::take(&mut self.batches);
        self.bytes = 0;
        let by_chunk = index(&batches, table);
        (batches, by_chunk)
    }

    /// Returns the approximate number of bytes.
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// Returns the pieces of a chunk in input order.
pub(crate) fn pieces<'a>(batches: &'a [RoutedBatch], places: &[(u32, u32)]) -> Vec<ChunkPiece<'a>> {
    let piece = |(batch, segment): &(u32, u32)| {
        batches[usize_from_u32(*batch)].piece(usize_from_u32(*segment))
    };
    places.iter().map(piece).collect()
}

/// Returns the segments of each chunk, with their batches.
fn index(batches: &[RoutedBatch], table: &ChunkTable) -> Vec<Vec<(u32, u32)>> {
    let mut by_chunk = vec![Vec::new(); table.len()];
    for (number, batch) in batches.iter().enumerate() {
        for (at, segment) in batch.segments.iter().enumerate() {
            by_chunk[usize_from_u32(segment.chunk)].push((index_u32(number), index_u32(at)));
        }
    }
    by_chunk
}
