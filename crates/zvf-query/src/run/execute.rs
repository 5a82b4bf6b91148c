//! The executor: fetches, checks, tests and gathers the selected rows.
//!
//! ```text
//! Selection  ->  positions            ->  rows in the region that pass the conditions
//!            ->  columns              ->  a batch, with one part for each object or run
//! ```
//!
//! A chain continues from one fragment of its object to the next, also across chunks. Bridges of the store are
//! not used for geometry.

use futures_util::join;
use rayon::prelude::*;
use zvf_error::Result;
use zvf_format::num::{index_u32, to_u64, usize_from_u32};
use zvf_metadata::Dtype;
use zvf_model::{Batch, Column, ObjectId, Parts};

use super::fetch::{Chunks, Need, RowSource};
use super::{Context, join as batches, lock};
use crate::mode::Mode;
use crate::region::Region;
use crate::select::chain::{Chain, Cut};
use crate::select::faces::interpolate_column;
use crate::select::inside::Test;
use crate::select::loaded_rows::LoadedRows;
use crate::select::pieces::{Piece, Pieces};
use crate::select::selection::Selection;

impl Context {
    /// Reads the positions and columns of the selected rows in the answer, up to `limit`; an object
    /// is never split.
    pub(super) async fn load(
        &self,
        chunks: &Chunks,
        rows: Selection,
        limit: usize,
    ) -> Result<(Selection, Vec<LoadedRows>, Vec<Vec<LoadedRows>>)> {
        let is_plain = self.reach.is_none() && self.conditions.rows.is_empty();
        if !is_plain || rows.pieces.rows > limit {
            let (rows, positions) = self.test(chunks, rows).await?;
            let rows = rows.truncate(limit);
            self.check_rows(rows.pieces.rows)?;
            let columns = self.columns(chunks, &rows.pieces).await?;
            return Ok((self.drop_missing(rows, &columns), positions, columns));
        }
        // The answer does not depend on values: everything is read at once.
        self.check_rows(rows.pieces.rows)?;
        let columns = self.columns(chunks, &rows.pieces);
        let (tested, columns) = join!(self.test(chunks, rows.clone()), columns);
        let ((rows, positions), columns) = (tested?, columns?);
        Ok((self.drop_missing(rows, &columns), positions, columns))
    }

    /// Reads the positions of the selected rows; retains the rows in the region that pass the
    /// conditions. Chains in mode `clip` are clipped later.
    pub(super) async fn test(
        &self,
        chunks: &Chunks,
        rows: Selection,
    ) -> Result<(Selection, Vec<LoadedRows>)> {
        self.count(chunks.keys.len(), to_u64(rows.pieces.rows));
        let source = RowSource::Positions(&self.level);
        let by_values = rows.spans.is_none()
            && self.query.region.is_none()
            && self.conditions.are_of_attributes();
        // If no value is missing, conditions on attributes alone are applied before the positions
        // are read.
        if by_values
            && let Some(test) = self.row_test(chunks, &rows.pieces, &[]).await?
            && test.has_all(&rows.pieces)
        {
            let passing = test.filter_pieces(&rows.pieces)?;
            let positions = self.read_pieces(source, chunks, &passing).await?;
            chunks.check_pieces(&rows.pieces.list, &positions)?;
            let passing = Selection { pieces: passing, spans: None };
            return Ok((self.drop_missing(passing, std::slice::from_ref(&positions)), positions));
        }
        let mut needs = source.plan_needs(&chunks.rows, &rows.pieces.list);
        let whole_chains = self.mode != Mode::Crop && self.kind.is_chain();
        if let (Some((_, range)), false) = (&self.reach, rows.spans.is_none() || whole_chains) {
            let far = chunks.keys.iter().zip(&mut needs).filter(|(key, _)| !range.contains(key));
            far.for_each(|(_, need)| *need = Need::Nothing);
        }
        let positions = self.read(source, chunks, needs).await?;
        chunks.check_pieces(&rows.pieces.list, &positions)?;
        let rows = self.drop_missing(rows, std::slice::from_ref(&positions));
        Ok((self.filter(chunks, rows, &positions).await?, positions))
    }

