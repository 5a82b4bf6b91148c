//! The rows of a chunk that its fragments name, as runs in logical order.
//!
//! A chunk whose fragments tile it is one run. Otherwise runs follow the fragments, so that rows no
//! fragment names never appear. Where fragments overlap, the rows of points and chains come with each
//! fragment that names them, as the reference has it; graphs, skeletons and meshes have each stored row once,
//! because their elements name rows.
//!
//! Nothing here is sized by what a fragment claims: a range of any length is one run. The reader of the
//! rows compares their end with those that are there.
//!
//! Bins prune only where fragments are known to be bins: as many as a chunk has, in a level that was
//! written from points without objects. Everywhere else the number of a fragment says nothing about
//! where its rows are.

use zvf_error::{Error, Result};
use zvf_format::fragment::{Fragment, FragmentIndex};
use zvf_format::grid::BinRange;
use zvf_format::num::saturating_u32;

use zvf_format::{Class, Expected};

/// Consecutive rows of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowRun {
    pub(crate) start: u32,
    pub(crate) len: u32,
    /// The fragment that names them; 0 where it is not requested.
    pub(crate) fragment: u32,
}

impl RowRun {
    pub(crate) const fn end(&self) -> u32 {
        self.start + self.len
    }
}

/// The rows of one chunk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Runs {
    pub(crate) list: Vec<RowRun>,
    /// The number of rows, with repetitions.
    pub(crate) rows: u64,
    /// Whether a run begins before the end of the one before it.
    is_unordered: bool,
}

impl Runs {
    /// Adds rows behind the others.
    pub(crate) fn push(&mut self, start: u64, len: u64, fragment: u32) {
        if len == 0 {
            return;
        }
        self.rows = self.rows.saturating_add(len); // claims of fragments, to be compared
        // Rows that pass `check_extent` fit. What a map holds may be others by now: no run ends past `u32::MAX`.
        let start = saturating_u32(start);
        let run = RowRun { start, len: saturating_u32(len).min(u32::MAX - start), fragment };
        match self.list.last_mut() {
            Some(last) if last.end() == run.start && last.fragment == fragment => {
                last.len += run.len;
            }
            last => {
                self.is_unordered |= last.is_some_and(|last| run.start < last.end());
                self.list.push(run);
            }
        }
    }

    /// Returns the first run that has a row. Elements look up each of their ends, and chunks may have many fragments: in
    /// order, as most stores have them, the run is found by bisection.
    pub(crate) fn find_run(&self, row: u32) -> Option<&RowRun> {
        if self.is_unordered {
            return self.list.iter().find(|run| (run.start..run.end()).contains(&row));
        }
        let earlier = &self.list[..self.list.partition_point(|run| run.start <= row)];
        earlier.last().filter(|run| row < run.end())
    }

    /// Returns the row behind the last one that is named.
    pub(crate) fn end(&self) -> u64 {
        self.list.iter().map(|run| u64::from(run.end())).max().unwrap_or(0)
    }

    /// Retains the rows of fragments that pass `test`.
    pub(crate) fn retain(&mut self, test: impl Fn(u32) -> bool) {
        self.list.retain(|run| test(run.fragment));
        self.rows = self.list.iter().map(|run| u64::from(run.len)).sum(); // of one chunk
    }

    /// Adds the rows of a fragment.
    pub(crate) fn push_fragment(&mut self, fragment: Fragment<'_>, number: u32) {
        match fragment {
            Fragment::Range { start, count } => self.push(start, count, number),
            Fragment::Rows(_) => fragment.rows().for_each(|row| self.push(row, 1, number)),
        }
    }
}

/// Refuses an extent of rows past those that 32 bits can number: no chunk that can be decoded has so many.
pub(crate) fn check_extent(extent: u64) -> Result<()> {
    if extent < u64::from(u32::MAX) {
        return Ok(());
    }
    let what = ROWS_END;
    Err(Error::new(Class::OutOfBounds, what, Expected::AtMost(i128::from(u32::MAX) - 1), extent))
}

