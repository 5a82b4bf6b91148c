//! Tests of the conversion of columns to arrays.

use arrow_array::Array as _;
use arrow_array::cast::AsArray as _;
use arrow_array::types::{
    Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int64Type, UInt8Type, UInt16Type,
};
use arrow_schema::DataType;
use zvf_formats::elements_as_rows;
use zvf_metadata::Dtype;
use zvf_model::{Batch, Categories, Column, Elements, Field, Kind, ObjectId, Parts, Value};

use crate::batch::*;
use crate::shared::column as small_column;

fn floats(values: &[f32], width: u32) -> Column {
    let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
    Column::new(Dtype::FLOAT32, width, bytes.into()).unwrap()
}

#[test]
fn converts_every_kind_of_column() {
    let labels = Categories::new(vec![Value::from("a"), Value::from("b")], Some(9));
    let batch = Batch::new(Kind::Polyline, floats(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 2))
        .with_field(Field::new("n", small_column("uint16", 1, &[1, 0, 2, 0, 3, 0])))
        .unwrap()
        .with_field(Field::new("v", small_column("int8", 2, &[1, 2, 3, 4, 5, 255])))
        .unwrap()
        .with_field(Field::new("flag", small_column("bool", 1, &[1, 0, 1])))
        .unwrap()
        .with_field(
            Field::new("label", small_column("uint8", 1, &[1, 9, 0])).with_categories(labels),
        )
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
    let labels = rows.column(4).as_dictionary::<UInt8Type>();
    let labels: Vec<Option<&str>> =
        labels.downcast_dict::<arrow_array::StringArray>().unwrap().into_iter().collect();
    assert_eq!(labels, [Some("b"), None, Some("a")]);
    assert_eq!(rows.column(5).as_primitive::<Int64Type>().values(), &[0, 1, 1]);
    assert_eq!(rows.column(6).as_primitive::<Int64Type>().values(), &[7, -1, -1]);
}

#[test]
fn shares_aligned_columns() {
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

#[test]
fn every_number_keeps_its_type() {
    for (dtype, expected) in [
        ("int8", DataType::Int8),
        ("int16", DataType::Int16),
        ("int32", DataType::Int32),
        ("int64", DataType::Int64),
        ("uint8", DataType::UInt8),
        ("uint16", DataType::UInt16),
        ("uint32", DataType::UInt32),
        ("uint64", DataType::UInt64),
        ("float16", DataType::Float16),
        ("float32", DataType::Float32),
        ("float64", DataType::Float64),
        ("bool", DataType::Boolean),
        ("<U2", DataType::Utf8),
    ] {
        let size = usize::try_from(dtype.parse::<Dtype>().unwrap().size).unwrap();
        let batch = Batch::new(Kind::PointCloud, floats(&[1.0], 1))
            .with_field(Field::new("a", small_column(dtype, 1, &vec![0; size])))
            .unwrap();
        let rows = record_batch(&batch).unwrap();
        assert_eq!((rows.column(1).data_type(), rows.column(1).null_count()), (&expected, 0));
    }
    let half = small_column("float16", 2, &[0, 0x3c, 0, 0xc0]); // 1 and -2
    let rows = record_batch(&Batch::new(Kind::PointCloud, half)).unwrap();
    let list = rows.column(0).as_fixed_size_list();
    let values: Vec<f32> =
        list.values().as_primitive::<Float16Type>().values().iter().map(|x| x.to_f32()).collect();
    assert_eq!(values, [1.0, -2.0]);
}

#[test]
fn shares_codes_as_keys_of_a_dictionary() {
    let labelled = |codes: Column, labels: Vec<Value>, missing| {
        let field = Field::new("label", codes).with_categories(Categories::new(labels, missing));
        Batch::new(Kind::PointCloud, floats(&[1.0, 2.0], 1)).with_field(field).unwrap()
    };
    let codes = small_column("int8", 1, &[1, 0xff]);
    let batch = labelled(codes.clone(), vec![Value::Int(10), Value::UInt(20)], Some(-1));
    let rows = record_batch(&batch).unwrap();
    let column = rows.column(1).as_dictionary::<Int8Type>();
    assert_eq!(column.values().as_primitive::<Int64Type>().values(), &[10, 20]);
    assert_eq!(column.keys().values().inner().as_ptr(), codes.bytes().as_ptr());
    assert_eq!((column.is_null(0), column.is_null(1)), (false, true));
    assert!(rows.schema().field(1).is_nullable());

    let batch = labelled(
        small_column("int16", 1, &[1, 0, 0, 0]),
        vec![Value::Float(0.5), Value::Null],
        None,
    );
    let rows = record_batch(&batch).unwrap();
    let column = rows.column(1).as_dictionary::<Int16Type>();
    assert_eq!(column.values().as_primitive::<Float64Type>().value(0), 0.5);
    assert_eq!(column.logical_null_count(), 1);

    let batch =
        labelled(small_column("uint8", 1, &[1, 0]), vec![Value::Int(1), Value::from("x")], None);
    let rows = record_batch(&batch).unwrap();
    let column = rows.column(1).as_dictionary::<UInt8Type>();
    let texts: Vec<Option<&str>> = column.values().as_string::<i32>().iter().collect();
    assert_eq!(texts, [Some("1"), Some("x")]);
    assert!(!rows.schema().field(1).is_nullable());

    let batch = labelled(small_column("uint8", 2, &[0, 9, 9, 0]), vec![Value::from("x")], Some(9));
    let rows = record_batch(&batch).unwrap();
    let list = rows.column(1).as_fixed_size_list();
    assert_eq!((list.value_length(), list.values().null_count()), (2, 2));

    for (codes, message) in [
        (
            small_column("uint8", 1, &[0, 2]),
            "OutOfBounds, cannot decode the categories of \"label\": code 2 has no category (of 1)",
        ),
        (
            small_column("float32", 1, &[0; 8]),
            "OutOfBounds, cannot decode the categories of \"label\": a value that is not a whole number has no category \
             (of 1)",
        ),
    ] {
        let error = record_batch(&labelled(codes, vec![Value::from("x")], None)).unwrap_err();
        assert_eq!(error.to_string(), message);
    }
}

#[test]
fn keeps_the_unit_and_description_of_an_attribute() {
    let mut field = Field::new("v", small_column("uint8", 1, &[1]));
    field.unit = Some("mm".into());
    field.description = Some("how far".into());
    let batch = Batch::new(Kind::PointCloud, floats(&[1.0], 1)).with_field(field).unwrap();
    let schema = record_batch(&batch).unwrap().schema();
    let metadata = schema.field(1).metadata();
    assert_eq!((metadata["unit"].as_str(), metadata["description"].as_str()), ("mm", "how far"));
}

#[test]
fn edges_are_rows_of_their_own() {
    let batch = Batch::new(Kind::Graph, floats(&[1.0, 2.0, 3.0], 1));
    assert!(elements_as_rows(&batch, 0).unwrap().is_none());
    let weight = Field::new("w", small_column("uint8", 1, &[7, 8]));
    let edges = Elements::new(2, vec![0, 1, 1, 2]).unwrap().with_field(weight).unwrap();
    let rows = elements_as_rows(&batch.with_elements(edges).unwrap(), 5).unwrap().unwrap();
    let rows = named_record_batch(&rows, "vertices", 0).unwrap();
    let ends = rows.column(0).as_fixed_size_list().values().as_primitive::<Int64Type>().values();
    assert_eq!(ends, &[5, 6, 6, 7]);
    assert_eq!(rows.column(1).as_primitive::<UInt8Type>().values(), &[7, 8]);
}
