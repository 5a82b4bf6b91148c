//! Builds points: by grid cells, or as a random subset.
//!
//! ```text
//! cells in chunks      the level is streamed, and what comes is made: each batch has whole chunks
//! chunks in cells      by blocks of such cells, one after the other
//! a random part        streamed, in the order in which points are stored
//! ```

use futures_util::StreamExt as _;
use zvf_error::Result;
use zvf_format::num::to_u64;
use zvf_model::{Batch, LevelReader};
use zvf_query::{Mode, Order, Query, Reader};

use super::KindBuild;
use crate::Method;
use crate::batches::{concatenate, select_kept, split_off_places};
use crate::blocks::{self, Blocks};
use crate::carry::Objects;
use crate::links::LineageWriter;
use crate::shape::largest_error::LargestError;
use crate::shape::lattice::Lattice;
use crate::shape::{Coarsened, points};

impl KindBuild<'_> {
    pub(super) async fn points(
        &self,
        reader: &Reader,
        below: &LevelReader,
        objects: Option<&Objects>,
        lineage: &mut LineageWriter,
    ) -> Result<LargestError> {
        if self.step.method == Method::Subset {
            let error = self.subset(reader, objects, lineage).await?;
            return Ok(LargestError { error, at: None });
        }
        let size = self.step.size.filter(|_| self.step.method == Method::Cluster);
        let lattice =
            size.map(|size| Lattice::new(below.chunk_shape().sizes(), size)).transpose()?;
        let query = self.complete_query(Query::all(), objects).order(Order::Storage);
        let Some(wide) = lattice.as_ref().filter(|lattice| !lattice.is_within_chunks()) else {
            let (mut batches, mut found) = (reader.stream(query), LargestError::default());
            while let Some(batch) = batches.next().await {
                let batch = select_kept(&batch?, objects)?;
                found = self.cluster_batch(batch, lattice.as_ref(), found, lineage)?;
            }
            return Ok(found);
        };
        let room = blocks::vertices_in(self.plan.options().working_bytes(), self.plan.kind);
        let blocks = Blocks::build_in_units(below, room, &wide.chunks()).await?;
        let mut found = LargestError::default();
        for number in 0..blocks.len() {
            let query = query.clone().in_region(blocks.chunks(number)?).mode(Mode::Cells);
            let (mut batches, mut held) = (reader.stream(query), Vec::new());
            while let Some(batch) = batches.next().await {
                held.push(select_kept(&batch?, objects)?);
            }
            if !held.is_empty() {
                found =
                    self.cluster_batch(concatenate(&held)?, lattice.as_ref(), found, lineage)?;
            }
        }
        Ok(found)
    }

    /// Reduces a batch to one point per cell, or returns it unchanged without cells; also returns
    /// the largest error so far.
    pub(super) fn cluster_batch(
        &self,
        batch: Batch,
        lattice: Option<&Lattice>,
        found: LargestError,
        lineage: &mut LineageWriter,
    ) -> Result<LargestError> {
        let (batch, places) = split_off_places(batch)?;
        let made = match lattice {
            Some(lattice) => points::cluster_points(&batch, lattice, &self.rules)?,
            None => Coarsened::from_batch(batch),
        };
        lineage.take(&made, &places)?;
        Ok(found.max(made.error, made.at))
    }

    /// Keeps a subset of the points; returns the error.
    async fn subset(
        &self,
        reader: &Reader,
        objects: Option<&Objects>,
        lineage: &mut LineageWriter,
    ) -> Result<f64> {
        let query = self.complete_query(Query::all(), objects).order(Order::Storage);
        let (mut batches, mut error, mut first) = (reader.stream(query), 0.0, 0_u64);
        let keep = self.step.keep.unwrap_or(1.0);
        while let Some(batch) = batches.next().await {
            let (batch, places) = split_off_places(batch?)?;
            let owners = batch.vertex_objects();
            let is_kept = |row: usize| {
                let owner = owners.and_then(|owners| owners[row]);
                owner.is_none_or(|id| objects.is_none_or(|objects| objects.keeps(id.0)))
            };
            let place = (self.plan.options().seed, self.step.level, first);
            let made = points::select_subset(&batch, keep, place, &is_kept, &self.rules)?;
            lineage.take(&made, &places)?;
            error = made.error;
            first += to_u64(batch.len());
        }
        Ok(error)
    }
}
