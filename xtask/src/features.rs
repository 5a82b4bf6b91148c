//! `features`: a feature adds items and never changes one, so the crates must build with each
//! feature alone, and with none.

use std::ffi::OsString;

use anyhow::Context;

use crate::args::Args;
use crate::cargo_toml::members;
use crate::house::{HEAVY, House, PLAIN, ci_set, list};
use crate::test;

pub(crate) fn run(house: &House, args: Args) -> anyhow::Result<()> {
    args.end()?;
    for member in members(house)?.iter().filter(|member| member.is_checked()) {
        check(house, &member.name, &[])?;
        let sources = format!("crates/{}/src", member.name);
        let is_named = |feature: &&String| {
            let attribute = format!("cfg.*feature = \"{feature}\"");
            house.program("grep").args(&["-rq", &attribute, &sources]).output().is_some()
        };
        let named: Vec<&String> = member.features.iter().filter(is_named).collect();
        let size = if member.name == "zvf-cli" { named.len().div_ceil(2) } else { 1 };
        for features in named.chunks(size) {
            check(house, &member.name, features)?;
        }
    }
    Ok(())
}

/// Checks every feature, and runs the tests that the test command of the README leaves out, or runs
/// with fewer features.
pub(crate) fn run_all(house: &House, args: Args) -> anyhow::Result<()> {
    run(house, args)?;
    let mut words: Vec<OsString> =
        ci_set().into_iter().chain(["--lib", "--bins"]).map(OsString::from).collect();
    let manifest = house.read("Cargo.toml")?;
    let is_default = |line: &&str| line.starts_with("default-members");
    let tested = manifest.lines().find(is_default).context("no default members")?;
    let left_out: Vec<&str> = HEAVY.into_iter().chain(PLAIN.split_whitespace()).collect();
    for member in members(house)?.iter().filter(|member| !left_out.contains(&&*member.name)) {
        let folder = house.path(&format!("crates/{}/tests", member.name));
        let tests = if folder.is_dir() { list(&folder)? } else { Vec::new() };
        let is_tested = tested.contains(&format!("\"crates/{}\"", member.name));
        for test in tests {
            let grep = house.program("grep").args(&["-rqF", "feature = \""]).args(&[&test]);
            let is_test = test.join("main.rs").is_file() || test.extension() == Some("rs".as_ref());
            if is_test && (!is_tested || grep.output().is_some()) {
                let name = test.file_stem().context("a test has a name")?;
                words.extend(["--test".into(), name.to_owned()]);
            }
        }
    }
    test::run(house, Args::new(words.into_iter()))
}

/// Checks a crate with these features, without what it depends on: each of our crates has its own
/// checks.
fn check(house: &House, name: &str, features: &[&String]) -> anyhow::Result<()> {
    let clippy = house.cargo("clippy -q --no-deps --no-default-features -p").arg(name);
    let features = features.iter().flat_map(|feature| ["--features", feature]);
    clippy.args(&Vec::from_iter(features)).words("-- -D warnings").run()
}
