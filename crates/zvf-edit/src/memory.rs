//! The memory of edits: what transactions keep of vertices, objects and links is counted, and
//! refused above a limit.
//!
//! Not here: bytes of chunks. Those that wait for a commit lie in a scratch file (`changes`).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use zvf_format::Class;
use zvf_format::num::to_u64;

use crate::error::{Result, fail};

/// A limit on what all holders keep together; clones share it.
#[derive(Clone, Debug)]
pub(crate) struct MemoryLimit {
    bytes: u64,
    held: Arc<AtomicU64>,
}

impl MemoryLimit {
    pub(crate) fn new(bytes: u64) -> Self {
        Self { bytes, held: Arc::default() }
    }
}

/// The memory of one holder. A clone counts the same bytes again; a dropped holder releases its bytes.
#[derive(Debug)]
pub(crate) struct HeldMemory {
    limit: MemoryLimit,
    bytes: u64,
}

impl HeldMemory {
    pub(crate) fn new(limit: &MemoryLimit) -> Self {
        Self { limit: limit.clone(), bytes: 0 }
    }

    pub(crate) fn limit(&self) -> &MemoryLimit {
        &self.limit
    }

    /// Counts bytes that are kept from now on.
    ///
    /// # Errors
    ///
    /// When all holders together keep more than the limit.
    pub(crate) fn add(&mut self, bytes: usize) -> Result<()> {
        let bytes = to_u64(bytes);
        self.bytes += bytes;
        let held = self.limit.held.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if held <= self.limit.bytes {
            return Ok(());
        }
        let text = format!(
            "vertices, objects and links of one edit: expected at most {} bytes, found {held}; \
             raise the limit, or edit fewer at once, such as those in a box",
            self.limit.bytes
        );
        fail(Class::LimitExceeded, text)
    }

    /// Counts bytes that are kept no longer.
    pub(crate) fn release(&mut self, bytes: usize) {
        self.bytes -= to_u64(bytes);
        self.limit.held.fetch_sub(to_u64(bytes), Ordering::Relaxed);
    }
}

impl Clone for HeldMemory {
    fn clone(&self) -> Self {
        self.limit.held.fetch_add(self.bytes, Ordering::Relaxed);
        Self { limit: self.limit.clone(), bytes: self.bytes }
    }
}

impl Drop for HeldMemory {
    fn drop(&mut self) {
        self.limit.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
