//! Encoding of chunks: those of Blosc 1 here, which are the `blosc` codec of Zarr; those of Blosc2
//! in `blosc2`.
//!
//! ```text
//! 16              header: version 2, codec format 1, flags, typesize, nbytes, blocksize, cbytes
//! 4 for each      positions of the blocks
//! ..              blocks in their order: i32 length, then codec data, or the plain bytes when those are not longer
//! ```
//!
//! Each block is one stream (bit 4 of the flags). Blocks have the requested size, which the stock
//! writer does not guarantee, so that reading a few rows decodes few blocks. If compression gains
//! nothing, the body is the plain bytes. The output is deterministic.
//!
//! Snappy is not supported, because writers no longer choose it.

mod blosc2;

pub use self::blosc2::{Blosc2Settings, constant_chunk};

use zvf_format::num;
use zvf_format::{Class, Expected, Vocabulary as _};

use crate::blosclz::Table;
use crate::error::BloscError;
use crate::filter;
use crate::lz4;

/// How a chunk is encoded.
///
/// ```
/// use zvf_blosc::{Compressor, Settings, Shuffle};
///
/// let settings = Settings { filter: Shuffle::Bits, typesize: 8, ..Settings::default() };
/// assert_eq!((settings.compressor.name(), settings.filter.name()), ("zstd", "bitshuffle"));
/// assert_eq!(settings.block_size, 16384);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The compressor of blocks.
    pub compressor: Compressor,
    /// The compression level: 0 none, 9 best.
    pub level: u8,
    /// The filter before compression.
    pub filter: Shuffle,
    /// Bytes of an item, not 0.
    pub typesize: u8,
    /// Bytes of a block, rounded down to whole items.
    pub block_size: u32,
}

impl Default for Settings {
    /// Returns Zstandard at level 5 over shuffled items of four bytes, in blocks of 16 KiB.
    fn default() -> Self {
        Self {
            compressor: Compressor::Zstd,
            level: 5,
            filter: Shuffle::Bytes,
            typesize: 4,
            block_size: 16 << 10,
        }
    }
}

zvf_format::vocabulary! {
    /// A compressor of blocks.
    ///
    /// ```
    /// assert_eq!(zvf_blosc::Compressor::from_name("lz4"), Some(zvf_blosc::Compressor::Lz4));
    /// assert_eq!(zvf_blosc::Compressor::from_name("snappy"), None);
    /// ```
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum Compressor {
        /// `BloscLZ`, which has no levels.
        BloscLz => "blosclz",
        /// LZ4, which has no levels.
        Lz4 => "lz4",
        /// LZ4 with a longer search for longer matches: read like LZ4, and as fast.
        Lz4Hc => "lz4hc",
        /// Zlib.
        Zlib => "zlib",
        /// Zstandard.
        Zstd => "zstd",
    }
    /// Returns the name in documents.
    fn name;
}

impl Compressor {
    /// Returns the compressor of this name, if it is supported for writing.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::from_word(name)
    }

    const fn code(self) -> u8 {
        match self {
            Self::BloscLz => 0,
            Self::Lz4 | Self::Lz4Hc => 1,
            Self::Zlib => 3,
            Self::Zstd => 4,
        }
    }

    /// Returns the number in frames and extended headers, which is not the code in the flags.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::BloscLz => 0,
            Self::Lz4 => 1,
            Self::Lz4Hc => 2,
            Self::Zlib => 4,
            Self::Zstd => 5,
        }
    }
}

zvf_format::vocabulary! {
    /// A filter of blocks before compression.
    ///
    /// ```
    /// assert_eq!(zvf_blosc::Shuffle::from_name("shuffle"), Some(zvf_blosc::Shuffle::Bytes));
    /// ```
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum Shuffle {
        /// No filter.
        None => "noshuffle",
        /// All first bytes of the items, then all second ones.
        Bytes => "shuffle",
        /// All lowest bits, then all next ones.
        Bits => "bitshuffle",
    }
    /// Returns the name in documents.
    fn name;
}

impl Shuffle {
    /// Returns the filter of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::from_word(name)
    }

    const fn flag(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Bytes => 1,
            Self::Bits => 4,
        }
    }
}

