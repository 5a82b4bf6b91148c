//! View of a batch as a table: one row a vertex, one column of scalars for every axis and every value of
//! every attribute, then the part and the object of the vertex.

use zvf_error::Result;
use zvf_format::num::{to_u64, usize_from_u32};
use zvf_metadata::{Dtype, DtypeKind};
use zvf_model::{BadCode, Batch, Column, Field, ObjectId, Value};

use crate::error::bad_code;

/// A batch seen as rows and columns of scalars.
#[derive(Debug)]
pub(crate) struct Table<'a> {
    batch: &'a Batch,
    columns: Vec<Scalar<'a>>,
    parts: Vec<usize>, // part of each vertex; empty without parts
    first_part: usize, // the number of the first part
}

/// A column of scalars.
#[derive(Debug)]
pub(crate) struct Scalar<'a> {
    pub(crate) name: String,
    pub(crate) source: Source<'a>,
}

/// The source of the values of a column.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Source<'a> {
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
    pub(crate) fn new(batch: &'a Batch, axes: &[String]) -> Self {
        let mut columns = Vec::new();
        for axis in 0..usize_from_u32(batch.positions().width()) {
            let name = axes.get(axis).cloned().unwrap_or_else(|| format!("x{axis}"));
            columns.push(Scalar { name, source: Source::Axis(batch.positions(), axis) });
        }
        for field in batch.fields() {
            columns.extend(field_columns(field));
        }
        let parts = part_by_vertex(batch);
        if !batch.parts().offsets().is_empty() {
            columns.push(Scalar { name: "part".into(), source: Source::Part });
        }
        if batch.vertex_objects().is_some() || !batch.parts().offsets().is_empty() {
            columns.push(Scalar { name: "object".into(), source: Source::Object });
        }
        Self { batch, columns, parts, first_part: 0 }
    }

    /// Sets the number of the first part: the count of the parts of the batches before.
    pub(crate) fn with_first_part(self, first_part: usize) -> Self {
        Self { first_part, ..self }
    }

    pub(crate) fn columns(&self) -> &[Scalar<'a>] {
        &self.columns
    }

    /// Returns the names of the columns.
    pub(crate) fn names(&self) -> Vec<&str> {
        self.columns.iter().map(|column| column.name.as_str()).collect()
    }

    /// Returns the value of `column` in `row`.
    pub(crate) fn value(&self, column: &Scalar<'_>, row: usize) -> Result<Value> {
        match column.source {
            Source::Axis(positions, axis) => Ok(positions.value(row, axis)),
            Source::Field(field, at) => {
                field.value(row, at).map_err(|code: BadCode| bad_code(&column.name, code))
            }
            Source::Part => Ok(self.part(row).map_or(Value::Null, count_value)),
            Source::Object => {
                Ok(self.object(row).map_or(Value::Null, |object| Value::Int(object.0)))
            }
        }
    }

    /// Returns the value of `column` in `row`, with the digits that a text format writes.
    pub(crate) fn text_value(&self, column: &Scalar<'_>, row: usize) -> Result<Value> {
        let value = self.value(column, row)?;
        Ok(match column.source {
            Source::Axis(positions, _) => shortest_float(positions.dtype(), value),
            Source::Field(field, _) if field.categories.is_none() => {
                shortest_float(field.column.dtype(), value)
            }
            Source::Field(..) | Source::Part | Source::Object => value,
        })
    }

    /// Returns the number of the part of vertex `row`.
    pub(crate) fn part(&self, row: usize) -> Option<usize> {
        self.parts.get(row).map(|part| part + self.first_part)
    }

    /// Returns the object of vertex `row`.
    pub(crate) fn object(&self, row: usize) -> Option<ObjectId> {
        match self.batch.vertex_objects() {
            Some(objects) => objects.get(row).copied().flatten(),
            None => self.batch.parts().objects().get(*self.parts.get(row)?).copied(),
        }
    }
}

/// Returns the number with the fewest digits that reads back as the same value of `dtype`: 0.1 of 32 bits stays 0.1,
/// instead of the seventeen digits of the same value in 64 bits.
pub(crate) fn shortest_float(dtype: Dtype, value: Value) -> Value {
    if let Value::Float(x) = value
        && (dtype.kind, dtype.size) == (DtypeKind::Float, 4)
        && x.is_finite()
    {
        return Value::Float(to_f32(x).to_string().parse().unwrap_or(x));
    }
    value
}

#[expect(clippy::as_conversions, reason = "the value was widened from 32 bits, so nothing is lost")]
const fn to_f32(x: f64) -> f32 {
    x as f32
}

/// Returns a count as a value.
pub(crate) fn count_value(n: usize) -> Value {
    Value::UInt(to_u64(n))
}

/// Returns the columns of an attribute. Their names have an index if a row has several values.
fn field_columns(field: &Field) -> impl Iterator<Item = Scalar<'_>> {
    let width = usize_from_u32(field.column.width());
    (0..width).map(move |at| {
        let name = if width == 1 { field.name.to_string() } else { format!("{}_{at}", field.name) };
        Scalar { name, source: Source::Field(field, at) }
    })
}

fn part_by_vertex(batch: &Batch) -> Vec<usize> {
    let parts = batch.parts().iter().enumerate();
    parts.flat_map(|(at, part)| part.rows.map(move |_| at)).collect()
}
