//! `faults`: every request of every writer of object stores fails once, in each way; then several at random.

use std::sync::Arc;
use std::time::Duration;

use archives::faults::{Fault, FaultStore};

use super::{Writer, check_invariants, create_runtime};
use crate::{Report, edits};
use archives::random::Random;

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
    /// The seed of the faults.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

impl Faults {
    pub(crate) fn run(self) -> anyhow::Result<Report> {
        let mut report = Report { name: "faults", seed: self.seed, ..Report::default() };
        let mut random = Random::new(self.seed);
        if self.edits {
            let stores: &[_] =
                if self.small { &edits::faults::SMALL_STORES } else { &edits::STORES };
            edits::faults::run(stores, self.every, self.then_random, &mut random, &mut report)?;
            return Ok(report);
        }
        let (kinds, bursts) = (list_faults(), 3);
        for writer in
            Writer::ALL.into_iter().filter(|writer| self.writer.is_none_or(|w| w == *writer))
        {
            let requests = count_requests(writer)?;
            let pairs =
                (0..requests).flat_map(|nth| (0..=kinds.len()).map(move |kind| (nth, kind)));
            for (nth, kind) in pairs.step_by(self.every.max(1)) {
                let planned = match kinds.get(kind) {
                    Some(fault) => vec![(nth, fault.clone())],
                    // An overloaded store returns this status for a while.
                    None => (nth..nth + bursts).map(|nth| (nth, Fault::Status(429))).collect(),
                };
                report.count(run_writer(writer, &planned, false)?);
            }
            for _ in 0..self.then_random {
                let planned: Vec<_> = (0..1 + random.next_below(4))
                    .map(|_| {
                        (
                            random.next_below(requests * 3 / 2),
                            kinds[random.next_below(kinds.len())].clone(),
                        )
                    })
                    .collect();
                report.count(run_writer(writer, &planned, random.next_below(4) == 0)?);
            }
        }
        Ok(report)
    }
}

/// Counts the requests of a writer without a fault.
fn count_requests(writer: Writer) -> anyhow::Result<usize> {
    let (backend, folder) = (Arc::new(FaultStore::new()), tempfile::tempdir()?);
    let ended = create_runtime()?.block_on(writer.write(&backend, folder.path(), 1));
    anyhow::ensure!(ended.is_ok(), "{writer:?} without a fault: {ended:?}");
    Ok(backend.requests().len())
}

/// Runs a writer with these faults.
fn run_writer(
    writer: Writer,
    planned: &[(usize, Fault)],
    is_blind: bool,
) -> anyhow::Result<Result<(), String>> {
    let (backend, folder) = (Arc::new(FaultStore::new()), tempfile::tempdir()?);
    backend.ignore_conditions(is_blind);
    for (nth, fault) in planned {
        backend.plan(*nth, fault.clone());
    }
    let work = folder.path().join("work");
    let checked = create_runtime()?.block_on(async {
        let ended = writer.write(&backend, &work, 1).await;
        let asked = backend.requests();
        let checked = check_invariants(&backend, writer, folder.path(), &[(1, ended)]).await;
        checked.map_err(|error| {
            let at: Vec<_> = planned.iter().filter_map(|(nth, _)| asked.get(*nth)).collect();
            format!("{writer:?}, {planned:?} at {at:?}: {error}")
        })
    });
    Ok(checked)
}

fn list_faults() -> Vec<Fault> {
    vec![
        Fault::Status(503),
        Fault::Status(429),
        Fault::Status(403),
        Fault::Status(409),
        Fault::Status(412),
        Fault::Status(404),
        Fault::Status(507),
        Fault::Reset,
        Fault::Silence,
        Fault::Delay(Duration::from_secs(20)),
        Fault::Delay(Duration::from_secs(700)),
        Fault::AnswerLost,
        Fault::AnswerLate,
        Fault::Unconditional,
        Fault::NotSupported,
        Fault::OldList(1),
        Fault::OldList(5),
        Fault::ShortBody(3),
        Fault::BrokenBody(3),
        Fault::StalledBody(3),
        Fault::LongBody,
        Fault::Missing,
    ]
}
