//! The rows of a chunk that are in fragments, as runs in logical order.
//!
//! A chunk that is tiled by its fragments is one run. Otherwise runs follow the fragments, so rows
//! outside of all fragments never appear. If fragments overlap, shared rows of points and chains
//! are repeated for each fragment, as in zarr-vectors; graphs, skeletons and meshes have each
//! stored row once, because their elements refer to rows.
//!
//! Nothing here is allocated by the claims of fragments: a range of any length is one run. The
//! reader of the rows compares their end with the existing rows.
//!
//! Bins prune only where fragments are known to be bins: as many as a chunk has, in a level that
//! was written from points without objects. Otherwise, the number of a fragment says nothing about
//! the location of its rows.

use zvf_error::{Error, Result};
use zvf_format::fragment::FragmentIndex;
use zvf_format::grid::BinRange;
use zvf_format::num::saturating_u32;

use zvf_format::{Class, Expected};

use super::pieces::Pieces;

/// Refuses an extent that overflows 32 bits: no decodable chunk has so many rows.
pub(crate) fn check_extent(extent: u64) -> Result<()> {
    if extent < u64::from(u32::MAX) {
        return Ok(());
    }
    let what = ROWS_END;
    Err(Error::new(Class::OutOfBounds, what, Expected::AtMost(i128::from(u32::MAX) - 1), extent))
}

/// The subject of the error for a fragment with missing rows.
pub(crate) const ROWS_END: &str = "end of the rows of a fragment";

/// Returns the rows of all fragments of a chunk with this extent, or of those whose bin is in
/// `bins`. With `with_fragments`, runs have the number of their fragment.
///
/// # Errors
///
/// When a fragment refers to a row that no chunk can have.
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
