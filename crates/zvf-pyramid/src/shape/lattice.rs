//! The cells in which points are clustered: chunks hold whole cells, or cells hold whole chunks.
//!
//! So all points of a cell are processed together when a level is built a few chunks at a time. A
//! cell has the requested size, or is smaller on an axis where it would otherwise split chunks or
//! other cells.
//!
//! ```text
//! side of a chunk 10, cells of  4    three to a chunk, each 3.33…
//!                              10    one to a chunk
//!                              25    one to two chunks, 20
//! ```

use zvf_error::Result;
use zvf_format::num::{f64_from_i64, f64_from_u64, floor_i64, saturating_floor_i64};

use crate::error::setting_error;

/// A grid of units: chunks, or the chunks that a cell covers.
#[derive(Clone, Debug)]
pub(crate) struct Lattice {
    axes: Vec<GridAxis>,
    cells: u64, // of a unit
}

/// The coordinates of a unit, padded with zeros.
pub(crate) type Unit = [i64; 8];

#[derive(Clone, Copy, Debug, PartialEq)]
struct GridAxis {
    chunk: f64,
    chunks: i64, // of a unit
    cells: u64,  // of a unit
}

impl GridAxis {
    /// Creates the axis for cells of at most `size`; `None` if a chunk has too many of them.
    fn new(chunk: f64, size: f64) -> Option<Self> {
        let cells = chunk / size;
        if cells > 1.0 - ROUNDING_TOLERANCE {
            let cells = floor_i64((cells - ROUNDING_TOLERANCE).ceil())?.max(1).unsigned_abs();
            return Some(Self { chunk, chunks: 1, cells });
        }
        let chunks = saturating_floor_i64(size / chunk + ROUNDING_TOLERANCE).clamp(1, MAX_CHUNKS);
        Some(Self { chunk, chunks, cells: 1 })
    }

    /// Returns the unit that contains `x`. Positions outside of all chunks, which no level accepts,
    /// may share one.
    fn unit(&self, x: f64) -> i64 {
        saturating_floor_i64(x / self.chunk).div_euclid(self.chunks)
    }

    /// Returns the cell of the unit `at` that holds `x`; rounding never gives a cell of another
    /// unit.
    fn cell(&self, at: i64, x: f64) -> u64 {
        let width = self.chunk / f64_from_u64(self.cells);
        let start = self.chunk * f64_from_i64(at);
        let cell = u64::try_from(saturating_floor_i64((x - start) / width)).unwrap_or(0);
        cell.min(self.cells - 1)
    }
}

impl Lattice {
    /// Returns cells of at most `size` on a level with chunks of these sizes.
    pub(crate) fn new(chunk: &[f64], size: f64) -> Result<Self> {
        let expected = "so much that a chunk has fewer than 2^64 cells";
        let refused = || setting_error("size", expected, size);
        let axes = chunk.iter().map(|chunk| GridAxis::new(*chunk, size));
        let axes: Vec<GridAxis> = axes.collect::<Option<_>>().ok_or_else(refused)?;
        let cells = axes.iter().try_fold(1_u64, |all, axis| all.checked_mul(axis.cells));
        Ok(Self { axes, cells: cells.ok_or_else(refused)? })
    }

    /// Returns how many chunks a unit covers on each axis.
    pub(crate) fn chunks(&self) -> Vec<i64> {
        self.axes.iter().map(|axis| axis.chunks).collect()
    }

    /// Returns whether a cell lies in one chunk.
    pub(crate) fn is_within_chunks(&self) -> bool {
        self.axes.iter().all(|axis| axis.chunks == 1)
    }

    /// Returns how many cells a unit has.
    pub(super) const fn cells(&self) -> u64 {
        self.cells
    }

    /// Returns the unit that contains a position.
    pub(super) fn unit(&self, position: &[f64]) -> Unit {
        let mut unit = [0; 8];
        let axes = self.axes.iter().zip(position);
        unit.iter_mut().zip(axes).for_each(|(to, (axis, x))| *to = axis.unit(*x));
        unit
    }

    /// Returns the cell of this unit that contains a position in it.
    pub(super) fn cell(&self, unit: &Unit, position: &[f64]) -> u64 {
        let axes = self.axes.iter().zip(unit).zip(position);
        axes.fold(0, |cell: u64, ((axis, at), x)| {
            let axis_cell = if axis.cells == 1 { 0 } else { axis.cell(*at, *x) };
            cell * axis.cells + axis_cell // below the number of cells
        })
    }
}

/// The rounding error of a whole number of cells or chunks.
const ROUNDING_TOLERANCE: f64 = 1e-9;
/// The largest number of chunks that a cell covers on an axis.
const MAX_CHUNKS: i64 = 1 << 40;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_multiples_of_cells_or_cells_of_chunks() {
        for (size, chunks, cells) in [
            (4.0, 1, 3),
            (10.0, 1, 1),
            (10.0 / 3.0, 1, 3),
            (0.1, 1, 100),
            (9.999_999_999_99, 1, 1),
            (19.9, 1, 1),
            (20.0, 2, 1),
            (25.0, 2, 1),
            (1e300, MAX_CHUNKS, 1),
        ] {
            assert_eq!(
                GridAxis::new(10.0, size),
                Some(GridAxis { chunk: 10.0, chunks, cells }),
                "{size}"
            );
        }
        assert!(Lattice::new(&[1.0; 3], 1e-9).is_err());
        assert!(Lattice::new(&[1.0], 1e-19).is_err() && Lattice::new(&[1.0], 1e-18).is_ok());
    }

    #[test]
    fn positions_are_mapped_to_units_and_cells() {
        let lattice = Lattice::new(&[10.0, 4.0], 5.0).unwrap();
        assert_eq!(
            (lattice.chunks(), lattice.cells(), lattice.is_within_chunks()),
            (vec![1, 1], 2, true)
        );
        for (at, unit, cell) in [
            ([0.0, 0.0], [0, 0], 0),
            ([5.0, 3.9], [0, 0], 1),
            ([-0.1, 4.0], [-1, 1], 1),
            ([-10.0, -4.0], [-1, -1], 0),
            ([19.999, 8.0], [1, 2], 1),
        ] {
            let actual = lattice.unit(&at);
            assert_eq!((&actual[..2], lattice.cell(&actual, &at)), (&unit[..], cell), "{at:?}");
        }
        let wide = Lattice::new(&[10.0, 4.0], 12.0).unwrap();
        assert_eq!((wide.chunks(), wide.is_within_chunks()), (vec![1, 3], false));
        assert_eq!(wide.unit(&[-0.5, -0.5])[..2], [-1, -1]);
        assert_eq!(wide.unit(&[0.0, 11.9])[..2], [0, 0]);
    }
}
