//! Superblock: the first 32 bytes.
//!
//! ```text
//! offset  size  field
//! 0       4     magic, TETR
//! 4       4     layout_version, 1
//! 8       4     dataset_count
//! 12      4     flags: bit 0, a footer is present; others undefined
//! 16      8     chunk_index_offset
//! 24      8     chunk_index_length
//! ```
//!
//! Not here: whether the index starts where the directory ends ([`TetView`](super::TetView) checks
//! that).

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use zvf_format::cursor::Cursor;
use zvf_format::{Class, Expected, FormatError, Lints, Part};

/// The fixed start of a file.
///
/// ```
/// use zvf_tet::Superblock;
///
/// let bytes = *b"TETR\x01\0\0\0\0\0\0\0\0\0\0\0\x20\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
/// let superblock = Superblock::parse(&bytes, 32)?;
/// assert_eq!((superblock.dataset_count(), superblock.prefix_len()), (0, 32));
/// assert_eq!(superblock.to_bytes(), bytes);
/// # Ok::<(), zvf_format::FormatError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Superblock {
    dataset_count: u32,
    flags: u32,
    chunk_index_offset: u64, // with the length: inside the file
    chunk_index_length: u64,
}

impl Superblock {
    /// Length of a superblock in bytes.
    pub const LEN: u64 = 32;

    /// Parses the start of a file of `file_len` bytes.
    ///
    /// # Errors
    ///
    /// When there are fewer than 32 bytes, magic or version differ, or the index lies outside the
    /// file.
    pub fn parse(bytes: &[u8], file_len: u64) -> Result<Self, FormatError> {
        let mut cur = Cursor::new(Part::TetSuperblock, bytes);
        if file_len < Self::LEN {
            let expected = Expected::Bytes(Self::LEN);
            return Err(cur.refuse(Class::Truncated, "superblock", 0, expected, file_len));
        }
        let raw = cur.item::<Raw>("superblock")?;
        if raw.magic != MAGIC {
            let expected = Expected::Rule("TETR");
            return Err(cur.refuse(Class::BadMagic, "magic", 0, expected, raw.magic));
        }
        if raw.layout_version.get() != VERSION {
            let (expected, found) = (Expected::Exactly(VERSION.into()), raw.layout_version.get());
            let class = Class::UnsupportedVersion;
            return Err(cur.refuse(class, "layout_version", AT_VERSION, expected, found));
        }
        let (offset, length) = (raw.chunk_index_offset.get(), raw.chunk_index_length.get());
        let outside = |field, at, max: u64, found: u64| {
            Err(cur.refuse(Class::OutOfBounds, field, at, Expected::AtMost(max.into()), found))
        };
        if offset > file_len {
            return outside("chunk_index_offset", AT_INDEX_OFFSET, file_len, offset);
        }
        let room = file_len.saturating_sub(offset);
        if length > room {
            return outside("chunk_index_length", AT_LENGTH, room, length);
        }
        Ok(Self {
            dataset_count: raw.dataset_count.get(),
            flags: raw.flags.get(),
            chunk_index_offset: offset,
            chunk_index_length: length,
        })
    }

    /// Creates a superblock for writing.
    pub(super) const fn new(dataset_count: u32, footer: bool, offset: u64, length: u64) -> Self {
        let flags = if footer { FOOTER } else { 0 };
        Self { dataset_count, flags, chunk_index_offset: offset, chunk_index_length: length }
    }

    /// Returns the number of records in the directory.
    pub const fn dataset_count(&self) -> u32 {
        self.dataset_count
    }

    /// Returns all flag bits, undefined ones included.
    pub const fn flags(&self) -> u32 {
        self.flags
    }

    /// Returns whether the file ends in a footer.
    pub const fn has_footer(&self) -> bool {
        self.flags & FOOTER != 0
    }

    /// Returns the offset of the chunk index.
    pub const fn chunk_index_offset(&self) -> u64 {
        self.chunk_index_offset
    }

    /// Returns the length of the chunk index in bytes.
    pub const fn chunk_index_length(&self) -> u64 {
        self.chunk_index_length
    }

    /// Returns the length of superblock, directory and index together, from the start of the file.
    /// It may exceed the length of a file that is too short for a directory.
    pub fn prefix_len(&self) -> u64 {
        if self.dataset_count == 0 {
            return Self::LEN;
        }
        self.chunk_index_offset.saturating_add(self.chunk_index_length).max(SMALLEST_DIRECTORY)
    }

    /// Lists undefined flags, and an index span without datasets.
    pub fn lints(&self) -> Lints {
        super::lints([self.undefined_flags(), self.index_of_nothing()].into_iter().flatten())
    }

    /// Encodes the 32 bytes.
    pub fn to_bytes(&self) -> [u8; 32] {
        let raw = Raw {
            magic: MAGIC,
            layout_version: U32::new(VERSION),
            dataset_count: U32::new(self.dataset_count),
            flags: U32::new(self.flags),
            chunk_index_offset: U64::new(self.chunk_index_offset),
            chunk_index_length: U64::new(self.chunk_index_length),
        };
        zerocopy::transmute!(raw)
    }

