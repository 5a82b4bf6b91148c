//! Sorts records of a fixed width by their bytes, in bounded memory.
//!
//! They stay in memory if that is the target. For a file, this is an external sort: data that does
//! not fit is sorted in runs, and a k-way merge reads the runs. Numbers are encoded so that byte
//! order is numeric order ([`sort_key`]).

use std::fs;
use std::io::{BufReader, Read, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use rayon::prelude::*;
use zvf_error::{Error, Result};
use zvf_format::num::{index_u32, saturating_usize, to_u64, usize_from_u32};

use super::file::{Output, WrittenFile, open, temporary_path};
use super::step_output::{StepOutput, Target, file};
use crate::error::task_error;
use crate::spill_folder::SpillFolder;
use crate::stop::StopFlag;

/// Accepts records in any order.
#[derive(Debug)]
pub(crate) struct ExternalSorter {
    place: Destination,
    width: usize,     // not 0
    max_bytes: usize, // that may be held
    held: Vec<u8>,
    runs: Runs,
    stop: StopFlag,
}

/// Where sorted records go.
#[derive(Debug)]
pub(crate) enum Destination {
    Memory,
    File(PathBuf),
    /// Memory, or a file in this folder if they do not fit.
    Spill(SpillFolder),
}

impl ExternalSorter {
    /// Returns a sorter of records of `width` bytes, with about `memory` bytes in memory unless all
    /// stay there. Once `stop` is set, it accepts no more.
    pub(crate) fn new(place: Destination, width: usize, memory: u64, stop: &StopFlag) -> Self {
        let width = width.max(1);
        let max_bytes = match place {
            Destination::Memory => usize::MAX,
            Destination::File(_) | Destination::Spill(_) => {
                // While records are sorted, each has its number beside it.
                let records = saturating_usize(memory) / (width + 4);
                let max_records = records.clamp(1024, usize_from_u32(u32::MAX));
                max_records.saturating_mul(width) // a limit
            }
        };
        let (held, runs, stop) = (Vec::new(), Runs::default(), stop.clone());
        Self { place, width, max_bytes, held, runs, stop }
    }

    /// Adds the record that consists of these parts.
    pub(crate) fn push(&mut self, parts: &[&[u8]]) -> Result<()> {
        self.stop.check()?;
        if self.held.is_empty() {
            self.held.reserve_exact(self.max_bytes.min(FIRST));
        } else if self.held.len() >= self.max_bytes {
            self.spill()?;
        } else if self.held.len() == self.held.capacity() {
            let room = self.max_bytes - self.held.len();
            self.held.reserve_exact(self.held.len().min(room));
        }
        for part in parts {
            self.held.extend_from_slice(part);
        }
        Ok(())
    }

    /// Returns the sorted records, and the record of their file.
    pub(crate) fn finish(mut self) -> Result<(StepOutput, Option<WrittenFile>)> {
        let path = match &self.place {
            Destination::File(path) => path.clone(),
            Destination::Spill(folder) if !self.runs.0.is_empty() => folder.next_path("sorted")?,
            Destination::Memory | Destination::Spill(_) => {
                let held = std::mem::take(&mut self.held);
                return Ok((StepOutput::Held(sort_records(held, self.width).into()), None));
            }
        };
        if self.runs.0.is_empty() {
            let written = self.write(path.clone())?;
            return Ok((StepOutput::File(path), Some(written)));
        }
        self.spill()?;
        self.held = Vec::new();
        let runs: Vec<StepOutput> = self.runs.0.iter().cloned().map(StepOutput::File).collect();
        let mut merge = KWayMerge::open(&runs, self.width, &self.stop)?;
        let mut out = Output::create(path.clone(), &self.stop)?;
        while let Some(record) = merge.head() {
            out.write(record)?;
            merge.advance()?;
        }
        Ok((StepOutput::File(path), Some(out.finish()?)))
    }

    fn spill(&mut self) -> Result<()> {
        let path = match &self.place {
            Destination::Memory => return Ok(()), // it holds all
            // Other processes, also on other machines, may sort the same records.
            Destination::File(path) => temporary_path(path),
            Destination::Spill(folder) => folder.next_path("run")?,
        };
        self.write(path.clone())?;
        self.runs.0.push(path);
        self.held.clear();
        Ok(())
    }

    fn write(&self, path: PathBuf) -> Result<WrittenFile> {
        let mut out = Output::create(path, &self.stop)?;
        sorted_records(&self.held, self.width).try_for_each(|record| out.write(record))?;
        out.finish()
    }
}

impl Target {
    /// Returns a sorter of records of `width` bytes; for a file, about `memory` bytes are kept in
    /// memory.
    pub(crate) fn sorter(
        &self,
        suffix: &str,
        width: usize,
        memory: u64,
        stop: &StopFlag,
    ) -> ExternalSorter {
        let place = match self {
            Self::Memory => Destination::Memory,
            Self::Files(stem) => Destination::File(file(stem, suffix)),
        };
        ExternalSorter::new(place, width, memory, stop)
    }
}

/// The files of sorted runs, which are removed when this is dropped.
#[derive(Debug, Default)]
pub(crate) struct Runs(pub(crate) Vec<PathBuf>);

impl Drop for Runs {
    fn drop(&mut self) {
        for run in &self.0 {
            let _swept_with_the_folder = fs::remove_file(run);
        }
    }
}

/// Sorts records of this width by their bytes, in place for common widths.
fn sort_records(mut records: Vec<u8>, width: usize) -> Vec<u8> {
    match width {
        8 => records.as_chunks_mut::<8>().0.par_sort_unstable(),
        // One number is compared faster than bytes.
        16 => records.as_chunks_mut::<16>().0.par_sort_unstable_by_key(|record| prefix(record)),
        32 => records.as_chunks_mut::<32>().0.par_sort_unstable(),
        _ => {
            let mut order: Vec<&[u8]> = records.chunks_exact(width).collect();
            order.par_sort_unstable();
            return order.concat();
        }
    }
    records
}

/// Iterates over records of this width, sorted by their bytes; their number fits in 32 bits.
fn sorted_records(records: &[u8], width: usize) -> impl Iterator<Item = &[u8]> {
    let record = move |number: usize| {
        let start = number * width;
        &records[start..start + width]
    };
    let mut order: Vec<u32> = (0..index_u32(records.len() / width)).collect();
    let place = usize_from_u32;
    order.par_sort_unstable_by(|a, b| record(place(*a)).cmp(record(place(*b))));
    order.into_iter().map(move |number| record(place(number)))
}

/// A k-way merge of several sorted sources, with a heap of their first records.
#[derive(Debug)]
pub(crate) struct KWayMerge {
    sources: Vec<RecordSource>,
    heap: Vec<Head>, // of the sources that have a record, the smallest first
    width: usize,
    stop: StopFlag,
}

/// A source in the heap, with the first bytes of its record, which suffice for most comparisons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Head {
    prefix: u128,
    source: usize,
}

