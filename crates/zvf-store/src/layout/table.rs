//! The non-empty chunks of an array: keys in numeric order.
//!
//! It is one flat list of coordinates, so ten million keys take no more memory than their numbers,
//! and a key is found by binary search. Links are enumerated in the order of the printed keys;
//! [`KeyTable::string_order`] computes that order on request.
//!
//! Not here: the source of the keys (the presence list of an array, or a listing).

use std::borrow::Borrow;

use zvf_format::FormatError;
use zvf_format::key::ChunkKey;
use zvf_format::num::{checked_product, checked_usize, usize_from_u32};

/// The non-empty chunks of one array, in numeric order, without duplicates.
///
/// ```
/// use zvf_format::key::ChunkKey;
/// use zvf_store::KeyTable;
///
/// let keys = ["10.0", "2.0", "-1.0"].map(|key| key.parse::<ChunkKey>().unwrap());
/// let table = KeyTable::new(2, keys)?;
/// assert_eq!(table.iter().map(|key| key.to_string()).collect::<Vec<_>>(), ["-1.0", "2.0", "10.0"]);
/// assert_eq!(table.find(&keys[0]), Some(2));
/// assert_eq!(table.string_order(), [0, 2, 1]);
/// # Ok::<(), zvf_format::FormatError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyTable {
    rank: usize,      // 1 to the most a key can have
    coords: Vec<i64>, // `rank` for each key; the keys strictly ascend
}

impl KeyTable {
    /// Returns the table of `keys`, which all have `rank` components, in any order and with any
    /// repetition.
    ///
    /// # Errors
    ///
    /// When `rank` is invalid, or a key has another rank.
    pub fn new(rank: usize, keys: impl IntoIterator<Item = ChunkKey>) -> Result<Self, FormatError> {
        let keys = keys.into_iter();
        // Creating any key of that rank checks the rank.
        ChunkKey::new(&vec![0; rank.min(MORE_THAN_ANY_RANK)])?;
        let mut coords = Vec::with_capacity(rank.saturating_mul(keys.size_hint().0));
        for key in keys {
            let components = key.components();
            if components.len() != rank {
                return Err(rank_error(rank, components.len()));
            }
            coords.extend_from_slice(components);
        }
        Ok(Self::from_coords(rank, coords))
    }

    /// Returns the table of keys with these components, `rank` per key; the rank is valid.
    pub(crate) fn from_coords(rank: usize, coords: Vec<i64>) -> Self {
        Self { rank, coords: sort_keys(rank, coords) }
    }

    /// Returns the number of components of each key.
    pub const fn rank(&self) -> usize {
        self.rank
    }

    /// Returns the number of keys.
    pub fn len(&self) -> usize {
        self.rows().len()
    }

