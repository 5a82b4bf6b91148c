//! The encoding of facts: digests of rows, and numbers as the corpus writes them.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use zvf_model::Column;

/// Rows of bytes, in their order.
#[derive(Default)]
pub(crate) struct Rows(pub(crate) Vec<Vec<u8>>);

impl Rows {
    /// Returns the rows of a column.
    pub(crate) fn from_column(column: &Column) -> Self {
        Self(column.rows().map(<[u8]>::to_vec).collect())
    }

    /// Returns rows of integers.
    pub(crate) fn from_ints<R: AsRef<[i64]>>(rows: impl IntoIterator<Item = R>) -> Self {
        let bytes = |row: R| row.as_ref().iter().flat_map(|n| n.to_le_bytes()).collect();
        Self(rows.into_iter().map(bytes).collect())
    }

    /// Returns rows of coordinates: of all points of a piece.
    pub(crate) fn from_pieces(pieces: &[Vec<Vec<f64>>]) -> Self {
        let bytes =
            |piece: &Vec<Vec<f64>>| piece.concat().into_iter().flat_map(f64::to_le_bytes).collect();
        Self(pieces.iter().map(bytes).collect())
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Appends the row of `right` to each row.
    pub(crate) fn join_columns(&self, right: &Self) -> Self {
        Self(self.0.iter().zip(&right.0).map(|(a, b)| [a.as_slice(), b].concat()).collect())
    }

    /// Returns the number of rows, and their digests.
    pub(crate) fn to_json(&self) -> Value {
        json!({
            "count": self.len(), "sha256": self.sha256(), "sha256_sorted": self.sha256_sorted(),
        })
    }

    /// Returns the digest of the rows in their order.
    pub(crate) fn sha256(&self) -> String {
        digest(self.0.iter())
    }

    /// Returns the digest of the rows sorted by their bytes.
    pub(crate) fn sha256_sorted(&self) -> String {
        let mut rows: Vec<&Vec<u8>> = self.0.iter().collect();
        rows.sort_unstable();
        digest(rows.into_iter())
    }
}

/// Returns the digest of the concatenated `parts`.
pub(crate) fn digest<B: AsRef<[u8]>>(parts: impl Iterator<Item = B>) -> String {
    let mut hash = Sha256::new();
    parts.for_each(|part| hash.update(part));
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Stands for a fact that cannot be read, with the reason.
pub(crate) fn or_error<T: Into<Value>, E: Into<anyhow::Error>>(found: Result<T, E>) -> Value {
    found.map_or_else(|error| json!({ERROR: format!("{:#}", error.into())}), Into::into)
}

/// Describes each member of the expected facts; one that cannot be read stands for its error.
pub(crate) async fn describe_each<T: Into<Value>>(
    expected: &Value,
    describe: impl AsyncFn(&str, &Value) -> anyhow::Result<T>,
) -> Value {
    let mut found = serde_json::Map::new();
    for (name, expected) in members(expected) {
        found.insert(name.to_owned(), or_error(describe(name, expected).await));
    }
    found.into()
}

/// Stands for a fact that is not compared, with the reason.
pub(crate) fn skipped(why: &str) -> Value {
    json!({SKIPPED: why})
}

/// Stands for a fact that says what is looked for, or is compared elsewhere.
pub(crate) fn given() -> Value {
    json!({GIVEN: true})
}

/// A fact that must be the same as a whole, without further members.
pub(crate) fn exact(found: impl Into<Value>) -> Value {
    json!({EXACT: found.into()})
}

pub(crate) const ERROR: &str = "(error)";
pub(crate) const SKIPPED: &str = "(skipped)";
pub(crate) const GIVEN: &str = "(given)";
pub(crate) const EXACT: &str = "(exact)";

/// Returns a number as the corpus writes it: as text, if JSON cannot represent it.
pub(crate) fn number_to_json(x: f64) -> Value {
    if x.is_finite() { json!(x) } else { json!(x.to_string().to_lowercase()) }
}

/// Returns the numbers of a list of the corpus.
pub(crate) fn parse_floats(value: &Value) -> Vec<f64> {
    let parse = |value: &Value| match value.as_str() {
        Some(text) => text.parse().ok(),
        None => value.as_f64(),
    };
    list(value).map(|value| parse(value).unwrap_or(f64::NAN)).collect()
}

/// Returns one value of a column as the corpus writes it.
pub(crate) fn value_to_json(value: &zvf_model::Value) -> Value {
    match value {
        zvf_model::Value::Int(n) => json!(n),
        zvf_model::Value::UInt(n) => json!(n),
        zvf_model::Value::Float(x) => number_to_json(*x),
        zvf_model::Value::Bool(b) => json!(b),
        zvf_model::Value::Text(text) => json!(&**text),
        _ => Value::Null,
    }
}

/// Returns the first rows of a column: numbers if a row has one value, otherwise lists.
pub(crate) fn head_to_json(column: &Column, rows: usize, scalar: bool) -> Value {
    let row = |i| {
        let values = (0..column.width() as usize).map(|c| value_to_json(&column.value(i, c)));
        let mut values: Vec<Value> = values.collect();
        if scalar && values.len() == 1 { values.remove(0) } else { Value::Array(values) }
    };
    Value::Array((0..rows.min(column.len())).map(row).collect())
}

/// Returns the values of a list; empty for any other value.
pub(crate) fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Returns the members of an object; empty for any other value.
pub(crate) fn members(value: &Value) -> impl Iterator<Item = (&str, &Value)> {
    value.as_object().into_iter().flatten().map(|(name, value)| (name.as_str(), value))
}

/// Returns the texts of a list.
pub(crate) fn texts(value: &Value) -> impl Iterator<Item = String> {
    list(value).filter_map(Value::as_str).map(str::to_owned)
}

/// Returns the numbers of a list.
pub(crate) fn numbers(value: &Value) -> Vec<u64> {
    list(value).filter_map(Value::as_u64).collect()
}
