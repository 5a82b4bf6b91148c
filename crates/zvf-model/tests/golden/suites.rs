//! Stores of the test suites of other writers: one of each class that was once read wrongly.

use archives::{Unpacked, inline};
use zvf_format::key::Delta;
use zvf_model::{LevelId, LevelReader, Members, ObjectId, Parametric, Value};
use zvf_store::{Caching, OpenOptions, Store};

/// Opens the store `name`; also returns the folder that holds it.
fn open(name: &str) -> (Unpacked, Store) {
    let unpacked = Unpacked::new(&format!("suites/{name}"));
    let path = unpacked.path().to_str().unwrap();
    let store = inline(Store::open(path, OpenOptions::default())).unwrap();
    (unpacked, store)
}

fn level(store: &Store, number: u32) -> LevelReader {
    inline(LevelReader::open(store, LevelId(number))).unwrap()
}

fn rows(level: &LevelReader) -> usize {
    let keys: Vec<_> = inline(level.chunks()).unwrap().iter().collect();
    let positions = inline(level.positions(&keys, Caching::Once));
    positions.into_iter().map(|rows| rows.unwrap().len()).sum()
}

/// Returns the rows that each record within the level links.
fn records(level: &LevelReader) -> Vec<Vec<u64>> {
    let family = inline(level.links(Delta::SAME)).unwrap().unwrap();
    let mut all = Vec::new();
    for segment in family.segments() {
        let places = inline(segment.cells()).unwrap().cell_order();
        for cell in inline(segment.read(&places, Caching::Once)) {
            let cell = cell.unwrap();
            all.extend((0..cell.len()).map(|i| cell.endpoints(i).map(|(_, row)| row).collect()));
        }
    }
    all
}

#[test]
fn faces_have_the_width_of_links_within_chunks() {
    for (name, faces) in [
        ("mesh06", vec![vec![0, 1, 2], vec![0, 1, 3]]),
        ("mesh06_refused", vec![vec![0, 1, 2]]),
        ("mesh07", vec![vec![0, 1, 2], vec![0, 1, 3], vec![1, 2, 3], vec![0, 2, 3]]),
        ("quad07", vec![vec![0, 1, 2, 3]]),
    ] {
        let (_unpacked, store) = open(name);
        let level = level(&store, 0);
        let family = inline(level.links(Delta::SAME)).unwrap().unwrap();
        assert_eq!((family.link_width(), family.num_links()), (faces[0].len(), None), "{name}");
        assert_eq!(records(&level), faces, "{name}");
    }
}

#[test]
fn widths_that_differ_are_refused_where_both_sides_hold_records() {
    let mut files = archives::files("suites/mesh06");
    let array = |len: usize| {
        format!(
            r#"{{"shape": [{len}], "data_type": "uint8", "chunk_grid": {{"name": "regular",
            "configuration": {{"chunk_shape": [{len}]}}}}, "chunk_key_encoding": {{"name": "default",
            "configuration": {{"separator": "/"}}}}, "fill_value": 0, "codecs": [{{"name": "bytes"}}],
            "attributes": {{}}, "zarr_format": 3, "node_type": "array", "storage_transformers": []}}"#
        )
    };
    files.push(("0/cross_chunk_links/0/data/zarr.json".to_owned(), array(64).into_bytes()));
    files.push(("0/cross_chunk_links/0/data/c/0".to_owned(), vec![0; 64]));
    let unpacked = Unpacked::from_files(&files);
    let store = inline(unpacked.open());
    let error = inline(level(&store, 0).links(Delta::SAME)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "CountMismatch in 0/cross_chunk_links/0, link_width of records between chunks, beside others within them: expected 3, \
         found 2"
    );
}

#[test]
fn counts_of_links_before_0_9_are_complete_or_absent() {
    let (_unpacked, store) = open("info_links06");
    let level = level(&store, 0);
    let family = inline(level.links(Delta::SAME)).unwrap().unwrap();
    assert_eq!((family.num_links(), records(&level).len()), (None, 4));
}

#[test]
fn a_leading_axis_needs_no_attribute() {
    for (name, vertices, objects) in
        [("rechunk_group", 1276, 40), ("rechunk_group06", 1811, 60), ("c27", 2441, 80)]
    {
        let (_unpacked, store) = open(name);
        let level = level(&store, 0);
        assert_eq!((level.key_rank(), rows(&level)), (4, vertices), "{name}");
        let index = inline(level.objects()).unwrap().unwrap();
        assert_eq!(index.slots(), objects, "{name}");
        let slots: Vec<u64> = (0..index.slots()).collect();
        let followed = inline(level.follow(&index, &slots)).unwrap();
        assert_eq!(followed.objects.len(), slots.len(), "{name}");
    }
}