/// Encodes chunks, one after the other.
///
/// ```
/// use zvf_blosc::{Chunk, Encoder, Settings};
///
/// let plain = [7; 100_000];
/// let bytes = Encoder::default().encode(&plain, &Settings::default())?;
/// let chunk = Chunk::parse(&bytes)?;
/// assert_eq!((chunk.header().block_count(), bytes.len() < 1000), (7, true));
/// assert_eq!(chunk.decode_all(100_000)?, plain);
/// # Ok::<(), zvf_blosc::BloscError>(())
/// ```
#[derive(Default)]
pub struct Encoder {
    filtered: Vec<u8>,
    moved: Vec<u8>,
    table: Table,
    #[cfg(feature = "zstd")]
    zstd: Option<(u8, zstd::bulk::Compressor<'static>)>, // and its level
}

impl core::fmt::Debug for Encoder {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Encoder").finish_non_exhaustive()
    }
}

impl Encoder {
    /// Encodes a chunk of `plain`.
    ///
    /// # Errors
    ///
    /// `LimitExceeded` for more bytes than a chunk can have; `InvalidArgument` for a level above 9,
    /// or for items or blocks of 0 bytes; `Unsupported` for Zstandard if it is not built in.
    pub fn encode(&mut self, plain: &[u8], settings: &Settings) -> Result<Vec<u8>, BloscError> {
        let nbytes = check(plain, settings)?;
        let item = usize::from(settings.typesize);
        let asked = num::usize_from_u32(settings.block_size).max(item).min(plain.len().max(1));
        let past = asked.checked_rem(item).unwrap_or(0); // an item has bytes
        let block = if asked > past { asked.saturating_sub(past) } else { asked };

        let mut out = vec![0; HEADER];
        let gained = settings.level > 0 && self.append_blocks(plain, block, settings, &mut out)?;
        if !gained {
            out.truncate(HEADER);
            out.extend_from_slice(plain);
        }
        let flags = settings.filter.flag() | settings.compressor.code() << 5 | ONE_STREAM;
        let flags = if gained { flags } else { flags | RAW };
        let mut header = vec![VERSION, CODEC_FORMAT, flags, settings.typesize];
        for field in [nbytes, stored_len(block)?, stored_len(out.len())?] {
            header.extend_from_slice(&field.to_le_bytes());
        }
        if let Some(front) = out.get_mut(..HEADER) {
            front.copy_from_slice(&header);
        }
        Ok(out)
    }

    /// Appends the table and the blocks of `block` bytes to the header; returns whether the chunk
    /// is shorter than with the plain bytes.
    fn append_blocks(
        &mut self,
        plain: &[u8],
        block: usize,
        settings: &Settings,
        out: &mut Vec<u8>,
    ) -> Result<bool, BloscError> {
        let raw = plain.len().saturating_add(HEADER);
        let table = plain.len().div_ceil(block).saturating_mul(4).saturating_add(HEADER); // compared next
        if table >= raw {
            return Ok(false);
        }
        out.reserve(raw.saturating_add(table));
        out.resize(table, 0);
        let mut positions = Vec::with_capacity(table);
        for bytes in plain.chunks(block) {
            if out.len() >= raw {
                return Ok(false);
            }
            positions.extend_from_slice(&stored_len(out.len())?.to_le_bytes());
            self.block(bytes, settings, out)?;
        }
        if let Some(table) = out.get_mut(HEADER..table) {
            table.copy_from_slice(&positions);
        }
        Ok(out.len() < raw)
    }

    /// Appends one block.
    fn block(
        &mut self,
        bytes: &[u8],
        settings: &Settings,
        out: &mut Vec<u8>,
    ) -> Result<(), BloscError> {
        let mut filtered = core::mem::take(&mut self.filtered);
        let bytes = if settings.filter == Shuffle::None {
            bytes
        } else {
            filtered.resize(bytes.len(), 0);
            let bits = settings.filter == Shuffle::Bits;
            filter::apply(bits, settings.typesize.into(), bytes, &mut filtered);
            filtered.as_slice()
        };
        self.stream(bytes, settings.compressor, settings.level, out)?;
        self.filtered = filtered;
        Ok(())
    }

