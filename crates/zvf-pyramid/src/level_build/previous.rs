//! Reuses an existing level after an edit: everything that may have changed is built from the level
//! below, the rest is copied from the existing level. The result has the same bytes as a full
//! rebuild.
//!
//! ```text
//! what is asked first   everything that a method looks at is in the recipe, and the recipe is the same
//! points by cells       a cell lies in one chunk, and so does the mean of its points; a chunk of the level holds
//!                       whole chunks of the one below. So a chunk is made again where one of those changed
//! objects               chains are simplified as a whole, from their own vertices, and so are graphs, skeletons and
//!                       meshes whose objects are apart (`objects`): objects that changed are made again, and those
//!                       that the level did not have
//! the largest error     is that of what stays, where its place is not made again, or a larger one that was found
//! everything            where a method counts rows, cells cover several chunks, vertices are linked between
//!                       levels, other objects are kept, objects are not apart or none are there, or the place of the
//!                       largest error was made again
//! ```
//!
//! Cells of points without objects are kept as stored if each is a file: they are hard-linked. All
//! other unchanged data is read and rewritten, since an index, a shard or a manifest names it
//! together with the rest.
//!
//! The new level records which of its chunks differ, for the level above.

use std::collections::BTreeSet;

use zvf_error::{Error, Result};
use zvf_format::Class;
use zvf_model::{Batch, Kind, LevelId, LevelReader};
use zvf_query::{Query, Reader};

use super::kind_build::{is_by_objects, largest_error_of};
use super::{KindBuild, KindSource, RECIPE};
use crate::Method;
use crate::batches::{order_fields, query_objects};
use crate::carry::{Objects, find_unbroken_ids, present_ids};
use crate::links::LineageWriter;
use crate::shape::largest_error::{ErrorLocation, LargestError};
use crate::stale::{Changed, LevelPart, Unit};

/// A kind of an existing level that is reused in part.
pub(super) struct PreviousKind<'a> {
    reader: &'a Reader,
    pub(super) level: LevelReader,
    pub(super) part: &'a LevelPart, // of the level below
    pub(super) farthest: LargestError,
    pub(super) retains: bool, // whether cells may stay as they are stored
}

/// The reused part of an existing level.
pub(super) struct Reused {
    pub(super) unit: Unit,
    pub(super) built: u64, // from the level below
    /// The part of the level that differs.
    pub(super) part: LevelPart,
    /// Chunks that are kept as stored and were not read.
    pub(super) stored: Option<RetainedChunks>,
}

/// Chunks of a level whose cells are kept as stored.
pub(super) struct RetainedChunks {
    pub(super) chunks: u64,
    pub(super) rows: u64,
}

/// Why a level must be rebuilt whole.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    pub(super) why: &'static str,
    /// The part of the level that differs nevertheless, if known.
    pub(super) part: Option<LevelPart>,
}

/// Why a level was not built in one way: it must be built in another, or there is an error.
pub(crate) enum Setback {
    Refused(Refusal),
    Failed(Error),
}

impl From<Error> for Setback {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// A result, or why there is none.
pub(crate) type Attempt<T> = Result<T, Setback>;

pub(crate) fn refuse<T>(why: &'static str) -> Attempt<T> {
    Err(Setback::Refused(Refusal { why, part: None }))
}

impl<'a> KindBuild<'a> {
    /// Returns the existing level if parts of it may be reused.
    pub(super) async fn find_previous(
        &self,
        has_objects: bool,
        retains: bool,
    ) -> Attempt<PreviousKind<'a>> {
        let Some((reader, changed)) = self.previous else {
            return refuse("the level is new");
        };
        let part = match changed {
            Changed::All(why) => return refuse(why),
            Changed::Part(part) => part,
        };
        if self.folder.is_some() {
            return refuse("vertices are linked between levels");
        }
        if self.plan.options.renumber {
            return refuse("objects are numbered anew");
        }
        let kind = self.plan.kind;
        if kind == Kind::PointCloud && self.step.method != Method::Cluster {
            return refuse("the method looks at more than chunks");
        }
        if kind != Kind::PointCloud && !has_objects {
            return refuse("the level has no objects");
        }
        let level = match LevelReader::open(reader.store(), LevelId(self.step.level)).await {
            Err(error) if error.class() == Class::NotFound => return refuse("the level is new"),
            level => level?,
        };
        let Some(level) = level.open_kind(kind).await? else {
            return refuse("the level lacks the kind");
        };
        // Without a recipe, the level was built in another way.
        let recipe = level.node().meta().extras.get(RECIPE).cloned().unwrap_or_default();
        if !self.is_same_recipe(&recipe) || level.chunk_shape().sizes() != self.step.chunk {
            return refuse("the level was built in another way");
        }
        if kind.has_links() && !is_by_objects(&recipe) {
            return refuse(NOT_BY_OBJECTS);
        }
        let Some(farthest) = largest_error_of(&recipe) else {
            return refuse("the place of the largest error is not on record");
        };
        Ok(PreviousKind { reader, level, part, farthest, retains })
    }
}

