//! The header of a Blosc chunk, versions 2 (Blosc 1) to 6.
//!
//! ```text
//! offset  size  field
//! 0       1     version
//! 1       1     codec version
//! 2       1     flags: 0 shuffle, 1 raw copy, 2 bitshuffle, 3 delta, 4 not split, 5-7 codec
//! 3       1     typesize
//! 4       4     nbytes, decoded
//! 8       4     blocksize
//! 12      4     cbytes, header included
//! 16      6     filter ids                    from here on only when
//! 22      1     compressor, for codec 6       flags 0 and 2 are both set
//! 23      1     codec meta
//! 24      6     filter metas
//! 30      1     flags 2: 0 blocks of varying length
//! 31      1     blosc2 flags: 0 dictionary, 3 lazy, 4-6 special value, 7 instrumented
//! ```
//!
//! Little-endian, lengths with a sign. What follows the header depends, in this order, on the special
//! value (no block table; the body is the value or nothing), on the raw copy flag (the bytes as they
//! are), and otherwise is a table of block positions, a dictionary if there is one, and the blocks.
//!
//! Codec and filters are checked only where they are used: a raw copy may name filters that were never
//! applied.

use zerocopy::little_endian::I32;

use crate::cursor::Cursor;
use crate::error::{Class, Expected, FormatError, Found, Part};
use crate::lint::Lints;

/// How many filters a chunk can name.
pub const FILTER_SLOTS: usize = 6;

/// The fields of a chunk header, as they are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkFields {
    /// 2 to 6.
    pub version: u8,
    /// The version of the codec's own format; 1.
    pub codec_version: u8,
    /// Filters of 16-byte headers, raw copy, split, codec.
    pub flags: u8,
    /// Bytes of an item, as filters and split see it.
    pub typesize: u8,
    /// Bytes when decoded.
    pub nbytes: i32,
    /// Bytes of a decoded block.
    pub blocksize: i32,
    /// Bytes of the chunk, header included.
    pub cbytes: i32,
    /// The second half of a 32-byte header; bits 0 and 2 of the flags say whether there is one.
    pub extended: Option<ExtendedFields>,
}

/// The second half of a chunk header of 32 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExtendedFields {
    /// What was done to each block before compression, first slot first.
    pub filters: [u8; FILTER_SLOTS],
    /// The compressor, where the codec in the flags is 6.
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

/// How blocks are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Codec {
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

/// What was done to a block before it was compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Filter {
    /// Nothing.
    #[default]
    None,
    /// Bytes of equal weight together.
    Shuffle,
    /// Bits of equal weight together.
    Bitshuffle,
    /// Difference by exclusive or.
    Delta,
    /// Mantissas cut short; there is nothing to undo.
    TruncatePrecision,
    /// Difference of neighbouring bytes.
    ByteDelta,
    /// Integers cut short; there is nothing to undo.
    TruncateIntegers,
    /// One that is not read, by its registered number.
    Unknown(u8),
}

/// A filter and its parameter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FilterSlot {
    /// What was done.
    pub filter: Filter,
    /// How, where the filter has a parameter.
    pub meta: u8,
}

/// What follows the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Body {
    /// One value for all items.
    Special(Special),
    /// The decoded bytes as they are, without filters.
    Raw,
    /// A block table and blocks.
    Blocks,
}

/// A chunk whose items are all alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    /// Zero bytes.
    Zeros,
    /// Quiet NaN, of 4 or 8 bytes.
    Nan,
    /// The value in the body, of this many bytes.
    Value(u32),
    /// Never written: anything; zero bytes for whoever needs one answer.
    Unwritten,
}

