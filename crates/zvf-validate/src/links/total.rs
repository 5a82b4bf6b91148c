//! What all cells of a link family add up to: counts, copies, parents, and who leads where.
//!
//! Links are not kept: each adds to sums that do not depend on their order, and rows that are a child or a
//! source are bits.

use std::collections::BTreeMap;

use zvf_format::key::Delta;
use zvf_format::link::LinkStorage;
use zvf_format::num::saturating_usize;
use zvf_metadata::LayoutFamily as Layout;

use super::look::{LinkLooked, find_first_row};
use super::open::Opened;
use super::segment::Uses;
use crate::chunks::ChunkTable;
use crate::finding::Finding;
use crate::level::{Between, LevelState};
use crate::rules::consistency::{C14, C19};
use crate::rules::geometry::G6;
use crate::rules::pyramid::P6;
use crate::validation::Validation;

/// What is gathered over the cells of a family.
pub(super) struct Total {
    delta: Delta,
    /// Rows that are counted; none where a cell could not be read.
    physical: Option<u64>,
    /// Whether every row was seen, counted or not.
    complete: bool,
    /// Rows by the number of chunks that their ends lie in, and by which of them the copy is of.
    copies: BTreeMap<usize, BTreeMap<usize, (u64, u64)>>,
    parents: Option<Vec<u8>>,
    /// Which rows of the level are a child, and how many of them twice.
    children: Option<Vec<u64>>,
    twice: u64,
    bridges: Option<Vec<u64>>,
    sum: u64,
    links: u64,
    /// Which rows of the level are a source.
    sources: Option<Vec<u64>>,
}

/// What is left of it for the level.
pub(super) struct Sums {
    parents: Option<Vec<u8>>,
    bridges: Option<Vec<u64>>,
    between: Option<Between>,
}

impl Total {
    pub(super) fn new(run: &mut Validation, level: &LevelState, opened: &Opened) -> Self {
        let complete = opened.complete && run.options.takes_all();
        let upward = opened.delta.0 > 0 && run.options.wants(&P6);
        Self {
            delta: opened.delta,
            physical: complete.then_some(0),
            complete,
            copies: BTreeMap::new(),
            parents: None,
            children: None,
            twice: 0,
            bridges: None,
            sum: 0,
            links: 0,
            sources: if upward { bits(run, level, &P6, &opened.path) } else { None },
        }
    }

    /// Makes room for what links are used for.
    pub(super) fn begin(
        &mut self,
        run: &mut Validation,
        level: &LevelState,
        path: &str,
        uses: Uses,
    ) {
        if uses.child.is_some() && self.parents.is_none() && level.chunks.ends.is_some() {
            self.parents = Some(vec![0; saturating_usize(level.chunks.total_fragments())]);
            self.children = bits(run, level, &G6, path);
        }
        if uses.bridges && self.bridges.is_none() {
            self.bridges = Some(vec![0; level.chunks.len()]);
        }
    }

    /// Adds a cell; its rows to the counts where they are `counted`.
    pub(super) fn take(&mut self, run: &mut Validation, looked: LinkLooked, counted: bool) {
        let rows = looked.rows.unwrap_or(0); // without rows it is not complete
        self.links += rows;
        self.complete &= looked.rows.is_some();
        if counted {
            self.physical = self.physical.zip(looked.rows).map(|(sum, rows)| sum + rows);
            let (chunks, lead) = looked.copies;
            let (n, sum) = self.copies.entry(chunks).or_default().entry(lead).or_default();
            *n += rows;
            *sum = sum.wrapping_add(looked.sum);
        }
        self.sum = self.sum.wrapping_add(looked.between);
        for fragment in looked.followed {
            self.follow(fragment);
        }
        if let (Some(bridges), Some((chunk, sum))) = (&mut self.bridges, looked.bridges)
            && let Some(total) = bridges.get_mut(chunk)
        {
            *total = total.wrapping_add(sum);
        }
        for row in looked.children {
            self.set_child(row);
        }
        for row in looked.sources {
            self.set_source(row);
        }
        let checked = &mut run.checked;
        checked.cells += looked.cells;
        checked.bytes += looked.bytes;
        checked.links += rows;
        run.found.absorb(looked.found);
    }

    /// Adds records that lie in no cell.
    pub(super) fn count(&mut self, run: &mut Validation, records: u64) {
        self.links += records;
        self.physical = self.physical.map(|sum| sum + records);
        let (n, _) = self.copies.entry(1).or_default().entry(0).or_default();
        *n += records;
        run.checked.links += records;
    }

    /// How many rows are counted; none where a cell could not be read.
    pub(super) fn counted(&self) -> Option<u64> {
        self.physical
    }

    /// Says that some records could not be read.
    pub(super) fn mark_lost(&mut self) {
        (self.physical, self.complete) = (None, false);
    }

    /// Adds the child of a link.
    pub(super) fn child(&mut self, table: &ChunkTable, chunk: usize, row: u64) {
        if let Some(fragment) = find_first_row(table, chunk, row) {
            self.follow(fragment);
        }
        if let Some(row) = table.row(chunk, row) {
            self.set_child(row);
        }
    }

