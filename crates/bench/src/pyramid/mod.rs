//! Building levels: the reference and zvf, on copies of the same stores, in turns.
//!
//! ```text
//! reference    build_pyramid, bins doubled with each level, in a process of its own
//! same         `zvf pyramid --reference`: the same levels, value for value
//! default      `zvf pyramid`: levels that keep attributes and topology
//! ```
//!
//! Each run starts from a store with one level, copied outside the clock, in a process of its own, so that
//! the most memory it held can be told. Sizes are those of the levels with their links.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, ensure};
use serde_json::Value;

use crate::peer::Environment;
use crate::report::median;

/// A store, how many levels it gets, and links how far up.
struct Work {
    name: &'static str,
    store: &'static str,
    levels: usize,
    depth: i64,
    /// What `zvf pyramid` is told in its default mode.
    own: &'static [&'static str],
    bar: f64,
}

const WORKS: [Work; 3] = [
    Work {
        name: "1 million points in 10 000 objects, explicit links",
        store: "objects",
        levels: 3,
        depth: 1,
        own: &["--size", "25"],
        bar: 40.0,
    },
    Work {
        name: "2 million points",
        store: "attributes",
        levels: 3,
        depth: 0,
        own: &["--size", "25"],
        bar: 15.0,
    },
    Work {
        name: "20 000 streamlines",
        store: "streamlines",
        levels: 3,
        depth: 0,
        own: &[],
        bar: 15.0,
    },
];

/// What a run took.
#[derive(Clone, Copy, Debug)]
struct Ran {
    seconds: f64,
    peak: f64,
    size: f64,
}

/// Runs the workloads whose name contains `filter`, with copies in `place`.
pub(crate) fn run(
    environment: &Environment,
    stores: &Path,
    place: &Path,
    turns: usize,
    filter: Option<&str>,
) -> anyhow::Result<()> {
    println!(
        "| levels of | side | seconds | times faster | wanted | peak | part of theirs | levels |"
    );
    println!("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |");
    for work in WORKS.iter().filter(|work| filter.is_none_or(|part| work.name.contains(part))) {
        let from = stores.join(format!("{}.zarrvectors", work.store));
        let mut sides = [const { Vec::new() }; 3];
        for _ in 0..turns {
            sides[0].push(theirs(environment, work, &from, place)?);
            sides[1].push(ours(work, &reference_words(work), &from, place)?);
            sides[2].push(ours(work, &own_words(work), &from, place)?);
        }
        let sides = sides.map(|runs| Ran {
            seconds: median(runs.iter().map(|run| run.seconds).collect()),
            peak: median(runs.iter().map(|run| run.peak).collect()),
            size: median(runs.iter().map(|run| run.size).collect()),
        });
        for (side, run) in ["reference", "same", "default"].iter().zip(&sides) {
            println!(
                "| {} | {side} | {:.3} | {:.1} | {} | {:.0} MiB | {:.2} | {:.1} MiB |",
                work.name,
                run.seconds,
                sides[0].seconds / run.seconds,
                work.bar,
                run.peak / MIB,
                run.peak / sides[0].peak,
                run.size / MIB,
            );
        }
    }
    Ok(())
}

fn reference_words(work: &Work) -> Vec<String> {
    let depth = work.depth.to_string();
    let each = (0..work.levels).flat_map(|_| ["--reference", "2,1"]);
    each.chain(["--depth", depth.as_str()]).map(str::to_owned).collect()
}

fn own_words(work: &Work) -> Vec<String> {
    let levels = work.levels.to_string();
    let links = if work.depth == 0 { "none" } else { "explicit" };
    let words = ["--levels", levels.as_str(), "--links", links].into_iter();
    words.chain(work.own.iter().copied()).map(str::to_owned).collect()
}

fn theirs(
    environment: &Environment,
    work: &Work,
    from: &Path,
    place: &Path,
) -> anyhow::Result<Ran> {
    let store = fresh(from, place)?;
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/peers/pyramid_reference.py");
    let mut command = Command::new(environment.python());
    command.arg(script).arg(&store).args([work.levels.to_string(), work.depth.to_string()]);
    let output = command.stderr(Stdio::inherit()).output()?;
    ensure!(output.status.success(), "the reference: {}", output.status);
    let told: Value = serde_json::from_slice(&output.stdout)?;
    let number = |name: &str| told[name].as_f64().context("no number");
    let run = Ran { seconds: number("seconds")?, peak: number("peak")?, size: levels(&store)? };
    fs::remove_dir_all(&store)?;
    Ok(run)
}

fn ours(work: &Work, words: &[String], from: &Path, place: &Path) -> anyhow::Result<Ran> {
    let store = fresh(from, place)?;
    let command = std::env::current_exe()?.with_file_name("zvf");
    ensure!(command.exists(), "there is no {}: build zvf-cli", command.display());
    let mut command = Command::new(command);
    command.arg("pyramid").arg("-q").arg(&store).args(words).stdout(Stdio::null());
    let begun = Instant::now();
    let mut child = command.spawn()?;
    let mut peak = 0;
    let status = loop {
        peak = peak.max(crate::validate::held(&child).unwrap_or(0));
        if let Some(status) = child.try_wait()? {
            break status;
        }
        std::thread::sleep(std::time::Duration::from_micros(200));
    };
    let seconds = begun.elapsed().as_secs_f64();
    ensure!(status.success(), "zvf pyramid, {}: {status}", work.name);
    let run = Ran { seconds, peak: peak as f64, size: levels(&store)? };
    fs::remove_dir_all(&store)?;
    Ok(run)
}

/// A copy of a store.
fn fresh(from: &Path, place: &Path) -> anyhow::Result<PathBuf> {
    let to = place.join("bench-levels.zarrvectors");
    if to.exists() {
        fs::remove_dir_all(&to)?;
    }
    copy(from, &to)?;
    Ok(to)
}

fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let path = entry?.path();
        let to = to.join(path.file_name().context("a path without a name")?);
        if path.is_dir() {
            copy(&path, &to)?;
        } else {
            fs::copy(&path, &to)?;
        }
    }
    Ok(())
}

/// Bytes of all levels above the first, and of links to them.
fn levels(store: &Path) -> anyhow::Result<f64> {
    let mut sum = 0;
    for entry in fs::read_dir(store)? {
        let path = entry?.path();
        let number = path.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok());
        sum += match number {
            Some(0) => size(&path.join("links/+1"))?,
            Some(_) => size(&path)?,
            None => 0,
        };
    }
    Ok(sum as f64)
}

fn size(path: &Path) -> anyhow::Result<u64> {
    if !path.is_dir() {
        return Ok(fs::metadata(path).map_or(0, |about| about.len()));
    }
    fs::read_dir(path)?.map(|entry| size(&entry?.path())).sum()
}

const MIB: f64 = 1024.0 * 1024.0;