    /// Appends a length, then codec data, or the plain bytes if those are not longer.
    fn stream(
        &mut self,
        bytes: &[u8],
        compressor: Compressor,
        level: u8,
        out: &mut Vec<u8>,
    ) -> Result<(), BloscError> {
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        let data = out.len();
        let packed = self.compress(bytes, compressor, level, out)?;
        let packed = packed.filter(|packed| *packed < bytes.len());
        out.truncate(data.saturating_add(packed.unwrap_or(0))); // none of it when it is not used
        if packed.is_none() {
            out.extend_from_slice(bytes);
        }
        let stored = stored_len(packed.unwrap_or(bytes.len()))?;
        if let Some(field) = out.get_mut(start..data) {
            field.copy_from_slice(&stored.to_le_bytes());
        }
        Ok(())
    }

    /// Appends codec data, and returns its length; `None` when the compressor gives up.
    fn compress(
        &mut self,
        bytes: &[u8],
        compressor: Compressor,
        level: u8,
        out: &mut Vec<u8>,
    ) -> Result<Option<usize>, BloscError> {
        let start = out.len();
        match compressor {
            Compressor::BloscLz => Ok(self.table.encode(bytes, bytes.len(), out)),
            Compressor::Lz4 => Ok(lz4::encode(bytes, out)),
            Compressor::Lz4Hc => Ok(lz4::encode_hc(bytes, level, out)),
            Compressor::Zlib => {
                let level = flate2::Compression::new(level.into());
                let mut state = flate2::Compress::new(level, true);
                // Data that does not fit would be no gain.
                out.reserve_exact(bytes.len());
                let finish = flate2::FlushCompress::Finish;
                let done = state.compress_vec(bytes, out, finish);
                let is_complete = matches!(done, Ok(flate2::Status::StreamEnd));
                Ok(is_complete.then(|| out.len().saturating_sub(start)))
            }
            Compressor::Zstd => self.zstd(bytes, level, out),
        }
    }

    #[cfg(feature = "zstd")]
    fn zstd(
        &mut self,
        bytes: &[u8],
        level: u8,
        out: &mut Vec<u8>,
    ) -> Result<Option<usize>, BloscError> {
        let made = match self.zstd.take().filter(|(made, _)| *made == level) {
            Some(made) => made,
            None => (level, new_zstd_compressor(level)?),
        };
        let (_, compressor) = self.zstd.insert(made);
        let start = out.len();
        out.resize(start.saturating_add(bytes.len()), 0);
        let room = out.get_mut(start..).unwrap_or_default();
        Ok(compressor.compress_to_buffer(bytes, room).ok())
    }

    #[cfg(not(feature = "zstd"))]
    fn zstd(
        &mut self,
        _bytes: &[u8],
        _level: u8,
        _out: &mut Vec<u8>,
    ) -> Result<Option<usize>, BloscError> {
        Err(BloscError::Unsupported("writing Zstandard in this build"))
    }
}

/// Creates a compressor at Blosc's `level`.
#[cfg(feature = "zstd")]
fn new_zstd_compressor(level: u8) -> Result<zstd::bulk::Compressor<'static>, BloscError> {
    let level = match level {
        9 => 22,
        8 => 15,
        other => i32::from(other).saturating_mul(2).saturating_sub(1), // at most 13
    };
    zstd::bulk::Compressor::new(level)
        .map_err(|_source| BloscError::Unsupported("this level of Zstandard"))
}

fn check(plain: &[u8], settings: &Settings) -> Result<i32, BloscError> {
    let nbytes = check_len(plain.len(), MAX_CHUNK_BYTES)?;
    let class = Class::InvalidArgument;
    if settings.level > 9 {
        return Err(BloscError::request(class, "level", Expected::AtMost(9), settings.level));
    }
    for (field, found) in
        [("typesize", settings.typesize.into()), ("block size", settings.block_size)]
    {
        if found == 0 {
            return Err(BloscError::request(class, field, Expected::AtLeast(1), found));
        }
    }
    Ok(nbytes)
}

/// Checks the length of a chunk, and returns it is stored.
fn check_len(len: usize, max_len: i32) -> Result<i32, BloscError> {
    i32::try_from(len).ok().filter(|n| *n <= max_len).ok_or_else(|| {
        let (class, expected) = (Class::LimitExceeded, Expected::AtMost(max_len.into()));
        BloscError::request(class, "bytes", expected, num::to_u64(len))
    })
}

/// Returns a length or position inside of a chunk as it is stored.
fn stored_len(n: usize) -> Result<i32, BloscError> {
    check_len(n, i32::MAX)
}

