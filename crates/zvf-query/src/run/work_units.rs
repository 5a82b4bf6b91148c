//! Divides a query into work units, which are created one after the other.
//!
//! A query is divided by objects if the answer is assembled from them, by link cells if there are
//! edges and faces, and otherwise by chunks. A work unit fits in a part of the budget, estimated by
//! averages. If several are in progress, and for edges and faces, each is refined by the indexes of
//! the cells that it reads. Collected chunks are read in groups anyway.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use zvf_error::{Error, Result};
use zvf_format::fragment::{FragmentIndex, RankTable};
use zvf_format::key::ChunkKey;
use zvf_format::num::{index_u32, saturating_usize, to_u64};
use zvf_model::{
    AttributeReader, FollowedObjects, FragmentVisit, LevelId, ObjectIndex, ObjectRuns,
};
use zvf_store::Partial;

use super::elements::{Answered, LinkCell, Work};
use super::fetch::groups;
use super::{Context, Purpose, WorkUnit};
use crate::error::BadQuery;
use crate::query::Order;
use crate::select::candidates::all_chunks;

/// The work units of a query, in the order of its answer.
pub(crate) struct Units {
    purpose: Purpose,
    /// Levels that have not been divided yet, the finest first.
    levels: std::vec::IntoIter<Arc<Context>>,
    level: Option<(Arc<Context>, Coarse)>,
    /// The rest of the work unit that was divided last.
    fine: VecDeque<Unit>,
}

/// Work units as divided by estimates.
type Coarse = Box<dyn Iterator<Item = WorkUnit> + Send>;

/// A work unit of a level.
pub(crate) struct Unit {
    pub(crate) context: Arc<Context>,
    pub(crate) work: WorkUnit,
    /// Approximate bytes until it is in the answer; 0 if not needed.
    pub(crate) bytes: u64,
    purpose: Purpose,
}

impl fmt::Debug for Units {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Units").field("purpose", &self.purpose).finish_non_exhaustive()
    }
}

impl Unit {
    /// Answers it, up to `limit` vertices.
    pub(crate) async fn answer(&self, limit: usize) -> Result<Answered> {
        self.context.answer(&self.work, limit, self.purpose != Purpose::Stream).await
    }
}

impl Units {
    /// Returns the work units of a query on these levels.
    pub(crate) fn new(levels: Vec<Arc<Context>>, purpose: Purpose) -> Self {
        Self { purpose, levels: levels.into_iter(), level: None, fine: VecDeque::new() }
    }

    /// Returns the next work unit.
    pub(crate) async fn next(&mut self) -> Result<Option<Unit>> {
        while self.fine.is_empty() {
            let Some(units) = self.divide().await? else { return Ok(None) };
            self.fine = units.into();
        }
        Ok(self.fine.pop_front())
    }

    /// Returns some of the next work units; `None` after the last.
    pub(crate) async fn divide(&mut self) -> Result<Option<Vec<Unit>>> {
        loop {
            if let Some((context, coarse)) = &mut self.level
                && let Some(work) = coarse.next()
            {
                context.yield_before(&work).await?;
                let purpose = self.purpose;
                let is_one = !matches!(&work, WorkUnit::Elements { works, .. } if works.len() > 1);
                let works = match purpose != Purpose::Stream && is_one {
                    true => vec![(work, 0)],
                    false => context.refine_unit(work, purpose).await?,
                };
                let unit = |(work, bytes)| {
                    let context = Arc::clone(context);
                    Unit { context, work, bytes, purpose }
                };
                return Ok(Some(works.into_iter().map(unit).collect()));
            }
            let Some(context) = self.levels.next() else { return Ok(None) };
            let coarse = work_units(&context, self.purpose).await?;
            self.level = Some((context, coarse));
        }
    }
}

/// Returns `all` as work units of `step` items; the last may have fewer.
fn parts<T: 'static>(
    mut all: impl Iterator<Item = T> + Send + 'static,
    step: usize,
    unit: fn(Vec<T>) -> WorkUnit,
) -> Coarse {
    Box::new(std::iter::from_fn(move || {
        let part: Vec<T> = all.by_ref().take(step).collect();
        (!part.is_empty()).then(|| unit(part))
    }))
}

