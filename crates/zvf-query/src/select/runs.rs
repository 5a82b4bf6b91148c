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
use zvf_format::fragment::FragmentIndex;
use zvf_format::grid::BinRange;
use zvf_format::num::saturating_u32;

use zvf_format::{Class, Expected};

use super::pieces::Pieces;

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
) -> Result<Pieces> {
    check_extent(extent)?;
    let mut runs = Pieces::default();
    let mut push = |number: u64, fragment| {
        let number = if with_fragments { saturating_u32(number) } else { 0 }; // an index has fewer
        runs.push_fragment(fragment, 0, number);
    };
    match bins {
        Some(bins) => bins
            .iter()
            .for_each(|f| index.get(f).into_iter().for_each(|fragment| push(f, fragment))),
        None => (0..).zip(index).for_each(|(f, fragment)| push(f, fragment)),
    }
    Ok(runs)
}

#[cfg(test)]
mod tests {
    use zvf_format::fragment::FragmentIndexBuilder;

    use super::*;

    #[test]
    fn rows_follow_the_fragments() {
        let mut builder = FragmentIndexBuilder::new();
        builder.push_range(0, 2).unwrap();
        builder.push_range(2, 3).unwrap();
        builder.push_range(5, 0).unwrap();
        builder.push_rows(&[4, 9, 10]).unwrap();
        let blob = builder.encode();
        let index = FragmentIndex::parse(&blob).unwrap();
        let flat = |runs: &Pieces| -> Vec<(u32, u32, u32)> {
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
