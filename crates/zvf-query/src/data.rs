//! Questions as data that can be stored and sent, with the feature `serde`.
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
//! What is left out is as in [`Query::all`]. Numbers that are not finite are the texts `inf`, `-inf` and `nan`, because
//! JSON has no others. The form is for formats that name their fields, as JSON does. What the constructors of a region, a
//! condition or a chunk key refuse is refused here in the same words, and so are fields that do not exist.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;
use zvf_model::{BadBounds, Bounds, LevelId, ObjectId, Value};

use crate::predicate::{BadPredicate, ColumnRef, Comparison, Predicate};
use crate::region::{BadRegion, HalfSpace, Region, Shape};

/// Data that is no region.
#[derive(Debug, Error)]
pub(crate) enum BadData {
    #[error(transparent)]
    Bounds(#[from] BadBounds),
    #[error(transparent)]
    Region(#[from] BadRegion),
}

/// Values that are written as their text.
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

/// Ids of objects as numbers.
pub(crate) mod ids {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(
        value: &Option<Vec<ObjectId>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        value
            .as_ref()
            .map(|ids| ids.iter().map(|id| id.0).collect::<Vec<_>>())
            .serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Vec<ObjectId>>, D::Error> {
        Ok(Option::<Vec<i64>>::deserialize(deserializer)?
            .map(|ids| ids.into_iter().map(ObjectId).collect()))
    }
}

/// The number of a level.
pub(crate) mod level {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(
        value: &LevelId,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        value.0.serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<LevelId, D::Error> {
        Ok(LevelId(u32::deserialize(deserializer)?))
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

/// The form of a [`Region`].
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum RegionData {
    Box {
        low: Vec<Number>,
        high: Vec<Number>,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        half_open: bool,
    },
    Ball {
        centre: Vec<Number>,
        radius: Number,
    },
    HalfSpaces(Vec<HalfSpaceData>),
    Prism {
        outline: Vec<[Number; 2]>,
        on: [usize; 2],
        low: Vec<Number>,
        high: Vec<Number>,
    },
}

/// The form of a [`HalfSpace`].
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HalfSpaceData {
    normal: Vec<Number>,
    offset: Number,
}

impl From<Region> for RegionData {
    fn from(region: Region) -> Self {
        match region.shape() {
            Shape::Box(_) => {
                let half_open = region.as_box().is_some_and(|(_, closed)| !closed);
                let (low, high) = corners(region.hull());
                Self::Box { low, high, half_open }
            }
            Shape::Ball(ball) => {
                Self::Ball { centre: numbers(ball.centre()), radius: ball.radius().into() }
            }
            Shape::Convex(convex) => {
                let spaces = convex.spaces().iter().map(|space| HalfSpaceData {
                    normal: numbers(space.normal()),
                    offset: space.offset().into(),
                });
                Self::HalfSpaces(spaces.collect())
            }
            Shape::Prism(prism) => {
                let source = prism.source();
                let (low, high) = corners(&source.limits);
                let outline = source.outline.iter().map(|corner| corner.map(Number::from));
                Self::Prism { outline: outline.collect(), on: source.on, low, high }
            }
        }
    }
}

impl TryFrom<RegionData> for Region {
    type Error = BadData;

    fn try_from(data: RegionData) -> Result<Self, BadData> {
        match data {
            RegionData::Box { low, high, half_open } => {
                let region = Self::from(Bounds::new(&floats(low), &floats(high))?);
                Ok(if half_open { region.into_half_open() } else { region })
            }
            RegionData::Ball { centre, radius } => Ok(Self::ball(&floats(centre), radius.into())?),
            RegionData::HalfSpaces(spaces) => {
                let spaces = spaces.into_iter();
                let spaces =
                    spaces.map(|space| HalfSpace::new(&floats(space.normal), space.offset.into()));
                Ok(Self::from_half_spaces(&spaces.collect::<Result<Vec<_>, _>>()?)?)
            }
            RegionData::Prism { outline, on, low, high } => {
                let outline: Vec<_> =
                    outline.into_iter().map(|corner| corner.map(f64::from)).collect();
                let limits = Bounds::new(&floats(low), &floats(high))?;
                Ok(Self::prism(&outline, on, &limits)?)
            }
        }
    }
}

fn corners(bounds: &Bounds) -> (Vec<Number>, Vec<Number>) {
    (numbers(bounds.low()), numbers(bounds.high()))
}

fn numbers(floats: &[f64]) -> Vec<Number> {
    floats.iter().copied().map(Number::from).collect()
}

fn floats(numbers: Vec<Number>) -> Vec<f64> {
    numbers.into_iter().map(f64::from).collect()
}

/// The form of a [`Predicate`]: its text, when reading that gives the same condition, or a tree.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected a condition as a text or as a tree")]
pub(crate) enum ConditionData {
    Text(String),
    Tree(Tree),
}

/// A condition that was built in code.
#[derive(Debug, Serialize, Deserialize)]
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
                Self::Compare { column, comparison, value: value.into() }
            }
            Predicate::In(column, values) => {
                Self::In { column, values: values.into_iter().map(ValueData::from).collect() }
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
                Self::Compare(column, comparison, value.into())
            }
            Tree::In { column, values } => {
                Self::In(column, values.into_iter().map(Value::from).collect())
            }
            Tree::IsNull(column) => Self::IsNull(column),
            Tree::Not(condition) => Self::Not(Box::new((*condition).into())),
            Tree::All(list) => Self::All(all(list)),
            Tree::Any(list) => Self::Any(all(list)),
        }
    }
}

/// The form of a [`Value`].
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ValueData {
    Null,
    Bool(bool),
    Int(i64),
    UInt(u64),
    Float(Number),
    Text(String),
}

impl From<Value> for ValueData {
    fn from(value: Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(value),
            Value::Int(value) => Self::Int(value),
            Value::UInt(value) => Self::UInt(value),
            Value::Float(value) => Self::Float(value.into()),
            Value::Text(value) => Self::Text(value),
        }
    }
}

impl From<ValueData> for Value {
    fn from(data: ValueData) -> Self {
        match data {
            ValueData::Null => Self::Null,
            ValueData::Bool(value) => Self::Bool(value),
            ValueData::Int(value) => Self::Int(value),
            ValueData::UInt(value) => Self::UInt(value),
            ValueData::Float(value) => Self::Float(value.into()),
            ValueData::Text(value) => Self::Text(value),
        }
    }
}

/// The form of an `f64`.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected a number, \"inf\", \"-inf\" or \"nan\"")]
pub(crate) enum Number {
    Finite(f64),
    Other(NotFinite),
}

/// The numbers that JSON does not have.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
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
        if number.is_finite() {
            Self::Finite(number)
        } else if number.is_nan() {
            Self::Other(NotFinite::NotANumber)
        } else if number > 0.0 {
            Self::Other(NotFinite::Infinity)
        } else {
            Self::Other(NotFinite::MinusInfinity)
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
