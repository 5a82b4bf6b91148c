//! The files of this repository are read as by stock libraries, and broken ones are refused.

use std::path::Path;

#[test]
fn files_are_read_as_stock_libraries_read_them() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/formats");
    let outcome = golden_formats::check_folder(&folder, None).unwrap();
    assert!(outcome.failures.is_empty(), "{}", outcome.failures.join("\n"));
    assert!(outcome.passed > 100, "{} facts only", outcome.passed);
}

#[test]
fn damaged_files_never_panic() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/formats");
    let outcome = golden_formats::check_damaged(&folder, 8, 18).unwrap();
    assert!(outcome.failures.is_empty(), "{}", outcome.failures.join("\n"));
    assert!(outcome.passed > 1000, "{} files only", outcome.passed);
}
