//! `api`: the public items of every published crate, as a snapshot that CI compares.
//!
//! rustdoc writes the index of a crate as JSON, and the crate `public-api` formats it as one line
//! per item: `docs/api/CRATE.txt`. So a review shows every change of the public interface.
//!
//! The JSON is an unstable output of rustdoc, and its format depends on the version of the
//! compiler. The workspace pins the compiler, and `xtask/api` pins the version of `public-api` that
//! reads this format; other formats are refused.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use anyhow::{Context, ensure};

use crate::args::Args;
use crate::cargo_toml::{Member, members, published_set};
use crate::fixtures::{Mode, settle};
use crate::house::{House, say};

pub(crate) fn run(house: &House, mut args: Args) -> anyhow::Result<()> {
    let write = args.flag("--write");
    args.end()?;
    let all = members(house)?;
    // A binary has no interface for other crates.
    let is_library =
        |member: &&Member| house.path(&format!("crates/{}/src/lib.rs", member.name)).exists();
    let published = all.iter().filter(|member| member.is_checked()).filter(is_library);
    let names: Vec<&str> = published.map(|member| member.name.as_str()).collect();
    document(house)?;
    let tool = house.target().join("api");
    let build = house.cargo("build --quiet --locked --manifest-path xtask/api/Cargo.toml");
    build.env("CARGO_TARGET_DIR", &tool.display().to_string()).run()?;
    let mut changed = Vec::new();
    for name in names {
        let index = house.target().join(format!("doc/{}.json", name.replace('-', "_")));
        let lines = house.program(tool.join("debug/zvf-api")).arg(&index).output();
        let lines = lines.with_context(|| format!("cannot list {}", index.display()))?;
        let path = format!("docs/api/{name}.txt");
        let before = house.read(&path).unwrap_or_default();
        if write {
            settle(house, Mode::Write, &path, lines.as_bytes(), "api")?;
        } else if before != lines {
            say(&difference(name, &before, &lines));
            changed.push(name);
        }
    }
    ensure!(
        changed.is_empty(),
        "the public items of {} changed: run `cargo xtask api --write` and review the difference",
        changed.join(", ")
    );
    Ok(())
}

/// Runs rustdoc for all published crates at once, so that shared crates are checked once.
fn document(house: &House) -> anyhow::Result<()> {
    // The pinned compiler is stable and the option unstable. Only rustdoc gets the variable: the compiler would rebuild
    // everything.
    let rustdoc = house.target().join("rustdoc-json");
    fs::create_dir_all(house.target())?;
    fs::write(&rustdoc, "#!/bin/sh\nRUSTC_BOOTSTRAP=1 exec rustdoc \"$@\"\n")?;
    fs::set_permissions(&rustdoc, fs::Permissions::from_mode(0o755))?;
    let flags = "-Z unstable-options --output-format json --cap-lints allow";
    let cargo = house
        .cargo("doc --quiet --no-deps")
        .args(&published_set(house)?)
        .env("RUSTDOCFLAGS", flags);
    cargo.env("RUSTDOC", &rustdoc.display().to_string()).run()
}

/// Returns the removed and the added lines.
fn difference(name: &str, before: &str, after: &str) -> String {
    let lost = before.lines().filter(|line| !after.lines().any(|other| other == *line));
    let new = after.lines().filter(|line| !before.lines().any(|other| other == *line));
    let lost = lost.map(|line| format!("- {line}"));
    let lines: Vec<String> = lost.chain(new.map(|line| format!("+ {line}"))).collect();
    format!("{name}:\n{}", lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_names_what_went_and_what_came() {
        assert_eq!(difference("x", "a\nb\n", "b\nc\n"), "x:\n- a\n+ c");
    }
}
