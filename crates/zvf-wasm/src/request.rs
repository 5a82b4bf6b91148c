//! Requests as JSON: which cell, and which question.

use std::num::NonZeroU32;

use serde::{Deserialize, Deserializer};
use zvf_error::Result;
use zvf_model::{Bounds, Kind, LevelId, LevelReader, ObjectId};
use zvf_query::predicate::{Predicate, Scope};
use zvf_query::{Columns, LevelRule, Mode, Order, Query, UnknownIds};

use crate::error::request_error;

/// Which chunk is wanted, and what of it.
#[derive(Clone, Debug, Deserialize)]
pub struct CellRequest {
    /// The kind of geometry.
    pub kind: Kind,
    /// The level.
    pub level: LevelId,
    /// The chunk, by its position along each axis of space.
    pub cell: Vec<i64>,
    /// A condition as `zvf query --where` has it.
    #[serde(rename = "where", default, deserialize_with = "read_text")]
    pub condition: Option<String>,
    /// Attributes that come along, by the names that questions have for them: `radius`, `object.mass`.
    #[serde(default)]
    pub columns: Vec<String>,
    /// The axes that are drawn: at most three.
    #[serde(default = "first_axes")]
    pub axes: Vec<usize>,
    /// About how many vertices at most, where the chunk holds more.
    pub limit: Option<NonZeroU32>,
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
        let request: Self = parse_fields(text)?;
        if request.axes.len() > 3 {
            return Err(request_error("axes: expected at most three"));
        }
        Ok(request)
    }
}

fn first_axes() -> Vec<usize> {
    vec![0, 1, 2]
}

/// A question to a whole level.
#[derive(Clone, Debug)]
pub struct Question(pub(crate) Query);

#[derive(Deserialize)]
struct QuestionFields {
    kind: Option<Kind>,
    #[serde(default)]
    level: LevelId,
    #[serde(rename = "where", default, deserialize_with = "read_text")]
    condition: Option<String>,
    #[serde(default)]
    drawn: bool,
    bbox: Option<[Vec<f64>; 2]>,
    mode: Option<Mode>,
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
        (query.kind, query.level) = (fields.kind, LevelRule::Number(fields.level));
        query.filter = parse_condition(fields.condition.as_deref(), fields.drawn)?;
        if let Some([low, high]) = fields.bbox {
            let bounds = Bounds::new(&low, &high)
                .map_err(|error| request_error(format!("bbox: {error}")))?;
            (query.region, query.mode) = (Some(bounds.into()), fields.mode);
        }
        let id = |id| match id {
            Id::Number(id) => Ok(ObjectId(id)),
            Id::Text(text) => text.parse(),
        };
        let ids = fields.objects.map(|ids| ids.into_iter().map(id).collect::<Result<_, _>>());
        let ids = ids.transpose();
        query.objects = ids.map_err(|_error| request_error("objects: expected decimal ids"))?;
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
    let mut query = match request.kind.has_links() {
        true => query.vertices_only(),
        false => query.order(Order::Storage),
    };
    query.filter = parse_condition(request.condition.as_deref(), true)?;
    Ok(query)
}

/// Parses a condition. Where vertices are drawn, one on links is refused: cells are read by their
/// vertices, which have no such values.
fn parse_condition(text: Option<&str>, drawn: bool) -> Result<Option<Predicate>> {
    let parsed = text.map(str::parse::<Predicate>).transpose();
    let condition = parsed.map_err(|error| request_error(format!("where: {error}")))?;
    let columns = condition.iter().filter(|_| drawn).flat_map(Predicate::columns);
    match columns.into_iter().find(|column| column.scope == Scope::Link) {
        None => Ok(condition),
        Some(column) => Err(request_error(format!(
            "where: vertices are drawn, and link.{} is a value of links; write what passes with zvf query --where, and open that",
            column.name
        ))),
    }
}

/// Reads a text; a blank one is none.
fn read_text<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    Ok(Option::<String>::deserialize(from)?.filter(|text| !text.trim().is_empty()))
}

fn parse_fields<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T> {
    serde_json::from_str(text).map_err(|error| request_error(format!("the request: {error}")))
}
