//! Objects: their manifests, their fragments, the rows of these; and how they lie to a region.
//!
//! ```text
//! rows of the index  ->  manifests, fragment indexes   ->  pieces of each object, in order
//!                    ->  positions                     ->  objects, or what of them is in the region
//!                    ->  columns                       ->  gathered, one part an object or run
//! ```
//!
//! A chain goes on from one fragment of its object to the next, whatever chunks they are in. What the
//! store keeps about such crossings is never used for geometry.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;
use zvf_format::fragment::{FragmentIndex, RankTable};
use zvf_format::key::ChunkKey;
use zvf_format::num::{saturating_u32, to_u64, usize_from_u32};
use zvf_model::{Batch, Column, Followed, ObjectId, ObjectIndex, ObjectRuns, Parts};
use zvf_store::Caching;

use super::fetch::{Need, Of, plan_wanted_needs};
use super::vertices::check_end;
use super::{Context, join};
use crate::error::{BadQuery, QueryError};
use crate::mode::Mode;
use crate::query::UnknownIds;
use crate::region::Region;
use crate::select::chain::{Chain, Cut, mixed};
use crate::select::held::Held;
use crate::select::pieces::{Piece, Pieces};
use crate::select::runs::{Runs, check_extent};

/// Objects as pieces of chunks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parted {
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
    /// What the objects name of each.
    named: Vec<NamedRows>,
}

/// What objects name of one chunk.
#[derive(Clone, Copy, Debug, Default)]
struct NamedRows {
    /// How many rows, repeated ones each time.
    rows: u64,
    /// The row behind the last one.
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
    /// Whether those that are held whole have all rows that the objects name.
    fn have_all(&self, positions: &[Held]) -> bool {
        self.named.iter().zip(positions).all(|(named, held)| match held {
            Held::Whole(column) => named.end <= to_u64(column.len()),
            Held::Nothing | Held::Parts(_) => true,
        })
    }
}

impl Context {
    /// The object index.
    pub(crate) async fn index(&self) -> Result<ObjectIndex, QueryError> {
        let index = self.warm.level.objects().await?;
        index.ok_or_else(|| BadQuery::NoObjects.into())
    }

    /// The rows of the index that are asked for by id, in the order asked; missing ones are reported.
    pub(crate) async fn find_rows(
        &self,
        index: &ObjectIndex,
        ids: &[ObjectId],
    ) -> Result<Vec<u64>, QueryError> {
        let mut rows = Vec::with_capacity(ids.len());
        for (id, row) in ids.iter().zip(index.find(ids).await?) {
            match (row, self.query.unknown_ids) {
                (Some(row), _) => rows.push(row),
                (None, UnknownIds::Skip) => {}
                (None, UnknownIds::Report) => self.unknown().push(*id),
                (None, UnknownIds::Error) => return Err(BadQuery::NoSuchObject(*id).into()),
            }
        }
        Ok(rows)
    }

    /// The objects at `rows` of the index, followed to their fragments; what is missing is noted and left
    /// out where the question allows it.
    pub(super) async fn follow(
        &self,
        index: &ObjectIndex,
        rows: &[u64],
    ) -> Result<Followed, QueryError> {
        let allowed = |error: &zvf_model::ModelError| self.allows(error);
        Ok(self.warm.level.follow_there(index, rows, &allowed).await?)
    }