    /// Returns the finding for undefined flags, which may change the meaning of the file.
    pub(super) fn undefined_flags(&self) -> Option<FormatError> {
        let (class, part) = (Class::UnsupportedFlags, Part::TetSuperblock);
        let expected = Expected::AtMost(FOOTER.into());
        (self.flags & !FOOTER != 0)
            .then(|| FormatError::new(class, part, "flags", AT_FLAGS, expected, self.flags))
    }

    /// Returns the finding for an index span without datasets.
    pub(super) fn index_of_nothing(&self) -> Option<FormatError> {
        let (class, part, found) =
            (Class::CountMismatch, Part::TetSuperblock, self.chunk_index_length);
        let (field, expected) = ("chunk_index_length", Expected::Exactly(0));
        (self.dataset_count == 0 && found != 0)
            .then(|| FormatError::new(class, part, field, AT_LENGTH, expected, found))
    }
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Raw {
    magic: [u8; 4],
    layout_version: U32,
    dataset_count: U32,
    flags: U32,
    chunk_index_offset: U64,
    chunk_index_length: U64,
}

const MAGIC: [u8; 4] = *b"TETR";
const VERSION: u32 = 1;
const FOOTER: u32 = 1; // flag bit 0
const AT_VERSION: u64 = 4;
pub(super) const AT_DATASET_COUNT: u64 = 8;
const AT_FLAGS: u64 = 12;
pub(super) const AT_INDEX_OFFSET: u64 = 16;
const AT_LENGTH: u64 = 24;
/// The length of the superblock and `dataset_blob_len`.
const SMALLEST_DIRECTORY: u64 = 40;

#[cfg(test)]
mod tests {
    use std::string::ToString;
    use std::vec::Vec;

    use super::*;

    /// A file with one dataset: index at 80, 136 bytes.
    const ONE: [u8; 32] =
        *b"TETR\x01\0\0\0\x01\0\0\0\x01\0\0\0\x50\0\0\0\0\0\0\0\x88\0\0\0\0\0\0\0";

    #[test]
    fn superblocks_round_trip() {
        let superblock = Superblock::parse(&ONE, 216).unwrap();
        assert_eq!(
            (superblock.dataset_count(), superblock.flags(), superblock.has_footer()),
            (1, 1, true)
        );
        assert_eq!((superblock.chunk_index_offset(), superblock.chunk_index_length()), (80, 136));
        assert_eq!(superblock.prefix_len(), 216);
        assert_eq!(superblock.to_bytes(), ONE);
        assert!(superblock.lints().is_empty());
    }

    #[test]
    fn each_check_has_its_message() {
        let fault = |file: &[u8], file_len| {
            let error = Superblock::parse(file, file_len).unwrap_err();
            error.to_string().replacen(" in tet superblock,", ",", 1)
        };
        for (at, bytes, file_len, message) in [
            (0, &[][..], 31, "Truncated, superblock at byte 0: expected 32 bytes, found 31"),
            (0, b"RTET", 216, "BadMagic, magic at byte 0: expected TETR, found 52 54 45 54"),
            (4, b"\x02", 216, "UnsupportedVersion, layout_version at byte 4: expected 1, found 2"),
            (
                0,
                b"",
                215,
                "OutOfBounds, chunk_index_length at byte 24: expected at most 135, found 136",
            ),
            (
                16,
                b"\xd9",
                216,
                "OutOfBounds, chunk_index_offset at byte 16: expected at most 216, found 217",
            ),
            (
                24,
                b"\xff\xff\xff\xff\xff\xff\xff\xff",
                216,
                "OutOfBounds, chunk_index_length at byte 24: expected at most 136, found 18446744073709551615",
            ),
        ] {
            let mut file = ONE;
            file[at..at + bytes.len()].copy_from_slice(bytes);
            assert_eq!(fault(&file, file_len), message);
        }
        let message = "Truncated, superblock at byte 0: expected 32 bytes, found 31";
        assert_eq!(fault(&ONE[..31], 216), message);
    }

    #[test]
    fn lints_of_flags_and_empty_indexes() {
        let mut file = ONE;
        file[8] = 0;
        file[12] = 0x80;
        let lints = Superblock::parse(&file, 216).unwrap().lints();
        assert_eq!(
            lints.iter().map(ToString::to_string).collect::<Vec<_>>(),
            [
                "UnsupportedFlags in tet superblock, flags at byte 12: expected at most 1, found 128",
                "CountMismatch in tet superblock, chunk_index_length at byte 24: expected 0, found 136",
            ]
        );
    }

    #[test]
    fn a_prefix_always_holds_the_length_of_the_directory() {
        let mut file = ONE;
        (file[16], file[24]) = (0, 1);
        assert_eq!(Superblock::parse(&file, 216).unwrap().prefix_len(), 40);
    }
}
