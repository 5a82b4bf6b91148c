//! The rows of a standalone array's chunk: an iterator, and a table for random access.

#[cfg(feature = "alloc")]
use alloc::vec::Vec;
use core::iter::FusedIterator;
#[cfg(feature = "alloc")]
use core::ops::Range;

use zerocopy::little_endian::U32;

#[cfg(feature = "alloc")]
use super::length;
use super::trailing_lints;
use crate::cursor::Cursor;
use crate::error::{Class, Expected, FormatError, Part};
use crate::lint::Lints;
use crate::num;

/// The rows of one chunk of a standalone array, borrowed from its bytes.
///
/// ```
/// use zvf_format::vlen::VlenRows;
///
/// let rows = VlenRows::parse(b"\x02\0\0\0\x02\0\0\0ab\0\0\0\0", 2)?;
/// assert_eq!(rows.iter().collect::<Vec<_>>(), [&b"ab"[..], b""]);
/// # Ok::<(), zvf_format::FormatError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct VlenRows<'a> {
    count: u32,
    items: &'a [u8], // exactly `count` items
    trailing: u64,   // bytes after them
}

impl<'a> VlenRows<'a> {
    /// Checks that `bytes` are `count` items, the chunk length of the array: the last chunk is
    /// padded with empty items.
    ///
    /// # Errors
    ///
    /// When the bytes end early, or the number of items is not `count`.
    pub fn parse(bytes: &'a [u8], count: u64) -> Result<Self, FormatError> {
        let mut cur = Cursor::new(Part::VlenRows, bytes);
        let found = cur.item::<U32>("count")?.get();
        if u64::from(found) != count {
            let expected = Expected::Exactly(count.into());
            return Err(cur.refuse(Class::CountMismatch, "count", 0, expected, found));
        }
        let least = count.saturating_mul(4); // compared with what is there
        if least > cur.remaining() {
            let expected = Expected::Bytes(least);
            return Err(cur.refuse(
                Class::Truncated,
                "items",
                cur.position(),
                expected,
                cur.remaining(),
            ));
        }
        let start = cur.rest();
        for _ in 0..found {
            item(&mut cur)?;
        }
        // The items are the last bytes.
        let (items, _) = start
            .split_at_checked(start.len().saturating_sub(cur.rest().len()))
            .unwrap_or_default();
        Ok(Self { count: found, items, trailing: cur.remaining() })
    }

    /// Parses like [`parse`](Self::parse), but also refuses all [`lints`](Self::lints).
    ///
    /// # Errors
    ///
    /// The errors of `parse`, then the first lint.
    pub fn parse_strict(bytes: &'a [u8], count: u64) -> Result<Self, FormatError> {
        let view = Self::parse(bytes, count)?;
        view.lints().into_strict()?;
        Ok(view)
    }

    /// Lists bytes after the last item.
    pub fn lints(&self) -> Lints {
        let end = FIRST_ITEM.saturating_add(num::to_u64(self.items.len()));
        trailing_lints(Part::VlenRows, end, self.trailing)
    }

    /// Returns the number of rows, padding included.
    pub const fn len(&self) -> usize {
        num::usize_from_u32(self.count)
    }

    /// Returns whether there is no row.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns an iterator over the payloads in order.
    pub const fn iter(&self) -> VlenIter<'a> {
        VlenIter { cur: Cursor::new(Part::VlenRows, self.items), left: self.count }
    }
}

impl<'a> IntoIterator for &VlenRows<'a> {
    type Item = &'a [u8];
    type IntoIter = VlenIter<'a>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// The payloads of the rows of a chunk, in order.
///
/// ```
/// use zvf_format::vlen::VlenRows;
///
/// let mut rows = VlenRows::parse(b"\x01\0\0\0\x01\0\0\0a", 1)?.iter();
/// assert_eq!((rows.next(), rows.next()), (Some(&b"a"[..]), None));
/// # Ok::<(), zvf_format::FormatError>(())
/// ```
#[derive(Clone, Debug)]
pub struct VlenIter<'a> {
    cur: Cursor<'a>, // at an item that parses, when any are left
    left: u32,
}

