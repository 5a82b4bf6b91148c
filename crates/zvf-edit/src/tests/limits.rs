//! Stores that state numbers at the limits of 64 bits, or more than memory holds, are refused and do not stop the program.

use archives::Unpacked;
use serde_json::json;
use zvf_format::Class;
use zvf_format::grid::BoundingBox;

use super::{assert_fails, begin, change_document, move_all, run, write_files};
use crate::Place;

#[test]
fn chunks_too_far_from_the_origin_are_refused() {
    for origin in [i64::MIN, i64::MAX] {
        let store = Unpacked::new("pl2_negative");
        let line = move_all(store.path(), 2.5);
        let before = archives::tree(store.path());
        let chunk = if origin < 0 { i64::MAX } else { i64::MIN };
        change_document(store.path(), "0/vertices", |doc| {
            let attributes = doc["attributes"].as_object_mut().unwrap();
            attributes.insert("chunk_grid_origin".into(), json!([origin, origin]));
            let keys = attributes["nonempty_chunks"].as_array_mut().unwrap();
            keys.push(json!(format!("{chunk}.{chunk}")));
        });
        let error = run(store.path(), &[line]).unwrap_err();
        assert_eq!(error.class, Class::OutOfBounds, "{error}");
        assert!(error.to_string().contains("from the origin of the grid"), "{error}");
        assert_eq!(archives::tree(store.path()).len(), before.len());
    }
}

#[test]
fn a_grid_that_does_not_fit_64_bits_is_refused() {
    for shift in [1e15, -1e15] {
        let store = Unpacked::new("pl2_negative");
        for array in ["0/vertices", "0/vertex_fragments"] {
            change_document(store.path(), array, |doc| {
                doc["shape"] = json!([i64::MAX, i64::MAX]);
            });
        }
        let mut line = move_all(store.path(), 2.5);
        line["by"] = json!([shift, shift]);
        // The grid is as large as 64 bits allow, and cannot grow in front of its origin.
        let found = run(store.path(), &[line]).map_err(|error| (error.class, error.to_string()));
        match found {
            Ok(report) => assert!(shift > 0.0 && report["changed"] == true, "{report}"),
            Err((class, text)) => {
                assert!(shift < 0.0 && text.contains("does not fit 64 bits"), "{text}");
                assert_eq!(class, Class::OutOfBounds);
            }
        }
    }
}

#[test]
fn shards_of_countless_cells_are_refused() {
    let store = Unpacked::new("pl2_negative");
    let line = move_all(store.path(), 2.5);
    change_document(store.path(), "0/vertices", |doc| {
        let codecs = doc["codecs"].take();
        let shape = vec![1_u64 << 31; 2];
        doc["chunk_grid"]["configuration"]["chunk_shape"] = json!(shape);
        doc["codecs"] = json!([{"name": "sharding_indexed", "configuration": {
            "chunk_shape": [1, 1], "codecs": codecs, "index_location": "end",
            "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}],
        }}]);
    });
    let error = run(store.path(), &[line]).unwrap_err();
    assert_eq!(error.class, Class::BadShape, "{error}");
    assert!(error.to_string().contains("expected at most 16777216 cells in one"), "{error}");
}

#[test]
fn a_chunk_that_ends_behind_its_shard_is_refused() {
    let store = Unpacked::new("pl2_negative");
    let line = move_all(store.path(), 2.5);
    change_document(store.path(), "0/vertices", |doc| {
        let codecs = doc["codecs"].take();
        doc["chunk_grid"]["configuration"]["chunk_shape"] = json!([64, 64]);
        doc["codecs"] = json!([{"name": "sharding_indexed", "configuration": {
            "chunk_shape": [1, 1], "codecs": codecs, "index_location": "end",
            "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
        }}]);
    });
    let index = [0, 1_u64 << 40].map(u64::to_le_bytes).concat().repeat(64 * 64);
    let shards = ["0/0", "0/1", "1/0", "1/1"].map(|shard| format!("0/vertices/c/{shard}"));
    write_files(store.path(), shards.map(|shard| (shard, index.clone())));
    assert_fails(run(store.path(), &[line]), Class::OutOfBounds);
}

#[test]
fn rows_that_are_declared_and_not_stored_are_refused_above_a_limit() {
    let many = 1_u64 << 40;
    for (array, shape, chunk) in [
        ("0/object_index/manifests", json!([many]), json!([many])),
        ("0/object_index/manifests", json!([many]), json!([1])),
        ("0/object_index/object_ids", json!([many]), json!([1 << 16])),
        ("0/object_attributes/mean", json!([many]), json!([1 << 16])),
        ("0/object_attributes/mean", json!([24]), json!([many])),
        ("0/object_attributes/tri", json!([24, 1 << 30]), json!([24, 1 << 30])),
        ("0/group_attributes/score", json!([many]), json!([many])),
        ("0/groups", json!([many]), json!([many])),
    ] {
        let store = Unpacked::new("sl3_streamlines");
        change_document(store.path(), array, |doc| {
            doc["shape"] = shape.clone();
            doc["chunk_grid"]["configuration"]["chunk_shape"] = chunk.clone();
        });
        // The chunks that are stored are of another length.
        for entry in std::fs::read_dir(store.path().join(array).join("c")).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                std::fs::remove_dir_all(path).unwrap();
            } else {
                std::fs::remove_file(path).unwrap();
            }
        }
        let line = json!({"op": "object.set", "object": 0, "attributes": {"mean": 1.0}});
        let error =
            run(store.path(), &[line, json!({"op": "group.remove", "group": 0})]).unwrap_err();
        let expected = [Class::LimitExceeded, Class::BadShape, Class::CountMismatch];
        assert!(expected.contains(&error.class), "{array}, {shape} in {chunk}: {error}");
        assert!(error.to_string().contains("expected"), "{array}, {shape} in {chunk}: {error}");
    }
}

