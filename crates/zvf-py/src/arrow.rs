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
use arrow_array::{Array, ArrayRef, new_empty_array};
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
    let DataType::Dictionary(_, values_type) = data_type else {
        let values = join(data_type, chunks)?;
        if is_text(data_type) {
            let (codes, words) = encode(&values, true);
            let words = PyList::new(py, words)?.into_any().unbind();
            return Ok((name.to_owned(), code_buffer(py, &codes)?, Some(words), None, None));
        }
        let (values, present) = read_numbers(name, &values)?;
        let present = present.map(|present| Py::new(py, present)).transpose()?;
        return Ok((name.to_owned(), Py::new(py, values)?, None, present, meaning(data_type)));
    };
    let (mut keys, mut parts, mut first) = (Vec::new(), Vec::new(), 0);
    for chunk in chunks {
        let dictionary = checked_dictionary(name, chunk)?;
        let (nulls, values) = (dictionary.keys().nulls(), dictionary.values());
        // Without values there are no keys but of nulls, and nothing to normalize them to.
        let found = match values.is_empty() {
            true => vec![0; dictionary.len()],
            false => dictionary.normalized_keys(),
        };
        let is_present = |row: usize| nulls.is_none_or(|nulls| nulls.is_valid(row));
        let found = found.into_iter().enumerate();
        keys.extend(found.map(|(row, key)| is_present(row).then_some(first + key)));
        first += values.len();
        parts.push(values.clone());
    }
    let values = join(values_type, &parts)?;
    if is_text(values_type) {
        let (codes, words) = encode(&values, false);
        let codes: Vec<_> = keys.into_iter().map(|key| key.and_then(|key| codes[key])).collect();
        let words = PyList::new(py, words)?.into_any().unbind();
        return Ok((name.to_owned(), code_buffer(py, &codes)?, Some(words), None, None));
    }
    let (values, present) = read_numbers(name, &values)?;
    if present.is_some() {
        return Err(refuse(name, "nulls among the values of a dictionary"));
    }
    let (codes, categories) = (code_buffer(py, &keys)?, Py::new(py, values)?.into_any());
    Ok((name.to_owned(), codes, Some(categories), None, meaning(values_type)))
}

/// Returns the chunks of a column as one array; text and lists have offsets of 64 bits.
#[expect(clippy::wildcard_enum_match_arm, reason = "other types have no offsets")]
fn join(data_type: &DataType, chunks: &[ArrayRef]) -> PyResult<ArrayRef> {
    let wide = match data_type {
        DataType::Utf8 | DataType::Utf8View => DataType::LargeUtf8,
        DataType::List(item) => DataType::LargeList(item.clone()),
        other => other.clone(),
    };
    if chunks.is_empty() {
        return Ok(new_empty_array(&wide));
    }
    let chunks = chunks.iter().map(|chunk| arrow_cast::cast(chunk, &wide));
    let chunks = chunks.collect::<Result<Vec<_>, _>>().map_err(value_error)?;
    let chunks: Vec<&dyn Array> = chunks.iter().map(|chunk| &**chunk).collect();
    arrow_select::concat::concat(&chunks).map_err(value_error)
}

/// Returns codes, -1 for none.
fn code_buffer(py: Python<'_>, codes: &[Option<usize>]) -> PyResult<Py<Buffer>> {
    let mut bytes = Vec::with_capacity(codes.len() * size_of::<i32>());
    for code in codes {
        let code = code.map_or(Ok(-1), i32::try_from).map_err(value_error)?;
        bytes.extend_from_slice(&code.to_le_bytes());
    }
    Py::new(py, Buffer::new(bytes.into(), "i4", vec![codes.len()]))
}

