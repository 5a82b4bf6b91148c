//! Tests of the ragged blob: golden bytes, one row per check, properties.

use std::string::ToString;
use std::vec;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::fragment::tests::hex;

/// Parses rows of two 64-bit numbers, as in the link cells of edges.
fn groups(blob: &[u8]) -> Vec<Vec<u8>> {
    Ragged::parse_strict(blob, 8, 2).unwrap().groups().map(<[u8]>::to_vec).collect()
}

#[rustfmt::skip]
const GOLDEN: [(&[&str], &str); 4] = [
    (&[], "0000000000000000"),
    (&["0000000000000000 0100000000000000 0200000000000000 0300000000000000",
       "0400000000000000 0500000000000000"],
     "0200000000000000 0000000000000000 2000000000000000
      0000000000000000 0100000000000000 0200000000000000 0300000000000000
      0400000000000000 0500000000000000"),
    (&["0500000000000000 0600000000000000", "0900000000000000 0100000000000000"],
     "0200000000000000 0000000000000000 1000000000000000
      0500000000000000 0600000000000000 0900000000000000 0100000000000000"),
    (&["", "0700000000000000 0800000000000000", ""],
     "0300000000000000 0000000000000000 0000000000000000 1000000000000000
      0700000000000000 0800000000000000"),
];

#[test]
fn golden_bytes_both_ways() {
    for (stored, blob) in GOLDEN {
        let stored: Vec<_> = stored.iter().map(|group| hex(group)).collect();
        let slices: Vec<_> = stored.iter().map(Vec::as_slice).collect();
        assert_eq!(encode(&slices, 8, 2).unwrap(), hex(blob), "encode");
        assert_eq!(groups(&hex(blob)), stored, "parse");
    }
}

#[test]
fn rows_continue_across_groups() {
    let blob = hex(GOLDEN[1].1);
    let ragged = Ragged::parse(&blob, 8, 2).unwrap();
    assert_eq!((ragged.len(), ragged.is_empty()), (2, false));
    assert_eq!(ragged.data(), &blob[24..]);
    assert_eq!(ragged.rows().collect::<Vec<_>>(), [&blob[24..40], &blob[40..56], &blob[56..]]);
    assert_eq!((ragged.group(1), ragged.group(2)), (Some(&blob[56..]), None));
}

#[test]
fn zero_bytes_are_zero_groups() {
    let ragged = Ragged::parse_strict(&[], 8, 3).unwrap();
    assert!(ragged.is_empty() && ragged.groups().next().is_none());
    assert_eq!((ragged.rows().len(), ragged.data()), (0, &[][..]));
}

#[rustfmt::skip]
const REFUSED: [(&str, &str); 12] = [
    ("00", "Truncated in ragged blob, K at byte 0: expected 8 bytes, found 1"),
    ("ffffffffffffffff", "Negative in ragged blob, K at byte 0: expected at least 0, found -1"),
    ("ffffffffffffff7f", "Overflow in ragged blob, offsets at byte 8: \
      expected 0 bytes, found 73786976294838206456"),
    ("ffffffffffffff1f 00", "Truncated in ragged blob, offsets at byte 8: \
      expected 18446744073709551608 bytes, found 1"),
    ("0500000000000000 0000000000000000",
     "Truncated in ragged blob, offsets at byte 8: expected 40 bytes, found 8"),
    ("0100000000000000 f0ffffffffffffff",
     "Negative in ragged blob, offset at byte 8: expected at least 0, found -16"),
    ("0200000000000000 1000000000000000 0000000000000000 0000000000000000 0000000000000000",
     "NotMonotonic in ragged blob, offset at byte 16: expected at least 16, found 0"),
    ("0200000000000000 0000000000000000 1100000000000000 0000000000000000 0000000000000000",
     "OutOfBounds in ragged blob, offset at byte 16: expected at most 16, found 17"),
    ("0200000000000000 0000000000000000 ffffffffffffff7f",
     "OutOfBounds in ragged blob, offset at byte 16: expected at most 0, found 9223372036854775807"),
    // The last group ends with the blob.
    ("0200000000000000 0000000000000000 1000000000000000 0000000000000000 0000000000000000 010203",
     "Misaligned in ragged blob, bytes of a group at byte 40: expected a multiple of 16, found 3"),
    ("0200000000000000 0000000000000000 0800000000000000 0000000000000000 0000000000000000",
     "Misaligned in ragged blob, bytes of a group at byte 24: expected a multiple of 16, found 8"),
    // A complete item, and half a row.
    ("0100000000000000 0000000000000000 0000000000000000",
     "Misaligned in ragged blob, bytes of a group at byte 16: expected a multiple of 16, found 8"),
];

#[test]
fn every_check_has_its_message() {
    for (blob, message) in REFUSED {
        assert_eq!(Ragged::parse(&hex(blob), 8, 2).unwrap_err().to_string(), message);
    }
}

#[test]
fn rows_have_a_width() {
    for (itemsize, ncols, message) in [
        (0, 1, "BadShape in ragged blob, itemsize at byte 0: expected 1, 2, 4 or 8, found 0"),
        (3, 1, "BadShape in ragged blob, itemsize at byte 0: expected 1, 2, 4 or 8, found 3"),
        (16, 1, "BadShape in ragged blob, itemsize at byte 0: expected 1, 2, 4 or 8, found 16"),
        (8, 0, "BadShape in ragged blob, ncols at byte 0: expected at least 1, found 0"),
    ] {
        assert_eq!(Ragged::parse(&[], itemsize, ncols).unwrap_err().to_string(), message);
        assert_eq!(encode(&[], itemsize, ncols).unwrap_err().to_string(), message);
    }
    for itemsize in [1, 2, 4, 8] {
        assert!(Ragged::parse(&[], itemsize, u32::MAX >> 3).is_ok());
    }
    assert_eq!(
        encode(&[&[0; 16], &[0; 8]], 8, 2).unwrap_err().to_string(),
        "Misaligned in ragged blob, bytes of a group at byte 16: expected a multiple of 16, found 8"
    );
}

#[rustfmt::skip]
const LINTED: [(&str, &str); 2] = [
    ("0100000000000000 1000000000000000
      0000000000000000 0000000000000000 0500000000000000 0600000000000000",
     "NotMonotonic in ragged blob, offset at byte 8: expected 0, found 16"),
    ("0000000000000000 00000000",
     "Trailing in ragged blob, bytes after the end at byte 8: expected 0, found 4"),
];

#[test]
fn bytes_outside_of_groups_are_accepted_with_a_lint() {
    for (blob, message) in LINTED {
        let blob = hex(blob);
        let lints = Ragged::parse(&blob, 8, 2).unwrap().lints();
        assert_eq!(lints.iter().map(ToString::to_string).collect::<Vec<_>>(), [message]);
        assert_eq!(Ragged::parse_strict(&blob, 8, 2).unwrap_err().to_string(), message);
    }
    let gap = hex(LINTED[0].0);
    assert_eq!(Ragged::parse(&gap, 8, 2).unwrap().rows().collect::<Vec<_>>(), [&gap[32..]]);
    assert_eq!(Ragged::parse(&[0; 12], 8, 2).unwrap().data(), &[0_u8; 0]);
}

fn any_groups() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let row = prop::collection::vec(any::<u8>(), 6);
    prop::collection::vec(prop::collection::vec(row, 0..5).prop_map(|rows| rows.concat()), 0..8)
}

proptest! {
    /// Built groups and their concatenation are read back.
    #[test]
    fn round_trip(stored in any_groups()) {
        let slices: Vec<_> = stored.iter().map(Vec::as_slice).collect();
        let blob = encode(&slices, 2, 3).unwrap();
        let ragged = Ragged::parse_strict(&blob, 2, 3).unwrap();
        prop_assert_eq!(ragged.groups().collect::<Vec<_>>(), slices);
        prop_assert_eq!(ragged.rows().collect::<Vec<_>>().concat(), stored.concat());
    }

    /// One wrong byte is refused, or makes another blob that keeps every promise.
    #[test]
    fn one_byte_off(stored in any_groups(), at: prop::sample::Index, byte: u8) {
        let slices: Vec<_> = stored.iter().map(Vec::as_slice).collect();
        let mut blob = encode(&slices, 2, 3).unwrap();
        *at.get_mut(&mut blob) = byte;
        if let Ok(ragged) = Ragged::parse(&blob, 2, 3) {
            let groups: Vec<_> = ragged.groups().collect();
            prop_assert_eq!(groups.len(), ragged.len());
            prop_assert!(groups.iter().all(|group| group.len() % 6 == 0));
            prop_assert_eq!(groups.concat(), ragged.data());
            prop_assert_eq!(
                Ragged::parse_strict(&blob, 2, 3).is_ok(),
                encode(&groups, 2, 3).unwrap() == blob
            );
        }
    }

    /// A prefix is refused, unless it ends on the border of a row of the last group.
    #[test]
    fn prefixes_are_refused_within_rows(stored in any_groups(), end: prop::sample::Index) {
        let slices: Vec<_> = stored.iter().map(Vec::as_slice).collect();
        let blob = encode(&slices, 2, 3).unwrap();
        let end = end.index(blob.len());
        let last = blob.len() - slices.last().map_or(0, |group| group.len());
        let is_valid = end == 0 || (end >= last && (end - last).is_multiple_of(6));
        prop_assert_eq!(Ragged::parse(&blob[..end], 2, 3).is_ok(), is_valid);
    }
}

#[test]
fn one_item_a_row() {
    let blob = encode(&[&[1, 2, 3]], 1, 1).unwrap();
    let ragged = Ragged::parse(&blob, 1, 1).unwrap();
    assert_eq!(ragged.rows().collect::<Vec<_>>(), vec![[1], [2], [3]]);
}
