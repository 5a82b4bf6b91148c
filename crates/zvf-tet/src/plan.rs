//! Plan: the rows that a selection touches, in grid order, each with the runs to copy.
//!
//! A plan stores nothing per tile. It iterates over the touched chunks, last axis fastest, and
//! looks each row up in turn; so its cost depends only on the touched chunks, and a missing row
//! ends it at once.
//!
//! Not here: views that need no copy (`view.rs`).

use super::{AxisSlice, Lookup, MAX_RANK, Row, Runs, TensorCodec, Tile, TileSelection};
use zvf_format::{Class, Expected, FormatError, Part};

/// The tiles that a selection needs.
///
/// ```
/// use zvf_tet::{AxisSlice, TensorCodec, TensorDtype, TileGeometry, Index, Lookup, MemoryBudget, Row};
///
/// let rows = [0, 1].map(|c| Row::new(0, &[c], 300 + 4 * c, 4, 4, TensorCodec::Raw).unwrap());
/// let bytes = Index::encode(MemoryBudget::DEFAULT, &rows);
/// let index = Index::parse(&bytes, 308)?;
/// let lookup = Lookup::new(&index, 0, &TileGeometry::new(TensorDtype::U8, &[8], &[4]).unwrap(), 0);
///
/// let plan = lookup.select(&[AxisSlice { start: 2, stop: 7, step: 1 }])?;
/// let copies = plan.tiles().map(|touched| {
///     let touched = touched?;
///     let run = touched.runs().next().unwrap();
///     Ok((touched.row().payload_offset() + run.src, run.dst, run.count))
/// });
/// assert_eq!(copies.collect::<Result<Vec<_>, zvf_format::FormatError>>()?, [(302, 0, 2), (304, 2, 3)]);
/// # Ok::<(), zvf_format::FormatError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct TilePlan<'l, 'a> {
    lookup: &'l Lookup<'a>,
    selection: TileSelection, // of the geometry of `lookup`
}

/// A tile with selected elements, and its row.
#[derive(Clone, Copy, Debug)]
pub struct TouchedTile<'a> {
    row: &'a Row, // `raw_byte_len` is that of the tile
    tile: Tile,
    selection: TileSelection,
}

/// The touched tiles of a [`TilePlan`]; ends after the first error.
#[derive(Clone, Debug)]
pub struct TouchedTiles<'l, 'a> {
    plan: TilePlan<'l, 'a>,
    counts: [u64; MAX_RANK],
    places: [u64; MAX_RANK],
    left: u64,
}

impl<'a> Lookup<'a> {
    /// Plans the read of a part of the dataset.
    ///
    /// # Errors
    ///
    /// When [`TileSelection::new`] refuses the axes.
    pub fn select(&self, axes: &[AxisSlice]) -> Result<TilePlan<'_, 'a>, FormatError> {
        Ok(TilePlan { lookup: self, selection: TileSelection::new(self.geometry(), axes)? })
    }

    /// Plans the read of the whole dataset.
    ///
    /// # Errors
    ///
    /// When the dataset has no elements.
    pub fn select_all(&self) -> Result<TilePlan<'_, 'a>, FormatError> {
        Ok(TilePlan { lookup: self, selection: TileSelection::all(self.geometry())? })
    }
}

impl<'l, 'a> TilePlan<'l, 'a> {
    /// Returns the selection.
    pub const fn selection(&self) -> &TileSelection {
        &self.selection
    }

    /// Returns the touched tiles, last axis fastest.
    ///
    /// An item is an error if a touched tile has no row or more than one, or its row states another
    /// length.
    pub fn tiles(&self) -> TouchedTiles<'l, 'a> {
        let counts = self.selection.touched_counts();
        TouchedTiles {
            plan: *self,
            counts,
            places: [0; MAX_RANK],
            left: self.selection.tiles_touched(),
        }
    }

    /// Returns the stored length of the touched tiles.
    ///
    /// # Errors
    ///
    /// The first error of [`TilePlan::tiles`], or when overlapping rows exceed 64 bits.
    pub fn stored_bytes(&self) -> Result<u64, FormatError> {
        self.tiles().try_fold(0_u64, |sum, touched| {
            sum.checked_add(touched?.row.stored_byte_len()).ok_or_else(|| {
                let (class, part) = (Class::Overflow, Part::TetIndex);
                let expected = Expected::Rule("a sum below 2^64 bytes");
                FormatError::new(class, part, "stored_byte_len", 0, expected, "more")
            })
        })
    }

    fn touch(&self, places: &[u64; MAX_RANK]) -> Result<TouchedTile<'a>, FormatError> {
        let coords = self.selection.touched_coords(places);
        let geometry = self.lookup.geometry();
        let row = self.lookup.row(super::geometry::axes(&coords, geometry.rank()))?;
        // The row has a place in the grid, so the tile exists.
        let tile = geometry
            .tile_at(coords)
            .ok_or_else(|| self.lookup.refuse(Class::OutOfBounds, "none in the grid"))?;
        if row.raw_byte_len() != tile.byte_len() {
            return Err(length_error(&tile, row));
        }
        Ok(TouchedTile { row, tile, selection: self.selection })
    }
}

