//! Applies a plan to a folder: old objects are kept beside it, new ones are renamed over them.
//!
//! ```text
//! <store>.zvf/repair-N/…        copies of the replaced objects; synced first
//! .<store>.zvf-build-ID/<n>     each new object, until all are written and synced; then renamed to its name
//! ```
//!
//! An interruption leaves complete objects, old or new, and the old ones beside the store. The lock
//! of the store is held meanwhile.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use zvf_error::Result;
use zvf_publish::{CommitGate, Disk, FolderUpdate, TargetLock, count_records, found, untaken};

use crate::change::Change;
use crate::error::{changed_error, has_journal_error, io_error};
use crate::plan::Plan;

/// Applies `plan` to the store in the folder `root`; returns the folder of the old objects, if any
/// object was replaced.
///
/// # Errors
///
/// `InvalidArgument` for a store that is edited; `Conflict` when an object changed since the plan
/// was made, before any replacement unless it changed during the repair; `Conflict` while another
/// command changes the store; `Io` when a file cannot be read or written.
pub fn apply_local(root: &Path, plan: &Plan) -> Result<Option<PathBuf>> {
    apply_local_on(&Disk::default(), root, plan, &CommitGate::default())
}

/// Applies a plan with all system calls through `disk`; `gate` is passed right before the first
/// object is replaced.
///
/// # Errors
///
/// As [`apply_local`].
pub fn apply_local_on(
    disk: &Disk,
    root: &Path,
    plan: &Plan,
    gate: &CommitGate,
) -> Result<Option<PathBuf>> {
    let lock = TargetLock::acquire(disk, root)?;
    let root = lock.target().to_owned();
    if count_records(&root).map_err(io_error("journal"))? > 0 {
        return Err(has_journal_error());
    }
    for change in &plan.changes {
        check(&root, change)?;
    }
    let mut update = FolderUpdate::begin(lock, true)?;
    let kept = keep(disk, &root, plan, &update)?;
    for change in &plan.changes {
        update.put(&change.path, &change.after)?;
    }
    // Each object is checked again right before it is replaced.
    update.apply(gate, |path| match plan.changes.iter().find(|change| change.path == path) {
        Some(change) => check(&root, change),
        None => Ok(()),
    })?;
    Ok(kept)
}

/// Returns whether the object is unchanged since the plan was made.
fn check(root: &Path, change: &Change) -> Result<()> {
    let found = found(fs::read(root.join(&change.path))).map_err(io_error(&change.path))?;
    if change.is_planned_for(found.as_deref()) { Ok(()) } else { Err(changed_error(&change.path)) }
}

/// Copies the objects that will be replaced to a new folder beside the store.
fn keep(disk: &Disk, root: &Path, plan: &Plan, update: &FolderUpdate) -> Result<Option<PathBuf>> {
    let replaced: Vec<&Change> = plan.changes.iter().filter(|c| c.before.is_some()).collect();
    if replaced.is_empty() {
        return Ok(None);
    }
    let folder = make_folder(disk, root).map_err(io_error("repair"))?;
    for change in replaced {
        update.back_up(&change.path, &folder)?;
    }
    Ok(Some(folder))
}

/// Creates a new folder `<store>.zvf/repair-N`.
fn make_folder(disk: &Disk, root: &Path) -> io::Result<PathBuf> {
    let mut name = root.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_owned();
    name.push(".zvf");
    let siblings = root.with_file_name(name);
    disk.make_dirs(&siblings)?;
    for n in 1..MAX_KEPT_REPAIRS {
        let folder = siblings.join(format!("repair-{n}"));
        if untaken(disk.make_dir(&folder))?.is_some() {
            return Ok(folder);
        }
    }
    Err(io::Error::other("too many repairs"))
}

/// The largest number of kept repairs of one store.
const MAX_KEPT_REPAIRS: u32 = 10_000;
