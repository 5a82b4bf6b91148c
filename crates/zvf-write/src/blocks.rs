//! Sorts blocks of bytes by two numbers each, in bounded memory.
//!
//! ```text
//! held      blocks as they came, and beside them where each is
//! a run     blocks in order: two numbers | length, u64 each | bytes         once memory is full
//! merge     the runs side by side; so many of them become one before there are more
//! ```
//!
//! Not here: the meaning of the numbers and bytes.

use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{BufReader, Read as _};
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use zvf_error::{Error, Result};
use zvf_format::num::{index_u32, saturating_usize, to_u64, usize_from_u32};

use crate::error::task_error;
use crate::spill_folder::SpillFolder;
use crate::stages::{Output, Runs, open};
use crate::stop::StopFlag;

/// Accepts blocks in any order.
///
/// ```
/// use zvf_write::{Block, SpillFolder};
///
/// let mut sorter = SpillFolder::new(None, 1 << 20).block_sorter();
/// sorter.push((7, 1), &[b"b"])?;
/// sorter.push((7, 0), &[b"a", b"a"])?;
/// let mut blocks = sorter.finish()?;
/// assert_eq!(blocks.next()?, Some(Block { key: (7, 0), bytes: b"aa" }));
/// assert_eq!(blocks.next()?, Some(Block { key: (7, 1), bytes: b"b" }));
/// assert_eq!(blocks.next()?, None);
/// # Ok::<(), zvf_error::Error>(())
/// ```
#[derive(Debug)]
pub struct BlockSorter {
    folder: SpillFolder,
    bytes: Vec<u8>,
    held: Vec<BlockEntry>,
    runs: Runs,
}

/// A block and its sort key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block<'a> {
    /// The sort key.
    pub key: (u64, u64),
    /// The bytes.
    pub bytes: &'a [u8],
}

/// Sorted blocks.
#[derive(Debug)]
pub struct Blocks(Source);

#[derive(Debug)]
enum Source {
    Memory { bytes: Vec<u8>, held: Vec<BlockEntry>, next: usize },
    Files { merge: Merge, _runs: Runs, _folder: SpillFolder },
}

/// A block in memory: its key and its location.
#[derive(Clone, Copy, Debug)]
struct BlockEntry {
    key: (u64, u64),
    start: u32,
    length: u32,
}

impl SpillFolder {
    /// Returns an empty list of blocks.
    #[must_use]
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
        let full = to_u64(self.bytes.len() + length + self.held.len() * size_of::<BlockEntry>());
        if full > self.folder.memory().min(max) && !self.held.is_empty() {
            self.spill()?;
        }
        // Neither is above `MAX_BLOCK`.
        let (start, length) = (index_u32(self.bytes.len()), index_u32(length));
        self.held.push(BlockEntry { key, start, length });
        parts.iter().for_each(|part| self.bytes.extend_from_slice(part));
        Ok(())
    }

    /// Sorts the blocks.
    ///
    /// # Errors
    ///
    /// When the scratch folder fails.
    pub fn finish(mut self) -> Result<Blocks> {
        if self.runs.0.is_empty() {
            self.held.par_sort_by_key(|held| held.key);
            return Ok(Blocks(Source::Memory { bytes: self.bytes, held: self.held, next: 0 }));
        }
        self.spill()?;
        let Self { folder, runs, .. } = self;
        Ok(Blocks(Source::Files { merge: Merge::open(&runs.0)?, _runs: runs, _folder: folder }))
    }

    fn spill(&mut self) -> Result<()> {
        self.held.par_sort_by_key(|held| held.key);
        let held = (std::mem::take(&mut self.bytes), std::mem::take(&mut self.held));
        let run = self.write(Blocks(Source::Memory { bytes: held.0, held: held.1, next: 0 }))?;
        self.runs.0.push(run);
        if self.runs.0.len() < MAX_RUNS {
            return Ok(());
        }
        let runs = std::mem::take(&mut self.runs);
        let merge = Merge::open(&runs.0)?;
        let (_runs, _folder) = (runs, self.folder.clone());
        let run = self.write(Blocks(Source::Files { merge, _runs, _folder }))?;
        self.runs.0.push(run);
        Ok(())
    }

    /// Writes a run of sorted blocks, and returns its file.
    fn write(&self, mut blocks: Blocks) -> Result<PathBuf> {
        let path = self.folder.next_path("blocks")?;
        let mut out = Output::create(path.clone(), &StopFlag::default())?;
        while let Some(Block { key, bytes }) = blocks.next()? {
            for word in [key.0, key.1, to_u64(bytes.len())] {
                out.write(&word.to_le_bytes())?;
            }
            out.write(bytes)?;
        }
        out.finish()?;
        Ok(path)
    }
}

