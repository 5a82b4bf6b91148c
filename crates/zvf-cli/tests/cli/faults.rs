//! Missing, incomplete and wrong input: one line, the exit code of its class, no panic.

use std::fs;
use std::io::Read as _;
use std::process::{Command, Stdio};

use crate::stores::{Folder, check_has, done, store, words, zvf};

#[test]
fn missing_stores_are_refused() {
    let error = zvf(&["info", "no/such/store"]).refused(4);
    assert_eq!(
        error,
        "zvf: cannot open no/such/store: no such file or folder; give the folder of the store, which \
         contains zarr.json"
    );
    let folder = tempfile::tempdir().unwrap();
    zvf(&["info", folder.path().to_str().unwrap()])
        .refused_with(4, "in zarr.json, every store starts with it");
    let store = store("pc3_basic");
    let error = zvf(&["info", store.path.join("0").to_str().unwrap()]).refused(3);
    assert!(error.ends_with("; is this the root of a Zarr Vectors store?"), "{error}");
    zvf(&["info", "ftp://host/x"]).refused_with(2, "expected a scheme that zvf knows");
    assert_eq!(zvf(&["info"]).code, 2);
    assert_eq!(zvf(&["info", "--storage", "nonsense", "x"]).code, 2);
}

#[test]
fn columns_without_their_document_are_no_absent_ones() {
    let pyramid = &["pyramid", "-q", "--in-place", "--levels", "1"][..];
    for (lost, args) in [
        ("vertex_attributes/fa", &["query", "-q", "--format", "jsonl"][..]),
        ("vertex_attributes/fa", &["info", "--stats"]),
        ("vertex_attributes/fa", &["edit", "move", "--all", "--by", "0,0,1"]),
        ("vertex_attributes/fa", pyramid),
        ("object_attributes/mean", pyramid),
        ("group_attributes/score", pyramid),
    ] {
        let store = store("sl3_streamlines");
        fs::remove_file(store.path.join("0").join(lost).join("zarr.json")).unwrap();
        let error = zvf(&[args, &[store.arg()]].concat()).refused(4);
        check_has(&error, &format!("0/{lost}"));
        check_has(&error, "found nothing");
    }
}

#[test]
fn wrong_arguments_are_reported_in_one_line() {
    let store = store("sl3_streamlines");
    for (args, message) in [
        (
            &["query", store.arg(), "--bbx", "1"][..],
            "unexpected argument '--bbx' found; a similar argument",
        ),
        (
            &["query"],
            "the following required arguments were not provided: <STORE>; see \"zvf query --help\"",
        ),
        (
            &["query", store.arg(), "--objects", "5..2"],
            "the range \"5..2\" is empty: its end must be above its start",
        ),
        (&["create", "a", "b", "--chunk", "nan"], "expected a length above 0, such as 100 or 0.5"),
        (&["create", "a", "b", "--bin-shape=-1"], "expected a length above 0, such as 100 or 0.5"),
        (&["nothing"], "unrecognized subcommand 'nothing'"),
        (&["repair", store.arg()], "required arguments were not provided"),
    ] {
        let error = zvf(args).refused(2);
        assert!(error.starts_with("zvf: ") && error.contains(message), "{error}");
        let json = zvf(&[args, &["--json"]].concat()).refused(2);
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!((&json["type"], &json["class"]), (&"error".into(), &"InvalidArgument".into()));
        assert_eq!(json["exit_code"], 2);
        assert!(json["message"].as_str().unwrap().contains(message), "{json}");
    }
}

#[test]
fn errors_and_warnings_are_json_when_asked_for() {
    let error = zvf(&["info", "--json", "no/such/store"]).refused(4);
    let error: serde_json::Value = serde_json::from_str(&error).unwrap();
    assert_eq!((&error["class"], &error["exit_code"]), (&"NotFound".into(), &4.into()));
    let store = store("sl3_streamlines");
    let query = format!("query --json {} --objects 999,2 --unknown-objects report", store.arg());
    let ran = done(&words(&query));
    let warning: serde_json::Value = serde_json::from_str(&ran.err).unwrap();
    assert_eq!(
        warning,
        serde_json::json!({"type": "warning", "message": "there is no object 999"})
    );
    for args in [
        &["info", store.arg()][..],
        &["inspect", "arrays", store.arg()],
        &["inspect", "objects", store.arg()],
    ] {
        let text = zvf(&[args, &["--json"]].concat()).clean();
        assert_eq!(text.lines().count(), 1, "JSON is printed on one line");
    }
}

