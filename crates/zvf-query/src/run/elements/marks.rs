//! Marks of the rows of each chunk: whether they are in the answer, and their numbers there.

use zvf_format::num::{index_u32, saturating_u32_from_usize, saturating_usize, usize_from_u32};

use super::{CUT, Cell};
use crate::region::Region;
use crate::select::chain::Spot;
use crate::select::inside::Test;
use crate::select::loaded_rows::LoadedRows;
use crate::select::pieces::{Piece, Pieces};

/// Marks of the rows of each chunk, as far as they are known to exist.
pub(super) struct Marks(Vec<Vec<u8>>);

/// The row may be in the answer.
pub(super) const ALLOWED: u8 = 1;
/// The row is in the answer without an element.
pub(super) const INSIDE: u8 = 2;
/// A record gives the row a parent.
pub(super) const CHILD: u8 = 4;
/// A row that the current step refers to.
const NAMED: u8 = 8;

/// Numbers of the rows of one chunk in the answer; [`NONE`] where a row is not in it.
pub(super) type Numbers = Vec<u32>;

pub(super) const NONE: u32 = u32::MAX;

impl Marks {
    /// Allows all rows except those of chunks whose data is missing.
    pub(super) fn new(cells: &[Cell]) -> Self {
        let rows = |cell: &Cell| {
            let mark = if cell.absent { 0 } else { ALLOWED };
            vec![mark; saturating_usize(cell.chunk.rows)] // rows that exist
        };
        Self(cells.iter().map(rows).collect())
    }

    /// Returns whether a row has one of these marks; false for a missing row.
    pub(super) fn has(&self, place: Spot, marks: u8) -> bool {
        let rows = self.0.get(usize_from_u32(place.cell));
        rows.and_then(|rows| rows.get(usize_from_u32(place.row))).is_some_and(|row| row & marks > 0)
    }

    /// Marks a row, if it exists.
    pub(super) fn add(&mut self, place: Spot, mark: u8) {
        let rows = self.0.get_mut(usize_from_u32(place.cell));
        if let Some(row) = rows.and_then(|rows| rows.get_mut(usize_from_u32(place.row))) {
            *row |= mark;
        }
    }

    /// Returns the existing rows of a piece.
    fn rows_mut(&mut self, piece: &Piece) -> &mut [u8] {
        let rows = &mut self.0[usize_from_u32(piece.cell)];
        let end = usize_from_u32(piece.end()).min(rows.len());
        rows.get_mut(usize_from_u32(piece.start)..end).unwrap_or_default()
    }

    /// Disallows all rows that are not in `pieces`.
    pub(super) fn allow_only<'a>(&mut self, pieces: impl IntoIterator<Item = &'a Piece>) {
        for piece in pieces {
            self.rows_mut(piece).iter_mut().for_each(|row| *row |= NAMED);
        }
        for row in self.0.iter_mut().flatten() {
            *row &= if *row & NAMED == 0 { !ALLOWED } else { !NAMED };
        }
    }

    /// Marks the allowed vertices in the region; without a region, all allowed vertices.
    pub(super) fn mark_inside(
        &mut self,
        cells: &[Cell],
        positions: &[LoadedRows],
        region: Option<&Region>,
    ) {
        let own = cells.iter().filter(|cell| cell.is_own && !cell.absent);
        let mut own: Vec<Piece> = own.flat_map(|cell| &cell.chunk.runs.list).copied().collect();
        if let Some(region) = region {
            let mut inside = Pieces::default();
            Test::new(region).rows(positions, &own, &mut inside);
            own = inside.list;
        }
        for piece in &own {
            for row in self.rows_mut(piece).iter_mut().filter(|row| **row & ALLOWED > 0) {
                *row |= INSIDE;
            }
        }
    }

    /// Clears the marks of a missing chunk.
    pub(super) fn clear(&mut self, cell: usize) {
        self.0[cell].fill(0);
    }

    /// Returns all rows of own chunks, and the `ends` of records in other chunks.
    pub(super) fn relevant_rows<'a>(
        &mut self,
        cells: &[Cell],
        ends: impl Iterator<Item = &'a Spot>,
    ) -> Pieces {
        ends.for_each(|end| self.add(*end, NAMED));
        let mut all = Pieces::default();
        for (is_own, piece) in
            cells.iter().flat_map(|cell| cell.chunk.runs.list.iter().map(|run| (cell.is_own, run)))
        {
            let mut start = piece.start;
            for same in self.rows_mut(piece).chunk_by(|a, b| is_own || (a ^ b) & NAMED == 0) {
                let len = index_u32(same.len()); // of a run
                if is_own || same[0] & NAMED > 0 {
                    all.push_apart(Piece { start, len, ..*piece });
                }
                start += len;
            }
        }
        self.0.iter_mut().flatten().for_each(|row| *row &= !NAMED);
        all
    }

    /// Numbers the rows of the answer, including those of `ends`, in storage order; returns the
    /// rows and their numbers. A row in several fragments is numbered once.
    pub(super) fn number_rows(&mut self, cells: &[Cell], ends: &[Spot]) -> (Pieces, Vec<Numbers>) {
        ends.iter().filter(|end| end.cell != CUT).for_each(|end| self.add(*end, NAMED));
        let mut pieces = Pieces::default();
        let mut all = Vec::with_capacity(cells.len());
        for (cell, marks) in cells.iter().zip(&mut self.0) {
            let mut numbers = vec![NONE; marks.len()];
            for run in &cell.chunk.runs.list {
                let end = usize_from_u32(run.end()).min(marks.len());
                for row in usize_from_u32(run.start)..end {
                    if marks[row] & (INSIDE | NAMED) > 0 && numbers[row] == NONE {
                        // The caller refuses more rows than 32 bits can number.
                        numbers[row] = saturating_u32_from_usize(pieces.rows);
                        pieces.push(Piece { start: index_u32(row), len: 1, ..*run });
                    }
                }
            }
            marks.iter_mut().for_each(|row| *row &= !NAMED);
            all.push(numbers);
        }
        (pieces, all)
    }
}
