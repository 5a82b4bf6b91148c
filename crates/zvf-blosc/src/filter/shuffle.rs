//! Shuffle: all first bytes of the items, then all second ones, and so on.
//!
//! ```text
//! lane j, of n bytes: byte j of item 0, of item 1, ... of item n - 1
//! ```
//!
//! Widths of 2, 4 and 8 are written out, because those loops become vector code.

use core::iter;

/// Brings the bytes of each item together again.
pub(super) fn undo(width: usize, from: &[u8], to: &mut [u8]) {
    let n = from.len().checked_div(width).unwrap_or(0);
    let whole = n.saturating_mul(width);
    let (lanes, rest) = from.split_at_checked(whole).unwrap_or((&[], from));
    let (items, tail) = to.split_at_mut_checked(whole).unwrap_or((&mut [], &mut []));
    tail.copy_from_slice(rest);
    match width {
        0 | 1 => items.copy_from_slice(lanes),
        2 => join(items, pairs(lanes, n)),
        4 => join(items, fours(lanes, n)),
        8 => join(items, eights(lanes, n)),
        _ => strided(width, lanes, n, items),
    }
}

/// Takes the bytes of each item apart: the inverse of [`undo`].
pub(super) fn apply(width: usize, from: &[u8], to: &mut [u8]) {
    let n = from.len().checked_div(width).unwrap_or(0);
    let whole = n.saturating_mul(width);
    let (items, rest) = from.split_at_checked(whole).unwrap_or((&[], from));
    let (lanes, tail) = to.split_at_mut_checked(whole).unwrap_or((&mut [], &mut []));
    tail.copy_from_slice(rest);
    match width {
        0 | 1 => lanes.copy_from_slice(items),
        2 => part::<2>(items, lanes, n),
        4 => part::<4>(items, lanes, n),
        8 => part::<8>(items, lanes, n),
        _ => {
            for (j, lane) in lanes.chunks_exact_mut(n.max(1)).enumerate() {
                for (byte, from) in lane.iter_mut().zip(items.iter().skip(j).step_by(width)) {
                    *byte = *from;
                }
            }
        }
    }
}

fn part<const W: usize>(items: &[u8], lanes: &mut [u8], n: usize) {
    for (j, lane) in lanes.chunks_exact_mut(n.max(1)).enumerate() {
        for (byte, item) in lane.iter_mut().zip(items.as_chunks::<W>().0) {
            *byte = item.get(j).copied().unwrap_or(0); // j is below W
        }
    }
}

fn join<const W: usize>(items: &mut [u8], joined: impl Iterator<Item = [u8; W]>) {
    for (item, joined) in items.as_chunks_mut::<W>().0.iter_mut().zip(joined) {
        *item = joined;
    }
}

fn pairs(lanes: &[u8], n: usize) -> impl Iterator<Item = [u8; 2]> {
    let (a, b) = lanes.split_at_checked(n).unwrap_or_default();
    iter::zip(a, b).map(|(a, b)| [*a, *b])
}

fn fours(lanes: &[u8], n: usize) -> impl Iterator<Item = [u8; 4]> {
    let (ab, cd) = lanes.split_at_checked(n.saturating_mul(2)).unwrap_or_default();
    iter::zip(pairs(ab, n), pairs(cd, n)).map(|([a, b], [c, d])| [a, b, c, d])
}

/// The first bytes of eight lanes of `n` bytes, then the second ones, and so on.
pub(super) fn eights(lanes: &[u8], n: usize) -> impl Iterator<Item = [u8; 8]> {
    let (low, high) = lanes.split_at_checked(n.saturating_mul(4)).unwrap_or_default();
    iter::zip(fours(low, n), fours(high, n))
        .map(|([a, b, c, d], [e, f, g, h])| [a, b, c, d, e, f, g, h])
}

fn strided(width: usize, lanes: &[u8], n: usize, items: &mut [u8]) {
    for (j, lane) in lanes.chunks_exact(n.max(1)).enumerate() {
        for (byte, from) in items.iter_mut().skip(j).step_by(width).zip(lane) {
            *byte = *from;
        }
    }
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
        fn each_byte_at_its_place(width in 1_usize..20, block in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut out = vec![0; block.len()];
            undo(width, &block, &mut out);
            let n = block.len() / width;
            for (at, byte) in out.iter().enumerate() {
                let (i, j) = (at / width, at % width);
                let from = if i < n { j * n + i } else { at };
                prop_assert_eq!(*byte, block[from]);
            }
            let mut again = vec![0; block.len()];
            apply(width, &out, &mut again);
            prop_assert_eq!(again, block);
        }
    }
}
