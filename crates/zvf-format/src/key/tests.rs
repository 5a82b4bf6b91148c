//! Keys and segments: parsing, printing, and both orders.

use std::format;
use std::string::{String, ToString};
use std::vec::Vec;

use proptest::prelude::*;

use super::*;

const MIN: &str = "-9223372036854775808";
const MAX: &str = "9223372036854775807";

#[test]
fn keys_round_trip() {
    let sixteen = &[1; 16][..];
    for (text, components) in [
        ("0", &[0][..]),
        ("3.0.-1", &[3, 0, -1]),
        ("-12.10", &[-12, 10]),
        (MIN, &[i64::MIN]),
        (MAX, &[i64::MAX]),
        ("1.1.1.1.1.1.1.1.1.1.1.1.1.1.1.1", sixteen),
    ] {
        let key = ChunkKey::new(components).unwrap();
        assert_eq!(key.to_string(), text);
        assert_eq!(text.parse::<ChunkKey>().unwrap(), key);
        assert_eq!(format!("{key:?}"), format!("ChunkKey({text})"));
        assert_eq!((key.components(), key.rank()), (components, components.len()));
    }
}

#[rustfmt::skip]
#[test]
fn invalid_keys_are_refused() {
    for (text, message) in [
        ("", "InvalidKey in chunk key, component at byte 0: expected a decimal number, found no digits"),
        ("1.", "InvalidKey in chunk key, component at byte 2: expected a decimal number, found no digits"),
        ("1.-", "InvalidKey in chunk key, component at byte 2: expected a decimal number, found no digits"),
        ("1.+2", "InvalidKey in chunk key, component at byte 2: expected a number without plus, found a plus"),
        ("01", "InvalidKey in chunk key, component at byte 0: expected no zero before other digits, found a zero"),
        ("-01", "InvalidKey in chunk key, component at byte 0: expected no zero before other digits, found a zero"),
        ("-0", "InvalidKey in chunk key, component at byte 0: expected 0, found -0"),
        ("1. 2", "InvalidKey in chunk key, component at byte 2: expected a decimal number, found another character"),
        ("1_0", "InvalidKey in chunk key, component at byte 0: expected a decimal number, found another character"),
        ("--1", "InvalidKey in chunk key, component at byte 0: expected a decimal number, found another character"),
        ("٣", "InvalidKey in chunk key, component at byte 0: expected a decimal number, found another character"),
        ("9223372036854775808", "Overflow in chunk key, component at byte 0: expected a number of 64 bits, found a longer one"),
        ("-9223372036854775809", "Overflow in chunk key, component at byte 0: expected a number of 64 bits, found a longer one"),
        ("1.1.1.1.1.1.1.1.1.1.1.1.1.1.1.1.1", "LimitExceeded in chunk key, rank at byte 32: expected 1 to 16, found 17"),
    ] {
        assert_eq!(text.parse::<ChunkKey>().unwrap_err().to_string(), message, "{text}");
    }
    assert_eq!(ChunkKey::new(&[]).unwrap_err().to_string(), "BadShape in chunk key, rank at byte 0: expected 1 to 16, found 0");
    assert_eq!(ChunkKey::new(&[0; 17]).unwrap_err().to_string(), "LimitExceeded in chunk key, rank at byte 0: expected 1 to 16, found 17");
    assert_eq!(ChunkKey::new(&[0; 256]).unwrap_err().to_string(), "LimitExceeded in chunk key, rank at byte 0: expected 1 to 16, found 256");
}

#[test]
fn numeric_and_string_order_differ() {
    let numeric = ["-10.5", "-2.0", "0.-1", "0.0", "1.-3", "1.2", "1.2.0", "2.0", "10.0"];
    let string = ["-10.5", "-2.0", "0.-1", "0.0", "1.-3", "1.2", "1.2.0", "10.0", "2.0"];
    let mut keys = numeric.map(|text| text.parse::<ChunkKey>().unwrap());
    keys.sort_by(ChunkKey::cmp_string);
    assert_eq!(keys.map(|key| key.to_string()), string);
    keys.sort_by(ChunkKey::cmp_numeric);
    assert_eq!(keys.map(|key| key.to_string()), numeric);
}

