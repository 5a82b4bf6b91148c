//! Answers about objects: follows manifests to rows and tests the objects against the region.
//!
//! ```text
//! rows of the index  ->  manifests, fragment indexes   ->  pieces of each object, in order
//!                    ->  positions                     ->  objects, or their parts in the region
//!                    ->  columns                       ->  a batch, with one part for each object or run
//! ```
//!
//! A chain continues from one fragment of its object to the next, also across chunks. Bridges of the store are
//! not used for geometry.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;
use zvf_error::{Error, Locate as _, Result};
use zvf_format::fragment::{FragmentIndex, RankTable};
use zvf_format::key::ChunkKey;
use zvf_format::num::{index_u32, saturating_u32, to_u64, usize_from_u32};
use zvf_model::{Batch, Column, FollowedObjects, ObjectId, ObjectIndex, ObjectRuns, Parts};
use zvf_store::Caching;

use super::fetch::{Need, RowSource, plan_needs_by_count};
use super::vertices::check_end;
use super::{Context, join};
use crate::error::BadQuery;
use crate::mode::Mode;
use crate::query::UnknownIds;
use crate::region::Region;
use crate::select::chain::{Chain, Cut, interpolate_column};
use crate::select::loaded_rows::LoadedRows;
use crate::select::pieces::{Piece, Pieces};
use crate::select::runs::{Runs, check_extent};

/// Objects, each split into pieces of chunks.
#[derive(Clone, Debug, Default)]
pub(crate) struct SplitObjects {
    pub(crate) pieces: Pieces,
    pub(crate) spans: Vec<Span>,
}

/// One object, or a run of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) id: ObjectId,
    /// Its row in the index.
    pub(crate) row: u64,
    /// Its pieces.
    pub(crate) pieces: Range<usize>,
}

/// Chunks that objects lie in.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chunks {
    pub(crate) keys: Vec<ChunkKey>,
    /// About how many rows each has.
    pub(crate) rows: Vec<u64>,
    /// The rows of each that the objects name.
    named: Vec<NamedRows>,
}

/// The rows of one chunk that objects name.
#[derive(Clone, Copy, Debug, Default)]
struct NamedRows {
    /// Number of rows, with repetitions.
    rows: u64,
    /// One past the last row.
    end: u64,
}

impl NamedRows {
    fn add(&mut self, piece: &Piece) {
        self.rows += u64::from(piece.len); // of pieces that are in memory
        self.end = self.end.max(piece.end().into());
    }

    fn join(&mut self, other: &Self) {
        self.rows += other.rows;
        self.end = self.end.max(other.end);
    }
}

impl Chunks {
    /// Returns whether all chunks that are held whole have the rows that the objects name.
    fn has_named_rows(&self, positions: &[LoadedRows]) -> bool {
        self.named.iter().zip(positions).all(|(named, loaded)| match loaded {
            LoadedRows::Whole(column) => named.end <= to_u64(column.len()),
            LoadedRows::Nothing | LoadedRows::Parts(_) => true,
        })
    }
}

impl Context {
    /// Opens the object index.
    pub(crate) async fn index(&self) -> Result<ObjectIndex> {
        let index = self.cache.level.objects().await?;
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
                (None, UnknownIds::Report) => self.lock_unknown().push(*id),
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
        self.cache.level.follow_existing(index, rows, &is_allowed).await
    }

    /// Answers with the objects at `rows` of the index, up to `limit` vertices.
    pub(super) async fn objects(&self, rows: &[u64], limit: usize) -> Result<Batch> {
        let index = self.index().await?;
        let followed = self.follow(&index, rows).await?;
        let (chunks, split) = split_objects(&followed)?;
        self.count(chunks.keys.len(), to_u64(split.pieces.rows));
        // Only compared with a cap.
        let caching = self.caching(to_u64(split.pieces.rows).saturating_mul(self.row_bytes()));

        let source = RowSource::Positions(&self.cache.level);
        let counts: Vec<u64> = chunks.named.iter().map(|named| named.rows).collect();
        let mut needs = plan_needs_by_count(source, &chunks.rows, &counts, &split.pieces);
        if self.mode == Mode::Crop || !self.kind.is_chain() {
            self.drop_far_needs(&chunks.keys, &mut needs);
        }
        let positions = self.read(source, &chunks.keys, needs, caching).await?;
        if !chunks.has_named_rows(&positions) {
            check_pieces(&chunks.keys, &split.pieces, &positions)?;
        }
        let split = self.drop_missing(split, std::slice::from_ref(&positions));
        let split = self.filter_objects(split, &chunks, &positions, caching).await?;
        if let (Mode::Clip, true, Some(region)) =
            (self.mode, self.kind.is_chain(), &self.query.region)
        {
            return self.clip_objects(region, &chunks, split, &positions, limit, caching).await;
        }
        let split = split.truncate(limit);
        let found = to_u64(split.pieces.rows);
        // Compared with a cap.
        self.check_caps(found, found.saturating_mul(self.row_bytes()))?;
        let columns = self.columns(&chunks.keys, &chunks.rows, &split.pieces, caching).await?;
        let split = self.drop_missing(split, &columns);
        let batch = self.gather_rows(&split.pieces, &positions, &columns)?;
        self.add_parts(batch, &chunks.keys, &split).await
    }

