//! The folder for data that does not fit in memory: sorted lists and slices of the input.
//!
//! It is removed at the end. A folder that a killed process left is recognised by its name and its
//! released lock, and removed by the next run.
//!
//! Not here: the files in it (`stages`).

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use zvf_error::{Error, Result};

use crate::stages::temporary_path;

/// The location of spilled data, created when it is first needed. Clones are the same folder.
///
/// ```
/// use zvf_write::SpillFolder;
///
/// let folder = SpillFolder::new(None, 1 << 20);
/// let mut pairs = folder.sorter();
/// for (a, b) in [(7, 1), (2, 9), (7, 0)] {
///     pairs.push(a, b)?;
/// }
/// let mut names = folder.sorter();
/// names.push(7, 70)?;
/// let (pairs, names, mut found) = (pairs.finish()?, names.finish()?, Vec::new());
/// pairs.merge_join(&names, |b, name| {
///     found.push((b, name));
///     Ok::<_, zvf_error::Error>(())
/// })?;
/// assert_eq!((pairs.len(), found), (3, vec![(0, 70), (1, 70)]));
/// # Ok::<(), zvf_error::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct SpillFolder {
    inner: Arc<SpillFiles>,
    memory: u64,
}

#[derive(Debug)]
struct SpillFiles {
    parent: PathBuf,
    folder: OnceLock<Folder>,
    next: AtomicUsize, // the number of the next file
}

/// A folder that is removed when this is dropped.
#[derive(Debug)]
struct Folder {
    path: PathBuf,
    _lock: File, // held as long as the folder is in use
}

impl SpillFolder {
    /// Returns a folder below `parent`, or below that for temporary files, created on demand; each
    /// of the few concurrent lists of pairs keeps about `memory` bytes in memory.
    #[must_use]
    pub fn new(parent: Option<PathBuf>, memory: u64) -> Self {
        let parent = parent.unwrap_or_else(std::env::temp_dir);
        let inner = SpillFiles { parent, folder: OnceLock::new(), next: AtomicUsize::new(0) };
        Self { inner: Arc::new(inner), memory }
    }

    /// Returns the approximate memory of a list, in bytes.
    pub(crate) const fn memory(&self) -> u64 {
        self.memory
    }

    /// Returns the folder.
    pub(crate) fn folder(&self) -> Result<&Path> {
        let folder = match self.inner.folder.get() {
            Some(folder) => folder,
            None => {
                let made = Folder::make(&self.inner.parent).map_err(Error::scratch)?;
                self.inner.folder.get_or_init(|| made)
            }
        };
        Ok(&folder.path)
    }

    /// Returns the path of the next file, or the prefix of the names of the next files.
    pub(crate) fn next_path(&self, what: &str) -> Result<PathBuf> {
        let number = self.inner.next.fetch_add(1, Ordering::Relaxed);
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
        let scratch = SpillFolder::new(Some(parent.path().to_owned()), 0);
        let paths = [0, 1].map(|_| scratch.next_path("a").unwrap());
        assert!(paths[0].ends_with("a-0") && paths[1].ends_with("a-1") && !paths[0].exists());
        let folder = scratch.folder().unwrap();
        assert_eq!((dead_dir.exists(), live.path.exists(), folder.exists()), (false, true, true));
        drop((live, scratch));
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }
}
