//! Values as JSON, for people: a float that JSON has no number for is a text.

use serde_json::Value as Json;
use zvf_model::{RowValues, Value};

pub(super) fn value(value: Value) -> Json {
    match value {
        Value::Bool(flag) => flag.into(),
        Value::Int(n) => n.into(),
        Value::UInt(n) => n.into(),
        Value::Float(x) if x.is_finite() => x.into(),
        Value::Float(x) => x.to_string().into(),
        Value::Text(text) => text.into(),
        _ => Json::Null,
    }
}

/// One value, or a list where a row has several.
pub(super) fn row(values: &RowValues, row: usize) -> Json {
    match usize::try_from(values.column().width()).unwrap_or(0) {
        1 => value(values.value(row, 0)),
        width => (0..width).map(|at| value(values.value(row, at))).collect(),
    }
}
