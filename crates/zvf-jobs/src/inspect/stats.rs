//! The statistics of a level as rows of a table, one per attribute.
//!
//! Every component of a row counts separately, so an attribute with three components has three
//! times as many values as rows.
//!
//! Not here: computing them ([`Reader::statistics`](zvf_query::Reader::statistics)).

use serde::Serialize;
use serde_json::Value as Json;
use zvf_metadata::Dtype;
use zvf_model::Value;
use zvf_query::predicate::Scope;
use zvf_query::{AttributeStatistics, Statistics};

use super::json;

/// The values of one attribute.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), zvf_error::Error> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../zvf-store/testdata/three.zarrvectors");
/// let reader = zvf_query::Reader::new(zvf_store::Store::open(path, zvf_store::OpenOptions::default()).await?);
/// let all = reader.statistics(zvf_model::LevelId(0), None).await?;
/// for one in zvf_jobs::inspect::AttributeStats::list(&all) {
///     println!("{} {}: {:?} to {:?}", one.scope, one.name, one.min, one.max);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct AttributeStats {
    /// Its scope: `vertex`, `link` or `object`.
    pub scope: &'static str,
    /// Its name.
    pub name: String,
    /// Number of present values, including NaN.
    pub values: u64,
    /// Number of missing values.
    pub nulls: u64,
    /// Number of NaN values.
    pub nans: u64,
    /// The smallest value, or the first text in order; `None` without values.
    pub min: Option<Json>,
    /// The largest value, or the last text in order.
    pub max: Option<Json>,
    /// The mean of numbers.
    pub mean: Option<f64>,
}

impl AttributeStats {
    /// Lists the attributes of vertices, then those of links, then those of objects, each by name.
    pub fn list(statistics: &Statistics) -> Vec<Self> {
        let mut all: Vec<&AttributeStatistics> = statistics.attributes.iter().collect();
        let place = |scope| SCOPES.iter().position(|listed| *listed == scope);
        all.sort_by(|a, b| (place(a.scope), &a.name).cmp(&(place(b.scope), &b.name)));
        all.into_iter().map(Self::from_statistics).collect()
    }

    fn from_statistics(attribute: &AttributeStatistics) -> Self {
        let total = attribute.total();
        let as_json = |value: &Value| to_json(attribute.dtype, value.clone());
        Self {
            scope: attribute.scope.word(),
            name: attribute.name.clone(),
            values: total.count + total.nans,
            nulls: total.nulls,
            nans: total.nans,
            min: total.min.as_ref().map(as_json),
            max: total.max.as_ref().map(as_json),
            mean: total.mean(),
        }
    }
}

/// Returns a value of a column of `dtype`, or the category of a code.
fn to_json(dtype: Dtype, value: Value) -> Json {
    if matches!(value, Value::Text(_)) {
        return json::value(value);
    }
    json::value_json(dtype, value)
}

/// The order in which attributes are listed.
const SCOPES: [Scope; 3] = [Scope::Vertex, Scope::Link, Scope::Object];
