//! `zvf migrate`.

use std::io::Write;
use std::path::Path;

use anyhow::Context as _;
use clap::Args;
use serde_json::json;
use zvf::metadata::LayoutFamily;
use zvf::migrate::{Change, Migration, MigrationCounts, Plan};
use zvf::store::{Build, CodecPipeline};

use crate::arguments::choice;
use crate::commands::coding::{Shards, Zstd, shards};
use crate::commands::how::MANIFESTS;
use crate::commands::nested;
use crate::outcome::{CommandResult, Outcome};
use crate::session::Session;
use crate::table;

/// Rewrite a store of format 0.6, 0.7 or 0.8 as one of 0.9.2, with the same answers to every query.
///
/// Chunks, the order of vertices, ids of objects, groups, attributes, links and levels stay what they are.
/// Bridges of lines and polylines, which those formats stored without the rows they join, are created again.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  zvf migrate old.zarrvectors --dry-run
  zvf migrate old.zarrvectors new.zarrvectors
  zvf migrate s3://bucket/old.zarrvectors new.zarrvectors --shard 8 --codec zstd:3
  zvf migrate old.zarrvectors --in-place
  zvf migrate brain.zarrvectors --in-place --manifests dense")]
pub(crate) struct Migrate {
    /// The store: a folder or a URL.
    old: String,
    /// The new store, which must not exist yet.
    #[arg(required_unless_present_any = ["dry_run", "in_place"])]
    new: Option<String>,
    /// Print what would change, and write nothing.
    #[arg(long)]
    dry_run: bool,
    /// Replace the store itself, in one step when the result is complete (folders only).
    #[arg(long, conflicts_with_all = ["new", "dry_run"])]
    in_place: bool,
    /// Replace the new store if it exists, in one step when it is complete (folders only).
    #[arg(long, conflicts_with = "in_place")]
    overwrite: bool,
    /// Cells per shard on each axis, one number for all axes, or none [default: none].
    #[arg(long, value_name = "N[,N...]|none", value_parser = shards)]
    shard: Option<Shards>,
    #[command(flatten)]
    codec: Zstd,
    /// Write manifests in this form, also those of a store of 0.9 or later, as one commit that can
    /// be undone: vlen, or dense, which zarr-vectors 0.9.2 does not read.
    #[arg(long = "manifests", value_name = "FORM", value_parser = choice(&MANIFESTS), requires = "in_place")]
    is_dense: Option<bool>,
}

impl Migrate {
    pub(crate) async fn run(self, session: &Session, out: &mut dyn Write) -> CommandResult {
        let codecs = self.codec.level().map_or_else(CodecPipeline::empty, CodecPipeline::zstd);
        if let Some(address) = self.replaced_store() {
            // Also where the store is already new: the migration that made it so may have been killed.
            Build::remove_leftovers(address)?;
        }
        let store = session.reader(&self.old).await?.store().clone();
        if let (Some(is_dense), LayoutFamily::C) = (self.is_dense, store.family()) {
            return rewrite_manifests(&self.old, is_dense, session, out);
        }
        let plan = Plan::build(&store).await;
        let plan = plan.with_context(|| format!("cannot migrate {}", self.old))?;
        let new = if self.in_place { Some(&self.old) } else { self.new.as_ref() };
        let address = match new {
            Some(address) if !self.dry_run => address,
            _ => {
                print(session, &plan, out)?;
                session.print_store_notices(out, &store)?;
                return Ok(Outcome::Clean);
            }
        };
        nested::check(&self.old, address)?;
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
        report(session, address, &done, out)?;
        session.print_store_notices(out, &store)?;
        session.print_notices(out, handle.notices().iter().map(ToString::to_string))?;
        match self.is_dense {
            Some(is_dense) => rewrite_manifests(address, is_dense, session, out),
            None => Ok(Outcome::Clean),
        }
    }

    /// Returns the address of the store that the new one replaces.
    fn replaced_store(&self) -> Option<&String> {
        match self.in_place {
            true => Some(&self.old),
            false => self.new.as_ref().filter(|_| self.overwrite && !self.dry_run),
        }
    }
}

/// Writes the manifests of a store of 0.9 in another form.
fn rewrite_manifests(
    address: &str,
    is_dense: bool,
    session: &Session,
    out: &mut dyn Write,
) -> CommandResult {
    let report = zvf::edit::rewrite_manifests(session.place(address)?, is_dense)?;
    match session.json() {
        true => table::json(&report, out)?,
        false => super::edit::print(&report, out)?,
    }
    Ok(Outcome::Clean)
}

/// Prints the changes.
fn print(session: &Session, plan: &Plan, out: &mut dyn Write) -> CommandResult {
    let changes: Vec<_> = plan.changes().collect();
    session.print(out, &json!({ "changes": changes }), |out| {
        for Change { path, before, after } in plan.changes() {
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
fn report(
    session: &Session,
    address: &str,
    done: &MigrationCounts,
    out: &mut dyn Write,
) -> CommandResult {
    let MigrationCounts { levels, cells, links, objects, stored_bytes, .. } = *done;
    session.print(out, &table::place_json("store", address, done)?, |out| {
        let counts = [(levels, "level"), (cells, "cell"), (links, "link"), (objects, "object row")];
        let counts = counts.map(|(n, thing)| table::format_count(n, thing)).join(", ");
        Ok(writeln!(out, "{address}: {counts}, {}", table::bytes(stored_bytes))?)
    })
}
