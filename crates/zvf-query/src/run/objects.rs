//! The plan by objects: follows manifests to fragments, and fragments to rows.
//!
//! ```text
//! rows of the index  ->  manifests, fragment indexes   ->  pieces of each object, in order
//! ```

use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;
use zvf_error::{Error, Locate as _, Result};
use zvf_format::fragment::{FragmentIndex, RankTable};
use zvf_format::key::ChunkKey;
use zvf_format::num::{index_u32, saturating_u32, to_u64};
use zvf_model::{Batch, FollowedObjects, ObjectId, ObjectIndex, ObjectRuns};

use super::fetch::Chunks;
use super::{Context, lock};
use crate::error::BadQuery;
use crate::query::UnknownIds;
use crate::select::pieces::{Pieces, missing_row_error};
use crate::select::runs::check_extent;
use crate::select::selection::{Selection, Span};

impl Context {
    /// Opens the object index.
    pub(crate) async fn index(&self) -> Result<ObjectIndex> {
        let index = self.level.objects().await?;
        index.ok_or_else(|| BadQuery::NoObjects.into())
    }

    /// Returns the index rows of `ids`, in their order; reports missing ids.
    pub(crate) async fn find_rows(
        &self,
        index: &ObjectIndex,
        ids: &[ObjectId],
    ) -> Result<Vec<u64>> {
        let mut rows = Vec::with_capacity(ids.len());
        for (id, row) in ids.iter().zip(index.find(ids).await?) {
            match (row, self.query.unknown_ids) {
                (Some(row), _) => rows.push(row),
                (None, UnknownIds::Skip) => {}
                (None, UnknownIds::Report) => lock(&self.findings.unknown).push(*id),
                (None, UnknownIds::Error) => return Err(BadQuery::NoSuchObject(*id).into()),
            }
        }
        Ok(rows)
    }

    /// Follows the objects at `rows` of the index to their fragments; skips and reports missing fragments if the
    /// query allows it.
    pub(super) async fn follow(
        &self,
        index: &ObjectIndex,
        rows: &[u64],
    ) -> Result<FollowedObjects> {
        let is_allowed = |error: &Error| self.note_missing(error);
        self.level.follow_existing(index, rows, &is_allowed).await
    }

    /// Answers with the objects at `rows` of the index, up to `limit` vertices.
    pub(super) async fn objects(&self, rows: &[u64], limit: usize) -> Result<Batch> {
        let index = self.index().await?;
        let followed = self.follow(&index, rows).await?;
        let (keys, extents, selected) = split_objects(&followed)?;
        // Only compared with a limit.
        let caching = self.caching(to_u64(selected.pieces.rows).saturating_mul(self.row_bytes()));
        let chunks = Chunks { keys, rows: extents, caching };
        self.answer_objects(&chunks, selected, limit).await
    }
}

/// Splits the objects of `followed` into pieces of its chunks, and objects with gaps into runs; returns the chunks with
/// the extents of their fragments, and the pieces.
fn split_objects(followed: &FollowedObjects) -> Result<(Vec<ChunkKey>, Vec<u64>, Selection)> {
    let mut views = Vec::with_capacity(followed.chunks.len());
    let (mut keys, mut extents) = (Vec::new(), Vec::new());
    // Row lists take eight bytes per row. Manifests may refer to rows repeatedly, but only up to
    // this limit.
    let mut max_pieces = followed.objects.iter().map(|object| object.runs.len()).sum::<usize>();
    let look_ups = count_look_ups(followed);
    for (at, fragments) in followed.chunks.iter().enumerate() {
        let extent = fragments.extent();
        check_extent(extent).at_chunk(fragments.chunk())?;
        // An upper limit.
        let named_rows = fragments.blob().len().saturating_mul(MAX_ROWS_PER_INDEX_BYTE);
        max_pieces = max_pieces.saturating_add(named_rows);
        keys.push(*fragments.chunk());
        extents.push(extent);
        let view = fragments.view();
        // Building a table takes as long as one look-up without it.
        let is_long = fragments.len() > MAX_FRAGMENTS_WITHOUT_RANKS;
        let is_repeated = look_ups.get(at).is_some_and(|look_ups| *look_ups > 1);
        views.push(((is_long && is_repeated).then(|| RankTable::new(&view)), view));
    }
    let remaining = AtomicUsize::new(max_pieces);
    let part = |objects: &[ObjectRuns]| part_objects(objects, &views, (max_pieces, &remaining));
    let parts: Vec<Result<_>> = match followed.objects.len() {
        0..=BATCH_OBJECTS => vec![part(&followed.objects)],
        _ => followed.objects.par_chunks(BATCH_OBJECTS).map(part).collect(),
    };
    let mut selected = Selection { spans: Some(Vec::new()), ..Selection::default() };
    for part in parts {
        selected.extend(part?);
    }
    Ok((keys, extents, selected))
}

