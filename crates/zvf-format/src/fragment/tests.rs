//! Tests of the fragment index: golden bytes, one row per check, and a naive decoder.

use std::string::{String, ToString};
use std::vec;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::error::{Class, Found, Hint};

/// Returns bytes from hexadecimal digits; blanks are ignored.
pub(crate) fn hex(digits: &str) -> Vec<u8> {
    let digits: Vec<char> = digits.chars().filter(|c| !c.is_whitespace()).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(&String::from_iter(pair), 16).unwrap()).collect()
}

/// A fragment that owns its rows.
#[derive(Clone, Debug, PartialEq)]
enum Owned {
    Range(u64, u64),
    Rows(Vec<u64>),
}

use Owned::{Range, Rows};

struct Golden {
    name: &'static str,
    fragments: Vec<Owned>,
    blob: &'static str,
}

#[rustfmt::skip]
fn golden() -> Vec<Golden> {
    vec![
        Golden { name: "none", fragments: vec![], blob: "4746565a 0100 0000 00000000 00000000" },
        Golden { name: "two ranges", fragments: vec![Range(0, 3), Range(3, 2)], blob: "
            4746565a 0100 0000 02000000 02000000 0300000000000000
            0000000000000000 0300000000000000 0300000000000000 0200000000000000
            00000000" },
        Golden { name: "empty bins", fragments: vec![Range(0, 1), Range(1, 0), Range(1, 0), Range(1, 0)], blob: "
            4746565a 0100 0000 04000000 04000000 0f00000000000000
            0000000000000000 0100000000000000 0100000000000000 0000000000000000
            0100000000000000 0000000000000000 0100000000000000 0000000000000000
            00000000" },
        Golden { name: "ranges and lists", fragments: vec![Range(0, 3), Rows(vec![3, 5, 4]), Range(6, 2), Rows(vec![0, 2])], blob: "
            4746565a 0100 0000 04000000 02000000 0500000000000000
            0000000000000000 0300000000000000 0600000000000000 0200000000000000
            00000000 03000000 05000000
            0300000000000000 0500000000000000 0400000000000000 0000000000000000 0200000000000000" },
        Golden { name: "one list", fragments: vec![Range(0, 4), Rows(vec![12, 7, 19]), Range(20, 8)], blob: "
            4746565a 0100 0000 03000000 02000000 0500000000000000
            0000000000000000 0400000000000000 1400000000000000 0800000000000000
            00000000 03000000
            0c00000000000000 0700000000000000 1300000000000000" },
        Golden { name: "an empty list stays one", fragments: vec![Rows(vec![])], blob: "
            4746565a 0100 0000 01000000 00000000 0000000000000000 00000000 00000000" },
        Golden { name: "the last row there can be", fragments: vec![Rows(vec![i64::MAX as u64])], blob: "
            4746565a 0100 0000 01000000 00000000 0000000000000000 00000000 01000000 ffffffffffffff7f" },
    ]
}

fn build(fragments: &[Owned]) -> Vec<u8> {
    let mut builder = FragmentIndexBuilder::new();
    for fragment in fragments {
        match fragment {
            Range(start, count) => builder.push_range(*start, *count).unwrap(),
            Rows(rows) => builder.push_rows(rows).unwrap(),
        }
    }
    builder.encode()
}

fn owned(fragment: Fragment<'_>) -> Owned {
    match fragment {
        Fragment::Range { start, count } => Range(start, count),
        Fragment::Rows(rows) => Rows(rows.iter().map(|row| row.get() as u64).collect()),
    }
}

fn decode(blob: &[u8]) -> Vec<Owned> {
    FragmentIndex::parse_strict(blob).unwrap().iter().map(owned).collect()
}

#[test]
fn golden_bytes_both_ways() {
    for Golden { name, fragments, blob } in golden() {
        assert_eq!(build(&fragments), hex(blob), "encode, {name}");
        assert_eq!(decode(&hex(blob)), fragments, "parse, {name}");
    }
}

#[test]
fn nine_ranges_need_two_bytes_of_bits() {
    let blob = build(&(0..9).map(|i| Range(i, 1)).collect::<Vec<_>>());
    let head =
        "4746565a 0100 0000 09000000 09000000 ff01000000000000 0000000000000000 0100000000000000";
    assert_eq!(blob[..40], hex(head));
    assert_eq!(blob.len(), 24 + 9 * 16 + 4);
}

#[test]
fn lists_that_ascend_by_one_become_ranges() {
    for (rows, stored) in [
        (vec![4, 5, 6], Range(4, 3)),
        (vec![7], Range(7, 1)),
        (vec![6, 5], Rows(vec![6, 5])),
        (vec![4, 4], Rows(vec![4, 4])),
        (vec![4, 6], Rows(vec![4, 6])),
        (vec![], Rows(vec![])),
    ] {
        assert_eq!(decode(&build(&[Rows(rows)])), [stored]);
    }
    let promoted = "4746565a 0100 0000 01000000 01000000 0100000000000000
        0400000000000000 0300000000000000 00000000";
    assert_eq!(build(&[Rows(vec![4, 5, 6])]), hex(promoted));
    // Readers return a list of another writer as a list.
    let list = "4746565a 0100 0000 01000000 00000000 0000000000000000 00000000 02000000
        0400000000000000 0500000000000000";
    assert_eq!(decode(&hex(list)), [Rows(vec![4, 5])]);
}

#[rustfmt::skip]
const REFUSED: [(&str, &str); 20] = [
    ("",
     "Truncated in fragment index, header at byte 0: expected 16 bytes, found 0"),
    ("4746565b 0100 0000 00000000 000000",
     "Truncated in fragment index, header at byte 0: expected 16 bytes, found 15"),
    ("4746565b 0200 0000 00000000 01000000",
     "BadMagic in fragment index, magic at byte 0: expected 47 46 56 5a, found 47 46 56 5b"),
    ("4746565a 0200 0100 00000000 01000000",
     "UnsupportedVersion in fragment index, version at byte 4: expected 1, found 2"),
    ("4746565a 0100 0080 00000000 01000000",
     "UnsupportedFlags in fragment index, flags at byte 6: expected 0, found 32768"),
    ("4746565a 0100 0000 00000000 01000000",
     "CountMismatch in fragment index, R at byte 12: expected at most 0, found 1"),
    ("4746565a 0100 0000 ffffffff 00000000",
     "Truncated in fragment index, bitmap at byte 16: expected 536870912 bytes, found 0"),
    ("4746565a 0100 0000 01000010 01000010 0000000000000000",
     "Truncated in fragment index, bitmap at byte 16: expected 33554440 bytes, found 8"),
    ("4746565a 0100 0000 02000000 02000000 0300000000000000 0000000000000000 0000000000000000 00",
     "Truncated in fragment index, ranges at byte 24: expected 32 bytes, found 17"),
    ("4746565a 0100 0000 01000000 00000000 0000000000000000 00000000",
     "Truncated in fragment index, csr at byte 24: expected 8 bytes, found 4"),
    ("4746565a 0100 0000 02000000 01000000 0300000000000000
      0000000000000000 0400000000000000 00000000 00000000",
     "CountMismatch in fragment index, set bits of the bitmap at byte 16: expected 1, found 2"),
    // The only set bit is past F.
    ("4746565a 0100 0000 01000000 01000000 0200000000000000
      0000000000000000 0400000000000000 00000000",
     "CountMismatch in fragment index, set bits of the bitmap at byte 16: expected 1, found 0"),
    ("4746565a 0100 0000 01000000 00000000 0000000000000000 00000000 02000000 0000000000000000",
     "Truncated in fragment index, indices at byte 32: expected 16 bytes, found 8"),
    ("4746565a 0100 0000 01000000 00000000 0000000000000000 01000000 01000000 ffffffffffffffff",
     "NotMonotonic in fragment index, csr at byte 24: expected 0, found 1"),
    ("4746565a 0100 0000 02000000 00000000 0000000000000000 00000000 ffffffff 00000000",
     "NotMonotonic in fragment index, csr at byte 32: expected at least 4294967295, found 0"),
    ("4746565a 0100 0000 01000000 01000000 0100000000000000
      ffffffffffffffff 0500000000000000 00000000",
     "Negative in fragment index, start at byte 24: expected at least 0, found -1"),
    ("4746565a 0100 0000 02000000 02000000 0300000000000000
      0000000000000000 0100000000000000 0500000000000000 fcffffffffffffff 00000000",
     "Negative in fragment index, count at byte 48: expected at least 0, found -4"),
    ("4746565a 0100 0000 01000000 01000000 0100000000000000
      ffffffffffffff7f 0100000000000000 00000000",
     "Overflow in fragment index, start + count at byte 24: \
      expected at most 9223372036854775807, found 9223372036854775808"),
    ("4746565a 0100 0000 01000000 00000000 0000000000000000 00000000 02000000
      0000000000000000 feffffffffffffff",
     "Negative in fragment index, index at byte 40: expected at least 0, found -2"),
    // Faults are reported in the order of the bytes: a range before an index.
    ("4746565a 0100 0000 02000000 01000000 0100000000000000
      0000000000000000 ffffffffffffffff 00000000 01000000 ffffffffffffffff",
     "Negative in fragment index, count at byte 32: expected at least 0, found -1"),
];

#[test]
fn a_magic_in_the_other_byte_order_has_a_hint() {
    for (magic, hint) in [
        ("5a564647", Some(Hint::LittleEndian)), // "ZVFG"
        ("4746565b", None),
        ("00000000", None),
    ] {
        let blob = hex(&[magic, " 0100 0000 00000000 00000000"].concat());
        let error = FragmentIndex::parse(&blob).unwrap_err();
        assert_eq!((error.class, error.hint()), (Class::BadMagic, hint), "{magic}");
    }
}

#[test]
fn every_check_has_its_message() {
    for (blob, message) in REFUSED {
        let error = FragmentIndex::parse(&hex(blob)).unwrap_err();
        assert_eq!(error.to_string(), message);
    }
}

#[rustfmt::skip]
const LINTED: [(&str, &[&str]); 4] = [
    ("4746565a 0100 0000 01000000 01000000 01ff000000000080
      0000000000000000 0400000000000000 00000000",
     &["NonCanonical in fragment index, bits past F at byte 17: expected 0, found 255",
       "NonCanonical in fragment index, bits past F at byte 23: expected 0, found 128"]),
    ("4746565a 0100 0000 02000000 01000000 fd00000000000000
      0000000000000000 0400000000000000 00000000 00000000",
     &["NonCanonical in fragment index, bits past F at byte 16: expected 0, found 252"]),
    ("4746565a 0100 0000 00000000 00000000 00 01",
     &["Trailing in fragment index, bytes after the end at byte 16: expected 0, found 2"]),
    ("4746565a 0100 0000 01000000 00000000 0200000000000000 00000000 01000000
      0000000000000000 00",
     &["NonCanonical in fragment index, bits past F at byte 16: expected 0, found 2",
       "Trailing in fragment index, bytes after the end at byte 40: expected 0, found 1"]),
];

#[test]
fn non_canonical_blobs_are_accepted_with_lints() {
    for (blob, messages) in LINTED {
        let blob = hex(blob);
        let lints = FragmentIndex::parse(&blob).unwrap().lints();
        let found: Vec<_> = lints.iter().map(ToString::to_string).collect();
        assert_eq!(found, messages);
        let strict = FragmentIndex::parse_strict(&blob).unwrap_err();
        assert_eq!(strict.to_string(), messages[0]);
    }
}

#[test]
fn rows_are_checked_against_the_payload() {
    let mixed = build(&[Range(0, 3), Rows(vec![3, 9, 4]), Range(10, 0)]);
    let index = FragmentIndex::parse(&mixed).unwrap();
    assert_eq!((index.extent(), index.check_rows(10)), (10, Ok(())));
    let message = |rows| index.check_rows(rows).unwrap_err().to_string();
    assert_eq!(
        message(9),
        "OutOfBounds in fragment index, start + count at byte 40: expected at most 9, found 10"
    );
    assert_eq!(
        message(2),
        "OutOfBounds in fragment index, start + count at byte 24: expected at most 2, found 3"
    );

    let listed = build(&[Rows(vec![3, 9, 4])]);
    let index = FragmentIndex::parse(&listed).unwrap();
    assert_eq!(index.check_rows(10), Ok(()));
    assert_eq!(
        index.check_rows(9).unwrap_err().to_string(),
        "OutOfBounds in fragment index, index at byte 40: expected at most 8, found 9"
    );

    let last = build(&[Rows(vec![i64::MAX as u64])]);
    let index = FragmentIndex::parse(&last).unwrap();
    assert_eq!((index.extent(), index.check_rows(1 << 63)), (1 << 63, Ok(())));
    assert_eq!(index.check_rows((1 << 63) - 1).unwrap_err().class, Class::OutOfBounds);
}

#[test]
fn tiling_needs_ranges_in_order_without_gaps() {
    for (fragments, rows, tiles) in [
        (vec![], 0, false),
        (vec![Range(0, 0)], 0, true),
        (vec![Range(0, 3), Range(3, 0), Range(3, 2)], 5, true),
        (vec![Range(0, 3), Range(3, 2)], 6, false),
        (vec![Range(1, 3)], 4, false),
        (vec![Range(0, 3), Range(4, 1)], 5, false),
        (vec![Range(3, 2), Range(0, 3)], 5, false),
        (vec![Range(0, 5), Rows(vec![])], 5, false),
    ] {
        let blob = build(&fragments);
        assert_eq!(FragmentIndex::parse(&blob).unwrap().tiles(rows), tiles, "{fragments:?}");
    }
}

#[test]
fn counts_that_overflow_their_type_are_reported() {
    let half = i64::MAX as u64;
    let blob = build(&[Range(0, half), Range(0, half), Range(0, 1)]);
    assert_eq!(FragmentIndex::parse(&blob).unwrap().rows_total(), Some(u64::MAX));
    let blob = build(&[Range(0, half), Range(0, half), Rows(vec![8, 8])]);
    assert_eq!(FragmentIndex::parse(&blob).unwrap().rows_total(), None);
}

#[test]
fn ranges_expand_under_a_cap_only() {
    let fragment = Fragment::Range { start: 2, count: 3 };
    assert_eq!(fragment.rows_within(3).unwrap().collect::<Vec<_>>(), [2, 3, 4]);
    assert_eq!(
        fragment.rows_within(2).unwrap_err().to_string(),
        "LimitExceeded in fragment index, rows of a fragment at byte 0: expected at most 2, found 3"
    );
}

#[test]
fn the_last_row_is_found_without_a_walk() {
    assert_eq!(Fragment::Range { start: 5, count: 1 << 62 }.rows().last(), Some((1 << 62) + 4));
    assert_eq!(Fragment::Range { start: 5, count: 0 }.rows().last(), None);
    let listed = build(&[Rows(vec![3, 9, 4]), Rows(vec![])]);
    let index = FragmentIndex::parse(&listed).unwrap();
    let last: Vec<_> = index.iter().map(|fragment| fragment.rows().last()).collect();
    assert_eq!(last, [Some(4), None]);
}

#[test]
fn the_builder_refuses_what_the_parser_refuses() {
    let mut builder = FragmentIndexBuilder::new();
    let max = i64::MAX as u64;
    for (error, class, found) in [
        (builder.push_range(max, 1), Class::Overflow, 1 << 63),
        (builder.push_range(u64::MAX, u64::MAX), Class::Overflow, (1 << 65) - 2),
        (builder.push_rows(&[3, max + 1]), Class::Overflow, 1 << 63),
        (builder.push_rows(&[u64::MAX]), Class::Overflow, i128::from(u64::MAX)),
    ] {
        let error = error.unwrap_err();
        assert_eq!((error.class, error.found), (class, Found::Int(found)));
    }
    assert_eq!(builder.encode(), hex("4746565a 0100 0000 00000000 00000000"));
}

/// Decodes according to the layout table, bit by bit and number by number.
fn naive(blob: &[u8]) -> Vec<Owned> {
    let u32_at = |at: usize| u32::from_le_bytes(blob[at..at + 4].try_into().unwrap());
    let u64_at = |at: usize| u64::from_le_bytes(blob[at..at + 8].try_into().unwrap());
    let (f, r) = (u32_at(8) as usize, u32_at(12) as usize);
    let ranges = 16 + f.div_ceil(64) * 8;
    let csr = ranges + 16 * r;
    let indices = csr + if f == 0 { 0 } else { 4 * (f - r + 1) };
    let (mut range, mut list) = (0, 0);
    let next = |i| {
        if blob[16 + i / 8] >> (i % 8) & 1 == 1 {
            range += 1;
            let at = ranges + 16 * (range - 1);
            return Range(u64_at(at), u64_at(at + 8));
        }
        list += 1;
        let (from, to) = (u32_at(csr + 4 * (list - 1)), u32_at(csr + 4 * list));
        Rows((from..to).map(|i| u64_at(indices + 8 * i as usize)).collect())
    };
    (0..f).map(next).collect()
}

/// Calls every method of an index and compares with the naive decoder.
fn agrees(blob: &[u8]) {
    let (index, naive) = (FragmentIndex::parse(blob).unwrap(), naive(blob));
    assert_eq!(index.iter().map(owned).collect::<Vec<_>>(), naive);
    assert_eq!(index.iter().size_hint(), (naive.len(), Some(naive.len())));
    assert_eq!((index.len(), index.is_empty()), (naive.len() as u64, naive.is_empty()));
    let table = RankTable::new(&index);
    for (f, fragment) in (0..).zip(&naive) {
        assert_eq!(owned(index.get(f).unwrap()), *fragment, "get {f}");
        assert_eq!(owned(table.get(&index, f).unwrap()), *fragment, "table {f}");
        assert_eq!(index.is_range(f), Some(matches!(fragment, Range(..))), "is_range {f}");
        assert_eq!(index.row_count(f), Some(row_count(fragment)), "row_count {f}");
    }
    for past in [naive.len() as u64, 64 * naive.len().div_ceil(64) as u64, u64::MAX] {
        assert!(index.get(past).is_none() && index.is_range(past).is_none(), "past {past}");
        assert!(table.get(&index, past).is_none() && index.row_count(past).is_none());
    }
    let total = naive.iter().try_fold(0_u64, |sum, f| sum.checked_add(row_count(f)));
    assert_eq!(index.rows_total(), total);
    assert_eq!(index.extent(), naive.iter().map(reach).max().unwrap_or(0));
}

fn row_count(fragment: &Owned) -> u64 {
    match fragment {
        Range(_, count) => *count,
        Rows(rows) => rows.len() as u64,
    }
}

fn reach(fragment: &Owned) -> u64 {
    match fragment {
        Range(start, count) => start + count,
        Rows(rows) => rows.iter().map(|row| row + 1).max().unwrap_or(0),
    }
}

#[test]
fn every_word_border_is_crossed() {
    // The interpreter is slow, and all borders are alike.
    let sizes = [65, 1, 63, 64, 127, 128, 129, 200];
    for n in sizes.into_iter().take(if cfg!(miri) { 1 } else { sizes.len() }) {
        for period in [1, 2, 3, 64] {
            let fragment =
                |i: u64| if i.is_multiple_of(period) { Range(i, 2) } else { Rows(vec![i, i]) };
            let listed = |i: u64| if i.is_multiple_of(period) { Rows(vec![]) } else { Range(i, 2) };
            agrees(&build(&(0..n).map(fragment).collect::<Vec<_>>()));
            agrees(&build(&(0..n).map(listed).collect::<Vec<_>>()));
        }
    }
}

fn any_fragments() -> impl Strategy<Value = Vec<Owned>> {
    let fragment = prop_oneof![
        4 => (0..1_000_u64, 0..50_u64).prop_map(|(start, count)| Range(start, count)),
        1 => (0..1_u64 << 62, 0..1_u64 << 62).prop_map(|(start, count)| Range(start, count)),
        3 => prop::collection::vec(0..1_000_u64, 0..6).prop_map(Rows),
    ];
    prop::collection::vec(fragment, 0..150)
}

proptest! {
    /// Built fragments are read back by every method.
    #[test]
    fn round_trip(fragments in any_fragments()) {
        let blob = build(&fragments);
        agrees(&blob);
        let checked = FragmentIndex::parse(&blob).unwrap();
        let owned = FragmentBlob::parse(&blob).unwrap();
        let unchecked = owned.view();
        prop_assert!(unchecked.iter().eq(checked.iter()) && unchecked.len() == checked.len());
        let mut rebuilt = FragmentIndexBuilder::new();
        for fragment in &FragmentIndex::parse_strict(&blob).unwrap() {
            rebuilt.push_fragment(fragment).unwrap();
        }
        prop_assert_eq!(rebuilt.encode(), blob);
    }

    /// A blob that was not parsed before gives wrong values, and never a panic.
    #[test]
    fn unparsed_blobs_cause_no_panic(fragments in any_fragments(), at: prop::sample::Index, bytes: [u8; 9]) {
        let mut blob = build(&fragments);
        let at = at.index(blob.len());
        blob.iter_mut().skip(at).zip(bytes).for_each(|(to, byte)| *to = byte);
        if let Ok(index) = FragmentIndex::read(&blob, false) {
            let (_, _, _) = (index.extent(), index.rows_total(), index.tiles(9));
            prop_assert!(index.check_rows(9).is_ok() || index.extent() > 9);
            let row_counts = index.iter().map(|fragment| fragment.rows().take(9).count());
            prop_assert!(row_counts.count() as u64 <= index.len());
            let _ = (0..9).filter_map(|f| index.get(f)).count();
        }
    }

    /// A blob determines its own length.
    #[test]
    fn every_prefix_is_refused(fragments in any_fragments(), end: prop::sample::Index) {
        let blob = build(&fragments);
        let end = end.index(blob.len());
        prop_assert_eq!(FragmentIndex::parse(&blob[..end]).unwrap_err().class, Class::Truncated);
    }

    /// One wrong byte is refused, or makes another index that keeps every promise.
    #[test]
    fn one_byte_off(fragments in any_fragments(), at: prop::sample::Index, byte: u8) {
        let mut blob = build(&fragments);
        *at.get_mut(&mut blob) = byte;
        if let Ok(index) = FragmentIndex::parse(&blob) {
            agrees(&blob);
            prop_assert!(index.iter().all(|f| f.rows().take(9).all(|row| row < 1 << 63)));
            prop_assert_eq!(index.check_rows(index.extent()), Ok(()));
            prop_assert_eq!(
                FragmentIndex::parse_strict(&blob).is_ok(),
                index.lints().is_empty()
            );
        }
    }
}