    /// The objects at `rows` of the index, of which at most `limit` vertices count.
    pub(super) async fn objects(&self, rows: &[u64], limit: usize) -> Result<Batch, QueryError> {
        let index = self.index().await?;
        let followed = self.follow(&index, rows).await?;
        let (chunks, parted) = parted(&followed)?;
        self.count(chunks.keys.len(), to_u64(parted.pieces.rows));
        // Only compared with a cap.
        let caching = self.caching(to_u64(parted.pieces.rows).saturating_mul(self.row_bytes()));

        let of = Of::Positions(&self.warm.level);
        let wanted: Vec<u64> = chunks.named.iter().map(|named| named.rows).collect();
        let mut needs = plan_wanted_needs(of, &chunks.rows, &wanted, &parted.pieces);
        if self.mode == Mode::Crop || !self.kind.is_chain() {
            self.only_near(&chunks.keys, &mut needs);
        }
        let positions = self.read(of, &chunks.keys, needs, caching).await?;
        if !chunks.have_all(&positions) {
            check_pieces(&chunks.keys, &parted.pieces, &positions)?;
        }
        let parted = self.drop_missing(parted, std::slice::from_ref(&positions));
        let parted = self.filter_objects(parted, &chunks, &positions, caching).await?;
        if let (Mode::Clip, true, Some(region)) =
            (self.mode, self.kind.is_chain(), &self.query.region)
        {
            return self.clipped(region, &chunks, parted, &positions, limit, caching).await;
        }
        let parted = parted.limited(limit);
        let found = to_u64(parted.pieces.rows);
        self.check_caps(found, found.saturating_mul(self.row_bytes()))?;
        let columns = self.columns(&chunks.keys, &chunks.rows, &parted.pieces, caching).await?;
        let parted = self.drop_missing(parted, &columns);
        let batch = self.gathered(&parted.pieces, &positions, &columns)?;
        self.with_parts(batch, &chunks.keys, &parted).await
    }

    /// What the conditions and the region leave of the objects; cuts come later.
    async fn filter_objects(
        &self,
        parted: Parted,
        chunks: &Chunks,
        positions: &[Held],
        caching: Caching,
    ) -> Result<Parted, QueryError> {
        let chain = self.kind.is_chain();
        let within = |parted, mode| self.clip_to_region(parted, &chunks.keys, positions, mode);
        // What is whole in or near the region is decided by what the conditions leave; looking at objects
        // that are far away can be spared.
        let (before, after) = match self.mode {
            Mode::Touch if chain => (Some(Mode::Touch), Some(Mode::Touch)),
            Mode::Clip if chain => (Some(Mode::Touch), None),
            Mode::Inside | Mode::Cells if chain => (None, Some(self.mode)),
            Mode::Inside | Mode::Touch | Mode::Clip | Mode::Crop | Mode::Cells => {
                (Some(self.mode), None)
            }
        };
        let cut = chain && self.mode == Mode::Clip;
        let spares = !self.conditions.rows.is_empty();
        let mut parted = match before.filter(|_| spares || (after.is_none() && !cut)) {
            Some(mode) => within(parted, mode),
            None => parted,
        };
        let (keys, rows) = (&chunks.keys, &chunks.rows);
        let test = self.row_test(keys, rows, &parted.pieces, positions, caching).await?;
        if let Some(test) = test {
            parted = test.filter_objects(&parted, chain)?;
        }
        Ok(match after {
            Some(mode) => within(parted, mode),
            None => parted,
        })
    }

    /// What of the objects is asked for in this mode: all, some whole, or runs of their vertices.
    fn clip_to_region(
        &self,
        parted: Parted,
        keys: &[ChunkKey],
        positions: &[Held],
        mode: Mode,
    ) -> Parted {
        let Some((_, range)) = &self.reach else { return parted };
        let axes = self.warm.level.axes();
        let chain = self.kind.is_chain();
        let near = |piece: &&Piece| {
            keys.get(usize_from_u32(piece.cell)).is_some_and(|key| range.contains(key))
        };
        let mut left = Parted::default();
        let Some(region) = &self.query.region else {
            // Conditions bound what can matter, and test it later, row by row.
            if chain {
                return parted;
            }
            for span in &parted.spans {
                left.push(span.id, span.row, parted.span_pieces(span).iter().filter(near).copied());
            }
            return left;
        };
        for span in &parted.spans {
            let pieces = parted.span_pieces(span);
            let object = Chain::new(pieces, positions, axes);
            let mut push = |pieces: &[Piece]| left.push(span.id, span.row, pieces.iter().copied());
            match mode {
                Mode::Touch if chain && !object.touches(region) => {}
                Mode::Inside if chain && !object.is_inside(region) => {}
                Mode::Cells if chain && !pieces.iter().any(|piece| near(&piece)) => {}
                Mode::Touch | Mode::Inside | Mode::Cells if chain => push(pieces),
                Mode::Crop if chain => object.runs_inside(region, push),
                Mode::Cells => push(&pieces.iter().filter(near).copied().collect::<Vec<_>>()),
                Mode::Inside | Mode::Touch | Mode::Clip | Mode::Crop => {
                    let mut inside = Vec::new();
                    object.runs_inside(region, |run| inside.extend_from_slice(run));
                    push(&inside);
                }
            }
        }
        left
    }

