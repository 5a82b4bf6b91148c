//! Builds points: by grid cells, or as a random subset.
//!
//! ```text
//! cells in chunks      the level is streamed, and what comes is made: each batch has whole chunks
//! chunks in cells      by blocks of such cells, one after the other
//! a random part        streamed, in the order in which points are stored
//! ```

use std::collections::BTreeSet;

use futures_util::StreamExt as _;
use zvf_error::Result;
use zvf_format::grid::{ChunkShape, Grid};
use zvf_format::key::ChunkKey;
use zvf_format::num::to_u64;
use zvf_model::Batch;
use zvf_query::{Mode, Order, Query};

use super::KindSource;
use super::previous::{Attempt, PreviousKind, RetainedChunks, Reused, refuse};
use crate::Method;
use crate::batches::{concatenate, order_fields, select_kept, select_rows, split_off_places};
use crate::blocks::{self, Blocks};
use crate::carry::present_ids;
use crate::columns::Points;
use crate::error::inconsistent_error;
use crate::links::LineageWriter;
use crate::rows::{check_rows, row_number};
use crate::shape::largest_error::ErrorLocation;
use crate::shape::lattice::Lattice;
use crate::shape::{Coarsened, points};
use crate::stale::{LevelPart, Unit};

impl KindSource<'_> {
    /// Builds points.
    pub(super) async fn points(&self, lineage: &mut LineageWriter) -> Attempt<Option<Reused>> {
        let query = self.complete_query(Query::all(), true).order(Order::Storage);
        if self.step.method == Method::Subset {
            self.subset(query, lineage).await?;
            return Ok(None);
        }
        let size = self.step.size.filter(|_| self.step.method == Method::Cluster);
        let shape = self.below.chunk_shape();
        let lattice = size.map(|size| Lattice::new(shape.sizes(), size)).transpose()?;
        if let (Ok(previous), Some(lattice)) = (&self.previous, &lattice) {
            return self.refresh_points(previous, (lattice, query), lineage).await;
        }
        let Some(wide) = lattice.as_ref().filter(|lattice| !lattice.is_within_chunks()) else {
            self.cluster(query, lattice.as_ref(), lineage).await?;
            return Ok(None);
        };
        let blocks = Blocks::build(&self.below, self.room(), &wide.chunks()).await?;
        for number in 0..blocks.len() {
            let query = query.clone().in_region(blocks.chunks(number)?).mode(Mode::Cells);
            let (mut batches, mut held) = (self.reader.stream(query), Vec::new());
            while let Some(batch) = batches.next().await {
                held.push(select_kept(&batch?, self.objects.as_ref())?);
            }
            if held.is_empty() {
                continue;
            }
            let differ = || inconsistent_error("attributes", "the same in all batches", "others");
            let batch = concatenate(&held.iter().collect::<Vec<_>>())?.ok_or_else(differ)?;
            self.cluster_batch(batch, lattice.as_ref(), lineage)?;
        }
        Ok(None)
    }

    /// Reduces the points of a query batch by batch.
    async fn cluster(
        &self,
        query: Query,
        lattice: Option<&Lattice>,
        lineage: &mut LineageWriter,
    ) -> Result<()> {
        let mut batches = self.reader.stream(query);
        while let Some(batch) = batches.next().await {
            let batch = select_kept(&batch?, self.objects.as_ref())?;
            self.cluster_batch(batch, lattice, lineage)?;
        }
        Ok(())
    }

    /// Reduces a batch to one point per cell; without cells it stays as it is.
    fn cluster_batch(
        &self,
        batch: Batch,
        lattice: Option<&Lattice>,
        lineage: &mut LineageWriter,
    ) -> Result<()> {
        let (batch, places) = split_off_places(batch)?;
        let part = match lattice {
            Some(lattice) => points::cluster_points(&batch, lattice, &self.rules)?,
            None => Coarsened::from_batch(batch),
        };
        lineage.take(&part, &places).map(drop)
    }

    /// Keeps a subset of the points.
    async fn subset(&self, query: Query, lineage: &mut LineageWriter) -> Result<()> {
        let (mut batches, mut first) = (self.reader.stream(query), 0_u64);
        let keep = self.step.keep.unwrap_or(1.0);
        while let Some(batch) = batches.next().await {
            let (batch, places) = split_off_places(batch?)?;
            let owners = batch.vertex_objects();
            let is_kept = |row: usize| {
                let owner = owners.and_then(|owners| owners[row]);
                owner.is_none_or(|id| self.objects.as_ref().is_none_or(|all| all.keeps(id.0)))
            };
            let place = (self.plan.options.seed, self.step.level, first);
            let part = points::select_subset(&batch, keep, place, &is_kept, &self.rules)?;
            lineage.take(&part, &places)?;
            first += to_u64(batch.len());
        }
        Ok(())
    }

    /// Rebuilds the chunks of points that hold any changed point.
    async fn refresh_points(
        &self,
        previous: &PreviousKind<'_>,
        (lattice, query): (&Lattice, Query),
        lineage: &mut LineageWriter,
    ) -> Attempt<Option<Reused>> {
        if !lattice.is_within_chunks() {
            return refuse("cells cover several chunks");
        }
        if !self.keeps_same_objects(previous).await? {
            return refuse("other objects are kept");
        }
        let (shape, scale) = (self.below.chunk_shape(), i64::from(self.plan.options.chunk_scale));
        let coarse_chunk = |key: &ChunkKey| -> Vec<i64> {
            key.components().iter().map(|at| at.div_euclid(scale)).collect()
        };
        let part = previous.part.coarsen(scale);
        let keys = self.below.chunks().await?;
        let dirty: BTreeSet<Vec<i64>> =
            keys.iter().map(|key| coarse_chunk(&key)).filter(|key| part.has_chunk(key)).collect();
        let stored = match dirty.is_empty() {
            true => None, // without a rebuilt chunk nothing tells which columns there are
            false => self.find_stored(previous, &part).await?,
        };
        if stored.is_none() {
            self.take_kept_points(previous, &part, lineage).await?;
        }
        for chunk in &dirty {
            // Chunks whose coordinates overflow 64 bits do not exist.
            let low: Vec<i64> = chunk.iter().map(|at| at.saturating_mul(scale)).collect();
            let high = low.iter().map(|at| at.saturating_add(scale - 1)).collect();
            let region = blocks::chunks_between(&[low, high], shape.sizes())?;
            let query = query.clone().in_region(region).mode(Mode::Cells);
            self.cluster(query, Some(lattice), lineage).await?;
        }
        let stays = match &previous.farthest.at {
            Some(ErrorLocation::Vertex(at)) => {
                let chunk = shape.chunk_of(at).map_err(zvf_error::Error::from)?;
                !part.has_chunk(&coarse_chunk(&chunk))
            }
            Some(ErrorLocation::Object(_)) | None => false,
        };
        let reused = Reused { unit: Unit::Chunks, built: to_u64(dirty.len()), part, stored };
        previous.finish(lineage, stays, reused)
    }

    /// Finds the chunks whose cells can be kept as stored: those of points without objects, in a
    /// store of one kind, where nothing else names their rows or fragments.
    async fn find_stored(
        &self,
        previous: &PreviousKind<'_>,
        part: &LevelPart,
    ) -> Result<Option<RetainedChunks>> {
        let [low, high] = &self.source.root().zarr_vectors.bounds;
        let is_bounded = low.iter().chain(high).all(|x| x.is_finite());
        let alone = self.objects.is_none() && self.step.kind.is_none();
        if !previous.retains || !alone || !is_bounded {
            return Ok(None);
        }
        let grid = Grid::from_bounds(low, high, &ChunkShape::new(&self.step.chunk)?)?;
        let keys: Vec<ChunkKey> = previous.level.chunks().await?.iter().collect();
        let (gone, stay): (Vec<ChunkKey>, Vec<ChunkKey>) =
            keys.into_iter().partition(|key| part.has_chunk(key.components()));
        if stay.iter().any(|key| !grid.contains(key)) {
            return Ok(None);
        }
        let Ok(mut rows) = u64::try_from(previous.level.node().meta().vertex_count) else {
            return Ok(None);
        };
        for count in previous.level.row_counts(&gone).await {
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
        previous: &PreviousKind<'_>,
        part: &LevelPart,
        lineage: &mut LineageWriter,
    ) -> Result<()> {
        let names = self.ordered_field_names().await?;
        let query = Query::all().order(Order::Storage);
        let (reader, query) = previous.query(query, self.plan.kind, self.objects.is_some());
        let mut batches = reader.stream(query);
        let shape = previous.level.chunk_shape();
        while let Some(batch) = batches.next().await {
            let batch = batch?;
            check_rows(batch.len())?;
            let points = Points::from_column(batch.positions());
            let mut rows = Vec::new();
            for row in 0..row_number(batch.len()) {
                if !part.has_chunk(shape.chunk_of(points.point(row))?.components()) {
                    rows.push(row);
                }
            }
            let batch = order_fields(&select_rows(&batch, &rows)?, &names)?;
            lineage.take(&Coarsened::from_batch(batch), &[])?;
        }
        Ok(())
    }

    /// Returns whether the level keeps the same objects as before, apart from changed ones if all
    /// are kept.
    async fn keeps_same_objects(&self, previous: &PreviousKind<'_>) -> Result<bool> {
        let Some(objects) = &self.objects else { return Ok(true) };
        let old = present_ids(&previous.level).await?;
        let new: BTreeSet<i64> = objects.kept_ids.iter().copied().collect();
        let may_differ = |id: &i64| self.step.sparsity <= 1.0 && previous.part.objects.contains(id);
        Ok(old.symmetric_difference(&new).all(may_differ))
    }
}
