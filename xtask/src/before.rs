//! `before`: builds the release program from before the redesign, the baseline for speed.

use std::path::Path;

use anyhow::Context;

use crate::args::Args;
use crate::house::{House, say};
use crate::times::measure;

pub(crate) fn run(house: &House, args: Args) -> anyhow::Result<()> {
    let words: Vec<_> = args.into_words().collect();
    let folder = house.target().join("before");
    let tree = folder.join("tree");
    if !tree.join("Cargo.lock").is_file() {
        house.line("git worktree add --force --detach {} {}", &[&tree, &COMMIT]).run()?;
    }
    let (manifest, target) = (tree.join("Cargo.toml"), folder.join("build"));
    build(house, &manifest, &target)?;
    let before = target.join("release/zvf");
    say(&before.display().to_string());
    if words.is_empty() {
        return Ok(());
    }
    build(house, &house.path("Cargo.toml"), &house.target())?;
    let programs = [before, house.target().join("release/zvf")];
    let mut times = [vec![], vec![]];
    for _ in 0..TURNS {
        for (program, times) in programs.iter().zip(&mut times) {
            let run = house.program(program).args(&words);
            times.push(measure(|| run.output().map(drop).context("zvf failed"))?[0]);
        }
    }
    let [before, now] = times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[TURNS / 2]
    });
    say(&format!("before {before:.3} s, now {now:.3} s: {:.2} of it", now / before));
    Ok(())
}

fn build(house: &House, manifest: &Path, target: &Path) -> anyhow::Result<()> {
    let cargo = house.cargo("build --release --locked -p zvf-cli --manifest-path").arg(manifest);
    cargo.arg("--target-dir").arg(target).run()
}

/// The last commit before the redesign.
const COMMIT: &str = "0d6dd680af460149d19323a9bed77f304e4c04c5";
const TURNS: usize = 5;
