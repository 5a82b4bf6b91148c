//! Tables of footers: their parts, and one row per check.

use std::string::{String, ToString};
use std::vec::Vec;

use super::*;

/// A footer with this JSON and these bytes before it.
fn tail(before: &str, json: &str, version: u8) -> Vec<u8> {
    let mut bytes = [before.as_bytes(), json.as_bytes()].concat();
    bytes.extend_from_slice(&u64::try_from(json.len()).unwrap().to_le_bytes());
    bytes.extend_from_slice(&[version, 0, 0, 0]);
    bytes.extend_from_slice(b"THST");
    bytes
}

/// Parses a tail that ends at 1000; no part of the footer lies before 500.
fn parse(tail: &[u8]) -> Result<Footer<'_>, FormatError> {
    Footer::parse(tail, 1000, 500)
}

fn reference(name: &str, offset: u64, len: u64) -> String {
    std::format!("\"{name}\":{{\"offset\":{offset},\"len\":{len}}}")
}

#[test]
fn spills_are_counted_by_version() {
    // One reference of each kind: 164 bytes of spills, JSON of 126.
    let json = |z: u64, s: u64, m: u64| {
        std::format!(
            "{{{},{},{}}}",
            reference("zone_maps_ref", z, 100),
            reference("secondary_index_ref", s, 60),
            reference("metadata_ref", m, 4)
        )
    };
    assert_eq!(json(500, 500, 500).len(), 126);
    let spilled = |z, s, m| tail("{  }", &json(z, s, m), 2);
    // Payloads end at 1000 - 16 - 126 - 164 = 694.
    let bytes = spilled(694, 794, 854);
    let footer = parse(&bytes).unwrap();
    assert_eq!((footer.version(), footer.payload_end(), footer.json_offset()), (2, 694, 858));
    assert_eq!(footer.spills()[0], Some(Span { offset: 694, len: 100 }));
    assert_eq!(footer.spills()[1], Some(Span { offset: 794, len: 60 }));
    assert_eq!(footer.spills()[2], Some(Span { offset: 854, len: 4 }));
    assert_eq!(footer.metadata(), Some(&b"{  }"[..]));
    assert!(footer.lints().is_empty());
    // Another order is valid too, but spills do not overlap.
    assert_eq!(parse(&spilled(754, 694, 854)).unwrap().payload_end(), 694);
    for (z, s, m, found) in [
        (694, 694, 854, 794), // two at one offset
        (695, 794, 854, 694),
        (694, 784, 854, 794),
        (684, 794, 854, 684),
        (694, 794, 853, 854),
    ] {
        assert_eq!(
            parse(&spilled(z, s, m)).unwrap_err().to_string(),
            std::format!(
                "CountMismatch in tet footer, spills at byte 858: expected spills back to back up to \
                 the JSON, found {found}"
            )
        );
    }
    // Version 1 has only the last spill.
    let bytes = tail("{  }", &json(694, 794, 854), 1);
    let footer = parse(&bytes).unwrap();
    assert_eq!((footer.payload_end(), footer.spills()[0]), (854, None));
    assert_eq!(
        footer.lints().iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["zone_maps_ref", "secondary_index_ref"].map(|name| std::format!(
            "NonCanonical in tet footer, {name} at byte 858: expected none in version 1, found a reference"
        ))
    );
}