/// Returns the work units of a query on a level.
async fn work_units(context: &Context, purpose: Purpose) -> Result<Coarse> {
    context.yield_before_many(context.query.objects.as_ref().map_or(0, Vec::len)).await;
    if context.goes_by_objects() {
        return context.object_units(purpose).await;
    }
    if context.kind.has_links() {
        return context.element_units(purpose).await;
    }
    let candidates = context.candidates();
    context.yield_before_many(candidates.len()).await;
    let candidates = context.filter_places(candidates).await?;
    if purpose == Purpose::Collect && candidates.len() > MAX_ANSWER_CELLS {
        let found = to_u64(candidates.len());
        return Err(Error::limit("cells of an answer", to_u64(MAX_ANSWER_CELLS), found));
    }
    let cells = context.unit_cells(purpose);
    Ok(parts(candidates.into_iter(), cells, WorkUnit::Chunks))
}

impl Context {
    /// Returns whether the answer is assembled object by object.
    pub(super) fn goes_by_objects(&self) -> bool {
        if self.kind.has_links() || self.query.asks_vertices() {
            return false;
        }
        let asked = self.asks_for_objects();
        match self.query.order {
            Some(Order::Storage) => false,
            Some(Order::Objects | Order::Original) => true,
            None => asked || self.kind.is_chain(),
        }
    }

    /// Returns whether only some objects are requested.
    pub(super) fn asks_for_objects(&self) -> bool {
        let named = self.query.objects.is_some() || self.query.groups.is_some();
        named || self.conditions.choose_objects()
    }

    async fn element_units(&self, purpose: Purpose) -> Result<Coarse> {
        let chunks = self.candidates();
        self.yield_before_many(chunks.len()).await;
        let chunks = self.filter_places(chunks).await?;
        let cells = match self.family().await? {
            // Links that are stored with some chunks may end in any chunk.
            Some(family) if self.query.links_of_chunks => {
                self.link_cells(&family, &all_chunks(&self.chunks)).await?
            }
            Some(family) => self.link_cells(&family, &chunks).await?,
            None => Vec::new(),
        };
        let is_whole = !self.query.links_of_chunks && purpose == Purpose::Collect;
        if is_whole && !self.is_large(&chunks).await {
            let works = vec![Work { chunks, cells, parent_cells: Vec::new() }];
            return Ok(Box::new(std::iter::once(WorkUnit::Elements { works, whole: true })));
        }
        self.split(chunks, cells).await
    }

    /// Divides the work by the source of its cells, so that each element is in one part.
    async fn split(&self, chunks: Vec<u32>, cells: Vec<LinkCell>) -> Result<Coarse> {
        let cells_per_unit = self.unit_cells(Purpose::Stream);
        let in_parts = |works| WorkUnit::Elements { works, whole: false };
        let Some(family) = self.family().await? else {
            let work = |place| Work { chunks: vec![place], ..Work::default() };
            return Ok(parts(chunks.into_iter().map(work), cells_per_unit, in_parts));
        };
        let mut by_source: BTreeMap<u32, Work> = BTreeMap::new();
        for place in &chunks {
            by_source.entry(*place).or_default().chunks.push(*place);
        }
        let place_of = |key: &ChunkKey| self.chunks.find(key).map(index_u32);
        for run in cells.chunk_by(|a, b| a.segment == b.segment) {
            let listed = family.segments()[run[0].segment].cells().await?;
            for cell in run {
                let between = listed.chunks(cell.place)?;
                let source = listed.source(cell.place).or_else(|| between.first().copied());
                let is_asked = self.links_asked(source.as_ref());
                let source = source.and_then(|source| place_of(&source)).unwrap_or(u32::MAX); // those of no chunk together
                if is_asked {
                    by_source.entry(source).or_default().cells.push(*cell);
                }
                if !self.follows_rows() {
                    continue;
                }
                // Vertices with an explicit parent in these records must be known where the rest of
                // their chunk is processed.
                let others = between.iter().filter_map(place_of).filter(|place| *place != source);
                for place in others.filter(|place| chunks.binary_search(place).is_ok()) {
                    by_source.entry(place).or_default().parent_cells.push(*cell);
                }
            }
        }
        Ok(parts(by_source.into_values(), cells_per_unit, in_parts))
    }

    /// Returns whether links that are stored with the chunk `source` are requested. Links without a
    /// chunk belong to the first part.
    fn links_asked(&self, source: Option<&ChunkKey>) -> bool {
        if !self.query.links_of_chunks {
            return true;
        }
        let (first, end) = (&self.query.first_chunk, &self.query.end_chunk);
        let Some(source) = source else { return first.is_none() };
        first.as_ref().is_none_or(|first| source.cmp_numeric(first).is_ge())
            && end.as_ref().is_none_or(|end| source.cmp_numeric(end).is_lt())
    }

