//! Selectors as arguments: one flag per field.

use clap::Args;
use serde_json::{Map, Value as Json, json};

use crate::outcome::{Usage, refuse};

/// Which vertices are selected; all flags must hold.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Selection")]
pub(crate) struct Select {
    /// Vertices of this object.
    #[arg(long, value_name = "ID", allow_negative_numbers = true)]
    pub(crate) object: Option<i64>,
    /// Vertices of these objects.
    #[arg(long, value_name = "ID,..", value_delimiter = ',', allow_hyphen_values = true)]
    pub(crate) objects: Vec<i64>,
    /// Vertices of the objects of these groups, by number or name.
    #[arg(long, value_name = "GROUP,..", value_delimiter = ',')]
    groups: Vec<String>,
    /// Positions along the object: one, several, or FROM:TO without TO; negative ones count from the end.
    #[arg(long, value_name = "N,..|FROM:TO", allow_hyphen_values = true)]
    index: Option<String>,
    /// Vertices in a box, its faces included.
    #[arg(long = "box", value_name = "LO:HI", allow_hyphen_values = true)]
    inside: Option<String>,
    /// Vertices in a ball, its surface included.
    #[arg(long, value_name = "CENTER:RADIUS", allow_hyphen_values = true)]
    ball: Option<String>,
    /// Vertices for which a condition holds, as in zvf query.
    #[arg(long = "where", value_name = "CONDITION")]
    condition: Option<String>,
    /// The vertex nearest to a position.
    #[arg(long, value_name = "X,Y,..", allow_hyphen_values = true)]
    nearest: Option<String>,
    /// The largest distance of the nearest vertex.
    #[arg(long, value_name = "DISTANCE", requires = "nearest")]
    within: Option<f64>,
    /// The chunk of --row.
    #[arg(long, value_name = "I,J,..", requires = "row", allow_hyphen_values = true)]
    chunk: Option<String>,
    /// A row of a chunk.
    #[arg(long, value_name = "N", requires = "chunk")]
    row: Option<u64>,
    /// The kind, where the store holds several.
    #[arg(long)]
    pub(crate) kind: Option<String>,
    /// All vertices.
    #[arg(long)]
    all: bool,
    /// Fail unless exactly N vertices are selected.
    #[arg(long, value_name = "N")]
    count: Option<u64>,
}

impl Select {
    /// Returns the selector in the form of a script.
    pub(crate) fn to_json(&self) -> Result<Json, Usage> {
        let mut fields = Map::new();
        let mut put = |name: &str, value: Option<Json>| {
            fields.extend(value.map(|value| (name.to_owned(), value)));
        };
        put("object", self.object.map(Json::from));
        put("objects", (!self.objects.is_empty()).then(|| json!(self.objects)));
        let groups: Vec<Json> = self.groups.iter().map(|group| number_or_text(group)).collect();
        put("groups", (!groups.is_empty()).then(|| json!(groups)));
        put("index", self.index.as_deref().map(index).transpose()?);
        put("box", self.inside.as_deref().map(corners).transpose()?);
        put("ball", self.ball.as_deref().map(ball).transpose()?);
        put("where", self.condition.as_deref().map(Json::from));
        put(
            "nearest",
            self.nearest.as_deref().map(|text| position(text, "--nearest")).transpose()?,
        );
        put("within", self.within.map(Json::from));
        put("chunk", self.chunk.as_deref().map(|text| integers(text, "--chunk")).transpose()?);
        put("row", self.row.map(Json::from));
        put("kind", self.kind.as_deref().map(Json::from));
        put("all", self.all.then_some(Json::Bool(true)));
        put("count", self.count.map(Json::from));
        if fields.keys().all(|name| matches!(name.as_str(), "kind" | "count")) {
            return refuse(
                "nothing is selected; give --object, --index, --box, --where or another \
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

/// Returns a group or object: its number, or its name.
pub(crate) fn number_or_text(text: &str) -> Json {
    text.parse::<u64>().map_or_else(|_no_number| Json::from(text), Json::from)
}

/// Parses a position such as `1,2.5,-3`.
pub(crate) fn position(text: &str, what: &str) -> Result<Json, Usage> {
    let numbers: Vec<Json> = text.split(',').map(|part| value(part.trim())).collect();
    match numbers.iter().all(Json::is_number) {
        true => Ok(numbers.into()),
        false => refuse(format!("{what} {text}: expected numbers, such as 1,2.5,-3")),
    }
}

fn integers(text: &str, what: &str) -> Result<Json, Usage> {
    let numbers: Result<Vec<i64>, _> = text.split(',').map(|part| part.trim().parse()).collect();
    let wrong = |_| Usage::new(format!("{what} {text}: expected integers, such as 0,-2,5"));
    numbers.map(Json::from).map_err(wrong)
}

fn index(text: &str) -> Result<Json, Usage> {
    let wrong = || Usage::new(format!("--index {text}: expected N, N,N,.. or FROM:TO"));
    let number = |part: &str| part.trim().parse::<i64>().map_err(|_no_number| wrong());
    match text.split_once(':') {
        Some((from, to)) => Ok(json!({"from": number(from)?, "to": number(to)?})),
        None if text.contains(',') => integers(text, "--index"),
        None => Ok(number(text)?.into()),
    }
}

fn corners(text: &str) -> Result<Json, Usage> {
    let wrong = || Usage::new(format!("--box {text}: expected LO:HI, such as 0,0:10,10"));
    let (low, high) = text.split_once(':').ok_or_else(wrong)?;
    Ok(json!([position(low, "--box")?, position(high, "--box")?]))
}

fn ball(text: &str) -> Result<Json, Usage> {
    let wrong = || Usage::new(format!("--ball {text}: expected CENTER:RADIUS, such as 1,2,3:5"));
    let (center, radius) = text.split_once(':').ok_or_else(wrong)?;
    let radius: f64 = radius.trim().parse().map_err(|_no_number| wrong())?;
    Ok(json!({"center": position(center, "--ball")?, "radius": radius}))
}

/// Parses a value as JSON; anything else is text.
pub(super) fn value(text: &str) -> Json {
    serde_json::from_str(text).unwrap_or_else(|_text| Json::from(text))
}
