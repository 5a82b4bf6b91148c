//! `faults`: each request of an edit on an object store fails once, in each way; then several at random.
//!
//! Without a clock nothing is retried, so that the journal sees every fault directly.

use anyhow::Context as _;

use super::Subject;
use crate::Report;
use crate::remote::faults::common_faults;
use crate::remote::{Sweep, describe_faults};
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
        let (requests, checked) = subject.edit_with_faults(&[], false);
        checked?;
        let sweep = Sweep { kinds: &kinds, requests: requests.len(), bursts: 0 };
        sweep.run(
            (every, &mut taken),
            (then_random / stores.len() as u64, random),
            |planned, _| {
                let (requests, checked) = subject.edit_with_faults(planned, false);
                report.count(checked.with_context(|| describe_faults(planned, &requests)));
            },
        );
    }
    Ok(())
}
