//! `before`: builds the release program from before the redesign, the baseline for speed.

use std::path::Path;
use std::process::{Command as Process, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use crate::Command;
use crate::args::Args;
use crate::house::{House, say};

pub(crate) const COMMAND: Command = Command {
    name: "before",
    help: "build the program of before the redesign, or compare with it

usage: cargo xtask before [ARGS OF zvf]

Builds the release program of one old commit in a work tree below the target folder and prints its path. With
ARGS, it and the release program of this tree run with them five times in turns, without output, and the medians are
printed. Needs git and the commit.",
    run,
};

fn run(house: &House, args: Args) -> anyhow::Result<()> {
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
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..TURNS {
        for (program, times) in programs.iter().zip(&mut times) {
            times.push(measure(program, &words)?);
        }
    }
    let [before, now] = times.map(median);
    let share = now.as_secs_f64() / before.as_secs_f64();
    say(&format!("before {before:.1?}, now {now:.1?}: {share:.2} of it"));
    Ok(())
}

fn build(house: &House, manifest: &Path, target: &Path) -> anyhow::Result<()> {
    let cargo = house.cargo("build --release --locked -p zvf-cli --manifest-path").arg(manifest);
    cargo.arg("--target-dir").arg(target).run()
}

fn measure(program: &Path, words: &[std::ffi::OsString]) -> anyhow::Result<Duration> {
    let begun = Instant::now();
    let status = Process::new(program).args(words).stdout(Stdio::null()).status();
    let status = status.with_context(|| format!("could not start {}", program.display()))?;
    ensure!(status.success(), "{} failed: {status}", program.display());
    Ok(begun.elapsed())
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

/// The last commit before the redesign.
const COMMIT: &str = "0d6dd680af460149d19323a9bed77f304e4c04c5";
const TURNS: usize = 5;