impl BlockEntry {
    fn block(self, bytes: &[u8]) -> Block<'_> {
        let start = usize_from_u32(self.start);
        Block { key: self.key, bytes: &bytes[start..start + usize_from_u32(self.length)] }
    }
}

impl Blocks {
    /// Returns the next block and its key; blocks with the same key keep their input order.
    ///
    /// # Errors
    ///
    /// When the scratch folder fails.
    #[expect(clippy::should_implement_trait, reason = "the block is lent until the next call")]
    pub fn next(&mut self) -> Result<Option<Block<'_>>> {
        match &mut self.0 {
            Source::Files { merge, .. } => merge.next(),
            Source::Memory { bytes, held, next } => {
                let found = held.get(*next).map(|held| held.block(bytes));
                *next += 1;
                Ok(found)
            }
        }
    }
}

/// Runs that are read in parallel.
#[derive(Debug)]
struct Merge {
    runs: Vec<RunReader>,
    // The first is the smallest; runs with the same key keep their order.
    heads: BinaryHeap<std::cmp::Reverse<((u64, u64), usize)>>,
    last: Option<usize>, // the run whose block was lent
}

#[derive(Debug)]
struct RunReader {
    file: BufReader<File>,
    unread_bytes: u64,
    block: Vec<u8>,
}

impl Merge {
    fn open(paths: &[PathBuf]) -> Result<Self> {
        let runs: Vec<RunReader> =
            paths.iter().map(|path| RunReader::open(path)).collect::<Result<_, _>>()?;
        let mut merge = Self { runs, heads: BinaryHeap::new(), last: None };
        for number in 0..merge.runs.len() {
            merge.advance(number)?;
        }
        Ok(merge)
    }

    fn advance(&mut self, number: usize) -> Result<()> {
        if let Some(key) = self.runs[number].read()? {
            self.heads.push(std::cmp::Reverse((key, number)));
        }
        Ok(())
    }

    fn next(&mut self) -> Result<Option<Block<'_>>> {
        if let Some(last) = self.last.take() {
            self.advance(last)?;
        }
        let Some(std::cmp::Reverse((key, number))) = self.heads.pop() else { return Ok(None) };
        self.last = Some(number);
        Ok(Some(Block { key, bytes: &self.runs[number].block }))
    }
}

impl RunReader {
    fn open(path: &Path) -> Result<Self> {
        let file = open(path)?;
        let unread_bytes = file.metadata().map_err(Error::scratch)?.len();
        Ok(Self { file: BufReader::with_capacity(BUFFER, file), unread_bytes, block: Vec::new() })
    }

    /// Reads the next block; returns its key, if there is one.
    fn read(&mut self) -> Result<Option<(u64, u64)>> {
        if self.unread_bytes == 0 {
            return Ok(None);
        }
        let mut front = [[0; 8]; 3];
        self.file.read_exact(front.as_flattened_mut()).map_err(Error::scratch)?;
        let [a, b, length] = front.map(u64::from_le_bytes);
        let after_front = self.unread_bytes.saturating_sub(24); // 0 if the file grew since
        let limit = after_front.min(MAX_BLOCK.into());
        if length > limit {
            return Err(task_error(
                "blocks in the scratch folder",
                format!("a block of at most {limit} bytes"),
                length.to_string(),
            ));
        }
        self.unread_bytes = after_front - length;
        self.block.resize(saturating_usize(length), 0);
        self.file.read_exact(&mut self.block).map_err(Error::scratch)?;
        Ok(Some((a, b)))
    }
}

/// Maximum bytes of a block, and of the blocks in memory.
const MAX_BLOCK: u32 = (1 << 31) - 1;
/// Maximum number of runs that are merged at once.
const MAX_RUNS: usize = 128;
const BUFFER: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use std::fs;

    use proptest::prelude::*;

    use super::*;

    fn collect_blocks(mut blocks: Blocks) -> Vec<((u64, u64), Vec<u8>)> {
        let mut found = Vec::new();
        while let Some(Block { key, bytes }) = blocks.next().unwrap() {
            found.push((key, bytes.to_vec()));
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
            let error = Merge::open(std::slice::from_ref(&run)).unwrap_err();
            let expected = "expected a block of at most 8 bytes";
            let message = format!("blocks in the scratch folder: {expected}, found {length}");
            assert_eq!(error.sentence(), message);
        }
    }
}
