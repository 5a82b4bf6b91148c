//! Records of one width in the order of their bytes, however many there are.
//!
//! What does not fit is sorted in runs, and runs are merged when they are read. Numbers are put into
//! records so that the order of their bytes is theirs ([`ascending`]).

use std::fs;
use std::io::{BufReader, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use zvf_format::num::{saturating_u32_from_usize, saturating_usize, to_u64, usize_from_u32};

use super::file::{Output, Written, open};
use crate::WriteError;
use crate::stop::StopFlag;

/// Takes records in any order.
#[derive(Debug)]
pub(crate) struct ExternalSorter {
    path: PathBuf,
    width: usize, // not 0
    most: usize,  // bytes held
    held: Vec<u8>,
    runs: Vec<PathBuf>,
    stop: StopFlag,
}

impl ExternalSorter {
    /// Records of `width` bytes for the file at `path`; about `memory` bytes are held. Once `stop` is
    /// set, none is taken.
    pub(crate) fn new(path: PathBuf, width: usize, memory: u64, stop: &StopFlag) -> Self {
        let width = width.max(1);
        // Beside each record there is its number while they are sorted.
        let records = saturating_usize(memory).checked_div(width + 4).unwrap_or(0);
        let most = records.clamp(1024, usize_from_u32(u32::MAX)).saturating_mul(width);
        let stop = stop.clone();
        Self { path, width, most, held: Vec::new(), runs: Vec::new(), stop }
    }

    /// Adds the record that these parts are.
    pub(crate) fn push(&mut self, parts: &[&[u8]]) -> Result<(), WriteError> {
        self.stop.check()?;
        if self.held.is_empty() {
            self.held.reserve_exact(self.most.min(FIRST));
        } else if self.held.len() >= self.most {
            self.spill()?;
        } else if self.held.len() == self.held.capacity() {
            self.held.reserve_exact(self.held.len().min(self.most.saturating_sub(self.held.len())));
        }
        for part in parts {
            self.held.extend_from_slice(part);
        }
        Ok(())
    }

    /// Writes the file.
    pub(crate) fn finish(mut self) -> Result<Written, WriteError> {
        if self.runs.is_empty() {
            return self.write(self.path.clone());
        }
        self.spill()?;
        self.held = Vec::new();
        let mut merge = KWayMerge::open(&self.runs, self.width, &self.stop)?;
        let mut out = Output::create(self.path.clone(), &self.stop)?;
        while let Some(record) = merge.head() {
            out.write(record)?;
            merge.advance()?;
        }
        out.finish()
    }

    fn spill(&mut self) -> Result<(), WriteError> {
        let mut name = self.path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".run-{}-{}", std::process::id(), self.runs.len()));
        let path = self.path.with_file_name(name);
        self.write(path.clone())?;
        self.runs.push(path);
        self.held.clear();
        Ok(())
    }

    fn write(&self, path: PathBuf) -> Result<Written, WriteError> {
        let count = self.held.len().checked_div(self.width).unwrap_or(0);
        let record = |number: &u32| {
            let start = usize_from_u32(*number) * self.width;
            self.held.get(start..start + self.width).unwrap_or(&[])
        };
        let mut order: Vec<u32> = (0..saturating_u32_from_usize(count)).collect();
        order.par_sort_unstable_by(|a, b| record(a).cmp(record(b)));
        let mut out = Output::create(path, &self.stop)?;
        order.iter().try_for_each(|number| out.write(record(number)))?;
        out.finish()
    }
}

impl Drop for ExternalSorter {
    fn drop(&mut self) {
        for run in &self.runs {
            let _swept_with_the_folder = fs::remove_file(run);
        }
    }
}

/// The records of several sorted files, in one order.
#[derive(Debug)]
pub(crate) struct KWayMerge {
    sources: Vec<Source>,
    heap: Vec<usize>, // sources that have a record, the smallest first
    stop: StopFlag,
}

/// One file.
#[derive(Debug)]
struct Source {
    file: BufReader<fs::File>,
    head: Vec<u8>,
}

impl KWayMerge {
    /// All records of `width` bytes in these files; none comes once `stop` is set.
    pub(crate) fn open(
        paths: &[PathBuf],
        width: usize,
        stop: &StopFlag,
    ) -> Result<Self, WriteError> {
        Self::from(paths, width, &[], stop)
    }

    /// Those that are not below `lowest`.
    pub(crate) fn from(
        paths: &[PathBuf],
        width: usize,
        lowest: &[u8],
        stop: &StopFlag,
    ) -> Result<Self, WriteError> {
        let sources = paths.iter().map(|path| Source::open(path, width, lowest));
        let sources = sources.collect::<Result<_, _>>()?;
        let mut merge = Self { sources, heap: Vec::new(), stop: stop.clone() };
        for number in 0..merge.sources.len() {
            if merge.sources.get_mut(number).map(Source::next).transpose()? == Some(true) {
                merge.heap.push(number);
            }
        }
        for at in (0..merge.heap.len()).rev() {
            merge.sink(at);
        }
        Ok(merge)
    }

    /// The smallest record that is left.
    pub(crate) fn head(&self) -> Option<&[u8]> {
        let first = self.heap.first()?;
        self.sources.get(*first).map(|source| source.head.as_slice())
    }

    /// The number at the front of it.
    pub(crate) fn head_number(&self) -> Option<i64> {
        self.head().map(number)
    }

    /// Goes on to the next record.
    pub(crate) fn advance(&mut self) -> Result<(), WriteError> {
        self.stop.check()?;
        let Some(first) = self.heap.first().copied() else { return Ok(()) };
        if self.sources.get_mut(first).map(Source::next).transpose()? != Some(true) {
            self.heap.swap_remove(0);
        }
        self.sink(0);
        Ok(())
    }

