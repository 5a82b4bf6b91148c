//! Conversion of a column to an Arrow array, which shares the bytes where the layouts agree.
//!
//! ```text
//! numbers       shared                       f16 too
//! categories    a dictionary                 codes shared as its keys, categories as its values
//! booleans      copied                       a bit each in Arrow, a byte each here
//! text          copied                       UTF-8 with offsets in Arrow, UTF-32 of fixed length here
//! ```

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array, StringArray, make_array};
use arrow_buffer::{Buffer, NullBuffer};
use arrow_data::ArrayData;
use arrow_schema::{DataType, Field as ArrowField};
use zvf_error::{Error, Result};
use zvf_format::num::usize_from_u32;
use zvf_formats::{
    FLOAT64, INT8, INT16, INT32, UINT8, UINT16, UINT32, UINT64, bad_code, cannot_hold, dtype,
};
use zvf_metadata::{Dtype, DtypeKind};
use zvf_model::{Categories, Column, Field, Value};

use crate::from_arrow_error;

/// Converts an attribute with its metadata; a row of several values becomes a list.
///
/// ```
/// use zvf_formats_arrow::attribute_array;
/// use zvf_metadata::Dtype;
/// use zvf_model::{Column, Field};
///
/// let mass = Column::new(Dtype::FLOAT32, 1, 1.5_f32.to_le_bytes().to_vec().into())?;
/// let (field, values) = attribute_array(&Field::new("mass", mass))?;
/// assert_eq!((field.name().as_str(), values.len()), ("mass", 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// When a code has no category, or the column has a type that Arrow lacks.
pub fn attribute_array(field: &Field) -> Result<(ArrowField, ArrayRef)> {
    let nullable = field.categories.as_ref().is_some_and(may_be_null);
    let values = match &field.categories {
        Some(categories) => dictionary_array(&field.name, &field.column, categories)?,
        None => plain_array(&field.name, &field.column)?,
    };
    let list = field.column.width() > 1;
    let (arrow_field, array) = named_array(&field.name, &field.column, values, nullable, list)?;
    let texts = [("unit", &field.unit), ("description", &field.description)];
    let metadata = texts
        .into_iter()
        .filter_map(|(key, text)| Some((key.to_owned(), text.as_deref()?.to_owned())));
    Ok((arrow_field.with_metadata(metadata.collect()), array))
}

/// Converts positions, or the vertices of elements: always a list.
pub(crate) fn position_array(name: &str, column: &Column) -> Result<(ArrowField, ArrayRef)> {
    named_array(name, column, plain_array(name, column)?, false, true)
}

/// Names an array of `values`, and divides it into lists of the width of `column` where `list` is set.
fn named_array(
    name: &str,
    column: &Column,
    values: ArrayRef,
    nullable: bool,
    list: bool,
) -> Result<(ArrowField, ArrayRef)> {
    if !list {
        return Ok((ArrowField::new(name, values.data_type().clone(), nullable), values));
    }
    let item = Arc::new(ArrowField::new_list_field(values.data_type().clone(), nullable));
    let width = i32::try_from(column.width()).map_err(|_too_wide| unsupported_type(name))?;
    let list = DataType::FixedSizeList(item, width);
    let rows = ArrayData::builder(list.clone()).len(column.len());
    let rows = rows.add_child_data(values.to_data()).build().map_err(from_arrow_error)?;
    Ok((ArrowField::new(name, list, false), make_array(rows)))
}

/// Converts all values of a column to one flat array.
fn plain_array(name: &str, column: &Column) -> Result<ArrayRef> {
    if column.dtype().kind == DtypeKind::Bool {
        let flags = column.bytes().iter().map(|byte| *byte != 0);
        return Ok(Arc::new(BooleanArray::from(flags.collect::<Vec<bool>>())));
    }
    if column.dtype().kind == DtypeKind::Text {
        // UTF-8 is never longer than UTF-32, so the offsets of the array are enough.
        if i32::try_from(column.bytes().len()).is_err() {
            let what = format!("2 GiB or more of the text {name:?} at once");
            return Err(cannot_hold("Arrow", what, "write it batch by batch"));
        }
        let size = column.stride() / usize_from_u32(column.width());
        let values = column.bytes().chunks_exact(size);
        let texts = values.map(|bytes| match Value::decode(column.dtype(), bytes) {
            Value::Text(text) => Some(text),
            Value::Null | Value::Bool(_) | Value::Int(_) | Value::UInt(_) | Value::Float(_) => None,
        });
        return Ok(Arc::new(texts.collect::<StringArray>()));
    }
    let data =
        ArrayData::builder(number_type(column.dtype()).ok_or_else(|| unsupported_type(name))?)
            .len(count_values(column))
            .add_buffer(Buffer::from(column.bytes().clone()))
            .align_buffers(true)
            .build()
            .map_err(from_arrow_error)?;
    Ok(make_array(data))
}

