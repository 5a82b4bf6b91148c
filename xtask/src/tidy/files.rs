//! Rules about the text of one file.

use std::path::Path;
use std::{env, fs};

use crate::house::{House, has_extension, walk};

/// Returns the faults in the files of the workspace, one line each.
pub(super) fn check(house: &House) -> anyhow::Result<Vec<String>> {
    let machine = machine_paths(&house.path(""));
    let mut problems = Vec::new();
    for path in list_all(house)? {
        let Ok(text) = fs::read_to_string(house.path(&path)) else {
            continue; // not text
        };
        let mut found = leftovers(&text, &machine);
        if has_extension(path.as_ref(), "rs") {
            found.extend(source(&path, &text));
        }
        problems.extend(found.into_iter().map(|problem| format!("{path}{problem}")));
    }
    Ok(problems)
}

/// Lists every hand-written file of the workspace, by its path below the root.
pub(super) fn list_all(house: &House) -> anyhow::Result<Vec<String>> {
    let root = house.path("");
    let below = |path: &Path| path.strip_prefix(&root).unwrap_or(path).display().to_string();
    let is_made = |path: &Path| {
        let is_of_tools = path.ends_with(".git") || path.ends_with("target");
        is_of_tools || MADE.contains(&below(path).as_str())
    };
    let mut paths: Vec<String> = walk(&root, &is_made)?.iter().map(|path| below(path)).collect();
    paths.retain(|path| !is_data(path));
    paths.sort();
    Ok(paths)
}

/// Returns whether a file is not checked: test data, and the file `.git` of a linked work tree.
fn is_data(path: &str) -> bool {
    path.starts_with("testdata/") || path == ".git"
}

/// Rules for Rust files.
fn source(path: &str, text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if !text.starts_with("//! ") {
        problems.push(": must begin with `//!` and say what the file is".to_owned());
    }
    let lines = text.lines().count();
    if lines > LONGEST {
        problems.push(format!(": {lines} lines; split it (at most {LONGEST})"));
    }
    let stem = Path::new(path).file_stem().unwrap_or_default().to_string_lossy();
    if VAGUE.contains(&stem.as_ref()) {
        problems.push(format!(": {stem} is no name for an idea"));
    }
    let forbids = text.contains("#![forbid(unsafe_code)]");
    if FORBID_UNSAFE.contains(&path) && !forbids {
        problems.push(": must forbid unsafe code".to_owned());
    }
    // The lints refuse more. Written in parts, so that this file obeys its own rules.
    let banned = [
        (concat!("#[", "ignore"), "a test that does not run is no test"),
        (concat!("#![", "allow("), "use #![expect] with a reason"),
    ];
    for (number, line) in (1..).zip(text.lines()) {
        for (pattern, why) in banned {
            if line.contains(pattern) {
                problems.push(format!(":{number}: {pattern}: {why}"));
            }
        }
    }
    problems
}

/// Rules for every text file.
fn leftovers(text: &str, machine: &[String]) -> Vec<String> {
    let notes = [
        concat!("TO", "DO"),
        concat!("FIX", "ME"),
        concat!("XX", "X:"),
        concat!("To be ", "written"),
    ];
    let mut problems = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        for note in notes {
            if line.contains(note) {
                problems.push(format!(":{number}: {note}: do it, or open an issue"));
            }
        }
        for path in machine {
            if line.contains(path.as_str()) {
                problems.push(format!(":{number}: {path} is a path of one machine"));
            }
        }
    }
    problems
}

/// Returns paths that only exist on this machine.
fn machine_paths(root: &Path) -> Vec<String> {
    let mut paths = vec![root.to_string_lossy().trim_end_matches('/').to_owned()];
    paths.extend(env::var("HOME").ok().map(|home| format!("{home}/")));
    for folder in ["home", "Users", "root", "tmp", "work"] {
        paths.push(format!("/{folder}/"));
    }
    paths.retain(|path| path.len() > 1);
    paths
}

/// The crates that parse hostile bytes and must not use unsafe code.
const FORBID_UNSAFE: [&str; 4] = [
    "crates/zvf-format/src/lib.rs",
    "crates/zvf-metadata/src/lib.rs",
    "crates/zvf-tet/src/lib.rs",
    "crates/zvf-b2nd/src/lib.rs",
];

const LONGEST: usize = 800;

/// Folders of generated files.
const MADE: [&str; 7] = [
    "dist",
    "fuzz/corpus",
    "fuzz/artifacts",
    "fuzz/coverage",
    "docs/book",
    "viewer/node_modules",
    "viewer/pkg",
];

/// File names that say nothing about the content.
const VAGUE: [&str; 8] =
    ["util", "utils", "common", "helper", "helpers", "manager", "misc", "types"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_notices() {
        let long = "//! x\n".repeat(LONGEST + 1);
        for (path, text, problem) in [
            ("a.rs", "fn f() {}\n", ": must begin with `//!` and say what the file is"),
            ("a.rs", "//!\n", ": must begin with `//!` and say what the file is"),
            ("a.rs", long.as_str(), ": 801 lines; split it (at most 800)"),
            ("x/utils.rs", "//! x", ": utils is no name for an idea"),
            ("crates/zvf-format/src/lib.rs", "//! x", ": must forbid unsafe code"),
            (
                "a.rs",
                concat!("//! x\n#[", "ignore]"),
                concat!(":2: #[", "ignore: a test that does not run is no test"),
            ),
        ] {
            assert_eq!(source(path, text), [problem]);
        }
        assert!(source("a.rs", "//! x\nfn f() {}\n").is_empty());
    }

    #[test]
    fn nothing_is_left_over() {
        let machine = ["/somewhere/".to_owned()];
        let note = concat!("FIX", "ME");
        assert_eq!(leftovers("ok\nsee /somewhere/else", &machine).len(), 1);
        assert_eq!(leftovers(note, &machine), [format!(":1: {note}: do it, or open an issue")]);
        assert!(leftovers("ok", &machine).is_empty());
    }
}
