//! Stores from files, and demo stores.

use std::fs;

use crate::stores::{Folder, done, zvf};

#[test]
fn creates_a_store_with_the_longest_name() {
    let folder = Folder::new();
    let points = folder.write("points.csv", "x,y\n1,2\n");
    for len in [244, 251] {
        let store = folder.at(&"n".repeat(len));
        done(&["create", "--quiet", &points, &store]);
        assert_eq!(zvf(&["query", &store]).clean(), "x,y\n1,2\n");
    }
    assert_eq!(fs::read_dir(folder.0.path()).unwrap().count(), 3);
}

#[test]
fn creates_a_store_from_a_table() {
    let folder = Folder::new();
    let store = folder.at("points.zarrvectors");
    let rows: String = (0..300).map(|n| format!("{},{},{n}\n", n % 30, n / 30)).collect();
    let file = folder.write("points.csv", format!("x,y,n\n{rows}"));

    let layout = zvf(&["create", "--dry-run", &file, &store, "--per-chunk", "50"]).clean();
    assert_eq!(
        layout,
        "kind        point_cloud\naxes        x, y, float64\nvertices    300\n\
         bounds      [0.0, 0.0] to [29.0, 9.0]\nattribute   vertex n, int64\n\
         chunks      [5.0, 5.0], 12 in the bounds\n            on average 25 vertices in each\n\
         shards      none: one object per chunk and array\n"
    );
    assert!(!fs::exists(&store).unwrap(), "nothing is written");

    let ran = zvf(&["create", &file, &store, "--per-chunk", "50", "--codec", "zstd", "--checksum"]);
    assert_eq!((ran.code, &*ran.out), (0, "300 vertices in 12 chunks, 0 objects, 0 links\n"));
    assert_eq!(ran.err, format!("zvf: note: see what it contains: zvf info {store}\n"));
    let selected = zvf(&["query", &store, "--bbox", "7,3:7,3"]).clean();
    assert_eq!(selected, "x,y,n\n7,3,97\n");

    let refused = zvf(&["create", &file, &store]).refused(4);
    assert!(refused.ends_with(" already exists; use --overwrite to replace it"), "{refused}");
    let json = zvf(&["create", "--json", &file, &store, "--overwrite", "--chunk", "10,10"]).json();
    let (chunks, side) = (&json["made"]["chunks"], &json["layout"]["chunk_shape"][0]);
    assert_eq!((chunks, side), (&3.into(), &10.0.into()));

    // A single number applies to all axes.
    let args =
        ["create", "--json", &file, &store, "--overwrite", "--chunk", "10", "--bin-shape", "5"];
    let json = zvf(&args).json();
    assert_eq!(json["layout"]["chunk_shape"], serde_json::json!([10.0, 10.0]));
    for option in ["--chunk", "--bin-shape"] {
        let message = "expected one length, or one for each axis, found \"3 numbers for 2 axes";
        let args = ["create", "--dry-run", &file, &store, "--overwrite", option, "1,2,3"];
        zvf(&args).refused_with(2, message);
    }

    let codec = ["--codec", "blosc:1", "--compressor", "lz4", "--block-size", "1KiB"];
    let args = [&["create", "--overwrite", "--quiet", &file, &store], &codec[..]].concat();
    zvf(&args).clean();
    assert!(zvf(&["inspect", "arrays", &store, "0/vertices"]).clean().contains("blosc"));
    assert_eq!(zvf(&["query", &store, "--bbox", "7,3:7,3"]).clean(), selected);
}

#[test]
fn reads_columns_by_name_and_lines_by_object() {
    let folder = Folder::new();
    let (file, store) = (folder.at("tracks.tsv"), folder.at("tracks.zarrvectors"));
    fs::write(&file, "lon\tlat\tid\tkind\n1\t2\t5\ta\n3\t4\t5\tb\n5\t6\t9\tc\n").unwrap();
    let columns = ["--positions", "lon,lat", "--object", "id", "--kind", "polyline"];
    let types = ["--type", "kind=<U3", "--dtype", "float32"];
    done(&[&["create", &file, &store, "-q"], &columns[..], &types].concat());
    assert_eq!(
        zvf(&["query", &store, "--objects", "5"]).clean(),
        "lon,lat,kind,part,object\n1,2,a,0,5\n3,4,b,0,5\n"
    );
}

