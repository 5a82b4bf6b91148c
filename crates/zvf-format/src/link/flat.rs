//! Flat cross-chunk links of 0.6 and 0.7: records that carry the chunks of their endpoints.
//!
//! ```text
//! size   field
//! 8 S    chunk of endpoint 0, i64 components
//! 8      vi of endpoint 0, i64, a row of that chunk; not negative
//! ..     the same for each of the L endpoints, then for each record
//! ```
//!
//! Endpoints keep the given order: neither sorted nor permuted. Between levels, endpoint 0 lies on
//! the level that owns the blob. Attributes of these links are one blob of rows in the same order.

use zerocopy::little_endian::I64;

use crate::cursor::Cursor;
use crate::error::{Class, Expected, FormatError, Part};
use crate::key::{ChunkKey, MAX_RANK, check_rank, check_width};
use crate::num;

/// The records of one blob, borrowed from it.
///
/// ```
/// use zvf_format::link::FlatLinks;
///
/// // One edge in one dimension: row 2 of chunk 0, row 0 of chunk -1.
/// let blob = [0_i64, 2, -1, 0].map(i64::to_le_bytes).concat();
/// let links = FlatLinks::parse(&blob, 2, 1).unwrap();
/// let (chunk, row) = links.record(0).unwrap().endpoint(1).unwrap();
/// assert_eq!((chunk.to_string(), row), ("-1".into(), 0));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct FlatLinks<'a> {
    items: &'a [I64], // whole records; no vi is negative
    link_width: u8,   // 1 to MAX_WIDTH
    sid_ndim: u8,     // 1 to MAX_RANK
}

impl<'a> FlatLinks<'a> {
    /// Checks `blob` once, so that no accessor can fail.
    ///
    /// # Errors
    ///
    /// When the width or the rank is invalid for a family, `blob` is not a whole number of records,
    /// or a row is negative.
    pub fn parse(blob: &'a [u8], link_width: usize, sid_ndim: usize) -> Result<Self, FormatError> {
        let sid_ndim = check_rank(Part::FlatLinks, sid_ndim)?;
        let link_width = check_width(Part::FlatLinks, link_width)?;
        let size = u64::from(link_width).saturating_mul(endpoint_size(sid_ndim)); // at most 1088

        let mut cur = Cursor::new(Part::FlatLinks, blob);
        check_records(&cur, size)?;
        let items = cur.array::<I64>("records", cur.remaining() / 8)?;
        for (at, vi) in items.with_offsets().skip(sid_ndim.into()).step_by(stride(sid_ndim)) {
            check_row(&cur, at, *vi)?;
        }
        Ok(Self { items: items.items, link_width, sid_ndim })
    }

    /// Returns how many records there are.
    pub fn len(&self) -> usize {
        self.items.chunks_exact(self.record_items()).len()
    }

    /// Returns whether there are no records.
    pub const fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Returns record `i`, or `None` past the end.
    pub fn record(&self, i: usize) -> Option<FlatRecord<'a>> {
        let items = self.items.chunks_exact(self.record_items()).nth(i)?;
        Some(FlatRecord { items, sid_ndim: self.sid_ndim })
    }

    /// Returns an iterator over the records in the order they were written.
    pub fn records(&self) -> impl Iterator<Item = FlatRecord<'a>> + use<'a> {
        let sid_ndim = self.sid_ndim;
        let records = self.items.chunks_exact(self.record_items());
        records.map(move |items| FlatRecord { items, sid_ndim })
    }

    /// Returns how many items one record has: 2 to 136.
    fn record_items(&self) -> usize {
        usize::from(self.link_width).saturating_mul(stride(self.sid_ndim))
    }
}

/// One record of a flat blob.
///
/// ```
/// use zvf_format::link::FlatLinks;
///
/// let blob = [-3_i64, 2].map(i64::to_le_bytes).concat();
/// let record = FlatLinks::parse(&blob, 1, 1).unwrap().record(0).unwrap();
/// let (chunk, row) = record.endpoints().next().unwrap();
/// assert_eq!((chunk.components(), row), (&[-3][..], 2));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlatRecord<'a> {
    items: &'a [I64], // one record of a blob that was checked
    sid_ndim: u8,
}

impl<'a> FlatRecord<'a> {
    /// Returns the chunk and the row of an endpoint, or `None` past the last.
    pub fn endpoint(&self, i: usize) -> Option<(ChunkKey, u64)> {
        let items = self.items.chunks_exact(stride(self.sid_ndim)).nth(i)?;
        let (vi, chunk) = items.split_last()?;
        let mut components = [0; MAX_RANK];
        for (to, component) in components.iter_mut().zip(chunk) {
            *to = component.get();
        }
        Some((ChunkKey::from_checked(components, self.sid_ndim), vi.get().unsigned_abs()))
    }

    /// Returns an iterator over the endpoints in the given order.
    pub fn endpoints(&self) -> impl Iterator<Item = (ChunkKey, u64)> + use<'a> {
        let record = *self;
        (0..).map_while(move |i| record.endpoint(i))
    }
}

/// Checks that the rest is whole records of `size` bytes.
pub(super) fn check_records(cur: &Cursor<'_>, size: u64) -> Result<(), FormatError> {
    if cur.remaining().is_multiple_of(size) {
        return Ok(());
    }
    let expected = Expected::MultipleOf(size.into());
    Err(cur.refuse(Class::Misaligned, "records", 0, expected, cur.remaining()))
}

/// Checks that the row at offset `at` is not negative.
pub(super) fn check_row(cur: &Cursor<'_>, at: u64, vi: I64) -> Result<(), FormatError> {
    if vi.get() < 0 {
        return Err(cur.refuse(Class::Negative, "vi", at, Expected::AtLeast(0), vi.get()));
    }
    Ok(())
}

/// Returns the number of items per endpoint: at most 17.
fn stride(sid_ndim: u8) -> usize {
    usize::from(sid_ndim).saturating_add(1)
}

/// Returns the number of bytes per endpoint: at most 136.
fn endpoint_size(sid_ndim: u8) -> u64 {
    num::to_u64(stride(sid_ndim)).saturating_mul(8)
}
