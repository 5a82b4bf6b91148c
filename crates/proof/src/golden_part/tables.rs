//! Groups of objects, and values of objects and of groups: of a level, and of parametric objects.

use anyhow::Context;
use serde_json::{Map, Value, json};
use zvf_error::Result;
use zvf_model::{Groups, Members, RowAttribute};

use crate::facts::{self, Rows, describe_each, list};

/// Returns groups, and the expected values of objects and of groups. `attribute` gives the values,
/// of groups or of objects.
pub(super) async fn describe_tables(
    expected: &Value,
    groups: Option<Groups>,
    attribute: impl AsyncFn(bool, &str) -> Result<Option<RowAttribute>>,
) -> anyhow::Result<Value> {
    let mut found = Map::new();
    if let Some(groups) = groups {
        let all = groups.members(&(0..groups.len()).collect::<Vec<_>>()).await?;
        found.insert("groups".to_owned(), all.iter().map(members_to_json).collect());
    }
    for (part, of_groups) in [("object_attributes", false), ("group_attributes", true)] {
        let values = describe_each(&expected[part], async |name, expected| {
            let attribute = attribute(of_groups, name).await?;
            Ok(describe_values(&attribute.context("no such attribute")?, expected).await?)
        });
        found.insert(part.to_owned(), values.await);
    }
    Ok(found.into())
}

fn members_to_json(members: &Members) -> Value {
    match members {
        Members::Ids(ids) => ids.iter().map(|id| json!(id.0)).collect(),
        Members::Range { start, stop } => json!({"range": [start, stop]}),
    }
}

/// Returns the values, in the form of the corpus: a list of them, or their facts.
pub(crate) async fn describe_values(attribute: &RowAttribute, expected: &Value) -> Result<Value> {
    let values = attribute.range(0..attribute.len()).await?;
    let column = values.column();
    let rows_like = |like: &Value| {
        let scalar = !like.get(0).is_some_and(Value::is_array);
        facts::head_to_json(column, like.as_array().map_or(0, Vec::len), scalar)
    };
    if expected.is_array() {
        return Ok(rows_like(expected));
    }
    let beyond = attribute.range(attribute.len()..attribute.len().saturating_add(1)).await?;
    let shape = [column.len(), column.width() as usize];
    Ok(json!({
        "dtype": attribute.dtype().to_string(),
        "shape": shape[..list(&expected["shape"]).count().min(2)],
        "sha256": Rows::from_column(column).sha256(),
        "head": rows_like(&expected["head"]),
        "values": rows_like(&expected["values"]),
        "absent_rows": values.absent_rows(),
        "fill_value": facts::value_to_json(&beyond.column().value(0, 0)),
    }))
}
