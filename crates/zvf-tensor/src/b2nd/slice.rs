//! Slices of a block array: bounds and steps along each axis.

use async_recursion::async_recursion as boxed;
use zvf_error::{Error, Result};
use zvf_format::num::{saturating_usize, usize_from_u32};
use zvf_store::item_box::ItemBox;
use zvf_tet::MemoryBudget;

use super::fetch;
use super::frame::BlockArray;
use super::values::BlockValues;
use crate::error::request_error;
use crate::memory::Memory;
use crate::slice::Slice;

impl BlockArray {
    /// Returns the number of chunks and blocks that a slice needs.
    ///
    /// # Errors
    ///
    /// When it does not fit the array.
    pub fn count_touched(&self, slice: &Slice) -> Result<(u64, u64)> {
        let (start, stop, _) = self.bounds(slice)?;
        let selection = self.geometry().select(&start, &stop)?;
        Ok((selection.chunks_touched(), selection.blocks_touched()))
    }

    /// Reads the items of a slice. With steps, all blocks between the bounds are decoded; an empty
    /// slice reads nothing.
    ///
    /// # Errors
    ///
    /// When the slice does not fit the array; `LimitExceeded`, before anything is decoded,
    /// when it is more than `memory` allows; otherwise when one of its chunks or blocks is damaged
    /// or cannot be read.
    #[boxed]
    pub async fn slice(&self, slice: &Slice, memory: &Memory) -> Result<BlockValues> {
        let (start, stop, steps) = self.bounds(slice)?;
        let max_bytes = memory.limit(MemoryBudget::DEFAULT);
        let selection = self.geometry().select(&start, &stop)?;
        if selection.bytes() > max_bytes {
            return Err(Error::limit("bytes of a selection", max_bytes, selection.bytes()));
        }
        let bytes = fetch::selection(self, &selection, max_bytes).await?;
        self.file().check()?;
        let shape = selection.extent().as_slice().to_vec();
        let (shape, bytes) = match steps.iter().all(|step| *step == 1) {
            true => (shape, bytes),
            false => take_every_nth(&bytes, &shape, &steps, usize_from_u32(self.item_size())),
        };
        let (item_size, dtype) = (self.item_size(), self.dtype().map(Into::into));
        Ok(BlockValues { shape, item_size, dtype, bytes: bytes.into() })
    }

    /// Returns start, stop and step along each axis.
    fn bounds(&self, slice: &Slice) -> Result<(Vec<u64>, Vec<u64>, Vec<u64>)> {
        let axes = slice.axes(self.shape(), |_, _| None)?;
        if axes.iter().any(|axis| axis.step == 0) {
            return Err(request_error("step", "at least 1", "0"));
        }
        let starts = axes.iter().map(|axis| axis.start).collect();
        let stops = axes.iter().map(|axis| axis.stop).collect();
        Ok((starts, stops, axes.iter().map(|axis| axis.step).collect()))
    }
}

/// Returns every n-th item along each axis; no step is 0, and `bytes` are all items of the shape.
fn take_every_nth(bytes: &[u8], shape: &[u64], steps: &[u64], item: usize) -> (Vec<u64>, Vec<u8>) {
    let counts: Vec<u64> =
        shape.iter().zip(steps).map(|(extent, step)| extent.div_ceil(*step)).collect();
    let total = counts.iter().fold(1_u64, |all, n| all.saturating_mul(*n)); // in memory, or an extent is 0
    let mut out = Vec::with_capacity(saturating_usize(total) * item);
    let (mut at, all) = (vec![0_u64; shape.len()], ItemBox::whole(&counts));
    for _ in 0..total {
        let mut place = 0_u64;
        for ((at, step), extent) in at.iter().zip(steps).zip(shape) {
            place = place * extent + at * step;
        }
        let from = saturating_usize(place) * item;
        out.extend_from_slice(&bytes[from..from + item]);
        all.advance(&mut at);
    }
    (counts, out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_with_a_step_of_two() {
        let bytes: Vec<u8> = (0..15).collect();
        assert_eq!(
            take_every_nth(&bytes, &[3, 5], &[2, 2], 1),
            (vec![2, 3], vec![0, 2, 4, 10, 12, 14])
        );
        assert_eq!(
            take_every_nth(&bytes[..12], &[2, 2], &[1, 2], 3),
            (vec![2, 1], vec![0, 1, 2, 6, 7, 8])
        );
        assert_eq!(take_every_nth(&bytes, &[0, 5], &[2, 2], 1), (vec![0, 3], Vec::new()));
    }
}
