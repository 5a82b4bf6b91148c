//! `zvf rewrite`: other shards, another codec.

use anyhow::Context as _;
use zvf::store::{Build, RearrangeCounts, Rearrangement};

use super::Rewrite;
use crate::commands::in_place::InPlace;
use crate::commands::nested;
use crate::outcome::{CommandResult, Outcome};
use crate::session::Session;
use crate::table;

impl Rewrite {
    /// Writes the cells of the store as `plan` has them.
    pub(super) async fn rearrange(self, plan: &Rearrangement, session: &Session) -> CommandResult {
        // With a journal, the command replaces a copy, which is committed.
        let in_place = InPlace::begin(&self.store, self.in_place, session)?;
        let source = in_place.address();
        let store = session.store(source).await?;
        let refused = || format!("cannot rewrite {}", self.store);
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
}
