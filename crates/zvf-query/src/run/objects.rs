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

use zvf_format::fragment::RankTable;
use zvf_format::key::ChunkKey;
use zvf_model::{Batch, Followed, ObjectId, ObjectIndex, Parts};

use super::fetch::{Need, Of, needs};
use super::{Context, join};
use crate::error::{BadQuery, QueryError};
use crate::num::{narrow, to_u64, wide};
use crate::query::{Mode, UnknownIds};
use crate::select::chain::{Chain, Cut};
use crate::select::held::Held;
use crate::select::pieces::{Piece, Pieces};
use crate::select::runs::Runs;

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
    /// Its pieces.
    pub(crate) pieces: Range<usize>,
}

/// Chunks that objects lie in.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chunks {
    pub(crate) keys: Vec<ChunkKey>,
    /// About how many rows each has.
    pub(crate) rows: Vec<u64>,
}

impl Context {
    /// The object index.
    pub(crate) async fn index(&self) -> Result<ObjectIndex, QueryError> {
        let index = self.warm.level.objects().await?;
        index.ok_or_else(|| BadQuery::NoObjects.into())
    }

    /// The rows of the index that are asked for by id, in the order asked; what is not there is told.
    pub(crate) async fn rows_of(
        &self,
        index: &ObjectIndex,
        ids: &[ObjectId],
    ) -> Result<Vec<u64>, QueryError> {
        let mut rows = Vec::with_capacity(ids.len());
        for (id, row) in ids.iter().zip(index.find(ids).await?) {
            match (row, self.query.unknown_ids) {
                (Some(row), _) => rows.push(row),
                (None, UnknownIds::Skip) => {}
                (None, UnknownIds::Report) => self.note_unknown(*id),
                (None, UnknownIds::Error) => return Err(BadQuery::NoSuchObject(*id).into()),
            }
        }
        Ok(rows)
    }

    /// The objects at `rows` of the index, of which at most `limit` vertices count.
    pub(super) async fn objects(&self, rows: &[u64], limit: usize) -> Result<Batch, QueryError> {
        let index = self.index().await?;
        let followed = self.warm.level.follow(&index, rows).await?;
        let (chunks, parted) = parted(&followed)?;
        self.count(chunks.keys.len(), to_u64(parted.pieces.rows));
        let caching = self.caching(to_u64(parted.pieces.rows).saturating_mul(self.row_bytes()));

        let of = Of::Positions(&self.warm.level);
        let mut needs = needs(of, &chunks.rows, &parted.pieces);
        if self.mode == Mode::Crop || !self.kind.is_chain() {
            self.only_near(&chunks.keys, &mut needs);
        }
        let positions = self.read(of, &chunks.keys, needs, caching).await?;
        let parted = if self.missing().is_empty() {
            parted
        } else {
            parted.held(|piece| {
                !matches!(positions.get(wide(piece.cell)), None | Some(Held::Nothing))
            })
        };
        if self.mode == Mode::Clip && self.query.region.is_some() && self.kind.is_chain() {
            return self.clipped(&chunks, &parted, &positions, limit, caching).await;
        }
        let parted = within(self, parted, &positions).limited(limit);
        let batch =
            self.batch(&chunks.keys, &chunks.rows, &parted.pieces, &positions, caching).await?;
        self.with_parts(batch, &parted)
    }

    /// Nothing of chunks that the region does not meet, where only vertices in it count.
    fn only_near(&self, keys: &[ChunkKey], needs: &mut [Need]) {
        let Some((_, range)) = &self.reach else { return };
        if self.mode != Mode::Cells {
            for (key, need) in keys.iter().zip(needs) {
                if !range.contains(key) {
                    *need = Need::Nothing;
                }
            }
        }
    }

    fn with_parts(&self, batch: Batch, parted: &Parted) -> Result<Batch, QueryError> {
        let mut offsets = vec![0_usize];
        let mut end = 0_usize;
        for span in &parted.spans {
            end = end.saturating_add(parted.len(span));
            offsets.push(end);
        }
        let ids: Vec<ObjectId> = parted.spans.iter().map(|span| span.id).collect();
        let owners = self.query.owners.then(|| {
            let each = parted.spans.iter();
            each.flat_map(|span| std::iter::repeat_n(Some(span.id), parted.len(span))).collect()
        });
        let batch = batch.with_parts(Parts::new(offsets, ids)?)?;
        Ok(match owners {
            Some(owners) => batch.with_vertex_objects(owners)?,
            None => batch,
        })
    }

