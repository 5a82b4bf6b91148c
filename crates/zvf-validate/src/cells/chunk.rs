//! Checks one chunk by itself: its rows, its fragments and its attributes.

use std::fmt::Display;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use zvf_error::Error;
use zvf_format::fragment::{Fragment, FragmentIndex};
use zvf_format::key::ChunkKey;
use zvf_format::num::{f64_from_i64, i64s_from_le, saturating_usize, to_u64};
use zvf_format::{Class, FormatError};
use zvf_model::Column;

use super::plan::{ColumnPlan, Plan};
use super::values::{Extent, Positions, bad_code, count_non_finite, find_outside};
use crate::chunks::Ends;
use crate::finding::Finding;
use crate::findings::Findings;
use crate::pipeline::Cell;
use crate::rules::C;

/// The outcome.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct ChunkReport {
    pub(crate) found: Findings,
    pub(crate) rows: Option<u64>,
    pub(crate) fragments: Option<u64>,
    pub(crate) extent: Extent,
    pub(crate) bytes: u64,
    pub(crate) cells: u64,
    /// Whether fragments tile the rows.
    pub(crate) tiles: bool,
    /// Whether vertices are in another order than links and attributes assume.
    pub(crate) reorders: bool,
    pub(crate) ends: Vec<Ends>,
    pub(crate) owners: Vec<i64>,
    #[serde(default)]
    pub(crate) segments: Vec<u64>,
    /// Columns whose cell has a wrong number of values: which, rows, values.
    pub(crate) misfits: Vec<(usize, bool, u64, u64)>,
    /// Columns whose cell has the declared width.
    pub(crate) fits: Vec<(usize, bool)>,
}

/// Checks one chunk, by its cells in the arrays of the plan; `is_listed` says whether its fragments
/// are listed.
pub(crate) fn check_chunk(
    plan: &Plan,
    key: &ChunkKey,
    is_listed: bool,
    cells: &[Cell],
) -> ChunkReport {
    let mut report =
        ChunkReport { found: plan.fresh.new_empty(), tiles: true, ..Default::default() };
    let (vertex_cell, cells) = cells.split_at(1);
    let (fragment_cell, cells) = cells.split_at(usize::from(plan.has_fragments));
    let (vertex_columns, fragment_columns) = cells.split_at(plan.vertex_columns.len());
    let vertex_cell = &vertex_cell[0];
    let fragment_cell = fragment_cell.first().unwrap_or(&Ok(None)); // no array, no cell
    let vertices = report.take_bytes(&plan.vertices, key, vertex_cell);
    if matches!(vertex_cell, Ok(None)) && !plan.recorded {
        report.rows = Some(0); // the older families store chunks of nothing
    } else if matches!(vertex_cell, Ok(None)) {
        let finding = C[28].at(&plan.vertices).in_cell(key);
        let expected = "a cell, because it is listed";
        report.found.add(finding.expects("nonempty_chunks", expected, "none"));
    }
    let rows = match (&vertices, &plan.positions) {
        (Some(bytes), Some(positions)) => report.check_rows(plan, key, positions, bytes),
        _ => None,
    };
    if let Some(bytes) = vertices.as_ref().filter(|_| plan.is_draco) {
        report.check_draco(plan, key, bytes);
    }
    let fragments = report.take_bytes(&plan.fragments, key, fragment_cell);
    match (&fragments, fragment_cell) {
        (Some(bytes), _) => report.check_fragments(plan, key, bytes, rows.as_ref()),
        (None, Ok(_)) if report.rows == Some(0) => report.fragments = Some(0),
        (None, Ok(_)) if plan.has_fragments => {
            let found = if is_listed { "none, though it is listed" } else { "none" };
            let finding = C[35].at(&plan.fragments).in_cell(key);
            report.found.add(finding.expects("cell", "the fragments of the chunk", found));
        }
        (None, _) => {}
    }
    let columns = plan.vertex_columns.iter().zip(vertex_columns).enumerate();
    columns.for_each(|(at, (column, cell))| report.check_column(column, at, false, key, cell));
    let columns = plan.fragment_columns.iter().zip(fragment_columns).enumerate();
    columns.for_each(|(at, (column, cell))| report.check_column(column, at, true, key, cell));
    report
}

