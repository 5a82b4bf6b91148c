//! Links from each vertex to its parent, and back.

use std::collections::BTreeMap;

use rayon::prelude::*;
use zvf_error::Result;
use zvf_format::grid::ChunkShape;
use zvf_format::key::{ChunkKey, Offsets};
use zvf_format::link::Anchor;
use zvf_format::num::{index_u32, saturating_i64, to_u64, usize_from_u32};
use zvf_format::ragged;
use zvf_metadata::arrays::{LinkSegment, LinksFamily};
use zvf_metadata::{GroupDoc, LinkStore, Root};
use zvf_store::{Build, CellSink};

use super::coarsen::{NONE, ReferenceLevel};
use super::write::plan as plan_of;
use crate::links::offset_from;

/// Composes the parents of successive levels.
pub(super) fn compose_steps(steps: &[Vec<u32>]) -> Vec<u32> {
    let Some((first, rest)) = steps.split_first() else { return Vec::new() };
    rest.iter().fold(first.clone(), |parents, step| {
        let next = |parent: &u32| step.get(usize_from_u32(*parent)).copied().unwrap_or(NONE);
        parents.par_iter().map(next).collect()
    })
}

/// Two levels that are linked.
pub(super) struct Pair<'a> {
    pub(super) root: &'a Root,
    pub(super) fine: &'a ReferenceLevel,
    pub(super) coarse: &'a ReferenceLevel,
    /// The number of the finer one.
    pub(super) at: usize,
    /// How many levels coarser the other one is.
    pub(super) gap: usize,
}

impl Pair<'_> {
    /// Writes the upward links, and with `both` also the downward ones.
    ///
    /// A cell of either direction holds the links between two chunks, in the order of the finer
    /// one, so both are written chunk by chunk.
    pub(super) async fn write(&self, build: &Build, parents: &[u32], both: bool) -> Result<()> {
        let gap = saturating_i64(to_u64(self.gap)); // levels are few
        let mut families = vec![LinkArrays::new(self, self.at, gap, (self.fine, self.coarse))?];
        if both {
            let at = self.at + self.gap;
            let levels = (self.coarse, self.fine);
            families.push(LinkArrays::new(self, at, -gap, levels)?);
        }
        let chunks: Vec<u32> = (0..index_u32(self.fine.keys.len())).collect();
        let targets = |chunk: &u32| self.targets(parents, *chunk);
        let pairs: Vec<[u32; 2]> = chunks
            .par_iter()
            .flat_map_iter(|chunk| targets(chunk).into_keys().map(|target| [*chunk, target]))
            .collect();
        let sinks: Result<Vec<Sinks>> =
            families.iter().map(|family| family.sinks(build, &pairs)).collect();
        let sinks = sinks?;
        let count = chunks.par_iter().map(|chunk| -> Result<usize> {
            let mut count = 0_usize;
            for (target, mut rows) in targets(chunk) {
                count += rows.len();
                for (family, sinks) in families.iter().zip(&sinks) {
                    family.put(sinks, [*chunk, target], &rows)?;
                    rows.iter_mut().for_each(|row| row.reverse());
                }
            }
            Ok(count)
        });
        let count = count.try_reduce(|| 0, |a, b| Ok(a + b))?;
        for (family, sinks) in families.iter().zip(sinks) {
            for sink in sinks.into_values() {
                sink.finish(|_| {}).await?;
            }
            family.announce(build, to_u64(count)).await?;
        }
        Ok(())
    }

    /// Returns the links of a chunk of the finer level as rows of both levels, by target chunk.
    fn targets(&self, parents: &[u32], chunk: u32) -> BTreeMap<u32, Vec<[u32; 2]>> {
        let mut targets: BTreeMap<u32, Vec<[u32; 2]>> = BTreeMap::new();
        let parents = &parents[self.fine.rows_of_chunk(usize_from_u32(chunk))];
        let mut linked = (0_u32..).zip(parents).filter(|(_, parent)| **parent != NONE).peekable();
        while let Some((_, first)) = linked.peek() {
            let (target, _) = self.coarse.locate(**first);
            let span = self.coarse.rows_of_chunk(target);
            let rows = targets.entry(index_u32(target)).or_default();
            let near = |parent: &u32| span.contains(&usize_from_u32(*parent));
            while let Some((row, parent)) = linked.next_if(|(_, parent)| near(parent)) {
                rows.push([row, parent - index_u32(span.start)]);
            }
        }
        targets
    }
}

/// The links of one level to another one.
struct LinkArrays<'a> {
    pair: &'a Pair<'a>,
    levels: (&'a ReferenceLevel, &'a ReferenceLevel),
    anchor: Anchor,
    path: String,
    delta: i64,
}

/// The arrays of a family, by the offset between the ends of their links.
type Sinks = BTreeMap<Vec<i64>, CellSink>;

