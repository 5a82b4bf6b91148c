//! Counts the sources: lines of code by package, lines of tests, and constructs that may only
//! become fewer.
//!
//! Lines of code exclude blank lines, comments, test modules and test files. The total is the
//! larger of the lines and of the tokens at [`TOKENS_PER_LINE`], so that longer lines do not make
//! it smaller.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::Context;

use crate::house::House;
use crate::tidy::files;

/// Counts everything, by the row names of the list of ceilings.
pub(super) fn count(house: &House) -> anyhow::Result<BTreeMap<String, usize>> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let mut add = |name: &str, more: usize| match counts.get_mut(name) {
        Some(count) => *count += more,
        None => drop(counts.insert(name.to_owned(), more)),
    };
    let (mut lines, mut tokens) = (0, 0);
    for path in files::list_all(house)? {
        let is_rust = path.ends_with(".rs");
        let (part, is_test) = place(&path);
        if !(is_rust || is_test && SCRIPTS.iter().any(|end| path.ends_with(end))) {
            continue;
        }
        let text = house.read(&path)?;
        if !is_rust {
            let code = text.lines().map(str::trim).filter(|line| !line.is_empty());
            add("tests", code.filter(|line| !line.starts_with(['#', '/'])).count());
            continue;
        }
        let (code, tests) = split_tests(&text);
        add("files-above-600-lines", usize::from(text.lines().count() > 600));
        if is_test {
            add("tests", code.len() + tests);
            continue;
        }
        add("tests", tests);
        add(&format!("crate:{part}"), code.len());
        (lines, tokens) = (lines + code.len(), tokens + count_tokens(&code.join("\n")));
        add("lines-above-100-characters", text.lines().filter(|l| l.chars().count() > 100).count());
        add("rustfmt-skip", text.matches(concat!("rustfmt", "::skip")).count());
        add("macro-rules", text.matches(concat!("macro_", "rules!")).count());
        for line in &code {
            let name = type_name(line).unwrap_or_default();
            if UNIQUE.contains(&name) {
                add(&format!("types-named:{name}"), 1);
            }
        }
    }
    add("total", lines.max((tokens * 100 + TOKENS_PER_LINE / 2) / TOKENS_PER_LINE));
    add("exported-names-used-again", exported_again(house)?);
    Ok(counts)
}

/// Returns the package of a file, and whether it is a test file.
fn place(path: &str) -> (&str, bool) {
    let (package, inside) =
        path.strip_prefix("crates/").unwrap_or(path).split_once('/').unwrap_or((path, ""));
    let (folder, below) = inside.split_once('/').unwrap_or((inside, ""));
    let is_beside = ["tests", "benches", "examples", "verify"].contains(&folder);
    let is_within = folder == "src" && format!("/{below}").contains("/tests/");
    (package, is_beside || is_within || path.ends_with("/tests.rs"))
}

/// Returns the lines of code of a file, without trailing comments, and the number of lines of its
/// test modules.
pub(crate) fn split_tests(text: &str) -> (Vec<&str>, usize) {
    let (mut code, mut tests) = (Vec::new(), 0);
    let mut lines = text.lines().map(str::trim).peekable();
    let mut in_comment = false;
    while let Some(line) = lines.next() {
        if in_comment || line.starts_with("/*") {
            in_comment = !line.contains("*/");
            continue;
        }
        if line.is_empty() || line.starts_with("//") {
            continue;
        }
        let mut ahead = vec![line];
        if line.starts_with("#[cfg(test") || line.starts_with("#[cfg(all(test") {
            while let Some(next) =
                lines.next_if(|_| ahead.last().is_some_and(|l| l.starts_with("#[")))
            {
                ahead.push(next);
            }
            let head = ahead.last().copied().unwrap_or_default();
            let head = head
                .split_once(") ")
                .filter(|(vis, _)| vis.starts_with("pub("))
                .map_or(head, |(_, head)| head);
            if head.starts_with("mod ") && head.ends_with('{') {
                let mut depth = 1;
                tests += 1;
                while let Some(line) = lines.next_if(|_| depth > 0) {
                    depth += depth_change(line);
                    tests += usize::from(!line.is_empty() && !line.starts_with("//"));
                }
                continue;
            }
        }
        let kept = ahead.into_iter().filter(|line| !line.is_empty() && !line.starts_with("//"));
        code.extend(kept.map(|line| line.split_once(" // ").map_or(line, |(code, _)| code)));
    }
    (code, tests)
}

/// Returns the number of braces that a line opens, minus those that it closes; braces in literals
/// and comments do not count.
fn depth_change(line: &str) -> i32 {
    let (mut depth, mut last) = (0, "");
    for token in (Tokens { rest: line }) {
        match token {
            "/" if last == "/" => break, // a comment
            "{" => depth += 1,
            "}" => depth -= 1,
            _ => {}
        }
        last = token;
    }
    depth
}

fn count_tokens(code: &str) -> usize {
    Tokens { rest: code }.count()
}

/// The tokens of code: literals, names, numbers, two-character operators, and single characters.
struct Tokens<'a> {
    rest: &'a str,
}