    async fn object_units(&self, purpose: Purpose) -> Result<Coarse> {
        if self.level.objects().await?.is_none() {
            // Chains without an index have no objects: for example a store with zero lines.
            let original = self.query.order == Some(Order::Original) && !self.kind.is_chain();
            let asked = self.asks_for_objects() && !self.lenient;
            let chains = !self.asks_for_objects() && !self.chunks.is_empty();
            return match (asked || chains, original) {
                (true, true) => Err(self.original_order_error().into()),
                (true, false) => Err(BadQuery::NoObjects.into()),
                (false, _) => Ok(Box::new(std::iter::empty())),
            };
        }
        let index = self.index().await?;
        let vertices = self.level.vertex_count();
        if self.query.order == Some(Order::Original)
            && !self.kind.is_chain()
            && (vertices != index.slots() || self.level.level() != LevelId(0))
        {
            return Err(self.original_order_error().into());
        }
        let named = self.named_objects().await?.map(|named| named.rows.clone());
        self.yield_before_many(named.as_ref().map_or(0, Vec::len)).await;
        let rows = match (named, &self.reach) {
            (Some(rows), _) if to_u64(rows.len()) < MAX_UNSEARCHED_OBJECTS => Some(rows),
            (named, None) => named,
            (named, Some((_, range))) => match (named, self.near_region(&index, range).await?) {
                (Some(mut rows), Some(near)) => {
                    rows.retain(|row| near.binary_search(row).is_ok());
                    Some(rows)
                }
                (named, near) => near.or(named),
            },
        };
        let rows = match rows {
            None if !self.conditions.choose_objects() => None, // all, which may be 10^8
            rows => {
                let rows = rows.unwrap_or_else(|| (0..index.slots()).collect());
                Some(self.objects_where(rows).await?)
            }
        };
        // Estimates, bounded below.
        let average = vertices.checked_div(index.slots()).unwrap_or(0).max(1);
        let bytes = average.saturating_mul(self.row_bytes());
        let objects = self.unit_bytes(purpose) / bytes;
        let objects = saturating_usize(match self.query.limit {
            Some(limit) if purpose == Purpose::Collect => {
                objects.min((limit / average).saturating_add(1))
            }
            _ => objects,
        });
        let max_objects = match purpose {
            Purpose::Collect => {
                // Work units of a stream are refined later.
                let bytes = self.unit_bytes(purpose);
                let all = (FIRST_OBJECTS.as_slice(), saturating_usize(index.slots())); // compared
                let (first, all) = rows.as_ref().map_or(all, |rows| (rows.as_slice(), rows.len()));
                let at_once = self.objects_at_once(&index, first, all, bytes).await?;
                at_once.min(MAX_UNIT_OBJECTS)
            }
            Purpose::Each | Purpose::Stream => MANIFEST_BATCH_OBJECTS,
        };
        let step = objects.clamp(1, max_objects);
        Ok(match rows {
            Some(rows) => parts(rows.into_iter(), step, WorkUnit::Objects),
            None => parts(0..index.slots(), step, WorkUnit::Objects),
        })
    }
}

impl Context {
    /// Returns the error for points in their original order.
    fn original_order_error(&self) -> BadQuery {
        let (what, kind) = ("the original order", self.kind);
        let why = "the store does not keep it: points come sorted by where they are";
        BadQuery::Kind { what, kind, why }
    }

    /// Returns the number of chunks of a work unit, by the average rows per chunk of the level.
    fn unit_cells(&self, purpose: Purpose) -> usize {
        if purpose == Purpose::Collect {
            // The reads are bounded elsewhere; more work units would only have to be joined.
            let is_small = self.query.limit.is_some_and(|limit| limit < 100_000);
            let max_cells = self.unit_bytes(purpose) / 4 / UNIT_CELL_BYTES;
            return match is_small {
                true => LIMIT_BATCH_CELLS,
                // Bounded.
                false => saturating_usize(max_cells).clamp(LIMIT_BATCH_CELLS, MAX_UNIT_CELLS),
            };
        }
        // An estimate.
        let chunks = to_u64(self.chunks.len());
        let average = self.level.vertex_count().checked_div(chunks).unwrap_or(0).max(1);
        let bytes = average.saturating_mul(self.row_bytes());
        let cells = self.unit_bytes(purpose) / bytes;
        saturating_usize(cells).clamp(1, INDEX_BATCH_CELLS) // bounded
    }
}