#[test]
fn attributes_without_a_type_are_float32() {
    let (_unpacked, store) = open("nodtype");
    let points = level(&store, 0);
    let normal = inline(points.attribute("normal")).unwrap().unwrap();
    assert_eq!((normal.dtype().to_string(), normal.width()), ("float32".to_owned(), 3));
    let first = inline(points.chunks()).unwrap().iter().next().unwrap();
    let values = inline(normal.values(&[first], Caching::Once)).remove(0).unwrap();
    let floats: Vec<Option<f64>> = (0..3).map(|column| values.float(0, column)).collect();
    let expected = [0.345_584_183_930_750_8, 0.821_618_139_743_804_9, 0.330_437_064_170_837_4];
    for (found, expected) in floats.iter().zip(expected) {
        assert!((found.unwrap() - expected).abs() < 1e-7, "{floats:?}");
    }
    let (_unpacked, store) = open("nodtype06");
    let labels = inline(level(&store, 0).attribute("component_label")).unwrap().unwrap();
    assert_eq!((labels.dtype().to_string(), labels.width()), ("float32".to_owned(), 1));
}

#[test]
fn padded_bytes_are_text() {
    for name in ["bytes_label", "skel_small"] {
        let (_unpacked, store) = open(name);
        let labels = inline(level(&store, 0).object_attribute("label")).unwrap().unwrap();
        let values = inline(labels.rows(&[2, 0, 1])).unwrap();
        let texts = [0, 1, 2].map(|row| values.value(row, 0));
        assert_eq!(texts, ["c", "a", "b"].map(Value::from), "{name}");
    }
}

#[test]
fn groups_of_parametric_objects_of_0_6() {
    let (_unpacked, store) = open("parametric06");
    let parametric = inline(Parametric::open(&store)).unwrap().unwrap();
    let shapes = inline(parametric.shapes()).unwrap();
    let names: Vec<&str> = shapes.iter().map(|shape| shape.name.as_str()).collect();
    assert_eq!(names, ["plane_0", "plane_1", "plane_2"]);
    assert_eq!(shapes[2].coefficients, [0.0, 0.0, 1.0, -75.0]);
    let groups = inline(parametric.groups()).unwrap().unwrap();
    let ids = |ids: &[i64]| Members::Ids(ids.iter().copied().map(ObjectId).collect());
    assert_eq!(inline(groups.members(&[0, 1])).unwrap(), [ids(&[0, 1]), ids(&[2])]);
}

#[test]
fn counts_of_parametric_objects_that_differ_are_refused() {
    let base = archives::files("broken/_base_parametric");
    let rows = |path: &str| -> serde_json::Value {
        let (_, bytes) = base.iter().find(|(name, _)| name == path).unwrap();
        serde_json::from_slice(bytes).unwrap()
    };
    let objects = rows("parametric/objects/zarr.json");
    let count = objects["shape"][0].as_u64().unwrap();
    let names = rows("parametric/names/zarr.json");
    assert_eq!(names["shape"][0].as_u64(), Some(count));
    let mut miscounted = objects;
    miscounted["attributes"]["num_objects"] = (count + 1).into();
    let mut shortened = names;
    shortened["shape"][0] = (count - 1).into();
    for (path, doc, message) in [
        (
            "parametric/objects/zarr.json",
            miscounted,
            format!(
                "CountMismatch in parametric/objects, num_objects, beside the rows: expected {count}, found {}",
                count + 1
            ),
        ),
        (
            "parametric/names/zarr.json",
            shortened,
            format!(
                "CountMismatch in parametric/names, names of parametric objects: expected {count}, found {}",
                count - 1
            ),
        ),
    ] {
        let mut files = base.clone();
        files.retain(|(name, _)| name != path);
        files.push((path.to_owned(), doc.to_string().into_bytes()));
        let unpacked = Unpacked::from_files(&files);
        let store = inline(unpacked.open());
        let parametric = inline(Parametric::open(&store)).unwrap().unwrap();
        assert_eq!(inline(parametric.shapes()).unwrap_err().to_string(), message);
    }
}

#[test]
fn an_attribute_without_cells_is_refused_with_advice() {
    let (_unpacked, store) = open("attr_no_cells");
    let level = level(&store, 0);
    let keys: Vec<_> = inline(level.chunks()).unwrap().iter().collect();
    let score = inline(level.attribute("score")).unwrap().unwrap();
    let error = inline(score.values(&keys[..1], Caching::Once)).remove(0).unwrap_err();
    assert!(error.to_string().contains("leave the column out"), "{error}");
}
