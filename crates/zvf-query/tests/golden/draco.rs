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
