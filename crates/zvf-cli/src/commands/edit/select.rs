//! Selectors as arguments: one flag per field.

use std::convert::Infallible;

use clap::Args;
use serde::Serialize;
use serde_json::{Map, Value as Json, json};

use crate::arguments::{Ids, ids};
use crate::outcome::refuse;

/// Which vertices are selected; all flags must hold.
#[derive(Debug, Default, Args, Serialize)]
#[command(next_help_heading = "Selection")]
pub(crate) struct Select {
    /// Vertices of this object.
    #[arg(long, value_name = "ID")]
    pub(crate) object: Option<i64>,
    /// Vertices of these objects: 7,9 or 20..30.
    #[arg(long, value_name = "IDS", value_parser = ids, allow_hyphen_values = true)]
    pub(crate) objects: Option<Ids>,
    /// Vertices of the objects of these groups, by number or name.
    #[arg(long, value_name = "GROUP,..", value_delimiter = ',', value_parser = number_or_text)]
    groups: Vec<Json>,
    /// Positions along the object: one, several, or FROM:TO without TO; negative ones count from the end.
    #[arg(long, value_name = "N,..|FROM:TO", allow_hyphen_values = true, value_parser = index)]
    index: Option<Json>,
    /// Vertices in a box, its faces included.
    #[arg(long = "bbox", alias = "box", value_name = "LO:HI", allow_hyphen_values = true, value_parser = corners)]
    #[serde(rename = "box")]
    inside: Option<Json>,
    /// Vertices in a ball, its surface included.
    #[arg(long, value_name = "CENTER:RADIUS", allow_hyphen_values = true, value_parser = ball)]
    ball: Option<Json>,
    /// Vertices for which a condition holds, as in zvf query.
    #[arg(long = "where", value_name = "CONDITION", allow_hyphen_values = true)]
    #[serde(rename = "where")]
    condition: Option<String>,
    /// The vertex nearest to a position.
    #[arg(long, value_name = "X,Y,..", allow_hyphen_values = true, value_parser = position)]
    nearest: Option<Json>,
    /// The largest distance of the nearest vertex.
    #[arg(long, value_name = "DISTANCE", requires = "nearest")]
    within: Option<f64>,
    /// The chunk of --row.
    #[arg(long, value_name = "I,J,..", requires = "row", allow_hyphen_values = true,
        value_parser = integers)]
    chunk: Option<Json>,
    /// A row of a chunk.
    #[arg(long, value_name = "N", requires = "chunk")]
    row: Option<u64>,
    /// The kind, where the store holds several.
    #[arg(long)]
    pub(crate) kind: Option<String>,
    /// All vertices.
    #[arg(long)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    all: bool,
    /// Fail unless exactly N vertices are selected.
    #[arg(long, value_name = "N")]
    count: Option<u64>,
}

impl Select {
    /// Returns the selector in the form of a script.
    pub(crate) fn to_json(&self) -> anyhow::Result<Json> {
        let fields = to_fields(self)?;
        if fields.keys().all(|name| matches!(name.as_str(), "kind" | "count")) {
            return refuse(
                "nothing is selected; give --object, --index, --bbox, --where or another \
                 selection, or --all",
            );
        }
        Ok(fields.into())
    }

    /// Returns whether only whole objects are selected.
    pub(crate) fn is_objects_only(&self) -> bool {
        let names = self.to_json().ok();
        let fields = names.as_ref().and_then(Json::as_object);
        fields.is_some_and(|fields| fields.keys().all(|name| name == "objects"))
    }
}

/// Returns settings as the fields of a script; those that are not given are left out.
pub(super) fn to_fields(settings: &impl Serialize) -> serde_json::Result<Map<String, Json>> {
    let mut fields: Map<String, Json> = serde_json::from_value(serde_json::to_value(settings)?)?;
    fields
        .retain(|_, value| !value.is_null() && value.as_array().is_none_or(|all| !all.is_empty()));
    Ok(fields)
}

/// Parses a group: its number, or its name.
pub(super) fn number_or_text(text: &str) -> Result<Json, Infallible> {
    Ok(text.parse::<u64>().map_or_else(|_no_number| Json::from(text), Json::from))
}

/// Parses a position such as `1,2.5,-3`.
pub(super) fn position(text: &str) -> Result<Json, &'static str> {
    let numbers: Vec<Json> = text.split(',').map(|part| to_value(part.trim())).collect();
    let is_position = numbers.iter().all(Json::is_number);
    is_position.then(|| numbers.into()).ok_or("expected numbers, such as 1,2.5,-3")
}

fn integers(text: &str) -> Result<Json, &'static str> {
    let numbers: Result<Vec<i64>, _> = text.split(',').map(|part| part.trim().parse()).collect();
    numbers.map(Json::from).map_err(|_no_number| "expected integers, such as 0,-2,5")
}

fn index(text: &str) -> Result<Json, &'static str> {
    let number = |part: &str| part.trim().parse::<i64>().ok();
    let found = match text.split_once(':') {
        Some((from, to)) => {
            number(from).zip(number(to)).map(|(from, to)| json!({"from": from, "to": to}))
        }
        None if text.contains(',') => integers(text).ok(),
        None => number(text).map(Json::from),
    };
    found.ok_or("expected N, N,N,.. or FROM:TO")
}

fn corners(text: &str) -> Result<Json, &'static str> {
    let corners = text
        .split_once(':')
        .and_then(|(low, high)| Some(json!([position(low).ok()?, position(high).ok()?])));
    corners.ok_or("expected LO:HI, such as 0,0:10,10")
}

fn ball(text: &str) -> Result<Json, &'static str> {
    let ball = text.split_once(':').and_then(|(center, radius)| {
        let radius: f64 = radius.trim().parse().ok()?;
        Some(json!({"center": position(center).ok()?, "radius": radius}))
    });
    ball.ok_or("expected CENTER:RADIUS, such as 1,2,3:5")
}

/// Parses a value as JSON; anything else is text.
pub(super) fn value(text: &str) -> Result<Json, Infallible> {
    Ok(to_value(text))
}

pub(super) fn to_value(text: &str) -> Json {
    serde_json::from_str(text).unwrap_or_else(|_text| Json::from(text))
}
