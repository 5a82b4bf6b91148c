//! Everything in a file is in the store, and everything in a store is in the file; otherwise the
//! command reports the loss or refuses.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::stores::{Folder, done, json_lines, words, zvf};

/// Returns the positions of each line of a file or a store in `float32`, sorted.
fn lines_of(folder: &Folder, input: &str) -> Vec<String> {
    let out = folder.at("lines.jsonl");
    done(&["convert", "-q", input, &out, "--kind", "polyline", "--overwrite"]);
    let numbers = |line: &Value| {
        let positions = line["positions"].as_array().unwrap().iter();
        let numbers = positions.flat_map(|position| position.as_array().unwrap());
        numbers.map(|x| x.as_f64().unwrap() as f32).collect::<Vec<_>>()
    };
    let mut lines: Vec<String> = json_lines(&fs::read_to_string(&out).unwrap())
        .iter()
        .map(|line| format!("{:?}", numbers(line)))
        .collect();
    lines.sort();
    lines
}

#[test]
fn exported_lines_are_whole() {
    let folder = Folder::new();
    done(&["demo", "-q", &folder.at("demo")]);
    let demo = folder.at("demo/polyline.zarrvectors");
    // One attribute of objects has the name of the id column, and one has the name of the geometry
    // column.
    let table = folder.write(
        "own.geojson",
        r#"{"type":"FeatureCollection","features":[
{"type":"Feature","properties":{"object":"a","geometry":7},"geometry":{"type":"LineString","coordinates":[[0,1],[2,3],[4,9]]}},
{"type":"Feature","properties":{"object":"b","geometry":8},"geometry":{"type":"LineString","coordinates":[[50,50],[51,50]]}}]}"#,
    );
    let own = folder.at("own.zarrvectors");
    done(&["create", "-q", &table, &own]);
    for store in [&demo, &own] {
        let expected = lines_of(&folder, store);
        assert!(expected.iter().all(|line| line.matches(',').count() > 2), "{expected:?}");
        let mut names = vec!["out.geojson", "out.geojsonl", "out.fgb"];
        if cfg!(feature = "arrow") {
            names.extend(["out.geoparquet", "out.geoarrow"]);
        }
        for name in names {
            let file = folder.at(name);
            done(&["convert", "-q", "--overwrite", store, &file]);
            assert!(lines_of(&folder, &file) == expected, "{name} of {store}");
            if *store == own {
                let header =
                    zvf(&["create", "--dry-run", "--json", &file, &folder.at("new")]).json();
                let fields = header["layout"]["object_attributes"].as_array().unwrap();
                let mut fields: Vec<&str> =
                    fields.iter().map(|f| f["name"].as_str().unwrap()).collect();
                fields.sort_unstable();
                assert_eq!(fields, ["geometry", "object", "object_id"], "{name}");
            }
        }
    }
}

#[test]
fn lines_that_are_longer_than_a_batch_stay_lines() {
    let folder = Folder::new();
    let rows: String = (0..70_000).map(|n| format!("{n},{},3\n", n % 7)).collect();
    let (table, out) =
        (folder.write("one.csv", format!("x,y,object\n{rows}")), folder.at("one.geojson"));
    done(&["convert", "-q", "--kind", "polyline", &table, &out]);
    let text: Value = serde_json::from_str(&fs::read_to_string(&out).unwrap()).unwrap();
    let geometry = &text["features"][0]["geometry"];
    assert_eq!(geometry["type"], "LineString");
    assert_eq!(geometry["coordinates"].as_array().unwrap().len(), 70_000);
}

