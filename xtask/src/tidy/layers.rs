//! Rules about dependencies: the layers of the crates, and a single place for versions.
//!
//! The drawing of the crates in `docs/src/architecture.md` is enforced: each line names a published crate and the
//! crates it uses. A new edge between crates must be drawn there.

use crate::cargo_toml::{Entry, Member, entries, members};
use crate::house::House;

/// Returns the faults, one line each.
pub(super) fn check(house: &House) -> anyhow::Result<Vec<String>> {
    let members = members(house)?;
    let page = house.read(DRAWING)?;
    let (drawing, mut problems) = parse_drawing(&page);
    problems.extend(members.iter().flat_map(|member| layering(member, &drawing)));
    let gone =
        drawing.iter().filter(|layer| members.iter().all(|member| member.name != layer.name));
    problems.extend(gone.map(|layer| format!("{DRAWING}: there is no crate {}", layer.name)));
    problems.extend(members.iter().flat_map(inherited));
    let workspace = house.read("Cargo.toml")?;
    problems.extend(explained(&entries(&workspace)));
    Ok(problems)
}

/// One line of the drawing: a published crate, and the crates of the workspace that it uses.
struct Layer {
    name: String,
    uses: Vec<String>,
}

/// Returns the lines of the drawing from top to bottom, and their faults: a crate may only use those above it.
fn parse_drawing(page: &str) -> (Vec<Layer>, Vec<String>) {
    let mut layers: Vec<Layer> = Vec::new();
    let mut problems = Vec::new();
    let drawing = page.split_once("```text layers\n").and_then(|(_, rest)| rest.split_once("```"));
    let Some((drawing, _)) = drawing else {
        return (layers, vec![format!("{DRAWING}: no drawing of the crates")]);
    };
    for line in drawing.lines().filter(|line| !line.trim().is_empty()) {
        let mut words = line.split_whitespace().map(str::to_owned);
        let (Some(name), Some("uses")) = (words.next(), words.next().as_deref()) else {
            problems.push(format!("{DRAWING}: {line:?} is no line `CRATE uses CRATE...`"));
            continue;
        };
        let uses: Vec<String> = words.filter(|word| word != "-").collect();
        let above = |used: &&String| layers.iter().any(|layer| layer.name == **used);
        let below = uses.iter().filter(|used| !above(used));
        problems.extend(
            below.map(|used| format!("{DRAWING}: {name} uses {used}, which is not above it")),
        );
        layers.push(Layer { name, uses });
    }
    (layers, problems)
}

/// Checks that a published crate uses exactly the crates in the drawing. Tests may use more.
fn layering(member: &Member, drawing: &[Layer]) -> Vec<String> {
    let Some(layer) = drawing.iter().find(|layer| layer.name == member.name) else {
        return if member.published {
            vec![format!("{}: not in the drawing of {DRAWING}", member.name)]
        } else {
            Vec::new()
        };
    };
    let ours = member.dependencies.iter().map(|entry| entry.name.as_str());
    let ours: Vec<&str> = ours.filter(|name| *name == "zvf" || name.starts_with("zvf-")).collect();
    let more = ours.iter().filter(|name| layer.uses.iter().all(|used| used != *name));
    let unused = layer.uses.iter().filter(|used| !ours.contains(&used.as_str()));
    more.map(|name| format!("{}: must not use {name}", member.name))
        .chain(unused.map(|used| format!("{DRAWING}: {} does not use {used}", member.name)))
        .collect()
}

/// Checks that versions are declared only in the workspace.
fn inherited(member: &Member) -> Vec<String> {
    let entries = member.dependencies.iter().chain(&member.dev_dependencies);
    let named = entries.filter(|entry| !entry.line.contains("workspace = true"));
    // A crate that tests itself with a program of a higher layer cannot inherit its path without a
    // version.
    let named = named.filter(|entry| !entry.line.contains("path = "));
    named.map(|entry| format!("{}: declare {} in the workspace", member.name, entry.name)).collect()
}

/// Checks that a comment explains each dependency.
fn explained(workspace: &[Entry]) -> Vec<String> {
    let declared = workspace.iter().filter(|entry| entry.table == DECLARED);
    let silent = declared.filter(|entry| !entry.explained);
    silent
        .map(|entry| format!("Cargo.toml:{}: say what {} is for", entry.number, entry.name))
        .collect()
}

const DECLARED: &str = "workspace.dependencies";
/// The page with the drawing of the crates.
const DRAWING: &str = "docs/src/architecture.md";

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

    fn drawing(lines: &str) -> (Vec<Layer>, Vec<String>) {
        parse_drawing(&format!("text\n```text layers\n{lines}```\nmore\n"))
    }

    #[test]
    fn a_crate_uses_what_is_drawn_and_nothing_else() {
        let (layers, problems) = drawing("zvf-format uses -\n\nzvf-store uses zvf-format\n");
        assert!(problems.is_empty());
        let text = "[dependencies]\nzvf-format.workspace = true\nzvf-query.workspace = true\n";
        assert_eq!(
            layering(&member("zvf-store", true, text), &layers),
            ["zvf-store: must not use zvf-query"]
        );
        assert_eq!(
            layering(&member("zvf-store", true, "[dependencies]\n"), &layers),
            ["docs/src/architecture.md: zvf-store does not use zvf-format"]
        );
        assert_eq!(
            layering(&member("zvf-new", true, ""), &layers),
            ["zvf-new: not in the drawing of docs/src/architecture.md"]
        );
        assert!(layering(&member("bench", false, text), &layers).is_empty());
    }

    #[test]
    fn a_drawing_has_an_order() {
        let (_, problems) = drawing("zvf-store uses zvf-format\nzvf-format uses -\nzvf is all\n");
        assert_eq!(
            problems,
            [
                "docs/src/architecture.md: zvf-store uses zvf-format, which is not above it",
                "docs/src/architecture.md: \"zvf is all\" is no line `CRATE uses CRATE...`",
            ]
        );
        assert_eq!(parse_drawing("").1, ["docs/src/architecture.md: no drawing of the crates"]);
    }

    #[test]
    fn versions_have_one_place_and_a_reason() {
        let text = "[dependencies]\na = \"1\"\nb.workspace = true\nc = { path = \"../c\" }\n";
        assert_eq!(inherited(&member("x", true, text)), ["x: declare a in the workspace"]);
        let workspace = entries("[workspace.dependencies]\na = 1\n# why\nb = 2\n");
        assert_eq!(explained(&workspace), ["Cargo.toml:2: say what a is for"]);
    }
}
