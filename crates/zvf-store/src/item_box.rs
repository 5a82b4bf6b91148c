//! Boxes of items, and copying the intersection of two.
//!
//! Items are in C order. Copies go run by run along the last axis, between buffers of the size of
//! their boxes.

use zvf_format::num::saturating_usize;

/// A box from `start` to below `stop` on every axis; both of one length, no stop before its start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemBox {
    /// The first index on each axis.
    pub start: Vec<u64>,
    /// One past the last.
    pub stop: Vec<u64>,
}

impl ItemBox {
    fn axes(&self) -> impl ExactSizeIterator<Item = (u64, u64)> + DoubleEndedIterator {
        self.start.iter().copied().zip(self.stop.iter().copied())
    }

    /// Returns the number of items; saturates at `u64::MAX`.
    pub fn items(&self) -> u64 {
        let extents = self.axes().map(|(start, stop)| stop - start);
        extents.fold(1, u64::saturating_mul)
    }

    /// Returns the intersection; empty, not negative, if there are no common items.
    pub fn intersection(&self, other: &Self) -> Self {
        let start: Vec<u64> = self.axes().zip(other.axes()).map(|(a, b)| a.0.max(b.0)).collect();
        let stop = self.axes().zip(other.axes()).zip(&start);
        let stop = stop.map(|((a, b), start)| a.1.min(b.1).max(*start)).collect();
        Self { start, stop }
    }

    /// Returns the box of all items of an array.
    pub fn whole(shape: &[u64]) -> Self {
        Self { start: vec![0; shape.len()], stop: shape.to_vec() }
    }

    /// Returns the part inside of an array.
    pub fn clamp_to(&self, shape: &[u64]) -> Self {
        self.intersection(&Self::whole(shape))
    }

    /// Returns whether the box lies inside an array of this shape.
    pub fn is_inside(&self, shape: &[u64]) -> bool {
        let mut axes = self.axes().zip(shape);
        self.start.len() == shape.len()
            && axes.all(|((start, stop), extent)| start <= stop && stop <= *extent)
    }

    /// Returns whether they intersect.
    pub fn meets(&self, other: &Self) -> bool {
        self.intersection(other).items() > 0
    }

    /// Returns whether it contains `other`.
    pub fn holds(&self, other: &Self) -> bool {
        self.intersection(other) == *other
    }

    /// Returns the indexes of the items, last axis fastest.
    pub fn indexes(&self) -> impl Iterator<Item = Vec<u64>> {
        let first = (self.items() > 0).then(|| self.start.clone());
        std::iter::successors(first, |at| {
            let mut next = at.clone();
            self.advance(&mut next).then_some(next)
        })
    }

    /// Advances to the next item of the box, or of its first axes, last axis fastest; returns
    /// `false` after the last.
    pub fn advance(&self, at: &mut [u64]) -> bool {
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
pub fn paste_items(item: usize, from: (&[u8], &ItemBox), to: (&mut [u8], &ItemBox)) {
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

    fn item_box(start: &[u64], stop: &[u64]) -> ItemBox {
        ItemBox { start: start.to_vec(), stop: stop.to_vec() }
    }

    #[test]
    fn boxes_are_intersected() {
        let (a, b) = (item_box(&[0, 2], &[4, 5]), item_box(&[3, 0], &[9, 3]));
        assert_eq!(a.intersection(&b), item_box(&[3, 2], &[4, 3]));
        assert!(a.meets(&b) && !a.holds(&b) && a.holds(&item_box(&[3, 2], &[4, 3])));
        assert!(!a.meets(&item_box(&[4, 2], &[5, 3])));
        assert_eq!(a.items(), 12);
        assert!(a.is_inside(&[4, 5]) && !a.is_inside(&[4, 4]) && !a.is_inside(&[4]));
        assert_eq!(a.clamp_to(&[2, 3]), item_box(&[0, 2], &[2, 3]));
        assert!(item_box(&[], &[]).meets(&item_box(&[], &[])));
        let items: Vec<Vec<u64>> = item_box(&[2, 0], &[4, 2]).indexes().collect();
        assert_eq!(items, [[2, 0], [2, 1], [3, 0], [3, 1]]);
        assert_eq!(item_box(&[2, 0], &[4, 0]).indexes().count(), 0);
        assert_eq!(item_box(&[], &[]).indexes().count(), 1);
    }

    #[test]
    fn runs_are_pasted() {
        let source: Vec<u8> = (0..12).collect(); // 4 x 3, at (0, 2)
        let mut target = [99; 8]; // 2 x 4, at (2, 3)
        let (from, to) = (item_box(&[0, 2], &[4, 5]), item_box(&[2, 3], &[4, 7]));
        paste_items(1, (&source, &from), (&mut target, &to));
        assert_eq!(target, [7, 8, 99, 99, 10, 11, 99, 99]);

        let mut scalar = [0; 2];
        paste_items(2, (b"ab", &item_box(&[], &[])), (&mut scalar, &item_box(&[], &[])));
        assert_eq!(&scalar, b"ab");
    }
}
