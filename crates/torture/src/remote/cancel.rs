//! `cancel`: every writer of object stores is dropped at every await.
//!
//! A writer is polled so many times and dropped; the next one is polled once more than that, until one ends
//! by itself. What was dropped before the root document was sent leaves nothing.

use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use fault_store::{Fault, FaultStore};
use zvf_format::Class;

use super::{Outcome, Writer, check, runtime};
use crate::Report;

/// Every writer is dropped at every await.
#[derive(Debug, clap::Args)]
pub(crate) struct Cancel {
    /// Every so many of the points.
    #[arg(long, default_value_t = 1)]
    every: u64,
    /// Of edits, and nothing else.
    #[arg(long)]
    edits: bool,
    /// Repeated in the report; nothing here is random.
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
            // Requests that take no time, and such that are waited for.
            for delay in [0, 40] {
                let mut polls = 0;
                loop {
                    let (ended, checked) = one(writer, polls, delay)?;
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

/// Drops a writer after so many polls; whether it ended before, and what was left.
fn one(writer: Writer, polls: u64, delay: u64) -> anyhow::Result<(bool, Result<(), String>)> {
    let (backend, folder) = (Arc::new(FaultStore::new()), tempfile::tempdir()?);
    if delay > 0 {
        backend.always(Some(Fault::Delay(std::time::Duration::from_millis(delay))));
    }
    let work = folder.path().join("work");
    runtime()?.block_on(async {
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
        // Nobody knows what became of one that was dropped.
        let dropped: Outcome = Err((Class::CommitUnknown, "dropped".to_owned()));
        let outcomes = [(1, outcome.unwrap_or(dropped))];
        let checked = check(&backend, writer, folder.path(), &outcomes).await;
        let checked = checked.map_err(|error| format!("{writer:?}, {polls} polls: {error}"));
        Ok((ended, checked))
    })
}
