//! Values as readable JSON: a float without a JSON number becomes a text.

use serde_json::Value as Json;
use zvf_format::num::usize_from_u32;
use zvf_metadata::{Dtype, DtypeKind};
use zvf_model::{RowValues, Value};

/// Returns a value of a column of `dtype`: a 32-bit float with its own digits, not those of its
/// 64-bit form.
pub(super) fn value_json(dtype: Dtype, value: Value) -> Json {
    if let Value::Float(x) = value
        && (dtype.kind, dtype.size) == (DtypeKind::Float, 4)
        && x.is_finite()
    {
        return self::value(Value::Float(to_f32(x).to_string().parse().unwrap_or(x)));
    }
    self::value(value)
}

#[expect(clippy::as_conversions, reason = "the value was widened from 32 bits, so nothing is lost")]
const fn to_f32(x: f64) -> f32 {
    x as f32
}

pub(super) fn value(value: Value) -> Json {
    let Value::Float(x) = value else { return Json::from(&value) };
    if x.is_finite() { x.into() } else { x.to_string().into() }
}

/// Returns one value, or a list if a row has several.
pub(super) fn row(values: &RowValues, row: usize) -> Json {
    let dtype = values.column().dtype();
    match usize_from_u32(values.column().width()) {
        1 => value_json(dtype, values.value(row, 0)),
        width => (0..width).map(|at| value_json(dtype, values.value(row, at))).collect(),
    }
}
