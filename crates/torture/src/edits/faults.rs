//! `faults`: each request of an edit on an object store fails once, in each way; then several at
//! random. `cancel`: an edit ends after a number of requests, as when its process dies there.
//!
//! Without a clock nothing is retried, so that the journal sees every fault directly.

use anyhow::Context as _;
use archives::faults::Fault;

use super::{STORES, Subject};
use crate::Report;
use crate::remote::Sweep;

/// Stores of each kind, in files and in shards, whose edits need few requests: testing every pair
/// of a request and a fault takes minutes with these, and days with the larger ones of other tests.
pub(crate) const SMALL_STORES: [&str; 6] = [
    "pc3_objects_bins",
    "pc3_sharded_zstd",
    "sk3_streamed",
    "lk_append",
    "sl3_sharded_blosc",
    "ms2_tri",
];

/// Edits each store with faults; their random runs are divided among the stores.
pub(crate) fn run(
    stores: &[&'static str],
    sweep: &mut Sweep,
    report: &mut Report,
) -> anyhow::Result<()> {
    sweep.then_random /= stores.len() as u64;
    for &id in stores {
        let subject = Subject::new(id)?;
        sweep.run(id, report, |planned, _| Ok(subject.edit_with_faults(planned, false)))?;
    }
    Ok(())
}

/// Ends an edit of each store after every `every`th number of requests; the next request is lost on the way, or not
/// sent.
pub(crate) fn run_cancelled(every: u64, report: &mut Report) -> anyhow::Result<()> {
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
