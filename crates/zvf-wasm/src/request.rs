//! Requests as JSON: which cell, and which question.

#![expect(clippy::wildcard_enum_match_arm, reason = "numbers and texts are taken, nothing else")]

use serde_json::{Map, Value};
use zvf_error::{Error, Result};
use zvf_model::{Bounds, Kind, LevelId, LevelReader, ObjectId};
use zvf_query::{Columns, Mode, Order, Query, UnknownIds};

use crate::error::request_error;

/// Which chunk is wanted, and what of it.
#[derive(Clone, Debug)]
pub struct CellRequest {
    /// The kind of geometry.
    pub kind: Kind,
    /// The level.
    pub level: LevelId,
    /// The chunk, by its position along each axis of space.
    pub cell: Vec<i64>,
    /// A condition as `zvf query --where` has it.
    pub condition: Option<String>,
    /// Attributes that come along, by the names that questions have for them: `radius`, `object.mass`.
    pub columns: Vec<String>,
    /// The axes that are drawn: at most three.
    pub axes: Vec<usize>,
    /// About how many vertices at most, where the chunk holds more.
    pub limit: Option<u32>,
    /// Which part of the objects comes, the same ones in every chunk.
    pub share: Option<f64>,
}

impl CellRequest {
    /// Reads a request.
    ///
    /// # Errors
    ///
    /// When a field is missing or of another type.
    pub fn parse(text: &str) -> Result<Self> {
        let fields = parse_object(text)?;
        let cell = require_field(&fields, "cell")?
            .as_array()
            .ok_or_else(|| field_error("cell", "a list"))?;
        let cell =
            cell.iter().map(|n| n.as_i64().ok_or_else(|| field_error("cell", "whole numbers")));
        let axes = match fields.get("axes").and_then(Value::as_array) {
            None => vec![0, 1, 2],
            Some(axes) => {
                let axes = axes.iter().map(|n| n.as_u64().and_then(|n| usize::try_from(n).ok()));
                let axes = axes.collect::<Option<Vec<usize>>>();
                axes.filter(|axes| axes.len() <= 3)
                    .ok_or_else(|| field_error("axes", "at most three"))?
            }
        };
        Ok(Self {
            kind: parse_kind(require_field(&fields, "kind")?)?,
            level: parse_level(require_field(&fields, "level")?)?,
            cell: cell.collect::<Result<_, _>>()?,
            condition: text_field(&fields, "where").filter(|text| !text.trim().is_empty()),
            columns: texts(&fields, "columns"),
            axes,
            limit: fields.get("limit").map(parse_limit).transpose()?,
            share: fields.get("share").and_then(Value::as_f64),
        })
    }
}

/// A question to a whole level.
#[derive(Clone, Debug)]
pub struct Question(pub(crate) Query);

impl Question {
    /// Reads a question: `kind`, `level`, `where`, `bbox` as `[low, high]`, `objects`, `mode`, all optional.
    ///
    /// # Errors
    ///
    /// When a field is of another type, or the condition does not parse.
    pub fn parse(text: &str) -> Result<Self> {
        let fields = parse_object(text)?;
        let mut query = Query::all().columns(Columns::None).unknown_ids(UnknownIds::Skip);
        if let Some(kind) = fields.get("kind") {
            query = query.of_kind(parse_kind(kind)?);
        }
        if let Some(level) = fields.get("level") {
            query = query.at_level(parse_level(level)?);
        }
        if let Some(condition) = text_field(&fields, "where").filter(|text| !text.trim().is_empty())
        {
            query = query.filter(parse_condition(&condition)?);
        }
        if let Some(sides) = fields.get("bbox").and_then(Value::as_array) {
            let side = |at: usize| {
                let side = sides.get(at).and_then(Value::as_array)?;
                side.iter().map(Value::as_f64).collect::<Option<Vec<f64>>>()
            };
            let (Some(low), Some(high)) = (side(0), side(1)) else {
                return Err(field_error("bbox", "[low, high]"));
            };
            let bounds = Bounds::new(&low, &high)
                .map_err(|error| field_error("bbox", &error.to_string()))?;
            query = query.in_region(bounds);
            if let Some(mode) = text_field(&fields, "mode") {
                let expected = "inside, touch, clip, crop or cells";
                query = query
                    .mode(mode.parse::<Mode>().map_err(|_unknown| field_error("mode", expected))?);
            }
        }
        if let Some(ids) = fields.get("objects").and_then(Value::as_array) {
            let ids = ids.iter().map(parse_id).collect::<Result<Vec<_>, _>>()?;
            query = query.of_objects(ids);
        }
        Ok(Self(query))
    }
}

