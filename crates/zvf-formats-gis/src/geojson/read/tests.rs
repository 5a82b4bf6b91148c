//! Tests: valid and broken files, by GDAL and handwritten.

use zvf_error::Result;
use zvf_formats::{Input, Polygons, ReadOptions};
use zvf_model::Kind;
use zvf_model::flow::Piece;

use crate::GEOJSON;
use crate::shared::golden::{Collected, check_files, folder};
use crate::shared::open;

fn options() -> ReadOptions {
    ReadOptions { polygons: Polygons::Rings, ..ReadOptions::default() }
}

fn read(text: &'static str) -> Result<usize, String> {
    let reader = open(Input::reader(text.as_bytes()), Some(&GEOJSON), &options());
    let pieces = reader.and_then(|reader| reader.collect::<Result<Vec<Piece>, _>>());
    let count = |piece: &Piece| if let Piece::Objects { ids, .. } = piece { ids.len() } else { 0 };
    pieces.map(|pieces| pieces.iter().map(count).sum()).map_err(|error| error.to_string())
}

#[test]
fn reads_files_of_gdal() {
    check_files("geojson", &options());
}

#[test]
fn reads_one_kind_at_a_time() {
    let path = folder("geojson").join("mixed.geojson");
    let all = Collected::read(&path, &ReadOptions::default()).unwrap();
    assert_eq!(
        (all.header.kind, &all.header.other_kinds[..]),
        (Kind::PointCloud, &[Kind::Polyline][..])
    );
    let mesh = ReadOptions { kind: Some(Kind::Mesh), ..ReadOptions::default() };
    let error = Collected::read(&path, &mesh).err().unwrap().to_string();
    assert!(error.contains("expected point_cloud or polyline, found a wish for mesh"), "{error}");
    let polygons = folder("geojson").join("polygons.geojson");
    let error = Collected::read(&polygons, &ReadOptions::default()).err().unwrap().to_string();
    assert!(error.contains("--rings"), "{error}");
}

#[test]
fn reads_single_features_and_refuses_invalid_files() {
    let document =
        r#"{"type":"Feature","geometry":{"type":"Point","coordinates":[1,2]},"properties":{}}"#;
    assert_eq!(read(document), Ok(1));
    assert_eq!(read(r#"{"type":"Point","coordinates":[1,2]}"#), Ok(1));
    for (text, fault) in [
        ("[1]", "Encoding in GeoJSON, byte 0: expected an object, found '['"),
        (
            r#"{"type":"FeatureCollection"}"#,
            "expected a FeatureCollection with features, found no features",
        ),
        (r#"{"features":[],"features":[]}"#, "found \"features\""),
        (r#"{"features":[1]}"#, "byte 13: expected '{', found '1'"),
        (
            r#"{"features":[{"type":"Point","coordinates":[1,2]} {}]}"#,
            "expected a comma or the end",
        ),
        (r#"{"type":"Point","coordinates":[1,2e999]}"#, "expected a number of float64"),
        (
            r#"{"type":"Point","coordinates":[01,2]}"#,
            "byte 31: expected a number, found \"01,2]}\"",
        ),
    ] {
        let read = match read(text) {
            Ok(_) => panic!("{text} was read"),
            Err(error) => error,
        };
        assert!(read.contains(fault), "{read}; {fault}");
    }
}
