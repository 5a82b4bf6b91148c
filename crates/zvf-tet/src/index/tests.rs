//! Tables of rows: round trips, and one row per check.

use std::string::ToString;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;

/// Two rows of dataset 3: a raw one of 20 bytes at 500, a zstd one of 30 that decodes to 40 at 520.
fn two_rows() -> Vec<u8> {
    [
        &b"TIDX\x01\0\0\0\x02\0\0\0\0\0\0\0\x88\x13\0\0\x2a\0\0\0\0\0\0\0\0\0\0\0"[..],
        b"\x03\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0",
        &[0; 48],
        b"\xf4\x01\0\0\0\0\0\0\x14\0\0\0\0\0\0\0\x14\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
        b"\x03\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0",
        &[0; 48],
        b"\x08\x02\0\0\0\0\0\0\x28\0\0\0\0\0\0\0\x1e\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0",
    ]
    .concat()
}

#[test]
fn golden_bytes_both_ways() {
    let rows = [
        Row::new(3, &[1, 2], 500, 20, 20, TensorCodec::Raw).unwrap(),
        Row::new(3, &[1, 3], 520, 40, 30, TensorCodec::Zstd).unwrap(),
    ];
    let bytes = two_rows();
    let index = Index::parse(&bytes, 550).unwrap();
    assert_eq!(index.rows(), rows);
    assert_eq!(index.memory_budget(), MemoryBudget::new(5000, 42));
    assert!(index.lints().is_empty());
    assert_eq!(Index::encode(MemoryBudget::new(5000, 42), &rows), bytes);

    let [_, zstd] = index.rows() else { panic!() };
    assert_eq!((zstd.dataset_id(), zstd.chunk_index()), (3, [1, 3, 0, 0, 0, 0, 0, 0]));
    assert_eq!((zstd.payload_offset(), zstd.payload_end()), (520, 550));
    assert_eq!((zstd.raw_byte_len(), zstd.stored_byte_len()), (40, 30));
    assert_eq!((rows[0].codec(), zstd.codec()), (TensorCodec::Raw, TensorCodec::Zstd));
    assert_eq!(Row::new(0, &[0; 9], 0, 0, 0, TensorCodec::Raw), None);
    assert_eq!(byte_len(2), Some(240));
    assert_eq!(byte_len(u64::MAX / 104), None);
}

#[test]
fn each_check_has_its_message() {
    #[rustfmt::skip]
    let table: [(usize, &[u8], &str); 11] = [
        (0, b"XDIT", "BadMagic in tet chunk index, magic at byte 0: expected TIDX, found 58 44 49 54"),
        (4, b"\x02", "UnsupportedVersion in tet chunk index, index_version at byte 4: expected 1, found 2"),
        (8, b"\x03", "Truncated in tet chunk index, rows at byte 32: expected 312 bytes, found 208"),
        (8, b"\x01", "Trailing in tet chunk index, bytes after the end at byte 136: expected 0, found 104"),
        (15, b"\x20", "Overflow in tet chunk index, rows at byte 32: expected 208 bytes, found 239807672958224171216"),
        (128, b"\x02", "BadTag in tet chunk index, codec at byte 128: expected 0 to 1, found 2"),
        (112, b"\x15", "CountMismatch in tet chunk index, stored_byte_len at byte 120: expected 21, found 20"),
        (208, b"\x27", "OutOfBounds in tet chunk index, payload_offset at byte 208: expected at most 550, found 551"),
        (224, b"\x1f", "OutOfBounds in tet chunk index, stored_byte_len at byte 224: expected at most 30, found 31"),
        (208, b"\xff\xff\xff\xff\xff\xff\xff\xff", "OutOfBounds in tet chunk index, payload_offset at byte 208: expected at most 550, found 18446744073709551615"),
        (224, b"\xff\xff\xff\xff\xff\xff\xff\xff", "OutOfBounds in tet chunk index, stored_byte_len at byte 224: expected at most 30, found 18446744073709551615"),
    ];
    for (at, change, message) in table {
        let mut bytes = two_rows();
        bytes[at..at + change.len()].copy_from_slice(change);
        assert_eq!(Index::parse(&bytes, 550).unwrap_err().to_string(), message);
    }
    // An empty payload past the end of the file.
    let mut bytes = two_rows();
    (bytes[208], bytes[224]) = (0x27, 0);
    assert_eq!(
        Index::parse(&bytes, 550).unwrap_err().to_string(),
        "OutOfBounds in tet chunk index, payload_offset at byte 208: expected at most 550, found 551"
    );
    for len in 0..two_rows().len() {
        assert_eq!(
            Index::parse(&two_rows()[..len], 550).unwrap_err().class,
            Class::Truncated,
            "{len}"
        );
    }
}

#[test]
fn lints_reserved_fields_and_a_large_budget() {
    #[rustfmt::skip]
    let table: [(usize, &[u8], &str); 4] = [
        (16, b"\xff\xff", "memory_budget_percent_bps at byte 16: expected at most 10000, found 65535"),
        (18, b"\x01", "reserved at byte 18: expected 0, found 1"),
        (31, b"\x01", "reserved at byte 24: expected 0, found 72057594037927936"),
        (236, b"\x07", "reserved at byte 236: expected 0, found 7"),
    ];
    for (at, change, message) in table {
        let mut bytes = two_rows();
        bytes[at..at + change.len()].copy_from_slice(change);
        let lints = Index::parse(&bytes, 550).unwrap().lints();
        assert_eq!(
            lints.iter().map(ToString::to_string).collect::<Vec<_>>(),
            [std::format!("NonCanonical in tet chunk index, {message}")]
        );
    }
}

#[test]
fn claimed_lengths_allocate_no_buffer() {
    let row = Row::new(0, &[0], 0, 1 << 40, 30, TensorCodec::Zstd).unwrap();
    assert_eq!(row.decoded_len(1 << 40), Ok(1 << 40));
    assert_eq!(
        row.decoded_len(DECODED_CAP).unwrap_err().to_string(),
        "LimitExceeded in tet chunk index, raw_byte_len at byte 80: expected at most 1073741824, \
         found 1099511627776"
    );
}

proptest! {
    /// An index with one changed byte is refused, or its spans lie in the payload area.
    #[test]
    fn one_byte_off(at: prop::sample::Index, byte: u8) {
        let mut bytes = two_rows();
        *at.get_mut(&mut bytes) = byte;
        if let Ok(index) = Index::parse(&bytes, 550) {
            prop_assert!(index.rows().iter().all(|row| row.payload_end() <= 550));
            let raw = index.rows().iter().filter(|row| row.codec() == TensorCodec::Raw);
            prop_assert!(raw.into_iter().all(|row| row.raw_byte_len() == row.stored_byte_len()));
        }
    }
}
