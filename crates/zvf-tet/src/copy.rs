//! Runs: the pieces to copy from one tile into the result, each as long as possible.
//!
//! A run takes `count` elements, `stride` bytes apart in the tile and contiguous in the result.
//! Axes are joined from the last outwards while the inner axes are complete on both sides, that is,
//! cover all of the tile and all of the result; so a tile copied whole into a result of its shape
//! is one run. Elements outside of the selection are never visited.
//!
//! Operations saturate only for tiles without selected elements, and beyond the last run.
//!
//! Not here: the bytes. Offsets refer to a decoded tile and a result, which the caller holds.

use super::MAX_RANK;

/// One run of elements.
///
/// ```
/// use zvf_tet::{AxisSlice, TensorDtype, TileGeometry, CopyRun, TileSelection};
///
/// let geometry = TileGeometry::new(TensorDtype::F64, &[9], &[9]).unwrap();
/// let odd = TileSelection::new(&geometry, &[AxisSlice { start: 1, stop: 9, step: 2 }])?;
/// let run = odd.runs(&geometry.tile(&[0]).unwrap()).next().unwrap();
/// assert_eq!(run, CopyRun { src: 8, dst: 0, count: 4, stride: 16 });
/// assert!(!run.is_contiguous(8));
/// # Ok::<(), zvf_format::FormatError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyRun {
    /// Bytes from the start of the tile to the first element.
    pub src: u64,
    /// Bytes from the start of the result to the destination.
    pub dst: u64,
    /// Number of elements.
    pub count: u64,
    /// Bytes from one element to the next in the tile; in the result they are contiguous.
    pub stride: u64,
}

impl CopyRun {
    /// Returns whether elements of this size are contiguous in the tile too.
    pub const fn is_contiguous(&self, element_size: u64) -> bool {
        self.count == 1 || self.stride == element_size
    }
}

/// The runs of one tile, in the order of the result.
#[derive(Clone, Copy, Debug)]
pub struct Runs {
    run: CopyRun, // the next one
    left: u64,
    outer: [Outer; MAX_RANK], // axes that are not part of a run; those not used have `n` 1
}

/// The part of one axis of a tile that goes into the result.
#[derive(Clone, Copy)]
pub(super) struct AxisPiece {
    /// First index in the tile.
    pub(super) src: u64,
    /// First index in the result.
    pub(super) dst: u64,
    /// Number of indices.
    pub(super) n: u64,
    /// Distance between indices in the tile; 1 if there is only one.
    pub(super) step: u64,
}

impl AxisPiece {
    /// The piece of an axis past the rank.
    pub(super) const ONE: Self = Self { src: 0, dst: 0, n: 1, step: 1 };
}

/// A loop around the runs.
#[derive(Clone, Copy, Debug)]
struct Outer {
    n: u64,
    done: u64, // below `n`
    src: u64,  // bytes per turn
    dst: u64,
}

impl Runs {
    /// Creates the runs of a tile from its extents and pieces. No product exceeds the byte length
    /// of the dataset, and arrays hold extents of 1 past the rank.
    pub(super) fn new(
        size: u64,
        extents: &[u64],
        result: &[u64; MAX_RANK],
        pieces: &[AxisPiece; MAX_RANK],
    ) -> Self {
        let nothing = Outer { n: 1, done: 0, src: 0, dst: 0 };
        let mut new = Self {
            run: CopyRun { src: 0, dst: 0, count: 1, stride: size },
            left: 1,
            outer: [nothing; MAX_RANK],
        };
        let (mut src, mut dst) = (size, size); // bytes from one index to the next, on this axis
        let mut joined = true; // what is inside is one run, full on both sides
        let axes = extents.iter().zip(result).zip(pieces.iter().zip(&mut new.outer));
        let mut axes =
            axes.map(|((extent, result), (piece, outer))| (*extent, *result, *piece, outer));
        while let Some((extent, result, piece, outer)) = axes.next_back() {
            let AxisPiece { n, step, .. } = piece;
            new.run.src = new.run.src.saturating_add(piece.src.saturating_mul(src));
            new.run.dst = new.run.dst.saturating_add(piece.dst.saturating_mul(dst));
            if joined && new.run.count == 1 {
                (new.run.count, new.run.stride) = (n, step.saturating_mul(src));
            } else if joined && step == 1 {
                new.run.count = new.run.count.saturating_mul(n);
            } else {
                joined = false;
                *outer = Outer { n, done: 0, src: step.saturating_mul(src), dst };
                new.left = new.left.saturating_mul(n);
            }
            joined &= n == extent && n == result;
            src = src.saturating_mul(extent);
            dst = dst.saturating_mul(result);
        }
        if new.run.count == 0 {
            new.left = 0;
        }
        new
    }
}

