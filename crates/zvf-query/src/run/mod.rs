//! Execution of a query on one level, work unit by work unit.
//!
//! A work unit fits in memory: some chunks, or some objects. Collecting computes the work units one
//! after the other and joins them; streaming prefetches a few.

mod chains;
mod columns;
mod conditions;
mod elements;
mod execute;
mod fetch;
mod join;
mod joined_columns;
mod levels;
mod numbered;
mod object_selection;
mod objects;
mod plausible;
mod ranges;
mod rows;
mod runner;
mod sinks;
mod statistics;
mod stream;
mod vertices;
mod work_units;
mod yielding;

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::join;
use tokio::sync::OnceCell;
use zvf_error::{Error, Result};
use zvf_format::grid::{BoundingBox, ChunkRange};
use zvf_format::key::{ChunkKey, Delta};
use zvf_format::num::{index_u32, to_u64, usize_from_u32};
use zvf_format::{Class, FormatError};
use zvf_model::{Kind, LinkFamily, ObjectId};
use zvf_store::{Caching, KeyTable, Notice};

use crate::answer::{Missing, QueryPlan};
use crate::level_cache::LevelCache;
use crate::mode::Mode;
use crate::query::{Columns, Query};
use crate::region::Region;
use crate::select::candidates::{self, all_chunks, chunk_range_of_box, chunks_in_range};
pub(crate) use levels::contexts;
pub(crate) use numbered::run_numbered;
pub use numbered::{NumberedAnswer, NumberedPart};
pub(crate) use sinks::{collect_all, count};
pub(crate) use statistics::statistics;
pub(crate) use stream::stream;
use work_units::{INDEX_BATCH_CELLS, Units};

/// The state of a query on one level.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) query: Query,
    pub(crate) level: Arc<LevelCache>,
    pub(crate) kind: Kind,
    pub(crate) mode: Mode,
    columns: columns::AnswerColumns,
    conditions: conditions::Conditions,
    named_objects: OnceCell<Option<object_selection::NamedObjects>>,
    /// Whether objects and groups that this level lacks may be in another level of the answer.
    lenient: bool,
    /// Vertices per element of the answer; 0 if the kind has no elements.
    element_width: usize,
    pub(crate) chunks: Arc<KeyTable>,
    /// The bounding box of the region and of the conditions on axes, and the chunks that intersect
    /// both; `None` without either.
    pub(crate) reach: Option<(BoundingBox, ChunkRange)>,
    findings: Findings,
    /// Approximate bytes that were processed since the query last yielded.
    since_yield: AtomicU64,
}

/// Counts and missing items that are recorded while the query runs.
#[derive(Debug, Default)]
struct Findings {
    missing: Mutex<Distinct<Missing>>,
    unknown: Mutex<Distinct<ObjectId>>,
    cells: AtomicU64,
    rows: AtomicU64,
}

/// A list in the order of discovery, each item once.
#[derive(Debug)]
struct Distinct<T> {
    list: Vec<T>,
    seen: HashSet<T>,
}

impl<T> Default for Distinct<T> {
    fn default() -> Self {
        Self { list: Vec::new(), seen: HashSet::new() }
    }
}

impl<T: Clone + Eq + Hash> Distinct<T> {
    fn push(&mut self, item: T) {
        if self.seen.insert(item.clone()) {
            self.list.push(item);
        }
    }
}

/// A unit of work.
#[derive(Clone)]
pub(crate) enum WorkUnit {
    /// Chunks, by their position in the table of the level.
    Chunks(Vec<u32>),
    /// Objects, by their row in the index, in the order of the answer.
    Objects(Vec<u64>),
    /// Link cells, and chunks whose vertices count: in pieces, to be merged as memory allows, or
    /// all of them.
    Elements { works: Vec<elements::Work>, whole: bool },
}

/// The purpose of work units, which determines their size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Purpose {
    /// Their answers are kept and joined.
    Collect,
    /// They are answered one after the other, and no answer is kept.
    Each,
    /// Several are in progress.
    Stream,
}

