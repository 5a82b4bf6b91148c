//! `zvf shard`, `zvf unshard`, `zvf recompress`: the same store with its bytes arranged otherwise.

use std::io::Write;

use anyhow::Context as _;
use clap::Args;
use serde::Serialize;
use zvf::store::{
    Arrange, BloscCompressor, BloscSettings, BloscShuffle, Build, BuildOptions, Codecs, Moved,
    Rearrangement,
};
use zvf::{Error, Timeouts};

use crate::outcome::{Outcome, Usage};
use crate::session::Session;
use crate::table;

/// Write a store again with its cells in shards: few files instead of many.
///
/// Codecs, attributes, levels and everything else stay; cells are moved as they are stored. Every reader of
/// Zarr knows shards, and parts of them are still read by range.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  zvf shard brain.zarrvectors sharded.zarrvectors --cells 8
  zvf shard brain.zarrvectors --in-place --cells 16,16,4
  zvf shard brain.zarrvectors s3://bucket/brain.zarrvectors --cells 8")]
pub(crate) struct Shard {
    #[command(flatten)]
    paths: Paths,
    /// Cells per shard on each axis, or one number for all axes.
    #[arg(long, value_name = "N[,N...]", value_delimiter = ',', default_value = "8")]
    cells: Vec<u64>,
}

/// Write a store again with one object per cell.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  zvf unshard sharded.zarrvectors plain.zarrvectors
  zvf unshard sharded.zarrvectors --in-place")]
pub(crate) struct Unshard {
    #[command(flatten)]
    paths: Paths,
}

/// Write a store again with its cells under another codec.
///
/// Shards stay shards. Cells that are not compressed can be read by byte range, and those under blosc by
/// block; under zstd and gzip a reader takes whole cells.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  zvf recompress brain.zarrvectors small.zarrvectors --codec zstd --level 9
  zvf recompress brain.zarrvectors --in-place --codec blosc --block-size 16KiB
  zvf recompress brain.zarrvectors plain.zarrvectors --codec none --crc32c")]
pub(crate) struct Recompress {
    #[command(flatten)]
    paths: Paths,
    /// The codec of cells.
    #[arg(long, value_enum)]
    codec: Codec,
    /// How hard it tries: zstd -7 to 22, gzip and blosc 0 to 9 [default: 3 for zstd, 5 otherwise].
    #[arg(long, allow_negative_numbers = true)]
    level: Option<i32>,
    /// What compresses the blocks of blosc: blosclz, lz4, zlib or zstd.
    #[arg(long, value_name = "NAME", default_value = "zstd")]
    compressor: String,
    /// What is done to the blocks of blosc before: noshuffle, shuffle or bitshuffle.
    #[arg(long, value_name = "NAME", default_value = "shuffle")]
    shuffle: String,
    /// Bytes of an item, for the shuffle of blosc.
    #[arg(long, value_name = "BYTES", default_value_t = 4)]
    typesize: u8,
    /// Bytes of a block of blosc: as much is read for one fragment.
    #[arg(long, value_name = "SIZE", value_parser = crate::cli::size, default_value = "16KiB")]
    block_size: u64,
    /// Put a checksum around each cell. Cells are then read whole.
    #[arg(long)]
    crc32c: bool,
}

/// From where to where.
#[derive(Args, Debug)]
struct Paths {
    /// The store: a folder or a URL.
    store: String,
    /// The new store, which must not be there yet.
    #[arg(required_unless_present = "in_place")]
    new: Option<String>,
    /// Replace the store by its new form, in one step once that is whole. Only in folders.
    #[arg(long, conflicts_with = "new")]
    in_place: bool,
    /// Replace the new store when it is there. Only in folders.
    #[arg(long, conflicts_with = "in_place")]
    overwrite: bool,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Codec {
    None,
    Zstd,
    Gzip,
    Blosc,
}

impl Shard {
    pub(crate) async fn run(
        self,
        session: &Session,
        out: &mut dyn Write,
    ) -> anyhow::Result<Outcome> {
        let plan = Rearrangement { shards: Arrange::Shards(self.cells), codecs: None };
        self.paths.apply(&plan, session, out).await
    }
}

impl Unshard {
    pub(crate) async fn run(
        self,
        session: &Session,
        out: &mut dyn Write,
    ) -> anyhow::Result<Outcome> {
        let plan = Rearrangement { shards: Arrange::Cells, codecs: None };
        self.paths.apply(&plan, session, out).await
    }
}

impl Recompress {
    pub(crate) async fn run(
        self,
        session: &Session,
        out: &mut dyn Write,
    ) -> anyhow::Result<Outcome> {
        let plan = Rearrangement { shards: Arrange::Keep, codecs: Some(self.codecs()?) };
        self.paths.apply(&plan, session, out).await
    }

