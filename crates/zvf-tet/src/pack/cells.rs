//! Table of cells: the rows of each cell in a dataset.
//!
//! ```text
//! row       R coordinates   first row   row count      i64 each
//! ```
//!
//! Rows are sorted by their coordinates as numbers, first axis first. Cells lie in the dataset in
//! the same order, so spans ascend; a cell without rows has no row here. Writers leave no gaps.
//!
//! A table may be long and mapped. [`CellTable::parse`] checks its length only; [`CellTable::find`]
//! checks the row that it finds, also against its neighbours; [`CellTable::check`] checks all rows.
//! The span that `find` returns always lies in the dataset. In an unsorted table it may miss a
//! cell.
//!
//! Not here: conversion of rows to bytes ([`PackedArray`](super::PackedArray)).

use core::cmp::Ordering;

use alloc::vec::Vec;

use zerocopy::little_endian::I64;

use crate::{TensorDtype, TileGeometry};
use zvf_format::cursor::Cursor;
use zvf_format::{Class, Expected, FormatError, Found, Lints, Part, num};

/// A table of cells, borrowed from a pack.
///
/// ```
/// use zvf_tet::pack::{CellTable, encode_cells};
///
/// let bytes = encode_cells(2, [([0, 3], 10), ([1, -1], 5)])?;
/// let table = CellTable::parse(&bytes, 2, 15)?;
/// let cell = table.find(&[1, -1])?.unwrap();
/// assert_eq!((cell.first(), cell.count()), (10, 5));
/// assert_eq!(table.find(&[1, 0])?, None);
/// # Ok::<(), zvf_format::FormatError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct CellTable<'a> {
    items: &'a [I64], // a multiple of the width
    rank: usize,
    width: usize, // rank + 2
    rows: u64,
}

/// One cell of a table: its coordinates and its rows.
///
/// ```
/// use zvf_tet::pack::{CellTable, encode_cells};
///
/// let bytes = encode_cells(1, [([7], 3)])?;
/// let cell = CellTable::parse(&bytes, 1, 3)?.get(0)?.unwrap();
/// assert_eq!((cell.coords().collect::<Vec<_>>(), cell.first(), cell.count()), (vec![7], 0, 3));
/// # Ok::<(), zvf_format::FormatError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell<'a> {
    coords: &'a [I64],
    first: u64, // with the count: inside of the dataset
    count: u64, // not 0
}

impl<'a> CellTable<'a> {
    /// Parses a table of cells with `rank` coordinates, for a dataset of `rows` rows.
    ///
    /// # Errors
    ///
    /// When there are no coordinates, or the bytes are not a whole number of rows.
    pub fn parse(bytes: &'a [u8], rank: usize, rows: u64) -> Result<Self, FormatError> {
        let mut cur = Cursor::new(Part::Pack, bytes);
        // If this saturates, only an empty table is a whole number of rows.
        let columns = num::to_u64(rank).saturating_add(EXTRA);
        let stride = columns.saturating_mul(ITEM);
        let width = num::checked_usize(columns).filter(|_| rank > 0);
        let (Some(width), Some(0)) = (width, cur.remaining().checked_rem(stride)) else {
            let (class, expected) = (Class::Misaligned, Expected::MultipleOf(stride.into()));
            return Err(cur.refuse(class, "cells", 0, expected, cur.remaining()));
        };
        let items = cur.array("cells", cur.remaining() / ITEM)?.items;
        Ok(Self { items, rank, width, rows })
    }

    /// Returns the number of cells.
    pub fn len(&self) -> usize {
        self.items.len().checked_div(self.width).unwrap_or(0) // the width is not 0
    }

    /// Returns whether there are no cells.
    pub const fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Returns the number of coordinates of a cell.
    pub const fn rank(&self) -> usize {
        self.rank
    }