impl ChunkReport {
    /// Checks C2, C33: counts and returns the bytes of a cell, or reports why it does not decode.
    fn take_bytes(&mut self, path: &str, key: &ChunkKey, cell: &Cell) -> Option<Bytes> {
        match cell {
            Ok(Some(bytes)) => {
                self.cells += 1;
                self.bytes += to_u64(bytes.len());
                Some(bytes.clone())
            }
            Ok(None) => None,
            Err(error) => {
                self.found.add(cell_finding(path, key, error));
                None
            }
        }
    }

    /// Checks C3, C4, C34: rows and positions; returns the rows.
    fn check_rows(
        &mut self,
        plan: &Plan,
        key: &ChunkKey,
        positions: &Positions,
        bytes: &Bytes,
    ) -> Option<Column> {
        let Positions { dtype, axes } = *positions;
        let Ok(rows) = Column::new(dtype, axes, bytes.clone()) else {
            let row = dtype.size.saturating_mul(axes.into()); // shown
            let expected = format!("a multiple of {row}, {axes} axes of {dtype}");
            let finding = C[3].at(&plan.vertices).in_cell(key);
            self.found.add(finding.expects("bytes of the rows", expected, bytes.len()));
            return None;
        };
        self.rows = Some(to_u64(rows.len()));
        self.extent = Extent::of(&rows);
        if self.extent.odd
            && let Some((count, at)) = count_non_finite(&rows)
        {
            self.found.add(
                C[4].at(&plan.vertices)
                    .expects("position", "finite numbers", format!("{count} rows of others"))
                    .in_cell(key)
                    .with_offset(at),
            );
        }
        if let Some(corner) = key.spatial(plan.chunk.len()) {
            let (low, high) = faces(corner.iter().copied().zip(&plan.chunk));
            if let Some((at, position)) = find_outside(&rows, &self.extent, &low, &high) {
                let expected = format!("{low:?} to {high:?}");
                let finding = C[34].at(&plan.vertices).in_cell(key).with_offset(at);
                self.found.add(finding.expects("position", expected, format!("{position:?}")));
            }
        }
        Some(rows)
    }

    /// Checks C30: decodes Draco streams; a stream that this build does not support is a warning.
    fn check_draco(&mut self, plan: &Plan, key: &ChunkKey, bytes: &[u8]) {
        let error = match zvf_draco::decode(bytes, &zvf_draco::Caps::default()) {
            Ok(geometry) => {
                self.reorders = !geometry.keeps_order;
                return;
            }
            Err(error) => error,
        };
        let finding = C[30].at(&plan.vertices).in_cell(key);
        let finding = finding.expects("Draco stream", error.expected, error.found);
        let unknown = error.class == Class::Unsupported;
        self.found.add(if unknown { finding.warning() } else { finding });
    }

    /// Checks C6, C7, C21: fragments.
    fn check_fragments(
        &mut self,
        plan: &Plan,
        key: &ChunkKey,
        bytes: &[u8],
        positions: Option<&Column>,
    ) {
        let path = &plan.fragments;
        let index = match FragmentIndex::parse(bytes) {
            Ok(index) => index,
            Err(error) => {
                self.found.add(index_finding(path, key, &error));
                return;
            }
        };
        self.fragments = Some(index.len());
        self.found.add_lints(C[21], path, key, &index.lints());
        if plan.opaque && self.rows.is_none() {
            self.rows = Some(index.extent());
        }
        let Some(rows) = self.rows else { return };
        if let Err(error) = index.check_rows(rows) {
            self.found.add(Finding::from_format(C[21], path, &error).in_cell(key));
            return;
        }
        self.tiles = index.tiles(rows);
        if plan.keeps_ends {
            match index.iter().map(|fragment| Ends::from_fragment(&fragment)).collect() {
                Some(ends) => self.ends = ends,
                // Only an opaque stream can claim so many rows.
                None => {
                    self.found
                        .add(C[21].at(path).expects("rows", "fewer than 2^32", rows).in_cell(key));
                }
            }
        }
        if let (Some(bins), Some(positions)) = (&plan.bins, positions) {
            if index.len() > bins.count() {
                let expected = format!("at most {}, the bins of a chunk", bins.count());
                self.found
                    .add(C[6].at(path).expects("fragments", expected, index.len()).in_cell(key));
            } else if plan.in_bins && index.len() == bins.count() {
                self.check_bins(plan, key, positions, &index);
            }
        }
    }

