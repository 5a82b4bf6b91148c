//! The chunks of a level with their rows and fragments, which links and manifests are compared
//! with.
//!
//! ```text
//! for each chunk       key, rows, fragments, number of its first fragment and row in the level
//! for each fragment    first row, last row, rows            only where geometry asks for it
//!                      owner, segment                       only where the column is there
//! ```
//!
//! A chunk that could not be read, or is not in the sample, has unknown rows and fragments: nothing
//! is concluded from them. Tables by fragment are limited to a number of fragments; the report
//! states which rules were not checked because of the limit.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use zvf_format::key::ChunkKey;
use zvf_format::num::{checked_usize, mix_bits, to_u64};
use zvf_store::{KeyFinder, KeyTable};

use crate::hash::hash_all;

/// The chunks of one level.
#[derive(Default)]
pub(crate) struct ChunkTable {
    keys: Arc<KeyTable>,
    finder: Option<KeyFinder<Arc<KeyTable>>>, // none of no chunks
    rows: Vec<Option<u64>>,
    fragments: Vec<Option<u64>>,
    first_fragment: Vec<u64>,
    first_row: Vec<u64>,
    hashes: Vec<u64>, // the hash of each key
    total_fragments: u64,
    total_rows: u64,
    /// Whether tables by fragment fit in the memory limit.
    pub(crate) is_kept: bool,
    /// The rows of each fragment, if kept.
    pub(crate) ends: Option<Vec<Ends>>,
    /// The owner of each fragment according to its column, if kept.
    pub(crate) owners: Option<Vec<i64>>,
    /// The segment of each fragment according to its column, where kept.
    pub(crate) segments: Option<Vec<u64>>,
}

/// The first and last row of a fragment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(into = "(u32, u32, u32, bool)", from = "(u32, u32, u32, bool)")]
pub(crate) struct Ends {
    pub(crate) first: u32,
    pub(crate) last: u32,
    pub(crate) count: u32,
    /// Whether its rows are a range in order.
    pub(crate) is_range: bool,
}

impl From<Ends> for (u32, u32, u32, bool) {
    fn from(Ends { first, last, count, is_range }: Ends) -> Self {
        (first, last, count, is_range)
    }
}

impl From<(u32, u32, u32, bool)> for Ends {
    fn from((first, last, count, is_range): (u32, u32, u32, bool)) -> Self {
        Self { first, last, count, is_range }
    }
}

impl ChunkTable {
    /// Returns the chunks `keys`, with unknown rows and fragments.
    pub(crate) fn new(keys: &Arc<KeyTable>) -> Self {
        let n = keys.len();
        Self {
            finder: Some(KeyFinder::new(Arc::clone(keys), usize::MAX)), // links and manifests are many
            keys: Arc::clone(keys),
            rows: Vec::with_capacity(n),
            fragments: Vec::with_capacity(n),
            first_fragment: Vec::with_capacity(n),
            first_row: Vec::with_capacity(n),
            hashes: keys.rows().map(hash).collect(),
            ..Self::default()
        }
    }

    /// Appends the counts of the next chunk. With opaque positions the rows are only claimed; if
    /// their total overflows, they are unknown.
    pub(crate) fn push(&mut self, rows: Option<u64>, fragments: Option<u64>) {
        self.first_fragment.push(self.total_fragments);
        self.first_row.push(self.total_rows);
        let rows = rows.filter(|rows| self.total_rows.checked_add(*rows).is_some());
        // Unknown ones are not counted: see `is_whole`.
        self.total_fragments += fragments.unwrap_or(0);
        self.total_rows += rows.unwrap_or(0);
        self.rows.push(rows);
        self.fragments.push(fragments);
    }

    /// Returns the number of chunks.
    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Returns the key of chunk `place`.
    pub(crate) fn key(&self, place: usize) -> Option<ChunkKey> {
        self.keys.get(place)
    }

    /// Returns the place of the chunk with these components.
    pub(crate) fn find(&self, components: &[i64]) -> Option<usize> {
        self.finder.as_ref()?.find(components)
    }

    /// Returns the rows of chunk `place`, if known.
    pub(crate) fn rows(&self, place: usize) -> Option<u64> {
        self.rows.get(place).copied().flatten()
    }

    /// Returns the fragments of chunk `place`, if known.
    pub(crate) fn fragments(&self, place: usize) -> Option<u64> {
        self.fragments.get(place).copied().flatten()
    }

    /// Returns the level-wide number of fragment `fragment` of chunk `place`.
    pub(crate) fn fragment(&self, place: usize, fragment: u64) -> Option<usize> {
        checked_usize(self.first_fragment.get(place)?.checked_add(fragment)?)
    }

