//! Boxes in space, closed on all sides.
//!
//! The corners of a box may be any `f64` values, infinities included; they are clamped to integers
//! before anything is counted.

use super::{
    ChunkRange, ChunkShape, MAX_AXES, check_axes, check_axis_count, floor_clamped, refuse,
};
use crate::error::{Class, Expected, FormatError};
use crate::used_items;

/// All positions between two corners, both included.
///
/// ```
/// use zvf_format::grid::BoundingBox;
///
/// let unit = BoundingBox::new(&[0.0, 0.0], &[1.0, f64::INFINITY]).unwrap();
/// assert!(unit.contains(&[1.0, 7.0]) && !unit.contains(&[1.1, 7.0]));
/// assert!(BoundingBox::new(&[f64::NAN], &[1.0]).is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BoundingBox {
    low: [f64; MAX_AXES],  // no NaN; zero from `axes` on
    high: [f64; MAX_AXES], // as `low`, and nowhere below it
    axes: u8,              // 1 to MAX_AXES
}

impl BoundingBox {
    /// Creates the box between two corners.
    ///
    /// # Errors
    ///
    /// When the corners differ in rank or have an invalid rank, one has a NaN, or the upper one
    /// lies below the lower one.
    pub fn new(low: &[f64], high: &[f64]) -> Result<Self, FormatError> {
        let axes = check_axes("box", low.len())?;
        check_axis_count("box", low.len(), high.len())?;
        let mut all = Self { low: [0.0; MAX_AXES], high: [0.0; MAX_AXES], axes };
        let corners = all.low.iter_mut().zip(&mut all.high);
        for ((low, high), (from, to)) in corners.zip(low.iter().zip(high)) {
            if from.is_nan() || to.is_nan() {
                let expected = Expected::Rule("numbers");
                return Err(refuse(Class::InvalidArgument, "box", expected, f64::NAN));
            }
            if to < from {
                let expected = Expected::Rule("an upper corner not below the lower one");
                return Err(refuse(Class::InvalidArgument, "box", expected, *to));
            }
            (*low, *high) = (*from, *to);
        }
        Ok(all)
    }

    /// Returns the lower corner.
    pub fn low(&self) -> &[f64] {
        used_items(&self.low, self.axes)
    }

    /// Returns the upper corner.
    pub fn high(&self) -> &[f64] {
        used_items(&self.high, self.axes)
    }

    /// Returns how many axes there are.
    pub fn axes(&self) -> usize {
        self.axes.into()
    }

    /// Returns whether a position lies inside or on a face; `false` for another rank or a NaN.
    pub fn contains(&self, position: &[f64]) -> bool {
        let mut faces = position.iter().zip(self.low().iter().zip(self.high()));
        position.len() == self.axes() && faces.all(|(x, (low, high))| low <= x && x <= high)
    }

    /// Returns the first and last multiple of `size` on an axis that the box meets.
    pub(super) fn reach(&self, axis: usize, size: f64) -> Option<(i64, i64)> {
        let (low, high) = (self.low().get(axis)?, self.high().get(axis)?);
        Some((floor_clamped(*low, size), floor_clamped(*high, size)))
    }
}

impl ChunkShape {
    /// Returns the chunks in which a position of the box can lie if its writer assigned chunks by
    /// position.
    ///
    /// If the level has bins, use [`super::Bins::chunks_meeting`]: its writer may have assigned
    /// chunks by bin.
    ///
    /// # Errors
    ///
    /// When the box has another rank.
    pub fn chunks_meeting(&self, bbox: &BoundingBox) -> Result<ChunkRange, FormatError> {
        check_axis_count("box", self.axes(), bbox.axes())?;
        Ok(ChunkRange::from_fn(self.axes, |axis| bbox.reach(axis, *self.sizes().get(axis)?)))
    }
}