impl Context {
    pub(crate) async fn new(
        query: Query,
        cache: Arc<LevelCache>,
        kind: Kind,
        lenient: bool,
    ) -> Result<Self> {
        let mode = query.mode_for(kind);
        let node = cache.node();
        if node.meta().stale().is_some() {
            cache.store().add_notice(Notice::StaleLevel { key: node.path().clone() });
        }
        let reach = match &query.region {
            None => None,
            Some(region) => {
                let bbox = candidates::bounding_box(region.hull())?;
                // In the mode for whole cells, the chunks that intersect the region are the answer
                // itself.
                let search_box =
                    if mode == Mode::Cells { bbox } else { widen_for_bins(&cache, &bbox)? };
                let range = chunk_range_of_box(cache.chunk_shape(), cache.bins(), &search_box)?;
                Some((bbox, range))
            }
        };
        let chunks = match &reach {
            Some((_, range)) => cache.chunks_in(range).await?,
            None => cache.chunks().await?,
        };
        let mut places = match &reach {
            Some((_, range)) => chunks_in_range(&chunks, range),
            None => (0..index_u32(chunks.len().min(INDEX_BATCH_CELLS))).collect(),
        };
        places.truncate(INDEX_BATCH_CELLS);
        let keys = places.iter().filter_map(|place| chunks.get(usize_from_u32(*place)));
        let mut keys: Vec<ChunkKey> = keys.collect();
        let near = keys.first().copied();
        let near = near.as_ref();
        // Opening columns takes round trips. Meanwhile, fragments are read if the answer needs
        // those of all chunks.
        if query.columns == Columns::None
            || query.limit.is_some()
            || query.filter.is_some()
            || query.objects.is_some()
            || query.groups.is_some()
            || query.names_chunks()
        {
            keys.clear();
        }
        let columns = columns::AnswerColumns::new(&query.columns, &cache, kind, near);
        let (columns, _) = join!(columns, cache.fragments(&keys));
        let columns = columns?;
        let predicate = query.filter.as_ref();
        let conditions = conditions::Conditions::new(predicate, &cache, near).await?;
        if !conditions.links.is_empty() {
            columns::check_links(kind)?;
        }
        let reach = match &conditions.bounds {
            None => reach,
            Some(bounds) => Some(narrow_reach(reach, bounds, query.region.as_ref(), &cache)?),
        };
        let element_width = match kind.has_links() {
            false => 0,
            true if mode == Mode::Clip && kind == Kind::Mesh => 3,
            true => {
                let family = cache.links(Delta::SAME).await?;
                family.as_ref().map_or(2, LinkFamily::link_width)
            }
        };
        let (named_objects, findings) = (OnceCell::new(), Findings::default());
        for stray in cache.stray_fragments().await? {
            let key = stray.chunk();
            if reach.as_ref().is_some_and(|(_, range)| !range.contains(key)) {
                continue;
            }
            if query.allow_missing {
                let array = cache.node().path().to_string() + "/vertices";
                lock(&findings.missing).push(Missing { array, chunk: *key });
            } else {
                stray.check_rows(0)?; // names the chunk
            }
        }
        let context = Self {
            query,
            level: cache,
            kind,
            mode,
            columns,
            conditions,
            named_objects,
            lenient,
            element_width,
            chunks,
            reach,
            findings,
            since_yield: AtomicU64::default(),
        };
        context.check_pairs()?;
        Ok(context)
    }

    /// Refuses edges that do not have two ends, if each has a child and a parent or the order of
    /// rows implies edges.
    fn check_pairs(&self) -> Result<()> {
        let are_pairs = self.kind == Kind::Skeleton || self.follows_rows();
        if !are_pairs || self.element_width == 2 {
            return Ok(());
        }
        let error = Error::new(Class::BadShape, "link_width of edges", 2, self.element_width);
        Err(error.at_array(self.level.node().path()))
    }

    /// Returns the chunks that can contribute, by their position in the table of the level.
    pub(crate) fn candidates(&self) -> Vec<u32> {
        let mut places = match &self.reach {
            Some((_, range)) => chunks_in_range(&self.chunks, range),
            None => all_chunks(&self.chunks),
        };
        let (first, end) = (&self.query.first_chunk, &self.query.end_chunk);
        let place = |key: &ChunkKey| index_u32(self.chunks.lower_bound(key.components()));
        if let Some(end) = end {
            let end = place(end);
            places.truncate(places.partition_point(|place| *place < end));
        }
        if let Some(first) = first {
            let first = place(first);
            places.drain(..places.partition_point(|place| *place < first));
        }
        if self.level.bin_attribute().is_some() {
            let key = |place: &u32| self.chunks.row(usize_from_u32(*place));
            places.retain(|place| key(place).is_none_or(|key| !self.conditions.reject_chunk(key)));
        }
        places
    }

