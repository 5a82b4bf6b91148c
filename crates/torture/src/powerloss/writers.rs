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

use anyhow::{Context as _, ensure};
use clap::ValueEnum as _;
use tokio::runtime::Runtime;
use zvf_publish::Disk;

use super::model::{Counted, NAME, Omitted, Recording};
use crate::Report;
use crate::tasks::Task;
use crate::trees::read_tree;
use archives::random::Random;

/// Tests `states` disks of each writer, and the controls.
pub(super) fn check_writers(
    states: u64,
    random: &mut Random,
    report: &mut Report,
    runtime: &Runtime,
) -> anyhow::Result<()> {
    for &task in Task::value_variants() {
        let recording = runtime.block_on(record(task))?;
        let what = format!("{task:?}");
        Recording::check(states, &what, report, |omitted| {
            check(&recording, omitted, random).with_context(|| what.clone())
        });
    }
    Ok(())
}

async fn record(task: Task) -> anyhow::Result<Recording> {
    let scratch = archives::scratch();
    let parent = scratch.path().canonicalize()?;
    let target = parent.join(NAME);
    task.prepare(&target).await?;
    let before = Recording::read_disk(&parent)?;
    let disk = Disk::with_recording();
    task.perform(&target, &disk).await?;
    let recording = Recording::new(before, disk.calls(), &parent, Counted::Every);
    ensure!(
        recording.states.last() == Some(&read_tree(&target)),
        "{task:?}: the model is not what happened"
    );
    ensure!(recording.states.len() > 1, "{task:?}: nothing was recorded");
    Ok(recording)
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
