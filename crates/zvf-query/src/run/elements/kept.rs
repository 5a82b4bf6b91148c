//! The elements that are left: each held against the region, and kept whole, cut, or left out.

use zvf_format::num::{saturating_u32, saturating_usize, to_u64, usize_from_u32};
use zvf_metadata::LinksConvention;
use zvf_model::{Bounds, Kind, LinkFamily, LinkSegment};

use super::marks::Marks;
use super::{CUT, Chunk, Part};
use crate::error::QueryError;
use crate::mode::Mode;
use crate::region::Region;
use crate::run::Context;
use crate::select::bits::WORD_ROWS;
use crate::select::chain::{Place, Point};
use crate::select::faces::{Blend, clip_edge, clip_face};
use crate::select::held::Held;
use crate::select::inside::position;
use crate::select::pieces::Piece;

/// The elements that are left.
#[derive(Default)]
pub(super) struct Kept {
    pub(super) ends: Vec<Place>,
    /// Where the ends of each element end.
    stops: Vec<usize>,
    /// Part and record of each; none for implied edges.
    pub(super) from: Vec<Option<(u32, u32)>>,
    /// Vertices between stored ones, numbered after these.
    pub(super) cuts: Vec<Blend>,
}

impl Kept {
    /// Room for so many elements of so many ends each.
    fn with_capacity(elements: usize, width: usize) -> Self {
        Self {
            ends: Vec::with_capacity(elements * width), // of records that are in memory
            stops: Vec::with_capacity(elements),
            from: Vec::with_capacity(elements),
            cuts: Vec::new(),
        }
    }

    fn push(&mut self, ends: impl IntoIterator<Item = Place>, from: Option<(u32, u32)>) {
        self.ends.extend(ends);
        self.stops.push(self.ends.len());
        self.from.push(from);
    }

    /// The stored rows that cuts are made of.
    pub(super) fn sources(&self) -> impl Iterator<Item = Piece> + '_ {
        let places = self.cuts.iter().flat_map(|cut| cut.weights.iter());
        places.map(|(Place { cell, row }, _)| Piece {
            cell: *cell,
            start: *row,
            len: 1,
            fragment: 0,
        })
    }

    /// For each cut the stored row that has the largest share in it, and its fragment.
    pub(super) fn nearest(&self, chunks: &[Chunk]) -> Vec<Piece> {
        let fragment = |place: &Place| {
            let runs =
                chunks.get(usize_from_u32(place.cell)).map(|chunk| chunk.runs.list.as_slice());
            let mut runs = runs.unwrap_or_default().iter();
            let run = runs.find(|run| (run.start..run.end()).contains(&place.row));
            run.map_or(0, |run| run.fragment)
        };
        let most = self.cuts.iter().filter_map(|cut| {
            let (place, _) = cut.weights.iter().max_by(|(_, a), (_, b)| a.total_cmp(b))?;
            Some(Piece { cell: place.cell, start: place.row, len: 1, fragment: fragment(place) })
        });
        most.collect()
    }

    /// Without the elements that touch the chunks that are `lost`.
    pub(super) fn without_lost(&self, lost: &[bool]) -> Self {
        let is_lost = |place: &Place| lost.get(usize_from_u32(place.cell)) == Some(&true);
        let cut = |place: &Place| {
            if place.cell == CUT { self.cuts.get(usize_from_u32(place.row)) } else { None }
        };
        let (mut left, mut start) = (Self::default(), 0);
        for (stop, from) in self.stops.iter().zip(&self.from) {
            let ends = self.ends.get(start..*stop).unwrap_or_default();
            start = *stop;
            let gone = |end: &Place| match cut(end) {
                Some(cut) => cut.weights.iter().any(|(place, _)| is_lost(place)),
                None => is_lost(end),
            };
            if ends.iter().any(gone) {
                continue;
            }
            let mut own = Vec::with_capacity(ends.len());
            for end in ends {
                own.push(match cut(end) {
                    Some(cut) => left.add_cut(cut.clone()),
                    None => *end,
                });
            }
            left.push(own, *from);
        }
        left
    }

    fn add_cut(&mut self, cut: Blend) -> Place {
        let row = saturating_u32(to_u64(self.cuts.len()));
        self.cuts.push(cut);
        Place { cell: CUT, row }
    }
}