#[test]
fn the_bin_of_an_attribute_is_in_front_of_space() {
    let key = ChunkKey::new(&[4, 0, -2]).unwrap();
    assert_eq!(key.spatial(2), Some(&[0, -2][..]));
    assert_eq!(key.spatial(3), Some(key.components()));
    assert_eq!(key.spatial(4), None);
}

#[test]
fn cell_keys_round_trip() {
    for (text, sid_ndim, chunks) in [
        ("0.0.1.0", 2, &[&[0, 0][..], &[1, 0]][..]),
        ("-1.2.3", 1, &[&[-1], &[2], &[3]]),
        ("5.-6.7", 3, &[&[5, -6, 7]]),
    ] {
        let keys: Vec<_> = chunks.iter().map(|chunk| ChunkKey::new(chunk).unwrap()).collect();
        let cell = CellKey::new(&keys).unwrap();
        assert_eq!(cell.to_string(), text);
        assert_eq!(CellKey::split(text, sid_ndim, keys.len()).unwrap(), cell);
        assert_eq!(cell.chunks(), keys);
    }
}

#[rustfmt::skip]
#[test]
fn invalid_cell_keys_are_refused() {
    for (text, sid_ndim, width, message) in [
        ("0.0.1", 2, 2, "CountMismatch in chunk key, components at byte 5: expected 4, found 3"),
        ("0.0.1.0.0", 2, 2, "CountMismatch in chunk key, components at byte 8: expected 4, found 5"),
        ("0.0.1.+0", 2, 2, "InvalidKey in chunk key, component at byte 6: expected a number without plus, found a plus"),
        ("0", 0, 2, "BadShape in chunk key, rank at byte 0: expected 1 to 16, found 0"),
        ("0", 17, 1, "LimitExceeded in chunk key, rank at byte 0: expected 1 to 16, found 17"),
        ("0", 1, 0, "BadShape in chunk key, link_width at byte 0: expected 1 to 8, found 0"),
        ("0", 1, 9, "LimitExceeded in chunk key, link_width at byte 0: expected 1 to 8, found 9"),
    ] {
        assert_eq!(CellKey::split(text, sid_ndim, width).unwrap_err().to_string(), message, "{text}");
    }
    let mixed = [ChunkKey::new(&[0, 0]).unwrap(), ChunkKey::new(&[0]).unwrap()];
    assert_eq!(CellKey::new(&mixed).unwrap_err().to_string(), "CountMismatch in chunk key, components at byte 0: expected 2, found 1");
    assert_eq!(CellKey::new(&[]).unwrap_err().to_string(), "BadShape in chunk key, link_width at byte 0: expected 1 to 8, found 0");
}

#[test]
fn paths_round_trip() {
    for (key, origin, text) in [
        (&[-1, 0][..], &[-1, 0][..], "c/0/0"),
        (&[1, 7, -3], &[-1, 0, -13], "c/2/7/10"),
        (&[i64::MAX], &[1], "c/9223372036854775806"),
    ] {
        let key = ChunkKey::new(key).unwrap();
        let path = ChunkPath::from_key(&key, origin).unwrap();
        assert_eq!(path.to_string(), text);
        assert_eq!(text.parse::<ChunkPath>().unwrap(), path);
        assert_eq!(path.key(origin).unwrap(), key);
    }
}

