//! A batch as an Arrow record batch, one row a vertex.
//!
//! ```text
//! position          list of D numbers       as stored
//! each attribute    a number, or a list     as stored; text where codes stand for text
//! part, object      int64                   where there are parts or owners; null for none
//! ```
//!
//! The columns of numbers are shared with the batch, not copied, unless their bytes lie where the
//! processor could not read them as numbers. Booleans (a bit each in Arrow), text and categories are
//! copied.
//!
//! Not here: files (see [`ArrowWriter`] and [`ParquetWriter`]).

mod files;

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Int64Array, RecordBatch, StringArray, make_array};
use arrow_buffer::Buffer;
use arrow_data::ArrayData;
use arrow_schema::{ArrowError, DataType, Field as Named, Schema};
use zvf_format::metadata::{Dtype, DtypeKind};
use zvf_model::{Batch, Categories, Column, Field, Value};

pub use files::{ArrowWriter, ParquetWriter};

use crate::ConvertError;
use crate::table::Table;

/// The vertices of `batch` with their attributes.
///
/// ```
/// use zvf_convert::record_batch;
/// use zvf_format::metadata::Dtype;
/// use zvf_model::{Batch, Column, Kind};
///
/// let points = [1.5_f32, 2.0, 3.0, 4.0].map(f32::to_le_bytes).concat();
/// let batch = Batch::new(Kind::PointCloud, Column::new(Dtype::FLOAT32, 2, points.into())?);
/// let rows = record_batch(&batch)?;
/// assert_eq!((rows.num_rows(), rows.schema().field(0).name().as_str()), (2, "position"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// When a code stands for nothing, or a column has a type that Arrow lacks.
pub fn record_batch(batch: &Batch) -> Result<RecordBatch, ConvertError> {
    named_record_batch(batch, "position")
}

/// The same with another name for the positions, where they are something else.
pub(crate) fn named_record_batch(batch: &Batch, first: &str) -> Result<RecordBatch, ConvertError> {
    let mut columns = vec![column(first, batch.positions(), true)?];
    for field in batch.fields() {
        columns.push(attribute(field)?);
    }
    let table = Table::new(batch, &[]);
    let rows = 0..batch.len();
    if !batch.parts().offsets().is_empty() {
        let parts =
            rows.clone().map(|row| table.part(row).and_then(|part| i64::try_from(part).ok()));
        columns.push(whole("part", parts.collect()));
    }
    if !batch.parts().offsets().is_empty() || batch.vertex_objects().is_some() {
        let objects = rows.map(|row| table.object(row).map(|object| object.0));
        columns.push(whole("object", objects.collect()));
    }
    let (fields, arrays): (Vec<Named>, Vec<ArrayRef>) = columns.into_iter().unzip();
    let schema = Schema::new(fields);
    RecordBatch::try_new(Arc::new(schema), arrays).map_err(refused)
}

fn whole(name: &str, values: Int64Array) -> (Named, ArrayRef) {
    (Named::new(name, DataType::Int64, true), Arc::new(values))
}

fn attribute(field: &Field) -> Result<(Named, ArrayRef), ConvertError> {
    let all_text = |categories: &Categories| {
        categories.values().iter().all(|value| matches!(value, Value::Text(_)))
    };
    if field.column.width() == 1 && field.categories.as_ref().is_some_and(all_text) {
        return labels(field);
    }
    let (named, array) = column(&field.name, &field.column, field.column.width() > 1)?;
    let said = [("unit", &field.unit), ("description", &field.description)];
    let metadata = said
        .into_iter()
        .filter_map(|(key, text)| Some((key.to_owned(), text.as_deref()?.to_owned())));
    Ok((named.with_metadata(metadata.collect()), array))
}

/// What the codes of an attribute stand for.
fn labels(field: &Field) -> Result<(Named, ArrayRef), ConvertError> {
    let mut labels = Vec::with_capacity(field.column.len());
    for row in 0..field.column.len() {
        let value = field
            .value(row, 0)
            .map_err(|source| ConvertError::Category { column: field.name.to_string(), source })?;
        labels.push(if let Value::Text(text) = value { Some(text) } else { None });
    }
    let array: StringArray = labels.into_iter().collect();
    Ok((Named::new(&*field.name, DataType::Utf8, true), Arc::new(array)))
}

/// A column, as a list of its values where `list`.
fn column(name: &str, column: &Column, list: bool) -> Result<(Named, ArrayRef), ConvertError> {
    let values = values(name, column)?;
    if !list {
        return Ok((Named::new(name, values.data_type().clone(), false), values));
    }
    let item = Arc::new(Named::new_list_field(values.data_type().clone(), false));
    let width = i32::try_from(column.width()).map_err(|_too_wide| no_type(name))?;
    let list = DataType::FixedSizeList(item, width);
    let data = ArrayData::builder(list.clone())
        .len(column.len())
        .add_child_data(values.to_data())
        .build()
        .map_err(refused)?;
    Ok((Named::new(name, list, false), make_array(data)))
}

/// All values of a column, back to back.
fn values(name: &str, column: &Column) -> Result<ArrayRef, ConvertError> {
    let width = usize::try_from(column.width()).unwrap_or(0);
    let len = column.len().saturating_mul(width);
    let each = || (0..column.len()).flat_map(|row| (0..width).map(move |at| column.value(row, at)));
    let dtype = column.dtype();
    if dtype.kind == DtypeKind::Bool {
        let flags = each().map(|value| matches!(value, Value::Bool(true)));
        return Ok(Arc::new(BooleanArray::from(flags.collect::<Vec<bool>>())));
    }
    if dtype.kind == DtypeKind::Text {
        let texts =
            each().map(|value| if let Value::Text(text) = value { Some(text) } else { None });
        return Ok(Arc::new(texts.collect::<StringArray>()));
    }
    let data = ArrayData::builder(number_type(dtype).ok_or_else(|| no_type(name))?)
        .len(len)
        .add_buffer(Buffer::from(column.bytes().clone()))
        .align_buffers(true)
        .build()
        .map_err(refused)?;
    Ok(make_array(data))
}

