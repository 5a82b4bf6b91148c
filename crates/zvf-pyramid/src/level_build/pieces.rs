//! Builds graphs and meshes whose objects are not disjoint, and skeletons without objects, by
//! blocks of chunks; a level that fits in memory is one block.

use futures_util::StreamExt as _;
use futures_util::stream::FuturesOrdered;
use zvf_error::Result;
use zvf_format::key::Delta;
use zvf_model::{Kind, LevelReader};
use zvf_query::{Query, Reader};

use super::KindBuild;
use crate::Method;
use crate::batches::{select_kept, split_off_places};
use crate::blocks::{self, Blocks};
use crate::carry::Objects;
use crate::links::LineageWriter;
use crate::shape::Coarsened;

impl KindBuild<'_> {
    /// Builds the level as a whole, or block by block.
    pub(super) async fn make_by_blocks(
        &self,
        reader: &Reader,
        below: &LevelReader,
        objects: Option<&Objects>,
        lineage: &mut LineageWriter,
    ) -> Result<(f64, u64)> {
        let links = below.links(Delta::SAME).await?;
        let directed = links.is_some_and(|links| links.policy().is_directed());
        // A tree is built as a whole.
        let whole = self.plan.kind == Kind::Skeleton;
        let room = blocks::vertices_in(self.plan.options().working_bytes(), self.plan.kind);
        let max_rows = if whole { u64::MAX } else { room };
        let blocks = Blocks::build(below, max_rows).await?;
        if blocks.len() < 2 {
            let batch = reader.run(&self.complete_query(Query::all(), objects)).await?.batch;
            let (batch, places) = split_off_places(select_kept(&batch, objects)?)?;
            let made = self.coarsen_batch(self.plain_links(batch)?, &[], directed).await?;
            lineage.take(&made, &places)?;
            return Ok((made.error, made.elements()));
        }
        // Only collapsing runs on other threads.
        let at_once = if self.step.method == Method::Collapse { MAX_CONCURRENT_BLOCKS } else { 1 };
        let mut stitcher = blocks::BlockStitcher::default();
        let (mut error, mut elements) = (0.0_f64, 0_u64);
        let (mut numbers, mut under_way) = (0..blocks.len(), FuturesOrdered::new());
        loop {
            while under_way.len() < at_once
                && let Some(number) = numbers.next()
            {
                under_way.push_back(self.coarsen_block(
                    (reader, objects),
                    &blocks,
                    number,
                    directed,
                ));
            }
            // In order, because it determines the numbers of vertices.
            let Some(block) = under_way.next().await else { break };
            let Block { number, made, places, owners, fixed } = block?;
            error = error.max(made.error);
            elements += stitcher.take(made, (&places, &owners, &fixed), number, lineage)?;
        }
        stitcher.check(self.step.below, objects.is_none_or(Objects::keeps_all))?;
        Ok((error, elements))
    }

    /// Coarsens a block.
    async fn coarsen_block(
        &self,
        (reader, objects): (&Reader, Option<&Objects>),
        blocks: &Blocks,
        number: usize,
        directed: bool,
    ) -> Result<Block> {
        let query = Query::all().in_region(blocks.region(number)?).with_places();
        let batch = reader.run(&self.complete_query(query, objects)).await?.batch;
        let (batch, places) = split_off_places(select_kept(&batch, objects)?)?;
        let owners = blocks.owners(&places)?;
        let fixed = blocks::find_fixed(&batch, &owners, number);
        let made = self.coarsen_batch(batch, &fixed, directed).await?;
        Ok(Block { number, made, places, owners, fixed })
    }
}

/// A coarsened block and its source vertices.
struct Block {
    number: usize,
    made: Coarsened,
    places: Vec<u64>,
    owners: Vec<u32>,
    fixed: Vec<bool>,
}

/// Blocks that are built at once: one is read and measured while edges of the other collapse.
const MAX_CONCURRENT_BLOCKS: usize = 2;
