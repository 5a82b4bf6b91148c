//! Every command that writes keeps the declarations of 0.9.3 and 0.9.4 stores, and the columns that
//! viewers expect, correct.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::stores::{Folder, done, words, zvf};

/// The declarations of a store: cells per shard, whether manifests are dense, and whether the store
/// has the columns.
type Declared = (Value, bool, bool);

fn document(store: &str, name: &str) -> Value {
    let text = std::fs::read(Path::new(store).join(name)).unwrap();
    serde_json::from_slice(&text).unwrap()
}

/// Returns what a store declares, the same at all its levels, after it was validated.
fn declared(store: &str, case: &str) -> Declared {
    let findings = lines_of(&["validate", "--json", store]);
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
        r#"{"op":"vertex.move","vertices":{"object":4,"index":0},"to":[79.0,1.0,1.0]}
{"op":"object.add","positions":[[1,1,1],[78,78,60],[2,77,3]]}
{"op":"object.remove","objects":[6]}
{"op":"column.add","scope":"object","name":"extra","dtype":"float32"}
{"op":"object.copy","object":8,"by":[1,1,1]}
"#,
    );
    let segments = folder.write(
        "segments.jsonl",
        r#"{"op":"column.add","scope":"object","name":"segment_id","dtype":"int64","fill":7}
{"op":"object.set","objects":[4,8],"values":{"segment_id":900}}
{"op":"object.set","objects":[4],"values":{"segment_id":901}}
{"op":"column.drop","scope":"object","name":"segment_id"}
"#,
    );
    let table = folder.write("types.csv", "id,type\n0,3\n2,4\n");
    let keeping = [
        "edit STORE --script SCRIPT",
        "edit STORE --script SEGMENTS",
        "edit STORE --script SCRIPT; history undo STORE",
        "edit STORE --script SCRIPT; vacuum STORE",
        "edit STORE --script SCRIPT; history gc STORE --renumber",
        "attach STORE TABLE --key id",
        "join STORE OTHER",
        "pyramid STORE --in-place --levels 1",
        "pyramid STORE --in-place --levels 1; edit STORE --script SCRIPT",
        "pyramid STORE --in-place --levels 1; edit STORE --script SCRIPT --refresh stale",
        "pyramid STORE --in-place --levels 1; history gc STORE --renumber",
        "rewrite STORE --in-place --codec zstd",
        "repair STORE --in-place",
        "rewrite STORE --in-place --manifests dense",
        "rewrite STORE --in-place --manifests vlen; history undo STORE",
    ];
    let vlen = "pyramid STORE --in-place --levels 1; rewrite STORE --in-place --manifests vlen";
    let others: [(&str, Declared); 4] = [
        ("rewrite STORE --in-place --shard 3", (json!(3), true, true)),
        ("rewrite STORE --in-place --shard none", (Value::Null, true, true)),
        (vlen, (json!(2), false, true)),
        // A new store has what its own options say.
        ("convert STORE NEW", (Value::Null, false, true)),
    ];
    let cases =
        keeping.map(|commands| (commands, (json!(2), true, true))).into_iter().chain(others);
    let create = |name: &str, options: &[&str]| {
        let store = folder.at(name);
        let kind = ["--kind", "streamline", "--chunk-shape", "20,20,20", "-q"];
        zvf(&[&["create", &input, &store][..], &kind[..], options].concat()).clean();
        store
    };
    let other = create("other.zarrvectors", &["--plain", "--shard", "none"]);
    assert_eq!(declared(&other, "plain"), (Value::Null, false, false));
    for (number, (commands, expected)) in cases.enumerate() {
        let name = format!("{number}.zarrvectors");
        let store = create(&name, &["--shard", "2", "--manifests", "dense"]);
        let new = folder.at(&format!("new{number}.zarrvectors"));
        for command in commands.split("; ") {
            let line = command.replace("STORE", &store).replace("OTHER", &other);
            let line = line.replace("NEW", &new).replace("TABLE", &table);
            done(&words(&line.replace("SCRIPT", &script).replace("SEGMENTS", &segments)));
        }
        let made = if commands.contains("NEW") { &new } else { &store };
        assert_eq!(declared(made, commands), expected, "{commands}");
    }
    // They may be added in the commit that moves and removes what they count.
    let late = create("late.zarrvectors", &["--plain", "--shard", "none"]);
    let columns = folder.write(
        "columns.jsonl",
        r#"{"op":"object.remove","objects":[8]}
{"op":"vertex.move","vertices":{"object":4,"index":0},"to":[79.0,1.0,1.0]}
{"op":"column.add","scope":"object","name":"vertex_count","dtype":"uint32"}
{"op":"column.add","scope":"fragment","name":"segment_id","dtype":"uint64","fill":0}
"#,
    );
    zvf(&["edit", &late, "--script", &columns, "-q"]).clean();
    assert_eq!(declared(&late, "columns are added"), (Value::Null, false, true));
    // A store without the columns gets none.
    zvf(&["edit", &other, "--script", &script, "-q"]);
    zvf(&["pyramid", &other, "--in-place", "--levels", "1", "-q"]);
    assert_eq!(declared(&other, "plain, edited"), (Value::Null, false, false));
}

