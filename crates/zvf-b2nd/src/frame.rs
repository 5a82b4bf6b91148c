//! An array in its frame, opened from a few byte ranges.
//!
//! ```text
//! 0                 header        fetch 87 bytes, then all of it
//! header_len        chunk data    empty in a sparse frame, whose chunks are files
//! data end          offsets chunk fetch 32 bytes for its length; absent without chunks
//!                   trailer
//! frame_len - 23    tail          fetch it when opening
//! ```
//!
//! This module does not read: each step returns the range that the next one needs, relative to the
//! start of the frame. To read an array, fetch header and tail ([`Frame::open`]), the offsets chunk
//! ([`Frame::offsets_head`], [`Frame::offsets_range`], [`ChunkOffsets`](super::ChunkOffsets)), then
//! for each chunk of a selection its front ([`Frame::chunk_front`], [`Frame::check_chunk`]) and the
//! spans of the blocks.
//!
//! Header, chunk data and trailer fit into the frame, one after the other, so sums and differences
//! of their ends are exact.

use core::ops::Range;

use super::chunk::{Body, ChunkHeader};
use super::fixed::{FixedHeader, FrameKind, TAIL};
use super::geometry::BlockGeometry;
use super::header::FrameHeader;
use super::metalayer::{Metalayer, MetalayerName};
use super::trailer::FrameTrailer;
use zvf_format::cursor::Cursor;
use zvf_format::{Class, Expected, FormatError, Found, Part};

/// The container of a frame, and its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Container {
    /// A file that is the frame.
    File(u64),
    /// A larger file, by the number of bytes from the start of the frame to the end of the file.
    Embedded(u64),
    /// A directory with chunk files, by the length of its index file.
    Directory(u64),
}

/// A frame that holds an array.
///
/// ```
/// use zvf_b2nd::{
///     ChunkOffsets, ChunkPlace, Container, FixedHeader, Frame, FrameFields, FrameHeader,
///     FrameTrailer, BlockGeometry, Metalayer, Partition, encode_offsets,
/// };
///
/// // An array of 7 zeros: no chunk data, so header, offsets chunk and trailer are all there is.
/// let geometry = BlockGeometry::new(Partition::new(&[7], &[4], &[2])?, 4)?;
/// let metalayer = Metalayer::b2nd(*geometry, "<i4")?.encode();
/// let offsets = encode_offsets(0, &[ChunkPlace::Zeros; 2])?;
/// let trailer = FrameTrailer::encode(&[])?;
/// let frame_len = 146 + 48 + 35;
/// let fields = FrameFields { frame_len, ..FrameFields::array(&geometry, 0) };
/// let header = FrameHeader::encode(&fields, &[("b2nd", &metalayer)])?;
/// let file = [header, offsets, trailer].concat();
///
/// let frame = Frame::open_whole(Container::File(frame_len), &file)?;
/// assert_eq!(frame.geometry().shape().as_slice(), [7]);
/// assert_eq!(frame.offsets_head(), Some(146..178));
/// let places = ChunkOffsets::parse(&frame, &file[178..194])?;
/// assert_eq!(places.place(1), Some(ChunkPlace::Zeros));
/// # Ok::<(), zvf_format::FormatError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    header: FrameHeader<'a>,
    metalayer: Metalayer<'a>,
    geometry: BlockGeometry, // as many chunks as uncompressed_size says
    trailer_len: u64,        // fits after the chunk data
}

impl<'a> Frame<'a> {
    /// Checks header and tail of a frame: the bytes of [`FixedHeader::header_range`] and of
    /// [`FixedHeader::tail_range`].
    ///
    /// # Errors
    ///
    /// As [`FrameHeader::parse`], [`FrameTrailer::len_from_tail`] and [`Metalayer::parse`]; when
    /// the frame does not fit its container, has no array metalayer, has blocks of varying length,
    /// or states sizes that do not fit the geometry.
    pub fn open(container: Container, header: &'a [u8], tail: &[u8]) -> Result<Self, FormatError> {
        let header = FrameHeader::parse(header)?;
        let fixed = header.fixed_header();
        fixed.check_container(container)?;
        let trailer_len = trailer_len(fixed, tail)?;
        if fixed.fields().has_varying_blocks() {
            let expected = Expected::Rule("blocks of one length, as in every array");
            let (class, found) = (Class::UnsupportedFlags, fixed.fields().general_flags);
            return Err(refuse(class, "general flags", 25, expected, found));
        }
        let metalayer = array_metalayer(&header)?;
        let geometry = geometry(&header, &metalayer)?;
        Ok(Self { header, metalayer, geometry, trailer_len })
    }