    /// Returns the level-wide number of row `row` of chunk `place`.
    pub(crate) fn row(&self, place: usize, row: u64) -> Option<u64> {
        self.first_row.get(place)?.checked_add(row)
    }

    /// Returns the hash of row `row` of chunk `place`, as [`row_id`] of its key.
    pub(crate) fn end(&self, place: usize, row: u64) -> u64 {
        // Every place belongs to a key.
        row_id(self.hashes.get(place).copied().unwrap_or(0), row)
    }

    /// Returns the chunk and fragment with this level-wide number.
    pub(crate) fn locate(&self, fragment: usize) -> Option<(ChunkKey, u64)> {
        let number = to_u64(fragment);
        let place = self.first_fragment.partition_point(|first| *first <= number).checked_sub(1)?;
        Some((self.key(place)?, number.checked_sub(*self.first_fragment.get(place)?)?))
    }

    /// Returns the ends of all fragments of chunk `place`, if kept.
    pub(crate) fn fragment_ends(&self, place: usize) -> Option<&[Ends]> {
        let start = checked_usize(*self.first_fragment.get(place)?)?;
        let count = checked_usize(self.fragments(place)?)?;
        self.ends.as_ref()?.get(start..)?.get(..count)
    }

    /// Returns the fragment of chunk `place` that holds `row`, if fragments are ascending ranges.
    pub(crate) fn find_range(&self, place: usize, row: u64) -> Option<usize> {
        let ends = self.fragment_ends(place)?;
        let after = ends.partition_point(|ends| u64::from(ends.first) <= row);
        let rest = ends.get(..after)?;
        // Empty fragments begin where the next one does.
        let (at, found) = rest.iter().enumerate().rev().find(|(_, ends)| ends.count > 0)?;
        (found.is_range && row <= u64::from(found.last)).then_some(at)
    }

    /// Returns all rows that are known.
    pub(crate) fn total_rows(&self) -> u64 {
        self.total_rows
    }

    /// Returns all fragments that are known.
    pub(crate) fn total_fragments(&self) -> u64 {
        self.total_fragments
    }

    /// Returns whether rows and fragments of every chunk are known.
    pub(crate) fn is_whole(&self) -> bool {
        self.rows.len() == self.len()
            && self.rows.iter().chain(&self.fragments).all(Option::is_some)
    }
}

/// Returns the hash of a chunk.
pub(crate) fn hash(components: &[i64]) -> u64 {
    hash_all(components.iter().map(|component| component.cast_unsigned()))
}

/// Returns the hash of a row of the chunk with the hash `chunk`.
pub(crate) fn row_id(chunk: u64, row: u64) -> u64 {
    mix_bits(chunk ^ row)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(keys: &[&[i64]]) -> ChunkTable {
        let keys = keys.iter().map(|key| ChunkKey::new(key).unwrap());
        ChunkTable::new(&Arc::new(KeyTable::new(2, keys).unwrap()))
    }

    #[test]
    fn distant_chunks_are_found() {
        for distant in [3, 1 << 40] {
            let mut chunks = table(&[&[-2, 0], &[0, 1], &[distant, -7]]);
            for (rows, fragments) in [(Some(4), Some(2)), (None, None), (Some(5), Some(1))] {
                chunks.push(rows, fragments);
            }
            assert_eq!(chunks.find(&[0, 1]), Some(1), "{distant}");
            assert_eq!(chunks.find(&[distant, -7]), Some(2));
            for none in [&[0, 0][..], &[-3, 0], &[distant + 1, 0], &[0], &[i64::MIN, i64::MAX]] {
                assert_eq!(chunks.find(none), None, "{none:?}");
            }
            assert_eq!(
                (chunks.rows(0), chunks.rows(1), chunks.fragments(9)),
                (Some(4), None, None)
            );
            assert_eq!((chunks.row(2, 3), chunks.fragment(2, 0)), (Some(7), Some(2)));
            assert_eq!((chunks.total_rows(), chunks.total_fragments()), (9, 3));
            assert!(!chunks.is_whole());
            let (key, fragment) = chunks.locate(2).unwrap();
            assert_eq!((key.components(), fragment), (&[distant, -7][..], 0));
            assert_eq!(chunks.locate(1).unwrap().0.components(), [-2, 0]);
        }
    }

    #[test]
    fn rows_that_do_not_fit_are_not_known() {
        let mut chunks = table(&[&[0, 0], &[0, 1], &[0, 2]]);
        for rows in [5, u64::MAX, 7] {
            chunks.push(Some(rows), Some(1));
        }
        assert_eq!([0, 1, 2].map(|place| chunks.rows(place)), [Some(5), None, Some(7)]);
        assert_eq!((chunks.total_rows(), chunks.is_whole()), (12, false));
    }
}
