//! The members of operations and selectors in scripts: JSON objects that serde reads, and the
//! conversion of their values. New vertices are encoded in the types of the store when they are
//! read from a script, a file or another store.

use std::ops::Range;

use serde::Deserializer;
use serde::de::value::{Error as ReadError, MapAccessDeserializer, MapDeserializer};
use serde::de::{DeserializeOwned, Error as _, IntoDeserializer, Visitor};
use serde_json::{Map, Value as Json};
use zvf_metadata::path_segment;
use zvf_model::Value;

use crate::error::{EditError, OrFail, Result, missing_value_error, refuse_if, refused};
use crate::geometry::Geometry;
use crate::numbers::Vid;
use crate::scalar::to_json;
use crate::transaction::Transaction;

/// New vertices of a kind.
#[derive(Default)]
pub(crate) struct NewRows {
    pub(crate) count: usize,
    /// The bytes of each: its position, then its value in each column.
    pub(crate) bytes: Vec<u8>,
}

impl NewRows {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.bytes.chunks_exact((self.bytes.len() / self.count.max(1)).max(1))
    }
}

impl Geometry {
    /// Returns the number of bytes of a row: its position, and its values.
    pub(crate) fn row_size(&self) -> usize {
        self.position_size() + self.columns.iter().map(|column| column.ty.size()).sum::<usize>()
    }

    /// Adds vertices with their values, to an object or without one.
    pub(crate) fn add_rows(&mut self, owner: u32, rows: &[u8]) -> Result<Vec<Vid>> {
        self.number_added()?;
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        self.load_all_values()?;
        let (size, mut at) = (self.row_size(), self.position_size());
        let new = rows.chunks_exact(size).map(|row| self.new_vertex(&row[..at], owner));
        let new = new.collect::<Result<Vec<Vid>>>()?;
        for column in &mut self.columns {
            let end = at + column.ty.size();
            rows.chunks_exact(size).for_each(|row| column.data.push(&row[at..end]));
            at = end;
        }
        Ok(new)
    }
}

impl Transaction {
    /// Encodes `count` new vertices of a kind at these positions. `value` returns the value of a vertex in one of the columns
    /// `names`; in the others it is absent.
    pub(crate) fn encode_rows(
        &mut self,
        kind: usize,
        count: usize,
        position: impl Fn(usize) -> Json,
        names: &[&str],
        value: impl Fn(usize, usize) -> Result<Json>,
    ) -> Result<NewRows> {
        let geometry = &mut self.kinds[kind];
        let size = geometry.row_size();
        let mut bytes = vec![0; count * size];
        let mut put = |i: usize, at: usize, value: &[u8]| {
            bytes[i * size + at..][..value.len()].copy_from_slice(value);
        };
        let mut given = vec![None; geometry.columns.len()];
        for (c, name) in names.iter().enumerate().filter(|_| count > 0) {
            let stored = path_segment(name);
            self.read_items.insert(format!("column:vertex:{stored}:{}", geometry.kind));
            let at = geometry.need_column(&stored)?;
            let before = given[at].replace((c, *name));
            refuse_if(before.is_some(), "two columns have one name in the store")?;
        }
        let mut at = geometry.position_size();
        for (column, given) in geometry.columns.iter_mut().zip(given) {
            let (scalar, ty) = (column.ty.scalar, &mut column.ty);
            if given.is_none() && !scalar.is_float() && count > 0 {
                return Err(missing_value_error("attributes", &column.name, &scalar.name()));
            }
            for i in 0..count {
                match given {
                    Some((c, name)) => put(i, at, &ty.encode_present(name, &value(i, c)?)?),
                    None => put(i, at, &ty.sentinel()),
                }
            }
            at += ty.size();
        }
        for i in 0..count {
            put(i, 0, &geometry.parse_position(&position(i), "positions")?);
        }
        Ok(NewRows { count, bytes })
    }