    /// Puts the entry at `at` below what is smaller.
    fn sink(&mut self, mut at: usize) {
        loop {
            let left = at * 2 + 1;
            let children = [left, left + 1];
            let smaller = |a: usize, b: usize| match (self.heap.get(a), self.heap.get(b)) {
                (Some(one), Some(other)) => self.key(*one) < self.key(*other),
                (Some(_), None) => true,
                (None, _) => false,
            };
            let child = if smaller(children[1], children[0]) { children[1] } else { children[0] };
            if self.heap.get(child).is_none() || !smaller(child, at) {
                return;
            }
            self.heap.swap(at, child);
            at = child;
        }
    }

    /// Records that are the same come in the order of the files.
    fn key(&self, source: usize) -> (Option<&[u8]>, usize) {
        (self.sources.get(source).map(|source| source.head.as_slice()), source)
    }
}

impl Source {
    fn open(path: &Path, width: usize, lowest: &[u8]) -> Result<Self, WriteError> {
        let mut file = open(path)?;
        let bytes = file.metadata().map_err(WriteError::Scratch)?.len();
        let (mut from, mut to) = (0, bytes.checked_div(to_u64(width)).unwrap_or(0));
        let mut head = vec![0; width];
        if !lowest.is_empty() {
            while from < to {
                let middle = from.midpoint(to);
                let at = SeekFrom::Start(middle * to_u64(width));
                file.seek(at).map_err(WriteError::Scratch)?;
                file.read_exact(&mut head).map_err(WriteError::Scratch)?;
                if head.as_slice() < lowest {
                    from = middle + 1;
                } else {
                    to = middle;
                }
            }
            let start = SeekFrom::Start(from * to_u64(width));
            file.seek(start).map_err(WriteError::Scratch)?;
        }
        Ok(Self { file: BufReader::with_capacity(BUFFER, file), head })
    }

    /// Reads the next record, when there is one.
    fn next(&mut self) -> Result<bool, WriteError> {
        match self.file.read_exact(&mut self.head) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Ok(false),
            Err(error) => Err(WriteError::Scratch(error)),
        }
    }
}

/// Eight bytes that sort as the numbers do.
pub(crate) fn ascending(n: i64) -> [u8; 8] {
    ascending_u64(n.cast_unsigned() ^ (1 << 63))
}

/// The number of such bytes at the front of a record.
pub(crate) fn number(record: &[u8]) -> i64 {
    (number_u64(record) ^ (1 << 63)).cast_signed()
}

/// The same for counts.
pub(crate) fn ascending_u64(n: u64) -> [u8; 8] {
    let mut bytes = n.to_le_bytes();
    bytes.reverse();
    bytes
}

/// The count of such bytes at the front of a record.
pub(crate) fn number_u64(record: &[u8]) -> u64 {
    let bytes = record.iter().take(8);
    bytes.fold(0, |n: u64, byte| n << 8 | u64::from(*byte))
}

/// Four bytes that sort as the numbers do.
pub(crate) fn ascending_u32(n: u32) -> [u8; 4] {
    let mut bytes = n.to_le_bytes();
    bytes.reverse();
    bytes
}

/// The number of such bytes at `at` of a record.
pub(crate) fn number_u32(record: &[u8], at: usize) -> u32 {
    let bytes = record.iter().skip(at).take(4);
    bytes.fold(0, |n: u32, byte| n << 8 | u32::from(*byte))
}

const FIRST: usize = 1 << 16;
const BUFFER: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sorted(folder: &Path, name: &str, numbers: &[i64], memory: u64) -> PathBuf {
        let mut sorter = ExternalSorter::new(folder.join(name), 9, memory, &StopFlag::default());
        for n in numbers {
            sorter.push(&[&ascending(*n), b"!"]).unwrap();
        }
        let written = sorter.finish().unwrap();
        assert_eq!(written.bytes, 9 * numbers.len() as u64);
        folder.join(name)
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
        assert!(numbers.map(ascending).is_sorted());
        assert_eq!(numbers.map(|n| number(&ascending(n))), numbers);
        assert_eq!(ascending(1), [0x80, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(ascending_u32(258), [0, 0, 1, 2]);
        assert_eq!(number_u32(&[9, 0, 0, 1, 2], 1), 258);
        assert_eq!(number_u64(&ascending_u64(u64::MAX - 1)), u64::MAX - 1);
    }

    #[test]
    fn runs_are_merged_and_removed() {
        let folder = tempfile::tempdir().unwrap();
        // 1024 records are held whatever the memory.
        let numbers: Vec<i64> = (0..5000).map(|n| n * 7919 % 5003 - 2500).collect();
        let path = sorted(folder.path(), "a", &numbers, 1);
        let mut expected = numbers;
        expected.sort_unstable();
        assert_eq!(read(KWayMerge::open(&[path], 9, &StopFlag::default()).unwrap()), expected);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    proptest! {
        #[test]
        fn several_files_are_one_order(
            files in prop::collection::vec(prop::collection::vec(-50_i64..50, 0..40), 0..6),
            lowest in -60_i64..60,
        ) {
            let folder = tempfile::tempdir().unwrap();
            let paths: Vec<PathBuf> = (0..).zip(&files)
                .map(|(n, numbers)| sorted(folder.path(), &format!("{n}"), numbers, 1 << 20))
                .collect();
            let mut expected: Vec<i64> = files.concat();
            expected.sort_unstable();
            prop_assert_eq!(&read(KWayMerge::open(&paths, 9, &StopFlag::default()).unwrap()), &expected);
            expected.retain(|n| *n >= lowest);
            prop_assert_eq!(read(KWayMerge::from(&paths, 9, &ascending(lowest), &StopFlag::default()).unwrap()), expected);
        }
    }
}