    /// Opens a frame, or the index file of a sparse one, that is completely in memory.
    ///
    /// # Errors
    ///
    /// As `open`, and when the frame is truncated.
    pub fn open_whole(container: Container, frame: &'a [u8]) -> Result<Self, FormatError> {
        let fixed = FixedHeader::parse(frame)?;
        fixed.check_container(container)?;
        let mut cur = Cursor::new(Part::FrameHeader, frame);
        let header = cur.bytes("header", fixed.header_range().end)?;
        cur.bytes("frame", fixed.tail_range().start.saturating_sub(cur.position()))?;
        let tail = cur.bytes("tail", TAIL)?;
        Self::open(container, header, tail)
    }

    /// Returns the header.
    pub const fn header(&self) -> &FrameHeader<'a> {
        &self.header
    }

    /// Returns the metalayer of the array.
    pub const fn metalayer(&self) -> &Metalayer<'a> {
        &self.metalayer
    }

    /// Returns the geometry of chunks and blocks.
    pub const fn geometry(&self) -> &BlockGeometry {
        &self.geometry
    }

    /// Returns the range of the trailer in the frame. Array data can be read without it.
    pub const fn trailer_range(&self) -> Range<u64> {
        let end = self.header.fields().frame_len;
        end.saturating_sub(self.trailer_len)..end
    }

    /// Returns the range of the header of the offsets chunk, or `None` when the array has no
    /// chunks.
    pub fn offsets_head(&self) -> Option<Range<u64>> {
        let start = self.header.fixed_header().data_end();
        let some = self.geometry.chunk_count() > 0;
        some.then(|| start..start.saturating_add(CHUNK_HEADER))
    }

    /// Returns the range of the whole offsets chunk, from its header.
    ///
    /// # Errors
    ///
    /// When it does not decode to 8 bytes for each chunk, or runs into the trailer.
    pub fn offsets_range(&self, head: &ChunkHeader) -> Result<Range<u64>, FormatError> {
        let start = self.header.fixed_header().data_end();
        let wrong = |class, field, at, expected, found: u32| {
            FormatError::new(class, Part::FrameOffsets, field, at, expected, found)
                .with_base_offset(start)
        };
        let nbytes = i128::from(self.geometry.chunk_count()).saturating_mul(8);
        if i128::from(head.nbytes()) != nbytes {
            let expected = Expected::Exactly(nbytes);
            return Err(wrong(Class::CountMismatch, "nbytes", 4, expected, head.nbytes()));
        }
        let room = self.trailer_range().start.saturating_sub(start);
        if u64::from(head.cbytes()) > room {
            let expected = Expected::AtMost(room.into());
            return Err(wrong(Class::OutOfBounds, "cbytes", 12, expected, head.cbytes()));
        }
        Ok(start..start.saturating_add(head.cbytes().into()))
    }

    /// Returns the range of the entry of chunk `number`, when the offsets chunk is a raw copy.
    pub fn offset_entry(&self, head: &ChunkHeader, number: u64) -> Option<Range<u64>> {
        if head.body() != Body::Raw || number >= self.geometry.chunk_count() {
            return None;
        }
        let start = self.header.fixed_header().data_end().checked_add(head.header_len().into())?;
        let start = start.checked_add(number.checked_mul(8)?)?;
        Some(start..start.checked_add(8)?)
    }

    /// Returns the bytes to fetch first of a chunk that is stored in `room` bytes: header, and
    /// block table if it has one. [`Frame::room`] returns the room of a chunk in the frame; the
    /// room of a chunk in a file is the length of the file.
    pub fn chunk_front(&self, room: u64) -> u64 {
        let table = u64::from(self.geometry.block_count()).saturating_mul(4); // less than 2^34
        CHUNK_HEADER.saturating_add(table).saturating_add(DICTIONARY_SIZE).min(room)
    }

    /// Returns the number of bytes from `position` to the end of the chunk data; 0 after it.
    pub fn room(&self, position: u64) -> u64 {
        self.header.fixed_header().data_end().saturating_sub(position)
    }

    /// Checks that a chunk stored in `room` bytes belongs to this array.
    ///
    /// # Errors
    ///
    /// When its decoded size or its block size is not that of the geometry, it is longer than its
    /// room, or its blocks have varying lengths. The offset of the error counts from the start of
    /// the chunk.
    pub fn check_chunk(&self, chunk: &ChunkHeader, room: u64) -> Result<(), FormatError> {
        let wrong = |class, field, at, expected, found: u32| {
            Err(FormatError::new(class, Part::BloscChunk, field, at, expected, found))
        };
        if chunk.has_varying_blocks() {
            let expected = Expected::Rule("blocks of one length, as in every array");
            let found = chunk.block_count();
            return wrong(Class::UnsupportedFlags, "flags 2", 30, expected, found);
        }
        let (chunk_size, block_size) = (self.geometry.chunk_size(), self.geometry.block_size());
        if chunk.nbytes() != chunk_size {
            let expected = Expected::Exactly(chunk_size.into());
            return wrong(Class::CountMismatch, "nbytes", 4, expected, chunk.nbytes());
        }
        let special = matches!(chunk.body(), Body::Special(_));
        if !special && chunk.blocksize() != block_size {
            let expected = Expected::Exactly(block_size.into());
            return wrong(Class::CountMismatch, "blocksize", 8, expected, chunk.blocksize());
        }
        if u64::from(chunk.cbytes()) > room {
            let expected = Expected::AtMost(room.into());
            return wrong(Class::OutOfBounds, "cbytes", 12, expected, chunk.cbytes());
        }
        Ok(())
    }
}

