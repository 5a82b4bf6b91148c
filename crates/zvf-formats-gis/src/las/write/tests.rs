//! Tests of the LAS writer by round trips.

use zvf_error::Result;
use zvf_formats::{FormatOptions, Input, ReadOptions, Spec, Target};
use zvf_metadata::Dtype;
use zvf_model::flow::{Header, Piece};
use zvf_model::{Batch, Column, Field, Kind, ObjectId};

use crate::las::Grid;
use crate::las::write::encode::{Summary, encode};
use crate::las::write::schema::{Schema, SchemaRequest};
use crate::shared::{create, open};
use crate::{COPC, LAS, LAZ};

fn folder() -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/formats/las")
}

/// Reads the header, and the bytes of positions and columns of each point.
fn rows(input: Input) -> (Header, Vec<Vec<u8>>) {
    let reader = open(input, None, &ReadOptions::default()).unwrap();
    let header = reader.header().clone();
    let mut rows = Vec::new();
    for piece in reader {
        let Piece::Vertices(batch) = piece.unwrap() else { panic!() };
        for row in 0..batch.len() {
            let mut bytes = batch.positions().row(row).to_vec();
            batch.fields().iter().for_each(|field| bytes.extend_from_slice(field.column.row(row)));
            rows.push(bytes);
        }
    }
    (header, rows)
}

fn convert(input: Input, format: &'static Spec) -> Result<Vec<u8>> {
    let reader = open(input, None, &ReadOptions::default())?;
    Ok(crate::shared::convert(reader, format, &FormatOptions::default())?.0)
}

#[test]
fn files_of_other_programs_round_trip() {
    let files = "f0.las f1.las f2.las f3.laz f4.las f5.las f6.laz f7.las f8.laz f9.las f10.laz \
        extra3.las extra7.laz vlrs.las undocumented.las one.las empty.las chunks.laz";
    for name in files.split(' ') {
        let path = folder().join(name);
        let (header, expected) = rows(Input::path(&path));
        for format in [&LAS, &LAZ] {
            let bytes = convert(Input::path(&path), format).unwrap();
            let (read, found) = rows(Input::reader(std::io::Cursor::new(bytes)));
            assert_eq!(found.len(), expected.len(), "{name} as {format}");
            let names = |header: &Header| {
                header
                    .fields
                    .iter()
                    .map(|field| (field.name.to_string(), field.column.width()))
                    .collect::<Vec<_>>()
            };
            if names(&read) == names(&header) {
                assert!(found == expected, "{name} as {format}");
            } else {
                // Formats 4 and 5 become 9 and 10; many values of one name become several names.
                assert!(
                    ["f4.las", "f5.las", "undocumented.las"].contains(&name),
                    "{name} as {format}"
                );
            }
            assert_eq!(read.crs, header.crs);
        }
    }
}

#[test]
fn an_octree_has_the_same_points() {
    for name in ["chunks.laz", "f6.laz", "extra7.las", "empty.laz"] {
        let path = folder().join(name);
        let bytes = convert(Input::path(&path), &COPC).unwrap();
        assert_eq!(&bytes[377..382], b"copc\0");
        let (_, mut expected) = rows(Input::path(&path));
        let (_, mut found) = rows(Input::reader(std::io::Cursor::new(bytes)));
        expected.sort();
        found.sort();
        assert!(found == expected, "{name}");
    }
}

fn cloud(points: &[[f64; 3]]) -> Batch {
    let bytes: Vec<u8> = points.iter().flatten().flat_map(|x| x.to_le_bytes()).collect();
    Batch::new(
        Kind::PointCloud,
        Column::new("float64".parse::<Dtype>().unwrap(), 3, bytes.into()).unwrap(),
    )
}

fn header(batch: &Batch) -> Header {
    Header::from_batch(batch, ["x", "y", "z"].map(str::to_owned).to_vec())
}

fn write_cloud(batch: &Batch, options: &FormatOptions) -> Result<(Vec<u8>, Vec<String>)> {
    let header = header(batch);
    let mut out = Vec::new();
    let mut writer = create(&LAS, Target::stream(&mut out), options)?;
    writer.begin(&header)?;
    writer.write(Piece::Vertices(batch.clone()))?;
    let report = writer.finish()?;
    Ok((out, report.losses.iter().map(ToString::to_string).collect()))
}

#[test]
fn the_scale_keeps_decimals() {
    let points = [[0.1, -2.25, 1000.001], [123.456, 7.0, 0.0]];
    let (bytes, losses) = write_cloud(&cloud(&points), &FormatOptions::default()).unwrap();
    let (_, rows) = rows(Input::reader(std::io::Cursor::new(bytes)));
    for (row, point) in rows.iter().zip(points) {
        assert_eq!(row[..24], *point.map(f64::to_le_bytes).concat());
    }
    assert!(losses.is_empty(), "{losses:?}");
    let (_, losses) =
        write_cloud(&cloud(&[[std::f64::consts::PI, 0.0, 0.0]]), &FormatOptions::default())
            .unwrap();
    assert!(losses[0].starts_with("1 coordinate moved by up to "), "{losses:?}");
}

#[test]
fn refuses_values_that_a_point_cannot_hold() {
    let error =
        write_cloud(&cloud(&[[f64::NAN, 0.0, 0.0]]), &FormatOptions::default()).unwrap_err();
    assert!(error.to_string().contains("LAS cannot hold"), "{error}");
    let mut options = FormatOptions::default();
    options.extra.insert("las.scale".into(), 0.001.into());
    let error = write_cloud(&cloud(&[[1e9, 0.0, 0.0]]), &options).unwrap_err().to_string();
    assert!(error.contains("1000000000 on axis 0 with scale Some(0.001)"), "{error}");
    let column = Column::new("uint8".parse::<Dtype>().unwrap(), 1, vec![16].into()).unwrap();
    let batch = cloud(&[[0.0; 3]]).with_field(Field::new("return_number", column)).unwrap();
    let error = write_cloud(&batch, &FormatOptions::default()).unwrap_err().to_string();
    assert!(error.contains("16 in \"return_number\", which is from 0 to 15"), "{error}");
}

