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
use std::path::Path;

use zvf_error::{Error, Result};
use zvf_publish::{Disk, KeyedFolder, found};

use super::plan::{TaskPlan, VERSION};
use crate::error::{task_error, too_early_error};

impl TaskPlan {
    /// Writes the plan into `folder`, which is created. If the same plan already exists, returns
    /// `false`, and its finished tasks stay finished.
    ///
    /// # Errors
    ///
    /// When another plan or foreign files exist, or the folder cannot be written.
    pub fn create(&self, folder: &Path) -> Result<bool> {
        if let Some(stored_plan) = Self::read(folder)? {
            if stored_plan == *self {
                return Ok(false);
            }
            let expected = "no other plan; remove the folder to begin anew";
            let found = "one for other input or other settings";
            return Err(task_error(folder.display(), expected, found));
        }
        make(folder)?;
        let text = serde_json::to_vec_pretty(self).map_err(|error| Error::scratch(error.into()))?;
        let files = files(folder);
        files.put(PLAN, text.into()).map_err(Error::scratch)?;
        files.sync_folders([PLAN].into_iter()).map_err(Error::scratch)?;
        Ok(true)
    }

    /// Reads the plan in `folder`, if there is one.
    ///
    /// # Errors
    ///
    /// When it cannot be read, or belongs to another version of this program.
    pub fn read(folder: &Path) -> Result<Option<Self>> {
        let Some(text) = files(folder).get(PLAN).map_err(Error::scratch)? else { return Ok(None) };
        let unfit = |found: String| {
            let expected = format!("a plan of version {VERSION}");
            task_error(folder.join(PLAN).display(), expected, found)
        };
        let plan: Self = serde_json::from_slice(&text).map_err(|error| unfit(error.to_string()))?;
        if plan.version != VERSION {
            return Err(unfit(format!("version {}", plan.version)));
        }
        Ok(Some(plan))
    }

    /// Returns whether `folder` has files of a plan but no plan: a process was killed while it
    /// removed the plan. A new plan does not reuse anything.
    ///
    /// # Errors
    ///
    /// When the folder cannot be examined.
    pub fn is_half_removed(folder: &Path) -> Result<bool> {
        let files = files(folder);
        let exists = |name: &str| files.exists(name).map_err(Error::scratch);
        if exists(PLAN)? {
            return Ok(false);
        }
        for name in OWN.into_iter().chain(LAST).filter(|name| ![LOCK, IN_USE].contains(name)) {
            if exists(name)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Removes a plan and the files of its tasks: the plan first, so that nothing can be resumed
    /// after a kill. Foreign files stay, and so does the folder then.
    ///
    /// # Errors
    ///
    /// When something cannot be removed.
    pub fn remove(folder: &Path) -> Result<()> {
        for name in [PLAN].into_iter().chain(OWN).chain(LAST) {
            remove_one(&folder.join(name))?;
        }
        if find_foreign(folder)?.is_none() {
            found(fs::remove_dir_all(folder)).map_err(Error::scratch)?;
        }
        Ok(())
    }
}

/// Returns the files in the folder.
pub(super) fn files(folder: &Path) -> KeyedFolder {
    KeyedFolder::new(Disk::default(), folder.to_owned())
}

/// Creates the folder of a new plan. Files of a plan that was removed may still be there.
fn make(folder: &Path) -> Result<()> {
    if let Some(name) = find_foreign(folder)? {
        let expected = "an empty folder, because its contents are removed at the end";
        return Err(task_error(folder.display(), expected, name));
    }
    for name in OWN.into_iter().chain(LAST).filter(|name| *name != LOCK) {
        remove_one(&folder.join(name))?;
    }
    fs::create_dir_all(folder).map_err(Error::scratch)
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

/// Returns the name of a foreign file in the folder.
fn find_foreign(folder: &Path) -> Result<Option<String>> {
    let entries = found(fs::read_dir(folder)).map_err(Error::scratch)?;
    for entry in entries.into_iter().flatten() {
        let name = entry.map_err(Error::scratch)?.file_name().to_string_lossy().into_owned();
        // Earlier programs put the word for a temporary file after the name.
        let ours = OWN.into_iter().chain([PLAN]).chain(LAST).any(|own| {
            let rest = name.strip_prefix(own);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(".tmp"))
        });
        if !ours && !name.starts_with(".tmp-") {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

fn remove_one(path: &Path) -> Result<()> {
    let is_folder = path.is_dir() && !path.is_symlink();
    let removed = if is_folder { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    found(removed).map(drop).map_err(Error::scratch)
}

const PLAN: &str = "plan.json";
const LOCK: &str = "lock";
const IN_USE: &str = "in-use";
/// Removed after the plan: records before the files that they describe.
const OWN: [&str; 4] = ["done", "tasks", "store", "old"];
/// Removed last, because these show whether the store was published.
const LAST: [&str; 4] = ["store.id", "root.json", IN_USE, LOCK];

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
        TaskPlan::remove(folder.path()).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        fs::remove_file(at("notes.txt")).unwrap();
        for name in ["plan.json.tmp-0-0", ".tmp-0-0"] {
            fs::write(at(name), "").unwrap();
        }
        TaskPlan::remove(folder.path()).unwrap();
        assert!(!folder.path().exists());
        TaskPlan::remove(folder.path()).unwrap();
    }

    #[test]
    fn a_plan_is_removed_before_its_results() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        assert!(!TaskPlan::is_half_removed(folder.path()).unwrap());
        for (name, half) in [("lock", false), ("store.id", true), ("done/cells-0.json", true)] {
            fs::create_dir_all(at(name).parent().unwrap()).unwrap();
            fs::write(at(name), "").unwrap();
            assert_eq!(TaskPlan::is_half_removed(folder.path()).unwrap(), half, "{name}");
        }
        fs::write(at("plan.json"), "").unwrap();
        assert!(!TaskPlan::is_half_removed(folder.path()).unwrap());
        // A folder that cannot be removed simulates a kill right after the first step.
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = |mode| fs::set_permissions(at("done"), fs::Permissions::from_mode(mode));
            mode(0o500).unwrap();
            let removed = TaskPlan::remove(folder.path());
            assert!(!at("plan.json").exists(), "it goes first");
            if removed.is_err() {
                assert!(at("store.id").exists(), "it goes last");
                assert!(TaskPlan::is_half_removed(folder.path()).unwrap());
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
}
