//! Chunk index `TIDX`: a header, then one row per chunk, in any order.
//!
//! ```text
//! offset  size  field                          in row  size  field
//! 0       4     magic, TIDX                    0       8     dataset_id
//! 4       4     index_version, 1               8       64    chunk_index, 8 coordinates
//! 8       8     entry_count                    72      8     payload_offset
//! 16      2     memory_budget_percent_bps      80      8     raw_byte_len
//! 18      2     reserved, 0                    88      8     stored_byte_len
//! 20      4     memory_budget_bytes            96      4     codec: 0 raw, 1 zstd
//! 24      8     reserved, 0                    100     4     reserved, 0
//! ```
//!
//! `parse` checks each payload span against the payload area, in one pass and without a division;
//! [`TetView`](super::TetView) makes the checks that need a shape.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use alloc::vec::Vec;

use super::{MAX_RANK, MemoryBudget};
use zvf_format::cursor::{Cursor, Items};
use zvf_format::num;
use zvf_format::{Class, Expected, FormatError, Lints, Part};

/// The chunk index, borrowed from the file.
///
/// ```
/// use zvf_tet::Index;
///
/// let empty = [b"TIDX\x01\0\0\0".as_slice(), &[0; 24]].concat();
/// let index = Index::parse(&empty, 4096)?;
/// assert!(index.rows().is_empty());
/// # Ok::<(), zvf_format::FormatError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Index<'a> {
    rows: Items<'a, Row>, // codec 0 or 1, stored = raw when 0, span inside the payload area
    budget: MemoryBudget,
    reserved: [u64; 2],
}

/// One row: the place of a chunk and its encoding.
///
/// ```
/// use zvf_tet::{TensorCodec, Row};
///
/// let row = Row::new(0, &[1, 2], 4096, 24, 17, TensorCodec::Zstd).unwrap();
/// assert_eq!((row.payload_offset(), row.payload_end()), (4096, 4113));
/// assert_eq!(row.decoded_len(1 << 30), Ok(24));
/// ```
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct Row {
    dataset_id: U64,
    chunk_index: [U64; MAX_RANK],
    payload_offset: U64,
    raw_byte_len: U64,
    stored_byte_len: U64,
    codec: U32,
    reserved: U32,
}

/// The encoding of a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TensorCodec {
    /// The bytes of the tile, uncompressed.
    Raw,
    /// One or several zstd frames that decode to the bytes of the tile.
    Zstd,
}

/// The default limit of a reader for a decoded chunk.
pub const DECODED_CAP: u64 = 1 << 30;

impl<'a> Index<'a> {
    /// Parses an index; `bytes` hold nothing else, and payloads end at `payload_end` in the file.
    ///
    /// # Errors
    ///
    /// When magic or version differ, the length does not match `entry_count`, or a row has an
    /// unknown codec, a raw payload whose length is not that of its tile, or a span outside the
    /// payload area.
    pub fn parse(bytes: &'a [u8], payload_end: u64) -> Result<Self, FormatError> {
        let index = Self::parse_again(bytes)?;
        match index.rows.with_offsets().find(|(_, row)| !row.is_sound(payload_end)) {
            Some((at, row)) => Err(row.fault(payload_end).with_base_offset(at)),
            None => Ok(index),
        }
    }

    /// Parses bytes that [`Index::parse`] accepted before and that did not change, without checking
    /// rows.
    ///
    /// # Errors
    ///
    /// When magic or version differ, or the length does not match `entry_count`.
    pub fn parse_again(bytes: &'a [u8]) -> Result<Self, FormatError> {
        let mut cur = Cursor::new(Part::TetIndex, bytes);
        let head = cur.item::<Head>("header")?;
        if head.magic != MAGIC {
            let expected = Expected::Rule("TIDX");
            return Err(cur.refuse(Class::BadMagic, "magic", 0, expected, head.magic));
        }
        if head.index_version.get() != VERSION {
            let (class, expected) = (Class::UnsupportedVersion, Expected::Exactly(VERSION.into()));
            let found = head.index_version.get();
            return Err(cur.refuse(class, "index_version", AT_VERSION, expected, found));
        }
        let rows = cur.array::<Row>("rows", head.entry_count.get())?;
        cur.end()?;
        let reserved = [head.reserved_18.get().into(), head.reserved_24.get()];
        Ok(Self { rows, budget: head.budget(), reserved })
    }

    /// Returns the index of a file without datasets, which stores none of its bytes.
    pub(super) const fn empty() -> Self {
        let rows = Items { items: &[], at: HEADER };
        Self { rows, budget: MemoryBudget::DEFAULT, reserved: [0; 2] }
    }

