//! `zvf rewrite --chunk-shape`, `--bin-shape`: other chunks or bins, without the source.

use anyhow::Context as _;
use zvf::Query;
use zvf::create::StoreSource;
use zvf::question::all_kinds;

use super::Rewrite;
use crate::commands::create::Create;
use crate::commands::how::CreateOptions;
use crate::commands::in_place::InPlace;
use crate::commands::nested;
use crate::commands::query::limit_to_memory;
use crate::outcome::{CommandResult, refuse};
use crate::session::Session;

impl Rewrite {
    /// Writes level 0 of the store with the chunks and bins of the options.
    pub(super) async fn divide_anew(self, session: &Session) -> CommandResult {
        let in_place = InPlace::begin(&self.store, self.in_place, session)?;
        let source = in_place.address();
        let address = self.new.as_deref().unwrap_or(source).to_owned();
        nested::check(source, &address)?;
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
        let kinds = all_kinds(&session.level(reader.store(), 0).await?).into_iter();
        let sources = kinds.map(|kind| StoreSource {
            name: format!("{kind} of {}", self.store).into(),
            reader: reader.clone(),
            query: query.clone(),
            kind,
        });
        let sources = sources.collect();
        let mut left_out = Vec::new();
        if reader.store().level_numbers().len() > 1 {
            left_out.push(format!(
                "coarser levels are not copied; build them with \"zvf pyramid --in-place {}\"",
                self.new.as_ref().unwrap_or(&self.store)
            ));
        }
        session.print_notices(left_out.iter().cloned())?;
        let replaces = self.in_place || self.overwrite;
        let options = CreateOptions::of_layout(self.shapes, self.shard, self.coding, replaces);
        let done = Create::from_sources((sources, left_out), address, false, options);
        let outcome = done.run(session).await?;
        drop(reader);
        in_place.finish("rewrite chunks", session)?;
        Ok(outcome)
    }
}
