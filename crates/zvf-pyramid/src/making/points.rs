//! Points: streamed by slabs of chunks; what is behind the sweep is made and given to the writer.

use futures_util::StreamExt as _;
use zvf_model::Batch;
use zvf_query::{Order, Query, Reader};

use super::Making;
use crate::batches::{kept_of, swept, together, without_places};
use crate::blocks;
use crate::carry::Objects;
use crate::links::Taking;
use crate::num::{to_u64, to_usize};
use crate::shape::{Made, points};
use crate::{Method, PyramidError};

impl Making<'_> {
    /// Points, slab by slab.
    pub(super) async fn points(
        &self,
        reader: &Reader,
        objects: Option<&Objects>,
        taking: &mut Taking,
    ) -> Result<f64, PyramidError> {
        let query = self.asking(Query::all(), objects).order(Order::Storage);
        let mut batches = reader.stream(query);
        let side = self.step.chunk.first().copied().unwrap_or(1.0);
        let cell = self.step.size.filter(|_| self.step.method == Method::Cluster).unwrap_or(side);
        let (mut held, mut error, mut first) = (Vec::<Batch>::new(), 0.0_f64, 0_u64);
        let room = HELD.min(to_usize(blocks::vertices_in(self.ladder.options().memory)));
        let mut most = room;
        while let Some(batch) = batches.next().await {
            let batch = batch?;
            if self.step.method == Method::Subset {
                let made = self.subset(batch, first, objects, taking)?;
                first = first.saturating_add(made.1);
                error = made.0;
                continue;
            }
            let batch = kept_of(&batch, objects)?;
            if batch.is_empty() {
                continue; // does not say how far the sweep is
            }
            held.push(batch);
            if held.iter().map(Batch::len).fold(0, usize::saturating_add) < most {
                continue;
            }
            let all = together(&held)?;
            let (behind, ahead) = swept(&all, held.last(), side, cell)?;
            error = error.max(self.clustered(behind, taking)?);
            most = room.max(ahead.len().saturating_mul(2));
            held = vec![ahead];
        }
        if self.step.method != Method::Subset && !held.is_empty() {
            error = error.max(self.clustered(together(&held)?, taking)?);
        }
        Ok(error)
    }

    fn clustered(&self, batch: Batch, taking: &mut Taking) -> Result<f64, PyramidError> {
        let (batch, places) = without_places(batch)?;
        let made = match self.step.size.filter(|_| self.step.method == Method::Cluster) {
            Some(size) => points::clustered(&batch, size, &self.rules)?,
            None => Made::same(batch),
        };
        taking.take(&made, &places)?;
        Ok(made.error)
    }

    /// Takes a part of the points; gives the error, and how many there were.
    fn subset(
        &self,
        batch: Batch,
        first: u64,
        objects: Option<&Objects>,
        taking: &mut Taking,
    ) -> Result<(f64, u64), PyramidError> {
        let (batch, places) = without_places(batch)?;
        let keep = self.step.keep.unwrap_or(1.0);
        let place = (self.ladder.options().seed, self.step.level, first);
        let kept = |row: usize| {
            let owner =
                batch.vertex_objects().and_then(|owners| owners.get(row).copied().flatten());
            owner.is_none_or(|id| objects.is_none_or(|objects| objects.keeps(id.0)))
        };
        let made = points::subset(&batch, keep, place, &kept, &self.rules)?;
        taking.take(&made, &places)?;
        Ok((made.error, to_u64(batch.len())))
    }
}

/// Points that are held before those behind the sweep are made, where memory allows.
const HELD: usize = 500_000;