#[test]
fn objects_and_any_columns_are_extra_bytes() {
    let ids =
        Column::new("uint16".parse::<Dtype>().unwrap(), 2, vec![1, 0, 2, 0, 3, 0, 4, 0].into())
            .unwrap();
    let batch = cloud(&[[0.0; 3], [1.0; 3]])
        .with_field(Field::new("pair of numbers", ids.clone()))
        .unwrap()
        .with_vertex_objects(vec![Some(ObjectId(1 << 40)), None])
        .unwrap();
    let (bytes, _) = write_cloud(&batch, &FormatOptions::default()).unwrap();
    let reader =
        open(Input::reader(std::io::Cursor::new(bytes)), None, &ReadOptions::default()).unwrap();
    let pieces: Vec<Piece> = reader.collect::<Result<_, _>>().unwrap();
    let [Piece::Vertices(read)] = &pieces[..] else { panic!() };
    assert_eq!(read.field("pair of numbers").unwrap().column, ids);
    assert_eq!(read.vertex_objects(), batch.vertex_objects());
}

#[test]
fn refuses_options_that_are_none() {
    let table: [(&str, serde_json::Value); 3] =
        [("las.version", "2.0".into()), ("las.point_format", 300.into()), ("las.scale", 0.into())];
    for (name, value) in table {
        let mut options = FormatOptions::default();
        options.extra.insert(name.into(), value);
        let error = write_cloud(&cloud(&[[0.0; 3]]), &options).unwrap_err().to_string();
        assert!(error.starts_with(&format!("Unsupported, LAS cannot hold {name} of ")), "{error}");
    }
    let mut options = FormatOptions::default();
    options.extra.insert("las.version".into(), "1.2".into());
    let (_, losses) = write_cloud(&cloud(&[[0.0; 3]]), &options).unwrap();
    assert_eq!(losses, ["version 1.2 becomes 1.4: point format 6 needs it"]);
}

#[test]
fn a_version_may_be_a_number() {
    let mut options = FormatOptions::default();
    options.extra.insert("las.version".into(), 1.3_f64.into());
    options.extra.insert("las.point_format".into(), 0.into());
    let (bytes, losses) = write_cloud(&cloud(&[[0.0; 3]]), &options).unwrap();
    assert_eq!((bytes[25], losses.len()), (3, 0), "{losses:?}");
}

#[test]
fn long_records_are_dropped_before_version_4() {
    let batch = cloud(&[[0.0; 3]]);
    let mut header = header(&batch);
    let hex = "00".repeat(1 << 16);
    let record = serde_json::json!({"vlrs": [{"user_id": "other", "record_id": 7, "hex": hex}]});
    header.records.push(("las".to_owned(), record));
    let list_losses = |version: &str| {
        let mut options = FormatOptions::default();
        options.extra.insert("las.version".into(), version.into());
        options.extra.insert("las.point_format".into(), 0.into());
        let mut out = Vec::new();
        let mut writer = create(&LAS, Target::stream(&mut out), &options).unwrap();
        writer.begin(&header).unwrap();
        writer.write(Piece::Vertices(batch.clone())).unwrap();
        let report = writer.finish().unwrap();
        report.losses.iter().map(ToString::to_string).collect::<Vec<String>>()
    };
    assert!(list_losses("1.4").is_empty());
    let expected =
        "record \"other\" 7 of 65536 bytes is dropped: version 1.2 holds up to 65535 for each";
    assert_eq!(list_losses("1.2"), [expected]);
}

#[test]
fn refuses_more_descriptions_than_a_record_holds() {
    let column = Column::new("uint16".parse::<Dtype>().unwrap(), 400, vec![0; 800].into()).unwrap();
    let batch = cloud(&[[0.0; 3]]).with_field(Field::new("many", column)).unwrap();
    let error = write_cloud(&batch, &FormatOptions::default()).unwrap_err().to_string();
    assert!(error.contains("a record \"LASF_Spec\" 4 of 76800 bytes"), "{error}");
}

#[test]
fn says_that_long_names_are_cut() {
    let column = Column::new("uint8".parse::<Dtype>().unwrap(), 1, vec![7].into()).unwrap();
    let field = Field::new("a name of more than thirty-two bytes", column);
    let batch = cloud(&[[0.0; 3]]).with_field(field).unwrap();
    let (_, losses) = write_cloud(&batch, &FormatOptions::default()).unwrap();
    assert!(losses[0].starts_with("1 names and descriptions of attributes are cut"), "{losses:?}");
}

#[test]
fn counts_more_points_than_32_bits_in_version_4_only() {
    let batch = cloud(&[[0.0; 3]]);
    let header = header(&batch);
    let grid = Grid { scales: [1.0; 3], offsets: [0.0; 3] };
    let encode_last = |minor: u8| {
        let request =
            SchemaRequest { point_format: Some(0), minor: Some(minor), ..SchemaRequest::default() };
        let schema = Schema::new(&header, request).unwrap();
        let mut summary = Summary { count: u64::from(u32::MAX), ..Summary::new() };
        encode(&schema, &grid, &batch, &mut summary).map(drop)
    };
    assert!(encode_last(4).is_ok());
    let error = encode_last(2).unwrap_err().to_string();
    assert!(error.contains("more than 4294967295 points in version 1.2"), "{error}");
}
