//! Lookup: from the grid coordinates of a chunk to its row in the index.
//!
//! Writers store the rows of a dataset contiguously in grid order; then the position of a row
//! follows from its coordinates. One pass checks that when a lookup is created. Rows in any other
//! order are sorted once, by number, which needs four bytes per row.
//!
//! Not here: errors in rows outside of the contiguous ones
//! ([`TetView::validate`](super::TetView::validate) finds them).

use alloc::{sync::Arc, vec::Vec};

use super::geometry::axes;
use super::{Index, MAX_RANK, Row, TetView, TileGeometry};
use zvf_format::num;
use zvf_format::{Class, Expected, FormatError, Part};

/// The rows of one dataset, by coordinates.
///
/// ```
/// use zvf_tet::{TensorCodec, TensorDtype, TileGeometry, Index, Lookup, MemoryBudget, Row};
///
/// let rows = [0, 1].map(|c| Row::new(0, &[c], 300 + 4 * c, 4, 4, TensorCodec::Raw).unwrap());
/// let bytes = Index::encode(MemoryBudget::DEFAULT, &rows);
/// let index = Index::parse(&bytes, 308)?;
/// let geometry = TileGeometry::new(TensorDtype::U8, &[8], &[4]).unwrap();
/// let lookup = Lookup::new(&index, 0, &geometry, 0);
/// assert_eq!(lookup.row(&[1])?.payload_offset(), 304);
/// assert!(lookup.row(&[2]).is_err());
/// # Ok::<(), zvf_format::FormatError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Lookup<'a> {
    rows: &'a [Row],
    places: Places,
}

/// The positions of the rows of one dataset, without the rows. A caller that keeps a file open can
/// keep it beside the file, and then the next lookup costs nothing. Cheap to clone.
///
/// ```
/// use zvf_tet::{TensorCodec, TensorDtype, TileGeometry, Index, Lookup, MemoryBudget, Row};
///
/// let row = Row::new(0, &[0], 136, 4, 4, TensorCodec::Raw).unwrap();
/// let bytes = Index::encode(MemoryBudget::DEFAULT, &[row]);
/// let geometry = TileGeometry::new(TensorDtype::U8, &[4], &[4]).unwrap();
/// let places = Lookup::new(&Index::parse(&bytes, 140)?, 0, &geometry, 0).places().clone();
///
/// let later = Lookup::from_places(&Index::parse_again(&bytes)?, &places);
/// assert_eq!(later.row(&[0])?, &row);
/// # Ok::<(), zvf_format::FormatError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Places {
    id: u32,
    geometry: TileGeometry,
    place: RowPositions,
}

/// The positions of the rows of the dataset.
#[derive(Clone, Debug)]
enum RowPositions {
    /// In grid order from this one on, one for each tile.
    InOrder(usize),
    /// Row numbers, in order of their coordinates.
    Sorted(Arc<[u32]>),
}

impl<'a> Lookup<'a> {
    /// Finds the rows of dataset `id`. `first_row` is the likely number of the first: the number of
    /// tiles of all datasets before it.
    pub fn new(index: &Index<'a>, id: u32, geometry: &TileGeometry, first_row: u64) -> Self {
        let rows = index.rows();
        let is_of_dataset = |row: &Row| row.dataset_id() == u64::from(id);
        let guess =
            num::checked_usize(first_row).filter(|at| rows.get(*at).is_some_and(is_of_dataset));
        // Without rows, only a dataset without tiles is in order.
        let first = guess.or_else(|| rows.iter().position(is_of_dataset)).unwrap_or(0);
        let geometry = *geometry;
        let place = match is_in_order(rows, first, id, &geometry) {
            true => RowPositions::InOrder(first),
            false => RowPositions::Sorted(sort_rows(rows, id, geometry.rank()).into()),
        };
        Self { rows, places: Places { id, geometry, place } }
    }

    /// Creates a lookup from the `places` of an earlier one in the same index.
    pub fn from_places(index: &Index<'a>, places: &Places) -> Self {
        Self { rows: index.rows(), places: places.clone() }
    }

