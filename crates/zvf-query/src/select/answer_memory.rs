//! Memory for a column of an answer.
//!
//! A large column lies in huge pages where the system has them for whoever asks. With small pages, a column of 100 MB takes 25 000
//! page faults, which cost several times what it takes to copy the rows.

use bytes::Bytes;

/// Memory of zeros that is filled and becomes bytes.
#[derive(Debug)]
pub(crate) enum AnswerMemory {
    Heap(Vec<u8>),
    #[cfg(target_os = "linux")]
    HugePages(memmap2::MmapMut),
}

impl AnswerMemory {
    pub(crate) fn zeroed(len: usize) -> Self {
        #[cfg(target_os = "linux")]
        if len >= MIN_HUGE_BYTES
            && let Ok(map) = memmap2::MmapMut::map_anon(len)
            && map.advise(memmap2::Advice::HugePage).is_ok()
        {
            return Self::HugePages(map);
        }
        Self::Heap(vec![0; len])
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        match self {
            Self::Heap(bytes) => bytes,
            #[cfg(target_os = "linux")]
            Self::HugePages(map) => map,
        }
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        match self {
            Self::Heap(bytes) => bytes,
            #[cfg(target_os = "linux")]
            Self::HugePages(map) => map,
        }
    }

    /// Grows to `len` bytes; the first ones stay, the others are zeros.
    pub(crate) fn grow(&mut self, len: usize) {
        if let Self::Heap(bytes) = self {
            bytes.resize(len.max(bytes.len()), 0);
        } else if len > self.as_slice().len() {
            let mut larger = Vec::with_capacity(len);
            larger.extend_from_slice(self.as_slice());
            larger.resize(len, 0);
            *self = Self::Heap(larger);
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

/// From so many bytes on, huge pages are asked for: two of them.
#[cfg(target_os = "linux")]
const MIN_HUGE_BYTES: usize = 4 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_zeroed_grows_and_becomes_bytes() {
        for len in [0, 5, (4 << 20) - 1, 4 << 20, (4 << 20) + 3] {
            let mut memory = AnswerMemory::zeroed(len);
            assert_eq!(memory.as_slice().len(), len);
            assert!(memory.as_slice().iter().all(|byte| *byte == 0));
            memory.as_mut_slice().fill(7);
            memory.grow(len / 2);
            assert_eq!(memory.as_slice().len(), len);
            memory.grow(len + 9);
            let bytes = memory.into_bytes(len + 2);
            assert_eq!(bytes.len(), len + 2);
            assert!(bytes.iter().take(len).all(|byte| *byte == 7) && bytes.ends_with(&[0, 0]));
        }
        let large = AnswerMemory::zeroed(5 << 20).into_bytes(3);
        assert_eq!(large, vec![0; 3]);
        assert_eq!(AnswerMemory::zeroed(2).into_bytes(2), vec![0; 2]);
    }
}
