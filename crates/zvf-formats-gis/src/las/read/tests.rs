//! Tests of files of laspy and `LASzip`: valid and broken.

use zvf_formats::{ColumnRoles, Input, ReadOptions};

use crate::shared::golden::{check_files, folder, read_expected, read_input, sha256};
use crate::shared::open;

#[test]
fn reads_stock_files() {
    check_files("las", &ReadOptions::default());
}

#[test]
fn reads_equal_points_in_small_batches() {
    let expected = read_expected("las");
    for name in ["chunks.laz", "extra7.laz", "f5.las"] {
        let options = ReadOptions { batch_rows: 7, ..ReadOptions::default() };
        let bytes = std::fs::read(folder("las").join(name)).unwrap();
        let all = read_input(Input::reader(std::io::Cursor::new(bytes)), &options).unwrap();
        assert_eq!(
            expected["files"][name]["vertices"]["sha256"],
            sha256(&all.position_bytes()),
            "{name}"
        );
    }
}

#[test]
fn reads_objects_from_a_named_column() {
    let columns = ColumnRoles {
        object: Some("point_source_id".into()),
        fields: Some(vec!["intensity".into()]),
        ..ColumnRoles::default()
    };
    let options = ReadOptions { columns, ..ReadOptions::default() };
    let reader = open(Input::path(folder("las").join("f3.las")), None, &options).unwrap();
    assert_eq!(reader.header().fields.len(), 1);
    for piece in reader {
        let zvf_model::flow::Piece::Vertices(batch) = piece.unwrap() else { panic!() };
        assert!(batch.vertex_objects().unwrap().iter().all(Option::is_some));
    }
}
