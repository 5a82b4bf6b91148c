//! Tests: valid and broken files by `GeoPandas` and pyarrow, and tables that this crate writes.

use std::sync::Arc;

use arrow_array::types::{Float32Type, Int16Type};
use arrow_array::{ArrayRef, FixedSizeListArray, Float64Array, RecordBatch};
use arrow_ipc::writer::StreamWriter;
use zvf_error::Result;
use zvf_formats::{BatchWriter as _, FileReader, Input, Polygons, ReadOptions};
use zvf_model::flow::Piece;
use zvf_model::{Batch, Categories, Field, Kind, ObjectId, Parts, Value};

use crate::files::{ArrowWriter, RecordFile};
use crate::shared::column as small_column;
use crate::shared::golden::{Collected, check_broken, check_good};
use crate::shared::open;
use crate::{ARROW, ARROWS, Form, PARQUET};

#[test]
fn reads_files_of_geopandas() {
    let options = ReadOptions { polygons: Polygons::Rings, ..ReadOptions::default() };
    check_good("geoparquet", &options);
    check_broken("geoparquet", |path| Collected::read(path, &ReadOptions::default()).map(drop));
}

fn table() -> Batch {
    let labels = Categories::new(vec![Value::from("a"), Value::from("b")], Some(-1));
    let points = [1.5_f32, 2.0, 3.0, 4.0, 5.0, 6.0].map(f32::to_le_bytes).concat();
    Batch::new(Kind::Polyline, small_column("float32", 2, &points))
        .with_field(Field::new("pair", small_column("uint8", 2, &[1, 2, 3, 4, 5, 6])))
        .unwrap()
        .with_field(Field::new("flag", small_column("bool", 1, &[1, 0, 1])))
        .unwrap()
        .with_field(
            Field::new("label", small_column("int8", 1, &[1, 0xff, 0])).with_categories(labels),
        )
        .unwrap()
        .with_parts(Parts::new(vec![0, 2, 3], vec![ObjectId(7), ObjectId(9)]).unwrap())
        .unwrap()
}

fn write_table(batch: &Batch, form: Form, first: &'static str) -> Vec<u8> {
    let mut file = Vec::new();
    let mut writer = ArrowWriter::new(RecordFile::new(&mut file, form, 1 << 30), first);
    writer.write(batch).and_then(|()| writer.finish(&mut Vec::new())).unwrap();
    file
}

#[test]
fn reads_what_it_writes() {
    let batch = table();
    for (format, form) in [(&ARROW, Form::File), (&ARROWS, Form::Stream), (&PARQUET, Form::Parquet)]
    {
        let bytes = write_table(&batch, form, "position");
        let options = ReadOptions { kind: Some(Kind::Polyline), ..ReadOptions::default() };
        let reader =
            open(Input::reader(std::io::Cursor::new(bytes)), Some(format), &options).unwrap();
        assert!(reader.header().objects);
        let pieces: Vec<Piece> = reader.collect::<Result<_, _>>().unwrap();
        let [Piece::Vertices(read)] = &pieces[..] else { panic!("{pieces:?}") };
        assert_eq!(
            (read.positions(), read.parts()),
            (batch.positions(), batch.parts()),
            "{format}"
        );
        assert_eq!(read.fields()[..2], batch.fields()[..2], "{format}");
        let label = read.field("label").unwrap();
        let labels: Vec<Value> = (0..3).map(|row| label.value(row, 0).unwrap()).collect();
        assert_eq!(labels, [Value::from("b"), Value::Null, Value::from("a")]);
    }
}

fn open_stream(columns: Vec<(&str, ArrayRef)>) -> FileReader {
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let mut writer = StreamWriter::try_new(Vec::new(), &batch.schema()).unwrap();
    writer.write(&batch).unwrap();
    writer.write(&batch).unwrap();
    let input = Input::reader(std::io::Cursor::new(writer.into_inner().unwrap()));
    open(input, Some(&ARROWS), &ReadOptions::default()).unwrap()
}

#[test]
fn of_two_columns_of_one_name_the_first_is_read() {
    let column = |value: f64| -> ArrayRef { Arc::new(Float64Array::from(vec![value])) };
    let reader =
        open_stream(vec![("x", column(1.0)), ("points", column(2.0)), ("points", column(3.0))]);
    assert_eq!(reader.header().left_out, ["column \"points\": another one has its name"]);
    let pieces: Vec<Piece> = reader.collect::<Result<_, _>>().unwrap();
    let Some(Piece::Vertices(read)) = pieces.first() else { panic!("{pieces:?}") };
    assert_eq!(read.fields().len(), 1);
    assert_eq!(read.fields()[0].column.bytes()[..], 2.0_f64.to_le_bytes());
}