/// A chunk header whose fields fit together.
///
/// ```
/// use zvf_format::caterva::{Body, ChunkHeader, Codec, Filter};
///
/// let chunk = b"\x05\x01\x35\x04\x40\0\0\0\x10\0\0\0\x60\0\0\0\x01\0\0\0\0\0\x01\0\0\0\0\0\0\0\0\0";
/// let header = ChunkHeader::parse(chunk)?;
/// assert_eq!((header.nbytes(), header.blocksize(), header.cbytes()), (64, 16, 96));
/// assert_eq!((header.codec(), header.body(), header.block_count()), (Codec::Lz4, Body::Blocks, 4));
/// assert_eq!(header.filters()[0].filter, Filter::Shuffle);
/// assert_eq!(header.table(), 32..48);
/// # Ok::<(), zvf_format::FormatError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkHeader {
    fields: ChunkFields, // no length negative; typesize and blocksize not 0
    body: Body,          // fits cbytes, the block table included
    block_count: u32,
}

impl ChunkHeader {
    /// Checks the front of a chunk. Bytes after the header are not looked at.
    ///
    /// # Errors
    ///
    /// When there are fewer bytes than the header has (16, or 32 as its flags say), or a field
    /// contradicts the format or another field.
    pub fn parse(chunk: &[u8]) -> Result<Self, FormatError> {
        let mut cur = Cursor::new(Part::BloscChunk, chunk);
        let [version, codec_version, flags, typesize] = *cur.one::<[u8; 4]>("version")?;
        let nbytes = cur.one::<I32>("nbytes")?.get();
        let blocksize = cur.one::<I32>("blocksize")?.get();
        let cbytes = cur.one::<I32>("cbytes")?.get();
        let extended =
            if flags & EXTENDED == EXTENDED { Some(ExtendedFields::take(&mut cur)?) } else { None };
        Self::new(ChunkFields {
            version,
            codec_version,
            flags,
            typesize,
            nbytes,
            blocksize,
            cbytes,
            extended,
        })
    }

    /// [`ChunkHeader::parse`], refusing what [`ChunkHeader::lints`] lists as well.
    ///
    /// # Errors
    ///
    /// As `parse`, and for the first lint.
    pub fn parse_strict(chunk: &[u8]) -> Result<Self, FormatError> {
        let header = Self::parse(chunk)?;
        header.lints().into_strict()?;
        Ok(header)
    }

    /// Checks that the fields fit together.
    ///
    /// # Errors
    ///
    /// As [`ChunkHeader::parse`].
    pub fn new(fields: ChunkFields) -> Result<Self, FormatError> {
        check_flags(&fields)?;
        check_lengths(&fields)?;
        let body = body(&fields)?;
        let mut header = Self { fields, body, block_count: 0 };
        header.block_count = header.count_blocks();
        match body {
            Body::Special(special) => header.check_special(special)?,
            Body::Raw => header.check_raw()?,
            Body::Blocks => header.check_blocks()?,
        }
        Ok(header)
    }

    /// The fields as they are stored.
    #[must_use]
    pub const fn fields(&self) -> &ChunkFields {
        &self.fields
    }

    /// Bytes of the header: 16 or 32.
    #[must_use]
    pub const fn header_len(&self) -> u32 {
        if self.fields.extended.is_some() { 32 } else { 16 }
    }

    /// Bytes when decoded.
    #[must_use]
    pub const fn nbytes(&self) -> u32 {
        self.fields.nbytes.unsigned_abs()
    }

    /// Bytes of a decoded block, the last one excepted; never more than the chunk has. 0 where blocks
    /// have lengths of their own.
    #[must_use]
    pub fn blocksize(&self) -> u32 {
        let (stored, nbytes) = (self.fields.blocksize.unsigned_abs(), self.nbytes());
        match (self.has_varying_blocks(), nbytes) {
            (true, _) => 0,
            (false, 0) => stored,
            (false, _) => stored.min(nbytes),
        }
    }

    /// Bytes of the chunk, header included.
    #[must_use]
    pub const fn cbytes(&self) -> u32 {
        self.fields.cbytes.unsigned_abs()
    }

