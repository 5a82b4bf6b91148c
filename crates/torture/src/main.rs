//! Tests whether the library keeps its guarantees under faults, kills and random input.
//!
//! Each subcommand prints one JSON line, `{"name","n","failures","seed"}`, and ends with an error when anything failed.
//! The first failures are printed on standard error, one line each. The same seed repeats a run.
//!
//! The decoders that the library is compared with are independent, in [`naive`]: simple and slow,
//! written from the specification of the format.

mod build;
mod commands;
mod compare;
mod disk;
mod diskfull;
mod edits;
mod exhaust;
mod generations;
mod kill9;
mod memory;
mod mutate;
mod naive;
mod powerloss;
mod remote;
mod rerun;
mod roles;
mod scale;
mod serve;
mod sigbus;
mod signals;
mod stores;
mod tasks;
mod trees;

use std::io::{self, Write};
use std::path::{self, Path, PathBuf};
use std::process::ExitCode;

use archives::random::Random;
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use peak_alloc::PeakAlloc;

use crate::commands::Zvf;
use crate::rerun::Kill;

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

/// Test the guarantees of the library under faults, kills and random input.
#[derive(Parser)]
#[command(name = "torture")]
struct Torture {
    #[command(subcommand)]
    command: Command,
    /// The seed of the random numbers; repeated in the report.
    #[arg(long, global = true, default_value_t = 1)]
    seed: u64,
    /// The `zvf` command [default: the one next to this program].
    #[arg(long, global = true)]
    zvf: Option<PathBuf>,
}

#[derive(Subcommand)]
enum Command {
    Mutate(mutate::Mutate),
    Exhaust(exhaust::Exhaust),
    Powerloss(powerloss::Powerloss),
    Kill9(kill9::Kill9),
    Diskfull(diskfull::Diskfull),
    Race(edits::race::Race),
    Sigbus(sigbus::Sigbus),
    Stores(stores::Stores),
    RaceRemote(remote::race::Race),
    Faults(remote::faults::Faults),
    Cancel(remote::faults::Cancel),
    /// Each command that writes, killed and cleaned up.
    Clean(commands::Rounds),
    DiskFaults(disk::Faults),
    DiskCancel(disk::Cancel),
    /// Each command that writes, killed while it publishes and run again.
    Rerun(commands::Rounds),
    Roles(roles::Roles),
    /// Each command that writes, with a signal at a random moment.
    Signals(commands::Rounds),
    Memory(memory::Memory),
    Scale(scale::Scale),
    EditModel(edits::model::EditModel),
    EditScript(edits::script::EditScript),
    Doubles(edits::doubles::Doubles),
    Http(serve::http::Http),
    Slow(serve::slow::Slow),
    Load(serve::load::Load),
    Soak(serve::soak::Soak),
}

/// The state that all tests share: results and common options.
#[derive(Default)]
struct Report {
    name: String,
    n: u64,
    failures: u64,
    seed: u64,
    zvf: Option<PathBuf>,
}

impl Report {
    /// Returns the command under test, which runs in `place`.
    fn zvf(&self, place: &Path) -> anyhow::Result<Zvf> {
        let program = match &self.zvf {
            Some(program) => path::absolute(program)?,
            None => std::env::current_exe()?.with_file_name("zvf"),
        };
        Ok(Zvf { program, place: place.to_owned() })
    }

    /// Returns new random numbers of the seed.
    fn random(&self) -> Random {
        Random::new(self.seed)
    }

    /// Prints a note.
    fn print_note(&self, text: &str) {
        drop(writeln!(io::stderr(), "{}: {text}", self.name));
    }

    /// Runs a part, and prints its failures.
    fn part(
        &mut self,
        name: &str,
        run: impl FnOnce(&mut Self) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let failures = self.failures;
        run(self)?;
        self.print_note(&format!("{name}: {} failures", self.failures - failures));
        Ok(())
    }

    /// Counts one test, and prints its failure, also if it could not be run.
    fn count(&mut self, tried: anyhow::Result<()>) {
        self.n += 1;
        if let Err(failure) = tried {
            self.failures += 1;
            if self.failures <= SHOWN {
                self.print_note(&format!("{failure:#}"));
            }
        }
    }

    /// Counts tests that are stopped after more and more steps, until one ends by itself.
    fn count_until_ended(
        &mut self,
        every: u64,
        mut attempt: impl FnMut(u64) -> anyhow::Result<(bool, anyhow::Result<()>)>,
    ) -> anyhow::Result<()> {
        for steps in (0..).step_by(usize::try_from(every.max(1))?) {
            let (is_ended, checked) = attempt(steps)?;
            self.count(checked);
            if is_ended {
                break;
            }
        }
        Ok(())
    }

    /// Counts one condition, and prints the reason if it does not hold.
    fn check(&mut self, holds: bool, why_not: impl FnOnce() -> String) {
        self.count(if holds { Ok(()) } else { Err(anyhow::Error::msg(why_not())) });
    }
}

fn main() -> anyhow::Result<ExitCode> {
    let matches = Torture::command().get_matches();
    let name = matches.subcommand_name().unwrap_or_default().to_owned();
    let Torture { command, seed, zvf } = Torture::from_arg_matches(&matches)?;
    let mut report = Report { name, seed, zvf, ..Report::default() };
    match command {
        Command::Mutate(part) => part.run(&mut report),
        Command::Exhaust(part) => part.run(&mut report),
        Command::Powerloss(part) => part.run(&mut report),
        Command::Kill9(part) => part.run(&mut report),
        Command::Diskfull(part) => part.run(&mut report),
        Command::Race(part) => part.run(&mut report),
        Command::Sigbus(part) => part.run(&mut report),
        Command::Stores(part) => part.run(&mut report),
        Command::RaceRemote(part) => part.run(&mut report),
        Command::Faults(part) => part.run(&mut report),
        Command::Cancel(part) => part.run(&mut report),
        Command::Clean(rounds) => rerun::run(&rounds, Kill::ThenClean, &mut report),
        Command::DiskFaults(part) => part.run(&mut report),
        Command::DiskCancel(part) => part.run(&mut report),
        Command::Rerun(rounds) => rerun::run(&rounds, Kill::AroundPublication, &mut report),
        Command::Roles(part) => part.run(&mut report),
        Command::Signals(rounds) => signals::run(&rounds, &mut report),
        Command::Memory(part) => part.run(&mut report),
        Command::Scale(part) => part.run(&mut report),
        Command::EditModel(part) => part.run(&mut report),
        Command::EditScript(part) => part.run(&mut report),
        Command::Doubles(part) => part.run(&mut report),
        Command::Http(part) => part.run(&mut report),
        Command::Slow(part) => part.run(&mut report),
        Command::Load(part) => part.run(&mut report),
        Command::Soak(part) => part.run(&mut report),
    }?;
    let Report { name, n, failures, seed, .. } = report;
    writeln!(
        io::stdout(),
        "{{\"name\":\"{name}\",\"n\":{n},\"failures\":{failures},\"seed\":{seed}}}"
    )?;
    Ok(if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs a future to its end on this thread.
///
/// # Panics
///
/// When the system cannot create a runtime.
fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    runtime.expect("a runtime").block_on(work)
}

/// Runs `work` for each number, each on a thread of its own.
fn in_parallel<T: Send>(count: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let work = &work;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..count).map(|n| scope.spawn(move || work(n))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no test panics")).collect()
    })
}

fn testdata_folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata"))
}

/// The number of printed failures.
const SHOWN: u64 = 20;
