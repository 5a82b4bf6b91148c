//! pack, unpack, tensor: one file, the same answers.

use std::path::Path;

use crate::stores::{store, zvf};

fn fixture(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata").join(name);
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_store_is_packed_asked_and_unpacked() {
    for id in ["sl3_streamlines", "v060_pc3_objects"] {
        let old = store(id);
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let query = |address: &str| zvf(&["query", address, "--format", "csv"]);
        let before = query(old.arg());
        assert_eq!(before.code, 0, "{}", before.err);

        let (plain, small, new) = (path("a.tet"), path("b.tet"), path("new.zv"));
        let text = zvf(&["pack", old.arg(), &plain]).clean();
        assert!(text.starts_with(&format!("{plain}: ")), "{text}");
        let json = zvf(&["pack", "--json", old.arg(), &small, "--zstd", "9"]).json();
        assert!(json["arrays"].as_u64().unwrap() > 5, "{json}"); // before 0.9 each cell is one
        assert_eq!(query(&plain).out, before.out, "{id}");
        assert_eq!(query(&small).out, before.out, "{id}");
        let again = zvf(&["pack", old.arg(), &plain]);
        assert_eq!(again.code, 4, "{}", again.err);
        zvf(&["pack", "--overwrite", old.arg(), &plain]).clean();

        zvf(&["unpack", &plain, &new]).clean();
        assert_eq!(query(&new).out, before.out, "{id}");
        assert!(zvf(&["tensor", "verify", &plain, "--deep"]).clean().ends_with(": ok\n"));
        let left = folder.path().read_dir().unwrap().count();
        assert_eq!(left, 3);
    }
}

#[test]
fn tensors_are_shown_sliced_and_verified() {
    let grid = fixture("tet/grid_f32_2d_ragged.tet");
    let shown = zvf(&["tensor", "info", &grid, "--chunks", "-n", "2"]).clean();
    assert!(shown.contains("grid") && shown.contains("[7, 5]"), "{shown}");
    assert!(
        shown.contains("1064") && shown.ends_with("2 of 9 chunks; -n 0 lists all\n"),
        "{shown}"
    );
    let json = zvf(&["tensor", "chunks", "--json", &grid]).json();
    assert_eq!(json["summary"]["chunks"][0]["payload_offset"], 1064);
    let part = zvf(&["tensor", "get", &grid, "--slice", "1:7:2,1:4"]).clean();
    assert_eq!(part, "7.5 8.75 10\n20 21.25 22.5\n32.5 33.75 35\n");

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

    let bad = zvf(&["tensor", "verify", &fixture("tet/reject/34_duplicate_coords.tet")]);
    assert_eq!(bad.code, 1, "{}", bad.err);
    assert!(bad.out.contains(": V5: "), "{}", bad.out);
    let bad = zvf(&["tensor", "verify", &fixture("tet/reject/04_layout_version_2.tet")]);
    assert_eq!((bad.code, bad.out.contains("UnsupportedVersion")), (1, true), "{}", bad.out);
    let none = zvf(&["tensor", "get", &fixture("tet/multi_mixed.tet")]);
    assert_eq!(none.code, 2, "{}", none.err);
}
