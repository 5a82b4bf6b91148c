//! The fixed part of the header of a Blosc2 frame: 87 bytes.
//!
//! ```text
//! offset  size  field
//! 0       1+9   9e, then magic: a8 "b2frame" 00
//! 10      5     header_len, d2 i32
//! 15      9     frame_len, cf u64
//! 24      5     a4, then flags: general, frame type, codec, other
//! 29      9     uncompressed_size, d3 i64
//! 38      9     compressed_size, d3 i64
//! 47      5     type_size, d2 i32
//! 52      5     block_size, d2 i32
//! 57      5     chunk_size, d2 i32
//! 62      3+3   threads that compress and decompress, d1 i16
//! 68      1     vlmetalayers: c2 no, c3 yes
//! 69      2     d8 06
//! 71      6     filter ids
//! 77      1+1   compressor, codec meta
//! 79      6     filter metas
//! 85      1+1   other flags 2, reserved
//! 87            metalayers, to header_len
//! ```
//!
//! Big-endian. General flags: format in bits 0-3, offset width in bits 4-5, then chunks of varying
//! size and blocks of varying length. Codec, filters, block size and threads are defaults for later
//! writers; each chunk states its own encoding.
//!
//! Metalayers are in [`FrameHeader`](super::FrameHeader).

use core::ops::Range;

use super::chunk::FILTER_SLOTS;
use super::msgpack::{self, At};
use zerocopy::big_endian::{I16, I32, I64, U64};
use zvf_format::cursor::Cursor;
use zvf_format::num;
use zvf_format::{Class, Expected, FormatError, Part};

/// The storage of the chunks of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FrameKind {
    /// Between header and trailer.
    #[default]
    Contiguous,
    /// In separate files, in the directory of the frame.
    Sparse,
}

/// The fields of the fixed part of a frame header.
///
/// ```
/// use zvf_b2nd::{FrameFields, BlockGeometry, Partition};
///
/// let geometry = BlockGeometry::new(Partition::new(&[7], &[4], &[2])?, 4)?;
/// let fields = FrameFields { codec_flags: 0x55, ..FrameFields::array(&geometry, 64) };
/// assert_eq!((fields.uncompressed_size, fields.chunk_size), (32, 16));
/// # Ok::<(), zvf_format::FormatError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameFields {
    /// Bytes of the header, metalayers included.
    pub header_len: u32,
    /// Bytes of the frame, or of the index file of a sparse one.
    pub frame_len: u64,
    /// Format, offset width, variable sizes.
    pub general_flags: u8,
    /// The storage of the chunks.
    pub kind: FrameKind,
    /// Compressor number (not the code used in chunks) and level.
    pub codec_flags: u8,
    /// Split mode.
    pub other_flags: u8,
    /// Decoded bytes of all chunks.
    pub uncompressed_size: u64,
    /// Stored bytes of all chunks.
    pub compressed_size: u64,
    /// Bytes of an item, or 1.
    pub type_size: u32,
    /// Bytes of a decoded block, or 0.
    pub block_size: u32,
    /// Bytes of a decoded chunk.
    pub chunk_size: u32,
    /// Threads that compressed.
    pub compression_threads: i16,
    /// Threads that decompress.
    pub decompression_threads: i16,
    /// Whether the trailer has entries.
    pub has_vlmetalayers: bool,
    /// Filters for new chunks.
    pub filters: [u8; FILTER_SLOTS],
    /// The compressor again, as a full byte.
    pub compressor: u8,
    /// A parameter of the codec.
    pub codec_meta: u8,
    /// Parameters of the filters.
    pub filter_metas: [u8; FILTER_SLOTS],
    /// Bit 0: chunks use dictionaries.
    pub other_flags2: u8,
    /// Always 0.
    pub reserved: u8,
}

/// The first 87 bytes of a frame, which determine the next ranges.
///
/// ```
/// use zvf_b2nd::FixedHeader;
///
/// # #[cfg(feature = "alloc")] {
/// # use zvf_b2nd::{FrameFields, FrameHeader, BlockGeometry, Partition};
/// # let geometry = BlockGeometry::new(Partition::new(&[7], &[4], &[2])?, 4)?;
/// # let mut fields = FrameFields::array(&geometry, 64);
/// # fields.frame_len = 1000;
/// # let bytes = FrameHeader::encode(&fields, &[("mine", b"x")])?;
/// let fixed = FixedHeader::parse(&bytes[..FixedHeader::LEN])?;
/// assert_eq!(fixed.header_range(), 0..113);
/// assert_eq!(fixed.tail_range(), 977..1000);
/// # }
/// # Ok::<(), zvf_format::FormatError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixedHeader {
    // `header_len`, `compressed_size` and a tail fit into `frame_len`, so differences and sums of
    // them are exact; sizes are not negative when stored.
    fields: FrameFields,
}

impl FixedHeader {
    /// Its length in bytes.
    pub const LEN: usize = 87;

