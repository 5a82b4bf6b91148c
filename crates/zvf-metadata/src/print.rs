//! Prints values as JSON: one line, a space after each comma and colon, keys in their order.
//!
//! Not here: which keys a document has and in which order (the `to_…` method of each type).

use alloc::string::String;
use core::fmt::Write as _;

use serde_json::Value;

use super::Object;
use super::keys::KeyList;

/// Prints one value.
///
/// ```
/// use zvf_metadata::print;
///
/// let value = serde_json::json!({"scale": [1.0, 2.5], "none": null});
/// assert_eq!(print(&value), r#"{"scale": [1.0, 2.5], "none": null}"#);
/// ```
pub fn print(value: &Value) -> String {
    let mut out = String::new();
    put(&mut out, value);
    out
}

/// Prints an object whose key `attributes` holds a presence list that is stored separately.
pub(super) fn print_with(object: &Object, presence: &KeyList) -> String {
    let mut out = String::new();
    put_object(&mut out, object, Some(presence));
    out
}

fn put_object(out: &mut String, object: &Object, presence: Option<&KeyList>) {
    out.push('{');
    for (i, (key, value)) in object.iter().enumerate() {
        comma(out, i);
        put_key(out, key);
        match (presence, value) {
            (Some(presence), Value::Object(inner)) if key == "attributes" => {
                put_attributes(out, inner, presence);
            }
            _ => put(out, value),
        }
    }
    out.push('}');
}

fn put_attributes(out: &mut String, attributes: &Object, presence: &KeyList) {
    out.push_str("{\"nonempty_chunks\": [");
    for (i, key) in presence.iter().enumerate() {
        comma(out, i);
        put_text(out, key);
    }
    out.push(']');
    for (key, value) in attributes {
        out.push_str(", ");
        put_key(out, key);
        put(out, value);
    }
    out.push('}');
}

fn put(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Number(number) => {
            let _infallible = write!(out, "{number}"); // a String takes everything
        }
        Value::String(text) => put_text(out, text),
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                comma(out, i);
                put(out, item);
            }
            out.push(']');
        }
        Value::Object(object) => put_object(out, object, None),
    }
}

fn put_key(out: &mut String, key: &str) {
    put_text(out, key);
    out.push_str(": ");
}

fn comma(out: &mut String, i: usize) {
    if i > 0 {
        out.push_str(", ");
    }
}

fn put_text(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\0'..='\u{1f}' => {
                let _infallible = write!(out, "\\u{:04x}", u32::from(c));
            }
            _ => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_each_kind_of_value() {
        for text in [
            r"[]",
            r"{}",
            r#"{"": [[], {}, null, true, false]}"#,
            r#"[-9223372036854775808, 18446744073709551615, 10.0, 1e-300, -0.5]"#,
            r#""a\"b\\c\n\r\t\u0001é""#,
        ] {
            let value: Value = serde_json::from_str(text).unwrap();
            assert_eq!(print(&value), text);
        }
    }

    #[test]
    fn a_presence_list_comes_first_among_the_attributes() {
        let value = serde_json::json!({"shape": [1], "attributes": {"a": 1}});
        let keys: KeyList = ["0", "\"1"].into_iter().collect();
        assert_eq!(
            print_with(value.as_object().unwrap(), &keys),
            r#"{"shape": [1], "attributes": {"nonempty_chunks": ["0", "\"1"], "a": 1}}"#
        );
    }
}