impl<'a> Iterator for VlenIter<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        item(&mut self.cur).ok() // it parsed before
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (num::usize_from_u32(self.left), Some(num::usize_from_u32(self.left)))
    }
}

impl ExactSizeIterator for VlenIter<'_> {}
impl FusedIterator for VlenIter<'_> {}

/// The position of each row of a chunk, for random access.
///
/// The table borrows nothing, so it can be stored next to the bytes. It takes eight bytes per row.
///
/// ```
/// use zvf_format::vlen::{VlenOffsets, VlenRows};
///
/// let bytes = b"\x02\0\0\0\x02\0\0\0ab\x01\0\0\0c";
/// let offsets = VlenOffsets::new(&VlenRows::parse(bytes, 2)?);
/// assert_eq!(offsets.span(1), Some(14..15));
/// assert_eq!(offsets.row(bytes, 1), Some(&b"c"[..]));
/// assert_eq!(offsets.row(bytes, 2), None);
/// # Ok::<(), zvf_format::FormatError>(())
/// ```
#[cfg(feature = "alloc")]
#[derive(Clone, Debug)]
pub struct VlenOffsets {
    ends: Vec<usize>, // of each payload, from the start of the bytes
}

#[cfg(feature = "alloc")]
impl VlenOffsets {
    /// Reads `rows` once, in order.
    pub fn new(rows: &VlenRows<'_>) -> Self {
        let mut end = 4_usize;
        let ends = rows.iter().map(|payload| {
            end = end.saturating_add(4).saturating_add(payload.len()); // inside a slice
            end
        });
        Self { ends: ends.collect() }
    }

    /// Returns the number of rows, padding included.
    pub const fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns whether there is no row.
    pub const fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns the byte range of the payload of row `i`, or `None` past the end.
    pub fn span(&self, i: usize) -> Option<Range<usize>> {
        let to = *self.ends.get(i)?;
        let before = i.checked_sub(1).and_then(|i| self.ends.get(i)).copied().unwrap_or(4);
        Some(before.saturating_add(4)..to) // inside a slice
    }

    /// Returns the payload of row `i` from `bytes`, from which the rows were parsed, or `None` past
    /// the end.
    pub fn row<'a>(&self, bytes: &'a [u8], i: usize) -> Option<&'a [u8]> {
        bytes.get(self.span(i)?)
    }
}

/// Encodes rows, padded with empty ones to `count`: the inverse of [`VlenRows::parse`].
///
/// ```
/// assert_eq!(
///     zvf_format::vlen::encode_rows(&[b"ab"], 2)?,
///     b"\x02\0\0\0\x02\0\0\0ab\0\0\0\0",
/// );
/// # Ok::<(), zvf_format::FormatError>(())
/// ```
///
/// # Errors
///
/// [`Class::CountMismatch`] when there are more rows than `count`; [`Class::LimitExceeded`] when a
/// row has 2^32 bytes or more.
#[cfg(feature = "alloc")]
pub fn encode_rows(rows: &[&[u8]], count: u32) -> Result<Vec<u8>, FormatError> {
    let Some(padding) = num::usize_from_u32(count).checked_sub(rows.len()) else {
        let (class, expected) = (Class::CountMismatch, Expected::AtMost(count.into()));
        return Err(FormatError::new(class, Part::VlenRows, "count", 0, expected, rows.len()));
    };
    let mut bytes = Vec::new();
    bytes.extend_from_slice(&count.to_le_bytes());
    for row in rows {
        let n = length(Part::VlenRows, num::to_u64(row.len()))?;
        bytes.extend_from_slice(&n.to_le_bytes());
        bytes.extend_from_slice(row);
    }
    // Saturates to `usize::MAX`, which is more than can be allocated.
    let end = bytes.len().saturating_add(padding.saturating_mul(4));
    bytes.resize(end, 0);
    Ok(bytes)
}

/// Reads one item.
fn item<'a>(cur: &mut Cursor<'a>) -> Result<&'a [u8], FormatError> {
    let n = cur.item::<U32>("length")?.get();
    cur.bytes("payload", n.into())
}

const FIRST_ITEM: u64 = 4;