/// Unpacks a store of `testdata/frontier`.
fn foreign(name: &str) -> (Folder, String) {
    let folder = Folder::new();
    archives::unpack(&frontier(&format!("{name}.tar.zst")), folder.0.path());
    let store = folder.at(&format!("{name}.zarrvectors"));
    (folder, store)
}

fn frontier(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/frontier").join(name)
}

/// Returns the rules that a store breaks, in order.
fn found_rules(store: &str) -> Vec<String> {
    let lines = lines_of(&["validate", "--json", store]);
    let rules = lines.iter().filter_map(|line| line["rule"].as_str().map(str::to_owned));
    rules.collect::<BTreeSet<_>>().into_iter().collect()
}

fn lines_of(args: &[&str]) -> Vec<Value> {
    let text = zvf(args).out;
    let lines = text.lines().filter(|line| line.starts_with('{'));
    lines.map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Returns the number of vertices and the sum of their coordinates, of each object.
fn sums(store: &str, options: &[&str]) -> BTreeMap<String, (u64, f64)> {
    let mut objects: BTreeMap<String, (u64, f64)> = BTreeMap::new();
    for line in lines_of(&[&["query", store, "--json", "-q"][..], options].concat()) {
        let mut rows = line["positions"].as_array().cloned().unwrap_or_default();
        rows.extend(line.get("position").cloned());
        for row in &rows {
            let object = objects.entry(line["object"].to_string()).or_default();
            let numbers = row.as_array().unwrap().iter();
            *object = (object.0 + 1, object.1 + numbers.filter_map(Value::as_f64).sum::<f64>());
        }
    }
    objects
}

#[test]
fn stores_of_other_writers_have_the_answers_that_their_writer_states() {
    let answers: BTreeMap<String, Value> =
        serde_json::from_slice(&std::fs::read(frontier("answers.json")).unwrap()).unwrap();
    assert_eq!(answers.len(), 17);
    let check = |(count, sum): (u64, f64), answer: &[Value], place: &str| {
        assert_eq!(count, answer[0], "{place}");
        let expected = answer[1].as_f64().unwrap();
        assert!((sum - expected).abs() <= 1e-5 * expected.abs().max(1.0), "{place}: {sum}");
    };
    for (name, answer) in answers {
        let (_folder, store) = foreign(&name);
        assert_eq!(json!(found_rules(&store)), answer["rules"], "{name}");
        for answer in answer["boxes"].as_array().unwrap() {
            let corner = |at: usize| {
                let numbers = answer[at].as_array().unwrap().iter();
                numbers.map(Value::to_string).collect::<Vec<_>>().join(",")
            };
            let bounds = format!("--bbox={}:{}", corner(0), corner(1));
            let found = sums(&store, &[&bounds, "--mode", "crop"]).into_values();
            let total = found.fold((0, 0.0), |all, one| (all.0 + one.0, all.1 + one.1));
            check(total, &answer.as_array().unwrap()[2..], &format!("{name}, {bounds}"));
        }
        if let Some(options) = answer["refused"].as_array() {
            let options = options.iter().filter_map(Value::as_str);
            let words: Vec<&str> = ["query", &store, "--json"].into_iter().chain(options).collect();
            assert!(zvf(&words).code > 1, "{name}"); // nothing is left out in silence
        }
        let objects = answer["objects"].as_object().unwrap();
        if objects.is_empty() {
            continue;
        }
        let ids = objects.keys().cloned().collect::<Vec<_>>().join(",");
        let found = sums(&store, &["--objects", &ids, "--object-ids"]);
        assert_eq!(found.len(), objects.len(), "{name}");
        for (id, answer) in objects {
            check(found[id], answer.as_array().unwrap(), &format!("{name}, object {id}"));
        }
        let total = sums(&store, &[]).into_values().map(|(count, _)| count).sum::<u64>();
        assert_eq!(total, answer["vertices"], "{name}");
    }
}

#[test]
fn the_page_of_a_store_shows_what_it_declares() {
    for (name, line) in [
        ("points_shards_int", "shards      2 cells on each axis"),
        ("points_shards_stale", "shards      3 cells on each axis"),
        ("lines_dense", "manifests   dense"),
        ("points_dense_patched", "manifests   dense"),
        ("points_deferred", "deferred: writers still fill it"),
    ] {
        let (_folder, store) = foreign(name);
        let page = zvf(&["info", &store]).out;
        assert!(page.contains(line), "{name}: {page}");
    }
}

#[test]
fn a_deferred_level_gets_no_lists_until_its_deferral_is_ended() {
    let (folder, other) = foreign("points_shards_int");
    let script = folder.write("script.jsonl", r#"{"op":"object.remove","objects":[2]}"#);
    let table = folder.write("types.csv", "id,type\n0,3\n2,4\n");
    for (command, is_refused) in [
        ("edit STORE --script SCRIPT", true),
        ("attach STORE TABLE --key id", true),
        ("join STORE OTHER", true),
        ("vacuum STORE", true),
        ("history gc STORE --renumber", true),
        ("rewrite STORE --in-place --shard 3", true),
        ("rewrite STORE --in-place --shard none", true),
        ("rewrite STORE --in-place --codec zstd", true),
        ("rewrite STORE --in-place --chunk-shape 10", true),
        ("rewrite STORE --in-place --manifests vlen", true),
        ("repair STORE --in-place --index-faces", true),
        ("repair STORE --in-place", false),
        ("pyramid STORE --in-place --levels 1", false),
    ] {
        let (_folder, store) = foreign("points_deferred");
        let line = command.replace("STORE", &store).replace("OTHER", &other);
        let line = line.replace("SCRIPT", &script).replace("TABLE", &table);
        let before = sums(&store, &[]);
        let ran = zvf(&words(&line));
        assert_eq!(ran.code > 1, is_refused, "{command}: {}{}", ran.out, ran.err);
        assert!(!is_refused || ran.err.contains("--end-deferral"), "{command}: {}", ran.err);
        assert_eq!(
            document(&store, "0/zarr.json")["attributes"]["zarr_vectors_presence"],
            "deferred"
        );
        let lists =
            document(&store, "0/vertices/zarr.json")["attributes"].get("nonempty_chunks").cloned();
        assert_eq!((lists, sums(&store, &[])), (None, before), "{command}");
    }
}

#[test]
fn stores_of_other_writers_are_edited_and_repaired() {
    let script = r#"{"op":"vertex.move","vertices":{"object":3,"index":0},"to":[59,1,1]}"#;
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
        let (folder, store) = foreign(name);
        let script = folder.write("script.jsonl", &script);
        let rules = || {
            let known = ["C36", "C45", "C46", "G10", "S16"];
            let found = found_rules(&store);
            found
                .into_iter()
                .filter(|id| known.contains(&id.as_str()))
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(rules(), before, "{name}");
        let answer = || zvf(&["query", &store, "--format", "csv", "-q"]).out;
        let old = answer();
        let ran = zvf(&words(&command.replace("STORE", &store).replace("SCRIPT", &script)));
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
