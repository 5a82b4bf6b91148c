//! `zvf rewrite --format-version`: a store of an older format in the current one.

use std::path::Path;

use anyhow::Context as _;
use serde_json::json;
use zvf::migrate::{Change, Migration, MigrationCounts, Plan};
use zvf::store::{Build, CodecPipeline};

use super::Rewrite;
use crate::commands::coding::Shards;
use crate::commands::nested;
use crate::outcome::{CommandResult, Outcome};
use crate::session::Session;
use crate::table;

impl Rewrite {
    /// Writes the store in the current format, with its cells as `codecs` encode them.
    pub(super) async fn migrate(self, codecs: CodecPipeline, session: &Session) -> CommandResult {
        if let Some(address) = self.replaced_store() {
            // Also where the store is already new: the migration that made it so may have been killed.
            Build::remove_leftovers(address)?;
        }
        let store = session.reader(&self.store).await?.store().clone();
        let plan = Plan::build(&store).await;
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
        nested::check(&self.store, address)?;
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
fn print(session: &Session, plan: &Plan) -> CommandResult {
    let changes: Vec<_> = plan.changes().collect();
    session.print(&json!({ "changes": changes }), |out| {
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
fn report(session: &Session, address: &str, done: &MigrationCounts) -> CommandResult {
    let MigrationCounts { levels, cells, links, objects, stored_bytes, .. } = *done;
    session.print(&table::place_json("store", address, done)?, |out| {
        let counts = [(levels, "level"), (cells, "cell"), (links, "link"), (objects, "object row")];
        let counts = counts.map(|(n, thing)| table::format_count(n, thing)).join(", ");
        Ok(writeln!(out, "{address}: {counts}, {}", table::bytes(stored_bytes))?)
    })
}
