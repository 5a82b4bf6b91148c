//! Graphs, skeletons and meshes: vertices, and the edges or faces between them.
//!
//! ```text
//! link cells whose chunks reach the region  ->  records
//! chunks of these, and of the region        ->  fragments, positions
//! each element                              ->  kept, cut or left out
//! vertices that are left                    ->  numbered in storage order, gathered
//! ```
//!
//! An isolated vertex is geometry as well: those in the region come along in every mode. Elements come
//! in the order of their family; those of a skeleton in the order of their children, each as (child,
//! parent), implied ones among them.

use std::collections::{HashMap, HashSet};

use zvf_format::key::{ChunkKey, Delta};
use zvf_format::metadata::LinksConvention;
use zvf_model::{Batch, Elements, Kind, LinkFamily, LinkRecords, LinkSegment};
use zvf_store::Caching;

use super::Context;
use super::fetch::{Need, Of};
use crate::error::QueryError;
use crate::num::{narrow, to_u64, wide};
use crate::query::Mode;
use crate::region::Region;
use crate::select::chain::{Place, Point};
use crate::select::faces::{Blend, blended, clip_edge, clip_face};
use crate::select::held::{Held, ranges};
use crate::select::inside::position;
use crate::select::pieces::{Piece, Pieces};
use crate::select::runs::{Runs, runs};

/// Link cells of one family, and chunks whose vertices count.
#[derive(Clone, Debug, Default)]
pub(crate) struct Work {
    /// Chunks by their place in the table of the level, ascending.
    pub(crate) chunks: Vec<u32>,
    /// Cells: the number of the segment, and the place in it.
    pub(crate) cells: Vec<(usize, usize)>,
}

/// The records of one cell.
struct Part {
    segment: usize,
    place: usize,
    records: LinkRecords,
    /// The number of each of its chunks in the query.
    chunks: Vec<u32>,
}

/// One chunk of the query.
struct Chunk {
    key: ChunkKey,
    /// Whether its vertices count by themselves.
    own: bool,
    runs: Runs,
    rows: u64,
}

/// The elements that are left.
#[derive(Default)]
struct Kept {
    ends: Vec<Place>,
    /// Part and record of each; none for implied edges.
    from: Vec<Option<(u32, u32)>>,
    /// Vertices between stored ones, numbered after these.
    cuts: Vec<Blend>,
}

/// The cell number of ends that are cuts.
const CUT: u32 = u32::MAX;

impl Context {
    /// The family of the elements.
    pub(super) async fn family(&self) -> Result<Option<LinkFamily>, QueryError> {
        Ok(self.warm.level.links(Delta::SAME).await?)
    }

    /// The link cells that can matter: those whose chunks reach the region.
    pub(super) async fn link_cells(
        &self,
        family: &LinkFamily,
        chunks: &[u32],
    ) -> Result<Vec<(usize, usize)>, QueryError> {
        let mut found = Vec::new();
        for (number, segment) in family.segments().iter().enumerate() {
            let cells = segment.cells().await?;
            let mut places = Vec::new();
            let few = match (&self.reach, segment.offsets()) {
                (Some((_, range)), Some(offsets)) if range.rank() == self.warm.level.key_rank() => {
                    let offsets: Vec<&[i64]> = offsets.iter().collect();
                    sources(range, &offsets, to_u64(cells.len()))
                }
                _ => None,
            };
            if let Some(sources) = few {
                places.extend(sources.iter().filter_map(|source| cells.find(source)));
            } else {
                for place in 0..cells.len() {
                    if self.cell_matters(&cells.chunks(place)?, chunks) {
                        places.push(place);
                    }
                }
            }
            let mut keyed: Vec<(ChunkKey, usize)> =
                places.iter().filter_map(|place| Some((cells.source(*place)?, *place))).collect();
            if keyed.len() == places.len() {
                keyed.sort_by(|(a, _), (b, _)| a.cmp_string(b));
                places = keyed.into_iter().map(|(_, place)| place).collect();
            }
            found.extend(places.into_iter().map(|place| (number, place)));
        }
        Ok(found)
    }

