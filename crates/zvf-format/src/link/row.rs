//! One stored record, and its encoding as a row of bytes.
//!
//! ```text
//! size   field
//! w      perm_idx   0 to L! - 1; only with a permutation
//! w L    vi         rows in the chunks of the endpoints, in placement order; none negative
//! ```
//!
//! `w` is the size of the array's integer type, little-endian.

#[cfg(feature = "alloc")]
use alloc::vec::Vec;

use super::permutation::{Permutation, factorial};
use crate::error::{Class, Expected, FormatError, Found, Part};
use crate::key::{MAX_WIDTH, check_width};
use crate::used_items;

/// The integer type of a link array.
///
/// ```
/// use zvf_format::link::LinkInteger;
///
/// assert_eq!(LinkInteger::new(4, true).unwrap(), LinkInteger::I32);
/// assert_eq!(LinkInteger::U16.size(), 2);
/// assert!(LinkInteger::new(3, true).is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LinkInteger {
    /// Signed, 8 bits.
    I8,
    /// Unsigned, 8 bits.
    U8,
    /// Signed, 16 bits.
    I16,
    /// Unsigned, 16 bits.
    U16,
    /// Signed, 32 bits.
    I32,
    /// Unsigned, 32 bits.
    U32,
    /// Signed, 64 bits.
    I64,
    /// Unsigned, 64 bits.
    U64,
}

impl LinkInteger {
    /// Returns the integer type of `itemsize` bytes.
    ///
    /// # Errors
    ///
    /// When there is no such integer type.
    pub fn new(itemsize: u8, signed: bool) -> Result<Self, FormatError> {
        match (itemsize, signed) {
            (1, true) => Ok(Self::I8),
            (1, false) => Ok(Self::U8),
            (2, true) => Ok(Self::I16),
            (2, false) => Ok(Self::U16),
            (4, true) => Ok(Self::I32),
            (4, false) => Ok(Self::U32),
            (8, true) => Ok(Self::I64),
            (8, false) => Ok(Self::U64),
            _ => {
                let expected = Expected::Rule("1, 2, 4 or 8");
                Err(refuse(Class::BadShape, "itemsize", 0, expected, itemsize))
            }
        }
    }

    /// Returns the number of bytes per item.
    #[must_use]
    pub const fn size(self) -> u8 {
        match self {
            Self::I8 | Self::U8 => 1,
            Self::I16 | Self::U16 => 2,
            Self::I32 | Self::U32 => 4,
            Self::I64 | Self::U64 => 8,
        }
    }

    /// Returns the largest item.
    #[must_use]
    pub const fn max_value(self) -> u64 {
        match self {
            Self::I8 => 0x7f,
            Self::U8 => 0xff,
            Self::I16 => 0x7fff,
            Self::U16 => 0xffff,
            Self::I32 => 0x7fff_ffff,
            Self::U32 => 0xffff_ffff,
            Self::I64 => 0x7fff_ffff_ffff_ffff,
            Self::U64 => u64::MAX,
        }
    }

    /// Reads the item at the start of `bytes`, or `None` if there are too few.
    fn read(self, bytes: &[u8]) -> Option<i128> {
        Some(match self {
            Self::I8 => i8::from_le_bytes(*bytes.first_chunk()?).into(),
            Self::U8 => u8::from_le_bytes(*bytes.first_chunk()?).into(),
            Self::I16 => i16::from_le_bytes(*bytes.first_chunk()?).into(),
            Self::U16 => u16::from_le_bytes(*bytes.first_chunk()?).into(),
            Self::I32 => i32::from_le_bytes(*bytes.first_chunk()?).into(),
            Self::U32 => u32::from_le_bytes(*bytes.first_chunk()?).into(),
            Self::I64 => i64::from_le_bytes(*bytes.first_chunk()?).into(),
            Self::U64 => u64::from_le_bytes(*bytes.first_chunk()?).into(),
        })
    }
}

