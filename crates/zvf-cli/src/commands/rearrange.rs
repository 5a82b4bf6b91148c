//! `zvf shard`, `zvf unshard`, `zvf recompress`: rewriting the bytes of a store without changing its contents.

use std::io::Write;

use anyhow::Context as _;
use clap::Args;
use zvf::store::{Arrange, Build, RearrangeCounts, Rearrangement};

use crate::commands::coding::{Coding, Shards, shards};
use crate::commands::in_place::InPlace;
use crate::commands::nested;
use crate::outcome::{CommandResult, Outcome};
use crate::session::Session;
use crate::table;

/// Rewrite a store with its cells in shards: few files instead of many.
///
/// Codecs, attributes, levels and everything else stay; cells are copied without decoding. Every reader of Zarr
/// supports shards, and can still read parts of them by range.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  zvf shard brain.zarrvectors new.zarrvectors --shard 8
  zvf shard brain.zarrvectors --in-place --shard 16,16,4
  zvf shard brain.zarrvectors s3://bucket/brain.zarrvectors --shard 8")]
pub(crate) struct Shard {
    #[command(flatten)]
    paths: Paths,
    /// Cells per shard on each axis, one number for all axes, or none for one object per cell.
    #[arg(long = "shard", alias = "cells", value_name = "N[,N...]|none", value_parser = shards)]
    #[arg(default_value = "8")]
    shard: Shards,
}

/// Rewrite a store with one object per cell.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  zvf unshard sharded.zarrvectors plain.zarrvectors
  zvf unshard sharded.zarrvectors --in-place")]
pub(crate) struct Unshard {
    #[command(flatten)]
    paths: Paths,
}

/// Rewrite a store with another codec for its cells.
///
/// Shards stay shards. Cells that are not compressed can be read by byte range, and those under blosc by
/// block; under zstd and gzip a reader takes whole cells.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  zvf recompress brain.zarrvectors small.zarrvectors --codec zstd:9
  zvf recompress brain.zarrvectors --in-place --codec blosc --blosc-block-size 16KiB
  zvf recompress brain.zarrvectors plain.zarrvectors --codec none --checksum")]
pub(crate) struct Recompress {
    #[command(flatten)]
    paths: Paths,
    #[command(flatten)]
    coding: Coding,
}

/// The source and the destination.
#[derive(Args, Debug)]
struct Paths {
    /// The store: a folder or a URL.
    store: String,
    /// The new store, which must not exist yet.
    #[arg(required_unless_present = "in_place")]
    new: Option<String>,
    /// Replace the store itself, in one step when the result is complete (folders only).
    #[arg(long, conflicts_with = "new")]
    in_place: bool,
    /// Replace the new store if it exists (folders only).
    #[arg(long, conflicts_with = "in_place")]
    overwrite: bool,
}

impl Shard {
    pub(crate) async fn run(self, session: &Session, out: &mut dyn Write) -> CommandResult {
        let plan = Rearrangement {
            shards: self.shard.0.map_or(Arrange::Cells, Arrange::Shards),
            codecs: None,
        };
        self.paths.apply(&plan, "shard", session, out).await
    }
}

impl Unshard {
    pub(crate) async fn run(self, session: &Session, out: &mut dyn Write) -> CommandResult {
        let plan = Rearrangement { shards: Arrange::Cells, codecs: None };
        self.paths.apply(&plan, "unshard", session, out).await
    }
}

impl Recompress {
    pub(crate) async fn run(self, session: &Session, out: &mut dyn Write) -> CommandResult {
        let codecs = Some(self.coding.required_codecs()?);
        let plan = Rearrangement { shards: Arrange::Keep, codecs };
        self.paths.apply(&plan, "recompress", session, out).await
    }
}

impl Paths {
    async fn apply(
        self,
        plan: &Rearrangement,
        operation: &str,
        session: &Session,
        out: &mut dyn Write,
    ) -> CommandResult {
        // With a journal, the command replaces a copy, which is committed.
        let in_place = match self.in_place {
            true => Some(InPlace::begin(&self.store, session)?),
            false => None,
        };
        let source = in_place.as_ref().map_or(self.store.as_str(), InPlace::address);
        let store = session.store(source).await?;
        let refused = || format!("cannot rearrange {}", self.store);
        Rearrangement::check(&store).with_context(refused)?;
        let address = self.new.as_deref().unwrap_or(source);
        nested::check(source, address)?;
        let options = session.build_options(self.in_place || self.overwrite);
        let failed = || format!("cannot write {address}");
        let build = Build::begin(address, options).await.with_context(failed)?;
        let progress = session.progress("writing");
        let on_progress = |moved: &RearrangeCounts| progress.count("", moved.cells, "cell");
        let handle = build.clone();
        let moved = plan.apply(&store, build, on_progress).await.with_context(failed)?;
        drop(progress);
        let new = self.new.as_deref().unwrap_or(&self.store);
        session.print(out, &table::place_json("store", new, &moved)?, |out| {
            let RearrangeCounts { arrays, cells, objects, stored_bytes, copied, .. } = moved;
            Ok(writeln!(
                out,
                "{new}: {} of {} in {}, {}; {} copied unchanged",
                table::format_count(cells, "cell"),
                table::format_count(arrays, "array"),
                table::format_count(objects, "object"),
                table::bytes(stored_bytes),
                table::format_count(copied, "object"),
            )?)
        })?;
        session.print_store_notices(out, &store)?;
        session.print_notices(out, handle.notices().iter().map(ToString::to_string))?;
        drop(store);
        in_place.map_or(Ok(()), |in_place| in_place.finish(operation, session, out))?;
        Ok(Outcome::Clean)
    }
}
