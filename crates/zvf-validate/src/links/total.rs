//! Totals over all cells of a link family: counts, copies, parents and sources.
//!
//! Links are not stored: each adds to order-independent checksums, and bitmaps mark the rows that are a child or a
//! source.

use std::collections::BTreeMap;

use zvf_format::key::Delta;
use zvf_format::link::LinkStorage;
use zvf_format::num::saturating_usize;
use zvf_metadata::LayoutFamily as Layout;

use super::cell::LinkReport;
use super::open::OpenFamily;
use super::segment::Uses;
use crate::level::{CrossLevelLinks, LevelState};
use crate::rule::Rule;
use crate::rules::{C, G, P};
use crate::validation::Validation;

/// Totals over the cells of a family.
#[derive(Default)]
pub(super) struct Total {
    delta: Delta,
    /// Number of counted rows; `None` if a cell could not be read.
    physical: Option<u64>,
    /// The same, if rows of 64 bits were appended to cells that state 32.
    two_widths: Option<u64>,
    /// Whether every row was read, counted or not.
    complete: bool,
    /// Rows by the number of chunks of their ends, and by the index of the chunk of the copy.
    copies: BTreeMap<usize, BTreeMap<usize, (u64, u64)>>,
    parents: Option<Vec<u32>>,
    /// Bitmap of the rows that are a child, and the number of repeated children.
    children: Option<Vec<u64>>,
    twice: u64,
    bridges: Option<Vec<u64>>,
    sum: u64,
    links: u64,
    /// Bitmap of the rows that are a source.
    sources: Option<Vec<u64>>,
}

impl Total {
    pub(super) fn new(run: &mut Validation, level: &LevelState, opened: &OpenFamily) -> Self {
        let complete = opened.complete && run.options.takes_all();
        let upward = opened.delta.0 > 0 && run.options.wants(P[6]);
        Self {
            delta: opened.delta,
            physical: complete.then_some(0),
            two_widths: complete.then_some(0),
            complete,
            sources: if upward { allocate_bitmap(run, level, P[6], &opened.path) } else { None },
            ..Self::default()
        }
    }

    /// Allocates the tables for the uses of links.
    pub(super) fn begin(
        &mut self,
        run: &mut Validation,
        level: &LevelState,
        path: &str,
        uses: Uses,
    ) {
        if uses.child && self.parents.is_none() && level.chunks.ends.is_some() {
            // As many as there are ends, which are kept.
            self.parents = Some(vec![0; saturating_usize(level.chunks.total_fragments())]);
            self.children = allocate_bitmap(run, level, G[6], path);
        }
        if uses.bridges && self.bridges.is_none() {
            self.bridges = Some(vec![0; level.chunks.len()]);
        }
    }

    /// Adds the records of a cell or of a piece of a blob; its rows to the counts where they are
    /// `counted`.
    pub(super) fn take(&mut self, run: &mut Validation, report: LinkReport, counted: bool) {
        let rows = report.rows.unwrap_or(0); // without rows it is not complete
        self.links += rows;
        self.complete &= report.rows.is_some();
        if counted {
            self.physical = self.physical.zip(report.rows).map(|(sum, rows)| sum + rows);
            self.two_widths = self.two_widths.zip(report.two_widths).map(|(sum, rows)| sum + rows);
            let (chunks, lead) = report.copies;
            let (n, sum) = self.copies.entry(chunks).or_default().entry(lead).or_default();
            *n += rows;
            *sum = sum.wrapping_add(report.sum);
        }
        self.sum = self.sum.wrapping_add(report.between);
        for fragment in report.followed {
            self.follow(fragment);
        }
        if let (Some(bridges), Some((chunk, sum))) = (&mut self.bridges, report.bridges)
            && let Some(total) = bridges.get_mut(chunk)
        {
            *total = total.wrapping_add(sum);
        }
        for row in report.children {
            self.set_child(row);
        }
        for row in report.sources {
            self.set_source(row);
        }
        let checked = &mut run.checked;
        checked.cells += report.cells;
        checked.bytes += report.bytes;
        checked.links += rows;
        run.found.absorb(report.found);
    }

    /// Returns the number of counted rows; `None` if a cell could not be read.
    pub(super) fn counted_rows(&self) -> Option<u64> {
        self.physical
    }

    /// Marks that some records could not be read.
    pub(super) fn mark_lost(&mut self) {
        (self.physical, self.complete) = (None, false);
    }

    fn follow(&mut self, fragment: usize) {
        if let Some(parents) = self.parents.as_mut().and_then(|all| all.get_mut(fragment)) {
            // More than two parents need not be counted.
            *parents = parents.saturating_add(1);
        }
    }

    fn set_child(&mut self, row: u64) {
        if let Some(children) = &mut self.children
            && !set_bit(children, row)
        {
            self.twice += 1;
        }
    }

    fn set_source(&mut self, row: u64) {
        if let Some(sources) = &mut self.sources {
            set_bit(sources, row);
        }
    }

