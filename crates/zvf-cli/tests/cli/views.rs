//! `zvf info`, `ls`, `cell`, `object`, `group` and `blob`: as text and as JSON, in every layout
//! family.

use crate::stores::{Folder, check_has, done, store, zvf};

#[test]
fn info_describes_every_layout_family() {
    for (id, version, family, vertices) in [
        ("sl3_streamlines", "0.9.2", "C", 467),
        ("v070_sl3_pyramid", "0.7.0", "A", 214),
        ("v060_gr3", "0.6.0", "A", 70),
        ("v080_gr3_edges", "0.8.0", "B0", 64),
    ] {
        let store = store(id);
        let text = zvf(&["info", "--full", store.arg()]).clean();
        assert!(
            text.contains(&format!("format      {version}\n  layout      family {family}\n")),
            "{text}"
        );
        let json = zvf(&["info", "--json", store.arg()]).json();
        assert_eq!(json["version"], version, "{id}");
        assert_eq!(json["levels"][0]["vertices"], vertices, "{id}");
        assert_eq!(json["levels"][0]["fault"], serde_json::Value::Null, "{id}");
        let (files, bytes) = size(&store.path);
        assert_eq!(json["stored"], serde_json::json!({"objects": files, "bytes": bytes}), "{id}");
    }
}

/// Returns the number of files below a folder, and their bytes.
fn size(folder: &std::path::Path) -> (u64, u64) {
    let (mut files, mut bytes) = (0, 0);
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let (count, length) = match entry.file_type().unwrap().is_dir() {
            true => size(&entry.path()),
            false => (1, entry.metadata().unwrap().len()),
        };
        files += count;
        bytes += length;
    }
    (files, bytes)
}

#[test]
fn info_sums_up_the_values_of_attributes() {
    let folder = Folder::new();
    let (file, store) = (folder.at("points.csv"), folder.at("points.zarrvectors"));
    std::fs::write(&file, "x,y,big,n\n0,0,1e308,-3\n1,0,nan,4\n0,1,-1e-300,5\n").unwrap();
    zvf(&["create", "-q", &file, &store]).clean();
    let json = zvf(&["info", "--stats", "--json", &store]).json();
    assert_eq!(
        json["stats"],
        serde_json::json!([{"kind": "point_cloud", "attributes": [
            {"scope": "vertex", "name": "big", "values": 3, "nulls": 0, "nans": 1, "min": -1e-300,
             "max": 1e308, "mean": 5e307},
            {"scope": "vertex", "name": "n", "values": 3, "nulls": 0, "nans": 0, "min": -3, "max": 5,
             "mean": 2.0},
        ]}])
    );
    let text = zvf(&["info", "--stats", &store]).clean();
    assert!(text.lines().all(|line| line.len() < 120), "{text}");
    assert!(text.contains("\nvalues of point_cloud, level 0\n"), "{text}");
    let csv = zvf(&["query", &store, "--where", "-3 = n"]).clean();
    assert_eq!(csv, "x,y,big,n\n0,0,1e308,-3\n");
    assert_eq!(zvf(&["info", "--json", &store]).json()["stats"], serde_json::Value::Null);
    let streamlines = crate::stores::store("sl3_streamlines");
    let json = zvf(&["info", "--stats", "--json", streamlines.arg()]).json();
    let object = &json["stats"][0]["attributes"][2];
    assert_eq!((&object["scope"], &object["name"]), (&"object".into(), &"mean".into()));
    assert_eq!(object["values"], 24);
}

#[test]
fn info_counts_attributes_links_objects_and_groups() {
    let streamlines = store("sl3_streamlines");
    let json = zvf(&["info", "--json", "--fast", streamlines.arg()]).json();
    let level = &json["levels"][0];
    assert_eq!(
        (&level["objects"], &level["groups"], &level["chunks"]),
        (&24.into(), &3.into(), &56.into())
    );
    assert_eq!(json["stored"], serde_json::Value::Null, "not listed");
    let tri = &level["attributes"][3];
    assert_eq!(
        (&tri["scope"], &tri["name"], &tri["width"]),
        (&"object".into(), &"tri".into(), &3.into())
    );
    let text = zvf(&["info", "--full", store("ms3_tri").arg()]).clean();
    assert!(text.contains("links within the level, 3 vertices each, in 15 arrays"), "{text}");
}

