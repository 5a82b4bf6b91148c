//! `cancel`: every writer of object stores is dropped at every await.
//!
//! A writer is polled a number of times and dropped; the next one is polled once more, until one ends by itself. A
//! writer dropped before the root document was sent leaves nothing.

use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use archives::faults::{Fault, FaultStore};
use zvf_format::Class;

use super::{Outcome, Writer, check_invariants, create_runtime};
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
    /// Repeated in the report; nothing is random.
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

impl Cancel {
    pub(crate) fn run(self) -> anyhow::Result<Report> {
        let mut report = Report { name: "cancel", seed: self.seed, ..Report::default() };
        if self.edits {
            crate::edits::cancel::run(self.every, &mut report)?;
            return Ok(report);
        }
        for writer in Writer::ALL {
            // Requests that complete at once, and requests that wait.
            for delay in [0, 40] {
                let mut polls = 0;
                loop {
                    let (ended, checked) = cancel_writer(writer, polls, delay)?;
                    report.count(checked);
                    if ended {
                        break;
                    }
                    polls += self.every.max(1);
                }
            }
        }
        Ok(report)
    }
}

/// Drops a writer after `polls` polls; returns whether it ended earlier, and what was left.
fn cancel_writer(
    writer: Writer,
    polls: u64,
    delay: u64,
) -> anyhow::Result<(bool, Result<(), String>)> {
    let (backend, folder) = (Arc::new(FaultStore::new()), tempfile::tempdir()?);
    if delay > 0 {
        backend.always(Some(Fault::Delay(std::time::Duration::from_millis(delay))));
    }
    let work = folder.path().join("work");
    create_runtime()?.block_on(async {
        let outcome = {
            let mut writing = pin!(writer.write(&backend, &work, 1));
            let mut left = polls;
            std::future::poll_fn(|context| {
                if left == 0 {
                    return Poll::Ready(None);
                }
                left -= 1;
                writing.as_mut().poll(context).map(Some)
            })
            .await
        };
        let ended = outcome.is_some();
        // The outcome of a dropped writer is unknown.
        let dropped: Outcome = Err((Class::CommitUnknown, "dropped".to_owned()));
        let outcomes = [(1, outcome.unwrap_or(dropped))];
        let checked = check_invariants(&backend, writer, folder.path(), &outcomes).await;
        let checked = checked.map_err(|error| format!("{writer:?}, {polls} polls: {error}"));
        Ok((ended, checked))
    })
}
