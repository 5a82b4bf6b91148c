//! Sinks of answered work units: collecting, or counting without collecting.
//!
//! ```text
//! counts of points without region or conditions    the fragment indexes say it; sizes of cells are compared
//! of points and chains otherwise                   work unit by work unit, without attributes
//! of edges and faces                               work unit by work unit; a bit for each vertex marks those counted before
//! of edges and faces that a limit cuts             collected without attributes: the cut determines which of them are left
//! ```
//!
//! Each additive level adds to the next coarser one: their answers are concatenated, the finest
//! first.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use zvf_error::Result;
use zvf_format::num::{saturating_usize, to_u64};
use zvf_model::{Batch, ObjectId};

use super::elements::Answered;
use super::fetch::check_end;
use super::{Context, Purpose, Units, WorkUnit, contexts, join, lock};
use crate::answer::{Answer, Counts, QueryStats};
use crate::error::BadQuery;
use crate::query::{Columns, Query};
use crate::reader::Reader;

/// Takes what was recorded while `context` was queried: counts of an answer without vertices.
async fn take_findings(context: &Context, truncated: bool) -> Result<Counts> {
    let all_links = context.has_all_links().await?;
    let mut missing = std::mem::take(&mut *lock(&context.findings.missing)).list;
    // Concurrent reads find them in any order.
    missing
        .sort_unstable_by(|a, b| a.array.cmp(&b.array).then_with(|| a.chunk.cmp_numeric(&b.chunk)));
    Ok(Counts {
        level: context.level.level(),
        kind: context.kind,
        vertices: 0,
        parts: 0,
        elements: None,
        complete: missing.is_empty() && !truncated && all_links,
        truncated,
        missing,
        unknown_objects: std::mem::take(&mut *lock(&context.findings.unknown)).list,
    })
}

impl Counts {
    /// Adds those of another level of the same answer.
    fn add(&mut self, other: Self) {
        self.vertices += other.vertices;
        self.parts += other.parts;
        self.elements = other.elements.map(|n| n + self.elements.unwrap_or(0));
        self.complete &= other.complete;
        self.truncated |= other.truncated;
        self.missing.extend(other.missing);
        // An object is unknown only if no level has it.
        let unknown: HashSet<ObjectId> = other.unknown_objects.into_iter().collect();
        self.unknown_objects.retain(|id| unknown.contains(id));
    }
}

