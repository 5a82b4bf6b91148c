//! One row per rule that validation checks, with the full message.

use std::string::{String, ToString};
use std::vec::Vec;

use super::*;
use crate::TetRule;
use crate::tests::{index, scalars, two_tiles, with_footer};

fn findings(bytes: &[u8]) -> Vec<TetFinding> {
    let mut found = Vec::new();
    let _ = TetView::parse(bytes).unwrap().check(&mut |finding| {
        found.push(finding);
        ControlFlow::Continue(())
    });
    found
}

fn messages(bytes: &[u8]) -> Vec<String> {
    findings(bytes).iter().map(ToString::to_string).collect()
}

/// Replacement bytes.
type Changes<'c> = &'c [(usize, u8)];

#[test]
fn each_rule_has_its_message() {
    use TetSeverity::{Error, Lint};
    #[rustfmt::skip]
    let table: [(Changes<'_>, TetSeverity, &str); 19] = [
        // bytes changed in a file with two tiles of six f32
        (&[(44, 77)], Error, "V1: BadTag in tet directory, dtype at byte 44: expected 1 to 10, found 77"),
        (&[(72, 0)], Error, "V2: BadShape in tet directory, chunk_shape at byte 72: expected at least 1, found 0"),
        (&[(71, 0x40)], Error, "V3: Overflow in tet directory, shape at byte 64: expected a product below 2^64 bytes, found more"),
        (&[(216, 1)], Error, "V4: OutOfBounds in tet chunk index, dataset_id at byte 216: expected at most 0, found 1"),
        (&[(64, 9)], Error, "V5: CountMismatch in tet chunk index, entry_count at byte 88: expected 3, found 2"),
        (&[(68, 1)], Error, "V5: CountMismatch in tet chunk index, entry_count at byte 88: expected 1073741826, found 2"),
        (&[(224, 2)], Error, "V5: OutOfBounds in tet chunk index, chunk_index at byte 224: expected at most 1, found 2"),
        (&[(231, 0xff)], Error, "V5: OutOfBounds in tet chunk index, chunk_index at byte 224: expected at most 1, found 18374686479671623681"),
        (&[(224, 0), (296, 16), (304, 16), (288, 0x48)], Error, "V5: Duplicate in tet chunk index, chunk_index at byte 224: expected one row for each tile, found another one"),
        (&[(296, 4), (304, 4)], Error, "V6: CountMismatch in tet chunk index, raw_byte_len at byte 296: expected 8, found 4"),
        (&[(12, 128)], Error, "F1: UnsupportedFlags in tet superblock, flags at byte 12: expected at most 1, found 128"),
        (&[(52, 1)], Lint, "F1: NonCanonical in tet directory, reserved at byte 52: expected 0, found 1"),
        (&[(60, 1)], Lint, "F1: NonCanonical in tet directory, padding at byte 60: expected 0, found 1"),
        (&[(98, 1)], Lint, "F1: NonCanonical in tet chunk index, reserved at byte 98: expected 0, found 1"),
        (&[(212, 1)], Lint, "F1: NonCanonical in tet chunk index, reserved at byte 212: expected 0, found 1"),
        (&[(240, 5)], Lint, "F1: NonCanonical in tet chunk index, unused chunk_index at byte 240: expected 0, found 5"),
        (&[(288, 0x4f)], Lint, "F2: NonCanonical in tet chunk index, payload_offset at byte 288: expected at least 336, found 335"),
        (&[(184, 0x3f)], Lint, "F2: NonCanonical in tet chunk index, payload_offset at byte 184: expected at least 320, found 319"),
        (&[(97, 0x4e)], Lint, "F7: NonCanonical in tet chunk index, memory_budget_percent_bps at byte 96: expected at most 10000, found 19968"),
    ];
    for (changes, severity, message) in table {
        let mut bytes = two_tiles();
        for (at, byte) in changes {
            bytes[*at] = *byte;
        }
        let found = findings(&bytes);
        assert_eq!(found.first().map(ToString::to_string).as_deref(), Some(message));
        assert_eq!(found[0].severity, severity, "{message}");
        let file = TetView::parse(&bytes).unwrap();
        let first = Err(found[0].error);
        assert_eq!(file.validate(), if severity == Error { first } else { Ok(()) }, "{message}");
        if severity == Lint {
            assert_eq!(file.lints().into_strict(), first, "{message}");
        }
    }
}

#[test]
fn more_rows_than_tiles_are_named_one_by_one() {
    let mut bytes = two_tiles();
    (bytes[64], bytes[224], bytes[296], bytes[304]) = (4, 0, 16, 16);
    bytes.extend_from_slice(&[0; 8]);
    assert_eq!(
        messages(&bytes),
        [
            "V5: Duplicate in tet chunk index, chunk_index at byte 224: expected one row for each tile, \
             found another one",
            "V5: CountMismatch in tet chunk index, entry_count at byte 88: expected 1, found 2",
        ]
    );
}

#[test]
fn an_unused_coordinate_hides_no_finding() {
    let mut bytes = two_tiles();
    (bytes[240], bytes[296], bytes[304]) = (5, 4, 4);
    let rules: Vec<_> = findings(&bytes).iter().map(|finding| finding.rule).collect();
    assert_eq!(rules, [TetRule::F1, TetRule::V6]);
}

#[test]
fn gaps_are_only_a_note() {
    let mut bytes = two_tiles();
    bytes[288] = 0x51;
    bytes.push(0);
    let message =
        "F4: NonCanonical in tet chunk index, payload order at byte 288: expected 336, found 337";
    assert_eq!(messages(&bytes), [message]);
    assert_eq!(findings(&bytes)[0].severity, TetSeverity::Note);
    assert!(TetView::parse_strict(&bytes).is_ok());
}

#[test]
fn findings_at_both_ends_of_a_file() {
    let mut no_data = *b"TETR\x01\0\0\0\0\0\0\0\0\0\0\0\x20\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
    assert!(messages(&no_data).is_empty());
    no_data[16] = 0;
    no_data[24] = 8;
    assert_eq!(
        messages(&no_data),
        ["F5: CountMismatch in tet superblock, chunk_index_length at byte 24: expected 0, found 8"]
    );
    assert!(
        TetView::parse_strict(&no_data).is_err()
            && TetView::parse(&no_data).unwrap().validate().is_ok()
    );

    assert!(messages(&with_footer()).is_empty());
    let mut early_footer = two_tiles();
    early_footer[12] = 1;
    early_footer.extend_from_slice(b"{\"zone_maps_ref\":{}}\x14\0\0\0\0\0\0\0\x01\0\0\0THST");
    assert_eq!(
        messages(&early_footer),
        ["F5: NonCanonical in tet footer, zone_maps_ref at byte 344: expected none in version 1, \
          found a reference"]
    );
    let mut repeated = two_tiles();
    repeated[12] = 1;
    let json = b"{}{\"metadata_ref\":{\"offset\":344,\"len\":2},\"metadata\":1}";
    repeated.extend_from_slice(json);
    repeated.extend_from_slice(b"\x34\0\0\0\0\0\0\0\x01\0\0\0THST");
    assert_eq!(
        messages(&repeated),
        [
            "F8: NonCanonical in tet footer, metadata_ref at byte 346: expected none beside metadata, \
          found a reference"
        ]
    );
}

#[test]
fn equal_names_are_an_error_each() {
    let bytes = scalars(&["samename", "othernam", "samename", "samename"]);
    assert_eq!(
        messages(&bytes),
        [136, 176].map(|at| std::format!(
            "F3: Duplicate in tet directory, name at byte {at}: expected a name of its own, found that \
             of another dataset"
        ))
    );
    assert_eq!(TetView::parse(&bytes).unwrap().validate().unwrap_err().class, Class::Duplicate);
}

#[test]
fn an_empty_extent_is_a_note() {
    let bytes = [
        &b"TETR\x01\0\0\0\x01\0\0\0\0\0\0\0\x50\0\0\0\0\0\0\0\x20\0\0\0\0\0\0\0"[..],
        b"\x28\0\0\0\0\0\0\0\x01\0\0\0\x01\0\0\0\x01\0\0\0\0\0\0\0",
        b"a\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x04\0\0\0\0\0\0\0",
        b"TIDX\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
    ]
    .concat();
    assert_eq!(
        messages(&bytes),
        ["F6: BadShape in tet directory, extent at byte 64: expected at least 1, found 0"]
    );
    assert!(TetView::parse(&bytes).unwrap().validate().is_ok());
    assert_eq!(findings(&bytes)[0].severity, TetSeverity::Note);
    assert!(TetView::parse_strict(&bytes).is_err(), "not every reader can query it");
}

/// Rewrites the rows of a file.
fn with_rows(bytes: &[u8], rows: &[Row]) -> Vec<u8> {
    let at =
        usize::try_from(TetView::parse(bytes).unwrap().superblock().chunk_index_offset()).unwrap();
    let index = index(rows);
    let mut bytes = bytes.to_vec();
    bytes[at..at + index.len()].copy_from_slice(&index);
    bytes
}

#[test]
fn rows_in_another_order_are_accepted() {
    let bytes = scalars(&["dataset1", "dataset2", "dataset3"]);
    let rows = TetView::parse(&bytes).unwrap().index().rows().to_vec();
    let [a, b, c] = rows[..] else { panic!() };
    for rows in [[c, a, b], [b, c, a], [c, b, a]] {
        let found = findings(&with_rows(&bytes, &rows));
        assert_eq!(found.iter().map(|f| f.rule).collect::<Vec<_>>(), [TetRule::F4]);
    }
    // Out of order, and one row twice: the later row is named, and its payload too.
    let found = messages(&with_rows(&bytes, &[c, a, c]));
    assert_eq!(
        found,
        [
            "V5: Duplicate in tet chunk index, chunk_index at byte 408: expected one row for each tile, \
             found another one",
            "F2: NonCanonical in tet chunk index, payload_offset at byte 472: expected at least 507, \
             found 506",
            "F4: NonCanonical in tet chunk index, payload order at byte 264: expected 504, found 506",
        ]
    );
}

#[test]
fn validation_can_be_stopped() {
    let bytes = scalars(&["samename", "samename", "samename"]);
    let mut calls = 0;
    let flow = TetView::parse(&bytes).unwrap().check(&mut |_| {
        calls += 1;
        ControlFlow::Break(())
    });
    assert_eq!((flow, calls), (ControlFlow::Break(()), 1));
}
