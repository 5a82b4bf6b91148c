//! 32-bit row numbers of a batch, places of vertices (the number of a chunk and a row in it), and
//! rows sorted into buckets.

use zvf_error::Result;
use zvf_format::num::{index_u32, saturating_u32, usize_from_u32};

use crate::error::unsupported_error;

/// No cluster or vertex.
pub(crate) const NONE: u32 = u32::MAX;

/// Returns the number of a row of a batch, which has fewer than 2^32 rows: [`check_rows`] refuses
/// more.
pub(crate) const fn row_number(at: usize) -> u32 {
    index_u32(at)
}

/// Refuses batches with too many rows for 32-bit numbers, the last of which means none.
pub(crate) fn check_rows(rows: usize) -> Result<()> {
    if rows < usize_from_u32(NONE) {
        return Ok(());
    }
    let expected = "fewer than 2^32: give objects to vertices, or use the methods of points";
    Err(unsupported_error("vertices that are coarsened at once", expected, rows))
}

/// Returns the position in `rows` of each of `count` rows; [`NONE`] for those that are not there.
pub(crate) fn positions_in(rows: &[u32], count: usize) -> Vec<u32> {
    let mut positions = vec![NONE; count];
    for (at, row) in (0_u32..).zip(rows) {
        positions[usize_from_u32(*row)] = at;
    }
    positions
}

/// Returns the number that a list has for a row; [`NONE`] for no row.
pub(crate) fn lookup(numbers: &[u32], row: u32) -> u32 {
    if row == NONE { NONE } else { numbers[usize_from_u32(row)] }
}

/// Returns the number of the chunk, the upper half of a place.
pub(crate) const fn chunk_of_place(place: u64) -> u32 {
    saturating_u32(place >> 32) // fits
}

/// Returns the row in the chunk, the lower half of a place.
pub(crate) const fn row_of_place(place: u64) -> u32 {
    saturating_u32(place & ROW_MASK) // fits
}

/// Items in buckets, by counting sort: those of one bucket keep their order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Buckets<T> {
    starts: Vec<u32>, // of each bucket, and the end of the last
    items: Vec<T>,
}

impl<T: Copy + Default> Buckets<T> {
    /// Sorts items into `count` buckets; each comes with the number of its bucket.
    pub(crate) fn new(count: usize, items: impl Iterator<Item = (u32, T)> + Clone) -> Self {
        let mut starts = vec![0_u32; count + 2];
        items.clone().for_each(|(bucket, _)| starts[usize_from_u32(bucket) + 2] += 1);
        let mut before = 0;
        for start in &mut starts {
            before += *start;
            *start = before;
        }
        let mut sorted = vec![T::default(); usize_from_u32(before)];
        items.for_each(|(bucket, item)| {
            let next = &mut starts[usize_from_u32(bucket) + 1];
            sorted[usize_from_u32(*next)] = item;
            *next += 1;
        });
        starts.pop();
        Self { starts, items: sorted }
    }

    /// Returns the number of buckets.
    pub(crate) fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// Returns the items of a bucket.
    pub(crate) fn get(&self, bucket: usize) -> &[T] {
        let [start, end] = [bucket, bucket + 1].map(|at| usize_from_u32(self.starts[at]));
        &self.items[start..end]
    }

    /// Sorts the items of each bucket.
    pub(crate) fn sort_each(&mut self)
    where
        T: Ord,
    {
        for [start, end] in self.starts.array_windows() {
            self.items[usize_from_u32(*start)..usize_from_u32(*end)].sort_unstable();
        }
    }
}

/// The bits of a place that are the row.
const ROW_MASK: u64 = 0xffff_ffff;
