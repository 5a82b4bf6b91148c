//! Rules about the files of one crate: they do not use each other in circles.
//!
//! A file may use its parent and what is below it. Two other files that use each other, directly or through more files,
//! can only be read and changed together: what both need belongs into one of them, or into a third.

mod graph;
mod source;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::Context;

use crate::cargo_toml::members;
use crate::house::House;

use graph::{Graph, Tree};

/// Returns the faults, one line each.
pub(super) fn check(house: &House) -> anyhow::Result<Vec<String>> {
    let mut problems = Vec::new();
    for member in members(house)? {
        let folder = if member.name == "xtask" { "xtask/src" } else { &format!("crates/{}/src", member.name) };
        let mut tree = Tree::new();
        read(&house.path(folder), "", &mut tree)?;
        for circle in circles(&tree).with_context(|| folder.to_owned())? {
            problems.push(format!("{folder}: {circle}"));
        }
    }
    Ok(problems)
}

/// Reads the files of a folder and of those below it.
fn read(folder: &Path, below: &str, tree: &mut Tree) -> anyhow::Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))? {
        let entry = entry?;
        let path = format!("{below}{}", entry.file_name().to_string_lossy());
        if entry.file_type()?.is_dir() {
            read(&entry.path(), &format!("{path}/"), tree)?;
        } else if path.ends_with(".rs") {
            tree.insert(path, fs::read_to_string(entry.path())?);
        }
    }
    Ok(())
}

/// Returns the circles of a crate, one line each.
fn circles(tree: &Tree) -> anyhow::Result<Vec<String>> {
    let mut lines = Vec::new();
    for root in ["lib.rs", "main.rs"] {
        if tree.contains_key(root) {
            let graph = Graph::read(tree, root)?;
            lines.extend(components(&graph).iter().map(|circle| describe(&graph, circle)));
        }
    }
    Ok(lines)
}

/// Returns the sets of more than one file in which each file reaches each other one.
fn components(graph: &Graph) -> Vec<BTreeSet<usize>> {
    let reached: Vec<BTreeSet<usize>> = (0..graph.files.len()).map(|file| reach(graph, file)).collect();
    let mut found: Vec<BTreeSet<usize>> = Vec::new();
    for (file, to) in reached.iter().enumerate() {
        let circle: BTreeSet<usize> =
            to.iter().copied().filter(|other| reached[*other].contains(&file)).collect();
        if circle.len() > 1 && !found.contains(&circle) {
            found.push(circle);
        }
    }
    found
}

/// Returns the files that a file uses directly or through others.
fn reach(graph: &Graph, file: usize) -> BTreeSet<usize> {
    let mut reached = BTreeSet::new();
    let mut open = vec![file];
    while let Some(file) = open.pop() {
        open.extend(graph.names[file].keys().filter(|to| reached.insert(**to)));
    }
    reached
}

/// Says which files of a circle use which.
fn describe(graph: &Graph, circle: &BTreeSet<usize>) -> String {
    let mut files: Vec<&str> = circle.iter().map(|file| graph.files[*file].as_str()).collect();
    files.sort_unstable();
    let mut line = format!("{} use each other in a circle:", files.join(", "));
    for from in circle {
        for (to, path) in &graph.names[*from] {
            if circle.contains(to) {
                line += &format!("\n    {} uses {path} of {}", graph.files[*from], graph.files[*to]);
            }
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the files of each circle.
    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let tree = files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
        let lines = circles(&tree).unwrap();
        lines.iter().map(|line| line.split(" use ").next().unwrap_or_default().to_owned()).collect()
    }

    #[test]
    fn a_circle_is_found() {
        let root = ("lib.rs", "mod a; mod b; mod c; mod d;");
        let files = [
            root,
            ("a.rs", "use crate::b::B; pub struct A;"),
            ("b.rs", "use super::c; pub struct B;"),
            ("c/mod.rs", "pub fn c() { crate::a::A; }"),
            ("d.rs", "use crate::a::A;"),
        ];
        assert_eq!(found(&files), ["a.rs, b.rs, c/mod.rs"]);
        let cut = [files[0], files[1], files[2], ("c/mod.rs", "pub fn c() {}"), files[4]];
        assert!(found(&cut).is_empty());
    }

    #[test]
    fn parents_and_children_may_use_each_other() {
        assert!(
            found(&[
                ("lib.rs", "mod a; pub use a::A; pub struct Root;"),
                ("a/mod.rs", "mod b; use b::B; use crate::Root; pub struct A;"),
                ("a/b.rs", "use super::A; pub struct B;"),
            ])
            .is_empty()
        );
    }

    #[test]
    fn names_are_followed_to_their_files() {
        let mut files = vec![
            ("lib.rs", "mod a; mod b; mod inner; pub(crate) use inner::*; use a::{A as Alias};"),
            ("a.rs", "use crate::B; pub struct A;"),
            ("b.rs", "use crate::Alias; pub struct B;"),
            ("inner.rs", "pub(crate) use crate::b::B;"),
        ];
        assert_eq!(found(&files), ["a.rs, b.rs"]);
        // What the root has itself is its own.
        files[3] = ("inner.rs", "pub(crate) struct B;");
        assert!(found(&files).is_empty());
    }

    #[test]
    fn blocks_belong_to_their_files() {
        assert_eq!(
            found(&[
                ("lib.rs", "mod a; #[path = \"other/place.rs\"] mod b;"),
                ("a.rs", "mod block { use super::super::b::B; } pub struct A;"),
                ("other/place.rs", "pub struct B(crate::a::block::C);"),
            ]),
            ["a.rs, other/place.rs"]
        );
    }

    #[test]
    fn tests_may_use_everything() {
        assert!(
            found(&[
                ("lib.rs", "mod a; mod b; #[cfg(test)] mod tests;"),
                ("a.rs", "use crate::b::B; pub struct A;"),
                ("b.rs", "pub struct B; #[cfg(test)] mod tests { use crate::a::A; }"),
            ])
            .is_empty()
        );
    }
}
