//! Selects elements: tests each against the region, and keeps, clips or drops it.

use zvf_error::{Error, Result};
use zvf_format::num::{index_u32, saturating_usize, to_u64, usize_from_u32};
use zvf_metadata::LinksConvention;
use zvf_model::{Bounds, Column, Kind, LinkFamily};

use super::marks::{ALLOWED, CHILD, INSIDE, Marks, NONE};
use super::{CUT, Cell, Part};
use crate::mode::Mode;
use crate::region::Region;
use crate::run::Context;
use crate::select::chain::{Point, Spot};
use crate::select::faces::{Blend, clip_edge, clip_face, interpolate_column};
use crate::select::inside::position;
use crate::select::loaded_rows::LoadedRows;
use crate::select::pieces::{Piece, missing_row_error};

/// The elements of the answer.
#[derive(Default)]
pub(super) struct KeptElements {
    /// The ends of each element, as many as the elements of the answer have.
    pub(super) ends: Vec<Spot>,
    /// Part and record of each element; `None` for implicit edges.
    pub(super) records: Vec<Option<(u32, u32)>>,
    /// Vertices between stored ones, numbered after these.
    pub(super) cuts: Vec<Blend>,
}

impl KeptElements {
    /// Reserves memory for `elements` elements of `width` ends.
    fn with_capacity(elements: usize, width: usize) -> Self {
        Self {
            ends: Vec::with_capacity(elements * width), // of records that are in memory
            records: Vec::with_capacity(elements),
            cuts: Vec::new(),
        }
    }

    fn push(&mut self, ends: impl IntoIterator<Item = Spot>, record: Option<(u32, u32)>) {
        self.ends.extend(ends);
        self.records.push(record);
    }

    /// Returns the stored rows that the vertices of cuts are interpolated from.
    pub(super) fn cut_sources(&self) -> impl Iterator<Item = Piece> + '_ {
        let places = self.cuts.iter().flat_map(|cut| cut.weights.iter());
        places.map(|(Spot { cell, row }, _)| Piece {
            cell: *cell,
            start: *row,
            len: 1,
            fragment: 0,
        })
    }

    /// Appends the values of the vertices of cuts to those of stored vertices in a column that is
    /// `loaded`.
    pub(super) fn append_cuts(
        &self,
        stored: Column,
        loaded: &[LoadedRows],
        positions: bool,
    ) -> Result<Column> {
        if self.cuts.is_empty() {
            return Ok(stored);
        }
        let weights = self.cuts.iter().map(|cut| cut.weights.iter().copied());
        let cuts =
            interpolate_column(weights, loaded, (stored.dtype(), stored.width()), positions)?;
        let rows = [0..stored.len(), 0..cuts.len()];
        Ok(Column::pick(&[&stored, &cuts], rows.into_iter().enumerate()))
    }

    /// Returns for each cut the stored row with the largest weight, and its fragment.
    ///
    /// # Errors
    ///
    /// When the row is in no fragment: `clip` leaves out the elements of such rows.
    pub(super) fn nearest_rows(&self, cells: &[Cell]) -> Result<Vec<Piece>> {
        let nearest = self.cuts.iter().map(|cut| {
            let (place, _) = cut.weights.iter().max_by(|(_, a), (_, b)| a.total_cmp(b))?;
            let fragment = find_run(cells, *place)?.fragment;
            Some(Piece { cell: place.cell, start: place.row, len: 1, fragment })
        });
        nearest.map(|piece| piece.ok_or_else(missing_row_error)).collect()
    }

    /// Adds a vertex of a cut; returns its number. `clip` limits their number.
    fn add_cut(&mut self, cut: Blend) -> Spot {
        let row = index_u32(self.cuts.len());
        self.cuts.push(cut);
        Spot { cell: CUT, row }
    }
}

impl Context {
    /// Returns the region against which vertices are tested.
    pub(super) fn tested_region(&self) -> Option<&Region> {
        self.query.region.as_ref().filter(|_| self.mode != Mode::Cells)
    }

