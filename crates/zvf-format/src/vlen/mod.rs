//! The framing of variable-length items by the `vlen-bytes` codec.
//!
//! ```text
//! offset  size  field
//! 0       4     count, u32, items
//! 4       ..    count items, back to back:
//!               0  4  length, u32, n
//!               4  n  payload
//! ```
//!
//! Little-endian. A chunk of a spatial array holds exactly one item: [`VlenCell`]. A chunk of a
//! standalone array (manifests, groups, names) holds as many items as the array's chunk length,
//! with empty items after the last row: [`VlenRows`]. Rows can only be read in order;
//! [`VlenOffsets`] stores their positions.
//!
//! Bytes after the last item are a lint. Zero bytes are refused: a chunk that was never written
//! does not get here.
//!
//! Not here: the contents of an item, and compression, which applies to the whole chunk.

mod rows;
#[cfg(all(test, feature = "alloc"))]
mod tests;

#[cfg(feature = "alloc")]
use alloc::vec::Vec;
use core::ops::Range;

use zerocopy::little_endian::U32;

pub use rows::{VlenIter, VlenRows};
#[cfg(feature = "alloc")]
pub use rows::{VlenOffsets, encode_rows};

use crate::cursor::Cursor;
use crate::error::{Class, Expected, FormatError, Part};
use crate::lint::Lints;
use crate::num;

/// The one item of a spatial chunk, borrowed from its bytes.
///
/// ```
/// use zvf_format::vlen::VlenCell;
///
/// let cell = VlenCell::parse(b"\x01\0\0\0\x02\0\0\0ab")?;
/// assert_eq!(cell.payload(), b"ab");
/// // The same from the first eight bytes and the length of the whole, to read a part of it later.
/// assert_eq!(VlenCell::payload_span(b"\x01\0\0\0\x02\0\0\0", 10)?, 8..10);
/// # Ok::<(), zvf_format::FormatError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct VlenCell<'a> {
    payload: &'a [u8],
    trailing: u64, // bytes after it
}

impl<'a> VlenCell<'a> {
    /// Checks that `bytes` are exactly one item.
    ///
    /// # Errors
    ///
    /// When the bytes end early, or the count is not 1.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, FormatError> {
        let mut cur = Cursor::new(Part::VlenCell, bytes);
        let n = cell_length(&mut cur)?;
        let payload = cur.bytes("payload", n)?;
        Ok(Self { payload, trailing: cur.remaining() })
    }

    /// Parses like [`parse`](Self::parse), but also refuses all [`lints`](Self::lints).
    ///
    /// # Errors
    ///
    /// The errors of `parse`, then the first lint.
    pub fn parse_strict(bytes: &'a [u8]) -> Result<Self, FormatError> {
        let view = Self::parse(bytes)?;
        view.lints().into_strict()?;
        Ok(view)
    }

    /// Finds the payload in a cell of `total` bytes that begins with `head`. Only the first eight
    /// bytes are read.
    ///
    /// # Errors
    ///
    /// When `head` is shorter than eight bytes, the count is not 1, or the payload ends past
    /// `total`.
    pub fn payload_span(head: &[u8], total: u64) -> Result<Range<u64>, FormatError> {
        let mut cur = Cursor::new(Part::VlenCell, head);
        let n = cell_length(&mut cur)?;
        let (from, left) = (cur.position(), total.saturating_sub(cur.position()));
        if n > left {
            let expected = Expected::Bytes(n);
            return Err(cur.refuse(Class::Truncated, "payload", from, expected, left));
        }
        Ok(from..from.saturating_add(n)) // at most `total`
    }

    /// Lists bytes after the payload.
    pub fn lints(&self) -> Lints {
        let end = CELL_HEADER.saturating_add(num::to_u64(self.payload.len()));
        trailing_lints(Part::VlenCell, end, self.trailing)
    }

    /// Returns the payload of the cell.
    pub const fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// Creates the eight bytes before the payload of a cell, for a writer that stores the payload
/// separately.
///
/// ```
/// assert_eq!(zvf_format::vlen::cell_header(2)?, *b"\x01\0\0\0\x02\0\0\0");
/// # Ok::<(), zvf_format::FormatError>(())
/// ```
///
/// # Errors
///
/// [`Class::LimitExceeded`] when the payload has 2^32 bytes or more.
pub fn cell_header(payload_len: u64) -> Result<[u8; 8], FormatError> {
    let n = length(Part::VlenCell, payload_len)?;
    Ok((u64::from(n) << 32 | 1).to_le_bytes())
}

/// Encodes a cell: the inverse of [`VlenCell::parse`].
///
/// ```
/// assert_eq!(zvf_format::vlen::encode_cell(b"ab")?, b"\x01\0\0\0\x02\0\0\0ab");
/// # Ok::<(), zvf_format::FormatError>(())
/// ```
///
/// # Errors
///
/// [`Class::LimitExceeded`] when the payload has 2^32 bytes or more.
#[cfg(feature = "alloc")]
pub fn encode_cell(payload: &[u8]) -> Result<Vec<u8>, FormatError> {
    let header = cell_header(num::to_u64(payload.len()))?;
    Ok([&header, payload].concat())
}

/// Reads the header of a cell and returns the length of its payload.
fn cell_length(cur: &mut Cursor<'_>) -> Result<u64, FormatError> {
    let [count, n] = cur.item::<[U32; 2]>("header")?;
    if count.get() != 1 {
        let expected = Expected::Exactly(1);
        return Err(cur.refuse(Class::CountMismatch, "count", 0, expected, count.get()));
    }
    Ok(n.get().into())
}

fn trailing_lints(part: Part, end: u64, bytes: u64) -> Lints {
    let mut lints = Lints::default();
    if bytes != 0 {
        let (class, expected) = (Class::Trailing, Expected::Exactly(0));
        lints.push(FormatError::new(class, part, "bytes after the end", end, expected, bytes));
    }
    lints
}

fn length(part: Part, n: u64) -> Result<u32, FormatError> {
    u32::try_from(n).map_err(|_source| {
        let (class, expected) = (Class::LimitExceeded, Expected::AtMost(u32::MAX.into()));
        FormatError::new(class, part, "length", 4, expected, n)
    })
}

const CELL_HEADER: u64 = 8;
