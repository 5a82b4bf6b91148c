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

use std::path::Path;

use anyhow::{Context as _, bail, ensure};
use clap::ValueEnum as _;
use zvf_publish::Disk;

use crate::Report;
use crate::remote::{create_runtime, poll_times};
use crate::tasks::{NAME, Task};
use crate::trees::{Tree, list_names, read_tree};

/// Fail every call of every writer once, in each way.
#[derive(Debug, clap::Args)]
pub(crate) struct Faults {
    /// Test only every Nth pair of a call and a fault.
    #[arg(long, default_value_t = 1)]
    every: usize,
    /// Only this writer.
    #[arg(long, value_enum)]
    what: Option<Task>,
}

/// Drop every writer at every await.
#[derive(Debug, clap::Args)]
pub(crate) struct Cancel {
    /// Test only every Nth await.
    #[arg(long, default_value_t = 1)]
    every: u64,
    /// Only this writer.
    #[arg(long, value_enum)]
    what: Option<Task>,
}

/// The result of a writer without a fault.
struct FaultFreeRun {
    /// The possible states, in order; for a repair, of each document separately.
    states: [Option<Tree>; 2],
    /// The names in the folder afterwards.
    names: Vec<String>,
    calls: usize,
}

impl Faults {
    pub(crate) fn run(self, report: &mut Report) -> anyhow::Result<()> {
        for task in list_tasks(self.what) {
            let fault_free = FaultFreeRun::record(task)?;
            let pairs =
                (0..fault_free.calls).flat_map(|nth| (0..WAYS.len()).map(move |way| (nth, way)));
            for (nth, way) in pairs.step_by(self.every.max(1)) {
                let (error, is_late) = WAYS[way];
                let disk = Disk::default().with_failure_at(nth, error, is_late);
                let checked = poll_task(task, &fault_free, &disk, None)?.1;
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
            let fault_free = FaultFreeRun::record(task)?;
            report.count_until_ended(self.every, |polls| {
                let disk = Disk::default();
                let (is_ended, checked) = poll_task(task, &fault_free, &disk, Some(polls))?;
                Ok((is_ended, checked.with_context(|| format!("{task:?}, {polls} polls"))))
            })?;
        }
        Ok(())
    }
}

impl FaultFreeRun {
    fn record(task: Task) -> anyhow::Result<Self> {
        let scratch = archives::scratch();
        let target = scratch.path().join(NAME);
        let disk = Disk::default().with_failure_at(usize::MAX, 0, false);
        create_runtime()?.block_on(task.prepare(&target))?;
        let before = read_tree(&target);
        create_runtime()?.block_on(task.perform(&target, &disk))?;
        let after = read_tree(&target);
        ensure!(before != after, "{task:?} changes nothing");
        let (names, calls) = (list_names(scratch.path())?, disk.call_count());
        Ok(Self { states: [before, after], names, calls })
    }

    /// Returns whether this state may exist at some time.
    fn allows(&self, task: Task, found: &Option<Tree>) -> bool {
        if self.states.contains(found) {
            return true;
        }
        // Each document of a repair is the old one or the new one.
        let all: Option<Vec<_>> = self.states.iter().chain([found]).map(Option::as_ref).collect();
        let Some([old, new, found]) = all.as_deref() else { return false };
        task == Task::Repair
            && found.keys().eq(new.keys())
            && found
                .iter()
                .all(|(path, bytes)| [old.get(path), new.get(path)].contains(&Some(bytes)))
    }
}

/// Polls `task` on a disk up to `polls` times; returns whether it ended, and what is wrong afterwards.
fn poll_task(
    task: Task,
    fault_free: &FaultFreeRun,
    disk: &Disk,
    polls: Option<u64>,
) -> anyhow::Result<(bool, anyhow::Result<()>)> {
    let scratch = archives::scratch();
    let target = scratch.path().join(NAME);
    create_runtime()?.block_on(task.prepare(&target))?;
    // Running threads end before the runtime does.
    let ended = create_runtime()?.block_on(poll_times(task.perform(&target, disk), polls));
    let is_ended = ended.is_some();
    Ok((is_ended, check_state(task, fault_free, scratch.path(), ended)))
}

/// Checks the state after the writer ended, or was dropped.
fn check_state(
    task: Task,
    fault_free: &FaultFreeRun,
    folder: &Path,
    ended: Option<anyhow::Result<()>>,
) -> anyhow::Result<()> {
    let (target, after) = (folder.join(NAME), &fault_free.states[1]);
    let found = read_tree(&target);
    let outcome = match &ended {
        None => "dropped".to_owned(),
        Some(Ok(())) => "done".to_owned(),
        Some(Err(error)) => format!("{error:#}"),
    };
    ensure!(
        !matches!(ended, Some(Ok(()))) || found == *after,
        "it reported success, and the target is not the new one"
    );
    ensure!(fault_free.allows(task, &found), "{outcome}: neither the old nor the new exists");
    let again = create_runtime()?.block_on(task.perform(&target, &Disk::default()));
    let is_done_again = again.is_ok();
    if let Err(error) = again
        && found != *after
    {
        bail!("{outcome}; done again: {error:#}");
    }
    ensure!(read_tree(&target) == *after, "{outcome}; done again, it made something else");
    let left = list_names(folder)?;
    // A writer with nothing left to do does not check other files next to the target.
    ensure!(
        !is_done_again || left == fault_free.names,
        "{outcome}; left behind: {left:?}, in peace {:?}",
        fault_free.names
    );
    Ok(())
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
