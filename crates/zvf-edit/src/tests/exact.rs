//! Tests that ids and row numbers are exact: none is rounded by a float, and malformed ones are refused.

use std::path::{Path, PathBuf};

use archives::Unpacked;
use serde_json::{Value as Json, json};
use zvf_format::Class;
use zvf_format::grid::ChunkShape;
use zvf_format::manifest::ManifestBuilder;
use zvf_metadata::{Axis, Dtype};
use zvf_model::{Batch, Categories, Column, Field, Kind, ObjectId, Parts, Value};
use zvf_pyramid::{Method, Options, build};
use zvf_store::BuildOptions;
use zvf_write::{Schema, WriteOptions, Writer};

use super::{
    GC, assert_fails, begin, change_document, document, join, move_all, open, positions,
    positions_of, run, tree,
};
use crate::arrays::CellArray;
use crate::indexes::open_row_column;
use crate::manifests::read_references;
use crate::medium::block_on;
use crate::scalar::Scalar;
use crate::snapshot::Snapshot;
use crate::transaction::Transaction;
use crate::{Collect, Place, gc};

/// An id that `f64` holds; its two successors are rounded to it.
const LARGE_ID: i64 = 1 << 60;

/// Creates a store of polylines with these ids in a temporary folder, one in each chunk of 10 along x.
fn polylines(ids: &[i64]) -> (tempfile::TempDir, PathBuf) {
    let folder = archives::scratch();
    let store = folder.path().join("store.zarrvectors");
    let mut at = Vec::new();
    for n in 0..ids.len() {
        let x = n as f32 * 10.0;
        at.extend([x + 1.0, 1.0, x + 5.0, 2.0, x + 8.0, 1.0]);
    }
    let bytes: Vec<u8> = at.iter().flat_map(|x: &f32| x.to_le_bytes()).collect();
    let places = Column::new("float32".parse::<Dtype>().unwrap(), 2, bytes.into()).unwrap();
    let parts = Parts::new(
        (0..=ids.len()).map(|n| n * 3).collect(),
        ids.iter().copied().map(ObjectId).collect(),
    );
    let batch = Batch::new(Kind::Polyline, places).with_parts(parts.unwrap()).unwrap();
    let ids: Vec<ObjectId> = ids.iter().copied().map(ObjectId).collect();
    let mass: Vec<u8> = ids.iter().flat_map(|_| 1.5_f32.to_le_bytes()).collect();
    let mass = Column::new("float32".parse::<Dtype>().unwrap(), 1, mass.into()).unwrap();
    write(&store, &batch, |writer| {
        writer.object_fields(&ids, &[Field::new("mass", mass)]).unwrap();
    });
    (folder, store)
}

/// Creates a store of three points in a temporary folder: two of object 0, and one without an object.
fn points() -> (tempfile::TempDir, PathBuf) {
    let folder = archives::scratch();
    let store = folder.path().join("store.zarrvectors");
    let bytes: Vec<u8> = [0.5_f32; 6].iter().flat_map(|x| x.to_le_bytes()).collect();
    let places = Column::new("float32".parse::<Dtype>().unwrap(), 2, bytes.into()).unwrap();
    let owners = vec![Some(ObjectId(0)), Some(ObjectId(0)), None];
    let batch = Batch::new(Kind::PointCloud, places).with_vertex_objects(owners).unwrap();
    write(&store, &batch, |_writer| {});
    (folder, store)
}

/// Creates a store of points at these whole numbers, in a temporary folder.
fn whole_points(at: &[i64]) -> (tempfile::TempDir, PathBuf) {
    let folder = archives::scratch();
    let store = folder.path().join("store.zarrvectors");
    let bytes: Vec<u8> = at.iter().flat_map(|x| [*x, 0]).flat_map(i64::to_le_bytes).collect();
    let places = Column::new(Dtype::INT64, 2, bytes.into()).unwrap();
    write(&store, &Batch::new(Kind::PointCloud, places), |_writer| {});
    (folder, store)
}

/// Returns the schema of a kind, with two axes and chunks of 10.
fn schema(kind: Kind) -> Schema {
    let chunk = ChunkShape::new(&[10.0, 10.0]).unwrap();
    Schema::new(kind, Axis::spatial(2).unwrap(), chunk).unwrap()
}

fn write(store: &Path, batch: &Batch, push_more: impl FnOnce(&mut Writer)) {
    write_as(store, schema(batch.kind()), batch, push_more);
}

