//! Stores from files, and from nothing.

use std::fs;

use crate::stores::zvf;

#[test]
fn a_table_becomes_a_store() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (file, store) = (at("points.csv"), at("points.zarrvectors"));
    let rows: String = (0..300).map(|n| format!("{},{},{n}\n", n % 30, n / 30)).collect();
    fs::write(&file, format!("x,y,n\n{rows}")).unwrap();

    let layout = zvf(&["create", "--dry-run", &file, &store, "--per-chunk", "50"]).clean();
    assert_eq!(
        layout,
        "kind        point_cloud\naxes        x, y, float64\nvertices    300\n\
         bounds      [0.0, 0.0] to [29.0, 9.0]\nattribute   vertex n, int64\n\
         chunks      [5.0, 5.0], 12 in the bounds\n            about 25 vertices in each, if they lay \
         evenly\nshards      none: one object for each chunk and array\n"
    );
    assert!(!fs::exists(&store).unwrap(), "nothing is written");

    let ran = zvf(&["create", &file, &store, "--per-chunk", "50", "--codec", "zstd", "--checksum"]);
    assert_eq!(
        (ran.code, ran.out.as_str()),
        (0, "300 vertices in 12 chunks, 0 objects, 0 links\n")
    );
    assert_eq!(ran.err, format!("zvf: note: look into it with: zvf info {store}\n"));
    let back = zvf(&["query", &store, "--bbox", "7,3:7,3"]).clean();
    assert_eq!(back, "x,y,n\n7,3,97\n");

    let again = zvf(&["create", &file, &store]).refused(4);
    assert!(again.contains("AlreadyExists"), "{again}");
    let made = zvf(&["create", "--json", &file, &store, "--overwrite", "--chunk", "10,10"]).json();
    assert_eq!(
        (&made["made"]["chunks"], &made["layout"]["chunk_shape"][0]),
        (&3.into(), &10.0.into())
    );

    let codec = ["--codec", "blosc:1", "--compressor", "lz4", "--block-size", "1KiB"];
    let args = [&["create", "--overwrite", "--quiet", &file, &store], &codec[..]].concat();
    zvf(&args).clean();
    assert!(zvf(&["ls", &store, "0/vertices"]).clean().contains("blosc"));
    assert_eq!(zvf(&["query", &store, "--bbox", "7,3:7,3"]).clean(), back);
}

#[test]
fn columns_by_name_and_lines_of_objects() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (file, store) = (at("tracks.tsv"), at("tracks.zarrvectors"));
    fs::write(&file, "lon\tlat\tid\tkind\n1\t2\t5\ta\n3\t4\t5\tb\n5\t6\t9\tc\n").unwrap();
    let columns = ["--positions", "lon,lat", "--object", "id", "--kind", "polyline"];
    let more = ["--type", "kind=<U3", "--dtype", "float32"];
    assert_eq!(zvf(&[&["create", &file, &store, "-q"], &columns[..], &more].concat()).code, 0);
    assert_eq!(
        zvf(&["query", &store, "--objects", "5"]).clean(),
        "lon,lat,kind,part,object\n1,2,a,0,5\n3,4,b,0,5\n"
    );
}

#[test]
fn files_that_cannot_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (file, store) = (at("bad.csv"), at("bad.zarrvectors"));
    fs::write(&file, "x,y\n1,2\n3,four\n").unwrap();
    let error = zvf(&["create", &file, &store]).refused(3);
    assert_eq!(
        error,
        format!(
            "zvf: cannot make {store} of {file}: Encoding in CSV, line 3, column \"y\": expected \
             float64, found \"four\""
        )
    );
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left");
    let error = zvf(&["create", &at("none.csv"), &store]).refused(4);
    assert!(error.ends_with("cannot read: No such file or directory (os error 2)"), "{error}");
    let other = at("notes.txt");
    fs::write(&other, "x\n").unwrap();
    let error = zvf(&["create", &other, &store]).refused(2);
    assert!(error.contains("cannot tell the format of "), "{error}");
    for args in [
        &["--format", "las"][..],
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
fn a_store_of_each_kind() {
    let folder = tempfile::tempdir().unwrap();
    let stores = folder.path().join("stores");
    let made = zvf(&["demo", "--json", stores.to_str().unwrap()]).json();
    let made = made["stores"].as_array().unwrap();
    assert_eq!(made.len(), 7);
    for made in made {
        let some = |key: &str| made[key].as_u64().unwrap() > 0;
        assert!(some("vertices") && some("vertices_of_answer"), "{made}");
        assert_eq!(made["findings"], 0, "{made}");
        let info = zvf(&["info", "--json", made["store"].as_str().unwrap()]).json();
        assert_eq!(info["kinds"][0], made["kind"]);
    }
    let error = zvf(&["demo", stores.to_str().unwrap()]).refused(4);
    assert!(error.contains("AlreadyExists"), "{error}");
    let again = zvf(&["demo", "--overwrite", stores.to_str().unwrap()]).clean();
    assert!(again.starts_with("kind         vertices  objects"), "{again}");
}
