//! The order of bytes in an item and of items in a chunk: the codecs `bytes` and `transpose`, decoded.
//!
//! What leaves this module is little-endian and in C order. Lengths were compared with the
//! shape before.

/// Turns every item of `width` bytes around, in place.
pub(crate) fn swap(items: &mut [u8], width: usize) {
    if width > 1 {
        items.chunks_exact_mut(width).for_each(<[u8]>::reverse);
    }
}

/// Returns the items of `stored` in C order of `shape`, when axis `i` of what is stored is axis
/// `order[i]` of the array.
pub(crate) fn untranspose(
    stored: &[u8],
    shape: &[usize],
    order: &[usize],
    width: usize,
) -> Vec<u8> {
    if stored.is_empty() {
        return Vec::new();
    }
    // No axis is empty, and all of them together are as long as `stored`: no position wraps.
    let steps = steps(shape, order, width);
    let mut items = Vec::with_capacity(stored.len());
    let mut index = vec![0_usize; shape.len()];
    let mut at = 0_usize;
    while let Some(item) = at.checked_add(width).and_then(|end| stored.get(at..end)) {
        items.extend_from_slice(item);
        let mut axes = index.iter_mut().zip(shape).zip(&steps).rev();
        loop {
            let Some(((index, &extent), &step)) = axes.next() else { return items };
            *index = index.wrapping_add(1);
            if *index < extent {
                at = at.wrapping_add(step);
                break;
            }
            *index = 0;
            at = at.wrapping_sub(step.wrapping_mul(extent.wrapping_sub(1)));
        }
    }
    items
}

/// Returns the items of `items`, which are in C order of `shape`, as they are stored when axis `i` of what is stored
/// is axis `order[i]` of the array.
pub(crate) fn transpose(items: &[u8], shape: &[usize], order: &[usize], width: usize) -> Vec<u8> {
    let stored: Vec<usize> = order.iter().filter_map(|&axis| shape.get(axis).copied()).collect();
    let mut back = vec![0; order.len()];
    for (at, &axis) in order.iter().enumerate() {
        if let Some(slot) = back.get_mut(axis) {
            *slot = at;
        }
    }
    // What is C order of the array is another order of the axes as they are stored.
    untranspose(items, &stored, &back, width)
}

/// Returns the bytes from one item to its neighbour along each axis of the array.
fn steps(shape: &[usize], order: &[usize], width: usize) -> Vec<usize> {
    let mut steps = vec![0; shape.len()];
    let mut step = width;
    for &axis in order.iter().rev() {
        if let (Some(free), Some(extent)) = (steps.get_mut(axis), shape.get(axis)) {
            *free = step;
            step = step.wrapping_mul(*extent); // at most the length of all items
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_byte_swapped() {
        for (width, swapped) in [(1, *b"abcdef"), (2, *b"badcfe"), (3, *b"cbafed")] {
            let mut items = *b"abcdef";
            swap(&mut items, width);
            assert_eq!(items, swapped);
        }
    }

    #[test]
    fn axes_are_transposed_back() {
        type Row<'a> = (&'a [usize], &'a [usize], usize, &'a [u8], &'a [u8]);
        #[rustfmt::skip]
        let table: [Row<'_>; 5] = [
            (&[2, 3], &[0, 1], 1, b"abcdef", b"abcdef"),
            (&[2, 3], &[1, 0], 1, b"adbecf", b"abcdef"),
            (&[2, 3], &[1, 0], 2, b"aADdbBEecCFf", b"aAbBcCDdEeFf"),
            // Stored axis 0 is axis 2 of the array, and so on: item (i, j, k) lies at 2k + i.
            (&[2, 1, 3], &[2, 0, 1], 1, b"adbecf", b"abcdef"),
            (&[], &[], 1, b"a", b"a"),
        ];
        for (shape, order, width, stored, items) in table {
            assert_eq!(untranspose(stored, shape, order, width), items, "{shape:?} {order:?}");
            assert_eq!(transpose(items, shape, order, width), stored, "{shape:?} {order:?}");
        }
    }
}
