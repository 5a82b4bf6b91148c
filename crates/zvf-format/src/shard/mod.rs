//! The index of a shard: the location of each inner cell in a `sharding_indexed` file.
//!
//! ```text
//! offset  size  field
//! 0       16 n  cells, in C order: u64 offset from the start of the file, u64 nbytes;
//!               both all ones when the cell is absent
//! 16 n    4     CRC32C of the bytes before it, u32; absent when the codec chain has no `crc32c`
//! ```
//!
//! Little-endian. The index is at the end of the file or at its beginning; n is the number of cells
//! in a shard, which the array's document states. Encoded cells fill the rest in any order, with or
//! without gaps, so their order has no meaning.
//!
//! Every byte of an index has one valid form, so there are no lints.
//!
//! Not here: reading from a store, and the codecs of the cells.

mod crc32c;
#[cfg(all(test, feature = "alloc"))]
mod tests;

#[cfg(feature = "alloc")]
use alloc::vec::Vec;
use core::ops::Range;

use zerocopy::IntoBytes as _;
use zerocopy::little_endian::{U32, U64};

pub use crc32c::crc32c;

use crate::cursor::{Cursor, Items};
use crate::error::{Class, Expected, FormatError, Part};
use crate::num;

/// The position of the index in a shard.
///
/// ```
/// use zvf_format::shard::IndexLocation;
///
/// // 4 cells and a checksum, in a shard of 116 bytes.
/// assert_eq!(IndexLocation::End.span(4, true, 116)?, 48..116);
/// assert_eq!(IndexLocation::Start.span(4, true, 116)?, 0..68);
/// # Ok::<(), zvf_format::FormatError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IndexLocation {
    /// Before the cells.
    Start,
    /// After the cells; the default.
    #[default]
    End,
}

impl IndexLocation {
    /// Returns the byte range of the index of `cells` cells in a shard of `total` bytes.
    ///
    /// # Errors
    ///
    /// [`Class::Truncated`] when the shard is shorter than its index.
    pub fn span(self, cells: u64, checksum: bool, total: u64) -> Result<Range<u64>, FormatError> {
        let refuse =
            |expected| FormatError::new(Class::Truncated, PART, "index", 0, expected, total);
        // At most 68 bits.
        let len = i128::from(cells).saturating_mul(16).saturating_add(if checksum { 4 } else { 0 });
        let len = u64::try_from(len).map_err(|_source| refuse(Expected::AtLeast(len)))?;
        let Some(before) = total.checked_sub(len) else {
            return Err(refuse(Expected::Bytes(len)));
        };
        Ok(match self {
            Self::Start => 0..len,
            Self::End => before..total,
        })
    }
}

/// The locations of the cells of one shard, borrowed from its index.
///
/// ```
/// use zvf_format::shard::{IndexLocation, ShardIndex};
///
/// // Two cells, no checksum: 16 bytes at 0, and none.
/// let bytes = [[0; 8], 16_u64.to_le_bytes(), [255; 8], [255; 8]].concat();
/// let index = ShardIndex::parse(&bytes, 2, false)?;
/// index.check_spans(48, IndexLocation::End)?;
/// assert_eq!((index.get(0), index.get(1)), (Some(0..16), None));
/// # Ok::<(), zvf_format::FormatError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ShardIndex<'a> {
    cells: &'a [[U64; 2]], // offset and nbytes, both all ones, or neither and their sum a u64
    checksum: bool,
}

impl<'a> ShardIndex<'a> {
    /// Checks `bytes`, which are exactly the index, for a shard of `cells` cells.
    ///
    /// # Errors
    ///
    /// When the bytes are fewer or more than the index, the checksum does not match, only one
    /// number of a cell marks it absent, or a cell ends past 2^64.
    pub fn parse(bytes: &'a [u8], cells: u64, checksum: bool) -> Result<Self, FormatError> {
        let mut cur = Cursor::new(PART, bytes);
        let entries = cur.array::<[U64; 2]>("cells", cells)?;
        let at = cur.position();
        let stored = if checksum { Some(cur.item::<U32>("CRC32C")?.get()) } else { None };
        cur.end()?;
        if let Some(stored) = stored {
            let computed = crc32c(entries.items.as_bytes());
            if stored != computed {
                let expected = Expected::Exactly(computed.into());
                return Err(cur.refuse(Class::Checksum, "CRC32C", at, expected, stored));
            }
        }
        check_cells(&cur, &entries)?;
        Ok(Self { cells: entries.items, checksum })
    }