fn write_as(store: &Path, schema: Schema, batch: &Batch, push_more: impl FnOnce(&mut Writer)) {
    let mut options = WriteOptions::default();
    options.build.sync = false;
    let mut writer = block_on(Writer::create(store.to_str().unwrap(), schema, options)).unwrap();
    writer.push(batch).unwrap();
    push_more(&mut writer);
    block_on(writer.finish()).unwrap();
}

fn add_level(store: &Path, options: Options) {
    let method = Some(Method::Simplify);
    let options = Options { levels: Some(1), method, size: Some(3.0), chunk_scale: 1, ..options };
    let build_options = BuildOptions { replace: true, sync: false, ..BuildOptions::default() };
    let levels = block_on(build(store.to_str().unwrap(), &options, &build_options, |_level| {}));
    assert_eq!(levels.unwrap().len(), 1);
}

/// Reads the owners of all fragments of a level, chunk by chunk.
fn owners(store: &Path, level: u32) -> Vec<i64> {
    let snap = begin(store).snap;
    let path = format!("{level}/fragment_attributes/object_id");
    let column = CellArray::open(&snap, &path).unwrap().expect("levels say whose fragments are");
    let cells = column.chunks().into_iter().map(|chunk| column.read(&chunk).unwrap());
    let bytes: Vec<u8> = cells.flatten().flatten().collect();
    bytes.chunks_exact(8).map(|row| i64::from_le_bytes(row.try_into().unwrap())).collect()
}

fn renumber(store: &Path) -> Result<Json, crate::EditError> {
    gc(store, Collect { renumber: true, ..GC })
}

#[test]
fn renumbering_distinguishes_owners_with_ids_beyond_f64() {
    let (_folder, store) = polylines(&[LARGE_ID + 2, 5, LARGE_ID + 1, LARGE_ID]);
    add_level(&store, Options::default());
    let before = [LARGE_ID + 2, 5, LARGE_ID + 1, LARGE_ID];
    assert_eq!([owners(&store, 0), owners(&store, 1)], [before, before]);
    renumber(&store).unwrap();
    let after = [3, 0, 2, 1];
    assert_eq!([owners(&store, 0), owners(&store, 1)], [after, after]);
    let ids: Vec<Option<i64>> = positions(&store).into_keys().collect();
    assert_eq!(ids, [0, 1, 2, 3].map(Some));
    assert_eq!(positions(&store)[&Some(3)][0], [1.0, 1.0]);
}

#[test]
fn renumbering_distinguishes_sources_with_ids_beyond_f64() {
    let (_folder, store) = polylines(&[LARGE_ID + 2, 5, LARGE_ID + 1, LARGE_ID]);
    add_level(&store, Options { renumber: true, ..Options::default() });
    let sources = || {
        let snap = begin(&store).snap;
        let column = open_row_column(&snap, "1/object_attributes", "source_id").unwrap().unwrap();
        let rows = column.array.bytes.now.chunks_exact(8);
        rows.map(|row| i64::from_le_bytes(row.try_into().unwrap())).collect::<Vec<_>>()
    };
    assert_eq!(sources(), [5, LARGE_ID, LARGE_ID + 1, LARGE_ID + 2]);
    renumber(&store).unwrap();
    assert_eq!(sources(), [0, 1, 2, 3]);
}

#[test]
fn refuses_ids_that_a_type_does_not_hold_exactly() {
    let exact = 1 << 24; // the last id before `float32` has gaps
    for (name, id, is_held) in [
        ("int64", i64::MAX, true),
        ("uint64", LARGE_ID + 1, true),
        ("float64", LARGE_ID, true),
        ("float64", LARGE_ID + 1, false),
        ("float64", i64::MAX, false),
        ("float32", exact, true),
        ("float32", exact + 1, false),
        ("int8", 128, false),
        ("uint32", -1, false),
    ] {
        let scalar = Scalar::parse(name).unwrap().0;
        let bytes = scalar.encode_id(id);
        assert_eq!(bytes.is_ok(), is_held, "{scalar:?} {id}");
        assert!(bytes.is_err() || scalar.to_i64(&bytes.unwrap()) == Some(id), "{scalar:?} {id}");
    }
    for (name, bytes) in [
        ("float64", f64::NAN.to_le_bytes()),
        ("float64", 0.5_f64.to_le_bytes()),
        ("float64", 9_223_372_036_854_775_808.0_f64.to_le_bytes()),
        ("uint64", u64::MAX.to_le_bytes()),
    ] {
        let scalar = Scalar::parse(name).unwrap().0;
        assert_eq!(scalar.to_i64(&bytes), None, "{scalar:?} {bytes:?}");
    }
}

