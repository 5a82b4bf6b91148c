//! `counts`: counts what the two commands of the README compile, and compares the counts with a
//! table.
//!
//! The counts come from cargo's unit graph, without compiling anything, so they do not depend on
//! the machine. The graph is an unstable output of cargo; the workspace pins its version.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, ensure};
use serde_json::Value;

use crate::args::Args;
use crate::house::{House, has_extension, say, walk};
use crate::tidy::ceilings::count::split_tests;

/// The units that one command of the README compiles.
#[derive(Debug, Default, PartialEq)]
struct Counts {
    packages: usize,
    /// Versions of packages beyond the first.
    duplicates: usize,
    units: usize,
    /// Lines of this workspace on the longest chain of units.
    lines: usize,
}

pub(crate) fn run(house: &House, mut args: Args) -> anyhow::Result<()> {
    let write = args.flag("--write");
    args.end()?;
    let path = house.path("xtask/counts.txt");
    let table = fs::read_to_string(&path).unwrap_or_default();
    let (mut text, mut problems) = (HEAD.to_owned(), Vec::new());
    for (name, words) in COMMANDS {
        let graph = house.cargo(words).words("--locked --unit-graph -Z unstable-options");
        // The pinned cargo is stable and the option unstable.
        let graph = graph.env("RUSTC_BOOTSTRAP", "1").output();
        let graph = graph.with_context(|| format!("cargo has no graph of {name}"))?;
        let found = count(&serde_json::from_str(&graph)?, &mut lines_of_target)?;
        // Some slack, so that not every commit changes the table.
        let ceiling = found.lines.div_ceil(500) * 500;
        let Counts { packages, duplicates, units, .. } = found;
        writeln!(text, "{name:8} {packages:8} {duplicates:10} {units:5} {ceiling:5}")?;
        let before = table.lines().find(|line| line.split_whitespace().next() == Some(name));
        let found = found.problems(before.unwrap_or_default()).into_iter();
        problems.extend(found.map(|problem| format!("{name}: {problem}")));
    }
    if write {
        return fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()));
    }
    problems.iter().for_each(|problem| say(problem));
    ensure!(problems.is_empty(), "xtask/counts.txt says otherwise: `cargo xtask counts --write`");
    Ok(())
}

impl Counts {
    /// Compares with a line of the table.
    fn problems(&self, line: &str) -> Vec<String> {
        let mut numbers = line.split_whitespace().skip(1).map(|word| word.parse().unwrap_or(0));
        let mut problems = Vec::new();
        let exact =
            [("packages", self.packages), ("duplicates", self.duplicates), ("units", self.units)];
        for (what, found) in exact {
            let expected: usize = numbers.next().unwrap_or(0);
            if found != expected {
                problems.push(format!("{found} {what}, {expected} in the table"));
            }
        }
        let ceiling = numbers.next().unwrap_or(0);
        if self.lines > ceiling {
            let lines = self.lines;
            problems.push(format!("{lines} own lines on the longest chain, at most {ceiling}"));
        }
        problems
    }
}

/// Counts a unit graph; `lines` returns the lines of a target of this workspace.
fn count(graph: &Value, lines: &mut dyn FnMut(&str) -> usize) -> anyhow::Result<Counts> {
    let units = graph["units"].as_array().context("the graph has no units")?;
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for unit in units {
        let id = unit["pkg_id"].as_str().context("a unit has no package")?;
        let name = id.rsplit(['/', '#']).next().unwrap_or(id).split('@').next().unwrap_or(id);
        // For a package in a folder of the same name, only the version follows the mark.
        let name = if name.starts_with(|c: char| c.is_ascii_digit()) {
            id.rsplit('/').next().and_then(|end| end.split('#').next()).unwrap_or(name)
        } else {
            name
        };
        versions.entry(name).or_default().insert(id);
    }
    let packages = versions.values().map(BTreeSet::len).sum();
    let mut chains = vec![None; units.len()];
    let mut longest = 0;
    for at in 0..units.len() {
        longest = longest.max(chain(units, at, &mut chains, lines)?);
    }
    Ok(Counts {
        packages,
        duplicates: packages - versions.len(),
        units: units.len(),
        lines: longest,
    })
}

