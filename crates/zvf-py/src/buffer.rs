//! Bytes as arrays and arrays as columns.
//!
//! A [`Buffer`] keeps the bytes of an answer alive and tells NumPy where they lie (`__array_interface__`), so that an
//! array is a view of what Rust holds. The other way an array arrives as its bytes, a type and a width; the Python half
//! has made them contiguous and native before.

use bytes::Bytes;
use numpy::PyReadonlyArray1;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use pyo3_arrow::input::AnyRecordBatch;
use zvf::metadata::Dtype;
use zvf::{Column, Field, Value};

use crate::error::value_error;

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

    /// The values of a column: one axis where a row has one value, else two.
    pub(crate) fn of_column(column: &Column) -> Self {
        let width = usize::try_from(column.width()).unwrap_or(1);
        let shape = if width == 1 { vec![column.len()] } else { vec![column.len(), width] };
        Self::new(column.bytes().clone(), type_string(column.dtype()), shape)
    }

    /// Positions: always two axes.
    pub(crate) fn of_positions(column: &Column) -> Self {
        let width = usize::try_from(column.width()).unwrap_or(1);
        let shape = vec![column.len(), width];
        Self::new(column.bytes().clone(), type_string(column.dtype()), shape)
    }

    /// Numbers of rows, as the 64-bit integers that they are in memory.
    #[expect(clippy::host_endian_bytes, reason = "NumPy reads memory in the order of this machine")]
    pub(crate) fn from_rows(rows: &[usize], shape: Vec<usize>) -> Self {
        let bytes: Vec<u8> = if cfg!(target_pointer_width = "64") {
            rows.iter().flat_map(|row| row.to_ne_bytes()).collect()
        } else {
            rows.iter()
                .flat_map(|row| u64::try_from(*row).unwrap_or(u64::MAX).to_ne_bytes())
                .collect()
        };
        Self::new(bytes.into(), "i8", shape)
    }

    /// Numbers.
    pub(crate) fn of_numbers(numbers: impl Iterator<Item = i64>) -> Self {
        let bytes: Vec<u8> = numbers.flat_map(i64::to_ne_bytes).collect();
        let len = bytes.len() / size_of::<i64>();
        Self::new(bytes.into(), "i8", vec![len])
    }
}

#[pymethods]
impl Buffer {
    /// Where the bytes lie, for NumPy; this object keeps them.
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

/// NumPy's code of a type: `f4`, `i8`, `b1`.
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
pub(crate) struct Given<'py>(PyReadonlyArray1<'py, u8>, String, u32);

impl Given<'_> {
    /// The column; the bytes are copied, so that who changes the array later changes nothing here.
    pub(crate) fn column(&self) -> PyResult<Column> {
        let bytes = Bytes::copy_from_slice(self.0.as_slice().map_err(value_error)?);
        let dtype = Dtype::parse(&self.1).map_err(value_error)?;
        Column::new(dtype, self.2, bytes).map_err(value_error)
    }
}

/// A field as Python hands it over.
#[derive(FromPyObject)]
pub(crate) struct GivenField<'py> {
    #[pyo3(item)]
    name: String,
    #[pyo3(item)]
    array: Given<'py>,
    #[pyo3(item)]
    categories: Option<Vec<String>>,
    #[pyo3(item)]
    unit: Option<String>,
    #[pyo3(item)]
    description: Option<String>,
}

impl GivenField<'_> {
    pub(crate) fn field(self) -> PyResult<Field> {
        let mut field = Field::new(self.name, self.array.column()?);
        if let Some(categories) = self.categories {
            let values = categories.into_iter().map(Value::Text).collect();
            field = field.with_categories(zvf::Categories::new(values, Some(-1)));
        }
        field.unit = self.unit.map(Into::into);
        field.description = self.description.map(Into::into);
        Ok(field)
    }
}

/// The fields of a list.
pub(crate) fn fields(given: Vec<GivenField<'_>>) -> PyResult<Vec<Field>> {
    given.into_iter().map(GivenField::field).collect()
}

