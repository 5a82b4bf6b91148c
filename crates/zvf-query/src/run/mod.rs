//! Answering: a question that met its level, wave by wave.
//!
//! A wave is a piece of work that fits in memory: some chunks, or some objects. Collecting answers the
//! waves one after the other and joins them; streaming answers a few ahead of whoever takes them.

mod chains;
mod choose;
mod elements;
mod fetch;
mod groups;
mod join;
mod objects;
mod vertices;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::stream::{self, Stream, StreamExt as _};
use zvf_format::grid::{BoundingBox, ChunkRange};
use zvf_format::key::ChunkKey;
use zvf_model::{AttributeReader, Batch, Kind, ModelError, ObjectId};
use zvf_store::{Caching, KeyTable};

use crate::answer::{Answer, Figures, Missing, Plan};
use crate::error::QueryError;
use crate::num::{to_u64, to_usize, wide};
use crate::query::{Mode, Order, Query};
use crate::reader::Warm;
use crate::select::candidates::{self, candidates, chunks_of, everything};
pub(crate) use choose::choose;

/// A question that met its level.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) query: Query,
    pub(crate) warm: Arc<Warm>,
    pub(crate) kind: Kind,
    pub(crate) mode: Mode,
    pub(crate) fields: Vec<AttributeReader>,
    pub(crate) chunks: Arc<KeyTable>,
    /// The region's box, and the chunks it meets.
    pub(crate) reach: Option<(BoundingBox, ChunkRange)>,
    found: Found,
}

/// What comes to light on the way.
#[derive(Debug, Default)]
struct Found {
    missing: Mutex<Vec<Missing>>,
    unknown: Mutex<Vec<ObjectId>>,
    cells: AtomicU64,
    rows: AtomicU64,
}

/// Some work.
#[derive(Clone, Debug)]
pub(crate) enum Wave {
    /// Chunks, by their place in the table of the level.
    Chunks(Vec<u32>),
    /// Objects, by their row in the index, in the order of the answer.
    Objects(Vec<u64>),
    /// Link cells, and chunks whose vertices count.
    Elements(elements::Work),
}

/// What the waves are for, which decides how large they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Collect,
    Stream,
}

impl Context {
    pub(crate) async fn new(query: Query, warm: Arc<Warm>, kind: Kind) -> Result<Self, QueryError> {
        let mode = query.mode_for(kind);
        let fields = warm.columns(&query.columns).await?;
        let chunks = warm.level.chunks().await?;
        let reach = match &query.region {
            None => None,
            Some(region) => {
                let bbox = candidates::bounding_box(region.hull())?;
                let range = chunks_of(warm.level.chunk_shape(), warm.level.bins(), &bbox)?;
                Some((bbox, range))
            }
        };
        let found = Found::default();
        Ok(Self { query, warm, kind, mode, fields, chunks, reach, found })
    }

    /// The chunks that can matter, by their place in the table of the level.
    pub(crate) fn candidates(&self) -> Vec<u32> {
        match &self.reach {
            Some((_, range)) => candidates(&self.chunks, range),
            None => everything(&self.chunks),
        }
    }

    pub(crate) fn keys(&self, places: &[u32]) -> Vec<ChunkKey> {
        places.iter().filter_map(|place| self.chunks.get(wide(*place))).collect()
    }