    /// Returns whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.coords.is_empty()
    }

    /// Returns key `i`, or `None` past the end.
    pub fn get(&self, i: usize) -> Option<ChunkKey> {
        self.row(i).map(key_of_row)
    }

    /// Returns the components of key `i`, or `None` past the end.
    pub fn row(&self, i: usize) -> Option<&[i64]> {
        let start = i.checked_mul(self.rank)?;
        self.coords.get(start..)?.get(..self.rank)
    }

    /// Returns the position of `key`, if it exists.
    pub fn find(&self, key: &ChunkKey) -> Option<usize> {
        self.search(key.components())
    }

    /// Returns the position of the key with these components, if it exists.
    fn search(&self, components: &[i64]) -> Option<usize> {
        let at = self.lower_bound(components);
        (self.row(at)? == components).then_some(at)
    }

    /// Returns a lookup that is efficient for this number of keys.
    pub fn finder(&self, look_ups: usize) -> KeyFinder<&Self> {
        KeyFinder::new(self, look_ups)
    }

    /// Returns the position of the first key that is not below `components`, which may be fewer
    /// than a key has: keys with a common prefix lie between two such positions.
    pub fn lower_bound(&self, components: &[i64]) -> usize {
        // Rows whose length is known at compile time are compared without a loop.
        let found = match self.rank {
            2 => self.bisect::<2>(components),
            3 => self.bisect::<3>(components),
            4 => self.bisect::<4>(components),
            _ => None,
        };
        if let Some(found) = found {
            return found;
        }
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            if self.row(middle).is_some_and(|row| row < components) {
                low = middle.saturating_add(1); // at most `high`
            } else {
                high = middle;
            }
        }
        low
    }

    /// Returns the position of the first key that is not below a full key of `N` components.
    fn bisect<const N: usize>(&self, components: &[i64]) -> Option<usize> {
        let key: &[i64; N] = components.try_into().ok()?;
        Some(self.coords.as_chunks::<N>().0.partition_point(|row| row < key))
    }

    /// Returns the keys in numeric order.
    pub fn iter(&self) -> impl Iterator<Item = ChunkKey> + '_ {
        self.rows().map(key_of_row)
    }

    /// Returns the components of each key, in numeric order.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = &[i64]> + '_ {
        self.coords.chunks_exact(self.rank.max(1))
    }

    /// Returns the positions of the keys in the order of their printed form, in which links are
    /// enumerated.
    pub fn string_order(&self) -> Vec<usize> {
        let keys: Vec<ChunkKey> = self.iter().collect();
        let mut order: Vec<usize> = (0..keys.len()).collect();
        order.sort_unstable_by(|&a, &b| keys[a].cmp_string(&keys[b]));
        order
    }
}

/// Looks up many keys of a table, without a search if the keys fill enough of their bounding box.
///
/// ```
/// use zvf_format::key::ChunkKey;
/// use zvf_store::KeyTable;
///
/// let keys = ["0.0", "0.1", "1.1"].map(|key| key.parse::<ChunkKey>().unwrap());
/// let table = KeyTable::new(2, keys)?;
/// let finder = table.finder(1000);
/// assert_eq!((finder.find(&[1, 1]), finder.find(&[1, 0])), (Some(2), None));
/// # Ok::<(), zvf_format::FormatError>(())
/// ```
#[derive(Clone, Debug)]
pub struct KeyFinder<T> {
    table: T,
    grid: Option<Grid>,
}

/// The bounding box of the keys of a table.
#[derive(Clone, Debug)]
struct Grid {
    low: Vec<i64>,
    extent: Vec<u64>,
    places: Vec<u32>, // for each place of the box, in C order, that in the table; or [`NO_KEY`]
}

impl<T: Borrow<KeyTable>> KeyFinder<T> {
    /// Returns a lookup that is efficient for this number of keys of `table`.
    pub fn new(table: T, look_ups: usize) -> Self {
        let keys: &KeyTable = table.borrow();
        let grid = (look_ups > keys.len()).then(|| Grid::new(keys)).flatten();
        Self { table, grid }
    }

    /// Returns the position of the key with these components, if it exists.
    pub fn find(&self, components: &[i64]) -> Option<usize> {
        let table: &KeyTable = self.table.borrow();
        let Some(grid) = &self.grid else { return table.search(components) };
        if components.len() != grid.low.len() {
            return None;
        }
        let place = grid.places.get(grid.offset(components)?)?;
        (*place != NO_KEY).then_some(usize_from_u32(*place))
    }
}

