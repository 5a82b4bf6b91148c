//! The range of cells of one array.
//!
//! Two arrays of one level may have different grids.

use super::{ChunkShape, check_axis_count, floor, refuse};
use crate::error::{Class, Expected, FormatError, Part};
use crate::key::{ChunkKey, ChunkPath, MAX_RANK, check_rank};
use crate::used_items;

/// The first cell of an array and the number of cells on each axis.
///
/// ```
/// use zvf_format::grid::{ChunkShape, Grid};
/// use zvf_format::key::ChunkKey;
///
/// // Not the quotient rounded up: a vertex on 20 lies in the third cell.
/// let shape = ChunkShape::new(&[10.0]).unwrap();
/// let grid = Grid::from_bounds(&[0.0], &[20.0], &shape).unwrap();
/// assert_eq!((grid.origin(), grid.shape()), (&[0][..], &[3][..]));
/// let last = ChunkKey::new(&[2]).unwrap();
/// assert_eq!(grid.path(&last).unwrap().to_string(), "c/2");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    origin: [i64; MAX_RANK], // zero from `rank` on
    shape: [u64; MAX_RANK],  // zero from `rank` on; the last cell of each axis fits `i64`
    pub(super) rank: u8,     // 1 to MAX_RANK
}

impl Grid {
    /// Creates the grid of an array with this origin and shape. An axis may have no cells.
    ///
    /// # Errors
    ///
    /// When the ranks differ or are invalid, or a cell number does not fit in 64 bits.
    pub fn new(origin: &[i64], shape: &[u64]) -> Result<Self, FormatError> {
        let rank = check_rank(Part::Grid, shape.len())?;
        check_axis_count("chunk_grid_origin", shape.len(), origin.len())?;
        let mut grid = Self { origin: [0; MAX_RANK], shape: [0; MAX_RANK], rank };
        let axes = grid.origin.iter_mut().zip(&mut grid.shape);
        for ((to, cells), (from, count)) in axes.zip(origin.iter().zip(shape)) {
            // Without cells, none is out of range.
            if from.checked_add_unsigned(count.saturating_sub(1)).is_none() {
                let expected = Expected::Rule("origin + shape in 64 bits");
                return Err(refuse(Class::Overflow, "shape", expected, *count));
            }
            (*to, *cells) = (*from, *count);
        }
        Ok(grid)
    }

    /// Creates the grid for data between `low` and `high`, both included.
    ///
    /// # Errors
    ///
    /// When the ranks differ, a corner is NaN, or a chunk number does not fit in 64 bits.
    pub fn from_bounds(low: &[f64], high: &[f64], chunk: &ChunkShape) -> Result<Self, FormatError> {
        check_axis_count("bounds", chunk.axes(), low.len())?;
        check_axis_count("bounds", chunk.axes(), high.len())?;
        let (mut origin, mut shape) = ([0; MAX_RANK], [0; MAX_RANK]);
        let corners = low.iter().zip(high).zip(chunk.sizes());
        for ((from, cells), ((low, high), size)) in origin.iter_mut().zip(&mut shape).zip(corners) {
            *from = floor(*low, *size)?;
            let last = floor(*high, *size)?;
            // A quotient in `f64` is never `i64::MAX`, so there are fewer than 2^64 cells.
            *cells = if last < *from { 1 } else { last.abs_diff(*from).saturating_add(1) };
        }
        Ok(Self { origin, shape, rank: chunk.axes })
    }

    /// Adds a leading axis for `bins` bins of an attribute, counted from zero.
    ///
    /// # Errors
    ///
    /// When there are too many axes, or a cell number does not fit in 64 bits.
    pub fn with_attribute_bins(&self, bins: u64) -> Result<Self, FormatError> {
        let (mut origin, mut shape) = ([0; MAX_RANK], [bins; MAX_RANK]);
        for (to, from) in origin.iter_mut().skip(1).zip(self.origin()) {
            *to = *from;
        }
        for (to, from) in shape.iter_mut().skip(1).zip(self.shape()) {
            *to = *from;
        }
        let rank = check_rank(Part::Grid, self.rank().saturating_add(1))?;
        Self::new(used_items(&origin, rank), used_items(&shape, rank))
    }

    /// Returns the first cell on each axis.
    pub fn origin(&self) -> &[i64] {
        used_items(&self.origin, self.rank)
    }

    /// Returns the number of cells on each axis.
    pub fn shape(&self) -> &[u64] {
        used_items(&self.shape, self.rank)
    }

    /// Returns the number of axes, including the axis of attribute bins.
    pub fn rank(&self) -> usize {
        self.rank.into()
    }

    /// Returns whether the array has a cell for this chunk.
    pub fn contains(&self, key: &ChunkKey) -> bool {
        self.path(key).is_ok()
    }

    /// Returns the key of the cell at `index`, if the array has it.
    pub fn key(&self, index: &[u64]) -> Option<ChunkKey> {
        let mut components = [0; MAX_RANK];
        for ((to, from), at) in components.iter_mut().zip(self.origin()).zip(index) {
            *to = from.checked_add_unsigned(*at)?;
        }
        let key = ChunkKey::new(components.get(..index.len())?).ok()?;
        self.contains(&key).then_some(key)
    }

    /// Returns the place of a chunk in the array.
    ///
    /// # Errors
    ///
    /// When the key has another rank or lies outside the grid.
    pub fn path(&self, key: &ChunkKey) -> Result<ChunkPath, FormatError> {
        let path = ChunkPath::from_key(key, self.origin())?;
        for (index, cells) in path.index().iter().zip(self.shape()) {
            if index >= cells {
                let expected = Expected::AtMost(i128::from(*cells).saturating_sub(1));
                return Err(refuse(Class::OutOfBounds, "cell", expected, *index));
            }
        }
        Ok(path)
    }
}
