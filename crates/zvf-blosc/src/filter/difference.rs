//! Delta and byte delta: differences between elements are stored.
//!
//! Delta takes the exclusive or: in block 0 with the element before, in the other blocks with the
//! element at the same position of block 0. Byte delta subtracts the byte before, in each of as
//! many lanes as an item has bytes; it follows a shuffle.

/// Returns the bytes of an element of delta: 1 to 8.
const fn delta_width(typesize: usize) -> usize {
    match typesize {
        1 | 2 | 4 | 8 => typesize,
        _ if typesize.is_multiple_of(8) => 8,
        _ => 1,
    }
}

/// Applies delta, where `first` is the decoded block 0 unless this is that block.
pub(super) fn apply_delta(typesize: usize, first: Option<&[u8]>, block: &mut [u8]) {
    delta(typesize, first, block, |before, _| before);
}

/// Undoes delta, where `first` is the decoded block 0 unless this is that block.
pub(super) fn undo_delta(typesize: usize, first: Option<&[u8]>, block: &mut [u8]) {
    delta(typesize, first, block, |_, after| after);
}

/// Applies or undoes delta, since exclusive or is its own inverse: the two directions differ in
/// which byte of an element, before or after, is the `plain` one for the next element.
fn delta(typesize: usize, first: Option<&[u8]>, block: &mut [u8], plain: impl Fn(u8, u8) -> u8) {
    let width = delta_width(typesize);
    let len = block.len().checked_div(width).unwrap_or(0).saturating_mul(width);
    let (elements, _rest) = block.split_at_mut_checked(len).unwrap_or_default();
    if let Some(first) = first {
        for (byte, first_byte) in elements.iter_mut().zip(first) {
            *byte ^= *first_byte;
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
    // With fewer bytes than lanes, each sum is one byte.
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
