//! How the cells of a store are coded: what making a store and writing it again have in common.
//!
//! ```text
//! --codec none | zstd[:LEVEL] | gzip[:LEVEL] | blosc[:LEVEL]      --checksum
//! of blosc alone: --compressor --shuffle --typesize --block-size
//! ```

use clap::Args;
use zvf::store::{BloscCompressor, BloscSettings, BloscShuffle, Codecs};

use crate::outcome::Usage;

/// How cells are kept.
#[derive(Args, Debug)]
#[command(next_help_heading = "Codec")]
pub(crate) struct Coding {
    /// How cells are kept: none, zstd, gzip or blosc; zstd:9 says how hard it tries.
    ///
    /// Cells that are not compressed can be read by byte range, and those under blosc by block; under
    /// zstd and gzip a reader takes whole cells. Levels: zstd -7 to 22 (3 unless told), gzip and blosc 0
    /// to 9 (5 unless told).
    #[arg(long, value_name = "CODEC[:LEVEL]", value_parser = codec)]
    codec: Option<Codec>,
    /// What compresses the blocks of blosc: blosclz, lz4, lz4hc, zlib or zstd.
    #[arg(long, value_name = "NAME", default_value = "zstd", value_parser = compressor)]
    compressor: BloscCompressor,
    /// What is done to the blocks of blosc before: noshuffle, shuffle or bitshuffle.
    #[arg(long, value_name = "NAME", default_value = "shuffle", value_parser = shuffle)]
    shuffle: BloscShuffle,
    /// Bytes of an item, for the shuffle of blosc.
    #[arg(long, value_name = "BYTES", default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..))]
    typesize: u8,
    /// Bytes of a block of blosc: as much is read for one fragment.
    #[arg(long, value_name = "SIZE", value_parser = block_size, default_value = "16KiB")]
    block_size: u32,
    /// Put a CRC-32C around each cell. Cells are then read whole.
    #[arg(long)]
    checksum: bool,
}

#[derive(Clone, Copy, Debug)]
enum Codec {
    None,
    Zstd(i32),
    Gzip(u32),
    Blosc(u8),
}

impl Coding {
    /// The codecs of cells; those of plain cells where none was named.
    #[cfg(feature = "write")]
    pub(crate) fn codecs(&self) -> Codecs {
        self.of(self.codec.unwrap_or(Codec::None))
    }

    /// The codecs of cells, which must be named.
    pub(crate) fn named(&self) -> Result<Codecs, Usage> {
        let missing = || Usage::new("--codec is wanted: none, zstd, gzip or blosc");
        self.codec.map(|codec| self.of(codec)).ok_or_else(missing)
    }

    fn of(&self, codec: Codec) -> Codecs {
        let codecs = match codec {
            Codec::None => Codecs::none(),
            Codec::Zstd(level) => Codecs::zstd(level),
            Codec::Gzip(level) => Codecs::gzip(level),
            Codec::Blosc(level) => Codecs::blosc(BloscSettings {
                compressor: self.compressor,
                level,
                filter: self.shuffle,
                typesize: self.typesize,
                block_size: self.block_size,
            }),
        };
        if self.checksum { codecs.with_crc32c() } else { codecs }
    }
}

fn codec(text: &str) -> Result<Codec, String> {
    let (name, level) = match text.split_once(':') {
        Some((name, level)) => (name, Some(level)),
        None => (text, None),
    };
    match name {
        "none" if level.is_none() => Ok(Codec::None),
        "zstd" => within(level, 3, -7, 22).map(Codec::Zstd),
        "gzip" => within(level, 5, 0, 9).map(Codec::Gzip),
        "blosc" => within(level, 5, 0, 9).map(Codec::Blosc),
        _ => Err("none, zstd, gzip or blosc is wanted, with a level as in zstd:9".to_owned()),
    }
}

fn within<T>(level: Option<&str>, usual: T, low: T, high: T) -> Result<T, String>
where
    T: PartialOrd + std::fmt::Display + std::str::FromStr,
{
    let Some(level) = level else { return Ok(usual) };
    let known = level.parse().ok().filter(|level| *level >= low && *level <= high);
    known.ok_or_else(|| format!("a level from {low} to {high} is wanted"))
}

fn compressor(name: &str) -> Result<BloscCompressor, String> {
    BloscCompressor::named(name)
        .ok_or_else(|| "blosclz, lz4, lz4hc, zlib or zstd is wanted".to_owned())
}

fn shuffle(name: &str) -> Result<BloscShuffle, String> {
    BloscShuffle::named(name).ok_or_else(|| "noshuffle, shuffle or bitshuffle is wanted".to_owned())
}

fn block_size(text: &str) -> Result<u32, String> {
    let size = crate::cli::size(text)?;
    let fits = u32::try_from(size).ok().filter(|size| (1..1 << 31).contains(size));
    fits.ok_or_else(|| "from one byte to less than 2 GiB are wanted".to_owned())
}
