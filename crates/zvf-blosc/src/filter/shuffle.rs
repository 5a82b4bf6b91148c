//! Shuffle: all first bytes of the items, then all second ones, and so on.
//!
//! ```text
//! lane j, of n bytes: byte j of item 0, of item 1, ... of item n - 1
//! ```
//!
//! Widths of 2, 4 and 8 are written out, because the compiler vectorises those loops. With the
//! feature `fast-codecs`, these widths and 16 use wider vectors if the machine has them. All
//! positions are inside the block.

#[cfg(all(feature = "fast-codecs", target_arch = "x86_64"))]
mod avx2;

use core::ops::Range;
use core::{array, iter};

/// Collects the bytes of each item again.
pub(super) fn undo(width: usize, from: &[u8], to: &mut [u8]) {
    undo_part(width, from, 0, to);
}

/// Computes the bytes from `at` on of the result of [`undo`] for `from`: as many as `to` has,
/// within bounds.
pub(crate) fn undo_part(width: usize, from: &[u8], at: usize, to: &mut [u8]) {
    let lanes = Lanes::new(from, width);
    // First the rest of an item, then whole items, then the beginning of one.
    let begun = at.checked_rem(lanes.width).filter(|begun| *begun > 0);
    let head = begun.map_or(0, |begun| lanes.width.saturating_sub(begun));
    let (head, rest) = to.split_at_mut_checked(head.min(to.len())).unwrap_or_default();
    let first = at.saturating_add(head.len());
    lanes.copy_bytes(at, head);
    let items = first.checked_div(lanes.width).unwrap_or(0);
    let room = rest.len().checked_div(lanes.width).unwrap_or(0);
    let items = items..items.saturating_add(room).min(lanes.n.max(items));
    let whole = items.len().saturating_mul(lanes.width);
    let (whole, tail) = rest.split_at_mut_checked(whole).unwrap_or_default();
    lanes.copy_bytes(first.saturating_add(whole.len()), tail);
    lanes.join(items, whole);
}

/// A block of shuffled items.
#[derive(Clone, Copy)]
struct Lanes<'a> {
    block: &'a [u8],
    width: usize, // not 0
    n: usize,     // bytes per lane
}

impl<'a> Lanes<'a> {
    fn new(block: &'a [u8], width: usize) -> Self {
        let width = width.max(1);
        Self { block, width, n: block.len().checked_div(width).unwrap_or(0) }
    }

    /// Returns byte `j` of each of `items`.
    fn lane(self, j: usize, items: &Range<usize>) -> &'a [u8] {
        let start = j.saturating_mul(self.n);
        let lane = start.saturating_add(items.start)..start.saturating_add(items.end);
        self.block.get(lane).unwrap_or_default()
    }

    /// Collects the bytes from `at` on, one by one.
    fn copy_bytes(self, at: usize, to: &mut [u8]) {
        for (at, byte) in (at..).zip(to) {
            let item = at.checked_div(self.width).filter(|item| *item < self.n);
            let place = item.map_or(at, |item| {
                let j = at.checked_rem(self.width).unwrap_or(0);
                j.saturating_mul(self.n).saturating_add(item)
            });
            *byte = self.block.get(place).copied().unwrap_or(0);
        }
    }

    /// Fills `to` with `items`, which have its length.
    fn join(self, items: Range<usize>, to: &mut [u8]) {
        let done = vectors::join(self, &items, to);
        let items = items.start.saturating_add(done)..items.end;
        let done = done.saturating_mul(self.width);
        let to = to.get_mut(done..).unwrap_or_default();
        let lane = |j| self.lane(j, &items);
        match self.width {
            1 => to.copy_from_slice(lane(0)),
            2 => put(to, pairs(array::from_fn(lane))),
            4 => put(to, fours(array::from_fn(lane))),
            8 => put(to, eights(array::from_fn(lane))),
            width => {
                for j in 0..width {
                    for (byte, from) in to.iter_mut().skip(j).step_by(width).zip(lane(j)) {
                        *byte = *from;
                    }
                }
            }
        }
    }
}

/// Vectors wider than the baseline of the architecture.
#[cfg(all(feature = "fast-codecs", target_arch = "x86_64"))]
use self::avx2 as vectors;

/// No vectors except those of the compiler.
#[cfg(not(all(feature = "fast-codecs", target_arch = "x86_64")))]
mod vectors {
    /// Processes none of the items.
    pub(super) fn join(_: super::Lanes<'_>, _: &core::ops::Range<usize>, _: &mut [u8]) -> usize {
        0
    }

