//! Block tables: spans in any order, dictionaries, and tables that point outside of their chunk.

use std::string::ToString;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;

/// Returns a Blosc 1 chunk of blocks of 8 bytes, not split, with this table.
fn chunk(positions: &[i32], cbytes: i32) -> Vec<u8> {
    let nbytes = 8 * i32::try_from(positions.len()).unwrap();
    let mut chunk = std::vec![2, 1, 0x10, 1];
    for n in [nbytes, 8, cbytes].iter().chain(positions) {
        chunk.extend(n.to_le_bytes());
    }
    chunk
}

/// Returns a Blosc2 chunk of two blocks with a dictionary of `size` bytes.
fn with_dictionary(size: i32, positions: [i32; 2], cbytes: i32) -> Vec<u8> {
    let mut chunk = std::vec![5, 1, 0x35, 1];
    for n in [16, 8, cbytes] {
        chunk.extend(n.to_le_bytes());
    }
    chunk.extend([0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    for n in [positions[0], positions[1], size] {
        chunk.extend(n.to_le_bytes());
    }
    chunk
}

fn parse(chunk: &[u8]) -> Result<BlockTable<'_>, FormatError> {
    BlockTable::parse(&ChunkHeader::parse(chunk).unwrap(), chunk)
}

#[test]
fn spans_in_any_order() {
    for (positions, ascending, spans) in [
        (&[28, 40, 50][..], true, &[28..40, 40..50, 50..60][..]),
        (&[50, 28, 40], false, &[50..60, 28..40, 40..50]),
        (&[28, 28, 40], false, &[28..40, 28..40, 40..60]), // two entries share a block
        (&[], true, &[]),
    ] {
        let chunk = chunk(positions, 60);
        let table = parse(&chunk).unwrap();
        let sorted = table.sorted_spans();
        assert_eq!(table.ascending, ascending);
        assert_eq!((table.len(), table.is_empty()), (spans.len(), spans.is_empty()));
        for (j, span) in (0..).zip(spans) {
            assert_eq!(table.span(j).as_ref(), Some(span));
            assert_eq!(sorted.get(j).as_ref(), Some(span));
        }
        let past = u32::try_from(spans.len()).unwrap();
        assert_eq!((table.start(past), table.span(past), sorted.get(past)), (None, None, None));
        assert_eq!(table.dictionary(), None);
    }
}

#[test]
fn a_dictionary_follows_the_table() {
    let chunk = with_dictionary(6, [50, 54], 60);
    let header = ChunkHeader::parse(&chunk).unwrap();
    assert_eq!(BlockTable::front_len(&header), 44);
    let table = BlockTable::parse(&header, &chunk).unwrap();
    assert_eq!((table.dictionary(), table.span(0)), (Some(44..50), Some(50..54)));
}

#[test]
fn bodies_without_blocks_have_no_table() {
    let raw = b"\x02\x01\x02\x01\x04\0\0\0\x04\0\0\0\x14\0\0\0";
    let table = parse(raw).unwrap();
    assert!(table.is_empty() && table.span(0).is_none() && table.dictionary().is_none());
}

#[test]
#[rustfmt::skip]
fn each_check_has_its_message() {
    let mut truncated = chunk(&[24, 30], 60);
    truncated.pop();
    let mut no_dictionary = with_dictionary(6, [50, 54], 60);
    no_dictionary.truncate(42);
    let mut varying = with_dictionary(0, [40, 40], 60);
    (varying[0], varying[8], varying[30], varying[31]) = (6, 2, 1, 0);
    for (chunk, message) in [
        (truncated, "Truncated in blosc chunk, block positions at byte 16: expected 8 bytes, found 7"),
        (no_dictionary, "Truncated in blosc chunk, dictionary size at byte 40: expected 4 bytes, found 2"),
        (chunk(&[24, -1], 60), "Negative in blosc chunk, block position at byte 20: expected 24 to 59, found -1"),
        (chunk(&[23, 30], 60), "OutOfBounds in blosc chunk, block position at byte 16: expected 24 to 59, found 23"),
        (chunk(&[24, 60], 60), "OutOfBounds in blosc chunk, block position at byte 20: expected 24 to 59, found 60"),
        (with_dictionary(0, [50, 54], 60), "OutOfBounds in blosc chunk, dictionary size at byte 40: expected 1 to 16, found 0"),
        (with_dictionary(-1, [50, 54], 60), "Negative in blosc chunk, dictionary size at byte 40: expected 1 to 16, found -1"),
        (with_dictionary(17, [50, 54], 60), "OutOfBounds in blosc chunk, dictionary size at byte 40: expected 1 to 16, found 17"),
        (with_dictionary(131_073, [50, 54], 1 << 20), "OutOfBounds in blosc chunk, dictionary size at byte 40: expected 1 to 131072, found 131073"),
        (with_dictionary(7, [50, 54], 60), "OutOfBounds in blosc chunk, block position at byte 32: expected 51 to 59, found 50"),
        (varying, "NotMonotonic in blosc chunk, block position at byte 36: expected at least 41, found 40"),
    ] {
        assert_eq!(parse(&chunk).unwrap_err().to_string(), message);
    }
}

proptest! {
    /// Both methods to find an end agree, and spans are after the table.
    #[test]
    fn ends_agree(positions in prop::collection::vec(56_i32..200, 0..11)) {
        let chunk = chunk(&positions, 200);
        let table = parse(&chunk).unwrap();
        let sorted = table.sorted_spans();
        for (j, position) in (0..).zip(&positions) {
            let span = table.span(j).unwrap();
            prop_assert_eq!(&Some(span.clone()), &sorted.get(j));
            prop_assert_eq!(span.start, u64::from(position.unsigned_abs()));
            let inside = span.start + 1..span.end;
            let has_start = positions.iter().any(|entry| inside.contains(&u64::from(entry.unsigned_abs())));
            prop_assert!(span.start < span.end && span.end <= 200 && !has_start);
        }
    }
}