#[test]
fn coordinates_of_text_keep_their_digits() {
    let folder = Folder::new();
    let graph = |x: &str| {
        format!(
            "<graphml><key id=\"x\" for=\"node\" attr.name=\"x\" attr.type=\"float\"/>\
             <key id=\"y\" for=\"node\" attr.name=\"y\" attr.type=\"float\"/><graph edgedefault=\"undirected\">\
             <node id=\"a\"><data key=\"x\">{x}</data><data key=\"y\">1</data></node>\
             <node id=\"b\"><data key=\"x\">2</data><data key=\"y\">2</data></node>\
             <edge source=\"a\" target=\"b\"/></graph></graphml>"
        )
    };
    for (x, dtype) in [
        ("637100.123", "float64"),
        ("16777217", "float64"),
        ("0.1", "float32"),
        ("0.123456791", "float32"),
        ("1e-3", "float32"),
        ("500000.5", "float32"),
        ("1e39", "float64"),
    ] {
        let files = [
            folder.write("a.obj", format!("v {x} 1 0\nv 2 2 0\nl 1 2\n")),
            folder.write("a.swc", format!("1 1 {x} 1 0 1 -1\n2 1 2 2 0 1 1\n")),
            folder.write("a.graphml", graph(x)),
        ];
        for file in files {
            let store = folder.at("a.zarrvectors");
            let made = zvf(&["create", "--json", &file, &store, "--overwrite"]).json();
            assert_eq!(made["layout"]["dtype"], dtype, "{x} in {file}");
            let read = zvf(&["query", &store, "--attributes", "none"]).out;
            let row = read.lines().find(|line| line.split(',').nth(1) == Some("1")).unwrap();
            let found = row.split(',').next().unwrap();
            let value = |text: &str| text.parse::<f64>().unwrap();
            match dtype {
                "float64" => assert_eq!(value(found), value(x), "{file}"),
                _ => assert_eq!(value(found) as f32, value(x) as f32, "{file}"),
            }
            let narrow = zvf(&words(&format!(
                "create --dry-run --json {file} {store} --overwrite --dtype float32"
            )));
            assert!(x == "1e39" || narrow.json()["layout"]["dtype"] == "float32", "{x} in {file}");
        }
    }
    // Several files get the type that one of them needs.
    for (name, x) in [("b.swc", "637100.123"), ("c.swc", "5")] {
        folder.write(name, format!("1 1 {x} 1 0 1 -1\n2 1 2 2 0 1 1\n"));
    }
    for files in [["b.swc", "c.swc"], ["c.swc", "b.swc"]] {
        let [first, second] = files.map(|name| folder.at(name));
        let store = folder.at("both.zarrvectors");
        let made = zvf(&["create", "--json", &first, &second, &store, "--overwrite"]).json();
        assert_eq!(made["layout"]["dtype"], "float64");
        let read = zvf(&["query", &store, "--attributes", "none"]).out;
        assert!(read.contains("637100.123,1,0"), "{read}");
    }
}

/// If every row were padded to the longest text, each of these tables would take 80 GB.
#[test]
fn one_long_text_does_not_widen_all_rows() {
    let folder = Folder::new();
    let long = "word ".repeat(60_000);
    let text = |row: u32| if row == 40_000 { long.trim() } else { "short" };
    let rows: String = (0..66_000).map(|n| format!("{n},{n},{}\n", text(n))).collect();
    let lines: String = (0..66_000)
        .map(|n| format!("{{\"position\":[{n},{n}],\"t\":\"{}\"}}\n", text(n)))
        .collect();
    let filler = "x".repeat(300);
    let behind: String = (0..40_000).map(|n| format!("{n},{n},{n} {filler}\n")).collect();
    let wider = |n: u32| if n == 99_999 { "longer than those of the sample" } else { "short" };
    let wider_rows: String = (0..100_000).map(|n| format!("{n},{n},{}\n", wider(n))).collect();
    let wider_lines: String = (0..100_000)
        .map(|n| format!("{{{:90}\"position\":[{n},{n}],\"t\":\"{}\"}}\n", "", wider(n)))
        .collect();
    for (file, place, expected) in [
        (folder.write("a.csv", format!("x,y,t\n{rows}")), "40000", long.trim()),
        (folder.write("a.jsonl", lines), "40000", long.trim()),
        // Longer than the sample, so that texts after the sample are collected too.
        (folder.write("b.csv", format!("x,y,t\n{behind}")), "39999", &*format!("39999 {filler}")),
        (folder.write("c.csv", format!("x,y,t\n{wider_rows}")), "99999", wider(99_999)),
        (folder.write("c.jsonl", wider_lines), "99999", wider(99_999)),
    ] {
        let store = folder.at("a.zarrvectors");
        done(&["create", "-q", "--overwrite", &file, &store]);
        let bbox = format!("{place},{place}:{place},{place}");
        let read = zvf(&["query", &store, "--bbox", &bbox]).clean();
        assert_eq!(read, format!("x,y,t\n{place},{place},{expected}\n"), "{file}");
    }
}

/// Converts points with a column `dose/mg` to a file of another format.
fn written(name: &str, folder: &Folder) -> String {
    let (from, to) = (folder.write("from.csv", "x,y,dose/mg\n1,2,3\n"), folder.at(name));
    zvf(&["convert", "-q", &from, &to]).clean();
    to
}

