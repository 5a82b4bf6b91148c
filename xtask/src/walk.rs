//! `walk`: counts the files and functions of this workspace that run between opening a store and
//! the batch of a box.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context, ensure};

use crate::args::Args;
use crate::house::{House, say};

pub(crate) fn run(house: &House, mut args: Args) -> anyhow::Result<()> {
    let list = args.flag("--list");
    args.end()?;
    let hint = "valgrind is missing: `apt-get install valgrind`";
    house.line("valgrind --version", &[]).require(hint)?;
    // With the features of the README's commands, whose third-party packages are reused.
    // Functions that are inlined into their callers would not be counted.
    let whole = ["format", "metadata", "model", "query", "blosc", "b2nd", "tet"]
        .map(|name| format!("--config=profile.dev.package.zvf-{name}.opt-level=0"));
    let build = house.cargo("build --quiet --example box").args(&whole);
    build.env("CARGO_PROFILE_DEV_DEBUG", "line-tables-only").run()?;
    let profile = house.target().join("walk.callgrind");
    let out = format!("--callgrind-out-file={}", profile.display());
    let example = house.target().join("debug/examples/box");
    let callgrind = "valgrind --quiet --tool=callgrind --compress-strings=no {} {}";
    house.line(callgrind, &[&out, &example]).run()?;
    let text = fs::read(&profile).context("no profile of callgrind")?;
    let walked = parse(&String::from_utf8_lossy(&text));
    if list {
        walked.files.iter().chain(&walked.functions).for_each(|name| say(name));
    }
    let (files, functions) = (walked.files.len(), walked.functions.len());
    say(&format!("{files} files, {functions} functions between a box and its batch"));
    ensure!(
        files > 0 && files <= MAX_FILES && functions <= MAX_FUNCTIONS,
        "expected at most {MAX_FILES} files and {MAX_FUNCTIONS} functions"
    );
    Ok(())
}

#[derive(Default)]
struct Walked {
    files: BTreeSet<String>,
    functions: BTreeSet<String>,
}

/// Returns the files and functions of this workspace in a profile that have their own cost.
fn parse(profile: &str) -> Walked {
    let mut walked = Walked::default();
    let mut file = None;
    for line in profile.lines() {
        if let Some(path) = ["fl=", "fi=", "fe="].iter().find_map(|key| line.strip_prefix(key)) {
            // Only sources of this workspace are below `crates`; those of tests and of the example
            // do not count.
            let below = path.rsplit_once("crates/zvf").map(|(_, below)| format!("zvf{below}"));
            file = below.filter(|below| below.contains("/src/"));
            walked.files.extend(file.clone());
        } else if let (Some(name), Some(_)) = (line.strip_prefix("fn="), &file) {
            walked.functions.insert(strip_instance(name));
        }
    }
    walked
}

/// Returns the name of a function without closures, type arguments and the hash.
fn strip_instance(name: &str) -> String {
    // callgrind numbers recursion depths: `check'2`.
    let name = name.split(['{', '\'']).next().unwrap_or(name);
    let (mut depth, mut plain) = (0_usize, String::new());
    for (at, c) in name.char_indices() {
        // The type before a method is kept: `<zvf_store::Key as Ord>::cmp`.
        match c {
            '<' if at > 0 => depth += 1,
            '>' if depth > 0 => depth -= 1,
            _ if depth == 0 => plain.push(c),
            _ => {}
        }
    }
    match plain.rsplit_once("::h") {
        Some((path, hash)) if hash.len() == 16 => path.trim_end_matches("::").to_owned(),
        _ => plain.trim_end_matches("::").to_owned(),
    }
}

const MAX_FILES: usize = 130;
const MAX_FUNCTIONS: usize = 742;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_functions_with_a_cost_are_listed_once() {
        let profile = "fl=/x/crates/zvf-store/src/key.rs\nfn=zvf_store::key::Key::join::h0123456789abcdef\n1 2\n\
            cfn=zvf_store::never\nfn=zvf_store::key::Key::join::{{closure}}::h0123456789abcdef'2\n\
            fl=/registry/bytes/src/lib.rs\nfn=bytes::Bytes::len\nfi=/x/crates/zvf-model/src/a.rs\n\
            fl=/x/crates/zvf-query/src/b.rs\nfn=zvf_query::b::f<u8>\nfn=zvf_query::b::f<alloc::Vec<u16>>\n\
            fl=/x/crates/zvf-query/examples/box.rs\nfn=box::main\n";
        let walked = parse(profile);
        let files = ["zvf-model/src/a.rs", "zvf-query/src/b.rs", "zvf-store/src/key.rs"];
        assert_eq!(walked.files.into_iter().collect::<Vec<_>>(), files);
        let functions = ["zvf_query::b::f", "zvf_store::key::Key::join"];
        assert_eq!(walked.functions.into_iter().collect::<Vec<_>>(), functions);
    }
}