impl Grid {
    /// Returns the grid of `table`; `None` if its keys are too far apart.
    fn new(table: &KeyTable) -> Option<Self> {
        let mut rows = table.rows();
        let mut low = rows.next()?.to_vec();
        let mut high = low.clone();
        for row in rows {
            for ((low, high), component) in low.iter_mut().zip(&mut high).zip(row) {
                *low = (*low).min(*component);
                *high = (*high).max(*component);
            }
        }
        let extent: Vec<u64> = low
            .iter()
            .zip(&high)
            .map(|(low, high)| high.abs_diff(*low).checked_add(1))
            .collect::<Option<_>>()?;
        let volume = checked_usize(checked_product(&extent)?)?;
        if volume > MAX_GRID_CELLS.min(table.len().checked_mul(MAX_CELLS_PER_KEY)?) {
            return None;
        }
        let mut grid = Self { low, extent, places: vec![NO_KEY; volume] };
        for (place, row) in (0_u32..).zip(table.rows()) {
            let at = grid.offset(row)?;
            *grid.places.get_mut(at)? = place;
        }
        Some(grid)
    }

    /// Returns the offset of these components in the box.
    fn offset(&self, components: &[i64]) -> Option<usize> {
        let mut offset = 0_u64;
        for ((component, low), extent) in components.iter().zip(&self.low).zip(&self.extent) {
            if component < low {
                return None;
            }
            let at = component.abs_diff(*low);
            if at >= *extent {
                return None;
            }
            offset = offset.checked_mul(*extent)?.checked_add(at)?;
        }
        usize::try_from(offset).ok()
    }
}

/// A box cell without a key.
const NO_KEY: u32 = u32::MAX;
/// A box is used if it has at most this many cells per key, and takes at most 4 MiB.
const MAX_CELLS_PER_KEY: usize = 4;
const MAX_GRID_CELLS: usize = 1 << 20;

/// A table without keys, with one component.
impl Default for KeyTable {
    fn default() -> Self {
        Self { rank: 1, coords: Vec::new() }
    }
}

/// Returns the coordinates with their keys sorted and deduplicated.
fn sort_keys(rank: usize, mut coords: Vec<i64>) -> Vec<i64> {
    let ascend = |coords: &[i64]| coords.chunks_exact(rank).is_sorted_by(|a, b| a < b);
    if ascend(&coords) {
        return coords;
    }
    match rank {
        2 => coords.as_chunks_mut::<2>().0.sort_unstable(),
        3 => coords.as_chunks_mut::<3>().0.sort_unstable(),
        4 => coords.as_chunks_mut::<4>().0.sort_unstable(),
        _ => {
            let mut rows: Vec<&[i64]> = coords.chunks_exact(rank).collect();
            rows.sort_unstable();
            coords = rows.concat();
        }
    }
    if ascend(&coords) {
        return coords;
    }
    let mut rows: Vec<&[i64]> = coords.chunks_exact(rank).collect();
    rows.dedup();
    rows.concat()
}

fn key_of_row(row: &[i64]) -> ChunkKey {
    ChunkKey::new(row).expect("every row has the rank of a key")
}

fn rank_error(expected: usize, found: usize) -> FormatError {
    use zvf_format::{Class, Expected, Hint, Part};
    let expected = Expected::Exactly(zvf_format::num::to_u64(expected).into());
    FormatError::new(Class::BadShape, Part::ChunkKey, "components", 0, expected, found)
        .with_hint(Hint::WrongRank)
}

