//! JSON: limits, depth, and invalid JSON that some writers print.

use std::string::{String, ToString as _};

use serde_json::json;

use super::*;
use crate::tests::fault;

fn read(text: &str) -> Result<Value, MetadataError> {
    parse(text.as_bytes(), &Limits::GROUP, false).map(|parsed| parsed.value)
}

#[test]
fn parses_values_of_every_kind() {
    for (text, expected) in [
        ("null", json!(null)),
        (" \t\r\n true ", json!(true)),
        ("false", json!(false)),
        ("0", json!(0)),
        ("-0", json!(0)),
        ("-12", json!(-12)),
        ("9223372036854775807", json!(i64::MAX)),
        ("18446744073709551615", json!(u64::MAX)),
        ("18446744073709551616", json!(18_446_744_073_709_551_616.0)),
        ("-9223372036854775809", json!(-9_223_372_036_854_775_809.0)),
        ("1.5e3", json!(1500.0)),
        ("1E-2", json!(0.01)),
        ("1e+2", json!(100.0)),
        ("1e-999", json!(0.0)),
        ("10.0", json!(10.0)),
        (r#""""#, json!("")),
        (r#""a\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00é""#, json!("a\"\\/\u{8}\u{c}\n\r\té😀é")),
        ("[]", json!([])),
        ("[ ]", json!([])),
        ("[1, [2, []], {}]", json!([1, [2, []], {}])),
        (r#"{"a": {"b": [1]}, "": 2}"#, json!({"a": {"b": [1]}, "": 2})),
    ] {
        assert_eq!(read(text).unwrap(), expected, "{text}");
    }
    let keys: Vec<_> =
        read(r#"{"b": 1, "a": 2}"#).unwrap().as_object().unwrap().keys().cloned().collect();
    assert_eq!(keys, ["b", "a"]);
}

#[test]
fn every_fault_is_reported_with_its_location() {
    for (text, message) in [
        ("", "Truncated, document: a value, found the end of the text"),
        (" ", "Truncated, document at byte 1: a value, found the end of the text"),
        ("nul", "Encoding, document: a value, found \"nul\""),
        ("nulls", "Encoding, document: a value, found \"nulls\""),
        ("[1,]", "Encoding, [1] at byte 3: a value, found \"]\""),
        ("[1 2]", "Encoding, [1] at byte 3: a comma or the end, found \"2]\""),
        ("[1", "Truncated, [1] at byte 2: a comma or the end, found the end of the text"),
        ("{", "Truncated, document at byte 1: a key, found the end of the text"),
        ("{1: 2}", "Encoding, document at byte 1: a key, found \"1: 2}\""),
        (r#"{"a": 1, }"#, "Encoding, document at byte 9: a key, found \"}\""),
        (r#"{"a" 1}"#, "Encoding, a at byte 5: a colon, found \"1}\""),
        (r#"{"a""#, "Truncated, a at byte 4: a colon, found the end of the text"),
        (r#"{"a": 1] "#, "Encoding, document at byte 7: a comma or the end, found \"] \""),
        (r#"{"a": 1, "a": 2}"#, "Duplicate, a at byte 12: each key once, found it again"),
        (
            r#"{"a": {"b c": [0, {"d": NaN}]}}"#,
            "Encoding, a.\"b c\"[1].d at byte 24: a finite number, found NaN",
        ),
        ("[-Infinity]", "Encoding, [0] at byte 1: a finite number, found -Infinity"),
        ("[Infinity]", "Encoding, [0] at byte 1: a finite number, found Infinity"),
        (
            r#"{"x": [1e999]}"#,
            "Overflow, x[0] at byte 7: a number that 64 bits can hold, found \"1e999\"",
        ),
        ("[-1e999]", "Overflow, [0] at byte 1: a number that 64 bits can hold, found \"-1e999\""),
        ("01", "Encoding, document: a number, found \"01\""),
        ("-", "Encoding, document: a number, found \"-\""),
        ("1.", "Encoding, document: a number, found \"1.\""),
        ("1e", "Encoding, document: a number, found \"1e\""),
        ("1e+", "Encoding, document: a number, found \"1e+\""),
        ("+1", "Encoding, document: a value, found \"+1\""),
        ("1 2", "Trailing, document at byte 2: the end of the document, found more"),
        ("\"a", "Truncated, document at byte 2: the end of a string, found the end of the text"),
        ("\"a\\", "Truncated, document at byte 2: an escape, found the end of the text"),
        ("\"\\x\"", "Encoding, document at byte 1: an escape of JSON, found \"\\\\x\\\"\""),
        (
            "\"\\ud800\"",
            "Encoding, document at byte 1: a character in hexadecimal, found \"\\\\ud800\\\"\"",
        ),
        (
            "\"\\ud800\\u0041\"",
            "Encoding, document at byte 1: a character in hexadecimal, found \"\\\\ud800\\\\u\"",
        ),
        (
            "\"\\u+123\"",
            "Encoding, document at byte 1: a character in hexadecimal, found \"\\\\u+123\\\"\"",
        ),
        (
            "\"a\nb\"",
            "Encoding, document at byte 2: no control characters in a string, found \"\\nb\\\"\"",
        ),
        ("\u{feff}1", "Encoding, document: a value, found \"\\u{feff}1\""),
    ] {
        assert_eq!(fault(&read(text).unwrap_err()), message, "{text}");
    }
    let error = parse(b"[\"\xff\"]", &Limits::GROUP, false).unwrap_err();
    assert_eq!(fault(&error), "Encoding, document at byte 2: text in UTF-8, found another byte");
    let error = parse(&[0x1f, 0x8b, 8, 0], &Limits::GROUP, false).unwrap_err();
    assert!(fault(&error).contains("found bytes of gzip"), "{error}");
}

#[test]
fn limits_apply_before_allocation() {
    let nested = |n: usize| "[".repeat(n) + &"]".repeat(n);
    read(&nested(64)).unwrap();
    for n in [65, 100_000] {
        let error = read(&nested(n)).unwrap_err();
        assert_eq!((error.class(), error.error.offset), (Class::LimitExceeded, 64));
        assert_eq!(error.error.found, Found::Int(65));
    }
    let narrow = Limits { bytes: 64, depth: 2, values: 10 };
    for (text, message) in [
        ("[0,0,0,0,0,0,0,0,0]", None),
        ("[0,0,0,0,0,0,0,0,0,0]", Some("LimitExceeded, [9] at byte 19: at most 10, found 11")),
        (r#"{"a":0,"b":0}"#, None),
        (
            r#"{"a":0,"b":0,"c":0}"#,
            Some("LimitExceeded, document at byte 13: at most 10, found 11"),
        ),
        ("[[]]", None),
        ("[[[]]]", Some("LimitExceeded, [0][0] at byte 2: at most 2, found 3")),
    ] {
        let found = parse(text.as_bytes(), &narrow, false).map_err(|error| fault(&error));
        match message {
            None => assert!(found.is_ok(), "{text}: {found:?}"),
            Some(message) => assert_eq!(found.unwrap_err(), message),
        }
    }
    let padded = std::format!("{:>65}", "1");
    let error = parse(padded.as_bytes(), &narrow, false).unwrap_err();
    assert_eq!(fault(&error), "LimitExceeded, document: at most 64, found 65");
}

#[test]
fn a_presence_list_allocates_no_values() {
    let limits = Limits { bytes: 1 << 20, depth: 4, values: 32 };
    let keys: Vec<_> = (0..1000).map(|i| std::format!("\"{i}.0\"")).collect();
    let list = keys.join(", ");
    let text = std::format!(
        r#"{{"nonempty_chunks": [1], "attributes": {{"nonempty_chunks": [{list}], "deep": {{"nonempty_chunks": ["x"]}}}}}}"#
    );
    let Parsed { value, keys, .. } = parse(text.as_bytes(), &limits, true).unwrap();
    let presence = keys.unwrap();
    assert_eq!((presence.len(), presence.get(999)), (1000, Some("999.0")));
    assert_eq!(value["attributes"]["nonempty_chunks"], Value::Null);
    assert_eq!(value["attributes"]["deep"]["nonempty_chunks"], json!(["x"]));
    assert_eq!(value["nonempty_chunks"], json!([1]));
    assert_eq!(parse(text.as_bytes(), &limits, false).unwrap_err().class(), Class::LimitExceeded);
    let empty = parse(br#"{"attributes": {"nonempty_chunks": [ ]}}"#, &limits, true).unwrap();
    assert_eq!(empty.keys, Some(KeyList::default()));
    for (item, found) in [("7", "a value"), ("[]", "a value"), ("{\"a\": 1}", "a value")] {
        let text = std::format!(r#"{{"attributes": {{"nonempty_chunks": ["0.0", {item}]}}}}"#);
        let error = parse(text.as_bytes(), &limits, true).unwrap_err();
        assert_eq!(error.path, "attributes.nonempty_chunks[1]", "{found}");
        assert_eq!(error.class(), Class::BadTag);
    }
    let other_document =
        parse(br#"{"attributes": {"nonempty_chunks": "x"}}"#, &limits, true).unwrap();
    assert_eq!(
        (other_document.keys, &other_document.value["attributes"]["nonempty_chunks"]),
        (None, &json!("x"))
    );
}

/// Short documents that would need much memory.
#[test]
fn hostile_documents_are_refused_early() {
    let text: String = "[".to_string() + &"0,".repeat(1 << 20) + "0]";
    assert_eq!(read(&text).unwrap_err().class(), Class::LimitExceeded);
    let digits = "9".repeat(1 << 20);
    assert_eq!(read(&digits).unwrap_err().class(), Class::Overflow);
}
