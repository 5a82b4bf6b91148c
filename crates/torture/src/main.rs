//! Tests under faults, kills and random input whether the library keeps its guarantees.
//!
//! Each subcommand prints one JSON line, `{"name","n","failures","seed"}`, and ends with an error when anything failed.
//! The first failures are printed on standard error, one line each. The same seed repeats a run.
//!
//! The decoders that the library is compared with are independent, in [`naive`]: simple and slow, written from the
//! description of the format.

mod blob_edit;
mod build;
mod clean;
mod commands;
mod compare;
mod disk;
mod diskfull;
mod edits;
mod exhaust;
mod extra_golden;
mod golden;
mod kill9;
mod memory;
mod mutate;
mod naive;
mod powerloss;
mod random;
mod remote;
mod rerun;
#[cfg(unix)]
mod roles;
mod scale;
#[cfg(unix)]
mod serve;
#[cfg(unix)]
mod sigbus;
#[cfg(unix)]
mod signals;
mod stores;
mod tasks;

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use peak_alloc::PeakAlloc;

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

/// Test the guarantees of the library under faults, kills and random input.
#[derive(Debug, Parser)]
#[command(name = "torture")]
struct Torture {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Random edits of good blobs.
    Mutate(mutate::Mutate),
    /// Every small blob.
    Exhaust(exhaust::Exhaust),
    /// Every state that a loss of power may leave while a store is built.
    Powerloss(powerloss::Powerloss),
    /// Processes that build one store, killed at any moment.
    Kill9(kill9::Kill9),
    /// The target of `kill9`.
    #[command(hide = true)]
    Builder(kill9::Builder),
    /// A disk of every size.
    Diskfull(diskfull::Diskfull),
    /// Writers that commit to one store at the same time.
    Race(edits::race::Race),
    /// Mapped files that are truncated while they are read.
    #[cfg(unix)]
    Sigbus(sigbus::Sigbus),
    /// One random damage to good stores, and whether the validator finds it.
    Stores(stores::Stores),
    /// Builders of one prefix of an object store at the same time.
    RaceRemote(remote::race::Race),
    /// Every request of every writer of object stores fails once, in each way.
    Faults(remote::faults::Faults),
    /// Every writer of object stores is dropped at every await.
    Cancel(remote::cancel::Cancel),
    /// Each command that writes, killed and cleaned up.
    Clean(commands::Rounds),
    /// Every call of every local writer fails once, in each way.
    DiskFaults(disk::Faults),
    /// Every local writer is dropped at every await.
    DiskCancel(disk::Cancel),
    /// Each command that writes, killed while it publishes and run again.
    Rerun(commands::Rounds),
    /// Every pair of eight roles on one store.
    #[cfg(unix)]
    Roles(roles::Roles),
    /// Each command that writes, with a signal at a random moment.
    #[cfg(unix)]
    Signals(commands::Rounds),
    /// The memory of every command under a limit.
    Memory(memory::Memory),
    /// The cost of opening, planning and finding in a store of millions of chunks.
    Scale(scale::Scale),
    /// Random operations against an in-memory model.
    EditModel(edits::model::EditModel),
    /// A folder of editing scenarios with their answers.
    EditScript(edits::script::EditScript),
    /// Backends that keep less than they promise, and every order of writers.
    Doubles(edits::doubles::Doubles),
    /// Requests that obey and violate every rule of the server.
    #[cfg(unix)]
    Http(serve::http::Http),
    /// Clients of the server that send or read nothing, together with good ones.
    #[cfg(unix)]
    Slow(serve::slow::Slow),
    /// Ranges from the server at the highest rate.
    #[cfg(unix)]
    Load(serve::load::Load),
    /// Every request of the server, for a long time.
    #[cfg(unix)]
    Soak(serve::soak::Soak),
}

/// The command that is run.
#[derive(Debug, clap::Args)]
struct Program {
    /// The `zvf` command [default: the one next to this program].
    #[arg(long)]
    zvf: Option<PathBuf>,
}

impl Program {
    fn path(&self) -> anyhow::Result<PathBuf> {
        let default_zvf = || anyhow::Ok(std::env::current_exe()?.with_file_name("zvf"));
        self.zvf.clone().map_or_else(default_zvf, Ok)
    }
}

/// The results of a subcommand.
#[derive(Debug, Default)]
struct Report {
    name: &'static str,
    n: u64,
    failures: u64,
    seed: u64,
}

impl Report {
    /// Prints a note.
    fn print_note(&self, text: &str) {
        drop(writeln!(io::stderr(), "{}: {text}", self.name));
    }

    /// Counts one try, and prints its failure.
    fn count(&mut self, tried: Result<(), String>) {
        self.n += 1;
        if let Err(failure) = tried {
            self.failures += 1;
            if self.failures <= SHOWN {
                drop(writeln!(io::stderr(), "{}: {failure}", self.name));
            }
        }
    }
}

fn main() -> anyhow::Result<ExitCode> {
    let report = match Torture::parse().command {
        Command::Mutate(mutate) => mutate.run()?,
        Command::Exhaust(exhaust) => exhaust.run(),
        Command::Powerloss(powerloss) => powerloss.run()?,
        Command::Kill9(kill9) => kill9.run()?,
        Command::Builder(builder) => builder.run()?,
        Command::Diskfull(diskfull) => diskfull.run()?,
        Command::Race(race) => race.run()?,
        #[cfg(unix)]
        Command::Sigbus(sigbus) => sigbus.run()?,
        Command::Stores(stores) => stores.run()?,
        Command::RaceRemote(race) => race.run()?,
        Command::Faults(faults) => faults.run()?,
        Command::Cancel(cancel) => cancel.run()?,
        Command::Clean(rounds) => clean::run(&rounds)?,
        Command::DiskFaults(faults) => faults.run()?,
        Command::DiskCancel(cancel) => cancel.run()?,
        Command::Rerun(rounds) => rerun::run(&rounds)?,
        #[cfg(unix)]
        Command::Roles(roles) => roles.run()?,
        #[cfg(unix)]
        Command::Signals(rounds) => signals::run(&rounds)?,
        Command::Memory(memory) => memory.run()?,
        Command::Scale(scale) => scale.run()?,
        Command::EditModel(model) => model.run()?,
        Command::EditScript(script) => script.run()?,
        Command::Doubles(doubles) => doubles.run()?,
        #[cfg(unix)]
        Command::Http(http) => http.run()?,
        #[cfg(unix)]
        Command::Slow(slow) => slow.run()?,
        #[cfg(unix)]
        Command::Load(load) => load.run()?,
        #[cfg(unix)]
        Command::Soak(soak) => soak.run()?,
    };
    let Report { name, n, failures, seed } = report;
    writeln!(
        io::stdout(),
        "{{\"name\":\"{name}\",\"n\":{n},\"failures\":{failures},\"seed\":{seed}}}"
    )?;
    Ok(if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns the default folder of the corpus.
fn corpus_folder() -> PathBuf {
    testdata_folder().join("hostile")
}

fn testdata_folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata"))
}

/// The number of printed failures.
const SHOWN: u64 = 20;