    /// Returns the positions of the rows.
    pub const fn places(&self) -> &Places {
        &self.places
    }

    /// Returns the dataset's grid and tiles.
    pub const fn geometry(&self) -> &TileGeometry {
        &self.places.geometry
    }

    /// Returns whether the rows are contiguous in grid order.
    pub const fn is_direct(&self) -> bool {
        matches!(self.places.place, RowPositions::InOrder(_))
    }

    /// Returns the row of a chunk.
    ///
    /// # Errors
    ///
    /// When the coordinates are outside of the grid, or there is no row or more than one for them.
    pub fn row(&self, coords: &[u64]) -> Result<&'a Row, FormatError> {
        let missing = || self.refuse(Class::CountMismatch, "no row");
        let position =
            self.places.geometry.position(coords).ok_or_else(|| {
                self.refuse(Class::OutOfBounds, "coordinates outside of the grid")
            })?;
        let (id, rank) = (u64::from(self.places.id), self.places.geometry.rank());
        let is_here =
            |row: &&Row| row.dataset_id() == id && axes(&row.chunk_index(), rank) == coords;
        let numbers = match &self.places.place {
            RowPositions::InOrder(first) => {
                let at = num::checked_usize(position).and_then(|at| first.checked_add(at));
                return at.and_then(|at| self.rows.get(at)).ok_or_else(missing);
            }
            RowPositions::Sorted(numbers) => numbers,
        };
        let row = |number: &u32| self.rows.get(num::usize_from_u32(*number));
        let at = numbers.partition_point(|number| {
            row(number).is_some_and(|row| axes(&row.chunk_index(), rank) < coords)
        });
        let mut candidates =
            numbers.get(at..).unwrap_or(&[]).iter().filter_map(row).take_while(is_here);
        let found = candidates.next().ok_or_else(missing)?;
        match candidates.next() {
            None => Ok(found),
            Some(_) => Err(self.refuse(Class::Duplicate, "more than one")),
        }
    }

    /// Returns an error for the rows of this dataset.
    pub(super) fn refuse(&self, class: Class, found: &'static str) -> FormatError {
        let expected = Expected::Rule("one row for each tile");
        let at = u64::from(self.places.id);
        FormatError::new(class, Part::TetIndex, "chunk_index", at, expected, found)
    }
}

impl<'a> TetView<'a> {
    /// Returns the rows of a dataset. For many datasets, [`Lookup::new`] avoids walking the
    /// directory for each.
    ///
    /// # Errors
    ///
    /// When there is no such dataset, or its type or extents are invalid.
    pub fn lookup(&self, id: u32) -> Result<Lookup<'a>, FormatError> {
        let mut first_row = 0_u64;
        for dataset in &self.directory() {
            if dataset.id() == id {
                return Ok(Lookup::new(&self.index(), id, &dataset.geometry()?, first_row));
            }
            // A guess, which is wrong after a dataset without a valid geometry.
            let before = dataset.geometry().map_or(0, |geometry| geometry.tile_count());
            first_row = first_row.saturating_add(before);
        }
        let expected = Expected::AtMost(i128::from(self.directory().len()).saturating_sub(1));
        let (class, part) = (Class::InvalidArgument, Part::TetDirectory);
        Err(FormatError::new(class, part, "dataset_id", 0, expected, id))
    }
}

/// Returns whether there is one row for each tile from `first` on, in grid order.
fn is_in_order(rows: &[Row], first: usize, id: u32, geometry: &TileGeometry) -> bool {
    let end = num::checked_usize(geometry.tile_count()).and_then(|tiles| first.checked_add(tiles));
    let Some(rows) = end.and_then(|end| rows.get(first..end)) else {
        return false;
    };
    let mut expected = [0; MAX_RANK];
    rows.iter().all(|row| {
        let coords = row.chunk_index();
        let same = row.dataset_id() == u64::from(id)
            && axes(&coords, geometry.rank()) == axes(&expected, geometry.rank());
        count_up(&mut expected, geometry.counts());
        same
    })
}

