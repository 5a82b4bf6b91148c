//! Vertices in a region, or all of them: chunks, their fragments, and the rows of these.
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
use zvf_format::num::{index_u32, saturating_usize, to_u64};
use zvf_model::{AttributeReader, Batch, ChunkFragments, LevelId, Parts};
use zvf_store::Caching;

use super::fetch::{Chunks, groups};
use super::object_selection::is_owned;
use super::runner::Runner;
use super::{Context, MAX_BYTES, MAX_ROWS, Purpose};
use crate::answer::QueryPlan;
use crate::mode::Mode;
use crate::select::pieces::{ColumnAssembler, Pieces};
use crate::select::runs::list_runs;
use crate::select::selection::Selection;

/// One chunk and its rows that can contribute.
#[derive(Clone)]
pub(crate) struct Chunk {
    pub(crate) key: ChunkKey,
    /// As pieces of chunk 0.
    pub(crate) runs: Pieces,
    /// The approximate number of rows: the extent of the fragments.
    pub(crate) rows: u64,
}

impl Context {
    /// Answers with the vertices of the chunks at `places`, up to `limit`.
    pub(super) async fn vertices(self: &Arc<Self>, places: &[u32], limit: usize) -> Result<Batch> {
        let chunks = self.read_runs(places).await?;
        let asked =
            chunks.iter().fold(0, |sum: u64, chunk| sum.saturating_add(to_u64(chunk.runs.rows))); // claims
        let caching = self.caching(asked.saturating_mul(self.row_bytes())); // only compared with a cap
        let level = &self.level;
        let batch_bytes = match level.store().is_remote() {
            true => READ_BATCH_BYTES,
            false => FILE_READ_BATCH_BYTES,
        };
        // The prefetched groups, and the one whose rows are being copied.
        let max_bytes = self.unit_bytes(Purpose::Collect) / (to_u64(PREFETCH_GROUPS) + 1);
        let bytes = chunks.iter().map(|chunk| chunk.rows.saturating_mul(self.row_bytes())); // claims
        let groups = groups(&chunks, bytes, max_bytes.min(batch_bytes)).map(|(group, _)| group);
        let mut groups = groups.collect::<Vec<_>>().into_iter();
        if groups.len() < 2 {
            let (chunks, rows) = select_all(&chunks, caching);
            let (rows, positions, columns) = self.load(&chunks, rows, limit).await?;
            let batch = self.gather_rows(&rows.pieces, &positions, &columns)?;
            return self.join_columns(batch, &chunks.keys, &rows.pieces.list, None).await;
        }
        // The claims of fragments have not been verified yet.
        let max_rows = asked.min(MAX_ROWS).min(MAX_BYTES / self.row_bytes());
        let max_rows = saturating_usize(max_rows).min(limit);
        let mut positions =
            ColumnAssembler::new(level.dtype(), index_u32(self.level.axes()), max_rows)?;
        let new =
            |field: &AttributeReader| ColumnAssembler::new(field.dtype(), field.width(), max_rows);
        let mut columns = self.columns.vertex.iter().map(new).collect::<Result<Vec<_>>>()?;
        let (mut pieces, mut first) = (Pieces::default(), 0_u32);
        // A group is read while the rows of earlier ones are copied.
        let runner = Runner::for_store(level.store().is_remote());
        let ahead = if limit == usize::MAX { PREFETCH_GROUPS } else { 1 };
        let mut reading = VecDeque::with_capacity(ahead);
        loop {
            let remaining = limit - pieces.rows;
            while reading.len() < ahead && remaining > 0 {
                let Some(group) = groups.next() else { break };
                let (context, (chunks, rows)) = (Arc::clone(self), select_all(group, caching));
                let read = async move { context.load(&chunks, rows, remaining).await };
                reading.push_back((group.len(), runner.run(read)));
            }
            let Some((chunk_count, mut group)) = reading.pop_front() else { break };
            let (more, loaded, held_columns) = group.finish().await??;
            self.check_rows(pieces.rows + more.pieces.rows)?;
            positions.add(&more.pieces, &loaded)?;
            for (column, loaded) in columns.iter_mut().zip(&held_columns) {
                column.add(&more.pieces, loaded)?;
            }
            pieces.extend_from(more.pieces, first);
            first += index_u32(chunk_count);
        }
        let batch =
            self.assemble(positions, columns.into_iter(), |column, _, _| column.finish())?;
        let keys: Vec<ChunkKey> = chunks.iter().map(|chunk| chunk.key).collect();
        self.join_columns(batch, &keys, &pieces.list, None).await
    }

