//! How to write: memory, scratch space, strays, and whom to please.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use zvf_store::BuildOptions;

use crate::stop::StopFlag;

/// How to write.
///
/// ```
/// use zvf_write::{Outside, WriteOptions};
///
/// let options = WriteOptions { memory: 64 << 20, outside: Outside::Expand, ..WriteOptions::default() };
/// assert!(!options.compat);
/// ```
#[derive(Clone, Debug)]
pub struct WriteOptions {
    /// About how many bytes may be held, of whatever kind; more are put aside in the scratch folder.
    /// 512 MiB.
    pub memory: u64,
    /// Where they are put aside; without, in the folder for temporary files.
    pub scratch: Option<PathBuf>,
    /// What to do with vertices outside the declared bounds.
    pub outside: Outside,
    /// Write cells exactly as the reference implementation does: no owner column, link rows in the
    /// order they were given, no checksums of indexes, one object for each cell.
    pub compat: bool,
    /// Once it is set, writing ends with an error: a push that puts rows aside at the next of them, and
    /// [`Writer::finish`](crate::Writer::finish) at the next chunk.
    pub stop: Option<Arc<AtomicBool>>,
    /// How the store is made.
    pub build: BuildOptions,
}

impl WriteOptions {
    /// Returns what long loops check.
    pub(crate) fn stop_flag(&self) -> StopFlag {
        StopFlag::new(self.stop.clone())
    }
}

impl Default for WriteOptions {
    fn default() -> Self {
        let (memory, scratch) = (512 << 20, None);
        let outside = Outside::Raise;
        let build = BuildOptions::default();
        Self { memory, scratch, outside, compat: false, stop: None, build }
    }
}

/// What to do with vertices outside the declared bounds.
///
/// ```
/// assert_eq!(zvf_write::Outside::default(), zvf_write::Outside::Raise);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outside {
    /// Refuse the batch.
    #[default]
    Raise,
    /// Leave the vertex out, and with it what is said of it. For point clouds only: a chain or a mesh
    /// with a hole in it is not what was given, and such a batch is refused.
    Ignore,
    /// Let the bounds grow.
    Expand,
}