#[test]
fn ls_lists_arrays_with_chunks_and_sizes() {
    let basic = store("pc3_basic");
    let text = zvf(&["inspect", "arrays", basic.arg()]).clean();
    assert!(text.starts_with("array"), "{text}");
    assert!(text.ends_with("7 KiB\n") || text.ends_with(" B\n"), "{text}");
    let json = zvf(&["inspect", "arrays", "--json", basic.arg(), "0/vertices/"]).json();
    assert_eq!((&json["complete"], &json["arrays"][0]["chunks"]), (&true.into(), &8.into()));
    assert_eq!(json["arrays"].as_array().unwrap().len(), 1);

    let old = store("v070_sl3_pyramid");
    let json = zvf(&["inspect", "arrays", "--json", old.arg(), "0/vertices"]).json();
    let vertices = &json["arrays"][0];
    assert_eq!((&vertices["path"], &vertices["chunks"]), (&"0/vertices".into(), &30.into()));
    assert_eq!(
        (&vertices["shape"], &vertices["data_type"]),
        (&serde_json::Value::Null, &"uint8".into())
    );

    let error = zvf(&["inspect", "arrays", basic.arg(), "1"]).refused(2);
    assert_eq!(error, "zvf: no array lies below \"1\"; leave the path out to see all");
}