impl<'a> Iterator for Tokens<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        self.rest = self.rest.trim_start();
        let first = self.rest.chars().next()?;
        let len = literal(self.rest).unwrap_or_else(|| match first {
            _ if is_word(first) => self
                .rest
                .find(|c| !(is_word(c) || c == '.' && first.is_ascii_digit()))
                .unwrap_or(self.rest.len()),
            _ if PAIRS.iter().any(|pair| self.rest.starts_with(pair)) => {
                2 + usize::from(self.rest.starts_with("..="))
            }
            _ => first.len_utf8(),
        });
        let (token, rest) = self.rest.split_at(len);
        self.rest = rest;
        Some(token)
    }
}

/// Returns the length of the literal or lifetime at the start of `text`.
fn literal(text: &str) -> Option<usize> {
    let hashes = text.strip_prefix('r').map(|rest| rest.len() - rest.trim_start_matches('#').len());
    if let Some(hashes) = hashes.filter(|hashes| text[1 + hashes..].starts_with('"')) {
        let end = format!("\"{}", "#".repeat(hashes));
        return text[2 + hashes..].find(&end).map(|at| 2 + hashes + at + end.len());
    }
    let start = usize::from(text.starts_with("b\"") || text.starts_with("b'"));
    let quote = text[start..].chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let body = &text[start + 1..];
    if quote == '\'' && !body.starts_with('\\') {
        let first = body.chars().next()?;
        let end = first.len_utf8();
        return match body[end..].starts_with('\'') {
            true => Some(start + end + 2),
            false => body.find(|c| !is_word(c)).filter(|end| *end > 0).map(|end| end + 1),
        };
    }
    let mut escaped = false;
    let end = body.char_indices().find(|(_, c)| {
        let ends = *c == quote && !escaped;
        escaped = *c == '\\' && !escaped;
        ends
    });
    end.map(|(at, _)| start + at + 2)
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Returns the name of the type that a line declares.
fn type_name(line: &str) -> Option<&str> {
    let mut words = line.split(|c| !is_word(c)).filter(|word| !word.is_empty() && *word != "pub");
    let kind = words.find(|word| !["crate", "super", "in"].contains(word))?;
    TYPES.contains(&kind).then(|| words.next())?
}

/// Returns how many exported types have the name of another exported type.
fn exported_again(house: &House) -> anyhow::Result<usize> {
    let (mut names, mut types) = (BTreeSet::new(), BTreeSet::new());
    for file in fs::read_dir(house.path("docs/api")).context("no docs/api")? {
        let text = fs::read_to_string(file?.path())?;
        for line in text.lines() {
            let item = line.strip_prefix("#[non_exhaustive] ").unwrap_or(line);
            let mut words = item.strip_prefix("pub ").unwrap_or_default().split([' ', '<', '(']);
            if words.next().is_some_and(|kind| TYPES.contains(&kind)) {
                let path = words.next().unwrap_or_default().trim_end_matches(':').to_owned();
                let place = path.rsplit("::").nth(1).unwrap_or_default();
                if place.starts_with(char::is_uppercase) || path.starts_with('&') {
                    continue; // of a trait or of what implements one
                }
                names.extend(path.rsplit(':').next().map(str::to_owned));
                types.insert(path);
            }
        }
    }
    Ok(types.len() - names.len())
}

/// In hundredths: the average of the workspace when the ceilings were introduced.
const TOKENS_PER_LINE: usize = 990;
/// Names that at most one type may have, including private types.
const UNIQUE: [&str; 10] =
    ["Place", "Source", "Fault", "Part", "Piece", "Layout", "Stage", "State", "Inner", "Shared"];
const TYPES: [&str; 5] = ["struct", "enum", "union", "trait", "type"];
/// Extensions of test files in other languages.
const SCRIPTS: [&str; 4] = [".py", ".ts", ".js", ".mjs"];
const PAIRS: [&str; 20] = [
    "->", "=>", "::", "&&", "||", "==", "!=", "<=", ">=", "+=", "-=", "*=", "/=", "%=", "&=", "|=",
    "^=", "..", "<<", ">>",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_what_no_test_and_no_comment_is() {
        let text = "//! x\n\nuse a; // why\n/* long\nlonger */\nfn f() {}\n#[cfg(test)]\n#[expect(x)]\nmod tests {\n    fn g() { '{'; \"}\"; } // {\n\n    // {\n}\nfn h() {}\n";
        assert_eq!(split_tests(text), (vec!["use a;", "fn f() {}", "fn h() {}"], 3));
        assert_eq!(split_tests("#[cfg(test)]\nmod tests;\nmod b;").0.len(), 3);
    }

    #[test]
    fn tokens_are_literals_names_and_signs() {
        for (code, tokens) in [
            ("a.b == 0..5", 5),
            (r##"r#"a " b"# b"\"" '\'' 'a' &'a x"##, 7),
            ("'outer: loop { x ..= y }", 8),
            ("f::<u8>(1.5e3)", 8),
        ] {
            assert_eq!(count_tokens(code), tokens, "{code}");
        }
    }

    #[test]
    fn a_path_tells_its_package_and_whether_it_is_a_test() {
        for (path, package, is_test) in [
            ("crates/a/src/b.rs", "a", false),
            ("crates/a/src/b/tests/c.rs", "a", true),
            ("crates/a/src/tests.rs", "a", true),
            ("crates/a/tests/x/y.rs", "a", true),
            ("xtask/src/test.rs", "xtask", false),
        ] {
            assert_eq!(place(path), (package, is_test));
        }
        assert_eq!(type_name("pub(crate) struct Place<T> {"), Some("Place"));
        assert_eq!(type_name("let x = 1;"), None);
    }
}