    /// Returns the chunks at `places` with their rows that can contribute.
    pub(crate) async fn read_runs(&self, places: &[u32]) -> Result<Vec<Chunk>> {
        let keys = self.keys(places);
        let level = &self.level;
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
        let chunk = |(at, (key, fragments)): (usize, &(ChunkKey, ChunkFragments))| {
            let view = fragments.view();
            let bins = match (&self.reach, self.level.bins()) {
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

    /// Returns whether the fragments of a chunk are its bins, if their numbers agree: only in the
    /// full data of points without objects.
    fn fragments_are_bins(&self) -> bool {
        let meta = self.level.node().meta();
        let full = self.level.level() == LevelId(0) && meta.parent_level.is_none();
        full && !self.level.has_objects && !meta.shared_fragments && self.mode != Mode::Cells
    }

    /// Returns an empty answer.
    pub(crate) async fn empty(&self) -> Result<Batch> {
        let columns = vec![Vec::new(); self.columns.vertex.len()];
        let batch = self.gather_rows(&Pieces::default(), &[], &columns)?;
        let mut batch = self.join_columns(batch, &[], &[], Some(Vec::new())).await?;
        if self.goes_by_objects() {
            batch = batch.with_parts(Parts::new(vec![0], Vec::new())?)?; // parts, of which there are none
        }
        match self.kind.has_links() {
            true => Ok(batch.with_elements(self.empty_elements()?)?),
            false => Ok(batch),
        }
    }

    /// Adds the cost of the chunks at `places`.
    pub(super) async fn estimate(&self, places: &[u32], plan: &mut QueryPlan) -> Result<()> {
        let chunks = self.read_runs(places).await?;
        for chunk in &chunks {
            // Figures of a plan are upper bounds.
            plan.rows_before = plan.rows_before.saturating_add(chunk.rows);
            plan.rows = plan.rows.saturating_add(to_u64(chunk.runs.rows)); // an estimate: rows may be repeated
        }
        let arrays = to_u64(self.columns.vertex.len()) + 1;
        plan.requests += arrays * to_u64(chunks.len());
        plan.bytes = plan.rows_before.saturating_mul(self.row_bytes()); // an upper bound
        Ok(())
    }
}

/// Returns the chunks with all their rows that can contribute.
fn select_all(chunks: &[Chunk], caching: Caching) -> (Chunks, Selection) {
    let mut pieces = Pieces::default();
    (0..).zip(chunks).for_each(|(cell, chunk)| pieces.extend_from(chunk.runs.clone(), cell));
    let keys = chunks.iter().map(|chunk| chunk.key).collect();
    let rows = chunks.iter().map(|chunk| chunk.rows).collect();
    (Chunks { keys, rows, caching }, Selection { pieces, spans: None })
}

/// Bytes that take longer to process than a thread takes to wake up.
const MIN_THREAD_BYTES: usize = 1 << 20;
/// Number of groups of chunks that are prefetched.
const PREFETCH_GROUPS: usize = 2;
/// Bytes that are read before they are gathered; the buffers are then reused.
const READ_BATCH_BYTES: u64 = 16 << 20;
/// Bytes of local files that are read before they are gathered: few, so that they are copied from the CPU cache.
const FILE_READ_BATCH_BYTES: u64 = 4 << 20;