/// Enough components for the rank check to refuse.
const MORE_THAN_ANY_RANK: usize = zvf_format::key::MAX_RANK + 1;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(text: &str) -> ChunkKey {
        text.parse::<ChunkKey>().unwrap()
    }

    #[test]
    fn an_impossible_rank_is_refused_before_allocation() {
        for rank in [0, 2, usize::MAX] {
            assert!(KeyTable::new(rank, [key("1")]).is_err(), "{rank}");
        }
    }

    #[test]
    fn keys_are_numbers_first_and_text_on_request() {
        type Row<'a> = (usize, &'a [&'a str], &'a [&'a str], &'a [usize]);
        #[rustfmt::skip]
        let table: [Row<'_>; 5] = [
            (1, &[], &[], &[]),
            (1, &["10", "9", "-1", "9"], &["-1", "9", "10"], &[0, 2, 1]),
            (2, &["0.-1", "0.-10", "-2.5"], &["-2.5", "0.-10", "0.-1"], &[0, 2, 1]),
            (4, &["1.0.0.0", "0.9.0.0", "0.10.0.0"], &["0.9.0.0", "0.10.0.0", "1.0.0.0"], &[1, 0, 2]),
            (5, &["1.0.0.0.0", "0.9.0.0.0", "1.0.0.0.0"], &["0.9.0.0.0", "1.0.0.0.0"], &[0, 1]),
        ];
        for (rank, keys, numeric, string) in table {
            let table = KeyTable::new(rank, keys.iter().map(|text| key(text))).unwrap();
            let found: Vec<String> = table.iter().map(|key| key.to_string()).collect();
            assert_eq!(found, numeric);
            assert_eq!(table.string_order(), string, "{numeric:?}");
            assert_eq!((table.rank(), table.is_empty()), (rank, numeric.is_empty()));
        }
    }

    #[test]
    fn distant_keys_are_searched() {
        for (keys, is_grid) in [
            (vec!["0.0", "0.1", "1.0"], true),
            (vec!["0.0", "1000.1000"], false),
            (vec!["-9223372036854775808.0", "9223372036854775807.0"], false),
            (vec![], false),
        ] {
            let table = KeyTable::new(2, keys.iter().map(|text| key(text))).unwrap();
            let finder = table.finder(1000);
            assert_eq!(finder.grid.is_some(), is_grid, "{keys:?}");
            for (place, row) in table.rows().enumerate() {
                assert_eq!(finder.find(row), Some(place));
            }
            assert_eq!(finder.find(&[7, 7]), None);
        }
    }

    #[test]
    fn keys_of_another_rank_are_refused() {
        #[rustfmt::skip]
        let table: [(usize, &[&str], &str); 3] = [
            (0, &[], "BadShape in chunk key, rank at byte 0: expected 1 to 16, found 0"),
            (17, &[], "LimitExceeded in chunk key, rank at byte 0: expected 1 to 16, found 17"),
            (2, &["0.0", "0.0.0"], "BadShape in chunk key, components at byte 0: expected 2, found 3"),
        ];
        for (rank, keys, message) in table {
            let error = KeyTable::new(rank, keys.iter().map(|text| key(text))).unwrap_err();
            assert_eq!(error.to_string(), message);
        }
    }

    proptest! {
        /// The table is the sorted set of its input keys, and finds exactly those.
        #[test]
        fn tables_are_sorted_sets(rank in 1_usize..6, numbers in prop::collection::vec(-3_i64..3, 0..120)) {
            let rows: Vec<&[i64]> = numbers.chunks_exact(rank).collect();
            let table = KeyTable::new(rank, rows.iter().map(|row| ChunkKey::new(row).unwrap())).unwrap();
            let set: std::collections::BTreeSet<&[i64]> = rows.iter().copied().collect();
            prop_assert_eq!(table.rows().collect::<Vec<_>>(), set.iter().copied().collect::<Vec<_>>());
            for (i, row) in set.iter().enumerate() {
                prop_assert_eq!(table.find(&ChunkKey::new(row).unwrap()), Some(i));
            }
            let absent = vec![9; rank];
            prop_assert_eq!(table.find(&ChunkKey::new(&absent).unwrap()), None);
            for finder in [table.finder(0), table.finder(usize::MAX)] {
                for (i, row) in set.iter().enumerate() {
                    prop_assert_eq!(finder.find(row), Some(i));
                }
                for start in -5..5 {
                    let row = vec![start; rank];
                    let found = set.iter().position(|member| *member == row);
                    prop_assert_eq!(finder.find(&row), found);
                    prop_assert_eq!(finder.find(&row[1..]), None);
                }
            }
            for start in -4..4 {
                let expected = set.iter().filter(|row| row[0] < start).count();
                prop_assert_eq!(table.lower_bound(&[start]), expected);
            }
        }
    }
}
