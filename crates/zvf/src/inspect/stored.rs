//! What lies in the backend: how many objects, and their bytes.

use serde::Serialize;

/// What lies in the backend.
///
/// ```
/// let stored = zvf::inspect::Stored::default();
/// assert_eq!((stored.objects, stored.bytes), (0, 0));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stored {
    /// Objects, or files.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Stored {
    pub(super) fn add(&mut self, bytes: u64) {
        self.objects += 1;
        self.bytes += bytes;
    }
}
