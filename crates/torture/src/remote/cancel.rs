//! `cancel`: every writer of object stores is dropped at every await.
//!
//! A writer is polled a number of times and dropped; the next one is polled once more often, until
//! one ends by itself. A writer dropped before the root document was sent leaves nothing behind.

use std::time::Duration;

use anyhow::Context as _;
use archives::faults::Fault;
use clap::ValueEnum as _;

use super::{Writer, run_writer};
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
                report.count_until_ended(self.every, |polls| {
                    let run = run_writer(writer, Some(polls), |backend| {
                        if delay > 0 {
                            backend.always(Some(Fault::Delay(Duration::from_millis(delay))));
                        }
                    })?;
                    let checked = run.checked.with_context(|| format!("{writer:?}, {polls} polls"));
                    Ok((run.is_ended, checked))
                })?;
            }
        }
        Ok(())
    }
}
