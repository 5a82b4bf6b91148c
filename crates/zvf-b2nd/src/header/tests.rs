//! Frame headers with their metalayers, byte for byte, and one row per check.

use std::string::ToString;
use std::vec::Vec;

use proptest::prelude::*;

use super::super::fixed::FrameKind;
use super::*;

/// A header with one metalayer: "b2nd", of two bytes.
#[rustfmt::skip]
const GOOD: &[u8] = b"\x9e\xa8b2frame\0\xd2\0\0\0\x72\xcf\0\0\0\0\0\0\x02\xbb\xa4\x12\x00\x51\x02\
    \xd3\0\0\0\0\0\0\x01\x00\xd3\0\0\0\0\0\0\x01\x80\xd2\0\0\0\x04\xd2\0\0\0\x10\xd2\0\0\0\x40\
    \xd1\0\x01\xd1\0\x02\xc3\xd8\x06\x01\0\0\0\0\x02\x01\x07\0\0\0\0\0\x09\x01\0\
    \x93\xcd\0\x11\xde\0\x01\xa4b2nd\xd2\0\0\0\x6b\xdc\0\x01\xc6\0\0\0\x02hi";

fn fields() -> FrameFields {
    FrameFields {
        header_len: 114,
        frame_len: 699,
        general_flags: 0x12,
        kind: FrameKind::Contiguous,
        codec_flags: 0x51,
        other_flags: 2,
        uncompressed_size: 256,
        compressed_size: 384,
        type_size: 4,
        block_size: 16,
        chunk_size: 64,
        compression_threads: 1,
        decompression_threads: 2,
        has_vlmetalayers: true,
        filters: [1, 0, 0, 0, 0, 2],
        compressor: 1,
        codec_meta: 7,
        filter_metas: [0, 0, 0, 0, 0, 9],
        other_flags2: 1,
        reserved: 0,
    }
}

#[test]
fn golden_bytes_both_ways() {
    let header = FrameHeader::parse_strict(GOOD).unwrap();
    assert_eq!(*header.fields(), fields());
    let entry = Entry { name: b"b2nd", content: b"hi", at: 112 };
    assert_eq!(header.metalayers().collect::<Vec<_>>(), [entry]);
    assert_eq!(header.metalayer("b2nd"), Some(entry));
    assert_eq!(header.metalayer("b2n"), None);
    assert_eq!(FrameHeader::encode(&fields(), &[("b2nd", b"hi")]).unwrap(), GOOD);

    let fixed = FixedHeader::parse(&GOOD[..87]).unwrap();
    assert_eq!((fixed.header_range(), fixed.tail_range()), (0..114, 676..699));
    assert_eq!(fixed.data_end(), 114 + 384);
    let sparse = FrameFields { kind: FrameKind::Sparse, compressed_size: 1 << 40, ..fields() };
    let bytes = FrameHeader::encode(&sparse, &[]).unwrap();
    assert_eq!(FixedHeader::parse(&bytes).unwrap().data_end(), 97);
}

