//! Validation: checks that rows and shapes fit each other, and reports irregularities.
//!
//! It makes a few passes over the datasets and two over the rows. Tile counts are compared with
//! `entry_count` before any other check of a row, and no grid is ever iterated, so the work is
//! bounded by the length of the file. If the counts are equal, every tile has its row exactly when
//! rows belong to datasets, lie in their grids, and no two are for one tile.
//!
//! Rows ordered by dataset and in grid order need no memory. For other orders row numbers are
//! sorted, which needs four bytes per row.

use core::cmp::Ordering;
use core::ops::ControlFlow;

use alloc::vec::Vec;

use super::geometry::axes;
use super::index::{AT_ENTRY_COUNT, HEADER, IN_CHUNK_INDEX, IN_OFFSET};
use super::plan::length_error;
use super::{Dataset, MAX_RANK, Row, TetFinding, TetRule, TetSeverity, TetView, TileGeometry};
use zvf_format::{Class, Expected, FormatError, Lints, Part, num};

/// A callback for findings; it can stop the validation.
type Report<'r> = dyn FnMut(TetFinding) -> ControlFlow<()> + 'r;

impl<'a> TetView<'a> {
    /// Checks that every tile of every dataset has exactly one row that fits it.
    ///
    /// Call it once after opening a file of unknown origin: then the file agrees with what the
    /// other parts of this crate state about its datasets. It takes some tens of nanoseconds per
    /// row.
    ///
    /// # Errors
    ///
    /// The first finding whose severity is [`TetSeverity::Error`].
    pub fn validate(&self) -> Result<(), FormatError> {
        let mut first = None;
        let _ = self.check(&mut |finding| {
            if finding.severity == TetSeverity::Error {
                first = Some(finding.error);
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        });
        first.map_or(Ok(()), Err)
    }

    /// Lists what only a strict reader refuses: also datasets without elements
    /// ([`F6`](super::TetRule::F6)), which not every reader can query, but not payloads out of
    /// order ([`F4`](super::TetRule::F4)).
    pub fn lints(&self) -> Lints {
        let mut lints = Lints::default();
        let _ = self.check(&mut |finding| {
            if finding.severity == TetSeverity::Lint || finding.rule == TetRule::F6 {
                lints.push(finding.error);
            }
            ControlFlow::Continue(())
        });
        lints
    }

    /// Reports all findings about the file, except for the contents of payloads, until the callback
    /// stops it.
    ///
    /// ```
    /// use core::ops::ControlFlow;
    /// use zvf_tet::TetView;
    ///
    /// // No datasets, and yet an index of 8 bytes.
    /// let bytes = b"TETR\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x08\0\0\0\0\0\0\0";
    /// let mut rules = Vec::new();
    /// let _ = TetView::parse(bytes)?.check(&mut |finding| {
    ///     rules.push(finding.rule.id());
    ///     ControlFlow::Continue(())
    /// });
    /// assert_eq!(rules, ["F5"]);
    /// # Ok::<(), zvf_format::FormatError>(())
    /// ```
    pub fn check(
        &self,
        report: &mut (dyn FnMut(TetFinding) -> ControlFlow<()> + '_),
    ) -> ControlFlow<()> {
        let superblock = self.superblock();
        for error in [superblock.undefined_flags(), superblock.index_of_nothing()].iter().flatten()
        {
            push_finding(report, *error)?;
        }
        self.check_datasets(report)?;
        self.check_counts(Ordering::Greater, report)?;
        let at = superblock.chunk_index_offset();
        for error in self.index().faults() {
            push_finding(report, error.with_base_offset(at))?;
        }
        self.check_rows(report)?;
        // More rows than tiles: the faulty rows were reported, and this finding is the summary.
        self.check_counts(Ordering::Less, report)?;
        self.check_payloads(report)?;
        for error in self.footer().iter().flat_map(super::Footer::faults) {
            push_finding(report, error)?;
        }
        ControlFlow::Continue(())
    }

    /// Checks types, extents, padding and names.
    fn check_datasets(&self, report: &mut Report<'_>) -> ControlFlow<()> {
        for dataset in &self.directory() {
            if let Err(error) = dataset.geometry() {
                push_finding(report, error)?;
            }
            for error in dataset.faults().chain(dataset.emptiness()) {
                push_finding(report, error)?;
            }
        }
        self.check_names(report)
    }

    /// Reports the counts if tiles compare with rows as `asked`; never if a dataset is invalid.
    fn check_counts(&self, asked: Ordering, report: &mut Report<'_>) -> ControlFlow<()> {
        let rows = self.index().rows().len();
        let mut tiles = 0_i128; // 2^32 numbers below 2^64
        for dataset in &self.directory() {
            let Ok(geometry) = dataset.geometry() else { return ControlFlow::Continue(()) };
            tiles = tiles.saturating_add(geometry.tile_count().into());
        }
        if tiles.cmp(&num::to_u64(rows).into()) != asked {
            return ControlFlow::Continue(());
        }
        let (class, expected) = (Class::CountMismatch, Expected::Exactly(tiles));
        let error = fault(class, "entry_count", AT_ENTRY_COUNT, expected, rows);
        push_finding(report, error.with_base_offset(self.superblock().chunk_index_offset()))
    }

    fn check_names(&self, report: &mut Report<'_>) -> ControlFlow<()> {
        let mut datasets = collect(&self.directory());
        datasets.sort_unstable_by_key(|dataset| (dataset.name(), dataset.id()));
        for pair in datasets.windows(2) {
            if let [a, b] = pair
                && a.name() == b.name()
            {
                push_finding(report, b.same_name_error())?;
            }
        }
        ControlFlow::Continue(())
    }

    /// Checks each row by itself, then rows against each other.
    fn check_rows(&self, report: &mut Report<'_>) -> ControlFlow<()> {
        let datasets = collect(&self.directory());
        // The rows of a dataset mostly stand together.
        let mut last: Option<(u64, Option<TileGeometry>)> = None;
        let mut sorted = true;
        let mut before: Option<&Row> = None;
        for (at, row) in self.rows_with_offsets() {
            let id = row.dataset_id();
            let dataset = num::checked_usize(id).and_then(|id| datasets.get(id));
            let Some(dataset) = dataset else {
                let max = i128::from(self.directory().len()).saturating_sub(1);
                let (class, expected) = (Class::OutOfBounds, Expected::AtMost(max));
                push_finding(report, fault(class, "dataset_id", at, expected, id))?;
                continue;
            };
            if last.as_ref().is_none_or(|(last, _)| *last != id) {
                last = Some((id, dataset.geometry().ok()));
            }
            let Some((_, Some(geometry))) = &last else { continue }; // reported with the dataset
            check_row(geometry, row, at, report)?;
            sorted &= before.is_none_or(|before| order(before, row, geometry.rank()).is_lt());
            before = Some(row);
        }
        if sorted {
            return ControlFlow::Continue(());
        }
        self.check_unsorted_rows(&datasets, report)
    }

    /// Reports rows for the same tile, if the rows are not in order.
    fn check_unsorted_rows(
        &self,
        datasets: &[Dataset<'_>],
        report: &mut Report<'_>,
    ) -> ControlFlow<()> {
        let rows = self.index().rows();
        if u32::try_from(rows.len()).is_err() {
            let (class, expected) = (Class::Unsupported, Expected::Rule("few, or in order"));
            let found = "so many rows in another order";
            return push_finding(report, fault(class, "chunk_index", 0, expected, found));
        }
        let rank = |row: &Row| {
            let id = num::checked_usize(row.dataset_id());
            id.and_then(|id| datasets.get(id)).map_or(MAX_RANK, Dataset::rank)
        };
        let compare = |a: u32, b: u32| match (self.row(a), self.row(b)) {
            (Some(x), Some(y)) => order(x, y, rank(x)),
            _ => a.cmp(&b),
        };
        let mut numbers: Vec<u32> = (0..=u32::MAX).zip(rows).map(|(number, _)| number).collect();
        numbers.sort_unstable_by(|a, b| compare(*a, *b).then(a.cmp(b)));
        for pair in numbers.windows(2) {
            if let [a, b] = pair
                && compare(*a, *b).is_eq()
            {
                push_finding(report, self.duplicate_error(u64::from(*b)))?;
            }
        }
        ControlFlow::Continue(())
    }

    /// Returns the error for a second row of one tile.
    fn duplicate_error(&self, number: u64) -> FormatError {
        let at = self.row_offset(number).saturating_add(IN_CHUNK_INDEX);
        let expected = Expected::Rule("one row for each tile");
        fault(Class::Duplicate, "chunk_index", at, expected, "another one")
    }

    /// Compares payloads with each other and the index.
    fn check_payloads(&self, report: &mut Report<'_>) -> ControlFlow<()> {
        let floor = self.superblock().prefix_len();
        let (mut end, mut ascending) = (floor, true);
        let mut gap = None;
        for (at, row) in self.rows_with_offsets() {
            let (offset, at) = (row.payload_offset(), at.saturating_add(IN_OFFSET));
            if offset < floor && row.stored_byte_len() > 0 {
                let expected = Expected::AtLeast(floor.into());
                let class = Class::NonCanonical;
                push_finding(report, fault(class, "payload_offset", at, expected, offset))?;
            }
            if offset != end && gap.is_none() {
                let expected = Expected::Exactly(end.into());
                gap = Some(fault(Class::NonCanonical, "payload order", at, expected, offset));
            }
            ascending &= offset >= end;
            end = end.max(row.payload_end());
        }
        if !ascending {
            self.check_overlaps(report)?;
        }
        gap.map_or(ControlFlow::Continue(()), |gap| push_finding(report, gap))
    }

    /// Reports payloads that overlap, if the payloads are not in order.
    fn check_overlaps(&self, report: &mut Report<'_>) -> ControlFlow<()> {
        let rows = (0..=u32::MAX).zip(self.index().rows());
        let spans = rows.filter(|(_, row)| row.stored_byte_len() > 0);
        let mut numbers: Vec<u32> = spans.map(|(number, _)| number).collect();
        numbers.sort_unstable_by_key(|n| (self.row(*n).map(Row::payload_offset), *n));
        let mut end = 0;
        for number in numbers {
            let Some(row) = self.row(number) else { continue };
            if row.payload_offset() < end {
                let at = self.row_offset(number.into()).saturating_add(IN_OFFSET);
                let expected = Expected::AtLeast(end.into());
                let (class, found) = (Class::NonCanonical, row.payload_offset());
                push_finding(report, fault(class, "payload_offset", at, expected, found))?;
            }
            end = end.max(row.payload_end());
        }
        ControlFlow::Continue(())
    }

    fn row(&self, number: u32) -> Option<&'a Row> {
        self.index().rows().get(num::usize_from_u32(number))
    }

    /// Returns the offset in the file of the row with this number.
    fn row_offset(&self, number: u64) -> u64 {
        let rows = self.superblock().chunk_index_offset().saturating_add(HEADER);
        rows.saturating_add(number.saturating_mul(Row::LEN))
    }

    /// Iterates over the rows, each with its offset in the file.
    fn rows_with_offsets(&self) -> impl Iterator<Item = (u64, &'a Row)> + use<'a> {
        (self.row_offset(0)..).step_by(size_of::<Row>()).zip(self.index().rows())
    }
}

/// Collects all datasets; the size of the directory bounds the memory.
fn collect<'a>(directory: &super::Directory<'a>) -> Vec<Dataset<'a>> {
    let mut datasets = Vec::with_capacity(num::usize_from_u32(directory.len()));
    datasets.extend(directory);
    datasets
}

/// Checks that a row lies in its grid, has the length of its tile, and is 0 past the rank.
fn check_row(
    geometry: &TileGeometry,
    row: &Row,
    at: u64,
    report: &mut Report<'_>,
) -> ControlFlow<()> {
    let rank = geometry.rank();
    let mut coords = row.chunk_index();
    let slot = |axis: usize| {
        let bytes = num::to_u64(axis).saturating_mul(num::to_u64(size_of::<u64>())); // in the row
        at.saturating_add(IN_CHUNK_INDEX).saturating_add(bytes)
    };
    for (axis, c) in coords.iter_mut().enumerate().skip(rank) {
        if *c != 0 {
            let (class, expected) = (Class::NonCanonical, Expected::Exactly(0));
            push_finding(report, fault(class, "unused chunk_index", slot(axis), expected, *c))?;
            *c = 0;
        }
    }
    let outside = axes(&coords, rank).iter().zip(geometry.counts()).enumerate();
    if let Some((axis, (c, count))) = outside.into_iter().find(|(_, (c, count))| c >= count) {
        let expected = Expected::AtMost(i128::from(*count).saturating_sub(1));
        return push_finding(
            report,
            fault(Class::OutOfBounds, "chunk_index", slot(axis), expected, *c),
        );
    }
    match geometry.tile_at(coords) {
        Some(tile) if tile.byte_len() != row.raw_byte_len() => {
            push_finding(report, length_error(&tile, row).with_base_offset(at))
        }
        _ => ControlFlow::Continue(()),
    }
}

/// Compares by dataset, then by the first `rank` coordinates.
fn order(a: &Row, b: &Row, rank: usize) -> Ordering {
    a.dataset_id()
        .cmp(&b.dataset_id())
        .then_with(|| axes(&a.chunk_index(), rank).cmp(axes(&b.chunk_index(), rank)))
}

fn push_finding(report: &mut Report<'_>, error: FormatError) -> ControlFlow<()> {
    TetFinding::from_error(error).map_or(ControlFlow::Continue(()), report)
}

fn fault(
    class: Class,
    field: &'static str,
    at: u64,
    expected: Expected,
    found: impl Into<zvf_format::Found>,
) -> FormatError {
    FormatError::new(class, Part::TetIndex, field, at, expected, found)
}

const _: () = assert!(size_of::<Dataset<'_>>() <= 4 * 32, "four times the smallest record");

#[cfg(test)]
mod tests;