    /// How many blocks the chunk is cut into.
    #[must_use]
    pub const fn block_count(&self) -> u32 {
        self.block_count
    }

    /// Bytes of block `j` when decoded, or `None` past the last, or where the block itself says.
    #[must_use]
    pub fn block_len(&self, j: u32) -> Option<u32> {
        if j >= self.block_count || self.has_varying_blocks() {
            return None;
        }
        let left = self.nbytes().checked_sub(j.checked_mul(self.blocksize())?)?;
        Some(left.min(self.blocksize()))
    }

    /// What follows the header.
    #[must_use]
    pub const fn body(&self) -> Body {
        self.body
    }

    /// How blocks are compressed.
    #[must_use]
    pub fn codec(&self) -> Codec {
        match (self.fields.flags >> 5, self.fields.extended) {
            (0, _) => Codec::BloscLz,
            (1, _) => Codec::Lz4,
            (2, None) if self.fields.version == BLOSC1 => Codec::Snappy,
            (3, _) => Codec::Zlib,
            (4, _) => Codec::Zstd,
            (6, Some(extended)) => Codec::registered(extended.compressor),
            (code, _) => Codec::Reserved(code),
        }
    }

    /// What was done to each block, in that order; decoders undo it from the last slot to the first.
    #[must_use]
    pub fn filters(&self) -> [FilterSlot; FILTER_SLOTS] {
        let mut slots = [FilterSlot::default(); FILTER_SLOTS];
        if let Some(extended) = self.fields.extended {
            let stored = extended.filters.into_iter().zip(extended.filter_metas);
            for (slot, (id, meta)) in slots.iter_mut().zip(stored) {
                *slot = FilterSlot { filter: Filter::registered(id), meta };
            }
            if self.fields.version == FIVE_SLOTS {
                slots[FILTER_SLOTS - 1] = FilterSlot::default();
            }
            return slots;
        }
        let flags = self.fields.flags;
        if flags & DELTA != 0 {
            slots[FILTER_SLOTS - 2].filter = Filter::Delta;
        }
        if flags & SHUFFLE != 0 {
            slots[FILTER_SLOTS - 1].filter = Filter::Shuffle;
        } else if flags & BITSHUFFLE != 0 {
            slots[FILTER_SLOTS - 1].filter = Filter::Bitshuffle;
        }
        slots
    }

    /// Whether block `j > 0` can only be decoded with block 0 at hand.
    #[must_use]
    pub fn needs_first_block(&self) -> bool {
        self.body == Body::Blocks && self.filters().iter().any(|slot| slot.filter == Filter::Delta)
    }

    /// Whether a dictionary lies behind the block table.
    #[must_use]
    pub fn has_dictionary(&self) -> bool {
        let extended = self.fields.extended;
        self.body == Body::Blocks && extended.is_some_and(|e| e.blosc2_flags & DICTIONARY != 0)
    }

    /// Whether each block has a length of its own; such chunks do not occur in arrays.
    #[must_use]
    pub fn has_varying_blocks(&self) -> bool {
        self.fields.extended.is_some_and(|extended| extended.flags2 & VARYING != 0)
    }

    /// How many streams block `j` is stored in, all of the same decoded length.
    #[must_use]
    pub fn streams(&self, j: u32) -> u32 {
        if self.splits() && self.block_len(j) == Some(self.blocksize()) {
            self.fields.typesize.into()
        } else {
            1
        }
    }

    /// Where the block table lies in the chunk; empty when the body is not blocks.
    #[must_use]
    pub fn table(&self) -> core::ops::Range<u64> {
        let start = u64::from(self.header_len());
        let blocks = if self.body == Body::Blocks { u64::from(self.block_count) } else { 0 };
        start..start.saturating_add(blocks.saturating_mul(4))
    }