impl<'a> LinkArrays<'a> {
    fn new(
        pair: &'a Pair<'a>,
        at: usize,
        delta: i64,
        levels: (&'a ReferenceLevel, &'a ReferenceLevel),
    ) -> Result<Self> {
        let root = ChunkShape::new(&pair.root.zarr_vectors.chunk_shape)?;
        let ratio = |level: &ReferenceLevel| ChunkShape::new(&level.chunk)?.ratio_to(&root);
        let (from_level, to_level) = levels;
        let anchor =
            Anchor::from_ratios(&ratio(from_level)?, &ratio(to_level)?, from_level.axes())?;
        let word = if delta > 0 { format!("+{delta}") } else { delta.to_string() };
        Ok(Self { pair, levels, anchor, path: format!("{at}/links/{word}"), delta })
    }

    /// Returns the chunk that links between these two are stored with, and the offset of the other.
    fn cell(&self, [fine, coarse]: [u32; 2]) -> Result<Option<(ChunkKey, Vec<i64>)>> {
        let (from_level, to_level) = self.levels;
        let (from, to) = if self.delta > 0 { (fine, coarse) } else { (coarse, fine) };
        let (Some(from), Some(to)) =
            (from_level.keys.get(usize_from_u32(from)), to_level.keys.get(usize_from_u32(to)))
        else {
            return Ok(None);
        };
        let anchor = self.anchor.map_chunk(from)?;
        Ok(Some((*from, offset_from(&anchor, to)?)))
    }

    /// Returns an array for each offset between two linked chunks.
    fn sinks(&self, build: &Build, pairs: &[[u32; 2]]) -> Result<Sinks> {
        let (from_level, rank) = (self.levels.0, self.levels.0.axes());
        let mut sinks = Sinks::new();
        for pair in pairs {
            let Some((_, offset)) = self.cell(*pair)? else { continue };
            if sinks.contains_key(&offset) {
                continue;
            }
            let name = Offsets::new(rank, &[&offset])?;
            let segment = LinkSegment::new(vec![offset.clone()], false, 2, self.delta, Vec::new());
            let plan = plan_of(self.pair.root, from_level, segment.to_attributes())?;
            sinks.insert(offset, build.cells(&format!("{}/{name}", self.path), plan)?);
        }
        Ok(sinks)
    }

    /// Writes a cell.
    fn put(&self, sinks: &Sinks, pair: [u32; 2], rows: &[[u32; 2]]) -> Result<()> {
        let Some((key, offset)) = self.cell(pair)? else { return Ok(()) };
        let Some(sink) = sinks.get(&offset) else { return Ok(()) };
        let wide = rows.as_flattened().iter().flat_map(|row| i64::from(*row).to_le_bytes());
        let wide: Vec<u8> = wide.collect();
        sink.put(&key, ragged::encode(&[&wide], ROW, COLUMNS)?.into())
    }

    /// Records how many links there are.
    async fn announce(&self, build: &Build, count: u64) -> Result<()> {
        let family = LinksFamily {
            sid_ndim: Some(to_u64(self.levels.0.axes())),
            num_links: Some(count),
            num_physical_records: Some(count),
            ..LinksFamily::new(self.delta, 2, true, LinkStore::Canonical)
        };
        build.group(&self.path, &GroupDoc::new(family.to_attributes())).await
    }
}

/// Bytes of a number, and numbers of a row.
const ROW: u8 = 8;
const COLUMNS: u32 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn composes_parents_over_levels() {
        assert_eq!(compose_steps(&[vec![1, 0, NONE], vec![5, 6]]), [6, 5, NONE]);
        assert_eq!(compose_steps(&[vec![1, NONE], vec![5]]), [NONE, NONE]);
        assert!(compose_steps(&[]).is_empty());
    }

    #[test]
    fn links_of_a_chunk_are_grouped_by_target_chunk() {
        let level = |starts: &[usize]| ReferenceLevel {
            starts: starts.to_vec(),
            ..ReferenceLevel::default()
        };
        let (fine, coarse) = (level(&[0, 2, 7]), level(&[0, 2, 2, 5]));
        let root = Root::new(
            zvf_metadata::ZarrVectors::new(vec![1.0], [vec![0.0], vec![1.0]]),
            zvf_metadata::Axis::spatial(1).unwrap(),
        );
        let pair = Pair { root: &root, fine: &fine, coarse: &coarse, at: 0, gap: 1 };
        let parents = [0, 0, 4, NONE, 1, 0, 2];
        let actual: Vec<_> = pair.targets(&parents, 1).into_iter().collect();
        assert_eq!(actual, [(0, vec![[2, 1], [3, 0]]), (2, vec![[0, 2], [4, 0]])]);
        assert_eq!(pair.targets(&parents, 0)[&0], [[0, 0], [1, 0]]);
    }
}
