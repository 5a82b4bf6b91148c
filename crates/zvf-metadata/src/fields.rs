//! Parses an object key by key, and builds one.
//!
//! Keys that a parser takes are removed from the object; the rest are unknown keys, which every
//! type here keeps and prints again. Parsing is lenient where the meaning is clear: integers may be
//! written as floats and floats as integers, and `null` means that the key is absent.

use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use serde_json::{Number, Value};

use super::Object;
use super::error::{At, MetadataError, quoted};
use super::keys::KeyList;
use zvf_format::num;
use zvf_format::{Class, Expected};

/// An object that is being parsed.
#[derive(Debug)]
pub(super) struct Fields<'a> {
    at: &'a At<'a>,
    left: Object,
}

impl<'a> Fields<'a> {
    /// Begins to parse the object at `at`.
    pub(super) const fn new(at: &'a At<'a>, object: Object) -> Self {
        Self { at, left: object }
    }

    /// Begins to parse `value`, which must be an object.
    pub(super) fn from_value(at: &'a At<'a>, value: Value) -> Result<Self, MetadataError> {
        Ok(Self::new(at, object(at, value)?))
    }

    /// Takes the value of the required `key`.
    pub(super) fn require<T>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(&At<'_>, Value) -> Result<T, MetadataError>,
    ) -> Result<T, MetadataError> {
        let at = self.at.key(key);
        match self.left.shift_remove(key) {
            Some(value) => read(&at, value),
            None => Err(MetadataError::rule(Class::BadTag, &at, "a value", "nothing")),
        }
    }

    /// Takes the value of `key`, or returns `None` if it is absent or null.
    pub(super) fn take<T>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(&At<'_>, Value) -> Result<T, MetadataError>,
    ) -> Result<Option<T>, MetadataError> {
        match self.left.shift_remove(key) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => read(&self.at.key(key), value).map(Some),
        }
    }

    /// Accepts the older spelling `old` if `key` is absent.
    pub(super) fn accept(&mut self, old: &'static str, key: &'static str) {
        if !self.left.contains_key(key)
            && let Some(value) = self.left.shift_remove(old)
        {
            self.left.insert(key.to_string(), value);
        }
    }

    /// Puts a presence list back among the attributes, for documents that do not store it
    /// separately.
    pub(super) fn restore(&mut self, presence: &KeyList) {
        if let Some(Value::Object(attributes)) = self.left.get_mut("attributes") {
            let keys = presence.iter().map(Value::from).collect();
            attributes.insert("nonempty_chunks".to_string(), Value::Array(keys));
        }
    }

    /// Returns the fields that were not taken.
    pub(super) fn into_remaining(self) -> Object {
        self.left
    }
}

/// An object that is being built, with its keys in the order of the calls.
#[derive(Debug, Default)]
pub(super) struct Put(Object);

impl Put {
    /// Begins with an empty object.
    pub(super) fn new() -> Self {
        Self::default()
    }

    /// Adds `key`.
    pub(super) fn put(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.0.insert(key.to_string(), value.into());
        self
    }

    /// Adds `key` if there is a value.
    pub(super) fn put_some(self, key: &str, value: Option<impl Into<Value>>) -> Self {
        match value {
            Some(value) => self.put(key, value),
            None => self,
        }
    }

    /// Adds `key` if `value` is true.
    pub(super) fn flag(self, key: &str, value: bool) -> Self {
        if value { self.put(key, true) } else { self }
    }

    /// Returns the object, with those keys of `extras` that it does not have.
    pub(super) fn with_extras(mut self, extras: &Object) -> Object {
        for (key, value) in extras {
            if !self.0.contains_key(key) {
                self.0.insert(key.clone(), value.clone());
            }
        }
        self.0
    }
}

/// Reads any value.
#[expect(clippy::unnecessary_wraps, reason = "one signature for all readers")]
pub(super) fn any_value(_at: &At<'_>, value: Value) -> Result<Value, MetadataError> {
    Ok(value)
}

/// Reads an object.
pub(super) fn object(at: &At<'_>, value: Value) -> Result<Object, MetadataError> {
    match value {
        Value::Object(object) => Ok(object),
        other @ (Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_)) => Err(wrong_value_error(at, "an object", &other)),
    }
}

/// Reads a list, element by element.
pub(super) fn list<T>(
    at: &At<'_>,
    value: Value,
    read: impl Fn(&At<'_>, Value) -> Result<T, MetadataError>,
) -> Result<Vec<T>, MetadataError> {
    match value {
        Value::Array(items) => {
            items.into_iter().enumerate().map(|(i, item)| read(&at.item(i), item)).collect()
        }
        other @ (Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Object(_)) => Err(wrong_value_error(at, "a list", &other)),
    }
}

/// Reads a string.
pub(super) fn text(at: &At<'_>, value: Value) -> Result<String, MetadataError> {
    match value {
        Value::String(text) => Ok(text),
        other @ (Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::Array(_)
        | Value::Object(_)) => Err(wrong_value_error(at, "a string", &other)),
    }
}

/// Reads a boolean.
pub(super) fn flag(at: &At<'_>, value: Value) -> Result<bool, MetadataError> {
    match value {
        Value::Bool(flag) => Ok(flag),
        other @ (Value::Null
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_)
        | Value::Object(_)) => Err(wrong_value_error(at, "true or false", &other)),
    }
}

/// Reads a number; documents hold only finite ones.
pub(super) fn number(at: &At<'_>, value: Value) -> Result<f64, MetadataError> {
    value.as_f64().ok_or_else(|| wrong_value_error(at, "a number", &value))
}

