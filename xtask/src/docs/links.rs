//! Follows every link of the book and of the top-level pages to a file, and to a heading in it.
//!
//! Links to other sites are not followed: that needs a network and proves little.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::house::House;

/// Links that lead nowhere, and pages that no link of the table of contents leads to.
pub(super) fn check(house: &House) -> anyhow::Result<Vec<String>> {
    let pages = pages(house)?;
    let mut problems = Vec::new();
    for page in &pages {
        let text =
            fs::read_to_string(page).with_context(|| format!("cannot read {}", page.display()))?;
        for (number, link) in links(&text) {
            if let Some(problem) = follow(page, &link) {
                let page = page.strip_prefix(house.path("")).unwrap_or(page).display();
                problems.push(format!("{page}:{number}: {problem}"));
            }
        }
    }
    let contents = fs::read_to_string(house.path("docs/src/SUMMARY.md"))?;
    let listed: Vec<_> = links(&contents).into_iter().map(|(_, link)| link).collect();
    for page in &pages {
        let Ok(path) = page.strip_prefix(house.path("docs/src")) else { continue };
        let path = path.to_string_lossy();
        if path != "SUMMARY.md" && !listed.iter().any(|link| *link == path) {
            problems.push(format!("docs/src/{path}: not in SUMMARY.md"));
        }
    }
    Ok(problems)
}

/// All pages of the book, and the top-level ones.
pub(super) fn pages(house: &House) -> anyhow::Result<Vec<PathBuf>> {
    let mut pages = vec![house.path("README.md"), house.path("CHANGELOG.md")];
    pages_in(&house.path("docs/src"), &mut pages)?;
    Ok(pages)
}

fn pages_in(folder: &Path, pages: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("no {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            pages_in(&path, pages)?;
        } else if path.extension().is_some_and(|extension| extension == "md") {
            pages.push(path);
        }
    }
    pages.sort();
    Ok(())
}

/// The targets of `[text](target)` outside code blocks, with their line numbers.
fn links(text: &str) -> Vec<(usize, String)> {
    let (mut found, mut code) = (Vec::new(), false);
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim_start().starts_with("```") {
            code = !code;
        }
        if code {
            continue;
        }
        for rest in line.split("](").skip(1) {
            if let Some((target, _)) = rest.split_once(')') {
                found.push((number, target.to_owned()));
            }
        }
    }
    found
}

/// What is wrong with a link on `page`, if anything.
fn follow(page: &Path, link: &str) -> Option<String> {
    if link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    let (path, heading) = link.split_once('#').unwrap_or((link, ""));
    let target = if path.is_empty() { page.to_path_buf() } else { page.parent()?.join(path) };
    if !target.exists() {
        return Some(format!("no file {path}"));
    }
    if heading.is_empty() {
        return None;
    }
    let text = fs::read_to_string(&target).ok()?;
    let found =
        text.lines().filter(|line| line.starts_with('#')).any(|line| anchor(line) == heading);
    (!found).then(|| format!("no heading {heading} in {path}"))
}

/// The name under which a heading can be linked to.
fn anchor(heading: &str) -> String {
    let words = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = words.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_links_and_headings() {
        let text = "[a](b.md) and [c](d.md#e)\n```\n[no](no.md)\n```\n[f](#g)\n";
        let found: Vec<_> = links(text);
        let row = |number, target: &str| (number, target.to_owned());
        assert_eq!(found, [row(1, "b.md"), row(1, "d.md#e"), row(5, "#g")]);
        assert_eq!(anchor("## Chunk index, `TIDX`"), "chunk-index-tidx");
    }

    #[test]
    fn follows_them() {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md");
        assert_eq!(follow(&page, "Cargo.toml"), None);
        assert_eq!(follow(&page, "https://example.org/x"), None);
        assert_eq!(follow(&page, "no.md").unwrap(), "no file no.md");
        assert_eq!(follow(&page, "#no-such").unwrap(), "no heading no-such in ");
    }
}