    /// Returns the rows in file order.
    pub const fn rows(&self) -> &'a [Row] {
        self.rows.items
    }

    /// Returns the memory budget that the file requests from readers.
    pub const fn memory_budget(&self) -> MemoryBudget {
        self.budget
    }

    /// Lists reserved fields that are not zero, and a budget above 100 %.
    pub fn lints(&self) -> Lints {
        super::lints(self.faults())
    }

    /// Returns the faults that a strict reader refuses, with offsets from the start of the index.
    pub(super) fn faults(&self) -> impl Iterator<Item = FormatError> + use<'a> {
        let fault = |field, at, expected, found: u64| {
            FormatError::new(Class::NonCanonical, Part::TetIndex, field, at, expected, found)
        };
        let (zero, max) = (Expected::Exactly(0), Expected::AtMost(10_000));
        let percent = u64::from(self.budget.percent_bps());
        let [two, eight] = self.reserved;
        let head = [
            (percent > 10_000)
                .then(|| fault("memory_budget_percent_bps", AT_PERCENT, max, percent)),
            (two != 0).then(|| fault("reserved", AT_RESERVED_18, zero, two)),
            (eight != 0).then(|| fault("reserved", AT_RESERVED_24, zero, eight)),
        ];
        let rows = self.rows.with_offsets().filter(|(_, row)| row.reserved.get() != 0);
        let rows = rows.map(move |(at, row)| {
            fault("reserved", at.saturating_add(IN_RESERVED), zero, row.reserved.get().into())
        });
        head.into_iter().flatten().chain(rows)
    }
}

impl Row {
    /// Length of a row in bytes.
    pub const LEN: u64 = 104;

    /// Creates a row for the tile at `coords`, or `None` for more than 8 coordinates.
    pub fn new(
        dataset_id: u64,
        coords: &[u64],
        payload_offset: u64,
        raw_byte_len: u64,
        stored_byte_len: u64,
        codec: TensorCodec,
    ) -> Option<Self> {
        let mut chunk_index = [U64::ZERO; MAX_RANK];
        for (to, from) in chunk_index.get_mut(..coords.len())?.iter_mut().zip(coords) {
            to.set(*from);
        }
        Some(Self {
            dataset_id: U64::new(dataset_id),
            chunk_index,
            payload_offset: U64::new(payload_offset),
            raw_byte_len: U64::new(raw_byte_len),
            stored_byte_len: U64::new(stored_byte_len),
            codec: U32::new(u32::from(codec == TensorCodec::Zstd)),
            reserved: U32::ZERO,
        })
    }

    /// Returns the id of the dataset.
    pub const fn dataset_id(&self) -> u64 {
        self.dataset_id.get()
    }

    /// Returns the grid coordinates, including the places past the rank.
    pub fn chunk_index(&self) -> [u64; MAX_RANK] {
        self.chunk_index.map(U64::get)
    }

    /// Returns the offset of the first stored byte.
    pub const fn payload_offset(&self) -> u64 {
        self.payload_offset.get()
    }

    /// Returns the offset after the last stored byte; in a row that [`Index::parse`] accepted, it
    /// lies in the file.
    pub const fn payload_end(&self) -> u64 {
        self.payload_offset().saturating_add(self.stored_byte_len())
    }

    /// Returns the stated length of the decoded tile.
    pub const fn raw_byte_len(&self) -> u64 {
        self.raw_byte_len.get()
    }

    /// Returns the stored length.
    pub const fn stored_byte_len(&self) -> u64 {
        self.stored_byte_len.get()
    }

    /// Returns the encoding of the payload. [`Index::parse`] accepts only the two known codecs.
    pub const fn codec(&self) -> TensorCodec {
        match self.codec.get() {
            RAW => TensorCodec::Raw,
            _ => TensorCodec::Zstd,
        }
    }

    /// Returns the size of a buffer for the decoded tile, if that is within `cap`.
    ///
    /// Before decoding, only the row states the length: a payload of a few bytes may claim a
    /// terabyte. Call this before allocating, with [`DECODED_CAP`] or your own limit.
    ///
    /// # Errors
    ///
    /// When it is larger than `cap`.
    pub fn decoded_len(&self, cap: u64) -> Result<u64, FormatError> {
        let raw = self.raw_byte_len();
        if raw > cap {
            let (class, expected) = (Class::LimitExceeded, Expected::AtMost(cap.into()));
            let (part, field) = (Part::TetIndex, "raw_byte_len");
            return Err(FormatError::new(class, part, field, IN_RAW, expected, raw));
        }
        Ok(raw)
    }