    /// Where block `j` lies in a raw copy, or `None` past the last or when this is none.
    #[must_use]
    pub fn raw_block(&self, j: u32) -> Option<core::ops::Range<u64>> {
        let len = self.block_len(j).filter(|_| self.body == Body::Raw)?;
        let skipped = u64::from(j).checked_mul(self.blocksize().into())?;
        let start = u64::from(self.header_len()).checked_add(skipped)?;
        Some(start..start.checked_add(len.into())?)
    }

    /// What is readable but not as stock libraries write it.
    #[must_use]
    pub fn lints(&self) -> Lints {
        let mut lints = Lints::default();
        let mut lint = |field, at, expected, found: i128| {
            let class = Class::NonCanonical;
            lints.push(FormatError::new(class, Part::BloscChunk, field, at, expected, found));
        };
        let fields = &self.fields;
        if fields.codec_version != 1 {
            lint("codec version", 1, Expected::Exactly(1), fields.codec_version.into());
        }
        if fields.blocksize > fields.nbytes && fields.nbytes > 0 && !self.has_varying_blocks() {
            lint("blocksize", 8, Expected::AtMost(fields.nbytes.into()), fields.blocksize.into());
        }
        let value = if let Body::Special(Special::Value(bytes)) = self.body { bytes } else { 0 };
        let bare = self.header_len().saturating_add(value);
        if matches!(self.body, Body::Special(_)) && self.cbytes() > bare {
            lint("cbytes", 12, Expected::Exactly(bare.into()), self.cbytes().into());
        }
        let reserved = fields.extended.map_or(0, |extended| extended.blosc2_flags & RESERVED);
        if reserved != 0 {
            lint("reserved flags", 31, Expected::Exactly(0), reserved.into());
        }
        lints
    }

    /// The header: 16 or 32 bytes.
    #[cfg(feature = "alloc")]
    #[must_use]
    pub fn encode(&self) -> alloc::vec::Vec<u8> {
        let fields = &self.fields;
        let mut out = alloc::vec::Vec::with_capacity(32);
        out.extend([fields.version, fields.codec_version, fields.flags, fields.typesize]);
        for length in [fields.nbytes, fields.blocksize, fields.cbytes] {
            out.extend(length.to_le_bytes());
        }
        if let Some(extended) = fields.extended {
            out.extend(extended.filters);
            out.extend([extended.compressor, extended.codec_meta]);
            out.extend(extended.filter_metas);
            out.extend([extended.flags2, extended.blosc2_flags]);
        }
        out
    }

    fn count_blocks(&self) -> u32 {
        if self.has_varying_blocks() {
            return self.fields.blocksize.unsigned_abs();
        }
        let blocks = super::axes::div_up(self.nbytes().into(), self.blocksize().into());
        u32::try_from(blocks).unwrap_or(u32::MAX) // at most nbytes
    }

    /// Whether full blocks are stored as one stream for each byte of an item. Blosc 1 also wrote chunks
    /// before there was a flag for it, and its reader derives the answer from the sizes.
    fn splits(&self) -> bool {
        let (typesize, blocksize) = (u32::from(self.fields.typesize), self.blocksize());
        let items = blocksize.checked_div(typesize).unwrap_or(0);
        let by_size = self.fields.version != BLOSC1
            || (typesize <= BLOSC1_TYPESIZE_MAX && items >= BLOSC1_ITEMS_MIN);
        self.fields.flags & NOT_SPLIT == 0 && by_size && !self.has_varying_blocks()
    }

    fn check_special(&self, special: Special) -> Result<(), FormatError> {
        let (typesize, nbytes) = (self.fields.typesize, self.nbytes());
        match special {
            Special::Nan if typesize != 4 && typesize != 8 => {
                let expected = Expected::Rule("4 or 8, as NaN is a float");
                Err(refuse(Class::BadTag, "typesize", 3, expected, typesize))
            }
            Special::Value(0) => {
                Err(refuse(Class::OutOfBounds, "cbytes", 12, Expected::AtLeast(33), self.cbytes()))
            }
            Special::Value(bytes) if nbytes.checked_rem(bytes) != Some(0) => {
                let expected = Expected::MultipleOf(bytes.into());
                Err(refuse(Class::Misaligned, "nbytes", 4, expected, nbytes))
            }
            Special::Zeros | Special::Nan | Special::Value(_) | Special::Unwritten => Ok(()),
        }
    }

