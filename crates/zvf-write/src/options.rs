//! Options for writing: memory, scratch space, vertices outside the bounds, compatibility.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use zvf_store::BuildOptions;

use crate::stop::StopFlag;

/// Options for writing.
///
/// ```
/// use zvf_write::{Outside, WriteOptions};
///
/// let options = WriteOptions { memory: 64 << 20, outside: Outside::Expand, ..WriteOptions::default() };
/// assert!(!options.compat);
/// ```
#[derive(Clone, Debug)]
pub struct WriteOptions {
    /// Approximate limit of the bytes in memory, of whatever kind; the rest is spilled to the
    /// scratch folder. Default: 512 MiB.
    pub memory: u64,
    /// The scratch folder; by default below the folder for temporary files.
    pub scratch: Option<PathBuf>,
    /// What to do with vertices outside the declared bounds.
    pub outside: Outside,
    /// Write cells exactly as the reference implementation does: no owner column, link rows in
    /// input order, no checksums of indexes, one object per cell.
    pub compat: bool,
    /// Leave out what viewers and tools of zarr-vectors expect, and no reader needs: the columns
    /// `vertex_count` of objects and `segment_id` of fragments, and the marker of skeletons.
    pub plain: bool,
    /// Write manifests as numbers (0.9.4), which released versions of zarr-vectors do not read.
    pub dense: bool,
    /// Once it is set, writing ends with an error: a push that spills stops at the next row, and
    /// [`Writer::finish`](crate::Writer::finish) at the next chunk.
    pub stop: Option<Arc<AtomicBool>>,
    /// Options of the build.
    pub build: BuildOptions,
}

impl WriteOptions {
    /// Returns whether the columns that viewers and tools expect are written.
    pub(crate) const fn keeps_columns(&self) -> bool {
        !self.plain && !self.compat
    }

    /// Returns the flag that long loops check.
    pub(crate) fn stop_flag(&self) -> StopFlag {
        StopFlag::new(self.stop.clone())
    }
}

impl Default for WriteOptions {
    fn default() -> Self {
        let (memory, scratch) = (512 << 20, None);
        let outside = Outside::Raise;
        let build = BuildOptions::default();
        let (compat, plain, dense) = (false, false, false);
        Self { memory, scratch, outside, compat, plain, dense, stop: None, build }
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
    /// Drop the vertex and its attributes. Only for point clouds: a chain or a mesh would get a
    /// hole, so such a batch is refused.
    Ignore,
    /// Extend the bounds.
    Expand,
}
