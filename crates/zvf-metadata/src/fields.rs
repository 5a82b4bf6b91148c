//! Parses an object key by key, and builds one.
//!
//! Keys that a parser takes are removed from the object; the rest are unknown keys, which every
//! type here keeps and prints again. Parsing is lenient where the meaning is clear: integers may be
//! written as floats and floats as integers, and `null` means that the key is absent.

use alloc::format;
use alloc::string::ToString as _;
use alloc::vec::Vec;

use serde_json::{Number, Value};

use super::Object;
use super::error::{At, MetadataError, quoted};
use super::keys::KeyList;
use zvf_format::Class;
use zvf_format::num;

/// A value of a member.
pub(super) trait Member: Sized {
    /// Reads the value at `at`.
    ///
    /// # Errors
    ///
    /// If it is of another type.
    fn read(at: &At<'_>, value: Value) -> Result<Self, MetadataError>;

    fn to_value(&self) -> Value;
}

/// An object that is being parsed.
pub(super) struct Fields<'a> {
    at: &'a At<'a>,
    pub(super) left: Object,
}

impl<'a> Fields<'a> {
    /// Begins to parse the object at `at`.
    pub(super) const fn new(at: &'a At<'a>, object: Object) -> Self {
        Self { at, left: object }
    }

    /// Begins to parse `value`, which must be an object.
    pub(super) fn from_value(at: &'a At<'a>, value: Value) -> Result<Self, MetadataError> {
        Ok(Self::new(at, Object::read(at, value)?))
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
#[derive(Default)]
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

impl From<Put> for Value {
    fn from(put: Put) -> Self {
        Self::Object(put.0)
    }
}

/// Reads a list, element by element.
pub(super) fn list<T>(
    at: &At<'_>,
    value: Value,
    read: impl Fn(&At<'_>, Value) -> Result<T, MetadataError>,
) -> Result<Vec<T>, MetadataError> {
    let Value::Array(items) = value else { return Err(wrong_value_error(at, "a list", &value)) };
    items.into_iter().enumerate().map(|(i, item)| read(&at.item(i), item)).collect()
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

pub(super) fn as_integer(value: &Value) -> Option<i64> {
    if let Some(n) = value.as_i64() {
        return Some(n);
    }
    let x = value.as_f64().filter(|_| value.is_f64())?;
    let floor = num::floor_i64(x)?;
    if (num::f64_from_i64(floor) - x).abs() > 0.0 { None } else { Some(floor) }
}

#[cfg(test)]
mod tests {
    use std::string::String;

    use serde_json::json;

    use super::*;
    use crate::tests::fault;

    #[test]
    fn numbers_are_read_as_integers_or_floats() {
        let (at, most) = (At::Document, u64::MAX);
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
            assert_eq!(i64::read(&at, value.clone()).ok(), expected, "{value}");
        }
        assert_eq!((u64::read(&at, json!(most)), f64::read(&at, json!(7))), (Ok(most), Ok(7.0)));
    }

    #[test]
    fn a_wrong_value_is_reported_with_its_path() {
        let at = At::Document.key("level");
        for (result, message) in [
            (u64::read(&at, json!(-1)).err(), "Negative, level: at least 0, found -1"),
            (
                i64::read(&at, json!(null)).err(),
                "BadTag, level: a whole number of 64 bits, found null",
            ),
            (
                Vec::<i64>::read(&at, json!([1, {}])).err(),
                "BadTag, level[1]: a whole number of 64 bits, found an object",
            ),
            (
                list(&at, json!([["x"]]), String::read).err(),
                "BadTag, level[0]: a string, found a list of 1",
            ),
            (bool::read(&at, json!(1)).err(), "BadTag, level: true or false, found 1"),
            (Object::read(&at, json!(true)).err(), "BadTag, level: an object, found true"),
            (list(&at, json!("x"), Value::read).err(), "BadTag, level: a list, found \"x\""),
            (f64::read(&at, json!("x")).err(), "BadTag, level: a number, found \"x\""),
        ] {
            assert_eq!(fault(&result.unwrap()), message);
        }
    }

    #[test]
    fn unread_fields_remain() {
        let at = At::Document;
        let value = json!({"zvf_array": "links", "a": null, "b": 1});
        let mut fields = Fields::from_value(&at, value).unwrap();
        fields.accept("zvf_array", "zv_array");
        assert_eq!(fields.take("zv_array", String::read).unwrap().as_deref(), Some("links"));
        assert_eq!(fields.take("a", String::read).unwrap(), None);
        let missing = fields.require("c", String::read).unwrap_err();
        assert_eq!(fault(&missing), "BadTag, c: a value, found nothing");
        let remaining = fields.into_remaining();
        assert_eq!(remaining.keys().collect::<Vec<_>>(), ["b"]);
        let rebuilt = Put::new().put("b", 2).put_some("e", Some(3)).with_extras(&remaining);
        assert_eq!(Value::Object(rebuilt), json!({"b": 2, "e": 3}));
    }
}
