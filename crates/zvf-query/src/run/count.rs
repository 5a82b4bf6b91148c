//! Counts of vertices, parts and elements without collecting the answer.
//!
//! ```text
//! points without region or conditions    the fragment indexes say it; sizes of cells are compared
//! points and chains otherwise            work unit by work unit, without attributes
//! edges and faces                        work unit by work unit; a bit for each vertex marks those counted before
//! edges and faces that a limit cuts      collected without attributes: the cut determines which of them are left
//! ```

use std::collections::HashMap;
use std::sync::Arc;

use zvf_error::Result;
use zvf_format::num::{saturating_usize, to_u64};

use super::{Context, Purpose, WorkUnit, collect_all, contexts, join, work_units};
use crate::answer::Counts;
use crate::query::{Columns, Query};
use crate::reader::Reader;

/// Returns the counts of the answer to `query`.
pub(crate) async fn count(reader: &Reader, query: &Query) -> Result<Counts> {
    let bare =
        Query { columns: Columns::None, with_owners: false, with_places: false, ..query.clone() };
    let contexts = contexts(reader, &bare).await?;
    if contexts.iter().any(|context| context.kind.has_links()) {
        return count_linked(&contexts, query.limit).await;
    }
    let mut all: Option<Counts> = None;
    for context in &contexts {
        let counted = all.as_ref().map_or(0, |all| all.vertices);
        let left = query.limit.map(|limit| limit - counted);
        let level_counts = count_level(context, left).await?;
        let all = match &mut all {
            None => all.insert(level_counts),
            Some(all) => {
                all.add(level_counts);
                all
            }
        };
        if all.truncated {
            break;
        }
    }
    all.ok_or_else(|| crate::error::BadQuery::NoLevel.into())
}

/// Counts where there are edges or faces.
async fn count_linked(contexts: &[Arc<Context>], limit: Option<u64>) -> Result<Counts> {
    let mut all: Option<Counts> = None;
    for context in contexts {
        if context.cache.level.chunks().await.is_err() {
            return count_collected(contexts).await; // few chunks, found by trying; they have no places
        }
        let level_counts = count_elements(context).await?;
        match &mut all {
            None => all = Some(level_counts),
            Some(all) => all.add(level_counts),
        }
        let vertices = all.as_ref().map_or(0, |all| all.vertices);
        if limit.is_some_and(|limit| vertices > limit) {
            return count_collected(contexts).await;
        }
    }
    all.ok_or_else(|| crate::error::BadQuery::NoLevel.into())
}

/// Counts an answer that is held.
async fn count_collected(contexts: &[Arc<Context>]) -> Result<Counts> {
    let Some(first) = contexts.first() else { return Err(crate::error::BadQuery::NoLevel.into()) };
    let answer = collect_all(contexts).await?;
    let mut counts = Counts::new(first.cache.level.level(), first.kind);
    counts.vertices = to_u64(answer.batch.len());
    counts.elements = Some(answer.batch.elements().map_or(0, |all| to_u64(all.len())));
    counts.complete = answer.complete;
    counts.truncated = answer.truncated;
    counts.missing = answer.missing;
    counts.unknown_objects = answer.unknown_objects;
    Ok(counts)
}

/// Counts what one level with edges or faces has, of which one work unit is held at a time.
async fn count_elements(context: &Context) -> Result<Counts> {
    let mut counts = Counts::new(context.cache.level.level(), context.kind);
    let (mut seen_vertices, mut elements) = (SeenVertices::default(), 0);
    for unit in work_units(context, Purpose::Stream).await? {
        context.yield_before(&unit).await?;
        for part in context.refine_unit(unit, Purpose::Stream).await? {
            let WorkUnit::Elements(work) = part.unit else { continue }; // nothing else comes of such work units
            let keyed = context.keyed_elements(&work, true).await?;
            let cuts = keyed.batch.len() - keyed.places.len();
            counts.vertices += seen_vertices.insert_all(&keyed.places) + to_u64(cuts);
            elements += keyed.batch.elements().map_or(0, |all| to_u64(all.len()));
        }
    }
    counts.elements = Some(elements);
    counts.missing = context.take_missing();
    counts.unknown_objects = std::mem::take(&mut *context.lock_unknown()).list;
    counts.complete = counts.missing.is_empty() && context.has_all_links().await?;
    Ok(counts)
}

/// Bitmaps of the counted vertices, by chunk, up to the last counted row.
#[derive(Default)]
struct SeenVertices {
    chunks: HashMap<u64, Vec<u64>>,
}

impl SeenVertices {
    /// Adds `places`, each a chunk in the upper 32 bits and a row in the lower ones; returns how many are new.
    fn insert_all(&mut self, places: &[u64]) -> u64 {
        let mut new = 0;
        for run in places.chunk_by(|a, b| a >> 32 == b >> 32) {
            let Some(first) = run.first() else { continue };
            let rows = self.chunks.entry(first >> 32).or_default();
            for place in run {
                let row = place & u64::from(u32::MAX);
                let (word, bit) = (saturating_usize(row / 64), 1 << (row % 64)); // of 32 bits
                if rows.len() <= word {
                    rows.resize(word + 1, 0);
                }
                if rows[word] & bit == 0 {
                    rows[word] |= bit;
                    new += 1;
                }
            }
        }
        new
    }
}

async fn count_level(context: &Arc<Context>, limit: Option<u64>) -> Result<Counts> {
    let mut counts = Counts::new(context.cache.level.level(), context.kind);
    let mut left = limit.unwrap_or(u64::MAX); // no limit: more than can be counted
    let units = work_units(context, Purpose::Stream).await?;
    for unit in &units {
        context.yield_before(unit).await?;
        let (rows, parts) = match unit {
            WorkUnit::Chunks(places) if context.counts_by_indexes() => {
                (context.rows_named(places).await?, 0)
            }
            WorkUnit::Chunks(_)
            | WorkUnit::Objects(_)
            | WorkUnit::Elements(_)
            | WorkUnit::Several(_) => {
                let max_rows = saturating_usize(left); // more than memory holds is no limit
                let batch = context.answer(unit, max_rows.saturating_add(1)).await?;
                let batch = if batch.len() > max_rows {
                    counts.truncated = true;
                    join::cut(&batch, max_rows)?
                } else {
                    batch
                };
                (to_u64(batch.len()), to_u64(batch.parts().len()))
            }
        };
        counts.truncated |= rows > left;
        let rows = rows.min(left);
        left -= rows;
        counts.vertices += rows;
        counts.parts += parts;
        if counts.truncated {
            break;
        }
    }
    counts.missing = context.take_missing();
    counts.unknown_objects = std::mem::take(&mut *context.lock_unknown()).list;
    counts.complete = counts.missing.is_empty() && !counts.truncated;
    Ok(counts)
}

impl Context {
    /// Returns whether the rows that fragments name are the whole answer.
    fn counts_by_indexes(&self) -> bool {
        self.reach.is_none() && self.conditions.rows.is_empty() && !self.query.allow_missing
    }

    /// Counts the selected rows that fragments of the chunks at `places` name.
    async fn rows_named(&self, places: &[u32]) -> Result<u64> {
        let chunks = self.read_runs(places).await?;
        let keys: Vec<_> = chunks.iter().map(|chunk| chunk.key).collect();
        let mut rows = 0;
        for (chunk, present) in chunks.iter().zip(self.cache.level.row_counts(&keys).await) {
            chunk.check_rows(present?)?;
            rows += chunk.runs.rows;
        }
        Ok(rows)
    }
}