    /// What the question will read.
    pub(crate) async fn plan(&self) -> Result<Plan, QueryError> {
        let candidates = self.candidates();
        let mut plan = Plan {
            level: self.warm.level.level(),
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
        for places in candidates.chunks(MOST_CELLS_OF_A_WAVE) {
            self.estimate(places, &mut plan).await?;
        }
        Ok(plan)
    }

    /// The answer to one wave, of which at most `limit` vertices count.
    pub(crate) async fn answer(&self, wave: &Wave, limit: usize) -> Result<Batch, QueryError> {
        match wave {
            Wave::Chunks(places) => self.vertices(places, limit).await,
            Wave::Objects(rows) => self.objects(rows, limit).await,
            Wave::Elements(work) => self.elements(work).await,
        }
    }

    /// Bytes of one vertex with what comes along.
    pub(crate) fn row_bytes(&self) -> u64 {
        let of = |size: u64, width: u64| size.saturating_mul(width);
        let level = &self.warm.level;
        let position = of(level.dtype().size, to_u64(level.axes()));
        let fields = self.fields.iter().map(|field| of(field.dtype().size, field.width().into()));
        fields.fold(position, u64::saturating_add).max(1)
    }

    /// What one wave may hold.
    pub(crate) fn wave_bytes(&self, purpose: Purpose) -> u64 {
        let budget = self.warm.level.store().budget().max_bytes();
        match purpose {
            Purpose::Collect => budget / 2,
            Purpose::Stream => budget / 16,
        }
    }

    /// Whether cells stay with the handle.
    pub(crate) fn caching(&self, bytes: u64) -> Caching {
        if self.query.uncached || self.reach.is_none() || bytes > MOST_BYTES_KEPT {
            Caching::Once
        } else {
            Caching::Keep
        }
    }

    /// Takes what was found; what is missing is noted and left out where the question allows it.
    pub(crate) fn sift<T>(&self, found: Result<T, ModelError>) -> Result<Option<T>, QueryError> {
        match found {
            Ok(found) => Ok(Some(found)),
            Err(error) => match (error.class(), error.array(), error.chunk()) {
                (zvf_format::Class::NotFound, Some(array), Some(chunk))
                    if self.query.allow_missing =>
                {
                    let one = Missing { array: array.to_owned(), chunk: *chunk };
                    let mut missing = self.missing();
                    if !missing.contains(&one) {
                        missing.push(one);
                    }
                    Ok(None)
                }
                _ => Err(error.into()),
            },
        }
    }

    fn missing(&self) -> std::sync::MutexGuard<'_, Vec<Missing>> {
        self.found.missing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unknown(&self) -> std::sync::MutexGuard<'_, Vec<ObjectId>> {
        self.found.unknown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note_unknown(&self, id: ObjectId) {
        let mut unknown = self.unknown();
        if !unknown.contains(&id) {
            unknown.push(id);
        }
    }

    pub(crate) fn count(&self, cells: usize, rows: u64) {
        self.found.cells.fetch_add(to_u64(cells), Ordering::Relaxed);
        self.found.rows.fetch_add(rows, Ordering::Relaxed);
    }
}

/// The waves of a question.
pub(crate) async fn waves(context: &Context, purpose: Purpose) -> Result<Vec<Wave>, QueryError> {
    if context.goes_by_objects() {
        return context.object_waves(purpose).await;
    }
    if context.kind.has_links() {
        return context.element_waves(purpose).await;
    }
    let candidates = context.candidates();
    if purpose == Purpose::Collect && candidates.len() > MOST_CELLS {
        let found = to_u64(candidates.len());
        return Err(QueryError::limit("cells of an answer", to_u64(MOST_CELLS), found));
    }
    let cells = context.cells_of_a_wave(purpose);
    Ok(candidates.chunks(cells).map(|places| Wave::Chunks(places.to_vec())).collect())
}

impl Context {
    /// Whether the answer is put together object by object.
    fn goes_by_objects(&self) -> bool {
        let asked = self.query.objects.is_some() || self.query.groups.is_some();
        match self.query.order {
            _ if self.kind.has_links() => false,
            Some(Order::Storage) => false,
            _ if self.kind.is_chain() => true,
            Some(Order::Objects) => true,
            None => asked,
        }
    }

    async fn element_waves(&self, purpose: Purpose) -> Result<Vec<Wave>, QueryError> {
        let mut chunks = self.candidates();
        if let Some(rows) = self.asked_rows().await? {
            let index = self.index().await?;
            let followed = self.warm.level.follow(&index, &rows).await?;
            let places = followed.chunks.iter().filter_map(|one| self.chunks.find(one.chunk()));
            let own: Vec<u32> = places.map(|place| crate::num::narrow(to_u64(place))).collect();
            chunks.retain(|place| own.binary_search(place).is_ok());
        }
        let cells = match self.family().await? {
            Some(family) => self.link_cells(&family, &chunks).await?,
            None => Vec::new(),
        };
        if purpose == Purpose::Collect {
            return Ok(vec![Wave::Elements(elements::Work { chunks, cells })]);
        }
        self.split(chunks, cells).await
    }