    /// Applies the conditions and the region.
    async fn filter(
        &self,
        chunks: &Chunks,
        mut rows: Selection,
        positions: &[LoadedRows],
    ) -> Result<Selection> {
        let chain = rows.spans.is_some() && self.kind.is_chain();
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
        if let Some(mode) = before
            && (has_conditions || (after.is_none() && !clips_later))
        {
            rows = self.select(rows, chunks, positions, mode);
        }
        if let Some(test) = self.row_test(chunks, &rows.pieces, positions).await? {
            rows = test.filter(&rows, chain)?;
        }
        Ok(match after {
            Some(mode) => self.select(rows, chunks, positions, mode),
            None => rows,
        })
    }

    /// Selects rows, objects, or runs of their vertices, by the region in `mode`.
    fn select(
        &self,
        rows: Selection,
        chunks: &Chunks,
        positions: &[LoadedRows],
        mode: Mode,
    ) -> Selection {
        let Some((_, range)) = &self.reach else { return rows };
        let region = self.query.region.as_ref();
        let Some(spans) = &rows.spans else {
            let Some(region) = region.filter(|_| mode != Mode::Cells) else { return rows };
            return Selection {
                pieces: pieces_inside(region, &rows.pieces, positions),
                spans: None,
            };
        };
        let chain = self.kind.is_chain();
        if region.is_none() && chain {
            return rows; // only conditions bound the query; they test each row
        }
        let is_near = |piece: &Piece| range.contains(&chunks.keys[usize_from_u32(piece.cell)]);
        let mut selected = Selection { spans: Some(Vec::new()), ..Selection::default() };
        for span in spans {
            let pieces = rows.span_pieces(span);
            let object = Chain::new(pieces, positions, self.level.axes());
            let mut push = |pieces: &[Piece]| selected.push(span, pieces.iter().copied());
            let near = || pieces.iter().copied().filter(is_near);
            match (mode, region) {
                (Mode::Cells, _) if chain => {
                    if near().next().is_some() {
                        push(pieces);
                    }
                }
                (Mode::Cells, _) | (_, None) => selected.push(span, near()),
                (Mode::Touch, Some(region)) if chain => {
                    if object.touches(region) {
                        push(pieces);
                    }
                }
                (Mode::Inside, Some(region)) if chain => {
                    if object.is_inside(region) {
                        push(pieces);
                    }
                }
                (Mode::Crop, Some(region)) if chain => object.runs_inside(region, push),
                (Mode::Inside | Mode::Touch | Mode::Clip | Mode::Crop, Some(region)) => {
                    let mut inside = Vec::new();
                    object.runs_inside(region, |run| inside.extend_from_slice(run));
                    push(&inside);
                }
            }
        }
        selected
    }

    /// Drops the pieces of chunks that are missing in one of `columns`; splits objects at such gaps.
    fn drop_missing(&self, rows: Selection, columns: &[Vec<LoadedRows>]) -> Selection {
        if lock(&self.findings.missing).list.is_empty() {
            return rows;
        }
        rows.retain_pieces(|piece| {
            let cell = usize_from_u32(piece.cell);
            columns.iter().all(|column| !matches!(column[cell], LoadedRows::Nothing))
        })
    }

    /// Refuses more rows than a collected answer may have.
    pub(super) fn check_rows(&self, rows: usize) -> Result<()> {
        let rows = to_u64(rows);
        self.check_caps(rows, rows.saturating_mul(self.row_bytes())) // compared with a cap
    }

    /// Answers with selected objects, up to `limit` vertices.
    pub(super) async fn answer_objects(
        &self,
        chunks: &Chunks,
        rows: Selection,
        limit: usize,
    ) -> Result<Batch> {
        if let (Mode::Clip, true, Some(region)) =
            (self.mode, self.kind.is_chain(), &self.query.region)
        {
            let (rows, positions) = self.test(chunks, rows).await?;
            return self.clip_objects(region, chunks, rows, &positions, limit).await;
        }
        let (rows, positions, columns) = self.load(chunks, rows, limit).await?;
        let batch = self.gather_rows(&rows.pieces, &positions, &columns)?;
        let spans = rows.spans.as_deref().unwrap_or_default();
        let mut offsets = vec![0];
        offsets.extend(spans.iter().scan(0, |end, span| {
            *end += rows.len(span);
            Some(*end)
        }));
        let index_rows = self.joins_objects().then(|| {
            let of_pieces = spans.iter().flat_map(|span| span.pieces.clone().map(|_| span.row));
            of_pieces.map(Some).collect()
        });
        let ids: Vec<ObjectId> = spans.iter().map(|span| span.id).collect();
        let batch = self.join_columns(batch, &chunks.keys, &rows.pieces.list, index_rows).await?;
        Ok(batch.with_parts(Parts::new(offsets, ids)?)?)
    }