/// The columns of anything that speaks Arrow: name, buffer of the values, categories.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "types are many: those that are no lists are one column"
)]
#[pyfunction]
pub(crate) fn read_arrow(
    py: Python<'_>,
    table: AnyRecordBatch,
) -> PyResult<Vec<(String, Py<Buffer>, Option<Vec<Option<String>>>)>> {
    use arrow_array::Array as _;
    use arrow_array::cast::AsArray as _;
    use arrow_schema::DataType;
    let table = table.into_table()?;
    let (batches, schema) = table.into_inner();
    let mut columns = Vec::new();
    for (at, field) in schema.fields().iter().enumerate() {
        let mut bytes = Vec::new();
        let (mut code, mut width, mut rows) = (String::new(), 1, 0);
        let mut categories: Option<Vec<Option<String>>> = None;
        for batch in &batches {
            let array = batch.column(at);
            if array.null_count() > 0 {
                return Err(value_error(format!("column {:?} has nulls", field.name())));
            }
            rows += array.len();
            let (values, list) = match array.data_type() {
                DataType::FixedSizeList(_, size) => {
                    let list = array.as_fixed_size_list();
                    let each = usize::try_from(*size).map_err(value_error)?;
                    (
                        list.values().slice(
                            list.value_offset(0).try_into().map_err(value_error)?,
                            array.len() * each,
                        ),
                        each,
                    )
                }
                DataType::Utf8
                | DataType::LargeUtf8
                | DataType::Utf8View
                | DataType::Dictionary(_, _) => {
                    let text = arrow_array::cast::AsArray::as_string_opt::<i32>(array);
                    let large = arrow_array::cast::AsArray::as_string_opt::<i64>(array);
                    let own = categories.get_or_insert_default();
                    if let Some(text) = text {
                        own.extend(text.iter().map(|t| t.map(str::to_owned)));
                    } else if let Some(text) = large {
                        own.extend(text.iter().map(|t| t.map(str::to_owned)));
                    } else if let Some(text) = array.as_string_view_opt() {
                        own.extend(text.iter().map(|t| t.map(str::to_owned)));
                    } else if let Some(dictionary) = array.as_any_dictionary_opt() {
                        let keys = dictionary.normalized_keys();
                        let values = dictionary.values();
                        let word = |i: usize| {
                            values
                                .as_string_opt::<i32>()
                                .map(|v| v.value(i).to_owned())
                                .or_else(|| {
                                    values.as_string_opt::<i64>().map(|v| v.value(i).to_owned())
                                })
                                .or_else(|| {
                                    values.as_string_view_opt().map(|v| v.value(i).to_owned())
                                })
                        };
                        own.extend(keys.into_iter().map(word));
                    }
                    continue;
                }
                _ => (array.clone(), 1),
            };
            width = list;
            let (name, size) = primitive(values.data_type()).ok_or_else(|| {
                let found = values.data_type();
                value_error(format!(
                    "column {:?} is of the type {found}, which is not one of numbers or text",
                    field.name()
                ))
            })?;
            name.clone_into(&mut code);
            if name == "b1" {
                let values = values.as_boolean();
                bytes.extend((0..values.len()).map(|i| u8::from(values.value(i))));
            } else {
                let data = values.to_data();
                let buffer =
                    data.buffers().first().ok_or_else(|| value_error("a column without values"))?;
                let start = data.offset() * size;
                bytes.extend_from_slice(&buffer[start..start + data.len() * size]);
            }
        }
        if code.is_empty() {
            "u1".clone_into(&mut code);
        }
        let shape = if width == 1 { vec![rows] } else { vec![rows, width] };
        let shape = if categories.is_some() { vec![0] } else { shape };
        let buffer = Py::new(py, Buffer::new(bytes.into(), code, shape))?;
        columns.push((field.name().clone(), buffer, categories));
    }
    Ok(columns)
}

fn primitive(data_type: &arrow_schema::DataType) -> Option<(&'static str, usize)> {
    use arrow_schema::DataType as D;
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "types of numbers are listed, nothing else is one"
    )]
    Some(match data_type {
        D::Boolean => ("b1", 1),
        D::Int8 => ("i1", 1),
        D::Int16 => ("i2", 2),
        D::Int32 => ("i4", 4),
        D::Int64 => ("i8", 8),
        D::UInt8 => ("u1", 1),
        D::UInt16 => ("u2", 2),
        D::UInt32 => ("u4", 4),
        D::UInt64 => ("u8", 8),
        D::Float16 => ("f2", 2),
        D::Float32 => ("f4", 4),
        D::Float64 => ("f8", 8),
        _ => return None,
    })
}