    /// Applies the conditions and the region to the objects. Clipping follows later.
    async fn filter_objects(
        &self,
        split: SplitObjects,
        chunks: &Chunks,
        positions: &[LoadedRows],
        caching: Caching,
    ) -> Result<SplitObjects> {
        let chain = self.kind.is_chain();
        let select = |split, mode| self.select_by_region(split, &chunks.keys, positions, mode);
        // Whether an object is inside or near the region depends on the rows that pass the conditions. A first
        // test before the conditions can skip objects that are far away.
        let (before, after) = match self.mode {
            Mode::Touch if chain => (Some(Mode::Touch), Some(Mode::Touch)),
            Mode::Clip if chain => (Some(Mode::Touch), None),
            Mode::Inside | Mode::Cells if chain => (None, Some(self.mode)),
            Mode::Inside | Mode::Touch | Mode::Clip | Mode::Crop | Mode::Cells => {
                (Some(self.mode), None)
            }
        };
        let clips_later = chain && self.mode == Mode::Clip;
        let has_conditions = !self.conditions.rows.is_empty();
        let before = before.filter(|_| has_conditions || (after.is_none() && !clips_later));
        let mut split = match before {
            Some(mode) => select(split, mode),
            None => split,
        };
        let (keys, rows) = (&chunks.keys, &chunks.rows);
        let test = self.row_test(keys, rows, &split.pieces, positions, caching).await?;
        if let Some(test) = test {
            split = test.filter_objects(&split, chain)?;
        }
        Ok(match after {
            Some(mode) => select(split, mode),
            None => split,
        })
    }

    /// Selects objects, or runs of their vertices, by the region in `mode`.
    fn select_by_region(
        &self,
        split: SplitObjects,
        keys: &[ChunkKey],
        positions: &[LoadedRows],
        mode: Mode,
    ) -> SplitObjects {
        let Some((_, range)) = &self.reach else { return split };
        let axes = self.cache.level.axes();
        let chain = self.kind.is_chain();
        let is_near = |piece: &&Piece| {
            keys.get(usize_from_u32(piece.cell)).is_some_and(|key| range.contains(key))
        };
        let mut selected = SplitObjects::default();
        let Some(region) = &self.query.region else {
            // Only conditions bound the query; they test each row later.
            if chain {
                return split;
            }
            for span in &split.spans {
                let pieces = split.span_pieces(span).iter().filter(is_near);
                selected.push(span.id, span.row, pieces.copied());
            }
            return selected;
        };
        for span in &split.spans {
            let pieces = split.span_pieces(span);
            let object = Chain::new(pieces, positions, axes);
            let mut push =
                |pieces: &[Piece]| selected.push(span.id, span.row, pieces.iter().copied());
            match mode {
                Mode::Touch if chain && !object.touches(region) => {}
                Mode::Inside if chain && !object.is_inside(region) => {}
                Mode::Cells if chain && !pieces.iter().any(|piece| is_near(&piece)) => {}
                Mode::Touch | Mode::Inside | Mode::Cells if chain => push(pieces),
                Mode::Crop if chain => object.runs_inside(region, push),
                Mode::Cells => push(&pieces.iter().filter(is_near).copied().collect::<Vec<_>>()),
                Mode::Inside | Mode::Touch | Mode::Clip | Mode::Crop => {
                    let mut inside = Vec::new();
                    object.runs_inside(region, |run| inside.extend_from_slice(run));
                    push(&inside);
                }
            }
        }
        selected
    }

