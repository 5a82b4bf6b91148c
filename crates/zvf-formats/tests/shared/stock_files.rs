//! Tests: comparison of files of features and points in `testdata/formats` with their `expected.json`.

use std::path::Path;

use serde_json::Value as Json;
use zvf_error::Result;

use super::golden::{self, Collected, check_columns};
pub(crate) use super::golden::{folder, read_expected, sha256};
use super::{Input, ReadOptions, open};

/// Reads a file to its end.
pub(crate) fn read_all(path: &Path, options: &ReadOptions) -> Result<Collected> {
    read_input(Input::path(path), options)
}

pub(crate) fn read_input(input: Input, options: &ReadOptions) -> Result<Collected> {
    Collected::from_reader(open(input, None, options)?)
}

/// Compares the valid files of a format, without those in `except`, with the expected values.
pub(crate) fn check_good(format: &str, except: &[&str], options: &ReadOptions) {
    let expected = read_expected(format);
    for (name, facts) in expected["files"].as_object().unwrap() {
        if !except.contains(&name.as_str()) {
            let all = read_all(&folder(format).join(name), options).unwrap_or_else(|error| {
                panic!("{name}: {error}");
            });
            check_one(name, facts, &all);
        }
    }
}

/// Compares positions and attributes of vertices.
pub(crate) fn check_one(name: &str, facts: &Json, all: &Collected) {
    assert_eq!(facts["vertices"]["count"], all.rows(), "{name}");
    check_positions(name, facts, all);
    check_columns(name, &facts["vertex_attributes"], &all.fields, false);
}

fn check_positions(name: &str, facts: &Json, all: &Collected) {
    if facts["vertices"]["exact"] == true {
        let digest = sha256(&all.position_bytes());
        assert_eq!(facts["vertices"]["sha256"], digest, "positions of {name}");
    }
}

/// Reads every broken file and checks the class of each error.
pub(crate) fn check_broken(format: &str, options: &ReadOptions) {
    let expected = read_expected(format);
    golden::check_broken(format, &expected, |path| read_all(path, options).map(drop));
}

/// Compares files of features. A file with several kinds is read as each of them.
pub(crate) fn check_features(format: &str, options: &ReadOptions) {
    let expected = read_expected(format);
    for (name, facts) in expected["files"].as_object().unwrap() {
        let path = folder(format).join(name);
        let all = read_all(&path, options).unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut rows = all.rows();
        let kinds = all.header.other_kinds.clone();
        for kind in &kinds {
            let options = ReadOptions { kind: Some(*kind), ..options.clone() };
            rows += read_all(&path, &options).unwrap().rows();
        }
        assert_eq!(facts["vertices"]["count"], rows, "{name}");
        if kinds.is_empty() {
            check_positions(name, facts, &all);
        }
        if all.header.kind.is_chain() && kinds.is_empty() {
            let expected: Vec<i64> =
                serde_json::from_value(facts["parts"]["lengths"].clone()).unwrap();
            assert_eq!(all.lengths, expected, "{name}");
        }
        assert_eq!(facts["features"]["count"], all.objects.len(), "{name}");
        check_columns(name, &facts["columns"], &all.object_fields, false);
    }
}
