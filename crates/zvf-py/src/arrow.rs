//! Tables of Arrow as columns of bytes.
//!
//! ```text
//! numbers, truth values   as they are; a null of a float is NaN, of anything else it is refused
//! lists of numbers        values of a row side by side, as long as all rows have equally many
//! text, dictionaries      words, None where there is a null
//! ```
//!
//! Not here: what a column means (`zvf._pieces`), and answers on their way out (`answer`).

use arrow_array::cast::AsArray as _;
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use pyo3::prelude::*;
use pyo3_arrow::input::AnyRecordBatch;

use crate::buffer::Buffer;
use crate::error::value_error;

/// A word of each row of a column of text.
type Words = Vec<Option<String>>;

/// Reads the columns of anything that speaks Arrow: name, buffer of the values, words.
#[pyfunction]
pub(crate) fn read_arrow(
    py: Python<'_>,
    table: AnyRecordBatch,
) -> PyResult<Vec<(String, Py<Buffer>, Option<Words>)>> {
    let (batches, schema) = table.into_table()?.into_inner();
    let mut columns = Vec::new();
    for (at, field) in schema.fields().iter().enumerate() {
        let name = field.name();
        if is_text(field.data_type()) {
            let mut words = Words::new();
            for batch in &batches {
                words.extend(read_words(name, batch.column(at))?);
            }
            let none = Buffer::new(Vec::new().into(), "u1", vec![0]);
            columns.push((name.clone(), Py::new(py, none)?, Some(words)));
            continue;
        }
        let mut numbers = Numbers { name, code: "u1", width: 1, rows: 0, bytes: Vec::new() };
        for batch in &batches {
            numbers.add(batch.column(at))?;
        }
        columns.push((name.clone(), Py::new(py, numbers.into_buffer())?, None));
    }
    Ok(columns)
}

fn is_text(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Dictionary(_, _)
    )
}

fn read_words(name: &str, array: &ArrayRef) -> PyResult<Words> {
    let owned = |word: Option<&str>| word.map(str::to_owned);
    if let Some(text) = array.as_string_opt::<i32>() {
        return Ok(text.iter().map(owned).collect());
    }
    if let Some(text) = array.as_string_opt::<i64>() {
        return Ok(text.iter().map(owned).collect());
    }
    if let Some(text) = array.as_string_view_opt() {
        return Ok(text.iter().map(owned).collect());
    }
    let not_text =
        || value_error(format!("column {name:?}: a dictionary of {}", array.data_type()));
    let dictionary = array.as_any_dictionary_opt().ok_or_else(not_text)?;
    if !is_text(dictionary.values().data_type()) {
        return Err(not_text());
    }
    // Arrays of other libraries may have keys outside the dictionary, which normalized_keys would clamp.
    let checked = dictionary.to_data().validate_values();
    checked.map_err(|error| value_error(format!("column {name:?}: {error}")))?;
    let values = read_words(name, dictionary.values())?;
    let keys = dictionary.keys();
    let word = |(row, key): (usize, usize)| {
        if keys.is_null(row) { None } else { values.get(key).cloned().flatten() }
    };
    if values.is_empty() {
        return Ok(vec![None; keys.len()]);
    }
    Ok(dictionary.normalized_keys().into_iter().enumerate().map(word).collect())
}

/// The values of a column of numbers, batch after batch.
struct Numbers<'a> {
    name: &'a str,
    code: &'static str, // as NumPy calls the type
    width: usize,       // values of a row
    rows: usize,
    bytes: Vec<u8>,
}