    /// Drops the pieces of chunks that are missing in one of `columns`; splits objects at such gaps.
    fn drop_missing(&self, split: SplitObjects, columns: &[Vec<LoadedRows>]) -> SplitObjects {
        if self.lock_missing().list.is_empty() {
            return split;
        }
        let is_held = |piece: &Piece| {
            columns.iter().all(|column| {
                !matches!(column.get(usize_from_u32(piece.cell)), None | Some(LoadedRows::Nothing))
            })
        };
        split.retain_pieces(is_held)
    }

    /// Drops the needs of chunks that the region does not meet.
    fn drop_far_needs(&self, keys: &[ChunkKey], needs: &mut [Need]) {
        let Some((_, range)) = &self.reach else { return };
        for (key, need) in keys.iter().zip(needs) {
            if !range.contains(key) {
                *need = Need::Nothing;
            }
        }
    }

    /// Adds the parts of the answer, one for each span, and the joined columns.
    async fn add_parts(
        &self,
        batch: Batch,
        keys: &[ChunkKey],
        split: &SplitObjects,
    ) -> Result<Batch> {
        let (mut offsets, mut end) = (Vec::with_capacity(split.spans.len() + 1), 0_usize);
        offsets.push(end);
        for span in &split.spans {
            end += split.len(span);
            offsets.push(end);
        }
        let rows = self.joins_objects().then(|| {
            let rows = split.spans.iter().flat_map(|span| span.pieces.clone().map(|_| span.row));
            rows.map(Some).collect()
        });
        let ids: Vec<ObjectId> = split.spans.iter().map(|span| span.id).collect();
        let batch = self.join_columns(batch, keys, &split.pieces.list, rows).await?;
        Ok(batch.with_parts(Parts::new(offsets, ids)?)?)
    }

    /// Answers with the objects clipped at the boundary of the region.
    async fn clip_objects(
        &self,
        region: &Region,
        chunks: &Chunks,
        mut split: SplitObjects,
        positions: &[LoadedRows],
        limit: usize,
        caching: Caching,
    ) -> Result<Batch> {
        let axes = self.cache.level.axes();
        let mut clipped = ClippedObjects::new(&split, region, positions, axes, limit);
        let mut columns =
            self.columns(&chunks.keys, &chunks.rows, &clipped.pieces, caching).await?;
        let missing = self.lock_missing().list.len();
        split = self.drop_missing(split, &columns);
        if missing > 0 {
            // Without the chunks that are missing, clip again.
            clipped = ClippedObjects::new(&split, region, positions, axes, limit);
            columns = self.columns(&chunks.keys, &chunks.rows, &clipped.pieces, caching).await?;
        }
        let level = &self.cache.level;
        let width = self.position_width();
        let stored = interpolate_column(&clipped.cuts, positions, level.dtype(), width)?;
        let mut batch = Batch::new(self.kind, stored);
        for (field, loaded) in self.columns.vertex.iter().zip(&columns) {
            let column: Column =
                interpolate_column(&clipped.cuts, loaded, field.dtype(), field.width())?;
            batch = batch.with_field(field.field(column))?;
        }
        let nearest: Vec<Piece> = clipped.cuts.iter().map(Cut::nearest_vertex).collect();
        let batch = self.join_columns(batch, &chunks.keys, &nearest, Some(clipped.rows)).await?;
        let batch = batch.with_parts(Parts::new(clipped.offsets, clipped.ids)?)?;
        if batch.len() > limit { join::cut(&batch, limit) } else { Ok(batch) }
    }
}

/// Objects clipped at a region.
struct ClippedObjects {
    cuts: Vec<Cut>,
    /// The index row of the object of each.
    rows: Vec<Option<u64>>,
    offsets: Vec<usize>,
    ids: Vec<ObjectId>,
    /// The pieces whose rows the vertices of cuts can be interpolated from.
    pieces: Pieces,
}

impl ClippedObjects {
    fn new(
        split: &SplitObjects,
        region: &Region,
        positions: &[LoadedRows],
        axes: usize,
        limit: usize,
    ) -> Self {
        let mut all = Self {
            cuts: Vec::new(),
            rows: Vec::new(),
            offsets: vec![0],
            ids: Vec::new(),
            pieces: Pieces::default(),
        };
        for span in &split.spans {
            let pieces = split.span_pieces(span);
            let before = all.cuts.len();
            let Self { cuts, offsets, ids, .. } = &mut all;
            Chain::new(pieces, positions, axes).clip(region, cuts, |cuts| {
                offsets.push(cuts.len());
                ids.push(span.id);
            });
            if all.cuts.len() > before {
                all.rows.resize(all.cuts.len(), Some(span.row));
                pieces.iter().for_each(|piece| all.pieces.push_apart(*piece));
            }
            if all.cuts.len() >= limit {
                break;
            }
        }
        all
    }
}

