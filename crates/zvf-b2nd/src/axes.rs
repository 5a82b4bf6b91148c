//! One number per axis, for at most sixteen axes, without an allocator.
//!
//! Shapes, coordinates and corners of boxes have this type. Sixteen is the limit of the array
//! metalayer.

use core::fmt;

use zvf_format::num;

/// The largest number of axes of an array.
pub const MAX_AXES: usize = 16;

/// A shape or a coordinate: one number per axis.
///
/// ```
/// use zvf_b2nd::Axes;
///
/// let shape = Axes::new(&[7, 5]).unwrap();
/// assert_eq!(shape.as_slice(), [7, 5]);
/// assert_eq!(shape.product(), Some(35));
/// assert!(Axes::new(&[1; 17]).is_none());
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Axes {
    n: usize,                // at most MAX_AXES
    values: [u64; MAX_AXES], // 0 from n on
}

impl Axes {
    /// Returns the numbers of `values`, or `None` when there are more than sixteen.
    pub fn new(values: &[u64]) -> Option<Self> {
        let mut axes = Self { n: values.len(), values: [0; MAX_AXES] };
        axes.values.get_mut(..values.len())?.copy_from_slice(values);
        Some(axes)
    }

    /// Returns the number of axes.
    pub const fn len(&self) -> usize {
        self.n
    }

    /// Returns whether there are none, as for a scalar.
    pub const fn is_empty(&self) -> bool {
        self.n == 0
    }

    /// Returns the numbers, first axis first.
    pub fn as_slice(&self) -> &[u64] {
        self.values.get(..self.n).unwrap_or_default() // n is at most MAX_AXES
    }

    /// Returns the product of all numbers: 1 without axes, 0 when any is 0, `None` above
    /// `u64::MAX`.
    pub fn product(&self) -> Option<u64> {
        num::count_items(self.as_slice())
    }

    /// Returns zero on `n` axes, at most sixteen.
    pub(super) fn zeros(n: usize) -> Self {
        Self { n: n.min(MAX_AXES), values: [0; MAX_AXES] }
    }

    /// Returns the numbers, mutably.
    pub(super) fn as_mut(&mut self) -> &mut [u64] {
        self.values.get_mut(..self.n).unwrap_or_default() // n is at most MAX_AXES
    }

    /// Applies `combine` to the numbers of `self` and `other`, axis by axis.
    pub(super) fn zip(&self, other: &Self, combine: impl Fn(u64, u64) -> u64) -> Self {
        let mut axes = *self;
        for (value, other) in axes.as_mut().iter_mut().zip(other.as_slice()) {
            *value = combine(*value, *other);
        }
        axes
    }

    /// Returns the index of `self` among all coordinates below `extents`, last axis fastest.
    pub(super) fn number_in(&self, extents: &Self) -> u64 {
        // Below the product of the extents, which a partition caps.
        let pairs = self.as_slice().iter().zip(extents.as_slice());
        pairs.fold(0, |number, (at, extent)| number.saturating_mul(*extent).saturating_add(*at))
    }
}

impl fmt::Debug for Axes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.as_slice()).finish()
    }
}

/// All coordinates from `low` to below `high`, last axis fastest.
pub(super) struct Coordinates {
    low: Axes,
    high: Axes,
    next: Option<Axes>,
}

impl Coordinates {
    /// Creates the walk over the box between two corners, the second excluded. Without axes there
    /// is one coordinate.
    pub(super) fn new(low: Axes, high: Axes) -> Self {
        let some = low.as_slice().iter().zip(high.as_slice()).all(|(low, high)| low < high);
        Self { low, high, next: some.then_some(low) }
    }
}

impl Iterator for Coordinates {
    type Item = Axes;

    fn next(&mut self) -> Option<Axes> {
        let current = self.next?;
        let mut after = current;
        let ends = self.low.as_slice().iter().zip(self.high.as_slice());
        self.next = None;
        for (at, (low, high)) in after.as_mut().iter_mut().zip(ends).rev() {
            *at = at.saturating_add(1); // it was below `high`
            if *at < *high {
                self.next = Some(after);
                break;
            }
            *at = *low;
        }
        Some(current)
    }
}

/// Returns `a / b`, rounded up; 0 when `b` is 0.
pub(super) fn div_up(a: u64, b: u64) -> u64 {
    if b == 0 { 0 } else { a.div_ceil(b) }
}

/// Returns the number of axes as the metalayer counts them.
pub(super) fn count(axes: &[u64]) -> u64 {
    num::to_u64(axes.len())
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;

    #[test]
    fn products_at_the_limits() {
        for (values, product) in [
            (&[][..], Some(1)),
            (&[u64::MAX, 2, 0], Some(0)),
            (&[1 << 32, 1 << 31], Some(1 << 63)),
            (&[1 << 32, 1 << 32], None),
        ] {
            assert_eq!(Axes::new(values).unwrap().product(), product, "{values:?}");
        }
    }

    #[test]
    fn coordinates_in_c_order() {
        let walk = |low: &[u64], high: &[u64]| {
            Coordinates::new(Axes::new(low).unwrap(), Axes::new(high).unwrap())
                .map(|at| at.as_slice().to_vec())
                .collect::<Vec<_>>()
        };
        assert_eq!(walk(&[1, 2], &[3, 4]), [[1, 2], [1, 3], [2, 2], [2, 3]]);
        assert_eq!(walk(&[], &[]), [[0_u64; 0]]);
        assert!(walk(&[0, 2], &[3, 2]).is_empty());
    }

    #[test]
    fn divisions_round_up() {
        for (a, b, up) in [(7, 4, 2), (8, 4, 2), (0, 4, 0), (4, 0, 0), (u64::MAX, 1, u64::MAX)] {
            assert_eq!(div_up(a, b), up);
        }
    }
}
