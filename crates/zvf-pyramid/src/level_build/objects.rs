//! Builds chains, and graphs, skeletons and meshes: object by object where objects are disjoint.
//! Other graphs and meshes, and skeletons without objects, are built by blocks of chunks; a level
//! that fits in memory is one block.
//!
//! The result for a disjoint object depends on nothing else. Unchanged objects are copied from the
//! existing level, and the bytes equal those of a full rebuild, since reading and rewriting what
//! was written changes no stored order:
//!
//! ```text
//! rows of a chunk       object by object, and those of one as they are given: read in that order
//! links of a cell       as they are given, which is object by object: read in that order
//! trees                 depth first, which reading does not keep: siblings are ordered by their content
//! ```

use std::collections::BTreeSet;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesOrdered;
use zvf_error::Result;
use zvf_format::num::{round_half_up_u64, to_u64};
use zvf_model::{Batch, Kind};
use zvf_query::{Order, Query};

use super::KindSource;
use super::previous::{Attempt, CopiedObjects, Reused, Setback, refuse};
use crate::Method;
use crate::batches::{concatenate, join_chains, query_objects, select_kept, split_off_places};
use crate::blocks::{self, Block, BlockStitcher, Blocks};
use crate::carry::Objects;
use crate::disjoint_objects::measure_objects;
use crate::error::inconsistent_error;
use crate::links::LineageWriter;
use crate::offload::{Stop, offload};
use crate::shape::Coarsened;
use crate::shape::chain::{self, ChainThinning};
use crate::shape::objects::{CoarseObject, coarsen_each, vertex_map};