    /// Returns the keys of the chunks that can contribute, restricted to selected objects.
    pub(crate) async fn selected_chunks(&self) -> Result<Vec<ChunkKey>> {
        Ok(self.keys(&self.filter_places(self.candidates()).await?))
    }

    /// Returns the keys of the chunks at `places`.
    pub(crate) fn keys(&self, places: &[u32]) -> Vec<ChunkKey> {
        places.iter().filter_map(|place| self.chunks.get(usize_from_u32(*place))).collect()
    }

    /// Plans the query.
    pub(crate) async fn plan(&self) -> Result<QueryPlan> {
        let candidates = self.filter_places(self.candidates()).await?;
        let mut plan = QueryPlan {
            level: self.level.level(),
            kind: self.kind,
            mode: self.query.region.as_ref().map(|_| self.mode),
            chunks: to_u64(self.chunks.len()),
            cells: to_u64(candidates.len()),
            rows_before: 0,
            rows: 0,
            objects: None,
            requests: 0,
            bytes: 0,
        };
        for places in candidates.chunks(PLAN_BATCH_CELLS) {
            self.estimate(places, &mut plan).await?;
        }
        Ok(plan)
    }

    /// Answers one work unit, up to `limit` vertices; some of the elements with their identities, if `with_keys`.
    async fn answer(
        self: &Arc<Self>,
        work: &WorkUnit,
        limit: usize,
        with_keys: bool,
    ) -> Result<elements::Answered> {
        let batch = match work {
            WorkUnit::Chunks(places) => self.vertices(places, limit).await?,
            WorkUnit::Objects(rows) => self.objects(rows, limit).await?,
            WorkUnit::Elements { works, whole } => {
                let work = elements::Work::merge(works);
                return self.elements(&work, with_keys && !whole).await;
            }
        };
        Ok(elements::Answered { batch, keys: None })
    }

    /// Returns the bytes of one vertex with its columns.
    fn row_bytes(&self) -> u64 {
        self.columns.row_bytes(&self.level).max(1)
    }

    /// Returns the maximum size of one work unit.
    fn unit_bytes(&self, purpose: Purpose) -> u64 {
        let budget = self.level.store().budget().max_bytes();
        match purpose {
            Purpose::Collect => budget / 2,
            // Several work units are in progress. With links, a work unit takes several times the
            // bytes of its vertices.
            _ if self.kind.has_links() => (budget / 40).min(MAX_STREAM_UNIT_BYTES),
            Purpose::Each | Purpose::Stream => (budget / 16).min(MAX_STREAM_UNIT_BYTES),
        }
    }

    /// Returns whether cells are cached.
    fn caching(&self, bytes: u64) -> Caching {
        let is_bounded = self.reach.is_some() || self.query.names_chunks();
        if self.query.uncached || !is_bounded || bytes > MAX_CACHED_BYTES {
            Caching::Once
        } else {
            Caching::Keep
        }
    }