impl SplitObjects {
    pub(crate) fn span_pieces(&self, span: &Span) -> &[Piece] {
        &self.pieces.list[span.pieces.clone()]
    }

    fn len(&self, span: &Span) -> usize {
        self.span_pieces(span).iter().map(|piece| usize_from_u32(piece.len)).sum()
    }

    /// Adds all objects of `others`.
    fn extend(&mut self, others: Self) {
        let first = self.pieces.list.len();
        if first == 0 {
            *self = others;
            return;
        }
        let shift = |span: Span| Span {
            pieces: span.pieces.start + first..span.pieces.end + first,
            ..span
        };
        self.spans.extend(others.spans.into_iter().map(shift));
        self.pieces.extend(others.pieces);
    }

    /// Adds an object, or a run of one.
    pub(super) fn push(&mut self, id: ObjectId, row: u64, pieces: impl IntoIterator<Item = Piece>) {
        let from = self.pieces.list.len();
        pieces.into_iter().for_each(|piece| self.pieces.push_apart(piece));
        let to = self.pieces.list.len();
        if to > from {
            self.spans.push(Span { id, row, pieces: from..to });
        }
    }

    /// Retains the pieces that pass `test`; splits objects at the others.
    fn retain_pieces(&self, test: impl Fn(&Piece) -> bool) -> Self {
        let mut retained = Self::default();
        for span in &self.spans {
            for run in self.span_pieces(span).split(|piece| !test(piece)) {
                retained.push(span.id, span.row, run.iter().copied());
            }
        }
        retained
    }

    /// Truncates after the object with which there are `limit` vertices or more.
    fn truncate(mut self, limit: usize) -> Self {
        if self.pieces.rows <= limit {
            return self;
        }
        let (mut rows, mut span_count) = (0_usize, 0_usize);
        for span in &self.spans {
            rows += self.len(span);
            span_count += 1;
            if rows >= limit {
                break;
            }
        }
        self.spans.truncate(span_count);
        let end = self.spans.last().map_or(0, |span| span.pieces.end);
        self.pieces.list.truncate(end);
        self.pieces.rows = rows;
        self
    }
}

/// Refuses rows past the end of chunks that are held.
pub(super) fn check_pieces(
    keys: &[ChunkKey],
    pieces: &Pieces,
    positions: &[LoadedRows],
) -> Result<()> {
    for piece in &pieces.list {
        // Ranges that were read exist, and pieces that are not held were not requested.
        if let (Some(key), Some(LoadedRows::Whole(column))) =
            (keys.get(usize_from_u32(piece.cell)), positions.get(usize_from_u32(piece.cell)))
        {
            check_end(key, piece.end().into(), to_u64(column.len()))?;
        }
    }
    Ok(())
}

/// Splits the objects of `followed` into pieces of its chunks, and objects with gaps into runs.
fn split_objects(followed: &FollowedObjects) -> Result<(Chunks, SplitObjects)> {
    let mut views = Vec::with_capacity(followed.chunks.len());
    let mut chunks = Chunks::default();
    // Row lists take eight bytes a row. Manifests may name rows repeatedly, but only up to this limit.
    let mut max_pieces = followed.objects.iter().map(|object| object.runs.len()).sum::<usize>();
    let look_ups = count_look_ups(followed);
    for (at, fragments) in followed.chunks.iter().enumerate() {
        let extent = fragments.extent();
        check_extent(extent).at_chunk(fragments.chunk())?;
        // A cap.
        let named_rows = fragments.blob().len().saturating_mul(MAX_ROWS_PER_INDEX_BYTE);
        max_pieces = max_pieces.saturating_add(named_rows);
        chunks.keys.push(*fragments.chunk());
        chunks.rows.push(extent);
        let view = fragments.view();
        // Building a table takes as long as one look-up without it.
        let is_long = fragments.len() > MAX_FRAGMENTS_WITHOUT_RANKS;
        let is_repeated = look_ups.get(at).is_some_and(|look_ups| *look_ups > 1);
        views.push(((is_long && is_repeated).then(|| RankTable::new(&view)), view));
    }
    let remaining = AtomicUsize::new(max_pieces);
    let part = |objects: &[ObjectRuns]| {
        let split = part_objects(objects, &views, (max_pieces, &remaining))?;
        // Threads count their rows separately, unless there are so many chunks that adding the counts takes longer.
        let counts_rows = views.len() <= split.pieces.list.len();
        Ok((counts_rows.then(|| count_rows(&split.pieces, views.len())), split))
    };
    let parts: Vec<Result<_>> = match followed.objects.len() {
        0..=BATCH_OBJECTS => vec![part(&followed.objects)],
        _ => followed.objects.par_chunks(BATCH_OBJECTS).map(part).collect(),
    };
    let mut split = SplitObjects::default();
    chunks.named = vec![NamedRows::default(); views.len()];
    for part in parts {
        let (counted, part) = part?;
        match counted {
            Some(counted) => {
                let pairs = chunks.named.iter_mut().zip(&counted);
                pairs.for_each(|(named, more)| named.join(more));
            }
            None => add_rows(&part.pieces, &mut chunks.named),
        }
        split.extend(part);
    }
    Ok((chunks, split))
}

