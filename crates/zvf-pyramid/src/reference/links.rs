//! Links from each vertex to the one that stands for it, and back.

use std::collections::BTreeMap;

use rayon::prelude::*;
use zvf_format::grid::ChunkShape;
use zvf_format::key::{ChunkKey, Offsets};
use zvf_format::link::{Anchor, Body, Element, LinkRecord, RowShape, encode};
use zvf_format::metadata::arrays::{LinkSegment, LinksFamily};
use zvf_format::metadata::{GroupDoc, LinkStore, Root};
use zvf_store::Build;

use super::coarsen::{Level, NONE};
use super::write::plan as plan_of;
use crate::PyramidError;
use crate::num::{place, to_i64, to_u64};

/// Parents some levels up, of those of each level on the way.
pub(super) fn composed(steps: &[Vec<u32>]) -> Vec<u32> {
    let Some((first, rest)) = steps.split_first() else { return Vec::new() };
    rest.iter().fold(first.clone(), |parents, step| {
        let next = |parent: &u32| step.get(place(*parent)).copied().unwrap_or(NONE);
        parents.par_iter().map(next).collect()
    })
}

/// Two levels that are linked.
pub(super) struct Pair<'a> {
    pub(super) root: &'a Root,
    pub(super) fine: &'a Level,
    pub(super) coarse: &'a Level,
    /// The number of the finer one.
    pub(super) at: usize,
    /// By how many levels the other is coarser.
    pub(super) gap: usize,
}

/// A link: chunks by their place in their level, and rows in them.
#[derive(Clone, Copy)]
struct Link {
    from: (usize, u64),
    to: (usize, u64),
}

impl Pair<'_> {
    /// Writes the links upwards, and those downwards where `both` are wanted.
    pub(super) async fn write(
        &self,
        build: &Build,
        parents: &[u32],
        both: bool,
    ) -> Result<(), PyramidError> {
        let links = (0_u32..).zip(parents).filter(|(_, parent)| **parent != NONE);
        let up: Vec<Link> = links
            .map(|(row, parent)| Link {
                from: self.fine.locate(row),
                to: self.coarse.locate(*parent),
            })
            .collect();
        let (at, gap) = (self.at, to_i64(to_u64(self.gap)));
        self.family(build, at, gap, (self.fine, self.coarse), &up).await?;
        if both {
            let down: Vec<Link> =
                up.into_iter().map(|Link { from, to }| Link { from: to, to: from }).collect();
            let at = at.saturating_add(self.gap);
            let levels = (self.coarse, self.fine);
            self.family(build, at, gap.saturating_neg(), levels, &down).await?;
        }
        Ok(())
    }

    /// Writes one family: the links of level `at`, in the order given.
    async fn family(
        &self,
        build: &Build,
        at: usize,
        delta: i64,
        (own, other): (&Level, &Level),
        links: &[Link],
    ) -> Result<(), PyramidError> {
        let rank = own.axes();
        let root = ChunkShape::new(&self.root.zarr_vectors.chunk_shape)?;
        let ratio = |level: &Level| ChunkShape::new(&level.chunk)?.ratio_to(&root);
        let anchor = Anchor::between(&ratio(own)?, &ratio(other)?, rank)?;
        let anchors: Result<Vec<ChunkKey>, _> = own.keys.iter().map(|key| anchor.of(key)).collect();
        let anchors = anchors?;
        let mut segments: BTreeMap<Vec<i64>, BTreeMap<usize, Vec<LinkRecord>>> = BTreeMap::new();
        for Link { from: (chunk, row), to: (target, end) } in links {
            let (Some(anchor), Some(key)) = (anchors.get(*chunk), other.keys.get(*target)) else {
                continue;
            };
            let offset = key.components().iter().zip(anchor.components());
            let offset = offset.map(|(to, from)| to.saturating_sub(*from)).collect();
            let record = LinkRecord::new(&[*row, *end], None)?;
            segments.entry(offset).or_default().entry(*chunk).or_default().push(record);
        }
        let word = if delta > 0 { format!("+{delta}") } else { delta.to_string() };
        let path = format!("{at}/links/{word}");
        let shape = RowShape::new(Element::I64, 2, false)?;
        for (offset, cells) in segments {
            let name = Offsets::new(rank, &[&offset])?;
            let attributes = LinkSegment::new(vec![offset], false, 2, delta, Vec::new());
            let plan = plan_of(self.root, own, attributes.to_attributes())?;
            let sink = build.cells(&format!("{path}/{name}"), plan)?;
            let cells: Vec<(usize, Vec<LinkRecord>)> = cells.into_iter().collect();
            cells.par_iter().try_for_each(|(chunk, records)| -> Result<(), PyramidError> {
                let Some(key) = own.keys.get(*chunk) else { return Ok(()) };
                Ok(sink.put(key, encode(&[records], Body::Inline, shape)?.into())?)
            })?;
            sink.finish(|_| {}).await?;
        }
        let count = Some(to_u64(links.len()));
        let family = LinksFamily {
            sid_ndim: Some(to_u64(rank)),
            num_links: count,
            num_physical_records: count,
            ..LinksFamily::new(delta, 2, true, LinkStore::Canonical)
        };
        Ok(build.group(&path, &GroupDoc::new(family.to_attributes())).await?)
    }
}
