//! Which objects can be near a region: found from the region, never by going through all of them.
//!
//! ```text
//! chunks that meet the region   ->  owners of their fragments          every object with a vertex there
//!                               ->  positions                          those with a segment in the region
//! the others                    ->  manifests, ends of neighbours      those that step into it
//! crossings that pass over      ->                                     those without a vertex near it
//! ```
//!
//! What comes out may still hold objects that are not in the region; the exact test follows when they
//! are read. It never lacks one that is.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use zvf_error::{Locate as _, Result};
use zvf_format::grid::ChunkRange;
use zvf_format::key::ChunkKey;
use zvf_model::{ChunkOwners, ObjectIndex, ObjectManifest};

use super::Context;
use super::fetch::{Need, RowSource};
use super::objects::check_pieces;
use super::work_units::{INDEX_BATCH_CELLS, groups};
use crate::mode::Mode;
use crate::region::Region;
use crate::select::chain::{Chain, Point, is_near};
use crate::select::pieces::Piece;
use crate::select::runs::{Runs, check_extent};

/// A fragment of a chunk.
type Place = (ChunkKey, u64);

impl Context {
    /// Returns the rows of objects that can be in the region, ascending, each once; `None` where all can.
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
        let axes = self.cache.level.axes();
        let near = |a: &[i64], b: &[i64]| hulls_meet(a, b, range, axes);
        let steps = self.kind.is_chain() && matches!(self.mode, Mode::Touch | Mode::Clip);
        let found = if steps {
            self.cache.level.owners(&keys, Some(&near)).await?
        } else {
            self.cache.level.owners(&keys, None).await?
        };
        let Some(owners) = found else { return Ok(None) };
        let mut all: Vec<u64> =
            owners.chunks.iter().flat_map(|chunk| chunk.all()).map(|o| o.row.into()).collect();
        all.extend(&owners.crossing);
        all.sort_unstable();
        all.dedup();
        // Where the region is most of the level, looking closer costs more than it saves.
        let Some(region) = self.query.region.as_ref().filter(|_| {
            self.kind.is_chain()
                && !matches!(self.mode, Mode::Cells | Mode::Inside)
                && keys.len() * 4 <= self.chunks.len()
        }) else {
            return Ok(Some(all));
        };
        let near = self.find_touching_objects(index, region, &keys, &owners.chunks, all).await?;
        Ok(Some(near))
    }

    /// Returns those of the objects at the rows `all` that a segment in the chunks `keys`, or from or to them,
    /// can put in the region.
    async fn find_touching_objects(
        &self,
        index: &ObjectIndex,
        region: &Region,
        keys: &[ChunkKey],
        owners: &[ChunkOwners],
        all: Vec<u64>,
    ) -> Result<Vec<u64>> {
        let (mut hits, mut ends) = (BTreeSet::new(), HashMap::new());
        let max_bytes = self.cache.level.store().budget().max_bytes() / 4;
        let mut owners = owners;
        for keys in keys.chunks(INDEX_BATCH_CELLS) {
            let rows = self.extents(keys).await;
            // Judged, not allocated.
            let bytes = rows.iter().map(|rows| rows.saturating_mul(self.row_bytes()));
            for (keys, _) in groups(keys, bytes, max_bytes) {
                let (now, later) = owners.split_at(keys.len());
                self.test_fragments(region, keys, now, &mut hits, &mut ends).await?;
                owners = later;
            }
        }
        if self.mode == Mode::Crop {
            return Ok(hits.into_iter().collect());
        }
        let open: Vec<u64> = all.into_iter().filter(|row| !hits.contains(row)).collect();
        let manifests = index.manifests(&open).await?;
        hits.extend(self.find_stepping_objects(region, &manifests, &ends).await?);
        Ok(hits.into_iter().collect())
    }

    /// Adds the owners of the fragments in the chunks `keys` that meet the region to `hits`, and the end points of
    /// the other fragments to `ends`.
    async fn test_fragments(
        &self,
        region: &Region,
        keys: &[ChunkKey],
        owners: &[ChunkOwners],
        hits: &mut BTreeSet<u64>,
        ends: &mut HashMap<Place, [Option<Point>; 2]>,
    ) -> Result<()> {
        let axes = self.cache.level.axes();
        let found = self.cache.level.fragments(keys).await;
        let source = RowSource::Positions(&self.cache.level);
        let needs = keys.iter().map(|_| Need::Whole).collect();
        let loaded = self.read(source, keys, needs, self.caching(0)).await?;
        let steps = self.mode != Mode::Crop;
        for (cell, ((key, fragments), owners)) in (0_u32..).zip(keys.iter().zip(found).zip(owners))
        {
            let Some(fragments) = self.allow_missing(fragments)? else { continue };
            let view = fragments.view();
            check_extent(fragments.extent()).at_chunk(key)?;
            let rows = loaded
                .get(zvf_format::num::usize_from_u32(cell))
                .and_then(|loaded| loaded.column(0));
            let Some((column, _)) = rows else { continue }; // missing, and allowed to be
            fragments.check_rows(zvf_format::num::to_u64(column.len()))?;
            for of_one in owners.all().chunk_by(|a, b| a.fragment == b.fragment) {
                let Some(number) = of_one.first().map(|owner| owner.fragment) else { continue };
                let Some(fragment) = view.get(number.into()) else { continue };
                let mut runs = Runs::default();
                runs.push_fragment(fragment, 0);
                let pieces = pieces(&runs, cell);
                let chain = Chain::new(&pieces, &loaded, axes);
                let hit = if steps { chain.touches(region) } else { chain.has_vertex_in(region) };
                if hit {
                    hits.extend(of_one.iter().map(|owner| u64::from(owner.row)));
                } else if steps {
                    ends.insert((*key, number.into()), [chain.end(false), chain.end(true)]);
                }
            }
        }
        Ok(())
    }

    /// Returns the rows of objects that step from one fragment to the next through the region, as far as their
    /// ends and the chunks of these tell.
    async fn find_stepping_objects(
        &self,
        region: &Region,
        manifests: &[ObjectManifest],
        ends: &HashMap<Place, [Option<Point>; 2]>,
    ) -> Result<Vec<u64>> {
        let Some((_, range)) = &self.reach else { return Ok(Vec::new()) };
        let axes = self.cache.level.axes();
        let mut rows = Vec::new();
        let mut steps: Vec<(Place, Place, u64)> = Vec::new();
        for manifest in manifests {
            for (before, place) in manifest.steps() {
                if hulls_meet(before.0.components(), place.0.components(), range, axes)
                    && self.may_step(region, before, place, ends)
                {
                    steps.push((before, place, manifest.row()));
                }
            }
        }
        let far = self.read_ends(&steps, ends).await?;
        for (a, b, row) in steps {
            let end = |place: &Place, which: usize| {
                let fragment_ends = ends.get(place).or_else(|| far.get(place));
                fragment_ends.and_then(|ends| ends.get(which).copied().flatten())
            };
            let stepped = match (end(&a, 1), end(&b, 0)) {
                (Some(a), Some(b)) => match (a.get(..axes), b.get(..axes)) {
                    (Some(a), Some(b)) => is_near(region, a, b) && region.meets_segment(a, b),
                    _ => true,
                },
                _ => true, // a fragment without rows: looked at when the object is read
            };
            if stepped {
                rows.push(row);
            }
        }
        Ok(rows)
    }

    /// Returns whether a step between two fragments can meet the region, by what is known of its ends.
    fn may_step(
        &self,
        region: &Region,
        a: Place,
        b: Place,
        ends: &HashMap<Place, [Option<Point>; 2]>,
    ) -> bool {
        let (mut low, mut high) = ([0.0; 8], [0.0; 8]);
        let end = |place: &Place, which: usize| {
            ends.get(place).and_then(|ends| ends.get(which).copied().flatten())
        };
        self.extent(&a.0, end(&a, 1), &mut low, &mut high);
        let (mut low_b, mut high_b) = ([0.0; 8], [0.0; 8]);
        self.extent(&b.0, end(&b, 0), &mut low_b, &mut high_b);
        let hull = region.hull();
        let sides = hull.low().iter().zip(hull.high());
        let mut all = low.iter().zip(high).zip(low_b.iter().zip(high_b)).zip(sides);
        all.all(|(((l, h), (lb, hb)), (from, to))| l.min(*lb) <= *to && h.max(hb) >= *from)
    }

    /// Finds where the end of a step lies: at a point, or somewhere in its chunk.
    fn extent(&self, key: &ChunkKey, end: Option<Point>, low: &mut [f64; 8], high: &mut [f64; 8]) {
        if let Some(point) = end {
            (*low, *high) = (point, point);
            return;
        }
        let sizes = self.cache.level.chunk_shape().sizes();
        let Some(spatial) = key.spatial(sizes.len()) else {
            (*low, *high) = ([f64::NEG_INFINITY; 8], [f64::INFINITY; 8]); // anywhere
            return;
        };
        let axes = low.iter_mut().zip(high.iter_mut()).zip(sizes.iter().zip(spatial));
        for ((low, high), (size, at)) in axes {
            // Points beside a face may be stored on its other side, as far as rounding goes.
            let start = zvf_format::num::f64_from_i64(*at) * size;
            (*low, *high) =
                (start - size * CHUNK_TOLERANCE, start + size * (1.0 + CHUNK_TOLERANCE));
        }
    }

    /// Returns the ends of fragments that are not known yet.
    async fn read_ends(
        &self,
        steps: &[(Place, Place, u64)],
        known_ends: &HashMap<Place, [Option<Point>; 2]>,
    ) -> Result<HashMap<Place, [Option<Point>; 2]>> {
        let mut missing: BTreeMap<Vec<i64>, (ChunkKey, BTreeSet<u64>)> = BTreeMap::new();
        for place in steps.iter().flat_map(|(a, b, _)| [a, b]) {
            if !known_ends.contains_key(place) {
                let chunk = missing.entry(place.0.components().to_vec());
                chunk.or_insert_with(|| (place.0, BTreeSet::new())).1.insert(place.1);
            }
        }
        let keys: Vec<ChunkKey> = missing.values().map(|(key, _)| *key).collect();
        let mut all: Vec<(Place, Vec<Piece>)> = Vec::new();
        let found = self.cache.level.fragments(&keys).await;
        let (mut rows, mut pieces_of) = (Vec::new(), crate::select::pieces::Pieces::default());
        for (cell, ((key, numbers), fragments)) in (0_u32..).zip(missing.values().zip(found)) {
            let Some(fragments) = self.allow_missing(fragments)? else {
                rows.push(0);
                continue;
            };
            let view = fragments.view();
            check_extent(fragments.extent()).at_chunk(key)?;
            rows.push(fragments.extent());
            for number in numbers {
                let mut runs = Runs::default();
                if let Some(fragment) = view.get(*number) {
                    runs.push_fragment(fragment, 0);
                }
                let pieces = ends_only(&pieces(&runs, cell));
                pieces.iter().for_each(|piece| pieces_of.push_apart(*piece));
                all.push(((*key, *number), pieces));
            }
        }
        let source = RowSource::Positions(&self.cache.level);
        let loaded = self.read_pieces(source, &keys, &rows, &pieces_of, self.caching(0)).await?;
        check_pieces(&keys, &pieces_of, &loaded)?;
        let axes = self.cache.level.axes();
        let ends = all.iter().map(|(place, pieces)| {
            let chain = Chain::new(pieces, &loaded, axes);
            (*place, [chain.end(false), chain.end(true)])
        });
        Ok(ends.collect())
    }
}

