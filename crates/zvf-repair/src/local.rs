//! A plan applied to a folder: old objects kept beside it, new ones renamed over them.
//!
//! ```text
//! <store>.zvf/repair-N/…      the objects that are replaced, as they are; synced first
//! <folder>/.tmp-repair-<n>    each new object, synced, then renamed to its name; then its folder is synced
//! ```
//!
//! Whatever breaks off in between leaves whole objects, old or new, and the old ones beside the store.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use zvf_metadata::Node;

use crate::error::RepairError;
use crate::plan::{Change, Plan};

/// Applies `plan` to the store in the folder `root`; where the old objects are kept, when something was
/// replaced.
///
/// # Errors
///
/// [`RepairError::Changed`] when an object is not what the plan was made from, before anything is changed;
/// [`RepairError::Io`] when a file cannot be read or written.
pub fn apply_local(root: &Path, plan: &Plan) -> Result<Option<PathBuf>, RepairError> {
    for change in &plan.changes {
        check(root, change)?;
    }
    let kept = keep(root, plan)?;
    for (n, change) in plan.changes.iter().enumerate() {
        check(root, change)?; // once more, right before it is replaced
        put(root, change, n).map_err(RepairError::io(&change.path))?;
    }
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
fn keep(root: &Path, plan: &Plan) -> Result<Option<PathBuf>, RepairError> {
    let replaced: Vec<&Change> = plan.changes.iter().filter(|c| c.before.is_some()).collect();
    if replaced.is_empty() {
        return Ok(None);
    }
    let folder = fresh(root).map_err(RepairError::io("repair"))?;
    for change in replaced {
        let to = folder.join(&change.path);
        let copied = || -> io::Result<()> {
            if let Some(parent) = to.parent() {
                fs::create_dir_all(parent)?;
            }
            fs::copy(root.join(&change.path), &to)?;
            File::open(&to)?.sync_all()?;
            sync_folder(&to)
        };
        copied().map_err(RepairError::io(&change.path))?;
    }
    sync_folder(&folder).map_err(RepairError::io("repair"))?;
    Ok(Some(folder))
}

/// A new folder `<store>.zvf/repair-N`.
fn fresh(root: &Path) -> io::Result<PathBuf> {
    let mut name = root.file_name().unwrap_or_default().to_owned();
    name.push(".zvf");
    let beside = root.with_file_name(name);
    fs::create_dir_all(&beside)?;
    for n in 1..MOST {
        let folder = beside.join(format!("repair-{n}"));
        match fs::create_dir(&folder) {
            Ok(()) => return Ok(folder),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other("too many repairs"))
}

/// Gives the object its new content.
fn put(root: &Path, change: &Change, n: usize) -> io::Result<()> {
    let to = root.join(&change.path);
    let folder = to.parent().unwrap_or(root);
    fs::create_dir_all(folder)?;
    let temporary = folder.join(format!(".tmp-repair-{n}"));
    let written = write(&temporary, &change.after).and_then(|()| fs::rename(&temporary, &to));
    if written.is_err() {
        drop(fs::remove_file(&temporary)); // it may not be there
    }
    written?;
    sync_folder(&to)
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create_new(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Makes the name of `path` last.
fn sync_folder(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}

/// Repairs of one store that are kept.
const MOST: u32 = 10_000;
