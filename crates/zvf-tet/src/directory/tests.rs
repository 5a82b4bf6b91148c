//! Tables of records: round trips, and one row per check.

use std::string::ToString;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;

/// Three records: no name, a name of 1, a name of 8: the bytes after the superblock.
fn three_records() -> Vec<u8> {
    [
        &b"\x80\0\0\0\0\0\0\0"[..],
        b"\0\0\0\0\x05\0\0\0\x01\0\0\0\0\0\0\0",
        b"\x03\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0",
        b"\x01\0\0\0\x01\0\0\0\x02\0\0\0\0\0\0\0b\0\0\0\0\0\0\0",
        b"\x05\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0",
        b"\x08\0\0\0\x0a\0\0\0\x01\0\0\0\0\0\0\0eightchr",
        b"\x02\0\0\0\0\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff",
    ]
    .concat()
}

/// Id, name, type tag, shape and chunk shape.
type DatasetFacts<'a> = (u32, &'a str, u32, Vec<u64>, Vec<u64>);

#[test]
fn golden_bytes_both_ways() {
    let bytes = three_records();
    let directory = Directory::parse(&bytes, 3, 1000).unwrap();
    let found: Vec<_> = (&directory)
        .into_iter()
        .map(|d| (d.id(), d.name(), d.dtype(), d.shape().collect(), d.chunk_shape().collect()))
        .collect();
    let expected: [DatasetFacts<'_>; 3] = [
        (0, "", 5, [3].into(), [3].into()),
        (1, "b", 1, [5, 2].into(), [2, 2].into()),
        (2, "eightchr", 10, [2].into(), [u64::MAX].into()),
    ];
    assert_eq!(found, expected);
    assert_eq!((directory.len(), directory.is_empty()), (3, false));
    assert_eq!(directory.get(1).unwrap().name(), "b");
    assert_eq!(directory.find("eightchr").unwrap().id(), 2);
    assert!(directory.get(3).is_none() && directory.find("c").is_none());
    assert!(directory.lints().is_empty());
    assert!(Directory::empty().iter().next().is_none());
}

#[test]
fn records_have_the_typed_bytes() {
    let bytes = three_records();
    let directory = Directory::parse(&bytes, 3, 1000).unwrap();
    let geometries: Vec<_> = directory.iter().map(|d| (d.name(), d.geometry().unwrap())).collect();
    let (count, encoded) = encode(geometries.iter().map(|(name, g)| (*name, g))).unwrap();
    assert_eq!((count, encoded), (3, bytes));
}

#[test]
fn each_check_has_its_message() {
    #[rustfmt::skip]
    let table: [(usize, &[u8], u32, u64, &str); 11] = [
        // at, bytes, dataset_count, file_len, message
        (0, b"\x81", 3, 168, "OutOfBounds in tet directory, dataset_blob_len at byte 32: expected at most 128, found 129"),
        (0, b"", 5, 1000, "Truncated in tet directory, dataset_count at byte 8: expected at most 4, found 5"),
        (0, b"\x88", 3, 1000, "Truncated in tet directory, records at byte 40: expected 136 bytes, found 128"),
        (0, b"", 2, 1000, "Trailing in tet directory, bytes after the end at byte 128: expected 0, found 40"),
        (0, b"", 4, 1000, "Truncated in tet directory, record at byte 168: expected 16 bytes, found 0"),
        (8, b"\x71", 3, 1000, "Truncated in tet directory, name at byte 56: expected 113 bytes, found 112"),
        (16, b"\0", 3, 1000, "BadShape in tet directory, ndim at byte 48: expected 1 to 8, found 0"),
        (16, b"\x09", 3, 1000, "BadShape in tet directory, ndim at byte 48: expected 1 to 8, found 9"),
        (104, b"\x08", 3, 1000, "Truncated in tet directory, shape at byte 152: expected 64 bytes, found 16"),
        (104, b"\x02", 3, 1000, "Truncated in tet directory, chunk_shape at byte 168: expected 16 bytes, found 0"),
        (56, b"\xff", 3, 1000, "Encoding in tet directory, name at byte 88: expected UTF-8, found other bytes"),
    ];
    for (at, change, count, file_len, message) in table {
        let mut bytes = three_records();
        bytes[at..at + change.len()].copy_from_slice(change);
        let error = Directory::parse(&bytes, count, file_len).map(|d| d.len()).unwrap_err();
        assert_eq!(error.to_string(), message);
    }
    assert_eq!(
        Directory::parse(&three_records()[..7], 3, 1000).unwrap_err().to_string(),
        "Truncated in tet directory, dataset_blob_len at byte 32: expected 8 bytes, found 7"
    );
    // A name that leaves fewer bytes than its padding.
    let mut bytes = three_records();
    bytes.truncate(8 + 32 + 56 + 16 + 2);
    bytes[0] = 106;
    bytes[96] = 2;
    assert_eq!(
        Directory::parse(&bytes, 3, 1000).unwrap_err().to_string(),
        "Truncated in tet directory, padding at byte 146: expected 6 bytes, found 0"
    );
    assert_eq!(
        Directory::parse_before(&three_records(), 3, 1000, Some(176)).unwrap_err().to_string(),
        "CountMismatch in tet superblock, chunk_index_offset at byte 16: expected 168, found 176"
    );
}

