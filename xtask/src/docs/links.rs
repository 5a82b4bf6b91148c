//! Checks the links of the book and of the top-level pages, to files and to headings in them.
//!
//! A link from a word in code font to a Rust file must name an item that the file defines, so that links into the code
//! are updated when it is renamed. Links to other sites are not checked: that needs a network and proves little.

use std::fs;
use std::path::{Path, PathBuf};

use crate::house::{House, has_extension, read, walk};

/// Returns broken links, and pages that are missing in the table of contents.
pub(super) fn check(house: &House) -> anyhow::Result<Vec<String>> {
    let pages = pages(house)?;
    let mut problems = Vec::new();
    for page in &pages {
        let text = read(page)?;
        for (number, word, link) in links(&text) {
            if let Some(problem) = follow(page, &word, &link) {
                let page = page.strip_prefix(house.path("")).unwrap_or(page).display();
                problems.push(format!("{page}:{number}: {problem}"));
            }
        }
    }
    let contents = house.read("docs/src/SUMMARY.md")?;
    let listed: Vec<_> = links(&contents).into_iter().map(|(_, _, link)| link).collect();
    for page in &pages {
        let Ok(path) = page.strip_prefix(house.path("docs/src")) else { continue };
        let path = path.to_string_lossy();
        if path != "SUMMARY.md" && !listed.iter().any(|link| *link == path) {
            problems.push(format!("docs/src/{path}: not in SUMMARY.md"));
        }
    }
    Ok(problems)
}

/// Returns all pages of the book, and the top-level ones.
pub(super) fn pages(house: &House) -> anyhow::Result<Vec<PathBuf>> {
    let mut pages = TOP_LEVEL.map(|page| house.path(page)).to_vec();
    let book = walk(&house.path("docs/src"), &|_| false)?;
    pages.extend(book.into_iter().filter(|path| has_extension(path, "md")));
    Ok(pages)
}

/// Pages outside of the book.
const TOP_LEVEL: [&str; 8] = [
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "CODE_OF_CONDUCT.md",
    "crates/zvf-py/README.md",
    "viewer/README.md",
    "viewer/npm/README.md",
];

/// Returns the texts and targets of `[text](target)` outside code blocks, with their line numbers.
fn links(text: &str) -> Vec<(usize, String, String)> {
    let (mut found, mut code) = (Vec::new(), false);
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim_start().starts_with("```") {
            code = !code;
        }
        if code {
            continue;
        }
        let parts: Vec<&str> = line.split("](").collect();
        for pair in parts.windows(2) {
            let word = pair[0].rsplit_once('[').map_or("", |(_, word)| word);
            if let Some((target, _)) = pair[1].split_once(')') {
                found.push((number, word.to_owned(), target.to_owned()));
            }
        }
    }
    found
}

/// Returns the fault of a link from `word` on `page`, if any.
fn follow(page: &Path, word: &str, link: &str) -> Option<String> {
    if link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    let (path, heading) = link.split_once('#').unwrap_or((link, ""));
    let target = if path.is_empty() { page.to_path_buf() } else { page.parent()?.join(path) };
    if !target.exists() {
        return Some(format!("no file {path}"));
    }
    if heading.is_empty() {
        let item = word.strip_prefix('`')?.strip_suffix('`')?;
        if !path.ends_with(".rs") || item.ends_with(".rs") {
            return None;
        }
        let text = fs::read_to_string(&target).ok()?;
        return (!defines(&text, item)).then(|| format!("{path} defines no {item}"));
    }
    let text = fs::read_to_string(&target).ok()?;
    let found =
        text.lines().filter(|line| line.starts_with('#')).any(|line| anchor(line) == heading);
    (!found).then(|| format!("no heading {heading} in {path}"))
}

/// Returns whether a Rust file defines a function, type, constant or module called `item`, perhaps `Type::item`.
fn defines(text: &str, item: &str) -> bool {
    let name = item.rsplit("::").next().unwrap_or(item);
    let mut words =
        text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|w| !w.is_empty());
    let mut before = words.next().unwrap_or_default();
    words.any(|word| {
        let kind = std::mem::replace(&mut before, word);
        word == name && DEFINING.contains(&kind)
    })
}

/// The keywords before the name of an item.
const DEFINING: [&str; 7] = ["fn", "struct", "enum", "trait", "type", "const", "mod"];

/// Returns the anchor of a heading.
fn anchor(heading: &str) -> String {
    let words = heading.trim_start_matches('#').trim().to_lowercase();
    let text = words.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    text.map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_links_and_headings() {
        let text = "[a](b.md) and [c](d.md#e)\n```\n[no](no.md)\n```\n[f](#g)\n";
        let found: Vec<_> = links(text);
        let row = |number, word: &str, target: &str| (number, word.to_owned(), target.to_owned());
        assert_eq!(found, [row(1, "a", "b.md"), row(1, "c", "d.md#e"), row(5, "f", "#g")]);
        assert_eq!(anchor("## Chunk index, `TIDX`"), "chunk-index-tidx");
    }

    #[test]
    fn follows_them() {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md");
        assert_eq!(follow(&page, "a", "Cargo.toml"), None);
        assert_eq!(follow(&page, "a", "https://example.org/x"), None);
        assert_eq!(follow(&page, "a", "no.md").unwrap(), "no file no.md");
        assert_eq!(follow(&page, "a", "#no-such").unwrap(), "no heading no-such in ");
        let target = "xtask/src/docs/links.rs";
        assert_eq!(follow(&page, "`follow`", target), None);
        assert_eq!(follow(&page, "the links", target), None);
        let missing = format!("{target} defines no wander");
        assert_eq!(follow(&page, "`wander`", target).unwrap(), missing);
    }
}
