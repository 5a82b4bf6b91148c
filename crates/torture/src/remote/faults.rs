//! `faults`: every request of every writer of object stores fails once, in each way; then several
//! at random. `cancel`: every writer is dropped at every await.
//!
//! A writer is polled a number of times and dropped; the next one is polled once more often, until
//! one ends by itself. A writer dropped before the root document was sent leaves nothing behind.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use archives::faults::Fault;
use clap::ValueEnum as _;

use super::{Sweep, Writer, run_writer};
use crate::{Report, edits};

/// Fail every request of every writer once, in each way.
#[derive(clap::Args)]
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
        let mut sweep = Sweep {
            kinds: if self.edits { common_faults() } else { list_faults() },
            every: self.every,
            taken: 0,
            then_random: self.then_random,
            bursts: if self.edits { 0 } else { 3 },
            random: report.random(),
        };
        if self.edits {
            let stores: &[_] =
                if self.small { &edits::faults::SMALL_STORES } else { &edits::STORES };
            return edits::faults::run(stores, &mut sweep, report);
        }
        for &writer in Writer::value_variants() {
            if self.writer.is_some_and(|only| only != writer) {
                continue;
            }
            sweep.run(&format!("{writer:?}"), report, |planned, is_blind| {
                let run = run_writer(writer, None, |backend| {
                    backend.ignore_conditions(is_blind);
                    planned.iter().for_each(|(nth, fault)| backend.plan(*nth, fault.clone()));
                })?;
                ensure!(run.is_done || !planned.is_empty(), "{writer:?}: not done");
                Ok(run.attempt)
            })?;
        }
        Ok(())
    }
}

/// Drop every writer at every await.
#[derive(clap::Args)]
pub(crate) struct Cancel {
    /// Test only every Nth await.
    #[arg(long, default_value_t = 1)]
    every: u64,
    /// Only edits.
    #[arg(long)]
    edits: bool,
}

impl Cancel {
    pub(crate) fn run(self, report: &mut Report) -> anyhow::Result<()> {
        if self.edits {
            return edits::faults::run_cancelled(self.every, report);
        }
        for &writer in Writer::value_variants() {
            // Requests that complete at once, and requests that wait.
            for delay in [0, 40] {
                report.count_until_ended(self.every, |polls| {
                    let run = run_writer(writer, Some(polls), |backend| {
                        if delay > 0 {
                            backend.always(Some(Fault::Delay(Duration::from_millis(delay))));
                        }
                    })?;
                    let (_, checked) = run.attempt;
                    let checked = checked.with_context(|| format!("{writer:?}, {polls} polls"));
                    Ok((run.is_ended, checked))
                })?;
            }
        }
        Ok(())
    }
}

fn list_faults() -> Vec<Fault> {
    let mut faults = common_faults();
    faults.extend([20, 700].map(|seconds| Fault::Delay(Duration::from_secs(seconds))));
    faults.extend([Fault::Status(429), Fault::Silence, Fault::AnswerLate, Fault::Unconditional]);
    faults.extend([Fault::StalledBody(3), Fault::Missing]);
    faults
}

/// Returns the faults that every writer meets, also an edit.
fn common_faults() -> Vec<Fault> {
    let mut faults = Vec::from([503, 403, 409, 412, 404, 507].map(Fault::Status));
    faults.extend([Fault::Reset, Fault::AnswerLost, Fault::NotSupported]);
    faults.extend([Fault::OldList(1), Fault::OldList(5)]);
    faults.extend([Fault::ShortBody(3), Fault::BrokenBody(3), Fault::LongBody]);
    faults
}