/// Reads an integer.
pub(super) fn int(at: &At<'_>, value: Value) -> Result<i64, MetadataError> {
    as_integer(&value).ok_or_else(|| wrong_value_error(at, "a whole number of 64 bits", &value))
}

/// Reads a nonnegative integer.
pub(super) fn count(at: &At<'_>, value: Value) -> Result<u64, MetadataError> {
    if let Some(n) = value.as_u64() {
        return Ok(n);
    }
    let n = int(at, value)?;
    u64::try_from(n)
        .map_err(|_source| MetadataError::new(Class::Negative, at, Expected::AtLeast(0), n))
}

/// Reads a list of numbers.
pub(super) fn numbers(at: &At<'_>, value: Value) -> Result<Vec<f64>, MetadataError> {
    list(at, value, number)
}

/// Reads a list of integers.
pub(super) fn ints(at: &At<'_>, value: Value) -> Result<Vec<i64>, MetadataError> {
    list(at, value, int)
}

/// Reads a list of nonnegative integers.
pub(super) fn counts(at: &At<'_>, value: Value) -> Result<Vec<u64>, MetadataError> {
    list(at, value, count)
}

/// Reads a list of strings.
pub(super) fn texts(at: &At<'_>, value: Value) -> Result<Vec<String>, MetadataError> {
    list(at, value, text)
}

/// Creates the error for a value of another type.
pub(super) fn wrong_value_error(
    at: &At<'_>,
    expected: &'static str,
    found: &Value,
) -> MetadataError {
    let error = MetadataError::rule(Class::BadTag, at, expected, "another value");
    error.with_text(match found {
        Value::Null => "null".to_string(),
        Value::Bool(flag) => format!("{flag}"),
        Value::Number(number) => format!("{number}"),
        Value::String(text) => quoted(text),
        Value::Array(items) => format!("a list of {}", items.len()),
        Value::Object(_) => "an object".to_string(),
    })
}

/// Returns `x` as a document value. JSON has no infinity or NaN, which writers refuse earlier; here
/// they become null.
pub(super) fn float(x: f64) -> Value {
    Number::from_f64(x).map_or(Value::Null, Value::Number)
}

fn as_integer(value: &Value) -> Option<i64> {
    if let Some(n) = value.as_i64() {
        return Some(n);
    }
    let x = value.as_f64().filter(|_| value.is_f64())?;
    let floor = num::floor_i64(x)?;
    if (num::f64_from_i64(floor) - x).abs() > 0.0 { None } else { Some(floor) }
}

#[cfg(test)]
mod tests {
    use std::string::ToString;

    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_are_read_as_integers_or_floats() {
        let at = At::Document;
        for (value, expected) in [
            (json!(3), Some(3)),
            (json!(3.0), Some(3)),
            (json!(-2e3), Some(-2000)),
            (json!(1e18), Some(1_000_000_000_000_000_000)),
            (json!(3.5), None),
            (json!(1e19), None),
            (json!(u64::MAX), None),
            (json!("3"), None),
        ] {
            assert_eq!(int(&at, value.clone()).ok(), expected, "{value}");
        }
        assert_eq!(count(&at, json!(u64::MAX)).unwrap(), u64::MAX);
        assert_eq!(number(&at, json!(7)).unwrap(), 7.0);
    }

    #[test]
    fn a_wrong_value_is_reported_with_its_path() {
        let at = At::Document.key("level");
        for (result, message) in [
            (
                count(&at, json!(-1)).err(),
                "Negative in metadata, level: expected at least 0, found -1",
            ),
            (
                int(&at, json!(null)).err(),
                "BadTag in metadata, level: expected a whole number of 64 bits, found null",
            ),
            (
                ints(&at, json!([1, {}])).err(),
                "BadTag in metadata, level[1]: expected a whole number of 64 bits, found an object",
            ),
            (
                texts(&at, json!([["x"]])).err(),
                "BadTag in metadata, level[0]: expected a string, found a list of 1",
            ),
            (
                flag(&at, json!(1)).err(),
                "BadTag in metadata, level: expected true or false, found 1",
            ),
            (
                object(&at, json!(true)).err(),
                "BadTag in metadata, level: expected an object, found true",
            ),
            (
                list(&at, json!("x"), any_value).err(),
                "BadTag in metadata, level: expected a list, found \"x\"",
            ),
            (
                number(&at, json!("x")).err(),
                "BadTag in metadata, level: expected a number, found \"x\"",
            ),
        ] {
            assert_eq!(result.unwrap().to_string(), message);
        }
    }

    #[test]
    fn unread_fields_remain() {
        let at = At::Document;
        let value = json!({"zvf_array": "links", "a": null, "b": 1});
        let mut fields = Fields::from_value(&at, value).unwrap();
        fields.accept("zvf_array", "zv_array");
        assert_eq!(fields.take("zv_array", text).unwrap().as_deref(), Some("links"));
        assert_eq!(fields.take("a", text).unwrap(), None);
        let missing = fields.require("c", text).unwrap_err();
        assert_eq!(missing.to_string(), "BadTag in metadata, c: expected a value, found nothing");
        let remaining = fields.into_remaining();
        assert_eq!(remaining.keys().collect::<Vec<_>>(), ["b"]);
        let rebuilt =
            Put::new().put("b", 2).flag("d", false).put_some("e", Some(3)).with_extras(&remaining);
        assert_eq!(Value::Object(rebuilt), json!({"b": 2, "e": 3}));
    }
}
