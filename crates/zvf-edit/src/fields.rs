//! Members of operations and selectors: JSON objects that serde reads, and what becomes of their values.

use std::ops::Range;

use serde::Deserializer;
use serde::de::value::{Error as ReadError, MapAccessDeserializer, MapDeserializer};
use serde::de::{DeserializeOwned, Error as _, IntoDeserializer, Visitor};
use serde_json::{Map, Value as Json};

use crate::error::{EditError, OrFail, Result, refuse_if, refused};

/// Members of a JSON object.
pub(crate) type Fields = Map<String, Json>;

/// A member, whose name begins each message about its value.
struct Member(String, Json);

impl<'de> IntoDeserializer<'de, ReadError> for Member {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for Member {
    type Error = ReadError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        let Self(name, value) = self;
        value
            .deserialize_any(visitor)
            .map_err(|error| ReadError::custom(format!("{name}: {error}")))
    }

    /// A member that is there has a value. Only the fill of a column may be null.
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        let Self(name, value) = self;
        if value.is_null() && name != "fill" {
            return Err(ReadError::custom(format!("{name}: expected a value, found null")));
        }
        let read = value.deserialize_option(visitor);
        read.map_err(|error| ReadError::custom(format!("{name}: {error}")))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

/// The members of an operation.
struct Members(Fields);

impl<'de> IntoDeserializer<'de, ReadError> for Members {
    type Deserializer = MapAccessDeserializer<
        MapDeserializer<'de, std::vec::IntoIter<(String, Member)>, ReadError>,
    >;

    fn into_deserializer(self) -> Self::Deserializer {
        let member = |(name, value): (String, Json)| (name.clone(), Member(name, value));
        let members: Vec<_> = self.0.into_iter().map(member).collect();
        MapAccessDeserializer::new(MapDeserializer::new(members.into_iter()))
    }
}

fn unreadable(error: ReadError) -> EditError {
    EditError::invalid(error.to_string())
}

/// Reads the members of a JSON object. Refuses one that is unknown, missing or of another type.
pub(crate) fn read<T: DeserializeOwned>(fields: Fields) -> Result<T> {
    T::deserialize(Members(fields).into_deserializer()).map_err(unreadable)
}

/// Reads the operation `name` with its members.
pub(crate) fn read_named<T: DeserializeOwned>(name: String, fields: Fields) -> Result<T> {
    let named = MapDeserializer::new(std::iter::once((name, Members(fields))));
    T::deserialize(MapAccessDeserializer::new(named)).map_err(unreadable)
}

/// Parses a list of numbers.
pub(crate) fn parse_floats(value: &Json, name: &str) -> Result<Vec<f64>> {
    let wrong = |what: &str, found: &Json| {
        EditError::invalid(format!("{name}: expected {what}, found {found}"))
    };
    let items = value.as_array().ok_or_else(|| wrong("a list of numbers", value))?;
    let number = |x| crate::scalar::parse_number(x).ok_or_else(|| wrong("a number", x));
    items.iter().map(number).collect()
}

/// Parses a list of one number for each axis.
pub(crate) fn parse_vector(value: &Json, axes: usize, name: &str) -> Result<Vec<f64>> {
    let vector = parse_floats(value, name)?;
    if vector.len() == axes {
        return Ok(vector);
    }
    refused(format!("{name}: {} values, expected {axes}", vector.len()))
}

/// Returns the entries of a list, which must be `count`.
pub(crate) fn need_list_of<'a>(list: &'a Json, count: usize, name: &str) -> Result<&'a [Json]> {
    let list = list.as_array().or_refused(|| format!("{name}: expected a list, found {list}"))?;
    if list.len() != count {
        return refused(format!("{name}: {} entries for {count}", list.len()));
    }
    Ok(list)
}

/// A value that an operation sets: the column, the value, and the range of items that get it.
type Assignment<'a> = (&'a str, &'a Json, Range<usize>);

/// Returns what an operation sets on `count` items: `values` on all, `each` on one each.
pub(crate) fn assignments<'a>(
    values: &'a Option<Fields>,
    each: &'a Option<Fields>,
    count: usize,
) -> Result<Vec<Assignment<'a>>> {
    refuse_if(values.is_none() && each.is_none(), "\"values\" or \"each\" is missing")?;
    let for_all = values.iter().flatten().map(|(name, value)| (name.as_str(), value, 0..count));
    let mut list: Vec<Assignment<'a>> = for_all.collect();
    for (name, entries) in each.iter().flatten() {
        let entries = need_list_of(entries, count, name)?.iter().enumerate();
        list.extend(entries.map(|(i, value)| (name.as_str(), value, i..i + 1)));
    }
    Ok(list)
}

/// Converts an index of a script to one in a list of `length` items. Negative indices count from the end.
pub(crate) fn checked_index(n: i64, length: usize) -> Option<usize> {
    let place = if n < 0 { n.checked_add(i64::try_from(length).ok()?)? } else { n };
    usize::try_from(place).ok().filter(|place| *place < length)
}