    /// Whether records between these chunks can matter.
    fn cell_matters(&self, between: &[ChunkKey], chunks: &[u32]) -> bool {
        let axes = self.warm.level.axes();
        if let Some((_, range)) = &self.reach {
            return (0..axes).all(|axis| {
                let at = |key: &ChunkKey| key.spatial(axes).and_then(|key| key.get(axis).copied());
                let ends = between.iter().filter_map(at);
                let low = ends.clone().min().unwrap_or(i64::MAX);
                let high = ends.max().unwrap_or(i64::MIN);
                range.axis(axis).is_some_and(|(first, last)| low <= last && high >= first)
            });
        }
        if chunks.len() == self.chunks.len() {
            return true;
        }
        let is_own = |key| {
            let place = self.chunks.find(key).map(|place| narrow(to_u64(place)));
            place.is_some_and(|place| chunks.binary_search(&place).is_ok())
        };
        between.iter().all(is_own)
    }

    /// The answer to some of the cells.
    pub(super) async fn elements(&self, work: &Work) -> Result<Batch, QueryError> {
        let family = self.family().await?;
        let rows = work.chunks.len().saturating_add(work.cells.len());
        let caching = if rows > MANY_CELLS { Caching::Once } else { self.caching(0) };
        let mut parts = match &family {
            Some(family) => self.records(family, &work.cells, caching).await?,
            None => Vec::new(),
        };
        let chunks = self.chunks_of(&mut parts, &work.chunks).await?;
        let keys: Vec<ChunkKey> = chunks.iter().map(|chunk| chunk.key).collect();
        let extents: Vec<u64> = chunks.iter().map(|chunk| chunk.rows).collect();
        let asked = extents.iter().fold(0_u64, |sum, rows| sum.saturating_add(*rows));
        self.count(keys.len().saturating_add(parts.len()), asked);

        let of = Of::Positions(&self.warm.level);
        let needs = ends_needed(of, &chunks, &parts);
        let positions = self.read(of, &keys, needs, caching).await?;
        let allowed = self.allowed(&chunks).await?;
        let mut marks = Marks::new(&chunks, &positions, allowed);
        let width = family.as_ref().map_or(2, LinkFamily::link_width);
        let kept = self.kept(family.as_ref(), &parts, &chunks, &positions, &mut marks)?;
        let (pieces, numbers) = marks.numbered(&chunks);

        let batch = self.batch(&keys, &extents, &pieces, &positions, caching).await?;
        let batch = self.with_cuts(batch, &kept, &keys, &extents, &positions, caching).await?;
        let stored = pieces.rows;
        let number = |end: &Place| {
            if end.cell == CUT {
                return stored.checked_add(wide(end.row));
            }
            numbers
                .get(wide(end.cell))?
                .get(wide(end.row))
                .copied()
                .filter(|n| *n != NONE)
                .map(wide)
        };
        let width = if self.mode == Mode::Clip && self.kind == Kind::Mesh { 3 } else { width };
        let (mut rows, mut from) = (Vec::with_capacity(kept.ends.len()), Vec::new());
        for (ends, source) in kept.ends.chunks(width.max(1)).zip(&kept.from) {
            // An element of a row that no fragment names is not part of the geometry.
            if ends.iter().all(|end| number(end).is_some()) {
                rows.extend(ends.iter().filter_map(number));
                from.push(*source);
            }
        }
        let (rows, from) =
            if self.kind == Kind::Skeleton { by_child(rows, from) } else { (rows, from) };
        let mut elements = Elements::new(width, rows)?;
        if let Some(family) = &family {
            elements = self.with_link_fields(elements, family, &parts, &from, caching).await?;
        }
        Ok(batch.with_elements(elements)?)
    }

