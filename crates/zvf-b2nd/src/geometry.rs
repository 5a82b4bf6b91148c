//! The storage of an array: its partition, and the size of an item.
//!
//! Items, blocks and chunks are numbered with the last axis fastest: chunks in the grid of chunks,
//! blocks in the grid of blocks of one chunk, items in the block. A decoded chunk is its
//! concatenated blocks. All chunks have one size and all blocks have one size, even if they extend
//! beyond the edge.
//!
//! The size of an item is the size of a chunk divided by its padded items. The frame may state 1
//! for items of more than 255 bytes, because the field in a chunk can hold no more.

use core::ops::Deref;

use super::axes::Axes;
use super::partition::{CHUNK_MAX, Partition};
use zvf_format::num;
use zvf_format::{Class, Expected, FormatError, Found, Part};

/// The position of each item of an array.
///
/// ```
/// use zvf_b2nd::{BlockGeometry, Partition};
///
/// let geometry = BlockGeometry::new(Partition::new(&[7, 5], &[4, 3], &[2, 2])?, 4)?;
/// assert_eq!((geometry.chunk_count(), geometry.chunk_size()), (4, 64));
/// assert_eq!((geometry.block_count(), geometry.block_size()), (4, 16));
/// assert_eq!(geometry.chunk_coordinate(2).unwrap().as_slice(), [1, 0]);
/// # Ok::<(), zvf_format::FormatError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockGeometry {
    partition: Partition,
    item_size: u32,  // not 0
    block_size: u32, // bytes, at most i32::MAX
    chunk_size: u32, // bytes, at most i32::MAX
}

impl BlockGeometry {
    /// Creates the geometry of items of `item_size` bytes, divided by `partition`.
    ///
    /// # Errors
    ///
    /// When an item has no bytes, or a padded chunk or a block has more than 2^31 - 1.
    pub fn new(partition: Partition, item_size: u32) -> Result<Self, FormatError> {
        if item_size == 0 {
            return Err(refuse(Class::BadShape, "item size", Expected::AtLeast(1), item_size));
        }
        let chunk_size = bytes("chunk bytes", partition.padded_shape(), item_size)?;
        let block_size = bytes("block bytes", partition.blockshape(), item_size)?;
        Ok(Self { partition, item_size, block_size, chunk_size })
    }

    /// Creates the geometry for the sizes stated in a frame header, all in bytes.
    ///
    /// # Errors
    ///
    /// When `chunk_size` is not a multiple of the padded items, `type_size` is not the size of an
    /// item (or 1 for a large one), or `block_size` is neither 0 nor that of a block. Without
    /// chunks, the chunk and block sizes may be 0, and the item has `type_size` bytes.
    pub fn from_sizes(
        partition: Partition,
        type_size: u32,
        block_size: u32,
        chunk_size: u32,
    ) -> Result<Self, FormatError> {
        let items = partition.padded_shape().product().unwrap_or(u64::MAX); // capped by the partition
        let empty = partition.items() == 0;
        let item_size = if empty && (chunk_size == 0 || items == 0) {
            type_size
        } else {
            item_size(items, chunk_size)?
        };
        if type_size != item_size && !(type_size == 1 && item_size > TYPESIZE_MAX) {
            let expected = Expected::Exactly(item_size.into());
            return Err(refuse(Class::CountMismatch, "type size", expected, type_size));
        }
        let geometry = Self::new(partition, item_size)?;
        if block_size != 0 && block_size != geometry.block_size && !empty {
            let expected = Expected::Exactly(geometry.block_size.into());
            return Err(refuse(Class::CountMismatch, "block size", expected, block_size));
        }
        Ok(geometry)
    }

    /// Returns the size of an item in bytes.
    pub const fn item_size(&self) -> u32 {
        self.item_size
    }

    /// Returns the type size stored in chunks: that of the item, or 1 above 255.
    pub fn typesize(&self) -> u8 {
        u8::try_from(self.item_size).unwrap_or(1)
    }

    /// Returns the size of a decoded block in bytes.
    pub const fn block_size(&self) -> u32 {
        self.block_size
    }

    /// Returns the size of a decoded chunk in bytes.
    pub const fn chunk_size(&self) -> u32 {
        self.chunk_size
    }

    /// Returns the number of chunks; 0 when the shape has a 0.
    pub fn chunk_count(&self) -> u64 {
        self.partition.chunks().product().unwrap_or(u64::MAX) // at most the items
    }

    /// Returns the number of blocks in each chunk.
    pub fn block_count(&self) -> u32 {
        // At most the padded items of a chunk, which are capped.
        num::saturating_u32(self.partition.blocks().product().unwrap_or(u64::MAX))
    }

    /// Returns the number of the chunk at `coordinate`, or `None` outside of the array.
    pub fn chunk_number(&self, coordinate: &[u64]) -> Option<u64> {
        let chunks = self.partition.chunks();
        let coordinate = Axes::new(coordinate).filter(|at| at.len() == chunks.len())?;
        let inside = coordinate.as_slice().iter().zip(chunks.as_slice()).all(|(at, n)| at < n);
        inside.then(|| coordinate.number_in(&chunks))
    }

    /// Returns the coordinate of chunk `number`, or `None` beyond the last.
    pub fn chunk_coordinate(&self, number: u64) -> Option<Axes> {
        if number >= self.chunk_count() {
            return None;
        }
        let (mut coordinate, mut rest) = (self.partition.chunks(), number);
        for at in coordinate.as_mut().iter_mut().rev() {
            let chunks = *at;
            *at = rest.checked_rem(chunks)?;
            rest = rest.checked_div(chunks)?;
        }
        Some(coordinate)
    }
}

