//! Groups of objects, and values of objects and of groups: of a level, and of parametric objects.

use anyhow::Context;
use serde_json::{Value, json};
use zvf_error::Result;
use zvf_model::{Groups, Members, RowAttribute};

use crate::facts::{self, Rows, list, members};
use crate::report::Facts;

/// Compares groups, values of objects and values of groups. `attribute` gives the values, of groups
/// or of objects.
pub(super) async fn check_tables(
    facts: &mut Facts<'_>,
    groups: impl AsyncFnOnce() -> Result<Option<Groups>>,
    attribute: impl AsyncFn(bool, &str) -> Result<Option<RowAttribute>>,
) -> anyhow::Result<()> {
    if facts.expected["groups"].is_array() {
        let groups = groups().await?.context("no groups")?;
        let all: Vec<u64> = (0..groups.len()).collect();
        let found: Vec<Value> = groups.members(&all).await?.iter().map(members_to_json).collect();
        facts.fact("groups", found);
    }
    for (part, of_groups) in [("object_attributes", false), ("group_attributes", true)] {
        let mut facts = facts.of(part);
        for (name, expected) in members(facts.expected) {
            let mut facts = facts.named(name, expected);
            let attribute = attribute(of_groups, name).await?;
            let attribute = attribute.with_context(|| format!("no {}", facts.at))?;
            check_values(&mut facts, &attribute).await?;
        }
    }
    Ok(())
}

fn members_to_json(members: &Members) -> Value {
    match members {
        Members::Ids(ids) => ids.iter().map(|id| json!(id.0)).collect(),
        Members::Range { start, stop } => json!({"range": [start, stop]}),
    }
}

async fn check_values(facts: &mut Facts<'_>, attribute: &RowAttribute) -> anyhow::Result<()> {
    let values = attribute.range(0..attribute.len()).await?;
    let column = values.column();
    let rows_like = |like: &Value| {
        let scalar = !like.get(0).is_some_and(Value::is_array);
        facts::head_to_json(column, like.as_array().map_or(0, Vec::len), scalar)
    };
    if facts.expected.is_array() {
        facts.compare(rows_like(facts.expected));
        return Ok(());
    }
    // The contents of a row past the end.
    let beyond = attribute.range(attribute.len()..attribute.len().saturating_add(1)).await?;
    facts.each(&[], |name, expected| {
        Some(match name {
            "dtype" => json!(attribute.dtype().to_string()),
            "shape" if list(expected).count() == 1 => json!([column.len()]),
            "shape" => json!([column.len(), column.width()]),
            "sha256" => json!(Rows::from_column(column).sha256()),
            "head" | "values" => rows_like(expected),
            "absent_rows" => json!(values.absent_rows()),
            "fill_value" if expected.is_null() => Value::Null, // none was declared
            "fill_value" => facts::value_to_json(&beyond.column().value(0, 0)),
            _ => return None,
        })
    });
    Ok(())
}