    /// Checks C14, C19, G6: counts, copies of one link, and rows with two parents.
    pub(super) fn check_totals(&self, run: &mut Validation, opened: &OpenFamily) {
        if self.twice > 0 {
            let found = format!("{} rows that are a child twice", self.twice);
            run.add(G[6].at(&opened.path).expects("links", "one parent for each row", found));
        }
        let stated = opened.doc.num_physical_records.or(opened.doc.num_links);
        if stated.is_some() && self.two_widths == stated && self.physical != stated {
            let found = "int64 rows among them: rows of two widths, a fault of zarr-vectors 0.9.2";
            run.add(C[36].at(&opened.path).expects("row width", "int32, as dtype says", found));
        }
        let Some(physical) = self.physical else { return };
        // Before 0.9 only this count tells how many links there were; if it is larger, links may be lost.
        let native = run.store.family() == Layout::C;
        let counted = |rule: &'static Rule, key: &str, right: u64, stated: u64| {
            let mut finding = rule.at(&opened.path).counts(key, right, stated);
            finding.right = finding.right.filter(|right| native || *right >= stated);
            finding
        };
        if let Some(stated) = opened.doc.num_physical_records.filter(|stated| *stated != physical) {
            run.add(counted(C[14], "num_physical_records", physical, stated));
        }
        let logical = self.count_logical(run, opened);
        if let Some(stated) = opened.doc.num_links.filter(|stated| *stated != logical) {
            run.add(counted(C[19], "num_links", logical, stated));
        }
    }

    /// Checks C19: returns the number of links; each of their copies must exist.
    fn count_logical(&self, run: &mut Validation, opened: &OpenFamily) -> u64 {
        let duplicate = opened.family.store() == LinkStorage::Duplicate;
        let mut logical = 0_u64;
        for (chunks, copies) in &self.copies {
            if !duplicate || *chunks == 1 || opened.delta != Delta::SAME {
                logical += copies.values().map(|(n, _)| n).sum::<u64>();
                continue;
            }
            // Without copies the sum is 0.
            let (n, sum) = copies.get(&0).copied().unwrap_or_default();
            logical += n;
            let same = |lead: usize| copies.get(&lead).copied().unwrap_or_default() == (n, sum);
            if !(0..*chunks).all(same) {
                let expected = format!("a copy for each of {chunks} chunks");
                run.add(C[19].at(&opened.path).expects(
                    "copies of a link",
                    expected,
                    "others, or not all",
                ));
            }
        }
        logical
    }

    /// Stores the sums that other checks need in the state of the level.
    pub(super) fn store_in(self, level: &mut LevelState) {
        let is_complete = self.complete && level.chunks.is_whole();
        let orphans = self.sources.filter(|_| is_complete).map(|sources| {
            let ones = |word: &u64| u64::from(word.count_ones());
            // Only bits of existing rows are set.
            level.chunks.total_rows().saturating_sub(sources.iter().map(ones).sum())
        });
        if let Some(parents) = self.parents {
            level.linked.parents = parents;
        }
        if let Some(bridges) = self.bridges {
            level.linked.bridges = bridges;
        }
        if self.delta != Delta::SAME {
            level.linked.cross_level.push(CrossLevelLinks {
                delta: self.delta.0,
                links: self.links,
                sum: self.sum,
                orphans,
                complete: self.complete,
            });
        }
    }
}

/// Allocates a bitmap for the rows of a level; reports for `rule` if there are too many.
fn allocate_bitmap(
    run: &mut Validation,
    level: &LevelState,
    rule: &'static Rule,
    path: &str,
) -> Option<Vec<u64>> {
    let (rows, max_rows) = (level.chunks.total_rows(), run.options.kept_rows());
    if rows > max_rows {
        run.report_too_many(rule, path, "rows", max_rows, rows);
        return None;
    }
    Some(vec![0; saturating_usize(rows.div_ceil(WORD_BITS))]) // at most what is kept
}

/// Sets the bit of `row`; returns false if it was set before.
fn set_bit(bits: &mut [u64], row: u64) -> bool {
    let bit = 1_u64.rotate_left(u32::try_from(row % WORD_BITS).unwrap_or(0)); // the rest is below 64
    let Some(word) = bits.get_mut(saturating_usize(row / WORD_BITS)) else { return true };
    let fresh = *word & bit == 0;
    *word |= bit;
    fresh
}

/// Bits of a word.
const WORD_BITS: u64 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_a_bit_once() {
        let mut all = vec![0; 2];
        assert!(set_bit(&mut all, 65) && !set_bit(&mut all, 65) && set_bit(&mut all, 1));
        assert_eq!(all, [2, 2]);
        assert!(set_bit(&mut all, 128), "past the end there is nothing to say");
    }

    #[test]
    fn counts_any_number_of_parents() {
        let mut total = Total { parents: Some(vec![0]), ..Total::default() };
        (0..300).for_each(|_| total.follow(0));
        assert_eq!(total.parents, Some(vec![300]));
    }
}
