//! Queries as serializable data.
//!
//! ```text
//! level           {"number": 1}  {"max_vertices": n}  {"max_bytes": n}  {"error": x}
//!                 {"screen": {"width": x, "pixels": n}}
//! kind            "mesh"
//! region          {"box": {"low": [x, ..], "high": [x, ..], "half_open": true}}
//!                 {"ball": {"centre": [x, ..], "radius": x}}
//!                 {"half_spaces": [{"normal": [x, ..], "offset": x}, ..]}
//!                 {"prism": {"outline": [[x, y], ..], "on": [0, 1], "low": [x, ..], "high": [x, ..]}}
//! mode            "inside"  "touch"  "clip"  "crop"  "cells"
//! objects         [id, ..]
//! groups          [number, ..]
//! filter          "radius > 2", or a tree where a condition has no text form
//! columns         "all"  "none"  {"named": [name, ..]}
//! order           "storage"  "objects"  "original"
//! limit, limit_bytes                       a number
//! unknown_ids     "report"  "skip"  "error"
//! first_chunk, end_chunk                   "3.-1"
//! links_of_chunks                          true: of links those stored with the chunks of that range
//! allow_missing, with_owners, with_places, vertices_only, increment_only, uncached       true
//! ```
//!
//! Omitted fields are as in [`Query::all`]. Numbers that are not finite are the texts `inf`, `-inf`
//! and `nan`, because JSON has no others. The form suits formats with named fields, such as JSON.
//! Everything that the constructors of a region, a condition or a chunk key refuse is refused here
//! with the same message, and so are unknown fields.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use zvf_model::{Bounds, Value};

use crate::predicate::{BadPredicate, ColumnRef, Comparison, Predicate};
use crate::region::{BadRegion, Form, HalfSpace, Region};

/// Values that are serialized as their text.
pub(crate) mod text {
    use std::fmt::Display;
    use std::str::FromStr;

    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    pub(crate) fn serialize<T: Display, S: Serializer>(
        value: &Option<T>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        value.as_ref().map(ToString::to_string).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, T: FromStr<Err: Display>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<T>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        text.map(|text| text.parse().map_err(D::Error::custom)).transpose()
    }
}

/// A number that may be infinite.
pub(crate) mod number {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        Number::from(*value).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        Ok(Number::deserialize(deserializer)?.into())
    }
}

/// Numbers that may be infinite.
pub(crate) mod numbers {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(
        values: &[f64],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(values.iter().map(|value| Number::from(*value)))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<f64>, D::Error> {
        let numbers = Vec::<Number>::deserialize(deserializer)?;
        Ok(numbers.into_iter().map(f64::from).collect())
    }
}

/// The form of a [`HalfSpace`].
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HalfSpaceData {
    #[serde(with = "numbers")]
    normal: Vec<f64>,
    #[serde(with = "number")]
    offset: f64,
}

impl From<HalfSpace> for HalfSpaceData {
    fn from(space: HalfSpace) -> Self {
        Self { normal: space.normal().to_vec(), offset: space.offset() }
    }
}

impl TryFrom<HalfSpaceData> for HalfSpace {
    type Error = BadRegion;

    fn try_from(data: HalfSpaceData) -> Result<Self, BadRegion> {
        Self::new(&data.normal, data.offset)
    }
}

impl From<Region> for Form {
    fn from(region: Region) -> Self {
        region.form
    }
}

impl TryFrom<Form> for Region {
    type Error = Box<dyn std::error::Error>;

    fn try_from(form: Form) -> Result<Self, Self::Error> {
        Ok(match form {
            Form::Box { low, high, half_open } => {
                let region = Self::from(Bounds::new(&low, &high)?);
                if half_open { region.into_half_open() } else { region }
            }
            Form::Ball { centre, radius } => Self::ball(&centre, radius)?,
            Form::HalfSpaces(spaces) => Self::from_half_spaces(&spaces)?,
            Form::Prism { outline, on, low, high } => {
                Self::prism(&outline, on, &Bounds::new(&low, &high)?)?
            }
        })
    }
}

/// The form of a [`Predicate`]: its text, if parsing that gives the same condition, or a tree.
#[derive(Serialize, Deserialize)]
#[serde(untagged, expecting = "expected a condition as a text or as a tree")]
pub(crate) enum ConditionData {
    Text(String),
    Tree(Tree),
}

/// A condition that was built in code.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Tree {
    Compare { column: ColumnRef, comparison: Comparison, value: ValueData },
    In { column: ColumnRef, values: Vec<ValueData> },
    IsNull(ColumnRef),
    Not(Box<Self>),
    All(Vec<Self>),
    Any(Vec<Self>),
}

