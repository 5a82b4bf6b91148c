//! Columns of Arrow as columns of bytes.
//!
//! ```text
//! numbers, truth values   as they are, and which rows have one; a null of a float is NaN
//! lists of numbers        values of a row side by side, as long as all rows have equally many
//! text                    codes of the different words in their order, -1 where there is a null
//! dictionaries            codes and categories as they are: words, or numbers
//! dates, times, spans     the stored numbers, and what they count
//! ```
//!
//! Not here: what a column becomes in a store (`zvf._columns`), and answers on their way out
//! (`restored`).

use std::collections::HashMap;

use arrow_array::cast::AsArray as _;
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, TimeUnit};
use pyo3::prelude::*;
use pyo3::types::PyList;
use pyo3_arrow::input::{AnyArray, AnyRecordBatch};

use crate::buffer::Buffer;
use crate::error::value_error;

/// Name, values or codes, categories, which rows have a value where some have none, and what temporal
/// values count.
type ReadColumn = (String, Py<Buffer>, Option<Py<PyAny>>, Option<Py<Buffer>>, Option<String>);

/// Reads the columns of any table that speaks Arrow.
#[pyfunction]
pub(crate) fn read_arrow(py: Python<'_>, table: AnyRecordBatch) -> PyResult<Vec<ReadColumn>> {
    let (batches, schema) = table.into_table()?.into_inner();
    let fields = schema.fields().iter().enumerate();
    let column = |(at, field): (usize, &arrow_schema::FieldRef)| {
        let chunks: Vec<ArrayRef> = batches.iter().map(|batch| batch.column(at).clone()).collect();
        read_column(py, field.name(), field.data_type(), &chunks)
    };
    fields.map(column).collect()
}

/// Reads one column of anything that speaks Arrow: an array, or a stream of arrays.
#[pyfunction]
pub(crate) fn read_arrow_column(
    py: Python<'_>,
    name: &str,
    column: AnyArray,
) -> PyResult<ReadColumn> {
    let (chunks, field) = column.into_chunked_array()?.into_inner();
    read_column(py, name, field.data_type(), &chunks)
}

fn read_column(
    py: Python<'_>,
    name: &str,
    data_type: &DataType,
    chunks: &[ArrayRef],
) -> PyResult<ReadColumn> {
    let values_type =
        if let DataType::Dictionary(_, values) = data_type { values } else { data_type };
    if is_text(values_type) {
        let mut words = Words::default();
        for chunk in chunks {
            words.add(name, chunk)?;
        }
        if is_text(data_type) {
            words.sort()?;
        }
        let categories = PyList::new(py, words.list)?.into_any().unbind();
        let codes = code_buffer(&words.codes);
        return Ok((name.to_owned(), Py::new(py, codes)?, Some(categories), None, None));
    }
    let mut numbers = Numbers::new(name);
    let meaning = meaning(values_type);
    if values_type == data_type {
        for chunk in chunks {
            numbers.add(chunk)?;
        }
        let present = numbers.validity().map(|present| Py::new(py, present)).transpose()?;
        let values = Py::new(py, numbers.into_buffer())?;
        return Ok((name.to_owned(), values, None, present, meaning));
    }
    let mut codes = Vec::new();
    for chunk in chunks {
        let first = i32::try_from(numbers.rows).map_err(value_error)?;
        let dictionary = checked_dictionary(name, chunk)?;
        numbers.add(dictionary.values())?;
        for key in keys_of(dictionary) {
            codes.push(key?.map_or(-1, |key| key + first));
        }
    }
    if numbers.has_nulls {
        return Err(numbers.refuse("nulls among the values of a dictionary"));
    }
    let categories = Py::new(py, numbers.into_buffer())?.into_any();
    Ok((name.to_owned(), Py::new(py, code_buffer(&codes))?, Some(categories), None, meaning))
}

fn code_buffer(codes: &[i32]) -> Buffer {
    let bytes: Vec<u8> = codes.iter().flat_map(|code| code.to_le_bytes()).collect();
    Buffer::new(bytes.into(), "i4", vec![codes.len()])
}

fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// Returns the meaning of a temporal type: date, time or duration, the unit, and the zone.
#[expect(clippy::wildcard_enum_match_arm, reason = "other types are no times")]
fn meaning(data_type: &DataType) -> Option<String> {
    let word = |unit: &TimeUnit| match unit {
        TimeUnit::Second => "s",
        TimeUnit::Millisecond => "ms",
        TimeUnit::Microsecond => "us",
        TimeUnit::Nanosecond => "ns",
    };
    Some(match data_type {
        DataType::Date32 => "datetime D".to_owned(),
        DataType::Date64 => "datetime ms".to_owned(),
        DataType::Timestamp(unit, None) => format!("datetime {}", word(unit)),
        DataType::Timestamp(unit, Some(zone)) => format!("datetime {} {zone}", word(unit)),
        DataType::Time32(unit) | DataType::Time64(unit) => format!("time {}", word(unit)),
        DataType::Duration(unit) => format!("duration {}", word(unit)),
        _ => return None,
    })
}

/// Returns the dictionary of an array, whose keys are known to be inside of it: those of other
/// libraries may not be.
fn checked_dictionary<'a>(
    name: &str,
    array: &'a ArrayRef,
) -> PyResult<&'a dyn arrow_array::array::AnyDictionaryArray> {
    let refuse = |why: String| value_error(format!("column {name:?}: {why}"));
    let dictionary = array.as_any_dictionary_opt();
    let dictionary =
        dictionary.ok_or_else(|| refuse(format!("no dictionary but {}", array.data_type())))?;
    let checked = dictionary.to_data().validate_values();
    checked.map_err(|error| refuse(error.to_string()))?;
    Ok(dictionary)
}

/// Returns the key of each row.
fn keys_of(
    dictionary: &dyn arrow_array::array::AnyDictionaryArray,
) -> impl Iterator<Item = PyResult<Option<i32>>> {
    let keys = dictionary.keys();
    // Without values there are no keys but of nulls, and nothing to normalize them to.
    let found = match dictionary.values().is_empty() {
        true => vec![0; keys.len()],
        false => dictionary.normalized_keys(),
    };
    found.into_iter().enumerate().map(move |(row, key)| {
        let key = i32::try_from(key).map_err(value_error)?;
        Ok((!keys.is_null(row)).then_some(key))
    })
}

/// Text as codes of its different words.
#[derive(Default)]
struct Words {
    codes: Vec<i32>,
    known: HashMap<String, i32>,
    list: Vec<String>,
}

impl Words {
    fn add(&mut self, name: &str, array: &ArrayRef) -> PyResult<()> {
        if !matches!(array.data_type(), DataType::Dictionary(_, _)) {
            let codes = self.codes_of(array)?;
            self.codes.extend(codes);
            return Ok(());
        }
        let dictionary = checked_dictionary(name, array)?;
        let codes = self.codes_of(dictionary.values())?;
        for key in keys_of(dictionary) {
            let at = key?.map(usize::try_from).transpose().map_err(value_error)?;
            self.codes.push(at.map_or(-1, |at| codes[at]));
        }
        Ok(())
    }

    fn codes_of(&mut self, array: &ArrayRef) -> PyResult<Vec<i32>> {
        if let Some(text) = array.as_string_opt::<i32>() {
            return text.iter().map(|word| self.code(word)).collect();
        }
        if let Some(text) = array.as_string_opt::<i64>() {
            return text.iter().map(|word| self.code(word)).collect();
        }
        array.as_string_view().iter().map(|word| self.code(word)).collect()
    }

    fn code(&mut self, word: Option<&str>) -> PyResult<i32> {
        let Some(word) = word else { return Ok(-1) };
        if let Some(code) = self.known.get(word) {
            return Ok(*code);
        }
        let code = i32::try_from(self.list.len()).map_err(value_error)?;
        self.known.insert(word.to_owned(), code);
        self.list.push(word.to_owned());
        Ok(code)
    }

    /// Gives the words their order, so that the same words have the same codes wherever each came
    /// first.
    fn sort(&mut self) -> PyResult<()> {
        self.list.sort_unstable();
        let mut place = vec![0; self.list.len()];
        for (at, word) in self.list.iter().enumerate() {
            let before = usize::try_from(self.known[word]).map_err(value_error)?;
            place[before] = i32::try_from(at).map_err(value_error)?;
        }
        for code in self.codes.iter_mut().filter(|code| **code >= 0) {
            *code = place[usize::try_from(*code).map_err(value_error)?];
        }
        Ok(())
    }
}