    /// The records of `cells`, each cell a part.
    async fn records(
        &self,
        family: &LinkFamily,
        cells: &[(usize, usize)],
        caching: Caching,
    ) -> Result<Vec<Part>, QueryError> {
        let runs: Vec<(usize, Vec<usize>)> = cells
            .chunk_by(|a, b| a.0 == b.0)
            .filter_map(|run| {
                let places = run.iter().map(|(_, place)| *place).collect();
                Some((run.first()?.0, places))
            })
            .collect();
        let reads = runs.iter().filter_map(|(number, places)| {
            let segment = family.segments().get(*number)?;
            Some(segment.read(places, caching))
        });
        let mut parts = Vec::with_capacity(cells.len());
        let found = futures_util::future::join_all(reads).await;
        for ((segment, places), found) in runs.into_iter().zip(found) {
            for (place, records) in places.into_iter().zip(found) {
                if let Some(records) = self.sift(records)? {
                    parts.push(Part { segment, place, records, chunks: Vec::new() });
                }
            }
        }
        Ok(parts)
    }

    /// The chunks of `parts` and those at `own`, with their rows; `parts` learn the numbers of theirs.
    async fn chunks_of(&self, parts: &mut [Part], own: &[u32]) -> Result<Vec<Chunk>, QueryError> {
        let mut keys: Vec<(ChunkKey, bool)> =
            self.keys(own).into_iter().map(|key| (key, true)).collect();
        let between = parts.iter().flat_map(|part| part.records.chunks());
        keys.extend(between.map(|key| (*key, false)));
        keys.sort_unstable_by(|(a, own_a), (b, own_b)| a.cmp_numeric(b).then(own_b.cmp(own_a)));
        keys.dedup_by(|next, kept| next.0 == kept.0);
        for part in parts {
            let number = |key: &ChunkKey| keys.binary_search_by(|(one, _)| one.cmp_numeric(key));
            let numbers = part.records.chunks().iter().filter_map(|key| number(key).ok());
            part.chunks = numbers.map(|number| narrow(to_u64(number))).collect();
        }
        let only: Vec<ChunkKey> = keys.iter().map(|(key, _)| *key).collect();
        let found = self.warm.level.fragments(&only).await;
        let mut chunks = Vec::with_capacity(keys.len());
        for ((key, own), fragments) in keys.into_iter().zip(found) {
            let (runs, rows) = match self.sift(fragments)? {
                None => (Runs::default(), 0),
                Some(fragments) => {
                    let view = fragments.view()?;
                    (runs(&view, None, true), view.extent())
                }
            };
            chunks.push(Chunk { key, own, runs, rows });
        }
        Ok(chunks)
    }

    /// The rows of each chunk that belong to the objects asked for; `None` when all do.
    async fn allowed(&self, chunks: &[Chunk]) -> Result<Option<Vec<Vec<bool>>>, QueryError> {
        let Some(rows) = self.asked_rows().await? else { return Ok(None) };
        let index = self.index().await?;
        let followed = self.warm.level.follow(&index, &rows).await?;
        let (own, parted) = super::objects::parted(&followed)?;
        let numbers: HashMap<&ChunkKey, usize> =
            chunks.iter().map(|chunk| &chunk.key).zip(0..).collect();
        let mut allowed: Vec<Vec<bool>> =
            chunks.iter().map(|chunk| vec![false; crate::num::to_usize(chunk.rows)]).collect();
        for piece in &parted.pieces.list {
            let key = own.keys.get(wide(piece.cell));
            let rows = key.and_then(|key| numbers.get(key)).and_then(|n| allowed.get_mut(*n));
            let rows = rows.and_then(|rows| rows.get_mut(wide(piece.start)..wide(piece.end())));
            if let Some(rows) = rows {
                rows.fill(true);
            }
        }
        Ok(Some(allowed))
    }

