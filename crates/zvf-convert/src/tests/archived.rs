//! Tests: files written as npz and read again.

use zvf_formats::field_value;
use zvf_model::flow::{FlowReport, Piece};

use crate::read::{self, Format, Input, ReadOptions};
use crate::write::{self, FormatOptions, Target};

/// Returns what a file gives once it is written as npz and read again.
fn copy(text: &'static [u8], format: Option<Format>) -> (FlowReport, Vec<Piece>) {
    let options = ReadOptions::default();
    let reader = read::open(Input::reader(text), format, &options).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("copy.npz");
    let target = Target::file(std::fs::File::create(&path).unwrap());
    let writer = write::open(Format::Npz, target, &FormatOptions::default()).unwrap();
    let report = write::copy(reader, writer).unwrap();
    let again = read::open(Input::path(&path), None, &options).unwrap();
    (report, again.collect::<Result<_, _>>().unwrap())
}

#[test]
fn a_mesh_comes_back() {
    let text: &[u8] =
        b"ply\nformat ascii 1.0\nelement vertex 3\nproperty float x\nproperty float y\n\
        property uchar q\nelement face 1\nproperty list uchar int vertex_indices\nend_header\n\
        0 1 7\n2 3 8\n4 5 9\n3 2 1 0\n";
    let (report, pieces) = copy(text, None);
    assert_eq!((report.vertices, report.elements), (3, 1));
    let Piece::Vertices(batch) = &pieces[0] else { panic!() };
    assert_eq!(batch.fields()[0].name.as_ref(), "q");
    assert_eq!(batch.positions().float(2, 1), Some(5.0));
    let Piece::Elements { rows, .. } = &pieces[1] else { panic!() };
    assert_eq!(rows.as_slice::<i64>(), Some(&[2, 1, 0][..]));
}

#[test]
fn texts_come_back() {
    let text = "x,y,z,tree\n1,2,3,ash\n2,3,4,\n3,4,5,mélèze\n";
    let (_, pieces) = copy(text.as_bytes(), Some(Format::Csv));
    let Piece::Vertices(batch) = &pieces[0] else { panic!() };
    let value = |row| field_value(&batch.fields()[0], row, 0).unwrap().to_string();
    assert_eq!([0, 1, 2].map(value), ["ash", "", "mélèze"]);
}
