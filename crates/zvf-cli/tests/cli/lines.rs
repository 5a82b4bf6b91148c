//! Objects of several lines: no command joins one line to the next.

use std::fs;

use serde_json::Value;

use crate::stores::{Folder, done, json_lines, words, zvf};

/// Returns the first coordinates of each line of an answer, with its object, sorted.
fn lines(store: &str, options: &[&str]) -> Vec<(i64, Vec<i64>)> {
    let read = zvf(&[&["query", store, "--format", "jsonl", "--quiet"], options].concat());
    let line = |line: Value| {
        let positions = line["positions"].as_array().unwrap().iter();
        let xs = positions.map(|position| position[0].as_f64().unwrap() as i64).collect();
        (line["object"].as_i64().unwrap(), xs)
    };
    let mut lines: Vec<_> = json_lines(&read.clean()).into_iter().map(line).collect();
    lines.sort();
    lines
}

#[test]
fn two_lines_of_one_object_are_never_joined() {
    let folder = Folder::new();
    let features = r#"{"type":"FeatureCollection","features":[
{"type":"Feature","properties":{},"geometry":{"type":"LineString","coordinates":[[2,2,0],[2.5,2,0],[3,2,0]]}},
{"type":"Feature","properties":{},"geometry":{"type":"MultiLineString","coordinates":[[[0,0,0],[1,0,0]],[[4,0,0],[5,1,0]],[[50,50,0],[51,50,0]]]}}]}"#;
    let table = "x,y,z,object,part\n2,2,0,0,0\n2.5,2,0,0,0\n3,2,0,0,0\n0,0,0,1,1\n1,0,0,1,1\n4,0,0,1,2\n5,1,0,1,2\n50,50,0,1,3\n51,50,0,1,3\n";
    let json = "{\"object\":0,\"positions\":[[2,2,0],[2.5,2,0],[3,2,0]]}\n{\"object\":1,\"positions\":[[0,0,0],[1,0,0]]}\n{\"object\":1,\"positions\":[[4,0,0],[5,1,0]]}\n{\"object\":1,\"positions\":[[50,50,0],[51,50,0]]}\n";
    let expected = [(0, vec![2, 2, 3]), (1, vec![0, 1]), (1, vec![4, 5]), (1, vec![50, 51])];
    for (name, text) in [("a.geojson", features), ("a.csv", table), ("a.jsonl", json)] {
        let (file, store) = (folder.at(name), folder.at("a.zarrvectors"));
        fs::write(&file, text).unwrap();
        done(&words(&format!("create -q --kind polyline --chunk 10 {file} {store} --overwrite")));
        assert_eq!(lines(&store, &[]), expected, "{name}");
        for bbox in ["20,20:30,30", "2.5,-1:3.5,1"] {
            assert_eq!(lines(&store, &["--bbox", bbox]), [], "{name}: {bbox}");
        }
        done(&["validate", "--strict", &store]);
        // Written and read again.
        for out in ["b.geojson", "b.jsonl", "b.csv"] {
            let (out, again) = (folder.at(out), folder.at("b.zarrvectors"));
            done(&["convert", "-q", &store, &out, "--overwrite"]);
            done(&["create", "-q", "--kind", "polyline", &out, &again, "--overwrite"]);
            assert_eq!(lines(&again, &[]), expected, "{name} as {out}");
        }
        let copy = folder.at("c.zarrvectors");
        done(&["convert", "-q", &store, &copy, "--chunk", "3", "--overwrite"]);
        assert_eq!(lines(&copy, &[]), expected, "{name} as a store");
        // A coarser level, an edit, a merge and an append.
        done(&["pyramid", "-q", &copy, "--in-place", "--levels", "1", "--tolerance", "0.1"]);
        let coarse = lines(&copy, &["--level", "1"]);
        assert_eq!((&coarse[0].1, &coarse[1..]), (&vec![2, 3], &expected[1..]), "{name}, level 1");
        done(&["edit", "move", "-q", &store, "--object", "1", "--index", "3", "--to", "6,1,0"]);
        let moved = [(0, vec![2, 2, 3]), (1, vec![0, 1]), (1, vec![4, 6]), (1, vec![50, 51])];
        assert_eq!(lines(&store, &[]), moved, "{name}, edited");
        done(&["edit", "append", "-q", &store, &file]);
        done(&["join", "-q", &store, &copy]);
        let shift = |by| move |(id, xs): &(i64, Vec<i64>)| (id + by, xs.clone());
        let mut all = moved.to_vec();
        all.extend(expected.iter().map(shift(2)).chain(expected.iter().map(shift(4))));
        assert_eq!(lines(&store, &[]), all, "{name}, merged");
        done(&["validate", "--strict", &store]);
        fs::remove_dir_all(&store).unwrap();
        fs::remove_dir_all(folder.at("a.zarrvectors.zvf")).unwrap();
    }
}
