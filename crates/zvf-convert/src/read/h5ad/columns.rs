//! Columns of a data frame of `AnnData`.
//!
//! ```text
//! array                   numbers, truths
//! string-array            text: codes of the texts in the order in which they come
//! categorical             codes, -1 where missing, and what they stand for
//! nullable-integer        values and a mask: float64 with NaN where something is missing
//! nullable-boolean        values and a mask: codes of false and true, -1 where missing
//! ```

use hdf5_pure::DType;
use zvf_format::Class;
use zvf_metadata::{Dtype, DtypeKind};
use zvf_model::{Categories, Field, Value};

use super::file::{H5, Node};
use crate::ConvertError;
use crate::read::features::{Cell, Columns};
use crate::read::values::column;

/// The column under `path`, and what is to be said of it; none where it is of no known form.
pub(super) fn read_column(
    file: &H5,
    path: &str,
    name: &str,
    rows: usize,
    room: &mut u64,
) -> Result<Option<(Field, Option<String>)>, ConvertError> {
    match file.node(path)? {
        Node::Missing => Err(file.bad(
            Class::NotFound,
            path,
            "the column that column-order names",
            "none".to_owned(),
        )),
        Node::Dataset => read_array(file, path, name, rows, room),
        Node::Group => {
            let form = file.text_attribute(path, "encoding-type")?.unwrap_or_default();
            match form.as_str() {
                "categorical" => {
                    read_categories(file, path, name, rows, room).map(|field| Some((field, None)))
                }
                "nullable-integer" | "nullable-boolean" => {
                    read_nullable(file, path, name, rows, room).map(Some)
                }
                _ => Ok(None),
            }
        }
    }
}

fn check_rows(file: &H5, path: &str, rows: usize) -> Result<(), ConvertError> {
    let shape = file.shape(path)?;
    if let [found] = shape.as_slice()
        && usize::try_from(*found) == Ok(rows)
    {
        return Ok(());
    }
    let expected = format!("{rows} rows, as obs has");
    Err(file.bad(Class::CountMismatch, path, &expected, format!("{shape:?}")))
}

fn read_array(
    file: &H5,
    path: &str,
    name: &str,
    rows: usize,
    room: &mut u64,
) -> Result<Option<(Field, Option<String>)>, ConvertError> {
    check_rows(file, path, rows)?;
    if let Some(dtype) = file.number(path)? {
        let field = Field::new(name, column(dtype, 1, file.raw(path, dtype, room)?)?);
        return Ok(Some((field, None)));
    }
    if !matches!(file.dtype(path)?, DType::String | DType::VariableLengthString) {
        return Ok(None);
    }
    let texts = file.texts(path, room)?;
    let cells = texts.iter().map(|text| Cell::Text(text.as_str().into()));
    settle(name, cells, None, room).map(Some)
}

/// A column of these values.
fn settle<'a>(
    name: &str,
    cells: impl Iterator<Item = Cell<'a>> + Clone,
    dtype: Option<Dtype>,
    room: &mut u64,
) -> Result<(Field, Option<String>), ConvertError> {
    let mut columns = Columns::new(*room, super::NAME);
    let at = columns.declare(name, dtype)?;
    let mut rows = 0;
    for cell in cells.clone() {
        columns.note(at, &cell)?;
        rows += 1;
    }
    columns.end_rows(rows);
    let note = columns.settle().pop();
    for (row, cell) in cells.enumerate() {
        columns.push(at, row, &cell);
    }
    let field = columns.take(rows)?.pop();
    Ok((field.unwrap_or_else(|| unreachable_field(name)), note))
}

/// A field without rows; a table of one column has one.
fn unreachable_field(name: &str) -> Field {
    let empty = zvf_model::Column::empty(Dtype::INT64, 1);
    Field::new(name, empty.unwrap_or_else(|_| unreachable!("int64 is a type")))
}

fn read_categories(
    file: &H5,
    path: &str,
    name: &str,
    rows: usize,
    room: &mut u64,
) -> Result<Field, ConvertError> {
    let (codes, meanings) = (format!("{path}/codes"), format!("{path}/categories"));
    check_rows(file, &codes, rows)?;
    let whole = |dtype: &Dtype| matches!(dtype.kind, DtypeKind::Int | DtypeKind::UInt);
    let Some(dtype) = file.number(&codes)?.filter(whole) else {
        return Err(file.bad(
            Class::Unsupported,
            &codes,
            "whole numbers",
            "another type".to_owned(),
        ));
    };
    let values = column(dtype, 1, file.raw(&codes, dtype, room)?)?;
    let labels: Vec<Value> = match file.number(&meanings)? {
        Some(dtype) => {
            let labels = column(dtype, 1, file.raw(&meanings, dtype, room)?)?;
            (0..labels.len()).map(|row| labels.value(row, 0)).collect()
        }
        None => {
            file.texts(&meanings, room)?.iter().map(|text| Value::from(text.as_str())).collect()
        }
    };
    let categories = Categories::new(labels, Some(-1));
    if let Err(stray) = categories.check(&values) {
        return Err(file.bad(
            Class::OutOfBounds,
            &codes,
            "codes of categories, or -1",
            stray.to_string(),
        ));
    }
    Ok(Field::new(name, values).with_categories(categories))
}

fn read_nullable(
    file: &H5,
    path: &str,
    name: &str,
    rows: usize,
    room: &mut u64,
) -> Result<(Field, Option<String>), ConvertError> {
    let (values, mask) = (format!("{path}/values"), format!("{path}/mask"));
    check_rows(file, &values, rows)?;
    check_rows(file, &mask, rows)?;
    let truth = Dtype { kind: DtypeKind::Bool, size: 1, big_endian: false };
    let Some(dtype) = file.number(&values)? else {
        return Err(file.bad(Class::Unsupported, &values, "numbers", "another type".to_owned()));
    };
    let missing = file.raw(&mask, truth, room)?;
    let numbers = column(dtype, 1, file.raw(&values, dtype, room)?)?;
    let cells = missing.iter().enumerate().map(|(row, missing)| match numbers.value(row, 0) {
        _ if *missing != 0 => Cell::Missing,
        Value::Bool(flag) => Cell::Bool(flag),
        Value::Int(n) => Cell::Int(n),
        Value::UInt(n) => Cell::UInt(n),
        Value::Float(x) => Cell::Float(x),
        Value::Null | Value::Text(_) => Cell::Missing,
    });
    settle(name, cells, Some(dtype), room)
}