impl Context {
    /// The elements that are asked for; the vertices that count by themselves are marked.
    pub(super) fn kept(
        &self,
        family: Option<&LinkFamily>,
        parts: &[Part],
        parent_cells: &[Part],
        chunks: &[Chunk],
        positions: &[Held],
        marks: &mut Marks,
    ) -> Result<Kept, QueryError> {
        let region = self.query.region.as_ref().filter(|_| self.mode != Mode::Cells);
        marks.inside(chunks, positions, region);
        let axes = self.warm.level.axes();
        let kept = match region {
            // About all of them are kept: growing by doubling would take three times their bytes.
            None => Kept::with_capacity(self.estimate_elements(parts, chunks), self.element_width),
            Some(_) => Kept::default(),
        };
        let mut test =
            Test { mode: self.mode, kind: self.kind, axes, region, chunks, positions, marks, kept };
        let directed = family.is_some_and(|family| family.policy().is_directed());
        let first_rows = if directed && self.follows_rows() {
            FirstRows::new(chunks)
        } else {
            FirstRows::default()
        };
        // In a directed family a record takes no implied edge away.
        let mut children = Children::new(chunks);
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
                    continue; // it says nothing of edges that are stored
                }
                if region.is_none() && test.all_own(part) {
                    test.elements_inside(part, number);
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
                        child_first(&mut ends, &first_rows, across);
                    } else {
                        ends.first().into_iter().for_each(|child| children.insert(*child));
                    }
                }
                if !is_parent && part.dropped.get(i) != Some(&true) {
                    test.element(&ends, Some((number, saturating_u32(to_u64(i)))))?;
                }
            }
        }
        if self.implies_parents() {
            implied(chunks, &children, &mut test)?;
        }
        Ok(test.kept)
    }

    /// How many elements there are at most: records that lead, and the edges that the order of rows implies.
    fn estimate_elements(&self, parts: &[Part], chunks: &[Chunk]) -> usize {
        let records: usize = parts.iter().map(|part| part.records.len()).sum();
        if !self.implies_parents() {
            return records;
        }
        // Rows that were read: what fragments say of others is only a claim.
        let own = chunks.iter().filter(|chunk| chunk.own && !chunk.absent);
        records + saturating_usize(own.map(|chunk| chunk.rows.min(chunk.runs.rows)).sum())
    }

    /// Whether rows of a fragment follow each other as children and parents, and such edges are asked for.
    pub(super) fn implies_parents(&self) -> bool {
        self.follows_rows() && self.conditions.link_holds(&[], 0)
    }

    /// Whether the convention says that rows of a fragment follow each other, but for those that a record
    /// gives another parent.
    pub(in crate::run) fn follows_rows(&self) -> bool {
        let convention = self.warm.level.links_convention().known();
        if self.kind == Kind::Skeleton {
            return convention != Some(LinksConvention::Explicit);
        }
        // Without a word about it, a graph has the edges that are stored.
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

/// The rows that records give a parent, a bit each, of chunks whose rows imply edges; no bits where there is none.
struct Children<'a> {
    chunks: &'a [Chunk],
    words: Vec<Vec<u64>>,
}

impl<'a> Children<'a> {
    fn new(chunks: &'a [Chunk]) -> Self {
        Self { chunks, words: vec![Vec::new(); chunks.len()] }
    }