#[rustfmt::skip]
#[test]
fn invalid_paths_are_refused() {
    for (text, message) in [
        ("d/0", "InvalidKey in chunk key, prefix at byte 0: expected \"c\", found another word"),
        ("c", "BadShape in chunk key, rank at byte 0: expected 1 to 16, found 0"),
        ("c/", "InvalidKey in chunk key, component at byte 2: expected a decimal number, found no digits"),
        ("c/1/-2", "Negative in chunk key, index at byte 4: expected at least 0, found -2"),
        ("c/0/00", "InvalidKey in chunk key, component at byte 4: expected no zero before other digits, found a zero"),
        ("c/0/../1", "InvalidKey in chunk key, component at byte 4: expected a decimal number, found another character"),
        ("c/1/1/1/1/1/1/1/1/1/1/1/1/1/1/1/1/1", "LimitExceeded in chunk key, rank at byte 34: expected 1 to 16, found 17"),
    ] {
        assert_eq!(text.parse::<ChunkPath>().unwrap_err().to_string(), message, "{text}");
    }
    let key = ChunkKey::new(&[0, -2]).unwrap();
    assert_eq!(ChunkPath::from_key(&key, &[0, 0]).unwrap_err().to_string(), "OutOfBounds in chunk key, component at byte 0: expected at least 0, found -2");
    assert_eq!(ChunkPath::from_key(&key, &[0]).unwrap_err().to_string(), "BadShape in chunk key, origin at byte 0: expected 2, found 1");
    assert_eq!(ChunkPath::from_key(&key, &[i64::MIN, -2]).unwrap_err().to_string(), "Overflow in chunk key, component at byte 0: expected component - origin in 64 bits, found 0");
    let path = "c/9223372036854775807".parse::<ChunkPath>().unwrap();
    assert_eq!(path.key(&[1]).unwrap_err().to_string(), "Overflow in chunk key, index at byte 0: expected origin + index in 64 bits, found 9223372036854775807");
    assert_eq!(path.key(&[1, 2]).unwrap_err().to_string(), "BadShape in chunk key, origin at byte 0: expected 1, found 2");
}

#[test]
fn deltas_round_trip() {
    for (text, gap) in [("0", 0), ("+1", 1), ("-2", -2), ("+10", 10), ("-2147483648", i32::MIN)] {
        assert_eq!(Delta::parse_strict(text).unwrap(), Delta(gap));
        assert_eq!(Delta(gap).to_string(), text);
    }
    assert_eq!(Delta(3).reverse(), Some(Delta(-3)));
    assert_eq!(Delta(i32::MIN).reverse(), None);
}

#[rustfmt::skip]
#[test]
fn other_spellings_of_deltas_are_parsed() {
    for (text, gap) in [("+0", 0), ("-0", 0), ("+01", 1), ("-007", -7), ("+00", 0)] {
        assert_eq!(text.parse::<Delta>().unwrap(), Delta(gap), "{text}");
        assert_eq!(Delta::parse_strict(text).unwrap_err().to_string(), "NonCanonical in delta segment, delta at byte 0: expected the shortest spelling, found a needless sign or zero", "{text}");
    }
    for (text, message) in [
        ("", "InvalidKey in delta segment, delta at byte 0: expected 0, or a sign and digits, found another name"),
        ("+", "InvalidKey in delta segment, delta at byte 0: expected 0, or a sign and digits, found another name"),
        ("1", "InvalidKey in delta segment, delta at byte 0: expected 0, or a sign and digits, found another name"),
        ("00", "InvalidKey in delta segment, delta at byte 0: expected 0, or a sign and digits, found another name"),
        ("zarr.json", "InvalidKey in delta segment, delta at byte 0: expected 0, or a sign and digits, found another name"),
        ("+1x", "InvalidKey in delta segment, component at byte 0: expected a decimal number, found another character"),
        ("+-1", "InvalidKey in delta segment, component at byte 0: expected a decimal number, found another character"),
        ("+2147483648", "Overflow in delta segment, delta at byte 0: expected a number of 32 bits, found a longer one"),
        ("+9223372036854775808", "Overflow in delta segment, component at byte 0: expected a number of 64 bits, found a longer one"),
    ] {
        assert_eq!(text.parse::<Delta>().unwrap_err().to_string(), message, "{text}");
        assert_eq!(Delta::parse_strict(text).unwrap_err(), text.parse::<Delta>().unwrap_err());
    }
}