/// Counts the fragments of each chunk that objects name; returns an empty list if no chunk needs a rank table.
fn count_look_ups(followed: &FollowedObjects) -> Vec<usize> {
    if followed.chunks.iter().all(|chunk| chunk.len() <= MAX_FRAGMENTS_WITHOUT_RANKS) {
        return Vec::new();
    }
    let mut look_ups = vec![0_usize; followed.chunks.len()];
    for run in followed.objects.iter().flat_map(|object| &object.runs) {
        look_ups.get_mut(run.chunk).into_iter().for_each(|count| *count += 1);
    }
    look_ups
}

/// Counts the rows that pieces name of each of `chunks` chunks.
fn count_rows(pieces: &Pieces, chunks: usize) -> Vec<NamedRows> {
    let mut named = vec![NamedRows::default(); chunks];
    add_rows(pieces, &mut named);
    named
}

fn add_rows(pieces: &Pieces, named: &mut [NamedRows]) {
    for piece in &pieces.list {
        let named = named.get_mut(usize_from_u32(piece.cell));
        named.into_iter().for_each(|named| named.add(piece));
    }
}

/// Splits objects into pieces of the chunks of `views`: at most `max_pieces` for each object and `remaining` for all.
fn part_objects(
    objects: &[ObjectRuns],
    views: &[(Option<RankTable>, FragmentIndex<'_>)],
    (max_pieces, remaining): (usize, &AtomicUsize),
) -> Result<SplitObjects> {
    let mut split = SplitObjects::default();
    split.pieces.list.reserve(objects.iter().map(|object| object.runs.len()).sum());
    let mut runs = Runs::default();
    for object in objects {
        let mut gaps = object.gaps.iter().peekable();
        let first = split.pieces.list.len();
        let mut from = first;
        let mut close = |split: &mut SplitObjects| {
            let to = split.pieces.list.len();
            if to > from {
                split.spans.push(Span { id: object.id, row: object.row, pieces: from..to });
            }
            from = to;
        };
        for (number, run) in object.runs.iter().enumerate() {
            if gaps.next_if(|gap| **gap <= number).is_some() {
                close(&mut split);
                while gaps.next_if(|gap| **gap <= number).is_some() {}
            }
            let Some((ranks, view)) = views.get(run.chunk) else { continue };
            let fragment = match ranks {
                Some(ranks) => ranks.get(view, run.fragment),
                None => view.get(run.fragment),
            };
            let Some(fragment) = fragment else { continue };
            let cell = index_u32(run.chunk);
            runs.list.clear();
            runs.push_fragment(fragment, saturating_u32(run.fragment)); // an index has fewer
            if split.pieces.list.len() - first + runs.list.len() > max_pieces {
                return Err(too_many_pieces_error(max_pieces));
            }
            for row_run in &runs.list {
                let (start, len, fragment) = (row_run.start, row_run.len, row_run.fragment);
                split.pieces.push_apart(Piece { cell, start, len, fragment });
            }
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

/// Objects that one thread takes at a time.
const BATCH_OBJECTS: usize = 1024;
/// Up to so many fragments, a look-up counts the ranges before the fragment instead of using a rank table.
const MAX_FRAGMENTS_WITHOUT_RANKS: u64 = 1024;
/// Maximum number of named rows for each byte of fragment indexes.
const MAX_ROWS_PER_INDEX_BYTE: usize = 4;