/// Appends a table to a store.
fn append(store: &Path, table: &str) -> Result<Json, crate::EditError> {
    let file = store.parent().unwrap().join("table.csv");
    std::fs::write(&file, table).unwrap();
    run(store, &[json!({"op": "append", "file": file, "object": "object"})])
}

#[test]
fn what_is_appended_is_held_chunk_by_chunk() {
    let points = ["bins", "basic", "sharded_zstd", "pyramid_explicit", "pyramid_scaled"];
    let points = points.map(|id| format!("pc{}_{id}", if id == "bins" { 2 } else { 3 }));
    let chains = ["pl2_negative", "sl3_streamlines", "sl3_sharded_blosc"];
    for id in points.iter().map(String::as_str).chain(chains) {
        let stores = [(); 3].map(|()| Unpacked::new(id));
        let [by_chunk, by_number, merged] = stores.each_ref().map(Unpacked::path);
        let kind = &begin(by_chunk).kinds[0];
        let columns = kind.columns.iter().map(|column| column.name.as_str());
        let names: Vec<&str> =
            ["x", "y", "z"][..kind.axes].iter().copied().chain(columns).collect();
        let mut table = names.join(",") + ",object\n";
        let before = positions(by_chunk);
        for (object, vertices) in &before {
            let object = object.map(|id| id.to_string()).unwrap_or_default();
            for position in vertices {
                let values = position.iter().map(|x| x * 1.5 + 30.0).chain(std::iter::repeat(1.0));
                let values: Vec<String> = values.take(names.len()).map(|x| x.to_string()).collect();
                table += &format!("{},{object}\n", values.join(","));
            }
        }
        if before.keys().all(Option::is_none) {
            table = table.replace(",object\n", "\n").replace(",\n", "\n");
        }
        let line = json!({"op": "append", "file": by_chunk.parent().unwrap().join("table.csv")});
        std::fs::write(line["file"].as_str().unwrap(), table).unwrap();
        let mut transaction = begin(by_chunk);
        transaction.apply(&line).unwrap();
        transaction.plan(&crate::CommitOptions::default()).unwrap();
        assert!(transaction.kinds[0].vertex.list.is_empty(), "{id}");
        run(by_chunk, std::slice::from_ref(&line)).unwrap();
        run(by_number, &[line, move_all(by_number, 0.0)]).unwrap();
        assert_eq!(tree(by_chunk), tree(by_number), "{id}");
        let next = begin(merged).next_id;
        let mut expected = positions(merged);
        for (object, vertices) in positions(by_number) {
            expected.entry(object.map(|id| id + next)).or_default().extend(vertices);
        }
        if let Some(free) = expected.get_mut(&None) {
            free.sort_by(|a, b| a.partial_cmp(b).unwrap());
        }
        join(merged, by_number).unwrap();
        assert_eq!(positions(merged), expected, "{id}");
    }
}

#[test]
fn appended_points_without_an_object_stay_without_one() {
    let (_folder, store) = points();
    let report = append(&store, "x,y,object\n1,1,\n2,2,0\n3,3,4\n4,4,\n").unwrap();
    assert_eq!(report["commits"][0]["objects"]["added"], json!([1, 5]));
    let after = positions(&store);
    assert_eq!(after[&Some(0)], [[0.5, 0.5], [0.5, 0.5]]);
    assert_eq!(after[&Some(1)], [[2.0, 2.0]]);
    assert_eq!(after[&Some(5)], [[3.0, 3.0]]);
    assert_eq!(after[&None], [[0.5, 0.5], [1.0, 1.0], [4.0, 4.0]]);
    let above = json!({"op": "vertex.remove", "vertices": {"where": "x > 2.5 and y > 3.5"}});
    let report = run(store.as_path(), &[above]).unwrap(); // axes are columns
    assert_eq!(report["commits"][0]["vertices"]["removed"], 1);
}

