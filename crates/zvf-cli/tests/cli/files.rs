//! Files that queries write: complete or absent.

use std::fs;

use crate::stores::{Folder, check_has, done, json_lines, store, zvf};

#[test]
fn chooses_the_format_by_the_file_extension() {
    let store = store("pc3_basic");
    let folder = tempfile::tempdir().unwrap();
    let mut formats = vec![
        ("some.npy", &b"\x93NUMPY"[..]),
        ("some.csv", b"x,y,z\n"),
        ("some.jsonl", b"{\"vertex\":0,"),
        ("some.PLY", b"ply\nformat binary_little_endian"),
    ];
    if cfg!(feature = "arrow") {
        formats.extend([
            ("some.arrow", &b"ARROW1"[..]),
            ("some.arrows", b"\xff\xff\xff\xff"),
            ("some.parquet", b"PAR1"),
        ]);
    }
    for (name, start) in &formats {
        let file = folder.path().join(name);
        let path = file.to_str().unwrap();
        let ran = zvf(&["query", store.arg(), "-o", path]);
        assert_eq!((ran.code, ran.out.as_str()), (0, ""), "{}", ran.err);
        assert_eq!(ran.err, format!("zvf: note: 240 vertices in {path}\n"));
        assert!(fs::read(&file).unwrap().starts_with(start), "{name}");
        let piped = std::process::Command::new(env!("CARGO_BIN_EXE_zvf"))
            .args(["query", store.arg(), "--format", &name[5..].to_lowercase()])
            .output()
            .unwrap();
        assert_eq!(piped.stdout, fs::read(&file).unwrap(), "{name} to a pipe");
    }
    let count = fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(count, formats.len(), "no other file is left over");
}

#[test]
fn an_empty_answer_is_a_file_with_a_header() {
    let store = store("pc3_basic");
    for stream in [&[][..], &["--stream"]] {
        let args = ["query", store.arg(), "--bbox", "-9,-9,-9:-8,-8,-8"];
        assert_eq!(zvf(&[&args[..], stream].concat()).out, "x,y,z\n");
    }
}

#[test]
fn a_query_that_fails_leaves_the_old_file() {
    let store = store("pc3_basic");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("some.csv");
    fs::write(&file, "old").unwrap();
    fs::remove_file(store.path.join("0/vertices/c/0/0/0")).unwrap();
    let args = ["query", store.arg(), "--overwrite", "-o", file.to_str().unwrap()];
    let error = zvf(&args).refused(4);
    assert!(error.starts_with("zvf: in 0/vertices"), "{error}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "old");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary file is left");
    let ran = done(&[&args[..], &["--allow-missing"]].concat());
    check_has(&ran.err, "0/vertices lists chunk 0.0.0, which does not exist: left out");
    assert!(fs::read_to_string(&file).unwrap().starts_with("x,y,z\n"));
}

#[test]
fn writes_edges_to_a_separate_file() {
    let store = store("gr3_links");
    let folder = Folder::new();
    let (nodes, edges) = (folder.at("nodes.csv"), folder.at("edges.csv"));
    done(&["query", store.arg(), "-o", &nodes, "--elements", &edges]);
    let count = fs::read_to_string(&nodes).unwrap().lines().count() - 1;
    let text = fs::read_to_string(&edges).unwrap();
    assert!(text.starts_with("v0,v1"), "{text}");
    let ends = text
        .lines()
        .skip(1)
        .flat_map(|line| line.split(',').take(2).map(|n| n.parse::<usize>().unwrap()));
    assert!(ends.max().unwrap() < count);
    assert_eq!(zvf(&["query", store.arg(), "--no-elements"]).clean().lines().count() - 1, count);
}

