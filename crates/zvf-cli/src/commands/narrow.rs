//! The options that select a part of a store, of `zvf query` and `zvf convert`.

use clap::Args;
use zvf::question::{all_kinds, axis_names, find_groups};
use zvf::{Kind, LevelReader, LevelRule, Mode, Order, Query, Reader, UnknownIds};

use crate::arguments::{Ids, choice, ids, level_rule};
use crate::commands::query::region::Where;
use crate::session::Session;

/// The selected part of a store.
#[derive(Args)]
#[command(next_help_heading = "Part of a store")]
pub(crate) struct Narrow {
    /// The level: a number, or a rule: vertices=N, bytes=SIZE, error=X, screen=WIDTH/PIXELS [default: 0].
    #[arg(long, value_name = "N|RULE", value_parser = level_rule)]
    level: Option<LevelRule>,
    #[command(flatten)]
    place: Where,
    /// The spatial relation between geometry and region, and which part of a match is returned.
    #[arg(long, value_parser = choice(&MODES))]
    mode: Option<Mode>,
    /// Only these objects, in this order: 7,9,20..30 (the end of a range is not included).
    #[arg(long, value_name = "IDS", value_parser = ids, allow_hyphen_values = true)]
    pub(crate) objects: Option<Ids>,
    /// Only objects in one of these groups, by number or name: 0,left.
    #[arg(long, value_name = "GROUPS", value_delimiter = ',')]
    pub(crate) groups: Vec<String>,
    /// Only rows for which this is true, such as "intensity > 3 and object.kind in (1, 2)".
    #[arg(long = "where", value_name = "EXPR", allow_hyphen_values = true)]
    predicate: Option<String>,
    /// What to do when an object id does not exist [default: error].
    #[arg(long = "unknown-objects", alias = "unknown", value_parser = choice(&UNKNOWN))]
    pub(crate) unknown: Option<UnknownIds>,
    /// The order of the answer.
    #[arg(long, value_parser = choice(&ORDERS))]
    pub(crate) order: Option<Order>,
    /// At most N vertices; an object or element is never cut. 0 is all.
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u64>,
    /// Skip missing cells, and attributes and links that the backend cannot list; a note names
    /// them.
    #[arg(long)]
    pub(crate) allow_missing: bool,
    /// Read only what an additive level adds to the next coarser one.
    #[arg(long = "increment-only", alias = "own-level-only")]
    increment_only: bool,
}

impl Narrow {
    /// Returns the first given option that concerns the whole answer and cannot be applied to parts.
    pub(crate) fn first_of_whole(&self) -> Option<&'static str> {
        first_set(&[
            ("--objects", self.objects.is_some()),
            ("--groups", !self.groups.is_empty()),
            ("--order", self.order.is_some()),
            ("--limit", self.limit.is_some()),
        ])
    }

    /// Returns the query that the options state for `reader`.
    pub(crate) async fn query(&self, session: &Session, reader: &Reader) -> anyhow::Result<Query> {
        let mut query = Query::all().level(self.level.unwrap_or_default());
        query.region = self.place.region(&axis_names(reader.store()))?;
        query.mode = self.mode;
        query.objects.clone_from(&self.objects);
        query.unknown_ids = self.unknown.unwrap_or(query.unknown_ids);
        query.order = self.order;
        query.limit = self.limit.filter(|limit| *limit > 0);
        query.allow_missing = self.allow_missing;
        query.increment_only = self.increment_only;
        query.filter = match &self.predicate {
            Some(text) => Some(text.parse().map_err(zvf::Error::from)?),
            None => None,
        };
        if !self.groups.is_empty() {
            let numbers: Option<Vec<u64>> =
                self.groups.iter().map(|name| name.parse().ok()).collect();
            query.groups = Some(match numbers {
                Some(numbers) => numbers,
                None => find_groups(&self.level(session, reader).await?, &self.groups).await?,
            });
        }
        Ok(query)
    }

    /// Returns the number of the level; 0 where a rule chooses it.
    pub(crate) fn number(&self) -> u32 {
        if let Some(LevelRule::Number(level)) = self.level { level.0 } else { 0 }
    }

    /// Returns whether a rule chooses the level.
    pub(crate) const fn has_rule(&self) -> bool {
        !matches!(self.level, None | Some(LevelRule::Number(_)))
    }

    /// Returns the kinds to export: the one given, or all of the level.
    pub(crate) async fn kinds(
        &self,
        session: &Session,
        reader: &Reader,
        kind: Option<Kind>,
    ) -> anyhow::Result<Vec<Kind>> {
        Ok(match kind {
            Some(kind) => vec![kind],
            None => all_kinds(&self.level(session, reader).await?),
        })
    }

    /// Returns the parts of the level that cannot be read: where vertices are stored in another
    /// order, attributes and links cannot be assigned to them.
    pub(crate) async fn describe_unreadable(
        &self,
        session: &Session,
        reader: &Reader,
    ) -> anyhow::Result<Option<String>> {
        let level = self.level(session, reader).await?;
        let keeps_order = level.keeps_order().await?;
        Ok((!keeps_order).then(|| {
            "vertices are Draco streams with an order of their own: their attributes, and edges and faces between \
             chunks, cannot be read and are left out"
                .to_owned()
        }))
    }

    /// Returns the queried level; level 0 for a rule.
    pub(crate) async fn level(
        &self,
        session: &Session,
        reader: &Reader,
    ) -> anyhow::Result<LevelReader> {
        session.level(reader.store(), self.number()).await
    }
}

/// Returns the first name that is marked.
pub(crate) fn first_set(given: &[(&'static str, bool)]) -> Option<&'static str> {
    given.iter().find(|(_, is_given)| *is_given).map(|(name, _)| *name)
}

const MODES: [(&str, Mode, &str); 5] = [
    ("inside", Mode::Inside, "All vertices are inside"),
    ("touch", Mode::Touch, "A point is in the region; returned whole"),
    ("clip", Mode::Clip, "Cut at the boundary"),
    ("crop", Mode::Crop, "The stored vertices inside, in runs"),
    ("cells", Mode::Cells, "All rows of chunks that meet the region, untested"),
];
const ORDERS: [(&str, Order, &str); 2] = [
    ("storage", Order::Storage, "Chunk by chunk, every stored row once"),
    ("objects", Order::Objects, "Object by object"),
];
const UNKNOWN: [(&str, UnknownIds, &str); 3] = [
    ("error", UnknownIds::Error, "Fail"),
    ("report", UnknownIds::Report, "Leave it out and report it"),
    ("skip", UnknownIds::Skip, "Leave it out"),
];
