//! The records of one cell of a link array.
//!
//! ```text
//! flat     rows, nothing else                    delta 0 and intra
//! inline   a ragged blob of rows, a group per    everything else
//!          write (0.9) or per record (0.8)
//! ```
//!
//! The division into groups has no meaning for a reader: it reads the rows of all groups in order.
//! Neither body stores its own length; a cut on a row border cannot be detected here.

#[cfg(feature = "alloc")]
use alloc::vec::Vec;

use super::row::{LinkRecord, RowShape};
use crate::error::{Class, Expected, FormatError, Part};
use crate::lint::Lints;
use crate::num;
use crate::ragged::Ragged;

/// The form of the rows of a cell.
///
/// ```
/// use zvf_format::link::{Body, LinkPolicy};
///
/// let edges = LinkPolicy::new(2, 3).unwrap();
/// assert_eq!((edges.body(true), edges.body(false)), (Body::Flat, Body::Inline));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Body {
    /// Rows only.
    Flat,
    /// An inline ragged blob of rows.
    Inline,
}

/// The records of one cell, borrowed from its bytes.
///
/// ```
/// use zvf_format::link::{Body, LinkInteger, LinkCell, RowShape};
///
/// let blob = b"\0\0\0\0\x01\0\0\0\x01\0\0\0\x02\0\0\0";
/// let edges = RowShape::new(LinkInteger::I32, 2, false).unwrap();
/// let cell = LinkCell::parse(blob, Body::Flat, edges).unwrap();
/// assert_eq!(cell.records().nth(1).unwrap().rows(), [1, 2]);
/// assert!(cell.check_rows(&[2, 3]).is_ok());
/// assert!(cell.check_rows(&[2, 2]).is_err());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct LinkCell<'a> {
    shape: RowShape,
    ragged: Option<Ragged<'a>>, // of the same blob, when the body is inline
    rows: &'a [u8],             // whole rows; permutations exist, and no vi is negative
    at: u64,                    // where `rows` start in the blob
}

impl<'a> LinkCell<'a> {
    /// Checks `blob` once, so that no accessor can fail. An empty one is a cell without records.
    ///
    /// # Errors
    ///
    /// When an inline body is not a ragged blob, a flat body or a group is not a whole number of
    /// rows, a permutation code is invalid for the width, or a row is negative.
    pub fn parse(blob: &'a [u8], body: Body, shape: RowShape) -> Result<Self, FormatError> {
        let (ragged, rows) = match body {
            Body::Flat => {
                let (bytes, size) = (num::to_u64(blob.len()), u64::from(shape.size()));
                if !bytes.is_multiple_of(size) {
                    let expected = Expected::MultipleOf(size.into());
                    return Err(refuse(Class::Misaligned, "rows", 0, expected, bytes));
                }
                (None, blob)
            }
            Body::Inline => {
                let (itemsize, ncols) = (shape.element().size(), shape.columns().into());
                let ragged = Ragged::parse(blob, itemsize, ncols)?;
                (Some(ragged), ragged.data())
            }
        };
        // The rows are the last bytes of the blob.
        let at = num::to_u64(blob.len()).saturating_sub(num::to_u64(rows.len()));
        let cell = Self { shape, ragged, rows, at };
        if cell.may_be_wrong() {
            for (at, row) in cell.rows() {
                shape.read(row).map_err(|error| error.with_base_offset(at))?;
            }
        }
        Ok(cell)
    }

    /// Parses like [`parse`](Self::parse), but also refuses all [`lints`](Self::lints).
    ///
    /// # Errors
    ///
    /// The errors of `parse`, then the first lint.
    pub fn parse_strict(blob: &'a [u8], body: Body, shape: RowShape) -> Result<Self, FormatError> {
        let cell = Self::parse(blob, body, shape)?;
        cell.lints().into_strict()?;
        Ok(cell)
    }

    /// Lists bytes that belong to no group; a flat body has none.
    pub fn lints(&self) -> Lints {
        self.ragged.map_or_else(Lints::default, |ragged| ragged.lints())
    }

    /// Returns the layout of a row.
    pub const fn shape(&self) -> RowShape {
        self.shape
    }

    /// Returns the number of records.
    pub fn len(&self) -> usize {
        self.rows.chunks_exact(self.shape.size().into()).len()
    }

