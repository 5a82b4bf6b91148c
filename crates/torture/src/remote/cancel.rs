//! `cancel`: every writer of object stores is dropped at every await.
//!
//! A writer is polled a number of times and dropped; the next one is polled once more often, until
//! one ends by itself. A writer dropped before the root document was sent leaves nothing behind.

use std::sync::Arc;

use anyhow::Context as _;
use archives::faults::{Fault, FaultStore};
use clap::ValueEnum as _;
use zvf_error::Error;
use zvf_format::Class;

use super::{Outcome, Writer, check_invariants, create_runtime, poll_times};
use crate::Report;

/// Drop every writer at every await.
#[derive(Debug, clap::Args)]
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
            crate::edits::cancel::run(self.every, report)?;
            return Ok(());
        }
        for &writer in Writer::value_variants() {
            // Requests that complete at once, and requests that wait.
            for delay in [0, 40] {
                report
                    .count_until_ended(self.every, |polls| cancel_writer(writer, polls, delay))?;
            }
        }
        Ok(())
    }
}

/// Drops a writer after `polls` polls; returns whether it ended earlier, and the objects it left.
fn cancel_writer(
    writer: Writer,
    polls: u64,
    delay: u64,
) -> anyhow::Result<(bool, anyhow::Result<()>)> {
    let (backend, folder) = (Arc::new(FaultStore::new()), tempfile::tempdir()?);
    if delay > 0 {
        backend.always(Some(Fault::Delay(std::time::Duration::from_millis(delay))));
    }
    let work = folder.path().join("work");
    create_runtime()?.block_on(async {
        let outcome = poll_times(writer.write(&backend, &work, 1), Some(polls)).await;
        let ended = outcome.is_some();
        // The outcome of a dropped writer is unknown.
        let dropped: Outcome = Err(Error::custom(Class::CommitUnknown, "dropped"));
        let outcomes = [(1, outcome.unwrap_or(dropped))];
        let checked = check_invariants(&backend, writer, folder.path(), &outcomes).await;
        let checked = checked.with_context(|| format!("{writer:?}, {polls} polls"));
        Ok((ended, checked))
    })
}