    /// The elements that are asked for; their vertices are marked.
    fn kept(
        &self,
        family: Option<&LinkFamily>,
        parts: &[Part],
        chunks: &[Chunk],
        positions: &[Held],
        marks: &mut Marks,
    ) -> Result<Kept, QueryError> {
        let region = self.query.region.as_ref().filter(|_| self.mode != Mode::Cells);
        marks.own(chunks, positions, region, self.warm.level.axes());
        let mut test =
            Test { context: self, region, positions, points: Vec::new(), kept: Kept::default() };
        let mut children = HashSet::new();
        let mut ends = Vec::new();
        for (number, part) in (0_u32..).zip(parts) {
            // Skeletons that were streamed have (parent, child) from one chunk to the next.
            let parent_first = family.is_some_and(|family| {
                let offsets = family.segments().get(part.segment).and_then(LinkSegment::offsets);
                family.policy().is_directed() && offsets.is_some_and(|offsets| !offsets.are_zero())
            });
            for i in 0..part.records.len() {
                if !part.records.is_leading(i) {
                    continue;
                }
                ends.clear();
                ends.extend(part.records.ends(i).filter_map(|(place, row)| {
                    Some(Place { cell: *part.chunks.get(place)?, row: narrow(row) })
                }));
                if self.kind == Kind::Skeleton {
                    if parent_first {
                        ends.reverse();
                    }
                    children.extend(ends.first().copied());
                }
                test.element(&ends, Some((number, narrow(to_u64(i)))), marks)?;
            }
        }
        if self.kind == Kind::Skeleton && self.implies_parents() {
            for (cell, chunk) in (0_u32..).zip(chunks).filter(|(_, chunk)| chunk.own) {
                let mut before: Option<(Place, u32)> = None;
                for run in &chunk.runs.list {
                    for row in run.start..run.end() {
                        let child = Place { cell, row };
                        if let Some((parent, fragment)) = before
                            && fragment == run.fragment
                            && !children.contains(&child)
                        {
                            test.element(&[child, parent], None, marks)?;
                        }
                        before = Some((child, run.fragment));
                    }
                }
            }
        }
        Ok(test.kept)
    }

    /// Whether rows of a fragment follow each other as children and parents.
    fn implies_parents(&self) -> bool {
        let root = &self.warm.level.store().root().zarr_vectors;
        root.links_convention().known() != Some(LinksConvention::Explicit)
    }

    /// The batch with the vertices of cuts behind the stored ones.
    async fn with_cuts(
        &self,
        batch: Batch,
        kept: &Kept,
        keys: &[ChunkKey],
        rows: &[u64],
        positions: &[Held],
        caching: Caching,
    ) -> Result<Batch, QueryError> {
        if kept.cuts.is_empty() {
            return Ok(batch);
        }
        let column = |stored: &zvf_model::Column, held: &[Held]| {
            let cuts = blended(&kept.cuts, held, stored.dtype(), stored.width())?;
            let mut all = zvf_model::ColumnBuilder::like(stored);
            all.push_rows(stored, 0..stored.len());
            all.push_rows(&cuts, 0..cuts.len());
            Ok::<_, QueryError>(all.finish())
        };
        let mut needed = Pieces::default();
        for (place, _) in kept.cuts.iter().flat_map(|cut| cut.of.iter()) {
            needed.push_apart(Piece { cell: place.cell, start: place.row, len: 1, fragment: 0 });
        }
        let mut all = Batch::new(self.kind, column(batch.positions(), positions)?);
        for (field, stored) in self.fields.iter().zip(batch.fields()) {
            let of = Of::Attribute(field);
            let held = self.read_pieces(of, keys, rows, &needed, caching).await?;
            all = all.with_field(stored.with_column(column(&stored.column, &held)?))?;
        }
        Ok(all)
    }

