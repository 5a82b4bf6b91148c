//! Replaces several files of an existing folder one after the other, each atomically.
//!
//! ```text
//! PARENT/NAME/...               the folder
//! PARENT/.NAME.zvf-build-ID/    the new files, numbered, until all of them are written and synced
//! ```
//!
//! So the folder never contains a partly written file. After an interruption all files are
//! complete, old or new, replaced in the order of the `put` calls.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use bytes::Bytes;

use crate::error::PublishError;
use crate::gate::CommitGate;
use crate::permissions;
use crate::staging::{ScratchDir, open_dir};
use crate::target::TargetLock;

/// New files for a folder. Dropped before they are applied, they leave nothing.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// use zvf_publish::{CommitGate, Disk, FolderUpdate, PublishError, TargetLock};
///
/// let folder = dir.path().join("a");
/// std::fs::create_dir(&folder)?;
/// std::fs::write(folder.join("one"), "old")?;
/// let lock = TargetLock::acquire(&Disk::default(), &folder)?;
/// let mut update = FolderUpdate::begin(lock, true)?;
/// update.back_up("one", &dir.path().join("kept"))?;
/// update.put("one", &"new".into())?;
/// assert_eq!(std::fs::read(folder.join("one"))?, b"old");
/// update.apply(&CommitGate::default(), |_path| Ok::<(), PublishError>(()))?;
/// assert_eq!(std::fs::read(folder.join("one"))?, b"new");
/// assert_eq!(std::fs::read(dir.path().join("kept/one"))?, b"old");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct FolderUpdate {
    scratch: ScratchDir, // goes before the lock
    held: File,
    lock: TargetLock,
    sync: bool,
    files: Vec<(String, PathBuf)>, // their paths in the folder, and their present paths
}

impl FolderUpdate {
    /// Begins an update of the target of `lock`, a folder.
    ///
    /// # Errors
    ///
    /// When its sibling folder cannot be written.
    pub fn begin(lock: TargetLock, sync: bool) -> Result<Self, PublishError> {
        let scratch = ScratchDir::create_next_to(lock.disk(), lock.target())?;
        let held = open_dir(scratch.path())?;
        Ok(Self { scratch, held, lock, sync, files: Vec::new() })
    }

    /// Copies the file `path` unchanged into `folder`, under the same path.
    ///
    /// # Errors
    ///
    /// When it cannot be read or written.
    pub fn back_up(&self, path: &str, folder: &Path) -> Result<(), PublishError> {
        let at = PublishError::with_path(path);
        let from = self.lock.target().join(path);
        let bytes = Bytes::from(fs::read(&from).map_err(&at)?);
        let to = folder.join(path);
        self.lock.disk().create(&to, &[bytes]).map_err(&at)?;
        permissions::copy_node(&from, &to).map_err(&at)
    }

    /// Writes the new contents of `path`.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    pub fn put(&mut self, path: &str, bytes: &Bytes) -> Result<(), PublishError> {
        let at = PublishError::with_path(path);
        let file = self.scratch.path().join(self.files.len().to_string());
        self.lock.disk().create(&file, std::slice::from_ref(bytes)).map_err(&at)?;
        permissions::copy_node(&self.lock.target().join(path), &file).map_err(&at)?;
        self.files.push((path.to_owned(), file));
        Ok(())
    }

    /// Replaces the files, in the order of the `put` calls, after syncing all of them and the
    /// backups; calls `check` right before each.
    ///
    /// # Errors
    ///
    /// The error of `check`; [`PublishError::Cancelled`] when a stop was requested; otherwise when
    /// a file cannot be replaced. Earlier files are then already replaced.
    pub fn apply<E: From<PublishError>>(
        mut self,
        gate: &CommitGate,
        check: impl Fn(&str) -> Result<(), E>,
    ) -> Result<(), E> {
        let disk = self.lock.disk().clone();
        if self.sync {
            disk.sync_all(&self.held, self.scratch.path()).map_err(PublishError::from)?;
            // The names of new directories, including those of backups, are in the parent folder.
            disk.sync_dir(self.lock.parent()).map_err(PublishError::from)?;
        }
        gate.enter()?;
        let (mut folders, mut is_unchanged) = (BTreeSet::new(), true);
        for (path, file) in std::mem::take(&mut self.files) {
            let replaced = check(&path).and_then(|()| {
                let to = self.lock.target().join(&path);
                let folder = to.parent().unwrap_or(self.lock.target()).to_owned();
                let made = disk.make_dirs(&folder).map_err(PublishError::with_path(&path))?;
                folders.extend(made.iter().filter_map(|made| made.parent()).map(Path::to_owned));
                is_unchanged = false; // or unknown, where the system reports a failure
                disk.rename(&file, &to).map_err(PublishError::with_path(&path))?;
                if self.sync {
                    // Before the next one, which may refer to it.
                    disk.sync_dir(&folder).map_err(PublishError::Unknown)?;
                }
                Ok(())
            });
            if is_unchanged && replaced.is_err() {
                gate.leave();
            }
            replaced?;
        }
        for folder in folders.iter().filter(|_| self.sync) {
            disk.sync_dir(folder).map_err(PublishError::Unknown)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::Disk;

    #[test]
    fn the_gate_opens_again_only_where_nothing_was_replaced() {
        for (nth, is_late) in (0..14).flat_map(|nth| [(nth, false), (nth, true)]) {
            let dir = tempfile::tempdir().unwrap();
            let folder = dir.path().join("a");
            fs::create_dir(&folder).unwrap();
            fs::write(folder.join("one"), "old").unwrap();
            let disk = Disk::default().with_failure_at(nth, 5, is_late);
            let gate = CommitGate::default();
            let replace = || {
                let mut update = FolderUpdate::begin(TargetLock::acquire(&disk, &folder)?, true)?;
                update.put("one", &"new".into())?;
                update.apply(&gate, |_path| Ok::<(), PublishError>(()))
            };
            let (done, is_new) = (replace(), fs::read(folder.join("one")).unwrap() == b"new");
            assert!(if is_new { gate.is_entered() } else { done.is_err() }, "{nth}, {is_late}");
        }
    }
}