impl From<Predicate> for ConditionData {
    fn from(predicate: Predicate) -> Self {
        let text = predicate.to_string();
        match text.parse::<Predicate>() {
            Ok(same) if same == predicate => Self::Text(text),
            Ok(_) | Err(_) => Self::Tree(predicate.into()),
        }
    }
}

impl TryFrom<ConditionData> for Predicate {
    type Error = BadPredicate;

    fn try_from(data: ConditionData) -> Result<Self, BadPredicate> {
        match data {
            ConditionData::Text(text) => text.parse(),
            ConditionData::Tree(tree) => Ok(tree.into()),
        }
    }
}

impl From<Predicate> for Tree {
    fn from(predicate: Predicate) -> Self {
        let all = |list: Vec<Predicate>| list.into_iter().map(Self::from).collect();
        match predicate {
            Predicate::Compare(column, comparison, value) => {
                Self::Compare { column, comparison, value: ValueData(value) }
            }
            Predicate::In(column, values) => {
                Self::In { column, values: values.into_iter().map(ValueData).collect() }
            }
            Predicate::IsNull(column) => Self::IsNull(column),
            Predicate::Not(condition) => Self::Not(Box::new((*condition).into())),
            Predicate::All(list) => Self::All(all(list)),
            Predicate::Any(list) => Self::Any(all(list)),
        }
    }
}

impl From<Tree> for Predicate {
    fn from(tree: Tree) -> Self {
        let all = |list: Vec<Tree>| list.into_iter().map(Self::from).collect();
        match tree {
            Tree::Compare { column, comparison, value } => {
                Self::Compare(column, comparison, value.0)
            }
            Tree::In { column, values } => {
                Self::In(column, values.into_iter().map(|value| value.0).collect())
            }
            Tree::IsNull(column) => Self::IsNull(column),
            Tree::Not(condition) => Self::Not(Box::new((*condition).into())),
            Tree::All(list) => Self::All(all(list)),
            Tree::Any(list) => Self::Any(all(list)),
        }
    }
}

/// A value in its form.
#[derive(Serialize, Deserialize)]
pub(crate) struct ValueData(#[serde(with = "ValueForm")] Value);

/// The form of a [`Value`].
#[derive(Serialize, Deserialize)]
#[serde(remote = "Value", rename_all = "lowercase")]
enum ValueForm {
    Null,
    Bool(bool),
    Int(i64),
    UInt(u64),
    Float(#[serde(with = "number")] f64),
    Text(String),
}

/// The form of an `f64`.
#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected a number, \"inf\", \"-inf\" or \"nan\"")]
pub(crate) enum Number {
    Finite(f64),
    Other(NotFinite),
}

/// The numbers that JSON does not have.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(crate) enum NotFinite {
    #[serde(rename = "inf")]
    Infinity,
    #[serde(rename = "-inf")]
    MinusInfinity,
    #[serde(rename = "nan")]
    NotANumber,
}

impl From<f64> for Number {
    fn from(number: f64) -> Self {
        match number {
            f64::INFINITY => Self::Other(NotFinite::Infinity),
            f64::NEG_INFINITY => Self::Other(NotFinite::MinusInfinity),
            _ if number.is_nan() => Self::Other(NotFinite::NotANumber),
            _ => Self::Finite(number),
        }
    }
}

impl From<Number> for f64 {
    fn from(number: Number) -> Self {
        match number {
            Number::Finite(number) => number,
            Number::Other(NotFinite::Infinity) => Self::INFINITY,
            Number::Other(NotFinite::MinusInfinity) => Self::NEG_INFINITY,
            Number::Other(NotFinite::NotANumber) => Self::NAN,
        }
    }
}

#[cfg(test)]
mod tests;