/// Records in order, of one width, or blocks.
#[derive(Debug)]
enum RecordSource {
    /// All records, the start of the remaining ones, and the width.
    Held(Bytes, usize, usize),
    /// The blocks with their keys, and the start and length of each remaining one.
    Blocks(Vec<u8>, std::vec::IntoIter<[u32; 2]>),
    /// The first record is empty at the end.
    File {
        file: BufReader<fs::File>,
        head: Vec<u8>,
        unread_bytes: Option<u64>, // of a file of blocks
    },
}

impl KWayMerge {
    /// Opens all records of `width` bytes in these sources; reading fails once `stop` is set.
    pub(crate) fn open<'a>(
        stored: impl IntoIterator<Item = &'a StepOutput>,
        width: usize,
        stop: &StopFlag,
    ) -> Result<Self> {
        Self::from(stored, width, &[], stop)
    }

    /// The same, starting at the first record that is not below `lowest`.
    pub(crate) fn from<'a>(
        stored: impl IntoIterator<Item = &'a StepOutput>,
        width: usize,
        lowest: &[u8],
        stop: &StopFlag,
    ) -> Result<Self> {
        let width = width.max(1);
        let sources = stored.into_iter().map(|stored| RecordSource::open(stored, width, lowest));
        Ok(Self::new(sources.collect::<Result<_>>()?, width, stop))
    }

    /// Sorts blocks by their keys alone; each has its key before it, and `blocks` says where it
    /// starts and how long it is.
    pub(crate) fn hold_blocks(bytes: Vec<u8>, mut blocks: Vec<[u32; 2]>) -> Self {
        blocks.par_sort_by_key(|[start, _]| prefix(&bytes[usize_from_u32(*start)..]));
        let held = RecordSource::Blocks(bytes, blocks.into_iter());
        Self::new(vec![held], BLOCK_KEY, &StopFlag::default())
    }

    /// Opens files of sorted blocks: key, length and bytes of each.
    pub(crate) fn open_blocks(runs: &[PathBuf]) -> Result<Self> {
        let sources = runs.iter().map(|path| RecordSource::open_blocks(path));
        Ok(Self::new(sources.collect::<Result<_>>()?, BLOCK_KEY, &StopFlag::default()))
    }

    fn new(sources: Vec<RecordSource>, width: usize, stop: &StopFlag) -> Self {
        let head = |(number, source): (usize, &RecordSource)| {
            Some(Head { prefix: prefix(source.head()?), source: number })
        };
        let heap = sources.iter().enumerate().filter_map(head).collect();
        let mut merge = Self { sources, heap, width, stop: stop.clone() };
        for at in (0..merge.heap.len()).rev() {
            merge.sink(at);
        }
        merge
    }

    /// Returns the smallest remaining record.
    pub(crate) fn head(&self) -> Option<&[u8]> {
        self.sources[self.heap.first()?.source].head()
    }

    /// Returns the number at its start.
    pub(crate) fn head_number(&self) -> Option<i64> {
        self.head().map(number)
    }

    /// Moves to the next record.
    pub(crate) fn advance(&mut self) -> Result<()> {
        self.stop.check()?;
        let Some(first) = self.heap.first_mut() else { return Ok(()) };
        let source = &mut self.sources[first.source];
        source.advance()?;
        match source.head().map(prefix) {
            Some(prefix) => first.prefix = prefix,
            None => drop(self.heap.swap_remove(0)),
        }
        self.sink(0);
        Ok(())
    }

    /// Restores the heap order from the entry at `at` downwards.
    fn sink(&mut self, mut at: usize) {
        loop {
            let left = at * 2 + 1;
            let (Some(parent), Some(mut child)) = (self.heap.get(at), self.heap.get(left)) else {
                return;
            };
            let mut to = left;
            if let Some(right) = self.heap.get(left + 1).filter(|right| self.is_less(right, child))
            {
                (to, child) = (left + 1, right);
            }
            if !self.is_less(child, parent) {
                return;
            }
            self.heap.swap(at, to);
            at = to;
        }
    }

    /// Returns whether `a` comes first; equal records keep the order of the sources.
    fn is_less(&self, a: &Head, b: &Head) -> bool {
        if a.prefix != b.prefix || self.width <= PREFIX {
            return a < b;
        }
        let record = |head: &Head| self.sources[head.source].head();
        (record(a), a.source) < (record(b), b.source)
    }
}

