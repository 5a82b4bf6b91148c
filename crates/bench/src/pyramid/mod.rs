//! Building levels: zarr-vectors and zvf, on copies of the same stores, in turns.
//!
//! ```text
//! reference       build_pyramid, bins doubled with each level, in a process of its own
//! tools           the same call of zarr-vectors-tools, which chooses other vertices
//! as the reference    `zvf pyramid --reference`: the same levels, value for value
//! its own levels      `zvf pyramid`: levels that keep attributes and topology
//! ```
//!
//! Each run starts from a store with one level, copied outside the measured time, in a separate
//! process, so that its peak memory is known. For the others the start of Python does not count;
//! for the command its start does. The limit is copying the store once.

pub(crate) mod grow;
mod mesh;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use serde_json::Value;

use crate::contest::Contender;
use crate::discard::discard;
use crate::limit;
use crate::peer::{Environment, NAME};
use crate::results::Results;
use crate::row::{Cost, Role, Turn};
use crate::settings::Bench;
use crate::watch::{ProcessStats, read_stats};

/// A store, its number of new levels, and the number of levels that links span.
struct Work {
    name: &'static str,
    store: &'static str,
    levels: usize,
    depth: i64,
    /// The arguments of `zvf pyramid` in its default mode.
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

pub(crate) fn run(bench: &Bench, results: &mut Results) -> anyhow::Result<()> {
    if bench.alone || bench.own.is_some() {
        return Ok(()); // its stores are made by the reference; every side has a process of its own
    }
    let (environment, stores) =
        (Environment::install_reference(&bench.folder)?, bench.stores_folder());
    environment.make_stores(&stores, bench.scale)?;
    let tools = Environment::install(&bench.folder, "tools", &[TOOLS]);
    for (work, place) in
        bench.list_places()?.iter().flat_map(|place| WORKS.iter().map(move |work| (work, place)))
    {
        let name = format!("{}, {}", bench.scale_name(work.name), place.name);
        let (from, to) = (stores.join(format!("{}.zarrvectors", work.store)), &place.path);
        let python = environment.python();
        let mut sides = vec![
            Contender::zvf("zvf, as the reference", || {
                measure_zvf(work, &reference_words(work), &from, to)
            }),
            Contender::variant("zvf, its own levels", || {
                Ok(Turn { count: None, ..measure_zvf(work, &default_words(work), &from, to)? })
            }),
            Contender::new(NAME, Role::Reference, || {
                measure_python(python, "reference", work, &from, to)
            }),
            Contender::new("cp -r of the store", Role::Limit, || {
                Ok(Turn::from_seconds(limit::measure_copy(
                    &from,
                    &to.join("bench-copy.zarrvectors"),
                )?))
            }),
        ];
        let tools = match &tools {
            // They select other vertices for their levels.
            Ok(tools) => Contender::new(TOOLS, Role::Peer, || {
                Ok(Turn {
                    count: None,
                    ..measure_python(tools.python(), "tools", work, &from, to)?
                })
            }),
            Err(error) => Contender::new_absent(TOOLS, Role::Peer, format!("{error:#}")),
        };
        sides.insert(3, tools);
        results.contest_ahead(bench, name, work.bar, sides)?;
    }
    mesh::run(bench, results)
}

fn reference_words(work: &Work) -> Vec<String> {
    let depth = work.depth.to_string();
    let references = (0..work.levels).flat_map(|_| ["--reference", "2,1"]);
    references.chain(["--depth", depth.as_str()]).map(str::to_owned).collect()
}

fn default_words(work: &Work) -> Vec<String> {
    let levels = work.levels.to_string();
    let links = if work.depth == 0 { "none" } else { "explicit" };
    let words = ["--levels", levels.as_str(), "--links", links].into_iter();
    words.chain(work.own.iter().copied()).map(str::to_owned).collect()
}

fn measure_python(
    python: &Path,
    whose: &str,
    work: &Work,
    from: &Path,
    place: &Path,
) -> anyhow::Result<Turn> {
    let store = copy_store(from, place)?;
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/peers/pyramid_reference.py");
    let mut command = Command::new(python);
    command.arg(script).arg(&store).args([work.levels.to_string(), work.depth.to_string()]);
    let output = command.arg(whose).output()?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}", stderr.lines().last().unwrap_or("it failed"));
    let answer: Value = serde_json::from_slice(&output.stdout)?;
    let seconds = answer["seconds"].as_f64().context("no number")?;
    let processor = answer["processor"].as_f64().map(Duration::from_secs_f64);
    let cost = Cost { memory: answer["peak"].as_u64(), processor, ..Cost::default() };
    let turn =
        Turn { cost, ..Turn::from_seconds(seconds).with_count(count_level_vertices(&store)?) };
    discard(&store)?;
    Ok(turn)
}

