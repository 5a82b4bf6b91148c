//! Runs copied out of a tile.
//!
//! A run is side by side in the result and `stride` bytes apart in the tile. Whole runs are one copy;
//! the others go element by element, in a loop for each size there is.

use zvf_format::num::saturating_usize;
use zvf_tet::{CopyRun, Runs};

/// Copies `runs` of a tile into the result. `tile` begins `skipped` bytes after the start of the tile.
pub(super) fn runs(tile: &[u8], skipped: u64, runs: Runs, size: u64, out: &mut [u8]) {
    for run in runs {
        copy_run(tile, skipped, &run, size, out);
    }
}

/// Copies one run; what lies outside of either is left out.
pub(super) fn copy_run(tile: &[u8], skipped: u64, run: &CopyRun, size: u64, out: &mut [u8]) {
    let from = saturating_usize(run.src.saturating_sub(skipped));
    let len = saturating_usize(run.count.saturating_mul(size));
    let to = saturating_usize(run.dst);
    let (Some(from), Some(to)) = (tile.get(from..), out.get_mut(to..to.saturating_add(len))) else {
        return;
    };
    if run.is_contiguous(size) {
        if let Some(from) = from.get(..len) {
            to.copy_from_slice(from);
        }
        return;
    }
    let stride = saturating_usize(run.stride).max(1);
    match size {
        1 => gather::<1>(from, stride, to),
        2 => gather::<2>(from, stride, to),
        4 => gather::<4>(from, stride, to),
        _ => gather::<8>(from, stride, to),
    }
}

fn gather<const N: usize>(from: &[u8], stride: usize, to: &mut [u8]) {
    let (slots, _) = to.as_chunks_mut::<N>();
    for (slot, from) in slots.iter_mut().zip(from.chunks(stride)) {
        if let Some(element) = from.first_chunk::<N>() {
            *slot = *element;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_side_by_side_and_apart() {
        let tile: Vec<u8> = (0..32).collect();
        #[rustfmt::skip]
        let table = [
            // source, result, count, stride, element, skipped, what comes
            (4, 0, 3, 2, 2, 0, &[4, 5, 6, 7, 8, 9][..]),
            (4, 0, 3, 8, 2, 0, &[4, 5, 12, 13, 20, 21]),
            (12, 0, 2, 8, 4, 10, &[2, 3, 4, 5, 10, 11, 12, 13]),
            (0, 1, 2, 16, 8, 0, &[0, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23]),
            (3, 0, 2, 5, 1, 0, &[3, 8]),
            (30, 0, 2, 2, 2, 0, &[0, 0, 0, 0]), // past the end: nothing
        ];
        for (src, dst, count, stride, size, skipped, expected) in table {
            let mut out = vec![0; expected.len()];
            copy_run(&tile, skipped, &CopyRun { src, dst, count, stride }, size, &mut out);
            assert_eq!(out, expected, "{src} {stride}");
        }
    }
}
