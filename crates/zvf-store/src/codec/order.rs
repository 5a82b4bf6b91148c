//! The order of bytes in an item and of items in a chunk: decodes the codecs `bytes` and
//! `transpose`.
//!
//! The output of this module is little-endian and in C order. Lengths were compared with the shape
//! before.

use bytes::Bytes;
use zvf_format::num::saturating_usize;
use zvf_metadata::{ArrayDoc, DataTypeKind, Dtype, DtypeKind};

use super::Packing;

/// The packing of the items of a chunk: item size, byte order, axis order.
#[derive(Debug)]
pub(crate) struct Items {
    shape: Box<[usize]>, // of a chunk; what does not fit into memory is of no chunk
    width: usize,
    swapped: Option<usize>, // bytes of a unit, where these are stored with the most significant first
    order: Option<Box<[usize]>>,
}

impl Items {
    /// Returns the packing of the array of `doc`; `None` if items have no fixed size.
    pub(crate) fn new(packing: &Packing, doc: &ArrayDoc) -> Option<Self> {
        let Packing::Items { big_endian, order } = packing else { return None };
        let (width, unit) = match doc.data_type.kind() {
            DataTypeKind::Fixed(dtype) => (dtype.size, unit(*dtype)),
            DataTypeKind::PaddedBytes(size) => (*size, 1),
            DataTypeKind::VariableLengthBytes | DataTypeKind::Other(_) => return None,
        };
        let extents = doc.inner_chunk_shape().iter();
        Some(Self {
            shape: extents.map(|&extent| saturating_usize(extent)).collect(),
            width: saturating_usize(width),
            swapped: (*big_endian && unit > 1).then_some(unit),
            order: order.clone(),
        })
    }

    /// Returns the byte length of a chunk; `None` if it does not fit in memory.
    pub(crate) fn chunk_len(&self) -> Option<usize> {
        self.shape.iter().try_fold(self.width, |bytes, extent| bytes.checked_mul(*extent))
    }

    /// Returns whether items are stored as they are returned, row after row.
    pub(crate) fn is_in_order(&self) -> bool {
        self.order.is_none()
    }

    /// Decodes the items of a chunk.
    pub(crate) fn unpack(&self, stored: Bytes) -> Bytes {
        let items = match &self.order {
            None => stored,
            Some(order) => untranspose(&stored, &self.shape, order, self.width).into(),
        };
        self.swap(items)
    }

    /// Encodes a chunk of these items.
    pub(crate) fn pack(&self, items: Bytes) -> Bytes {
        self.swap(match &self.order {
            None => items,
            Some(order) => transpose(&items, &self.shape, order, self.width).into(),
        })
    }

    /// Reverses the bytes of items if they are stored in the other byte order.
    pub(crate) fn swap(&self, items: Bytes) -> Bytes {
        match self.swapped {
            Some(unit) => swap_units(items, unit),
            None => items,
        }
    }
}

/// Reverses the bytes of items.
pub(crate) fn swap_items(items: Bytes, dtype: Dtype) -> Bytes {
    match unit(dtype) {
        0 | 1 => items,
        unit => swap_units(items, unit),
    }
}

/// Returns the byte-order unit of an item: four bytes for text, otherwise the whole item.
fn unit(dtype: Dtype) -> usize {
    if dtype.kind == DtypeKind::Text { 4 } else { saturating_usize(dtype.size) }
}

fn swap_units(items: Bytes, unit: usize) -> Bytes {
    let mut items = Vec::from(items);
    swap(&mut items, unit);
    items.into()
}

/// Reverses every unit of `width` bytes in place.
fn swap(items: &mut [u8], width: usize) {
    items.chunks_exact_mut(width).for_each(<[u8]>::reverse);
}

/// Returns the items of `stored` in C order of `shape`; axis `i` of the stored data is axis
/// `order[i]` of the array.
fn untranspose(stored: &[u8], shape: &[usize], order: &[usize], width: usize) -> Vec<u8> {
    if stored.is_empty() {
        return Vec::new();
    }
    // No axis is empty, and together they have the length of `stored`: no position wraps.
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

/// Returns `items`, which are in C order of `shape`, in stored order; axis `i` of the stored data
/// is axis `order[i]` of the array.
fn transpose(items: &[u8], shape: &[usize], order: &[usize], width: usize) -> Vec<u8> {
    let stored: Vec<usize> = order.iter().map(|&axis| shape[axis]).collect();
    let mut back = vec![0; order.len()];
    for (at, &axis) in order.iter().enumerate() {
        back[axis] = at;
    }
    // C order of the array is another axis order of the stored data.
    untranspose(items, &stored, &back, width)
}

/// Returns the distance in bytes between neighbouring items along each axis of the array.
fn steps(shape: &[usize], order: &[usize], width: usize) -> Vec<usize> {
    let mut steps = vec![0; shape.len()];
    let mut step = width;
    for &axis in order.iter().rev() {
        steps[axis] = step;
        step = step.wrapping_mul(shape[axis]); // at most the length of all items
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
            // Stored axis 0 is axis 2 of the array, and so on: item (i, j, k) is at 2k + i.
            (&[2, 1, 3], &[2, 0, 1], 1, b"adbecf", b"abcdef"),
            (&[], &[], 1, b"a", b"a"),
        ];
        for (shape, order, width, stored, items) in table {
            assert_eq!(untranspose(stored, shape, order, width), items, "{shape:?} {order:?}");
            assert_eq!(transpose(items, shape, order, width), stored, "{shape:?} {order:?}");
        }
    }
}
