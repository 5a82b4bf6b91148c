//! Meshes whose chunks are Draco streams of zarr-vectors: only positions and inner faces are read.

use std::path::Path;

use archives::{Unpacked, inline};
use zvf_model::Bounds;
use zvf_query::{Columns, Mode, Query, Reader};

fn reader(name: &str) -> Reader {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/formats/draco");
    let files = archives::read(&folder.join(format!("{name}.zarrvectors.tar.zst"))).unwrap();
    let store = Box::leak(Box::new(Unpacked::from_files(&files))); // lives as long as the store
    Reader::new(inline(store.open()))
}

#[test]
fn inner_faces_are_answered_as_incomplete() {
    // The output of the stock decoder for all cells of the store.
    for (name, vertices, faces) in [("store_one_cell", 162, 122 + 152), ("store_cells", 156, 101)] {
        let reader = reader(name);
        let answer = inline(reader.run(&Query::all().columns(Columns::None))).unwrap();
        assert_eq!(answer.batch.len(), vertices, "{name}");
        let elements = answer.batch.elements().unwrap();
        assert_eq!((elements.len(), elements.width()), (faces, 3), "{name}");
        assert!(elements.rows().iter().all(|row| *row < vertices), "{name}");
        assert!(!answer.complete, "{name}: faces between chunks are not there");
    }
}

/// zarr-vectors writes the type of its input, and streams of float32 all the same.
#[test]
fn streams_of_an_array_of_float64_are_read() {
    let read = |name: &str| {
        let store = Unpacked::new("ms3_draco");
        let document = store.path().join("0/vertices/zarr.json");
        let text = std::fs::read_to_string(&document).unwrap();
        assert!(text.contains("\"float32\""), "{text}");
        std::fs::write(&document, text.replace("\"float32\"", name)).unwrap();
        let answer = Reader::new(inline(store.open()));
        inline(answer.run(&Query::all().columns(Columns::None))).unwrap().batch
    };
    let (narrow, wide) = (read("\"float32\""), read("\"float64\""));
    assert_eq!(
        (narrow.len(), wide.positions().dtype().to_string()),
        (wide.len(), "float64".into())
    );
    let floats = |batch: &zvf_model::Batch, row| [0, 1, 2].map(|x| batch.positions().float(row, x));
    assert!((0..wide.len()).all(|row| floats(&wide, row) == floats(&narrow, row)));
}

#[test]
fn a_box_selects_the_faces_inside() {
    let reader = reader("store_one_cell");
    let all = inline(reader.run(&Query::all().columns(Columns::None))).unwrap().batch;
    let cube = Bounds::new(&[96.0, -9.0, -3.0], &[104.0, -4.0, 3.0]).unwrap();
    let inside = (0..all.len()).filter(|row| {
        let point: Vec<f64> =
            (0..3).map(|axis| all.positions().float(*row, axis).unwrap()).collect();
        cube.contains(&point)
    });
    let query = Query::all().in_region(cube).mode(Mode::Crop).columns(Columns::None);
    let answer = inline(reader.run(&query)).unwrap();
    assert_eq!(answer.batch.len(), inside.count());
}
