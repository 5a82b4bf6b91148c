//! A made-up format, which only the builds of CI know (the feature `dots` of zvf-convert).

use std::fs;

use crate::stores::{Folder, Served, done, zvf};

#[test]
fn a_line_in_the_table_is_all_that_a_format_needs() {
    let folder = Folder::new();
    let text = "dots\n0.5 1 7\n2 3 9\n";
    let file = folder.write("a.dots", text);
    let [csv, store] = ["a.csv", "a.zarrvectors"].map(|name| folder.at(name));
    if !zvf(&["formats", "--json"]).clean().contains("\"dots\"") {
        // `cargo xtask ci features` builds the whole workspace with all features.
        let is_ci = cfg!(all(feature = "h5ad", feature = "icechunk", feature = "gcs"));
        assert!(!is_ci, "build the whole workspace");
        zvf(&["convert", &file, &csv]).refused_with(2, "cannot tell the format");
        return;
    }
    done(&["convert", "-q", &file, &csv]);
    assert_eq!(fs::read_to_string(csv).unwrap(), "x,y,weight\n0.5,1,7\n2,3,9\n");
    done(&["create", "-q", &file, &store]);
    let [converted, asked] = ["b.dots", "c.dots"].map(|name| folder.at(name));
    done(&["convert", "-q", &store, &converted]);
    done(&["query", "-q", &store, "-o", &asked]);
    for out in [converted, asked] {
        assert_eq!(fs::read_to_string(&out).unwrap(), text, "{out}");
    }
    assert_eq!(Served::start(&store).get("/api/a/query?format=dots"), text);
}