    /// Returns cell `i` in the order of the table, or `None` past the end.
    ///
    /// # Errors
    ///
    /// When its rows are outside the dataset, or it is out of order.
    pub fn get(&self, i: usize) -> Result<Option<Cell<'a>>, FormatError> {
        let Some(cell) = self.cell(i)? else { return Ok(None) };
        let before = i.checked_sub(1).and_then(|before| self.row(before));
        if let Some((coords, [first, count])) = before {
            self.check_order(i, coords, cell.coords)?;
            // The row before was not checked and may hold any numbers.
            let end = i128::from(first.get()).saturating_add(count.get().into());
            if i128::from(cell.first) < end {
                let (class, expected) = (Class::NotMonotonic, Expected::AtLeast(end));
                return Err(self.refuse(class, "first row", i, self.rank, expected, cell.first));
            }
        }
        let after = i.saturating_add(1);
        if let Some((coords, _)) = self.row(after) {
            self.check_order(after, cell.coords, coords)?;
        }
        Ok(Some(cell))
    }

    /// Returns the cell at these coordinates, or `None` if it has no rows.
    ///
    /// # Errors
    ///
    /// When the number of coordinates is wrong, or as [`CellTable::get`] does.
    pub fn find(&self, coords: &[i64]) -> Result<Option<Cell<'a>>, FormatError> {
        if coords.len() != self.rank {
            let (class, part) = (Class::InvalidArgument, Part::Pack);
            let expected = Expected::Exactly(num::to_u64(self.rank).into());
            let error = FormatError::new(class, part, "coordinates", 0, expected, coords.len());
            return Err(error.with_hint(zvf_format::Hint::WrongRank));
        }
        let (mut from, mut to) = (0, self.len());
        while from < to {
            let middle = from.midpoint(to);
            match self.row(middle).map(|(found, _)| order(found, coords)) {
                Some(Ordering::Equal) => return self.get(middle),
                Some(Ordering::Less) => from = middle.saturating_add(1),
                Some(Ordering::Greater) | None => to = middle,
            }
        }
        Ok(None)
    }

    /// Iterates over the cells in order; each is checked when it is reached.
    pub fn iter(&self) -> impl Iterator<Item = Result<Cell<'a>, FormatError>> + use<'a> {
        let table = *self;
        (0..self.len()).filter_map(move |i| table.get(i).transpose())
    }

    /// Checks all rows.
    ///
    /// # Errors
    ///
    /// The first error of [`CellTable::get`].
    pub fn check(&self) -> Result<(), FormatError> {
        self.iter().try_for_each(|cell| cell.map(|_| ()))
    }

    /// Lists rows of the dataset that belong to no cell.
    pub fn lints(&self) -> Lints {
        let mut lints = Lints::default();
        let mut end = 0;
        for (i, cell) in self.iter().enumerate() {
            let Ok(cell) = cell else { return lints };
            if cell.first != end {
                let (class, expected) = (Class::NonCanonical, Expected::Exactly(end.into()));
                lints.push(self.refuse(class, "first row", i, self.rank, expected, cell.first));
            }
            end = cell.first.saturating_add(cell.count); // inside of the dataset
        }
        if end != self.rows {
            let (class, expected) = (Class::NonCanonical, Expected::Exactly(self.rows.into()));
            lints.push(self.refuse(class, "rows of all cells", self.len(), 0, expected, end));
        }
        lints
    }

    /// Returns the coordinates of row `i`, and its span.
    fn row(&self, i: usize) -> Option<(&'a [I64], &'a [I64; 2])> {
        let row = self.items.get(i.checked_mul(self.width)?..)?.get(..self.width)?;
        row.split_last_chunk()
    }

    /// Returns row `i`, whose span must lie inside the dataset.
    fn cell(&self, i: usize) -> Result<Option<Cell<'a>>, FormatError> {
        let Some((coords, [first, count])) = self.row(i) else { return Ok(None) };
        let Ok(first) = u64::try_from(first.get()) else {
            let expected = Expected::AtLeast(0);
            let found = first.get();
            return Err(self.refuse(Class::Negative, "first row", i, self.rank, expected, found));
        };
        let count_column = self.rank.saturating_add(1);
        let room = i128::from(self.rows).saturating_sub(first.into());
        let expected = Expected::Between(1, room);
        if !expected.allows(count.get().into()) {
            let (class, found) = (Class::OutOfBounds, count.get());
            return Err(self.refuse(class, "row count", i, count_column, expected, found));
        }
        let count = u64::try_from(count.get()).unwrap_or(0); // positive, as just seen
        Ok(Some(Cell { coords, first, count }))
    }

    /// Checks that row `i` comes after the one before it.
    fn check_order(&self, i: usize, before: &[I64], this: &[I64]) -> Result<(), FormatError> {
        let order = before.iter().map(|c| c.get()).cmp(this.iter().map(|c| c.get()));
        let (class, found) = match order {
            Ordering::Less => return Ok(()),
            Ordering::Equal => (Class::Duplicate, "the same"),
            Ordering::Greater => (Class::NotMonotonic, "smaller ones"),
        };
        let expected = Expected::Rule("coordinates after those before");
        Err(self.refuse(class, "coordinates", i, 0, expected, found))
    }

    fn refuse(
        &self,
        class: Class,
        field: &'static str,
        i: usize,
        column: usize,
        expected: Expected,
        found: impl Into<Found>,
    ) -> FormatError {
        // A position in the table.
        let item = num::to_u64(i.saturating_mul(self.width).saturating_add(column));
        FormatError::new(class, Part::Pack, field, item.saturating_mul(ITEM), expected, found)
    }
}