    /// Adds a row; one that its chunk does not have implies nothing.
    fn insert(&mut self, place: Place) {
        let cell = usize_from_u32(place.cell);
        let (Some(chunk), Some(words)) = (self.chunks.get(cell), self.words.get_mut(cell)) else {
            return;
        };
        if !chunk.own || chunk.absent || u64::from(place.row) >= chunk.rows {
            return;
        }
        if words.is_empty() {
            // Rows that were read.
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

/// Puts the child of a directed record in front: the end that is the first row of a fragment. Where both or
/// neither are, it is the second end of a record across chunks, and the first of one within a chunk.
fn child_first(ends: &mut [Place], first_rows: &FirstRows, across: bool) {
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

/// Tests the edges that the order of rows implies: from each row of a fragment to the one before it, where
/// no record says otherwise.
fn implied(
    chunks: &[Chunk],
    children: &Children<'_>,
    test: &mut Test<'_>,
) -> Result<(), QueryError> {
    let known = |(_, chunk): &(u32, &Chunk)| chunk.own && !chunk.absent;
    for (cell, chunk) in (0_u32..).zip(chunks).filter(known) {
        let mut before: Option<(Place, u32)> = None;
        for run in &chunk.runs.list {
            for row in run.start..run.end() {
                let child = Place { cell, row };
                if let Some((parent, fragment)) = before
                    && fragment == run.fragment
                    && test.marks.is_allowed(child)
                    && !children.contains(child)
                {
                    test.element(&[child, parent], None)?;
                }
                before = Some((child, run.fragment));
            }
        }
    }
    Ok(())
}

/// Elements held against the region.
struct Test<'a> {
    mode: Mode,
    kind: Kind,
    axes: usize,
    region: Option<&'a Region>,
    chunks: &'a [Chunk],
    positions: &'a [Held],
    marks: &'a Marks,
    kept: Kept,
}

impl Test<'_> {
    /// Whether the vertices of all chunks of a part count by themselves.
    fn all_own(&self, part: &Part) -> bool {
        let own =
            |cell: &u32| self.chunks.get(usize_from_u32(*cell)).is_some_and(|chunk| chunk.own);
        part.chunks.iter().all(own)
    }

    /// Keeps the elements of a part, all of whose chunks are own, where no region is asked for: those whose vertices are
    /// all in the answer by themselves, which none is that may not be.
    fn elements_inside(&mut self, part: &Part, number: u32) {
        let marks: Vec<&[bool]> = part.chunks.iter().map(|cell| self.marks.rows(*cell)).collect();
        let is_inside = |(place, row): (usize, u64)| {
            let rows = marks.get(place);
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
            self.kept.push(ends, Some((number, saturating_u32(to_u64(i)))));
        }
    }

    /// Keeps one element, whole or cut, when it is asked for.
    fn element(&mut self, ends: &[Place], from: Option<(u32, u32)>) -> Result<(), QueryError> {
        if !ends.iter().all(|end| self.marks.is_allowed(*end)) {
            return Ok(());
        }
        let keep = match (self.mode, self.region) {
            (Mode::Touch, Some(region)) => meets(region, self.load(ends)?.points(), self.axes),
            (Mode::Clip, Some(region)) => return self.clip(region, ends, from),
            (Mode::Inside | Mode::Crop | Mode::Cells, _) | (_, None) => {
                let mut all = true;
                for end in ends {
                    all = all && self.counts(*end)?;
                }
                all
            }
        };
        if keep {
            self.kept.push(ends.iter().copied(), from);
        }
        Ok(())
    }

    /// Whether a vertex is in the answer by itself, in this work or in other work.
    fn counts(&self, end: Place) -> Result<bool, QueryError> {
        match (self.chunks.get(usize_from_u32(end.cell)), self.region) {
            (Some(chunk), _) if chunk.own => Ok(self.marks.is_inside(end)),
            (Some(chunk), Some(region)) if chunk.counts => {
                let points = self.load(&[end])?;
                let point = points.points().first().and_then(|point| point.get(..self.axes));
                Ok(point.is_some_and(|point| region.contains(point)))
            }
            (Some(chunk), None) => Ok(chunk.counts),
            _ => Ok(false),
        }
    }

    /// What of the element is in the region.
    fn clip(
        &mut self,
        region: &Region,
        ends: &[Place],
        from: Option<(u32, u32)>,
    ) -> Result<(), QueryError> {
        let points = self.load(ends)?;
        let points: Vec<&[f64]> =
            points.points().iter().filter_map(|point| point.get(..self.axes)).collect();
        if !boxes_meet(region, &points) {
            return Ok(());
        }
        let mut pieces: Vec<Vec<Blend>> = Vec::new();
        if self.kind == Kind::Mesh {
            clip_face(region, ends, &points, &mut pieces)?;
        } else {
            clip_edge(region, ends, &points, &mut pieces);
        }
        for piece in pieces {
            let mut own = Vec::with_capacity(piece.len());
            for corner in piece {
                own.push(match corner.stored() {
                    Some(place) => place,
                    None => self.kept.add_cut(corner),
                });
            }
            self.kept.push(own, from);
        }
        Ok(())
    }

    /// The positions of `ends`.
    fn load(&self, ends: &[Place]) -> Result<Corners, QueryError> {
        let mut corners = Corners { points: [[0.0; Bounds::MAX_AXES]; MAX_ENDS], len: ends.len() };
        for (end, point) in ends.iter().zip(&mut corners.points) {
            let held =
                self.positions.get(usize_from_u32(end.cell)).and_then(|held| held.column(end.row));
            let found = held.and_then(|(column, first)| {
                let row = usize_from_u32(end.row.checked_sub(first)?);
                let own = point.get_mut(..self.axes)?;
                (row < column.len()).then(|| position(column, row, own))
            });
            found.ok_or_else(crate::select::pieces::not_held)?;
        }
        Ok(corners)
    }
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

/// Ends that an element may have.
const MAX_ENDS: usize = zvf_format::key::MAX_WIDTH;

/// Whether the element with these corners has a point in the region.
fn meets(region: &Region, corners: &[Point], axes: usize) -> bool {
    let mut refs: [&[f64]; MAX_ENDS] = [&[]; MAX_ENDS];
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
