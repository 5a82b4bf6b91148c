//! `fuzz`: runs fuzz targets for a while, from the seeds of the corpora.

use std::fs;

use anyhow::{Context, ensure};

use crate::Command;
use crate::args::Args;
use crate::house::{House, say};

pub(crate) const COMMAND: Command = Command {
    name: "fuzz",
    help: "run one fuzz target, or each in turn

usage: cargo xtask fuzz [TARGET] [--seconds N] [OPTIONS OF THE FUZZER]

Runs each target for N seconds (60). Needs a nightly toolchain and cargo-fuzz, and says which is
missing. Seeds come from fuzz/seeds/<target> and are never written to.",
    run,
};

fn run(house: &House, mut args: Args) -> anyhow::Result<()> {
    let seconds = args.number("--seconds")?.unwrap_or(60);
    let targets = targets(house)?;
    let mut chosen = Vec::new();
    let mut options = Vec::new();
    for word in args.rest().map(|word| word.to_string_lossy().into_owned()) {
        if word.starts_with('-') {
            options.push(word);
        } else {
            ensure!(targets.contains(&word), "no target {word}: there are {}", targets.join(" "));
            chosen.push(word);
        }
    }
    tools(house)?;
    for target in if chosen.is_empty() { targets } else { chosen } {
        // What the fuzzer finds goes to the first folder; it reads the second only.
        let corpus = format!("fuzz/corpus/{target}");
        fs::create_dir_all(house.path(&corpus)).context("cannot make a folder for the corpus")?;
        let mut folders = vec![corpus];
        let seeds = format!("fuzz/seeds/{target}");
        if house.path(&seeds).is_dir() {
            folders.push(seeds);
        }
        say(&format!("\n== {target}, {seconds} s"));
        let time = format!("-max_total_time={seconds}");
        house
            .nightly("", &["fuzz", "run", &target])
            .args(&folders)
            .args(&["--", &time, "-rss_limit_mb=512", "-timeout=2"])
            .args(&options)
            .run()?;
    }
    Ok(())
}

/// The targets, by name.
fn targets(house: &House) -> anyhow::Result<Vec<String>> {
    let mut names = Vec::new();
    for file in fs::read_dir(house.path("fuzz/fuzz_targets")).context("cannot list fuzz targets")? {
        let path = file?.path();
        if path.extension().is_some_and(|extension| extension == "rs") {
            names.push(path.file_stem().unwrap_or_default().to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

fn tools(house: &House) -> anyhow::Result<()> {
    let nightly = house.nightly("", &["--version"]).output().is_some();
    ensure!(nightly, "a nightly toolchain is missing: `rustup toolchain install nightly`");
    let cargo_fuzz = house.nightly("", &["fuzz", "--version"]).output().is_some();
    ensure!(cargo_fuzz, "cargo-fuzz is missing: `cargo install cargo-fuzz --locked`");
    Ok(())
}
