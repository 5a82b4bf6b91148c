//! The scratch folder of one process.
//!
//! It is removed at the end. A folder that a killed process left is recognised by its name and its
//! released lock, and removed by the next run.
//!
//! Not here: the files in it (`stages`).

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use zvf_error::{Error, Result};

use crate::stages::temporary_path;

/// The folder for spilled data, created when it is first needed.
#[derive(Debug)]
pub(crate) struct Scratch {
    parent: PathBuf,
    folder: OnceLock<Folder>,
}

/// A folder that is removed when this is dropped.
#[derive(Debug)]
struct Folder {
    path: PathBuf,
    _lock: File, // held as long as the folder is in use
}

impl Scratch {
    /// Returns a folder that will be created below `parent`, or below the folder for temporary
    /// files.
    pub(crate) fn new(parent: Option<PathBuf>) -> Self {
        let parent = parent.unwrap_or_else(std::env::temp_dir);
        Self { parent, folder: OnceLock::new() }
    }

    /// Returns the folder.
    pub(crate) fn folder(&self) -> Result<PathBuf> {
        let folder = match self.folder.get() {
            Some(folder) => folder,
            None => {
                let made = Folder::make(&self.parent).map_err(Error::scratch)?;
                self.folder.get_or_init(|| made)
            }
        };
        Ok(folder.path.clone())
    }

    /// Returns the prefix of the names of some files in it.
    pub(crate) fn stem(&self, what: &str, number: usize) -> Result<PathBuf> {
        Ok(self.folder()?.join(format!("{what}-{number}")))
    }
}

impl Folder {
    fn make(parent: &Path) -> io::Result<Self> {
        fs::create_dir_all(parent)?;
        sweep(parent)?;
        loop {
            let path = temporary_path(&parent.join(PREFIX));
            fs::create_dir(&path)?;
            // Another process may take an unlocked folder for an abandoned one, and be faster.
            match hold(&path) {
                Ok(lock) if path.exists() => return Ok(Self { path, _lock: lock }),
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Ok(_) | Err(_) => {}
            }
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A folder that cannot be removed now is removed by the next run.
        let _left_behind = fs::remove_dir_all(&self.path);
    }
}

/// Locks a folder, so that no other process removes it.
fn hold(path: &Path) -> io::Result<File> {
    let lock = File::create_new(path.join(LOCK))?;
    if lock.lock().is_err() {
        // On file systems without locks, a folder with this file and without a lock must not be
        // removed by others.
        File::create_new(path.join(UNLOCKED))?;
        fs::remove_file(path.join(LOCK))?;
    }
    Ok(lock)
}

/// Removes folders of ended processes.
fn sweep(parent: &Path) -> io::Result<()> {
    for entry in fs::read_dir(parent)? {
        let entry = entry?;
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        let Ok(lock) = File::open(entry.path().join(LOCK)) else {
            // It is being created, or its process was killed while it was created: then it is
            // empty.
            let _in_use = fs::remove_dir(entry.path());
            continue;
        };
        match lock.try_lock() {
            Ok(()) => {
                let _another_was_faster = fs::remove_dir_all(entry.path());
            }
            Err(TryLockError::WouldBlock | TryLockError::Error(_)) => {}
        }
    }
    Ok(())
}

/// The prefix of the folders.
const PREFIX: &str = ".zvf-scratch";
const LOCK: &str = "lock";
const UNLOCKED: &str = "unlocked";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unused_folders_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let dead_dir = parent.path().join(format!("{PREFIX}.tmp-1-1"));
        fs::create_dir(&dead_dir).unwrap();
        fs::write(dead_dir.join(LOCK), "").unwrap();
        fs::create_dir(parent.path().join(format!("{PREFIX}-7-0"))).unwrap();
        let live = Folder::make(parent.path()).unwrap();
        let scratch = Scratch::new(Some(parent.path().to_owned()));
        let stem = scratch.stem("a", 3).unwrap();
        assert!(stem.ends_with("a-3") && !stem.exists());
        let folder = scratch.folder().unwrap();
        assert_eq!((dead_dir.exists(), live.path.exists(), folder.exists()), (false, true, true));
        drop((live, scratch));
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }
}
