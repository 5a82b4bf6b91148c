//! Tests of the shard index: golden bytes, one row per check, properties.

use std::string::ToString;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::fragment::tests::hex;

/// Cells (0,0) and (1,0) of a shard of 2 x 2, 116 bytes in all.
const INDEX: &str = "0000000000000000 1000000000000000 ffffffffffffffff ffffffffffffffff
    1000000000000000 2000000000000000 ffffffffffffffff ffffffffffffffff 2a5c8859";
const CELLS: [Option<Range<u64>>; 4] = [Some(0..16), None, Some(16..48), None];

#[test]
fn golden_bytes_both_ways() {
    let (with_checksum, without_checksum) = (hex(INDEX), &hex(INDEX)[..64]);
    assert_eq!(encode_index(&CELLS, true).unwrap(), with_checksum);
    assert_eq!(encode_index(&CELLS, false).unwrap(), without_checksum);
    for (bytes, checksum) in [(&with_checksum[..], true), (without_checksum, false)] {
        let index = ShardIndex::parse(bytes, 4, checksum).unwrap();
        assert_eq!((index.len(), index.is_empty()), (4, false));
        assert!(index.iter().eq(CELLS));
        assert_eq!((index.get(2), index.get(3), index.get(4)), (Some(16..48), None, None));
    }
    assert!(ShardIndex::parse(&[], 0, false).unwrap().is_empty());
}

#[rustfmt::skip]
const REFUSED: [(u64, bool, &str, &str); 10] = [
    (1, false, "0000000000000000 00000000000000",
     "Truncated in shard index, cells at byte 0: expected 16 bytes, found 15"),
    (1 << 60, false, "00", "Overflow in shard index, cells at byte 0: expected 1 bytes, found 18446744073709551616"),
    (1, true, "0000000000000000 0000000000000000 000000",
     "Truncated in shard index, CRC32C at byte 16: expected 4 bytes, found 3"),
    (1, false, "0000000000000000 0000000000000000 00000000",
     "Trailing in shard index, bytes after the end at byte 16: expected 0, found 4"),
    (0, true, "00000000 00",
     "Trailing in shard index, bytes after the end at byte 4: expected 0, found 1"),
    // The CRC32C of no bytes is 0.
    (0, true, "01000000", "Checksum in shard index, CRC32C at byte 0: expected 0, found 1"),
    // The CRC32C of 32 zeros is 8a9136aa (RFC 3720).
    (2, true, "0000000000000000 0000000000000000 0000000000000000 0000000000000000 00000000",
     "Checksum in shard index, CRC32C at byte 32: expected 2324772522, found 0"),
    (2, false, "0000000000000000 0000000000000000 ffffffffffffffff 0000000000000000",
     "OutOfBounds in shard index, cell at byte 16: \
      expected offset and nbytes both all ones, or neither, found one of them"),
    (1, false, "0000000000000000 ffffffffffffffff",
     "OutOfBounds in shard index, cell at byte 0: \
      expected offset and nbytes both all ones, or neither, found one of them"),
    (1, false, "feffffffffffffff 0200000000000000",
     "Overflow in shard index, offset + nbytes at byte 0: \
      expected at most 18446744073709551615, found 18446744073709551616"),
];

#[test]
fn every_check_has_its_message() {
    for (cells, checksum, bytes, message) in REFUSED {
        let error = ShardIndex::parse(&hex(bytes), cells, checksum).unwrap_err();
        assert_eq!(error.to_string(), message);
    }
}

#[test]
fn cells_are_checked_against_the_shard() {
    let bytes = hex(INDEX);
    let index = ShardIndex::parse(&bytes, 4, true).unwrap();
    assert_eq!(index.check_spans(116, IndexLocation::End), Ok(()));
    let message = |total, location| index.check_spans(total, location).unwrap_err().to_string();
    // One byte of the last cell is inside the index.
    assert_eq!(
        message(115, IndexLocation::End),
        "OutOfBounds in shard index, offset + nbytes at byte 32: expected at most 47, found 48"
    );
    assert_eq!(
        message(67, IndexLocation::End),
        "Truncated in shard index, index at byte 0: expected 68 bytes, found 67"
    );
    assert_eq!(
        message(116, IndexLocation::Start),
        "OutOfBounds in shard index, offset at byte 0: expected at least 68, found 0"
    );

    let bytes = encode_index(&[Some(16..30), Some(18..40)], false).unwrap();
    let index = ShardIndex::parse(&bytes, 2, false).unwrap();
    assert_eq!(
        index.check_spans(40, IndexLocation::Start).unwrap_err().to_string(),
        "OutOfBounds in shard index, offset at byte 0: expected at least 32, found 16"
    );
    let bytes = encode_index(&[Some(32..40), None], false).unwrap();
    let index = ShardIndex::parse(&bytes, 2, false).unwrap();
    assert_eq!(index.check_spans(40, IndexLocation::Start), Ok(()));
    assert_eq!(
        index.check_spans(39, IndexLocation::Start).unwrap_err().to_string(),
        "OutOfBounds in shard index, offset + nbytes at byte 0: expected at most 39, found 40"
    );
}

