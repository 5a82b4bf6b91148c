//! Marks of the rows that are in the answer, and their numbers there.

use zvf_format::num::{saturating_u32_from_usize, saturating_usize, usize_from_u32};

use super::{CUT, Chunk};
use crate::region::Region;
use crate::select::chain::Place;
use crate::select::inside;
use crate::select::loaded_rows::LoadedRows;
use crate::select::pieces::{Piece, Pieces};

/// Marks of the rows of each chunk that are in the answer.
pub(super) struct Marks {
    /// Rows that are in the answer without an element.
    inside: Vec<Vec<bool>>,
    /// Rows that may be in the answer; `None` allows all.
    allowed: Option<Vec<Vec<bool>>>,
    /// Chunks whose data is missing.
    absent: Vec<bool>,
}

/// Numbers of the rows of one chunk in the answer; [`NONE`] where a row is not in it.
pub(super) type Numbers = Vec<u32>;

pub(super) const NONE: u32 = u32::MAX;

impl Marks {
    pub(super) fn new(
        chunks: &[Chunk],
        positions: &[LoadedRows],
        allowed: Option<Vec<Vec<bool>>>,
    ) -> Self {
        let rows = |(chunk, loaded): (&Chunk, &LoadedRows)| {
            let rows = match loaded {
                LoadedRows::Whole(column) => column.len(),
                // Those that are known to exist.
                LoadedRows::Nothing | LoadedRows::Parts(_) => saturating_usize(chunk.rows),
            };
            vec![false; rows]
        };
        let absent = chunks.iter().map(|chunk| chunk.absent).collect();
        Self { inside: chunks.iter().zip(positions).map(rows).collect(), allowed, absent }
    }

    /// Marks the allowed vertices in the region; without a region, all allowed vertices.
    pub(super) fn mark_inside(
        &mut self,
        chunks: &[Chunk],
        positions: &[LoadedRows],
        region: Option<&Region>,
    ) {
        let Some(region) = region else { return self.mark_allowed(chunks, positions) };
        let test = inside::Test::new(region);
        let mut hits = Pieces::default();
        for (cell, (chunk, loaded)) in (0_u32..).zip(chunks.iter().zip(positions)) {
            if !chunk.is_own || matches!(loaded, LoadedRows::Nothing) {
                continue;
            }
            test.rows(loaded, &chunk.runs.list, cell, &mut hits);
        }
        for piece in &hits.list {
            for row in piece.start..piece.end() {
                let place = Place { cell: piece.cell, row };
                if self.is_allowed(place)
                    && let Some(rows) = self.inside.get_mut(usize_from_u32(place.cell))
                    && let Some(mark) = rows.get_mut(usize_from_u32(row))
                {
                    *mark = true;
                }
            }
        }
    }

    /// Marks all allowed vertices.
    fn mark_allowed(&mut self, chunks: &[Chunk], positions: &[LoadedRows]) {
        for (cell, (chunk, loaded)) in chunks.iter().zip(positions).enumerate() {
            if self.absent[cell] || !chunk.is_own || matches!(loaded, LoadedRows::Nothing) {
                continue;
            }
            let marks = &mut self.inside[cell];
            let allowed = self.allowed.as_ref().map(|all| &all[cell]);
            for run in &chunk.runs.list {
                // An own chunk is held whole and has the rows that its fragments name.
                let rows = usize_from_u32(run.start)..usize_from_u32(run.end());
                let marks = &mut marks[rows.clone()];
                match allowed {
                    None => marks.fill(true),
                    Some(allowed) => {
                        let allowed = &allowed[rows];
                        marks.iter_mut().zip(allowed).for_each(|(mark, passes)| *mark |= passes);
                    }
                }
            }
        }
    }

    /// Returns the marks of the rows of a chunk.
    pub(super) fn rows(&self, cell: u32) -> &[bool] {
        self.inside.get(usize_from_u32(cell)).map_or(&[], |rows| rows)
    }

    pub(super) fn is_allowed(&self, place: Place) -> bool {
        let is_present = self.absent.get(usize_from_u32(place.cell)) == Some(&false);
        is_present
            && self.allowed.as_ref().is_none_or(|allowed| {
                let rows = allowed.get(usize_from_u32(place.cell));
                rows.and_then(|rows| rows.get(usize_from_u32(place.row))).copied().unwrap_or(false)
            })
    }

    pub(super) fn is_inside(&self, place: Place) -> bool {
        let rows = self.inside.get(usize_from_u32(place.cell));
        rows.and_then(|rows| rows.get(usize_from_u32(place.row))).copied().unwrap_or(false)
    }

    /// Clears the marks of the chunks that are `lost`.
    pub(super) fn clear_lost(&mut self, lost: &[bool]) {
        for (rows, _) in self.inside.iter_mut().zip(lost).filter(|(_, lost)| **lost) {
            rows.fill(false);
        }
    }

    /// Numbers the rows of the answer, including those of `ends`, in storage order; returns the rows and their
    /// numbers. A row that several fragments name is numbered once.
    pub(super) fn number_rows(&self, chunks: &[Chunk], ends: &[Place]) -> (Pieces, Vec<Numbers>) {
        let mut marks = self.inside.clone();
        for end in ends.iter().filter(|end| end.cell != CUT) {
            let rows = marks.get_mut(usize_from_u32(end.cell));
            if let Some(mark) = rows.and_then(|rows| rows.get_mut(usize_from_u32(end.row))) {
                *mark = true;
            }
        }
        let mut pieces = Pieces::default();
        let mut all = Vec::with_capacity(chunks.len());
        for (cell, (chunk, marks)) in (0_u32..).zip(chunks.iter().zip(&marks)) {
            let mut numbers = vec![NONE; marks.len()];
            for run in &chunk.runs.list {
                for row in run.start..run.end() {
                    if let (Some(true), Some(number @ &mut NONE)) =
                        (marks.get(usize_from_u32(row)), numbers.get_mut(usize_from_u32(row)))
                    {
                        // The caller refuses as many rows as there are numbers.
                        *number = saturating_u32_from_usize(pieces.rows);
                        pieces.push(Piece { cell, start: row, len: 1, fragment: run.fragment });
                    }
                }
            }
            all.push(numbers);
        }
        (pieces, all)
    }
}