/// The subject of the error about a fragment with rows that its chunk does not have.
pub(crate) const ROWS_END: &str = "end of the rows of a fragment";

/// Returns the rows of all fragments of a chunk, which have this extent, or of those whose bin is in `bins`. With
/// `with_fragments`, runs have the number of their fragment.
///
/// # Errors
///
/// When a fragment names a row that no chunk can have.
pub(crate) fn list_runs(
    index: &FragmentIndex<'_>,
    extent: u64,
    bins: Option<&BinRange>,
    with_fragments: bool,
) -> Result<Runs> {
    check_extent(extent)?;
    let mut runs = Runs::default();
    if let Some(bins) = bins {
        for f in bins.iter() {
            if let Some(fragment) = index.get(f) {
                let number = saturating_u32(f); // an index has fewer
                runs.push_fragment(fragment, if with_fragments { number } else { 0 });
            }
        }
        return Ok(runs);
    }
    for (f, fragment) in (0_u32..).zip(index) {
        runs.push_fragment(fragment, if with_fragments { f } else { 0 });
    }
    Ok(runs)
}

#[cfg(test)]
mod tests {
    use zvf_format::fragment::FragmentIndexBuilder;

    use super::*;

    #[test]
    fn the_first_run_of_a_row_is_found_in_any_order() {
        let mut runs = Runs::default();
        for (start, len, fragment) in [(2, 3, 0), (5, 1, 1), (9, 2, 2)] {
            runs.push(start, len, fragment);
        }
        let fragments = |runs: &Runs| {
            [0, 2, 4, 5, 6, 9, 10, 11].map(|row| runs.find_run(row).map(|run| run.fragment))
        };
        assert!(!runs.is_unordered);
        let found = [None, Some(0), Some(0), Some(1), None, Some(2), Some(2), None];
        assert_eq!(fragments(&runs), found);
        runs.push(0, 10, 3);
        assert!(runs.is_unordered);
        let found = [Some(3), Some(0), Some(0), Some(1), Some(3), Some(2), Some(2), None];
        assert_eq!(fragments(&runs), found);
    }

    #[test]
    fn rows_follow_the_fragments() {
        let mut builder = FragmentIndexBuilder::new();
        builder.push_range(0, 2).unwrap();
        builder.push_range(2, 3).unwrap();
        builder.push_range(5, 0).unwrap();
        builder.push_rows(&[4, 9, 10]).unwrap();
        let blob = builder.encode();
        let index = FragmentIndex::parse(&blob).unwrap();
        let flat = |runs: &Runs| -> Vec<(u32, u32, u32)> {
            runs.list.iter().map(|run| (run.start, run.len, run.fragment)).collect()
        };
        let all = list_runs(&index, 11, None, false).unwrap();
        assert_eq!((flat(&all), all.rows), (vec![(0, 5, 0), (4, 1, 0), (9, 2, 0)], 8));
        let flagged = list_runs(&index, 11, None, true).unwrap();
        assert_eq!(flat(&flagged), [(0, 2, 0), (2, 3, 1), (4, 1, 3), (9, 2, 3)]);
        assert_eq!(flagged.end(), 11);
    }

    #[test]
    fn rows_that_no_chunk_can_have_are_refused() {
        for (start, count, refused) in [
            (0, u64::from(u32::MAX) - 1, false),
            (0, u64::from(u32::MAX), true),
            (1 << 40, 1, true),
            (0, 1 << 62, true),
        ] {
            let mut builder = FragmentIndexBuilder::new();
            builder.push_range(start, count).unwrap();
            let blob = builder.encode();
            let index = FragmentIndex::parse(&blob).unwrap();
            let found = list_runs(&index, index.extent(), None, false);
            assert_eq!(found.is_err(), refused, "{start} {count}");
        }
    }
}
