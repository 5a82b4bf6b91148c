//! The size of levels: vertices and stored bytes.

use zvf_error::Result;
use zvf_store::Store;

use crate::error::unsupported_error;

/// The size of a level or of one kind of it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Size {
    pub(crate) vertices: u64,
    pub(crate) bytes: u64,
}

impl Size {
    /// Returns the sum. Counts of a damaged store may overflow; then the plan has the largest
    /// number.
    pub(crate) fn sum<'a>(all: impl IntoIterator<Item = &'a Self>) -> Self {
        all.into_iter().fold(Self::default(), |sum, size| Self {
            vertices: sum.vertices.saturating_add(size.vertices),
            bytes: sum.bytes.saturating_add(size.bytes),
        })
    }
}

/// Returns how many bytes are stored below `path`: those of a level, or of a kind in a level.
pub(crate) async fn count_stored_bytes(store: &Store, path: &str) -> Result<u64> {
    let objects = store.nodes().objects(path).await?;
    let sum = objects.iter().try_fold(0_u64, |sum, (_, bytes)| sum.checked_add(*bytes));
    sum.ok_or_else(|| unsupported_error("bytes of what is stored", "fewer than 2^64", "more"))
}
