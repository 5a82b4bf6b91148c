//! Vertices in a region, or all of them: chunks, their fragments, the rows of these.
//!
//! ```text
//! keys of chunks  ->  fragment indexes  ->  runs of rows, pruned by bins
//!                 ->  positions         ->  rows in the region
//!                 ->  columns           ->  gathered
//! ```
//!
//! Each arrow is one batch of reads for all chunks of the work unit.

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::join;
use rayon::prelude::*;
use zvf_error::{Error, Locate as _, Result};
use zvf_format::key::ChunkKey;
use zvf_format::num::{index_u32, saturating_usize, to_u64, usize_from_u32};
use zvf_model::{AttributeReader, Batch, Column, LevelId, Parts};
use zvf_store::Caching;

use super::fetch::{Need, RowSource};
use super::object_selection::is_owned;
use super::runner::Runner;
use super::{Context, MAX_BYTES, MAX_ROWS, Purpose};
use crate::answer::Plan;
use crate::mode::Mode;
use crate::select::inside::{Test, count_tested_bytes};
use crate::select::loaded_rows::LoadedRows;
use crate::select::pieces::{ColumnAssembler, Piece, Pieces, coalesce_ranges};
use crate::select::runs::{ROWS_END, Runs, list_runs};

/// One chunk and the rows of it that can matter.
#[derive(Clone, Debug)]
pub(crate) struct Chunk {
    pub(crate) key: ChunkKey,
    pub(crate) runs: Runs,
    /// About how many rows it has: as many as the fragments reach.
    pub(crate) rows: u64,
}

impl Chunk {
    /// Refuses a fragment that names a row past the `rows` that the chunk has.
    pub(crate) fn check_rows(&self, rows: u64) -> Result<()> {
        check_end(&self.key, self.runs.end(), rows)
    }

    /// Returns all its rows that can matter, as pieces of chunk `cell`.
    fn pieces(&self, cell: u32) -> Pieces {
        let mut pieces = Pieces::default();
        for run in &self.runs.list {
            let (start, len, fragment) = (run.start, run.len, run.fragment);
            pieces.push(Piece { cell, start, len, fragment });
        }
        pieces
    }
}

/// Refuses rows of the fragments of a chunk that end past the `rows` that it has.
pub(crate) fn check_end(key: &ChunkKey, end: u64, rows: u64) -> Result<()> {
    use zvf_format::{Class, Expected};
    if end <= rows {
        return Ok(());
    }
    let error = Error::new(Class::OutOfBounds, ROWS_END, Expected::AtMost(rows.into()), end);
    Err(error.at_chunk(key))
}

impl Context {
    /// Answers with the vertices of the chunks at `places`, up to `limit`.
    pub(super) async fn vertices(self: &Arc<Self>, places: &[u32], limit: usize) -> Result<Batch> {
        let chunks = self.read_runs(places).await?;
        let keys: Vec<ChunkKey> = chunks.iter().map(|chunk| chunk.key).collect();
        let asked = count_rows(&chunks);
        let caching = self.caching(asked.saturating_mul(self.row_bytes())); // only compared with a cap
        let batch_bytes = match self.cache.level.store().is_remote() {
            true => READ_BATCH_BYTES,
            false => FILE_READ_BATCH_BYTES,
        };
        // Those that are prefetched, and the one whose rows are copied.
        let max_bytes = self.unit_bytes(Purpose::Collect) / (to_u64(PREFETCH_GROUPS) + 1);
        let max_bytes = max_bytes.min(batch_bytes);
        let groups: Vec<&[Chunk]> = group_chunks(&chunks, self.row_bytes(), max_bytes).collect();
        if groups.is_empty() {
            return self.empty();
        }
        if groups.len() == 1 {
            let (pieces, positions, columns) = self.read_rows(&chunks, limit, caching).await?;
            let batch = self.gather_rows(&pieces, &positions, &columns)?;
            return self.join_columns(batch, &keys, &pieces.list, None).await;
        }
        // The claims of fragments are not verified yet.
        let max_rows = asked.min(MAX_ROWS).min(MAX_BYTES / self.row_bytes());
        let max_rows = saturating_usize(max_rows).min(limit);
        let level = &self.cache.level;
        let width = self.position_width();
        let mut positions = ColumnAssembler::new(level.dtype(), width, max_rows)?;
        let new =
            |field: &AttributeReader| ColumnAssembler::new(field.dtype(), field.width(), max_rows);
        let mut columns = self.columns.vertex.iter().map(new).collect::<Result<Vec<_>, _>>()?;
        let (mut pieces, mut first) = (Pieces::default(), 0_u32);
        // Groups are read while the rows of those before them are copied.
        let runner = Runner::for_store(level.store().is_remote());
        let ahead = if limit == usize::MAX { PREFETCH_GROUPS } else { 1 };
        let (mut groups, mut reading) = (groups.into_iter(), VecDeque::with_capacity(ahead));
        loop {
            let remaining = limit - pieces.rows;
            while reading.len() < ahead && remaining > 0 {
                let Some(chunks) = groups.next().map(<[Chunk]>::to_vec) else { break };
                let context = Arc::clone(self);
                reading.push_back(runner.run(async move {
                    let rows = context.read_rows(&chunks, remaining, caching).await?;
                    Ok::<_, Error>((chunks.len(), rows))
                }));
            }
            let Some(mut group) = reading.pop_front() else { break };
            let (chunk_count, (more, loaded, held_columns)) = group.finish().await??;
            let found = to_u64(pieces.rows + more.rows); // each was compared with the cap
            self.check_caps(found, found.saturating_mul(self.row_bytes()))?;
            positions.add(&more, &loaded)?;
            for (column, loaded) in columns.iter_mut().zip(&held_columns) {
                column.add(&more, loaded)?;
            }
            pieces.extend_from(more, first);
            first += index_u32(chunk_count);
        }
        let mut batch = Batch::new(self.kind, positions.finish()?);
        for (field, column) in self.columns.vertex.iter().zip(columns) {
            batch = batch.with_field(field.field(column.finish()?))?;
        }
        self.join_columns(batch, &keys, &pieces.list, None).await
    }

