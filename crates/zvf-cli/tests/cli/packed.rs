//! `zvf pack`, `unpack` and `tensor`: a packed store answers queries like the original.

use std::path::Path;

use crate::stores::{Folder, store, zvf};

fn fixture(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata").join(name);
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_store_is_packed_queried_and_unpacked() {
    for id in ["sl3_streamlines", "v060_pc3_objects"] {
        let old = store(id);
        let folder = Folder::new();
        let query = |address: &str| zvf(&["query", address, "--format", "csv"]);
        let before = query(old.arg());
        assert_eq!(before.code, 0, "{}", before.err);

        let (plain, compressed, new) =
            (folder.at("a.tet"), folder.at("b.tet"), folder.at("new.zv"));
        let text = zvf(&["pack", old.arg(), &plain]).clean();
        assert!(text.starts_with(&format!("{plain}: ")), "{text}");
        let json = zvf(&["pack", "--json", old.arg(), &compressed, "--codec", "zstd:9"]).json();
        assert!(json["arrays"].as_u64().unwrap() > 5, "{json}"); // before 0.9 each cell is an array
        assert_eq!(query(&plain).out, before.out, "{id}");
        assert_eq!(query(&compressed).out, before.out, "{id}");
        let refused = zvf(&["pack", old.arg(), &plain]);
        assert_eq!(refused.code, 4, "{}", refused.err);
        zvf(&["pack", "--overwrite", old.arg(), &plain]).clean();

        // A group above may hold the document of the store.
        let group = r#"{"consolidated_metadata":{"a":{"zarr_vectors":{}}}}"#;
        std::fs::write(folder.at("zarr.json"), group).unwrap();
        zvf(&["unpack", &plain, &new]).clean();
        let level = zvf(&["unpack", &plain, &format!("{new}/0"), "--overwrite"]);
        level.refused_with(2, &format!("expected a place outside of the store {new}"));
        assert_eq!(query(&new).out, before.out, "{id}");
        assert!(zvf(&["tensor", "verify", &plain, "--deep"]).clean().ends_with(": ok\n"));
        let count = folder.0.path().read_dir().unwrap().count();
        assert_eq!(count, 4);
    }
}

#[test]
fn an_edit_of_a_pack_that_was_replaced_meanwhile_changes_nothing() {
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    let old = store("pl2_negative");
    let folder = Folder::new();
    let pack = folder.at("a.tet");
    zvf(&["pack", old.arg(), &pack]).clean();
    let mut slow = Command::new(env!("CARGO_BIN_EXE_zvf"));
    let slow = slow.args(["edit", &pack]).stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut slow = slow.stdout(Stdio::null()).spawn().unwrap();
    // The server has unpacked the file when it answers.
    let listed = || {
        let found = zvf(&["clean", &pack, "--json", "--dry-run"]).json().to_string();
        found.contains(".a.tet.zvf-build-") && found.contains("in use")
    };
    let start = std::time::Instant::now();
    let is_unpacked = || {
        std::fs::read_dir(folder.0.path())
            .unwrap()
            .flatten()
            .any(|entry| entry.path().join("store.zarrvectors/zarr.json").is_file())
    };
    while !is_unpacked() {
        assert!(start.elapsed().as_secs() < 60);
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert!(listed(), "the scratch of an edit is a leftover once it is killed");
    zvf(&["edit", "rm", &pack, "--objects", "0"]).clean();
    let between = std::fs::read(&pack).unwrap();
    let line = b"{\"op\":\"object.remove\",\"objects\":[1]}\n";
    slow.stdin.take().unwrap().write_all(line).unwrap();
    let ended = slow.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(6), "{}", String::from_utf8_lossy(&ended.stderr));
    assert!(std::fs::read(&pack).unwrap() == between);
    assert_eq!(folder.0.path().read_dir().unwrap().count(), 1);
}

#[test]
fn rearranging_a_pack_is_refused_with_a_reason() {
    let old = store("sl3_streamlines");
    let folder = Folder::new();
    let (pack, new) = (folder.at("a.tet"), folder.at("new.zv"));
    zvf(&["pack", old.arg(), &pack]).clean();
    for args in [
        vec!["rewrite", "--shard", "8", &pack, &new],
        vec!["rewrite", "--shard", "none", &pack, &new],
        vec!["rewrite", &pack, "--in-place", "--codec", "zstd"],
    ] {
        zvf(&args).refused_with(
            2,
            "expected one of many files, with shards and codecs to change: zvf unpack makes it",
        );
    }
    assert_eq!(folder.0.path().read_dir().unwrap().count(), 1);
}

#[test]
fn tensors_are_shown_sliced_and_verified() {
    let grid = fixture("tet/grid_f32_2d_ragged.tet");
    let text = zvf(&["tensor", "info", &grid, "--chunks", "-n", "2"]).clean();
    assert!(text.contains("grid") && text.contains("[7, 5]"), "{text}");
    assert!(
        text.contains("1064") && text.ends_with("2 of 9 chunks; --limit 0 lists all\n"),
        "{text}"
    );
    let json = zvf(&["tensor", "chunks", "--json", &grid]).json();
    assert_eq!(json["summary"]["chunks"][0]["payload_offset"], 1064);
    let values = zvf(&["tensor", "get", &grid, "--slice", "1:7:2,1:4"]).clean();
    assert_eq!(values, "7.5 8.75 10\n20 21.25 22.5\n32.5 33.75 35\n");

    let json = zvf(&["tensor", "get", "--json", &grid, "--slice", "1,1:3"]).json();
    assert_eq!((&json["dtype"], &json["values"]), (&"<f4".into(), &[7.5, 8.75].into()));

    let frame = fixture("caterva/frames/b2_seed_2d_i4.b2nd");
    assert!(zvf(&["tensor", "info", &frame]).clean().contains("<i4"));
    assert_eq!(zvf(&["tensor", "get", &frame, "--slice", "4,:"]).clean(), "20 21 22 23 24\n");
    let folder = tempfile::tempdir().unwrap();
    let npy = folder.path().join("a.npy");
    zvf(&["tensor", "get", &frame, "--slice", "4,0:2", "-o", npy.to_str().unwrap()]).clean();
    let npy = std::fs::read(npy).unwrap();
    assert_eq!(npy.len(), 128 + 8);
    assert!(npy.starts_with(
        b"\x93NUMPY\x01\0\x76\0{'descr': '<i4', 'fortran_order': False, 'shape': (1, 2), }"
    ));
    assert_eq!(npy[128..], [20, 0, 0, 0, 21, 0, 0, 0]);

    let ran = zvf(&["tensor", "verify", &fixture("tet/reject/34_duplicate_coords.tet")]);
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(ran.out.contains(": V5: "), "{}", ran.out);
    let ran = zvf(&["tensor", "verify", &fixture("tet/reject/04_layout_version_2.tet")]);
    assert_eq!((ran.code, ran.out.contains("UnsupportedVersion")), (1, true), "{}", ran.out);
    let folder = zvf(&["tensor", "info", &fixture("tet")]);
    assert_eq!(folder.code, 2, "{}", folder.err);
    assert!(folder.err.contains("is a folder without chunks.b2frame"), "{}", folder.err);
    let refused = zvf(&["tensor", "get", &fixture("tet/multi_mixed.tet")]);
    assert_eq!(refused.code, 2, "{}", refused.err);
}

#[test]
fn tensors_are_converted_and_gathered() {
    let folder = Folder::new();
    let frame = fixture("caterva/frames/b2_seed_2d_i4.b2nd");
    let zarr = folder.at("a.zarr");
    let output = zvf(&["tensor", "convert", &frame, &zarr]).clean();
    assert_eq!(output, format!("{zarr}: <i4, shape [7, 5], chunks [4, 4] of blocks [2, 2]\n"));
    let refused = zvf(&["tensor", "convert", &frame, &zarr]);
    assert_eq!(refused.code, 4, "{}", refused.err);
    zvf(&["tensor", "convert", &frame, &zarr, "--overwrite"]).clean();
    let tet = folder.at("a.tet");
    let json =
        zvf(&["tensor", "convert", &zarr, &tet, "--chunk", "3,5", "--name", "x", "--json"]).json();
    assert_eq!((&json["dtype"], &json["chunk_shape"][0]), (&"<i4".into(), &3.into()));
    assert_eq!(zvf(&["tensor", "get", &tet, "--slice", "4,:"]).clean(), "20 21 22 23 24\n");
    let converted = folder.at("b.b2nd");
    zvf(&["tensor", "convert", &tet, &converted, "--block", "1,2", "--compressor", "lz4"]).clean();
    assert_eq!(zvf(&["tensor", "get", &converted, "--slice", "4,:"]).clean(), "20 21 22 23 24\n");

    let pack = folder.at("all.tet");
    let output = zvf(&["tensor", "pack", &pack, &converted, &format!("other={zarr}")]).clean();
    assert_eq!(output, format!("{pack}: 2 datasets\n"));
    let values = zvf(&["tensor", "get", &pack, "--dataset", "other", "--slice", "4,0:2"]).clean();
    assert_eq!(values, "20 21\n");
    assert!(zvf(&["tensor", "verify", &pack, "--deep"]).clean().ends_with(": ok\n"));

    for (args, complaint) in [
        (
            vec!["convert", &frame, "nowhere"],
            "the extension of nowhere is not a known form: give --to",
        ),
        (vec!["convert", &frame, "a.zarr", "--to", "hdf"], "'hdf' for '--to <FORM>': expected tet"),
        (vec!["convert", &frame, "b.zarr", "--compressor", "x"], "'x' for '--codec"),
        (vec!["convert", &frame, "b.zarr", "--shuffle", "x"], "'x' for '--blosc-shuffle"),
        (vec!["convert", &frame, "b.zarr", "--codec", "zstd:10"], "expected a level from 0 to 9"),
    ] {
        let refused = zvf(&[&["tensor"], &args[..]].concat());
        assert_eq!(refused.code, 2, "{}", refused.err);
        assert!(refused.err.contains(complaint), "{}", refused.err);
    }
}
