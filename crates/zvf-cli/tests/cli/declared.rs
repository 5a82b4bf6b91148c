//! What stores of 0.9.3 and 0.9.4 declare, and the columns that viewers expect: every command that
//! writes keeps them true.

use std::path::Path;

use serde_json::{Value, json};

use crate::stores::{Folder, zvf};

/// What a store declares: cells per shard, whether manifests are dense, whether the columns are
/// there.
type Declared = (Value, bool, bool);

fn document(store: &str, name: &str) -> Value {
    let text = std::fs::read(Path::new(store).join(name)).unwrap();
    serde_json::from_slice(&text).unwrap()
}

/// Returns what a store declares, the same at all its levels, after it was validated.
fn declared(store: &str, case: &str) -> Declared {
    let report = zvf(&["validate", "--json", store]).out;
    let lines = report.lines().filter(|line| line.starts_with('{'));
    let findings: Vec<Value> = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
    // A level that is older than level 0 is no contradiction.
    let is_wrong = |finding: &&Value| {
        let warned = ["C45", "C46", "M23"].map(Value::from).contains(&finding["rule"]);
        warned || finding["severity"] == "error"
    };
    assert_eq!(findings.iter().find(is_wrong), None, "{case}");
    let block = document(store, "zarr.json")["attributes"]["zarr_vectors"].clone();
    let dense = block["manifest_layout"] == "dense";
    let tokens = block["format_capabilities"].as_array().cloned().unwrap_or_default();
    assert_eq!(tokens.contains(&json!("dense_manifests")), dense, "{case}");
    let there = |level: u32, name: &str| Path::new(store).join(format!("{level}/{name}")).exists();
    let columns = ["object_attributes/vertex_count", "fragment_attributes/segment_id"];
    let mut found = Vec::new();
    for level in (0..).take_while(|level| there(*level, "zarr.json")) {
        assert_eq!(there(level, "object_index/manifest_spans"), dense, "{case}, level {level}");
        assert_eq!(there(level, "object_index/manifests"), !dense, "{case}, level {level}");
        found.extend(columns.map(|name| there(level, name)));
    }
    let all = found[0];
    assert!(found.iter().all(|there| *there == all), "{case}: {found:?}");
    (block["shard_shape"].clone(), dense, all)
}

/// Writes twelve lines that cross chunks.
fn lines(folder: &Folder) -> String {
    let mut text = "x,y,z,object\n".to_owned();
    for line in 0..12 {
        for at in 0..20 {
            let (x, y) = (at * 4 + line, (at * line * 3) % 80);
            text.push_str(&format!("{x}.5,{y}.25,{}.0,{}\n", line * 6, line * 2));
        }
    }
    folder.write("in.csv", text)
}

#[test]
fn every_command_that_writes_keeps_what_a_store_declares() {
    let folder = Folder::new();
    let input = lines(&folder);
    let script = folder.write(
        "script.jsonl",
        [
            r#"{"op":"vertex.move","vertices":{"object":4,"index":0},"to":[79.0,1.0,1.0]}"#,
            r#"{"op":"object.add","positions":[[1,1,1],[78,78,60],[2,77,3]]}"#,
            r#"{"op":"object.remove","objects":[6]}"#,
            r#"{"op":"column.add","scope":"object","name":"extra","dtype":"float32"}"#,
            r#"{"op":"object.copy","object":8,"by":[1,1,1]}"#,
        ]
        .join("\n"),
    );
    let segments = folder.write(
        "segments.jsonl",
        [
            r#"{"op":"column.add","scope":"object","name":"segment_id","dtype":"int64","fill":7}"#,
            r#"{"op":"object.set","objects":[4,8],"values":{"segment_id":900}}"#,
            r#"{"op":"object.set","objects":[4],"values":{"segment_id":901}}"#,
            r#"{"op":"column.drop","scope":"object","name":"segment_id"}"#,
        ]
        .join("\n"),
    );
    let table = folder.write("types.csv", "id,type\n0,3\n2,4\n");
    let pyramid = "pyramid STORE --in-place --levels 1";
    let (two, three) = (json!(2), json!(3));
    let keeps = (two.clone(), true, true);
    let none = Value::Null;
    let cases: [(&str, Declared); 19] = [
        ("edit STORE --script SCRIPT", keeps.clone()),
        ("edit STORE --script SEGMENTS", keeps.clone()),
        ("edit STORE --script SCRIPT; history undo STORE", keeps.clone()),
        ("edit STORE --script SCRIPT; vacuum STORE", keeps.clone()),
        ("edit STORE --script SCRIPT; history gc STORE --renumber", keeps.clone()),
        ("attach STORE TABLE --key id", keeps.clone()),
        ("join STORE OTHER", keeps.clone()),
        (pyramid, keeps.clone()),
        ("pyramid STORE --in-place --levels 1; edit STORE --script SCRIPT", keeps.clone()),
        (
            "pyramid STORE --in-place --levels 1; edit STORE --script SCRIPT --refresh stale",
            keeps.clone(),
        ),
        ("pyramid STORE --in-place --levels 1; history gc STORE --renumber", keeps.clone()),
        ("rewrite STORE --in-place --shard 3", (three, true, true)),
        ("rewrite STORE --in-place --shard none", (none.clone(), true, true)),
        ("rewrite STORE --in-place --codec zstd", keeps.clone()),
        ("repair STORE --in-place", keeps.clone()),
        ("rewrite STORE --in-place --manifests dense", keeps.clone()),
        (
            "pyramid STORE --in-place --levels 1; rewrite STORE --in-place --manifests vlen",
            (two.clone(), false, true),
        ),
        ("rewrite STORE --in-place --manifests vlen; history undo STORE", keeps),
        // A new store has what its own options say.
        ("convert STORE NEW", (none, false, true)),
    ];
    let create = |name: &str, options: &[&str]| {
        let store = folder.at(name);
        let kind = ["--kind", "streamline", "--chunk-shape", "20,20,20", "-q"];
        zvf(&[&["create", &input, &store][..], &kind[..], options].concat()).clean();
        store
    };
    let other = create("other.zarrvectors", &["--plain"]);
    assert_eq!(declared(&other, "plain"), (Value::Null, false, false));
    for (number, (commands, expected)) in cases.into_iter().enumerate() {
        let name = format!("{number}.zarrvectors");
        let store = create(&name, &["--shard", "2", "--manifests", "dense"]);
        let new = folder.at(&format!("new{number}.zarrvectors"));
        for command in commands.split("; ") {
            let words = command.split(' ').map(|word| match word {
                "STORE" => store.as_str(),
                "OTHER" => other.as_str(),
                "NEW" => new.as_str(),
                "SCRIPT" => script.as_str(),
                "SEGMENTS" => segments.as_str(),
                "TABLE" => table.as_str(),
                word => word,
            });
            let ran = zvf(&words.collect::<Vec<_>>());
            assert_eq!(ran.code, 0, "{command}: {}{}", ran.out, ran.err);
        }
        let made = if commands.contains("NEW") { &new } else { &store };
        assert_eq!(declared(made, commands), expected, "{commands}");
    }
    // A store without the columns gets none.
    zvf(&["edit", &other, "--script", &script, "-q"]);
    zvf(&["pyramid", &other, "--in-place", "--levels", "1", "-q"]);
    assert_eq!(declared(&other, "plain, edited"), (Value::Null, false, false));
}