    /// Returns whether the codec is known, the lengths agree, and the span ends by `payload_end`.
    fn is_sound(&self, payload_end: u64) -> bool {
        let (offset, stored) = (self.payload_offset.get(), self.stored_byte_len.get());
        let codec = self.codec.get();
        let is_valid = codec == ZSTD || (codec == RAW && stored == self.raw_byte_len.get());
        is_valid && offset <= payload_end && stored <= payload_end.saturating_sub(offset)
    }

    /// Returns the error for a row that [`Row::is_sound`] rejects, with the offset from the start
    /// of the row.
    fn fault(&self, payload_end: u64) -> FormatError {
        let refuse = |class, field, at, expected, found: u64| {
            FormatError::new(class, Part::TetIndex, field, at, expected, found)
        };
        let (offset, stored) = (self.payload_offset(), self.stored_byte_len());
        let (codec, raw) = (self.codec.get(), self.raw_byte_len());
        if codec > ZSTD {
            return refuse(Class::BadTag, "codec", IN_CODEC, Expected::Between(0, 1), codec.into());
        }
        if codec == RAW && stored != raw {
            let expected = Expected::Exactly(raw.into());
            return refuse(Class::CountMismatch, "stored_byte_len", IN_STORED, expected, stored);
        }
        if offset > payload_end {
            let expected = Expected::AtMost(payload_end.into());
            return refuse(Class::OutOfBounds, "payload_offset", IN_OFFSET, expected, offset);
        }
        let expected = Expected::AtMost(payload_end.saturating_sub(offset).into());
        refuse(Class::OutOfBounds, "stored_byte_len", IN_STORED, expected, stored)
    }
}

impl Index<'_> {
    /// Encodes an index with these rows.
    ///
    /// ```
    /// use zvf_tet::{TensorCodec, Index, MemoryBudget, Row};
    ///
    /// let row = Row::new(0, &[0], 136, 20, 20, TensorCodec::Raw).unwrap();
    /// let bytes = Index::encode(MemoryBudget::DEFAULT, &[row]);
    /// assert_eq!(bytes.len(), 32 + 104);
    /// assert_eq!(Index::parse(&bytes, 156).unwrap().rows(), [row]);
    /// ```
    pub fn encode(budget: MemoryBudget, rows: &[Row]) -> Vec<u8> {
        let head = Head {
            magic: MAGIC,
            index_version: U32::new(VERSION),
            entry_count: U64::new(num::to_u64(rows.len())),
            memory_budget_percent_bps: U16::new(budget.percent_bps()),
            reserved_18: U16::ZERO,
            memory_budget_bytes: U32::new(budget.bytes()),
            reserved_24: U64::ZERO,
        };
        [head.as_bytes(), rows.as_bytes()].concat()
    }
}

/// Returns the length of an index with this many rows, or `None` if it does not fit in 64 bits.
pub(super) fn byte_len(rows: u64) -> Option<u64> {
    rows.checked_mul(Row::LEN)?.checked_add(HEADER)
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Head {
    magic: [u8; 4],
    index_version: U32,
    entry_count: U64,
    memory_budget_percent_bps: U16,
    reserved_18: U16,
    memory_budget_bytes: U32,
    reserved_24: U64,
}

impl Head {
    fn budget(&self) -> MemoryBudget {
        MemoryBudget::new(self.memory_budget_percent_bps.get(), self.memory_budget_bytes.get())
    }
}

const MAGIC: [u8; 4] = *b"TIDX";
const VERSION: u32 = 1;
pub(super) const HEADER: u64 = 32;
const RAW: u32 = 0;
const ZSTD: u32 = 1;
const AT_VERSION: u64 = 4;
pub(super) const AT_ENTRY_COUNT: u64 = 8;
const AT_PERCENT: u64 = 16;
const AT_RESERVED_18: u64 = 18;
const AT_RESERVED_24: u64 = 24;
pub(super) const IN_CHUNK_INDEX: u64 = 8;
pub(super) const IN_OFFSET: u64 = 72;
pub(super) const IN_RAW: u64 = 80;
const IN_STORED: u64 = 88;
const IN_CODEC: u64 = 96;
const IN_RESERVED: u64 = 100;
const _: () = assert!(num::to_u64(size_of::<Row>()) == Row::LEN);
const _: () = assert!(num::to_u64(size_of::<Head>()) == HEADER);

#[cfg(test)]
mod tests;