    fn codecs(&self) -> Result<Codecs, Usage> {
        let codecs = match self.codec {
            Codec::None => Codecs::none(),
            Codec::Zstd => Codecs::zstd(within("zstd", self.level.unwrap_or(3), (-7, 22))?),
            Codec::Gzip => {
                let level = within("gzip", self.level.unwrap_or(5), (0, 9))?;
                Codecs::gzip(level.unsigned_abs())
            }
            Codec::Blosc => {
                let level = within("blosc", self.level.unwrap_or(5), (0, 9))?;
                let unknown = |what: &str, name: &str| {
                    Usage::new(format!("{name:?} is no {what} of blosc that zvf writes"))
                };
                let compressor = BloscCompressor::named(&self.compressor);
                let filter = BloscShuffle::named(&self.shuffle);
                let block_size = u32::try_from(self.block_size);
                Codecs::blosc(BloscSettings {
                    compressor: compressor
                        .ok_or_else(|| unknown("compressor", &self.compressor))?,
                    level: u8::try_from(level).unwrap_or(5),
                    filter: filter.ok_or_else(|| unknown("shuffle", &self.shuffle))?,
                    typesize: self.typesize.max(1),
                    block_size: block_size
                        .map_err(|_wide| Usage::new("blocks of blosc have less than 2 GiB"))?,
                })
            }
        };
        Ok(if self.crc32c { codecs.with_crc32c() } else { codecs })
    }
}

impl Paths {
    async fn apply(
        self,
        plan: &Rearrangement,
        session: &Session,
        out: &mut dyn Write,
    ) -> anyhow::Result<Outcome> {
        let store = session.store(&self.store).await?;
        let refused = || format!("cannot rearrange {}", self.store);
        Rearrangement::check(&store).map_err(Error::from).with_context(refused)?;
        let address = self.new.as_deref().unwrap_or(&self.store);
        let options = BuildOptions {
            replace: self.in_place || self.overwrite,
            store: session.options(Timeouts::Batch),
            ..BuildOptions::default()
        };
        let failed = || format!("cannot write {address}");
        let build =
            Build::begin(address, options).await.map_err(Error::from).with_context(failed)?;
        let progress = session.progress("writing");
        let told = |moved: &Moved| {
            progress.set(format!("{} cells, {} other objects", moved.cells, moved.copied));
        };
        let handle = build.clone();
        let moved =
            plan.apply(&store, build, told).await.map_err(Error::from).with_context(failed)?;
        drop(progress);
        let done = Done {
            store: address,
            arrays: moved.arrays,
            cells: moved.cells,
            objects: moved.objects,
            stored_bytes: moved.stored_bytes,
            copied: moved.copied,
        };
        if session.json() {
            table::json(&done, out)?;
        } else {
            done.print(out)?;
        }
        session.tell_notices(out, &store)?;
        session.tell(out, handle.notices().iter().map(ToString::to_string))?;
        Ok(Outcome::Clean)
    }
}

/// What was done.
#[derive(Debug, Serialize)]
struct Done<'a> {
    store: &'a str,
    arrays: u64,
    cells: u64,
    objects: u64,
    stored_bytes: u64,
    copied: u64,
}

impl Done<'_> {
    fn print(&self, out: &mut dyn Write) -> std::io::Result<()> {
        let (cells, objects) = (table::count(self.cells), table::count(self.objects));
        let bytes = table::bytes(self.stored_bytes);
        writeln!(
            out,
            "{}: {cells} cells of {} arrays in {objects} objects, {bytes}; {} other objects as they were",
            self.store, self.arrays, self.copied
        )
    }
}

fn within(codec: &str, level: i32, (low, high): (i32, i32)) -> Result<i32, Usage> {
    if (low..=high).contains(&level) {
        return Ok(level);
    }
    Err(Usage::new(format!("{codec} has levels {low} to {high}, not {level}")))
}