/// Returns the question for the chunk at `cell`: everything in it, as it is stored. A box of no extent in the middle meets no
/// other chunk.
pub(crate) fn cell_query(
    request: &CellRequest,
    columns: Vec<String>,
    level: &LevelReader,
    cell: &[i64],
) -> Result<Query> {
    let middle = |(at, size): (&i64, &f64)| (zvf_format::num::f64_from_i64(*at) + 0.5) * size;
    let centre: Vec<f64> = cell.iter().zip(level.chunk_shape().sizes()).map(middle).collect();
    let inside = Bounds::new(&centre, &centre);
    let inside = inside.map_err(|error| request_error(format!("cell: {error}")))?;
    let query = Query::all()
        .in_region(inside)
        .mode(Mode::Cells)
        .of_kind(request.kind)
        .at_level(request.level)
        .increment_only()
        .with_owners()
        .with_places()
        .columns(Columns::Named(columns));
    let query = match request.kind.has_links() {
        true => query.vertices_only(),
        false => query.order(Order::Storage),
    };
    match &request.condition {
        Some(condition) => Ok(query.filter(parse_condition(condition)?)),
        None => Ok(query),
    }
}

fn parse_condition(text: &str) -> Result<zvf_query::predicate::Predicate> {
    text.parse().map_err(|error: zvf_query::predicate::BadPredicate| {
        request_error(format!("where: {error}"))
    })
}

pub(crate) fn parse_object(text: &str) -> Result<Map<String, Value>> {
    match serde_json::from_str(text) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(_) | Err(_) => Err(field_error("the request", "an object of JSON")),
    }
}

fn require_field<'a>(fields: &'a Map<String, Value>, name: &str) -> Result<&'a Value> {
    fields.get(name).ok_or_else(|| field_error(name, "to be there"))
}

fn parse_kind(value: &Value) -> Result<Kind> {
    let token = value.as_str().unwrap_or_default();
    token.parse().map_err(|error: zvf_model::UnknownKind| request_error(error.to_string()))
}

fn parse_level(value: &Value) -> Result<LevelId> {
    let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
    number.map(LevelId).ok_or_else(|| field_error("level", "a number"))
}

fn parse_limit(value: &Value) -> Result<u32> {
    let limit = value.as_u64().and_then(|limit| u32::try_from(limit).ok());
    limit.filter(|limit| *limit > 0).ok_or_else(|| field_error("limit", "a number above 0"))
}

/// Parses an id: a decimal string, because numbers of JavaScript end at 2^53.
pub(crate) fn parse_id(value: &Value) -> Result<ObjectId> {
    let number = match value {
        Value::String(text) => text.parse().ok(),
        other => other.as_i64(),
    };
    number.map(ObjectId).ok_or_else(|| field_error("objects", "decimal ids"))
}

fn text_field(fields: &Map<String, Value>, name: &str) -> Option<String> {
    fields.get(name).and_then(Value::as_str).map(str::to_owned)
}

fn texts(fields: &Map<String, Value>, name: &str) -> Vec<String> {
    let list = fields.get(name).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn field_error(name: &str, expected: &str) -> Error {
    request_error(format!("{name}: expected {expected}"))
}