#[test]
fn the_index_is_found_at_its_declared_location() {
    for (location, total, span) in [
        (IndexLocation::End, 100, Some(64..100)),
        (IndexLocation::Start, 100, Some(0..36)),
        (IndexLocation::End, 36, Some(0..36)),
        (IndexLocation::End, 35, None),
        (IndexLocation::Start, 35, None),
    ] {
        assert_eq!(location.span(2, true, total).ok(), span, "{location:?} {total}");
    }
    assert_eq!(
        IndexLocation::End.span(u64::MAX, true, u64::MAX).unwrap_err().to_string(),
        "Truncated in shard index, index at byte 0: \
         expected at least 295147905179352825844, found 18446744073709551615"
    );
    assert_eq!(IndexLocation::default(), IndexLocation::End);
}

#[test]
#[expect(clippy::reversed_empty_ranges, reason = "is what is tested")]
fn the_encoder_refuses_invalid_spans() {
    assert_eq!(
        encode_index(&[None, Some(3..2)], false).unwrap_err().to_string(),
        "BadShape in shard index, offset + nbytes at byte 16: expected at least 3, found 2"
    );
}

#[test]
fn checksums_of_known_bytes() {
    let ascending: Vec<u8> = (0..32).collect();
    let descending: Vec<u8> = (0..32).rev().collect();
    for (bytes, crc) in [
        (&b""[..], 0),
        (b"a", 0xc1d0_4330),
        (b"123456789", 0xe306_9283),
        (&[0; 32], 0x8a91_36aa),
        (&[0xff; 32], 0x62a8_ab43),
        (&ascending, 0x46dd_794e),
        (&descending, 0x113f_db5c),
    ] {
        assert_eq!(crc32c(bytes), crc, "{bytes:?}");
    }
}

/// Computes bit by bit, as the polynomial is defined.
fn naive_crc32c(bytes: &[u8]) -> u32 {
    let mut crc = !0_u32;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0x82f6_3b78 } else { crc >> 1 };
        }
    }
    !crc
}

fn any_cells() -> impl Strategy<Value = Vec<Option<Range<u64>>>> {
    let span = (any::<u32>(), any::<u32>()).prop_map(|(start, n)| {
        let start = u64::from(start) << 31;
        start..start + u64::from(n)
    });
    prop::collection::vec(prop::option::of(span), 0..20)
}

proptest! {
    #[test]
    fn checksums_agree_with_the_definition(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
        prop_assert_eq!(crc32c(&bytes), naive_crc32c(&bytes));
    }

    /// Encoded cells are read back.
    #[test]
    fn round_trip(cells in any_cells(), checksum: bool) {
        let bytes = encode_index(&cells, checksum).unwrap();
        let index = ShardIndex::parse(&bytes, cells.len() as u64, checksum).unwrap();
        prop_assert!(index.iter().eq(cells));
    }

    /// The checksum detects every wrong byte; without it, a parsed index encodes to the same bytes.
    #[test]
    fn one_byte_off(cells in any_cells(), at: prop::sample::Index, flip in 1..=255_u8) {
        let mut bytes = encode_index(&cells, true).unwrap();
        *at.get_mut(&mut bytes) ^= flip;
        let n = cells.len() as u64;
        prop_assert_eq!(ShardIndex::parse(&bytes, n, true).unwrap_err().class, Class::Checksum);
        let without_checksum = &bytes[..bytes.len() - 4];
        if let Ok(index) = ShardIndex::parse(without_checksum, n, false) {
            let encoded = encode_index(&index.iter().collect::<Vec<_>>(), false).unwrap();
            prop_assert_eq!(&encoded, without_checksum);
            if index.check_spans(1 << 40, IndexLocation::End).is_ok() {
                prop_assert!(index.iter().flatten().all(|span| span.end <= 1 << 40));
            }
        }
    }
}