#[test]
#[rustfmt::skip]
fn each_check_of_the_fixed_part_has_its_message() {
    for (at, bytes, message) in [
        (3, &b"B"[..], "BadMagic in frame header, magic at byte 0: expected 9e a8 \"b2frame\" 00, found 62 42 66 72"),
        (9, b"x", "BadMagic in frame header, magic at byte 0: expected 9e a8 \"b2frame\" 00, found 62 32 66 72"),
        (10, b"\xd1", "BadTag in frame header, header_len at byte 10: expected 210, found 209"),
        (11, b"\xff\xff\xff\xff", "Negative in frame header, header_len at byte 10: expected at least 0, found -1"),
        (11, b"\0\0\0\x56", "OutOfBounds in frame header, header_len at byte 10: expected 87 to 674, found 86"),
        (11, b"\0\0\x02\xa3", "OutOfBounds in frame header, header_len at byte 10: expected 87 to 674, found 675"),
        (15, b"\xd3", "BadTag in frame header, frame_len at byte 15: expected 207, found 211"),
        (22, b"\0\x6f", "OutOfBounds in frame header, frame_len at byte 15: expected 112 to 9223372036854775807, found 111"),
        (16, b"\x80", "OutOfBounds in frame header, frame_len at byte 15: expected 112 to 9223372036854775807, found 9223372036854776507"),
        (24, b"\xa5", "BadTag in frame header, flags at byte 24: expected 164, found 165"),
        (25, b"\x14", "UnsupportedVersion in frame header, frame format at byte 25: expected at most 3, found 4"),
        (25, b"\x22", "UnsupportedFlags in frame header, offset width at byte 25: expected 1, found 2"),
        (25, b"\x02", "UnsupportedFlags in frame header, offset width at byte 25: expected 1, found 0"),
        (26, b"\x02", "BadTag in frame header, frame type at byte 26: expected 0 to 1, found 2"),
        (29, b"\xcf", "BadTag in frame header, uncompressed_size at byte 29: expected 211, found 207"),
        (30, b"\xff", "Negative in frame header, uncompressed_size at byte 29: expected at least 0, found -72057594037927680"),
        (38, b"\xcf", "BadTag in frame header, compressed_size at byte 38: expected 211, found 207"),
        (39, b"\xff", "Negative in frame header, compressed_size at byte 38: expected at least 0, found -72057594037927552"),
        (45, b"\x02\x31", "OutOfBounds in frame header, compressed_size at byte 38: expected at most 560, found 561"),
        (47, b"\xce", "BadTag in frame header, type_size at byte 47: expected 210, found 206"),
        (48, b"\0\0\0\0", "BadShape in frame header, type_size at byte 47: expected at least 1, found 0"),
        (48, b"\x80", "Negative in frame header, type_size at byte 47: expected at least 0, found -2147483644"),
        (52, b"\xce", "BadTag in frame header, block_size at byte 52: expected 210, found 206"),
        (53, b"\x80", "Negative in frame header, block_size at byte 52: expected at least 0, found -2147483632"),
        (57, b"\xce", "BadTag in frame header, chunk_size at byte 57: expected 210, found 206"),
        (58, b"\x80", "Negative in frame header, chunk_size at byte 57: expected at least 0, found -2147483584"),
        (62, b"\xcd", "BadTag in frame header, compression threads at byte 62: expected 209, found 205"),
        (65, b"\xcd", "BadTag in frame header, decompression threads at byte 65: expected 209, found 205"),
        (68, b"\xc1", "BadTag in frame header, has vlmetalayers at byte 68: expected 194 to 195, found 193"),
        (69, b"\xd7", "BadTag in frame header, ext header at byte 69: expected 216, found 215"),
        (70, b"\x05", "BadTag in frame header, filter slots at byte 70: expected 6, found 5"),
    ] {
        let mut header = GOOD.to_vec();
        header[at..at + bytes.len()].copy_from_slice(bytes);
        assert_eq!(FixedHeader::parse(&header).unwrap_err().to_string(), message);
    }
    for len in 0..87 {
        assert_eq!(FixedHeader::parse(&GOOD[..len]).unwrap_err().class, Class::Truncated);
    }
}

#[test]
#[rustfmt::skip]
fn each_check_of_the_metalayers_has_its_message() {
    for (at, bytes, message) in [
        (87, &b"\x92"[..], "BadTag in frame header, metalayers at byte 87: expected 147, found 146"),
        (88, b"\xce", "BadTag in frame header, map length at byte 88: expected 205, found 206"),
        (91, b"\xdf", "BadTag in frame header, entries at byte 91: expected 222, found 223"),
        (93, b"\x11", "LimitExceeded in frame header, entries at byte 91: expected at most 16, found 17"),
        (94, b"\xc4", "BadTag in frame header, name at byte 94: expected 160 to 191, found 196"),
        (94, b"\xbf", "Truncated in frame header, name at byte 95: expected 31 bytes, found 19"),
        (99, b"\xd1", "BadTag in frame header, offset at byte 99: expected 210, found 209"),
        (100, b"\x80", "Negative in frame header, offset at byte 99: expected at least 0, found -2147483541"),
        (103, b"\x6a", "OutOfBounds in frame header, offset at byte 99: expected 107 to 113, found 106"),
        (103, b"\x72", "OutOfBounds in frame header, offset at byte 99: expected 107 to 113, found 114"),
        (104, b"\xdd", "BadTag in frame header, contents at byte 104: expected 220, found 221"),
        (106, b"\x02", "CountMismatch in frame header, contents at byte 104: expected 1, found 2"),
        (107, b"\xc4", "BadTag in frame header, content at byte 107: expected 198, found 196"),
        (108, b"\x80", "Negative in frame header, content at byte 107: expected at least 0, found -2147483646"),
        (111, b"\x03", "Truncated in frame header, content at byte 112: expected 3 bytes, found 2"),
        (113, b"ix", "Trailing in frame header, bytes after the end at byte 114: expected 0, found 1"),
    ] {
        let mut header = GOOD.to_vec();
        header.resize(GOOD.len().max(at + bytes.len()), 0);
        header[at..at + bytes.len()].copy_from_slice(bytes);
        assert_eq!(FrameHeader::parse(&header).unwrap_err().to_string(), message);
    }
    let error = FrameHeader::parse(&GOOD[..113]).unwrap_err();
    assert_eq!(error.to_string(), "Truncated in frame header, metalayers at byte 0: expected 114 bytes, found 113");
}

