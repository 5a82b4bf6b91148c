//! The folder for data that does not fit in memory: sorted lists and slices of the input.
//!
//! It is removed at the end. A folder that a killed process left is recognised by its name and its
//! released lock, and removed by the next run.
//!
//! Not here: the files in it (`stages`).

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use zvf_error::{Error, Result};
use zvf_publish::{Disk, PublishError, ScratchDir, remove_leftovers};

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
    folder: OnceLock<ScratchDir>,
    next: AtomicUsize, // the number of the next file
}

impl SpillFolder {
    /// Returns a folder below `parent`, or below that for temporary files, created on demand; each
    /// of the few concurrent lists of pairs keeps about `memory` bytes in memory.
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
                let made = make(&self.inner.parent)?;
                self.inner.folder.get_or_init(|| made)
            }
        };
        Ok(folder.path())
    }

    /// Returns the path of the next file, or the prefix of the names of the next files.
    pub(crate) fn next_path(&self, what: &str) -> Result<PathBuf> {
        let number = self.inner.next.fetch_add(1, Ordering::Relaxed);
        Ok(self.folder()?.join(format!("{what}-{number}")))
    }
}

/// Creates a folder below `parent`, and removes those of ended processes.
fn make(parent: &Path) -> Result<ScratchDir> {
    fs::create_dir_all(parent).map_err(Error::scratch)?;
    let (disk, target) = (Disk::default(), parent.join(NAME));
    // A folder that cannot be removed, such as one of another user, does no harm.
    drop(remove_leftovers(&disk, &target));
    ScratchDir::create_next_to(&disk, &target).map_err(|error| {
        if let PublishError::Io(cause) = error { Error::scratch(cause) } else { error.into() }
    })
}

/// The folders are hidden siblings of this name, which nothing has.
const NAME: &str = "zvf-scratch";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unused_folders_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let dead_dir = parent.path().join(format!(".{NAME}.zvf-build-1"));
        fs::create_dir(&dead_dir).unwrap();
        fs::write(dead_dir.join("lock"), "").unwrap();
        fs::write(dead_dir.join("slice-0.rows"), "").unwrap();
        fs::create_dir(parent.path().join(format!(".{NAME}.zvf-build-2"))).unwrap();
        let live = make(parent.path()).unwrap();
        let scratch = SpillFolder::new(Some(parent.path().to_owned()), 0);
        let paths = [0, 1].map(|_| scratch.next_path("a").unwrap());
        assert!(paths[0].ends_with("a-0") && paths[1].ends_with("a-1") && !paths[0].exists());
        let folder = scratch.folder().unwrap();
        assert_eq!((dead_dir.exists(), live.path().exists(), folder.exists()), (false, true, true));
        drop((live, scratch));
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }
}
