//! How large levels are: vertices, and bytes where they are stored.

use zvf_error::Result;
use zvf_store::Store;

use crate::error::unsupported_error;

/// How large a level is, or one kind of it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Size {
    pub(crate) vertices: u64,
    pub(crate) bytes: u64,
}

impl Size {
    /// Returns both together. Counts that a damaged store states may not fit; then the plan has the largest number.
    pub(crate) const fn combine(self, other: Self) -> Self {
        Self {
            vertices: self.vertices.saturating_add(other.vertices),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }
}

/// Returns how many bytes lie below `path`: those of a level, or of a kind beside its own.
pub(crate) async fn count_stored_bytes(store: &Store, path: &str) -> Result<u64> {
    let objects = store.nodes().objects(path).await?;
    let sum = objects.iter().try_fold(0_u64, |sum, (_, bytes)| sum.checked_add(*bytes));
    sum.ok_or_else(|| unsupported_error("bytes of what is stored", "fewer than 2^64", "more"))
}
