//! A plan applied to a folder: old objects kept beside it, new ones renamed over them.
//!
//! ```text
//! <store>.zvf/repair-N/…        the objects that are replaced, as they are; synced first
//! .<store>.zvf-build-ID/<n>     each new object, until all are written and synced; then renamed to its name
//! ```
//!
//! Whatever breaks off in between leaves whole objects, old or new, and the old ones beside the store. The lock of
//! the store is held meanwhile.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use zvf_metadata::Node;
use zvf_publish::{CommitGate, Disk, FolderUpdate, TargetLock, count_records};

use crate::error::RepairError;
use crate::plan::{Change, Plan};

/// Applies `plan` to the store in the folder `root`; where the old objects are kept, when something was
/// replaced.
///
/// # Errors
///
/// [`RepairError::HasJournal`] for a store that is edited; [`RepairError::Changed`] when an object is not what the plan was made from; before anything is changed, unless
/// somebody else changed it meanwhile. `Conflict` while another command changes the store; [`RepairError::Io`] when a
/// file cannot be read or written.
pub fn apply_local(root: &Path, plan: &Plan) -> Result<Option<PathBuf>, RepairError> {
    apply_local_on(&Disk::default(), root, plan, &CommitGate::default())
}

/// The same, with every call to the system going through `disk`; `gate` is asked right before the first object is
/// replaced.
///
/// # Errors
///
/// As [`apply_local`].
pub fn apply_local_on(
    disk: &Disk,
    root: &Path,
    plan: &Plan,
    gate: &CommitGate,
) -> Result<Option<PathBuf>, RepairError> {
    let lock = TargetLock::acquire(disk, root)?;
    let root = lock.target().to_owned();
    if count_records(&root).map_err(RepairError::io("journal"))? > 0 {
        return Err(RepairError::HasJournal);
    }
    for change in &plan.changes {
        check(&root, change)?;
    }
    let mut update = FolderUpdate::begin(lock, true)?;
    let kept = keep(disk, &root, plan, &update)?;
    for change in &plan.changes {
        update.put(&change.path, &change.after)?;
    }
    // Once more, right before each is replaced.
    update.apply(gate, |path| match plan.changes.iter().find(|change| change.path == path) {
        Some(change) => check(&root, change),
        None => Ok(()),
    })?;
    Ok(kept)
}

/// Whether the object still is what the plan was made from.
fn check(root: &Path, change: &Change) -> Result<(), RepairError> {
    let changed = || RepairError::Changed { path: change.path.clone() };
    match (fs::read(root.join(&change.path)), &change.before) {
        (Ok(bytes), Some(before)) if Node::parse(&bytes).as_ref() == Ok(before) => Ok(()),
        (Ok(_), _) => Err(changed()),
        (Err(error), None) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        (Err(error), Some(_)) if error.kind() == io::ErrorKind::NotFound => Err(changed()),
        (Err(error), _) => Err(RepairError::io(&change.path)(error)),
    }
}

/// Copies what is replaced to a folder of its own, beside the store.
fn keep(
    disk: &Disk,
    root: &Path,
    plan: &Plan,
    update: &FolderUpdate,
) -> Result<Option<PathBuf>, RepairError> {
    let replaced: Vec<&Change> = plan.changes.iter().filter(|c| c.before.is_some()).collect();
    if replaced.is_empty() {
        return Ok(None);
    }
    let folder = make_folder(disk, root).map_err(RepairError::io("repair"))?;
    for change in replaced {
        update.back_up(&change.path, &folder)?;
    }
    Ok(Some(folder))
}

/// A new folder `<store>.zvf/repair-N`.
fn make_folder(disk: &Disk, root: &Path) -> io::Result<PathBuf> {
    let mut name = root.file_name().unwrap_or_default().to_owned();
    name.push(".zvf");
    let beside = root.with_file_name(name);
    disk.make_dirs(&beside)?;
    for n in 1..MAX_KEPT_REPAIRS {
        let folder = beside.join(format!("repair-{n}"));
        match disk.make_dir(&folder) {
            Ok(()) => return Ok(folder),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other("too many repairs"))
}

/// Repairs of one store that are kept.
const MAX_KEPT_REPAIRS: u32 = 10_000;
