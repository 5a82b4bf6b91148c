//! The folder that a plan and its tasks share: which files belong to it, and which processes use
//! it.
//!
//! ```text
//! plan.json            what is to be done                      goes first: without it nothing is taken over
//! done/, tasks/        records, and what tasks leave           [`super::journal`]
//! store/, old/         the store, what it replaced             `zvf_store::Build::join`
//! store.id, root.json  how far publishing came                 the same; they go after all others
//! lock                 of the one process of `zvf create`
//! in-use               locked by all that do tasks, together; by the one that finishes, alone
//! ```
//!
//! The lock is for a single case: a task that is still running, in a process that its scheduler has
//! given up, while the store is being published. On file systems without locks, nothing prevents
//! this.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Write as _};
use std::path::Path;

use zvf_error::{Error, Result};

use super::path_exists;
use crate::error::{task_error, too_early_error};
use crate::stages::temporary_path;

/// Creates the folder of a new plan. Files of a plan that was removed may still be there.
pub(super) fn make(folder: &Path) -> Result<()> {
    if let Some(name) = find_foreign(folder)? {
        let expected = "an empty folder, because its contents are removed at the end";
        return Err(task_error(folder.display(), expected, name));
    }
    for name in OWN.into_iter().chain(LAST).filter(|name| *name != LOCK) {
        remove_one(&folder.join(name))?;
    }
    fs::create_dir_all(folder).map_err(Error::scratch)
}

/// Removes the files of the plan, and the folder if it is then empty.
pub(super) fn remove(folder: &Path) -> Result<()> {
    for name in [PLAN].into_iter().chain(OWN).chain(LAST) {
        remove_one(&folder.join(name))?;
    }
    if path_exists(folder)? && find_foreign(folder)?.is_none() {
        return fs::remove_dir_all(folder).map_err(Error::scratch);
    }
    Ok(())
}

/// While the guard is held, prevents others from finishing while a task runs, or from running tasks
/// during the finish. `None` if the file system has no locks.
pub(super) fn lock_work(folder: &Path, alone: bool) -> Result<Option<File>> {
    let mut options = OpenOptions::new();
    let file = options.write(true).create(true).truncate(false).open(folder.join(IN_USE));
    let file = file.map_err(Error::scratch)?;
    match if alone { file.try_lock() } else { file.try_lock_shared() } {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => {
            let expected =
                if alone { "no process that runs tasks" } else { "no process that finishes" };
            Err(too_early_error(folder.display(), expected, "one at work"))
        }
        Err(TryLockError::Error(_unsupported)) => Ok(None),
    }
}

/// Returns whether the folder has files of a plan but no plan: a process was killed while it
/// removed the plan.
pub(super) fn is_half_removed(folder: &Path) -> Result<bool> {
    if path_exists(&folder.join(PLAN))? {
        return Ok(false);
    }
    for name in OWN.into_iter().chain(LAST).filter(|name| ![LOCK, IN_USE].contains(name)) {
        if path_exists(&folder.join(name))? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the name of a foreign file in the folder.
fn find_foreign(folder: &Path) -> Result<Option<String>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        entries => entries.map_err(Error::scratch)?,
    };
    for entry in entries {
        let name = entry.map_err(Error::scratch)?.file_name().to_string_lossy().into_owned();
        let ours = OWN.into_iter().chain([PLAN]).chain(LAST).any(|prefix| {
            name.strip_prefix(prefix)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(".tmp"))
        });
        if !ours {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

fn remove_one(path: &Path) -> Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(about) if about.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed.map_err(Error::scratch),
    }
}

pub(super) const PLAN: &str = "plan.json";
const LOCK: &str = "lock";
const IN_USE: &str = "in-use";
/// Removed after the plan: records before the files that they describe.
const OWN: [&str; 4] = ["done", "tasks", "store", "old"];
/// Removed last, because these show whether the store was published.
const LAST: [&str; 4] = ["store.id", "root.json", IN_USE, LOCK];

