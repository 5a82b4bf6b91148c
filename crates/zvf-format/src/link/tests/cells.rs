//! Cells and flat blobs of links: golden bytes both ways, and the message of every check.

use std::format;
use std::string::{String, ToString};
use std::vec;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::fragment::tests::hex;

type Rows = (Option<u64>, &'static [u64]);

struct Golden {
    name: &'static str,
    element: LinkInteger,
    body: Body,
    groups: &'static [&'static [Rows]],
    blob: &'static str,
}

/// The record of these rows, with the permutation of this code.
fn record(perm: Option<u64>, rows: &[u64]) -> LinkRecord {
    let width = rows.len().try_into().unwrap();
    let order = perm.map(|code| Permutation::from_code(code, width).unwrap());
    LinkRecord::new(rows, order).unwrap()
}

#[rustfmt::skip]
const GOLDEN: [Golden; 12] = [
    Golden { name: "two bridges of one write", element: LinkInteger::I64, body: Body::Inline,
        groups: &[&[(Some(0), &[2, 0]), (Some(1), &[3, 1])]],
        blob: "0100000000000000 0000000000000000
               0000000000000000 0200000000000000 0000000000000000
               0100000000000000 0300000000000000 0100000000000000" },
    Golden { name: "edge inside a chunk", element: LinkInteger::I64, body: Body::Flat,
        groups: &[&[(None, &[0, 1])]],
        blob: "0000000000000000 0100000000000000" },
    Golden { name: "face", element: LinkInteger::I64, body: Body::Inline,
        groups: &[&[(Some(3), &[0, 1, 0])]],
        blob: "0100000000000000 0000000000000000
               0300000000000000 0000000000000000 0100000000000000 0000000000000000" },
    Golden { name: "directed, two writes", element: LinkInteger::I64, body: Body::Inline,
        groups: &[&[(None, &[5, 6])], &[(None, &[9, 1])]],
        blob: "0200000000000000 0000000000000000 1000000000000000
               0500000000000000 0600000000000000 0900000000000000 0100000000000000" },
    Golden { name: "self", element: LinkInteger::I64, body: Body::Inline,
        groups: &[&[(None, &[2])]],
        blob: "0100000000000000 0000000000000000 0200000000000000" },
    Golden { name: "self in a cell of 0.8", element: LinkInteger::I64, body: Body::Inline,
        groups: &[&[(Some(0), &[2])]],
        blob: "0100000000000000 0000000000000000 0000000000000000 0200000000000000" },
    Golden { name: "no groups", element: LinkInteger::U8, body: Body::Inline,
        groups: &[], blob: "0000000000000000" },
    Golden { name: "i32", element: LinkInteger::I32, body: Body::Flat,
        groups: &[&[(None, &[0, 1]), (None, &[0x0102_0304, 0x7fff_ffff])]],
        blob: "00000000 01000000 04030201 ffffff7f" },
    Golden { name: "u16", element: LinkInteger::U16, body: Body::Flat,
        groups: &[&[(Some(1), &[0xff00, 0xffff])]], blob: "0100 00ff ffff" },
    Golden { name: "i8", element: LinkInteger::I8, body: Body::Flat,
        groups: &[&[(Some(5), &[0x7f, 0, 1])]], blob: "05 7f 00 01" },
    Golden { name: "u64", element: LinkInteger::U64, body: Body::Flat,
        groups: &[&[(None, &[u64::MAX])]], blob: "ffffffffffffffff" },
    Golden { name: "u32, eight endpoints reversed", element: LinkInteger::U32, body: Body::Flat,
        groups: &[&[(Some(40319), &[1, 2, 3, 4, 5, 6, 7, 0xffff_ffff])]],
        blob: "7f9d0000 01000000 02000000 03000000 04000000 05000000 06000000 07000000 ffffffff" },
];

#[test]
fn golden_bytes_both_ways() {
    for Golden { name, element, body, groups, blob } in GOLDEN {
        let blob = hex(blob);
        let groups: Vec<Vec<LinkRecord>> = groups
            .iter()
            .map(|group| group.iter().map(|(perm, rows)| record(*perm, rows)).collect())
            .collect();
        let records = groups.concat();
        let first = records.first();
        let width = first.map_or(1, |first| first.rows().len());
        let has_perm = first.is_some_and(|first| first.perm().is_some());
        let shape = RowShape::new(element, width, has_perm).unwrap();

        let slices: Vec<&[LinkRecord]> = groups.iter().map(Vec::as_slice).collect();
        assert_eq!(encode(&slices, body, shape).unwrap(), blob, "encode, {name}");
        let cell = LinkCell::parse_strict(&blob, body, shape).unwrap();
        assert_eq!(cell.records().collect::<Vec<_>>(), records, "parse, {name}");
        assert_eq!((cell.len(), cell.is_empty()), (records.len(), records.is_empty()));
        assert_eq!(cell.record(0).as_ref(), first);
        assert_eq!(cell.record(cell.len()), None);
        assert_eq!(
            cell.groups().map(|all| all.len()),
            match body {
                Body::Flat => None,
                Body::Inline => Some(groups.len()),
            }
        );
        assert_eq!(cell.shape(), shape);
    }
}

#[test]
fn a_cell_that_was_never_written_has_no_records() {
    for body in [Body::Flat, Body::Inline] {
        let cell = LinkCell::parse_strict(&[], body, shape(8, 2, true)).unwrap();
        assert!(cell.is_empty() && cell.records().next().is_none());
        assert!(cell.check_rows(&[0, 0]).is_ok() && cell.check_attribute(0, 4).is_ok());
    }
}

fn shape(itemsize: u8, width: usize, has_perm: bool) -> RowShape {
    RowShape::new(LinkInteger::new(itemsize, true).unwrap(), width, has_perm).unwrap()
}

#[rustfmt::skip]
#[test]
fn invalid_cells_are_refused() {
    use Body::{Flat, Inline};
    for (body, itemsize, width, has_perm, blob, message) in [
        (Flat, 8, 2, false, "0000000000000000", "Misaligned in link cell, rows at byte 0: expected a multiple of 16, found 8"),
        (Flat, 1, 2, true, "00 00 00 02 00 00", "OutOfBounds in link cell, perm_idx at byte 3: expected 0 to 1, found 2"),
        (Flat, 1, 2, true, "ff 00 00", "OutOfBounds in link cell, perm_idx at byte 0: expected 0 to 1, found -1"),
        (Flat, 1, 1, true, "01 00", "OutOfBounds in link cell, perm_idx at byte 0: expected 0 to 0, found 1"),
        (Flat, 1, 3, true, "06 00 00 00", "OutOfBounds in link cell, perm_idx at byte 0: expected 0 to 5, found 6"),
        (Flat, 2, 8, true, "809d 0000 0000 0000 0000 0000 0000 0000 0000", "OutOfBounds in link cell, perm_idx at byte 0: expected 0 to 40319, found -25216"),
        (Flat, 4, 8, true, "809d0000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000", "OutOfBounds in link cell, perm_idx at byte 0: expected 0 to 40319, found 40320"),
        (Flat, 1, 2, false, "00 00 00 80", "Negative in link cell, vi at byte 3: expected at least 0, found -128"),
        (Flat, 2, 2, true, "0100 0000 ffff", "Negative in link cell, vi at byte 4: expected at least 0, found -1"),
        (Inline, 1, 2, false, "0100000000000000 0000000000000000 00 01 02", "Misaligned in ragged blob, bytes of a group at byte 16: expected a multiple of 2, found 3"),
        (Inline, 1, 2, false, "0100000000000000 0000000000000000 00 01 02 ff", "Negative in link cell, vi at byte 19: expected at least 0, found -1"),
        (Inline, 1, 2, true, "0100000000000000 0200000000000000 00 00 02 00 00", "OutOfBounds in link cell, perm_idx at byte 18: expected 0 to 1, found 2"),
        (Inline, 1, 2, false, "00000000", "Truncated in ragged blob, K at byte 0: expected 8 bytes, found 4"),
    ] {
        let blob = hex(blob);
        let shape = shape(itemsize, width, has_perm);
        assert_eq!(LinkCell::parse(&blob, body, shape).unwrap_err().to_string(), message);
    }
    // Bytes outside all groups are skipped and counted.
    let gap = hex("0100000000000000 0200000000000000 00 00 01 02");
    let shape = shape(1, 2, false);
    let cell = LinkCell::parse(&gap, Inline, shape).unwrap();
    assert_eq!(cell.records().map(|record| record.rows().to_vec()).collect::<Vec<_>>(), [[1, 2]]);
    assert_eq!(LinkCell::parse_strict(&gap, Inline, shape).unwrap_err(), *cell.lints().iter().next().unwrap());
    let no_groups = hex("0000000000000000 00 01 02");
    let cell = LinkCell::parse(&no_groups, Inline, shape).unwrap();
    assert_eq!((cell.len(), cell.lints().count()), (0, 1));
}

#[rustfmt::skip]
#[test]
fn invalid_shapes_and_records_are_refused() {
    for (width, message) in [
        (0, "BadShape in link cell, link_width at byte 0: expected 1 to 8, found 0"),
        (9, "LimitExceeded in link cell, link_width at byte 0: expected 1 to 8, found 9"),
        (300, "LimitExceeded in link cell, link_width at byte 0: expected 1 to 8, found 300"),
    ] {
        assert_eq!(RowShape::new(LinkInteger::I64, width, true).unwrap_err().to_string(), message);
    }
    assert_eq!(LinkInteger::new(3, true).unwrap_err().to_string(), "BadShape in link cell, itemsize at byte 0: expected 1, 2, 4 or 8, found 3");
    assert_eq!(LinkRecord::new(&[], None).unwrap_err().to_string(), "BadShape in link record, link_width at byte 0: expected 1 to 8, found 0");
    let permutation = Permutation::new(&[1, 0]);
    assert_eq!(LinkRecord::new(&[1, 2, 3], permutation).unwrap_err().to_string(), "CountMismatch in link record, perm_idx at byte 0: expected 3, found 2");

    let swapped = record(Some(1), &[200, 3]);
    for (shape, message) in [
        (RowShape::new(LinkInteger::U8, 2, false), "InvalidArgument in link cell, has_perm at byte 0: expected 0, found 1"),
        (RowShape::new(LinkInteger::U8, 3, true), "CountMismatch in link cell, link_width at byte 0: expected 3, found 2"),
        (RowShape::new(LinkInteger::I8, 2, true), "Overflow in link cell, vi at byte 0: expected at most 127, found 200"),
    ] {
        assert_eq!(encode(&[&[swapped]], Body::Flat, shape.unwrap()).unwrap_err().to_string(), message);
    }
    let reversed = record(Some(40319), &[0; 8]);
    let shape = RowShape::new(LinkInteger::I16, 8, true).unwrap();
    assert_eq!(encode(&[&[reversed]], Body::Flat, shape).unwrap_err().to_string(), "Overflow in link cell, perm_idx at byte 0: expected at most 32767, found 40319");
}

#[test]
fn elements_are_found_by_size() {
    for (size, signed, unsigned, largest) in [
        (1, LinkInteger::I8, LinkInteger::U8, i8::MAX as u64),
        (2, LinkInteger::I16, LinkInteger::U16, i16::MAX as u64),
        (4, LinkInteger::I32, LinkInteger::U32, i32::MAX as u64),
        (8, LinkInteger::I64, LinkInteger::U64, i64::MAX as u64),
    ] {
        assert_eq!(LinkInteger::new(size, true).unwrap(), signed);
        assert_eq!(LinkInteger::new(size, false).unwrap(), unsigned);
        assert_eq!((signed.size(), unsigned.size()), (size, size));
        assert_eq!((signed.max_value(), unsigned.max_value()), (largest, largest * 2 + 1));
    }
}

#[rustfmt::skip]
#[test]
fn rows_are_checked_against_their_chunks() {
    let blob = hex("0100000000000000 0000000000000000 00 03 09 01 04 02");
    let cell = LinkCell::parse(&blob, Body::Inline, shape(1, 2, true)).unwrap();
    assert!(cell.check_rows(&[5, 10]).is_ok());
    for (rows, message) in [
        (&[5, 9][..], "OutOfBounds in link cell, vi at byte 18: expected at most 8, found 9"),
        (&[4, 10], "OutOfBounds in link cell, vi at byte 20: expected at most 3, found 4"),
        (&[0, 0], "OutOfBounds in link cell, vi at byte 17: expected at most -1, found 3"),
        (&[5], "InvalidArgument in link cell, link_width at byte 0: expected 2, found 1"),
    ] {
        assert_eq!(cell.check_rows(rows).unwrap_err().to_string(), message);
    }
    assert!(cell.check_attribute(8, 4).is_ok());
    assert_eq!(cell.check_attribute(7, 4).unwrap_err().to_string(), "CountMismatch in link cell, link attribute bytes at byte 0: expected 8, found 7");
}

#[test]
fn flat_links_are_read() {
    // (0,0) row 2, (1,0) row 0, in one record; then (-1,5) row 1, (-1,5) row 7.
    let blob = hex("0000000000000000 0000000000000000 0200000000000000
         0100000000000000 0000000000000000 0000000000000000
         ffffffffffffffff 0500000000000000 0100000000000000
         ffffffffffffffff 0500000000000000 0700000000000000");
    let chunks = ["0.0", "1.0", "-1.5", "-1.5"].map(key);
    let ends = endpoints(&chunks, &[2, 0, 1, 7]);
    let links = FlatLinks::parse(&blob, 2, 2).unwrap();
    let found: Vec<_> = links.records().flat_map(|record| record.endpoints()).collect();
    assert_eq!(found, ends.iter().map(|end| (*end.chunk, end.row)).collect::<Vec<_>>());
    assert_eq!((links.len(), links.is_empty()), (2, false));
    assert_eq!(links.record(1), links.records().nth(1));
    assert_eq!((links.record(2), links.record(1).unwrap().endpoint(2)), (None, None));
    assert!(FlatLinks::parse(&[], 2, 2).unwrap().is_empty());
}

#[rustfmt::skip]
#[test]
fn invalid_flat_links_are_refused() {
    for (blob, width, rank, message) in [
        ("0000000000000000 0000000000000000 0000000000000000", 2, 1, "Misaligned in flat cross-chunk links, records at byte 0: expected a multiple of 32, found 24"),
        ("ffffffffffffffff 0000000000000000 0000000000000000 ffffffffffffffff", 2, 1, "Negative in flat cross-chunk links, vi at byte 24: expected at least 0, found -1"),
        ("", 0, 1, "BadShape in flat cross-chunk links, link_width at byte 0: expected 1 to 8, found 0"),
        ("", 2, 17, "LimitExceeded in flat cross-chunk links, rank at byte 0: expected 1 to 16, found 17"),
    ] {
        assert_eq!(FlatLinks::parse(&hex(blob), width, rank).unwrap_err().to_string(), message);
    }
}

#[rustfmt::skip]
#[test]
fn partitioned_links_round_trip() {
    let blob = hex("00 01 0200000000000000 0500000000000000 01 01 0000000000000000 ffffffffffffff7f");
    let links = PartitionedLinks::parse(&blob, 2, 2).unwrap();
    let found: Vec<_> = links.records().map(|record| record.endpoints().collect::<Vec<_>>()).collect();
    assert_eq!(found, [[(0, 2), (1, 5)], [(1, 0), (1, i64::MAX as u64)]]);
    assert_eq!((links.len(), links.is_empty()), (2, false));
    assert!(PartitionedLinks::parse(&[], 2, 2).unwrap().is_empty());
    for (blob, width, chunks, message) in [
        ("00 01 0200000000000000", 2, 2, "Misaligned in partitioned cross-chunk links, records at byte 0: expected a multiple of 18, found 10"),
        ("00 0200000000000000 02 0000000000000000", 1, 2, "OutOfBounds in partitioned cross-chunk links, slot at byte 9: expected at most 1, found 2"),
        ("00 0200000000000000 01 ffffffffffffffff", 1, 2, "Negative in partitioned cross-chunk links, vi at byte 10: expected at least 0, found -1"),
        ("", 9, 2, "LimitExceeded in partitioned cross-chunk links, link_width at byte 0: expected 1 to 8, found 9"),
    ] {
        assert_eq!(PartitionedLinks::parse(&hex(blob), width, chunks).unwrap_err().to_string(), message);
    }
}

fn any_shape() -> impl Strategy<Value = RowShape> {
    let element = prop_oneof![
        Just(LinkInteger::I8),
        Just(LinkInteger::U16),
        Just(LinkInteger::I32),
        Just(LinkInteger::U64),
        Just(LinkInteger::I64)
    ];
    (element, 1..5_usize, any::<bool>())
        .prop_map(|(element, width, has_perm)| RowShape::new(element, width, has_perm).unwrap())
}

fn any_groups() -> impl Strategy<Value = (RowShape, Vec<Vec<LinkRecord>>)> {
    any_shape().prop_flat_map(|shape| {
        let width = shape.link_width();
        let codes = (1..=width as u64).product::<u64>();
        let row = prop_oneof![0..100_u64, Just(shape.element().max_value())];
        let rows = prop::collection::vec(row, width);
        let link_record = (0..codes, rows)
            .prop_map(move |(code, rows)| record(shape.has_perm().then_some(code), &rows));
        let groups = prop::collection::vec(prop::collection::vec(link_record, 0..5), 0..5);
        (Just(shape), groups)
    })
}

fn slices(groups: &[Vec<LinkRecord>]) -> Vec<&[LinkRecord]> {
    groups.iter().map(Vec::as_slice).collect()
}

proptest! {
    #[test]
    fn encoded_cells_are_parsed((shape, groups) in any_groups()) {
        for body in [Body::Flat, Body::Inline] {
            let blob = encode(&slices(&groups), body, shape).unwrap();
            let cell = LinkCell::parse_strict(&blob, body, shape).unwrap();
            prop_assert!(cell.records().eq(groups.concat()));
            let (mut plain_rows, mut rows) = (vec![7], vec![7]);
            if cell.add_plain_rows(&mut plain_rows) {
                cell.records().for_each(|record| rows.extend_from_slice(record.rows()));
            }
            prop_assert_eq!((plain_rows, shape.has_perm()), (rows.clone(), shape.has_perm()));
            prop_assert!(!shape.has_perm() || rows == [7]);
        }
    }

    /// One wrong byte is refused, or makes other records that keep every promise and encode to it.
    #[test]
    fn one_byte_off((shape, groups) in any_groups(), at: prop::sample::Index, byte: u8) {
        for body in [Body::Flat, Body::Inline] {
            let mut blob = encode(&slices(&groups), body, shape).unwrap();
            if blob.is_empty() {
                continue;
            }
            *at.get_mut(&mut blob) = byte;
            let Ok(cell) = LinkCell::parse(&blob, body, shape) else { continue };
            let records: Vec<_> = cell.records().collect();
            prop_assert_eq!(records.len(), cell.len());
            for record in &records {
                prop_assert_eq!(record.perm().is_some(), shape.has_perm());
                prop_assert!(record.rows().iter().all(|vi| *vi <= shape.element().max_value()));
            }
            if body == Body::Flat {
                prop_assert_eq!(encode(&[&records], body, shape).unwrap(), blob);
            }
        }
    }

    /// Any bytes are parsed or refused without a panic.
    #[test]
    fn any_bytes(blob: Vec<u8>, shape in any_shape(), rank in 1..4_usize) {
        for body in [Body::Flat, Body::Inline] {
            if let Ok(cell) = LinkCell::parse(&blob, body, shape) {
                prop_assert_eq!(cell.records().count(), cell.len());
                prop_assert_eq!(cell.check_rows(&[0; 9]).is_err(), true);
            }
        }
        if let Ok(links) = FlatLinks::parse(&blob, shape.link_width(), rank) {
            prop_assert!(links.records().all(|record| record.endpoints().count() == shape.link_width()));
        }
        if let Ok(links) = PartitionedLinks::parse(&blob, shape.link_width(), 2) {
            prop_assert_eq!(links.len() * shape.link_width() * 9, blob.len());
        }
        let _: String = format!("{:?}", LinkCell::parse(&blob, Body::Inline, shape));
    }
}
