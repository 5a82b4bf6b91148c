//! Rules about what packages depend on: the layering of the crates, and one place for versions.
//!
//! The table below is the drawing in `docs/src/architecture.md`. A new edge between crates is a
//! change of its own: it is made here, and argued for.

use std::fs;

use anyhow::Context;

use crate::cargo_toml::{Entry, Member, entries, members};
use crate::house::House;

/// What is wrong, one line each.
pub(super) fn check(house: &House) -> anyhow::Result<Vec<String>> {
    let members = members(house)?;
    let mut problems: Vec<String> = members.iter().flat_map(layering).collect();
    problems.extend(members.iter().flat_map(inherited));
    let workspace = fs::read_to_string(house.path("Cargo.toml")).context("no Cargo.toml")?;
    problems.extend(explained(&entries(&workspace)));
    Ok(problems)
}

/// Crates of ours may use those below them only. Tests may use more.
fn layering(member: &Member) -> Vec<String> {
    let Some((_, below)) = MAY_USE.iter().find(|(name, _)| *name == member.name) else {
        return if member.published {
            vec![format!("{}: not in the table of layers", member.name)]
        } else {
            Vec::new()
        };
    };
    let ours = member.dependencies.iter().map(|entry| entry.name.as_str());
    let ours = ours.filter(|name| *name == "zvf" || name.starts_with("zvf-"));
    ours.filter(|name| !below.contains(name))
        .map(|name| format!("{}: must not use {name}", member.name))
        .collect()
}

/// Versions are declared in the workspace, and nowhere else.
fn inherited(member: &Member) -> Vec<String> {
    let entries = member.dependencies.iter().chain(&member.dev_dependencies);
    let named = entries.filter(|entry| !entry.line.contains("workspace = true"));
    // A crate that tests itself with a program above it cannot inherit its path without a version.
    let named = named.filter(|entry| !entry.line.contains("path = "));
    named.map(|entry| format!("{}: declare {} in the workspace", member.name, entry.name)).collect()
}

/// Each dependency has its reason above it.
fn explained(workspace: &[Entry]) -> Vec<String> {
    let declared = workspace.iter().filter(|entry| entry.table == DECLARED);
    let silent = declared.filter(|entry| !entry.explained);
    silent
        .map(|entry| format!("Cargo.toml:{}: say what {} is for", entry.number, entry.name))
        .collect()
}

const DECLARED: &str = "workspace.dependencies";

/// Each published crate, and what it may use besides crates that are not ours.
const MAY_USE: [(&str, &[&str]); 21] = [
    ("zvf-format", &[]),
    ("zvf-metadata", &["zvf-format"]),
    ("zvf-tet", &["zvf-format"]),
    ("zvf-b2nd", &["zvf-format"]),
    ("zvf-blosc", &["zvf-format", "zvf-b2nd"]),
    ("zvf-publish", &[]),
    ("zvf-draco", &["zvf-format"]),
    ("zvf-store", &["zvf-format", "zvf-metadata", "zvf-tet", "zvf-blosc", "zvf-publish"]),
    ("zvf-model", &["zvf-format", "zvf-metadata", "zvf-draco", "zvf-store"]),
    ("zvf-query", &["zvf-format", "zvf-metadata", "zvf-store", "zvf-model"]),
    ("zvf-write", &["zvf-format", "zvf-metadata", "zvf-draco", "zvf-store", "zvf-model"]),
    (
        "zvf-pyramid",
        &["zvf-format", "zvf-metadata", "zvf-store", "zvf-model", "zvf-query", "zvf-write"],
    ),
    ("zvf-validate", &["zvf-format", "zvf-metadata", "zvf-draco", "zvf-store"]),
    ("zvf-repair", &["zvf-format", "zvf-metadata", "zvf-publish", "zvf-store", "zvf-validate"]),
    ("zvf-migrate", &["zvf-format", "zvf-metadata", "zvf-store", "zvf-model"]),
    (
        "zvf-tensor",
        &[
            "zvf-format",
            "zvf-metadata",
            "zvf-tet",
            "zvf-b2nd",
            "zvf-blosc",
            "zvf-publish",
            "zvf-store",
        ],
    ),
    ("zvf-convert", &["zvf-format", "zvf-metadata", "zvf-draco", "zvf-store", "zvf-model"]),
    ("zvf-render", &["zvf-format", "zvf-metadata", "zvf-model", "zvf-query"]),
    (
        "zvf-edit",
        &[
            "zvf-format",
            "zvf-metadata",
            "zvf-store",
            "zvf-model",
            "zvf-query",
            "zvf-write",
            "zvf-pyramid",
            "zvf-convert",
        ],
    ),
    (
        "zvf",
        &[
            "zvf-format",
            "zvf-metadata",
            "zvf-tet",
            "zvf-b2nd",
            "zvf-blosc",
            "zvf-publish",
            "zvf-store",
            "zvf-model",
            "zvf-query",
            "zvf-write",
            "zvf-pyramid",
            "zvf-edit",
            "zvf-validate",
            "zvf-repair",
            "zvf-migrate",
            "zvf-tensor",
            "zvf-convert",
            "zvf-render",
        ],
    ),
    ("zvf-cli", &["zvf"]),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn member(name: &str, published: bool, text: &str) -> Member {
        Member {
            name: name.to_owned(),
            published,
            features: Vec::new(),
            dependencies: entries(text),
            dev_dependencies: Vec::new(),
        }
    }

    #[test]
    fn a_crate_may_not_use_what_is_above_it() {
        let text = "[dependencies]\nzvf-format.workspace = true\nzvf-query.workspace = true\n";
        assert_eq!(
            layering(&member("zvf-store", true, text)),
            ["zvf-store: must not use zvf-query"]
        );
        assert!(layering(&member("zvf", true, text)).is_empty());
        assert_eq!(layering(&member("zvf-new", true, "")), ["zvf-new: not in the table of layers"]);
        assert!(layering(&member("bench", false, text)).is_empty());
    }

    #[test]
    fn the_table_has_no_cycle() {
        for (i, (name, below)) in MAY_USE.iter().enumerate() {
            let above = MAY_USE[i..].iter().map(|(name, _)| name).collect::<Vec<_>>();
            assert!(below.iter().all(|lower| !above.contains(&lower)), "{name}");
        }
    }

    #[test]
    fn versions_have_one_place_and_a_reason() {
        let text = "[dependencies]\na = \"1\"\nb.workspace = true\nc = { path = \"../c\" }\n";
        assert_eq!(inherited(&member("x", true, text)), ["x: declare a in the workspace"]);
        let workspace = entries("[workspace.dependencies]\na = 1\n# why\nb = 2\n");
        assert_eq!(explained(&workspace), ["Cargo.toml:2: say what a is for"]);
    }
}