/// Returns the lines of this workspace on the longest chain that ends with this unit.
fn chain(
    units: &[Value],
    at: usize,
    chains: &mut [Option<usize>],
    lines: &mut dyn FnMut(&str) -> usize,
) -> anyhow::Result<usize> {
    if let Some(known) = chains[at] {
        return Ok(known);
    }
    let unit = &units[at];
    let mut longest = 0;
    for needed in unit["dependencies"].as_array().context("a unit has no dependencies")? {
        let needed = needed["index"].as_u64().context("a dependency has no index")?;
        longest = longest.max(chain(units, usize::try_from(needed)?, chains, lines)?);
    }
    let is_own = unit["pkg_id"].as_str().is_some_and(|id| id.starts_with("path+"));
    if is_own && matches!(unit["mode"].as_str(), Some("build" | "test")) {
        longest += lines(unit["target"]["src_path"].as_str().context("a target has no source")?);
    }
    chains[at] = Some(longest);
    Ok(longest)
}

/// Returns the lines of a target: those of its folder, for a library or a test with several files,
/// otherwise those of the single file.
fn lines_of_target(path: &str) -> usize {
    let path = Path::new(path);
    let folder = path.parent().filter(|folder| {
        path.ends_with("lib.rs") || (path.ends_with("main.rs") && !folder.ends_with("src"))
    });
    let files = match folder {
        Some(folder) => walk(folder, &|_| false).unwrap_or_default(),
        None => vec![path.to_owned()],
    };
    let sources = files.iter().filter(|path| has_extension(path, "rs"));
    // Comments take no time to compile.
    let code = |path| fs::read_to_string(path).map_or(0, |text| split_tests(&text).0.len());
    sources.map(code).sum()
}

/// The commands of the README, as cargo builds them.
const COMMANDS: [(&str, &str); 2] = [("demo", "build -p zvf-cli"), ("test", "test")];
const HEAD: &str = "\
# What the two commands of the README compile: `cargo run -p zvf-cli -- demo stores` and `cargo xtask test`.
# Compared by `cargo xtask counts`, written with --write: exact, and at most so many lines.
# name   packages duplicates units lines
";

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn counts_packages_versions_and_the_longest_chain() {
        let unit = |id: &str, mode: &str, path: &str, needs: &[usize]| {
            let needs: Vec<_> = needs.iter().map(|index| json!({"index": index})).collect();
            json!({"pkg_id": id, "mode": mode, "target": {"src_path": path}, "dependencies": needs})
        };
        let graph = json!({"units": [
            unit("registry+https://x/index#a@1.0.0", "build", "1000", &[]),
            unit("registry+https://x/index#a@2.0.0", "build", "1000", &[]),
            unit("path+file:///w/crates/low#0.1.0", "build", "10", &[0]),
            unit("path+file:///w/crates/left#0.1.0", "build", "30", &[2]),
            unit("path+file:///w/crates/right#other@0.1.0", "build", "20", &[2, 1]),
            unit("path+file:///w/crates/left#0.1.0", "run-custom-build", "500", &[2]),
            unit("path+file:///w/crates/left#0.1.0", "test", "7", &[3, 4, 5]),
        ]});
        let found = count(&graph, &mut |path| path.parse().unwrap()).unwrap();
        assert_eq!(found, Counts { packages: 5, duplicates: 1, units: 7, lines: 47 });
        assert_eq!(found.problems("test 5 1 7 47"), Vec::<String>::new());
        assert_eq!(
            found.problems("test 4 1 9 46"),
            [
                "5 packages, 4 in the table",
                "7 units, 9 in the table",
                "47 own lines on the longest chain, at most 46"
            ]
        );
    }
}
