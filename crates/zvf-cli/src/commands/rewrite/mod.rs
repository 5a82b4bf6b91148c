//! `zvf rewrite`: a store with other shards, codec or chunks, or in a newer format, and the same contents.

mod chunks;
mod migrate;
mod rearrange;

use clap::Args;
use zvf::store::{Arrange, CodecPipeline, Rearrangement};

use crate::arguments::choice;
use crate::commands::coding::{Coding, Shards, shards};
use crate::commands::edit;
use crate::commands::how::{ChunkShapes, MANIFESTS};
use crate::outcome::{CommandResult, refuse};
use crate::session::Session;

/// Rewrite a store: other shards, codec, chunks or version of the format; its contents stay.
///
/// Shards are few files instead of many; every reader of Zarr can still read parts of them by range. Cells that are not
/// compressed can be read by byte range, and those under blosc by block; under zstd and gzip a reader takes whole cells.
/// Cells are copied without decoding unless the codec changes.
///
/// With --chunk-shape or --bin-shape, level 0 is divided anew, and every fragment with it; objects keep their ids, and
/// coarser levels are not copied. Where they are not given, shards and codec are
/// those of "zvf create".
///
/// With --format-version a store of format 0.6, 0.7 or 0.8 becomes one of 0.9.2, with the same answers to every query.
/// Chunks, the order of vertices, ids of objects, groups, attributes, links and levels stay what they are. Bridges of lines
/// and polylines, which those formats stored without the rows they join, are created again.
///
/// With --manifests the object indexes of all levels get another form, in one commit that "zvf
/// history undo" takes back.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  zvf rewrite brain.zarrvectors new.zarrvectors --shard 8
  zvf rewrite brain.zarrvectors --in-place --shard 16,16,4 --codec zstd:9
  zvf rewrite sharded.zarrvectors plain.zarrvectors --shard none
  zvf rewrite brain.zarrvectors --in-place --codec blosc --blosc-block-size 16KiB
  zvf rewrite brain.zarrvectors finer.zarrvectors --chunk-shape 50,50,50 --bin-shape 10
  zvf rewrite old.zarrvectors --format-version 0.9.2 --dry-run
  zvf rewrite s3://bucket/old.zarrvectors migrated.zarrvectors --format-version 0.9.2 --shard 8
  zvf rewrite brain.zarrvectors --in-place --manifests dense")]
pub(crate) struct Rewrite {
    /// The store: a folder or a URL.
    store: String,
    /// The new store, which must not exist yet.
    #[arg(required_unless_present_any = ["in_place", "dry_run"])]
    new: Option<String>,
    /// Replace the store itself, in one step when the result is complete (folders only).
    #[arg(long, conflicts_with_all = ["new", "dry_run"])]
    in_place: bool,
    /// Replace the new store if it exists, in one step when it is complete (folders only).
    #[arg(long, conflicts_with = "in_place")]
    overwrite: bool,
    /// Cells per shard on each axis, one number for all axes, or none for one object per cell [default: as they are].
    #[arg(long, value_name = "N[,N...]|none", value_parser = shards)]
    shard: Option<Shards>,
    /// The version of the format of the new store.
    #[arg(long, value_name = "VERSION", value_parser = ["0.9.2"], conflicts_with_all = ["chunk", "bin"])]
    format_version: Option<String>,
    /// Print what a newer format would change, and write nothing.
    #[arg(long, requires = "format_version")]
    dry_run: bool,
    /// The form of manifests: vlen, or dense, which zarr-vectors 0.9.2 does not read.
    #[arg(long = "manifests", value_name = "FORM", requires = "in_place",
        value_parser = choice(&MANIFESTS), conflicts_with_all = ["shard", "codec", "checksum", "format_version", "chunk", "bin"])]
    is_dense: Option<bool>,
    #[command(flatten)]
    shapes: ChunkShapes,
    #[command(flatten)]
    coding: Coding,
}

impl Rewrite {
    pub(crate) async fn run(self, session: &Session) -> CommandResult {
        if let Some(is_dense) = self.is_dense {
            let report = zvf::edit::rewrite_manifests(session.place(&self.store)?, is_dense)?;
            return session.print(&report, |out| edit::print(&report, out));
        }
        let codecs = self.coding.given_codecs()?;
        if self.shapes.is_given() {
            return self.divide_anew(session).await;
        }
        if self.format_version.is_some() {
            return self.migrate(codecs.unwrap_or_else(CodecPipeline::empty), session).await;
        }
        let shards = match self.shard {
            Some(Shards(ref cells)) => cells.clone().map_or(Arrange::Cells, Arrange::Shards),
            None if codecs.is_some() => Arrange::Keep,
            None => {
                return refuse(
                    "nothing to change is given; give --shard, --codec, --chunk-shape, \
                     --bin-shape, --manifests or --format-version",
                );
            }
        };
        let plan = Rearrangement { shards, codecs };
        self.rearrange(&plan, session).await
    }
}