/// Passes the answers of a level to `sink`, one after the other, up to `limit` vertices; returns
/// whether that truncated them. Answers that will be merged are not truncated.
pub(super) async fn answer_each(
    context: &Arc<Context>,
    purpose: Purpose,
    limit: usize,
    mut sink: impl FnMut(Answered) -> Result<()>,
) -> Result<bool> {
    let mut left = limit;
    let mut units = Units::new(vec![Arc::clone(context)], purpose);
    while let Some(unit) = units.next().await? {
        // One row beyond the limit shows whether the answer is truncated.
        let mut answered = unit.answer(left.saturating_add(1)).await?; // no limit stays none
        let truncated = answered.keys.is_none() && answered.batch.len() > left;
        if truncated {
            answered.batch = join::cut(&answered.batch, left)?;
        }
        if limit < usize::MAX && answered.keys.is_none() {
            left -= answered.batch.len();
        }
        sink(answered)?;
        if truncated {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the answer of a chain of additive levels.
pub(crate) async fn collect_all(contexts: &[Arc<Context>]) -> Result<Answer> {
    let [first, others @ ..] = contexts else { return Err(BadQuery::NoLevel.into()) };
    let (batch, mut found) = collect(first).await?;
    let mut batches = vec![batch];
    for context in others {
        // Stop after a truncated answer, because the order is that of the levels.
        if found.truncated {
            break;
        }
        let (batch, more) = collect(context).await?;
        batches.push(batch);
        found.add(more);
    }
    let mut batch = join::join_batches(first, batches).await?;
    if batch.len() > first.max_rows() {
        batch = join::cut(&batch, first.max_rows())?;
        (found.truncated, found.complete) = (true, false);
    }
    let mut figures = QueryStats::default();
    for context in contexts {
        figures.cells += context.findings.cells.load(Ordering::Relaxed);
        figures.rows += context.findings.rows.load(Ordering::Relaxed);
    }
    let Counts { complete, truncated, missing, unknown_objects, .. } = found;
    let level = &first.level;
    let (level, notices) = (level.level(), level.store().notices());
    Ok(Answer { batch, level, complete, truncated, missing, unknown_objects, notices, figures })
}

/// Answers all work units one after the other and joins the answers.
async fn collect(context: &Arc<Context>) -> Result<(Batch, Counts)> {
    let (mut batches, mut all_keys, mut rows, mut bytes) = (Vec::new(), Vec::new(), 0, 0);
    let max_rows = context.max_rows();
    let truncated = answer_each(context, Purpose::Collect, max_rows, |Answered { batch, keys }| {
        rows += to_u64(batch.len());
        bytes += join::weight(&batch);
        context.check_caps(rows, bytes)?;
        batches.push(batch);
        all_keys.extend(keys);
        Ok(())
    });
    let mut truncated = truncated.await?;
    let mut batch = match all_keys.as_slice() {
        [] => join::join_batches(context, batches).await?,
        keys => join::merge_elements(context.kind, &batches, keys)?,
    };
    if batch.len() > max_rows {
        (batch, truncated) = (join::cut(&batch, max_rows)?, true);
    }
    Ok((batch, take_findings(context, truncated).await?))
}

/// Returns the counts of the answer to `query`.
pub(crate) async fn count(reader: &Reader, query: &Query) -> Result<Counts> {
    let (columns, with_owners, with_places) = (Columns::None, false, false);
    let bare = Query { columns, with_owners, with_places, ..query.clone() };
    let contexts = contexts(reader, &bare).await?;
    let mut all: Option<Counts> = None;
    for context in &contexts {
        let before = all.as_ref().map_or(0, |all| all.vertices);
        let left = query.limit.map(|limit| limit - before);
        let (vertices, parts, elements, truncated) = if context.kind.has_links() {
            // The few chunks that were found by trying have no positions.
            let by_units = context.level.chunks().await.is_ok();
            let more = if by_units { Some(count_elements(context).await?) } else { None };
            match more.filter(|(vertices, _)| left.is_none_or(|left| *vertices <= left)) {
                Some((vertices, elements)) => (vertices, 0, Some(elements), false),
                None => return count_collected(&contexts).await,
            }
        } else {
            let (vertices, parts, truncated) = count_level(context, left).await?;
            (vertices, parts, None, truncated)
        };
        let findings = take_findings(context, truncated).await?;
        let more = Counts { vertices, parts, elements, ..findings };
        match &mut all {
            None => all = Some(more),
            Some(all) => all.add(more),
        }
        if truncated {
            break;
        }
    }
    all.ok_or_else(|| BadQuery::NoLevel.into())
}

/// Counts a collected answer.
async fn count_collected(contexts: &[Arc<Context>]) -> Result<Counts> {
    let Answer { batch, level, complete, truncated, missing, unknown_objects, .. } =
        collect_all(contexts).await?;
    let (kind, vertices, parts) = (batch.kind(), to_u64(batch.len()), 0);
    let elements = Some(batch.elements().map_or(0, |all| to_u64(all.len())));
    Ok(Counts {
        level,
        kind,
        vertices,
        parts,
        elements,
        complete,
        truncated,
        missing,
        unknown_objects,
    })
}

/// Counts the vertices, and the edges or faces of the answer of one level, with one work unit in
/// memory at a time.
async fn count_elements(context: &Arc<Context>) -> Result<(u64, u64)> {
    let (mut seen, mut vertices, mut elements) = (SeenVertices::default(), 0, 0);
    answer_each(context, Purpose::Each, usize::MAX, |Answered { batch, keys }| {
        let places = keys.unwrap_or_default().places;
        vertices += seen.insert_all(&places) + to_u64(batch.len() - places.len());
        elements += batch.elements().map_or(0, |all| to_u64(all.len()));
        Ok(())
    })
    .await?;
    Ok((vertices, elements))
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
            let rows = self.chunks.entry(run[0] >> 32).or_default();
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

/// Counts the vertices and the parts of the points or chains of one level, up to `limit` vertices;
/// returns whether that truncates the answer.
async fn count_level(context: &Arc<Context>, limit: Option<u64>) -> Result<(u64, u64, bool)> {
    let (mut vertices, mut parts) = (0, 0);
    if !context.counts_by_indexes() || context.goes_by_objects() {
        let limit = limit.map_or(usize::MAX, saturating_usize); // more than memory holds is no limit
        let truncated = answer_each(context, Purpose::Each, limit, |Answered { batch, .. }| {
            vertices += to_u64(batch.len());
            parts += to_u64(batch.parts().len());
            Ok(())
        });
        let truncated = truncated.await?;
        return Ok((vertices, parts, truncated));
    }
    let mut units = Units::new(vec![Arc::clone(context)], Purpose::Each);
    while let Some(unit) = units.next().await? {
        if let WorkUnit::Chunks(places) = &unit.work {
            vertices += context.rows_named(places).await?;
        }
        if let Some(limit) = limit.filter(|limit| vertices > *limit) {
            return Ok((limit, 0, true));
        }
    }
    Ok((vertices, 0, false))
}

impl Context {
    /// Returns the maximum number of vertices of the answer; without a limit, more than fits in
    /// memory.
    fn max_rows(&self) -> usize {
        self.query.limit.map_or(usize::MAX, saturating_usize)
    }

    /// Returns whether the answer consists of all rows in fragments.
    fn counts_by_indexes(&self) -> bool {
        self.reach.is_none() && self.conditions.rows.is_empty() && !self.query.allow_missing
    }

    /// Counts the selected rows in fragments of the chunks at `places`.
    async fn rows_named(&self, places: &[u32]) -> Result<u64> {
        let chunks = self.read_runs(places).await?;
        let keys: Vec<_> = chunks.iter().map(|chunk| chunk.key).collect();
        let mut rows = 0;
        for (chunk, present) in chunks.iter().zip(self.level.row_counts(&keys).await) {
            check_end(&chunk.key, chunk.runs.end(), present?)?;
            rows += to_u64(chunk.runs.rows);
        }
        Ok(rows)
    }
}