#[test]
fn rows_that_do_not_exist_are_refused() {
    let folder = Folder::new();
    let store = folder.at("tree.zarrvectors");
    let rows: String = (0..600).map(|n| format!("{},{},{n}\n", n % 30, n / 30)).collect();
    let file = folder.write("points.csv", format!("x,y,n\n{rows}"));
    zvf(&["create", "-q", &file, &store]).clean();
    zvf(&["pyramid", "--in-place", "-q", &store, "--levels", "1", "--aggregate", "m=max"])
        .refused_with(2, "expected an attribute of level 0, found \"m\", where there is n");
    let build = ["pyramid", "-q", &store, "--in-place", "--levels", "1", "--cell-size", "6"];
    zvf(&[&build[..], &["--cross-level-storage", "implicit", "--aggregate", "n=max"]].concat())
        .clean();
    let arrays = zvf(&["inspect", "arrays", "--json", &store, "0/vertices"]).json();
    assert_eq!(arrays["arrays"][0]["chunks"], 1);
    zvf(&["inspect", "lineage", &store, "--to", "1", "--vertex", "0.0/3"]).clean();
    let error = zvf(&["inspect", "lineage", &store, "--to", "1", "--vertex", "0.0/600"]).refused(2);
    assert!(error.ends_with("chunk 0.0 has no row 600; it has 600 rows, from 0"), "{error}");
}

#[test]
fn pyramid_writes_levels_into_a_copy() {
    let folder = Folder::new();
    let (store, coarse) = (folder.at("p.zarrvectors"), folder.at("coarse.zarrvectors"));
    let rows: String = (0..600).map(|n| format!("{},{}\n", n % 30, n / 30)).collect();
    let file = folder.write("p.csv", format!("x,y\n{rows}"));
    zvf(&["create", "-q", &file, &store]).clean();
    zvf(&["pyramid", "-q", &store, &coarse, "--levels", "1", "--cell-size", "6"]).clean();
    let levels =
        |store: &str| zvf(&["info", "--json", store]).json()["levels"].as_array().unwrap().len();
    assert_eq!((levels(&store), levels(&coarse)), (1, 2));
    let error = zvf(&["pyramid", "-q", &store, &coarse, "--levels", "1"]).refused(4);
    assert!(error.ends_with("already exists; use --overwrite to replace it"), "{error}");
    zvf(&["pyramid", "-q", &store, &coarse, "--levels", "1", "--overwrite"]).clean();
}

#[test]
fn a_truncated_cell_is_reported() {
    let store = store("pc3_basic");
    let cell = store.path.join("0/vertices/c/0/0/0");
    let bytes = fs::read(&cell).unwrap();
    fs::write(&cell, &bytes[..bytes.len() / 2]).unwrap();
    for args in [&["query", store.arg()][..], &["inspect", "cells", store.arg(), "0.0.0"]] {
        let error = zvf(args).refused(3);
        assert!(error.starts_with("zvf: in 0/vertices"), "{error}");
        assert!(error.ends_with("run \"zvf repair --dry-run\""), "{error}");
    }
    done(&["info", store.arg()]);
}

#[test]
fn a_level_that_cannot_be_read_is_a_finding_of_info() {
    let store = store("pc3_basic");
    fs::write(store.path.join("0/vertices/zarr.json"), "{").unwrap();
    let ran = zvf(&["info", store.arg()]);
    assert_eq!((ran.code, ran.err.as_str()), (1, ""));
    assert!(ran.out.contains("\nlevel 0: "), "{}", ran.out);
}

#[test]
fn broken_stores_cause_at_most_one_error_line() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/zvf/broken");
    let mut count = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let Some(id) = name.strip_suffix(".tar.zst") else { continue };
        // Tests every third store: the layers below test all of them.
        count += 1;
        if count % 3 != 0 {
            continue;
        }
        let store = store(&format!("broken/{id}"));
        for args in [
            &["info", store.arg()][..],
            &["inspect", "arrays", store.arg()],
            &["query", "--no-elements", store.arg()],
        ] {
            let ran = zvf(args);
            assert!([0, 1, 2, 3, 4].contains(&ran.code), "{id} {args:?}: {} {}", ran.code, ran.err);
            let lines = ran.err.lines().filter(|line| !line.starts_with("zvf: note: ")).count();
            assert_eq!(lines, usize::from(ran.code > 1), "{id} {args:?}: {}", ran.err);
        }
    }
    assert!(count > 30);
}

#[test]
#[cfg(unix)]
fn reading_writes_nothing() {
    use std::os::unix::fs::PermissionsExt as _;
    let store = store("sl3_streamlines");
    let mode = |mode| fs::set_permissions(&store.path, fs::Permissions::from_mode(mode)).unwrap();
    mode(0o555);
    for command in ["info", "query", "inspect arrays", "inspect objects", "inspect groups"] {
        let args: Vec<_> = command.split(' ').chain([store.arg()]).collect();
        done(&args);
    }
    mode(0o755);
}

#[test]
fn a_closed_pipe_is_not_an_error() {
    let store = store("sl3_streamlines");
    let child = Command::new(env!("CARGO_BIN_EXE_zvf"))
        .args(["query", store.arg(), "--format", "jsonl"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = child.unwrap();
    drop(child.stdout.take());
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert_eq!((child.wait().unwrap().code(), stderr.as_str()), (Some(0), ""));
}