#[test]
fn members_and_metadata() {
    let bytes = tail("", r#"{"history":[1],"metadata":{"a":2},"metadata_ref":null}"#, 1);
    let footer = parse(&bytes).unwrap();
    assert_eq!(footer.member("history"), Some(&b"[1]"[..]));
    assert_eq!(footer.member("nothing"), None);
    assert_eq!(footer.metadata(), Some(&b"{\"a\":2}"[..]));
    assert_eq!(footer.payload_end(), footer.json_offset());
    assert!(footer.lints().is_empty());
    let bytes = tail("", r#"{"metadata":null}"#, 1);
    assert_eq!(parse(&bytes).unwrap().metadata(), None);

    let json = std::format!("{{{},\"metadata\":{{}}}}", reference("metadata_ref", 929, 2));
    let bytes = tail("{}", &json, 1);
    assert_eq!(
        parse(&bytes).unwrap().lints().into_strict().unwrap_err().to_string(),
        "NonCanonical in tet footer, metadata_ref at byte 931: expected none beside metadata, found \
         a reference"
    );
}

#[test]
fn each_check_has_its_message() {
    let footer_of = |json: &str| tail("", json, 2);
    let with_length = |len: u64| {
        let mut bytes = footer_of("{}");
        bytes[2..10].copy_from_slice(&len.to_le_bytes());
        bytes
    };
    let mut magic = footer_of("{}");
    *magic.last_mut().unwrap() = b't';
    let meta = |spill: &str, offset, len| {
        tail(spill, &std::format!("{{{}}}", reference("metadata_ref", offset, len)), 1)
    };
    #[rustfmt::skip]
    let table = [
        (magic, "BadMagic in tet footer, magic at byte 996: expected THST, found 54 48 53 74"),
        (tail("", "{}", 0), "UnsupportedVersion in tet footer, history_version at byte 992: expected 1 to 2, found 0"),
        (tail("", "{}", 3), "UnsupportedVersion in tet footer, history_version at byte 992: expected 1 to 2, found 3"),
        (with_length(485), "OutOfBounds in tet footer, history_json_len at byte 984: expected at most 484, found 485"),
        (with_length(u64::MAX), "OutOfBounds in tet footer, history_json_len at byte 984: expected at most 484, found 18446744073709551615"),
        (with_length(484), "Truncated in tet footer, footer at byte 982: expected 500 bytes, found 18"),
        (footer_of(""), "Encoding in tet footer, history_json at byte 984: expected a JSON object, found something else"),
        (footer_of("{]"), "Encoding in tet footer, history_json at byte 983: expected JSON, found something else"),
        (footer_of(r#"{"zone_maps_ref":1}"#), "Encoding in tet footer, zone_maps_ref at byte 965: expected whole numbers offset and len, found something else"),
        (footer_of(r#"{"zone_maps_ref":{"offset":-1,"len":1}}"#), "Encoding in tet footer, zone_maps_ref at byte 945: expected whole numbers offset and len, found something else"),
        (footer_of(r#"{"metadata_ref":null,"metadata_ref":null}"#), "Duplicate in tet footer, metadata_ref at byte 943: expected one member of this name, found more"),
        (footer_of(r#"{"zone_maps_ref":{"offset":600,"len":446}}"#), "OutOfBounds in tet footer, zone_maps_ref at byte 942: expected a span between index and JSON, found another one"),
        (footer_of(r#"{"zone_maps_ref":{"offset":499,"len":1}}"#), "OutOfBounds in tet footer, zone_maps_ref at byte 944: expected a span between index and JSON, found another one"),
        (footer_of(r#"{"zone_maps_ref":{"offset":945,"len":1}}"#), "OutOfBounds in tet footer, zone_maps_ref at byte 944: expected a span between index and JSON, found another one"),
        (footer_of(r#"{"zone_maps_ref":{"offset":500,"len":300},"secondary_index_ref":{"offset":800,"len":200}}"#),
            "OutOfBounds in tet footer, spills at byte 895: expected at least 500, found 395"),
        (meta("", 900, 44), "Truncated in tet footer, footer at byte 944: expected 100 bytes, found 56"),
        (meta("[]", 943, 2), "Encoding in tet footer, metadata at byte 943: expected a JSON object, found something else"),
    ];
    for (bytes, message) in table {
        assert_eq!(parse(&bytes).unwrap_err().to_string(), message);
    }
    assert_eq!(
        Footer::parse(&footer_of("{}"), 515, 500).unwrap_err().to_string(),
        "Truncated in tet footer, tail at byte 500: expected 16 bytes, found 15"
    );
    for start in 1..18 {
        assert_eq!(parse(&footer_of("{}")[start..]).unwrap_err().class, Class::Truncated);
    }
}

#[test]
fn only_plain_footers_are_written() {
    assert_eq!(encode_footer(b"{}").unwrap(), b"{}\x02\0\0\0\0\0\0\0\x01\0\0\0THST");
    let long_json = std::format!("{{\"a\":\"{}\"}}", "x".repeat(65_529));
    #[rustfmt::skip]
    let table = [
        (&long_json[..], "LimitExceeded in tet footer, history_json_len at byte 0: expected at most 65536, found 65537"),
        ("{", "Encoding in tet footer, history_json at byte 1: expected JSON, found something else"),
        (r#"{"metadata_ref":null}"#, "InvalidArgument in tet footer, metadata_ref at byte 0: expected no reference to a spill, found one"),
    ];
    for (json, message) in table {
        assert_eq!(encode_footer(json.as_bytes()).unwrap_err().to_string(), message);
    }
}

#[test]
fn spills_larger_than_the_file_are_refused() {
    let json =
        r#"{"zone_maps_ref":{"offset":0,"len":900},"secondary_index_ref":{"offset":0,"len":900}}"#;
    let bytes = tail("", json, 2);
    let file_len = 900 + u64::try_from(bytes.len()).unwrap();
    assert_eq!(
        Footer::parse(&bytes, file_len, 0).unwrap_err().to_string(),
        "OutOfBounds in tet footer, spills at byte 900: expected at least 0, found -900"
    );
}
