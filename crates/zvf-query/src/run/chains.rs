//! Finds the objects that can be near a region without iterating over all of them.
//!
//! ```text
//! chunks that meet the region   ->  owners of their fragments          every object with a vertex there
//!                               ->  positions                          those with a segment in the region
//! the others                    ->  manifests, ends of neighbours      those that step into it
//! crossings that pass over      ->                                     those without a vertex near it
//! ```
//!
//! The result may contain objects outside the region; the exact test follows when they are read. It
//! always contains every object inside.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use zvf_error::{Locate as _, Result};
use zvf_format::grid::ChunkRange;
use zvf_format::key::ChunkKey;
use zvf_format::num::{f64_from_i64, index_u32, saturating_u32};
use zvf_model::{ChunkOwners, ObjectIndex, ObjectManifest};

use super::fetch::{Chunks, RowSource, groups};
use super::work_units::INDEX_BATCH_CELLS;
use super::{Context, distinct};
use crate::mode::Mode;
use crate::region::Region;
use crate::select::chain::{Chain, Point, is_near};
use crate::select::loaded_rows::LoadedRows;
use crate::select::pieces::{Piece, Pieces};
use crate::select::runs::check_extent;

/// A fragment of a chunk.
type FragmentAt = (ChunkKey, u64);

/// The first and the last vertex of fragments; `None` for empty ones.
type Ends = HashMap<FragmentAt, [Option<Point>; 2]>;

impl Context {
    /// Returns the rows of objects that can be in the region, ascending, without duplicates; `None`
    /// if all can be.
    pub(super) async fn near_region(
        &self,
        index: &ObjectIndex,
        range: &ChunkRange,
    ) -> Result<Option<Vec<u64>>> {
        let places = self.candidates();
        let mut keys = self.keys(&places);
        if self.query.allow_missing {
            keys = self.find_written_chunks(&keys).await?;
        }
        let axes = self.level.axes();
        let near = |a: &[i64], b: &[i64]| hulls_meet(a, b, range, axes);
        let steps = self.kind.is_chain() && matches!(self.mode, Mode::Touch | Mode::Clip);
        let found = if steps {
            self.level.owners(&keys, Some(&near)).await?
        } else {
            self.level.owners(&keys, None).await?
        };
        let Some(owners) = found else { return Ok(None) };
        let owned = owners.chunks.iter().flat_map(|chunk| chunk.all()).map(|o| o.row.into());
        let mut all = distinct(owned.chain(owners.crossing.iter().copied()));
        // If the region covers most of the level, a closer look costs more than it saves.
        let looks_closer = self.kind.is_chain()
            && !matches!(self.mode, Mode::Cells | Mode::Inside)
            && keys.len() * 4 <= self.chunks.len();
        let Some(region) = self.query.region.as_ref().filter(|_| looks_closer) else {
            return Ok(Some(all));
        };
        let (mut hits, mut ends) = (BTreeSet::new(), Ends::new());
        let max_bytes = self.level.store().budget().max_bytes() / 4;
        let mut owners = owners.chunks.as_slice();
        for keys in keys.chunks(INDEX_BATCH_CELLS) {
            let rows = self.extents(keys).await;
            // An estimate; nothing is allocated.
            let bytes = rows.iter().map(|rows| rows.saturating_mul(self.row_bytes()));
            for (keys, _) in groups(keys, bytes, max_bytes) {
                let (now, later) = owners.split_at(keys.len());
                self.test_fragments(region, keys, now, &mut hits, &mut ends).await?;
                owners = later;
            }
        }
        if self.mode != Mode::Crop {
            all.retain(|row| !hits.contains(row));
            let manifests = index.manifests(&all).await?;
            hits.extend(self.find_stepping_objects(region, range, &manifests, ends).await?);
        }
        Ok(Some(hits.into_iter().collect()))
    }

    /// Adds the owners of the fragments in the chunks `keys` that intersect the region to `hits`,
    /// and the end points of the other fragments to `ends`.
    async fn test_fragments(
        &self,
        region: &Region,
        keys: &[ChunkKey],
        owners: &[ChunkOwners],
        hits: &mut BTreeSet<u64>,
        ends: &mut Ends,
    ) -> Result<()> {
        let owned =
            |owners: &ChunkOwners| owners.all().iter().map(|owner| owner.fragment.into()).collect();
        let fragments: Vec<_> = keys.iter().copied().zip(owners.iter().map(owned)).collect();
        let (found, loaded) = self.load_fragments(&fragments, false).await?;
        let steps = self.mode != Mode::Crop;
        for (cell, (key, number), pieces) in found {
            let chain = Chain::new(&pieces, &loaded, self.level.axes());
            let is_hit = if steps { chain.touches(region) } else { chain.has_vertex_in(region) };
            if is_hit {
                hits.extend(owners[cell].fragment_owners(number));
            } else if steps {
                ends.insert((key, number), [chain.end(false), chain.end(true)]);
            }
        }
        Ok(())
    }