/// Refinement of work units by their indexes, because counts in documents may be stale or missing.
impl Context {
    /// Splits `unit` into parts that fit in a work unit's share of the budget, or are a single
    /// chunk or object.
    async fn refine_unit(&self, unit: WorkUnit, purpose: Purpose) -> Result<Vec<(WorkUnit, u64)>> {
        let max_bytes = self.unit_bytes(purpose);
        match unit {
            WorkUnit::Chunks(places) => {
                let rows = self.extents(&self.keys(&places)).await;
                // An estimate; nothing is allocated.
                let bytes = rows.iter().map(|rows| rows.saturating_mul(self.row_bytes()));
                let parts = groups(&places, bytes, max_bytes);
                Ok(parts.map(|(part, bytes)| (WorkUnit::Chunks(part.to_vec()), bytes)).collect())
            }
            WorkUnit::Elements { works, whole } => {
                let chunk_counts = works.iter().map(|work| work.chunks.len());
                let places: Vec<u32> = works.iter().flat_map(|work| work.chunks.clone()).collect();
                let rows = self.extents(&self.keys(&places)).await;
                let mut rows = rows.iter();
                let work_rows: Vec<u64> =
                    chunk_counts.map(|n| total(rows.by_ref().take(n).copied())).collect();
                let row = self.element_row_bytes();
                // An estimate; nothing is allocated.
                let bytes = work_rows.iter().map(|rows| rows.saturating_mul(row));
                let unit = |part: &[Work]| WorkUnit::Elements { works: part.to_vec(), whole };
                let parts = groups(&works, bytes, max_bytes);
                Ok(parts.map(|(part, bytes)| (unit(part), bytes)).collect())
            }
            WorkUnit::Objects(rows) => self.split_objects(&rows, max_bytes).await,
        }
    }

    /// Splits objects into work units by the bytes to read from their chunks.
    async fn split_objects(&self, rows: &[u64], max_bytes: u64) -> Result<Vec<(WorkUnit, u64)>> {
        let index = self.index().await?;
        let at_once = self.objects_at_once(&index, rows, rows.len(), max_bytes).await?;
        let mut parts = Vec::new();
        for rows in rows.chunks(at_once) {
            let followed = self.follow(&index, rows).await?;
            self.split_followed(&followed, max_bytes, &mut parts)?;
        }
        Ok(parts)
    }

    /// Returns how many of `all` objects can be followed at once, so that their fragments and the
    /// fragment indexes of their chunks fit in `max_bytes`, estimated from the first of `rows`.
    async fn objects_at_once(
        &self,
        index: &ObjectIndex,
        rows: &[u64],
        all: usize,
        max_bytes: u64,
    ) -> Result<usize> {
        if all <= MAX_UNSAMPLED_OBJECTS {
            return Ok(all.max(1));
        }
        let first = rows.get(..FIRST_OBJECTS.len()).unwrap_or(rows);
        let followed = self.follow(index, first).await?;
        let per_object = |bytes: u64| bytes.div_ceil(to_u64(first.len())).max(1);
        let fits = |bytes: u64| saturating_usize(max_bytes / per_object(bytes)); // bounded below
        let runs: usize = followed.objects.iter().map(|object| object.runs.len()).sum();
        let by_runs = fits(to_u64(runs * size_of::<FragmentVisit>()));
        let sizes = followed.chunks.iter().map(|chunk| to_u64(chunk.blob().len()));
        let bytes: u64 = sizes.sum(); // of blobs in memory
        let chunks = to_u64(followed.chunks.len()).max(1);
        let whole = bytes.div_ceil(chunks).saturating_mul(to_u64(self.chunks.len())); // an estimate
        let by_indexes = if whole <= max_bytes { all } else { fits(bytes) };
        Ok(by_runs.min(by_indexes).clamp(1, all))
    }

    /// Splits followed objects, and adds the work units to `parts`.
    fn split_followed(
        &self,
        followed: &FollowedObjects,
        max_bytes: u64,
        parts: &mut Vec<(WorkUnit, u64)>,
    ) -> Result<()> {
        let mut reads = Reads::new(followed, self.row_bytes(), self.reads_ranges())?;
        let (mut now, mut bytes) = (Vec::new(), 0_u64);
        for object in &followed.objects {
            let more = reads.add(object);
            // Estimates, only compared.
            if bytes.saturating_add(more) > max_bytes && !now.is_empty() {
                parts.push((WorkUnit::Objects(std::mem::take(&mut now)), bytes));
                reads.of_chunks.clear();
                bytes = reads.add(object);
            } else {
                bytes = bytes.saturating_add(more);
            }
            now.push(object.row);
        }
        if !now.is_empty() {
            parts.push((WorkUnit::Objects(now), bytes));
        }
        Ok(())
    }

