//! `zvf rewrite`: a store with other shards, codec or chunks, or in a newer format, and the same contents.

use std::path::Path;

use anyhow::Context as _;
use clap::Args;
use serde_json::json;
use zvf::create::StoreSource;
use zvf::export::list_left_out;
use zvf::migrate::{Migration, MigrationChange, MigrationCounts, MigrationPlan};
use zvf::question::all_kinds;
use zvf::store::{Arrange, Build, CodecPipeline, RearrangeCounts, Rearrangement};
use zvf::{LevelId, Query};

use crate::arguments::choice;
use crate::commands::coding::{Coding, Shards, shards};
use crate::commands::create::Create;
use crate::commands::destination::{InPlace, check_nested};
use crate::commands::edit;
use crate::commands::how::{ChunkShapes, CreateOptions, MANIFESTS};
use crate::commands::note_coarser_levels;
use crate::commands::query::limit_to_memory;
use crate::outcome::{CommandResult, Outcome, refuse};
use crate::session::Session;
use crate::table;

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

    /// Writes level 0 of the store with the chunks and bins of the options.
    async fn divide_anew(self, session: &Session) -> CommandResult {
        let in_place = InPlace::begin(&self.store, self.in_place, session)?;
        let source = in_place.address.as_str();
        let address = self.new.as_deref().unwrap_or(source).to_owned();
        check_nested(source, &address)?;
        let reader = session
            .reader(source)
            .await
            .with_context(|| format!("cannot rewrite {}", self.store))?;
        if reader.store().level(0).await?.meta().is_deferred() {
            return refuse(format!(
                "cannot rewrite {}: writers still fill it; end the deferral of level 0 by \
                 \"zvf repair --in-place --end-deferral\"",
                self.store
            ));
        }
        let query = limit_to_memory(Query::all(), session);
        let kinds = all_kinds(&session.level(reader.store(), 0).await?);
        if self.in_place {
            for kind in &kinds {
                let level = reader.level_of_kind(LevelId(0), *kind).await?;
                let left_out = list_left_out(&level).await?;
                if !left_out.is_empty() {
                    return refuse(format!(
                        "cannot rewrite {} in place: other chunks cannot hold {}; give a NEW \
                         store, which will lack that",
                        self.store,
                        left_out.join(", ")
                    ));
                }
            }
        }
        let sources = StoreSource::list(&reader, &query, kinds, &self.store);
        let left_out = note_coarser_levels(&reader, self.new.as_ref().unwrap_or(&self.store));
        session.print_notices(left_out.iter().cloned())?;
        let replaces = self.in_place || self.overwrite;
        let options = CreateOptions::of_layout(self.shapes, self.shard, self.coding, replaces);
        let done = Create::from_sources((sources, left_out), address, false, options);
        let outcome = done.run(session).await?;
        drop(reader);
        in_place.finish("rewrite chunks", session)?;
        Ok(outcome)
    }

    /// Writes the cells of the store as `plan` has them.
    async fn rearrange(self, plan: &Rearrangement, session: &Session) -> CommandResult {
        // With a journal, the command replaces a copy, which is committed.
        let in_place = InPlace::begin(&self.store, self.in_place, session)?;
        let source = in_place.address.as_str();
        let store = session.store(source).await?;
        let refused = || format!("cannot rewrite {}", self.store);
        Rearrangement::check(&store).with_context(refused)?;
        let address = self.new.as_deref().unwrap_or(source);
        check_nested(source, address)?;
        let options = session.build_options(self.in_place || self.overwrite);
        let failed = || format!("cannot write {address}");
        let build = Build::begin(address, options).await.with_context(failed)?;
        let progress = session.progress("writing");
        let on_progress = |moved: &RearrangeCounts| progress.count("", moved.cells, "cell");
        let handle = build.clone();
        let moved = plan.apply(&store, build, on_progress).await.with_context(failed)?;
        drop(progress);
        let new = self.new.as_deref().unwrap_or(&self.store);
        session.print(&table::place_json("store", new, &moved)?, |out| {
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
        session.print_store_notices(&store)?;
        session.print_notices(handle.notices().iter().map(ToString::to_string))?;
        drop(store);
        in_place.finish("rewrite", session)?;
        Ok(Outcome::Clean)
    }

    /// Writes the store in the current format, with its cells as `codecs` encode them.
    async fn migrate(self, codecs: CodecPipeline, session: &Session) -> CommandResult {
        if let Some(address) = self.replaced_store() {
            // Also where the store is already new: the migration that made it so may have been killed.
            Build::remove_leftovers(address)?;
        }
        let store = session.reader(&self.store).await?.store().clone();
        let plan = MigrationPlan::build(&store).await;
        let plan = plan.with_context(|| format!("cannot migrate {}", self.store))?;
        let new = if self.in_place { Some(&self.store) } else { self.new.as_ref() };
        let address = match new {
            Some(address) if !self.dry_run => address,
            _ => {
                print(session, &plan)?;
                session.print_store_notices(&store)?;
                return Ok(Outcome::Clean);
            }
        };
        check_nested(&self.store, address)?;
        let options = session.build_options(self.overwrite || self.in_place);
        let failed = || format!("cannot write {address}");
        let build = Build::begin(address, options).await.with_context(failed)?;
        let name = Path::new(address.trim_end_matches('/')).file_name();
        let name = name.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let migration =
            Migration { name, shard: self.shard.and_then(|Shards(cells)| cells), codecs };
        let progress = session.progress("migrating");
        let on_progress = |done: &MigrationCounts| progress.count("", done.cells, "cell");
        let handle = build.clone();
        let done = plan.apply(&migration, build, on_progress).await;
        drop(progress);
        let done = done.with_context(failed)?;
        report(session, address, &done)?;
        session.print_store_notices(&store)?;
        session.print_notices(handle.notices().iter().map(ToString::to_string))?;
        Ok(Outcome::Clean)
    }

    /// Returns the address of the store that the new one replaces.
    fn replaced_store(&self) -> Option<&String> {
        match self.in_place {
            true => Some(&self.store),
            false => self.new.as_ref().filter(|_| self.overwrite && !self.dry_run),
        }
    }
}

/// Prints the changes.
fn print(session: &Session, plan: &MigrationPlan) -> CommandResult {
    let changes: Vec<_> = plan.changes().collect();
    session.print(&json!({ "changes": changes }), |out| {
        for MigrationChange { path, before, after } in plan.changes() {
            let path = if path.is_empty() { "format" } else { path };
            if after == "the same" {
                writeln!(out, "{path}: copied")?;
            } else {
                writeln!(out, "{path}: {before} -> {after}")?;
            }
        }
        Ok(())
    })
}

/// Prints the totals of the migration.
fn report(session: &Session, address: &str, done: &MigrationCounts) -> CommandResult {
    let MigrationCounts { levels, cells, links, objects, stored_bytes, .. } = *done;
    session.print(&table::place_json("store", address, done)?, |out| {
        let counts = [(levels, "level"), (cells, "cell"), (links, "link"), (objects, "object row")];
        Ok(writeln!(out, "{address}: {}, {}", table::counts(counts), table::bytes(stored_bytes))?)
    })
}
