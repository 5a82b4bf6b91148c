//! Selection of elements: tests each against the region, and keeps it, clips it, or drops it.

use zvf_error::{Error, Result};
use zvf_format::num::{index_u32, saturating_u32, saturating_usize, to_u64, usize_from_u32};
use zvf_metadata::LinksConvention;
use zvf_model::{Bounds, Kind, LinkFamily, LinkSegment};

use super::marks::{Marks, NONE};
use super::{CUT, Chunk, Part};
use crate::mode::Mode;
use crate::region::Region;
use crate::run::Context;
use crate::select::bits::WORD_ROWS;
use crate::select::chain::{Place, Point};
use crate::select::faces::{Blend, clip_edge, clip_face};
use crate::select::inside::position;
use crate::select::loaded_rows::LoadedRows;
use crate::select::pieces::{Piece, missing_row_error};
use crate::select::runs::RowRun;

/// The elements of the answer.
#[derive(Default)]
pub(super) struct KeptElements {
    pub(super) ends: Vec<Place>,
    /// For each element, one past its last end in `ends`.
    stops: Vec<usize>,
    /// Part and record of each element; `None` for implied edges.
    pub(super) records: Vec<Option<(u32, u32)>>,
    /// Vertices between stored ones, numbered after these.
    pub(super) cuts: Vec<Blend>,
}

impl KeptElements {
    /// Reserves memory for `elements` elements of `width` ends.
    fn with_capacity(elements: usize, width: usize) -> Self {
        Self {
            ends: Vec::with_capacity(elements * width), // of records that are in memory
            stops: Vec::with_capacity(elements),
            records: Vec::with_capacity(elements),
            cuts: Vec::new(),
        }
    }

    fn push(&mut self, ends: impl IntoIterator<Item = Place>, record: Option<(u32, u32)>) {
        self.ends.extend(ends);
        self.stops.push(self.ends.len());
        self.records.push(record);
    }

    /// Returns the stored rows that the vertices of cuts are interpolated from.
    pub(super) fn cut_sources(&self) -> impl Iterator<Item = Piece> + '_ {
        let places = self.cuts.iter().flat_map(|cut| cut.weights.iter());
        places.map(|(Place { cell, row }, _)| Piece {
            cell: *cell,
            start: *row,
            len: 1,
            fragment: 0,
        })
    }

    /// Returns for each cut the stored row with the largest weight, and its fragment.
    ///
    /// # Errors
    ///
    /// If no fragment names the row: `clip` leaves out the elements of such rows.
    pub(super) fn nearest_rows(&self, chunks: &[Chunk]) -> Result<Vec<Piece>> {
        let nearest = self.cuts.iter().map(|cut| {
            let (place, _) = cut.weights.iter().max_by(|(_, a), (_, b)| a.total_cmp(b))?;
            let fragment = find_run(chunks, *place)?.fragment;
            Some(Piece { cell: place.cell, start: place.row, len: 1, fragment })
        });
        nearest.map(|piece| piece.ok_or_else(missing_row_error)).collect()
    }

    /// Returns the ends of each element.
    pub(super) fn elements(&self) -> impl Iterator<Item = &[Place]> {
        let starts = std::iter::once(0).chain(self.stops.iter().copied());
        starts.zip(&self.stops).map(move |(start, stop)| &self.ends[start..*stop])
    }

    /// Drops the elements with vertices in chunks that are `lost`.
    pub(super) fn drop_lost(&self, lost: &[bool]) -> Self {
        let is_lost = |place: &Place| lost.get(usize_from_u32(place.cell)) == Some(&true);
        let cut = |place: &Place| {
            if place.cell == CUT { self.cuts.get(usize_from_u32(place.row)) } else { None }
        };
        let mut retained = Self::default();
        for (ends, record) in self.elements().zip(&self.records) {
            let has_lost = |end: &Place| match cut(end) {
                Some(cut) => cut.weights.iter().any(|(place, _)| is_lost(place)),
                None => is_lost(end),
            };
            if ends.iter().any(has_lost) {
                continue;
            }
            let mut retained_ends = Vec::with_capacity(ends.len());
            for end in ends {
                retained_ends.push(match cut(end) {
                    Some(cut) => retained.add_cut(cut.clone()),
                    None => *end,
                });
            }
            retained.push(retained_ends, *record);
        }
        retained
    }

    /// Adds a vertex of a cut; returns its place. `clip` sees to it that they are not too many.
    fn add_cut(&mut self, cut: Blend) -> Place {
        let row = index_u32(self.cuts.len());
        self.cuts.push(cut);
        Place { cell: CUT, row }
    }
}