    /// Returns whether ranges of rows can be read from all columns of the answer.
    fn reads_ranges(&self) -> bool {
        let mut attributes = self.columns.vertex.iter().map(AttributeReader::part_cost);
        self.level.part_cost() == Partial::Ranges
            && attributes.all(|partial| partial == Partial::Ranges)
            && self.conditions.rows.is_empty()
    }

    /// Returns the bytes that a vertex and its elements take while they are processed.
    pub(super) fn element_row_bytes(&self) -> u64 {
        self.row_bytes().saturating_add(ELEMENT_OVERHEAD_BYTES) // judged, not allocated
    }

    /// Estimates the rows of each chunk; 0 for one whose fragments cannot be read.
    pub(super) async fn extents(&self, keys: &[ChunkKey]) -> Vec<u64> {
        let found = self.level.fragments(keys).await;
        found.into_iter().map(|found| found.map_or(0, |found| found.extent())).collect()
    }
}

/// Estimates the bytes to read from chunks for some objects: all of each chunk, or the fragments of
/// the objects if ranges of rows can be read. Nothing is allocated.
struct Reads<'a> {
    chunks: Vec<(FragmentIndex<'a>, Option<RankTable>, u64)>, // and the bytes of all rows
    row_bytes: u64,
    of_chunks: HashMap<usize, u64>,
}

impl<'a> Reads<'a> {
    fn new(followed: &'a FollowedObjects, row_bytes: u64, by_range: bool) -> Result<Self> {
        let mut chunks = Vec::with_capacity(followed.chunks.len());
        for chunk in &followed.chunks {
            let view = chunk.view();
            let ranks = by_range.then(|| RankTable::new(&view));
            let whole = chunk.extent().saturating_mul(row_bytes); // an estimate
            chunks.push((view, ranks, whole));
        }
        Ok(Self { chunks, row_bytes, of_chunks: HashMap::new() })
    }

    /// Returns the bytes for one more object.
    fn add(&mut self, object: &ObjectRuns) -> u64 {
        let mut bytes = 0_u64;
        for run in &object.runs {
            let (view, ranks, whole) = &self.chunks[run.chunk];
            let fragment = ranks.as_ref().map(|ranks| ranks.get(view, run.fragment));
            let fragment_bytes = fragment.map_or(*whole, |fragment| {
                let rows = fragment.map_or(0, |fragment| fragment.len());
                rows.saturating_mul(self.row_bytes).saturating_add(RANGE_OVERHEAD_BYTES)
            });
            let read = self.of_chunks.entry(run.chunk).or_default();
            let more = fragment_bytes.min(whole.saturating_sub(*read));
            *read += more;
            bytes = bytes.saturating_add(more);
        }
        bytes
    }
}

/// Returns the sum of the claims of fragment indexes, which may be any number; only compared with
/// limits.
fn total(claims: impl Iterator<Item = u64>) -> u64 {
    claims.fold(0, u64::saturating_add)
}

/// Bytes that a row and its elements take while they are processed, besides the stored bytes.
const ELEMENT_OVERHEAD_BYTES: u64 = 192;
/// Overhead of reading a range of rows, in bytes.
const RANGE_OVERHEAD_BYTES: u64 = 1 << 10;
/// Number of chunks of a stream whose indexes are read together.
pub(super) const INDEX_BATCH_CELLS: usize = 256;
/// Number of objects of a stream whose manifests are read together.
const MANIFEST_BATCH_OBJECTS: usize = 4096;
/// Maximum number of cells of a collected answer.
const MAX_ANSWER_CELLS: usize = 1_000_000;
/// Maximum number of objects that are read without searching for those near the region.
const MAX_UNSEARCHED_OBJECTS: u64 = 16;
/// The first objects of an index. From as many, the size of fragment indexes is estimated.
const FIRST_OBJECTS: [u64; 4] = [0, 1, 2, 3];
/// Up to this many objects, it is not estimated.
const MAX_UNSAMPLED_OBJECTS: usize = 64;
/// Maximum objects of a work unit.
const MAX_UNIT_OBJECTS: usize = 1 << 20;
/// Maximum number of cells of a collected work unit, whose keys and fragment indexes are in memory
/// at once.
const MAX_UNIT_CELLS: usize = 1 << 15;
/// Approximate bytes of the key and the fragment index of a cell.
const UNIT_CELL_BYTES: u64 = 1024;
/// Number of cells that are read at once for a small limit.
const LIMIT_BATCH_CELLS: usize = 16;
