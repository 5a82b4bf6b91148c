//! The parts of `Cargo.toml` that the commands need, read line by line.
//!
//! This is not a TOML parser: it supports tables and `key = value` lines, which is how this workspace writes them and
//! how `tidy` keeps them.

use std::fs;
use std::path::Path;

use anyhow::Context;

use crate::house::{HEAVY, House, read};

/// One package of the workspace.
pub(crate) struct Member {
    pub(crate) name: String,
    /// Whether it may be published; internal programs may not.
    pub(crate) published: bool,
    /// Names of its features, except `default` and private ones, which begin with `_`.
    pub(crate) features: Vec<String>,
    /// The names of its normal dependencies.
    pub(crate) dependencies: Vec<Entry>,
    /// The further dependencies of its tests and build script.
    pub(crate) dev_dependencies: Vec<Entry>,
}

/// One line of a table.
pub(crate) struct Entry {
    pub(crate) table: String,
    /// The first part of the key: `serde` of `serde.workspace = true`.
    pub(crate) name: String,
    /// The whole line.
    pub(crate) line: String,
    /// Its number, from 1.
    pub(crate) number: usize,
    /// Whether a comment precedes it, or the entries directly above it.
    pub(crate) explained: bool,
}

impl Member {
    /// Returns whether the checks of published crates apply to it.
    pub(crate) fn is_checked(&self) -> bool {
        self.published && !HEAVY.contains(&self.name.as_str())
    }
}

/// Returns every package of the workspace, by name.
pub(crate) fn members(house: &House) -> anyhow::Result<Vec<Member>> {
    let mut found = vec![house.path("xtask/Cargo.toml")];
    for folder in fs::read_dir(house.path("crates")).context("cannot list crates")? {
        let path = folder?.path().join("Cargo.toml");
        if path.is_file() {
            found.push(path);
        }
    }
    let mut members = found.iter().map(|path| member(path)).collect::<anyhow::Result<Vec<_>>>()?;
    members.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(members)
}

/// Returns the cargo selection of the libraries of the published crates, with all features. All
/// checks that compile nothing use this selection, so that they share their results; the example
/// enables the features that dependencies have in tests.
pub(crate) fn published_set(house: &House) -> anyhow::Result<Vec<String>> {
    let published = members(house)?.into_iter().filter(Member::is_checked);
    let mut words: Vec<String> =
        published.flat_map(|member| ["-p".to_owned(), member.name]).collect();
    words.extend(["--all-features", "--lib", "--example", "rules"].map(str::to_owned));
    Ok(words)
}

fn member(path: &Path) -> anyhow::Result<Member> {
    let text = read(path)?;
    let entries = entries(&text);
    let package = |name: &str| entries.iter().find(|e| e.table == "package" && e.name == name);
    let name = package("name").and_then(|entry| entry.line.split('"').nth(1)).map(str::to_owned);
    let name = name.with_context(|| format!("{} names no package", path.display()))?;
    let published = package("publish").is_none_or(|entry| !entry.line.ends_with("false"));
    let is_public = |name: &str| name != "default" && !name.starts_with('_');
    let features = entries.iter().filter(|e| e.table == "features" && is_public(&e.name));
    let features = features.map(|entry| entry.name.clone()).collect();
    let (mut dependencies, mut dev_dependencies) = (Vec::new(), Vec::new());
    for entry in entries {
        if entry.table.ends_with("dev-dependencies") || entry.table.ends_with("build-dependencies")
        {
            dev_dependencies.push(entry);
        } else if entry.table.ends_with("dependencies") {
            dependencies.push(entry);
        }
    }
    Ok(Member { name, published, features, dependencies, dev_dependencies })
}

/// Returns the `key = value` lines of a file, with their tables.
pub(crate) fn entries(text: &str) -> Vec<Entry> {
    let (mut table, mut explained) = (String::new(), false);
    let mut entries = Vec::new();
    for (number, line) in (1..).zip(text.lines().map(str::trim)) {
        if line.is_empty() {
            explained = false;
        } else if line.starts_with('#') {
            explained = true;
        } else if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            (table, explained) = (name.to_owned(), false);
        } else if let Some((key, _)) = line.split_once('=') {
            let name = key.split('.').next().unwrap_or(key).trim().trim_matches('"').to_owned();
            let line = line.to_owned();
            entries.push(Entry { table: table.clone(), name, line, number, explained });
        }
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_tables_and_comments() {
        let text = "[a]\nx = 1\n# why\ny.workspace = true\nz = 2\n\nw = 3\n[b.c]\n\"q\" = 4\n";
        let found: Vec<_> = entries(text)
            .into_iter()
            .map(|entry| (entry.table, entry.name, entry.number, entry.explained))
            .collect();
        let row = |table: &str, name: &str, number, explained| {
            (table.to_owned(), name.to_owned(), number, explained)
        };
        assert_eq!(
            found,
            [
                row("a", "x", 2, false),
                row("a", "y", 4, true),
                row("a", "z", 5, true),
                row("a", "w", 7, false),
                row("b.c", "q", 9, false),
            ]
        );
    }

    #[test]
    fn knows_this_workspace() {
        let members = members(&House::find().unwrap()).unwrap();
        let format = members.iter().find(|member| member.name == "zvf-format").unwrap();
        assert!(format.published && format.features.contains(&"alloc".to_owned()));
        let xtask = members.iter().find(|member| member.name == "xtask").unwrap();
        assert!(!xtask.published && xtask.dependencies.iter().any(|entry| entry.name == "anyhow"));
    }
}