fn pieces(runs: &Runs, cell: u32) -> Vec<Piece> {
    let piece = |run: &crate::select::runs::RowRun| Piece {
        cell,
        start: run.start,
        len: run.len,
        fragment: 0,
    };
    runs.list.iter().map(piece).collect()
}

/// Returns the first and the last row.
fn ends_only(pieces: &[Piece]) -> Vec<Piece> {
    let (Some(first), Some(last)) = (pieces.first(), pieces.last()) else { return Vec::new() };
    let end = last.end() - 1;
    vec![Piece { len: 1, ..*first }, Piece { start: end, len: 1, ..*last }]
}

/// Returns whether the box around two chunks meets the chunks of a region.
fn hulls_meet(a: &[i64], b: &[i64], range: &ChunkRange, axes: usize) -> bool {
    let spatial = |key: &[i64]| key.len().saturating_sub(axes); // the bin of an attribute comes first
    let pairs = a.iter().skip(spatial(a)).zip(b.iter().skip(spatial(b)));
    pairs.enumerate().all(|(axis, (a, b))| {
        range.axis(axis).is_some_and(|(low, high)| *a.min(b) <= high && *a.max(b) >= low)
    })
}

/// How far outside of its chunk a point may lie, in parts of the chunk.
const CHUNK_TOLERANCE: f64 = 1e-3;