impl Context {
    /// Selects the elements of the answer; marks the vertices that are in it without an element.
    pub(super) fn keep_elements(
        &self,
        family: Option<&LinkFamily>,
        parts: &[Part],
        parent_cells: &[Part],
        chunks: &[Chunk],
        positions: &[LoadedRows],
        marks: &mut Marks,
    ) -> Result<KeptElements> {
        let region = self.query.region.as_ref().filter(|_| self.mode != Mode::Cells);
        marks.mark_inside(chunks, positions, region);
        let axes = self.cache.level.axes();
        let kept = match region {
            // Nearly all elements are kept; growing by doubling would take three times their bytes.
            None => {
                let elements = self.estimate_elements(parts, chunks);
                KeptElements::with_capacity(elements, self.element_width)
            }
            Some(_) => KeptElements::default(),
        };
        let mut test = ElementTest {
            mode: self.mode,
            kind: self.kind,
            axes,
            region,
            chunks,
            positions,
            marks,
            kept,
        };
        let directed = family.is_some_and(|family| family.policy().is_directed());
        let first_rows = if directed && self.follows_rows() {
            FirstRows::new(chunks)
        } else {
            FirstRows::default()
        };
        // In a directed family a record takes no implied edge away.
        let mut children = ChildBitmaps::new(chunks);
        let mut ends = Vec::new();
        let is_parent = std::iter::repeat_n(false, parts.len()).chain(std::iter::repeat(true));
        for ((number, part), is_parent) in
            (0_u32..).zip(parts.iter().chain(parent_cells)).zip(is_parent)
        {
            let across = family.is_some_and(|family| {
                let offsets = family.segments().get(part.segment).and_then(LinkSegment::offsets);
                offsets.is_some_and(|offsets| !offsets.are_zero())
            });
            if !self.follows_rows() {
                if is_parent {
                    continue; // it does not affect stored edges
                }
                if region.is_none() && test.owns_all_chunks(part) {
                    test.keep_marked_elements(part, number);
                    continue;
                }
            }
            for i in 0..part.records.len() {
                if !part.records.is_leading(i) {
                    continue;
                }
                ends.clear();
                ends.extend(part.records.ends(i).filter_map(|(place, row)| {
                    // Rows were checked by `check_ends`.
                    Some(Place { cell: *part.chunks.get(place)?, row: saturating_u32(row) })
                }));
                if self.follows_rows() {
                    if directed {
                        move_child_first(&mut ends, &first_rows, across);
                    } else {
                        ends.first().into_iter().for_each(|child| children.insert(*child));
                    }
                }
                if !is_parent && part.dropped.get(i) != Some(&true) {
                    test.test_element(&ends, Some((number, index_u32(i))))?;
                }
            }
        }
        if self.implies_parents() {
            test_implied_edges(chunks, &children, &mut test)?;
        }
        Ok(test.kept)
    }

    /// Returns an upper bound of the number of elements: leading records, and edges that the order of rows implies.
    fn estimate_elements(&self, parts: &[Part], chunks: &[Chunk]) -> usize {
        let records: usize = parts.iter().map(|part| part.records.len()).sum();
        if !self.implies_parents() {
            return records;
        }
        // Count only rows that were read; fragments may claim more.
        let read_chunks = chunks.iter().filter(|chunk| chunk.is_own && !chunk.absent);
        let rows: u64 = read_chunks.map(|chunk| chunk.rows.min(chunk.runs.rows)).sum();
        records + saturating_usize(rows) // in memory
    }