#[test]
fn offsets_round_trip() {
    for (text, sid_ndim, offsets) in [
        ("self", 2, &[][..]),
        ("0.0", 2, &[&[0, 0][..]][..]),
        ("+1.0", 2, &[&[1, 0]]),
        ("0.-1", 2, &[&[0, -1]]),
        ("0.+1.0_+1.0.0", 3, &[&[0, 1, 0], &[1, 0, 0]]),
        ("-12_0_+7", 1, &[&[-12], &[0], &[7]]),
        (MIN, 1, &[&[i64::MIN]]),
    ] {
        let parsed = Offsets::parse(text, sid_ndim, offsets.len() + 1).unwrap();
        assert_eq!(parsed, Offsets::new(sid_ndim, offsets).unwrap());
        assert_eq!(parsed.to_string(), text);
        assert_eq!(format!("{parsed:?}"), format!("Offsets({text})"));
        assert_eq!(parsed.iter().collect::<Vec<_>>(), offsets);
        assert_eq!((parsed.sid_ndim(), parsed.link_width()), (sid_ndim, offsets.len() + 1));
        assert!(parsed.get(0).unwrap().iter().all(|step| *step == 0));
        assert_eq!(parsed.get(offsets.len() + 1), None);
    }
}

#[rustfmt::skip]
#[test]
fn invalid_offsets_are_refused() {
    for (text, sid_ndim, width, message) in [
        ("self", 2, 2, "InvalidKey in offsets segment, offsets at byte 0: expected \"self\" exactly when the width is 1, found self"),
        ("0.0", 2, 1, "InvalidKey in offsets segment, offsets at byte 0: expected \"self\" exactly when the width is 1, found offsets"),
        ("0.+0", 2, 2, "InvalidKey in offsets segment, component at byte 2: expected 0 without a sign, found a sign"),
        ("0.-0", 2, 2, "InvalidKey in offsets segment, component at byte 2: expected 0 without a sign, found a sign"),
        ("0.1", 2, 2, "InvalidKey in offsets segment, component at byte 2: expected 0, or a number with its sign, found no sign"),
        ("00.+1", 2, 2, "InvalidKey in offsets segment, component at byte 0: expected 0, or a number with its sign, found no sign"),
        ("+01", 1, 2, "InvalidKey in offsets segment, component at byte 0: expected no zero before other digits, found a zero"),
        ("+", 1, 2, "InvalidKey in offsets segment, component at byte 0: expected a decimal number, found no digits"),
        ("", 1, 2, "InvalidKey in offsets segment, component at byte 0: expected 0, or a number with its sign, found no sign"),
        ("+1_", 1, 3, "InvalidKey in offsets segment, component at byte 3: expected 0, or a number with its sign, found no sign"),
        ("+1.x", 2, 2, "InvalidKey in offsets segment, component at byte 3: expected 0, or a number with its sign, found no sign"),
        ("+1x", 1, 2, "InvalidKey in offsets segment, component at byte 0: expected a decimal number, found another character"),
        ("+9223372036854775808", 1, 2, "Overflow in offsets segment, component at byte 0: expected a number of 64 bits, found a longer one"),
        ("+1.0.0", 2, 2, "CountMismatch in offsets segment, components at byte 5: expected 2, found 3"),
        ("+1.0_0", 2, 3, "CountMismatch in offsets segment, components at byte 5: expected 2, found 1"),
        ("+1_0", 1, 2, "CountMismatch in offsets segment, offsets at byte 3: expected 1, found 2"),
        ("+1_0", 1, 4, "CountMismatch in offsets segment, offsets at byte 4: expected 3, found 2"),
        ("+1", 0, 2, "BadShape in offsets segment, rank at byte 0: expected 1 to 16, found 0"),
        ("+1", 1, 9, "LimitExceeded in offsets segment, link_width at byte 0: expected 1 to 8, found 9"),
    ] {
        assert_eq!(Offsets::parse(text, sid_ndim, width).unwrap_err().to_string(), message, "{text}");
    }
    assert_eq!(Offsets::new(2, &[&[1]]).unwrap_err().to_string(), "CountMismatch in offsets segment, components at byte 0: expected 2, found 1");
    assert_eq!(Offsets::new(1, &[&[1][..]; 8]).unwrap_err().to_string(), "LimitExceeded in offsets segment, link_width at byte 0: expected 1 to 8, found 9");
}