/// Writes a small file atomically, replacing an existing one.
pub(super) fn write_new(path: &Path, bytes: &[u8], sync: bool) -> Result<()> {
    let fresh = temporary_path(path);
    let written = File::create(&fresh).and_then(|mut file| {
        file.write_all(bytes)?;
        if sync { file.sync_all() } else { Ok(()) }
    });
    written.and_then(|()| fs::rename(&fresh, path)).map_err(Error::scratch)?;
    match path.parent() {
        Some(folder) if sync => sync_names(folder),
        _ => Ok(()),
    }
}

#[cfg(unix)]
pub(super) fn sync_names(folder: &Path) -> Result<()> {
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(Error::scratch)
}

/// Does nothing: on other systems a directory cannot be opened like a file; the system keeps its
/// names in its own journal.
#[cfg(not(unix))]
pub(super) fn sync_names(_folder: &Path) -> Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_files_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("notes.txt"), "mine").unwrap();
        assert_eq!(
            make(folder.path()).unwrap_err().sentence(),
            format!(
                "{}: expected an empty folder, because its contents are removed at the end, found notes.txt",
                folder.path().display()
            )
        );
        for name in ["tasks/cells-0.rows", "done/cells-0.json", "store/zarr.json"] {
            fs::create_dir_all(at(name).parent().unwrap()).unwrap();
            fs::write(at(name), "").unwrap();
        }
        for name in ["plan.json", "store.id", "lock", "in-use"] {
            fs::write(at(name), "").unwrap();
        }
        remove(folder.path()).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        fs::remove_file(at("notes.txt")).unwrap();
        fs::write(at("plan.json.tmp-0-0"), "").unwrap();
        remove(folder.path()).unwrap();
        assert!(!folder.path().exists());
        remove(folder.path()).unwrap();
    }

    #[test]
    fn a_plan_is_removed_before_its_results() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        assert!(!is_half_removed(folder.path()).unwrap());
        for (name, half) in [("lock", false), ("store.id", true), ("done/cells-0.json", true)] {
            fs::create_dir_all(at(name).parent().unwrap()).unwrap();
            fs::write(at(name), "").unwrap();
            assert_eq!(is_half_removed(folder.path()).unwrap(), half, "{name}");
        }
        fs::write(at("plan.json"), "").unwrap();
        assert!(!is_half_removed(folder.path()).unwrap());
        // A folder that cannot be removed simulates a kill right after the first step.
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = |mode| fs::set_permissions(at("done"), fs::Permissions::from_mode(mode));
            mode(0o500).unwrap();
            let removed = remove(folder.path());
            assert!(!at("plan.json").exists(), "it goes first");
            if removed.is_err() {
                assert!(at("store.id").exists(), "it goes last");
                assert!(is_half_removed(folder.path()).unwrap());
                mode(0o700).unwrap();
            }
        }
    }

    #[test]
    fn a_new_plan_reuses_nothing_of_an_old_one() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("store/0/vertices/c")).unwrap();
        fs::write(folder.path().join("lock"), "").unwrap();
        make(folder.path()).unwrap();
        let left: Vec<_> =
            fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(left, ["lock"]);
    }

    #[test]
    fn tasks_share_the_lock_and_finishing_excludes_them() {
        let folder = tempfile::tempdir().unwrap();
        let lock = || lock_work(folder.path(), false).unwrap();
        let shared_locks = (lock(), lock());
        let message = |error: Error| error.sentence().split_once(": ").unwrap().1.to_owned();
        assert_eq!(
            message(lock_work(folder.path(), true).unwrap_err()),
            "expected no process that runs tasks, found one at work"
        );
        drop(shared_locks);
        let _alone = lock_work(folder.path(), true).unwrap().unwrap();
        assert_eq!(
            message(lock_work(folder.path(), false).unwrap_err()),
            "expected no process that finishes, found one at work"
        );
    }
}