    /// Returns whether the order of rows implies edges, and the conditions on links accept them.
    pub(super) fn implies_parents(&self) -> bool {
        self.follows_rows() && self.conditions.link_holds(&[], 0)
    }

    /// Returns whether the parent of a row is by convention the row before it in its fragment, unless a record
    /// gives it another one.
    pub(in crate::run) fn follows_rows(&self) -> bool {
        let convention = self.cache.level.links_convention().known_word();
        if self.kind == Kind::Skeleton {
            return convention != Some(LinksConvention::Explicit);
        }
        // By default, a graph has only stored edges.
        self.kind == Kind::Graph
            && convention == Some(LinksConvention::ImplicitSequentialWithBranches)
    }
}

/// The first row of each fragment, chunk by chunk, ascending.
#[derive(Default)]
struct FirstRows(Vec<Vec<u32>>);

impl FirstRows {
    fn new(chunks: &[Chunk]) -> Self {
        let firsts = chunks.iter().map(|chunk| {
            let fragments = chunk.runs.list.chunk_by(|a, b| a.fragment == b.fragment);
            let firsts = fragments.filter_map(|runs| runs.first());
            let mut firsts: Vec<u32> = firsts.map(|run| run.start).collect();
            firsts.sort_unstable(); // in order already where the fragments tile the chunk
            firsts
        });
        Self(firsts.collect())
    }

    fn contains(&self, place: Place) -> bool {
        let rows = self.0.get(usize_from_u32(place.cell));
        rows.is_some_and(|rows| rows.binary_search(&place.row).is_ok())
    }
}

/// Bitmaps of the rows to which records give a parent, by chunk; empty for chunks without such rows.
struct ChildBitmaps<'a> {
    chunks: &'a [Chunk],
    words: Vec<Vec<u64>>,
}

impl<'a> ChildBitmaps<'a> {
    fn new(chunks: &'a [Chunk]) -> Self {
        Self { chunks, words: vec![Vec::new(); chunks.len()] }
    }

    /// Adds a row; ignores rows that their chunk does not have.
    fn insert(&mut self, place: Place) {
        let cell = usize_from_u32(place.cell);
        let (Some(chunk), Some(words)) = (self.chunks.get(cell), self.words.get_mut(cell)) else {
            return;
        };
        if !chunk.is_own || chunk.absent || u64::from(place.row) >= chunk.rows {
            return;
        }
        if words.is_empty() {
            // The rows were read, so this is no claim.
            words.resize(saturating_usize(chunk.rows).div_ceil(WORD_ROWS), 0);
        }
        let row = usize_from_u32(place.row);
        if let Some(word) = words.get_mut(row / WORD_ROWS) {
            *word |= 1 << (row % WORD_ROWS);
        }
    }

    fn contains(&self, place: Place) -> bool {
        let row = usize_from_u32(place.row);
        let word =
            self.words.get(usize_from_u32(place.cell)).and_then(|words| words.get(row / WORD_ROWS));
        word.is_some_and(|word| word >> (row % WORD_ROWS) & 1 == 1)
    }
}

/// Moves the child of a directed record to the front: the end that is the first row of a fragment. If both or
/// neither are, the child is the second end of a record across chunks, and the first end of one within a chunk.
fn move_child_first(ends: &mut [Place], first_rows: &FirstRows, across: bool) {
    let [a, b] = ends else { return };
    let swapped = match (first_rows.contains(*a), first_rows.contains(*b)) {
        (true, false) => false,
        (false, true) => true,
        (true, true) | (false, false) => across,
    };
    if swapped {
        std::mem::swap(a, b);
    }
}

