//! `zvf rewrite`: the files change, the answers do not.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::stores::{Folder, check_has, store, zvf};

/// Changes a document, and returns it.
fn change(file: &Path, edit: &dyn Fn(&mut Value)) -> Value {
    let mut document: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    edit(&mut document);
    fs::write(file, document.to_string()).unwrap();
    document
}

#[test]
fn a_sharded_and_recompressed_store_gives_the_same_answers() {
    let old = store("sl3_streamlines");
    let folder = Folder::new();
    let query = |address: &str| zvf(&["query", address, "--format", "csv"]);
    let before = query(old.arg());
    assert_eq!(before.code, 0, "{}", before.err);

    let (sharded, target) = (folder.at("sharded.zv"), folder.at("small.zv"));
    let json = zvf(&["rewrite", "--json", old.arg(), &sharded, "--shard", "4"]).json();
    assert!(json["objects"].as_u64().unwrap() < json["cells"].as_u64().unwrap(), "{json}");
    assert_eq!(query(&sharded).out, before.out);

    let args = ["rewrite", &sharded, &target, "--codec", "blosc:9", "--block-size", "4KiB"];
    let text = zvf(&args).clean();
    assert!(text.starts_with(&target) && text.ends_with("copied unchanged\n"), "{text}");
    assert_eq!(query(&target).out, before.out);
    let listed = zvf(&["inspect", "arrays", &target, "0/vertices"]).clean();
    assert!(listed.contains("shards of") && listed.contains("blosc"), "{listed}");

    let refused = zvf(&["rewrite", "--shard", "8", old.arg(), &target]).refused(4);
    assert!(refused.contains("already exists; use --overwrite to replace it"), "{refused}");

    zvf(&["rewrite", "--shard", "none", "--in-place", &target]).clean();
    zvf(&["rewrite", "--in-place", &target, "--codec", "none"]).clean();
    assert_eq!(query(&target).out, before.out);
    let listed = zvf(&["inspect", "arrays", &target, "0/vertices"]).clean();
    assert!(!listed.contains("shards") && !listed.contains("blosc"), "{listed}");
    zvf(&["rewrite", "--shard", "8", "--overwrite", old.arg(), &target]).clean();
    let files: Vec<_> =
        folder.0.path().read_dir().unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(files.len(), 2, "{files:?}");
}

#[test]
fn invalid_requests_are_refused() {
    let old = store("pc3_basic");
    let new = old.path.with_file_name("new.zv");
    let new = new.to_str().unwrap();
    for (words, code, message) in [
        ("OLD NEW --codec zstd:23", 2, "expected a level from -7 to 22"),
        ("OLD NEW --codec none:1", 2, "none, zstd, gzip or blosc"),
        ("OLD NEW", 2, "nothing to change is given"),
        ("OLD NEW --checksum", 2, "--checksum needs --codec: none, zstd, gzip or blosc"),
        ("OLD NEW --codec blosc --compressor x", 2, "expected blosclz, lz4, lz4hc, zlib or zstd"),
        ("OLD NEW --codec blosc --shuffle x", 2, "expected noshuffle, shuffle or bitshuffle"),
        ("OLD NEW --shard 2,2,2,2,2", 2, "axes of a shard: expected 3, found 5"),
        ("OLD --shard 8", 2, "required"),
        ("OLD OLD/inner --codec zstd", 2, "is inside of"),
        ("OLD OLD/inner --shard 0", 2, "expected a number of cells"),
        ("nowhere NEW --shard none", 4, "cannot open nowhere"),
    ] {
        let words = words.replace("OLD", old.arg()).replace("NEW", new);
        let args: Vec<&str> = ["rewrite"].into_iter().chain(words.split(' ')).collect();
        let refused = zvf(&args).refused(code);
        assert!(refused.contains(message), "{words}: {refused}");
        assert!(!Path::new(new).exists());
    }
}