    /// Adds a link between levels: `sum` is the hash of both ends, and row `row` of chunk `chunk` is its source.
    pub(super) fn link_between(&mut self, sum: u64, source: Option<u64>) {
        self.sum = self.sum.wrapping_add(sum);
        if let Some(row) = source {
            self.set_source(row);
        }
    }

    fn follow(&mut self, fragment: usize) {
        if let Some(parents) = self.parents.as_mut().and_then(|all| all.get_mut(fragment)) {
            *parents += 1;
        }
    }

    fn set_child(&mut self, row: u64) {
        if let Some(children) = &mut self.children
            && !set(children, row)
        {
            self.twice += 1;
        }
    }

    fn set_source(&mut self, row: u64) {
        if let Some(sources) = &mut self.sources {
            set(sources, row);
        }
    }

    /// C14, C19, G6: counts, copies of one link, and rows with two parents.
    pub(super) fn check_totals(&self, run: &mut Validation, opened: &Opened) {
        if self.twice > 0 {
            let finding = Finding::new(&G6, &opened.path);
            let found = format!("{} rows that are a child twice", self.twice);
            run.add(finding.with_details("links", "one parent for each row", found));
        }
        let Some(physical) = self.physical else { return };
        // Before 0.9 nothing else remembers how many there were: too few may be what is left.
        let native = run.store.family() == Layout::C;
        let counted = |rule, key: &str, right: u64, stated: u64| {
            let mut finding = Finding::new(rule, &opened.path).counted(key, right, stated);
            finding.right = finding.right.filter(|right| native || *right >= stated);
            finding
        };
        if let Some(stated) = opened.doc.num_physical_records.filter(|stated| *stated != physical) {
            run.add(counted(&C14, "num_physical_records", physical, stated));
        }
        let logical = self.logical(run, opened);
        if let Some(stated) = opened.doc.num_links.filter(|stated| *stated != logical) {
            run.add(counted(&C19, "num_links", logical, stated));
        }
    }

    /// C19: how many links there are, each copy of which must be there.
    fn logical(&self, run: &mut Validation, opened: &Opened) -> u64 {
        let duplicate = opened.family.store() == LinkStorage::Duplicate;
        let mut logical = 0_u64;
        for (chunks, copies) in &self.copies {
            if !duplicate || *chunks == 1 || opened.delta != Delta::SAME {
                logical += copies.values().map(|(n, _)| n).sum::<u64>();
                continue;
            }
            let (n, sum) = copies.get(&0).copied().unwrap_or_default();
            logical += n;
            let same = |lead: usize| copies.get(&lead).copied().unwrap_or_default() == (n, sum);
            if !(0..*chunks).all(same) {
                let finding = Finding::new(&C19, &opened.path);
                let expected = format!("a copy for each of {chunks} chunks");
                run.add(finding.with_details("copies of a link", expected, "others, or not all"));
            }
        }
        logical
    }

    /// What other parts of the validation need of it.
    pub(super) fn sums(self, level: &LevelState) -> Sums {
        let known = self.complete && level.chunks.is_whole();
        let orphans = self.sources.filter(|_| known).map(|sources| {
            let ones = |word: &u64| u64::from(word.count_ones());
            // Bits are set of rows only.
            level.chunks.total_rows().saturating_sub(sources.iter().map(ones).sum())
        });
        let between = Between {
            delta: self.delta.0,
            links: self.links,
            sum: self.sum,
            orphans,
            complete: self.complete,
        };
        Sums {
            parents: self.parents,
            bridges: self.bridges,
            between: (self.delta != Delta::SAME).then_some(between),
        }
    }
}

impl Sums {
    pub(super) fn hand_over(self, level: &mut LevelState) {
        if let Some(parents) = self.parents {
            level.linked.parents = parents;
        }
        if let Some(bridges) = self.bridges {
            level.linked.bridges = bridges;
        }
        level.linked.between.extend(self.between);
    }
}

/// A bit for each row of a level, unless these are too many, which is reported for `rule`.
fn bits(
    run: &mut Validation,
    level: &LevelState,
    rule: &'static crate::Rule,
    path: &str,
) -> Option<Vec<u64>> {
    let (rows, most) = (level.chunks.total_rows(), run.options.kept_rows());
    if rows > most {
        run.too_many(rule, path, "rows", most, rows);
        return None;
    }
    Some(vec![0; saturating_usize(rows.div_ceil(WORD_BITS))])
}

/// Sets the bit of `row`; false when it was set.
fn set(bits: &mut [u64], row: u64) -> bool {
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
    fn a_bit_is_fresh_once() {
        let mut all = vec![0; 2];
        assert!(set(&mut all, 65) && !set(&mut all, 65) && set(&mut all, 1));
        assert_eq!(all, [2, 2]);
        assert!(set(&mut all, 128), "past the end there is nothing to say");
    }
}