    /// Checks C7: every point of fragment f lies in bin f.
    fn check_bins(
        &mut self,
        plan: &Plan,
        key: &ChunkKey,
        positions: &Column,
        index: &FragmentIndex<'_>,
    ) {
        let (Some(bins), Some(corner)) = (&plan.bins, key.spatial(plan.chunk.len())) else {
            return;
        };
        for (flat, fragment) in (0_u64..).zip(index.iter()) {
            let Fragment::Range { start, count } = fragment else { continue };
            let from = saturating_usize(start); // the rows were compared with those of the cell
            let rows = positions.slice(from..from.saturating_add(saturating_usize(count)));
            if rows.is_empty() {
                continue;
            }
            let place = unflatten(flat, bins.bins_per_chunk());
            let axes = corner.iter().zip(bins.bins_per_chunk()).zip(place);
            // Far out, about.
            let bin =
                axes.map(|((chunk, n), place)| chunk.saturating_mul(*n).saturating_add(place));
            let (low, high) = faces(bin.zip(bins.bin_shape()));
            if let Some((at, position)) = find_outside(&rows, &Extent::of(&rows), &low, &high) {
                let at = to_u64(from * positions.stride()) + at;
                let expected = format!("bin {flat}, {low:?} to {high:?}");
                let finding = C[7].at(&plan.vertices).in_cell(key).with_offset(at);
                self.found.add(finding.expects("position", expected, format!("{position:?}")));
            }
        }
    }

    /// Checks C22, C32: an attribute has a value for each row, and codes have categories.
    fn check_column(
        &mut self,
        plan: &ColumnPlan,
        at: usize,
        of_fragments: bool,
        key: &ChunkKey,
        cell: &Cell,
    ) {
        let bytes = self.take_bytes(&plan.path, key, cell);
        let rows = if of_fragments { self.fragments } else { self.rows };
        if cell.is_err() {
            return;
        }
        let Some(rows) = rows else { return };
        let bytes = bytes.unwrap_or_default(); // no cell has no bytes
        let (len, size) = (to_u64(bytes.len()), plan.dtype.size);
        if len == 0 && rows > 0 {
            let finding = C[22].at(&plan.path).in_cell(key);
            let expected = format!("{rows} rows, as the chunk has");
            let finding = finding.expects("cell", expected, "none");
            // Other writers store fragment values chunk by chunk.
            self.found.add(if of_fragments { finding.warning() } else { finding });
            return;
        }
        match rows.checked_mul(plan.width).and_then(|values| values.checked_mul(size)) {
            Some(expected) if expected == len => self.fits.push((at, of_fragments)),
            _ => {
                let values = if len.is_multiple_of(size) { len.checked_div(size) } else { None };
                match values.filter(|values| rows > 0 && values.is_multiple_of(rows)) {
                    Some(values) => self.misfits.push((at, of_fragments, rows, values)),
                    None => {
                        let expected = format!("{rows} rows of {} {}", plan.width, plan.dtype);
                        let finding = C[22].at(&plan.path).in_cell(key);
                        self.found.add(finding.expects("bytes of the rows", expected, len));
                    }
                }
            }
        }
        if let Some((categories, missing)) = plan.categories
            && let Ok(codes) = Column::new(plan.dtype, 1, bytes.slice(..whole_len(&bytes, size)))
            && let Some((at, code)) = bad_code(&codes, categories, missing)
        {
            let expected = format!("one of {categories} categories");
            let finding = C[32].at(&plan.path);
            self.found.add(finding.expects("code", expected, code).in_cell(key).with_offset(at));
        }
        if plan.owner {
            self.owners = i64s_from_le(&bytes).collect();
        }
        if plan.segment {
            self.segments = i64s_from_le(&bytes).map(i64::cast_unsigned).collect();
        }
    }
}