    /// Returns the chunks at `places` with the rows of them that can matter.
    pub(crate) async fn read_runs(&self, places: &[u32]) -> Result<Vec<Chunk>> {
        let keys = self.keys(places);
        let level = &self.cache.level;
        let (found, ()) = join!(level.fragments(&keys), level.locate_positions(&keys));
        let mut indexes = Vec::with_capacity(keys.len());
        for (key, fragments) in keys.into_iter().zip(found) {
            if let Some(fragments) = self.allow_missing(fragments)? {
                indexes.push((key, fragments));
            }
        }
        let by_bins = self.fragments_are_bins();
        let tell = self.needs_fragments();
        let present_keys: Vec<ChunkKey> = indexes.iter().map(|(key, _)| *key).collect();
        let asked = self.find_owners(&present_keys).await?;
        let chunk = |(at, (key, fragments)): (usize, &(ChunkKey, zvf_model::ChunkFragments))| {
            let view = fragments.view();
            let bins = match (&self.reach, self.cache.level.bins()) {
                (Some((bbox, _)), Some(bins)) if by_bins && view.len() == bins.count() => {
                    Some(bins.bins_meeting(bbox, key)?)
                }
                _ => None,
            };
            let extent = fragments.extent();
            let mut runs = list_runs(&view, extent, bins.as_ref(), tell).at_chunk(key)?;
            if let Some(asked) = &asked {
                runs.retain(|fragment| is_owned(&asked[at], fragment));
            }
            Ok::<_, Error>(Chunk { key: *key, runs, rows: extent })
        };
        let bytes: usize = indexes.iter().map(|(_, fragments)| fragments.blob().len()).sum();
        if bytes > MIN_THREAD_BYTES {
            indexes.par_iter().enumerate().map(chunk).collect()
        } else {
            indexes.iter().enumerate().map(chunk).collect()
        }
    }

    /// Returns whether the fragments of a chunk are its bins, where there are as many: only in the full data of
    /// points without objects.
    fn fragments_are_bins(&self) -> bool {
        let meta = self.cache.level.node().meta();
        let full = self.cache.level.level() == LevelId(0) && meta.parent_level.is_none();
        full && !self.cache.has_objects && !meta.shared_fragments && self.mode != Mode::Cells
    }

    /// Reads the selected rows of `chunks`, up to `limit`, with their positions and columns.
    async fn read_rows(
        &self,
        chunks: &[Chunk],
        limit: usize,
        caching: Caching,
    ) -> Result<(Pieces, Vec<LoadedRows>, Vec<Vec<LoadedRows>>)> {
        let keys: Vec<ChunkKey> = chunks.iter().map(|chunk| chunk.key).collect();
        let rows: Vec<u64> = chunks.iter().map(|chunk| chunk.rows).collect();
        self.count(chunks.len(), count_rows(chunks));
        let by_values = self.read_by_values(chunks, &keys, &rows, caching).await?;
        let (mut pieces, positions) = match by_values {
            Some(found) => found,
            None => self.read_by_positions(chunks, &keys, &rows, caching).await?,
        };
        pieces.truncate(limit);
        let found = to_u64(pieces.rows);
        // Compared with a cap.
        self.check_caps(found, found.saturating_mul(self.row_bytes()))?;
        let columns = self.columns(&keys, &rows, &pieces, caching).await?;
        if !self.lock_missing().list.is_empty() {
            pieces = drop_missing(&pieces, &positions, &columns);
        }
        Ok((pieces, positions, columns))
    }

