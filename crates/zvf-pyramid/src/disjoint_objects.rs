//! Checks whether the objects of a level are disjoint: every vertex belongs to one object, and so
//! do all ends of an edge or a face.
//!
//! Then each object can be coarsened by itself, and the result depends on nothing else.
//!
//! ```text
//! fragments      the rows of each chunk in ranges that follow each other
//! manifests      the object of each range: one, and not none
//! links          the ends of a record lie in ranges of one object
//! ```
//!
//! Of the vertices, only the chunk of each range is read.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use rayon::prelude::*;
use zvf_error::Result;
use zvf_format::fragment::Fragment;
use zvf_format::key::{ChunkKey, Delta};
use zvf_format::num::{saturating_u32, saturating_usize, usize_from_u32};
use zvf_model::{LevelReader, LinkRecords, ObjectIndex, ObjectManifest};
use zvf_store::{Caching, KeyTable};

use crate::carry::read_row_ids;
use crate::level_build::previous::{Attempt, refuse};
use crate::row_ids::RowIds;

/// The number of vertices of each object, by its id.
pub(crate) type Sizes = HashMap<i64, u64>;

/// Returns the sizes of the objects of a level; refuses if they are not disjoint. If `changed` is
/// given, only links in chunks that hold one of these objects are checked.
pub(crate) async fn measure_objects(
    level: &LevelReader,
    changed: Option<&BTreeSet<i64>>,
) -> Attempt<Sizes> {
    let Some(index) = level.objects().await? else { return refuse("the level has no objects") };
    let Some(mut ranges) = Ranges::read(level).await? else {
        return refuse("fragments are not ranges of rows");
    };
    if !ranges.assign_owners(&index).await? {
        return refuse("vertices are of several objects");
    }
    let ids = read_row_ids(level).await?;
    let Some(sizes) = ranges.count_vertices(&ids) else {
        return refuse("vertices are of no object");
    };
    let near = changed.map(|changed| ranges.find_chunks(changed, &ids));
    if ranges.are_joined(level, near.as_deref()).await? {
        return refuse("edges or faces join objects");
    }
    Ok(sizes)
}

/// The rows of all chunks of a level, range by range.
struct Ranges {
    table: Arc<KeyTable>,
    firsts: Vec<usize>,    // of each chunk, among all ranges; and their number
    ranges: Vec<[u64; 2]>, // first row and number of rows
    owners: Vec<u32>,      // of each range, its object's row in the index
}

impl Ranges {
    /// Reads the ranges of a level, without owners; `None` where rows are not in consecutive
    /// ranges.
    async fn read(level: &LevelReader) -> Result<Option<Self>> {
        let table = level.chunks().await?;
        let keys: Vec<ChunkKey> = table.iter().collect();
        let (mut firsts, mut ranges) = (vec![0], Vec::new());
        for keys in keys.chunks(INDEX_BATCH_CHUNKS) {
            let counts = level.row_counts(keys).await;
            for (fragments, rows) in level.fragments(keys).await.into_iter().zip(counts) {
                let (fragments, rows) = (fragments?, rows?);
                let view = fragments.view();
                if !view.tiles(rows) && (rows > 0 || view.rows_total() != Some(0)) {
                    return Ok(None);
                }
                ranges.extend(view.iter().map(|fragment| match fragment {
                    Fragment::Range { start, count } => [start, count],
                    Fragment::Rows(_) => [rows, 0], // there is no row
                }));
                firsts.push(ranges.len());
            }
        }
        let owners = vec![NO_OWNER; ranges.len()];
        Ok(Some(Self { table, firsts, ranges, owners }))
    }

