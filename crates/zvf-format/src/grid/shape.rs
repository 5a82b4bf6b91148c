//! The chunk shape, and the ratio of a level's chunks to those of the root.

use super::{MAX_AXES, check_axes, check_axis_count, floor, refuse, whole_ratio};
use crate::error::{Class, Expected, FormatError};
use crate::key::{ChunkKey, MAX_RANK};
use crate::used_items;

/// The size of a chunk on every axis: finite and above zero.
///
/// ```
/// use zvf_format::grid::ChunkShape;
///
/// let shape = ChunkShape::new(&[10.0, 10.0]).unwrap();
/// assert_eq!(shape.chunk_of(&[10.0, -0.5]).unwrap().components(), [1, -1]);
/// assert!(ChunkShape::new(&[10.0, 0.0]).is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChunkShape {
    sizes: [f64; MAX_AXES], // finite and above zero; 1 from `axes` on
    pub(super) axes: u8,    // 1 to MAX_AXES
}

impl ChunkShape {
    /// Creates a chunk of these sizes.
    ///
    /// # Errors
    ///
    /// When there are no sizes, more than [`MAX_AXES`], or one is not finite or not above zero.
    pub fn new(sizes: &[f64]) -> Result<Self, FormatError> {
        let axes = check_axes("chunk_shape", sizes.len())?;
        if let Some(&wrong) = sizes.iter().find(|size| !(size.is_finite() && **size > 0.0)) {
            let expected = Expected::Rule("a finite size above zero");
            return Err(refuse(Class::BadShape, "chunk_shape", expected, wrong));
        }
        let mut shape = Self { sizes: [1.0; MAX_AXES], axes };
        for (to, from) in shape.sizes.iter_mut().zip(sizes) {
            *to = *from;
        }
        Ok(shape)
    }

    /// Creates the default cube of the format for points between `low` and `high`: its side is the
    /// largest extent, plus the largest absolute upper coordinate, plus one.
    ///
    /// # Errors
    ///
    /// When the corners differ in rank, or the side is not finite.
    pub fn default_for(low: &[f64], high: &[f64]) -> Result<Self, FormatError> {
        check_axis_count("bounds", low.len(), high.len())?;
        let extent = find_largest(low.iter().zip(high).map(|(low, high)| high - low));
        let side = extent + find_largest(high.iter().copied()).abs() + 1.0;
        let axes = check_axes("bounds", high.len())?;
        Self::new(used_items(&[side; MAX_AXES], axes))
    }

    /// Returns the sizes.
    pub fn sizes(&self) -> &[f64] {
        used_items(&self.sizes, self.axes)
    }

    /// Returns how many axes there are.
    pub fn axes(&self) -> usize {
        self.axes.into()
    }

    /// Returns the chunk of a position; a position on a boundary belongs to the upper chunk.
    ///
    /// # Errors
    ///
    /// When the position has another rank, a NaN, or a coordinate so large that its chunk number
    /// does not fit in 64 bits.
    pub fn chunk_of(&self, position: &[f64]) -> Result<ChunkKey, FormatError> {
        check_axis_count("position", self.axes(), position.len())?;
        let mut components = [0; MAX_RANK];
        for (to, (x, size)) in components.iter_mut().zip(position.iter().zip(self.sizes())) {
            *to = floor(*x, *size)?;
        }
        Ok(ChunkKey::from_checked(components, self.axes))
    }

    /// Returns the size of this level's chunks in chunks of the root.
    ///
    /// # Errors
    ///
    /// When the ranks differ, or an axis is not a whole multiple of the root's (within 1e-9).
    pub fn ratio_to(&self, root: &Self) -> Result<LevelRatio, FormatError> {
        check_axis_count("chunk_shape", root.axes(), self.axes())?;
        let mut ratio = LevelRatio { times: [1; MAX_AXES], axes: self.axes };
        for (to, (large, small)) in
            ratio.times.iter_mut().zip(self.sizes().iter().zip(root.sizes()))
        {
            *to = whole_ratio(*large, *small).ok_or_else(|| {
                let expected = Expected::Rule("a whole multiple of the root's");
                refuse(Class::BadShape, "chunk_shape", expected, large / small)
            })?;
        }
        Ok(ratio)
    }
}

/// The number of root chunks that a chunk of a level spans on each axis.
///
/// ```
/// use zvf_format::grid::ChunkShape;
///
/// let root = ChunkShape::new(&[5.0, 5.0]).unwrap();
/// let level = ChunkShape::new(&[10.0, 20.0]).unwrap();
/// assert_eq!(level.ratio_to(&root).unwrap().multiples(), [2, 4]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LevelRatio {
    times: [i64; MAX_AXES], // each at least 1; 1 from `axes` on
    axes: u8,               // 1 to MAX_AXES
}

impl LevelRatio {
    /// Returns the multiple on each axis, at least one.
    pub fn multiples(&self) -> &[i64] {
        used_items(&self.times, self.axes)
    }
}

/// Returns the largest number, or NaN if any number is NaN.
fn find_largest(numbers: impl Iterator<Item = f64>) -> f64 {
    numbers.fold(f64::NEG_INFINITY, |a, b| if b > a || b.is_nan() { b } else { a })
}