    /// Checks the first 87 bytes of `frame`; later ones are ignored.
    ///
    /// # Errors
    ///
    /// When there are fewer, a magic or marker byte is wrong, the format or the offset width is
    /// unknown, a size is negative, or header, chunks and tail do not fit into the frame.
    pub fn parse(frame: &[u8]) -> Result<Self, FormatError> {
        let mut cur = Cursor::new(Part::FrameHeader, frame);
        let magic = *cur.item::<[u8; 10]>("magic")?;
        if magic != MAGIC {
            let [_, _, found @ .., _, _, _, _] = magic;
            let expected = Expected::Rule("9e a8 \"b2frame\" 00");
            return Err(cur.refuse(Class::BadMagic, "magic", 0, expected, found));
        }
        let mut fixed = Self { fields: FrameFields::default() };
        let fields = &mut fixed.fields;
        fields.header_len = size_i32(&mut cur, "header_len")?;
        fields.frame_len = msgpack::number(&mut cur, "frame_len", 0xcf, U64::get)?.value;
        msgpack::marker(&mut cur, "flags", 0xa4)?;
        fields.general_flags = parse_general_flags(&mut cur)?;
        fields.kind = parse_kind(&mut cur)?;
        [fields.codec_flags, fields.other_flags] = *cur.item::<[u8; 2]>("codec flags")?;
        fields.uncompressed_size = msgpack::size(&mut cur, "uncompressed_size", 0xd3, I64::get)?;
        fields.compressed_size = msgpack::size(&mut cur, "compressed_size", 0xd3, I64::get)?;
        fields.type_size = parse_type_size(&mut cur)?;
        fields.block_size = size_i32(&mut cur, "block_size")?;
        fields.chunk_size = size_i32(&mut cur, "chunk_size")?;
        let mut threads = |field| Ok(msgpack::number(&mut cur, field, 0xd1, I16::get)?.value);
        fields.compression_threads = threads("compression threads")?;
        fields.decompression_threads = threads("decompression threads")?;
        fields.has_vlmetalayers = parse_bool(&mut cur, "has vlmetalayers")?;
        msgpack::marker(&mut cur, "ext header", 0xd8)?;
        msgpack::marker(&mut cur, "filter slots", 6)?;
        fields.filters = *cur.item("filters")?;
        [fields.compressor, fields.codec_meta] = *cur.item::<[u8; 2]>("compressor")?;
        fields.filter_metas = *cur.item("filter metas")?;
        [fields.other_flags2, fields.reserved] = *cur.item::<[u8; 2]>("other flags 2")?;
        fixed.check_lengths(&cur)?;
        Ok(fixed)
    }

    /// Returns the fields.
    pub const fn fields(&self) -> &FrameFields {
        &self.fields
    }

    /// Returns the range of the header in the frame, metalayers included.
    pub fn header_range(&self) -> Range<u64> {
        0..self.fields.header_len.into()
    }

    /// Returns the range of the last 23 bytes, which state the length of the trailer.
    pub const fn tail_range(&self) -> Range<u64> {
        self.fields.frame_len.saturating_sub(TAIL)..self.fields.frame_len
    }

    /// Returns the end of chunk data, where the offsets chunk begins. A sparse frame has no chunk
    /// data.
    pub fn data_end(&self) -> u64 {
        let data = match self.fields.kind {
            FrameKind::Contiguous => self.fields.compressed_size,
            FrameKind::Sparse => 0,
        };
        u64::from(self.fields.header_len).saturating_add(data) // both were stored with a sign
    }

    fn check_lengths(&self, cur: &Cursor<'_>) -> Result<(), FormatError> {
        let FrameFields { header_len, frame_len, compressed_size, .. } = self.fields;
        if !(FRAME_MIN..=FRAME_MAX).contains(&frame_len) {
            let expected = Expected::Between(FRAME_MIN.into(), FRAME_MAX.into());
            return Err(cur.refuse(Class::OutOfBounds, "frame_len", 15, expected, frame_len));
        }
        let max_data_end = frame_len.saturating_sub(TRAILER_MIN); // it has FRAME_MIN or more
        let allowed = Expected::Between(FIXED.into(), max_data_end.into());
        if !allowed.allows(header_len.into()) {
            return Err(cur.refuse(Class::OutOfBounds, "header_len", 10, allowed, header_len));
        }
        if self.data_end() > max_data_end {
            let expected =
                Expected::AtMost(i128::from(max_data_end).saturating_sub(header_len.into()));
            let class = Class::OutOfBounds;
            return Err(cur.refuse(class, "compressed_size", 38, expected, compressed_size));
        }
        Ok(())
    }
}

impl FrameFields {
    /// Returns the fields of a new contiguous frame around an array with `compressed_size` bytes of
    /// chunks. The caller sets codec, level and filters, and `frame_len`.
    ///
    /// If the decoded length of the array does not fit, `uncompressed_size` saturates, which
    /// [`FrameHeader::encode`](super::FrameHeader::encode) refuses.
    pub fn array(geometry: &super::BlockGeometry, compressed_size: u64) -> Self {
        let chunks = geometry.chunk_count();
        Self {
            general_flags: GENERAL_FLAGS,
            uncompressed_size: chunks.saturating_mul(geometry.chunk_size().into()),
            compressed_size,
            type_size: geometry.item_size(),
            block_size: geometry.block_size(),
            chunk_size: geometry.chunk_size(),
            compression_threads: 1,
            decompression_threads: 1,
            ..Self::default()
        }
    }