    /// Processes none of the items.
    pub(super) fn part(_: usize, _: &[u8], _: &mut [u8], _: usize) -> usize {
        0
    }
}

/// Distributes the bytes of each item: the inverse of [`undo`].
pub(super) fn apply(width: usize, from: &[u8], to: &mut [u8]) {
    let n = from.len().checked_div(width).unwrap_or(0);
    let whole = n.saturating_mul(width);
    let (items, rest) = from.split_at_checked(whole).unwrap_or((&[], from));
    let (lanes, tail) = to.split_at_mut_checked(whole).unwrap_or((&mut [], &mut []));
    tail.copy_from_slice(rest);
    let done = vectors::part(width, items, lanes, n);
    match width {
        0 | 1 => lanes.copy_from_slice(items),
        2 => part::<2>(items, lanes, n, done),
        4 => part::<4>(items, lanes, n, done),
        8 => part::<8>(items, lanes, n, done),
        _ => {
            for (j, lane) in lanes.chunks_exact_mut(n.max(1)).enumerate() {
                for (byte, from) in lane.iter_mut().zip(items.iter().skip(j).step_by(width)) {
                    *byte = *from;
                }
            }
        }
    }
}

/// Distributes the items from number `done` on.
fn part<const W: usize>(items: &[u8], lanes: &mut [u8], n: usize, done: usize) {
    let items = items.as_chunks::<W>().0.get(done..).unwrap_or_default();
    for (j, lane) in lanes.chunks_exact_mut(n.max(1)).enumerate() {
        for (byte, item) in lane.iter_mut().skip(done).zip(items) {
            *byte = item.get(j).copied().unwrap_or(0); // j is below W
        }
    }
}

fn put<const W: usize>(items: &mut [u8], joined: impl Iterator<Item = [u8; W]>) {
    for (item, joined) in items.as_chunks_mut::<W>().0.iter_mut().zip(joined) {
        *item = joined;
    }
}

fn pairs([a, b]: [&[u8]; 2]) -> impl Iterator<Item = [u8; 2]> {
    iter::zip(a, b).map(|(a, b)| [*a, *b])
}

fn fours([a, b, c, d]: [&[u8]; 4]) -> impl Iterator<Item = [u8; 4]> {
    iter::zip(pairs([a, b]), pairs([c, d])).map(|([a, b], [c, d])| [a, b, c, d])
}

/// Returns the first bytes of eight lanes, then the second ones, and so on.
pub(super) fn eights([a, b, c, d, e, f, g, h]: [&[u8]; 8]) -> impl Iterator<Item = [u8; 8]> {
    iter::zip(fours([a, b, c, d]), fours([e, f, g, h]))
        .map(|([a, b, c, d], [e, f, g, h])| [a, b, c, d, e, f, g, h])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    #[rustfmt::skip]
    fn golden() {
        for (width, from, to) in [
            (1, &b"abcd"[..], &b"abcd"[..]),
            (2, b"acebdf", b"abcdef"),
            (2, b"acebdf!", b"abcdef!"),
            (3, b"adbecf??", b"abcdef??"),
            (4, b"aebfcgdh", b"abcdefgh"),
            (8, b"aibjckdlemfngohp", b"abcdefghijklmnop"),
            (9, b"abcd", b"abcd"),
        ] {
            let mut out = vec![0; from.len()];
            undo(width, from, &mut out);
            assert_eq!(out, to, "width {width}");
        }
    }

    proptest! {
        #[test]
        fn each_byte_at_its_place(
            width in prop_oneof![1_usize..20, prop::sample::select(vec![2, 4, 8, 16])],
            block in prop::collection::vec(any::<u8>(), 0..1300),
            part: [prop::sample::Index; 2],
        ) {
            let mut out = vec![0; block.len()];
            undo(width, &block, &mut out);
            let n = block.len() / width;
            for (at, byte) in out.iter().enumerate() {
                let (i, j) = (at / width, at % width);
                let from = if i < n { j * n + i } else { at };
                prop_assert_eq!(*byte, block[from]);
            }
            let mut part = part.map(|end| end.index(block.len() + 1));
            part.sort();
            let mut some = vec![0; part[1] - part[0]];
            undo_part(width, &block, part[0], &mut some);
            prop_assert_eq!(&some, &out[part[0]..part[1]]);
            let mut again = vec![0; block.len()];
            apply(width, &out, &mut again);
            prop_assert_eq!(again, block);
        }
    }
}