#[test]
fn duplicate_names_are_refused() {
    let refused = FrameHeader::encode(&fields(), &[("a", b"1"), ("b", b"2"), ("a", b"3")]);
    assert_eq!(
        refused.unwrap_err().to_string(),
        "Duplicate in frame header, metalayer at byte 135: expected a name of its own, found another one"
    );
    assert!(FrameHeader::encode(&fields(), &[("a", b"1"), ("b", b"1")]).is_ok());
}

#[test]
#[rustfmt::skip]
fn encoders_refuse_what_parsers_refuse() {
    let long_name = "n".repeat(32);
    let many_entries = [("", &b""[..]); 17];
    for (fields, entries, message) in [
        (fields(), &[(long_name.as_str(), &b""[..])][..], "LimitExceeded in frame header, name at byte 94: expected at most 31, found 32"),
        (fields(), &many_entries, "LimitExceeded in frame header, entries at byte 87: expected at most 16, found 17"),
        (FrameFields { frame_len: 1, ..fields() }, &[], "OutOfBounds in frame header, frame_len at byte 15: expected 112 to 9223372036854775807, found 1"),
        (FrameFields { chunk_size: 1 << 31, ..fields() }, &[], "Negative in frame header, chunk_size at byte 57: expected at least 0, found -1"),
        (FrameFields { compressed_size: 1 << 63, ..fields() }, &[], "Negative in frame header, compressed_size at byte 38: expected at least 0, found -1"),
    ] {
        assert_eq!(FrameHeader::encode(&fields, entries).unwrap_err().to_string(), message);
    }
}

#[test]
#[rustfmt::skip]
fn each_lint_has_its_message() {
    let gap = {
        let mut header = GOOD.to_vec();
        header[14] = 0x73;
        header[103] = 0x6c;
        header.insert(107, 0);
        header
    };
    let with_extra_byte = {
        let mut header = GOOD.to_vec();
        header[14] = 0x73;
        header.push(0);
        header
    };
    let patched = |at: usize| {
        let mut header = GOOD.to_vec();
        header[at] ^= 2;
        header
    };
    for (header, message) in [
        (patched(86), "NonCanonical in frame header, reserved at byte 86: expected 0, found 2"),
        (patched(90), "NonCanonical in frame header, map length at byte 88: expected 17, found 19"),
        (gap, "NonCanonical in frame header, content at byte 108: expected 107, found 108"),
        (with_extra_byte, "NonCanonical in frame header, end of contents at byte 114: expected 115, found 114"),
    ] {
        assert!(FrameHeader::parse(&header).is_ok());
        assert_eq!(FrameHeader::parse_strict(&header).unwrap_err().to_string(), message);
    }
}

proptest! {
    /// A header with one changed byte is refused, or is another valid header.
    #[test]
    fn one_byte_off(at in 0..GOOD.len(), byte: u8) {
        let mut bytes = GOOD.to_vec();
        bytes[at] = byte;
        if let Ok(header) = FrameHeader::parse(&bytes) {
            prop_assert_eq!(header.header_len(), bytes.len() as u64);
            prop_assert!(header.fixed_header().data_end() + 25 <= header.fields().frame_len);
            for entry in header.metalayers() {
                let end = entry.at as usize + entry.content.len();
                prop_assert_eq!(&bytes[entry.at as usize..end], entry.content);
            }
            if header.lints().is_empty() {
                let names: Vec<_> = header.metalayers()
                    .filter_map(|e| Some((core::str::from_utf8(e.name).ok()?, e.content)))
                    .collect();
                if names.len() == header.metalayers().count() {
                    prop_assert_eq!(FrameHeader::encode(header.fields(), &names).unwrap(), bytes);
                }
            }
        }
    }
}

impl FrameHeader<'_> {
    fn header_len(&self) -> u64 {
        self.fields().header_len.into()
    }
}
