//! Opening by ranges; files that opening refuses, by rule.

use std::string::ToString;
use std::vec::Vec;

use super::*;
use crate::TetRule;
use crate::tests::{two_tiles, with_footer};

/// Opens by ranges, starting with `first` bytes of both ends; returns the requested ranges in
/// order.
fn open_by_ranges(bytes: &[u8], first: usize) -> Result<Vec<Need>, FormatError> {
    let len = bytes.len();
    let mut need = Need { prefix: first as u64, tail: first as u64 };
    let mut requested = Vec::new();
    loop {
        let (prefix, tail) = (need.prefix as usize, need.tail as usize);
        assert!(prefix <= len && tail <= len);
        match TetView::open(&bytes[..prefix], &bytes[len - tail..], len as u64)? {
            TetOpening::Ready(file) => {
                assert_eq!(file.file_len(), len as u64);
                return Ok(requested);
            }
            TetOpening::More(next_need) => {
                assert!(
                    next_need.prefix > need.prefix || next_need.tail > need.tail,
                    "{next_need:?}"
                );
                need = next_need;
                requested.push(need);
            }
        }
    }
}

#[test]
fn opening_requests_only_needed_bytes() {
    let need = |prefix, tail| Need { prefix, tail };
    assert_eq!(open_by_ranges(&two_tiles(), 0).unwrap(), [need(32, 0), need(320, 0)]);
    assert_eq!(
        open_by_ranges(&with_footer(), 0).unwrap(),
        [need(32, 0), need(320, 16), need(320, 30)]
    );
    assert_eq!(open_by_ranges(&with_footer(), 330).unwrap(), []);
    assert_eq!(open_by_ranges(&two_tiles()[..31], 0).unwrap_err().class, Class::Truncated);
    // The metadata spill makes a fourth round.
    let mut bytes = two_tiles();
    bytes[12] = 1;
    bytes.extend_from_slice(b"{}{\"metadata_ref\":{\"offset\":344,\"len\":2}}");
    bytes.extend_from_slice(b"\x27\0\0\0\0\0\0\0\x01\0\0\0THST");
    assert_eq!(
        open_by_ranges(&bytes, 0).unwrap(),
        [need(32, 0), need(320, 16), need(320, 55), need(320, 57)]
    );
}

#[test]
fn parts_are_read_back() {
    let bytes = with_footer();
    let file = TetView::parse_strict(&bytes).unwrap();
    assert_eq!(file.superblock().dataset_count(), 1);
    assert_eq!(file.directory().get(0).unwrap().name(), "a");
    assert_eq!(file.index().rows().len(), 2);
    assert_eq!(file.footer().unwrap().json(), b"{\"history\":[]}");
    assert_eq!((file.file_len(), file.payload_end()), (374, 344));
    let bytes = two_tiles();
    let file = TetView::parse_strict(&bytes).unwrap();
    assert!(file.footer().is_none());
    assert_eq!(file.payload_end(), 344);
}

#[test]
fn opening_refuses_by_rule() {
    #[rustfmt::skip]
    let table: [(usize, &[u8], TetRule, &str); 13] = [
        (0, b"t", TetRule::O1, "BadMagic in tet superblock, magic at byte 0: expected TETR, found 74 45 54 52"),
        (4, b"\x02", TetRule::O1, "UnsupportedVersion in tet superblock, layout_version at byte 4: expected 1, found 2"),
        (31, b"\x01", TetRule::O2, "OutOfBounds in tet superblock, chunk_index_length at byte 24: expected at most 294, found 72057594037928176"),
        (39, b"\x01", TetRule::O3, "OutOfBounds in tet directory, dataset_blob_len at byte 32: expected at most 334, found 72057594037927976"),
        (8, b"\x02", TetRule::O3, "Truncated in tet directory, dataset_count at byte 8: expected at most 1, found 2"),
        (48, b"\0", TetRule::O4, "BadShape in tet directory, ndim at byte 48: expected 1 to 8, found 0"),
        (40, b"\x11", TetRule::O4, "Truncated in tet directory, shape at byte 80: expected 8 bytes, found 0"),
        (16, b"\x48", TetRule::O6, "CountMismatch in tet superblock, chunk_index_offset at byte 16: expected 80, found 72"),
        (80, b"x", TetRule::O7, "BadMagic in tet chunk index, magic at byte 80: expected TIDX, found 78 49 44 58"),
        (88, b"\x01", TetRule::O7, "Trailing in tet chunk index, bytes after the end at byte 216: expected 0, found 104"),
        (200, b"\x02", TetRule::O8, "CountMismatch in tet chunk index, stored_byte_len at byte 200: expected 16, found 2"),
        (288, b"\x51", TetRule::O8, "OutOfBounds in tet chunk index, stored_byte_len at byte 304: expected at most 7, found 8"),
        (370, b"X", TetRule::O9, "BadMagic in tet footer, magic at byte 370: expected THST, found 58 48 53 54"),
    ];
    for (at, change, rule, message) in table {
        let mut bytes = with_footer();
        bytes[at..at + change.len()].copy_from_slice(change);
        let error = TetView::parse(&bytes).unwrap_err();
        assert_eq!(
            (error.to_string().as_str(), TetRule::from_error(&error)),
            (message, Some(rule))
        );
    }
    // The directory is longer than its records.
    let mut longer = two_tiles();
    longer.splice(80..80, [0; 8]);
    (longer[16], longer[32]) = (0x58, 0x30);
    let error = TetView::parse(&longer).unwrap_err();
    assert_eq!(TetRule::from_error(&error), Some(TetRule::O5));
    // Only the first bytes of a file with datasets.
    let mut truncated = two_tiles();
    truncated.truncate(39);
    (truncated[16], truncated[24]) = (0, 0);
    assert_eq!(
        TetView::parse(&truncated).unwrap_err().to_string(),
        "Truncated in tet directory, dataset_blob_len at byte 32: expected 8 bytes, found 7"
    );
}

#[test]
fn every_prefix_is_refused() {
    for file in [two_tiles(), with_footer()] {
        for len in 0..file.len() {
            assert!(TetView::parse(&file[..len]).is_err(), "{len}");
        }
    }
}

#[test]
fn strict_is_default_and_no_lints() {
    for (at, byte, valid) in [(52, 1, true), (180, 2, false), (340, 2, true)] {
        let mut bytes = two_tiles();
        bytes[at] = byte;
        let file = TetView::parse(&bytes);
        let valid_now = file.is_ok_and(|file| file.validate().is_ok());
        assert_eq!(valid_now, valid || at == 180, "{at}");
        assert_eq!(TetView::parse_strict(&bytes).is_ok(), at == 340, "{at}");
    }
}
