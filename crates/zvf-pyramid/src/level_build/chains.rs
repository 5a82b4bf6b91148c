//! Builds chains and skeletons in batches of objects, since a chain or a tree never spans two
//! objects.

use zvf_error::Result;
use zvf_format::num::round_half_up_u64;
use zvf_model::{Batch, LevelReader};
use zvf_query::{Order, Query, Reader};

use super::KindBuild;
use crate::Method;
use crate::batches::{query_objects, split_off_places};
use crate::blocks;
use crate::carry::Objects;
use crate::links::LineageWriter;
use crate::offload::offload;
use crate::shape::Coarsened;
use crate::shape::chain::{self, ChainThinning};
use crate::shape::largest_error::LargestError;

impl KindBuild<'_> {
    /// Builds chains in batches of objects.
    pub(super) async fn chains(
        &self,
        (reader, below): (&Reader, &LevelReader),
        objects: Option<&Objects>,
        lineage: &mut LineageWriter,
    ) -> Result<LargestError> {
        let Some(objects) = objects else {
            // Without an index there are no chains, or the query is refused.
            let all = self.complete_query(Query::all(), None).order(Order::Objects);
            return reader.run(&all).await.map(|_| LargestError::default());
        };
        let kept_ids = &objects.kept_ids;
        let at_once = self.chains_at_once(kept_ids.len());
        let mut found = LargestError::default();
        // The product is only compared.
        if kept_ids.len() > at_once.saturating_mul(REGROUPED_BATCHES)
            && let Some(mut chains) = self.regroup(reader, below, objects).await?
        {
            while let Some((batch, places)) = chains.next(kept_ids, at_once)? {
                let (thin, rules) = (self.thinning(), self.rules.clone());
                // On another thread, because polling must not take long.
                let made = offload(move |_| chain::simplify_chains(&batch, thin, &rules)).await?;
                lineage.take(&made, &places)?;
                found = found.max(made.error, made.at);
            }
            return Ok(found);
        }
        for ids in kept_ids.chunks(at_once) {
            let (made, places) = self.thin_chains(reader, ids).await?;
            lineage.take(&made, &places)?;
            found = found.max(made.error, made.at);
        }
        Ok(found)
    }

    /// Returns the thinned chains of these objects, and the places of the vertices they are built
    /// from.
    pub(super) async fn thin_chains(
        &self,
        reader: &Reader,
        ids: &[i64],
    ) -> Result<(Coarsened, Vec<u64>)> {
        let (batch, places) = self.read_objects(reader, ids, None).await?;
        Ok((chain::simplify_chains(&batch, self.thinning(), &self.rules)?, places))
    }

    /// Reads objects of the level below, with their owners if `objects` are given, and the places
    /// of their vertices.
    pub(super) async fn read_objects(
        &self,
        reader: &Reader,
        ids: &[i64],
        objects: Option<&Objects>,
    ) -> Result<(Batch, Vec<u64>)> {
        let query = self.complete_query(query_objects(ids), objects);
        split_off_places(reader.run(&query).await?.batch)
    }

    /// Returns the thinning method for chains.
    fn thinning(&self) -> ChainThinning {
        match self.step.method {
            Method::Simplify => ChainThinning::Within(self.step.size.unwrap_or(0.0)),
            Method::Decimate => {
                ChainThinning::Every(round_half_up_u64(1.0 / self.step.keep.unwrap_or(1.0)).max(1))
            }
            Method::Cluster | Method::Subset | Method::Collapse | Method::Keep => {
                ChainThinning::Not
            }
        }
    }

    /// Returns how many of `objects` chains are built together.
    pub(super) fn chains_at_once(&self, objects: usize) -> usize {
        self.objects_at_once(objects).div_ceil(CHAIN_BATCH_DIVISOR)
    }

    /// Builds skeletons whose objects share vertices, in batches of objects: a tree never spans two
    /// objects.
    pub(super) async fn trees(
        &self,
        reader: &Reader,
        objects: &Objects,
        lineage: &mut LineageWriter,
    ) -> Result<(f64, u64)> {
        let kept_ids = &objects.kept_ids;
        let batch_len = self.objects_at_once(kept_ids.len());
        let (mut error, mut elements) = (0.0_f64, 0_u64);
        for ids in kept_ids.chunks(batch_len) {
            let (batch, places) = self.read_objects(reader, ids, Some(objects)).await?;
            let made = self.coarsen_batch(self.plain_links(batch)?, &[], false).await?;
            error = error.max(made.error);
            elements += made.elements();
            lineage.take(&made, &places)?;
        }
        Ok((error, elements))
    }

    /// Returns how many objects fit in memory together, by their mean size.
    fn objects_at_once(&self, objects: usize) -> usize {
        let room = blocks::vertices_in(self.plan.options().working_bytes(), self.plan.kind);
        blocks::objects_at_once(room, self.step.below, objects)
    }
}

/// Chains have neither edges nor faces, and smaller batches are as fast and take less memory.
const CHAIN_BATCH_DIVISOR: usize = 4;
/// With more chains than this many batches hold, every chunk is read once instead. A batch reads
/// most chunks, however few of the chains are kept.
const REGROUPED_BATCHES: usize = 8;