    /// What is left of the objects where some chunks are missing in one of `columns`: an object that lacks
    /// some is the runs between.
    fn drop_missing(&self, parted: Parted, columns: &[Vec<Held>]) -> Parted {
        if self.missing().list.is_empty() {
            return parted;
        }
        let held = |piece: &Piece| {
            columns.iter().all(|column| {
                !matches!(column.get(usize_from_u32(piece.cell)), None | Some(Held::Nothing))
            })
        };
        parted.held(held)
    }

    /// Nothing of chunks that the region does not meet, where only vertices in it count.
    fn only_near(&self, keys: &[ChunkKey], needs: &mut [Need]) {
        let Some((_, range)) = &self.reach else { return };
        for (key, need) in keys.iter().zip(needs) {
            if !range.contains(key) {
                *need = Need::Nothing;
            }
        }
    }

    async fn with_parts(
        &self,
        batch: Batch,
        keys: &[ChunkKey],
        parted: &Parted,
    ) -> Result<Batch, QueryError> {
        let (mut offsets, mut end) = (Vec::with_capacity(parted.spans.len() + 1), 0_usize);
        offsets.push(end);
        for span in &parted.spans {
            end += parted.len(span);
            offsets.push(end);
        }
        let rows = self.joins_objects().then(|| {
            let rows = parted.spans.iter().flat_map(|span| span.pieces.clone().map(|_| span.row));
            rows.map(Some).collect()
        });
        let ids: Vec<ObjectId> = parted.spans.iter().map(|span| span.id).collect();
        let batch = self.join_columns(batch, keys, &parted.pieces.list, rows).await?;
        Ok(batch.with_parts(Parts::new(offsets, ids)?)?)
    }

    /// The objects cut at the boundary of the region.
    async fn clipped(
        &self,
        region: &Region,
        chunks: &Chunks,
        mut parted: Parted,
        positions: &[Held],
        limit: usize,
        caching: Caching,
    ) -> Result<Batch, QueryError> {
        let axes = self.warm.level.axes();
        let mut cut = Cuts::new(&parted, region, positions, axes, limit);
        let mut columns = self.columns(&chunks.keys, &chunks.rows, &cut.kept, caching).await?;
        let known = self.missing().list.len();
        parted = self.drop_missing(parted, &columns);
        if known > 0 {
            // Some values are missing: what is left without them is cut anew.
            cut = Cuts::new(&parted, region, positions, axes, limit);
            columns = self.columns(&chunks.keys, &chunks.rows, &cut.kept, caching).await?;
        }
        let level = &self.warm.level;
        let stored = mixed(&cut.cuts, positions, level.dtype(), saturating_u32(to_u64(axes)))?;
        let mut batch = Batch::new(self.kind, stored);
        for (field, held) in self.chosen.vertex.iter().zip(&columns) {
            let column: Column = mixed(&cut.cuts, held, field.dtype(), field.width())?;
            batch = batch.with_field(field.field(column))?;
        }
        let nearest: Vec<Piece> = cut.cuts.iter().map(Cut::nearest).collect();
        let batch = self.join_columns(batch, &chunks.keys, &nearest, Some(cut.rows)).await?;
        let batch = batch.with_parts(Parts::new(cut.offsets, cut.ids)?)?;
        if batch.len() > limit { join::cut(&batch, limit) } else { Ok(batch) }
    }
}