    /// The elements with the attributes of the records they are; none where some are no records.
    async fn with_link_fields(
        &self,
        mut elements: Elements,
        family: &LinkFamily,
        parts: &[Part],
        from: &[Option<(u32, u32)>],
        caching: Caching,
    ) -> Result<Elements, QueryError> {
        let Some(from) = from.iter().copied().collect::<Option<Vec<_>>>() else {
            return Ok(elements);
        };
        for attribute in self.warm.link_attributes(family, &self.query.columns).await? {
            let mut columns: Vec<Option<zvf_model::Column>> = Vec::with_capacity(parts.len());
            for run in parts.chunk_by(|a, b| a.segment == b.segment) {
                let Some(first) = run.first() else { continue };
                let places: Vec<usize> = run.iter().map(|part| part.place).collect();
                let records: Vec<LinkRecords> =
                    run.iter().map(|part| part.records.clone()).collect();
                for values in attribute.values(first.segment, &places, &records, caching).await {
                    columns.push(self.sift(values)?.flatten());
                }
            }
            let Some(like) = columns.iter().flatten().next() else { continue };
            let mut values = zvf_model::ColumnBuilder::like(like);
            for (part, record) in &from {
                if let Some(Some(column)) = columns.get(wide(*part)) {
                    values.push_row(column, wide(*record));
                }
            }
            if values.len() == from.len() {
                elements = elements
                    .with_field(zvf_model::Field::new(attribute.name(), values.finish()))?;
            }
        }
        Ok(elements)
    }
}

/// The elements in the order of their first vertices.
fn by_child(
    rows: Vec<usize>,
    from: Vec<Option<(u32, u32)>>,
) -> (Vec<usize>, Vec<Option<(u32, u32)>>) {
    let mut order: Vec<usize> = (0..from.len()).collect();
    let pairs = rows.as_chunks::<2>().0;
    order.sort_by_key(|at| pairs.get(*at).map(|[child, _]| *child));
    let sorted = order.iter().filter_map(|at| pairs.get(*at)).flatten().copied().collect();
    let sources = order.iter().filter_map(|at| from.get(*at).copied()).collect();
    (sorted, sources)
}

/// What to read of the positions of each chunk: all where its vertices count, else the ends of records.
fn ends_needed(of: Of<'_>, chunks: &[Chunk], parts: &[Part]) -> Vec<Need> {
    let mut ends: Vec<Vec<Piece>> = vec![Vec::new(); chunks.len()];
    for part in parts {
        for i in 0..part.records.len() {
            for (place, row) in part.records.ends(i) {
                let cell = part.chunks.get(place).copied().unwrap_or(CUT);
                let foreign = chunks.get(wide(cell)).is_some_and(|chunk| !chunk.own);
                if foreign && let Some(ends) = ends.get_mut(wide(cell)) {
                    ends.push(Piece { cell, start: narrow(row), len: 1, fragment: 0 });
                }
            }
        }
    }
    let each = chunks.iter().zip(ends).map(|(chunk, ends)| {
        if chunk.own {
            return if chunk.rows == 0 { Need::Nothing } else { Need::Whole };
        }
        of.need(chunk.rows, to_u64(ends.len()), |gap| ranges(ends.iter(), gap, &mut Vec::new()))
    });
    each.collect()
}

/// Which rows of which chunks are in the answer.
struct Marks {
    rows: Vec<Vec<bool>>,
    allowed: Option<Vec<Vec<bool>>>,
}

/// Numbers of the rows of one chunk in the answer; [`NONE`] where a row is not in it.
type Numbers = Vec<u32>;

const NONE: u32 = u32::MAX;

impl Marks {
    fn new(chunks: &[Chunk], positions: &[Held], allowed: Option<Vec<Vec<bool>>>) -> Self {
        let rows = |(chunk, held): (&Chunk, &Held)| {
            let rows = match held {
                Held::Whole(column) => column.len(),
                Held::Nothing | Held::Parts(_) => crate::num::to_usize(chunk.rows),
            };
            vec![false; rows]
        };
        Self { rows: chunks.iter().zip(positions).map(rows).collect(), allowed }
    }

