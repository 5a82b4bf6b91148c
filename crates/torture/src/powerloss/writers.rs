//! All writers of local files, with a power loss at any moment.
//!
//! ```text
//! create, pyramid, recompress, migrate, unpack    a store is the old one or the new one
//! pack                                            the same for a file
//! repair                                          each document likewise, in the order of the plan
//! ```
//!
//! The allowed states follow from the recorded calls: the visible state after each call on a disk
//! that loses nothing. The controls omit every sync of bytes, or every sync of names.

use std::path::Path;

use anyhow::{Context as _, ensure};
use clap::ValueEnum as _;
use zvf_publish::Disk;

use super::model::{Counted, Omitted, Recording};
use crate::tasks::Task;
use crate::{Report, block_on};
use archives::random::Random;

/// Tests `states` disks of each writer, and the controls.
pub(super) fn check_writers(
    states: u64,
    random: &mut Random,
    report: &mut Report,
) -> anyhow::Result<()> {
    for &task in Task::value_variants() {
        let what = format!("{task:?}");
        let prepare = |target: &Path| block_on(task.prepare(target));
        let write = |target: &Path, disk: &Disk| block_on(task.perform(target, disk));
        let recording =
            Recording::record(&what, Counted::Every, Disk::with_recording(), prepare, write)?;
        ensure!(recording.states.len() > 1, "{what}: nothing was recorded");
        Recording::check(states, &what, report, |omitted| {
            check(&recording, omitted, random).with_context(|| what.clone())
        });
    }
    Ok(())
}

/// Checks one disk after the power loss.
fn check(
    recording: &Recording,
    omitted: Option<Omitted>,
    random: &mut Random,
) -> anyhow::Result<()> {
    let crash = recording.choose_crash(random);
    let found = recording.lose_power(crash, omitted, random).tree();
    let is_after = recording.states.last() == Some(&found);
    ensure!(
        is_after || !recording.has_returned(crash),
        "power lost before call {crash}: it had returned, and its output is missing"
    );
    ensure!(
        recording.states.contains(&found),
        "power lost before call {crash}: neither the old state nor the new one"
    );
    Ok(())
}
