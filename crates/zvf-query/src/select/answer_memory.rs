//! Memory for a column of an answer.
//!
//! A large column is in huge pages if the system provides them on request. In pages of 4 KiB, a
//! column of 100 MB takes 25 000 page faults, which take several times as long as copying the rows.
//!
//! Memory is reserved for as many rows as the fragment indexes claim. Until rows are written, it is
//! only a range of addresses: a false claim takes no memory. On the heap, which may touch reserved
//! memory, the column grows instead.

use bytes::Bytes;

/// Memory that is filled from its start and becomes `Bytes`.
pub(crate) enum AnswerMemory {
    Heap(Vec<u8>),
    #[cfg(target_os = "linux")]
    HugePages(memmap2::MmapMut),
}

impl AnswerMemory {
    /// Reserves memory for `len` bytes.
    pub(crate) fn reserve(len: usize) -> Self {
        #[cfg(target_os = "linux")]
        if len >= MIN_HUGE_BYTES
            && let Ok(map) = memmap2::MmapMut::map_anon(len)
            && map.advise(memmap2::Advice::HugePage).is_ok()
        {
            return Self::HugePages(map);
        }
        Self::Heap(Vec::with_capacity(len.min(MAX_UNUSED_HEAP_BYTES)))
    }

    /// Returns the bytes from `start` to `end` for writing. Earlier bytes are kept.
    pub(crate) fn slice_to_fill(&mut self, start: usize, end: usize) -> Option<&mut [u8]> {
        match self {
            Self::Heap(bytes) => {
                bytes.resize(end.max(bytes.len()), 0);
                bytes.get_mut(start..end)
            }
            #[cfg(target_os = "linux")]
            Self::HugePages(map) => map.get_mut(start..end),
        }
    }

    /// Returns the first `len` bytes.
    pub(crate) fn into_bytes(self, len: usize) -> Bytes {
        match self {
            Self::Heap(mut bytes) => {
                bytes.truncate(len);
                Bytes::from(bytes)
            }
            #[cfg(target_os = "linux")]
            Self::HugePages(map) => {
                let len = len.min(map.len());
                Bytes::from_owner(map).slice(..len)
            }
        }
    }
}

/// Minimum size of a column in huge pages. The allocator reuses smaller blocks, whose pages already
/// exist.
#[cfg(target_os = "linux")]
const MIN_HUGE_BYTES: usize = 32 << 20;
/// Maximum size of heap memory that is reserved before it is known to be needed.
const MAX_UNUSED_HEAP_BYTES: usize = 32 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_filled_in_parts_and_becomes_bytes() {
        for reserved in [0, 5, (32 << 20) - 1, 32 << 20, (32 << 20) + 3] {
            let mut memory = AnswerMemory::reserve(reserved);
            memory.slice_to_fill(0, 2).unwrap_or_default().fill(7);
            let filled = memory.slice_to_fill(2, 5).map(|bytes| {
                assert_eq!(bytes, [0; 3]);
                bytes.fill(8);
            });
            assert!(filled.is_some(), "{reserved}");
            assert_eq!(memory.into_bytes(4)[..], [7, 7, 8, 8], "{reserved}");
        }
    }

    #[test]
    fn more_than_was_reserved_fits_on_the_heap_only() {
        let mut small = AnswerMemory::reserve(1);
        assert!(small.slice_to_fill(0, 9).is_some());
        let mut large = AnswerMemory::reserve(64 << 20);
        let is_heap = matches!(large, AnswerMemory::Heap(_));
        assert_eq!(large.slice_to_fill(0, (64 << 20) + 1).is_some(), is_heap);
    }
}