#[test]
fn append_shifts_negative_ids_and_refuses_ids_beyond_64_bits() {
    let (_folder, store) = polylines(&[0, 1]);
    let report = append(&store, "x,y,object\n1,1,-2\n2,2,-2\n3,3,1\n4,4,1\n").unwrap();
    assert_eq!(report["commits"][0]["objects"]["added"], json!([2, 5]));
    let table = "x,y,object\n1,1,9223372036854775807\n2,2,9223372036854775807\n";
    assert_fails(append(&store, table), Class::Overflow);
}

#[test]
fn refuses_references_beyond_the_limits() {
    let mut builder = ManifestBuilder::new(2).unwrap();
    builder.push_single(&[0, 0], (1 << 32) + 3).unwrap();
    assert_fails(read_references(&builder.encode(), 2), Class::OutOfBounds);
    let mut builder = ManifestBuilder::new(2).unwrap();
    builder.push_range(&[0, 0], 0, 1 << 62).unwrap();
    assert_fails(read_references(&builder.encode(), 2), Class::LimitExceeded);
    let mut builder = ManifestBuilder::new(2).unwrap();
    builder.push_single(&[1, -1], u64::from(u32::MAX)).unwrap();
    let found = read_references(&builder.encode(), 2).unwrap();
    assert_eq!(found, [(vec![1, -1], u32::MAX)]);
}

/// Returns the class of the error with which an edit of a store is refused.
fn refusal_class(store: &Path) -> Class {
    let before = archives::tree(store);
    let line = json!({"op": "object.remove", "objects": [0]});
    let error = run(store, &[line]).unwrap_err();
    assert!(archives::tree(store) == before, "{error}");
    error.class
}

#[test]
fn refuses_malformed_numbers_in_documents() {
    for malformed in [json!("3"), json!(-3), json!(2.5)] {
        for (id, path, name) in [
            ("ms3_tri", "0/links/0", "link_width"),
            ("ms3_tri", "0/links/0", "sid_ndim"),
            ("pl2_negative", "0/object_index", "num_objects"),
            ("pl2_negative", "0/object_index", "sid_ndim"),
            ("pl2_negative", "0/vertices", "chunk_grid_origin"),
        ] {
            let store = Unpacked::new(id);
            change_document(store.path(), path, |doc| doc["attributes"][name] = malformed.clone());
            assert_eq!(refusal_class(store.path()), Class::Encoding, "{id} {name} {malformed}");
        }
    }
}

#[test]
fn refuses_arrays_whose_chunks_have_other_names() {
    for array in ["0/vertices", "0/object_index/object_ids", "0/object_index/manifests"] {
        let store = Unpacked::new("pl2_negative");
        let names = json!({"name": "default", "configuration": {"separator": "."}});
        change_document(store.path(), array, |doc| doc["chunk_key_encoding"] = names);
        assert_eq!(refusal_class(store.path()), Class::Unsupported, "{array}");
    }
}

#[test]
fn refuses_a_malformed_next_id() {
    for malformed in [json!("7"), json!(1_u64 << 63), json!(7.5)] {
        let store = Unpacked::new("pl2_negative");
        let zvf = json!({"next_id": malformed});
        change_document(store.path(), "", |doc| doc["attributes"]["zvf"] = zvf);
        assert_eq!(refusal_class(store.path()), Class::Encoding, "{malformed}");
    }
}

#[test]
fn refuses_object_columns_with_malformed_width() {
    let (_folder, store) = polylines(&[0, 1]);
    let path = "0/object_attributes/mass";
    for malformed in [json!([2, 1_u64 << 32]), json!([2, -1]), json!([2, 1, 1]), json!("2")] {
        change_document(&store, path, |doc| doc["shape"] = malformed.clone());
        let snap = Snapshot::open(&open(&store)).unwrap();
        let error = open_row_column(&snap, "0/object_attributes", "mass").unwrap_err();
        let classes = [Class::BadShape, Class::BadTag, Class::Negative];
        assert!(classes.contains(&error.class), "{malformed} {error}");
    }
}

