//! Tests of the vlen framing: golden bytes, one row per check, properties.

use std::string::ToString;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::fragment::tests::hex;

#[test]
fn golden_bytes_both_ways() {
    for (payload, bytes) in [
        ("000040c0 00008040", "01000000 08000000 000040c0 00008040"), // one vertex: -3, 4
        ("", "01000000 00000000"),
    ] {
        let (payload, bytes) = (hex(payload), hex(bytes));
        assert_eq!(encode_cell(&payload).unwrap(), bytes);
        assert_eq!(VlenCell::parse_strict(&bytes).unwrap().payload(), payload);
        let total = bytes.len() as u64;
        assert_eq!(VlenCell::payload_span(&bytes[..8], total).unwrap(), 8..total);
        assert_eq!(cell_header(payload.len() as u64).unwrap(), bytes[..8]);
    }
    #[rustfmt::skip]
    let rows: [(&[&[u8]], u32, &str); 4] = [
        (&[b"ab", b"", b"xyz"], 3, "03000000 02000000 6162 00000000 03000000 78797a"),
        (&[b"ab"], 3, "03000000 02000000 6162 00000000 00000000"),
        (&[], 2, "02000000 00000000 00000000"),
        (&[], 0, "00000000"),
    ];
    for (rows, count, bytes) in rows {
        let bytes = hex(bytes);
        assert_eq!(encode_rows(rows, count).unwrap(), bytes);
        let view = VlenRows::parse_strict(&bytes, count.into()).unwrap();
        let found: Vec<_> = view.iter().collect();
        assert_eq!((view.len(), view.is_empty()), (found.len(), found.is_empty()));
        assert_eq!(found[..rows.len()], *rows);
        assert!(found[rows.len()..].iter().all(|row| row.is_empty()));
    }
}

#[test]
fn every_check_of_a_cell_has_its_message() {
    #[rustfmt::skip]
    let table = [
        ("", "Truncated in vlen cell, header at byte 0: expected 8 bytes, found 0"),
        ("01000000 000000", "Truncated in vlen cell, header at byte 0: expected 8 bytes, found 7"),
        ("00000000 00000000", "CountMismatch in vlen cell, count at byte 0: expected 1, found 0"),
        ("02000000 00000000 00000000", "CountMismatch in vlen cell, count at byte 0: expected 1, found 2"),
        ("01000000 ffffffff 00", "Truncated in vlen cell, payload at byte 8: expected 4294967295 bytes, found 1"),
    ];
    for (bytes, message) in table {
        let bytes = hex(bytes);
        assert_eq!(VlenCell::parse(&bytes).unwrap_err().to_string(), message);
        let total = bytes.len() as u64;
        let head = &bytes[..bytes.len().min(8)];
        assert_eq!(VlenCell::payload_span(head, total).unwrap_err().to_string(), message);
    }
    // The length from the caller may be too short for the header.
    let error = VlenCell::payload_span(b"\x01\0\0\0\x01\0\0\0", 3).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Truncated in vlen cell, payload at byte 8: expected 1 bytes, found 0"
    );
}

#[test]
fn every_check_of_rows_has_its_message() {
    #[rustfmt::skip]
    let table = [
        ("", "Truncated in vlen rows, count at byte 0: expected 4 bytes, found 0"),
        ("ffffffff", "CountMismatch in vlen rows, count at byte 0: expected 2, found 4294967295"),
        ("01000000 00000000", "CountMismatch in vlen rows, count at byte 0: expected 2, found 1"),
        ("02000000 00000000 000000", "Truncated in vlen rows, items at byte 4: expected 8 bytes, found 7"),
        ("02000000 01000000 61 000000", "Truncated in vlen rows, length at byte 9: expected 4 bytes, found 3"),
        ("02000000 00000000 ffffffff 00", "Truncated in vlen rows, payload at byte 12: expected 4294967295 bytes, found 1"),
        ("02000000 05000000 00000000", "Truncated in vlen rows, payload at byte 8: expected 5 bytes, found 4"),
    ];
    for (bytes, message) in table {
        assert_eq!(VlenRows::parse(&hex(bytes), 2).unwrap_err().to_string(), message);
    }
}

