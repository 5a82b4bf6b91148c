//! `disk-faults` and `disk-cancel`: every writer of this machine, when one call of the disk fails, and when it is
//! dropped at an await.
//!
//! ```text
//! disk-faults    each call fails once: with a full disk, an error of the device, a missing permission;
//!                before anything was done, and after all of it was
//! disk-cancel    the writer is polled so many times and dropped
//! ```
//!
//! Whatever happened, what was there is there, or what was to be made is, whole; who got an acknowledgement finds
//! it. The same writer then succeeds, or says that there is nothing left to do, and leaves what it leaves in peace.

use std::collections::BTreeSet;
use std::path::Path;
use std::pin::pin;
use std::task::Poll;

use clap::ValueEnum as _;
use zvf_publish::Disk;

use crate::Report;
use crate::remote::runtime;
use crate::tasks::{NAME, Task, Tree, found};

/// Every call of every writer fails once, in each way.
#[derive(Debug, clap::Args)]
pub(crate) struct Faults {
    /// Every so many of the pairs of a call and a fault.
    #[arg(long, default_value_t = 1)]
    every: usize,
    /// Which writer; all of them without it.
    #[arg(long, value_enum)]
    what: Option<Task>,
    /// Repeated in the report; nothing here is random.
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

/// Every writer is dropped at every await.
#[derive(Debug, clap::Args)]
pub(crate) struct Cancel {
    /// Every so many of the awaits.
    #[arg(long, default_value_t = 1)]
    every: u64,
    /// Which writer; all of them without it.
    #[arg(long, value_enum)]
    what: Option<Task>,
    /// Repeated in the report; nothing here is random.
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

/// What a writer does when nothing happens to it.
struct Peace {
    /// What may be there, one after the other: of a repair each document by itself.
    states: Vec<Tree>,
    after: Tree,
    /// What lies in the folder afterwards.
    names: BTreeSet<String>,
    calls: usize,
}

impl Faults {
    pub(crate) fn run(self) -> anyhow::Result<Report> {
        let mut report = Report { name: "disk-faults", seed: self.seed, ..Report::default() };
        for task in chosen(self.what) {
            let peace = Peace::of(task)?;
            let pairs = (0..peace.calls).flat_map(|nth| (0..WAYS.len()).map(move |way| (nth, way)));
            for (nth, way) in pairs.step_by(self.every.max(1)) {
                let (error, is_late) = WAYS[way];
                let disk = Disk::default().failing_at(nth, error, is_late);
                let checked = one(task, &peace, &disk, None)?.1;
                let what = format!("{task:?}, call {nth}, error {error}, late: {is_late}");
                report.count(checked.map_err(|error| format!("{what}: {error}")));
            }
        }
        Ok(report)
    }
}

impl Cancel {
    pub(crate) fn run(self) -> anyhow::Result<Report> {
        let mut report = Report { name: "disk-cancel", seed: self.seed, ..Report::default() };
        for task in chosen(self.what) {
            let peace = Peace::of(task)?;
            let mut polls = 0;
            loop {
                let (is_ended, checked) = one(task, &peace, &Disk::default(), Some(polls))?;
                report.count(checked.map_err(|error| format!("{task:?}, {polls} polls: {error}")));
                if is_ended {
                    break;
                }
                polls += self.every.max(1);
            }
        }
        Ok(report)
    }
}

impl Peace {
    fn of(task: Task) -> anyhow::Result<Self> {
        let here = archives::scratch();
        let target = here.path().join(NAME);
        let disk = Disk::default().failing_at(usize::MAX, 0, false);
        runtime()?.block_on(task.prepare(&target))?;
        let before = found(&target)?;
        runtime()?.block_on(task.perform(&target, &disk))?;
        let after = found(&target)?;
        anyhow::ensure!(before != after, "{task:?} changes nothing");
        let (names, calls) = (names(here.path())?, disk.call_count());
        let states = vec![before, after.clone()];
        Ok(Self { states, after, names, calls })
    }

    /// Whether this may be there at any time.
    fn allows(&self, task: Task, found: &Tree) -> bool {
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

/// Performs `task` on a disk, as far as so many polls go; whether it ended, and what is wrong afterwards.
fn one(
    task: Task,
    peace: &Peace,
    disk: &Disk,
    polls: Option<u64>,
) -> anyhow::Result<(bool, Result<(), String>)> {
    let here = archives::scratch();
    let target = here.path().join(NAME);
    runtime()?.block_on(task.prepare(&target))?;
    let ended = {
        let runtime = runtime()?;
        runtime.block_on(async {
            let mut writing = pin!(task.perform(&target, disk));
            let mut left = polls.unwrap_or(u64::MAX);
            std::future::poll_fn(|context| {
                if left == 0 {
                    return Poll::Ready(None);
                }
                left -= 1;
                writing.as_mut().poll(context).map(Some)
            })
            .await
        })
        // Threads that are at work end before the runtime does.
    };
    let is_ended = ended.is_some();
    Ok((is_ended, check(task, peace, here.path(), ended)?))
}

/// What must hold after the writer ended so, or was dropped.
fn check(
    task: Task,
    peace: &Peace,
    folder: &Path,
    ended: Option<anyhow::Result<()>>,
) -> anyhow::Result<Result<(), String>> {
    let target = folder.join(NAME);
    let is_there = found(&target)?;
    let outcome = match &ended {
        None => "dropped".to_owned(),
        Some(Ok(())) => "done".to_owned(),
        Some(Err(error)) => format!("{error:#}"),
    };
    if matches!(ended, Some(Ok(()))) && is_there != peace.after {
        return Ok(Err("it said that it is done, and it is not".to_owned()));
    }
    if !peace.allows(task, &is_there) {
        return Ok(Err(format!("{outcome}: neither the old nor the new is there")));
    }
    let again = runtime()?.block_on(task.perform(&target, &Disk::default()));
    let is_done_again = again.is_ok();
    if let Err(error) = again
        && is_there != peace.after
    {
        return Ok(Err(format!("{outcome}; done again: {error:#}")));
    }
    if found(&target)? != peace.after {
        return Ok(Err(format!("{outcome}; done again, it made something else")));
    }
    let left = names(folder)?;
    // Who finds that there is nothing left to do does not look at what lies beside.
    if is_done_again && left != peace.names {
        return Ok(Err(format!("{outcome}; left behind: {left:?}, in peace {:?}", peace.names)));
    }
    Ok(Ok(()))
}

fn chosen(what: Option<Task>) -> impl Iterator<Item = Task> {
    Task::value_variants().iter().copied().filter(move |task| what.is_none_or(|what| what == *task))
}

fn names(folder: &Path) -> anyhow::Result<BTreeSet<String>> {
    let entries = std::fs::read_dir(folder)?;
    entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
}

/// Numbers of errors of the system, and whether the call was done all the same.
const WAYS: [(i32, bool); 5] =
    [(NO_SPACE, false), (DEVICE, false), (DEVICE, true), (NOT_PERMITTED, false), (QUOTA, true)];
const NO_SPACE: i32 = 28;
const DEVICE: i32 = 5;
const NOT_PERMITTED: i32 = 13;
const QUOTA: i32 = 122;