/// Advances to the next coordinates in a grid, last axis fastest.
pub(super) fn count_up(coords: &mut [u64; MAX_RANK], counts: &[u64]) {
    for (c, count) in coords.iter_mut().zip(counts).rev() {
        *c = c.saturating_add(1); // it was below the count
        if *c < *count {
            return;
        }
        *c = 0;
    }
}

/// Returns the row numbers of a dataset, in order of their coordinates.
fn sort_rows(rows: &[Row], id: u32, rank: usize) -> Vec<u32> {
    let dataset_rows =
        (0..=u32::MAX).zip(rows).filter(|(_, row)| row.dataset_id() == u64::from(id));
    let mut numbers: Vec<u32> = dataset_rows.map(|(number, _)| number).collect();
    let key = |number: &u32| rows.get(num::usize_from_u32(*number)).map(Row::chunk_index);
    numbers.sort_unstable_by(|a, b| {
        let (a, b) = (key(a), key(b));
        a.as_ref().map(|key| axes(key, rank)).cmp(&b.as_ref().map(|key| axes(key, rank)))
    });
    numbers
}

#[cfg(test)]
mod tests {
    use std::string::ToString;

    use super::*;
    use crate::tests::index;
    use crate::{TensorCodec, TensorDtype};

    fn row(id: u64, c: [u64; 2]) -> Row {
        Row::new(id, &c, 1000 + 10 * c[0] + c[1], 1, 1, TensorCodec::Raw).unwrap()
    }

    #[test]
    fn rows_in_any_order_are_found() {
        let geometry = TileGeometry::new(TensorDtype::U8, &[2, 2], &[1, 1]).unwrap();
        let grid = [[0, 0], [0, 1], [1, 0], [1, 1]];
        let ordered = grid.map(|c| row(1, c));
        let shuffled =
            [row(1, [1, 0]), row(0, [0, 1]), row(1, [0, 1]), row(1, [1, 1]), row(1, [0, 0])];
        let [a, b, c, d] = ordered;
        let split = [a, b, row(0, [1, 0]), row(0, [1, 1]), c, d];
        let shifted = [&[row(0, [0, 0])], &ordered[..]].concat();
        for (rows, direct, hint) in [
            (&ordered[..], true, 0),
            (&shifted, true, 0),
            (&shifted, true, 1),
            (&shuffled, false, 0),
            (&split, false, 0),
        ] {
            let bytes = index(rows);
            let index = Index::parse(&bytes, 2000).unwrap();
            let lookup = Lookup::new(&index, 1, &geometry, hint);
            assert_eq!(lookup.is_direct(), direct);
            for c in grid {
                assert_eq!(lookup.row(&c).unwrap(), &row(1, c));
            }
            assert_eq!(
                lookup.row(&[2, 0]).unwrap_err().to_string(),
                "OutOfBounds in tet chunk index, chunk_index at byte 1: expected one row for each tile, \
                 found coordinates outside of the grid"
            );
        }
    }

    #[test]
    fn missing_and_duplicate_rows_are_reported() {
        let geometry = TileGeometry::new(TensorDtype::U8, &[2, 2], &[1, 1]).unwrap();
        let rows = [row(0, [0, 0]), row(0, [1, 1]), row(0, [0, 0]), row(0, [1, 0])];
        let bytes = index(&rows);
        let index = Index::parse(&bytes, 2000).unwrap();
        let lookup = Lookup::new(&index, 0, &geometry, 0);
        assert!(lookup.row(&[1, 1]).is_ok());
        for (c, message) in [
            (
                [0, 1],
                "CountMismatch in tet chunk index, chunk_index at byte 0: expected one row for each tile, found no row",
            ),
            (
                [0, 0],
                "Duplicate in tet chunk index, chunk_index at byte 0: expected one row for each tile, found more than one",
            ),
        ] {
            assert_eq!(lookup.row(&c).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn unknown_datasets_are_refused() {
        let bytes = crate::tests::two_tiles();
        let file = TetView::parse(&bytes).unwrap();
        assert!(file.lookup(0).unwrap().is_direct());
        assert_eq!(
            file.lookup(1).unwrap_err().to_string(),
            "InvalidArgument in tet directory, dataset_id at byte 0: expected at most 0, found 1"
        );
    }
}