#[test]
fn queries_every_kind_without_options() {
    for (id, columns, noun, with_elements) in [
        ("gr3_links", "x,y,z,", "edges", true),
        ("ms3_tri", "x,y,z,", "faces", true),
        ("sk3_trees", "x,y,z,", "edges", true),
        ("sl3_streamlines", "x,y,z,", "", false),
        ("pc3_basic", "x,y,z", "", false),
    ] {
        let store = store(id);
        let ran = done(&["query", store.arg()]);
        let (head, rows) = ran.out.split_once('\n').unwrap();
        assert!(head.starts_with(columns), "{id}: {head}");
        assert_eq!(head.contains("object"), id != "pc3_basic", "{id}: {head}");
        let note = format!(
            " {noun} left out, which this format cannot hold: write them with --elements FILE"
        );
        assert_eq!(ran.err.contains(&note), with_elements, "{id}: {}", ran.err);
        let lines = json_lines(&zvf(&["query", "--json", store.arg()]).clean());
        let elements = lines.iter().filter(|line| line.get("element").is_some()).count();
        assert_eq!(elements > 0, with_elements, "{id}");
        if with_elements {
            assert!(lines[0]["object"].is_i64(), "{id}: {}", lines[0]);
            assert!(lines.len() - elements == rows.lines().count(), "{id}");
        }
        let json = zvf(&["query", "--count", "--json", store.arg()]).json();
        assert_eq!(json["vertices"], rows.lines().count(), "{id}");
        assert_eq!(
            json["elements"],
            if with_elements { elements.into() } else { serde_json::Value::Null },
            "{id}"
        );
        let text = zvf(&["query", "--count", store.arg()]).clean();
        assert!(text.starts_with(&format!("{} vertices", rows.lines().count())), "{id}: {text}");
        let without_ids = zvf(&["query", "-q", "--no-object-ids", store.arg()]).clean();
        assert_eq!(without_ids.lines().count(), ran.out.lines().count(), "{id}");
    }
}

#[test]
fn unknown_extensions_are_refused_before_any_work() {
    let folder = Folder::new();
    for name in ["x.docx", "x.blend", "x"] {
        // The store does not exist, but the name is checked first.
        let error = zvf(&["query", "no/such/store", "-o", &folder.at(name)]).refused(2);
        assert!(error.contains("; end it in one of .npy, .csv, .jsonl, .ply"), "{error}");
    }
    zvf(&["query", "no/such/store", "-o", &folder.at("a.csv"), "--elements", &folder.at("e.txt")])
        .refused_with(2, "cannot tell the format of --elements ");
    for name in ["x.las", "x.swc", "x.obj"] {
        // Such files can be written.
        zvf(&["query", "no/such/store", "-o", &folder.at(name)]).refused_with(4, "no/such/store");
    }
    let points = store("pc3_basic");
    let args =
        ["query", points.arg(), "-o", &folder.at("p.csv"), "--elements", &folder.at("e.arrow")];
    zvf(&args).refused_with(2, "point_cloud geometry has no edges or faces to write");
    assert_eq!(fs::read_dir(folder.0.path()).unwrap().count(), 0);
}

#[test]
fn files_that_exist_are_replaced_only_when_asked_for() {
    let store = store("gr3_links");
    let folder = Folder::new();
    let (nodes, edges) = (folder.at("n.csv"), folder.at("e.csv"));
    fs::write(&edges, "mine").unwrap();
    fs::write(&nodes, "").unwrap(); // an empty file may be replaced
    let args = ["query", "-q", store.arg(), "-o", &nodes, "--elements", &edges];
    let error = zvf(&args).refused(4);
    assert_eq!(error, format!("zvf: {edges} already exists; use --overwrite to replace it"));
    assert_eq!(fs::read_to_string(&edges).unwrap(), "mine");
    zvf(&[&args[..], &["--overwrite"]].concat()).clean();
    assert!(fs::read_to_string(&edges).unwrap().starts_with("v0,v1"));
}

#[test]
fn reports_an_output_path_that_cannot_be_written() {
    let store = store("pc3_basic");
    let error = zvf(&["query", store.arg(), "-o", "/nowhere/at/all.csv"]).refused(4);
    assert_eq!(error, "zvf: cannot write /nowhere/at/all.csv: no such file or folder");
    let folder = tempfile::tempdir().unwrap();
    let error = zvf(&["query", store.arg(), "-o", folder.path().to_str().unwrap()]).refused(2);
    assert!(error.ends_with(" is a folder; name a file"), "{error}");
}

/// Returns the losses that a dry run lists, after comparing them with those that the conversion
/// reports as JSON.
fn list_losses(from: &str, to: &str) -> Vec<String> {
    let dry = zvf(&["convert", "--dry-run", from, to]).clean();
    let dry: Vec<String> = dry.lines().map(str::to_owned).collect();
    for args in [&["--dry-run"][..], &[]] {
        let report = zvf(&[&["convert", "--quiet", "--json", from, to], args].concat()).json();
        let losses = report["losses"].as_array().unwrap().iter();
        let losses: Vec<&str> = losses.map(|loss| loss.as_str().unwrap()).collect();
        assert_eq!(losses, dry, "{to} {args:?}");
    }
    dry
}

