//! Groups of objects, and values of objects and of groups.

use anyhow::Context;
use serde_json::{Value, json};
use zvf_model::{LevelReader, Members, RowAttribute};

use crate::facts::{self, Rows, list, members};
use crate::report::Report;

/// Compares groups, values of objects and values of groups.
pub(super) async fn check_tables(
    report: &mut Report,
    at: &str,
    expected: &Value,
    level: &LevelReader,
) -> anyhow::Result<()> {
    if let Some(expected) = expected["groups"].as_array() {
        let groups = level.groups().await?.context("no groups")?;
        let all: Vec<u64> = (0..groups.len()).collect();
        let found: Vec<Value> = groups.members(&all).await?.iter().map(members_to_json).collect();
        report.compare(&format!("{at}/groups"), &json!(expected), found);
    }
    for (name, expected) in members(&expected["object_attributes"]) {
        let at = format!("{at}/object_attributes/{name}");
        let attribute = level.object_attribute(name).await?.with_context(|| format!("no {at}"))?;
        check_values(report, &at, expected, &attribute).await?;
    }
    for (name, expected) in members(&expected["group_attributes"]) {
        let at = format!("{at}/group_attributes/{name}");
        let attribute = level.group_attribute(name).await?.with_context(|| format!("no {at}"))?;
        check_values(report, &at, expected, &attribute).await?;
    }
    Ok(())
}

pub(super) fn members_to_json(members: &Members) -> Value {
    match members {
        Members::Ids(ids) => ids.iter().map(|id| json!(id.0)).collect(),
        Members::Range { start, stop } => json!({"range": [start, stop]}),
    }
}

pub(super) async fn check_values(
    report: &mut Report,
    at: &str,
    expected: &Value,
    attribute: &RowAttribute,
) -> anyhow::Result<()> {
    let values = attribute.range(0..attribute.len()).await?;
    let column = values.column();
    let rows_like = |like: &Value| {
        let scalar = !like.get(0).is_some_and(Value::is_array);
        facts::head_to_json(column, like.as_array().map_or(0, Vec::len), scalar)
    };
    if expected.is_array() {
        report.compare(at, expected, rows_like(expected));
        return Ok(());
    }
    // The contents of a row past the end.
    let beyond = attribute.range(attribute.len()..attribute.len().saturating_add(1)).await?;
    report.each(at, expected, &[], |name, expected| {
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