    /// Records the owners of ranges; false if a range has two, or a manifest names a missing range.
    async fn assign_owners(&mut self, index: &ObjectIndex) -> Result<bool> {
        let mut is_sound = true;
        let claim = |manifest: &ObjectManifest| {
            let row = saturating_u32(manifest.row()); // an index has fewer rows
            for (chunk, fragment) in manifest.references() {
                let fragment_owner = self.table.find(&chunk).and_then(|place| {
                    let (first, end) = self.ranges_of_chunk(place);
                    // Compared with the end.
                    self.owners[first..end].get_mut(saturating_usize(fragment))
                });
                match fragment_owner {
                    Some(owner) if *owner == NO_OWNER => *owner = row,
                    Some(_) | None => is_sound = false,
                }
            }
            Ok(())
        };
        index.scan(claim).await?;
        Ok(is_sound)
    }

    /// Returns the start and end of the ranges of the chunk at a place.
    fn ranges_of_chunk(&self, place: usize) -> (usize, usize) {
        (self.firsts[place], self.firsts[place + 1])
    }

    /// Returns the number of vertices of each object; `None` where some belong to no object. `ids`
    /// are the ids of the index rows.
    fn count_vertices(&self, ids: &RowIds) -> Option<Sizes> {
        let mut sizes = Sizes::new();
        for (owner, [_, count]) in self.owners.iter().zip(&self.ranges).filter(|(_, [_, n])| *n > 0)
        {
            // The counts of a damaged store may overflow; they are only compared with what fits in
            // memory.
            let size = sizes.entry(ids.get(usize_from_u32(*owner))?).or_default();
            *size = size.saturating_add(*count);
        }
        Some(sizes)
    }

    /// Returns for each chunk whether it holds one of these objects.
    fn find_chunks(&self, objects: &BTreeSet<i64>, ids: &RowIds) -> Vec<bool> {
        let is_one =
            |owner: &u32| ids.get(usize_from_u32(*owner)).is_some_and(|id| objects.contains(&id));
        let spans = self.firsts.array_windows();
        let owners = spans.map(|[first, end]| &self.owners[*first..*end]);
        owners.map(|chunk_owners| chunk_owners.iter().any(is_one)).collect()
    }

    /// Returns whether a link joins two objects; if `near` is given, only links in or between those
    /// chunks are checked.
    async fn are_joined(&self, level: &LevelReader, near: Option<&[bool]>) -> Result<bool> {
        let Some(family) = level.links(Delta::SAME).await? else { return Ok(false) };
        let is_near = |key: &ChunkKey| {
            near.is_none_or(|near| {
                self.table.find(key).is_some_and(|at| near.get(at) == Some(&true))
            })
        };
        for segment in family.segments() {
            let cells = segment.cells().await?;
            let mut places = Vec::new();
            for place in 0..cells.len() {
                if cells.chunks(place)?.iter().any(is_near) {
                    places.push(place);
                }
            }
            for places in places.chunks(LINK_BATCH_CELLS) {
                for records in segment.read(places, Caching::Once).await {
                    if self.joins_objects(&records?) {
                        return Ok(true);
                    }
                }
            }
        }
        Ok(false)
    }

    fn joins_objects(&self, records: &LinkRecords) -> bool {
        let places: Vec<Option<usize>> =
            records.chunks().iter().map(|key| self.table.find(key)).collect();
        (0..records.len()).into_par_iter().any(|record| {
            let mut owners = records.ends(record).map(|(place, row)| {
                let chunk = places.get(place).copied().flatten()?;
                self.owner(chunk, row)
            });
            let first = owners.next().flatten();
            first.is_none() || owners.any(|owner| owner != first)
        })
    }

    /// Returns the owner of a row of the chunk at a place.
    fn owner(&self, place: usize, row: u64) -> Option<u32> {
        let (first, end) = self.ranges_of_chunk(place);
        let before = self.ranges[first..end].partition_point(|[start, _]| *start <= row);
        let owner = self.owners[first + before.checked_sub(1)?];
        (owner != NO_OWNER).then_some(owner)
    }
}

/// The owner of a range that no manifest names.
const NO_OWNER: u32 = u32::MAX;
/// Chunks whose fragment indexes are read at once.
const INDEX_BATCH_CHUNKS: usize = 4096;
/// Link cells that are read at once.
const LINK_BATCH_CELLS: usize = 16;
