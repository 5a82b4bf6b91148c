//! A hand-typed table, and one row per check.

use std::string::ToString;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;

/// Cells (-1, 2), (0, 0) and (0, 10) with 3, 1 and 4 rows.
const ROWS: [[i64; 4]; 3] = [[-1, 2, 0, 3], [0, 0, 3, 1], [0, 10, 4, 4]];

fn bytes(rows: &[[i64; 4]]) -> Vec<u8> {
    rows.iter().flatten().flat_map(|n| n.to_le_bytes()).collect()
}

#[test]
fn golden_bytes_both_ways() {
    let typed =
        b"\xff\xff\xff\xff\xff\xff\xff\xff\x02\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0";
    assert_eq!(bytes(&ROWS[..1]), typed);
    let encoded = encode_cells(2, [([-1, 2], 3), ([0, 0], 1), ([0, 9], 0), ([0, 10], 4)]).unwrap();
    assert_eq!(encoded, bytes(&ROWS));

    let table = CellTable::parse(&encoded, 2, 8).unwrap();
    assert_eq!((table.len(), table.is_empty(), table.rank()), (3, false, 2));
    for (i, row) in ROWS.into_iter().enumerate() {
        let cell = table.find(&row[..2]).unwrap().unwrap();
        assert_eq!(table.get(i).unwrap(), Some(cell));
        assert_eq!(cell.coords().collect::<Vec<_>>(), row[..2]);
        assert_eq!(
            (cell.first(), cell.count()),
            (u64::try_from(row[2]).unwrap(), u64::try_from(row[3]).unwrap())
        );
    }
    for absent in [[-2, 0], [-1, 3], [0, 9], [0, 11], [i64::MAX, 0]] {
        assert_eq!(table.find(&absent).unwrap(), None);
    }
    assert_eq!(table.get(3).unwrap(), None);
    assert!(table.check().is_ok() && table.lints().is_empty());
    let none = CellTable::parse(&[], 2, 0).unwrap();
    assert!(none.is_empty() && none.find(&[0, 0]).unwrap().is_none() && none.lints().is_empty());
}

#[test]
fn each_check_has_its_message() {
    #[rustfmt::skip]
    let table = [
        // row, column, value, where it is found, message
        (1, 2, -1, 1, "Negative in pack, first row at byte 48: expected at least 0, found -1"),
        (1, 3, 0, 1, "OutOfBounds in pack, row count at byte 56: expected 1 to 5, found 0"),
        (1, 3, -1, 1, "OutOfBounds in pack, row count at byte 56: expected 1 to 5, found -1"),
        (2, 3, 5, 2, "OutOfBounds in pack, row count at byte 88: expected 1 to 4, found 5"),
        (2, 3, i64::MAX, 2, "OutOfBounds in pack, row count at byte 88: expected 1 to 4, found 9223372036854775807"),
        (2, 2, i64::MAX, 2, "OutOfBounds in pack, row count at byte 88: expected 1 to -9223372036854775799, found 4"),
        (1, 2, 2, 1, "NotMonotonic in pack, first row at byte 48: expected at least 3, found 2"),
        (1, 0, -2, 1, "NotMonotonic in pack, coordinates at byte 32: expected coordinates after those before, found smaller ones"),
        (1, 0, -2, 0, "NotMonotonic in pack, coordinates at byte 32: expected coordinates after those before, found smaller ones"),
        (2, 1, 0, 1, "Duplicate in pack, coordinates at byte 64: expected coordinates after those before, found the same"),
        (0, 3, i64::MAX, 1, "NotMonotonic in pack, first row at byte 48: expected at least 9223372036854775807, found 3"),
        (0, 2, i64::MAX, 1, "NotMonotonic in pack, first row at byte 48: expected at least 9223372036854775810, found 3"),
    ];
    for (row, column, value, at, message) in table {
        let mut rows = ROWS;
        rows[row][column] = value;
        let bytes = bytes(&rows);
        let table = CellTable::parse(&bytes, 2, 8).unwrap();
        assert_eq!(table.get(at).unwrap_err().to_string(), message);
        assert!(table.check().is_err());
    }
    let table_bytes = bytes(&ROWS);
    for (rank, bytes, message) in [
        (
            2,
            &table_bytes[..95],
            "Misaligned in pack, cells at byte 0: expected a multiple of 32, found 95",
        ),
        (
            3,
            &table_bytes[..],
            "Misaligned in pack, cells at byte 0: expected a multiple of 40, found 96",
        ),
        (
            0,
            &table_bytes[..],
            "Misaligned in pack, cells at byte 0: expected a multiple of 16, found 96",
        ),
        (
            usize::MAX,
            &table_bytes[..],
            "Misaligned in pack, cells at byte 0: expected a multiple of 18446744073709551615, found 96",
        ),
    ] {
        assert_eq!(CellTable::parse(bytes, rank, 8).unwrap_err().to_string(), message);
    }
    let error = CellTable::parse(&table_bytes, 2, 8).unwrap().find(&[0]).unwrap_err();
    assert_eq!(
        (error.to_string().as_str(), error.hint()),
        (
            "InvalidArgument in pack, coordinates at byte 0: expected 2, found 1",
            Some(zvf_format::Hint::WrongRank)
        )
    );
}

