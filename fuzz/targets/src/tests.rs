//! The kept seeds of every target, replayed without a fuzzer.

use std::fs;
use std::path::{Path, PathBuf};

/// Returns the root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the targets of this build.
fn targets() -> Vec<String> {
    let manifest = fs::read_to_string(root().join("fuzz/Cargo.toml")).unwrap();
    let names = manifest.split("[[bin]]\nname = \"").skip(1);
    let names = names.filter_map(|rest| rest.split('"').next()).map(str::to_owned);
    names.filter(|name| cfg!(feature = "h5ad") || name != "read_h5ad").collect()
}

#[test]
fn no_seed_breaks_a_promise() {
    let list = fs::read_to_string(root().join("fuzz/seeds.txt")).unwrap();
    let mut seeds = 0;
    for target in targets() {
        super::run(&target, b"");
        let folders = list.lines().filter_map(|line| line.split_once(' '));
        for (_, folder) in folders.filter(|(name, _)| *name == target) {
            for file in fs::read_dir(root().join(folder)).unwrap() {
                let path = file.unwrap().path();
                if path.is_file() {
                    super::run(&target, &fs::read(path).unwrap());
                    seeds += 1;
                }
            }
        }
    }
    assert!(seeds > 500, "only {seeds} seeds were found");
}