    fn check_raw(&self) -> Result<(), FormatError> {
        let cbytes = u64::from(self.nbytes()).saturating_add(self.header_len().into());
        if u64::from(self.cbytes()) == cbytes {
            return Ok(());
        }
        let expected = Expected::Exactly(cbytes.into());
        Err(refuse(Class::CountMismatch, "cbytes", 12, expected, self.cbytes()))
    }

    fn check_blocks(&self) -> Result<(), FormatError> {
        let dictionary = if self.has_dictionary() { 4 } else { 0 };
        let least = self.table().end.saturating_add(dictionary);
        if u64::from(self.cbytes()) < least {
            let expected = Expected::AtLeast(least.into());
            return Err(refuse(Class::OutOfBounds, "cbytes", 12, expected, self.cbytes()));
        }
        if let Codec::Reserved(code) = self.codec() {
            let expected = Expected::Rule("a codec in use");
            return Err(refuse(Class::BadTag, "codec", 2, expected, code));
        }
        for (at, slot) in (16_u64..).zip(self.filters()) {
            if let Filter::Unknown(id) = slot.filter {
                let expected = Expected::Rule("a filter in use");
                return Err(refuse(Class::BadTag, "filter", at, expected, id));
            }
        }
        let typesize = u32::from(self.fields.typesize);
        if self.splits() && self.blocksize().checked_rem(typesize) != Some(0) {
            let expected = Expected::MultipleOf(typesize.into());
            return Err(refuse(Class::Misaligned, "blocksize", 8, expected, self.blocksize()));
        }
        Ok(())
    }
}

impl ExtendedFields {
    fn take(cur: &mut Cursor<'_>) -> Result<Self, FormatError> {
        let filters = *cur.one::<[u8; FILTER_SLOTS]>("filters")?;
        let [compressor, codec_meta] = *cur.one::<[u8; 2]>("compressor")?;
        let filter_metas = *cur.one::<[u8; FILTER_SLOTS]>("filter metas")?;
        let [flags2, blosc2_flags] = *cur.one::<[u8; 2]>("flags 2")?;
        Ok(Self { filters, compressor, codec_meta, filter_metas, flags2, blosc2_flags })
    }
}