#[test]
fn a_snapshot_has_no_array_of_a_later_commit() {
    let (_folder, store) = polylines(&[0, 1]);
    let before = positions(&store);
    let [early, late] = [(); 2].map(|()| Snapshot::open(&open(&store)).unwrap());
    let add = |name: &str| json!({"op": "column.add", "name": name, "dtype": "float32"});
    let line = [[1.0, 1.0], [1.0, 12.0], [1.0, 31.0]];
    let line = json!({"op": "object.add", "positions": line, "attributes": {"heat": [1, 2, 3]}});
    let arrays = || archives::tree(&store).into_keys().filter(|key| key.ends_with("zarr.json"));
    let first = arrays().count();
    run(&store, &[add("heat"), line]).unwrap();
    assert!(arrays().count() > first + 2, "a column and a family of links");
    for snap in [early, late] {
        assert_eq!(positions_of(Transaction::begin_on(snap).unwrap()), before);
    }
}

#[test]
fn refuses_objects_without_an_id() {
    let (_folder, store) = polylines(&[LARGE_ID, LARGE_ID + 1]);
    change_document(&store, "0/object_index/object_ids", |doc| doc["shape"] = json!([1]));
    assert_eq!(refusal_class(&store), Class::CountMismatch);
}

#[test]
fn whole_positions_beyond_f64_are_exact_or_refused() {
    let (folder, store) = whole_points(&[LARGE_ID + 1]);
    let expect = |store: &Path, at: &[i64]| {
        let positions: Vec<[i64; 2]> = at.iter().map(|x| [*x, 0]).collect();
        let line = json!({"op": "expect", "vertices": {"all": true}, "positions": positions});
        run(store, &[line])
    };
    expect(&store, &[LARGE_ID + 1]).unwrap();
    assert!(expect(&store, &[LARGE_ID]).is_err());
    run(&store, &[json!({"op": "vertex.add", "positions": [[LARGE_ID + 3, 0]]})]).unwrap();
    let mut npy = b"\x93NUMPY\x01\0\x76\0".to_vec();
    npy.extend(
        format!("{:<117}\n", "{'descr': '<i8', 'fortran_order': False, 'shape': (1, 2), }").bytes(),
    );
    npy.extend([LARGE_ID + 5, 0].map(i64::to_le_bytes).concat());
    std::fs::write(folder.path().join("more.npy"), npy).unwrap();
    let file = folder.path().join("more.npy");
    run(&store, &[json!({"op": "append", "file": file})]).unwrap();
    let (_other, source) = whole_points(&[LARGE_ID + 7]);
    join(&store, &source).unwrap();
    let all = [1, 3, 5, 7].map(|n| LARGE_ID + n);
    expect(&store, &all).unwrap();
    for sum in [json!({"by": [-LARGE_ID, 0]}), json!({"affine": {"matrix": [[1, 0], [0, 1]]}})] {
        let mut line = sum.clone();
        (line["op"], line["vertices"]) = (json!("vertex.move"), json!({"all": true}));
        let error = run(&store, &[line]).unwrap_err();
        assert_eq!(error.class, Class::InvalidArgument, "{sum}: {error}");
    }
    let to = json!({"op": "vertex.move", "vertices": {"all": true}, "to": [LARGE_ID + 9, 0]});
    run(&store, &[to]).unwrap();
    expect(&store, &[LARGE_ID + 9; 4]).unwrap();
}