/// Counts the fragments of each chunk in manifests; returns an empty list if no chunk needs a rank
/// table.
fn count_look_ups(followed: &FollowedObjects) -> Vec<usize> {
    if followed.chunks.iter().all(|chunk| chunk.len() <= MAX_FRAGMENTS_WITHOUT_RANKS) {
        return Vec::new();
    }
    let mut look_ups = vec![0_usize; followed.chunks.len()];
    for run in followed.objects.iter().flat_map(|object| &object.runs) {
        look_ups[run.chunk] += 1;
    }
    look_ups
}

/// Splits objects into pieces of the chunks of `views`: at most `max_pieces` for each object and `remaining` for all.
fn part_objects(
    objects: &[ObjectRuns],
    views: &[(Option<RankTable>, FragmentIndex<'_>)],
    (max_pieces, remaining): (usize, &AtomicUsize),
) -> Result<Selection> {
    let mut split = Selection::default();
    split.pieces.list.reserve(objects.iter().map(|object| object.runs.len()).sum());
    for object in objects {
        let mut gaps = object.gaps.iter().peekable();
        let first = split.pieces.list.len();
        let mut from = first;
        let mut close = |split: &mut Selection| {
            let to = split.pieces.list.len();
            if to > from {
                let span = Span { id: object.id, row: object.row, pieces: from..to };
                split.spans.get_or_insert_default().push(span);
            }
            from = to;
        };
        for (number, run) in object.runs.iter().enumerate() {
            if gaps.next_if(|gap| **gap <= number).is_some() {
                close(&mut split);
                while gaps.next_if(|gap| **gap <= number).is_some() {}
            }
            let (ranks, view) = &views[run.chunk];
            let fragment = match ranks {
                Some(ranks) => ranks.get(view, run.fragment),
                None => view.get(run.fragment),
            };
            // The fragments of followed objects exist.
            let fragment = fragment.ok_or_else(missing_row_error)?;
            let cell = index_u32(run.chunk);
            let mut runs = Pieces::default();
            runs.push_fragment(fragment, cell, saturating_u32(run.fragment)); // an index has fewer
            if split.pieces.list.len() - first + runs.list.len() > max_pieces {
                return Err(too_many_pieces_error(max_pieces));
            }
            split.pieces.extend(runs);
        }
        close(&mut split);
        let piece_count = split.pieces.list.len() - first;
        let fits = remaining.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |remaining| {
            remaining.checked_sub(piece_count)
        });
        if fits.is_err() {
            return Err(too_many_pieces_error(max_pieces));
        }
    }
    Ok(split)
}

fn too_many_pieces_error(max_pieces: usize) -> Error {
    Error::limit("rows that objects name again", to_u64(max_pieces), to_u64(max_pieces) + 1)
}

/// Number of objects that one thread takes at a time.
const BATCH_OBJECTS: usize = 1024;
/// Up to this many fragments, a look-up counts the ranges before the fragment instead of using a
/// rank table.
const MAX_FRAGMENTS_WITHOUT_RANKS: u64 = 1024;
/// Maximum number of named rows for each byte of fragment indexes.
const MAX_ROWS_PER_INDEX_BYTE: usize = 4;
