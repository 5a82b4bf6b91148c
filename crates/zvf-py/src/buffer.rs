//! Bytes as arrays, arrays as columns, and columns as batches.
//!
//! A [`Buffer`] keeps the bytes of an answer alive and tells NumPy where they lie (`__array_interface__`), so that an
//! array is a view of what Rust holds. The other way an array arrives as its bytes, a type and a width; the Python half
//! has made them contiguous and native before.

use bytes::Bytes;
use numpy::PyReadonlyArray1;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict};
use zvf::format::num::{to_u64, usize_from_u32};
use zvf::metadata::Dtype;
use zvf::model::Elements;
use zvf::{Batch, Column, Field, Kind, ObjectId, Parts, Value};

use crate::error::{to_py_error, value_error};

/// Bytes that are an array.
#[pyclass(frozen, module = "zvf._zvf")]
pub(crate) struct Buffer {
    bytes: Bytes,
    dtype: String,
    shape: Vec<usize>,
}

impl Buffer {
    pub(crate) fn new(bytes: Bytes, dtype: impl Into<String>, shape: Vec<usize>) -> Self {
        Self { bytes, dtype: dtype.into(), shape }
    }

    /// Returns the values of a column: one axis where a row has one value, else two.
    pub(crate) fn from_column(column: &Column) -> Self {
        let mut values = Self::from_positions(column);
        values.shape.truncate(if column.width() == 1 { 1 } else { 2 });
        values
    }

    /// Returns positions: always two axes.
    pub(crate) fn from_positions(column: &Column) -> Self {
        let width = usize_from_u32(column.width());
        let shape = vec![column.len(), width];
        Self::new(column.bytes().clone(), type_string(column.dtype()), shape)
    }

    /// Returns numbers of rows as 64-bit integers.
    pub(crate) fn from_rows(rows: &[usize], shape: Vec<usize>) -> Self {
        let numbers = rows.iter().map(|row| to_u64(*row).cast_signed());
        Self { shape, ..Self::from_numbers(numbers) }
    }

    /// Returns numbers as 64-bit integers.
    pub(crate) fn from_numbers(numbers: impl Iterator<Item = i64>) -> Self {
        let bytes: Vec<u8> = numbers.flat_map(i64::to_ne_bytes).collect();
        let len = bytes.len() / size_of::<i64>();
        Self::new(bytes.into(), "i8", vec![len])
    }
}

#[pymethods]
impl Buffer {
    /// Returns where the bytes lie, for NumPy; this object keeps them.
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let order = if self.dtype.ends_with('1') && !self.dtype.contains(['U', 'S', 'T']) {
            "|"
        } else {
            "<"
        };
        let interface = PyDict::new(py);
        interface.set_item("shape", pyo3::types::PyTuple::new(py, &self.shape)?)?;
        interface.set_item("typestr", format!("{order}{}", self.dtype))?;
        interface.set_item("data", (self.bytes.as_ptr().addr(), true))?;
        interface.set_item("version", 3)?;
        Ok(interface)
    }
}

/// Returns NumPy's code of a type: `f4`, `i8`, `b1`.
fn type_string(dtype: Dtype) -> String {
    use zvf::metadata::DtypeKind as Kind;
    let letter = match dtype.kind {
        Kind::Bool => 'b',
        Kind::Int => 'i',
        Kind::UInt => 'u',
        Kind::Float => 'f',
        Kind::Text => 'U',
    };
    let size = if letter == 'U' { dtype.size / 4 } else { dtype.size };
    format!("{letter}{size}")
}

/// An array as Python hands it over: its bytes, the type by its name, and how many values make a row.
#[derive(FromPyObject)]
pub(crate) struct ArrayArgument<'py>(PyReadonlyArray1<'py, u8>, String, u32);

impl ArrayArgument<'_> {
    /// Returns the column; the bytes are copied, so that who changes the array later changes nothing here.
    pub(crate) fn column(&self) -> PyResult<Column> {
        let bytes = Bytes::copy_from_slice(self.0.as_slice().map_err(value_error)?);
        let dtype = self.1.parse::<Dtype>().map_err(value_error)?;
        Column::new(dtype, self.2, bytes).map_err(value_error)
    }
}

/// A category as Python hands it over: a truth value, a number, or text.
struct CategoryArgument(Value);

impl<'py> FromPyObject<'_, 'py> for CategoryArgument {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(flag) = value.cast::<PyBool>() {
            return Ok(Self(Value::Bool(flag.is_true())));
        }
        if let Ok(number) = value.extract() {
            return Ok(Self(Value::Int(number)));
        }
        if let Ok(number) = value.extract() {
            return Ok(Self(Value::UInt(number)));
        }
        match value.extract() {
            Ok(number) => Ok(Self(Value::Float(number))),
            Err(_not_a_number) => Ok(Self(Value::Text(value.extract()?))),
        }
    }
}

/// A field as Python hands it over.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct FieldArgument<'py> {
    name: String,
    array: ArrayArgument<'py>,
    categories: Option<Vec<CategoryArgument>>,
    unit: Option<String>,
    description: Option<String>,
}

impl FieldArgument<'_> {
    pub(crate) fn field(self) -> PyResult<Field> {
        let mut field = Field::new(self.name, self.array.column()?);
        if let Some(categories) = self.categories {
            let values = categories.into_iter().map(|category| category.0).collect();
            field = field.with_categories(zvf::Categories::new(values, Some(-1)));
        }
        field.unit = self.unit.map(Into::into);
        field.description = self.description.map(Into::into);
        Ok(field)
    }
}

/// Returns the fields of a list.
pub(crate) fn fields(given: Vec<FieldArgument<'_>>) -> PyResult<Vec<Field>> {
    given.into_iter().map(FieldArgument::field).collect()
}

/// Returns the kind of geometry that a word names.
pub(crate) fn parse_kind(py: Python<'_>, word: &str) -> PyResult<Kind> {
    word.parse().map_err(|error: zvf::model::UnknownKind| to_py_error(py, error))
}

/// Returns vertices with their columns, objects and elements; a vertex of the object -1 has none.
pub(crate) fn batch_of(
    kind: Kind,
    positions: &ArrayArgument<'_>,
    columns: Vec<FieldArgument<'_>>,
    parts: Option<(Vec<usize>, Vec<i64>)>,
    vertex_objects: Option<Vec<i64>>,
    elements: Option<(usize, Vec<usize>, Vec<FieldArgument<'_>>)>,
) -> PyResult<Batch> {
    let batch = Batch::new(kind, positions.column()?);
    let mut batch = batch.with_fields(fields(columns)?).map_err(value_error)?;
    if let Some((offsets, objects)) = parts {
        let objects = objects.into_iter().map(ObjectId).collect();
        let parts = Parts::new(offsets, objects).map_err(value_error)?;
        batch = batch.with_parts(parts).map_err(value_error)?;
    }
    if let Some(objects) = vertex_objects {
        let objects = objects.into_iter().map(|id| (id >= 0).then_some(ObjectId(id))).collect();
        batch = batch.with_vertex_objects(objects).map_err(value_error)?;
    }
    if let Some((width, rows, columns)) = elements {
        let mut joined = Elements::new(width, rows).map_err(value_error)?;
        for field in fields(columns)? {
            joined = joined.with_field(field).map_err(value_error)?;
        }
        batch = batch.with_elements(joined).map_err(value_error)?;
    }
    Ok(batch)
}
