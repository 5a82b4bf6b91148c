//! The rows of a chunk that its fragments name, as runs in logical order.
//!
//! A chunk whose fragments tile it is one run. Otherwise runs follow the fragments, so that rows no
//! fragment names never appear, and rows that several name appear for each.
//!
//! Bins prune only where fragments are known to be bins: as many as a chunk has, in a level that was
//! written from points without objects. Everywhere else the number of a fragment says nothing about
//! where its rows are.

use zvf_format::fragment::{Fragment, FragmentIndex};
use zvf_format::grid::BinRange;

use crate::num::narrow;

/// Consecutive rows of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) start: u32,
    pub(crate) len: u32,
    /// The fragment that names them; 0 where nobody asks.
    pub(crate) fragment: u32,
}

impl Run {
    pub(crate) const fn end(&self) -> u32 {
        self.start.saturating_add(self.len)
    }
}

/// The rows of one chunk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Runs {
    pub(crate) list: Vec<Run>,
    /// How many rows there are, repeated ones each time.
    pub(crate) rows: u64,
}

impl Runs {
    /// Adds rows behind the others.
    pub(crate) fn push(&mut self, start: u64, len: u64, fragment: u32) {
        if len == 0 {
            return;
        }
        self.rows = self.rows.saturating_add(len);
        let run = Run { start: narrow(start), len: narrow(len), fragment };
        match self.list.last_mut() {
            Some(last) if last.end() == run.start && last.fragment == fragment => {
                last.len = last.len.saturating_add(run.len);
            }
            _ => self.list.push(run),
        }
    }

    /// Leaves out the rows of fragments that are not wanted.
    pub(crate) fn retain(&mut self, wanted: impl Fn(u32) -> bool) {
        self.list.retain(|run| wanted(run.fragment));
        self.rows = self.list.iter().fold(0, |rows, run| rows.saturating_add(run.len.into()));
    }

    /// Adds the rows of a fragment.
    pub(crate) fn push_fragment(&mut self, fragment: Fragment<'_>, number: u32) {
        match fragment {
            Fragment::Range { start, count } => self.push(start, count, number),
            Fragment::Rows(_) => fragment.rows().for_each(|row| self.push(row, 1, number)),
        }
    }
}

/// The rows of all fragments of a chunk, or of those whose bin is in `bins`. With `tell`, runs say which
/// fragment they are of.
pub(crate) fn runs(index: &FragmentIndex<'_>, bins: Option<&BinRange>, tell: bool) -> Runs {
    let mut runs = Runs::default();
    if let Some(bins) = bins {
        for f in bins.iter() {
            if let Some(fragment) = index.get(f) {
                runs.push_fragment(fragment, if tell { narrow(f) } else { 0 });
            }
        }
        return runs;
    }
    for (f, fragment) in (0_u32..).zip(index) {
        runs.push_fragment(fragment, if tell { f } else { 0 });
    }
    runs
}

#[cfg(test)]
mod tests {
    use zvf_format::fragment::FragmentIndexBuilder;

    use super::*;

    #[test]
    fn rows_follow_the_fragments() {
        let mut builder = FragmentIndexBuilder::new();
        builder.range(0, 2).unwrap();
        builder.range(2, 3).unwrap();
        builder.range(5, 0).unwrap();
        builder.rows(&[4, 9, 10]).unwrap();
        let blob = builder.encode();
        let index = FragmentIndex::parse(&blob).unwrap();
        let flat = |runs: &Runs| -> Vec<(u32, u32, u32)> {
            runs.list.iter().map(|run| (run.start, run.len, run.fragment)).collect()
        };
        let all = runs(&index, None, false);
        assert_eq!((flat(&all), all.rows), (vec![(0, 5, 0), (4, 1, 0), (9, 2, 0)], 8));
        let told = runs(&index, None, true);
        assert_eq!(flat(&told), [(0, 2, 0), (2, 3, 1), (4, 1, 3), (9, 2, 3)]);
    }
}