#[test]
fn cell_shows_fragments_links_and_rows() {
    let mesh = store("ms3_tri");
    let text = zvf(&["inspect", "cells", mesh.arg(), "0.0.0", "--rows", "2"]).clean();
    for part in [
        "chunk 0.0.0: 14 rows, 1 fragment",
        "0: rows 0..14",
        "links in 0/links/0/0.0.0_0.0.0: ",
        "row  position",
        "and 12 more rows: see --limit",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    let json = zvf(&["inspect", "cells", "--json", mesh.arg(), "0.0.0", "--rows", "2"]).json();
    assert_eq!((&json["rows"], json["vertices"].as_array().unwrap().len()), (&14.into(), 2));
    assert_eq!(json["vertices"][0]["attributes"]["normal"].as_array().unwrap().len(), 3);
    assert!(json["links"][0]["records"].as_u64().unwrap() > 0);
    let error = zvf(&["inspect", "cells", mesh.arg(), "9.9.9"]).refused(4);
    assert!(error.ends_with("; the level has 15 chunks, from 0.0.0"), "{error}");
    let error = zvf(&["inspect", "cells", mesh.arg(), "a.b"]).refused(2);
    assert!(error.starts_with("zvf: in chunk key"), "{error}");
    let negative = store("pl2_negative");
    let chunks = zvf(&["inspect", "arrays", "--json", negative.arg(), "0/vertices"]).json();
    assert!(chunks["arrays"][0]["chunks"].as_u64().unwrap() > 0);
    assert!(
        zvf(&["inspect", "cells", negative.arg(), "-1.-1"]).code <= 4,
        "a key may start with a dash"
    );
}

#[test]
fn shows_objects_by_row_and_by_id() {
    let store = store("sl3_streamlines");
    let text = zvf(&["inspect", "objects", store.arg(), "--limit", "5"]).clean();
    assert!(text.ends_with("and 19 more: see --limit\n"), "{text}");
    let json = zvf(&["inspect", "objects", "--json", store.arg(), "7,2"]).json();
    assert_eq!((&json[0]["id"], &json[1]["id"]), (&7.into(), &2.into()));
    assert_eq!((&json[0]["fragments"], &json[0]["chunks"]), (&15.into(), &7.into()));
    assert_eq!(json[0]["bounds"], serde_json::json!([[-100.0, 100.0, 0.0], [100.0, 400.0, 300.0]]));
    assert_eq!(json[0]["attributes"]["tri"], serde_json::json!([39, 91, 21]));
    let error = zvf(&["inspect", "objects", store.arg(), "70"]).refused(4);
    assert!(
        error.ends_with("; did you mean 23? the level has 24 objects, from 0 to 23"),
        "{error}"
    );
    let points = crate::stores::store("pc3_basic");
    assert_eq!(zvf(&["inspect", "objects", points.arg()]).clean(), "the level has no objects\n");
    zvf(&["inspect", "objects", points.arg(), "0"])
        .refused_with(2, "expected a level with objects, found none");
}

#[test]
fn shows_groups_by_number_and_by_name() {
    let store = store("sl3_streamlines");
    let text = zvf(&["inspect", "groups", store.arg()]).clean();
    assert_eq!(text.lines().count(), 4, "{text}");
    let json =
        zvf(&["inspect", "groups", "--json", store.arg(), "group_1", "2", "--limit", "2"]).json();
    assert_eq!((&json[0]["members"], &json[0]["ids"]), (&8.into(), &serde_json::json!([1, 4])));
    assert_eq!((&json[1]["members"], &json[1]["attributes"]["score"]), (&0.into(), &2.0.into()));
    let error = zvf(&["inspect", "groups", store.arg(), "nope"]).refused(2);
    assert!(error.ends_with("; there are 3, such as group_0, group_1, group_2"), "{error}");
    let points = crate::stores::store("pc3_basic");
    assert_eq!(zvf(&["inspect", "groups", points.arg()]).clean(), "the level has no groups\n");
}

#[test]
fn blobs_are_shown_and_checked() {
    let store = store("pc3_basic");
    let chunk = store.path.join("0/vertex_fragments/c/0/0/0");
    let chunk = chunk.to_str().unwrap();
    let text = zvf(&["inspect", "blobs", "show", "--framed", chunk]).clean();
    assert!(text.starts_with("fragment_index, 44 B\n") && text.contains("0: rows 0..27"), "{text}");
    let check = ["inspect", "blobs", "check", "--framed", "--strict", chunk, "--rows"];
    done(&[&check[..], &["27"]].concat());
    let short = zvf(&[&check[..], &["26"]].concat());
    assert_eq!(short.code, 1);
    assert!(short.out.contains("fault: OutOfBounds in fragment index"), "{}", short.out);
    let text = zvf(&["inspect", "blobs", "show", "--kind", "vlen", chunk]).clean();
    assert!(text.contains("0: 44 bytes"), "{text}");
    let json = zvf(&["inspect", "blobs", "check", "--json", "--framed", chunk]).json();
    assert_eq!((&json["kind"], &json["facts"]["rows"]), (&"fragment_index".into(), &27.into()));
    let error = zvf(&["inspect", "blobs", "show", chunk]).refused(2);
    assert!(error.contains("; give --kind, one of fragment_index, manifest"), "{error}");
    zvf(&["inspect", "blobs", "check", "--kind", "manifest", "--framed", chunk])
        .refused_with(2, "axes: expected the axes of chunk keys");
    zvf(&["inspect", "blobs", "check", "--kind", "picture", chunk])
        .refused_with(2, "kind of blob: expected one of those listed, found \"picture\"");
    assert_eq!(zvf(&["inspect", "blobs", "check", "nothing.tet"]).code, 4);
}

#[test]
fn every_kind_of_blob_has_a_report() {
    let folder = tempfile::tempdir().unwrap();
    let check = |kind: &str, bytes: &[u8], args: &[&str]| {
        let file = folder.path().join(kind);
        std::fs::write(&file, bytes).unwrap();
        let file = file.to_str().unwrap();
        zvf(&[&["inspect", "blobs", "show", "--json", "--kind", kind, file], args].concat())
    };
    let valid: [(&str, &[u8], &[&str]); 6] = [
        ("manifest", b"\x01\0\0\0\x04\0\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\0", &["--axes", "1"]),
        ("ragged", b"\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x07\0", &["--item", "int16"]),
        ("link_cell", b"\0\0\0\0\x01\0\0\0", &["--item", "int32"]),
        ("vlen", b"\x01\0\0\0\x02\0\0\0ab", &[]),
        ("shard_index", &[255; 16], &["--cells", "1", "--no-checksum"]),
        ("tet", b"TETR\x01\0\0\0\0\0\0\0\0\0\0\0\x20\0\0\0\0\0\0\0\x28\0\0\0\0\0\0\0", &[]),
    ];
    for (kind, bytes, args) in valid {
        let ran = check(kind, bytes, args);
        assert!(ran.code <= 1, "{kind}: {}", ran.err);
        let report = ran.value();
        assert_eq!(report["kind"], kind);
        if kind != "tet" {
            assert_eq!(report["findings"], serde_json::json!([]), "{kind}");
        }
    }
    for kind in ["tidx", "caterva", "blosc", "fragment_index"] {
        let ran = check(kind, b"no", &[]);
        let report = ran.value();
        assert_eq!((ran.code, &report["findings"][0]["class"]), (1, &"Truncated".into()), "{kind}");
    }
}

#[test]
fn prints_completions_and_manual_pages() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        assert!(zvf(&["completions", shell]).clean().contains("zvf"), "{shell}");
    }
    assert!(zvf(&["man"]).clean().contains(".TH zvf 1"));
    assert!(zvf(&["man", "query"]).clean().contains(".TH zvf-query 1"));
    let error = zvf(&["man", "nope"]).refused(2);
    check_has(&error, "there is no subcommand \"nope\"; the subcommands are info, inspect, query");
}

#[test]
fn every_command_has_help_with_examples() {
    assert!(zvf(&["inspect", "blobs", "validate", "--help"]).clean().contains("Examples:\n  zvf "));
    assert!(zvf(&["help", "query"]).clean().contains("- inside: All vertices are inside"));
    let help = zvf(&["help"]).clean();
    assert!(help.contains("Exit codes: 0 success") && help.contains("6 conflict"), "{help}");
}