impl Numbers<'_> {
    fn add(&mut self, array: &ArrayRef) -> PyResult<()> {
        let (values, width) = self.flatten(array)?;
        if self.rows > 0 && !array.is_empty() && width != self.width {
            return Err(self.refuse(format!("rows of {} values and of {width}", self.width)));
        }
        let found = values.data_type();
        let (code, size) = numpy_type(found)
            .ok_or_else(|| self.refuse(format!("{found}, which is not one of numbers or text")))?;
        if !array.is_empty() || self.rows == 0 {
            self.width = width;
        }
        self.code = code;
        self.rows += array.len();
        let start = self.bytes.len();
        if code == "b1" {
            let values = values.as_boolean();
            self.bytes.extend((0..values.len()).map(|row| u8::from(values.value(row))));
        } else {
            let data = values.to_data();
            let buffer =
                data.buffers().first().ok_or_else(|| self.refuse("no values".to_owned()))?;
            let from = data.offset() * size;
            self.bytes.extend_from_slice(&buffer[from..from + data.len() * size]);
        }
        self.put_nan(&values, start, size)
    }

    /// Returns the values of all rows, and how many a row has.
    fn flatten(&self, array: &ArrayRef) -> PyResult<(ArrayRef, usize)> {
        let of_lists = array.as_fixed_size_list_opt().is_some()
            || array.as_list_opt::<i32>().is_some()
            || array.as_list_opt::<i64>().is_some();
        if of_lists && array.null_count() > 0 {
            return Err(self.refuse("nulls among lists".to_owned()));
        }
        if let Some(list) = array.as_fixed_size_list_opt() {
            let width = usize::try_from(list.value_length()).map_err(value_error)?;
            let from = usize::try_from(list.value_offset(0)).map_err(value_error)?;
            return Ok((list.values().slice(from, list.len() * width), width));
        }
        if let Some(list) = array.as_list_opt::<i32>() {
            let offsets: Vec<i64> = list.value_offsets().iter().map(|at| i64::from(*at)).collect();
            return self.flatten_lists(list.values(), &offsets);
        }
        if let Some(list) = array.as_list_opt::<i64>() {
            return self.flatten_lists(list.values(), list.value_offsets());
        }
        Ok((array.clone(), 1))
    }

    fn flatten_lists(&self, values: &ArrayRef, offsets: &[i64]) -> PyResult<(ArrayRef, usize)> {
        let mut widths = offsets.array_windows().map(|[from, to]| to - from);
        let width = widths.next().unwrap_or(1);
        if let Some(other) = widths.find(|other| *other != width) {
            return Err(self.refuse(format!("rows of {width} values and of {other}")));
        }
        // None is below 0, so the offsets ascend.
        let width = usize::try_from(width).map_err(value_error)?;
        let from = usize::try_from(offsets.first().copied().unwrap_or(0)).map_err(value_error)?;
        let rows = offsets.len().saturating_sub(1); // one less than offsets, if there are any
        Ok((values.slice(from, rows * width), width))
    }

    /// Makes nulls of floats NaN, and refuses others.
    fn put_nan(&mut self, values: &ArrayRef, start: usize, size: usize) -> PyResult<()> {
        if values.null_count() == 0 {
            return Ok(());
        }
        let nan: &[u8] = match self.code {
            "f2" => &[0, 0x7e],
            "f4" => &f32::NAN.to_le_bytes(),
            "f8" => &f64::NAN.to_le_bytes(),
            _ => return Err(self.refuse("nulls, for which its type has no value".to_owned())),
        };
        for row in (0..values.len()).filter(|row| values.is_null(*row)) {
            self.bytes[start + row * size..][..size].copy_from_slice(nan);
        }
        Ok(())
    }

    fn refuse(&self, found: String) -> PyErr {
        value_error(format!("column {:?}: expected numbers or text, found {found}", self.name))
    }

    fn into_buffer(self) -> Buffer {
        let shape = if self.width == 1 { vec![self.rows] } else { vec![self.rows, self.width] };
        Buffer::new(self.bytes.into(), self.code, shape)
    }
}

/// What NumPy calls a type, and the bytes of a value.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "types of numbers are listed, nothing else is one"
)]
fn numpy_type(data_type: &DataType) -> Option<(&'static str, usize)> {
    use DataType as D;
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
