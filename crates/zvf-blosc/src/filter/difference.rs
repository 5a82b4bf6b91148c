//! Delta and byte delta: what is stored is how an element differs from another.
//!
//! Delta differs by exclusive or, in block 0 from the element before, in the other blocks from the element
//! at the same place of block 0. Byte delta differs by subtraction, from the byte before, in each of as
//! many lanes as an item has bytes; it follows a shuffle.

/// Bytes of an element that delta sees.
const fn delta_width(typesize: usize) -> usize {
    match typesize {
        1 | 2 | 4 | 8 => typesize,
        _ if typesize.is_multiple_of(8) => 8,
        _ => 1,
    }
}

/// Applies delta, where `first` is block 0 as it will be decoded unless this is that block.
pub(super) fn apply_delta(typesize: usize, first: Option<&[u8]>, block: &mut [u8]) {
    delta(typesize, first, block, |before, _| before);
}

/// Undoes delta, where `first` is the decoded block 0 unless this is that block.
pub(super) fn undo_delta(typesize: usize, first: Option<&[u8]>, block: &mut [u8]) {
    delta(typesize, first, block, |_, after| after);
}

/// Exclusive or is its own opposite: the two ways differ in which byte of an element, that before or
/// that after it, is the `plain` one, from which the next element differs.
fn delta(typesize: usize, first: Option<&[u8]>, block: &mut [u8], plain: impl Fn(u8, u8) -> u8) {
    let width = delta_width(typesize);
    let whole = block.len().checked_div(width).unwrap_or(0).saturating_mul(width);
    let (elements, _rest) = block.split_at_mut_checked(whole).unwrap_or_default();
    if let Some(first) = first {
        for (byte, other) in elements.iter_mut().zip(first) {
            *byte ^= *other;
        }
        return;
    }
    let mut last = [0; 8];
    for element in elements.chunks_exact_mut(width) {
        for (byte, last) in element.iter_mut().zip(&mut last) {
            let before = *byte;
            *byte ^= *last;
            *last = plain(before, *byte);
        }
    }
}

/// Applies byte delta over `width` lanes.
pub(super) fn apply_bytes(width: usize, block: &mut [u8]) {
    let lane = block.len().checked_div(width).unwrap_or(0).max(1);
    for lane in block.chunks_exact_mut(lane).take(width) {
        let mut before = 0_u8;
        for byte in lane {
            let plain = *byte;
            *byte = plain.wrapping_sub(before);
            before = plain;
        }
    }
}

/// Undoes byte delta over `width` lanes.
pub(super) fn undo_bytes(width: usize, block: &mut [u8]) {
    // Where there are fewer bytes than lanes, a sum of one byte is that byte.
    let lane = block.len().checked_div(width).unwrap_or(0).max(1);
    for lane in block.chunks_exact_mut(lane).take(width) {
        let mut sum = 0_u8;
        for byte in lane {
            sum = sum.wrapping_add(*byte);
            *byte = sum;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[rustfmt::skip]
    fn delta_in_block_0() {
        for (typesize, stored, decoded) in [
            (1, &[1, 2, 4, 8, 16][..], &[1, 3, 7, 15, 31][..]),
            (2, &[1, 1, 2, 4, 8],      &[1, 1, 3, 5, 8]),
            (3, &[1, 2, 4, 8],         &[1, 3, 7, 15]),
            (16, &[1, 0, 0, 0, 0, 0, 0, 2, 4, 0, 0, 0, 0, 0, 0, 8, 9], &[1, 0, 0, 0, 0, 0, 0, 2, 5, 0, 0, 0, 0, 0, 0, 10, 9]),
        ] {
            let mut block = stored.to_vec();
            undo_delta(typesize, None, &mut block);
            assert_eq!(block, decoded, "{typesize}");
            apply_delta(typesize, None, &mut block);
            assert_eq!(block, stored, "{typesize}");
        }
    }

    #[test]
    fn delta_in_other_blocks() {
        let mut block = [1, 2, 4, 8, 16];
        undo_delta(2, Some(&[7, 7, 7, 7, 7, 7]), &mut block);
        assert_eq!(block, [6, 5, 3, 15, 16]);
        apply_delta(2, Some(&[7, 7, 7, 7, 7, 7]), &mut block);
        assert_eq!(block, [1, 2, 4, 8, 16]);
    }

    #[test]
    #[rustfmt::skip]
    fn bytes() {
        for (width, stored, decoded) in [
            (1, &[1, 1, 255, 1][..], &[1, 2, 1, 2][..]),
            (2, &[1, 1, 5, 1, 9],    &[1, 2, 5, 6, 9]),
            (5, &[1, 2, 3, 4],       &[1, 2, 3, 4]),
        ] {
            let mut block = stored.to_vec();
            undo_bytes(width, &mut block);
            assert_eq!(block, decoded, "{width}");
            apply_bytes(width, &mut block);
            assert_eq!(block, stored, "{width}");
        }
    }
}
