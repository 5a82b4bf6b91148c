//! The place of each chunk of a frame: the entries of the offsets chunk.
//!
//! ```text
//! 8n    entries, i64, one for each chunk number
//!       0 or more   where the chunk is stored: bytes from the end of the header, or number of its file
//!       81 00..     all zero bytes
//!       82 00..     all NaN
//!       84 00..     never written
//! ```
//!
//! Little-endian; the codes are in the highest byte, so those entries are negative. Entries need
//! not ascend. The offsets chunk itself is a Blosc2 chunk; this module reads its decoded bytes. A
//! raw copy can be read entry by entry.

use core::fmt;

use zerocopy::little_endian::I64;

use super::fixed::FrameKind;
use super::frame::Frame;
use zvf_format::cursor::Cursor;
use zvf_format::num;
use zvf_format::{Class, Expected, FormatError, Part};

/// The place of a chunk.
///
/// ```
/// use zvf_b2nd::{ChunkFile, ChunkPlace};
///
/// let named = |place| match place {
///     ChunkPlace::File(file) => Some(file.to_string()),
///     _ => None,
/// };
/// assert_eq!(named(ChunkPlace::File(ChunkFile(7))).as_deref(), Some("00000007.chunk"));
/// assert_eq!(named(ChunkPlace::Zeros), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChunkPlace {
    /// In the frame, from this byte on.
    Frame(u64),
    /// In a separate file.
    File(ChunkFile),
    /// Not stored: all bytes of it are zero.
    Zeros,
    /// Not stored: all items of it are quiet NaN.
    Nan,
    /// Not stored: it was never written, and reads as zeros.
    Unwritten,
}

/// The file of one chunk in the directory of a sparse frame; its name is derived from a number.
///
/// ```
/// use zvf_b2nd::ChunkFile;
///
/// assert_eq!(ChunkFile(0x2f).to_string(), "0000002F.chunk");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChunkFile(pub u32);

impl fmt::Display for ChunkFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08X}.chunk", self.0)
    }
}

/// The places of all chunks of a frame.
///
/// ```
/// use zvf_b2nd::{
///     ChunkOffsets, ChunkPlace, Container, Frame, FrameFields, FrameHeader, FrameTrailer, BlockGeometry,
///     Metalayer, Partition,
/// };
///
/// # #[cfg(feature = "alloc")] {
/// # let geometry = BlockGeometry::new(Partition::new(&[1], &[4], &[2])?, 4)?;
/// # let metalayer = Metalayer::caterva(*geometry).encode();
/// # let fields = FrameFields { frame_len: 400, ..FrameFields::array(&geometry, 100) };
/// # let header = FrameHeader::encode(&fields, &[("caterva", &metalayer)])?;
/// # let tail = &FrameTrailer::encode(&[])?[12..];
/// let frame = Frame::open(Container::File(400), &header, tail)?;
/// let decoded = 96_u64.to_le_bytes();
/// let places = ChunkOffsets::parse(&frame, &decoded)?;
/// let at = u64::from(frame.header().fields().header_len) + 96;
/// assert_eq!(places.place(0), Some(ChunkPlace::Frame(at)));
/// # }
/// # Ok::<(), zvf_format::FormatError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ChunkOffsets<'a> {
    entries: &'a [I64], // each is a valid place
    bounds: Bounds,
}

/// The valid entries of one frame.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    kind: FrameKind,
    header_len: u32,
    data_len: u64,
    item_size: u32,
}

impl<'a> ChunkOffsets<'a> {
    /// Checks the decoded bytes of the offsets chunk of `frame`.
    ///
    /// # Errors
    ///
    /// When there is not one entry for each chunk of the array, an entry points outside the chunk
    /// data or has an unknown code, or it is NaN and items do not have 4 or 8 bytes.
    pub fn parse(frame: &Frame<'_>, decoded: &'a [u8]) -> Result<Self, FormatError> {
        let (n, bounds) = (frame.geometry().chunk_count(), frame.bounds());
        let mut cur = Cursor::new(Part::FrameOffsets, decoded);
        let entries = cur.array::<I64>("entries", n)?;
        cur.end()?;
        for (at, entry) in entries.with_offsets() {
            bounds.place(entry.get()).map_err(|error| error.with_base_offset(at))?;
        }
        Ok(Self { entries: entries.items, bounds })
    }

    /// Returns the number of chunks.
    pub const fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the place of chunk `number`, or `None` beyond the last.
    pub fn place(&self, number: u64) -> Option<ChunkPlace> {
        let entry = self.entries.get(num::checked_usize(number)?)?;
        self.bounds.place(entry.get()).ok()
    }
}

