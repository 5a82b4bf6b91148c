//! `zvf migrate`.

use std::io::Write;
use std::path::Path;

use anyhow::Context as _;
use clap::Args;
use serde_json::json;
use zvf::migrate::{Change, Migrated, Migration, Plan};
use zvf::store::{Build, BuildOptions, Codecs};
use zvf::{Error, Timeouts};

use crate::outcome::{Outcome, Usage};
use crate::session::Session;
use crate::table;

/// Write a store of format 0.6, 0.7 or 0.8 as one of 0.9.2, with the same answers to every question.
///
/// Chunks, the order of vertices, ids of objects, groups, attributes, links and levels stay what they are.
/// Bridges of lines and polylines, which those formats stored without the rows they join, are made anew.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  zvf migrate old.zarrvectors --dry-run
  zvf migrate old.zarrvectors new.zarrvectors
  zvf migrate s3://bucket/old.zarrvectors new.zarrvectors --shard 8 --zstd 3
  zvf migrate brain.zarrvectors brain.zarrvectors --overwrite")]
pub(crate) struct Migrate {
    /// The store: a folder or a URL.
    old: String,
    /// The new store, which must not be there yet.
    #[arg(required_unless_present = "dry_run")]
    new: Option<String>,
    /// Print what would change, and write nothing.
    #[arg(long)]
    dry_run: bool,
    /// Replace the new store when it is there, in one step once it is whole. Only in folders.
    #[arg(long)]
    overwrite: bool,
    /// Cells per shard on each axis, or one number for all axes [default: one object per cell].
    #[arg(long, value_name = "N[,N...]", value_delimiter = ',')]
    shard: Option<Vec<u64>>,
    /// Compress cells with Zstandard, this hard: -7 to 22 [default: cells are not compressed].
    #[arg(long, value_name = "LEVEL", allow_negative_numbers = true)]
    zstd: Option<i32>,
}

impl Migrate {
    pub(crate) async fn run(
        self,
        session: &Session,
        out: &mut dyn Write,
    ) -> anyhow::Result<Outcome> {
        let codecs = match self.zstd {
            None => Codecs::none(),
            Some(level) if (-7..=22).contains(&level) => Codecs::zstd(level),
            Some(level) => {
                return Err(Usage::new(format!("zstd has levels -7 to 22, not {level}")).into());
            }
        };
        let store = session.reader(&self.old).await?.store().clone();
        let plan = Plan::of(&store).await.map_err(Error::from);
        let plan = plan.with_context(|| format!("cannot migrate {}", self.old))?;
        let address = match &self.new {
            Some(address) if !self.dry_run => address,
            _ => {
                print(session, &plan, out)?;
                session.tell_notices(out, &store)?;
                return Ok(Outcome::Clean);
            }
        };
        let options = BuildOptions {
            replace: self.overwrite,
            store: session.options(Timeouts::Batch),
            gate: session.interrupt().gate().clone(),
            ..BuildOptions::default()
        };
        let failed = || format!("cannot write {address}");
        let build =
            Build::begin(address, options).await.map_err(Error::from).with_context(failed)?;
        let name = Path::new(address.trim_end_matches('/')).file_name();
        let name = name.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let migration = Migration { name, shard: self.shard, codecs };
        let progress = session.progress("migrating");
        let told = |done: &Migrated| {
            progress
                .set(format!("{} levels, {} cells, {} links", done.levels, done.cells, done.links));
        };
        let handle = build.clone();
        let done = plan.apply(&migration, build, told).await.map_err(Error::from);
        drop(progress);
        let done = done.with_context(failed)?;
        report(session, address, &done, out)?;
        session.tell_notices(out, &store)?;
        session.tell(out, handle.notices().iter().map(ToString::to_string))?;
        Ok(Outcome::Clean)
    }
}

/// Prints what would change.
fn print(session: &Session, plan: &Plan, out: &mut dyn Write) -> anyhow::Result<()> {
    if session.json() {
        let change = |Change { path, before, after }| json!({"path": path, "before": before, "after": after});
        let changes: Vec<_> = plan.changes().map(change).collect();
        table::json(&json!({ "changes": changes }), out)?;
        return Ok(());
    }
    for Change { path, before, after } in plan.changes() {
        let path = if path.is_empty() { "format" } else { path };
        if after == "the same" {
            writeln!(out, "{path}: copied")?;
        } else {
            writeln!(out, "{path}: {before} -> {after}")?;
        }
    }
    Ok(())
}

/// Prints what was done.
fn report(
    session: &Session,
    address: &str,
    done: &Migrated,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let Migrated { levels, cells, links, objects, copied, stored_bytes, .. } = *done;
    if session.json() {
        let done = json!({
            "store": address, "levels": levels, "cells": cells, "links": links,
            "objects": objects, "copied": copied, "stored_bytes": stored_bytes,
        });
        table::json(&done, out)?;
        return Ok(());
    }
    let [cells, links, objects] = [cells, links, objects].map(table::count);
    let bytes = table::bytes(stored_bytes);
    writeln!(
        out,
        "{address}: {levels} levels, {cells} cells, {bytes}, {links} links, {objects} rows of objects"
    )?;
    Ok(())
}