impl<'a> TouchedTile<'a> {
    /// Returns the row of the index.
    pub const fn row(&self) -> &'a Row {
        self.row
    }

    /// Returns the place of the tile in the dataset.
    pub const fn tile(&self) -> &Tile {
        &self.tile
    }

    /// Returns whether the payload is uncompressed.
    pub fn is_raw(&self) -> bool {
        self.row.codec() == TensorCodec::Raw
    }

    /// Returns the runs to copy from the tile into the result.
    pub fn runs(&self) -> Runs {
        self.selection.runs(&self.tile)
    }
}

impl<'a> Iterator for TouchedTiles<'_, 'a> {
    type Item = Result<TouchedTile<'a>, FormatError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let touched = self.plan.touch(&self.places);
        super::lookup::count_up(&mut self.places, &self.counts);
        if touched.is_err() {
            self.left = 0;
        }
        Some(touched)
    }
}

/// Returns the error for a row whose length is not that of its tile.
pub(super) fn length_error(tile: &Tile, row: &Row) -> FormatError {
    let expected = Expected::Exactly(tile.byte_len().into());
    let (class, at) = (Class::CountMismatch, super::index::IN_RAW);
    let found = row.raw_byte_len();
    FormatError::new(class, Part::TetIndex, "raw_byte_len", at, expected, found)
}

#[cfg(test)]
mod tests {
    use std::string::ToString;
    use std::vec::Vec;

    use super::*;
    use crate::tests::index;
    use crate::{Index, TensorDtype, TileGeometry};

    /// Returns the raw rows of 7 x 5 in chunks of 3 x 2, the worked example of the format.
    fn rows() -> Vec<Row> {
        let ends = [1064, 1088, 1112, 1124, 1148, 1172, 1184, 1192, 1200, 1204];
        let spans = ends.windows(2).zip(0..);
        spans
            .map(|(ends, i)| {
                let len = ends[1] - ends[0];
                Row::new(0, &[i / 3, i % 3], ends[0], len, len, TensorCodec::Raw).unwrap()
            })
            .collect()
    }

    fn with_lookup<T>(rows: &[Row], check: impl Fn(&Lookup<'_>) -> T) -> T {
        let bytes = index(rows);
        let index = Index::parse(&bytes, 2000).unwrap();
        let geometry = TileGeometry::new(TensorDtype::F32, &[7, 5], &[3, 2]).unwrap();
        check(&Lookup::new(&index, 0, &geometry, 0))
    }

    const EXAMPLE: [AxisSlice; 2] =
        [AxisSlice { start: 1, stop: 7, step: 2 }, AxisSlice { start: 1, stop: 4, step: 1 }];

    #[test]
    fn plans_the_worked_example() {
        with_lookup(&rows(), |lookup| {
            let plan = lookup.select(&EXAMPLE).unwrap();
            let reads: Vec<_> = plan.tiles().map(Result::unwrap).collect();
            let coords: Vec<_> = reads.iter().map(|t| t.tile().coords().to_vec()).collect();
            assert_eq!(coords, [[0, 0], [0, 1], [1, 0], [1, 1]]);
            assert_eq!((plan.selection().shape(), plan.stored_bytes()), (&[3, 3][..], Ok(96)));
            let last: Vec<_> =
                reads[3].runs().map(|r| (1148 + r.src, r.dst, r.count, r.stride)).collect();
            assert_eq!(last, [(1148, 16, 2, 4), (1164, 28, 2, 4)]);
            assert!(reads[3].is_raw());
        });
    }

    #[test]
    fn a_plan_ends_at_a_missing_or_invalid_row() {
        let mut missing = rows();
        missing.remove(3);
        let mut longer = rows();
        longer[3] = Row::new(0, &[1, 0], 1124, 28, 28, TensorCodec::Raw).unwrap();
        for (rows, message) in [
            (
                missing,
                "CountMismatch in tet chunk index, chunk_index at byte 0: expected one row for each tile, found no row",
            ),
            (
                longer,
                "CountMismatch in tet chunk index, raw_byte_len at byte 80: expected 24, found 28",
            ),
        ] {
            with_lookup(&rows, |lookup| {
                let plan = lookup.select(&EXAMPLE).unwrap();
                let items: Vec<_> = plan.tiles().collect();
                assert_eq!(items.len(), 3);
                assert_eq!(items[2].as_ref().unwrap_err().to_string(), message);
                assert_eq!(plan.stored_bytes().unwrap_err().to_string(), message);
            });
        }
    }

    #[test]
    fn a_sum_above_64_bits_is_refused() {
        let rows = [0, 1].map(|c| Row::new(0, &[c], 0, 4, 1 << 63, TensorCodec::Zstd).unwrap());
        let bytes = index(&rows);
        let index = Index::parse(&bytes, u64::MAX).unwrap();
        let geometry = TileGeometry::new(TensorDtype::U8, &[8], &[4]).unwrap();
        let lookup = Lookup::new(&index, 0, &geometry, 0);
        assert_eq!(
            lookup.select_all().unwrap().stored_bytes().unwrap_err().to_string(),
            "Overflow in tet chunk index, stored_byte_len at byte 0: expected a sum below 2^64 bytes, found more"
        );
    }
}