impl Deref for BlockGeometry {
    type Target = Partition;

    fn deref(&self) -> &Partition {
        &self.partition
    }
}

fn item_size(items: u64, chunk_size: u32) -> Result<u32, FormatError> {
    let size = u64::from(chunk_size);
    let item_size = match (size.checked_div(items), size.checked_rem(items)) {
        (Some(item), Some(0)) if item > 0 => u32::try_from(item).ok(),
        (Some(_) | None, Some(_) | None) => None,
    };
    item_size.ok_or_else(|| {
        let expected = Expected::MultipleOf(items.into());
        refuse(Class::CountMismatch, "chunk size", expected, chunk_size)
    })
}

fn bytes(field: &'static str, extents: &Axes, item_size: u32) -> Result<u32, FormatError> {
    let items = i128::from(extents.product().unwrap_or(u64::MAX)); // capped by the partition
    let bytes = items.saturating_mul(item_size.into());
    u32::try_from(bytes)
        .ok()
        .filter(|bytes| u64::from(*bytes) <= CHUNK_MAX)
        .ok_or_else(|| refuse(Class::Overflow, field, Expected::AtMost(CHUNK_MAX.into()), bytes))
}

fn refuse(
    class: Class,
    field: &'static str,
    expected: Expected,
    found: impl Into<Found>,
) -> FormatError {
    FormatError::new(class, Part::Blocks, field, 0, expected, found)
}

/// The largest item size that a chunk header can state.
const TYPESIZE_MAX: u32 = 255;

#[cfg(test)]
mod tests {
    use std::string::ToString;

    use super::*;

    fn partition(shape: u64, chunk: u64, block: u64) -> Partition {
        Partition::new(&[shape], &[chunk], &[block]).unwrap()
    }

    #[test]
    #[rustfmt::skip]
    fn item_sizes_from_a_frame() {
        // (shape, chunk, block), (type, block, chunk sizes) -> item size
        for ((s, c, b), (t, bs, cs), item) in [
            ((7, 4, 2), (4, 8, 16), 4),
            ((7, 4, 2), (4, 0, 16), 4),
            ((50, 20, 8), (1, 2400, 7200), 300),
            ((50, 20, 8), (300, 2400, 7200), 300),
            ((0, 0, 0), (4, 0, 0), 4),
            ((0, 4, 2), (4, 0, 0), 4),
            ((0, 4, 2), (4, 8, 16), 4),
            ((0, 4, 2), (4, 9, 16), 4),
        ] {
            let geometry = BlockGeometry::from_sizes(partition(s, c, b), t, bs, cs).unwrap();
            assert_eq!(geometry.item_size(), item, "{s} {c} {b} {t} {bs} {cs}");
            assert_eq!(geometry.typesize(), if item > 255 { 1 } else { 4 });
        }
    }

    #[test]
    #[rustfmt::skip]
    fn each_check_has_its_message() {
        for ((s, c, b), (t, bs, cs), message) in [
            ((7, 4, 2), (4, 8, 18), "CountMismatch in block geometry, chunk size at byte 0: expected a multiple of 4, found 18"),
            ((7, 4, 2), (4, 8, 0), "CountMismatch in block geometry, chunk size at byte 0: expected a multiple of 4, found 0"),
            ((7, 4, 2), (1, 8, 16), "CountMismatch in block geometry, type size at byte 0: expected 4, found 1"),
            ((7, 4, 2), (8, 8, 16), "CountMismatch in block geometry, type size at byte 0: expected 4, found 8"),
            ((50, 20, 8), (2, 2400, 7200), "CountMismatch in block geometry, type size at byte 0: expected 300, found 2"),
            ((7, 4, 2), (4, 9, 16), "CountMismatch in block geometry, block size at byte 0: expected 8, found 9"),
            ((0, 0, 0), (0, 0, 0), "BadShape in block geometry, item size at byte 0: expected at least 1, found 0"),
        ] {
            let error = BlockGeometry::from_sizes(partition(s, c, b), t, bs, cs).unwrap_err();
            assert_eq!(error.to_string(), message);
        }
        for (c, b, item, message) in [
            (1 << 30, 1 << 30, 2, "Overflow in block geometry, chunk bytes at byte 0: expected at most 2147483647, found 2147483648"),
            (0, 1 << 30, 2, "Overflow in block geometry, block bytes at byte 0: expected at most 2147483647, found 2147483648"),
        ] {
            let error = BlockGeometry::new(partition(0, c, b), item).unwrap_err();
            assert_eq!(error.to_string(), message);
        }
        assert!(BlockGeometry::new(partition(1, (1 << 31) - 1, 1), 1).is_ok());
    }

    #[test]
    fn chunks_have_numbers() {
        let geometry =
            BlockGeometry::new(Partition::new(&[5, 7, 9], &[2, 3, 4], &[1, 1, 1]).unwrap(), 1)
                .unwrap();
        assert_eq!(geometry.chunk_count(), 27);
        for number in 0..27 {
            let at = geometry.chunk_coordinate(number).unwrap();
            assert_eq!(at.as_slice(), [number / 9, number / 3 % 3, number % 3]);
            assert_eq!(geometry.chunk_number(at.as_slice()), Some(number));
        }
        assert_eq!(geometry.chunk_coordinate(27), None);
        assert_eq!(geometry.chunk_number(&[0, 0, 3]), None);
        assert_eq!(geometry.chunk_number(&[0, 0]), None);
    }
}