/// Returns the length of the values of this size in `bytes`.
fn whole_len(bytes: &Bytes, size: u64) -> usize {
    let size = saturating_usize(size).max(1);
    bytes.len() / size * size
}

/// Returns the finding for a cell that cannot be read; without the cell if the whole array is unsupported.
pub(crate) fn cell_finding(path: impl Display, key: &ChunkKey, error: &Error) -> Finding {
    let finding = Finding::from_store(C[2], path, error);
    if error.class() == Class::Unsupported { finding } else { finding.in_cell(key) }
}

/// Returns the finding for a fragment index: C2 if it does not decode, C21 if it is inconsistent.
fn index_finding(path: &str, key: &ChunkKey, error: &FormatError) -> Finding {
    let is_undecodable = matches!(
        error.class,
        Class::Truncated | Class::BadMagic | Class::UnsupportedVersion | Class::UnsupportedFlags
    );
    Finding::from_format(if is_undecodable { C[2] } else { C[21] }, path, error).in_cell(key)
}

impl Ends {
    /// Returns the ends of a fragment; `None` if its rows are not below 2^32.
    fn from_fragment(fragment: &Fragment<'_>) -> Option<Self> {
        let (first, last, is_range) = match fragment {
            Fragment::Range { start, count } => {
                (*start, start.checked_add(count.saturating_sub(1))?, true) // without rows the first is the last
            }
            Fragment::Rows(rows) => {
                let row = |row: Option<u64>| row.unwrap_or(0); // without rows `count` is 0
                let last = rows.last().map(|row| row.get().unsigned_abs());
                (row(fragment.rows().next()), row(last), false)
            }
        };
        let narrow = |number: u64| u32::try_from(number).ok();
        let count = narrow(fragment.len())?;
        Some(Self { first: narrow(first)?, last: narrow(last)?, count, is_range })
    }
}

/// Returns the index of bin `flat` on each axis, last axis fastest.
fn unflatten(flat: u64, per_chunk: &[i64]) -> Vec<i64> {
    let mut rest = flat;
    let mut place: Vec<i64> = per_chunk
        .iter()
        .rev()
        .map(|n| {
            let n = n.unsigned_abs().max(1);
            let index = rest % n;
            rest /= n;
            index.cast_signed()
        })
        .collect();
    place.reverse();
    place
}

/// Returns the lower and the upper faces of a cell with this number and size on each axis.
fn faces<'a>(cells: impl Iterator<Item = (i64, &'a f64)>) -> (Vec<f64>, Vec<f64>) {
    let face = |n: i64, size: &f64| f64_from_i64(n) * size;
    // Far out, the upper face is about there.
    cells.map(|(n, size)| (face(n, size), face(n.saturating_add(1), size))).unzip()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_rows_beyond_32_bits() {
        let from_range = |start, count| Ends::from_fragment(&Fragment::Range { start, count });
        let ends = |first, last, count| Some(Ends { first, last, count, is_range: true });
        assert_eq!(from_range(3, 4), ends(3, 6, 4));
        assert_eq!(from_range(7, 0), ends(7, 7, 0));
        assert_eq!(from_range(0, u64::from(u32::MAX)), ends(0, u32::MAX - 1, u32::MAX));
        for (start, count) in [(1 << 32, 1), (0, 1 << 32), (u64::from(u32::MAX), 2), (u64::MAX, 2)]
        {
            assert_eq!(from_range(start, count), None, "{start} {count}");
        }
    }

    #[test]
    fn unflattens_bins() {
        assert_eq!(unflatten(7, &[2, 2, 3]), [1, 0, 1]);
        assert_eq!(unflatten(11, &[2, 2, 3]), [1, 1, 2]);
    }
}
