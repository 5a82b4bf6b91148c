//! `faults`: each request of an edit on an object store fails once, in each way; then several at random.
//!
//! Without a clock nothing is retried, so that the journal sees every fault directly.

use anyhow::{Context as _, ensure};
use archives::faults::Fault;

use super::{Subject, create_backend, list_files, place_in_backend};
use crate::Report;
use crate::remote::Sweep;
use crate::remote::faults::common_faults;
use archives::random::Random;

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

/// Sweeps over every `every`th pair of a request and a fault, then `random` runs with several faults.
pub(crate) fn run(
    stores: &[&'static str],
    every: usize,
    then_random: u64,
    random: &mut Random,
    report: &mut Report,
) -> anyhow::Result<()> {
    let (kinds, mut taken) = (common_faults(), 0);
    for &id in stores {
        let subject = Subject::new(id)?;
        let sweep = Sweep { kinds: &kinds, requests: count_requests(&subject)?, bursts: 0 };
        sweep.run(
            (every, &mut taken),
            (then_random / stores.len() as u64, random),
            |planned, _| report.count(run_edit(&subject, planned)),
        );
    }
    Ok(())
}

/// Counts the requests of an edit without a fault.
fn count_requests(subject: &Subject) -> anyhow::Result<usize> {
    let backend = create_backend(&subject.before);
    let ended = subject.edit(&place_in_backend(&backend));
    ensure!(ended.is_ok(), "{}: without a fault: {ended:?}", subject.id);
    let requests = backend.requests().len();
    subject.check_state(&ended, &list_files(&backend))?;
    Ok(requests)
}

/// Runs one edit with these faults, and checks the state that the next writer finds.
fn run_edit(subject: &Subject, planned: &[(usize, Fault)]) -> anyhow::Result<()> {
    let backend = create_backend(&subject.before);
    for (nth, fault) in planned {
        backend.plan(*nth, fault.clone());
    }
    let place = place_in_backend(&backend);
    let ended = subject.edit(&place);
    let requests = backend.requests();
    let at: Vec<_> = planned.iter().filter_map(|(nth, _)| requests.get(*nth)).collect();
    let checked = subject.check_backend(&ended, &backend, &place);
    checked.with_context(|| format!("{planned:?} at {at:?}"))
}