impl KindSource<'_> {
    /// Returns the names of vertex attributes in the order in which levels store them.
    pub(super) async fn ordered_field_names(&self) -> Result<Vec<String>> {
        let mut names = self.below.attribute_names().await?.names;
        names.retain(|name| *name != self.names.weight);
        names.push(self.names.weight.clone());
        Ok(names)
    }
}

impl PreviousKind<'_> {
    /// Returns the reader, and a query of the existing level.
    pub(super) fn query(&self, query: Query, kind: Kind, owners: bool) -> (&Reader, Query) {
        let query = query.at_level(self.level.level()).of_kind(kind).uncached();
        (self.reader, if owners { query.with_owners() } else { query })
    }

    /// Completes the largest error of the level, if that is known: so far it is that of the rebuilt
    /// part. `stays` tells whether the place of the old maximum is outside of it.
    pub(super) fn finish(
        &self,
        lineage: &mut LineageWriter,
        stays: bool,
        reused: Reused,
    ) -> Attempt<Option<Reused>> {
        let (old, found) = (&self.farthest, &mut lineage.farthest);
        if stays || old.error <= 0.0 {
            found.include(old);
        } else if !(found.error > old.error || found.is_as_far_at_or_before(old)) {
            // Of equally distant places, the recorded one was the lowest.
            let why = "the place of the largest error changed";
            return Err(Setback::Refused(Refusal { why, part: Some(reused.part) }));
        }
        Ok(Some(reused))
    }
}

/// The objects that are copied from an existing level.
pub(super) struct CopiedObjects<'a> {
    previous: &'a PreviousKind<'a>,
    kind: Kind,
    ids: BTreeSet<i64>,
    /// What differs in the level: other kept objects are rebuilt.
    pub(super) part: LevelPart,
    names: Vec<String>, // of vertex attributes, in order
}

impl<'a> CopiedObjects<'a> {
    /// Returns the unchanged ones of `objects`; `None` if no level is reused.
    pub(super) async fn find(
        source: &'a KindSource<'a>,
        objects: &Objects,
    ) -> Result<Option<Self>> {
        let (kind, Ok(previous)) = (source.plan.kind, &source.previous) else { return Ok(None) };
        let mut ids = match kind.is_chain() {
            true => find_unbroken_ids(&previous.level).await?,
            false => present_ids(&previous.level).await?,
        };
        ids.retain(|id| objects.keeps(*id) && !previous.part.objects.contains(id));
        let mut part = previous.part.clone();
        part.objects.extend(objects.kept_ids.iter().filter(|id| !ids.contains(id)));
        let names = source.ordered_field_names().await?;
        Ok(Some(Self { previous, kind, ids, part, names }))
    }

    /// Divides objects into those that are copied, if any are, and the rest.
    pub(super) fn split(copied: Option<&Self>, ids: &[i64]) -> (Vec<i64>, Vec<i64>) {
        ids.iter().partition(|id| copied.is_some_and(|copied| copied.ids.contains(id)))
    }

    /// Reads objects of the existing level.
    pub(super) async fn read(&self, ids: &[i64]) -> Result<Batch> {
        let owners = !self.kind.is_chain();
        let (reader, query) = self.previous.query(query_objects(ids), self.kind, owners);
        order_fields(&reader.run(&query).await?.batch, &self.names)
    }

    /// Completes the level, where `built` objects were not copied.
    pub(super) fn finish(
        copied: Option<Self>,
        lineage: &mut LineageWriter,
        built: u64,
    ) -> Attempt<Option<Reused>> {
        let Some(Self { previous, ids, part, .. }) = copied else { return Ok(None) };
        let at = previous.farthest.at.as_ref();
        let stays = matches!(at, Some(ErrorLocation::Object(id)) if ids.contains(id));
        previous.finish(lineage, stays, Reused { unit: Unit::Objects, built, part, stored: None })
    }
}

/// Why nothing of a level is reused whose objects with edges or faces were built together.
pub(super) const NOT_BY_OBJECTS: &str = "the level was not built object by object";
