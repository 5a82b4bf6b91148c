//! Cross-chunk links between 0.7 and 0.8, where a family's `layout` is `partitioned_v1`.
//!
//! ```text
//! size   field
//! L      slot of each endpoint, u8: which of the K chunks in the name of the blob, below K
//! 8 L    vi of each endpoint, i64: a row of that chunk; not negative
//! ```
//!
//! The blob lies under `<delta>/<chunk 0>/../<chunk K-1>/data`, its K distinct chunks sorted.
//! Records follow each other without padding. No writer of this layout is left, so there is no
//! encoder; the sibling layout `sharded_v1` holds the same records in another array.

use super::flat::{check_records, check_row};
use zerocopy::FromBytes;
use zerocopy::little_endian::I64;

use crate::cursor::Cursor;
use crate::error::{Class, Expected, FormatError, Part};
use crate::key::check_width;

/// The records of one blob, borrowed from it.
///
/// ```
/// use zvf_format::link::PartitionedLinks;
///
/// // One edge: row 2 of the first chunk, row 5 of the second.
/// let blob = b"\x00\x01\x02\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\0";
/// let links = PartitionedLinks::parse(blob, 2, 2).unwrap();
/// assert!(links.records().next().unwrap().endpoints().eq([(0, 2), (1, 5)]));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct PartitionedLinks<'a> {
    blob: &'a [u8], // whole records; every slot is below K, no vi is negative
    link_width: u8, // 1 to MAX_WIDTH
}

impl<'a> PartitionedLinks<'a> {
    /// Checks `blob` once, so that no accessor can fail. `chunks` is K, the chunks in its name.
    ///
    /// # Errors
    ///
    /// When the width is invalid for a family, `blob` is not a whole number of records, a slot
    /// names no chunk, or a row is negative.
    pub fn parse(blob: &'a [u8], link_width: usize, chunks: u8) -> Result<Self, FormatError> {
        let link_width = check_width(Part::PartitionedLinks, link_width)?;
        let width = u64::from(link_width);

        let mut cur = Cursor::new(Part::PartitionedLinks, blob);
        let size = width.saturating_mul(ENDPOINT.into()); // at most 72
        check_records(&cur, size)?;
        while cur.remaining() > 0 {
            for (at, slot) in cur.array::<u8>("slots", width)?.with_offsets() {
                if *slot >= chunks {
                    let expected = Expected::AtMost(i128::from(chunks).saturating_sub(1));
                    return Err(cur.refuse(Class::OutOfBounds, "slot", at, expected, *slot));
                }
            }
            for (at, vi) in cur.array::<I64>("vi", width)?.with_offsets() {
                check_row(&cur, at, *vi)?;
            }
        }
        Ok(Self { blob, link_width })
    }

    /// Returns how many records there are.
    pub fn len(&self) -> usize {
        self.records().count()
    }

    /// Returns whether there are no records.
    pub const fn is_empty(&self) -> bool {
        self.blob.is_empty()
    }

    /// Returns an iterator over the records in the order they were written.
    pub fn records(&self) -> impl Iterator<Item = PartitionedRecord<'a>> + use<'a> {
        let width = usize::from(self.link_width);
        let size = width.saturating_mul(ENDPOINT.into()); // 9 to 72
        self.blob.chunks_exact(size).filter_map(move |record| {
            let (slots, rows) = record.split_at_checked(width)?;
            Some(PartitionedRecord { slots, rows: <[I64]>::ref_from_bytes(rows).ok()? })
        })
    }
}

/// One record of a partitioned blob.
///
/// ```
/// use zvf_format::link::PartitionedLinks;
///
/// let links = PartitionedLinks::parse(&[0; 9], 1, 1).unwrap();
/// assert!(links.records().next().unwrap().endpoints().eq([(0, 0)]));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionedRecord<'a> {
    slots: &'a [u8],
    rows: &'a [I64], // as many as slots
}

impl<'a> PartitionedRecord<'a> {
    /// Returns an iterator over the endpoints in the given order: the index of the chunk, and the
    /// row in it.
    pub fn endpoints(&self) -> impl Iterator<Item = (u8, u64)> + use<'a> {
        let rows = self.rows.iter().map(|vi| vi.get().unsigned_abs());
        self.slots.iter().copied().zip(rows)
    }
}

/// Bytes per endpoint: its slot and its row.
const ENDPOINT: u8 = 9;