#[test]
fn rows_without_a_cell_are_lints() {
    let mut rows = ROWS;
    rows[2][2] = 5;
    let bytes = bytes(&rows);
    let table = CellTable::parse(&bytes, 2, 10).unwrap();
    assert!(table.check().is_ok());
    assert_eq!(
        table.lints().iter().map(ToString::to_string).collect::<Vec<_>>(),
        [
            "NonCanonical in pack, first row at byte 80: expected 4, found 5",
            "NonCanonical in pack, rows of all cells at byte 96: expected 10, found 9",
        ]
    );
}

/// Coordinates and row count.
type CellSpan<'c> = (&'c [i64], u64);

#[test]
fn unordered_tables_are_refused() {
    #[rustfmt::skip]
    let table: [(usize, &[CellSpan<'_>], &str); 5] = [
        (1, &[(&[1, 2], 1)], "InvalidArgument in pack, coordinates at byte 0: expected 1, found 2"),
        (0, &[(&[], 1)], "InvalidArgument in pack, coordinates at byte 0: expected 1, found 0"),
        (1, &[(&[1], 1), (&[1], 1)], "NotMonotonic in pack, coordinates at byte 24: expected coordinates after those before, found others"),
        (1, &[(&[1], 0), (&[0], 1)], "NotMonotonic in pack, coordinates at byte 0: expected coordinates after those before, found others"),
        (1, &[(&[1], 1), (&[2], i64::MAX as u64)], "Overflow in pack, row count at byte 24: expected rows below 2^63, found 9223372036854775807"),
    ];
    for (rank, cells, message) in table {
        let error = encode_cells(rank, cells.iter().copied()).unwrap_err();
        assert_eq!(error.to_string(), message);
    }
}

#[test]
fn tables_have_a_single_chunk() {
    assert_eq!(cells_geometry(7, 3).unwrap().shape(), [7, 5]);
    assert_eq!(cells_geometry(7, 3).unwrap().tile_count(), 1);
    assert_eq!(cells_geometry(0, 3), None);
    assert_eq!(cells_geometry(7, 0), None);
    assert_eq!(cells_geometry(u64::MAX, 3), None);
}

proptest! {
    /// Cells are read back, and missing cells are not found.
    #[test]
    fn round_trip(cells in prop::collection::btree_map([-3_i64..3, -3_i64..3], 0_u64..5, 0..20)) {
        let rows = cells.values().sum();
        let bytes = encode_cells(2, cells.clone()).unwrap();
        let table = CellTable::parse(&bytes, 2, rows).unwrap();
        prop_assert!(table.check().is_ok() && table.lints().is_empty());
        let mut end = 0;
        for x in -3..3 {
            for y in -3..3 {
                let count = cells.get(&[x, y]).copied().unwrap_or(0);
                let found = table.find(&[x, y]).unwrap().map(|cell| (cell.first(), cell.count()));
                prop_assert_eq!(found, (count > 0).then_some((end, count)));
                end += count;
            }
        }
    }

    /// For any table, the found rows are rows of the dataset.
    #[test]
    fn any_bytes(rows in prop::collection::vec(prop::array::uniform4(-2_i64..9), 0..6), x in -2_i64..9, y in -2_i64..9) {
        let bytes = bytes(&rows);
        let table = CellTable::parse(&bytes, 2, 8).unwrap();
        for cell in table.iter().chain(table.find(&[x, y]).transpose()).flatten() {
            prop_assert!(cell.count() > 0 && cell.first() + cell.count() <= 8);
        }
        if table.check().is_ok() {
            prop_assert!(table.iter().map(Result::unwrap).map(|cell| cell.count()).sum::<u64>() <= 8);
        }
    }
}
