//! `kill9`: processes that build and replace one store, killed at any moment.
//!
//! ```text
//! build        `zvf create --overwrite` by several processes, each of another input      here
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

use std::process::{Child, Command};
use std::time::{Duration, Instant};

use anyhow::ensure;
use archives::peers::Process;

use crate::Report;
use crate::commands::{Zvf, write_lines};
use crate::edits::kill::{self, What};
use crate::rerun::{self, Kill};
use crate::trees::{check_names, read_tree};
use archives::random::Random;

/// Kill processes that build one store, at any moment.
#[derive(clap::Args)]
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
            What::Build => self.kill_builds(&zvf, report),
            What::Create => often(report, false),
            What::Overwrite => often(report, true),
            What::Pyramid => pyramid::run(&zvf, dir, loops, report),
            What::Edit | What::Gc | What::Undo | What::Refresh => {
                kill::run(self.what, zvf, loops, report)
            }
            What::Ingest => ingest::run(&zvf, dir, loops, self.writers, report),
        }
    }

    fn kill_builds(self, zvf: &Zvf, report: &mut Report) -> anyhow::Result<()> {
        zvf.empty_place()?;
        let (store, mut random) = (zvf.place.join("a.zv"), report.random());
        let line = |g| format!("create -q ../{g}.csv a.zv --per-chunk 8 --overwrite");
        let (mut whole, begun) = (Vec::new(), Instant::now());
        for g in 0..GENERATIONS {
            let input = zvf.place.with_file_name(format!("{g}.csv"));
            write_lines(&input, "x,y,n", 200, |n| format!("{},{},{g}", n * 37 % 100, n / 20))?;
            zvf.run(&line(g))?;
            whole.push(archives::tree(&store));
        }
        let time = begun.elapsed().as_micros() as u64 / GENERATIONS as u64;
        zvf.empty_place()?;
        let mut exists = false;
        let mut check = |what: &str| {
            let found = read_tree(&store);
            let is_right = found.as_ref().map_or(!exists, |found| whole.contains(found));
            exists |= found.is_some();
            ensure!(is_right, "{what}: the store is gone, or not one of those that were built");
            Ok(())
        };
        let mut writers: Vec<Process> = Vec::new();
        for round in 0..self.loops {
            while writers.len() < self.writers.max(1) {
                writers.push(Process(zvf.start(&line(random.next_below(GENERATIONS)))?));
            }
            std::thread::sleep(Duration::from_micros(random.next() % (time + time / 4)));
            // A reader that is slower than the replacements would never see one store.
            writers.iter().try_for_each(|writer| send_signal(&writer.0, "-STOP"))?;
            std::thread::sleep(Duration::from_millis(1));
            report.count(check(&format!("round {round}")));
            drop(writers.swap_remove(random.next_below(writers.len())));
            let mut running = Vec::new();
            for mut writer in writers {
                match writer.0.try_wait()? {
                    None => {
                        send_signal(&writer.0, "-CONT")?;
                        running.push(writer);
                    }
                    // Another one was building it.
                    Some(status) => report.check(matches!(status.code(), Some(0 | 6)), || {
                        format!("round {round}: a builder ended with {status}")
                    }),
                }
            }
            writers = running;
        }
        drop(writers);
        zvf.run(&line(0))?;
        report.count(check("the last build"));
        report.count(check_names(&zvf.place, &["a.zv".to_owned()]));
        Ok(())
    }
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
#[derive(Clone, Copy)]
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

/// How many inputs there are of one store.
const GENERATIONS: usize = 8;
/// The size of the inputs of `create` and `overwrite`.
const SIZE: u64 = 60_000;
/// The numbers of points, of vertices of chains, and on a side of a mesh, of `pyramid` and `ingest`.
const INPUT_SIZES: [u64; 3] = [20_000, 60_000, 220];
