//! Graphs and meshes whose objects are not apart, and skeletons without objects: by blocks of chunks, one where all of it fits
//! in memory.

use zvf_format::key::Delta;
use zvf_model::{Kind, LevelReader};
use zvf_query::{Query, Reader};

use super::Making;
use crate::PyramidError;
use crate::batches::{kept_of, without_places};
use crate::blocks;
use crate::carry::Objects;
use crate::links::Taking;

impl Making<'_> {
    /// The level as a whole, or block by block.
    pub(super) async fn pieces(
        &self,
        reader: &Reader,
        below: &LevelReader,
        objects: Option<&Objects>,
        taking: &mut Taking,
    ) -> Result<(f64, u64), PyramidError> {
        let links = below.links(Delta::SAME).await?;
        let directed = links.is_some_and(|links| links.policy().is_directed());
        // A tree is made as a whole.
        let whole = self.ladder.kind == Kind::Skeleton;
        let room = blocks::vertices_in(self.ladder.options().working_bytes(), self.ladder.kind);
        let most = if whole { u64::MAX } else { room };
        let blocks = blocks::Blocks::build(below, most).await?;
        if blocks.len() < 2 {
            let batch = reader.run(&self.asking(Query::all(), objects)).await?.batch;
            let (batch, places) = without_places(kept_of(&batch, objects)?)?;
            let made = self.shaped(self.plain_links(batch)?, &[], directed).await?;
            taking.take(&made, &places)?;
            return Ok((made.error, made.elements()));
        }
        let mut sewing = blocks::Sewing::default();
        let (mut error, mut elements) = (0.0_f64, 0_u64);
        for number in 0..blocks.len() {
            let query = Query::all().in_region(blocks.region(number)?).with_places();
            let batch = reader.run(&self.asking(query, objects)).await?.batch;
            let (batch, places) = without_places(kept_of(&batch, objects)?)?;
            let owners = blocks.owners(&places);
            let fixed = blocks::fixed(&batch, &owners, number);
            let made = self.shaped(batch, &fixed, directed).await?;
            error = error.max(made.error);
            let own = sewing.take(made, (&places, &owners, &fixed), number, taking)?;
            elements += own;
        }
        sewing.check(self.step.below, objects.is_none_or(Objects::keeps_all))?;
        Ok((error, elements))
    }
}
