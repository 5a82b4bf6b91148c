//! Selects the link cells that can contribute: their chunks intersect the region or contain
//! selected objects.

use zvf_error::Result;
use zvf_format::Class;
use zvf_format::grid::{ChunkRange, Grid};
use zvf_format::key::{ChunkKey, Delta};
use zvf_format::num::{index_u32, to_u64};
use zvf_model::LinkFamily;

use super::LinkCell;
use crate::run::Context;

impl Context {
    /// Opens the link family of the elements.
    pub(in crate::run) async fn family(&self) -> Result<Option<LinkFamily>> {
        let family = self.level.links(Delta::SAME).await?;
        Ok(match (family, &self.reach) {
            (Some(family), Some(_)) => Some(family.with_candidates(&self.chunks)),
            (family, _) => family,
        })
    }

    /// Returns whether every link of the level can be found: a backend that cannot list finds only
    /// nearby ones.
    pub(in crate::run) async fn has_all_links(&self) -> Result<bool> {
        if !self.kind.has_links() {
            return Ok(true);
        }
        Ok(self.family().await?.is_none_or(|family| family.is_complete()))
    }

    /// Finds the link cells whose chunks intersect the region.
    pub(in crate::run) async fn link_cells(
        &self,
        family: &LinkFamily,
        chunks: &[u32],
    ) -> Result<Vec<LinkCell>> {
        let (mut found, mut order) = (Vec::new(), 0..);
        for (number, segment) in family.segments().iter().enumerate() {
            let cells = match segment.cells().await {
                // Unlisted cells cannot be found; the answer is marked as incomplete.
                Err(error) if !family.is_complete() && error.class() == Class::Unsupported => {
                    continue;
                }
                cells => cells?,
            };
            let few = match (&self.reach, segment.offsets()) {
                (Some((_, range)), Some(offsets)) if range.rank() == self.level.key_rank() => {
                    let offsets: Vec<&[i64]> = offsets.iter().collect();
                    sources(range, &offsets, to_u64(cells.len()))
                }
                _ => None,
            };
            let mut places: Vec<usize> = if let Some(sources) = few {
                sources.iter().filter_map(|source| cells.find(source)).collect()
            } else {
                // All ends are in chunks of the requested objects, and so are sources: a query for
                // few objects must not examine every cell of the level.
                let some = self.reach.is_none() && chunks.len() < self.chunks.len();
                let near: Vec<usize> = if some && segment.offsets().is_some() {
                    self.keys(chunks).iter().filter_map(|source| cells.find(source)).collect()
                } else {
                    (0..cells.len()).collect()
                };
                let mut places = Vec::new();
                for place in near {
                    if self.cell_matters(&cells.chunks(place)?, chunks) {
                        places.push(place);
                    }
                }
                places
            };
            let mut keyed: Vec<(ChunkKey, usize)> =
                places.iter().filter_map(|place| Some((cells.source(*place)?, *place))).collect();
            if keyed.len() == places.len() {
                keyed.sort_by(|(a, _), (b, _)| a.cmp_string(b));
                places = keyed.into_iter().map(|(_, place)| place).collect();
            }
            let cell = |(place, order)| LinkCell { segment: number, place, order };
            found.extend(places.into_iter().zip(&mut order).map(cell));
        }
        Ok(found)
    }

    /// Returns whether records between these chunks can contribute.
    fn cell_matters(&self, between: &[ChunkKey], chunks: &[u32]) -> bool {
        let axes = self.level.axes();
        if let Some((_, range)) = &self.reach {
            return (0..axes).all(|axis| {
                let at = |key: &ChunkKey| key.spatial(axes).and_then(|key| key.get(axis).copied());
                let ends = between.iter().filter_map(at);
                let low = ends.clone().min().unwrap_or(i64::MAX); // without ends in no range
                let high = ends.max().unwrap_or(i64::MIN);
                range.axis(axis).is_some_and(|(first, last)| low <= last && high >= first)
            });
        }
        if chunks.len() == self.chunks.len() {
            return true;
        }
        let is_own = |key| {
            let place = self.chunks.find(key).map(index_u32);
            place.is_some_and(|place| chunks.binary_search(&place).is_ok())
        };
        between.iter().all(is_own)
    }
}

/// Returns the sources of cells with these offsets whose chunks intersect `range`; `None` if there
/// are more of them than cells.
fn sources(range: &ChunkRange, offsets: &[&[i64]], cells: u64) -> Option<Vec<ChunkKey>> {
    let (mut origin, mut shape) = (Vec::new(), Vec::new());
    for axis in 0..range.rank() {
        let (first, last) = range.axis(axis)?;
        let along = offsets.iter().map(|offset| offset[axis]);
        let first = first.checked_sub(along.clone().fold(0, i64::max))?;
        let last = last.checked_sub(along.fold(0, i64::min))?;
        origin.push(first);
        shape.push(last.abs_diff(first).checked_add(1)?);
    }
    let around = Grid::new(&origin, &shape).ok()?.chunks();
    around.count().is_some_and(|count| count <= cells + 8).then(|| around.iter().collect())
}