impl KindSource<'_> {
    /// Builds chains in batches of objects.
    pub(super) async fn chains(&self, lineage: &mut LineageWriter) -> Attempt<Option<Reused>> {
        let Some(objects) = &self.objects else {
            // Without an index there are no chains, or the query is refused.
            let all = self.complete_query(Query::all(), false).order(Order::Objects);
            self.reader.run(&all).await?;
            return Ok(None);
        };
        let (kept_ids, thin) = (&objects.kept_ids, self.thinning());
        let at_once = self.objects_at_once(kept_ids.len()).div_ceil(CHAIN_BATCH_DIVISOR);
        let copied = CopiedObjects::find(self, objects).await?;
        // The product is only compared.
        if copied.is_none()
            && kept_ids.len() > at_once.saturating_mul(REGROUPED_BATCHES)
            && let Some(mut chains) = self.regroup(objects).await?
        {
            while let Some((batch, places)) = chains.next(kept_ids, at_once)? {
                let rules = self.rules.clone();
                // On another thread, because polling must not take long.
                let part = offload(move |_| chain::simplify_chains(&batch, thin, &rules)).await?;
                lineage.take(&part, &places)?;
            }
            return Ok(None);
        }
        let mut built = 0;
        for ids in kept_ids.chunks(at_once) {
            let (same, rest) = CopiedObjects::split(copied.as_ref(), ids);
            built += to_u64(rest.len());
            let mut batches = Vec::new();
            if !rest.is_empty() {
                let (batch, places) = self.read(query_objects(&rest), false).await?;
                let part = chain::simplify_chains(&batch, thin, &self.rules)?;
                if same.is_empty() {
                    lineage.take(&part, &places)?;
                    continue;
                }
                lineage.farthest.include(&part.farthest);
                batches.push(part.batch);
            }
            if let Some(copied) = &copied {
                batches.push(copied.read(&same).await?);
            }
            let Some(batch) = join_chains(&batches)? else {
                return refuse("attributes of vertices are not those of the level");
            };
            lineage.take(&Coarsened::from_batch(batch), &[])?;
        }
        CopiedObjects::finish(copied, lineage, built)
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

    /// Builds graphs, skeletons and meshes: object by object if possible, otherwise with the reason
    /// why not.
    pub(super) async fn elements(
        &self,
        lineage: &mut LineageWriter,
    ) -> Attempt<(Option<Reused>, Option<&'static str>)> {
        let mut not_apart = None;
        if let Some(objects) = &self.objects {
            match self.by_objects(objects, lineage).await {
                Err(Setback::Refused(refusal)) if self.previous.is_err() => {
                    not_apart = Some(refusal.why);
                }
                made => return Ok((made?, None)),
            }
        }
        match self.objects.as_ref().filter(|_| self.plan.kind == Kind::Skeleton) {
            Some(objects) => self.trees(objects, lineage).await?,
            None => self.by_blocks(lineage).await?,
        }
        lineage.farthest.at = None;
        Ok((None, not_apart))
    }

    /// Builds skeletons whose objects share vertices, in batches of objects: a tree never spans two
    /// objects.
    async fn trees(&self, objects: &Objects, lineage: &mut LineageWriter) -> Result<()> {
        for ids in objects.kept_ids.chunks(self.objects_at_once(objects.kept_ids.len())) {
            let (batch, places) = self.read(query_objects(ids), true).await?;
            lineage.take(&self.coarsen_batch(batch, Vec::new()).await?, &places)?;
        }
        Ok(())
    }

    /// Builds the level as a whole, or block by block.
    async fn by_blocks(&self, lineage: &mut LineageWriter) -> Result<()> {
        // A tree is built as a whole.
        let max_rows = if self.plan.kind == Kind::Skeleton { u64::MAX } else { self.room() };
        let units = vec![1; self.below.chunk_shape().sizes().len()];
        let blocks = Blocks::build(&self.below, max_rows, &units).await?;
        if blocks.len() < 2 {
            let (batch, places) = self.read_kept(Query::all()).await?;
            let part = self.coarsen_batch(batch, Vec::new()).await?;
            return lineage.take(&part, &places).map(drop);
        }
        // Only collapsing runs on other threads.
        let at_once = if self.step.method == Method::Collapse { MAX_CONCURRENT_BLOCKS } else { 1 };
        let mut stitcher = BlockStitcher::default();
        let (mut numbers, mut under_way) = (0..blocks.len(), FuturesOrdered::new());
        loop {
            while under_way.len() < at_once
                && let Some(number) = numbers.next()
            {
                under_way.push_back(self.coarsen_block(&blocks, number));
            }
            // In order, because it determines the numbers of vertices.
            let Some(block) = under_way.next().await else { break };
            stitcher.take(&block?, lineage)?;
        }
        let keeps_all = self.objects.as_ref().is_none_or(Objects::keeps_all);
        stitcher.check(self.step.below, keeps_all)
    }

    /// Coarsens a block.
    async fn coarsen_block(&self, blocks: &Blocks, number: usize) -> Result<Block> {
        let query = Query::all().in_region(blocks.region(number)?).with_places();
        let (batch, places) = self.read_kept(query).await?;
        let owners = blocks.owners(&places)?;
        let fixed = Block::find_fixed(&batch, &owners, number);
        let made = self.coarsen_batch(batch, fixed.clone()).await?;
        Ok(Block { number, made, places, owners, fixed })
    }

    /// Reads the vertices of kept objects and of none, with the places they come from.
    async fn read_kept(&self, query: Query) -> Result<(Batch, Vec<u64>)> {
        let answer = self.reader.run(&self.complete_query(query, true)).await?;
        let kept = select_kept(&answer.batch, self.objects.as_ref())?;
        let (batch, places) = split_off_places(kept)?;
        Ok((self.plain_links(batch)?, places))
    }

    /// Coarsens each object by itself, if that is possible.
    async fn by_objects(
        &self,
        objects: &Objects,
        lineage: &mut LineageWriter,
    ) -> Attempt<Option<Reused>> {
        let copied = CopiedObjects::find(self, objects).await?;
        let changed = copied.as_ref().map(|copied| &copied.part.objects);
        let mut built = 0;
        for ids in self.group_objects(objects, changed).await? {
            let (same, rest) = CopiedObjects::split(copied.as_ref(), &ids);
            built += to_u64(rest.len());
            let (mut all, mut places, mut rows) = (Vec::new(), Vec::new(), 0);
            if !rest.is_empty() {
                let batch;
                (batch, places) = self.read(query_objects(&rest), true).await?;
                rows = batch.len();
                let coarsen = self.coarsener();
                // It may take many seconds, and polling must not.
                let each =
                    move |stop: &Stop| coarsen_each(&batch, |single| coarsen(single, &[], stop));
                all = offload(each).await?;
            }
            if let Some(copied) = copied.as_ref().filter(|_| !same.is_empty()) {
                let batch = self.plain_links(copied.read(&same).await?)?;
                all.extend(coarsen_each(&batch, |single| Ok(Coarsened::from_batch(single)))?);
                all.sort_by_key(|object: &CoarseObject| object.id);
            }
            if all.is_empty() {
                continue;
            }
            let batches: Vec<&Batch> = all.iter().map(|object| &object.made.batch).collect();
            let Some(batch) = concatenate(&batches)? else {
                if copied.is_some() {
                    return refuse("attributes are not those of the level");
                }
                let (expected, found) = ("the same of all objects", "others");
                return Err(inconsistent_error("attributes", expected, found).into());
            };
            let mut joined = Coarsened::from_batch(batch);
            if same.is_empty() {
                joined.vertex_map = vertex_map(&all, rows);
            }
            all.iter().for_each(|object| joined.farthest.include(&object.made.farthest));
            lineage.take(&joined, &places)?;
        }
        CopiedObjects::finish(copied, lineage, built)
    }

    /// Returns the kept objects in groups that fit in memory, if each can be coarsened separately.
    /// If `changed` is given, only links near one of these objects are checked.
    async fn group_objects(
        &self,
        objects: &Objects,
        changed: Option<&BTreeSet<i64>>,
    ) -> Attempt<Vec<Vec<i64>>> {
        let sizes = measure_objects(&self.below, changed).await?;
        let room = self.room();
        let (mut groups, mut taken): (Vec<Vec<i64>>, u64) = (Vec::new(), 0);
        for id in &objects.kept_ids {
            // An object without vertices has no size.
            let size = sizes.get(id).copied().unwrap_or(0);
            // A tree is built as a whole, however large it is.
            if size > room && self.plan.kind != Kind::Skeleton {
                return refuse("an object has more vertices than fit in memory");
            }
            taken = size.saturating_add(taken); // compared with the room
            match groups.last_mut().filter(|_| taken <= room) {
                Some(group) => group.push(*id),
                None => {
                    groups.push(vec![*id]);
                    taken = size;
                }
            }
        }
        Ok(groups)
    }

    /// Returns how many vertices fit in memory.
    pub(super) fn room(&self) -> u64 {
        blocks::vertices_in(self.plan.options.working_bytes(), self.plan.kind)
    }

    /// Returns how many of `objects` objects fit in memory together, by their mean size.
    fn objects_at_once(&self, objects: usize) -> usize {
        blocks::objects_at_once(self.room(), self.step.below, objects)
    }
}

/// Chains have neither edges nor faces, and smaller batches are as fast and take less memory.
const CHAIN_BATCH_DIVISOR: usize = 4;
/// With more chains than this many batches hold, every chunk is read once instead. A batch reads
/// most chunks, however few of the chains are kept.
const REGROUPED_BATCHES: usize = 8;
/// Blocks that are built at once: one is read and measured while edges of the other collapse.
const MAX_CONCURRENT_BLOCKS: usize = 2;
