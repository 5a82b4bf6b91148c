//! `kill9`: processes that build and replace one store, killed at any moment.
//!
//! ```text
//! build        the library, generation after generation                              here
//! create       `zvf create`, of input that fits in memory and that does not           create
//! overwrite    the same over an existing store                                        create
//! pyramid      `zvf pyramid`: levels that are saved and reused                        pyramid
//! edit, gc, undo, refresh    the journal of an edited store                           edits
//! ingest       `zvf ingest`: many processes, tasks run twice and concurrently         ingest
//! ```
//!
//! The store must be one complete generation whenever it exists, and once it exists it must stay. In the end one build
//! that is not killed must remove what all the killed ones left.

mod create;
mod ingest;
mod input;
mod pyramid;

pub(crate) use input::encode_mesh;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use clap::ValueEnum;

use crate::edits::kill;
use crate::{Program, Report, build};
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
    #[command(flatten)]
    program: Program,
    /// Concurrent processes.
    #[arg(long, default_value_t = 2)]
    writers: usize,
    /// The directory [default: a temporary one].
    #[arg(long)]
    dir: Option<PathBuf>,
    /// The seed of the waiting times.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// What is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum What {
    /// Builds with the library.
    Build,
    /// `zvf create`.
    Create,
    /// `zvf create --overwrite`.
    Overwrite,
    /// `zvf ingest`.
    Ingest,
    /// `zvf pyramid`.
    Pyramid,
    /// `zvf edit`.
    Edit,
    /// `zvf gc`.
    Gc,
    /// `zvf undo`.
    Undo,
    /// `zvf pyramid --refresh`.
    Refresh,
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
    pub(crate) fn run(self) -> anyhow::Result<Report> {
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        let mut report = Report { name: "builder", ..Report::default() };
        let address = self.path.to_string_lossy().into_owned();
        let mut g = self.first;
        while self.times == 0 || report.n < self.times {
            let built = runtime.block_on(async {
                let begun = zvf_store::Build::begin(&address, build::build_options(true)).await?;
                build::build_store(begun, g, CELLS).await
            });
            // Another process may be building it; the next try replaces it.
            let lost = |error: &zvf_error::Error| error.class() == zvf_format::Class::Conflict;
            report.count(
                built.or_else(|error| if lost(&error) { Ok(()) } else { Err(error.to_string()) }),
            );
            g += 1;
        }
        Ok(report)
    }
}

impl Kill9 {
    pub(crate) fn run(self) -> anyhow::Result<Report> {
        let scratch = tempfile::tempdir()?;
        let dir = self.dir.clone().unwrap_or_else(|| scratch.path().to_owned());
        let zvf = self.program.path()?;
        let mut random = Random::new(self.seed);
        let mut report = match self.what {
            What::Build => return self.kill_builds(&dir),
            What::Create => create::run(&zvf, &dir, self.loops, false, &mut random)?,
            What::Overwrite => create::run(&zvf, &dir, self.loops, true, &mut random)?,
            What::Pyramid => pyramid::run(&zvf, &dir, self.loops, &mut random)?,
            What::Edit => kill::run(kill::What::Edit, &zvf, &dir, self.loops, &mut random)?,
            What::Gc => kill::run(kill::What::Gc, &zvf, &dir, self.loops, &mut random)?,
            What::Undo => kill::run(kill::What::Undo, &zvf, &dir, self.loops, &mut random)?,
            What::Refresh => kill::run(kill::What::Refresh, &zvf, &dir, self.loops, &mut random)?,
            What::Ingest => ingest::run(&zvf, &dir, self.loops, self.writers, &mut random)?,
        };
        report.seed = self.seed;
        Ok(report)
    }

    fn kill_builds(self, dir: &Path) -> anyhow::Result<Report> {
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        let store = dir.join("a.zv");
        let mut report = Report { name: "kill9", seed: self.seed, ..Report::default() };
        let mut random = Random::new(self.seed);
        let mut writers: Vec<Child> = Vec::new();
        let mut exists = false;
        for round in 0..self.loops {
            while writers.len() < self.writers.max(1) {
                let first = (round * 64 + u64::try_from(writers.len())?) * 1_000 + 1;
                writers.push(start_builder(&store, first, 0)?);
            }
            let until = Instant::now() + Duration::from_micros(random.next() % 60_000);
            while Instant::now() < until {
                std::thread::sleep(Duration::from_millis(1));
            }
            let mut victim = writers.swap_remove(random.next_below(writers.len()));
            if let Some(status) = victim.try_wait()? {
                report.count(Err(format!("round {round}: a builder ended with {status}")));
            }
            victim.kill()?;
            victim.wait()?;
            // A reader that is slower than the replacements would never see one store.
            for writer in &writers {
                send_signal(writer, "-STOP")?;
            }
            report.count(runtime.block_on(check_store(&store, &mut exists)));
            for writer in &writers {
                send_signal(writer, "-CONT")?;
            }
        }
        for writer in &mut writers {
            writer.kill()?;
            writer.wait()?;
        }
        anyhow::ensure!(start_builder(&store, 1, 1)?.wait()?.success(), "the last build failed");
        report.count(runtime.block_on(check_store(&store, &mut exists)));
        let left: Vec<_> =
            std::fs::read_dir(dir)?.map(|e| e.map(|e| e.file_name())).collect::<Result<_, _>>()?;
        report.count(if left.len() == 1 { Ok(()) } else { Err(format!("left behind: {left:?}")) });
        Ok(report)
    }
}

fn start_builder(store: &Path, first: u64, times: u64) -> anyhow::Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("builder").arg(store);
    command.args(["--first", &first.to_string(), "--times", &times.to_string()]);
    Ok(command.stdout(Stdio::null()).spawn()?)
}

/// Checks that the store is one complete generation, or never existed.
async fn check_store(store: &Path, exists: &mut bool) -> Result<(), String> {
    // A handle that is open across a replacement continues with the old files, which are removed: begin again.
    for _ in 0..TRIES {
        if !store.exists() {
            return if *exists { Err("the store is gone".to_owned()) } else { Ok(()) };
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
    anyhow::ensure!(status.success(), "kill {signal}: {status}");
    Ok(())
}

/// Starts the command with these arguments, without output.
fn start_command(zvf: &Path, words: &[&str]) -> anyhow::Result<Child> {
    let mut command = Command::new(zvf);
    let child = command.args(words).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    child.with_context(|| format!("cannot start {}", zvf.display()))
}

/// Kills a process after a time up to `within`; returns whether it was still running.
fn kill_within(mut child: Child, within: Duration, random: &mut Random) -> anyhow::Result<bool> {
    let micros = usize::try_from(within.as_micros())?.max(1);
    std::thread::sleep(Duration::from_micros(u64::try_from(random.next_below(micros))?));
    let alive = child.try_wait()?.is_none();
    child.kill()?;
    child.wait()?;
    Ok(alive)
}

/// Checks that nothing lies in `dir` next to `store`.
fn check_nothing_left(dir: &Path, store: &Path) -> Result<(), String> {
    let entries = std::fs::read_dir(dir).map_err(|error| error.to_string())?;
    let names = entries.flatten().map(|entry| entry.path()).filter(|path| path != store);
    let left: Vec<PathBuf> = names.collect();
    if left.is_empty() { Ok(()) } else { Err(format!("left behind: {left:?}")) }
}

/// Cells of a store.
const CELLS: i64 = 24;
/// How often a store may be replaced while it is read.
const TRIES: usize = 50;