/// Tests the edges that the order of rows implies: from each row of a fragment to the one before it, unless a
/// record gives the row another parent.
fn test_implied_edges(
    chunks: &[Chunk],
    children: &ChildBitmaps<'_>,
    test: &mut ElementTest<'_>,
) -> Result<()> {
    let is_known = |(_, chunk): &(u32, &Chunk)| chunk.is_own && !chunk.absent;
    for (cell, chunk) in (0_u32..).zip(chunks).filter(is_known) {
        let mut before: Option<(Place, u32)> = None;
        for run in &chunk.runs.list {
            for row in run.start..run.end() {
                let child = Place { cell, row };
                if let Some((parent, fragment)) = before
                    && fragment == run.fragment
                    && test.marks.is_allowed(child)
                    && !children.contains(child)
                {
                    test.test_element(&[child, parent], None)?;
                }
                before = Some((child, run.fragment));
            }
        }
    }
    Ok(())
}

/// A test of elements against the region.
struct ElementTest<'a> {
    mode: Mode,
    kind: Kind,
    axes: usize,
    region: Option<&'a Region>,
    chunks: &'a [Chunk],
    positions: &'a [LoadedRows],
    marks: &'a Marks,
    kept: KeptElements,
}

impl ElementTest<'_> {
    /// Returns whether all chunks of a part are own chunks of this work.
    fn owns_all_chunks(&self, part: &Part) -> bool {
        let is_own =
            |cell: &u32| self.chunks.get(usize_from_u32(*cell)).is_some_and(|chunk| chunk.is_own);
        part.chunks.iter().all(is_own)
    }

    /// Keeps the elements of a part whose vertices are all marked. For queries without a region and parts with own chunks
    /// only, whose marked vertices are all allowed.
    fn keep_marked_elements(&mut self, part: &Part, number: u32) {
        let marks: Vec<&[bool]> = part.chunks.iter().map(|cell| self.marks.rows(*cell)).collect();
        let is_inside = |(place, row): (usize, u64)| {
            let rows = marks.get(place);
            // Rows were checked by `check_ends`.
            rows.and_then(|rows| rows.get(saturating_usize(row))).copied().unwrap_or(false)
        };
        for i in 0..part.records.len() {
            if !part.records.ends(i).all(is_inside)
                || part.dropped.get(i) == Some(&true)
                || !part.records.is_leading(i)
            {
                continue;
            }
            let ends = part.records.ends(i).filter_map(|(place, row)| {
                // Rows were checked by `check_ends`.
                Some(Place { cell: *part.chunks.get(place)?, row: saturating_u32(row) })
            });
            self.kept.push(ends, Some((number, index_u32(i))));
        }
    }

    /// Tests one element and keeps it, or its clipped pieces.
    fn test_element(&mut self, ends: &[Place], record: Option<(u32, u32)>) -> Result<()> {
        if !ends.iter().all(|end| self.marks.is_allowed(*end)) {
            return Ok(());
        }
        let keep = match (self.mode, self.region) {
            (Mode::Touch, Some(region)) => {
                meets_element(region, self.load(ends)?.points(), self.axes)
            }
            (Mode::Clip, Some(region)) => return self.clip(region, ends, record),
            (Mode::Inside | Mode::Crop | Mode::Cells, _) | (_, None) => {
                let mut are_all_inside = true;
                for end in ends {
                    are_all_inside = are_all_inside && self.is_in_answer(*end)?;
                }
                are_all_inside
            }
        };
        if keep {
            self.kept.push(ends.iter().copied(), record);
        }
        Ok(())
    }

    /// Returns whether a vertex is in the answer without an element, in this work or in other work.
    fn is_in_answer(&self, end: Place) -> Result<bool> {
        match (self.chunks.get(usize_from_u32(end.cell)), self.region) {
            (Some(chunk), _) if chunk.is_own => Ok(self.marks.is_inside(end)),
            (Some(chunk), Some(region)) if chunk.counts => {
                let points = self.load(&[end])?;
                let point = points.points().first().and_then(|point| point.get(..self.axes));
                Ok(point.is_some_and(|point| region.contains(point)))
            }
            (Some(chunk), None) => Ok(chunk.counts),
            _ => Ok(false),
        }
    }

    /// Clips an element at the region and keeps the pieces inside.
    fn clip(&mut self, region: &Region, ends: &[Place], record: Option<(u32, u32)>) -> Result<()> {
        let points = self.load(ends)?;
        let points: Vec<&[f64]> =
            points.points().iter().filter_map(|point| point.get(..self.axes)).collect();
        if !meets_box(region, &points) {
            return Ok(());
        }
        let mut pieces: Vec<Vec<Blend>> = Vec::new();
        if self.kind == Kind::Mesh {
            clip_face(region, ends, &points, &mut pieces)?;
        } else {
            clip_edge(region, ends, &points, &mut pieces);
        }
        let cuts = pieces.iter().flatten().filter(|corner| corner.stored_place().is_none()).count();
        // An element of a row that no fragment names is not part of the geometry.
        if cuts > 0 && !ends.iter().all(|end| find_run(self.chunks, *end).is_some()) {
            return Ok(());
        }
        let (cap, found) = (u64::from(NONE), to_u64(self.kept.cuts.len() + cuts));
        if found > cap {
            return Err(Error::limit("vertices at the boundary", cap, found));
        }
        for piece in pieces {
            let mut piece_ends = Vec::with_capacity(piece.len());
            for corner in piece {
                piece_ends.push(match corner.stored_place() {
                    Some(place) => place,
                    None => self.kept.add_cut(corner),
                });
            }
            self.kept.push(piece_ends, record);
        }
        Ok(())
    }

    /// Loads the positions of `ends`.
    fn load(&self, ends: &[Place]) -> Result<Corners> {
        let mut corners = Corners { points: [[0.0; Bounds::MAX_AXES]; MAX_ENDS], len: ends.len() };
        for (end, point) in ends.iter().zip(&mut corners.points) {
            let loaded = self
                .positions
                .get(usize_from_u32(end.cell))
                .and_then(|loaded| loaded.column(end.row));
            let found = loaded.and_then(|(column, first)| {
                let row = usize_from_u32(end.row.checked_sub(first)?);
                let coordinates = point.get_mut(..self.axes)?;
                (row < column.len()).then(|| position(column, row, coordinates))
            });
            found.ok_or_else(missing_row_error)?;
        }
        Ok(corners)
    }
}