/// The values of a column of numbers, batch after batch.
struct Numbers<'a> {
    name: &'a str,
    code: &'static str, // as NumPy calls the type
    width: usize,       // values of a row
    rows: usize,
    bytes: Vec<u8>,
    present: Vec<u8>, // 1 where a row has a value
    has_nulls: bool,
}

impl<'a> Numbers<'a> {
    fn new(name: &'a str) -> Self {
        let (bytes, present) = (Vec::new(), Vec::new());
        Self { name, code: "u1", width: 1, rows: 0, bytes, present, has_nulls: false }
    }

    fn add(&mut self, array: &ArrayRef) -> PyResult<()> {
        let (values, width) = self.flatten(array)?;
        if self.rows > 0 && !array.is_empty() && width != self.width {
            return Err(self.refuse(format!("rows of {} values and of {width}", self.width)));
        }
        let found = values.data_type();
        let (code, size) = numpy_type(found).ok_or_else(|| self.refuse(advice(found)))?;
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
        self.mark_nulls(&values, array.len(), (start, size))
    }

    /// Returns the values of all rows, and how many a row has.
    fn flatten(&self, array: &ArrayRef) -> PyResult<(ArrayRef, usize)> {
        let of_lists = array.as_fixed_size_list_opt().is_some()
            || array.as_list_opt::<i32>().is_some()
            || array.as_list_opt::<i64>().is_some();
        if of_lists && array.null_count() > 0 {
            return Err(self.refuse("nulls among lists"));
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

    /// Makes nulls of floats NaN, and notes the rows of other types that have none.
    fn mark_nulls(
        &mut self,
        values: &ArrayRef,
        rows: usize,
        (start, size): (usize, usize),
    ) -> PyResult<()> {
        let nan: Option<&[u8]> = match self.code {
            "f2" => Some(&[0, 0x7e]),
            "f4" => Some(&f32::NAN.to_le_bytes()),
            "f8" => Some(&f64::NAN.to_le_bytes()),
            _ => None,
        };
        let nulls = (0..values.len()).filter(|row| values.is_null(*row));
        if let Some(nan) = nan {
            nulls.for_each(|row| {
                self.bytes[start + row * size..][..size].copy_from_slice(nan);
            });
            return Ok(());
        }
        let first = self.present.len();
        self.present.resize(first + rows, 1);
        for row in nulls {
            if self.width > 1 {
                return Err(self.refuse("nulls inside of lists"));
            }
            self.has_nulls = true;
            self.present[first + row] = 0;
            self.bytes[start + row * size..][..size].fill(0);
        }
        Ok(())
    }

    fn refuse(&self, found: impl std::fmt::Display) -> PyErr {
        value_error(format!("column {:?}: expected numbers or text, found {found}", self.name))
    }

    /// Returns which rows have a value, where some have none.
    fn validity(&self) -> Option<Buffer> {
        let buffer = || Buffer::new(self.present.clone().into(), "b1", vec![self.rows]);
        self.has_nulls.then(buffer)
    }

    fn into_buffer(self) -> Buffer {
        let shape = if self.width == 1 { vec![self.rows] } else { vec![self.rows, self.width] };
        Buffer::new(self.bytes.into(), self.code, shape)
    }
}

/// Names a type that no column can have, and what to write instead.
#[expect(clippy::wildcard_enum_match_arm, reason = "other types have no substitute")]
fn advice(data_type: &DataType) -> String {
    let instead = match data_type {
        DataType::Decimal32(..)
        | DataType::Decimal64(..)
        | DataType::Decimal128(..)
        | DataType::Decimal256(..) => {
            ": cast it to float64 where rounding is no harm, or to int64 of its smallest unit"
        }
        DataType::Struct(_) => ": give each of its fields as a column",
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => {
            ": give text, or numbers of uint8"
        }
        _ => "",
    };
    format!("{data_type}{instead}")
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
        D::Int32 | D::Date32 | D::Time32(_) => ("i4", 4),
        D::Int64 | D::Date64 | D::Time64(_) | D::Timestamp(..) | D::Duration(_) => ("i8", 8),
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
