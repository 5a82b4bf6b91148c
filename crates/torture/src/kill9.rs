//! `kill9`: processes that build and replace one store, killed at any moment.
//!
//! ```text
//! build        the library, generation after generation                              here
//! create       `zvf create`, of input that fits in memory and that does not           rerun
//! overwrite    the same over an existing store                                        rerun
//! pyramid      `zvf pyramid`: levels that are saved and reused                        pyramid
//! edit, gc, undo, refresh    the journal of an edited store                           edits
//! ingest       `zvf ingest`: many processes, tasks run twice and concurrently         ingest
//! ```
//!
//! Whenever the store exists, it must be one complete generation, and it must not disappear again.
//! At the end, one build that is not killed must remove everything that the killed ones left.

mod ingest;
mod pyramid;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{anyhow, ensure};
use archives::peers::Process;

use crate::edits::kill::{self, What};
use crate::rerun::{self, Kill};
use crate::trees::check_names;
use crate::{Report, block_on, build, generations};
use archives::random::Random;

/// Kill processes that build one store, at any moment.
#[derive(Debug, clap::Args)]
pub(crate) struct Kill9 {
    /// What is killed.
    #[arg(long, value_enum, default_value_t = What::Build)]
    what: What,
    /// The number of kills.
    #[arg(long, default_value_t = 200)]
    loops: u64,
    /// Concurrent processes.
    #[arg(long, default_value_t = 2)]
    writers: usize,
}

/// Build one store over and over, until killed.
#[derive(Debug, clap::Args)]
pub(crate) struct Builder {
    /// The store.
    path: PathBuf,
    /// The first generation.
    #[arg(long, default_value_t = 1)]
    first: u64,
    /// The number of builds; 0 for no limit.
    #[arg(long, default_value_t = 0)]
    times: u64,
}

impl Builder {
    pub(crate) fn run(self, report: &mut Report) -> anyhow::Result<()> {
        let address = self.path.to_string_lossy().into_owned();
        let mut g = self.first;
        while self.times == 0 || report.n < self.times {
            let built = block_on(async {
                let begun = zvf_store::Build::begin(&address, build::build_options(true)).await?;
                generations::build(begun, g, CELLS).await
            });
            // Another process may be building it; the next attempt replaces it.
            let lost = |error: &zvf_error::Error| error.class() == zvf_format::Class::Conflict;
            report.count(
                built.or_else(|error| if lost(&error) { Ok(()) } else { Err(error.into()) }),
            );
            g += 1;
        }
        Ok(())
    }
}

impl Kill9 {
    pub(crate) fn run(self, report: &mut Report) -> anyhow::Result<()> {
        let scratch = tempfile::tempdir()?;
        let dir = scratch.path();
        let (zvf, loops) = (report.zvf(&dir.join("place"))?, self.loops);
        let often = |report: &mut Report, replaces: bool| {
            rerun::run_cases(report, Kill::Often, dir, (SIZE, loops), |case| {
                case.name.starts_with("create") && case.name.contains("overwrite") == replaces
            })
        };
        match self.what {
            What::Build => self.kill_builds(dir, report),
            What::Create => often(report, false),
            What::Overwrite => often(report, true),
            What::Pyramid => pyramid::run(&zvf, dir, loops, report),
            What::Edit | What::Gc | What::Undo | What::Refresh => {
                kill::run(self.what, zvf, loops, report)
            }
            What::Ingest => ingest::run(&zvf, dir, loops, self.writers, report),
        }
    }

    fn kill_builds(self, dir: &Path, report: &mut Report) -> anyhow::Result<()> {
        let store = dir.join("a.zv");
        let mut random = report.random();
        let mut writers: Vec<Process> = Vec::new();
        let mut exists = false;
        for round in 0..self.loops {
            while writers.len() < self.writers.max(1) {
                let first = (round * 64 + u64::try_from(writers.len())?) * 1_000 + 1;
                writers.push(start_builder(&store, first, 0)?);
            }
            std::thread::sleep(Duration::from_micros(random.next() % 60_000));
            let mut victim = writers.swap_remove(random.next_below(writers.len()));
            if let Some(status) = victim.0.try_wait()? {
                report.count(Err(anyhow!("round {round}: a builder ended with {status}")));
            }
            drop(victim);
            // A reader that is slower than the replacements would never see one store.
            writers.iter().try_for_each(|writer| send_signal(&writer.0, "-STOP"))?;
            report.count(block_on(check_store(&store, &mut exists)));
            writers.iter().try_for_each(|writer| send_signal(&writer.0, "-CONT"))?;
        }
        drop(writers);
        ensure!(start_builder(&store, 1, 1)?.0.wait()?.success(), "the last build failed");
        report.count(block_on(check_store(&store, &mut exists)));
        report.count(check_names(dir, &["a.zv".to_owned()]));
        Ok(())
    }
}

fn start_builder(store: &Path, first: u64, times: u64) -> anyhow::Result<Process> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("builder").arg(store);
    command.args(["--first", &first.to_string(), "--times", &times.to_string()]);
    Ok(Process(command.stdout(Stdio::null()).spawn()?))
}

/// Checks that the store is one complete generation, or never existed.
async fn check_store(store: &Path, exists: &mut bool) -> anyhow::Result<()> {
    // A handle that is open during a replacement still uses the old files, which are removed:
    // retry.
    for _ in 0..TRIES {
        if !store.exists() {
            return if *exists { Err(anyhow!("the store is gone")) } else { Ok(()) };
        }
        *exists = true;
        if build::read_generation(store, CELLS).await.is_ok() {
            return Ok(());
        }
    }
    build::read_generation(store, CELLS).await.map(drop)
}

/// Stops a process, or resumes it.
pub(crate) fn send_signal(child: &Child, signal: &str) -> anyhow::Result<()> {
    let status = Command::new("kill").args([signal, &child.id().to_string()]).status()?;
    ensure!(status.success(), "kill {signal}: {status}");
    Ok(())
}

/// Kills a process after a time up to `within`; returns whether it was still running.
fn kill_within(child: Child, within: Duration, random: &mut Random) -> anyhow::Result<bool> {
    let (mut child, micros) = (Process(child), (within.as_micros() as u64).max(1));
    std::thread::sleep(Duration::from_micros(random.next() % micros));
    Ok(child.0.try_wait()?.is_none())
}

/// A file that `write_inputs` writes, and the rest of the line that creates a store from it.
#[derive(Clone, Copy, Debug)]
struct Input {
    name: &'static str,
    file: &'static str,
    options: &'static str,
}

/// Inputs that fit in memory and that do not. Chains consist of many runs, each a fragment and an entry of a manifest.
const INPUTS: [Input; 3] = [
    Input { name: "points", file: "points.csv", options: "--per-chunk 500" },
    Input {
        name: "chains",
        file: "chains.csv",
        options: "--kind polyline --per-chunk 2000 --memory-limit 2MiB",
    },
    Input {
        name: "mesh",
        file: "mesh.ply",
        options: "--per-chunk 1000 --shard none --memory-limit 1MiB",
    },
];

/// Cells of a store.
const CELLS: i64 = 24;
/// How often a store may be replaced while it is read.
const TRIES: usize = 50;
/// The size of the inputs of `create` and `overwrite`.
const SIZE: u64 = 60_000;
/// The numbers of points, of vertices of chains, and on a side of a mesh, of `pyramid` and `ingest`.
const INPUT_SIZES: [u64; 3] = [20_000, 60_000, 220];
