//! `faults`: every request of every writer of object stores fails once, in each way; then several at random.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use archives::faults::{Fault, FaultStore};
use clap::ValueEnum as _;

use super::{Sweep, Writer, check_invariants, create_runtime};
use crate::{Report, edits};

/// Fail every request of every writer once, in each way.
#[derive(Debug, clap::Args)]
pub(crate) struct Faults {
    /// Test only every Nth pair of a request and a fault.
    #[arg(long, default_value_t = 1)]
    every: usize,
    /// Runs with several random faults, after the sweep.
    #[arg(long, default_value_t = 1000)]
    then_random: u64,
    /// Only this writer.
    #[arg(long, value_enum)]
    writer: Option<Writer>,
    /// Only edits.
    #[arg(long)]
    edits: bool,
    /// Edits of small stores only, of which every pair can be tested.
    #[arg(long, requires = "edits")]
    small: bool,
}

impl Faults {
    pub(crate) fn run(self, report: &mut Report) -> anyhow::Result<()> {
        let mut random = report.random();
        if self.edits {
            let stores: &[_] =
                if self.small { &edits::faults::SMALL_STORES } else { &edits::STORES };
            edits::faults::run(stores, self.every, self.then_random, &mut random, report)?;
            return Ok(());
        }
        let (kinds, mut taken) = (list_faults(), 0);
        for &writer in Writer::value_variants() {
            if self.writer.is_some_and(|only| only != writer) {
                continue;
            }
            let sweep = Sweep { kinds: &kinds, requests: count_requests(writer)?, bursts: 3 };
            sweep.run(
                (self.every, &mut taken),
                (self.then_random, &mut random),
                |planned, is_blind| report.count(run_writer(writer, planned, is_blind)),
            );
        }
        Ok(())
    }
}

/// Counts the requests of a writer without a fault.
fn count_requests(writer: Writer) -> anyhow::Result<usize> {
    let (backend, folder) = (Arc::new(FaultStore::new()), tempfile::tempdir()?);
    let ended = create_runtime()?.block_on(writer.write(&backend, folder.path(), 1));
    ensure!(ended.is_ok(), "{writer:?} without a fault: {ended:?}");
    Ok(backend.requests().len())
}

/// Runs a writer with these faults.
fn run_writer(writer: Writer, planned: &[(usize, Fault)], is_blind: bool) -> anyhow::Result<()> {
    let (backend, folder) = (Arc::new(FaultStore::new()), tempfile::tempdir()?);
    backend.ignore_conditions(is_blind);
    for (nth, fault) in planned {
        backend.plan(*nth, fault.clone());
    }
    let work = folder.path().join("work");
    create_runtime()?.block_on(async {
        let ended = writer.write(&backend, &work, 1).await;
        let asked = backend.requests();
        let checked = check_invariants(&backend, writer, folder.path(), &[(1, ended)]).await;
        checked.with_context(|| {
            let at: Vec<_> = planned.iter().filter_map(|(nth, _)| asked.get(*nth)).collect();
            format!("{writer:?}, {planned:?} at {at:?}")
        })
    })
}

fn list_faults() -> Vec<Fault> {
    let mut faults = common_faults();
    faults.extend([
        Fault::Status(429),
        Fault::Silence,
        Fault::Delay(Duration::from_secs(20)),
        Fault::Delay(Duration::from_secs(700)),
        Fault::AnswerLate,
        Fault::Unconditional,
        Fault::StalledBody(3),
        Fault::Missing,
    ]);
    faults
}

/// Returns the faults that every writer meets.
pub(crate) fn common_faults() -> Vec<Fault> {
    vec![
        Fault::Status(503),
        Fault::Status(403),
        Fault::Status(409),
        Fault::Status(412),
        Fault::Status(404),
        Fault::Status(507),
        Fault::Reset,
        Fault::AnswerLost,
        Fault::NotSupported,
        Fault::OldList(1),
        Fault::OldList(5),
        Fault::ShortBody(3),
        Fault::BrokenBody(3),
        Fault::LongBody,
    ]
}
