//! Every notice, with its cause and without it: `notices.txt` lists the causes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::stores::Ran;

const TABLE: &str = include_str!("notices.txt");

/// Runs the command with these arguments, or a shell line, in `folder`; returns its output.
fn run(folder: &Path, line: &str) -> String {
    const ZVF: &str = env!("CARGO_BIN_EXE_zvf");
    let line = line.replace('@', concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/formats/"));
    let script = line.strip_prefix("sh ");
    let mut command = Command::new(script.map_or(ZVF, |_| "sh"));
    match script {
        Some(script) => command.args(["-c", script]).env("ZVF", ZVF).env("LC_ALL", "C"),
        None => command.args(line.split(' ')),
    };
    let ran = Ran::from(command.current_dir(folder).output().unwrap());
    assert_eq!(ran.code, 0, "{line}: {}{}", ran.out, ran.err);
    ran.out + &ran.err
}

#[test]
fn notices_have_their_cause() {
    let folder = tempfile::tempdir().unwrap();
    let (mut file, mut note, mut is_built) = (None, "", true);
    for line in TABLE.lines() {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "needs" => {
                is_built = match rest {
                    "arrow" => cfg!(feature = "arrow"),
                    "h5ad" => cfg!(feature = "h5ad"),
                    "icechunk" => cfg!(feature = "icechunk"),
                    _ => true,
                }
            }
            "run" | "with" | "without" if !is_built => {}
            "file" => file = Some((folder.path().join(rest), String::new())),
            "run" | "note" | "elsewhere" => {
                file = None;
                note = rest;
                if word == "run" {
                    run(folder.path(), rest);
                }
            }
            "with" => {
                let said = run(folder.path(), rest);
                assert!(said.contains(note), "{note}: {rest}: {said}");
            }
            "without" => {
                let said = run(folder.path(), rest);
                assert!(!said.contains(note), "{note}: {rest}: {said}");
            }
            _ => {
                if let Some((path, text)) = &mut file {
                    *text += &format!("{line}\n");
                    fs::write(path, text.trim_end().to_owned() + "\n").unwrap();
                }
            }
        }
    }
}

/// A new notice in the sources must be added to the table or quoted by another test.
#[test]
fn all_notices_of_the_sources_are_known() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let (mut sources, mut known) = (Vec::new(), squeeze(TABLE));
    for path in rust_files(crates) {
        let text = fs::read_to_string(&path).unwrap();
        let inside = path.strip_prefix(crates).unwrap();
        let is_test = inside.iter().any(|part| part == "tests" || part == "tests.rs");
        let tests =
            if is_test { 0 } else { text.find("#[cfg(test)]\nmod tests {").unwrap_or(text.len()) };
        known += &squeeze(&text[tests..]);
        sources.push((path, text[..tests].to_owned()));
    }
    let mut count = 0;
    for (path, text) in &sources {
        for notice in find_notices(path, text) {
            count += 1;
            let line = path.display();
            assert!(known.contains(&notice), "{line}: {notice:?}: add it to tests/cli/notices.txt");
        }
    }
    assert!(count > 90, "{count} notices were found");
    for line in TABLE.lines().filter_map(|line| line.strip_prefix("elsewhere ")) {
        let (test, notice) = line.split_once(' ').unwrap();
        let is_there = sources.iter().any(|(_, text)| squeeze(text).contains(&squeeze(notice)));
        assert!(is_there, "{notice}: there is no such notice any more");
        assert!(known.contains(&format!("fn {test}()")), "{notice}: {test}: there is no such test");
    }
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true if !path.ends_with("target") => files.extend(rust_files(&path)),
            false if path.extension().is_some_and(|end| end == "rs") => files.push(path),
            _ => {}
        }
    }
    files
}

/// Returns the longest text without placeholders of each notice in a source file.
fn find_notices(path: &Path, text: &str) -> Vec<String> {
    let calls = [
        "Loss::new(",
        "Loss(format!(",
        "left_out.push(",
        "left_out.extend(",
        "notes.push(",
        "notices.push(",
        "print_notices(",
    ];
    let displays =
        ["zvf-store/src/notice.rs", "zvf-write/src/report.rs", "zvf-pyramid/src/report.rs"];
    let is_display = displays.iter().any(|name| path.ends_with(name));
    let calls = calls
        .iter()
        .chain(is_display.then_some(["write!(", "write_str("].iter()).into_iter().flatten());
    let mut found = Vec::new();
    for call in calls {
        for (at, _) in text.match_indices(call) {
            let is_comment = text[..at].rsplit('\n').next().unwrap().trim_start().starts_with("//");
            let literals = string_literals(&text[at + call.len()..]);
            let words = literals.iter().flat_map(|text| text.split(['{', '}']).step_by(2));
            let longest = words.map(squeeze).max_by_key(String::len).unwrap_or_default();
            if !is_comment && longest.split(' ').count() > 1 {
                found.push(longest);
            }
        }
    }
    found
}

/// Returns the string literals up to the parenthesis that closes a call.
fn string_literals(text: &str) -> Vec<String> {
    let (mut depth, mut literals, mut chars) = (1, Vec::new(), text.chars());
    while let Some(c) = chars.next() {
        match c {
            '(' => depth += 1,
            ')' if depth == 1 => break,
            ')' => depth -= 1,
            '"' => {
                let mut literal = String::new();
                while let Some(c) = chars.next().filter(|c| *c != '"') {
                    let next = if c == '\\' { chars.next().unwrap() } else { c };
                    literal.push(if next == '\n' { ' ' } else { next });
                }
                literals.push(literal);
            }
            _ => {}
        }
    }
    literals
}

fn squeeze(text: &str) -> String {
    text.replace("\\\n", " ").replace('\\', "").split_whitespace().collect::<Vec<_>>().join(" ")
}