#[test]
fn missing_numbers_of_lists_are_noted() {
    let x: ArrayRef = Arc::new(Float64Array::from(vec![1.0, 2.0]));
    let floats = [Some(vec![Some(0.5), None]), None];
    let floats: ArrayRef =
        Arc::new(FixedSizeListArray::from_iter_primitive::<Float32Type, _, _>(floats, 2));
    let integers = [Some(vec![Some(7), Some(8)]), Some(vec![None, Some(9)])];
    let integers: ArrayRef =
        Arc::new(FixedSizeListArray::from_iter_primitive::<Int16Type, _, _>(integers, 2));
    let mut reader = open_stream(vec![("x", x), ("floats", floats), ("integers", integers)]);
    let pieces: Vec<Piece> = reader.by_ref().collect::<Result<_, _>>().unwrap();
    let Some(Piece::Vertices(read)) = pieces.first() else { panic!("{pieces:?}") };
    let floats = [0.5, f32::NAN, f32::NAN, f32::NAN].map(f32::to_le_bytes).concat();
    assert_eq!(read.field("floats").unwrap().column.bytes()[..], floats[..]);
    let integers = [7_i16, 8, 0, 9].map(i16::to_le_bytes).concat();
    assert_eq!(read.field("integers").unwrap().column.bytes()[..], integers[..]);
    let notes = [("floats", "NaN"), ("integers", "0")]
        .map(|(name, shown)| format!("missing numbers of column {name:?} become {shown}"));
    assert_eq!(reader.notes(), notes);
}

#[test]
fn refuses_tables_without_positions() {
    let batch = Batch::new(Kind::PointCloud, small_column("uint8", 1, &[1]));
    let bytes = write_table(&batch, Form::Parquet, "length");
    let input = Input::reader(std::io::Cursor::new(bytes));
    let error = open(input, None, &ReadOptions::default()).unwrap_err().to_string();
    assert!(
        error.contains("found \"length\"; name the columns of positions, as in --positions x,y,z"),
        "{error}"
    );
}

#[test]
fn refuses_row_counts_that_do_not_add_up() {
    use parquet::file::metadata::{ParquetMetaDataReader, ParquetMetaDataWriter};

    let sound = write_table(&table(), Form::Parquet, "position");
    let metadata =
        ParquetMetaDataReader::new().parse_and_finish(&bytes::Bytes::from(sound.clone())).unwrap();
    // As the footer has numbers: 2^62 is written, which can be added, and becomes the largest number.
    let (written, largest) = (
        *b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01",
        *b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    );
    for (rows, is_sound) in [(3, true), (-1, false), (1 << 62, false)] {
        let group = metadata.row_group(0).clone();
        let second = group.clone().into_builder().set_num_rows(rows).build().unwrap();
        let footer = metadata.clone().into_builder().set_row_groups(vec![group, second]).build();
        let mut file = sound.clone(); // the footer that counts is the last one
        ParquetMetaDataWriter::new(&mut file, &footer).finish().unwrap();
        if let Some(at) = file.windows(10).position(|bytes| bytes == written) {
            file[at..at + 10].copy_from_slice(&largest);
        }
        let input = Input::reader(std::io::Cursor::new(file));
        let pieces = open(input, Some(&PARQUET), &ReadOptions::default())
            .and_then(|reader| reader.collect::<Result<Vec<_>, _>>());
        match pieces {
            Ok(_) => assert!(is_sound, "{rows}"),
            Err(error) => {
                assert!(
                    !is_sound && error.to_string().contains("do not add up"),
                    "{rows}: {error}"
                );
            }
        }
    }
}

/// Returns a file of `GeoArrow` with one point, whose field has this metadata.
fn geoarrow(metadata: Option<&str>) -> Vec<u8> {
    use arrow_array::BinaryArray;
    use arrow_schema::{DataType, Field as ArrowField, Schema};

    let mut words = vec![("ARROW:extension:name".to_owned(), "geoarrow.wkb".to_owned())];
    words.extend(metadata.map(|text| ("ARROW:extension:metadata".to_owned(), text.to_owned())));
    let field = ArrowField::new("geometry", DataType::Binary, true);
    let field = field.with_metadata(words.into_iter().collect());
    let schema = Arc::new(Schema::new(vec![field]));
    let mut point = vec![1, 1, 0, 0, 0]; // little-endian, a point
    point.extend([2.0_f64, 3.0].map(f64::to_le_bytes).concat());
    let column = Arc::new(BinaryArray::from_vec(vec![&point]));
    let batch = RecordBatch::try_new(Arc::clone(&schema), vec![column]).unwrap();
    let mut writer = arrow_ipc::writer::FileWriter::try_new(Vec::new(), &schema).unwrap();
    writer.write(&batch).unwrap();
    writer.into_inner().unwrap()
}