/// Returns the first bytes of a record as a number that sorts in the same order.
fn prefix(record: &[u8]) -> u128 {
    let mut bytes = record.first_chunk().copied().unwrap_or([0; PREFIX]);
    if record.len() < PREFIX {
        bytes.iter_mut().zip(record).for_each(|(to, from)| *to = *from);
    }
    bytes.reverse();
    u128::from_le_bytes(bytes)
}

/// Bytes of a record that the heap stores.
const PREFIX: usize = 16;

impl RecordSource {
    /// Opens it at the first record that is not below `lowest`.
    fn open(stored: &StepOutput, width: usize, lowest: &[u8]) -> Result<Self> {
        match stored {
            StepOutput::Held(bytes) => {
                let record = |at: usize| &bytes[at * width..(at + 1) * width];
                let is_below = |at| Ok(record(saturating_usize(at)) < lowest);
                let from = first_not(to_u64(bytes.len() / width), is_below)?;
                Ok(Self::Held(bytes.clone(), saturating_usize(from) * width, width))
            }
            StepOutput::File(path) => {
                let mut file = open(path)?;
                let bytes = file.metadata().map_err(Error::scratch)?.len();
                let mut head = vec![0; width];
                let seek = |file: &mut fs::File, at: u64| {
                    file.seek(SeekFrom::Start(at * to_u64(width))).map_err(Error::scratch)
                };
                if !lowest.is_empty() {
                    let from = first_not(bytes / to_u64(width), |at| {
                        seek(&mut file, at)?;
                        file.read_exact(&mut head).map_err(Error::scratch)?;
                        Ok(head.as_slice() < lowest)
                    })?;
                    seek(&mut file, from)?;
                }
                Self::begin(file, head, None)
            }
        }
    }

    fn open_blocks(path: &Path) -> Result<Self> {
        let file = open(path)?;
        let unread_bytes = Some(file.metadata().map_err(Error::scratch)?.len());
        Self::begin(file, Vec::new(), unread_bytes)
    }

