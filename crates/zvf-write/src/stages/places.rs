//! The chunk and row of vertices, by running number: a table in memory, or sorted records.
//!
//! ```text
//! NAME.places     running number, u64 | chunk, u32 | row, u32
//! ```

use std::sync::atomic::{AtomicU64, Ordering};

use zvf_format::num::{saturating_u32, saturating_usize};

use super::sorted::sort_key_u64;
use super::step_output::StepOutput;

/// The locations of the vertices of one `cells` step.
pub(crate) enum Places<S = StepOutput> {
    /// All vertices of the input.
    Held(PlaceTable),
    /// Sorted records of [`PLACE`] bytes, or their sorter while they are collected.
    Sorted(S),
}

/// The location of every vertex.
pub(crate) struct PlaceTable(Vec<AtomicU64>); // chunk, then row, 32 bits each

impl PlaceTable {
    /// Returns a table for this many vertices, without locations yet.
    pub(crate) fn new(vertices: u64) -> Self {
        Self((0..vertices).map(|_| AtomicU64::new(NOWHERE)).collect())
    }

    /// Sets the chunk of vertices, given by their numbers in row order.
    pub(crate) fn put(&self, chunk: u32, numbers: &[u64]) {
        for (row, number) in (0_u64..).zip(numbers) {
            let slot = &self.0[saturating_usize(*number)];
            slot.store(u64::from(chunk) << 32 | row, Ordering::Relaxed);
        }
    }

    /// Returns the chunk and the row of vertex `number`.
    pub(crate) fn locate(&self, number: u64) -> Option<(u32, u32)> {
        let slot = usize::try_from(number).ok().and_then(|number| self.0.get(number))?;
        let place = slot.load(Ordering::Relaxed);
        // Both fit.
        let [chunk, row] = [place >> 32, place & u64::from(u32::MAX)].map(saturating_u32);
        (place != NOWHERE).then_some((chunk, row))
    }
}

impl Places {
    /// Returns the records of the vertices that have a location.
    pub(crate) fn into_records(self) -> StepOutput {
        let table = match self {
            Self::Held(table) => table,
            Self::Sorted(stored) => return stored,
        };
        let mut records = Vec::with_capacity(table.0.len() * PLACE);
        for (number, place) in (0_u64..).zip(table.0) {
            let place = place.into_inner();
            if place != NOWHERE {
                records.extend([number, place].map(sort_key_u64).as_flattened());
            }
        }
        StepOutput::Held(records.into())
    }
}

impl<S> Places<S> {
    /// Returns the table, if the locations are in memory.
    pub(crate) const fn table(&self) -> Option<&PlaceTable> {
        match self {
            Self::Held(table) => Some(table),
            Self::Sorted(_) => None,
        }
    }

    /// Returns the records, if they are sorted.
    pub(crate) const fn sorted_file(&self) -> Option<&S> {
        match self {
            Self::Held(_) => None,
            Self::Sorted(stored) => Some(stored),
        }
    }
}

/// The entry of a vertex without a location: no chunk has this number.
const NOWHERE: u64 = u64::MAX;
/// Bytes of a location.
pub(crate) const PLACE: usize = 16;
