//! The folder to which sorted lists spill.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use zvf_error::Result;

use crate::scratch::Scratch;

/// The location of spilled pairs.
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
    scratch: Arc<Scratch>,
    memory: u64,
    next: Arc<AtomicUsize>,
}

impl SpillFolder {
    /// Returns a folder below `parent`, or below that for temporary files, created on demand; each
    /// of the few concurrent lists of pairs keeps about `memory` bytes in memory.
    #[must_use]
    pub fn new(parent: Option<PathBuf>, memory: u64) -> Self {
        Self { scratch: Arc::new(Scratch::new(parent)), memory, next: Arc::default() }
    }

    /// Returns the approximate memory of a list, in bytes.
    pub(crate) const fn memory(&self) -> u64 {
        self.memory
    }

    /// Returns the path of the next file of a list.
    pub(crate) fn next_path(&self, what: &str) -> Result<PathBuf> {
        self.scratch.stem(what, self.next.fetch_add(1, Ordering::Relaxed))
    }
}