#[test]
fn declarations_of_the_root_and_of_levels_are_kept_true() {
    let old = store("pc3_basic");
    let store = old.path.with_file_name("declared.zv");
    let (arg, root, level) = (store.to_str().unwrap(), "zarr.json", "0/zarr.json");
    let change = |name: &str, edit: &dyn Fn(&mut Value)| change(&store.join(name), edit);
    let shard = |store: &Value| store["attributes"]["zarr_vectors"]["shard_shape"].clone();
    zvf(&["rewrite", old.arg(), arg, "--shard", "4"]).clean();
    assert_eq!(shard(&change(root, &|_| {})), 4);
    zvf(&["validate", arg]).clean();
    zvf(&["rewrite", "--shard", "none", "--in-place", arg]).clean();
    assert_eq!(shard(&change(root, &|_| {})), Value::Null);

    change(root, &|root| root["attributes"]["zarr_vectors"]["shard_shape"] = 3.into());
    let found = zvf(&["validate", arg]);
    assert!(found.out.contains("M23"), "{}", found.out);
    zvf(&["repair", "--in-place", arg]).clean();
    assert_eq!(shard(&change(root, &|_| {})), Value::Null);

    change(level, &|level| level["attributes"]["zarr_vectors_presence"] = "deferred".into());
    for name in ["vertices", "vertex_fragments"] {
        change(&format!("0/{name}/zarr.json"), &|array| {
            array["attributes"].as_object_mut().unwrap().remove("nonempty_chunks").unwrap();
        });
    }
    let before = zvf(&["query", arg, "--format", "csv"]).out;
    assert!(zvf(&["info", arg]).out.contains("deferred: writers still fill it"));
    let refused = zvf(&["rewrite", "--shard", "8", "--in-place", arg]);
    assert!(refused.code > 1 && refused.err.contains("--end-deferral"), "{}", refused.err);
    let left = zvf(&["repair", "--in-place", arg]);
    assert!(left.out.contains("S21"), "{}", left.out);
    assert_eq!(change(level, &|_| {})["attributes"]["zarr_vectors_presence"], "deferred");
    zvf(&["repair", "--in-place", "--end-deferral", arg]).clean();
    assert_eq!(zvf(&["query", arg, "--format", "csv"]).clean(), before);
}

#[test]
fn chunks_are_divided_anew_and_answers_stay() {
    let old = store("sl3_streamlines");
    let new = old.path.with_file_name("new.zv").to_str().unwrap().to_owned();
    let lines = |store: &str| {
        let objects = zvf(&["query", store, "--json", "--order", "objects"]).clean();
        let groups = zvf(&["inspect", "groups", store, "--json"]).json();
        (objects, groups)
    };
    let bounds = json!([[-500.0, -500.0, -500.0], [500.0, 500.0, 500.0]]);
    change(&old.path.join("zarr.json"), &|root| {
        let attributes = &mut root["attributes"];
        attributes["zarr_vectors"]["bounds"] = bounds.clone();
        attributes["lab"] = json!({"id": 7});
        attributes["user_metadata"] = json!({"scan": 1});
    });
    let before = lines(old.arg());
    zvf(&["rewrite", "-q", old.arg(), &new, "--chunk-shape", "35", "--shard", "2"]).clean();
    let root = change(&Path::new(&new).join("zarr.json"), &|_| {})["attributes"].clone();
    assert_eq!(root["zarr_vectors"]["bounds"], bounds);
    assert_eq!((&root["lab"]["id"], &root["user_metadata"]["scan"]), (&json!(7), &json!(1)));
    assert_eq!(lines(&new), before);
    zvf(&["validate", "-q", &new]).clean();
    let shape = |store: &str| zvf(&["info", "--json", store]).json()["chunk_shape"].clone();
    assert_eq!(shape(&new), serde_json::json!([35.0, 35.0, 35.0]));
    zvf(&["edit", "rm", &new, "--objects", "3"]).clean();
    // Dense indexes become blobs, which need fewer files.
    zvf(&["rewrite", "-q", &new, "--in-place", "--manifests", "dense"]).clean();
    let edited = lines(&new);
    zvf(&["rewrite", "-q", &new, "--in-place", "--chunk-shape", "90"]).clean();
    assert_eq!(lines(&new), edited);
    // What other chunks cannot hold is named, and stays where it would be lost.
    let column = |scope: &str| {
        format!(r#"{{"op":"column.add","scope":"{scope}","name":"code","dtype":"int16","fill":7}}"#)
    };
    let script = old.path.with_file_name("s.jsonl");
    let script = script.to_str().unwrap();
    fs::write(
        script,
        [column("fragment"), column("object").replace(r#","fill":7"#, "")].join("\n"),
    )
    .unwrap();
    zvf(&["edit", "-q", &new, "--script", script]).clean();
    let refused = zvf(&["rewrite", &new, "--in-place", "--chunk-shape", "80"]);
    refused.refused_with(2, "columns of fragments: code");
    let copied = zvf(&["rewrite", &new, &format!("{new}.copy"), "--chunk-shape", "80"]);
    check_has(&copied.err, "not read: columns of fragments: code");
    let points = store("lk_w3_dup_directed");
    let copied = zvf(&["rewrite", points.arg(), &format!("{new}.points"), "--chunk-shape", "75"]);
    check_has(&copied.err, "not read: links of a point_cloud with v2, w");
    let written = zvf(&["query", &new, "-o", &format!("{new}.trx")]);
    check_has(&written.err, "not read: columns of fragments: code");
    check_has(&written.err, "missing values of \"code\" are written as -32768");
    zvf(&["history", "undo", &new, "--last", "4"]).clean();
    assert_eq!((lines(&new), shape(&new)), (before, serde_json::json!([35.0, 35.0, 35.0])));
}