/// A name that a path cannot hold is stored in escaped form, in every scope and from every kind of
/// input.
#[test]
fn names_with_slashes_are_stored() {
    let folder = Folder::new();
    let feature = r#"{"type":"Feature","properties":{"a/b":5},"geometry":{"type":"LineString","coordinates":[[0,1],[2,3]]}}"#;
    let element = "{\"position\":[0,0]}\n{\"position\":[1,0]}\n{\"vertices\":[0,1],\"w/t\":9}\n";
    let ply = "ply\nformat ascii 1.0\nelement vertex 1\nproperty float x\nproperty float y\n\
               property float z\nproperty float a/b\nend_header\n1 2 3 4\n";
    let line = "{\"object\":3,\"positions\":[[0,1],[2,3]],\"fa/x\":[1,2]}\n";
    for (file, paths) in [
        (
            folder.write("a.csv", "x,y,dose/mg,..,a\\b\n1,2,3,4,5\n"),
            &["dose%2Fmg", "%2E%2E", "a%5Cb"][..],
        ),
        (folder.write("a.jsonl", element), &["w%2Ft"]),
        (folder.write("b.jsonl", line), &["fa%2Fx"]),
        (folder.write("a.geojson", feature), &["a%2Fb"]),
        (folder.write("a.ply", ply), &["a%2Fb"]),
        (written("b.parquet", &folder), &["dose%2Fmg"]),
        (written("b.arrow", &folder), &["dose%2Fmg"]),
    ] {
        let store = folder.at("a.zarrvectors");
        let made = zvf(&["create", "--overwrite", &file, &store]);
        assert!(made.code == 0 && made.out.contains("is stored as %2F"), "{made:?}");
        let info = zvf(&["info", "--json", &store]).json().to_string();
        for path in paths {
            assert!(info.contains(path), "{path}: {info}");
        }
        done(&["query", &store]);
        done(&["validate", &store]);
        let name = paths[0].replace("%2F", "/");
        assert!(documents(Path::new(&store)).contains(&format!("\"name\": \"{name}\"")), "{name}");
    }
    let plain = folder.write("b.csv", "x,y,dose%mg,a.b\n1,2,3,4\n");
    let store = folder.at("plain.zarrvectors");
    let made = zvf(&["create", &plain, &store]);
    assert!(!made.out.contains("stored as"), "{}", made.out);
    assert_eq!(zvf(&["query", &store]).clean(), "x,y,a.b,dose%mg\n1,2,4,3\n");
}

/// Returns all documents below `root`.
fn documents(root: &Path) -> String {
    let entries = fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path());
    let text = |path: std::path::PathBuf| match path.is_dir() {
        true => documents(&path),
        false if path.ends_with("zarr.json") => fs::read_to_string(&path).unwrap(),
        false => String::new(),
    };
    entries.map(text).collect()
}

#[test]
fn plans_keep_draco_and_the_headers_of_formats() {
    let folder = Folder::new();
    let rows: String =
        (0..9_000).map(|n| format!("{},{},{},{}\n", n % 90, n / 90, n % 7, n / 3)).collect();
    let table = folder.write("lines.csv", format!("x,y,z,object\n{rows}"));
    let tck = folder.write("lines.tck", tck("author: me\n"));
    let points = folder.write("points.csv", format!("x,y,z,n\n{rows}"));
    let is_draco = |store: &str| {
        let document = Path::new(store).join("0/vertices/zarr.json");
        fs::read_to_string(document).unwrap().contains("draco")
    };
    for (input, options) in [(&tck, &[][..]), (&points, &["--draco", "--dtype", "float32"])] {
        let store = folder.at("planned.zarrvectors");
        done(&[&["ingest", "plan", "-q", input, &store], options].concat());
        done(&["ingest", "run", "-q", &store, "--all"]);
        done(&["ingest", "finish", "-q", &store]);
        assert_eq!(Path::new(&store).join("headers/tck").is_dir(), *input == tck);
        assert_eq!(is_draco(&store), *input == points);
        fs::remove_dir_all(&store).unwrap();
    }
    // Above a quarter of the memory setting, `create` makes a plan too.
    let many: String =
        (0..400_000).map(|n| format!("{},{},{},{n}\n", n % 900, n / 900, n % 7)).collect();
    let many = folder.write("many.csv", format!("x,y,z,n\n{many}"));
    let store = folder.at("many.zarrvectors");
    let made =
        zvf(&["create", &many, &store, "--draco", "--dtype", "float32", "--memory-limit", "16MiB"]);
    assert!(made.code == 0 && !made.out.contains("earlier run"), "{made:?}");
    assert!(is_draco(&store));
    // The first file has no header, the second has one.
    let store = folder.at("both.zarrvectors");
    done(&["create", "-q", "--kind", "streamline", "--dtype", "float32", &table, &tck, &store]);
    assert!(Path::new(&store).join("headers/tck").is_dir());
    let groups = folder.write("groups.jsonl", "{\"position\":[0,0]}\n");
    done(&["ingest", "plan", "-q", &groups, &folder.at("none.zarrvectors")]);
}