    /// If the order of rows implies edges: moves the child of each directed record to the front,
    /// and marks the children of undirected ones. In a directed family, a record does not replace
    /// an implicit edge.
    pub(super) fn order_ends(
        &self,
        family: Option<&LinkFamily>,
        parts: &mut [Part],
        others: &[Part],
        cells: &[Cell],
        marks: &mut Marks,
    ) {
        let Some(family) = family.filter(|_| self.follows_rows()) else { return };
        if !family.policy().is_directed() {
            for part in parts.iter().chain(others) {
                let leading = part.elements().enumerate();
                for (_, ends) in leading.filter(|(record, _)| part.records.is_leading(*record)) {
                    marks.add(ends[0], CHILD);
                }
            }
            return;
        }
        let first_rows: Vec<Vec<u32>> = cells.iter().map(first_rows).collect();
        let is_first =
            |place: &Spot| first_rows[usize_from_u32(place.cell)].binary_search(&place.row).is_ok();
        for part in parts {
            let offsets = family.segments()[part.cell.segment].offsets();
            let across = offsets.is_some_and(|offsets| !offsets.are_zero());
            for [a, b] in part.ends.as_chunks_mut::<2>().0 {
                // The child is the end that is the first row of a fragment. If both or neither are, it is the second end of
                // a record across chunks, and the first end of one within a chunk.
                let (first, second) = (is_first(a), is_first(b));
                let is_swapped = if first == second { across } else { second };
                if is_swapped {
                    std::mem::swap(a, b);
                }
            }
        }
    }

    /// Selects the elements of the answer.
    pub(super) fn keep_elements(
        &self,
        parts: &[Part],
        cells: &[Cell],
        positions: &[LoadedRows],
        marks: &Marks,
    ) -> Result<KeptElements> {
        let region = self.tested_region();
        let kept = match region {
            // Nearly all elements are kept; growing by doubling would take three times their bytes.
            None => {
                let elements = self.estimate_elements(parts, cells);
                KeptElements::with_capacity(elements, self.element_width)
            }
            Some(_) => KeptElements::default(),
        };
        let axes = self.level.axes();
        let (mode, kind) = (self.mode, self.kind);
        let mut test = ElementTest { mode, kind, axes, region, cells, positions, marks, kept };
        for (number, part) in (0_u32..).zip(parts) {
            for (record, ends) in part.elements().enumerate() {
                if part.records.is_leading(record) && part.dropped.get(record) != Some(&true) {
                    test.test_element(ends, Some((number, index_u32(record))))?;
                }
            }
        }
        if self.implies_parents() {
            test.test_implied_edges()?;
        }
        Ok(test.kept)
    }

    /// Returns an upper bound of the number of elements: leading records, and implicit edges.
    fn estimate_elements(&self, parts: &[Part], cells: &[Cell]) -> usize {
        let records: usize = parts.iter().map(|part| part.records.len()).sum();
        if !self.implies_parents() {
            return records;
        }
        // Count only rows that were read; fragments may claim more.
        let read = cells.iter().filter(|cell| cell.is_own && !cell.absent);
        let rows: u64 = read.map(|cell| cell.chunk.rows.min(to_u64(cell.chunk.runs.rows))).sum();
        records + saturating_usize(rows) // in memory
    }

    /// Returns whether the order of rows implies edges, and the conditions on links accept them.
    pub(super) fn implies_parents(&self) -> bool {
        self.follows_rows() && self.conditions.link_holds(&[], 0)
    }

    /// Returns whether by convention the parent of a row is the previous row in its fragment,
    /// unless a record gives it another one.
    pub(in crate::run) fn follows_rows(&self) -> bool {
        let convention = self.level.links_convention().known_word();
        if self.kind == Kind::Skeleton {
            return convention != Some(LinksConvention::Explicit);
        }
        // By default, a graph has only stored edges.
        self.kind == Kind::Graph
            && convention == Some(LinksConvention::ImplicitSequentialWithBranches)
    }
}

/// Returns the first row of each fragment of a chunk, ascending.
fn first_rows(cell: &Cell) -> Vec<u32> {
    let fragments = cell.chunk.runs.list.chunk_by(|a, b| a.fragment == b.fragment);
    let mut firsts: Vec<u32> = fragments.map(|runs| runs[0].start).collect();
    firsts.sort_unstable(); // in order already where the fragments tile the chunk
    firsts
}

