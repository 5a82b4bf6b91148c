//! Sorts blocks of bytes by two numbers each, in bounded memory.
//!
//! ```text
//! held      blocks as they came, and beside them where each is
//! a run     blocks in order: two numbers | length, u64 each | bytes         once memory is full
//! merge     the runs side by side; so many of them become one before there are more
//! ```
//!
//! Not here: the meaning of the numbers and bytes.

use std::mem;

use zvf_error::{Error, Result};
use zvf_format::num::{index_u32, to_u64};

use crate::spill_folder::SpillFolder;
use crate::stages::{BLOCK_KEY, KWayMerge, MAX_BLOCK, Output, Runs, number_u64, sort_key_u64};
use crate::stop::StopFlag;

/// Accepts blocks in any order.
///
/// ```
/// use zvf_write::{SortedBlock, SpillFolder};
///
/// let mut sorter = SpillFolder::new(None, 1 << 20).block_sorter();
/// sorter.push((7, 1), &[b"b"])?;
/// sorter.push((7, 0), &[b"a", b"a"])?;
/// let mut blocks = sorter.finish()?;
/// assert_eq!(blocks.head(), Some(SortedBlock { key: (7, 0), bytes: b"aa" }));
/// blocks.advance()?;
/// assert_eq!(blocks.head(), Some(SortedBlock { key: (7, 1), bytes: b"b" }));
/// blocks.advance()?;
/// assert_eq!(blocks.head(), None);
/// # Ok::<(), zvf_error::Error>(())
/// ```
#[derive(Debug)]
pub struct BlockSorter {
    folder: SpillFolder,
    bytes: Vec<u8>,      // of blocks, each with its key before it
    held: Vec<[u32; 2]>, // where each starts, and its length
    runs: Runs,
}

/// A block and its sort key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SortedBlock<'a> {
    /// The sort key.
    pub key: (u64, u64),
    /// The bytes.
    pub bytes: &'a [u8],
}

/// Sorted blocks.
#[derive(Debug)]
pub struct SortedBlocks {
    merge: KWayMerge,
    _runs: Runs,
    _folder: SpillFolder,
}

impl SpillFolder {
    /// Returns an empty list of blocks.
    pub fn block_sorter(&self) -> BlockSorter {
        let (folder, runs) = (self.clone(), Runs::default());
        BlockSorter { folder, bytes: Vec::new(), held: Vec::new(), runs }
    }
}

impl BlockSorter {
    /// Adds the block that consists of these parts.
    ///
    /// # Errors
    ///
    /// `TooMuch` for a block of 2^31 bytes or more, and when the scratch folder fails.
    pub fn push(&mut self, key: (u64, u64), parts: &[&[u8]]) -> Result<()> {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        let (max, found) = (u64::from(MAX_BLOCK), to_u64(length));
        if found > max {
            return Err(Error::limit("bytes of a block", max, found));
        }
        let length = BLOCK_KEY + length;
        let full = to_u64(self.bytes.len() + length + self.held.len() * size_of::<[u32; 2]>());
        if full > self.folder.memory().min(max) && !self.held.is_empty() {
            self.spill()?;
        }
        // Neither is above `MAX_BLOCK` and a key.
        self.held.push([self.bytes.len(), length].map(index_u32));
        let key = [key.0, key.1].map(sort_key_u64);
        self.bytes.extend_from_slice(key.as_flattened());
        parts.iter().for_each(|part| self.bytes.extend_from_slice(part));
        Ok(())
    }

    /// Sorts the blocks.
    ///
    /// # Errors
    ///
    /// When the scratch folder fails.
    pub fn finish(mut self) -> Result<SortedBlocks> {
        let merge = if self.runs.0.is_empty() {
            self.sort_held()
        } else {
            self.spill()?;
            KWayMerge::open_blocks(&self.runs.0)?
        };
        Ok(SortedBlocks { merge, _runs: self.runs, _folder: self.folder })
    }

    fn sort_held(&mut self) -> KWayMerge {
        KWayMerge::hold_blocks(mem::take(&mut self.bytes), mem::take(&mut self.held))
    }

