//! Requests as JSON: which cell, and which question.

use std::num::NonZeroU32;

use serde::Deserialize;
use zvf_error::Result;
use zvf_model::{Bounds, Kind, LevelId, LevelReader, ObjectId};
use zvf_query::predicate::{Predicate, Scope};
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

#[derive(Deserialize)]
struct CellFields {
    kind: String,
    level: u32,
    cell: Vec<i64>,
    r#where: Option<String>,
    #[serde(default)]
    columns: Vec<String>,
    axes: Option<Vec<usize>>,
    limit: Option<NonZeroU32>,
    share: Option<f64>,
}

impl CellRequest {
    /// Reads a request.
    ///
    /// # Errors
    ///
    /// When a field is missing or of another type.
    pub fn parse(text: &str) -> Result<Self> {
        let fields: CellFields = parse_fields(text)?;
        let axes = fields.axes.unwrap_or_else(|| vec![0, 1, 2]);
        if axes.len() > 3 {
            return Err(request_error("axes: expected at most three"));
        }
        Ok(Self {
            kind: parse_kind(&fields.kind)?,
            level: LevelId(fields.level),
            cell: fields.cell,
            condition: fields.r#where.filter(|text| !text.trim().is_empty()),
            columns: fields.columns,
            axes,
            limit: fields.limit.map(NonZeroU32::get),
            share: fields.share,
        })
    }
}

/// A question to a whole level.
#[derive(Clone, Debug)]
pub struct Question(pub(crate) Query);

#[derive(Deserialize)]
struct QuestionFields {
    kind: Option<String>,
    level: Option<u32>,
    r#where: Option<String>,
    #[serde(default)]
    drawn: bool,
    bbox: Option<[Vec<f64>; 2]>,
    mode: Option<String>,
    objects: Option<Vec<Id>>,
}

/// A decimal text, because numbers of JavaScript end at 2^53; or a number.
#[derive(Deserialize)]
#[serde(untagged)]
enum Id {
    Text(String),
    Number(i64),
}

impl Question {
    /// Reads a question: `kind`, `level`, `where`, `bbox` as `[low, high]`, `objects`, `mode`, all optional. With `drawn`,
    /// conditions that cells cannot have are refused.
    ///
    /// # Errors
    ///
    /// When a field is of another type, or the condition does not parse.
    pub fn parse(text: &str) -> Result<Self> {
        let fields: QuestionFields = parse_fields(text)?;
        let mut query = Query::all().columns(Columns::None).unknown_ids(UnknownIds::Skip);
        if let Some(kind) = fields.kind {
            query = query.of_kind(parse_kind(&kind)?);
        }
        if let Some(level) = fields.level {
            query = query.at_level(LevelId(level));
        }
        if let Some(condition) = fields.r#where.filter(|text| !text.trim().is_empty()) {
            let condition = parse_condition(&condition)?;
            if fields.drawn {
                check_drawn(&condition)?;
            }
            query = query.filter(condition);
        }
        if let Some([low, high]) = fields.bbox {
            let bounds = Bounds::new(&low, &high)
                .map_err(|error| request_error(format!("bbox: {error}")))?;
            query = query.in_region(bounds);
            if let Some(mode) = fields.mode {
                let expected = "mode: expected inside, touch, clip, crop or cells";
                let mode = mode.parse::<Mode>().map_err(|_unknown| request_error(expected));
                query = query.mode(mode?);
            }
        }
        if let Some(ids) = fields.objects {
            let ids = ids.into_iter().map(|id| match id {
                Id::Number(id) => Ok(ObjectId(id)),
                Id::Text(text) => text.parse().map(ObjectId),
            });
            let ids = ids.collect::<Result<Vec<_>, _>>();
            query = query
                .of_objects(ids.map_err(|_error| request_error("objects: expected decimal ids"))?);
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
        Some(condition) => {
            let condition = parse_condition(condition)?;
            check_drawn(&condition)?;
            Ok(query.filter(condition))
        }
        None => Ok(query),
    }
}

/// Refuses a condition on links: cells are read by their vertices, which have no such values.
fn check_drawn(condition: &Predicate) -> Result<()> {
    match condition.columns().into_iter().find(|column| column.scope == Scope::Link) {
        None => Ok(()),
        Some(column) => Err(request_error(format!(
            "where: vertices are drawn, and link.{} is a value of links; write what passes with zvf query --where, and open that",
            column.name
        ))),
    }
}

fn parse_condition(text: &str) -> Result<Predicate> {
    text.parse().map_err(|error: zvf_query::predicate::BadPredicate| {
        request_error(format!("where: {error}"))
    })
}

fn parse_fields<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T> {
    serde_json::from_str(text).map_err(|error| request_error(format!("the request: {error}")))
}

pub(crate) fn parse_kind(token: &str) -> Result<Kind> {
    token.parse().map_err(|error: zvf_model::UnknownKind| request_error(error.to_string()))
}
