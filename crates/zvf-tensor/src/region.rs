//! Boxes of items, and copying the intersection of two.
//!
//! Items are in C order. Copies go run by run along the last axis, between buffers of the size of
//! their boxes.

use zvf_format::num::saturating_usize;

/// A box from `start` to below `stop` on every axis; both of one length, no stop before its start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Region {
    pub(crate) start: Vec<u64>,
    pub(crate) stop: Vec<u64>,
}

impl Region {
    fn axes(&self) -> impl ExactSizeIterator<Item = (u64, u64)> + DoubleEndedIterator {
        self.start.iter().copied().zip(self.stop.iter().copied())
    }

    /// Returns the number of items; saturates at `u64::MAX`.
    pub(crate) fn items(&self) -> u64 {
        let extents = self.axes().map(|(start, stop)| stop - start);
        extents.fold(1, u64::saturating_mul)
    }

    /// Returns the intersection; empty, not negative, if there are no common items.
    pub(crate) fn intersection(&self, other: &Self) -> Self {
        let start: Vec<u64> = self.axes().zip(other.axes()).map(|(a, b)| a.0.max(b.0)).collect();
        let stop = self.axes().zip(other.axes()).zip(&start);
        let stop = stop.map(|((a, b), start)| a.1.min(b.1).max(*start)).collect();
        Self { start, stop }
    }

    /// Returns the box of all items of an array.
    pub(crate) fn whole(shape: &[u64]) -> Self {
        Self { start: vec![0; shape.len()], stop: shape.to_vec() }
    }

    /// Returns the part inside of an array.
    pub(crate) fn clamp_to(&self, shape: &[u64]) -> Self {
        self.intersection(&Self::whole(shape))
    }

    /// Returns whether the box lies inside an array of this shape.
    pub(crate) fn is_inside(&self, shape: &[u64]) -> bool {
        let mut axes = self.axes().zip(shape);
        self.start.len() == shape.len()
            && axes.all(|((start, stop), extent)| start <= stop && stop <= *extent)
    }

    /// Returns whether they intersect.
    pub(crate) fn meets(&self, other: &Self) -> bool {
        self.intersection(other).items() > 0
    }

    /// Returns whether it contains `other`.
    pub(crate) fn holds(&self, other: &Self) -> bool {
        self.intersection(other) == *other
    }

    /// Advances to the next item of the box, or of its first axes, last axis fastest; returns
    /// `false` after the last.
    pub(crate) fn advance(&self, at: &mut [u64]) -> bool {
        for (at, (start, stop)) in at.iter_mut().zip(self.axes()).rev() {
            *at += 1;
            if *at < stop {
                return true;
            }
            *at = start;
        }
        false
    }

    /// Returns the index of an item in this box.
    fn place(&self, at: &[u64]) -> u64 {
        let axes = self.axes().zip(at);
        axes.fold(0, |place, ((start, stop), at)| {
            let extent = stop - start;
            place * extent + (at - start)
        })
    }
}

/// Copies items of `item` bytes from one box to another, where they intersect.
pub(crate) fn paste(item: usize, from: (&[u8], &Region), to: (&mut [u8], &Region)) {
    let ((source, from), (target, to)) = (from, to);
    let common = from.intersection(to);
    if common.items() == 0 {
        return;
    }
    let run = common.axes().last().map_or(1, |(start, stop)| stop - start);
    let len = saturating_usize(run) * item;
    let mut at = common.start.clone();
    let outer = at.len().saturating_sub(1); // without axes there is one run
    loop {
        let [read, write] = [from, to].map(|place| saturating_usize(place.place(&at)) * item);
        target[write..write + len].copy_from_slice(&source[read..read + len]);
        if !common.advance(&mut at[..outer]) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(start: &[u64], stop: &[u64]) -> Region {
        Region { start: start.to_vec(), stop: stop.to_vec() }
    }

    #[test]
    fn boxes_are_intersected() {
        let (a, b) = (region(&[0, 2], &[4, 5]), region(&[3, 0], &[9, 3]));
        assert_eq!(a.intersection(&b), region(&[3, 2], &[4, 3]));
        assert!(a.meets(&b) && !a.holds(&b) && a.holds(&region(&[3, 2], &[4, 3])));
        assert!(!a.meets(&region(&[4, 2], &[5, 3])));
        assert_eq!(a.items(), 12);
        assert!(a.is_inside(&[4, 5]) && !a.is_inside(&[4, 4]) && !a.is_inside(&[4]));
        assert_eq!(a.clamp_to(&[2, 3]), region(&[0, 2], &[2, 3]));
        assert!(region(&[], &[]).meets(&region(&[], &[])));
    }

    #[test]
    fn runs_are_pasted() {
        let source: Vec<u8> = (0..12).collect(); // 4 x 3, at (0, 2)
        let mut target = [99; 8]; // 2 x 4, at (2, 3)
        let (from, to) = (region(&[0, 2], &[4, 5]), region(&[2, 3], &[4, 7]));
        paste(1, (&source, &from), (&mut target, &to));
        assert_eq!(target, [7, 8, 99, 99, 10, 11, 99, 99]);

        let mut scalar = [0; 2];
        paste(2, (b"ab", &region(&[], &[])), (&mut scalar, &region(&[], &[])));
        assert_eq!(&scalar, b"ab");
    }
}
