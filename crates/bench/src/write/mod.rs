//! Writing: the reference, zvf, and a plain program that creates the same files, in turns.
//!
//! ```text
//! default          shards, as `zvf create` derives them for such a grid
//! a file a cell    one object for each cell, as the reference writes
//! plain            the files of the latter, created from memory with the same syncs, and nothing else
//! ```
//!
//! Each side writes a store that was not there; it is removed outside the clock. The input is in memory.
//! Places are told apart by what they are called: a folder of a memory file system, a folder of a disk.

mod data;
mod plain;

use std::io::{BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, ensure};
use clap::Args;
use serde_json::{Value, json};
use zvf_format::grid::ChunkShape;
use zvf_format::metadata::Axis;
use zvf_model::{Batch, Bounds};
use zvf_write::{Schema, WriteOptions, Writer};

use crate::peer::Environment;
use crate::report::median;
use data::Work;

/// How writing is measured.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Measure writing, into each of these folders.
    #[arg(long, value_name = "DIR")]
    pub(crate) write: Vec<PathBuf>,
}

/// Runs the workloads whose name contains `filter`.
pub(crate) fn run(
    options: &Options,
    folder: &Path,
    turns: usize,
    filter: Option<&str>,
    profile: bool,
) -> anyhow::Result<()> {
    let inputs = folder.join("write-inputs");
    data::make(&inputs)?;
    let works = data::ALL.iter().filter(|work| filter.is_none_or(|part| work.name.contains(part)));
    if profile {
        for (work, to) in works.flat_map(|work| options.write.iter().map(move |to| (work, to))) {
            let batch = work.batch(&inputs)?;
            let bare = peak()?;
            for shard in [true, false] {
                let times: Result<Vec<f64>, _> =
                    (0..turns).map(|_| ours(*work, &batch, to, shard)).collect();
                let time = median(times?) * 1e3;
                println!("{}: {time:.1} ms, {} MiB above the input", work.name, peak()? - bare);
            }
        }
        return Ok(());
    }
    let environment = Environment::installed(folder)?;
    let mut peer = Reference::start(&environment, &inputs)?;
    println!(
        "| work | place | reference | default | ratio | wanted | a file a cell | ratio | times the plain files |"
    );
    println!("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    for work in works {
        let batch = work.batch(&inputs)?;
        for to in &options.write {
            let mut times = [const { Vec::new() }; 4];
            for turn in 0..=turns {
                let theirs = peer.write(*work, to)?;
                let sharded = ours(*work, &batch, to, true)?;
                let (cells, plain) =
                    (ours(*work, &batch, to, false)?, plain::same(*work, &batch, to)?);
                // The first turn only warms caches.
                for (times, time) in times.iter_mut().zip([theirs, sharded, cells, plain]) {
                    times.extend((turn > 0).then_some(time));
                }
            }
            let [theirs, sharded, cells, plain] = times.map(median);
            println!(
                "| {} | {} | {:.0} ms | {:.0} ms | {:.1} | {} | {:.0} ms | {:.1} | {:.2} |",
                work.name,
                to.display(),
                theirs * 1e3,
                sharded * 1e3,
                theirs / sharded,
                work.bar,
                cells * 1e3,
                theirs / cells,
                cells / plain,
            );
        }
    }
    Ok(())
}

/// The seconds in which we write; the store is removed again.
fn ours(work: Work, batch: &Batch, to: &Path, shard: bool) -> anyhow::Result<f64> {
    let store = to.join("bench-ours.zarrvectors");
    let seconds = write(work, batch, &store, shard)?;
    std::fs::remove_dir_all(&store)?;
    Ok(seconds)
}

/// Writes `store`, which is not there.
fn write(work: Work, batch: &Batch, store: &Path, shard: bool) -> anyhow::Result<f64> {
    let axes = Axis::spatial(3).context("three axes")?;
    let bounds = Bounds::new(&[0.0; 3], &[100.0; 3])?;
    let schema =
        Schema::new(work.kind(), axes, ChunkShape::new(&[12.5; 3])?)?.with_bounds(bounds)?;
    let schema = if shard { schema.sharded(&[4; 3])? } else { schema };
    let address = store.to_str().context("a folder whose name is not UTF-8")?;
    let start = Instant::now();
    futures_executor::block_on(async {
        let mut writer = Writer::create(address, schema, WriteOptions::default()).await?;
        writer.push(batch)?;
        writer.finish().await
    })?;
    Ok(start.elapsed().as_secs_f64())
}

/// The most memory that this process had, in MiB.
fn peak() -> anyhow::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib: u64 =
        line.and_then(|line| line.split_whitespace().next()).context("no VmHWM")?.parse()?;
    Ok(kib / 1024)
}

/// The reference as a writer.
struct Reference {
    process: std::process::Child,
    answers: BufReader<std::process::ChildStdout>,
}

impl Reference {
    fn start(environment: &Environment, inputs: &Path) -> anyhow::Result<Self> {
        let mut command = Command::new(environment.python());
        command.arg(SCRIPT).arg(inputs).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn()?;
        let answers = process.stdout.take().context("no way to hear the reference")?;
        Ok(Self { process, answers: BufReader::new(answers) })
    }

    fn write(&mut self, work: Work, to: &Path) -> anyhow::Result<f64> {
        let store = to.join("bench-theirs.zarrvectors");
        let requests = self.process.stdin.as_mut().context("no way to ask the reference")?;
        writeln!(requests, "{}", json!({"work": work.id, "to": store}))?;
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        let answer: Value = serde_json::from_str(&line).context("the reference stopped")?;
        std::fs::remove_dir_all(&store)?;
        let seconds = answer["seconds"].as_f64();
        ensure!(seconds.is_some(), "{}: the reference says {}", work.name, answer["error"]);
        Ok(seconds.unwrap_or_default())
    }
}

impl Drop for Reference {
    fn drop(&mut self) {
        drop(self.process.kill()); // it may have ended already
        drop(self.process.wait());
    }
}

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/peers/write_reference.py");