    /// Selects the rows of `chunks` in the region that pass the conditions; returns positions of at least these rows.
    async fn read_by_positions(
        &self,
        chunks: &[Chunk],
        keys: &[ChunkKey],
        rows: &[u64],
        caching: Caching,
    ) -> Result<(Pieces, Vec<LoadedRows>)> {
        let source = RowSource::Positions(&self.cache.level);
        let needs = chunks.iter().map(|chunk| plan_need(source, chunk)).collect();
        let positions = self.read(source, keys, needs, caching).await?;
        check_ends(chunks, &positions)?;
        let mut pieces = self.select(chunks, &positions);
        if let Some(test) = self.row_test(keys, rows, &pieces, &positions, caching).await? {
            pieces = test.filter_pieces(&pieces)?;
        }
        Ok((pieces, positions))
    }

    /// Selects rows by their values alone and reads only their positions. Returns `None` if the query has a region or other
    /// conditions, or if values are missing for some rows.
    async fn read_by_values(
        &self,
        chunks: &[Chunk],
        keys: &[ChunkKey],
        rows: &[u64],
        caching: Caching,
    ) -> Result<Option<(Pieces, Vec<LoadedRows>)>> {
        if self.query.region.is_some() || !self.conditions.are_of_attributes() {
            return Ok(None);
        }
        let mut pieces = Pieces::default();
        (0..).zip(chunks).for_each(|(cell, chunk)| pieces.extend(chunk.pieces(cell)));
        let Some(test) = self.row_test(keys, rows, &pieces, &[], caching).await? else {
            return Ok(None);
        };
        if !test.has_all(chunks) {
            return Ok(None);
        }
        let mut pieces = test.filter_pieces(&pieces)?;
        let source = RowSource::Positions(&self.cache.level);
        let positions = self.read_pieces(source, keys, rows, &pieces, caching).await?;
        check_ends(chunks, &positions)?;
        if !self.lock_missing().list.is_empty() {
            pieces = drop_missing(&pieces, &positions, &[]);
        }
        Ok(Some((pieces, positions)))
    }

    /// Selects the rows of `chunks` in the region.
    fn select(&self, chunks: &[Chunk], positions: &[LoadedRows]) -> Pieces {
        let test = match &self.query.region {
            Some(region) if self.mode != Mode::Cells => Some(Test::new(region)),
            _ => None,
        };
        let select_cell = |((cell, chunk), loaded): ((u32, &Chunk), &LoadedRows)| {
            let mut pieces = Pieces::default();
            match (&test, loaded) {
                (_, LoadedRows::Nothing) => {}
                (Some(test), loaded) => test.rows(loaded, &chunk.runs.list, cell, &mut pieces),
                (None, _) => pieces = chunk.pieces(cell),
            }
            pieces
        };
        let stride = positions_stride(positions);
        let rows = count_rows(chunks);
        let mut all = Pieces::default();
        if test.is_some() && count_tested_bytes(rows, stride) > to_u64(MIN_THREAD_BYTES) {
            let cells = (0..index_u32(chunks.len())).into_par_iter().zip(chunks);
            let cell_pieces: Vec<Pieces> = cells.zip(positions).map(select_cell).collect();
            cell_pieces.into_iter().for_each(|pieces| all.extend(pieces));
        } else {
            (0..).zip(chunks).zip(positions).for_each(|cell| all.extend(select_cell(cell)));
        }
        all
    }

    /// Reads the returned attributes of vertices for the rows of `pieces`.
    pub(super) async fn columns(
        &self,
        keys: &[ChunkKey],
        rows: &[u64],
        pieces: &Pieces,
        caching: Caching,
    ) -> Result<Vec<Vec<LoadedRows>>> {
        let reads = self.columns.vertex.iter().map(|field| {
            self.read_pieces(RowSource::Attribute(field), keys, rows, pieces, caching)
        });
        futures_util::future::join_all(reads).await.into_iter().collect()
    }

    /// Gathers the rows of `pieces` into a batch, with their positions and the attributes in `columns`.
    pub(super) fn gather_rows(
        &self,
        pieces: &Pieces,
        positions: &[LoadedRows],
        columns: &[Vec<LoadedRows>],
    ) -> Result<Batch> {
        let (dtype, width) = (self.cache.level.dtype(), self.position_width());
        let mut batch = Batch::new(self.kind, pieces.gather(positions, dtype, width)?);
        for (field, loaded) in self.columns.vertex.iter().zip(columns) {
            let column = pieces.gather(loaded, field.dtype(), field.width())?;
            batch = batch.with_field(field.field(column))?;
        }
        Ok(batch)
    }