#[test]
fn columns_whose_name_is_no_name_of_an_array_are_refused() {
    let store = Unpacked::new("sl3_streamlines");
    let before = archives::tree(store.path());
    for name in ["dose/mg", "..", "a\\b"] {
        let line = json!({"op": "column.add", "scope": "object", "name": name, "dtype": "int64"});
        let error = run(store.path(), &[line]).unwrap_err();
        let classes = [Class::InvalidKey, Class::InvalidArgument];
        assert!(classes.contains(&error.class), "{name}: {error}");
    }
    assert_eq!(archives::tree(store.path()), before);
}

#[test]
fn a_kind_that_is_no_text_is_refused() {
    let store = Unpacked::new("sl3_streamlines");
    change_document(store.path(), "", |doc| {
        let kinds = &mut doc["attributes"]["zarr_vectors"]["geometry_types"];
        kinds.as_array_mut().unwrap().push(json!(5));
    });
    let line = json!({"op": "object.remove", "objects": [0]});
    let error = run(store.path(), &[line]).unwrap_err();
    assert_eq!(error.class, Class::Unsupported, "{error}");
    assert!(error.message.contains("the kind 5"), "{error}");
}

#[test]
fn fragments_that_are_missing_and_ranges_that_are_none_are_refused() {
    let store = Unpacked::new("pc3_basic");
    let line = move_all(store.path(), 2.5);
    change_document(store.path(), "0/vertex_fragments", |doc| {
        doc["attributes"]["nonempty_chunks"].as_array_mut().unwrap().pop();
    });
    for result in [run(store.path(), &[line]), crate::vacuum(store.path(), false)] {
        let error = result.unwrap_err();
        assert_eq!(error.class, Class::NotFound, "{error}");
        assert!(error.message.contains("expected the fragments of"), "{error}");
    }
    for lost in ["object_index", "links/0"] {
        let store = Unpacked::new("gr3_links");
        let line = move_all(store.path(), 2.5);
        std::fs::remove_file(store.path().join(format!("0/{lost}/zarr.json"))).unwrap();
        assert_fails(run(store.path(), &[line]), Class::NotFound);
    }
    let store = Unpacked::new("sl3_streamlines");
    for range in [json!([1, 2, 3]), json!(["0", 2]), json!(7)] {
        change_document(store.path(), "0/groups", |doc| {
            doc["attributes"]["group_ranges"] = json!({"0": range});
        });
        let line = json!({"op": "group.rename", "group": 0, "name": "other"});
        let error = run(store.path(), &[line]).unwrap_err();
        assert!(error.to_string().contains("group_ranges"), "{error}");
    }
}

#[test]
fn an_edit_above_the_memory_limit_is_refused() {
    for name in ["pc3_basic", "sl3_streamlines", "gr2_f64", "ms2_tri", "sk3_trees"] {
        let store = Unpacked::new(name);
        let (lines, before) = ([move_all(store.path(), 2.5)], archives::tree(store.path()));
        let within = |bytes| Place::from(store.path()).with_memory_limit(bytes);
        let error = run(within(1000), &lines).unwrap_err();
        assert_eq!(error.class, Class::LimitExceeded, "{name}: {error}");
        assert!(error.message.contains("expected at most 1000 bytes"), "{name}: {error}");
        assert_eq!(archives::tree(store.path()), before, "{name}");
        let report = run(within(1 << 20), &lines).unwrap();
        assert_eq!(report["changed"], true, "{name}: {report}");
    }
}

#[test]
fn a_region_reads_the_chunks_that_it_meets() {
    for name in ["pc3_basic", "pl2_negative", "sl3_streamlines", "gr2_f64", "ms2_tri", "sk3_trees"]
    {
        let store = Unpacked::new(name);
        let mut whole = begin(store.path());
        let geometry = &mut whole.kinds[0];
        let all = geometry.all_vertices().unwrap();
        let mut least = usize::MAX;
        for center in all.iter().map(|v| geometry.position(*v)) {
            let corner = |by: f64| Vec::from_iter(center.iter().map(|x| x + by));
            let bbox = BoundingBox::new(&corner(-0.5), &corner(0.75)).unwrap();
            let expected = all.iter().filter(|v| bbox.contains(&geometry.position(**v)));
            let expected = expected
                .map(|v| (geometry.object_id(geometry.vertex[*v].owner), geometry.position(*v)));
            let mut part = begin(store.path());
            let selector = json!({"box": [bbox.low(), bbox.high()]});
            let found = part.select(&selector).unwrap().vertices.into_iter();
            let part = &part.kinds[0];
            let found = found.map(|v| (part.object_id(part.vertex[v].owner), part.position(v)));
            assert_eq!(Vec::from_iter(found), Vec::from_iter(expected), "{name}: {selector}");
            least = least.min(part.chunks.len());
        }
        // A single object is needed whole.
        let (chunks, objects) = (geometry.chunks.len(), geometry.objects.numbers().len());
        assert!(least < chunks || objects == 1, "{name}: {least} of {chunks}");
    }
}