    /// Reads the positions of some fragments of chunks, either all or only the ends of each;
    /// returns the chunk of each fragment, and its pieces of the loaded rows.
    async fn load_fragments(
        &self,
        wanted: &[(ChunkKey, BTreeSet<u64>)],
        ends_only: bool,
    ) -> Result<(Vec<(usize, FragmentAt, Vec<Piece>)>, Vec<LoadedRows>)> {
        let keys: Vec<ChunkKey> = wanted.iter().map(|(key, _)| *key).collect();
        let (mut rows, mut all, mut found) = (Vec::new(), Pieces::default(), Vec::new());
        let indexes = self.level.fragments(&keys).await;
        for (cell, ((key, numbers), fragments)) in wanted.iter().zip(indexes).enumerate() {
            let Some(fragments) = self.allow_missing(fragments)? else {
                rows.push(0);
                continue;
            };
            let view = fragments.view();
            check_extent(fragments.extent()).at_chunk(key)?;
            rows.push(fragments.extent());
            for number in numbers {
                let mut pieces = Pieces::default();
                if let Some(fragment) = view.get(*number) {
                    pieces.push_fragment(fragment, index_u32(cell), saturating_u32(*number));
                }
                if let ([first, ..], [.., last], true) =
                    (pieces.list.as_slice(), pieces.list.as_slice(), ends_only)
                {
                    let last = Piece { start: last.end() - 1, len: 1, ..*last };
                    pieces.list = vec![Piece { len: 1, ..*first }, last];
                }
                pieces.list.iter().for_each(|piece| all.push_apart(*piece));
                found.push((cell, (*key, *number), pieces.list));
            }
        }
        let source = RowSource::Positions(&self.level);
        let chunks = Chunks { keys, rows, caching: self.caching(0) };
        let loaded = self.read_pieces(source, &chunks, &all).await?;
        chunks.check_pieces(&all.list, &loaded)?;
        Ok((found, loaded))
    }

    /// Returns the rows of objects that may step from one fragment to the next through the region,
    /// judging by the ends and their chunks.
    async fn find_stepping_objects(
        &self,
        region: &Region,
        range: &ChunkRange,
        manifests: &[ObjectManifest],
        mut ends: Ends,
    ) -> Result<Vec<u64>> {
        let axes = self.level.axes();
        let mut steps: Vec<(FragmentAt, FragmentAt, u64)> = Vec::new();
        let mut unknown: BTreeMap<Vec<i64>, (ChunkKey, BTreeSet<u64>)> = BTreeMap::new();
        for manifest in manifests {
            for (a, b) in manifest.steps() {
                if !hulls_meet(a.0.components(), b.0.components(), range, axes) {
                    continue;
                }
                let hulls = [self.extent(&ends, &a, 1), self.extent(&ends, &b, 0)];
                let low = |axis: usize| hulls[0].0[axis].min(hulls[1].0[axis]);
                let high = |axis: usize| hulls[0].1[axis].max(hulls[1].1[axis]);
                let hull = region.hull();
                let mut sides = hull.low().iter().zip(hull.high()).enumerate();
                if !sides.all(|(axis, (from, to))| low(axis) <= *to && high(axis) >= *from) {
                    continue;
                }
                for place in [a, b].into_iter().filter(|place| !ends.contains_key(place)) {
                    let chunk = unknown.entry(place.0.components().to_vec());
                    chunk.or_insert_with(|| (place.0, BTreeSet::new())).1.insert(place.1);
                }
                steps.push((a, b, manifest.row()));
            }
        }
        let unknown: Vec<_> = unknown.into_values().collect();
        let (found, loaded) = self.load_fragments(&unknown, true).await?;
        for (_, place, pieces) in found {
            let chain = Chain::new(&pieces, &loaded, axes);
            ends.insert(place, [chain.end(false), chain.end(true)]);
        }
        let end = |place: &FragmentAt, which: usize| ends.get(place).and_then(|ends| ends[which]);
        steps.retain(|(a, b, _)| match (end(a, 1), end(b, 0)) {
            (Some(a), Some(b)) => {
                let (a, b) = (&a[..axes], &b[..axes]);
                is_near(region, a, b) && region.meets_segment(a, b)
            }
            _ => true, // a fragment without rows: looked at when the object is read
        });
        Ok(steps.into_iter().map(|(_, _, row)| row).collect())
    }

    /// Returns the extent of one end of a step: a point, or the whole chunk.
    fn extent(&self, ends: &Ends, place: &FragmentAt, which: usize) -> (Point, Point) {
        if let Some(point) = ends.get(place).and_then(|ends| ends[which]) {
            return (point, point);
        }
        let (mut low, mut high) = ([f64::NEG_INFINITY; 8], [f64::INFINITY; 8]); // anywhere
        let sizes = self.level.chunk_shape().sizes();
        let at = place.0.spatial(sizes.len()).unwrap_or_default();
        for (axis, (size, at)) in sizes.iter().zip(at).enumerate() {
            // Because of rounding, points near a face may be stored on its other side.
            let start = f64_from_i64(*at) * size;
            low[axis] = start - size * CHUNK_TOLERANCE;
            high[axis] = start + size * (1.0 + CHUNK_TOLERANCE);
        }
        (low, high)
    }
}

/// Returns whether the box around two chunks intersects the chunks of a region.
fn hulls_meet(a: &[i64], b: &[i64], range: &ChunkRange, axes: usize) -> bool {
    let spatial = |key: &[i64]| key.len().saturating_sub(axes); // the bin of an attribute comes first
    let pairs = a.iter().skip(spatial(a)).zip(b.iter().skip(spatial(b)));
    pairs.enumerate().all(|(axis, (a, b))| {
        range.axis(axis).is_some_and(|(low, high)| *a.min(b) <= high && *a.max(b) >= low)
    })
}

/// How far a point may be outside of its chunk, as a fraction of the chunk.
const CHUNK_TOLERANCE: f64 = 1e-3;