#[test]
fn a_dry_run_lists_every_attribute_that_is_dropped() {
    let folder = Folder::new();
    fs::write(folder.at("a.csv"), "x,y,z,intensity,mass,word\n1,2,3,4,5.5,a\n").unwrap();
    let color = "XYZ has a place for color, three values of 8 bits";
    let expected = ["intensity", "mass", "word"]
        .map(|name| format!("vertex attribute {name:?} is dropped: {color}"));
    assert_eq!(list_losses(&folder.at("a.csv"), &folder.at("a.xyz")), expected);
    assert_eq!(fs::read_to_string(folder.at("a.xyz")).unwrap(), "1 2 3\n");
    let pts = list_losses(&folder.at("a.csv"), &folder.at("a.pts"));
    assert_eq!(pts.len(), 2, "intensity has a place: {pts:?}");
    assert_eq!(fs::read_to_string(folder.at("a.pts")).unwrap(), "1\n1 2 3 4\n");
    let refused =
        zvf(&["convert", "--strict", &folder.at("a.csv"), &folder.at("b.xyz")]).refused(2);
    assert!(refused.contains("\"mass\" is dropped") && !folder.0.path().join("b.xyz").exists());
}

#[test]
fn surfaces_are_files_and_attributes_do_not_take_the_place_of_columns() {
    let folder = Folder::new();
    let array = "<DataArray Intent=\"NIFTI_INTENT_TIME_SERIES\" DataType=\"NIFTI_TYPE_FLOAT32\" \
        ArrayIndexingOrder=\"RowMajorOrder\" Dimensionality=\"1\" Dim0=\"2\" Encoding=\"ASCII\" \
        Endian=\"LittleEndian\"><Data>1 2</Data></DataArray>";
    let series = format!("<GIFTI Version=\"1.0\" NumberOfDataArrays=\"2\">{array}{array}</GIFTI>");
    let [from, file] = ["s.func.gii", "t.gii"].map(|name| folder.at(name));
    fs::write(&from, series).unwrap();
    let convert = |from: &str, to: &str| zvf(&["convert", "-q", from, "-", "--to", to]).clean();
    zvf(&["convert", "-q", &from, &file]).clean();
    assert!(convert(&file, "csv").starts_with("vertex,s_time_series,s_time_series_2\n0,1,1\n"));
    // Chunks are stored in another order than objects.
    let (first, store) = (folder.at("a.swc"), folder.at("a.zarrvectors"));
    fs::write(&first, "1 1 900 0 0 1 -1\n2 1 0 0 0 1 -1\n3 1 1 0 0 1 2\n").unwrap();
    zvf(&["create", "-q", &first, &store, "--chunk-shape", "10,10,10"]);
    assert!(convert(&store, "swc").contains("\n1 1 900 0 0 1 -1\n"));
    fs::write(&from, "x,position\n1,2\n").unwrap();
    zvf(&["convert", &from, &folder.at("p.jsonl"), "--format", "csv"])
        .refused_with(2, "an attribute \"position\" of vertices");
}

#[test]
fn a_dry_run_lists_attributes_of_vertices_that_features_lack() {
    let folder = Folder::new();
    fs::write(folder.at("a.csv"), "x,y,speed,track\n0,0,1,7\n1,0,2,7\n1,1,3,7\n").unwrap();
    let lines = ["--kind", "polyline", "--object", "track"];
    zvf(&[&["create", "--quiet", &folder.at("a.csv"), &folder.at("a.zarrvectors")], &lines[..]]
        .concat());
    for (output, why) in [
        ("a.fgb", "a feature has one value"),
        ("a.precomputed", "only points and skeletons have some"),
    ] {
        let losses = list_losses(&folder.at("a.zarrvectors"), &folder.at(output));
        let expected = format!("vertex attribute \"speed\" is dropped: {why}");
        assert!(losses.contains(&expected), "{losses:?}");
    }
}

#[test]
fn losses_of_draco_streams_are_reported_as_json() {
    let store = store("ms3_draco");
    let folder = Folder::new();
    let note = "vertices are Draco streams with an order of their own";
    let losses = list_losses(store.arg(), &folder.at("a.ply"));
    assert!(losses.iter().any(|loss| loss.starts_with(note)), "{losses:?}");
    let report = zvf(&["convert", "-q", "--json", store.arg(), &folder.at("a.zarrvectors")]).json();
    assert!(report["losses"][0].as_str().unwrap().starts_with(note), "{report}");
}