    /// Returns whether blocks have varying lengths; such frames are not arrays.
    pub const fn has_varying_blocks(&self) -> bool {
        self.general_flags & 0x80 != 0
    }

    #[cfg(feature = "alloc")]
    pub(super) fn encode(&self) -> alloc::vec::Vec<u8> {
        use msgpack::write;

        let short = |n: u32| I32::new(i32::try_from(n).unwrap_or(-1)); // refused when parsed again
        let long = |n: u64| I64::new(i64::try_from(n).unwrap_or(-1));
        let kind = match self.kind {
            FrameKind::Contiguous => 0,
            FrameKind::Sparse => 1,
        };
        let mut out = alloc::vec::Vec::with_capacity(FixedHeader::LEN);
        out.extend(MAGIC);
        write(&mut out, 0xd2, &short(self.header_len));
        write(&mut out, 0xcf, &U64::new(self.frame_len));
        out.extend([0xa4, self.general_flags, kind, self.codec_flags, self.other_flags]);
        write(&mut out, 0xd3, &long(self.uncompressed_size));
        write(&mut out, 0xd3, &long(self.compressed_size));
        for size in [self.type_size, self.block_size, self.chunk_size] {
            write(&mut out, 0xd2, &short(size));
        }
        for threads in [self.compression_threads, self.decompression_threads] {
            write(&mut out, 0xd1, &I16::new(threads));
        }
        out.push(if self.has_vlmetalayers { 0xc3 } else { 0xc2 });
        out.extend([0xd8, 6]);
        out.extend(self.filters);
        out.extend([self.compressor, self.codec_meta]);
        out.extend(self.filter_metas);
        out.extend([self.other_flags2, self.reserved]);
        out
    }
}

fn parse_general_flags(cur: &mut Cursor<'_>) -> Result<u8, FormatError> {
    let At { at, value } = msgpack::byte(cur, "general flags")?;
    let (format, width) = (value & 0x0f, (value >> 4) & 3);
    if format > FORMAT_MAX {
        let expected = Expected::AtMost(FORMAT_MAX.into());
        return Err(cur.refuse(Class::UnsupportedVersion, "frame format", at, expected, format));
    }
    if width != OFFSETS_64_BIT {
        let expected = Expected::Exactly(OFFSETS_64_BIT.into());
        return Err(cur.refuse(Class::UnsupportedFlags, "offset width", at, expected, width));
    }
    Ok(value)
}

fn parse_kind(cur: &mut Cursor<'_>) -> Result<FrameKind, FormatError> {
    let At { at, value } = msgpack::byte(cur, "frame type")?;
    match value {
        0 => Ok(FrameKind::Contiguous),
        1 => Ok(FrameKind::Sparse),
        _ => Err(cur.refuse(Class::BadTag, "frame type", at, Expected::Between(0, 1), value)),
    }
}

fn parse_type_size(cur: &mut Cursor<'_>) -> Result<u32, FormatError> {
    let at = cur.position();
    let size = size_i32(cur, "type_size")?;
    if size == 0 {
        return Err(cur.refuse(Class::BadShape, "type_size", at, Expected::AtLeast(1), size));
    }
    Ok(size)
}

fn parse_bool(cur: &mut Cursor<'_>, field: &'static str) -> Result<bool, FormatError> {
    let At { at, value } = msgpack::byte(cur, field)?;
    match value {
        0xc2 => Ok(false),
        0xc3 => Ok(true),
        _ => Err(cur.refuse(Class::BadTag, field, at, Expected::Between(0xc2, 0xc3), value)),
    }
}

fn size_i32(cur: &mut Cursor<'_>, field: &'static str) -> Result<u32, FormatError> {
    msgpack::size(cur, field, 0xd2, I32::get).map(num::saturating_u32)
}

const MAGIC: [u8; 10] = *b"\x9e\xa8b2frame\0";
/// [`FixedHeader::LEN`], as a file length.
pub(super) const FIXED: u64 = 87;
const _: () = assert!(FixedHeader::LEN == 87, "FIXED says the same");
/// Bytes from the marker of the trailer length to the end of a frame.
pub(super) const TAIL: u64 = 23;
/// The shortest trailer that is accepted.
pub(super) const TRAILER_MIN: u64 = 25;
/// The shortest frame: a fixed header and a trailer.
const FRAME_MIN: u64 = 112;
/// The longest: positions are stored with a sign.
const FRAME_MAX: u64 = i64::MAX.unsigned_abs();
/// The newest format.
const FORMAT_MAX: u8 = 3;
/// The only offset width in use.
const OFFSETS_64_BIT: u8 = 1;
/// Format 2, 64-bit offsets.
const GENERAL_FLAGS: u8 = 0x12;
