//! View of a batch as a table: one row a vertex, one column of scalars for every axis and every value of
//! every attribute, then the part and the object of the vertex.

use serde_json::Value as Json;
use zvf_error::Result;
use zvf_format::num::{nearest_f32, to_u64, usize_from_u32};
use zvf_metadata::{Dtype, DtypeKind};
use zvf_model::{Batch, Column, ColumnBuilder, Field, ObjectId, Value};

use crate::error::bad_code;

/// Returns the whole number that a value is.
pub fn whole_number(value: &Value) -> Option<i128> {
    match value {
        Value::Int(n) => Some((*n).into()),
        Value::UInt(n) => Some((*n).into()),
        Value::Null | Value::Bool(_) | Value::Float(_) | Value::Text(_) => None,
    }
}

/// A batch seen as rows and columns of scalars.
#[derive(Debug)]
pub struct Table<'a> {
    batch: &'a Batch,
    columns: Vec<Scalar<'a>>,
    parts: Vec<usize>, // part of each vertex; empty without parts
    first_part: usize, // the number of the first part
}

/// A column of scalars.
#[derive(Debug)]
pub struct Scalar<'a> {
    /// The name of the column.
    pub name: String,
    /// Where its values come from.
    pub source: ScalarSource<'a>,
}

/// The source of the values of a column.
#[derive(Clone, Copy, Debug)]
pub enum ScalarSource<'a> {
    /// An axis of the positions.
    Axis(&'a Column, usize),
    /// One value of an attribute.
    Field(&'a Field, usize),
    /// The number of the part.
    Part,
    /// The object, by part or by vertex.
    Object,
}

impl<'a> Table<'a> {
    /// Creates a table of `batch` with the axes called `axes` (or `x0`, `x1`, … past their end).
    pub fn new(batch: &'a Batch, axes: &[String]) -> Self {
        let mut columns = Vec::new();
        for axis in 0..usize_from_u32(batch.positions().width()) {
            let name = axes.get(axis).cloned().unwrap_or_else(|| format!("x{axis}"));
            columns.push(Scalar { name, source: ScalarSource::Axis(batch.positions(), axis) });
        }
        for field in batch.fields() {
            columns.extend(field_columns(field));
        }
        let parts = batch.parts().iter().enumerate();
        let parts = parts.flat_map(|(at, part)| part.rows.map(move |_| at)).collect();
        if !batch.parts().offsets().is_empty() {
            columns.push(Scalar { name: "part".into(), source: ScalarSource::Part });
        }
        if batch.vertex_objects().is_some() || !batch.parts().offsets().is_empty() {
            columns.push(Scalar { name: "object".into(), source: ScalarSource::Object });
        }
        Self { batch, columns, parts, first_part: 0 }
    }

    /// Sets the number of the first part: the count of the parts of the batches before.
    pub fn with_first_part(self, first_part: usize) -> Self {
        Self { first_part, ..self }
    }

    /// Returns the columns.
    pub fn columns(&self) -> &[Scalar<'a>] {
        &self.columns
    }

    /// Returns the names of the columns.
    pub fn names(&self) -> Vec<&str> {
        self.columns.iter().map(|column| column.name.as_str()).collect()
    }

    /// Returns the value of `column` in `row`.
    pub fn value(&self, column: &Scalar<'_>, row: usize) -> Result<Value> {
        match column.source {
            ScalarSource::Axis(positions, axis) => Ok(positions.value(row, axis)),
            ScalarSource::Field(field, at) => field_value(field, row, at),
            ScalarSource::Part => Ok(self.part(row).map_or(Value::Null, count_value)),
            ScalarSource::Object => {
                Ok(self.object(row).map_or(Value::Null, |object| Value::Int(object.0)))
            }
        }
    }

    /// Returns the value of `column` in `row`, with the digits that a text format writes.
    pub fn text_value(&self, column: &Scalar<'_>, row: usize) -> Result<Value> {
        let value = self.value(column, row)?;
        Ok(match column.source {
            ScalarSource::Axis(positions, _) => shortest_float(positions.dtype(), value),
            ScalarSource::Field(field, _) if field.categories.is_none() => {
                shortest_float(field.column.dtype(), value)
            }
            ScalarSource::Field(..) | ScalarSource::Part | ScalarSource::Object => value,
        })
    }

    /// Returns the number of the part of vertex `row`.
    pub fn part(&self, row: usize) -> Option<usize> {
        self.parts.get(row).map(|part| part + self.first_part)
    }

    /// Returns the object of vertex `row`.
    pub fn object(&self, row: usize) -> Option<ObjectId> {
        match self.batch.vertex_objects() {
            Some(objects) => objects.get(row).copied().flatten(),
            None => self.batch.parts().objects().get(*self.parts.get(row)?).copied(),
        }
    }
}

/// Returns the number with the fewest digits that reads back as the same value of `dtype`: 0.1 of 32 bits stays 0.1,
/// instead of the seventeen digits of the same value in 64 bits.
pub fn shortest_float(dtype: Dtype, value: Value) -> Value {
    if let Value::Float(x) = value
        && (dtype.kind, dtype.size) == (DtypeKind::Float, 4)
        && x.is_finite()
    {
        return Value::Float(nearest_f32(x).to_string().parse().unwrap_or(x));
    }
    value
}

/// Returns a count as a value.
fn count_value(n: usize) -> Value {
    Value::UInt(to_u64(n))
}

/// Returns the columns of an attribute. Their names have an index if a row has several values.
fn field_columns(field: &Field) -> impl Iterator<Item = Scalar<'_>> {
    let width = usize_from_u32(field.column.width());
    (0..width).map(move |at| Scalar {
        name: value_name(field, at),
        source: ScalarSource::Field(field, at),
    })
}