#[test]
fn unreadable_files_are_refused() {
    let folder = Folder::new();
    let store = folder.at("bad.zarrvectors");
    let file = folder.write("bad.csv", "x,y\n1,2\n3,four\n");
    let error = zvf(&["create", &file, &store]).refused(3);
    let place = format!("zvf: cannot create {store} from {file}: in CSV, line 3, column \"y\"");
    assert_eq!(error, format!("{place}: expected float64, found \"four\""));
    assert_eq!(fs::read_dir(folder.0.path()).unwrap().count(), 1, "no file is left over");
    let error = zvf(&["create", &folder.at("none.csv"), &store]).refused(4);
    assert!(error.ends_with("cannot read: no such file or folder"), "{error}");
    let missing = folder.at("sound.csv");
    let error = zvf(&["create", &missing, &folder.at("none.csv"), &store]).refused(4);
    assert!(error.contains(&format!(": {missing}: cannot read")), "{error}");
    zvf(&["create", &file, &store, "--format", "las"]).refused_with(3, "LAS");
    let unknown = folder.write("notes.txt", "x\n");
    zvf(&["create", &unknown, &store]).refused_with(2, "cannot tell the format of ");
    for args in [
        &["--format", "docx"][..],
        &["--type", "x"],
        &["--type", "x=half"],
        &["--dtype", "int8"],
        &["--codec", "lz4"],
        &["--codec", "zstd:99"],
        &["--typesize", "0"],
        &["--per-chunk", "0"],
        &["--compat", "--checksum"],
    ] {
        assert_eq!(zvf(&[&["create", &file, &store], args].concat()).code, 2, "{args:?}");
    }
}

#[test]
fn demo_creates_a_store_of_each_kind() {
    let folder = tempfile::tempdir().unwrap();
    let stores = folder.path().join("stores");
    let json = zvf(&["demo", "--json", stores.to_str().unwrap()]).json();
    let reports = json["stores"].as_array().unwrap();
    assert_eq!(reports.len(), 7);
    for report in reports {
        let is_positive = |key: &str| report[key].as_u64().unwrap() > 0;
        assert!(is_positive("vertices") && is_positive("vertices_of_answer"), "{report}");
        assert_eq!(report["findings"], 0, "{report}");
        let info = zvf(&["info", "--json", report["store"].as_str().unwrap()]).json();
        assert_eq!(info["kinds"][0], report["kind"]);
    }
    zvf(&["demo", stores.to_str().unwrap()]).refused_with(4, "already exists");
    let text = zvf(&["demo", "--overwrite", stores.to_str().unwrap()]).clean();
    assert!(text.starts_with("kind         vertices  objects"), "{text}");
}