fn refuse(name: &str, found: impl std::fmt::Display) -> PyErr {
    value_error(format!("column {name:?}: expected numbers or text, found {found}"))
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

/// Returns the code of each text, none of a null, and the different words: in the order in which they come, or
/// `sorted`, so that the same words have the same codes wherever each came first.
fn encode(values: &ArrayRef, sorted: bool) -> (Vec<Option<usize>>, Vec<String>) {
    let (mut known, mut words) = (HashMap::new(), Vec::new());
    let mut code = |word| {
        *known.entry(word).or_insert_with(|| {
            words.push(word);
            words.len() - 1
        })
    };
    let texts = values.as_string::<i64>().iter();
    let mut codes: Vec<Option<usize>> = texts.map(|word| word.map(&mut code)).collect();
    if sorted {
        words.sort_unstable();
        let mut places = vec![0; words.len()];
        for (at, word) in words.iter().enumerate() {
            places[known[word]] = at;
        }
        codes.iter_mut().flatten().for_each(|code| *code = places[*code]);
    }
    (codes, words.into_iter().map(str::to_owned).collect())
}

/// Reads numbers or lists of equally many: their values, and which rows have one where some have none.
fn read_numbers(name: &str, array: &ArrayRef) -> PyResult<(Buffer, Option<Buffer>)> {
    let (values, width) = flatten(name, array)?;
    let found = values.data_type();
    let (code, size) = numpy_type(found).ok_or_else(|| refuse(name, advice(found)))?;
    let mut bytes = if code == "b1" {
        let values = values.as_boolean();
        (0..values.len()).map(|row| u8::from(values.value(row))).collect()
    } else {
        let data = values.to_data();
        let buffer = data.buffers().first().ok_or_else(|| refuse(name, "no values"))?;
        buffer[data.offset() * size..][..data.len() * size].to_vec()
    };
    // A null of a float is NaN; of other types 0, and the row is marked.
    let nan: Option<&[u8]> = match code {
        "f2" => Some(&[0, 0x7e]),
        "f4" => Some(&f32::NAN.to_le_bytes()),
        "f8" => Some(&f64::NAN.to_le_bytes()),
        _ => None,
    };
    let mut present = vec![1; array.len()];
    for row in (0..values.len()).filter(|row| values.is_null(*row)) {
        let value = &mut bytes[row * size..][..size];
        match nan {
            Some(nan) => value.copy_from_slice(nan),
            None if width > 1 => return Err(refuse(name, "nulls inside of lists")),
            None => {
                value.fill(0);
                present[row] = 0;
            }
        }
    }
    let shape = if width == 1 { vec![array.len()] } else { vec![array.len(), width] };
    let has_nulls = present.contains(&0);
    let present = has_nulls.then(|| Buffer::new(present.into(), "b1", vec![array.len()]));
    Ok((Buffer::new(bytes.into(), code, shape), present))
}

/// Returns the values of all rows, and how many a row has.
#[expect(clippy::wildcard_enum_match_arm, reason = "other types are no lists")]
fn flatten(name: &str, array: &ArrayRef) -> PyResult<(ArrayRef, usize)> {
    let (values, from, width) = match array.data_type() {
        DataType::FixedSizeList(..) => {
            let list = array.as_fixed_size_list();
            let (from, width) = (list.value_offset(0).into(), list.value_length().into());
            (list.values().clone(), from, width)
        }
        DataType::LargeList(_) => {
            let list = array.as_list::<i64>();
            let offsets = list.value_offsets();
            let mut widths = offsets.array_windows().map(|[from, to]| to - from);
            let width = widths.next().unwrap_or(1);
            if let Some(other) = widths.find(|other| *other != width) {
                return Err(refuse(name, format!("rows of {width} values and of {other}")));
            }
            (list.values().clone(), offsets.first().copied().unwrap_or(0), width)
        }
        _ => return Ok((array.clone(), 1)),
    };
    if array.null_count() > 0 {
        return Err(refuse(name, "nulls among lists"));
    }
    let number = |n: i64| usize::try_from(n).map_err(value_error);
    let (from, width) = (number(from)?, number(width)?);
    Ok((values.slice(from, array.len() * width), width))
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
