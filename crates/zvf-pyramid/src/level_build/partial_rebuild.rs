//! Rebuilds a level after an edit: everything that may have changed is built from the level below,
//! the rest is copied from the existing level. The result has the same bytes as a full rebuild.
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

use futures_util::StreamExt as _;
use zvf_error::Result;
use zvf_format::Class;
use zvf_format::grid::{ChunkShape, Grid};
use zvf_format::key::ChunkKey;
use zvf_format::num::to_u64;
use zvf_model::{Kind, LevelId, LevelReader};
use zvf_query::{Mode, Order, Query, Reader};

use super::recipe::{is_by_objects, largest_error_of};
use super::{KindBuild, RECIPE};
use crate::batches::{join_chains, order_fields, query_objects, select_kept, select_rows};
use crate::carry::{Objects, find_unbroken_ids, present_ids};
use crate::columns::Points;
use crate::links::LineageWriter;
use crate::rows::{check_rows, row_number};
use crate::shape::Coarsened;
use crate::shape::largest_error::{ErrorLocation, LargestError};
use crate::shape::lattice::Lattice;
use crate::stale::{Changed, Part, Unit};
use crate::{Method, blocks};

/// The existing store, and what changed in the level below.
#[derive(Clone, Copy)]
pub(crate) struct PreviousStore<'a> {
    pub(crate) reader: &'a Reader,
    pub(crate) changed: &'a Changed,
}

/// A kind of an existing level that is reused in part.
pub(crate) struct PreviousKind<'a> {
    pub(super) reader: &'a Reader,
    pub(super) level: LevelReader,
    pub(super) part: &'a Part, // of the level below
    pub(super) farthest: LargestError,
    retains: bool, // whether cells may stay as they are stored
}

/// The rebuilt part of a level.
pub(crate) struct PartialRebuild {
    pub(crate) farthest: LargestError,
    /// The number of edges or faces.
    pub(crate) elements: u64,
    pub(crate) unit: Unit,
    pub(crate) built: u64,
    /// The part of the level that differs.
    pub(crate) part: Part,
    /// Chunks that are kept as stored and were not read.
    pub(crate) stored: Option<RetainedChunks>,
}

/// Chunks of a level whose cells are kept as stored.
pub(crate) struct RetainedChunks {
    pub(crate) chunks: u64,
    pub(crate) rows: u64,
}

/// Why a level must be rebuilt whole.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    pub(crate) why: &'static str,
    /// The part of the level that differs nevertheless, if known.
    pub(crate) part: Option<Part>,
}

impl From<&'static str> for Refusal {
    fn from(why: &'static str) -> Self {
        Self { why, part: None }
    }
}

/// A result, or why the level must be rebuilt whole.
pub(crate) type Attempt<T> = Result<T, Refusal>;

pub(super) fn refuse<T>(why: &'static str) -> Result<Attempt<T>> {
    Ok(Err(why.into()))
}