    /// Marks the vertices that count by themselves: those in the region.
    fn own(&mut self, chunks: &[Chunk], positions: &[Held], region: Option<&Region>, axes: usize) {
        let test = region.map(crate::select::inside::Test::new);
        let mut hits = Pieces::default();
        for (cell, (chunk, held)) in (0_u32..).zip(chunks.iter().zip(positions)) {
            if !chunk.own || matches!(held, Held::Nothing) {
                continue;
            }
            match &test {
                Some(test) => test.rows(held, &chunk.runs.list, cell, &mut hits),
                None => {
                    for run in &chunk.runs.list {
                        let (start, len, fragment) = (run.start, run.len, 0);
                        hits.push_apart(Piece { cell, start, len, fragment });
                    }
                }
            }
        }
        let _ = axes;
        for piece in &hits.list {
            for row in piece.start..piece.end() {
                self.mark(Place { cell: piece.cell, row });
            }
        }
    }

    fn is_allowed(&self, place: Place) -> bool {
        self.allowed.as_ref().is_none_or(|allowed| {
            let rows = allowed.get(wide(place.cell));
            rows.and_then(|rows| rows.get(wide(place.row))).copied().unwrap_or(false)
        })
    }

    fn mark(&mut self, place: Place) {
        if self.is_allowed(place)
            && let Some(mark) =
                self.rows.get_mut(wide(place.cell)).and_then(|rows| rows.get_mut(wide(place.row)))
        {
            *mark = true;
        }
    }

    fn has(&self, place: Place) -> bool {
        let rows = self.rows.get(wide(place.cell));
        rows.and_then(|rows| rows.get(wide(place.row))).copied().unwrap_or(false)
    }

    /// The marked rows in storage order, and their numbers. A row that several fragments name comes
    /// once.
    fn numbered(&self, chunks: &[Chunk]) -> (Pieces, Vec<Numbers>) {
        let mut pieces = Pieces::default();
        let mut all = Vec::with_capacity(chunks.len());
        for (cell, (chunk, marks)) in (0_u32..).zip(chunks.iter().zip(&self.rows)) {
            let mut numbers = vec![NONE; marks.len()];
            for run in &chunk.runs.list {
                for row in run.start..run.end() {
                    if let (Some(true), Some(number @ &mut NONE)) =
                        (marks.get(wide(row)), numbers.get_mut(wide(row)))
                    {
                        *number = narrow(to_u64(pieces.rows));
                        pieces.push(Piece { cell, start: row, len: 1, fragment: run.fragment });
                    }
                }
            }
            all.push(numbers);
        }
        (pieces, all)
    }
}

/// Elements held against the region.
struct Test<'a> {
    context: &'a Context,
    region: Option<&'a Region>,
    positions: &'a [Held],
    points: Vec<Point>,
    kept: Kept,
}

impl Test<'_> {
    /// Keeps one element, whole or cut, when it is asked for.
    fn element(
        &mut self,
        ends: &[Place],
        from: Option<(u32, u32)>,
        marks: &mut Marks,
    ) -> Result<(), QueryError> {
        if !ends.iter().all(|end| marks.is_allowed(*end)) {
            return Ok(());
        }
        let keep = match self.region {
            None => ends.iter().all(|end| marks.has(*end)),
            Some(region) => match self.context.mode {
                Mode::Inside | Mode::Crop | Mode::Cells => ends.iter().all(|end| marks.has(*end)),
                // A vertex in the region decides without looking at the others.
                Mode::Touch
                    if ends.iter().any(|end| marks.has(*end) && region.as_box().is_none()) =>
                {
                    true
                }
                Mode::Touch => {
                    self.load(ends)?;
                    meets(region, &self.points, self.context.warm.level.axes())
                }
                Mode::Clip => return self.clip(region, ends, from),
            },
        };
        if keep {
            ends.iter().for_each(|end| marks.mark(*end));
            self.kept.ends.extend_from_slice(ends);
            self.kept.from.push(from);
        }
        Ok(())
    }

    /// What of the element is in the region.
    fn clip(
        &mut self,
        region: &Region,
        ends: &[Place],
        from: Option<(u32, u32)>,
    ) -> Result<(), QueryError> {
        self.load(ends)?;
        let axes = self.context.warm.level.axes();
        let points: Vec<&[f64]> =
            self.points.iter().filter_map(|point| point.get(..axes)).collect();
        if !boxes_meet(region, &points) {
            return Ok(());
        }
        let mut pieces: Vec<Vec<Blend>> = Vec::new();
        if self.context.kind == Kind::Mesh {
            clip_face(region, ends, &points, &mut pieces)?;
        } else {
            clip_edge(region, ends, &points, &mut pieces);
        }
        for piece in pieces {
            for corner in piece {
                self.kept.ends.push(match corner.stored() {
                    Some(place) => place,
                    None => {
                        let row = narrow(to_u64(self.kept.cuts.len()));
                        self.kept.cuts.push(corner);
                        Place { cell: CUT, row }
                    }
                });
            }
            self.kept.from.push(from);
        }
        Ok(())
    }

    /// The positions of `ends`.
    fn load(&mut self, ends: &[Place]) -> Result<(), QueryError> {
        self.points.clear();
        for end in ends {
            let held = self.positions.get(wide(end.cell)).and_then(|held| held.column(end.row));
            let mut point = [0.0; zvf_model::Bounds::MAX_AXES];
            let found = held.and_then(|(column, first)| {
                let row = wide(end.row.checked_sub(first)?);
                let own = point.get_mut(..self.context.warm.level.axes())?;
                (row < column.len()).then(|| position(column, row, own))
            });
            if found.is_none() {
                return Err(crate::select::pieces::not_held());
            }
            self.points.push(point);
        }
        Ok(())
    }
}