    /// Returns an empty answer.
    pub(crate) fn empty(&self) -> Result<Batch> {
        let positions = Column::empty(self.cache.level.dtype(), self.position_width());
        let mut batch = Batch::new(self.kind, positions?);
        for field in &self.columns.vertex {
            let column = Column::empty(field.dtype(), field.width())?;
            batch = batch.with_field(field.field(column))?;
        }
        let mut batch = self.join_empty_columns(batch)?;
        if self.goes_by_objects() {
            batch = batch.with_parts(Parts::new(vec![0], Vec::new())?)?; // parts, of which there are none
        }
        match self.kind.has_links() {
            true => Ok(batch.with_elements(self.empty_elements()?)?),
            false => Ok(batch),
        }
    }

    /// Adds what the chunks at `places` cost.
    pub(super) async fn estimate(&self, places: &[u32], plan: &mut Plan) -> Result<()> {
        let chunks = self.read_runs(places).await?;
        for chunk in &chunks {
            // Figures of a plan are upper bounds.
            plan.rows_before = plan.rows_before.saturating_add(chunk.rows);
            plan.rows = plan.rows.saturating_add(chunk.runs.rows); // an estimate: rows may be repeated
        }
        let arrays = to_u64(self.columns.vertex.len()) + 1;
        plan.requests += arrays * to_u64(chunks.len());
        plan.bytes = plan.rows_before.saturating_mul(self.row_bytes()); // an upper bound
        Ok(())
    }
}

/// Refuses fragments that name rows past the end of chunks that are held. Ranges that were read are there.
fn check_ends(chunks: &[Chunk], positions: &[LoadedRows]) -> Result<()> {
    chunks.iter().zip(positions).try_for_each(|(chunk, loaded)| match loaded {
        LoadedRows::Whole(column) => chunk.check_rows(to_u64(column.len())),
        LoadedRows::Nothing | LoadedRows::Parts(_) => Ok(()),
    })
}

/// Counts the rows that fragments of `chunks` name.
fn count_rows(chunks: &[Chunk]) -> u64 {
    // Claims of fragments, compared with the caps.
    chunks.iter().fold(0, |sum, chunk| sum.saturating_add(chunk.runs.rows))
}

/// Plans what to read of the positions of a chunk.
fn plan_need(source: RowSource<'_>, chunk: &Chunk) -> Need {
    source.plan_need(chunk.rows, chunk.runs.rows, |gap| {
        let pieces = chunk.runs.list.iter().map(|run| Piece {
            cell: 0,
            start: run.start,
            len: run.len,
            fragment: 0,
        });
        let pieces: Vec<Piece> = pieces.collect();
        coalesce_ranges(pieces.iter(), gap, &mut Vec::new())
    })
}

/// Drops the pieces of chunks whose positions or columns are missing.
fn drop_missing(pieces: &Pieces, positions: &[LoadedRows], columns: &[Vec<LoadedRows>]) -> Pieces {
    let is_held = |all: &[LoadedRows], piece: &Piece| {
        !matches!(all.get(usize_from_u32(piece.cell)), None | Some(LoadedRows::Nothing))
    };
    let mut retained = Pieces::default();
    for piece in &pieces.list {
        if is_held(positions, piece) && columns.iter().all(|column| is_held(column, piece)) {
            retained.push_apart(*piece);
        }
    }
    retained
}

/// Divides `chunks` into groups of at most `max_bytes` bytes or one chunk.
fn group_chunks(
    chunks: &[Chunk],
    row_bytes: u64,
    max_bytes: u64,
) -> impl Iterator<Item = &[Chunk]> {
    let mut rest = chunks;
    std::iter::from_fn(move || {
        let mut bytes = 0_u64;
        let fits = |chunk: &&Chunk| {
            // Claims, compared with the caps.
            bytes = bytes.saturating_add(chunk.rows.saturating_mul(row_bytes));
            bytes <= max_bytes
        };
        let n = rest.iter().take_while(fits).count().max(1);
        let (first, others) = rest.split_at_checked(n)?;
        rest = others;
        Some(first)
    })
}

fn positions_stride(positions: &[LoadedRows]) -> usize {
    let columns =
        positions.iter().find_map(|loaded| loaded.column(0).map(|(column, _)| column.stride()));
    columns.unwrap_or(8)
}

/// Bytes that take longer to process than a thread takes to wake up.
const MIN_THREAD_BYTES: usize = 1 << 20;
/// Groups of chunks that are prefetched.
const PREFETCH_GROUPS: usize = 2;
/// Bytes that are read before they are gathered; the buffers are then reused.
const READ_BATCH_BYTES: u64 = 16 << 20;
/// Bytes of local files that are read before they are gathered: few, so that they are copied from the CPU cache.
const FILE_READ_BATCH_BYTES: u64 = 4 << 20;
