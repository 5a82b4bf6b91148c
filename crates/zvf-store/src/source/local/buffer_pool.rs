//! A pool of buffers for reads of similar size: the page faults of fresh memory cost as much as
//! filling it.
//!
//! Only for bytes that are released soon, not for cached cells: the pool is not counted against the
//! budget.

use std::sync::{Arc, Mutex};

use crate::sync::lock;
use bytes::Bytes;
use zvf_format::num::saturating_usize;

/// The pool of one handle.
#[derive(Debug)]
pub(super) struct BufferPool {
    max_bytes: usize, // of all of them
    free: Mutex<FreeBuffers>,
}

#[derive(Debug, Default)]
struct FreeBuffers {
    buffers: Vec<Vec<u8>>, // in the order they came back
    bytes: usize,          // of all of them
}

/// A buffer that returns to the pool when its last reader is dropped.
pub(super) struct Spare {
    bytes: Vec<u8>, // all of them written before
    home: Arc<BufferPool>,
}

impl BufferPool {
    /// Returns a pool that keeps at most `max_bytes`, and no more than is useful.
    pub(super) fn new(max_bytes: u64) -> Self {
        Self { max_bytes: saturating_usize(max_bytes).min(MAX_SPARE_BYTES), free: Mutex::default() }
    }

    /// Returns a buffer of `len` bytes with arbitrary old content or zeros; `None` for sizes that
    /// are not pooled.
    pub(super) fn take(self: &Arc<Self>, len: usize) -> Option<Spare> {
        if !(MIN_POOLED_BYTES..=MAX_POOLED_BYTES.min(self.max_bytes)).contains(&len) {
            return None;
        }
        let mut free = lock(&self.free);
        let fits = |buffer: &Vec<u8>| (len..=len + len / 4).contains(&buffer.len());
        let bytes = match free.buffers.iter().rposition(fits) {
            Some(found) => {
                let bytes = free.buffers.swap_remove(found);
                free.bytes -= bytes.len();
                bytes
            }
            None => vec![0; len.next_multiple_of(SIZE_CLASS_BYTES)],
        };
        Some(Spare { bytes, home: Arc::clone(self) })
    }
}

impl Spare {
    /// Returns its first bytes, for reading into.
    pub(super) fn first_bytes(&mut self, len: usize) -> &mut [u8] {
        &mut self.bytes[..len]
    }

    /// Returns its first bytes after they were read.
    pub(super) fn into_bytes(self, len: usize) -> Bytes {
        let all = Bytes::from_owner(self);
        all.slice(..len)
    }
}

impl AsRef<[u8]> for Spare {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Spare {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        let mut free = lock(&self.home.free);
        let more = free.bytes + bytes.len();
        if more <= self.home.max_bytes {
            free.bytes = more;
            free.buffers.push(bytes);
        }
    }
}

/// Smaller reads use memory that the allocator caches.
const MIN_POOLED_BYTES: usize = 16 << 10;
/// Larger reads are rare.
const MAX_POOLED_BYTES: usize = 8 << 20;
/// Sizes are rounded up to this, so that reads of nearly the same size share buffers.
const SIZE_CLASS_BYTES: usize = 4 << 10;
/// Maximum pooled bytes per file.
const MAX_SPARE_BYTES: usize = 16 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reuses_released_buffers() {
        let buffer_pool = Arc::new(BufferPool::new(u64::MAX));
        for unpooled_len in [MIN_POOLED_BYTES - 1, MAX_POOLED_BYTES + 1] {
            assert!(buffer_pool.take(unpooled_len).is_none());
        }
        let mut spare = buffer_pool.take(20_000).unwrap();
        spare.first_bytes(3).copy_from_slice(b"abc");
        let bytes = spare.into_bytes(3);
        assert_eq!(bytes, b"abc"[..]);
        // A buffer with a reader is not reused.
        assert_eq!(buffer_pool.take(20_000).unwrap().as_ref()[..3], [0; 3]);
        drop(bytes);
        for (len, same) in [(9_000, false), (30_000, false), (16_500, true)] {
            let Some(buffer) = buffer_pool.take(len) else { continue };
            assert_eq!(buffer.as_ref().starts_with(b"abc"), same, "{len}");
        }
    }

    #[test]
    fn a_small_pool_leaves_large_reads_alone() {
        let small = Arc::new(BufferPool::new(100_000));
        assert!(small.take(100_001).is_none());
        drop([60_000, 60_000].map(|len| small.take(len).unwrap()));
        assert_eq!(small.free.lock().unwrap().buffers.len(), 1);
    }

    #[test]
    fn the_pool_keeps_at_most_its_limit() {
        let buffer_pool = Arc::new(BufferPool::new(u64::MAX));
        let buffers: Vec<Spare> =
            (0..6).map(|_| buffer_pool.take(MAX_POOLED_BYTES).unwrap()).collect();
        drop(buffers);
        let pooled = buffer_pool.free.lock().unwrap();
        assert_eq!(
            (pooled.buffers.len(), pooled.bytes),
            (MAX_SPARE_BYTES / MAX_POOLED_BYTES, MAX_SPARE_BYTES)
        );
    }
}
