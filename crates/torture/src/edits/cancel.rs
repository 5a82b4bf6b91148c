//! `cancel`: an edit on an object store ends after a number of requests, as when its process dies or is dropped there.

use anyhow::Context as _;
use archives::faults::Fault;

use super::{STORES, Subject};
use crate::Report;

/// Ends an edit of each store after every `every`th number of requests; the next request is lost on the way, or not
/// sent.
pub(crate) fn run(every: u64, report: &mut Report) -> anyhow::Result<()> {
    for id in STORES {
        let subject = Subject::new(id)?;
        for last in [Fault::Reset, Fault::AnswerLost] {
            report.count_until_ended(every, |requests| {
                let requests = usize::try_from(requests)?;
                // All later requests: as many as an edit could ever send.
                let later = (requests + 1..requests + MANY).map(|nth| (nth, Fault::Reset));
                let planned: Vec<_> = [(requests, last.clone())].into_iter().chain(later).collect();
                let (sent, checked) = subject.edit_with_faults(&planned, true);
                let checked =
                    checked.with_context(|| format!("{requests} requests, then {last:?}"));
                Ok((sent.len() <= requests, checked))
            })?;
        }
    }
    Ok(())
}

/// The number of requests that are planned to fail.
const MANY: usize = 2000;