    fn begin(file: fs::File, head: Vec<u8>, unread_bytes: Option<u64>) -> Result<Self> {
        let file = BufReader::with_capacity(BUFFER, file);
        let mut source = Self::File { file, head, unread_bytes };
        source.advance()?;
        Ok(source)
    }

    /// Returns the next record.
    fn head(&self) -> Option<&[u8]> {
        match self {
            Self::Held(bytes, at, width) => bytes.get(*at..*at + *width),
            Self::Blocks(bytes, blocks) => blocks.as_slice().first().map(|span| {
                let [start, length] = span.map(usize_from_u32);
                &bytes[start..start + length]
            }),
            Self::File { head, .. } => (!head.is_empty()).then_some(head),
        }
    }

    /// Moves to the next record, if there is one.
    fn advance(&mut self) -> Result<()> {
        match self {
            Self::Held(_, at, width) => *at += *width,
            Self::Blocks(_, blocks) => drop(blocks.next()),
            Self::File { file, head, unread_bytes: Some(unread_bytes) } => {
                read_block(file, head, unread_bytes)?;
            }
            Self::File { file, head, unread_bytes: None } => match file.read_exact(head) {
                Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => head.clear(),
                read => read.map_err(Error::scratch)?,
            },
        }
        Ok(())
    }
}

/// Returns the first of `count` records that is not below, where those below come first.
fn first_not(count: u64, mut is_below: impl FnMut(u64) -> Result<bool>) -> Result<u64> {
    let (mut from, mut to) = (0, count);
    while from < to {
        let middle = from.midpoint(to);
        if is_below(middle)? { from = middle + 1 } else { to = middle }
    }
    Ok(from)
}

/// Reads the next block of a file: its key, its length as a `u64`, and its bytes.
fn read_block(file: &mut impl Read, block: &mut Vec<u8>, unread_bytes: &mut u64) -> Result<()> {
    block.clear();
    if *unread_bytes == 0 {
        return Ok(());
    }
    let (mut key, mut length) = ([0; BLOCK_KEY], [0; 8]);
    file.read_exact(&mut key)
        .and_then(|()| file.read_exact(&mut length))
        .map_err(Error::scratch)?;
    let length = u64::from_le_bytes(length);
    let after_front = unread_bytes.saturating_sub(to_u64(BLOCK_KEY) + 8); // 0 if the file grew since
    let limit = after_front.min(MAX_BLOCK.into());
    if length > limit {
        let expected = format!("a block of at most {limit} bytes");
        return Err(task_error("blocks in the scratch folder", expected, length));
    }
    *unread_bytes = after_front - length;
    block.extend_from_slice(&key);
    block.resize(BLOCK_KEY + saturating_usize(length), 0);
    file.read_exact(&mut block[BLOCK_KEY..]).map_err(Error::scratch)
}

/// Bytes of the key of a block: two numbers.
pub(crate) const BLOCK_KEY: usize = PREFIX;
/// Maximum bytes of a block without its key, and of the blocks in memory.
pub(crate) const MAX_BLOCK: u32 = (1 << 31) - 1;

/// Encodes a number in eight bytes whose byte order is numeric order.
pub(crate) fn sort_key(n: i64) -> [u8; 8] {
    sort_key_u64(n.cast_unsigned() ^ (1 << 63))
}

/// Decodes the number at the start of a record.
pub(crate) fn number(record: &[u8]) -> i64 {
    (number_u64(record) ^ (1 << 63)).cast_signed()
}

/// The same for counts.
pub(crate) fn sort_key_u64(n: u64) -> [u8; 8] {
    let mut bytes = n.to_le_bytes();
    bytes.reverse();
    bytes
}

/// Decodes the count at the start of a record.
pub(crate) fn number_u64(record: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&record[..8]);
    bytes.reverse();
    u64::from_le_bytes(bytes)
}

/// Encodes a number in four bytes whose byte order is numeric order.
pub(crate) fn sort_key_u32(n: u32) -> [u8; 4] {
    let mut bytes = n.to_le_bytes();
    bytes.reverse();
    bytes
}

/// Decodes the number at `at` of a record.
pub(crate) fn number_u32(record: &[u8], at: usize) -> u32 {
    let mut bytes = [0; 4];
    bytes.copy_from_slice(&record[at..at + 4]);
    bytes.reverse();
    u32::from_le_bytes(bytes)
}