#[test]
fn stores_of_other_writers_are_edited_and_repaired() {
    let script = r#"{"op":"vertex.move","vertices":{"object":6,"index":0},"to":[59,1,1]}"#;
    let script = format!("{script}\n{}", r#"{"op":"object.remove","objects":[2]}"#);
    // The commands, the rules that are found before, and those after.
    for (name, command, before, after) in [
        ("lines_dense", "edit STORE --script SCRIPT", "", ""),
        ("lines_dense", "rewrite STORE --in-place --manifests vlen", "", ""),
        ("points_dense_patched", "edit STORE --script SCRIPT", "", ""),
        ("points_dense_patched", "vacuum STORE", "", ""),
        ("lines_rows_sharded", "edit STORE --script SCRIPT", "S16", "S16"),
        ("graph_two_widths", "repair STORE --in-place", "C36", ""),
        ("mesh_shards_undeclared", "repair STORE --in-place --index-faces", "", ""),
        ("mesh_groups_stale", "repair STORE --in-place", "G10", ""),
        ("lines_columns_wrong", "repair STORE --in-place", "C45 C46", ""),
    ] {
        let folder = Folder::new();
        let archive = format!("../../testdata/frontier/{name}.tar.zst");
        archives::unpack(&Path::new(env!("CARGO_MANIFEST_DIR")).join(archive), folder.0.path());
        let (store, script) =
            (folder.at(&format!("{name}.zarrvectors")), folder.write("script.jsonl", &script));
        let rules = || {
            let found = zvf(&["validate", &store]).out;
            let ids = ["C36", "C45", "C46", "G10", "S16"].into_iter();
            let found: Vec<&str> = ids.filter(|id| found.contains(id)).collect();
            found.join(" ")
        };
        assert_eq!(rules(), before, "{name}");
        let answer = || zvf(&["query", &store, "--format", "csv", "-q"]).out;
        let old = answer();
        let words = command.split(' ').map(|word| match word {
            "STORE" => store.as_str(),
            "SCRIPT" => script.as_str(),
            word => word,
        });
        let ran = zvf(&words.collect::<Vec<_>>());
        assert!(ran.code <= 1, "{name}, {command}: {}{}", ran.out, ran.err);
        assert_eq!(rules(), after, "{name}, {command}");
        if !command.starts_with("edit") && name != "graph_two_widths" {
            assert_eq!(answer(), old, "{name}, {command}");
        }
        if command.ends_with("--index-faces") {
            let level = document(&store, "0/zarr.json")["attributes"]["zarr_vectors_level"].clone();
            assert_eq!(level["fragment_link_groups"], true);
            let arrays = std::fs::read_dir(Path::new(&store).join("0/links/0")).unwrap();
            let names = arrays.map(|array| array.unwrap().file_name().into_string().unwrap());
            let is_stated = |name: String| {
                let path = format!("0/links/0/{name}/zarr.json");
                Path::new(&store).join(&path).exists()
                    && document(&store, &path)["attributes"]["link_groups"] == "per_vertex_fragment"
            };
            assert_eq!(names.map(is_stated).filter(|stated| *stated).count(), 1);
        }
    }
}
