//! Rules about the files of one crate: no cyclic dependencies.
//!
//! A file may use its parent and its submodules. Two other files that use each other, directly or
//! through more files, can only be read and changed together: what both need belongs into one of
//! them, or into a third.

mod graph;
mod source;

use std::collections::BTreeSet;
use std::fs;

use anyhow::Context;

use crate::cargo_toml::members;
use crate::house::{House, has_extension, walk};

use graph::{Graph, Tree};

/// Returns the faults, one line each.
pub(super) fn check(house: &House) -> anyhow::Result<Vec<String>> {
    let mut problems = Vec::new();
    for member in members(house)? {
        let folder = match member.name.as_str() {
            "xtask" => "xtask/src".to_owned(),
            name => format!("crates/{name}/src"),
        };
        let root = house.path(&folder);
        let mut tree = Tree::new();
        for path in walk(&root, &|_| false)?.iter().filter(|path| has_extension(path, "rs")) {
            let below = path.strip_prefix(&root).unwrap_or(path).display().to_string();
            tree.insert(below, fs::read_to_string(path)?);
        }
        let circles = circles(&tree).with_context(|| folder)?;
        problems.extend(circles.iter().map(|circle| format!("{}: {circle}", member.name)));
    }
    Ok(problems)
}

/// Describes the cycles of a crate.
fn circles(tree: &Tree) -> anyhow::Result<Vec<String>> {
    let mut found = Vec::new();
    for root in ["lib.rs", "main.rs"] {
        if tree.contains_key(root) {
            let graph = Graph::read(tree, root)?;
            found.extend(components(&graph).iter().map(|files| describe(&graph, files)));
        }
    }
    Ok(found)
}

/// Returns the strongly connected components with more than one file.
fn components(graph: &Graph) -> Vec<BTreeSet<usize>> {
    let reached: Vec<BTreeSet<usize>> =
        (0..graph.files.len()).map(|file| reach(graph, file)).collect();
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

/// Names the files of a cycle, by their paths below `src`, and which of them use which.
fn describe(graph: &Graph, circle: &BTreeSet<usize>) -> String {
    let files: BTreeSet<&str> = circle.iter().map(|file| graph.files[*file].as_str()).collect();
    let files: Vec<&str> = files.into_iter().collect();
    let mut text = format!("{} use each other in a circle:", files.join(", "));
    for from in circle {
        for (to, path) in graph.names[*from].iter().filter(|(to, _)| circle.contains(to)) {
            text += &format!("\n    {} uses {path} of {}", graph.files[*from], graph.files[*to]);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the files of each cycle.
    fn find_circles(files: &[(&str, &str)]) -> Vec<String> {
        let tree =
            files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
        let found = circles(&tree).unwrap();
        found.iter().map(|text| text.split(" use each other").next().unwrap().to_owned()).collect()
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
        assert_eq!(find_circles(&files), ["a.rs, b.rs, c/mod.rs"]);
        let cut = [files[0], files[1], files[2], ("c/mod.rs", "pub fn c() {}"), files[4]];
        assert!(find_circles(&cut).is_empty());
    }

    #[test]
    fn parents_and_children_may_use_each_other() {
        assert!(
            find_circles(&[
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
        assert_eq!(find_circles(&files), ["a.rs, b.rs"]);
        // What the root has itself is its own.
        files[3] = ("inner.rs", "pub(crate) struct B;");
        assert!(find_circles(&files).is_empty());
    }

    #[test]
    fn blocks_belong_to_their_files() {
        assert_eq!(
            find_circles(&[
                ("lib.rs", "mod a; #[path = \"../other.rs\"] mod elsewhere; mod b;"),
                ("a.rs", "mod block { use super::super::b::B; } pub struct A;"),
                ("b/mod.rs", "pub struct B(crate::a::block::C);"),
            ]),
            ["a.rs, b/mod.rs"]
        );
    }

    #[test]
    fn tests_may_use_everything() {
        assert!(
            find_circles(&[
                ("lib.rs", "mod a; mod b; #[cfg(test)] mod tests;"),
                ("a.rs", "use crate::b::B; pub struct A;"),
                ("b.rs", "pub struct B; #[cfg(test)] mod tests { use crate::a::A; }"),
            ])
            .is_empty()
        );
    }
}
