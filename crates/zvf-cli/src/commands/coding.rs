//! How the cells of a store are encoded: the options shared by the commands that create and rewrite stores.
//!
//! ```text
//! --codec none | zstd[:LEVEL] | gzip[:LEVEL] | blosc[:LEVEL]      --checksum
//! of blosc alone: --blosc-compressor --blosc-shuffle --blosc-typesize --blosc-block-size
//! ```

use clap::Args;
use zvf::store::{BloscCompressor, BloscSettings, BloscShuffle, CodecPipeline};

use crate::outcome::Usage;

/// How cells are encoded.
#[derive(Debug, PartialEq, Args)]
#[command(next_help_heading = "Codec")]
pub(crate) struct Coding {
    /// How cells are encoded: none, zstd, gzip or blosc; zstd:9 sets the level.
    ///
    /// Cells that are not compressed can be read by byte range, and those under blosc by block; under
    /// zstd and gzip a reader takes whole cells. Levels: zstd -7 to 22 (default 3), gzip and blosc 0 to 9
    /// (default 5).
    #[arg(long, value_name = "CODEC[:LEVEL]", value_parser = codec)]
    codec: Option<Codec>,
    /// The compressor of Blosc: blosclz, lz4, lz4hc, zlib or zstd.
    #[arg(long = "blosc-compressor", alias = "compressor", value_name = "NAME", default_value = "zstd", value_parser = compressor)]
    compressor: BloscCompressor,
    /// The filter of Blosc: noshuffle, shuffle or bitshuffle.
    #[arg(long = "blosc-shuffle", alias = "shuffle", value_name = "NAME", default_value = "shuffle", value_parser = shuffle, hide_short_help = true)]
    shuffle: BloscShuffle,
    /// Bytes per item, for the filter of Blosc.
    #[arg(long = "blosc-typesize", alias = "typesize", value_name = "BYTES", default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..), hide_short_help = true)]
    typesize: u8,
    /// Bytes per block of Blosc: the unit that is read for one fragment.
    #[arg(long = "blosc-block-size", alias = "block-size", value_name = "SIZE", value_parser = block_size, default_value = "16KiB")]
    block_size: u32,
    /// Add a CRC-32C to each cell; cells are then read whole.
    #[arg(long)]
    checksum: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Codec {
    None,
    Zstd(i32),
    Gzip(u32),
    Blosc(u8),
}

impl Coding {
    /// Returns the codecs of cells; those of uncompressed cells where `--codec` is absent.
    pub(crate) fn codecs(&self) -> CodecPipeline {
        self.build_codecs(self.codec.unwrap_or(Codec::None))
    }

    /// Returns the codecs of cells, if `--codec` is given.
    pub(crate) fn given_codecs(&self) -> Result<Option<CodecPipeline>, Usage> {
        if self.checksum && self.codec.is_none() {
            return Err(Usage::new("--checksum needs --codec: none, zstd, gzip or blosc"));
        }
        Ok(self.codec.map(|codec| self.build_codecs(codec)))
    }

    fn build_codecs(&self, codec: Codec) -> CodecPipeline {
        let codecs = match codec {
            Codec::None => CodecPipeline::empty(),
            Codec::Zstd(level) => CodecPipeline::zstd(level),
            Codec::Gzip(level) => CodecPipeline::gzip(level),
            Codec::Blosc(level) => CodecPipeline::blosc(BloscSettings {
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

/// The codec of data for which only Zstandard is possible.
#[derive(Debug, Args)]
pub(crate) struct Zstd {
    /// How data is encoded: none or zstd; zstd:9 sets the level, -7 to 22 (default 3) [default: none].
    #[arg(long, value_name = "CODEC[:LEVEL]", value_parser = zstd)]
    codec: Option<Codec>,
}

impl Zstd {
    /// Returns the level, or `None` where data is not compressed.
    pub(crate) fn level(&self) -> Option<i32> {
        if let Some(Codec::Zstd(level)) = self.codec { Some(level) } else { None }
    }
}

/// Cells per shard, or `None` for no shards.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Shards(pub(crate) Option<Vec<u64>>);

/// Parses `8`, `16,16,4` or `none`.
pub(crate) fn shards(text: &str) -> Result<Shards, String> {
    if text == "none" {
        return Ok(Shards(None));
    }
    let cells = text.split(',').map(|n| n.trim().parse().ok().filter(|n| *n > 0));
    let cells: Option<Vec<u64>> = cells.collect();
    let message = || "expected a number of cells, one for each axis, or none".to_owned();
    cells.map(|cells| Shards(Some(cells))).ok_or_else(message)
}

fn zstd(text: &str) -> Result<Codec, String> {
    match codec(text)? {
        Codec::Gzip(_) | Codec::Blosc(_) => {
            Err("expected none or zstd, with a level as in zstd:9".to_owned())
        }
        codec @ (Codec::None | Codec::Zstd(_)) => Ok(codec),
    }
}

/// Parses the compressor of blocks, or none, and its level.
pub(crate) fn block_codec(text: &str) -> Result<(Option<BloscCompressor>, u8), String> {
    let (name, level) = split_level(text);
    let compressor = if name == "none" { None } else { Some(compressor(name)?) };
    Ok((compressor, parse_within(level, 5, 0, 9)?))
}

fn split_level(text: &str) -> (&str, Option<&str>) {
    text.split_once(':').map_or((text, None), |(name, level)| (name, Some(level)))
}

fn codec(text: &str) -> Result<Codec, String> {
    let (name, level) = split_level(text);
    match name {
        "none" if level.is_none() => Ok(Codec::None),
        "zstd" => parse_within(level, 3, -7, 22).map(Codec::Zstd),
        "gzip" => parse_within(level, 5, 0, 9).map(Codec::Gzip),
        "blosc" => parse_within(level, 5, 0, 9).map(Codec::Blosc),
        _ => Err("expected none, zstd, gzip or blosc, with a level as in zstd:9".to_owned()),
    }
}

fn parse_within<T>(level: Option<&str>, usual: T, low: T, high: T) -> Result<T, String>
where
    T: PartialOrd + std::fmt::Display + std::str::FromStr,
{
    let Some(level) = level else { return Ok(usual) };
    let valid_level = level.parse().ok().filter(|level| *level >= low && *level <= high);
    valid_level.ok_or_else(|| format!("expected a level from {low} to {high}"))
}

fn compressor(name: &str) -> Result<BloscCompressor, String> {
    BloscCompressor::from_name(name)
        .ok_or_else(|| "expected blosclz, lz4, lz4hc, zlib or zstd".to_owned())
}

pub(crate) fn shuffle(name: &str) -> Result<BloscShuffle, String> {
    BloscShuffle::from_name(name)
        .ok_or_else(|| "expected noshuffle, shuffle or bitshuffle".to_owned())
}

fn block_size(text: &str) -> Result<u32, String> {
    let size = crate::arguments::size(text)?;
    let fits = u32::try_from(size).ok().filter(|size| (1..1 << 31).contains(size));
    fits.ok_or_else(|| "expected from one byte to less than 2 GiB".to_owned())
}