/// The layout of a row of a link array.
///
/// ```
/// use zvf_format::link::{LinkInteger, RowShape};
///
/// let face = RowShape::new(LinkInteger::I64, 3, true).unwrap();
/// assert_eq!((face.columns(), face.size()), (4, 32));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowShape {
    element: LinkInteger,
    link_width: u8, // 1 to MAX_WIDTH
    has_perm: bool,
}

impl RowShape {
    /// Describes rows of `link_width` endpoints, with or without a permutation in front.
    ///
    /// # Errors
    ///
    /// When `link_width` is not 1 to [`MAX_WIDTH`].
    pub fn new(
        element: LinkInteger,
        link_width: usize,
        has_perm: bool,
    ) -> Result<Self, FormatError> {
        let link_width = check_width(Part::LinkCell, link_width)?;
        Ok(Self { element, link_width, has_perm })
    }

    /// Describes rows as [`Self::new`] does, for a checked width.
    pub(super) const fn from_checked_width(
        element: LinkInteger,
        link_width: u8,
        has_perm: bool,
    ) -> Self {
        Self { element, link_width, has_perm }
    }

    /// Returns the type of an item.
    pub const fn element(&self) -> LinkInteger {
        self.element
    }

    /// Returns how many endpoints a record has.
    pub fn link_width(&self) -> usize {
        self.link_width.into()
    }

    /// Returns whether the first column is a permutation.
    pub const fn has_perm(&self) -> bool {
        self.has_perm
    }

    /// Returns the number of items per row.
    pub fn columns(&self) -> u8 {
        self.link_width.saturating_add(self.has_perm.into()) // at most 9
    }

    /// Returns the number of bytes per row.
    pub fn size(&self) -> u8 {
        self.columns().saturating_mul(self.element.size()) // at most 72
    }

    /// Reads the record in a row; the offset of an error is counted from the start of the row.
    #[inline]
    pub(super) fn read(&self, row: &[u8]) -> Result<LinkRecord, FormatError> {
        let size = self.element.size();
        let items = row.chunks_exact(size.into()).filter_map(|item| self.element.read(item));
        let mut items = (0_u64..).step_by(size.into()).zip(items);

        let order = if self.has_perm {
            let code = items.next().map_or(0, |(_, code)| code); // a row is whole
            let order = u64::try_from(code).ok();
            order.and_then(|code| Permutation::from_code(code, self.link_width)).ok_or_else(
                || {
                    let codes = i128::from(factorial(self.link_width));
                    let expected = Expected::Between(0, codes.saturating_sub(1));
                    refuse(Class::OutOfBounds, "perm_idx", 0, expected, code)
                },
            )?
        } else {
            Permutation::identity(self.link_width)
        };

        let mut rows = [0; MAX_WIDTH];
        for (to, (at, vi)) in rows.iter_mut().zip(items) {
            *to = u64::try_from(vi)
                .map_err(|_negative| refuse(Class::Negative, "vi", at, Expected::AtLeast(0), vi))?;
        }
        Ok(LinkRecord { rows, order, has_perm: self.has_perm })
    }

    /// Appends the row of a record to `bytes`.
    #[cfg(feature = "alloc")]
    pub(super) fn write(
        &self,
        record: &LinkRecord,
        bytes: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        if record.has_perm != self.has_perm {
            let expected = Expected::Exactly(u8::from(self.has_perm).into());
            let found = u8::from(record.has_perm);
            return Err(refuse(Class::InvalidArgument, "has_perm", 0, expected, found));
        }
        if record.rows().len() != self.link_width() {
            let expected = Expected::Exactly(self.link_width.into());
            let found = record.rows().len();
            return Err(refuse(Class::CountMismatch, "link_width", 0, expected, found));
        }
        let perm = record.perm().map(u64::from);
        for (field, item) in perm
            .iter()
            .map(|perm| ("perm_idx", perm))
            .chain(record.rows().iter().map(|vi| ("vi", vi)))
        {
            if *item > self.element.max_value() {
                let expected = Expected::AtMost(self.element.max_value().into());
                return Err(refuse(Class::Overflow, field, 0, expected, *item));
            }
            // Little-endian: the bytes past the item's size are zero.
            let size = usize::from(self.element.size());
            bytes.extend_from_slice(item.to_le_bytes().get(..size).unwrap_or_default());
        }
        Ok(())
    }
}

