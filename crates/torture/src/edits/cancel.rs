//! `cancel`: an edit on an object store ends after a number of requests, as when its process dies or is dropped there.

use anyhow::Context as _;
use archives::faults::Fault;

use super::{STORES, Subject, create_backend, place_in_backend};
use crate::Report;

/// Ends an edit of each store after every `every`th number of requests; the next request is lost on the way, or not
/// sent.
pub(crate) fn run(every: u64, report: &mut Report) -> anyhow::Result<()> {
    for id in STORES {
        let subject = Subject::new(id)?;
        for last in [Fault::Reset, Fault::AnswerLost] {
            report.count_until_ended(every, |requests| {
                Ok(cancel_edit(&subject, usize::try_from(requests)?, &last))
            })?;
        }
    }
    Ok(())
}

/// Returns whether the edit ended earlier, and whether the state is right.
fn cancel_edit(subject: &Subject, requests: usize, last: &Fault) -> (bool, anyhow::Result<()>) {
    let backend = create_backend(&subject.before);
    // All later requests: as many as an edit could ever send.
    for nth in requests..requests + MANY {
        let fault = if nth == requests { last.clone() } else { Fault::Reset };
        backend.plan(nth, fault);
    }
    let place = place_in_backend(&backend);
    let ended = subject.edit(&place);
    let is_over = backend.requests().len() <= requests;
    // The error of a dead process is lost; only a success counts.
    let outcome = match &ended {
        Ok(report) => Ok(report.clone()),
        Err(_) => Err(zvf_edit::EditError::new(zvf_format::Class::CommitUnknown, "dead")),
    };
    let checked = subject.check_backend(&outcome, &backend, &place);
    (is_over, checked.with_context(|| format!("{requests} requests, then {last:?}")))
}

/// The number of requests that are planned to fail.
const MANY: usize = 2000;
