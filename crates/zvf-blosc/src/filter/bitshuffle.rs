//! Bitshuffle: all lowest bits of the items' first bytes, then the next bits, and so on.
//!
//! ```text
//! row 8j + k, of n/8 bytes: bit k of byte j of every item, item i in bit i mod 8 of byte i/8
//! ```
//!
//! `n` is the number of items, rounded down to a multiple of 8. Of eight items at a time, each byte
//! forms a matrix of 8 x 8 bits that is transposed. All positions are inside of the block.

use core::array;

use super::shuffle::eights;

/// Collects the bits of each item again.
pub(super) fn undo(typesize: usize, from: &[u8], to: &mut [u8]) {
    let groups = from.len().checked_div(typesize).unwrap_or(0) / 8;
    let group_len = typesize.saturating_mul(8);
    let grouped_len = groups.saturating_mul(group_len);
    let (rows, rest) = from.split_at_checked(grouped_len).unwrap_or((&[], from));
    let (items, tail) = to.split_at_mut_checked(grouped_len).unwrap_or((&mut [], &mut []));
    tail.copy_from_slice(rest);
    if grouped_len == 0 {
        return;
    }
    // Eight rows are the bits of one byte of the items.
    for (j, rows) in rows.chunks_exact(groups.saturating_mul(8)).enumerate() {
        let row = |k: usize| {
            let start = k.saturating_mul(groups);
            rows.get(start..start.saturating_add(groups)).unwrap_or_default()
        };
        for (group, bits) in items.chunks_exact_mut(group_len).zip(eights(array::from_fn(row))) {
            let turned = turn(u64::from_le_bytes(bits)).to_le_bytes();
            for (byte, turned) in group.iter_mut().skip(j).step_by(typesize).zip(turned) {
                *byte = turned;
            }
        }
    }
}

/// Distributes the bits of each item: the inverse of [`undo`].
pub(super) fn apply(typesize: usize, from: &[u8], to: &mut [u8]) {
    let groups = from.len().checked_div(typesize).unwrap_or(0) / 8;
    let group_len = typesize.saturating_mul(8);
    let grouped_len = groups.saturating_mul(group_len);
    let (items, rest) = from.split_at_checked(grouped_len).unwrap_or((&[], from));
    let (rows, tail) = to.split_at_mut_checked(grouped_len).unwrap_or((&mut [], &mut []));
    tail.copy_from_slice(rest);
    if grouped_len == 0 {
        return;
    }
    for (j, rows) in rows.chunks_exact_mut(groups.saturating_mul(8)).enumerate() {
        for (at, group) in items.chunks_exact(group_len).enumerate() {
            let mut bits = [0; 8];
            for (byte, from) in bits.iter_mut().zip(group.iter().skip(j).step_by(typesize)) {
                *byte = *from;
            }
            let turned = turn(u64::from_le_bytes(bits)).to_le_bytes();
            for (row, turned) in rows.iter_mut().skip(at).step_by(groups).zip(turned) {
                *row = turned;
            }
        }
    }
}

/// Transposes a matrix: bit `i` of byte `k` becomes bit `k` of byte `i`.
const fn turn(bits: u64) -> u64 {
    let bits = swap(bits, 7, 0x00aa_00aa_00aa_00aa);
    let bits = swap(bits, 14, 0x0000_cccc_0000_cccc);
    swap(bits, 28, 0x0000_0000_f0f0_f0f0)
}

/// Swaps the bits under `mask` with those `by` places higher.
const fn swap(bits: u64, by: u32, mask: u64) -> u64 {
    let differ = (bits ^ (bits >> by)) & mask;
    bits ^ differ ^ (differ << by)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn golden() {
        // Eight items of one byte, 1 2 3 .. 8: lowest bits 1010 1010 from item 0 on, and so on.
        let rows = [0b0101_0101, 0b0110_0110, 0b0111_1000, 0b1000_0000, 0, 0, 0, 0];
        let mut items = [0; 8];
        undo(1, &rows, &mut items);
        assert_eq!(items, [1, 2, 3, 4, 5, 6, 7, 8]);

        // Seven items are no group: they are unchanged.
        let mut same = [0; 7];
        undo(1, &rows[..7], &mut same);
        assert_eq!(same, rows[..7]);
    }

    proptest! {
        #[test]
        fn each_bit_at_its_place(typesize in 1_usize..9, block in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut out = vec![0; block.len()];
            undo(typesize, &block, &mut out);
            let n = block.len() / typesize / 8 * 8;
            let bit = |bytes: &[u8], at: usize| bytes[at / 8] >> (at % 8) & 1;
            for i in 0..n {
                for j in 0..typesize {
                    for k in 0..8 {
                        let row = (8 * j + k) * (n / 8);
                        let stored = bit(&block, row * 8 + i);
                        prop_assert_eq!(bit(&out, (i * typesize + j) * 8 + k), stored);
                    }
                }
            }
            prop_assert_eq!(&out[n * typesize..], &block[n * typesize..]);
            let mut again = vec![0; block.len()];
            apply(typesize, &out, &mut again);
            prop_assert_eq!(again, block);
        }
    }
}
