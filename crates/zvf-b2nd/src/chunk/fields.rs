//! The fields of a chunk header as stored, and the meaning of flags, numbers and ids.
//!
//! Consistency is checked by [`ChunkHeader`](super::ChunkHeader).

use zvf_format::FormatError;
use zvf_format::cursor::Cursor;

/// The number of filters that a chunk can list.
pub const FILTER_SLOTS: usize = 6;

/// The fields of a chunk header, as they are stored.
///
/// ```
/// use zvf_b2nd::{Body, ChunkFields, ChunkHeader, ExtendedFields};
///
/// let zeros = ChunkHeader::new(ChunkFields {
///     version: 5,
///     codec_version: 1,
///     flags: 0b101,
///     typesize: 8,
///     nbytes: 4096,
///     blocksize: 512,
///     cbytes: 32,
///     extended: Some(ExtendedFields { blosc2_flags: 1 << 4, ..ExtendedFields::default() }),
/// })?;
/// assert!(matches!(zeros.body(), Body::Special(_)));
/// # Ok::<(), zvf_format::FormatError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkFields {
    /// 2 to 6.
    pub version: u8,
    /// The version of the codec's own format; 1.
    pub codec_version: u8,
    /// Filters of 16-byte headers, raw copy, split, codec.
    pub flags: u8,
    /// The size of an item in bytes, for filters and splitting.
    pub typesize: u8,
    /// The decoded length in bytes.
    pub nbytes: i32,
    /// Bytes of a decoded block.
    pub blocksize: i32,
    /// Bytes of the chunk, header included.
    pub cbytes: i32,
    /// The second half of a 32-byte header; bits 0 and 2 of the flags state whether it exists.
    pub extended: Option<ExtendedFields>,
}

/// The second half of a chunk header of 32 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExtendedFields {
    /// The filters before compression, first slot first.
    pub filters: [u8; FILTER_SLOTS],
    /// The compressor, if the codec in the flags is 6.
    pub compressor: u8,
    /// A parameter of the codec.
    pub codec_meta: u8,
    /// A parameter for each filter.
    pub filter_metas: [u8; FILTER_SLOTS],
    /// Bit 0: blocks of varying length.
    pub flags2: u8,
    /// Dictionary, special value.
    pub blosc2_flags: u8,
}

/// The codec of blocks.
///
/// ```
/// use zvf_b2nd::BloscCodec;
///
/// assert_eq!(BloscCodec::from_number(5), BloscCodec::Zstd);
/// assert_eq!(BloscCodec::from_number(38), BloscCodec::Other(38));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BloscCodec {
    /// `BloscLZ`.
    BloscLz,
    /// LZ4 blocks, also those of LZ4HC.
    Lz4,
    /// Snappy, in Blosc 1 only.
    Snappy,
    /// Streams of zlib.
    Zlib,
    /// Frames of Zstandard.
    Zstd,
    /// Another compressor, by its registered number.
    Other(u8),
    /// A code without a meaning.
    Reserved(u8),
}

/// A filter of blocks before compression.
///
/// ```
/// use zvf_b2nd::Filter;
///
/// assert_eq!(Filter::from_id(2), Filter::Bitshuffle);
/// assert_eq!(Filter::from_id(34), Filter::Unknown(34));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Filter {
    /// No filter.
    #[default]
    None,
    /// Bytes of equal significance are grouped.
    Shuffle,
    /// Bits of equal significance are grouped.
    Bitshuffle,
    /// Difference by exclusive or.
    Delta,
    /// Truncated mantissas; there is nothing to undo.
    TruncatePrecision,
    /// Difference of neighbouring bytes.
    ByteDelta,
    /// Truncated integers; there is nothing to undo.
    TruncateIntegers,
    /// An unsupported filter, by its registered number.
    Unknown(u8),
}

/// A filter and its parameter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FilterSlot {
    /// The filter.
    pub filter: Filter,
    /// Its parameter, if the filter has one.
    pub meta: u8,
}