/// Converts codes to the keys of a dictionary; the code of missing values is null.
fn dictionary_array(name: &str, column: &Column, categories: &Categories) -> Result<ArrayRef> {
    let bad_code = |code| bad_code(name, code);
    let present = categories.present(column).map_err(bad_code)?;
    let is_integer = matches!(column.dtype().kind, DtypeKind::Int | DtypeKind::UInt);
    let key =
        number_type(column.dtype()).filter(|_| is_integer).ok_or_else(|| unsupported_type(name))?;
    let labels = dictionary_values(categories);
    let dictionary = DataType::Dictionary(key.into(), labels.data_type().clone().into());
    let nulls = categories.missing_code().map(|_| NullBuffer::from(present));
    let data = ArrayData::builder(dictionary)
        .len(count_values(column))
        .add_buffer(Buffer::from(column.bytes().clone()))
        .align_buffers(true)
        .nulls(nulls)
        .add_child_data(labels.to_data())
        .build()
        .map_err(from_arrow_error)?;
    Ok(make_array(data))
}

/// Converts categories to integers, floats, or else text.
fn dictionary_values(categories: &Categories) -> ArrayRef {
    let values = categories.values();
    let integers = values.iter().map(|value| match value {
        Value::Null => Some(None),
        Value::Int(n) => Some(Some(*n)),
        Value::UInt(n) => i64::try_from(*n).ok().map(Some),
        Value::Bool(_) | Value::Float(_) | Value::Text(_) => None,
    });
    if let Some(integers) = integers.collect::<Option<Vec<Option<i64>>>>() {
        return Arc::new(Int64Array::from(integers));
    }
    let floats = values.iter().map(|value| match value {
        Value::Null => Some(None),
        Value::Float(x) => Some(Some(*x)),
        Value::Bool(_) | Value::Int(_) | Value::UInt(_) | Value::Text(_) => None,
    });
    if let Some(floats) = floats.collect::<Option<Vec<Option<f64>>>>() {
        return Arc::new(Float64Array::from(floats));
    }
    let text = values.iter().map(|value| (*value != Value::Null).then(|| value.to_string()));
    Arc::new(text.collect::<StringArray>())
}

/// Returns whether the categories declare a missing value, whether or not a row has it.
fn may_be_null(categories: &Categories) -> bool {
    categories.missing_code().is_some() || categories.values().contains(&Value::Null)
}

/// Returns the number of values of a column.
fn count_values(column: &Column) -> usize {
    column.len() * usize_from_u32(column.width())
}

/// The types of numbers.
pub(crate) const NUMBERS: [(DataType, Dtype); 11] = [
    (DataType::Int8, INT8),
    (DataType::Int16, INT16),
    (DataType::Int32, INT32),
    (DataType::Int64, Dtype::INT64),
    (DataType::UInt8, UINT8),
    (DataType::UInt16, UINT16),
    (DataType::UInt32, UINT32),
    (DataType::UInt64, UINT64),
    (DataType::Float16, dtype(DtypeKind::Float, 2)),
    (DataType::Float32, Dtype::FLOAT32),
    (DataType::Float64, FLOAT64),
];

fn number_type(dtype: Dtype) -> Option<DataType> {
    NUMBERS.into_iter().find(|(_, number)| *number == dtype).map(|(kind, _)| kind)
}

fn unsupported_type(name: &str) -> Error {
    let advice = "leave the column out, or write CSV or JSON lines";
    cannot_hold("Arrow", format!("the values of {name:?}"), advice)
}