#[test]
fn refuses_an_unreadable_reference_system() {
    let read = |metadata: Option<&str>| {
        let input = Input::reader(std::io::Cursor::new(geoarrow(metadata)));
        let options = ReadOptions::default();
        let reader = open(input, Some(&ARROW), &options).map_err(|error| error.to_string())?;
        Ok::<_, String>(reader.header().crs.clone())
    };
    let crs = read(Some(r#"{"crs": "EPSG:2056"}"#)).unwrap();
    assert_eq!(crs.as_ref().and_then(serde_json::Value::as_str), Some("EPSG:2056"));
    for none in [None, Some(""), Some("{}"), Some(r#"{"crs": null}"#)] {
        assert_eq!(read(none).unwrap(), None, "{none:?}");
    }
    let error = read(Some(r#"{"crs": "EPSG:2056""#)).unwrap_err();
    assert!(
        error.contains("column \"geometry\", ARROW:extension:metadata: expected JSON"),
        "{error}"
    );
}

#[test]
fn refuses_a_row_of_a_line_without_an_object() {
    use arrow_array::{Float32Array, Int64Array};

    let read = |objects: Vec<Option<i64>>, kind: Kind| {
        let places = Float32Array::from(vec![1.0, 2.0, 3.0]);
        let columns: [(&str, ArrayRef); 3] = [
            ("x", Arc::new(places.clone())),
            ("y", Arc::new(places)),
            ("object", Arc::new(Int64Array::from(objects))),
        ];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let mut writer =
            arrow_ipc::writer::FileWriter::try_new(Vec::new(), &batch.schema()).unwrap();
        writer.write(&batch).unwrap();
        let input = Input::reader(std::io::Cursor::new(writer.into_inner().unwrap()));
        let options = ReadOptions { kind: Some(kind), ..ReadOptions::default() };
        let mut reader = open(input, Some(&ARROW), &options).unwrap();
        match reader.next().unwrap() {
            Ok(Piece::Vertices(batch)) => Ok(batch),
            Ok(piece) => panic!("{piece:?}"),
            Err(error) => Err(error.to_string()),
        }
    };
    let batch = read(vec![Some(4), Some(4), Some(0)], Kind::Polyline).unwrap();
    assert_eq!(batch.parts().objects(), [ObjectId(4), ObjectId(0)]);
    let error = read(vec![Some(4), Some(4), None], Kind::Polyline).unwrap_err();
    assert!(
        error.contains("row 2: expected an id for each vertex of a polyline, found none"),
        "{error}"
    );
    let batch = read(vec![Some(4), Some(-1), None], Kind::PointCloud).unwrap();
    assert_eq!(batch.vertex_objects(), Some(&[Some(ObjectId(4)), None, None][..]));
}

#[test]
fn reads_features_whose_geometry_is_not_the_last_column() {
    use std::collections::HashMap;

    use arrow_array::{BinaryArray, Int64Array};
    use arrow_schema::{DataType, Field as ArrowField, Schema};

    let point = |x: f64| {
        let mut point = vec![1, 1, 0, 0, 0]; // little-endian, a point
        point.extend([x, 3.0].map(f64::to_le_bytes).concat());
        point
    };
    let (first, second) = (point(1.0), point(2.0));
    let geometry: ArrayRef = Arc::new(BinaryArray::from_vec(vec![&first, &second]));
    let (mass, age): (ArrayRef, ArrayRef) =
        (Arc::new(Int64Array::from(vec![10, 20])), Arc::new(Int64Array::from(vec![70, 80])));
    let name = ("ARROW:extension:name".to_owned(), "geoarrow.wkb".to_owned());
    let number = |name: &str| ArrowField::new(name, DataType::Int64, false);
    let geometry_field =
        ArrowField::new("geometry", DataType::Binary, true).with_metadata(HashMap::from([name]));
    let columns: [(ArrowField, ArrayRef); 3] =
        [(number("mass"), mass), (geometry_field, geometry), (number("age"), age)];
    for order in [[0, 1, 2], [1, 0, 2], [1, 2, 0], [0, 2, 1]] {
        let schema = Schema::new(order.map(|place| columns[place].0.clone()).to_vec());
        let arrays = order.map(|place| Arc::clone(&columns[place].1)).to_vec();
        let batch = RecordBatch::try_new(Arc::new(schema), arrays).unwrap();
        let mut file = arrow_ipc::writer::FileWriter::try_new(Vec::new(), &batch.schema()).unwrap();
        file.write(&batch).unwrap();
        let mut stream = StreamWriter::try_new(Vec::new(), &batch.schema()).unwrap();
        stream.write(&batch).unwrap();
        for (format, bytes) in
            [(&ARROW, file.into_inner().unwrap()), (&ARROWS, stream.into_inner().unwrap())]
        {
            let input = Input::reader(std::io::Cursor::new(bytes));
            let reader = open(input, Some(format), &ReadOptions::default()).unwrap();
            let read = Collected::from_reader(reader).unwrap();
            let bytes = |name: &str| {
                read.object_fields.iter().find(|field| field.name == name).unwrap().bytes.clone()
            };
            let expected = |numbers: [i64; 2]| numbers.map(i64::to_le_bytes).concat();
            assert_eq!(bytes("mass"), expected([10, 20]), "{format}, {order:?}");
            assert_eq!(bytes("age"), expected([70, 80]), "{format}, {order:?}");
            assert_eq!(read.positions, [1.0, 3.0, 2.0, 3.0], "{format}, {order:?}");
        }
    }
}