/// One record: the rows of its endpoints, and the order in which they were given.
///
/// ```
/// use zvf_format::link::{LinkRecord, Permutation};
///
/// // Given as (row 1 of one chunk, row 3 of another), placed the other way round.
/// let swapped = Permutation::new(&[1, 0]).unwrap();
/// let record = LinkRecord::new(&[3, 1], Some(swapped)).unwrap();
/// assert_eq!((record.perm(), record.rows()), (Some(1), &[3, 1][..]));
/// assert!(record.iter_in_input_order().eq([(1, 1), (0, 3)]));
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct LinkRecord {
    rows: [u64; MAX_WIDTH], // in placement order; zero from the width on
    order: Permutation,     // of as many places as there are endpoints
    has_perm: bool,         // else `order` is the identity
}

impl LinkRecord {
    /// Creates the record with these rows in placement order; `order` is the order in which they
    /// were given, if that is stored.
    ///
    /// # Errors
    ///
    /// When there are no rows, more than [`MAX_WIDTH`], or `order` is of another width.
    pub fn new(rows: &[u64], order: Option<Permutation>) -> Result<Self, FormatError> {
        let width = check_width(Part::LinkRecord, rows.len())?;
        let identity = Permutation::identity(width);
        let (order, has_perm) = (order.unwrap_or(identity), order.is_some());
        if order.order().len() != rows.len() {
            let (class, part) = (Class::CountMismatch, Part::LinkRecord);
            let (expected, found) = (Expected::Exactly(width.into()), order.order().len());
            return Err(FormatError::new(class, part, "perm_idx", 0, expected, found));
        }
        let mut record = Self { rows: [0; MAX_WIDTH], order, has_perm };
        for (to, from) in record.rows.iter_mut().zip(rows) {
            *to = *from;
        }
        Ok(record)
    }

    /// Creates a record with one row for each place of `order`, computed by `row`.
    pub(super) fn from_fn(
        order: Permutation,
        has_perm: bool,
        mut row: impl FnMut(usize) -> u64,
    ) -> Self {
        let mut rows = [0; MAX_WIDTH];
        for (place, to) in rows.iter_mut().take(order.order().len()).enumerate() {
            *to = row(place);
        }
        let order = if has_perm { order } else { Permutation::identity(order.len()) };
        Self { rows, order, has_perm }
    }

    /// Returns the row of each endpoint in its chunk, in placement order.
    pub fn rows(&self) -> &[u64] {
        used_items(&self.rows, self.order.len())
    }

    /// Returns the code of the permutation, if one is stored.
    pub fn perm(&self) -> Option<u16> {
        self.has_perm.then(|| self.order.code())
    }

    /// Returns the input position of each place; the identity, if no permutation is stored.
    pub const fn order(&self) -> Permutation {
        self.order
    }

    /// Returns an iterator over the endpoints in input order: the place of each, which names its
    /// chunk, and its row.
    pub fn iter_in_input_order(&self) -> impl Iterator<Item = (usize, u64)> + use<> {
        let (rows, places, width) = (self.rows, self.order.inverse(), self.rows().len());
        (0..width).filter_map(move |i| {
            let place = usize::from(*places.order().get(i)?);
            Some((place, *rows.get(place)?))
        })
    }
}

impl core::fmt::Debug for LinkRecord {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("LinkRecord")
            .field("perm", &self.perm())
            .field("rows", &self.rows())
            .finish_non_exhaustive()
    }
}

fn refuse(
    class: Class,
    field: &'static str,
    at: u64,
    expected: Expected,
    found: impl Into<Found>,
) -> FormatError {
    FormatError::new(class, Part::LinkCell, field, at, expected, found)
}
