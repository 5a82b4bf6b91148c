//! An axis-aligned box in world units, with as many axes as the store.
//!
//! Only [`Bounds::new`] creates one, which guarantees: 1 to 8 axes, no NaN, low not above high.
//! Infinite faces are allowed and mean "no limit on this side".

use thiserror::Error;

/// A box. The user decides whether its faces belong to it.
///
/// ```
/// use zvf_model::Bounds;
///
/// let bounds = Bounds::new(&[0.0, 0.0], &[4.0, f64::INFINITY])?;
/// assert!(bounds.contains(&[4.0, 1e9]) && !bounds.contains(&[4.1, 0.0]));
/// assert!(bounds.contains_half_open(&[0.0, 0.0]) && !bounds.contains_half_open(&[4.0, 0.0]));
/// assert!(Bounds::new(&[0.0], &[f64::NAN]).is_err());
/// # Ok::<(), zvf_model::BadBounds>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    low: [f64; Self::MAX_AXES],  // no NaN, unused axes 0
    high: [f64; Self::MAX_AXES], // likewise; not below `low`
    axes: usize,                 // 1 to MAX_AXES
}

impl Bounds {
    /// The largest number of axes a store can have.
    pub const MAX_AXES: usize = 8;

    /// Creates the box from `low` to `high`.
    ///
    /// # Errors
    ///
    /// When the corners differ in length, have no axis or more than eight, hold a NaN, or `low` is
    /// above `high` on some axis.
    pub fn new(low: &[f64], high: &[f64]) -> Result<Self, BadBounds> {
        if low.len() != high.len() || low.is_empty() || low.len() > Self::MAX_AXES {
            return Err(BadBounds::Axes { low: low.len(), high: high.len() });
        }
        for (axis, (&low, &high)) in low.iter().zip(high).enumerate() {
            if low.is_nan() || high.is_nan() {
                return Err(BadBounds::NotANumber { axis });
            }
            if low > high {
                return Err(BadBounds::Inverted { axis, low, high });
            }
        }
        let mut bounds = Self { low: [0.0; 8], high: [0.0; 8], axes: low.len() };
        for (to, from) in bounds.low.iter_mut().zip(low) {
            *to = *from;
        }
        for (to, from) in bounds.high.iter_mut().zip(high) {
            *to = *from;
        }
        Ok(bounds)
    }

    /// Returns the number of axes.
    pub const fn axes(&self) -> usize {
        self.axes
    }

    /// Returns the lower corner.
    pub fn low(&self) -> &[f64] {
        self.low.get(..self.axes).unwrap_or(&self.low)
    }

    /// Returns the upper corner.
    pub fn high(&self) -> &[f64] {
        self.high.get(..self.axes).unwrap_or(&self.high)
    }

    /// Returns whether `point` is inside or on a face. False for a NaN coordinate.
    pub fn contains(&self, point: &[f64]) -> bool {
        self.sides(point).all(|(low, x, high)| low <= x && x <= high)
    }

    /// Returns whether `point` is inside or on a lower face, so that adjacent boxes share no point.
    pub fn contains_half_open(&self, point: &[f64]) -> bool {
        self.sides(point).all(|(low, x, high)| low <= x && x < high)
    }

    /// Returns the intersection, or `None` if it is empty.
    pub fn intersection(&self, other: &Self) -> Option<Self> {
        let mut low = [0.0; Self::MAX_AXES];
        let mut high = [0.0; Self::MAX_AXES];
        for (to, (a, b)) in low.iter_mut().zip(self.low().iter().zip(other.low())) {
            *to = a.max(*b);
        }
        for (to, (a, b)) in high.iter_mut().zip(self.high().iter().zip(other.high())) {
            *to = a.min(*b);
        }
        let axes = if self.axes == other.axes { self.axes } else { 0 };
        Self::new(low.get(..axes)?, high.get(..axes)?).ok()
    }

    /// Returns the smallest box that contains both; `None` if their numbers of axes differ.
    pub fn union(&self, other: &Self) -> Option<Self> {
        if self.axes != other.axes {
            return None;
        }
        let mut union = *self;
        for (to, from) in union.low.iter_mut().zip(other.low) {
            *to = to.min(from);
        }
        for (to, from) in union.high.iter_mut().zip(other.high) {
            *to = to.max(from);
        }
        Some(union)
    }

    fn sides(&self, point: &[f64]) -> impl Iterator<Item = (f64, f64, f64)> {
        let sides = self.low().iter().zip(point).zip(self.high());
        sides.map(|((&low, &x), &high)| (low, x, high))
    }
}

/// Corners that do not form a box.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum BadBounds {
    /// The corners differ in length, or have no axis or too many.
    #[error("a box needs two corners of 1 to 8 axes, found {low} and {high}")]
    Axes {
        /// Axes of the lower corner.
        low: usize,
        /// Axes of the upper corner.
        high: usize,
    },
    /// A coordinate is NaN.
    #[error("a box cannot have a NaN corner (axis {axis})")]
    NotANumber {
        /// The axis.
        axis: usize,
    },
    /// The lower corner is above the upper one.
    #[error("a box must not be inverted: axis {axis} goes from {low} to {high}")]
    Inverted {
        /// The axis.
        axis: usize,
        /// The given lower end.
        low: f64,
        /// The given upper end.
        high: f64,
    },
}

impl From<BadBounds> for zvf_error::Error {
    fn from(error: BadBounds) -> Self {
        Self::from_cause(zvf_format::Class::InvalidArgument, error).with_op("query")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_invalid_boxes() {
        for (low, high, message) in [
            (&[][..], &[][..], "a box needs two corners of 1 to 8 axes, found 0 and 0"),
            (&[0.0], &[0.0, 1.0], "a box needs two corners of 1 to 8 axes, found 1 and 2"),
            (&[0.0; 9], &[1.0; 9], "a box needs two corners of 1 to 8 axes, found 9 and 9"),
            (&[0.0, f64::NAN], &[1.0, 1.0], "a box cannot have a NaN corner (axis 1)"),
            (&[2.0], &[1.0], "a box must not be inverted: axis 0 goes from 2 to 1"),
        ] {
            assert_eq!(Bounds::new(low, high).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn nan_points_are_in_no_box() {
        let all = Bounds::new(&[f64::NEG_INFINITY], &[f64::INFINITY]).unwrap();
        assert!(all.contains(&[f64::MAX]) && !all.contains(&[f64::NAN]));
    }

    #[test]
    fn adjacent_boxes_share_a_face() {
        let a = Bounds::new(&[0.0, 0.0], &[2.0, 2.0]).unwrap();
        let b = Bounds::new(&[2.0, 1.0], &[3.0, 5.0]).unwrap();
        let c = Bounds::new(&[2.5, 1.0], &[3.0, 5.0]).unwrap();
        assert_eq!(a.intersection(&b), Bounds::new(&[2.0, 1.0], &[2.0, 2.0]).ok());
        assert_eq!(a.intersection(&c), None);
        assert_eq!(a.union(&b), Bounds::new(&[0.0, 0.0], &[3.0, 5.0]).ok());
        assert_eq!(a.union(&Bounds::new(&[0.0], &[1.0]).unwrap()), None);
    }
}