fn number_type(dtype: Dtype) -> Option<DataType> {
    Some(match (dtype.kind, dtype.size) {
        (DtypeKind::Int, 1) => DataType::Int8,
        (DtypeKind::Int, 2) => DataType::Int16,
        (DtypeKind::Int, 4) => DataType::Int32,
        (DtypeKind::Int, 8) => DataType::Int64,
        (DtypeKind::UInt, 1) => DataType::UInt8,
        (DtypeKind::UInt, 2) => DataType::UInt16,
        (DtypeKind::UInt, 4) => DataType::UInt32,
        (DtypeKind::UInt, 8) => DataType::UInt64,
        (DtypeKind::Float, 2) => DataType::Float16,
        (DtypeKind::Float, 4) => DataType::Float32,
        (DtypeKind::Float, 8) => DataType::Float64,
        _ => return None,
    })
}

fn no_type(name: &str) -> ConvertError {
    let advice = "leave the column out, or write CSV or JSON lines";
    ConvertError::NoType { format: "Arrow", what: format!("the values of {name:?}"), advice }
}

pub(super) fn refused(error: ArrowError) -> ConvertError {
    if let ArrowError::IoError(_, error) = error {
        return ConvertError::Io(error);
    }
    let advice = "write another format";
    ConvertError::NoType { format: "Arrow", what: error.to_string(), advice }
}

#[cfg(test)]
mod tests {
    use arrow_array::Array as _;
    use arrow_array::cast::AsArray as _;
    use arrow_array::types::{Float32Type, Int64Type, UInt16Type};
    use zvf_model::{Kind, ObjectId, Parts};

    use super::*;

    fn floats(values: &[f32], width: u32) -> Column {
        let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        Column::new(Dtype::FLOAT32, width, bytes.into()).unwrap()
    }

    fn small(dtype: &str, width: u32, bytes: &[u8]) -> Column {
        Column::new(Dtype::parse(dtype).unwrap(), width, bytes.to_vec().into()).unwrap()
    }

    #[test]
    fn every_kind_of_column() {
        let labels = Categories::new(vec![Value::from("a"), Value::from("b")], Some(9));
        let batch = Batch::new(Kind::Polyline, floats(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 2))
            .with_field(Field::new("n", small("uint16", 1, &[1, 0, 2, 0, 3, 0])))
            .unwrap()
            .with_field(Field::new("v", small("int8", 2, &[1, 2, 3, 4, 5, 255])))
            .unwrap()
            .with_field(Field::new("flag", small("bool", 1, &[1, 0, 1])))
            .unwrap()
            .with_field(Field::new("label", small("uint8", 1, &[1, 9, 0])).with_categories(labels))
            .unwrap()
            .with_parts(Parts::new(vec![0, 1, 3], vec![ObjectId(7), ObjectId(-1)]).unwrap())
            .unwrap();
        let rows = record_batch(&batch).unwrap();
        let schema = rows.schema();
        let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        assert_eq!(names, ["position", "n", "v", "flag", "label", "part", "object"]);
        let position = rows.column(0).as_fixed_size_list();
        assert_eq!(position.value(1).as_primitive::<Float32Type>().values(), &[3.0, 4.0]);
        assert_eq!(rows.column(1).as_primitive::<UInt16Type>().values(), &[1, 2, 3]);
        assert_eq!(rows.column(2).as_fixed_size_list().value_length(), 2);
        let flags: Vec<Option<bool>> = rows.column(3).as_boolean().iter().collect();
        assert_eq!(flags, [Some(true), Some(false), Some(true)]);
        let labels: Vec<Option<&str>> = rows.column(4).as_string::<i32>().iter().collect();
        assert_eq!(labels, [Some("b"), None, Some("a")]);
        assert_eq!(rows.column(5).as_primitive::<Int64Type>().values(), &[0, 1, 1]);
        assert_eq!(rows.column(6).as_primitive::<Int64Type>().values(), &[7, -1, -1]);
    }

    #[test]
    fn columns_are_shared_where_they_can_be() {
        let column = floats(&[1.0, 2.0, 3.0], 1);
        let place = column.bytes().as_ptr();
        let aligned = place.align_offset(4) == 0;
        let rows = record_batch(&Batch::new(Kind::PointCloud, column)).unwrap();
        let list = rows.column(0).as_fixed_size_list();
        let values = list.values().as_primitive::<Float32Type>().values().inner().as_ptr();
        assert_eq!(values == place, aligned);

        let odd = bytes::Bytes::from(vec![0_u8; 13]).slice(1..);
        let column = Column::new(Dtype::FLOAT32, 1, odd).unwrap();
        let rows = record_batch(&Batch::new(Kind::PointCloud, column)).unwrap();
        assert_eq!((rows.num_rows(), rows.column(0).null_count()), (3, 0), "copied, and no panic");
    }

    #[test]
    fn empty_batches_have_their_columns() {
        let rows = record_batch(&Batch::new(Kind::PointCloud, floats(&[], 3))).unwrap();
        assert_eq!((rows.num_rows(), rows.num_columns()), (0, 1));
    }
}
