//! The options that select a part of a store.

use clap::Args;
use zvf::{Columns, Kind, LevelReader, LevelRule, Reader};

use crate::commands::group;
use crate::commands::query::region::Where;
use crate::commands::query::{Ids, ModeWord, OrderWord, Unknown, ids, level_rule};
use crate::session::Session;

/// The selected part of a store.
#[derive(Args, Debug)]
#[command(next_help_heading = "Part of a store")]
pub(crate) struct Narrow {
    /// The level: a number, or a rule: vertices=N, bytes=SIZE, error=X, screen=WIDTH/PIXELS [default: 0].
    #[arg(long, value_name = "N|RULE", value_parser = level_rule)]
    level: Option<LevelRule>,
    #[command(flatten)]
    place: Where,
    /// The spatial relation between geometry and region, and which part of a match is returned.
    #[arg(long, value_enum)]
    mode: Option<ModeWord>,
    /// Only these objects, in this order: 7,9,20..30 (the end of a range is not included).
    #[arg(long, value_name = "IDS", value_parser = ids, allow_hyphen_values = true)]
    objects: Option<Ids>,
    /// Only objects in one of these groups, by number or name: 0,left.
    #[arg(long, value_name = "GROUPS", value_delimiter = ',')]
    groups: Vec<String>,
    /// Only rows for which this is true, such as "intensity > 3 and object.kind in (1, 2)".
    #[arg(long = "where", value_name = "EXPR")]
    predicate: Option<String>,
    /// What to do when an object id does not exist [default: error].
    #[arg(long = "unknown-objects", value_enum)]
    unknown: Option<Unknown>,
    /// The order of the answer.
    #[arg(long, value_enum)]
    order: Option<OrderWord>,
    /// At most N vertices; an object or element is never cut. 0 is all.
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Skip missing cells; a note names them.
    #[arg(long)]
    allow_missing: bool,
    /// Read only what an additive level adds to the next coarser one.
    #[arg(long = "increment-only")]
    increment_only: bool,
}

impl Narrow {
    /// Returns the first given option that needs a store as input.
    pub(crate) fn first_given(&self) -> Option<&'static str> {
        let given = [
            ("--level", self.level.is_some()),
            ("--bbox, --ball, --half-space or --prism", self.place.is_given()),
            ("--mode", self.mode.is_some()),
            ("--objects", self.objects.is_some()),
            ("--groups", !self.groups.is_empty()),
            ("--where", self.predicate.is_some()),
            ("--unknown-objects", self.unknown.is_some()),
            ("--order", self.order.is_some()),
            ("--limit", self.limit.is_some()),
            ("--allow-missing", self.allow_missing),
            ("--increment-only", self.increment_only),
        ];
        given.into_iter().find(|(_, given)| *given).map(|(name, _)| name)
    }

    /// Returns the first given option that concerns the whole answer and cannot be applied to parts.
    pub(crate) fn first_of_whole(&self) -> Option<&'static str> {
        let given = [
            ("--objects", self.objects.is_some()),
            ("--groups", !self.groups.is_empty()),
            ("--order", self.order.is_some()),
            ("--limit", self.limit.is_some()),
        ];
        given.into_iter().find(|(_, given)| *given).map(|(name, _)| name)
    }

    /// Returns the query that the options state for `reader`.
    pub(crate) async fn query(
        &self,
        session: &Session,
        reader: &Reader,
        columns: Columns,
    ) -> anyhow::Result<zvf::Query> {
        let axes: Vec<String> =
            reader.store().root().axes().iter().map(|axis| axis.name.clone()).collect();
        let level = self.level.unwrap_or(LevelRule::Number(zvf::LevelId(0)));
        let mut query = zvf::Query::all().level(level).columns(columns);
        if let Some(unknown) = self.unknown {
            query = query.unknown_ids(unknown.into());
        }
        if let Some(region) = self.place.region(&axes)? {
            query = query.in_region(region);
        }
        if let Some(mode) = self.mode {
            query = query.mode(mode.into());
        }
        if let Some(Ids(ids)) = &self.objects {
            query = query.of_objects(ids.iter().copied());
        }
        if !self.groups.is_empty() {
            let number = if let LevelRule::Number(level) = level { level.0 } else { 0 };
            let level: LevelReader = session.level(reader.store(), number).await?;
            query = query.in_groups(group::numbers(&level, &self.groups).await?);
        }
        if let Some(text) = &self.predicate {
            let predicate: zvf::predicate::Predicate = text.parse().map_err(zvf::Error::from)?;
            query = query.filter(predicate);
        }
        if let Some(order) = self.order {
            query = query.order(order.into());
        }
        if let Some(limit) = self.limit.filter(|limit| *limit > 0) {
            query = query.limit(limit);
        }
        if self.allow_missing {
            query = query.allow_missing();
        }
        Ok(if self.increment_only { query.increment_only() } else { query })
    }

    /// Returns the kinds to export: the one given, or all of the level.
    pub(crate) async fn kinds(
        &self,
        session: &Session,
        reader: &Reader,
        kind: Option<Kind>,
    ) -> anyhow::Result<Vec<Kind>> {
        if let Some(kind) = kind {
            return Ok(vec![kind]);
        }
        let level = self.level(session, reader).await?;
        let mut kinds: Vec<Kind> = level.kinds().first().copied().into_iter().collect();
        kinds.extend(level.extra_kinds());
        Ok(kinds)
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

    /// Returns the queried level; the first one for a rule.
    async fn level(&self, session: &Session, reader: &Reader) -> anyhow::Result<LevelReader> {
        let number = match self.level {
            Some(LevelRule::Number(level)) => level.0,
            _ => 0,
        };
        session.level(reader.store(), number).await
    }
}