    /// Encodes new vertices of a script.
    pub(crate) fn parse_rows(
        &mut self,
        kind: usize,
        positions: &[Json],
        attributes: Option<&Fields>,
    ) -> Result<NewRows> {
        let (mut names, mut lists) = (Vec::new(), Vec::new());
        for (name, list) in attributes.into_iter().flatten() {
            names.push(name.as_str());
            lists.push(need_list_of(list, positions.len(), name)?);
        }
        let position = |i: usize| positions[i].clone();
        self.encode_rows(kind, positions.len(), position, &names, |i, c| Ok(lists[c][i].clone()))
    }
}

impl Geometry {
    /// Returns an encoded position as scripts write it, whole numbers exactly.
    pub(crate) fn json_position(&self, position: &[u8]) -> Json {
        let value = |bytes: &[u8]| {
            let value = self.scalar.decode(bytes);
            let is_float = matches!(value, Value::Float(_));
            if is_float { self.scalar.to_decimal(bytes).into() } else { to_json(&value) }
        };
        position.chunks_exact(self.scalar.size()).map(value).collect()
    }

    /// Returns the position of a vertex to compute with. Refuses whole numbers that `f64` may
    /// round.
    pub(crate) fn computable_position(&self, v: Vid) -> Result<Vec<f64>> {
        let position = self.decimal_position(v);
        self.check_computable(&position)?;
        Ok(position)
    }

    fn check_computable(&self, position: &[f64]) -> Result<()> {
        match position.iter().find(|x| !self.scalar.is_float() && x.abs() >= EXACT_FLOAT64) {
            None => Ok(()),
            Some(x) => refused(format!(
                "the position {x} as {} is beyond 2^53, where sums and products are rounded; use \"to\"",
                self.scalar.name()
            )),
        }
    }

    /// Encodes a position of a script, whole numbers exactly.
    pub(crate) fn parse_position(&self, position: &Json, name: &str) -> Result<Vec<u8>> {
        // Refuses what is no list of numbers.
        let numbers = parse_floats(position, name)?;
        let values = position.as_array().into_iter().flatten();
        self.join_position(&numbers, values.map(|value| self.scalar.encode(value)))
    }

    /// Encodes a computed position.
    pub(crate) fn encode_position(&self, values: &[f64]) -> Result<Vec<u8>> {
        self.check_computable(values)?;
        self.join_position(values, values.iter().map(|value| self.scalar.encode_f64(*value)))
    }

    /// Joins the encoded values of a position, which are those of `numbers`.
    fn join_position(
        &self,
        numbers: &[f64],
        values: impl Iterator<Item = Result<Vec<u8>>>,
    ) -> Result<Vec<u8>> {
        if numbers.len() != self.axes {
            return refused(format!(
                "a position has {} values, expected {}",
                numbers.len(),
                self.axes
            ));
        }
        let mut bytes = Vec::with_capacity(self.axes * self.scalar.size());
        for stored in values {
            let stored = stored?;
            if !self.scalar.to_f64(&stored).is_finite() {
                return refused(format!(
                    "position {numbers:?} is not finite as {}",
                    self.scalar.name()
                ));
            }
            bytes.extend(stored);
        }
        Ok(bytes)
    }
}

/// The first whole number from which on `f64` does not hold all of them.
const EXACT_FLOAT64: f64 = 9_007_199_254_740_992.0;

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
pub(crate) fn read_members<T: DeserializeOwned>(fields: Fields) -> Result<T> {
    T::deserialize(Members(fields).into_deserializer()).map_err(unreadable)
}

/// Reads the operation `name` with its members.
pub(crate) fn read_named<T: DeserializeOwned>(name: String, fields: Fields) -> Result<T> {
    let named = MapDeserializer::new(std::iter::once((name, Members(fields))));
    T::deserialize(MapAccessDeserializer::new(named)).map_err(unreadable)
}

/// Parses a list of numbers.
fn parse_floats(value: &Json, name: &str) -> Result<Vec<f64>> {
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
