//! `fuzz`: runs fuzz targets for a limited time, with the corpora as seeds.

use std::fs;

use anyhow::{Context, ensure};

use crate::args::Args;
use crate::cargo_toml::entries;
use crate::house::{House, say};

pub(crate) fn run(house: &House, mut args: Args) -> anyhow::Result<()> {
    let seconds = args.number("--seconds")?.unwrap_or(60);
    let (targets, seeds) = (targets(house)?, seeds(house)?);
    let mut chosen = Vec::new();
    let mut options = Vec::new();
    for word in args.into_words().map(|word| word.to_string_lossy().into_owned()) {
        if word.starts_with('-') {
            options.push(word);
        } else {
            ensure!(targets.contains(&word), "no target {word}: there are {}", targets.join(" "));
            chosen.push(word);
        }
    }
    tools(house)?;
    for target in if chosen.is_empty() { targets } else { chosen } {
        // The fuzzer writes its findings to the first folder and only reads the others.
        let corpus = house.path(&format!("fuzz/corpus/{target}"));
        fs::create_dir_all(&corpus).context("cannot make a folder for the corpus")?;
        let mut folders = vec![corpus];
        let seeds = seeds.iter().filter(|(name, _)| *name == target);
        folders.extend(seeds.map(|(_, folder)| house.path(folder)));
        say(&format!("\n== {target}, {seconds} s"));
        let time = format!("-max_total_time={seconds}");
        house
            .nightly("fuzz", "fuzz run")
            .arg(&target)
            .words(if target == FAST { "--features fast-codecs" } else { "" })
            .args(&folders)
            .args(&["--", &time, "-rss_limit_mb=512", "-timeout=2"])
            .args(&options)
            .run()?;
    }
    Ok(())
}

/// The target that compares the codecs of the feature with others.
const FAST: &str = "fast_codecs";

/// Returns each target with a folder of its seeds.
fn seeds(house: &House) -> anyhow::Result<Vec<(String, String)>> {
    let list = house.read("fuzz/seeds.txt")?;
    let rows = list.lines().filter(|line| !line.starts_with('#'));
    let rows = rows.map(|line| line.split_once(' ').with_context(|| format!("seeds: {line:?}")));
    rows.map(|row| row.map(|(target, folder)| (target.to_owned(), folder.to_owned()))).collect()
}

/// Returns the targets, by name.
fn targets(house: &House) -> anyhow::Result<Vec<String>> {
    let manifest = house.read("fuzz/Cargo.toml")?;
    let rows = entries(&manifest).into_iter().filter(|row| row.table == "[bin]");
    let names = rows.filter(|row| row.name == "name");
    Ok(names.filter_map(|row| row.line.split('"').nth(1).map(str::to_owned)).collect())
}

fn tools(house: &House) -> anyhow::Result<()> {
    let nightly = house.nightly("", "--version");
    nightly.require("a nightly toolchain is missing: `rustup toolchain install nightly`")?;
    let cargo_fuzz = house.nightly("", "fuzz --version");
    cargo_fuzz.require("cargo-fuzz is missing: `cargo install cargo-fuzz --locked`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_seed_is_there_for_a_target() {
        let house = House::find().unwrap();
        let targets = targets(&house).unwrap();
        assert!(targets.len() > 50, "{targets:?}");
        for (target, folder) in seeds(&house).unwrap() {
            assert!(targets.contains(&target), "no target {target}");
            assert!(house.path(&folder).is_dir(), "{target}: no {folder}");
        }
    }
}