/// A test of elements against the region.
struct ElementTest<'a> {
    mode: Mode,
    kind: Kind,
    axes: usize,
    region: Option<&'a Region>,
    cells: &'a [Cell],
    positions: &'a [LoadedRows],
    marks: &'a Marks,
    kept: KeptElements,
}

impl ElementTest<'_> {
    /// Tests the implicit edges: from each row of a fragment to the previous one, unless a record
    /// gives the row another parent.
    fn test_implied_edges(&mut self) -> Result<()> {
        let cells = self.cells;
        let is_known = |(_, cell): &(u32, &Cell)| cell.is_own && !cell.absent;
        for (at, cell) in (0_u32..).zip(cells).filter(is_known) {
            let mut before: Option<(Spot, u32)> = None;
            for run in &cell.chunk.runs.list {
                for row in run.start..run.end() {
                    let child = Spot { cell: at, row };
                    if let Some((parent, fragment)) = before
                        && fragment == run.fragment
                        && !self.marks.has(child, CHILD)
                    {
                        self.test_element(&[child, parent], None)?;
                    }
                    before = Some((child, run.fragment));
                }
            }
        }
        Ok(())
    }

    /// Tests one element and keeps it, or its clipped pieces.
    fn test_element(&mut self, ends: &[Spot], record: Option<(u32, u32)>) -> Result<()> {
        let allowed = || ends.iter().all(|end| self.marks.has(*end, ALLOWED));
        let keep = match (self.mode, self.region) {
            (Mode::Touch, Some(region)) => {
                allowed() && meets_element(region, &self.load(ends)?[..ends.len()], self.axes)
            }
            (Mode::Clip, Some(region)) => {
                return if allowed() { self.clip(region, ends, record) } else { Ok(()) };
            }
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

    /// Returns whether a vertex is in the answer without an element, in this or another work unit.
    fn is_in_answer(&self, end: Spot) -> Result<bool> {
        let cell = &self.cells[usize_from_u32(end.cell)];
        if cell.is_own {
            return Ok(self.marks.has(end, INSIDE));
        }
        if !cell.counts || !self.marks.has(end, ALLOWED) {
            return Ok(false);
        }
        let Some(region) = self.region else { return Ok(true) };
        Ok(region.contains(&self.load(&[end])?[0][..self.axes]))
    }

    /// Clips an element at the region and keeps the pieces inside.
    fn clip(&mut self, region: &Region, ends: &[Spot], record: Option<(u32, u32)>) -> Result<()> {
        let points = self.load(ends)?;
        let points: Vec<&[f64]> =
            points[..ends.len()].iter().map(|point| &point[..self.axes]).collect();
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
        // An element with a row outside of all fragments is not part of the geometry.
        if cuts > 0 && !ends.iter().all(|end| find_run(self.cells, *end).is_some()) {
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

    /// Loads the positions of `ends`, followed by zeros.
    fn load(&self, ends: &[Spot]) -> Result<[Point; MAX_ENDS]> {
        let mut points = [[0.0; Bounds::MAX_AXES]; MAX_ENDS];
        for (end, point) in ends.iter().zip(&mut points) {
            let loaded = self.positions[usize_from_u32(end.cell)].column(end.row);
            let (column, first) = loaded.ok_or_else(missing_row_error)?;
            let row = usize_from_u32(end.row - first);
            if row >= column.len() {
                return Err(missing_row_error());
            }
            position(column, row, &mut point[..self.axes]);
        }
        Ok(points)
    }
}

/// Returns the first run that contains a row.
fn find_run(cells: &[Cell], place: Spot) -> Option<&Piece> {
    cells[usize_from_u32(place.cell)].find_run(place.row)
}

/// Maximum ends of an element.
const MAX_ENDS: usize = zvf_format::key::MAX_WIDTH;

/// Returns whether the element with these corners has a point in the region.
fn meets_element(region: &Region, corners: &[Point], axes: usize) -> bool {
    let mut refs: [&[f64]; MAX_ENDS] = [&[]; MAX_ENDS];
    for (to, from) in refs.iter_mut().zip(corners) {
        *to = &from[..axes];
    }
    let refs = &refs[..corners.len()];
    meets_box(region, refs) && region.meets_face(refs)
}

/// Returns whether the bounding box of the corners intersects that of the region.
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
