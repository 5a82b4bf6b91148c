//! Frame trailers, byte for byte, and one row per check.

use std::string::ToString;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;

/// A trailer with one entry: "units", of two bytes.
#[rustfmt::skip]
const GOOD: &[u8] = b"\x94\x01\x93\xcd\0\x11\xde\0\x01\xa5units\xd2\0\0\0\x17\xdc\0\x01\xc6\0\0\0\x02mm\
    \xce\0\0\0\x35\xd8\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";

#[test]
fn golden_bytes_both_ways() {
    let trailer = FrameTrailer::parse_strict(GOOD).unwrap();
    let entry = Entry { name: b"units", content: b"mm", at: 28 };
    assert_eq!(trailer.entries().collect::<Vec<_>>(), [entry]);
    assert_eq!((trailer.entry("units"), trailer.entry("unit")), (Some(entry), None));
    assert_eq!(FrameTrailer::encode(&[("units", b"mm")]).unwrap(), GOOD);
    assert_eq!(FrameTrailer::len_from_tail(&GOOD[30..]), Ok(53));

    let empty = b"\x94\x01\x93\xcd\0\x06\xde\0\0\xdc\0\0\xce\0\0\0\x23\xd8\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
    assert_eq!(FrameTrailer::encode(&[]).unwrap(), empty);
    assert!(FrameTrailer::parse_strict(empty).is_ok());
}

#[test]
#[rustfmt::skip]
fn each_check_has_its_message() {
    for (at, bytes, message) in [
        (0, &b"\x93"[..], "BadTag in frame trailer, trailer at byte 0: expected 148, found 147"),
        (1, b"\x02", "UnsupportedVersion in frame trailer, version at byte 1: expected 1, found 2"),
        (2, b"\x94", "BadTag in frame trailer, metalayers at byte 2: expected 147, found 148"),
        (7, b"\x20\x01", "LimitExceeded in frame trailer, entries at byte 6: expected at most 8192, found 8193"),
        (19, b"\x1e", "OutOfBounds in frame trailer, offset at byte 15: expected 23 to 29, found 30"),
        (27, b"\x03", "Truncated in frame trailer, content at byte 28: expected 3 bytes, found 2"),
        (30, b"\xcd", "BadTag in frame trailer, trailer length at byte 30: expected 206, found 205"),
        (34, b"\x34", "CountMismatch in frame trailer, trailer length at byte 30: expected 53, found 52"),
        (35, b"\xd7", "BadTag in frame trailer, fingerprint at byte 35: expected 216, found 215"),
    ] {
        let mut trailer = GOOD.to_vec();
        trailer[at..at + bytes.len()].copy_from_slice(bytes);
        assert_eq!(FrameTrailer::parse(&trailer).unwrap_err().to_string(), message);
    }
    let error = FrameTrailer::parse(&GOOD[..24]).unwrap_err();
    assert_eq!(error.to_string(), "Truncated in frame trailer, tail at byte 0: expected 25 bytes, found 24");
    for len in 0..GOOD.len() {
        assert!(FrameTrailer::parse(&GOOD[..len]).is_err(), "{len}");
    }
}

#[test]
#[rustfmt::skip]
fn each_check_of_the_tail_has_its_message() {
    let tail = &GOOD[30..];
    let patched = |at: usize, byte: u8| {
        let mut tail = tail.to_vec();
        tail[at] = byte;
        tail
    };
    for (tail, message) in [
        (tail[..22].to_vec(), "Truncated in frame trailer, fingerprint at byte 6: expected 17 bytes, found 16"),
        ([tail, b"\0"].concat(), "Trailing in frame trailer, bytes after the end at byte 23: expected 0, found 1"),
        (patched(0, 0xcf), "BadTag in frame trailer, trailer length at byte 0: expected 206, found 207"),
        (patched(5, 0xd9), "BadTag in frame trailer, fingerprint at byte 5: expected 216, found 217"),
        (patched(4, 24), "OutOfBounds in frame trailer, trailer length at byte 0: expected at least 25, found 24"),
    ] {
        assert_eq!(FrameTrailer::len_from_tail(&tail).unwrap_err().to_string(), message);
    }
}

#[test]
fn a_fingerprint_is_a_lint() {
    let mut trailer = GOOD.to_vec();
    trailer[40] = 7;
    assert!(FrameTrailer::parse(&trailer).is_ok());
    assert_eq!(
        FrameTrailer::parse_strict(&trailer).unwrap_err().to_string(),
        "NonCanonical in frame trailer, fingerprint at byte 36: expected 0, found 7"
    );
    let mut trailer = GOOD.to_vec();
    trailer[5] = 0x12;
    assert_eq!(
        FrameTrailer::parse_strict(&trailer).unwrap_err().to_string(),
        "NonCanonical in frame trailer, map length at byte 3: expected 17, found 18"
    );
}

#[test]
fn names_have_31_bytes_at_most() {
    let long_name = "n".repeat(32);
    assert!(FrameTrailer::encode(&[(&long_name[1..], b"")]).is_ok());
    assert_eq!(FrameTrailer::encode(&[(&long_name, b"")]).unwrap_err().class, Class::LimitExceeded);
}

#[test]
fn the_length_of_the_map_has_16_bits() {
    // Six bytes, and eight for each entry.
    let entries = std::vec![("nn", &b""[..]); 8192];
    let most = FrameTrailer::encode(&entries[1..]).unwrap();
    assert_eq!(FrameTrailer::parse_strict(&most).unwrap().entries().count(), 8191);
    assert_eq!(
        FrameTrailer::encode(&entries).unwrap_err().to_string(),
        "LimitExceeded in frame trailer, map length at byte 2: expected at most 65535, found 65542"
    );
}

proptest! {
    /// Encoded trailers are parsed to the same, and no changed byte makes the parser read out of
    /// bounds.
    #[test]
    fn one_byte_off(
        entries in prop::collection::vec(("[a-z]{0,31}", prop::collection::vec(any::<u8>(), 0..9)), 0..5),
        at: prop::sample::Index,
        byte: u8,
    ) {
        let entries: Vec<(&str, &[u8])> = entries.iter().map(|(n, c)| (n.as_str(), &c[..])).collect();
        let mut trailer = FrameTrailer::encode(&entries).unwrap();
        let view = FrameTrailer::parse_strict(&trailer).unwrap();
        let found: Vec<(&str, &[u8])> =
            view.entries().map(|e| (core::str::from_utf8(e.name).unwrap(), e.content)).collect();
        prop_assert_eq!(&found, &entries);

        *at.get_mut(&mut trailer) = byte;
        if let Ok(view) = FrameTrailer::parse(&trailer) {
            for entry in view.entries() {
                let end = entry.at as usize + entry.content.len();
                prop_assert!(end <= trailer.len() - 23);
                prop_assert_eq!(&trailer[entry.at as usize..end], entry.content);
            }
        }
    }
}