#[test]
fn creates_one_store_from_files_of_several_kinds() {
    let folder = Folder::new();
    let store = folder.at("both.zarrvectors");
    let first_tree = folder.write("a.swc", "1 1 0 0 0 1 -1\n2 3 0 9 0 1 1\n3 3 5 9 0 1 1\n");
    let second_tree = folder.write("b.swc", "1 1 20 0 0 2 -1\n2 3 20 9 0 2 1\n");
    let points = folder.write("p.csv", "x,y,z,mass\n1,2,3,0.5\n30,2,3,0.25\n");
    let ply = "ply\nformat ascii 1.0\nelement vertex 3\nproperty float x\nproperty float y\n\
               property float z\nelement face 1\nproperty list uchar int vertex_indices\nend_header\n\
               0 0 1\n4 0 1\n0 4 1\n3 0 1 2\n";
    let faces = folder.write("f.ply", ply);
    let inputs = [first_tree.as_str(), &points, &second_tree, &faces];
    let layout = zvf(&[&["create", "--dry-run"], &inputs[..], &[&store]].concat()).clean();
    let kinds: Vec<&str> = layout.lines().filter(|line| line.starts_with("kind")).collect();
    assert_eq!(kinds, ["kind        mesh", "kind        skeleton", "kind        point_cloud"]);
    assert!(layout.contains("objects     first object id of each file: 1, 2\n"), "{layout}");
    assert!(!fs::exists(&store).unwrap(), "nothing is written");

    let ran = zvf(&[&["create", "-q"], &inputs[..], &[&store]].concat());
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert_eq!(
        ran.out,
        "10 vertices in 3 chunks, 3 objects, 2 links; mesh: 3 vertices, 1 object, 1 link; skeleton: \
         5 vertices, 2 objects, 1 link; point_cloud: 2 vertices, 0 objects, 0 links\n"
    );
    done(&["validate", &store, "-q"]);
    let ids = |kind: &str| {
        let listed = zvf(&["inspect", "objects", "--json", &store, "--kind", kind]).json();
        let ids = listed.as_array().unwrap().iter().map(|object| object["id"].as_i64().unwrap());
        ids.collect::<Vec<_>>()
    };
    assert_eq!((ids("mesh"), ids("skeleton")), (vec![0], vec![1, 2]));
    // Objects of every kind are found by id.
    let tree =
        zvf(&["query", &store, "--objects", "2", "--columns", "none", "--no-elements"]).clean();
    assert_eq!(tree.lines().count(), 3, "{tree}");
    let second = zvf(&["inspect", "objects", &store, "2"]).clean();
    assert!(second.starts_with("object 2: skeleton, row 1 "), "{second}");
    zvf(&["inspect", "objects", &store, "--kind", "line"]).refused_with(2, "level 0 holds no line");
    let [mesh, tree] = ["mesh", "skeleton"].map(|kind| {
        let cell = zvf(&["inspect", "cells", &store, "0.0.0", "--kind", kind]).clean();
        cell.lines().next().unwrap().to_owned()
    });
    assert!(mesh.starts_with("chunk 0.0.0: 3 rows"), "{mesh}");
    assert!(tree.starts_with("chunk 0.0.0: ") && tree != mesh, "{tree}");
    let points = zvf(&["query", &store, "--kind", "point_cloud"]).clean();
    assert_eq!(points, "x,y,z,mass\n1,2,3,0.5\n30,2,3,0.25\n");
    let ran = zvf(&["query", &store, "--columns", "none", "--no-elements"]);
    assert_eq!(
        ran.err,
        "zvf: note: this is the mesh of the store, which also holds skeleton, point_cloud: choose with --kind\n"
    );
    let info = zvf(&["info", &store]).clean();
    for line in ["0", "0 skeleton", "0 point_cloud"] {
        let found = info.lines().any(|row| row.trim_start().starts_with(&format!("{line}  ")));
        assert!(found, "{line}: {info}");
    }
    // A kind that cannot be read is a finding and is not skipped.
    fs::write(folder.0.path().join("both.zarrvectors/0/skeleton/zarr.json"), "{").unwrap();
    let ran = zvf(&["info", &store]);
    assert!(ran.code == 1 && ran.out.contains("\nlevel 0: "), "{}", ran.out);
}

#[test]
fn ids_of_several_files_do_not_collide() {
    let folder = Folder::new();
    let first = folder.write("a.csv", "x,y,object\n1,2,5\n3,4,7\n");
    let second = folder.write("b.csv", "x,y,object\n5,6,5\n7,8,0\n");
    for (keep, ids) in [(&[][..], vec![5, 7, 8, 13]), (&["--keep-ids"][..], vec![0, 5, 7])] {
        let store = folder.at(&format!("{}.zarrvectors", keep.len()));
        done(&[&["create", "-q", &first, &second, &store], keep].concat());
        let listed = zvf(&["inspect", "objects", "--json", &store]).json();
        let actual = listed.as_array().unwrap().iter().map(|object| object["id"].as_i64().unwrap());
        assert_eq!(actual.collect::<Vec<_>>(), ids);
        // Several processes assign the same ids.
        let shared = folder.at(&format!("shared-{}.zarrvectors", keep.len()));
        done(&[&["ingest", "plan", "-q", &first, &second, &shared], keep].concat());
        done(&["ingest", "run", "-q", &shared, "--all"]);
        done(&["ingest", "finish", "-q", &shared]);
        assert_eq!(zvf(&["inspect", "objects", "--json", &shared]).json(), listed);
    }
}

#[test]
fn files_with_different_axes_are_refused() {
    let folder = Folder::new();
    let tree = folder.write("a.swc", "1 1 0 0 0 1 -1\n");
    let (points, store) = (folder.write("p.csv", "x,y\n1,2\n"), folder.at("x.zarrvectors"));
    zvf(&["create", &tree, &points, &store]).refused_with(2, "the same axes in every file");
    assert!(!fs::exists(&store).unwrap());
}