/// The part after the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// One value for all items.
    Special(Special),
    /// The plain decoded bytes, without filters.
    Raw,
    /// A block table and blocks.
    Blocks,
}

/// A chunk whose items are all equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    /// Zero bytes.
    Zeros,
    /// Quiet NaN, of 4 or 8 bytes.
    Nan,
    /// The value in the body, of this many bytes.
    Value(u32),
    /// Never written: undefined, read as zero bytes.
    Unwritten,
}

impl ExtendedFields {
    pub(super) fn take(cur: &mut Cursor<'_>) -> Result<Self, FormatError> {
        let filters = *cur.item::<[u8; FILTER_SLOTS]>("filters")?;
        let [compressor, codec_meta] = *cur.item::<[u8; 2]>("compressor")?;
        let filter_metas = *cur.item::<[u8; FILTER_SLOTS]>("filter metas")?;
        let [flags2, blosc2_flags] = *cur.item::<[u8; 2]>("flags 2")?;
        Ok(Self { filters, compressor, codec_meta, filter_metas, flags2, blosc2_flags })
    }
}

impl BloscCodec {
    /// Returns the codec with this number in frames and in byte 22 of a chunk.
    pub const fn from_number(number: u8) -> Self {
        match number {
            0 => Self::BloscLz,
            1 | 2 => Self::Lz4,
            4 => Self::Zlib,
            5 => Self::Zstd,
            3 => Self::Reserved(number),
            _ => Self::Other(number),
        }
    }
}

impl Filter {
    /// Returns the filter with this id.
    pub const fn from_id(id: u8) -> Self {
        match id {
            0 => Self::None,
            1 => Self::Shuffle,
            2 => Self::Bitshuffle,
            3 => Self::Delta,
            4 => Self::TruncatePrecision,
            35 => Self::ByteDelta,
            36 => Self::TruncateIntegers,
            _ => Self::Unknown(id),
        }
    }

    /// Returns the id of the filter: the inverse of [`from_id`](Self::from_id).
    #[must_use]
    pub const fn id(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Shuffle => 1,
            Self::Bitshuffle => 2,
            Self::Delta => 3,
            Self::TruncatePrecision => 4,
            Self::ByteDelta => 35,
            Self::TruncateIntegers => 36,
            Self::Unknown(id) => id,
        }
    }
}

pub(super) const SHUFFLE: u8 = 1;
pub(super) const RAW: u8 = 1 << 1;
pub(super) const BITSHUFFLE: u8 = 1 << 2;
pub(super) const DELTA: u8 = 1 << 3;
pub(super) const NOT_SPLIT: u8 = 1 << 4;
/// A 32-byte header: no block can have both shuffles.
pub(super) const EXTENDED: u8 = SHUFFLE | BITSHUFFLE;

/// In flags 2: blocks have varying lengths, and `blocksize` is their number.
pub(super) const VARYING: u8 = 1;
pub(super) const DICTIONARY: u8 = 1;
/// A form that only exists in memory.
pub(super) const LAZY: u8 = 1 << 3;
pub(super) const SPECIAL: u8 = 7 << 4;
pub(super) const INSTRUMENTED: u8 = 1 << 7;
/// Blosc2 flags without a meaning for readers.
pub(super) const RESERVED: u8 = 6;

/// The version of Blosc 1 chunks.
pub(super) const BLOSC1: u8 = 2;
/// The version in which the last filter slot was unused.
pub(super) const FIVE_SLOTS: u8 = 3;
/// The version that allows blocks of varying length.
pub(super) const VARYING_VERSION: u8 = 6;
/// Blosc 1 never split larger items.
pub(super) const BLOSC1_TYPESIZE_MAX: u32 = 16;
/// Blosc 1 never split blocks of fewer items.
pub(super) const BLOSC1_ITEMS_MIN: u32 = 128;
