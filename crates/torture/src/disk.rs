//! `disk-faults` and `disk-cancel`: every local writer, with one failing disk call, and dropped at
//! an await.
//!
//! ```text
//! disk-faults    each call fails once: with a full disk, a device error, a missing permission;
//!                before the call, and after it
//! disk-cancel    the writer is polled so many times and dropped
//! ```
//!
//! In every case either the old or the new target exists and is complete; after a success it is the
//! new one. When the same writer runs again, it succeeds, or reports that nothing is left to do,
//! and leaves the same files as without a fault.

use anyhow::{Context as _, ensure};
use clap::ValueEnum as _;
use zvf_publish::Disk;

use crate::Report;
use crate::remote::{create_runtime, poll_times};
use crate::tasks::{NAME, Task};
use crate::trees::{Expected, list_names, read_tree};

/// Fail every call of every writer once, in each way.
#[derive(clap::Args)]
pub(crate) struct Faults {
    /// Test only every Nth pair of a call and a fault.
    #[arg(long, default_value_t = 1)]
    every: usize,
    /// Only this writer.
    #[arg(long, value_enum)]
    what: Option<Task>,
}

/// Drop every writer at every await.
#[derive(clap::Args)]
pub(crate) struct Cancel {
    /// Test only every Nth await.
    #[arg(long, default_value_t = 1)]
    every: u64,
    /// Only this writer.
    #[arg(long, value_enum)]
    what: Option<Task>,
}

impl Faults {
    pub(crate) fn run(self, report: &mut Report) -> anyhow::Result<()> {
        for task in list_tasks(self.what) {
            let (expected, calls) = record_task(task)?;
            let pairs = (0..calls).flat_map(|nth| (0..WAYS.len()).map(move |way| (nth, way)));
            for (nth, way) in pairs.step_by(self.every.max(1)) {
                let (error, is_late) = WAYS[way];
                let disk = Disk::default().with_failure_at(nth, error, is_late);
                let checked = poll_task(task, &expected, &disk, None)?.1;
                let what = format!("{task:?}, call {nth}, error {error}, late: {is_late}");
                report.count(checked.context(what));
            }
        }
        Ok(())
    }
}

impl Cancel {
    pub(crate) fn run(self, report: &mut Report) -> anyhow::Result<()> {
        for task in list_tasks(self.what) {
            let (expected, _) = record_task(task)?;
            report.count_until_ended(self.every, |polls| {
                let disk = Disk::default();
                let (is_ended, checked) = poll_task(task, &expected, &disk, Some(polls))?;
                Ok((is_ended, checked.with_context(|| format!("{task:?}, {polls} polls"))))
            })?;
        }
        Ok(())
    }
}

/// Returns the result of a writer without a fault, and the number of its calls.
fn record_task(task: Task) -> anyhow::Result<(Expected, usize)> {
    let scratch = archives::scratch();
    let target = scratch.path().join(NAME);
    let disk = Disk::default().with_failure_at(usize::MAX, 0, false);
    create_runtime()?.block_on(task.prepare(&target))?;
    let before = read_tree(&target);
    create_runtime()?.block_on(task.perform(&target, &disk))?;
    ensure!(before != read_tree(&target), "{task:?} changes nothing");
    let after = read_tree(&target).context("it made nothing")?;
    let (names, is_stepwise) = (list_names(scratch.path())?, task == Task::Repair);
    Ok((Expected { before, after, names, is_stepwise }, disk.call_count()))
}

/// Polls `task` on a disk up to `polls` times; returns whether it ended, and what is wrong afterwards.
fn poll_task(
    task: Task,
    expected: &Expected,
    disk: &Disk,
    polls: Option<u64>,
) -> anyhow::Result<(bool, anyhow::Result<()>)> {
    let scratch = archives::scratch();
    let target = scratch.path().join(NAME);
    create_runtime()?.block_on(task.prepare(&target))?;
    // Running threads end before the runtime does.
    let ended = create_runtime()?.block_on(poll_times(task.perform(&target, disk), polls));
    let outcome = match &ended {
        None => "dropped".to_owned(),
        Some(Ok(())) => "done".to_owned(),
        Some(Err(error)) => format!("{error:#}"),
    };
    let check = || {
        if matches!(ended, Some(Ok(()))) {
            expected.check_made(&target, false).context("it reported success")?;
        }
        expected.check_whole(&target)?;
        let is_made = read_tree(&target).as_ref() == Some(&expected.after);
        let again = create_runtime()?.block_on(task.perform(&target, &Disk::default()));
        // A writer with nothing left to do does not check other files next to the target.
        let is_done_again = again.is_ok();
        again.or_else(|error| if is_made { Ok(()) } else { Err(error) }).context("done again")?;
        expected.check_made(&target, is_done_again)
    };
    Ok((ended.is_some(), check().context(outcome)))
}

fn list_tasks(what: Option<Task>) -> impl Iterator<Item = Task> {
    Task::value_variants().iter().copied().filter(move |task| what.is_none_or(|what| what == *task))
}

/// Error numbers of the system, and whether the call took effect nevertheless.
const WAYS: [(i32, bool); 5] =
    [(NO_SPACE, false), (DEVICE, false), (DEVICE, true), (NOT_PERMITTED, false), (QUOTA, true)];
const NO_SPACE: i32 = 28;
const DEVICE: i32 = 5;
const NOT_PERMITTED: i32 = 13;
const QUOTA: i32 = 122;
