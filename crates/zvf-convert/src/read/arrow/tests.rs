//! Files of `GeoPandas` and pyarrow, good and broken; and tables of our own.

use zvf_metadata::Dtype;
use zvf_model::{Batch, Categories, Column, Field, Kind, ObjectId, Parts, Value};

use super::super::stock_files::{check_broken, check_features};
use crate::read::{Format, Input, Piece, Polygons, ReadOptions, open};
use crate::{ArrowWriter, ParquetWriter};

#[test]
fn files_of_others_have_their_features() {
    let options = ReadOptions { polygons: Polygons::Rings, ..ReadOptions::default() };
    check_features("geoparquet", &options);
    check_features("geoparquet", &ReadOptions { batch_rows: 3, ..options });
}

#[test]
fn broken_files_are_refused() {
    check_broken("geoparquet", &ReadOptions::default());
}

fn small(dtype: &str, width: u32, bytes: &[u8]) -> Column {
    Column::new(dtype.parse::<Dtype>().unwrap(), width, bytes.to_vec().into()).unwrap()
}

fn table() -> Batch {
    let labels = Categories::new(vec![Value::from("a"), Value::from("b")], Some(-1));
    let points = [1.5_f32, 2.0, 3.0, 4.0, 5.0, 6.0].map(f32::to_le_bytes).concat();
    Batch::new(Kind::Polyline, small("float32", 2, &points))
        .with_field(Field::new("pair", small("uint8", 2, &[1, 2, 3, 4, 5, 6])))
        .unwrap()
        .with_field(Field::new("flag", small("bool", 1, &[1, 0, 1])))
        .unwrap()
        .with_field(Field::new("label", small("int8", 1, &[1, 0xff, 0])).with_categories(labels))
        .unwrap()
        .with_parts(Parts::new(vec![0, 2, 3], vec![ObjectId(7), ObjectId(9)]).unwrap())
        .unwrap()
}

#[test]
fn what_is_written_is_read() {
    let batch = table();
    let mut files = Vec::new();
    let mut writer = ArrowWriter::file(Vec::new(), "position");
    writer.write(&batch).unwrap();
    files.push((Format::Arrow, writer.finish().unwrap()));
    let mut writer = ArrowWriter::stream(Vec::new(), "position");
    writer.write(&batch).unwrap();
    files.push((Format::Arrows, writer.finish().unwrap()));
    let mut writer = ParquetWriter::new(Vec::new(), "position");
    writer.write(&batch).unwrap();
    files.push((Format::Parquet, writer.finish().unwrap()));
    for (format, bytes) in files {
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

#[test]
fn tables_without_positions_are_told() {
    let batch = Batch::new(Kind::PointCloud, small("uint8", 1, &[1]));
    let mut writer = ParquetWriter::new(Vec::new(), "length");
    writer.write(&batch).unwrap();
    let bytes = writer.finish().unwrap();
    let input = Input::reader(std::io::Cursor::new(bytes));
    let error = open(input, None, &ReadOptions::default()).unwrap_err().to_string();
    assert!(error.contains("found \"length\"; say which columns are positions"), "{error}");
}

#[test]
fn numbers_of_rows_that_do_not_add_up_are_refused() {
    use parquet::file::metadata::{ParquetMetaDataReader, ParquetMetaDataWriter};

    let mut writer = ParquetWriter::new(Vec::new(), "position");
    writer.write(&table()).unwrap();
    let sound = writer.finish().unwrap();
    let metadata =
        ParquetMetaDataReader::new().parse_and_finish(&bytes::Bytes::from(sound.clone())).unwrap();
    // As the footer has numbers: 2^62 is written, which can be added, and becomes the largest number.
    let (written, largest) = (
        *b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01",
        *b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    );
    for (rows, is_sound) in [(3, true), (-1, false), (1 << 62, false)] {
        let group = metadata.row_group(0).clone();
        let other = group.clone().into_builder().set_num_rows(rows).build().unwrap();
        let footer = metadata.clone().into_builder().set_row_groups(vec![group, other]).build();
        let mut file = sound.clone(); // the footer that counts is the last one
        ParquetMetaDataWriter::new(&mut file, &footer).finish().unwrap();
        if let Some(at) = file.windows(10).position(|bytes| bytes == written) {
            file[at..at + 10].copy_from_slice(&largest);
        }
        let input = Input::reader(std::io::Cursor::new(file));
        let pieces = open(input, Some(Format::Parquet), &ReadOptions::default())
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