/// Returns the name of value `at` of each row of an attribute, with an index if a row has several.
pub fn value_name(field: &Field, at: usize) -> String {
    match field.column.width() {
        1 => field.name.to_string(),
        _ => format!("{}_{at}", field.name),
    }
}

/// Returns a value of an attribute; a code becomes its category.
pub fn field_value(field: &Field, row: usize, at: usize) -> Result<Value> {
    field.value(row, at).map_err(|code| bad_code(&field.name, code))
}

/// Returns the value of an attribute in a row as JSON, or the list of values if it has several.
pub fn row_to_json(field: &Field, row: usize, to_json: impl Fn(Value) -> Json) -> Result<Json> {
    let value = |at| field_value(field, row, at).map(&to_json);
    match usize_from_u32(field.column.width()) {
        1 => value(0),
        width => (0..width).map(value).collect(),
    }
}

/// Returns a value as JSON, which has no number for floats that are not finite: they are null.
pub fn value_to_json(value: Value) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Bool(flag) => flag.into(),
        Value::Int(n) => n.into(),
        Value::UInt(n) => n.into(),
        Value::Float(x) => x.into(),
        Value::Text(text) => text.into(),
    }
}

/// Returns the rows and places of all values of a column.
pub fn value_places(column: &Column) -> impl Iterator<Item = (usize, usize)> + use<> {
    let width = usize_from_u32(column.width());
    (0..column.len()).flat_map(move |row| (0..width).map(move |at| (row, at)))
}

/// Returns a column with some rows of another.
pub fn gather_rows(column: &Column, rows: &[usize]) -> Column {
    arrange_rows(column, rows.iter().copied().map(Some), &[])
}

/// Returns a column with some rows of another, and `missing` for each that is not there.
pub fn arrange_rows(
    column: &Column,
    rows: impl IntoIterator<Item = Option<usize>>,
    missing: &[u8],
) -> Column {
    let mut builder = ColumnBuilder::empty_like(column);
    for row in rows {
        match row {
            Some(row) => builder.push_row(column, row),
            None => builder.push_bytes(missing),
        }
    }
    builder.finish()
}

/// Returns the items of a JSON array, or none.
pub fn json_items(json: &Json) -> &[Json] {
    json.as_array().map_or(&[], Vec::as_slice)
}

/// Returns the object of each vertex, if the batch has objects.
pub(crate) fn vertex_owners(batch: &Batch) -> Option<Vec<Option<ObjectId>>> {
    if let Some(owners) = batch.vertex_objects() {
        return Some(owners.to_vec());
    }
    let mut owners = vec![None; batch.len()];
    batch.parts().iter().for_each(|part| owners[part.rows].fill(Some(part.object)));
    (!batch.parts().offsets().is_empty()).then_some(owners)
}

/// Returns the object of each vertex, -1 where there is none.
pub fn owner_ids(batch: &Batch) -> Vec<i64> {
    let owners = vertex_owners(batch).unwrap_or_else(|| vec![None; batch.len()]);
    owners.into_iter().map(|owner| owner.map_or(-1, |id| id.0)).collect()
}
