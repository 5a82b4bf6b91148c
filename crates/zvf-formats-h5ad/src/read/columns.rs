//! Columns of an `AnnData` data frame.
//!
//! ```text
//! array                   numbers, booleans
//! string-array            text: codes of the texts in order of appearance
//! categorical             codes, -1 for missing, and their categories
//! nullable-integer        values and a mask: float64, NaN for missing, if a value is missing
//! nullable-boolean        values and a mask: codes of false and true, -1 for missing
//! ```

use hdf5_pure::DType;
use zvf_error::Result;
use zvf_format::Class;
use zvf_formats::{BOOL, FeatureCell, FeatureColumns, new_column};
use zvf_metadata::{Dtype, DtypeKind};
use zvf_model::{Categories, Field, Value};

use crate::read::file::{H5, Node, spot};

/// A field, and a note about it.
type NotedField = (Field, Option<String>);

/// Reads the column under `path`, and returns it with a note. Returns `None` if its encoding is unknown.
pub(crate) fn read_column(
    file: &H5,
    path: &str,
    name: &str,
    rows: usize,
) -> Result<Option<NotedField>> {
    match file.find_node(path)? {
        Node::Missing => {
            spot(path).refuse(Class::NotFound, "the column that column-order names", "none")
        }
        Node::Dataset => read_array(file, path, name, rows),
        Node::Group => {
            let encoding = file.text_attribute(path, "encoding-type")?.unwrap_or_default();
            match encoding.as_str() {
                "categorical" => {
                    read_categories(file, path, name, rows).map(|field| Some((field, None)))
                }
                "nullable-integer" | "nullable-boolean" => {
                    read_nullable(file, path, name, rows).map(Some)
                }
                _ => Ok(None),
            }
        }
    }
}

fn check_rows(file: &H5, path: &str, rows: usize) -> Result<()> {
    let shape = file.shape(path)?;
    if let [row_count] = shape.as_slice()
        && usize::try_from(*row_count) == Ok(rows)
    {
        return Ok(());
    }
    let expected = format!("{rows} rows, as obs has");
    spot(path).refuse(Class::CountMismatch, &expected, format!("{shape:?}"))
}

fn read_array(file: &H5, path: &str, name: &str, rows: usize) -> Result<Option<NotedField>> {
    check_rows(file, path, rows)?;
    if let Some(dtype) = file.number_type(path)? {
        let field = Field::new(name, new_column(dtype, 1, file.read_bytes(path, dtype)?)?);
        return Ok(Some((field, None)));
    }
    if !matches!(file.dtype(path)?, DType::String | DType::VariableLengthString) {
        return Ok(None);
    }
    let texts = file.read_texts(path)?;
    let cells = texts.iter().map(|text| FeatureCell::Text(text.as_str().into()));
    build_field(file, name, cells, None).map(Some)
}

/// Builds a field of these cells. Infers its type in a first pass, and returns a note if integers become
/// `float64`.
fn build_field<'a>(
    file: &H5,
    name: &str,
    cells: impl Iterator<Item = FeatureCell<'a>> + Clone,
    dtype: Option<Dtype>,
) -> Result<NotedField> {
    let mut columns = FeatureColumns::new(file.memory(), crate::read::NAME);
    let at = columns.declare(name, dtype)?;
    let mut rows = 0;
    for cell in cells.clone() {
        columns.record_form(at, &cell)?;
        rows += 1;
    }
    columns.end_rows(rows);
    let note = columns.choose_types().pop();
    for (row, cell) in cells.enumerate() {
        columns.push(at, row, &cell);
    }
    Ok((columns.take(rows)?.swap_remove(0), note)) // the only column
}

fn read_categories(file: &H5, path: &str, name: &str, rows: usize) -> Result<Field> {
    let (codes, categories) = (format!("{path}/codes"), format!("{path}/categories"));
    check_rows(file, &codes, rows)?;
    let is_integer = |dtype: &Dtype| matches!(dtype.kind, DtypeKind::Int | DtypeKind::UInt);
    let Some(dtype) = file.number_type(&codes)?.filter(is_integer) else {
        return spot(&codes).refuse(Class::Unsupported, "whole numbers", "another type");
    };
    let values = new_column(dtype, 1, file.read_bytes(&codes, dtype)?)?;
    let labels: Vec<Value> = match file.number_type(&categories)? {
        Some(dtype) => {
            let labels = new_column(dtype, 1, file.read_bytes(&categories, dtype)?)?;
            (0..labels.len()).map(|row| labels.value(row, 0)).collect()
        }
        None => {
            let texts = file.read_texts(&categories)?;
            texts.iter().map(|text| Value::from(text.as_str())).collect()
        }
    };
    let categories = Categories::new(labels, Some(-1));
    if let Err(stray) = categories.present(&values) {
        return spot(&codes).refuse(Class::OutOfBounds, "codes of categories, or -1", stray);
    }
    Ok(Field::new(name, values).with_categories(categories))
}

fn read_nullable(file: &H5, path: &str, name: &str, rows: usize) -> Result<NotedField> {
    let (values, mask) = (format!("{path}/values"), format!("{path}/mask"));
    check_rows(file, &values, rows)?;
    check_rows(file, &mask, rows)?;
    let Some(dtype) = file.number_type(&values)? else {
        return spot(&values).refuse(Class::Unsupported, "numbers", "another type");
    };
    let is_missing = file.read_bytes(&mask, BOOL)?;
    let numbers = new_column(dtype, 1, file.read_bytes(&values, dtype)?)?;
    let cells = is_missing.iter().enumerate().map(|(row, flag)| match numbers.value(row, 0) {
        _ if *flag != 0 => FeatureCell::Missing,
        Value::Bool(value) => FeatureCell::Bool(value),
        Value::Int(n) => FeatureCell::Int(n),
        Value::UInt(n) => FeatureCell::UInt(n),
        Value::Float(x) => FeatureCell::Float(x),
        Value::Null | Value::Text(_) => FeatureCell::Missing,
    });
    build_field(file, name, cells, Some(dtype))
}