const FIRST: usize = 1 << 16;
const BUFFER: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sorted_file(folder: &Path, name: &str, numbers: &[i64], memory: u64) -> StepOutput {
        let place = Destination::File(folder.join(name));
        let sorter = ExternalSorter::new(place, 9, memory, &StopFlag::default());
        let (stored, written) = fill_and_finish(sorter, numbers);
        assert_eq!(written.unwrap().bytes, 9 * numbers.len() as u64);
        stored
    }

    fn fill_and_finish(
        mut sorter: ExternalSorter,
        numbers: &[i64],
    ) -> (StepOutput, Option<WrittenFile>) {
        for n in numbers {
            sorter.push(&[&sort_key(*n), b"!"]).unwrap();
        }
        sorter.finish().unwrap()
    }

    fn read(mut merge: KWayMerge) -> Vec<i64> {
        let mut found = Vec::new();
        while let Some(record) = merge.head() {
            assert_eq!(record[8], b'!');
            found.push(number(record));
            merge.advance().unwrap();
        }
        found
    }

    #[test]
    fn bytes_sort_as_numbers_do() {
        let numbers = [i64::MIN, -256, -1, 0, 1, 255, 256, i64::MAX];
        assert!(numbers.map(sort_key).is_sorted());
        assert_eq!(numbers.map(|n| number(&sort_key(n))), numbers);
        assert_eq!(sort_key(1), [0x80, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(sort_key_u32(258), [0, 0, 1, 2]);
        assert_eq!(number_u32(&[9, 0, 0, 1, 2], 1), 258);
        assert_eq!(number_u64(&sort_key_u64(u64::MAX - 1)), u64::MAX - 1);
    }

    #[test]
    fn runs_are_merged_and_removed() {
        let folder = tempfile::tempdir().unwrap();
        // 1024 records are kept in memory for any limit.
        let numbers: Vec<i64> = (0..5000).map(|n| n * 7919 % 5003 - 2500).collect();
        let stored = sorted_file(folder.path(), "a", &numbers, 1);
        let mut expected = numbers;
        expected.sort_unstable();
        assert_eq!(read(KWayMerge::open([&stored], 9, &StopFlag::default()).unwrap()), expected);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn records_that_begin_alike_are_merged_by_all_their_bytes() {
        let stop = StopFlag::default();
        let record = |n: u32| [[7; 16].as_slice(), &sort_key_u32(n)].concat();
        let sources = [vec![9, 1, 300], vec![2, 1, 0], vec![], vec![u32::MAX, 5]];
        let stored = sources.clone().map(|numbers| {
            let mut sorter = ExternalSorter::new(Destination::Memory, 20, 0, &stop);
            numbers.iter().for_each(|n| sorter.push(&[&record(*n)]).unwrap());
            sorter.finish().unwrap().0
        });
        let mut merge = KWayMerge::open(&stored, 20, &stop).unwrap();
        let mut found = Vec::new();
        while let Some(record) = merge.head() {
            found.push(number_u32(record, 16));
            merge.advance().unwrap();
        }
        assert_eq!(found, [0, 1, 1, 2, 5, 9, 300, u32::MAX]);
    }

    proptest! {
        #[test]
        fn several_sources_are_one_order(
            sources in prop::collection::vec((prop::collection::vec(-50_i64..50, 0..40), any::<bool>()), 0..6),
            lowest in -60_i64..60,
        ) {
            let (folder, stop) = (tempfile::tempdir().unwrap(), StopFlag::default());
            let stored = (0..).zip(&sources).map(|(n, (numbers, in_memory))| {
                if *in_memory {
                    fill_and_finish(ExternalSorter::new(Destination::Memory, 9, 0, &stop), numbers).0
                } else {
                    sorted_file(folder.path(), &format!("{n}"), numbers, 1 << 20)
                }
            });
            let stored: Vec<StepOutput> = stored.collect();
            let mut expected: Vec<i64> = sources.iter().flat_map(|(numbers, _)| numbers).copied().collect();
            expected.sort_unstable();
            prop_assert_eq!(&read(KWayMerge::open(&stored, 9, &stop).unwrap()), &expected);
            expected.retain(|n| *n >= lowest);
            prop_assert_eq!(read(KWayMerge::from(&stored, 9, &sort_key(lowest), &stop).unwrap()), expected);
        }

        #[test]
        fn records_of_every_width_are_sorted(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            for width in [8, 9, 16, 32] {
                let complete_len = bytes.len() / width * width;
                let mut expected: Vec<&[u8]> = bytes[..complete_len].chunks(width).collect();
                expected.sort_unstable();
                prop_assert_eq!(sort_records(bytes[..complete_len].to_vec(), width), expected.concat());
            }
        }
    }
}
