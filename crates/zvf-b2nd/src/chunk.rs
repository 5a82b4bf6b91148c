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
//! Little-endian, lengths signed. The flags determine the part after the header, in this order:
//! with a special value, it is the value or nothing, without a block table; with the raw copy flag,
//! the plain bytes; otherwise a table of block positions, a dictionary if there is one, and the
//! blocks.
//!
//! Codec and filters are checked only where they are used: a raw copy may list filters that were
//! never applied.

mod check;
mod fields;

use zerocopy::little_endian::I32;

use self::fields::{
    BITSHUFFLE, BLOSC1, BLOSC1_ITEMS_MIN, BLOSC1_TYPESIZE_MAX, DELTA, DICTIONARY, EXTENDED,
    FIVE_SLOTS, NOT_SPLIT, RESERVED, SHUFFLE, VARYING,
};
pub use self::fields::{
    BloscCodec, Body, ChunkFields, ExtendedFields, FILTER_SLOTS, Filter, FilterSlot, Special,
};
use zvf_format::Lints;
use zvf_format::cursor::Cursor;
use zvf_format::{Class, Expected, FormatError, Part};

/// A chunk header with consistent fields.
///
/// ```
/// use zvf_b2nd::{Body, ChunkHeader, BloscCodec, Filter};
///
/// let chunk = b"\x05\x01\x35\x04\x40\0\0\0\x10\0\0\0\x60\0\0\0\x01\0\0\0\0\0\x01\0\0\0\0\0\0\0\0\0";
/// let header = ChunkHeader::parse(chunk)?;
/// assert_eq!((header.nbytes(), header.blocksize(), header.cbytes()), (64, 16, 96));
/// assert_eq!((header.codec(), header.body(), header.block_count()), (BloscCodec::Lz4, Body::Blocks, 4));
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
    /// Checks the front of a chunk. Bytes after the header are ignored.
    ///
    /// # Errors
    ///
    /// When there are fewer bytes than the header has (16, or 32 as its flags state), or a field
    /// contradicts the format or another field.
    pub fn parse(chunk: &[u8]) -> Result<Self, FormatError> {
        let mut cur = Cursor::new(Part::BloscChunk, chunk);
        let [version, codec_version, flags, typesize] = *cur.item::<[u8; 4]>("version")?;
        let nbytes = cur.item::<I32>("nbytes")?.get();
        let blocksize = cur.item::<I32>("blocksize")?.get();
        let cbytes = cur.item::<I32>("cbytes")?.get();
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

    /// Parses as [`ChunkHeader::parse`], and refuses what [`ChunkHeader::lints`] lists.
    ///
    /// # Errors
    ///
    /// As `parse`, and for the first lint.
    pub fn parse_strict(chunk: &[u8]) -> Result<Self, FormatError> {
        let header = Self::parse(chunk)?;
        header.lints().into_strict()?;
        Ok(header)
    }

    /// Checks that the fields are consistent.
    ///
    /// # Errors
    ///
    /// As [`ChunkHeader::parse`].
    pub fn new(fields: ChunkFields) -> Result<Self, FormatError> {
        check::flags(&fields)?;
        check::lengths(&fields)?;
        let body = check::body(&fields)?;
        let mut header = Self { fields, body, block_count: 0 };
        header.block_count = header.count_blocks();
        match body {
            Body::Special(special) => header.check_special(special)?,
            Body::Raw => header.check_raw()?,
            Body::Blocks => header.check_blocks()?,
        }
        Ok(header)
    }

    /// Returns the stored fields.
    pub const fn fields(&self) -> &ChunkFields {
        &self.fields
    }

    /// Returns the length of the header: 16 or 32.
    pub const fn header_len(&self) -> u32 {
        if self.fields.extended.is_some() { 32 } else { 16 }
    }

    /// Returns the decoded length in bytes.
    pub const fn nbytes(&self) -> u32 {
        self.fields.nbytes.unsigned_abs()
    }

    /// Returns the length of a decoded block, except the last one; at most that of the chunk. 0 if
    /// blocks have varying lengths.
    pub fn blocksize(&self) -> u32 {
        let (stored, nbytes) = (self.fields.blocksize.unsigned_abs(), self.nbytes());
        match (self.has_varying_blocks(), nbytes) {
            (true, _) => 0,
            (false, 0) => stored,
            (false, _) => stored.min(nbytes),
        }
    }

    /// Returns the stored length of the chunk in bytes, header included.
    pub const fn cbytes(&self) -> u32 {
        self.fields.cbytes.unsigned_abs()
    }

    /// Returns the number of blocks.
    pub const fn block_count(&self) -> u32 {
        self.block_count
    }

    /// Returns the decoded length of block `j`; `None` beyond the last, or if only the block itself
    /// states it.
    pub fn block_len(&self, j: u32) -> Option<u32> {
        if j >= self.block_count || self.has_varying_blocks() {
            return None;
        }
        let left = self.nbytes().checked_sub(j.checked_mul(self.blocksize())?)?;
        Some(left.min(self.blocksize()))
    }

    /// Returns the type of the body.
    pub const fn body(&self) -> Body {
        self.body
    }

    /// Returns the codec of blocks.
    pub fn codec(&self) -> BloscCodec {
        match (self.fields.flags >> 5, self.fields.extended) {
            (0, _) => BloscCodec::BloscLz,
            (1, _) => BloscCodec::Lz4,
            (2, None) if self.fields.version == BLOSC1 => BloscCodec::Snappy,
            (3, _) => BloscCodec::Zlib,
            (4, _) => BloscCodec::Zstd,
            (6, Some(extended)) => BloscCodec::from_number(extended.compressor),
            (code, _) => BloscCodec::Reserved(code),
        }
    }

    /// Returns the filters of each block, in order; decoders undo them from the last slot to the
    /// first.
    pub fn filters(&self) -> [FilterSlot; FILTER_SLOTS] {
        let mut slots = [FilterSlot::default(); FILTER_SLOTS];
        if let Some(extended) = self.fields.extended {
            let stored = extended.filters.into_iter().zip(extended.filter_metas);
            for (slot, (id, meta)) in slots.iter_mut().zip(stored) {
                *slot = FilterSlot { filter: Filter::from_id(id), meta };
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

    /// Returns whether block `j > 0` depends on block 0.
    pub fn needs_first_block(&self) -> bool {
        self.body == Body::Blocks && self.filters().iter().any(|slot| slot.filter == Filter::Delta)
    }

    /// Returns whether a dictionary follows the block table.
    pub fn has_dictionary(&self) -> bool {
        let extended = self.fields.extended;
        self.body == Body::Blocks && extended.is_some_and(|e| e.blosc2_flags & DICTIONARY != 0)
    }

    /// Returns whether blocks have varying lengths; such chunks do not occur in arrays.
    pub fn has_varying_blocks(&self) -> bool {
        self.fields.extended.is_some_and(|extended| extended.flags2 & VARYING != 0)
    }

    /// Returns the number of streams of block `j`, all of the same decoded length.
    pub fn streams(&self, j: u32) -> u32 {
        if self.splits() && self.block_len(j) == Some(self.blocksize()) {
            self.fields.typesize.into()
        } else {
            1
        }
    }

    /// Returns the range of the block table in the chunk; empty when the body is not blocks.
    pub fn table(&self) -> core::ops::Range<u64> {
        let start = u64::from(self.header_len());
        let blocks = if self.body == Body::Blocks { u64::from(self.block_count) } else { 0 };
        start..start.saturating_add(blocks.saturating_mul(4)) // less than 2^35
    }

    /// Lists readable properties that differ from the output of stock libraries.
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
        let bare = self.header_len().saturating_add(value); // that value fits in the chunk
        if matches!(self.body, Body::Special(_)) && self.cbytes() > bare {
            lint("cbytes", 12, Expected::Exactly(bare.into()), self.cbytes().into());
        }
        let reserved = fields.extended.map_or(0, |extended| extended.blosc2_flags & RESERVED);
        if reserved != 0 {
            lint("reserved flags", 31, Expected::Exactly(0), reserved.into());
        }
        lints
    }

    /// Returns the header: 16 or 32 bytes.
    #[cfg(feature = "alloc")]
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

    /// Returns whether full blocks are stored as one stream for each byte of an item. Early Blosc 1
    /// chunks have no flag for it, and its reader derives the answer from the sizes.
    fn splits(&self) -> bool {
        let (typesize, blocksize) = (u32::from(self.fields.typesize), self.blocksize());
        let items = blocksize.checked_div(typesize).unwrap_or(0); // typesize is not 0
        let by_size = self.fields.version != BLOSC1
            || (typesize <= BLOSC1_TYPESIZE_MAX && items >= BLOSC1_ITEMS_MIN);
        self.fields.flags & NOT_SPLIT == 0 && by_size && !self.has_varying_blocks()
    }
}

#[cfg(all(test, feature = "alloc"))]
mod tests;