#[test]
fn objects_of_several_files_have_their_names() {
    let folder = Folder::new();
    let swc =
        |x: i32| format!("1 1 {x} 1 0 1 -1\n2 1 2 2 0 1 1\n3 1 {x} 9 0 1 -1\n4 1 2 9 0 1 3\n");
    let mesh = "v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n";
    let files = [
        folder.write("cell_720575940600000000.swc", swc(5)),
        folder.write("b.swc", swc(7)),
        folder.write("left.obj", mesh),
        folder.write("right hand.obj", mesh),
    ];
    let [first, second, left, right] = files.each_ref().map(String::as_str);
    let names = |store: &str, kind: &str| -> Vec<String> {
        let listed = zvf(&["inspect", "objects", "--json", store, "--kind", kind]).json();
        let ids = listed.as_array().unwrap().iter().map(|object| object["id"].to_string());
        ids.map(|id| {
            let object = zvf(&["inspect", "objects", "--json", store, &id, "--kind", kind])
                .json()
                .to_string();
            ["cell_720575940600000000", "left", "right hand", "\"b\""]
                .into_iter()
                .find(|name| object.contains(name))
                .map_or_else(|| object.clone(), |name| name.trim_matches('"').to_owned())
        })
        .collect()
    };
    let store = folder.at("all.zarrvectors");
    done(&["create", "-q", first, second, left, right, &store]);
    let trees = ["cell_720575940600000000", "cell_720575940600000000", "b", "b"];
    assert_eq!(names(&store, "skeleton"), trees);
    assert_eq!(names(&store, "mesh"), ["left", "right hand"]);
    let planned = folder.at("planned.zarrvectors");
    done(&["ingest", "plan", "-q", first, second, &planned]);
    done(&["ingest", "run", "-q", &planned, "--all"]);
    done(&["ingest", "finish", "-q", &planned]);
    assert_eq!(names(&planned, "skeleton"), trees);
}

#[test]
fn whole_numbers_are_kept_or_refused() {
    let folder = Folder::new();
    let store = folder.at("a.zarrvectors");
    let feature = |n: &str| {
        format!(
            "{{\"type\":\"Feature\",\"properties\":{{\"n\":{n}}},\"geometry\":{{\"type\":\"Point\",\"coordinates\":[0,1]}}}}\n"
        )
    };
    let large = "9007199254740993";
    for (name, text) in [
        ("a.geojsonl", feature(large) + &feature("null")),
        (
            "a.jsonl",
            format!("{{\"position\":[0,1],\"n\":{large}}}\n{{\"position\":[0,1],\"n\":null}}\n"),
        ),
        ("b.jsonl", format!("{{\"position\":[0,{large}]}}\n")),
        ("a.csv", format!("x,y\n0,{large}\n")),
    ] {
        zvf(&["create", "-q", &folder.write(name, text), &store]).refused_with(3, large);
        assert!(!Path::new(&store).exists());
    }
    let whole = folder.write("c.geojsonl", feature(large) + &feature("1"));
    done(&["create", "-q", &whole, &store]);
    assert!(zvf(&["inspect", "objects", "--json", &store, "0"]).clean().contains(large));
}

/// Returns a TCK file of one streamline with one point, and one additional line in its header.
fn tck(line: &str) -> Vec<u8> {
    let header = format!("mrtrix tracks\n{line}datatype: Float32LE\nfile: . 80\nEND\n");
    let numbers = [0.0, f32::NAN, f32::INFINITY].map(|x| x.to_le_bytes().repeat(3));
    [format!("{header:\0<80}").into_bytes(), numbers.concat()].concat()
}

#[test]
fn a_name_that_is_taken_is_refused_before_the_input_is_read() {
    let folder = Folder::new();
    let (good, bad) = (folder.write("a.csv", "x,y\n1,2\n"), folder.write("b.csv", "x,y\n1,oops\n"));
    let store = folder.at("a.zarrvectors");
    done(&["create", "-q", &good, &store]);
    zvf(&["create", &bad, &store]).refused_with(4, "already exists");
    let names: Vec<_> =
        fs::read_dir(folder.0.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names.len(), 3, "{names:?}");
}

#[test]
fn a_box_of_two_axes_leaves_the_third_open() {
    let folder = Folder::new();
    let store = folder.at("a.zarrvectors");
    let table = folder.write("a.csv", "x,y,z\n1,2,3\n4,5,600\n7,8,9\n");
    done(&["create", "-q", &table, &store]);
    for bbox in ["0,0:5,5", "0,0,5,5", "0,0,-inf:5,5,inf"] {
        let found = zvf(&["query", &store, "--bbox", bbox]).clean();
        assert_eq!(found, "x,y,z\n1,2,3\n4,5,600\n", "{bbox}");
    }
    for bbox in ["0,0", "0,0,5", "0:5,5", "0,0:5"] {
        zvf(&["query", &store, "--bbox", bbox]).refused(2);
    }
}