    /// Returns the number of cells in the shard, absent ones included.
    pub const fn len(&self) -> usize {
        self.cells.len()
    }

    /// Returns whether the shard has no cells.
    pub const fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// Returns the byte range of cell `i` in the shard, in C order; `None` for an absent cell and
    /// past the end.
    pub fn get(&self, i: usize) -> Option<Range<u64>> {
        self.cells.get(i).and_then(span)
    }

    /// Returns an iterator over the cells in C order, `None` for absent ones.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Option<Range<u64>>> + use<'a> {
        self.cells.iter().map(span)
    }

    /// Checks the cells against a shard of `total` bytes with the index at `location`.
    ///
    /// # Errors
    ///
    /// [`Class::Truncated`] when the shard is shorter than its index; [`Class::OutOfBounds`] for
    /// the first cell that ends past the shard or reaches into the index.
    pub fn check_spans(&self, total: u64, location: IndexLocation) -> Result<(), FormatError> {
        let index = location.span(num::to_u64(self.cells.len()), self.checksum, total)?;
        let (low, high) = match location {
            IndexLocation::Start => (index.end, total),
            IndexLocation::End => (0, index.start),
        };
        let cells = Items { items: self.cells, at: 0 };
        for (at, cell) in cells.with_offsets() {
            let Some(Range { start, end }) = span(cell) else { continue };
            let (field, at, expected, found) = if start < low {
                ("offset", at, Expected::AtLeast(low.into()), start)
            } else if end > high {
                ("offset + nbytes", at, Expected::AtMost(high.into()), end)
            } else {
                continue;
            };
            return Err(FormatError::new(Class::OutOfBounds, PART, field, at, expected, found));
        }
        Ok(())
    }
}

/// Encodes the index of a shard: the inverse of [`ShardIndex::parse`]. `None` is an absent cell.
///
/// ```
/// use zvf_format::shard::{ShardIndex, encode_index};
///
/// let bytes = encode_index(&[Some(0..16), None], true)?;
/// assert_eq!(ShardIndex::parse(&bytes, 2, true)?.get(0), Some(0..16));
/// # Ok::<(), zvf_format::FormatError>(())
/// ```
///
/// # Errors
///
/// [`Class::BadShape`] when a range ends before it starts.
#[cfg(feature = "alloc")]
pub fn encode_index(cells: &[Option<Range<u64>>], checksum: bool) -> Result<Vec<u8>, FormatError> {
    let mut bytes = Vec::new();
    for cell in cells {
        let [offset, nbytes] = match cell {
            None => [u64::MAX; 2],
            Some(Range { start, end }) => {
                let Some(nbytes) = end.checked_sub(*start) else {
                    let (class, at) = (Class::BadShape, num::to_u64(bytes.len()));
                    let expected = Expected::AtLeast((*start).into());
                    return Err(FormatError::new(
                        class,
                        PART,
                        "offset + nbytes",
                        at,
                        expected,
                        *end,
                    ));
                };
                [*start, nbytes]
            }
        };
        bytes.extend_from_slice(&offset.to_le_bytes());
        bytes.extend_from_slice(&nbytes.to_le_bytes());
    }
    if checksum {
        bytes.extend_from_slice(&crc32c(&bytes).to_le_bytes());
    }
    Ok(bytes)
}

fn check_cells(cur: &Cursor<'_>, cells: &Items<'_, [U64; 2]>) -> Result<(), FormatError> {
    for (at, [offset, nbytes]) in cells.with_offsets() {
        let (offset, nbytes) = (offset.get(), nbytes.get());
        if offset == u64::MAX && nbytes == u64::MAX {
            continue;
        }
        if offset == u64::MAX || nbytes == u64::MAX {
            let expected = Expected::Rule("offset and nbytes both all ones, or neither");
            return Err(cur.refuse(Class::OutOfBounds, "cell", at, expected, "one of them"));
        }
        if offset.checked_add(nbytes).is_none() {
            let sum = i128::from(offset).saturating_add(nbytes.into());
            let expected = Expected::AtMost(u64::MAX.into());
            return Err(cur.refuse(Class::Overflow, "offset + nbytes", at, expected, sum));
        }
    }
    Ok(())
}

/// Returns the byte range of a checked cell.
fn span([offset, nbytes]: &[U64; 2]) -> Option<Range<u64>> {
    let start = offset.get();
    start.checked_add(nbytes.get()).map(|end| start..end) // all ones twice is past u64: absent
}

const PART: Part = Part::ShardIndex;