    /// Answers with the objects clipped at the boundary of the region.
    async fn clip_objects(
        &self,
        region: &Region,
        chunks: &Chunks,
        mut rows: Selection,
        positions: &[LoadedRows],
        limit: usize,
    ) -> Result<Batch> {
        let axes = self.level.axes();
        let (clipped, columns) = loop {
            let clipped = ClippedObjects::new(&rows, region, positions, axes, limit);
            let columns = self.columns(chunks, &clipped.pieces).await?;
            let held = self.drop_missing(rows.clone(), &columns);
            if held.pieces.rows == rows.pieces.rows || clipped.cuts.is_empty() {
                break (clipped, columns);
            }
            rows = held; // without the chunks that are missing, clip again
        };
        let columns = columns.iter().map(Vec::as_slice);
        let batch = self.assemble(positions, columns, |loaded, form, positions| {
            interpolate_column(clipped.cuts.iter().map(Cut::shares), loaded, form, positions)
        })?;
        let nearest: Vec<Piece> = clipped.cuts.iter().map(Cut::nearest_vertex).collect();
        let batch = self.join_columns(batch, &chunks.keys, &nearest, Some(clipped.rows)).await?;
        let batch = batch.with_parts(Parts::new(clipped.offsets, clipped.ids)?)?;
        if batch.len() > limit { batches::cut(&batch, limit) } else { Ok(batch) }
    }

    /// Gathers the rows of `pieces` into a batch, with their positions and the attributes in `columns`.
    pub(super) fn gather_rows(
        &self,
        pieces: &Pieces,
        positions: &[LoadedRows],
        columns: &[Vec<LoadedRows>],
    ) -> Result<Batch> {
        let columns = columns.iter().map(Vec::as_slice);
        self.assemble(positions, columns, |loaded, (dtype, width), _| {
            pieces.gather(loaded, dtype, width)
        })
    }

    /// Makes a batch from what there is for the positions and for each attribute of the answer:
    /// `column` turns that into a column of a type and width; it is also told whether of positions.
    pub(super) fn assemble<T>(
        &self,
        positions: T,
        columns: impl Iterator<Item = T>,
        column: impl Fn(T, (Dtype, u32), bool) -> Result<Column>,
    ) -> Result<Batch> {
        let form = (self.level.dtype(), index_u32(self.level.axes()));
        let positions = column(positions, form, true)?;
        let mut batch = Batch::new(self.kind, positions);
        for (field, from) in self.columns.vertex.iter().zip(columns) {
            let values = column(from, (field.dtype(), field.width()), false)?;
            batch = batch.with_field(field.field(values))?;
        }
        Ok(batch)
    }
}

/// Returns the rows of `pieces` that are in the region.
fn pieces_inside(region: &Region, pieces: &Pieces, positions: &[LoadedRows]) -> Pieces {
    let test = Test::new(region);
    let select = |list: &[Piece]| {
        let mut inside = Pieces::default();
        test.rows(positions, list, &mut inside);
        inside
    };
    if pieces.rows.saturating_mul(ROW_BYTES) <= MIN_THREAD_BYTES {
        return select(&pieces.list);
    }
    let mut all = Pieces::default();
    let by_cell = pieces.list.par_chunk_by(|a, b| a.cell == b.cell);
    let selected: Vec<Pieces> = by_cell.map(select).collect();
    selected.into_iter().for_each(|pieces| all.extend(pieces));
    all
}

/// Objects clipped at a region.
struct ClippedObjects {
    cuts: Vec<Cut>,
    /// The index row of the object of each.
    rows: Vec<Option<u64>>,
    offsets: Vec<usize>,
    ids: Vec<ObjectId>,
    /// The pieces whose rows can be interpolated for the vertices of cuts.
    pieces: Pieces,
}

impl ClippedObjects {
    fn new(
        rows: &Selection,
        region: &Region,
        positions: &[LoadedRows],
        axes: usize,
        limit: usize,
    ) -> Self {
        let (offsets, pieces) = (vec![0], Pieces::default());
        let mut all = Self { cuts: Vec::new(), rows: Vec::new(), offsets, ids: Vec::new(), pieces };
        for span in rows.spans.iter().flatten() {
            let pieces = rows.span_pieces(span);
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

/// Approximate bytes of the position of a row.
const ROW_BYTES: usize = 12;
/// Bytes that take longer to process than a thread takes to wake up.
const MIN_THREAD_BYTES: usize = 1 << 20;
