//! The inline ragged blob: groups of rows, back to back, after a table of their offsets.
//!
//! ```text
//! offset   size  field
//! 0        8     K, i64, groups
//! 8        8 K   offsets, i64, never decreasing; group k begins there, counted from the data, and ends
//!                where group k + 1 begins, the last where the blob ends
//! 8 + 8 K  ..    data, rows of `ncols` items of `itemsize` bytes each
//! ```
//!
//! Little-endian and packed. The width of a row is not in the blob. Zero bytes are zero groups,
//! because an array returns zero bytes for a cell that was never written.
//!
//! Groups follow each other without gaps, so the rows of all groups are one slice: readers that do
//! not need the groups of the single writes use [`Ragged::data`]. Bytes before the first group, or
//! in a blob without groups, belong to no group: they are lints. The blob does not store its own
//! length; a cut on a row border cannot be detected here.
//!
//! Not here: the meaning of the items, and how they form rows (`link`).

#[cfg(all(test, feature = "alloc"))]
mod tests;

#[cfg(feature = "alloc")]
use alloc::vec::Vec;
use core::slice::ChunksExact;

use zerocopy::little_endian::I64;

use crate::cursor::{Cursor, Items};
use crate::error::{Class, Expected, FormatError, Part};
use crate::lint::Lints;
use crate::num;

/// The groups of one cell, borrowed from the blob.
///
/// ```
/// use zvf_format::ragged::Ragged;
///
/// // Two groups of rows of two bytes each: (1, 2) (3, 4), and (5, 6).
/// let blob = b"\x02\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x04\0\0\0\0\0\0\0\x01\x02\x03\x04\x05\x06";
/// let ragged = Ragged::parse(blob, 1, 2)?;
/// assert_eq!(ragged.group(1), Some(&[5, 6][..]));
/// assert_eq!(ragged.rows().collect::<Vec<_>>(), [[1, 2], [3, 4], [5, 6]]);
/// # Ok::<(), zvf_format::FormatError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Ragged<'a> {
    offsets: &'a [I64], // none negative or past the data, never decreasing
    data: &'a [u8],     // a multiple of `row` from each offset to the next, and to the end
    row: usize,         // bytes of a row, not 0
}

impl<'a> Ragged<'a> {
    /// Checks `blob` once, so that no accessor can fail. A row is `ncols` items of `itemsize`
    /// bytes.
    ///
    /// # Errors
    ///
    /// When `itemsize` is not 1, 2, 4 or 8 or `ncols` is 0; when the blob is not empty and shorter
    /// than its offsets; when K or an offset is negative, an offset is smaller than the one before
    /// it or past the data, or a group is not a whole number of rows.
    pub fn parse(blob: &'a [u8], itemsize: u8, ncols: u32) -> Result<Self, FormatError> {
        let mut cur = Cursor::new(Part::Ragged, blob);
        let (row, width) = row_size(itemsize, ncols)?;
        if blob.is_empty() {
            return Ok(Self { offsets: &[], data: &[], row });
        }
        let k = cur.item::<I64>("K")?.get();
        let Ok(k) = u64::try_from(k) else {
            return Err(cur.refuse(Class::Negative, "K", 0, Expected::AtLeast(0), k));
        };
        let offsets = cur.array::<I64>("offsets", k)?;
        check_offsets(&cur, &offsets)?;
        let offsets = offsets.items;
        check_groups(&cur, offsets, width)?;
        Ok(Self { offsets, data: cur.rest(), row })
    }

    /// Parses like [`parse`](Self::parse), but also refuses all [`lints`](Self::lints).
    ///
    /// # Errors
    ///
    /// The errors of `parse`, then the first lint.
    pub fn parse_strict(blob: &'a [u8], itemsize: u8, ncols: u32) -> Result<Self, FormatError> {
        let view = Self::parse(blob, itemsize, ncols)?;
        view.lints().into_strict()?;
        Ok(view)
    }

    /// Lists bytes that belong to no group.
    pub fn lints(&self) -> Lints {
        let mut lints = Lints::default();
        let lint = |class, field, found: i128| {
            FormatError::new(class, Part::Ragged, field, 8, Expected::Exactly(0), found)
        };
        match self.offsets.first() {
            Some(first) if first.get() != 0 => {
                lints.push(lint(Class::NotMonotonic, "offset", first.get().into()));
            }
            None if !self.data.is_empty() => {
                let found = num::to_u64(self.data.len()).into();
                lints.push(lint(Class::Trailing, "bytes after the end", found));
            }
            _ => {}
        }
        lints
    }

    /// Returns the number of groups, empty ones included.
    pub const fn len(&self) -> usize {
        self.offsets.len()
    }

    /// Returns whether there is no group.
    pub const fn is_empty(&self) -> bool {
        self.offsets.is_empty()
    }