/// Whether the element with these corners has a point in the region.
fn meets(region: &Region, corners: &[Point], axes: usize) -> bool {
    let mut refs: [&[f64]; 8] = [&[]; 8];
    for (to, from) in refs.iter_mut().zip(corners) {
        *to = from.get(..axes).unwrap_or(from);
    }
    let refs = refs.get(..corners.len()).unwrap_or_default();
    boxes_meet(region, refs) && region.meets_face(refs)
}

/// Whether the box around some corners meets the box around the region.
fn boxes_meet(region: &Region, corners: &[&[f64]]) -> bool {
    let hull = region.hull();
    let mut sides = hull.low().iter().zip(hull.high()).enumerate();
    sides.all(|(axis, (low, high))| {
        let at = corners.iter().filter_map(|corner| corner.get(axis));
        let least = at.clone().fold(f64::INFINITY, |least, x| least.min(*x));
        let most = at.fold(f64::NEG_INFINITY, |most, x| most.max(*x));
        least <= *high && most >= *low
    })
}

/// The sources of cells with these offsets whose chunks reach `range`; `None` when they are more than
/// there are cells.
fn sources(
    range: &zvf_format::grid::ChunkRange,
    offsets: &[&[i64]],
    cells: u64,
) -> Option<Vec<ChunkKey>> {
    let (mut low, mut high, mut count) = (Vec::new(), Vec::new(), 1_u64);
    for axis in 0..range.rank() {
        let (first, last) = range.axis(axis)?;
        let along = offsets.iter().filter_map(|offset| offset.get(axis).copied());
        let forth = along.clone().fold(0, i64::max);
        let back = along.fold(0, i64::min);
        let (from, to) = (first.checked_sub(forth)?, last.checked_sub(back)?);
        count = count.checked_mul(to.abs_diff(from).checked_add(1)?)?;
        low.push(from);
        high.push(to);
    }
    if count > cells.saturating_add(8) {
        return None;
    }
    let mut sources = Vec::new();
    let mut at = low.clone();
    loop {
        sources.push(ChunkKey::new(&at).ok()?);
        let mut axis = at.len();
        loop {
            axis = match axis.checked_sub(1) {
                None => return Some(sources),
                Some(axis) => axis,
            };
            let (here, first, last) = (at.get_mut(axis)?, low.get(axis)?, high.get(axis)?);
            if *here < *last {
                *here = here.checked_add(1)?;
                break;
            }
            *here = *first;
        }
    }
}

/// Cells that are not kept with the handle.
const MANY_CELLS: usize = 512;