    /// Returns `found`; a missing cell is recorded and left out if the query allows it.
    pub(crate) fn allow_missing<T>(&self, found: Result<T>) -> Result<Option<T>> {
        match found {
            Ok(found) => Ok(Some(found)),
            Err(error) if self.note_missing(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns whether `error` is a missing cell that the query allows; if so, records it.
    fn note_missing(&self, error: &Error) -> bool {
        match (error.class(), error.array(), error.chunk()) {
            (Class::NotFound, Some(array), Some(chunk)) if self.query.allow_missing => {
                lock(&self.findings.missing)
                    .push(Missing { array: array.to_owned(), chunk: *chunk });
                true
            }
            _ => false,
        }
    }

    /// Refuses an answer with more rows or bytes than a collected one may have.
    fn check_caps(&self, rows: u64, bytes: u64) -> Result<()> {
        if rows > MAX_ROWS {
            return Err(Error::limit("rows of an answer", MAX_ROWS, rows));
        }
        let max_bytes = self.query.limit_bytes.map_or(MAX_BYTES, |max| max.min(MAX_BYTES));
        if bytes > max_bytes {
            return Err(Error::limit("bytes of an answer", max_bytes, bytes));
        }
        Ok(())
    }

    pub(crate) fn count(&self, cells: usize, rows: u64) {
        self.findings.cells.fetch_add(to_u64(cells), Ordering::Relaxed);
        self.findings.rows.fetch_add(rows, Ordering::Relaxed);
    }
}

/// Locks findings; a panic leaves them consistent.
fn lock<T>(found: &Mutex<T>) -> MutexGuard<'_, T> {
    found.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns each of some numbers once, in order.
fn distinct(numbers: impl IntoIterator<Item = u64>) -> Vec<u64> {
    let mut all: Vec<u64> = numbers.into_iter().collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Returns the box whose chunks are searched for geometry in `bbox`.
///
/// Some writers put the vertices of coarse levels into the chunk of one of the points that they
/// represent: up to a bin away, even if a bin is larger than a chunk. For coarse levels the box is
/// widened by that; they have few chunks. In the full data, a vertex outside its chunk is a fault
/// that validation reports; searching for it would mean reading the neighbours of every box.
fn widen_for_bins(cache: &LevelCache, bbox: &BoundingBox) -> Result<BoundingBox, FormatError> {
    let (Some(sizes), 1..) = (cache.bin_shape(), cache.level().0) else {
        return Ok(*bbox);
    };
    let low: Vec<f64> = bbox.low().iter().zip(sizes).map(|(x, bin)| x - bin).collect();
    let high: Vec<f64> = bbox.high().iter().zip(sizes).map(|(x, bin)| x + bin).collect();
    BoundingBox::new(&low, &high)
}

/// Returns the bounding box and chunks for a query with such a region, if conditions retain only
/// rows within `bounds`.
///
/// Chunks must intersect the region and the bounds separately: in the mode for whole cells, the
/// answer need not lie in both.
fn narrow_reach(
    reach: Option<(BoundingBox, ChunkRange)>,
    bounds: &[(f64, f64)],
    region: Option<&Region>,
    cache: &LevelCache,
) -> Result<(BoundingBox, ChunkRange)> {
    let chunks = |bbox: &BoundingBox| {
        chunk_range_of_box(cache.chunk_shape(), cache.bins(), &widen_for_bins(cache, bbox)?)
    };
    let low: Vec<f64> = bounds.iter().map(|(low, _)| *low).collect();
    let high: Vec<f64> = bounds.iter().map(|(_, high)| *high).collect();
    // Each side separately: if conditions contradict each other, the low side is above the high
    // one.
    let above = BoundingBox::new(&low, &vec![f64::INFINITY; low.len()])?;
    let below = BoundingBox::new(&vec![f64::NEG_INFINITY; high.len()], &high)?;
    let mut range = chunks(&above)?.intersection(&chunks(&below)?)?;
    let mut bbox = BoundingBox::new(&low, &high).unwrap_or(above);
    if let Some((reach_box, chunks)) = reach {
        range = range.intersection(&chunks)?;
        bbox = reach_box;
    }
    if let Some(region) = region {
        let hull = region.hull();
        let low: Vec<f64> = hull.low().iter().zip(&low).map(|(a, b)| a.max(*b)).collect();
        let high: Vec<f64> = hull.high().iter().zip(&high).map(|(a, b)| a.min(*b)).collect();
        // A region outside the bounds does not intersect them, and no vertex is in the answer.
        bbox = BoundingBox::new(&low, &high).unwrap_or(bbox);
    }
    Ok((bbox, range))
}

/// Maximum rows of a collected answer.
const MAX_ROWS: u64 = 100_000_000;
/// Maximum bytes of a collected answer.
const MAX_BYTES: u64 = 4 << 30;
/// Maximum bytes of a streamed work unit: larger ones are no faster, and several are in progress.
const MAX_STREAM_UNIT_BYTES: u64 = 4 << 20;
/// Number of cells whose indexes are read at once for a plan.
const PLAN_BATCH_CELLS: usize = 1 << 13;
/// Maximum bytes of a query whose cells are cached with the handle.
const MAX_CACHED_BYTES: u64 = 16 << 20;
