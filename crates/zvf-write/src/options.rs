//! How to write: memory, scratch space, strays, and whom to please.

use std::path::PathBuf;

use zvf_store::BuildOptions;

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
    /// About how many bytes of batches may be held; more are put aside in the scratch folder. 512 MiB.
    pub memory: u64,
    /// Where they are put aside; without, in the folder for temporary files.
    pub scratch: Option<PathBuf>,
    /// What to do with vertices outside the declared bounds.
    pub outside: Outside,
    /// Write cells exactly as the reference implementation does: no owner column, link rows in the
    /// order they were given.
    pub compat: bool,
    /// How the store is made.
    pub build: BuildOptions,
}

impl Default for WriteOptions {
    fn default() -> Self {
        let (memory, scratch) = (512 << 20, None);
        let outside = Outside::Raise;
        Self { memory, scratch, outside, compat: false, build: BuildOptions::default() }
    }
}

/// What to do with vertices outside the declared bounds.
///
/// ```
/// assert_eq!(zvf_write::Outside::default(), zvf_write::Outside::Raise);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Outside {
    /// Refuse the batch.
    #[default]
    Raise,
    /// Leave the vertex out, and with it what is said of it. For loose points only: a chain or a mesh
    /// with a hole in it is not what was given.
    Ignore,
    /// Let the bounds grow.
    Expand,
}