/// Objects cut at a region.
struct Cuts {
    cuts: Vec<Cut>,
    /// The object of each.
    rows: Vec<Option<u64>>,
    offsets: Vec<usize>,
    ids: Vec<ObjectId>,
    /// The pieces that cuts can be made of.
    kept: Pieces,
}

impl Cuts {
    fn new(
        parted: &Parted,
        region: &Region,
        positions: &[Held],
        axes: usize,
        limit: usize,
    ) -> Self {
        let mut all = Self {
            cuts: Vec::new(),
            rows: Vec::new(),
            offsets: vec![0],
            ids: Vec::new(),
            kept: Pieces::default(),
        };
        for span in &parted.spans {
            let pieces = parted.span_pieces(span);
            let before = all.cuts.len();
            let Self { cuts, offsets, ids, .. } = &mut all;
            Chain::new(pieces, positions, axes).clip(region, cuts, |cuts| {
                offsets.push(cuts.len());
                ids.push(span.id);
            });
            if all.cuts.len() > before {
                all.rows.resize(all.cuts.len(), Some(span.row));
                pieces.iter().for_each(|piece| all.kept.push_apart(*piece));
            }
            if all.cuts.len() >= limit {
                break;
            }
        }
        all
    }
}

impl Parted {
    pub(crate) fn span_pieces(&self, span: &Span) -> &[Piece] {
        self.pieces.list.get(span.pieces.clone()).unwrap_or_default()
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
        let behind = |span: Span| Span {
            pieces: span.pieces.start + first..span.pieces.end + first,
            ..span
        };
        self.spans.extend(others.spans.into_iter().map(behind));
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

    /// The same without the pieces that are not held: an object that lacks some is the runs between.
    fn held(&self, held: impl Fn(&Piece) -> bool) -> Self {
        let mut left = Self::default();
        for span in &self.spans {
            for run in self.span_pieces(span).split(|piece| !held(piece)) {
                left.push(span.id, span.row, run.iter().copied());
            }
        }
        left
    }

    /// Whole objects until there are `limit` vertices; one more, so that the cut shows.
    fn limited(mut self, limit: usize) -> Self {
        if self.pieces.rows <= limit {
            return self;
        }
        let (mut rows, mut kept) = (0_usize, 0_usize);
        for span in &self.spans {
            rows += self.len(span);
            kept += 1;
            if rows >= limit {
                break;
            }
        }
        self.spans.truncate(kept);
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
    positions: &[Held],
) -> Result<(), QueryError> {
    for piece in &pieces.list {
        // Ranges that were read are there, and what is not held was not asked for.
        if let (Some(key), Some(Held::Whole(column))) =
            (keys.get(usize_from_u32(piece.cell)), positions.get(usize_from_u32(piece.cell)))
        {
            check_end(key, piece.end().into(), to_u64(column.len()))?;
        }
    }
    Ok(())
}

/// The objects of `followed` as pieces of its chunks; one with gaps is the runs between.
fn parted(followed: &Followed) -> Result<(Chunks, Parted), QueryError> {
    let mut views = Vec::with_capacity(followed.chunks.len());
    let mut chunks = Chunks::default();
    // Lists of rows take eight bytes a row. Manifests may name them again, but not without end.
    let mut most = followed.objects.iter().map(|object| object.runs.len()).sum::<usize>();
    let look_ups = count_look_ups(followed);
    for (at, fragments) in followed.chunks.iter().enumerate() {
        let extent = fragments.extent();
        check_extent(extent).map_err(|error| error.in_chunk(fragments.chunk()))?;
        most = most.saturating_add(fragments.blob().len().saturating_mul(MAX_ROWS_PER_INDEX_BYTE)); // a cap
        chunks.keys.push(*fragments.chunk());
        chunks.rows.push(extent);
        let view = fragments.view()?;
        // A table takes as long as one look-up without it.
        let is_long = fragments.len() > MAX_FRAGMENTS_WITHOUT_RANKS;
        let pays = is_long && look_ups.get(at).is_some_and(|look_ups| *look_ups > 1);
        views.push((pays.then(|| RankTable::new(&view)), view));
    }
    let left = AtomicUsize::new(most);
    let part = |objects: &[ObjectRuns]| {
        let parted = part_objects(objects, &views, (most, &left))?;
        // Each part counts for itself: where chunks are many and objects few, the sums would take longer than the rows.
        let counts = views.len() <= parted.pieces.list.len();
        Ok((counts.then(|| count_rows(&parted.pieces, views.len())), parted))
    };
    let parts: Vec<Result<_, QueryError>> = match followed.objects.len() {
        0..=BATCH_OBJECTS => vec![part(&followed.objects)],
        _ => followed.objects.par_chunks(BATCH_OBJECTS).map(part).collect(),
    };
    let mut parted = Parted::default();
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
        parted.extend(part);
    }
    Ok((chunks, parted))
}

/// How many fragments of each chunk objects name; empty where no chunk has so many fragments that it matters.
fn count_look_ups(followed: &Followed) -> Vec<usize> {
    if followed.chunks.iter().all(|chunk| chunk.len() <= MAX_FRAGMENTS_WITHOUT_RANKS) {
        return Vec::new();
    }
    let mut look_ups = vec![0_usize; followed.chunks.len()];
    for run in followed.objects.iter().flat_map(|object| &object.runs) {
        look_ups.get_mut(run.chunk).into_iter().for_each(|count| *count += 1);
    }
    look_ups
}

/// What pieces name of each of so many chunks.
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

/// Objects as pieces of the chunks of `views`, of which there may be so many, and so many more.
fn part_objects(
    objects: &[ObjectRuns],
    views: &[(Option<RankTable>, FragmentIndex<'_>)],
    (most, left): (usize, &AtomicUsize),
) -> Result<Parted, QueryError> {
    let mut parted = Parted::default();
    parted.pieces.list.reserve(objects.iter().map(|object| object.runs.len()).sum());
    let mut runs = Runs::default();
    for object in objects {
        let mut gaps = object.gaps.iter().peekable();
        let first = parted.pieces.list.len();
        let mut from = first;
        let mut close = |parted: &mut Parted| {
            let to = parted.pieces.list.len();
            if to > from {
                parted.spans.push(Span { id: object.id, row: object.row, pieces: from..to });
            }
            from = to;
        };
        for (number, run) in object.runs.iter().enumerate() {
            if gaps.next_if(|gap| **gap <= number).is_some() {
                close(&mut parted);
                while gaps.next_if(|gap| **gap <= number).is_some() {}
            }
            let Some((ranks, view)) = views.get(run.chunk) else { continue };
            let fragment = match ranks {
                Some(ranks) => ranks.get(view, run.fragment),
                None => view.get(run.fragment),
            };
            let Some(fragment) = fragment else { continue };
            let cell = saturating_u32(to_u64(run.chunk));
            runs.list.clear();
            runs.push_fragment(fragment, saturating_u32(run.fragment));
            if parted.pieces.list.len() - first + runs.list.len() > most {
                return Err(too_many_pieces(most));
            }
            for one in &runs.list {
                let (start, len, fragment) = (one.start, one.len, one.fragment);
                parted.pieces.push_apart(Piece { cell, start, len, fragment });
            }
        }
        close(&mut parted);
        let own = parted.pieces.list.len() - first;
        let fits =
            left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(own));
        if fits.is_err() {
            return Err(too_many_pieces(most));
        }
    }
    Ok(parted)
}

fn too_many_pieces(most: usize) -> QueryError {
    QueryError::limit("rows that objects name again", to_u64(most), to_u64(most) + 1)
}

/// Objects that one thread takes at a time.
const BATCH_OBJECTS: usize = 1024;
/// So few fragments are looked up by counting the ranges before them.
const MAX_FRAGMENTS_WITHOUT_RANKS: u64 = 1024;
/// How often, for each byte of fragment indexes, rows in lists may be named.
const MAX_ROWS_PER_INDEX_BYTE: usize = 4;
