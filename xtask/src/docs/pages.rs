//! Rules for what users read: the README, the pages of the book, help texts.
//!
//! `testdata/phrases.txt` lists phrases that no page, help text or docstring may contain.

use std::fs;

use zvf_format::Class;

use crate::house::{House, list};

/// Returns the violations on pages.
pub(super) fn check(house: &House) -> anyhow::Result<Vec<String>> {
    let phrases = Phrases::read(house)?;
    let mut problems = Vec::new();
    let mut pages = super::links::pages(house)?;
    pages.extend(list(&house.path("crates/zvf-py/python/zvf"))?);
    for path in pages.iter().filter(|path| path.is_file()) {
        let Ok(text) = fs::read_to_string(path) else { continue }; // a compiled module
        let name = path.strip_prefix(house.path("")).unwrap_or(path).display();
        problems.extend(phrases.found_in(&text).map(|problem| format!("{name}:{problem}")));
    }
    problems.extend(readme(&house.read("README.md")?));
    let page = house.read("docs/src/troubleshooting.md")?;
    let missing = Class::ALL.iter().filter(|class| !page.contains(&format!("### `{class}`\n")));
    problems.extend(missing.map(|class| format!("troubleshooting.md: no section {class}")));
    Ok(problems)
}

/// Returns the violations of the README.
fn readme(text: &str) -> Vec<String> {
    let lines = text.lines().count();
    let mut problems = Vec::new();
    if lines > README_LINES {
        problems.push(format!("README.md: {lines} lines (at most {README_LINES})"));
    }
    for part in README_PARTS.iter().filter(|part| !text.contains(**part)) {
        problems.push(format!("README.md: {part:?} is missing"));
    }
    problems
}

/// Returns the violations of the help text of the command `name`.
pub(super) fn check_help(
    house: &House,
    name: &str,
    text: &str,
    has_example: bool,
) -> anyhow::Result<Vec<String>> {
    let phrases = Phrases::read(house)?;
    let mut problems: Vec<String> = phrases.found_in(text).collect();
    let lines = text.lines().count();
    if lines > HELP_LINES {
        problems.push(format!(" {lines} lines (at most {HELP_LINES})"));
    }
    if !has_example {
        problems.push(" no example".to_owned());
    }
    Ok(problems.into_iter().map(|problem| format!("{name}:{problem}")).collect())
}

/// Phrases that read as translated, in lower case.
struct Phrases(Vec<String>);

impl Phrases {
    fn read(house: &House) -> anyhow::Result<Self> {
        let text = house.read("testdata/phrases.txt")?;
        let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        Ok(Self(lines.map(str::to_lowercase).collect()))
    }

    /// Returns where they occur in a text.
    fn found_in(&self, text: &str) -> impl Iterator<Item = String> {
        (1..).zip(text.lines()).filter_map(|(number, line)| {
            let line = line.to_lowercase();
            let phrase = self.0.iter().find(|phrase| line.contains(phrase.as_str()))?;
            Some(format!("{number}: \"{phrase}\": say it in plain English"))
        })
    }
}

/// The required parts of the README: a picture, and the two commands that set everything up.
const README_PARTS: [&str; 4] = [
    "![",
    "\ncargo run -p zvf-cli -- demo stores\n",
    "\ncargo xtask test\n",
    "docs/src/install.md",
];
const README_LINES: usize = 90;
const HELP_LINES: usize = 60;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_obey_the_rules() {
        assert_eq!(check(&House::find().unwrap()).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn each_rule_notices() {
        let house = House::find().unwrap();
        let phrases = Phrases(vec!["is said".to_owned()]);
        assert_eq!(phrases.found_in("a\nThat Is Said.").count(), 1);
        assert_eq!(readme(&"![\n".repeat(README_LINES + 1)).len(), 4);
        let long = "x\n".repeat(HELP_LINES + 1);
        assert_eq!(check_help(&house, "zvf x", &long, false).unwrap().len(), 2);
        assert!(check_help(&house, "zvf x", "Examples:\n  zvf x a", true).unwrap().is_empty());
    }
}