#[test]
fn text_of_the_other_byte_order_is_read_and_written_by_character() {
    let (_folder, store) = polylines(&[0, 1]);
    let column = "0/object_attributes/word";
    let big = |text: &str| -> Vec<u8> {
        let mut bytes: Vec<u8> =
            text.chars().flat_map(|c| u32::from(c).swap_bytes().to_le_bytes()).collect();
        bytes.resize(12, 0);
        bytes
    };
    let path = store.join(column);
    std::fs::create_dir_all(path.join("c")).unwrap();
    std::fs::write(path.join("c/0"), [big("ab"), big("xyz")].concat()).unwrap();
    let doc = json!({
        "shape": [2], "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2]}},
        "data_type": {"name": "fixed_length_utf32", "configuration": {"length_bytes": 12}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "codecs": [{"name": "bytes", "configuration": {"endian": "big"}}], "fill_value": "",
        "attributes": {"name": "word", "dtype": "<U3", "zv_array": "object_attribute", "shape": [2]},
        "zarr_format": 3, "node_type": "array", "storage_transformers": [],
    });
    std::fs::write(path.join("zarr.json"), doc.to_string()).unwrap();
    let lines = [
        json!({"op": "expect", "object": 0, "values": {"word": "ab"}}),
        json!({"op": "object.set", "objects": [1], "values": {"word": "c"}}),
    ];
    run(&store, &lines).unwrap();
    assert_eq!(std::fs::read(path.join("c/0")).unwrap(), [big("ab"), big("c")].concat());
}

#[test]
fn a_branch_of_a_tree_without_branches_keeps_its_parent() {
    let folder = archives::scratch();
    let store = folder.path().join("store.zarrvectors");
    let at: Vec<u8> = [1.0_f32, 1.0, 2.0, 1.0, 3.0, 1.0].map(f32::to_le_bytes).concat();
    let places = Column::new(Dtype::FLOAT32, 2, at.into()).unwrap();
    let edges = zvf_model::Elements::new(2, vec![1, 0, 2, 1]).unwrap();
    let batch = Batch::new(Kind::Skeleton, places).with_vertex_objects(vec![Some(ObjectId(0)); 3]);
    write(&store, &batch.unwrap().with_elements(edges).unwrap(), |_| ());
    let (_, links) = (tree(&store), store.join("0/links"));
    if links.exists() {
        std::fs::remove_dir_all(links).unwrap(); // there need not be any
    }
    let branch = json!({"op": "vertex.add", "object": 0, "positions": [[2.0, 2.0]], "parents": [{"index": 0}]});
    run(&store, &[branch]).unwrap();
    let mut transaction = begin(&store);
    let geometry = &mut transaction.kinds[0];
    let vertices = geometry.all_vertices().unwrap();
    let parent = |v: u32| vertices.iter().position(|p| *p == geometry.vertex[v].parent);
    let parents: Vec<_> = vertices.iter().map(|v| parent(*v)).collect();
    assert_eq!(parents, [None, Some(0), Some(1), Some(0)]);
}

#[test]
fn new_categories_are_listed_for_links_and_fragments() {
    let folder = archives::scratch();
    let store = folder.path().join("store.zarrvectors");
    // The second edge crosses chunks, so that there are two arrays.
    let at: Vec<u8> = [1.0_f32, 1.0, 2.0, 1.0, 13.0, 1.0].map(f32::to_le_bytes).concat();
    let places = Column::new(Dtype::FLOAT32, 2, at.into()).unwrap();
    let codes = Column::new("uint8".parse::<Dtype>().unwrap(), 1, vec![0, 1].into()).unwrap();
    let sort = Categories::new(vec![Value::from("a"), Value::from("b")], None);
    let nodes = Batch::new(Kind::Graph, places).with_vertex_objects(vec![Some(ObjectId(0)); 3]);
    let nodes = nodes.unwrap();
    let edges = zvf_model::Elements::new(2, vec![0, 1, 1, 2]).unwrap();
    let edges = edges.with_field(Field::new("sort", codes).with_categories(sort)).unwrap();
    write(&store, &nodes.clone().with_elements(edges).unwrap(), |_writer| {});
    let ends = [0, 1].map(|n| json!({"object": 0, "index": n}));
    run(&store, &[json!({"op": "link.set", "links": [ends], "values": {"sort": "c"}})]).unwrap();
    let read = |store: &Path, name: &str| -> Vec<Json> {
        let is_array = |key: &String| key.starts_with("0/link_attributes/sort/0/");
        let keys = archives::tree(store).into_keys().filter(is_array);
        let arrays = keys.filter_map(|key| key.strip_suffix("/zarr.json").map(str::to_owned));
        let values = arrays.map(|array| document(store, &array)["attributes"][name].clone());
        values.filter(|value| !value.is_null()).collect()
    };
    assert_eq!(read(&store, "categories"), vec![json!(["a", "b", "c"]); 2]);

    // A column keeps its type while there are no links.
    let store = folder.path().join("bare.zarrvectors");
    write(&store, &nodes, |_writer| {});
    let mut column = json!({"op": "column.add", "scope": "link", "name": "sort"});
    (column["dtype"], column["fill"]) = (json!("uint64"), json!(0));
    run(&store, &[column]).unwrap();
    let column = json!({"sort": [u64::MAX - 1]});
    run(&store, &[json!({"op": "link.add", "links": [ends], "attributes": column})]).unwrap();
    assert_eq!(read(&store, "dtype"), ["uint64"]);

    let store = Unpacked::new("sl3_streamlines");
    let mut column = json!({"op": "column.add", "scope": "fragment", "name": "sort"});
    (column["dtype"], column["fill"]) = (json!("uint8"), json!(0));
    run(store.path(), &[column]).unwrap();
    let array = "0/fragment_attributes/sort";
    change_document(store.path(), array, |doc| {
        doc["attributes"]["encoding"] = json!("dictionary");
        doc["attributes"]["categories"] = json!(["a"]);
    });
    let set = json!({"op": "fragment.set", "object": 0, "index": 0, "values": {"sort": "b"}});
    run(Place::from(store.path()).with_foreign_accepted(), &[set]).unwrap();
    assert_eq!(document(store.path(), array)["attributes"]["categories"], json!(["a", "b"]));
}

#[test]
fn a_copy_has_the_lines_of_its_original() {
    let folder = archives::scratch();
    let store = folder.path().join("store.zarrvectors");
    let at: Vec<u8> = (0..12).flat_map(|n| f32::from(n as u8 + 1).to_le_bytes()).collect();
    let places = Column::new(Dtype::FLOAT32, 2, at.into()).unwrap();
    let parts = Parts::new(vec![0, 2, 6], vec![ObjectId(0); 2]).unwrap();
    write(&store, &Batch::new(Kind::Polyline, places).with_parts(parts).unwrap(), |_writer| {});
    run(&store, &[json!({"op": "object.copy", "object": 0, "by": [20, 20]})]).unwrap();
    let geometry = &begin(&store).kinds[0];
    let starts = [0, 1].map(|id| geometry.line_starts(geometry.find_object(id).unwrap()).unwrap());
    assert!(starts[0].len() == 1 && starts[0] == starts[1], "{starts:?}");
    let column =
        json!({"op": "column.add", "scope": "object", "name": "b", "dtype": "bool", "fill": true});
    let copy = json!({"op": "object.copy", "object": 0, "id": 5});
    // The copy has its values already.
    let replace = json!({"op": "object.replace", "id": 5, "positions": [[1, 1], [2, 2]]});
    run(&store, &[column, copy, replace]).unwrap();
}

#[test]
fn links_with_a_direction_are_not_joined_with_links_without_one() {
    let folder = archives::scratch();
    let [plain, directed] = ["plain", "directed"].map(|name| folder.path().join(name));
    let at: Vec<u8> = [1.0_f32, 1.0, 2.0, 1.0].map(f32::to_le_bytes).concat();
    let places = Column::new(Dtype::FLOAT32, 2, at.into()).unwrap();
    let edges = zvf_model::Elements::new(2, vec![1, 0]).unwrap();
    let batch = Batch::new(Kind::Graph, places).with_vertex_objects(vec![Some(ObjectId(0)); 2]);
    let batch = batch.unwrap().with_elements(edges).unwrap();
    write(&plain, &batch, |_writer| {});
    write_as(&directed, schema(Kind::Graph).with_directed_links(), &batch, |_writer| {});
    for (into, from) in [(&plain, &directed), (&directed, &plain)] {
        assert_fails(join(into, from), Class::InvalidArgument);
    }
    join(&directed, &directed).unwrap();
}

#[test]
fn what_is_new_has_no_value_of_a_column_of_the_same_transaction() {
    let column = |scope: &str| json!({"op": "column.add", "scope": scope, "name": "w", "dtype": "float64", "fill": 3});
    let [child, parent] = [1, 0].map(|object| json!({"object": object, "index": 0}));
    let lines = [
        column("link"),
        column("fragment"),
        json!({"op": "object.merge", "objects": [0, 1], "child": child, "parent": parent}),
        json!({"op": "object.add", "positions": [[1, 2, 3]], "attributes": {"swc_type": [1]}, "parents": [null]}),
    ];
    let [once, apart] = ["sk3_trees"; 2].map(Unpacked::new);
    run(once.path(), &lines).unwrap();
    lines.into_iter().for_each(|line| drop(run(apart.path(), &[line]).unwrap()));
    let values = |store: &Unpacked| {
        let geometry = &mut begin(store.path()).kinds[0];
        geometry.load_all_links().unwrap();
        let links = &geometry.links.records;
        let mut values = Vec::from_iter(links.numbers().map(|link| links.value(link, 0).to_vec()));
        values.sort_unstable();
        let mut cells = tree(store.path());
        cells.retain(|key, _| key.starts_with("0/fragment_attributes/w/c/"));
        assert!(values.len() > 1 && !cells.is_empty());
        (values, cells)
    };
    assert_eq!(values(&once), values(&apart));
}