    /// Returns whether there are no records.
    pub const fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the groups of an inline body.
    pub const fn groups(&self) -> Option<Ragged<'a>> {
        self.ragged
    }

    /// Returns an iterator over the records of all groups, in the order they were written.
    pub fn records(&self) -> impl Iterator<Item = LinkRecord> + use<'a> {
        let shape = self.shape;
        self.rows().filter_map(move |(_, row)| shape.read(row).ok()) // `parse` read them all
    }

    /// Appends the rows of all records to `to`, one number per endpoint. Returns `false`, and
    /// appends nothing, if the records have permutations.
    #[cfg(feature = "alloc")]
    pub fn add_plain_rows(&self, to: &mut Vec<u64>) -> bool {
        if self.shape.has_perm() {
            return false;
        }
        // Not negative: `parse` checked them.
        match self.shape.element().size() {
            1 => to.extend(self.rows.iter().map(|row| u64::from(*row))),
            2 => to.extend(items(self.rows).map(|row| u64::from(u16::from_le_bytes(*row)))),
            4 => to.extend(items(self.rows).map(|row| u64::from(u32::from_le_bytes(*row)))),
            _ => to.extend(items(self.rows).map(|row| u64::from_le_bytes(*row))),
        }
        true
    }

    /// Returns whether a row may be wrong: it has a permutation, or some number is negative.
    fn may_be_wrong(&self) -> bool {
        use super::row::LinkInteger::{I8, I16, I32, I64, U8, U16, U32, U64};
        let negative = |last: u8| last >= 0x80;
        self.shape.has_perm()
            || match self.shape.element() {
                U8 | U16 | U32 | U64 => false,
                I8 => self.rows.iter().any(|row| negative(*row)),
                I16 => items::<2>(self.rows).any(|[_, last]| negative(*last)),
                I32 => items::<4>(self.rows).any(|[.., last]| negative(*last)),
                I64 => items::<8>(self.rows).any(|[.., last]| negative(*last)),
            }
    }

    /// Returns record `i`, or `None` past the end.
    pub fn record(&self, i: usize) -> Option<LinkRecord> {
        let (_, row) = self.rows().nth(i)?;
        self.shape.read(row).ok()
    }

    /// Compares every endpoint with the number of rows of its chunk, one number for each place.
    ///
    /// # Errors
    ///
    /// When `rows` is not one number for each place, or an endpoint is not a row of its chunk.
    pub fn check_rows(&self, rows: &[u64]) -> Result<(), FormatError> {
        if rows.len() != self.shape.link_width() {
            let expected = Expected::Exactly(num::to_u64(self.shape.link_width()).into());
            return Err(refuse(Class::InvalidArgument, "link_width", 0, expected, rows.len()));
        }
        let size = u64::from(self.shape.element().size());
        let perm = u64::from(self.shape.has_perm());
        for ((at, _), record) in self.rows().zip(self.records()) {
            for (place, (vi, rows)) in (perm..).zip(record.rows().iter().zip(rows)) {
                if vi >= rows {
                    let at = at.saturating_add(place.saturating_mul(size));
                    let expected = Expected::AtMost(i128::from(*rows).saturating_sub(1));
                    return Err(refuse(Class::OutOfBounds, "vi", at, expected, *vi));
                }
            }
        }
        Ok(())
    }

    /// Checks the size of a link attribute's cell against the records: one attribute row of
    /// `row_size` bytes for each, without a header, in the same order.
    ///
    /// # Errors
    ///
    /// When the numbers differ.
    pub fn check_attribute(&self, bytes: u64, row_size: u64) -> Result<(), FormatError> {
        // Fewer than 2^63 records are in memory.
        let want = i128::from(num::to_u64(self.len())).saturating_mul(row_size.into());
        if i128::from(bytes) == want {
            return Ok(());
        }
        let expected = Expected::Exactly(want);
        Err(refuse(Class::CountMismatch, "link attribute bytes", 0, expected, bytes))
    }

    fn rows(&self) -> impl Iterator<Item = (u64, &'a [u8])> + use<'a> {
        let size = usize::from(self.shape.size());
        (self.at..).step_by(size).zip(self.rows.chunks_exact(size))
    }
}

/// Returns an iterator over numbers of `N` bytes.
fn items<const N: usize>(rows: &[u8]) -> impl Iterator<Item = &[u8; N]> {
    rows.as_chunks::<N>().0.iter()
}

/// Encodes records: the inverse of [`LinkCell::parse`]. A flat body is the concatenation of the
/// groups.
///
/// ```
/// use zvf_format::link::{Body, LinkInteger, LinkRecord, RowShape, encode};
///
/// let edges = RowShape::new(LinkInteger::U8, 2, false).unwrap();
/// let bridge = LinkRecord::new(&[5, 6], None).unwrap();
/// assert_eq!(encode(&[&[bridge]], Body::Flat, edges).unwrap(), [5, 6]);
/// ```
///
/// # Errors
///
/// When a record has another width than the shape, only one of the two has a permutation, or a
/// number is too large for the integer type.
#[cfg(feature = "alloc")]
pub fn encode(
    groups: &[&[LinkRecord]],
    body: Body,
    shape: RowShape,
) -> Result<Vec<u8>, FormatError> {
    let mut rows = Vec::new();
    let mut ends = Vec::with_capacity(groups.len());
    for group in groups {
        for record in *group {
            shape.write(record, &mut rows)?;
        }
        ends.push(rows.len());
    }
    match body {
        Body::Flat => Ok(rows),
        Body::Inline => {
            let starts = core::iter::once(0).chain(ends.iter().copied());
            let groups = starts.zip(&ends).filter_map(|(from, to)| rows.get(from..*to));
            let groups: Vec<&[u8]> = groups.collect();
            crate::ragged::encode(&groups, shape.element().size(), shape.columns().into())
        }
    }
}

fn refuse(
    class: Class,
    field: &'static str,
    at: u64,
    expected: Expected,
    found: impl Into<crate::Found>,
) -> FormatError {
    FormatError::new(class, Part::LinkCell, field, at, expected, found)
}