#[test]
fn sorted_offsets_are_those_of_sorted_endpoints() {
    for (text, width, zero, sorted) in [
        ("self", 1, true, true),
        ("0.0", 2, true, true),
        ("0.0_0.0", 3, true, true),
        ("+1.-5", 2, false, true),
        ("0.-1", 2, false, false),
        ("0.+1_+1.0", 3, false, true),
        ("+1.0_0.+1", 3, false, false),
        ("0.0_0.+1", 3, false, true),
    ] {
        let offsets = Offsets::parse(text, 2, width).unwrap();
        assert_eq!((offsets.are_zero(), offsets.are_sorted()), (zero, sorted), "{text}");
    }
}

fn component() -> impl Strategy<Value = i64> {
    prop_oneof![-12_i64..13, any::<i64>(), Just(i64::MIN), Just(i64::MAX)]
}

fn key(rank: impl Into<prop::collection::SizeRange>) -> impl Strategy<Value = ChunkKey> {
    prop::collection::vec(component(), rank).prop_map(|all| ChunkKey::new(&all).unwrap())
}

fn offsets(rank: usize) -> impl Strategy<Value = Offsets> {
    prop::collection::vec(prop::collection::vec(component(), rank), 0..8).prop_map(move |all| {
        let all: Vec<&[i64]> = all.iter().map(Vec::as_slice).collect();
        Offsets::new(rank, &all).unwrap()
    })
}

proptest! {
    /// Parsed text is printed unchanged.
    #[test]
    fn only_canonical_text_is_parsed(text in "[-+0-9._a-z]{0,12}|[-+]?[0-9]{1,3}([._][-+]?[0-9]{1,3}){0,4}") {
        if let Ok(key) = text.parse::<ChunkKey>() {
            prop_assert_eq!(key.to_string(), &text[..]);
        }
        for (rank, width) in [(1, 1), (1, 2), (1, 3), (2, 2), (2, 3), (3, 2)] {
            if let Ok(cell) = CellKey::split(&text, rank, width) {
                prop_assert_eq!(cell.to_string(), &text[..]);
            }
            if let Ok(offsets) = Offsets::parse(&text, rank, width) {
                prop_assert_eq!(offsets.to_string(), &text[..]);
            }
        }
        if let Ok(delta) = Delta::parse_strict(&text) {
            prop_assert_eq!(delta.to_string(), &text[..]);
        }
        if let Ok(delta) = text.parse::<Delta>() {
            prop_assert_eq!(delta.lints(&text).is_empty(), delta.to_string() == text);
        }
        let path: String = ["c/", &text.replace('.', "/")].concat();
        if let Ok(parsed) = path.parse::<ChunkPath>() {
            prop_assert_eq!(parsed.to_string(), path);
        }
    }

    #[test]
    fn string_order_of_keys_is_that_of_their_text(a in key(1..4), b in key(1..4)) {
        prop_assert_eq!(a.cmp_string(&b), a.to_string().cmp(&b.to_string()));
        prop_assert_eq!(a.to_string().parse::<ChunkKey>().unwrap(), a);
    }

    #[test]
    fn string_order_of_segments_is_that_of_their_text(a in offsets(2), b in offsets(2), c in offsets(3)) {
        for (a, b) in [(&a, &b), (&a, &c), (&c, &a)] {
            prop_assert_eq!(a.cmp_string(b), a.to_string().cmp(&b.to_string()));
        }
        let parsed = Offsets::parse(&a.to_string(), 2, a.link_width()).unwrap();
        prop_assert_eq!(parsed, a);
    }

    #[test]
    fn paths_are_parsed_to_their_keys(key in key(1..6), origin in prop::collection::vec(component(), 1..6)) {
        if let Ok(path) = ChunkPath::from_key(&key, &origin) {
            prop_assert_eq!(path.key(&origin).unwrap(), key);
        }
    }
}
