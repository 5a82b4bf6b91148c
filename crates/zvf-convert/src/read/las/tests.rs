//! Files of laspy and `LASzip`, good and broken.

use super::super::stock_files::{check_broken, check_good, expected, folder, hash, read_input};
use crate::read::{ColumnRoles, Input, ReadOptions};

#[test]
fn files_of_others_have_their_points() {
    check_good("las", &[], &ReadOptions::default());
}

#[test]
fn batches_of_any_size_are_the_same_points() {
    let expected = expected("las");
    for name in ["chunks.laz", "extra7.laz", "f5.las"] {
        let options = ReadOptions { batch_rows: 7, ..ReadOptions::default() };
        let bytes = std::fs::read(folder("las").join(name)).unwrap();
        let all = read_input(Input::reader(std::io::Cursor::new(bytes)), &options).unwrap();
        assert_eq!(expected["files"][name]["vertices"]["sha256"], hash(&all.positions), "{name}");
    }
}

#[test]
fn broken_files_are_refused() {
    check_broken("las", &ReadOptions::default());
}

#[test]
fn a_column_may_say_the_object() {
    let columns = ColumnRoles {
        object: Some("point_source_id".into()),
        fields: Some(vec!["intensity".into()]),
        ..ColumnRoles::default()
    };
    let options = ReadOptions { columns, ..ReadOptions::default() };
    let reader =
        crate::read::open(Input::path(folder("las").join("f3.las")), None, &options).unwrap();
    assert_eq!(reader.header().fields.len(), 1);
    for piece in reader {
        let crate::read::Piece::Vertices(batch) = piece.unwrap() else { panic!() };
        assert!(batch.vertex_objects().unwrap().iter().all(Option::is_some));
    }
}