    /// Parts of the work by the source of its cells, so that each element comes once.
    async fn split(
        &self,
        chunks: Vec<u32>,
        cells: Vec<(usize, usize)>,
    ) -> Result<Vec<Wave>, QueryError> {
        let Some(family) = self.family().await? else {
            let each = self.cells_of_a_wave(Purpose::Stream);
            let work =
                |chunks: &[u32]| elements::Work { chunks: chunks.to_vec(), cells: Vec::new() };
            return Ok(chunks.chunks(each).map(|chunks| Wave::Elements(work(chunks))).collect());
        };
        let mut by_source: std::collections::BTreeMap<u32, elements::Work> = Default::default();
        for place in chunks {
            by_source.entry(place).or_default().chunks.push(place);
        }
        for (number, segment) in family.segments().iter().enumerate() {
            let listed = segment.cells().await?;
            for (_, place) in cells.iter().filter(|(one, _)| *one == number) {
                let source =
                    listed.source(*place).or_else(|| listed.chunks(*place).ok()?.first().copied());
                let source = source.and_then(|source| self.chunks.find(&source));
                let source = source.map_or(u32::MAX, |source| crate::num::narrow(to_u64(source)));
                by_source.entry(source).or_default().cells.push((number, *place));
            }
        }
        let each = self.cells_of_a_wave(Purpose::Stream);
        let all: Vec<elements::Work> = by_source.into_values().collect();
        let joined = all.chunks(each).map(|works| {
            let mut one = elements::Work::default();
            for work in works {
                one.chunks.extend_from_slice(&work.chunks);
                one.cells.extend_from_slice(&work.cells);
            }
            one.cells.sort_unstable();
            Wave::Elements(one)
        });
        Ok(joined.collect())
    }