impl Frame<'_> {
    /// Decodes one entry of the offsets chunk.
    ///
    /// # Errors
    ///
    /// As [`ChunkOffsets::parse`], for this entry.
    pub fn place(&self, entry: [u8; 8]) -> Result<ChunkPlace, FormatError> {
        self.bounds().place(i64::from_le_bytes(entry))
    }

    fn bounds(&self) -> Bounds {
        let fields = self.header().fields();
        Bounds {
            kind: fields.kind,
            header_len: fields.header_len,
            data_len: fields.compressed_size,
            item_size: self.geometry().item_size(),
        }
    }
}

impl Bounds {
    /// Decodes one entry.
    fn place(self, entry: i64) -> Result<ChunkPlace, FormatError> {
        let refuse = |class, expected, found: i64| {
            FormatError::new(class, Part::FrameOffsets, "entry", 0, expected, found)
        };
        let Ok(stored) = u64::try_from(entry) else {
            return match entry {
                ZEROS => Ok(ChunkPlace::Zeros),
                NAN if self.item_size == 4 || self.item_size == 8 => Ok(ChunkPlace::Nan),
                NAN => {
                    let expected = Expected::Rule("no NaN, as items are not of 4 or 8 bytes");
                    Err(refuse(Class::BadTag, expected, entry))
                }
                UNWRITTEN => Ok(ChunkPlace::Unwritten),
                _ => {
                    let expected =
                        Expected::Rule("a position, or 81, 82 or 84 in the highest byte");
                    Err(refuse(Class::BadTag, expected, entry))
                }
            };
        };
        let (max_position, place) = match self.kind {
            FrameKind::Contiguous => {
                // Both were stored with a sign, so the sum does not saturate.
                let at = u64::from(self.header_len).saturating_add(stored);
                (i128::from(self.data_len).saturating_sub(1), Some(ChunkPlace::Frame(at)))
            }
            FrameKind::Sparse => {
                let file = u32::try_from(stored).ok();
                (u32::MAX.into(), file.map(|file| ChunkPlace::File(ChunkFile(file))))
            }
        };
        place
            .filter(|_| i128::from(stored) <= max_position)
            .ok_or_else(|| refuse(Class::OutOfBounds, Expected::AtMost(max_position), entry))
    }
}

/// Encodes a whole offsets chunk, as a raw copy: places of chunks in a frame whose header has
/// `header_len` bytes.
///
/// # Errors
///
/// When there are more than 2^28 - 5 chunks, or a chunk starts inside the header.
#[cfg(feature = "alloc")]
pub fn encode_offsets(
    header_len: u32,
    places: &[ChunkPlace],
) -> Result<alloc::vec::Vec<u8>, FormatError> {
    use super::chunk::{ChunkFields, ChunkHeader, ExtendedFields};

    let limit = |field, max: i128, found: usize| {
        let (class, expected) = (Class::LimitExceeded, Expected::AtMost(max));
        FormatError::new(class, Part::FrameOffsets, field, 0, expected, found)
    };
    let bytes = places.len().checked_mul(8).and_then(|n| i32::try_from(n).ok());
    let Some((nbytes, cbytes)) = bytes.and_then(|n| Some((n, n.checked_add(32)?))) else {
        return Err(limit("entries", ENTRIES_MAX, places.len()));
    };
    let header = ChunkHeader::new(ChunkFields {
        version: 5,
        codec_version: 1,
        flags: 0x07, // extended header, raw copy
        typesize: 8,
        nbytes,
        blocksize: nbytes.max(1),
        cbytes,
        extended: Some(ExtendedFields::default()),
    })?;
    let mut out = header.encode();
    for (at, place) in (32_u64..).step_by(8).zip(places) {
        let entry = match place {
            ChunkPlace::Frame(position) => {
                let stored = position.checked_sub(header_len.into());
                stored.and_then(|stored| i64::try_from(stored).ok()).ok_or_else(|| {
                    let (class, expected) =
                        (Class::OutOfBounds, Expected::Between(header_len.into(), i64::MAX.into()));
                    FormatError::new(class, Part::FrameOffsets, "entry", at, expected, *position)
                })?
            }
            ChunkPlace::File(file) => file.0.into(),
            ChunkPlace::Zeros => ZEROS,
            ChunkPlace::Nan => NAN,
            ChunkPlace::Unwritten => UNWRITTEN,
        };
        out.extend(entry.to_le_bytes());
    }
    Ok(out)
}

/// All bytes of the chunk are zero.
const ZEROS: i64 = code(0x81);
/// All items of the chunk are NaN.
const NAN: i64 = code(0x82);
/// The chunk was never written.
const UNWRITTEN: i64 = code(0x84);
/// The largest number of entries of a raw copy.
#[cfg(feature = "alloc")]
const ENTRIES_MAX: i128 = (1 << 28) - 5;

const fn code(highest: u8) -> i64 {
    i64::from_le_bytes([0, 0, 0, 0, 0, 0, 0, highest])
}

#[cfg(all(test, feature = "alloc"))]
mod tests;
