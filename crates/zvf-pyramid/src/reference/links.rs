//! Links from each vertex to the one that stands for it, and back.

use std::collections::{BTreeMap, HashMap};

use rayon::prelude::*;
use zvf_format::grid::ChunkShape;
use zvf_format::key::Offsets;
use zvf_format::link::Anchor;
use zvf_format::metadata::arrays::{LinkSegment, LinksFamily};
use zvf_format::metadata::{GroupDoc, LinkStore, Root};
use zvf_format::ragged;
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

/// Where a row lies: the place of its chunk in the level, and its row in that.
type Place = [u32; 2];

impl Pair<'_> {
    /// Writes the links upwards, and those downwards where `both` are wanted.
    pub(super) async fn write(
        &self,
        build: &Build,
        parents: &[u32],
        both: bool,
    ) -> Result<(), PyramidError> {
        let (fine, coarse) = (places(self.fine), places(self.coarse));
        let linked = fine.iter().zip(parents).filter_map(|(own, parent)| {
            let parent = coarse.get(place(*parent))?; // none where there is no parent
            Some([*own, *parent])
        });
        let mut links: Vec<[Place; 2]> = linked.collect();
        let (at, gap) = (self.at, to_i64(to_u64(self.gap)));
        self.family(build, at, gap, (self.fine, self.coarse), &links).await?;
        if both {
            links.iter_mut().for_each(|link| link.reverse());
            let at = at.saturating_add(self.gap);
            let levels = (self.coarse, self.fine);
            self.family(build, at, gap.saturating_neg(), levels, &links).await?;
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
        links: &[[Place; 2]],
    ) -> Result<(), PyramidError> {
        let rank = own.axes();
        let word = if delta > 0 { format!("+{delta}") } else { delta.to_string() };
        let path = format!("{at}/links/{word}");
        for (offset, cells) in self.segments((own, other), links)? {
            let name = Offsets::new(rank, &[&offset])?;
            let attributes = LinkSegment::new(vec![offset], false, 2, delta, Vec::new());
            let plan = plan_of(self.root, own, attributes.to_attributes())?;
            let sink = build.cells(&format!("{path}/{name}"), plan)?;
            let cells: Vec<(u32, Vec<u8>)> = cells.into_iter().collect();
            cells.par_iter().try_for_each(|(chunk, rows)| -> Result<(), PyramidError> {
                let Some(key) = own.keys.get(place(*chunk)) else { return Ok(()) };
                Ok(sink.put(key, ragged::encode(&[rows], ROW, COLUMNS)?.into())?)
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

    /// The rows of each cell, by how far the ends are apart and by the chunk they start in.
    fn segments(
        &self,
        (own, other): (&Level, &Level),
        links: &[[Place; 2]],
    ) -> Result<Segments, PyramidError> {
        let root = ChunkShape::new(&self.root.zarr_vectors.chunk_shape)?;
        let ratio = |level: &Level| ChunkShape::new(&level.chunk)?.ratio_to(&root);
        let anchor = Anchor::between(&ratio(own)?, &ratio(other)?, own.axes())?;
        let (mut numbers, mut cells) = (HashMap::new(), Vec::<(u32, u32, Vec<u8>)>::new());
        let mut last = (NONE, NONE, 0_usize); // chunks and cell of the link before
        for [[chunk, row], [target, end]] in links {
            if (last.0, last.1) != (*chunk, *target) {
                let next = cells.len();
                let number = *numbers.entry((*chunk, *target)).or_insert(next);
                if number == next {
                    cells.push((*chunk, *target, Vec::new()));
                }
                last = (*chunk, *target, number);
            }
            if let Some((.., rows)) = cells.get_mut(last.2) {
                rows.extend(i64::from(*row).to_le_bytes());
                rows.extend(i64::from(*end).to_le_bytes());
            }
        }
        // Several targets are as far from their chunks only where these differ, so a cell is one of these.
        let mut segments = Segments::new();
        for (chunk, target, rows) in cells {
            let (Some(from), Some(to)) =
                (own.keys.get(place(chunk)), other.keys.get(place(target)))
            else {
                continue;
            };
            let anchor = anchor.of(from)?;
            let apart = to.components().iter().zip(anchor.components());
            let offset = apart.map(|(to, from)| to.saturating_sub(*from)).collect();
            segments.entry(offset).or_default().insert(chunk, rows);
        }
        Ok(segments)
    }
}

/// Cells by offsets, then by the place of their chunk.
type Segments = BTreeMap<Vec<i64>, BTreeMap<u32, Vec<u8>>>;

/// Where each row of a level lies.
fn places(level: &Level) -> Vec<Place> {
    let spans = level.starts.iter().zip(level.starts.iter().skip(1));
    let rows = (0_u32..).zip(spans).flat_map(|(chunk, (start, end))| {
        (0_u32..).take(end.saturating_sub(*start)).map(move |row| [chunk, row])
    });
    rows.collect()
}

/// Bytes of a number, and numbers of a row.
const ROW: u8 = 8;
const COLUMNS: u32 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parents_of_parents() {
        assert_eq!(composed(&[vec![1, 0, NONE], vec![5, 6]]), [6, 5, NONE]);
        assert_eq!(composed(&[vec![1, NONE], vec![5]]), [NONE, NONE]);
        assert!(composed(&[]).is_empty());
    }

    #[test]
    fn rows_are_found_in_their_chunks() {
        let level = Level { starts: vec![0, 2, 2, 3], ..Level::default() };
        assert_eq!(places(&level), [[0, 0], [0, 1], [2, 0]]);
    }
}