fn measure_zvf(work: &Work, words: &[String], from: &Path, place: &Path) -> anyhow::Result<Turn> {
    let store = copy_store(from, place)?;
    let turn = measure_command(zvf_command("pyramid")?.arg("--in-place").arg(&store).args(words))
        .with_context(|| format!("zvf pyramid, {}", work.name))?
        .with_count(count_level_vertices(&store)?);
    discard(&store)?;
    Ok(turn)
}

/// Returns the path of the command, which is built beside this program.
pub(crate) fn find_zvf() -> anyhow::Result<PathBuf> {
    let command = std::env::current_exe()?.with_file_name("zvf");
    ensure!(command.exists(), "there is no {}: build zvf-cli", command.display());
    Ok(command)
}

/// Returns a quiet command with this subcommand.
pub(crate) fn zvf_command(verb: &str) -> anyhow::Result<Command> {
    let mut command = Command::new(find_zvf()?);
    command.args([verb, "-q"]).stdout(Stdio::null());
    Ok(command)
}

/// Makes a file or a store from another one with the command, unless it is there.
pub(crate) fn make_once(
    verb: &str,
    from: &Path,
    to: PathBuf,
    options: &str,
) -> anyhow::Result<PathBuf> {
    if !to.exists() {
        let mut command = zvf_command(verb)?;
        let status = command.args([from, &to]).args(options.split_whitespace()).status()?;
        ensure!(status.success(), "{} is not made: {status}", to.display());
    }
    Ok(to)
}

/// Builds levels of a copy of a store; the copy is made outside the measured time.
fn measure_levels(store: &Path, place: &Path, words: &[&str]) -> anyhow::Result<Turn> {
    let copy = copy_store(store, place)?;
    let turn = measure_command(zvf_command("pyramid")?.arg("--in-place").args(words).arg(&copy))?;
    discard(&copy)?;
    Ok(turn)
}

/// Runs a command; returns its time, its peak memory and its processor time.
pub(crate) fn measure_command(command: &mut Command) -> anyhow::Result<Turn> {
    let (seconds, stats) = watch_command(command)?;
    let memory = Some(stats.peak).filter(|peak| *peak > 0);
    let cost = Cost { memory, processor: Some(stats.processor), ..Cost::default() };
    Ok(Turn { cost, ..Turn::from_seconds(seconds) })
}

/// Runs a command; returns its seconds, and the statistics of the process just before its end.
pub(crate) fn watch_command(command: &mut Command) -> anyhow::Result<(f64, ProcessStats)> {
    let begun = Instant::now();
    let mut child = command.spawn()?;
    let mut stats = ProcessStats::default();
    let status = loop {
        // The read statistics exist only while the process runs, so the last sample is slightly
        // early.
        stats = read_stats(child.id()).unwrap_or(stats);
        if let Some(status) = child.try_wait()? {
            break status;
        }
        // Sampling takes processor time, so it is rare in long runs.
        let pause = begun.elapsed() / 100;
        std::thread::sleep(pause.clamp(Duration::from_micros(200), Duration::from_millis(20)));
    };
    let seconds = begun.elapsed().as_secs_f64();
    ensure!(status.success(), "{status}");
    Ok((seconds, stats))
}

/// Copies a store.
pub(crate) fn copy_store(from: &Path, place: &Path) -> anyhow::Result<PathBuf> {
    let to = place.join("bench-levels.zarrvectors");
    if to.exists() {
        discard(&to)?;
    }
    copy_folder(from, &to)?;
    Ok(to)
}

fn copy_folder(from: &Path, to: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let path = entry?.path();
        let to = to.join(path.file_name().context("a path without a name")?);
        if path.is_dir() {
            copy_folder(&path, &to)?;
        } else {
            fs::copy(&path, &to)?;
        }
    }
    Ok(())
}

/// Returns the number of vertices of all levels above the first, from their documents.
fn count_level_vertices(store: &Path) -> anyhow::Result<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(store)? {
        let path = entry?.path();
        let number = path.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok());
        if number.is_some_and(|number| number > 0) {
            let document: Value = serde_json::from_slice(&fs::read(path.join("zarr.json"))?)?;
            let count = &document["attributes"]["zarr_vectors_level"]["vertex_count"];
            sum += count.as_u64().context("a level that does not count its vertices")?;
        }
    }
    Ok(sum)
}

/// The other common package for building levels, based on zarr-vectors.
const TOOLS: &str = "zarr-vectors-tools==0.3.0";