    async fn object_waves(&self, purpose: Purpose) -> Result<Vec<Wave>, QueryError> {
        let Some(index) = self.warm.level.objects().await? else {
            // Chains without an index are no objects at all: a store of zero lines has none.
            let asked = self.query.objects.is_some() || self.query.groups.is_some();
            return if asked || !self.chunks.is_empty() {
                Err(crate::error::BadQuery::NoObjects.into())
            } else {
                Ok(Vec::new())
            };
        };
        let asked = self.asked_rows().await?;
        let rows = match (asked, &self.reach) {
            (Some(rows), _) if to_u64(rows.len()) < FEW_OBJECTS => rows,
            (Some(rows), None) => rows,
            (None, None) => (0..index.slots()).collect(),
            (asked, Some((_, range))) => {
                let near = self.near_region(&index, range).await?;
                match asked {
                    None => near,
                    Some(mut rows) => {
                        rows.retain(|row| near.binary_search(row).is_ok());
                        rows
                    }
                }
            }
        };
        let meta = self.warm.level.node().meta();
        let vertices = u64::try_from(meta.vertex_count).unwrap_or(0);
        let average = vertices.checked_div(index.slots()).unwrap_or(0).max(1);
        let bytes = average.saturating_mul(self.row_bytes());
        let objects = to_usize(self.wave_bytes(purpose).checked_div(bytes).unwrap_or(1));
        let objects = match self.query.limit {
            Some(limit) if purpose == Purpose::Collect => {
                objects.min(to_usize(limit.checked_div(average).unwrap_or(1).saturating_add(1)))
            }
            _ => objects,
        };
        Ok(rows
            .chunks(objects.clamp(1, MOST_OBJECTS_OF_A_WAVE))
            .map(|rows| Wave::Objects(rows.to_vec()))
            .collect())
    }
}

impl Context {
    /// How many chunks a wave has, by what an average chunk of the level holds.
    fn cells_of_a_wave(&self, purpose: Purpose) -> usize {
        if purpose == Purpose::Collect && self.query.limit.is_some_and(|limit| limit < 100_000) {
            return CELLS_FOR_A_LIMIT;
        }
        let meta = self.warm.level.node().meta();
        let rows = u64::try_from(meta.vertex_count).unwrap_or(0);
        let average = rows.checked_div(to_u64(self.chunks.len())).unwrap_or(0).max(1);
        let bytes = average.saturating_mul(self.row_bytes());
        let cells = self.wave_bytes(purpose).checked_div(bytes).unwrap_or(1);
        to_usize(cells).clamp(1, MOST_CELLS_OF_A_WAVE)
    }
}

/// All waves, one after the other, as one answer.
pub(crate) async fn collect(context: &Context) -> Result<Answer, QueryError> {
    let waves = waves(context, Purpose::Collect).await?;
    let most = context.query.limit.map_or(usize::MAX, to_usize);
    let (mut batches, mut rows, mut bytes) = (Vec::with_capacity(waves.len()), 0_usize, 0_u64);
    let mut truncated = false;
    for wave in &waves {
        // One more than the limit tells whether something was cut off.
        let left = most.saturating_sub(rows);
        let batch = context.answer(wave, left.saturating_add(1)).await?;
        let batch = if batch.len() > left {
            truncated = true;
            join::cut(&batch, left)?
        } else {
            batch
        };
        rows = rows.saturating_add(batch.len());
        bytes = bytes.saturating_add(join::weight(&batch));
        check_caps(to_u64(rows), bytes)?;
        batches.push(batch);
        if truncated {
            break;
        }
    }
    let batch = join::joined(context, batches)?;
    let missing = std::mem::take(&mut *context.missing());
    let figures = Figures {
        cells: context.found.cells.load(Ordering::Relaxed),
        rows: context.found.rows.load(Ordering::Relaxed),
        ..Figures::default()
    };
    Ok(Answer {
        batch,
        level: context.warm.level.level(),
        complete: missing.is_empty() && !truncated,
        truncated,
        missing,
        unknown_objects: std::mem::take(&mut *context.unknown()),
        notices: context.warm.level.store().notices(),
        figures,
    })
}

fn check_caps(rows: u64, bytes: u64) -> Result<(), QueryError> {
    if rows > MOST_ROWS {
        return Err(QueryError::limit("rows of an answer", MOST_ROWS, rows));
    }
    if bytes > MOST_BYTES {
        return Err(QueryError::limit("bytes of an answer", MOST_BYTES, bytes));
    }
    Ok(())
}

/// The waves answered in order, some ahead.
pub(crate) fn batches(
    context: Arc<Context>,
    waves: Vec<Wave>,
) -> impl Stream<Item = Result<Batch, QueryError>> + Send {
    let most = context.query.limit.map_or(usize::MAX, to_usize);
    let answers = stream::iter(waves).map(move |wave| {
        let context = Arc::clone(&context);
        async move { context.answer(&wave, most).await }
    });
    let mut left = most;
    answers.buffered(AHEAD).map(move |batch| {
        let batch = batch?;
        let batch = if batch.len() > left { join::cut(&batch, left)? } else { batch };
        left = left.saturating_sub(batch.len());
        Ok(batch)
    })
}

/// Waves that are answered ahead of whoever takes them.
const AHEAD: usize = 3;
/// Cells of a collected answer.
const MOST_CELLS: usize = 1_000_000;
/// Rows of a collected answer.
const MOST_ROWS: u64 = 100_000_000;
/// Bytes of a collected answer.
const MOST_BYTES: u64 = 4 << 30;
/// Cells that one wave may have: their keys and indexes are held at once.
const MOST_CELLS_OF_A_WAVE: usize = 8192;
/// So few objects are read rather than looked for.
const FEW_OBJECTS: u64 = 16;
/// Objects that one wave may have.
const MOST_OBJECTS_OF_A_WAVE: usize = 1 << 20;
/// Cells that are tried at once when only a few rows are wanted.
const CELLS_FOR_A_LIMIT: usize = 16;
/// Cells stay with the handle only where a question reads no more than this.
const MOST_BYTES_KEPT: u64 = 16 << 20;