impl Cell<'_> {
    /// Returns the coordinates.
    pub fn coords(&self) -> impl ExactSizeIterator<Item = i64> {
        self.coords.iter().map(|c| c.get())
    }

    /// Returns the first row.
    pub const fn first(&self) -> u64 {
        self.first
    }

    /// Returns the number of rows.
    pub const fn count(&self) -> u64 {
        self.count
    }
}

/// Returns the dataset that holds a table of this many cells, in one chunk; `None` if there are too
/// many, or none, which needs no dataset.
pub fn cells_geometry(cells: u64, rank: usize) -> Option<TileGeometry> {
    let shape = [cells, num::to_u64(rank).checked_add(EXTRA)?];
    TileGeometry::new(TensorDtype::I64, &shape, &shape).filter(|_| rank > 0)
}

/// Encodes a table: coordinates and row count of each cell, in the order of the coordinates. Cells
/// without rows are left out.
///
/// # Errors
///
/// When a cell has another number of coordinates or is out of order, or there are 2^63 rows.
pub fn encode_cells<C: AsRef<[i64]>>(
    rank: usize,
    cells: impl IntoIterator<Item = (C, u64)>,
) -> Result<Vec<u8>, FormatError> {
    let (mut bytes, mut end) = (Vec::new(), 0_i64);
    let mut before: Option<C> = None;
    for (coords, count) in cells {
        let at = num::to_u64(bytes.len());
        let refuse = |class, field, expected, found: Found| {
            Err(FormatError::new(class, Part::Pack, field, at, expected, found))
        };
        let coordinates = coords.as_ref();
        if coordinates.len() != rank || rank == 0 {
            let expected = Expected::Exactly(num::to_u64(rank.max(1)).into());
            return refuse(
                Class::InvalidArgument,
                "coordinates",
                expected,
                coordinates.len().into(),
            );
        }
        if before.as_ref().is_some_and(|before| before.as_ref() >= coordinates) {
            let expected = Expected::Rule("coordinates after those before");
            return refuse(Class::NotMonotonic, "coordinates", expected, "others".into());
        }
        if count > 0 {
            let rows = i64::try_from(count).ok();
            let Some((rows, next)) = rows.and_then(|rows| Some((rows, end.checked_add(rows)?)))
            else {
                let expected = Expected::Rule("rows below 2^63");
                return refuse(Class::Overflow, "row count", expected, count.into());
            };
            for item in coordinates.iter().chain(&[end, rows]) {
                bytes.extend_from_slice(&item.to_le_bytes());
            }
            end = next;
        }
        before = Some(coords);
    }
    Ok(bytes)
}

/// Compares coordinates as numbers, first axis first.
fn order(found: &[I64], coords: &[i64]) -> Ordering {
    found.iter().map(|c| c.get()).cmp(coords.iter().copied())
}

/// First row and row count.
const EXTRA: u64 = 2;
/// Bytes of one number.
const ITEM: u64 = 8;

#[cfg(test)]
mod tests;