/// Returns the first run that names a row.
fn find_run(chunks: &[Chunk], place: Place) -> Option<&RowRun> {
    chunks.get(usize_from_u32(place.cell))?.runs.find_run(place.row)
}

/// The positions of the ends of one element.
struct Corners {
    points: [Point; MAX_ENDS],
    len: usize, // at most as many: no link has more ends
}

impl Corners {
    fn points(&self) -> &[Point] {
        self.points.get(..self.len).unwrap_or(&self.points)
    }
}

/// Maximum ends of an element.
const MAX_ENDS: usize = zvf_format::key::MAX_WIDTH;

/// Returns whether the element with these corners has a point in the region.
fn meets_element(region: &Region, corners: &[Point], axes: usize) -> bool {
    let mut refs: [&[f64]; MAX_ENDS] = [&[]; MAX_ENDS];
    for (to, from) in refs.iter_mut().zip(corners) {
        *to = from.get(..axes).unwrap_or(from);
    }
    let refs = &refs[..corners.len()];
    meets_box(region, refs) && region.meets_face(refs)
}

/// Returns whether the bounding box of the corners meets that of the region.
fn meets_box(region: &Region, corners: &[&[f64]]) -> bool {
    let hull = region.hull();
    let mut sides = hull.low().iter().zip(hull.high()).enumerate();
    sides.all(|(axis, (low, high))| {
        let coordinates = corners.iter().filter_map(|corner| corner.get(axis));
        let min = coordinates.clone().fold(f64::INFINITY, |min, x| min.min(*x));
        let max = coordinates.fold(f64::NEG_INFINITY, |max, x| max.max(*x));
        min <= *high && max >= *low
    })
}