    fn spill(&mut self) -> Result<()> {
        let held = self.sort_held();
        self.write(held)?;
        if self.runs.0.len() < MAX_RUNS {
            return Ok(());
        }
        let runs = mem::take(&mut self.runs);
        self.write(KWayMerge::open_blocks(&runs.0)?)
    }

    /// Writes a run of sorted blocks.
    fn write(&mut self, mut blocks: KWayMerge) -> Result<()> {
        let path = self.folder.next_path("blocks")?;
        let mut out = Output::create(path.clone(), &StopFlag::default())?;
        while let Some((key, bytes)) = blocks.head().map(|block| block.split_at(BLOCK_KEY)) {
            for part in [key, &to_u64(bytes.len()).to_le_bytes(), bytes] {
                out.write(part)?;
            }
            blocks.advance()?;
        }
        out.finish()?;
        self.runs.0.push(path);
        Ok(())
    }
}

impl SortedBlocks {
    /// Returns the first remaining block; blocks with the same key keep their input order.
    pub fn head(&self) -> Option<SortedBlock<'_>> {
        let (key, bytes) = self.merge.head()?.split_at(BLOCK_KEY);
        Some(SortedBlock { key: (number_u64(key), number_u64(&key[8..])), bytes })
    }

    /// Moves on to the next block.
    ///
    /// # Errors
    ///
    /// When the scratch folder fails.
    pub fn advance(&mut self) -> Result<()> {
        self.merge.advance()
    }
}

/// Maximum number of runs that are merged at once.
const MAX_RUNS: usize = 128;

#[cfg(test)]
mod tests {
    use std::fs;

    use proptest::prelude::*;

    use super::*;

    fn collect_blocks(mut blocks: SortedBlocks) -> Vec<((u64, u64), Vec<u8>)> {
        let mut found = Vec::new();
        while let Some(SortedBlock { key, bytes }) = blocks.head() {
            found.push((key, bytes.to_vec()));
            blocks.advance().unwrap();
        }
        found
    }

    fn sort_blocks(memory: u64, input: &[((u64, u64), Vec<u8>)]) -> Vec<((u64, u64), Vec<u8>)> {
        let mut sorter = SpillFolder::new(None, memory).block_sorter();
        for (key, block) in input {
            let (front, tail) = block.split_at(block.len() / 2);
            sorter.push(*key, &[front, tail]).unwrap();
        }
        collect_blocks(sorter.finish().unwrap())
    }

    proptest! {
        #[test]
        fn sorting_in_memory_and_on_disk_is_the_same(
            input in prop::collection::vec(
                ((0_u64..40, 0_u64..3), prop::collection::vec(any::<u8>(), 0..20)), 0..400),
        ) {
            let mut expected = input.clone();
            expected.sort_by_key(|(key, _)| *key);
            // One run per block, so that runs are merged before the end; a few runs; no run.
            for memory in [1, 1 << 12, 1 << 20] {
                prop_assert_eq!(&sort_blocks(memory, &input), &expected);
            }
        }
    }

    #[test]
    fn the_folder_is_removed() {
        let parent = tempfile::tempdir().unwrap();
        let folder = SpillFolder::new(Some(parent.path().to_owned()), 1);
        let mut sorter = folder.block_sorter();
        for n in 0..300 {
            sorter.push((n % 7, n), &[&[1; 9]]).unwrap();
        }
        let blocks = sorter.finish().unwrap();
        let scratch = fs::read_dir(parent.path()).unwrap().next().unwrap().unwrap().path();
        // The lock, and fewer runs than blocks.
        assert!(fs::read_dir(&scratch).unwrap().count() <= MAX_RUNS);
        drop((blocks, folder));
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_block_longer_than_its_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let run = folder.path().join("run");
        for length in [9, u64::from(MAX_BLOCK) + 1, u64::MAX] {
            fs::write(&run, [1, 2, length, 3].map(u64::to_le_bytes).concat()).unwrap();
            let error = KWayMerge::open_blocks(std::slice::from_ref(&run)).unwrap_err();
            let expected = "expected a block of at most 8 bytes";
            let message = format!("blocks in the scratch folder: {expected}, found {length}");
            assert_eq!(error.sentence(), message);
        }
    }
}