const HEADER: usize = 16;
const VERSION: u8 = 2;
const CODEC_FORMAT: u8 = 1;
const RAW: u8 = 2;
const ONE_STREAM: u8 = 16;
/// The largest number of decoded bytes of a chunk, which leaves room for header and table.
const MAX_CHUNK_BYTES: i32 = i32::MAX / 2;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Chunk;

    pub(super) const ALL: [Compressor; 5] = [
        Compressor::BloscLz,
        Compressor::Lz4,
        Compressor::Lz4Hc,
        Compressor::Zlib,
        Compressor::Zstd,
    ];

    fn encode(plain: &[u8], settings: Settings) -> Vec<u8> {
        Encoder::default().encode(plain, &settings).unwrap()
    }

    #[test]
    fn bytes_typed_by_hand() {
        let lz4 = Settings { compressor: Compressor::Lz4, typesize: 2, ..Settings::default() };
        // 40 items 61 62, in blocks of 32 bytes and one of 16: lanes of sixteen a, sixteen b. A
        // literal a, a match of 10 at distance 1, then the last literals.
        let plain = b"ab".repeat(40);
        let chunk = encode(&plain, Settings { block_size: 33, ..lz4 });
        assert_eq!(chunk[..12], *b"\x02\x01\x31\x02\x50\0\0\0\x20\0\0\0");
        assert_eq!(chunk[16..20], 28_i32.to_le_bytes());
        // Without the filter, and with nothing gained: the bytes as they are.
        let none = Settings { filter: Shuffle::None, ..lz4 };
        assert_eq!(encode(b"abcd", none), b"\x02\x01\x32\x02\x04\0\0\0\x04\0\0\0\x14\0\0\0abcd");
        let stored = Settings { level: 0, compressor: Compressor::Zstd, ..none };
        let chunk = encode(&plain, stored);
        assert_eq!(chunk[..16], *b"\x02\x01\x92\x02\x50\0\0\0\x50\0\0\0\x60\0\0\0");
        assert_eq!(chunk[16..], plain);
        assert_eq!(encode(b"", none), b"\x02\x01\x32\x02\0\0\0\0\x01\0\0\0\x10\0\0\0");
    }

    #[test]
    fn every_refusal_has_its_words() {
        let refused = |settings: Settings| {
            Encoder::default().encode(b"x", &settings).unwrap_err().to_string()
        };
        let what = "InvalidArgument in request for a blosc chunk,";
        let plain = Settings::default();
        assert_eq!(
            refused(Settings { level: 10, ..plain }),
            format!("{what} level: expected at most 9, found 10")
        );
        assert_eq!(
            refused(Settings { typesize: 0, ..plain }),
            format!("{what} typesize: expected at least 1, found 0")
        );
        assert_eq!(
            refused(Settings { block_size: 0, ..plain }),
            format!("{what} block size: expected at least 1, found 0")
        );
    }

    #[test]
    fn a_level_is_remembered_with_its_compressor() {
        let plain: Vec<u8> = (0..50_000_u32).flat_map(|i| (i * i).to_le_bytes()).collect();
        let at = |level| Settings { level, ..Settings::default() };
        let mut encoder = Encoder::default();
        let sizes: Vec<usize> =
            [1, 9, 1].iter().map(|l| encoder.encode(&plain, &at(*l)).unwrap().len()).collect();
        assert!(sizes[1] < sizes[0]);
        assert_eq!(sizes[0], sizes[2]);
    }

    proptest! {
        #[test]
        fn every_chunk_is_decoded(
            plain in prop::collection::vec(prop::sample::select(vec![0_u8, 1, 2, 255]), 0..3000),
            noise in prop::collection::vec(any::<u8>(), 0..600),
            compressor in prop::sample::select(ALL.to_vec()),
            filter in prop::sample::select(vec![Shuffle::None, Shuffle::Bytes, Shuffle::Bits]),
            level in 0_u8..8,
            typesize in 1_u8..20,
            block_size in 1_u32..1500,
        ) {
            let plain = [plain, noise].concat();
            let settings = Settings { compressor, level, filter, typesize, block_size };
            let bytes = encode(&plain, settings);
            prop_assert!(bytes.len() <= plain.len() + HEADER);
            let chunk = Chunk::parse(&bytes).unwrap();
            prop_assert_eq!(chunk.header().cbytes() as usize, bytes.len());
            prop_assert_eq!(chunk.decode_all(plain.len() as u64).unwrap(), plain.as_slice());
            prop_assert_eq!(encode(&plain, settings), bytes);
        }
    }
}