    /// The objects cut at the boundary of the region.
    async fn clipped(
        &self,
        chunks: &Chunks,
        parted: &Parted,
        positions: &[Held],
        limit: usize,
        caching: zvf_store::Caching,
    ) -> Result<Batch, QueryError> {
        let Some(region) = &self.query.region else { return self.empty() };
        let axes = self.warm.level.axes();
        let (mut cuts, mut offsets, mut ids) = (Vec::<Cut>::new(), vec![0], Vec::new());
        let mut kept = Pieces::default();
        for span in &parted.spans {
            let pieces = parted.of(span);
            let before = cuts.len();
            Chain::new(pieces, positions, axes).clip(region, &mut cuts, |cuts| {
                offsets.push(cuts.len());
                ids.push(span.id);
            });
            if cuts.len() > before {
                pieces.iter().for_each(|piece| kept.push_apart(*piece));
            }
            if cuts.len() >= limit {
                break;
            }
        }
        let level = &self.warm.level;
        let width = narrow(to_u64(axes));
        let mut batch = Batch::new(
            self.kind,
            crate::select::chain::mixed(&cuts, positions, level.dtype(), width)?,
        );
        for field in &self.fields {
            let of = Of::Attribute(field);
            let held = self.read_pieces(of, &chunks.keys, &chunks.rows, &kept, caching).await?;
            let column = crate::select::chain::mixed(&cuts, &held, field.dtype(), field.width())?;
            batch = batch.with_field(field.field(column))?;
        }
        if self.query.owners {
            let runs = offsets.iter().zip(offsets.iter().skip(1)).zip(&ids);
            let owners = runs.flat_map(|((start, end), id): ((&usize, &usize), &ObjectId)| {
                std::iter::repeat_n(Some(*id), end.saturating_sub(*start))
            });
            batch = batch.with_vertex_objects(owners.collect())?;
        }
        let batch = batch.with_parts(Parts::new(offsets, ids)?)?;
        if batch.len() > limit { join::cut(&batch, limit) } else { Ok(batch) }
    }
}

impl Parted {
    pub(crate) fn of(&self, span: &Span) -> &[Piece] {
        self.pieces.list.get(span.pieces.clone()).unwrap_or_default()
    }

    fn len(&self, span: &Span) -> usize {
        self.of(span).iter().fold(0, |rows: usize, piece| rows.saturating_add(wide(piece.len)))
    }

    /// Adds an object, or a run of one.
    fn push(&mut self, id: ObjectId, pieces: impl IntoIterator<Item = Piece>) {
        let from = self.pieces.list.len();
        pieces.into_iter().for_each(|piece| self.pieces.push_apart(piece));
        let to = self.pieces.list.len();
        if to > from {
            self.spans.push(Span { id, pieces: from..to });
        }
    }

    /// The same without the pieces that are not held: an object that lacks some is the runs between.
    fn held(&self, held: impl Fn(&Piece) -> bool) -> Self {
        let mut left = Self::default();
        for span in &self.spans {
            for run in self.of(span).split(|piece| !held(piece)) {
                left.push(span.id, run.iter().copied());
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
            rows = rows.saturating_add(self.len(span));
            kept = kept.saturating_add(1);
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

/// What of the objects is asked for: all, some whole, or runs of their vertices.
fn within(context: &Context, parted: Parted, positions: &[Held]) -> Parted {
    let Some(region) = &context.query.region else { return parted };
    let axes = context.warm.level.axes();
    let chain = context.kind.is_chain();
    if context.mode == Mode::Cells {
        return parted;
    }
    let mut left = Parted::default();
    for span in &parted.spans {
        let pieces = parted.of(span);
        let object = Chain::new(pieces, positions, axes);
        match context.mode {
            Mode::Touch if chain => {
                if object.touches(region) {
                    left.push(span.id, pieces.iter().copied());
                }
            }
            Mode::Inside if chain => {
                if object.is_inside(region) {
                    left.push(span.id, pieces.iter().copied());
                }
            }
            Mode::Crop if chain => {
                object.runs_inside(region, |run| left.push(span.id, run.iter().copied()));
            }
            Mode::Inside | Mode::Touch | Mode::Clip | Mode::Crop | Mode::Cells => {
                let mut inside = Vec::new();
                object.runs_inside(region, |run| inside.extend_from_slice(run));
                left.push(span.id, inside);
            }
        }
    }
    left
}

/// The objects of `followed` as pieces of its chunks.
pub(crate) fn parted(followed: &Followed) -> Result<(Chunks, Parted), QueryError> {
    let mut views = Vec::with_capacity(followed.chunks.len());
    let mut chunks = Chunks::default();
    for fragments in &followed.chunks {
        let view = fragments.view()?;
        chunks.keys.push(*fragments.chunk());
        chunks.rows.push(view.extent());
        views.push((RankTable::new(&view), view));
    }
    let mut parted = Parted::default();
    let mut runs = Runs::default();
    for object in &followed.objects {
        let from = parted.pieces.list.len();
        for run in &object.runs {
            let Some((ranks, view)) = views.get(run.chunk) else { continue };
            let Some(fragment) = ranks.get(view, run.fragment) else { continue };
            runs.list.clear();
            runs.push_fragment(fragment, narrow(run.fragment));
            let cell = narrow(to_u64(run.chunk));
            for one in &runs.list {
                let (start, len, fragment) = (one.start, one.len, one.fragment);
                parted.pieces.push_apart(Piece { cell, start, len, fragment });
            }
        }
        let to = parted.pieces.list.len();
        if to > from {
            parted.spans.push(Span { id: object.id, pieces: from..to });
        }
    }
    Ok((chunks, parted))
}