impl FixedHeader {
    /// Checks that the frame fits its container, before any other part of it is fetched.
    ///
    /// # Errors
    ///
    /// When a file or an index file does not have the exact length of the frame, a larger file ends
    /// before the frame does, or only one of container and frame is sparse.
    pub fn check_container(&self, container: Container) -> Result<(), FormatError> {
        let (len, kind, exact) = match container {
            Container::File(len) => (len, FrameKind::Contiguous, true),
            Container::Embedded(len) => (len, FrameKind::Contiguous, false),
            Container::Directory(len) => (len, FrameKind::Sparse, true),
        };
        let frame_len = self.fields().frame_len;
        if frame_len > len {
            let (expected, part) = (Expected::Bytes(frame_len), Part::FrameHeader);
            return Err(FormatError::new(Class::Truncated, part, "frame_len", 15, expected, len));
        }
        if exact && frame_len != len {
            let expected = Expected::Exactly(len.into());
            return Err(refuse(Class::Trailing, "frame_len", 15, expected, frame_len));
        }
        if self.fields().kind != kind {
            let (expected, found) = match kind {
                FrameKind::Contiguous => (Expected::Rule("a frame of one file"), "a directory's"),
                FrameKind::Sparse => (Expected::Rule("a directory's frame"), "one of one file"),
            };
            return Err(refuse(Class::BadTag, "frame type", 26, expected, found));
        }
        Ok(())
    }
}

fn trailer_len(fixed: &FixedHeader, tail: &[u8]) -> Result<u64, FormatError> {
    let at = fixed.tail_range().start;
    let len = FrameTrailer::len_from_tail(tail).map_err(|error| error.with_base_offset(at))?;
    let max_len = fixed.fields().frame_len.saturating_sub(fixed.data_end());
    if len > max_len {
        let expected = Expected::AtMost(max_len.into());
        let (class, part) = (Class::OutOfBounds, Part::FrameTrailer);
        return Err(FormatError::new(class, part, "trailer length", at, expected, len));
    }
    Ok(len)
}

fn array_metalayer<'a>(header: &FrameHeader<'a>) -> Result<Metalayer<'a>, FormatError> {
    for name in [MetalayerName::B2nd, MetalayerName::Caterva] {
        if let Some(entry) = header.metalayer(name.text()) {
            return Metalayer::parse(name, entry.content).map_err(|e| e.with_base_offset(entry.at));
        }
    }
    let expected = Expected::Rule("one called b2nd or caterva");
    Err(refuse(Class::BadTag, "metalayers", 87, expected, header.metalayers().count()))
}

fn geometry(
    header: &FrameHeader<'_>,
    metalayer: &Metalayer<'_>,
) -> Result<BlockGeometry, FormatError> {
    let fields = header.fields();
    let sizes = (fields.type_size, fields.block_size, fields.chunk_size);
    let geometry = BlockGeometry::from_sizes(*metalayer.partition(), sizes.0, sizes.1, sizes.2)?;
    let chunks = i128::from(geometry.chunk_count());
    let expected = chunks.saturating_mul(fields.chunk_size.into());
    if i128::from(fields.uncompressed_size) != expected {
        let (class, expected) = (Class::CountMismatch, Expected::Exactly(expected));
        let found = fields.uncompressed_size;
        return Err(refuse(class, "uncompressed_size", 29, expected, found));
    }
    Ok(geometry)
}

fn refuse(
    class: Class,
    field: &'static str,
    at: u64,
    expected: Expected,
    found: impl Into<Found>,
) -> FormatError {
    FormatError::new(class, Part::FrameHeader, field, at, expected, found)
}

/// The longest header of a chunk.
const CHUNK_HEADER: u64 = 32;
/// The bytes after the block table that state the size of a dictionary.
const DICTIONARY_SIZE: u64 = 4;

#[cfg(all(test, feature = "alloc"))]
mod tests;
