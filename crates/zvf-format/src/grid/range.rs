//! A box of chunks, stored as two corners and never as a list.

use super::{Grid, refuse};
use crate::error::{Class, Expected, FormatError};
use crate::key::{ChunkKey, MAX_RANK};

/// All chunks between two corners, both included; or none.
///
/// Its size in memory does not depend on the number of chunks.
///
/// ```
/// use zvf_format::grid::{BoundingBox, ChunkShape, Grid};
///
/// let shape = ChunkShape::new(&[10.0, 10.0]).unwrap();
/// let grid = Grid::new(&[-1, 0], &[3, 2]).unwrap();
/// let all = BoundingBox::new(&[-1e300, -1e300], &[1e300, 15.0]).unwrap();
/// let range = shape.chunks_meeting(&all).unwrap().intersection(&grid.chunks()).unwrap();
/// assert_eq!(range.count(), Some(6));
/// assert_eq!(range.iter().next().unwrap().to_string(), "-1.0");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkRange {
    low: [i64; MAX_RANK],  // zero from `rank` on
    high: [i64; MAX_RANK], // as `low`; nowhere below it unless `empty`
    rank: u8,              // 1 to MAX_RANK
    empty: bool,
}

impl ChunkRange {
    /// Returns whether there are no chunks.
    pub const fn is_empty(&self) -> bool {
        self.empty
    }

    /// Returns how many axes there are.
    pub fn rank(&self) -> usize {
        self.rank.into()
    }

    /// Returns the first and the last chunk on an axis.
    pub fn axis(&self, axis: usize) -> Option<(i64, i64)> {
        if self.empty || axis >= self.rank() {
            return None;
        }
        Some((*self.low.get(axis)?, *self.high.get(axis)?))
    }

    /// Returns the number of chunks, or `None` from 2^64 on.
    pub fn count(&self) -> Option<u64> {
        if self.empty {
            return Some(0);
        }
        self.axes().try_fold(1_u64, |count, (low, high)| {
            count.checked_mul(high.abs_diff(low).checked_add(1)?)
        })
    }

    /// Returns whether a chunk is in the range. If the key has one more component, the first is the
    /// bin of an attribute and may have any value.
    pub fn contains(&self, key: &ChunkKey) -> bool {
        let extra = key.rank().checked_sub(self.rank());
        let inside = |components: &[i64]| {
            let mut pairs = self.axes().zip(components);
            pairs.all(|((low, high), component)| (low..=high).contains(component))
        };
        !self.empty && matches!(extra, Some(0 | 1)) && key.spatial(self.rank()).is_some_and(inside)
    }

    /// Returns the chunks that are in both ranges.
    ///
    /// # Errors
    ///
    /// When `other` has another rank.
    pub fn intersection(&self, other: &Self) -> Result<Self, FormatError> {
        if self.rank != other.rank {
            let expected = Expected::Exactly(self.rank.into());
            return Err(refuse(Class::BadShape, "rank", expected, other.rank()));
        }
        Ok(Self::from_fn(self.rank, |axis| {
            let ((low, high), (first, last)) = (self.axis(axis)?, other.axis(axis)?);
            Some((low.max(first), high.min(last)))
        }))
    }

    /// Returns an iterator over the chunks in numeric order.
    pub fn iter(&self) -> impl Iterator<Item = ChunkKey> + use<> {
        let range = *self;
        let mut next = (!self.empty).then_some(self.low);
        core::iter::from_fn(move || {
            let corner = next?;
            next = range.next_corner(corner);
            Some(ChunkKey::from_checked(corner, range.rank))
        })
    }

    /// Creates the range of `rank` axes, 1 to [`MAX_RANK`], with these ends; empty if an axis has
    /// no ends, or its last chunk lies before its first.
    pub(super) fn from_fn(rank: u8, mut ends: impl FnMut(usize) -> Option<(i64, i64)>) -> Self {
        let mut range = Self { low: [0; MAX_RANK], high: [0; MAX_RANK], rank, empty: false };
        let axes = range.low.iter_mut().zip(&mut range.high);
        for (axis, (low, high)) in axes.take(rank.into()).enumerate() {
            match ends(axis) {
                Some((first, last)) if first <= last => (*low, *high) = (first, last),
                _ => range.empty = true,
            }
        }
        range
    }

    fn axes(&self) -> impl Iterator<Item = (i64, i64)> {
        self.low.iter().copied().zip(self.high.iter().copied()).take(self.rank())
    }

    /// Returns the corner after `corner`; the last axis varies fastest.
    fn next_corner(&self, mut corner: [i64; MAX_RANK]) -> Option<[i64; MAX_RANK]> {
        let ends = self.low.iter().zip(&self.high);
        let axes = corner.iter_mut().zip(ends).take(self.rank());
        for (at, (low, high)) in axes.rev() {
            if *at < *high {
                *at = at.saturating_add(1); // at most `high`
                return Some(corner);
            }
            *at = *low;
        }
        None
    }
}

impl Grid {
    /// Returns all cells.
    pub fn chunks(&self) -> ChunkRange {
        ChunkRange::from_fn(self.rank, |axis| {
            let (first, cells) = (*self.origin().get(axis)?, self.shape().get(axis)?);
            Some((first, first.checked_add_unsigned(cells.checked_sub(1)?)?))
        })
    }
}