impl Iterator for Runs {
    type Item = CopyRun;

    fn next(&mut self) -> Option<CopyRun> {
        self.left = self.left.checked_sub(1)?;
        let run = self.run;
        for outer in self.outer.iter_mut().rev() {
            self.run.src = self.run.src.saturating_add(outer.src);
            self.run.dst = self.run.dst.saturating_add(outer.dst);
            outer.done = outer.done.saturating_add(1);
            if outer.done < outer.n {
                break;
            }
            self.run.src = self.run.src.saturating_sub(outer.src.saturating_mul(outer.n));
            self.run.dst = self.run.dst.saturating_sub(outer.dst.saturating_mul(outer.n));
            outer.done = 0;
        }
        Some(run)
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;
    use crate::{AxisSlice, TensorDtype, TileGeometry, TileSelection};

    /// The source, destination, count and stride of a run.
    type CopiedRun = (u64, u64, u64, u64);

    /// Name, chunk shape, selection and runs.
    type Case = (&'static str, [u64; 3], [AxisSlice; 3], &'static [CopiedRun]);

    #[test]
    fn runs_have_maximal_length() {
        let all = AxisSlice::all;
        let axis = |start, stop, step| AxisSlice { start, stop, step };
        #[rustfmt::skip]
        let table: [Case; 8] = [
            // name, chunk shape of [4, 3, 5] in u16, selection, runs of the first tile: src, dst,
            // count, stride
            ("all of one chunk", [4, 3, 5], [all(4), all(3), all(5)], &[(0, 0, 60, 2)]),
            ("split on axis 0", [2, 3, 5], [all(4), all(3), all(5)], &[(0, 0, 30, 2)]),
            ("split on axis 1", [4, 2, 5], [all(4), all(3), all(5)],
                &[(0, 0, 10, 2), (20, 30, 10, 2), (40, 60, 10, 2), (60, 90, 10, 2)]),
            ("one column", [4, 3, 5], [axis(1, 2, 1), all(3), axis(2, 3, 1)], &[(34, 0, 1, 2), (44, 2, 1, 2), (54, 4, 1, 2)]),
            ("step on the last axis", [4, 3, 5], [axis(3, 4, 1), axis(2, 3, 1), axis(0, 5, 2)], &[(110, 0, 3, 4)]),
            ("step outside of full axes", [4, 3, 5], [axis(0, 4, 3), all(3), all(5)], &[(0, 0, 15, 2), (90, 30, 15, 2)]),
            ("inside both", [4, 3, 5], [axis(1, 3, 1), axis(1, 3, 1), axis(1, 4, 2)],
                &[(42, 0, 2, 4), (52, 4, 2, 4), (72, 8, 2, 4), (82, 12, 2, 4)]),
            ("untouched", [1, 3, 5], [axis(2, 4, 1), all(3), all(5)], &[]),
        ];
        for (name, chunk, axes, runs) in table {
            let geometry = TileGeometry::new(TensorDtype::U16, &[4, 3, 5], &chunk).unwrap();
            let selection = TileSelection::new(&geometry, &axes).unwrap();
            let tile = geometry.tile(&[0, 0, 0]).unwrap();
            let found: Vec<_> =
                selection.runs(&tile).map(|r| (r.src, r.dst, r.count, r.stride)).collect();
            assert_eq!(found, runs, "{name}");
        }
        // A step on an axis of extent 1 does not break a run.
        let geometry = TileGeometry::new(TensorDtype::U16, &[4, 1, 5], &[4, 1, 5]).unwrap();
        let selection = TileSelection::new(&geometry, &[all(4), axis(0, 1, 9), all(5)]).unwrap();
        let runs: Vec<_> = selection.runs(&geometry.tile(&[0, 0, 0]).unwrap()).collect();
        assert_eq!(runs, [CopyRun { src: 0, dst: 0, count: 20, stride: 2 }]);
        // Inner axes of extent 1 do not break a run either.
        let geometry = TileGeometry::new(TensorDtype::U16, &[9, 1], &[9, 1]).unwrap();
        let selection = TileSelection::new(&geometry, &[axis(0, 9, 4), all(1)]).unwrap();
        let runs: Vec<_> = selection.runs(&geometry.tile(&[0, 0]).unwrap()).collect();
        assert_eq!(runs, [CopyRun { src: 0, dst: 0, count: 3, stride: 8 }]);
    }

    proptest! {
        /// Copying the runs of all tiles gives the result of a loop over indices.
        #[test]
        fn runs_equal_copying_each_element(
            axes in prop::collection::vec((1_u64..7, 1_u64..8, 1_u64..9, any::<(u64, u64)>()), 1..5),
        ) {
            let shape: Vec<_> = axes.iter().map(|a| a.0).collect();
            let chunk: Vec<_> = axes.iter().map(|a| a.1).collect();
            let axes: Vec<_> = axes.iter().map(|(extent, _, step, (a, b))| {
                let start = a % extent;
                AxisSlice { start, stop: start + 1 + b % (extent - start), step: *step }
            }).collect();
            let geometry = TileGeometry::new(TensorDtype::I16, &shape, &chunk).unwrap();
            let selection = TileSelection::new(&geometry, &axes).unwrap();

            let mut result: Vec<Option<u64>> = std::vec![None; (selection.byte_len() / 2) as usize];
            for position in 0..geometry.tile_count() {
                let coords = geometry.coords_at(position).unwrap();
                let tile = geometry.tile(&coords[..shape.len()]).unwrap();
                for run in selection.runs(&tile) {
                    prop_assert!(run.count > 0);
                    for i in 0..run.count {
                        let src = (run.src + i * run.stride) / 2;
                        prop_assert!(src < tile.byte_len() / 2);
                        let slot = &mut result[(run.dst / 2 + i) as usize];
                        prop_assert!(slot.is_none());
                        *slot = Some(element_of(&tile, src, &shape));
                    }
                }
            }
            prop_assert_eq!(result, naive(&shape, &axes));
        }
    }

    /// Returns the row-major number in the dataset of element `local` of a tile.
    fn element_of(tile: &crate::Tile, mut local: u64, shape: &[u64]) -> u64 {
        let mut index = Vec::new();
        for extent in tile.extents().iter().rev() {
            index.push(local % extent);
            local /= extent;
        }
        index.reverse();
        index.iter().zip(tile.lo()).zip(shape).fold(0, |n, ((i, lo), extent)| n * extent + lo + i)
    }

    fn naive(shape: &[u64], axes: &[AxisSlice]) -> Vec<Option<u64>> {
        let mut numbers = std::vec![0];
        for (axis, extent) in axes.iter().zip(shape) {
            let indices = (axis.start..axis.stop).step_by(axis.step as usize);
            numbers =
                numbers.iter().flat_map(|n| indices.clone().map(move |i| n * extent + i)).collect();
        }
        numbers.into_iter().map(Some).collect()
    }
}