impl Codec {
    /// The codec with this number in frames and in byte 22 of a chunk.
    #[must_use]
    pub const fn registered(number: u8) -> Self {
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
    /// The filter with this id.
    #[must_use]
    pub const fn registered(id: u8) -> Self {
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
}

fn check_flags(fields: &ChunkFields) -> Result<(), FormatError> {
    let ChunkFields { version, flags, extended, .. } = *fields;
    if !(BLOSC1..=VARYING_VERSION).contains(&version) {
        let expected = Expected::Between(BLOSC1.into(), VARYING_VERSION.into());
        return Err(refuse(Class::UnsupportedVersion, "version", 0, expected, version));
    }
    let both = flags & EXTENDED == EXTENDED;
    if both != extended.is_some() || (both && version == BLOSC1) {
        let expected =
            Expected::Rule("shuffle and bitshuffle together just before 32-byte headers");
        return Err(refuse(Class::UnsupportedFlags, "flags", 2, expected, flags));
    }
    let Some(extended) = extended else { return Ok(()) };
    let known = if version == VARYING_VERSION { VARYING } else { 0 };
    if extended.flags2 & !known != 0 {
        let expected = Expected::AtMost(known.into());
        return Err(refuse(Class::UnsupportedFlags, "flags 2", 30, expected, extended.flags2));
    }
    if extended.blosc2_flags & (LAZY | INSTRUMENTED) != 0 {
        let expected = Expected::Rule("neither lazy nor instrumented");
        let found = extended.blosc2_flags;
        return Err(refuse(Class::UnsupportedFlags, "blosc2 flags", 31, expected, found));
    }
    Ok(())
}

fn check_lengths(fields: &ChunkFields) -> Result<(), FormatError> {
    let header = if fields.extended.is_some() { 32 } else { 16 };
    if fields.typesize == 0 {
        return Err(refuse(Class::BadShape, "typesize", 3, Expected::AtLeast(1), 0_u8));
    }
    if fields.nbytes < 0 {
        return Err(refuse(Class::Negative, "nbytes", 4, Expected::AtLeast(0), fields.nbytes));
    }
    if fields.blocksize < 1 {
        let class = if fields.blocksize < 0 { Class::Negative } else { Class::BadShape };
        return Err(refuse(class, "blocksize", 8, Expected::AtLeast(1), fields.blocksize));
    }
    if fields.cbytes < header {
        let class = if fields.cbytes < 0 { Class::Negative } else { Class::OutOfBounds };
        let expected = Expected::AtLeast(header.into());
        return Err(refuse(class, "cbytes", 12, expected, fields.cbytes));
    }
    Ok(())
}

fn body(fields: &ChunkFields) -> Result<Body, FormatError> {
    let (blosc2_flags, flags2) =
        fields.extended.map_or((0, 0), |extended| (extended.blosc2_flags, extended.flags2));
    let value = fields.cbytes.unsigned_abs().saturating_sub(32);
    let body = match (blosc2_flags & SPECIAL) >> 4 {
        0 if fields.flags & RAW != 0 => Body::Raw,
        0 => Body::Blocks,
        1 => Body::Special(Special::Zeros),
        2 => Body::Special(Special::Nan),
        3 => Body::Special(Special::Value(value)),
        4 => Body::Special(Special::Unwritten),
        code => {
            let expected = Expected::Between(0, 4);
            return Err(refuse(Class::BadTag, "special value", 31, expected, code));
        }
    };
    if flags2 & VARYING != 0 && body != Body::Blocks {
        let expected = Expected::Rule("blocks, where they have lengths of their own");
        return Err(refuse(Class::UnsupportedFlags, "flags 2", 30, expected, flags2));
    }
    Ok(body)
}

fn refuse(
    class: Class,
    field: &'static str,
    at: u64,
    expected: Expected,
    found: impl Into<Found>,
) -> FormatError {
    FormatError::new(class, Part::BloscChunk, field, at, expected, found)
}

const SHUFFLE: u8 = 1;
const RAW: u8 = 1 << 1;
const BITSHUFFLE: u8 = 1 << 2;
const DELTA: u8 = 1 << 3;
const NOT_SPLIT: u8 = 1 << 4;
/// A 32-byte header: no block can be shuffled both ways.
const EXTENDED: u8 = SHUFFLE | BITSHUFFLE;

/// In flags 2: blocks have lengths of their own, and `blocksize` is their number.
const VARYING: u8 = 1;
const DICTIONARY: u8 = 1;
/// A form that only exists in memory.
const LAZY: u8 = 1 << 3;
const SPECIAL: u8 = 7 << 4;
const INSTRUMENTED: u8 = 1 << 7;
/// Blosc2 flags without a meaning for readers.
const RESERVED: u8 = 6;

/// The version of Blosc 1 chunks.
const BLOSC1: u8 = 2;
/// The version in which the last filter slot was not in use yet.
const FIVE_SLOTS: u8 = 3;
/// The version that allows blocks of varying length.
const VARYING_VERSION: u8 = 6;
/// Blosc 1 never split larger items.
const BLOSC1_TYPESIZE_MAX: u32 = 16;
/// Blosc 1 never split blocks of fewer items.
const BLOSC1_ITEMS_MIN: u32 = 128;

#[cfg(all(test, feature = "alloc"))]
mod tests;