#[test]
fn bytes_after_the_end_are_accepted_with_a_lint() {
    let (cell, rows) = (hex("01000000 01000000 61 00"), hex("01000000 01000000 61 0000"));
    let message = "Trailing in vlen cell, bytes after the end at byte 9: expected 0, found 1";
    assert_eq!(VlenCell::parse(&cell).unwrap().payload(), b"a");
    assert_eq!(VlenCell::payload_span(&cell, 10).unwrap(), 8..9);
    assert_eq!(VlenCell::parse_strict(&cell).unwrap_err().to_string(), message);
    let message = "Trailing in vlen rows, bytes after the end at byte 9: expected 0, found 2";
    assert!(VlenRows::parse(&rows, 1).unwrap().iter().eq([b"a"]));
    assert_eq!(VlenRows::parse_strict(&rows, 1).unwrap_err().to_string(), message);
}

#[test]
fn encoders_refuse_unencodable_rows() {
    assert_eq!(
        cell_header(1 << 32).unwrap_err().to_string(),
        "LimitExceeded in vlen cell, length at byte 4: expected at most 4294967295, found 4294967296"
    );
    assert!(cell_header((1 << 32) - 1).is_ok());
    assert_eq!(
        encode_rows(&[b"a", b"b"], 1).unwrap_err().to_string(),
        "CountMismatch in vlen rows, count at byte 0: expected at most 1, found 2"
    );
}

fn any_rows() -> impl Strategy<Value = Vec<Vec<u8>>> {
    prop::collection::vec(prop::collection::vec(any::<u8>(), 0..9), 0..20)
}

proptest! {
    /// Encoded rows are read back, by iteration and by index.
    #[test]
    fn round_trip(stored in any_rows(), padding in 0..4_u32) {
        let slices: Vec<_> = stored.iter().map(Vec::as_slice).collect();
        let count = stored.len() as u32 + padding;
        let bytes = encode_rows(&slices, count).unwrap();
        let rows = VlenRows::parse_strict(&bytes, count.into()).unwrap();
        let offsets = VlenOffsets::new(&rows);
        prop_assert_eq!((offsets.len(), offsets.is_empty()), (rows.len(), rows.is_empty()));
        prop_assert_eq!(rows.iter().len(), rows.len());
        for (i, row) in rows.iter().enumerate() {
            prop_assert_eq!(row, slices.get(i).copied().unwrap_or_default());
            prop_assert_eq!(offsets.row(&bytes, i), Some(row));
        }
        prop_assert_eq!(offsets.span(rows.len()), None);
    }

    /// Rows determine their own length.
    #[test]
    fn every_prefix_is_refused(stored in any_rows(), end: prop::sample::Index) {
        let slices: Vec<_> = stored.iter().map(Vec::as_slice).collect();
        let bytes = encode_rows(&slices, stored.len() as u32).unwrap();
        let error = VlenRows::parse(&bytes[..end.index(bytes.len())], stored.len() as u64);
        prop_assert_eq!(error.unwrap_err().class, Class::Truncated);
    }

    /// One wrong byte is refused, or makes other rows that encode to the same bytes.
    #[test]
    fn one_byte_off(stored in any_rows(), at: prop::sample::Index, byte: u8) {
        let slices: Vec<_> = stored.iter().map(Vec::as_slice).collect();
        let mut bytes = encode_rows(&slices, stored.len() as u32).unwrap();
        *at.get_mut(&mut bytes) = byte;
        if let Ok(rows) = VlenRows::parse(&bytes, stored.len() as u64) {
            let encoded =
                encode_rows(&rows.iter().collect::<Vec<_>>(), stored.len() as u32).unwrap();
            prop_assert!(bytes.starts_with(&encoded));
            prop_assert_eq!(rows.lints().is_empty(), encoded == bytes);
        }
    }
}