impl KindBuild<'_> {
    /// Returns the existing level if parts of it may be reused, otherwise the reason why not. A new
    /// level is not checked.
    pub(super) async fn find_previous_kind(
        &self,
        has_objects: bool,
        retains: bool,
    ) -> Result<Attempt<PreviousKind<'_>>> {
        let Some(previous) = self.previous else { return refuse("the level is new") };
        let part = match previous.changed {
            Changed::All(why) => return refuse(why),
            Changed::Part(part) => part,
        };
        if self.folder.is_some() {
            return refuse("vertices are linked between levels");
        }
        if self.plan.options().renumber {
            return refuse("objects are numbered anew");
        }
        let kind = self.plan.kind;
        let by_cells = kind == Kind::PointCloud && self.step.method == Method::Cluster;
        if !by_cells && kind == Kind::PointCloud {
            return refuse("the method looks at more than chunks");
        }
        if kind != Kind::PointCloud && !has_objects {
            return refuse("the level has no objects");
        }
        let level = LevelReader::open(previous.reader.store(), LevelId(self.step.level)).await;
        if level.as_ref().is_err_and(|error| error.class() == Class::NotFound) {
            return refuse("the level is new");
        }
        let level = level?;
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
        Ok(Ok(PreviousKind { reader: previous.reader, level, part, farthest, retains }))
    }

    /// Returns a query of the existing level.
    pub(super) fn earlier_query(&self, query: Query, objects: Option<&Objects>) -> Query {
        let query = query.at_level(LevelId(self.step.level)).of_kind(self.plan.kind).uncached();
        if objects.is_some() { query.with_owners() } else { query }
    }

    /// Rebuilds the chunks of points that hold any changed point.
    pub(super) async fn refresh_points(
        &self,
        (reader, below): (&Reader, &LevelReader),
        objects: Option<&Objects>,
        previous_kind: &PreviousKind<'_>,
        lineage: &mut LineageWriter,
    ) -> Result<Attempt<PartialRebuild>> {
        let shape = below.chunk_shape();
        let lattice = Lattice::new(shape.sizes(), self.step.size.unwrap_or(0.0))?;
        if !lattice.is_within_chunks() {
            return refuse("cells cover several chunks");
        }
        if let Some(objects) = objects
            && !self.keeps_same_objects(objects, previous_kind).await?
        {
            return refuse("other objects are kept");
        }
        let scale = i64::from(self.plan.options().chunk_scale);
        let part = previous_kind.part.coarsen(scale);
        let dirty = chunks_of(below, &part, scale).await?;
        let stored = self.find_stored((previous_kind, &part), objects, &dirty).await?;
        if stored.is_none() {
            self.take_kept_points((below, objects), (previous_kind, &part), lineage).await?;
        }
        let mut found = LargestError::default();
        let query = self.complete_query(Query::all(), objects).order(Order::Storage);
        for chunk in &dirty {
            // Chunks whose coordinates overflow 64 bits do not exist.
            let low: Vec<i64> = chunk.iter().map(|at| at.saturating_mul(scale)).collect();
            let high = low.iter().map(|at| at.saturating_add(scale - 1)).collect();
            let region = blocks::chunks_between(&[low, high], shape.sizes())?;
            let query = query.clone().in_region(region).mode(Mode::Cells);
            let mut batches = reader.stream(query);
            while let Some(batch) = batches.next().await {
                let batch = select_kept(&batch?, objects)?;
                found = self.cluster_batch(batch, Some(&lattice), found, lineage)?;
            }
        }
        let stays = match &previous_kind.farthest.at {
            Some(ErrorLocation::Vertex(at)) => {
                !part.has_chunk(&coarse_chunk(&shape.chunk_of(at)?, scale))
            }
            Some(ErrorLocation::Object(_)) | None => false,
        };
        let (farthest, unit, built) = (found, Unit::Chunks, to_u64(dirty.len()));
        let rebuilt = PartialRebuild { farthest, elements: 0, unit, built, part, stored };
        Ok(previous_kind.finish(stays, rebuilt))
    }

    /// Finds the chunks whose cells can be kept as stored: those of points without objects, in a
    /// store of one kind, where nothing else names their rows or fragments.
    async fn find_stored(
        &self,
        (previous_kind, part): (&PreviousKind<'_>, &Part),
        objects: Option<&Objects>,
        dirty: &BTreeSet<Vec<i64>>,
    ) -> Result<Option<RetainedChunks>> {
        let [low, high] = &self.source.root().zarr_vectors.bounds;
        let is_bounded = low.iter().chain(high).all(|x| x.is_finite());
        let alone = objects.is_none() && self.step.kind.is_none();
        // Without a rebuilt chunk nothing tells which columns there are.
        if !previous_kind.retains || !alone || !is_bounded || dirty.is_empty() {
            return Ok(None);
        }
        let grid = Grid::from_bounds(low, high, &ChunkShape::new(&self.step.chunk)?)?;
        let keys: Vec<ChunkKey> = previous_kind.level.chunks().await?.iter().collect();
        let (gone, stay): (Vec<ChunkKey>, Vec<ChunkKey>) =
            keys.into_iter().partition(|key| part.has_chunk(key.components()));
        if stay.iter().any(|key| !grid.contains(key)) {
            return Ok(None);
        }
        let Ok(mut rows) = u64::try_from(previous_kind.level.node().meta().vertex_count) else {
            return Ok(None);
        };
        for count in previous_kind.level.row_counts(&gone).await {
            let Some(rest) = rows.checked_sub(count?) else { return Ok(None) };
            rows = rest;
        }
        // The row counts of a damaged document may overflow together with the rebuilt ones.
        let all = rows.checked_add(self.step.below);
        if all.is_none_or(|all| i64::try_from(all).is_err()) {
            return Ok(None);
        }
        Ok(Some(RetainedChunks { chunks: to_u64(stay.len()), rows }))
    }

    /// Copies the points of chunks that stay.
    async fn take_kept_points(
        &self,
        (below, objects): (&LevelReader, Option<&Objects>),
        (previous_kind, part): (&PreviousKind<'_>, &Part),
        lineage: &mut LineageWriter,
    ) -> Result<()> {
        let names = self.ordered_field_names(below).await?;
        let query = self.earlier_query(Query::all(), objects).order(Order::Storage);
        let mut batches = previous_kind.reader.stream(query);
        let shape = previous_kind.level.chunk_shape();
        while let Some(batch) = batches.next().await {
            let batch = batch?;
            check_rows(batch.len())?;
            let points = Points::from_column(batch.positions());
            let mut rows = Vec::new();
            for row in 0..batch.len() {
                if !part.has_chunk(shape.chunk_of(points.point(row))?.components()) {
                    rows.push(row_number(row));
                }
            }
            let batch = order_fields(&select_rows(&batch, &rows)?, &names)?;
            lineage.take(&Coarsened::from_batch(batch), &[])?;
        }
        Ok(())
    }

    /// Returns whether the level keeps the same objects as before, apart from changed ones if all
    /// are kept.
    async fn keeps_same_objects(
        &self,
        objects: &Objects,
        previous_kind: &PreviousKind<'_>,
    ) -> Result<bool> {
        let old = present_ids(&previous_kind.level).await?;
        let new: BTreeSet<i64> = objects.kept_ids.iter().copied().collect();
        let may_differ =
            |id: &i64| self.step.sparsity <= 1.0 && previous_kind.part.objects.contains(id);
        Ok(old.symmetric_difference(&new).all(may_differ))
    }

    /// Rebuilds the chains of changed objects.
    pub(super) async fn refresh_chains(
        &self,
        (reader, below): (&Reader, &LevelReader),
        objects: &Objects,
        previous_kind: &PreviousKind<'_>,
        lineage: &mut LineageWriter,
    ) -> Result<Attempt<PartialRebuild>> {
        let names = self.ordered_field_names(below).await?;
        let (stay, part) =
            previous_kind.split(find_unbroken_ids(&previous_kind.level).await?, objects);
        let kept_ids = &objects.kept_ids;
        let (mut found, mut built) = (LargestError::default(), 0);
        for ids in kept_ids.chunks(self.chains_at_once(kept_ids.len())) {
            let (same, rest): (Vec<i64>, Vec<i64>) = ids.iter().partition(|id| stay.contains(id));
            built += to_u64(rest.len());
            let mut batches = Vec::new();
            if !rest.is_empty() {
                let made = self.thin_chains(reader, &rest).await?.0;
                found = found.max(made.error, made.at);
                batches.push(made.batch);
            }
            if !same.is_empty() {
                let query = self.earlier_query(query_objects(&same), None);
                let batch = previous_kind.reader.run(&query).await?.batch;
                batches.push(order_fields(&batch, &names)?);
            }
            let Some(batch) = join_chains(&batches)? else {
                return refuse("attributes of vertices are not those of the level");
            };
            lineage.take(&Coarsened::from_batch(batch), &[])?;
        }
        Ok(previous_kind.finish_objects(&stay, found, (0, built), part))
    }

    /// Returns the names of vertex attributes in the order in which levels store them.
    pub(super) async fn ordered_field_names(&self, below: &LevelReader) -> Result<Vec<String>> {
        let mut names = below.attribute_names().await?.names;
        names.retain(|name| *name != self.rules.weight);
        names.push(self.rules.weight.clone());
        Ok(names)
    }
}

/// Returns the chunks, `scale` times as large as those of the level below, that belong to a part
/// and have vertices there.
async fn chunks_of(below: &LevelReader, part: &Part, scale: i64) -> Result<BTreeSet<Vec<i64>>> {
    let keys = below.chunks().await?;
    let coarse = keys.iter().map(|key| coarse_chunk(&key, scale));
    Ok(coarse.filter(|chunk| part.has_chunk(chunk)).collect())
}

/// Returns the chunk, `scale` times as large, that contains a chunk.
fn coarse_chunk(key: &ChunkKey, scale: i64) -> Vec<i64> {
    key.components().iter().map(|at| at.div_euclid(scale)).collect()
}

impl PreviousKind<'_> {
    /// Returns which of the `stored` objects are unchanged, and what differs in the level: kept
    /// objects that are not among them are rebuilt.
    pub(super) fn split(
        &self,
        mut stored: BTreeSet<i64>,
        objects: &Objects,
    ) -> (BTreeSet<i64>, Part) {
        stored.retain(|id| objects.keeps(*id) && !self.part.objects.contains(id));
        let mut part = self.part.clone();
        part.objects.extend(objects.kept_ids.iter().filter(|id| !stored.contains(id)));
        (stored, part)
    }

    /// Returns the rebuild with the largest error of the level, if that is known: so far it is that
    /// of the rebuilt part. `stays` tells whether the place of the old maximum is outside of it.
    fn finish(&self, stays: bool, rebuilt: PartialRebuild) -> Attempt<PartialRebuild> {
        let (old, found) = (&self.farthest, rebuilt.farthest);
        let farthest = if stays || old.error <= 0.0 {
            found.max(old.error, old.at.clone())
        } else if found.error > old.error || found.is_as_far_at_or_before(old) {
            // Of equally distant places, the recorded one was the lowest.
            found
        } else {
            let why = "the place of the largest error changed";
            return Err(Refusal { why, part: Some(rebuilt.part) });
        };
        Ok(PartialRebuild { farthest, ..rebuilt })
    }

    /// Does the same for objects, where `stay` were copied.
    pub(super) fn finish_objects(
        &self,
        stay: &BTreeSet<i64>,
        farthest: LargestError,
        (elements, built): (u64, u64),
        part: Part,
    ) -> Attempt<PartialRebuild> {
        let at = self.farthest.at.as_ref();
        let stays = matches!(at, Some(ErrorLocation::Object(id)) if stay.contains(id));
        let unit = Unit::Objects;
        self.finish(stays, PartialRebuild { farthest, elements, unit, built, part, stored: None })
    }
}

/// Why nothing of a level is reused whose objects with edges or faces were built together.
pub(super) const NOT_BY_OBJECTS: &str = "the level was not built object by object";