#[test]
fn invalid_and_unusual_datasets_are_reported() {
    #[rustfmt::skip]
    let impossible: [(usize, &[u8], u32, &str); 3] = [
        (12, b"\x4d", 0, "BadTag in tet directory, dtype at byte 44: expected 1 to 10, found 77"),
        (88, b"\0", 1, "BadShape in tet directory, chunk_shape at byte 120: expected at least 1, found 0"),
        (120, b"\0\0\0\0\0\0\0\x20", 2, "Overflow in tet directory, shape at byte 152: expected a product below 2^64 bytes, found more"),
    ];
    for (at, change, id, message) in impossible {
        let mut bytes = three_records();
        bytes[at..at + change.len()].copy_from_slice(change);
        let directory = Directory::parse(&bytes, 3, 1000).unwrap();
        assert_eq!(directory.get(id).unwrap().geometry().unwrap_err().to_string(), message);
    }
    #[rustfmt::skip]
    let unusual = [
        (20, "NonCanonical in tet directory, reserved at byte 52: expected 0, found 1"),
        (63, "NonCanonical in tet directory, padding at byte 95: expected 0, found 1"),
    ];
    for (at, message) in unusual {
        let mut bytes = three_records();
        bytes[at] = 1;
        let lints = Directory::parse(&bytes, 3, 1000).unwrap().lints();
        assert_eq!(lints.iter().map(ToString::to_string).collect::<Vec<_>>(), [message]);
    }
    let mut bytes = three_records();
    bytes[64] = 0;
    let directory = Directory::parse(&bytes, 3, 1000).unwrap();
    assert!(directory.lints().is_empty(), "no elements are legal");
}

proptest! {
    /// Encoded datasets are read back.
    #[test]
    fn round_trip(
        datasets in prop::collection::vec(
            ("\\PC{0,20}", 1_u32..=10, prop::collection::vec((0_u64..1 << 20, 1_u64..), 1..=8)), 0..5,
        ),
    ) {
        let datasets: Vec<_> = datasets.iter().filter_map(|(name, tag, axes)| {
            let (shape, chunk): (Vec<_>, Vec<_>) = axes.iter().copied().unzip();
            let element = TensorDtype::from_tag(*tag).unwrap();
            Some((name.as_str(), TileGeometry::new(element, &shape, &chunk)?))
        }).collect();
        let (count, bytes) = encode(datasets.iter().map(|(name, g)| (*name, g))).unwrap();
        let directory = Directory::parse(&bytes, count, 1 << 20).unwrap();
        let found: Vec<_> = directory.iter().map(|d| (d.name(), d.geometry().unwrap())).collect();
        prop_assert_eq!(found, datasets);
    }

    /// A directory with one changed byte is refused, or its records can all be read.
    #[test]
    fn one_byte_off(at: prop::sample::Index, byte: u8) {
        let mut bytes = three_records();
        *at.get_mut(&mut bytes) = byte;
        if let Ok(directory) = Directory::parse(&bytes, 3, 168) {
            prop_assert_eq!(directory.iter().count(), 3);
            prop_assert!(directory.iter().all(|d| (1..=8).contains(&d.rank())));
        }
    }
}