    /// Returns the rows of group `k` as bytes, or `None` past the end.
    pub fn group(&self, k: usize) -> Option<&'a [u8]> {
        let (from, after) = self.offsets.get(k..)?.split_first()?;
        let to = after.first().map_or(Some(self.data.len()), position);
        self.data.get(position(from)?..to?)
    }

    /// Returns an iterator over the groups in order.
    pub fn groups(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let view = *self;
        (0..self.len()).filter_map(move |k| view.group(k))
    }

    /// Returns the rows of all groups, one after the other, as bytes.
    pub fn data(&self) -> &'a [u8] {
        let first = self.offsets.first().map_or(Some(self.data.len()), position);
        first.and_then(|first| self.data.get(first..)).unwrap_or_default() // `first` is not past them
    }

    /// Returns an iterator over the rows of all groups, one by one, as bytes.
    pub fn rows(&self) -> ChunksExact<'a, u8> {
        self.data().chunks_exact(self.row)
    }
}

/// Encodes groups of rows: the inverse of [`Ragged::parse`]. Each group is given as its encoded
/// rows.
///
/// ```
/// let blob = zvf_format::ragged::encode(&[&[1, 2, 3, 4], &[5, 6]], 1, 2)?;
/// assert_eq!(blob, b"\x02\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x04\0\0\0\0\0\0\0\x01\x02\x03\x04\x05\x06");
/// # Ok::<(), zvf_format::FormatError>(())
/// ```
///
/// # Errors
///
/// When `itemsize` is not 1, 2, 4 or 8 or `ncols` is 0, or a group is not a whole number of rows.
#[cfg(feature = "alloc")]
pub fn encode(groups: &[&[u8]], itemsize: u8, ncols: u32) -> Result<Vec<u8>, FormatError> {
    let (_, width) = row_size(itemsize, ncols)?;
    let mut blob = Vec::new();
    blob.extend_from_slice(&num::to_u64(groups.len()).to_le_bytes());
    let mut offset = 0_u64;
    for group in groups {
        let len = num::to_u64(group.len());
        if !len.is_multiple_of(width) {
            return Err(misaligned_error(offset, width, len));
        }
        blob.extend_from_slice(&offset.to_le_bytes());
        offset = offset.saturating_add(len); // slices of one address space
    }
    for group in groups {
        blob.extend_from_slice(group);
    }
    Ok(blob)
}

/// Returns the number of bytes per row, as `usize` for slices and as `u64` for arithmetic.
fn row_size(itemsize: u8, ncols: u32) -> Result<(usize, u64), FormatError> {
    let refuse = |field, expected, found: u32| {
        FormatError::new(Class::BadShape, Part::Ragged, field, 0, expected, found)
    };
    if !matches!(itemsize, 1 | 2 | 4 | 8) {
        return Err(refuse("itemsize", Expected::Rule("1, 2, 4 or 8"), itemsize.into()));
    }
    let width = u64::from(itemsize).saturating_mul(ncols.into()); // below 2^35
    match num::checked_usize(width) {
        Some(0) => Err(refuse("ncols", Expected::AtLeast(1), ncols)),
        Some(row) => Ok((row, width)),
        None => Err(refuse("ncols", Expected::Rule("a row that memory can hold"), ncols)),
    }
}

fn check_offsets(cur: &Cursor<'_>, offsets: &Items<'_, I64>) -> Result<(), FormatError> {
    let end = i128::from(cur.remaining());
    let mut before = 0;
    for (at, offset) in offsets.with_offsets() {
        let offset = offset.get();
        let (class, expected) = if offset < 0 {
            (Class::Negative, Expected::AtLeast(0))
        } else if offset < before {
            (Class::NotMonotonic, Expected::AtLeast(before.into()))
        } else if i128::from(offset) > end {
            (Class::OutOfBounds, Expected::AtMost(end))
        } else {
            before = offset;
            continue;
        };
        return Err(cur.refuse(class, "offset", at, expected, offset));
    }
    Ok(())
}

/// Checks that each group is a whole number of rows; the offsets are already checked.
fn check_groups(cur: &Cursor<'_>, offsets: &[I64], width: u64) -> Result<(), FormatError> {
    let ends = offsets.iter().skip(1).map(|end| end.get().cast_unsigned()).chain([cur.remaining()]);
    for (from, to) in offsets.iter().zip(ends) {
        let from = from.get().cast_unsigned();
        let len = to.saturating_sub(from); // offsets never decrease
        if !len.is_multiple_of(width) {
            return Err(misaligned_error(cur.position().saturating_add(from), width, len));
        }
    }
    Ok(())
}

fn misaligned_error(at: u64, width: u64, len: u64) -> FormatError {
    let expected = Expected::MultipleOf(width.into());
    FormatError::new(Class::Misaligned, Part::Ragged, "bytes of a group", at, expected, len)
}

/// Returns an offset that was checked against the data.
fn position(offset: &I64) -> Option<usize> {
    num::checked_usize(offset.get().cast_unsigned())
}
