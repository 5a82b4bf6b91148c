//! The merged chunk lists of all slices: the existing keys, and the number of rows of each.
//!
//! A large input has hundreds of slices that contain most chunks each, and as many tasks that need
//! the merged lists. The first task stores them in a file, so that the others do not read hundreds
//! of lists again:
//!
//! ```text
//! magic       8 bytes
//! identity    u32      CRC-32C of the names, lengths and checksums of the files of all slices
//! rank        u64      components of a key
//! chunks      u64      then the keys, i64 a component, ascending; then the rows of each, u64
//! entries     u64      how many the lists have together
//! checksum    u32      CRC-32C of everything before
//! ```
//!
//! Little-endian. The file is a cache: if it is missing, damaged or belongs to other slices, it is
//! rebuilt.

use std::cmp::Ordering;
use std::fs;
use std::path::Path;

use zvf_error::{Error, Result};
use zvf_format::num::{to_u64, usize_from_u32};

use super::file::Output;
use super::slice::Slice;
use super::source::Source;
use crate::chunks::ChunkTable;
use crate::stop::StopFlag;

/// The merged lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MergedLists {
    /// A checksum of the records of all slices.
    pub(super) identity: u32,
    rank: usize,
    keys: Vec<i64>, // `rank` for each chunk, ascending
    /// The number of rows of each chunk.
    pub(super) rows: Vec<u64>,
    /// The total number of entries of the lists.
    pub(super) entries: u64,
}

impl MergedLists {
    /// Reads the lists that another task merged into the file at `path`; if it is missing or
    /// belongs to other slices, merges them and writes the file. Without a path, they are merged.
    pub(super) fn load(
        rank: usize,
        (slices, sources): (&[Slice], &mut [Source]),
        (path, stop): (Option<&Path>, &StopFlag),
    ) -> Result<(Self, ChunkTable)> {
        let identity = identify(slices)?;
        let stored = path.and_then(|path| Self::parse(&fs::read(path).ok()?, identity));
        if let Some(lists) = stored.filter(|lists| lists.rank == rank) {
            let table = lists.table()?;
            return Ok((lists, table));
        }
        let keys = merge_keys(rank, sources)?;
        let mut lists = Self { identity, rank, keys, rows: Vec::new(), entries: 0 };
        let table = lists.table()?;
        lists.number_chunks(&table, sources)?;
        if let Some(path) = path {
            let mut output = Output::create(path.to_owned(), stop)?;
            output.write(&lists.encode())?;
            output.finish()?;
        }
        Ok((lists, table))
    }

    /// Returns the chunks, numbered in numeric order.
    fn table(&self) -> Result<ChunkTable> {
        let mut table = ChunkTable::new(self.rank);
        for key in self.keys.chunks_exact(self.rank.max(1)) {
            table.number(key)?;
        }
        Ok(table)
    }

    /// Assigns the chunk numbers of each source, and counts the rows of each chunk.
    fn number_chunks(&mut self, table: &ChunkTable, sources: &mut [Source]) -> Result<()> {
        self.rows = vec![0; table.len()];
        for source in sources {
            let (mut numbers, mut next) = (Vec::new(), 0);
            source.for_each_span(table.rank(), |key, span| {
                let number = table.find_from(next, key)?;
                self.rows[usize_from_u32(number)] += u64::from(span.rows);
                numbers.push(number);
                next = number + 1;
                Ok(())
            })?;
            self.entries += to_u64(numbers.len());
            source.number(&numbers, table.len());
        }
        Ok(())
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(self.identity.to_le_bytes());
        for count in [self.rank, self.rows.len()] {
            bytes.extend(to_u64(count).to_le_bytes());
        }
        bytes.extend(self.keys.iter().flat_map(|key| key.to_le_bytes()));
        bytes.extend(self.rows.iter().flat_map(|rows| rows.to_le_bytes()));
        bytes.extend(self.entries.to_le_bytes());
        let checksum = crc32c::crc32c(&bytes);
        bytes.extend(checksum.to_le_bytes());
        bytes
    }

    /// Parses the lists of a file; `None` if it is damaged or belongs to slices with another
    /// identity.
    fn parse(bytes: &[u8], identity: u32) -> Option<Self> {
        let (bytes, checksum) = bytes.split_last_chunk::<4>()?;
        if u32::from_le_bytes(*checksum) != crc32c::crc32c(bytes) {
            return None;
        }
        let mut rest = bytes.strip_prefix(MAGIC)?;
        let found: [u8; 4] = take(&mut rest)?;
        if u32::from_le_bytes(found) != identity {
            return None;
        }
        let rank = take_count(&mut rest)?;
        let chunks = take_count(&mut rest)?;
        let keys = take_all(&mut rest, chunks.checked_mul(rank)?, i64::from_le_bytes)?;
        let rows = take_all(&mut rest, chunks, u64::from_le_bytes)?;
        let entries = u64::from_le_bytes(take(&mut rest)?);
        rest.is_empty().then_some(Self { identity, rank, keys, rows, entries })
    }
}

/// Returns the next `N` bytes.
fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (first, after) = rest.split_first_chunk::<N>()?;
    *rest = after;
    Some(*first)
}

fn take_count(rest: &mut &[u8]) -> Option<usize> {
    usize::try_from(u64::from_le_bytes(take(rest)?)).ok()
}

/// Returns the next `count` numbers, if there are so many.
fn take_all<T, const N: usize>(
    rest: &mut &[u8],
    count: usize,
    number: impl Fn([u8; N]) -> T,
) -> Option<Vec<T>> {
    let (taken, after) = rest.split_at_checked(count.checked_mul(N)?)?;
    *rest = after;
    Some(taken.as_chunks::<N>().0.iter().map(|bytes| number(*bytes)).collect())
}

/// Returns a checksum of the files of all slices, by their names, lengths and checksums.
fn identify(slices: &[Slice]) -> Result<u32> {
    let mut checksum = 0;
    for slice in slices {
        let text =
            serde_json::to_vec(&slice.files).map_err(|error| Error::scratch(error.into()))?;
        checksum = crc32c::crc32c_append(checksum, &text);
    }
    Ok(checksum)
}

/// Returns the keys of all chunks, ascending.
fn merge_keys(rank: usize, sources: &[Source]) -> Result<Vec<i64>> {
    let width = rank.max(1);
    let (mut keys, mut source_keys) = (Vec::new(), Vec::new());
    for source in sources {
        source_keys.clear();
        source.for_each_span(rank, |key, _| {
            source_keys.extend_from_slice(key);
            Ok(())
        })?;
        if let Some(merged) = merge(&keys, &source_keys, width) {
            keys = merged;
        }
    }
    Ok(keys)
}

/// Merges two ascending lists of keys; `None` if all of `added_keys` are in `keys`.
fn merge(keys: &[i64], added_keys: &[i64], width: usize) -> Option<Vec<i64>> {
    let mut merged: Option<Vec<i64>> = None;
    let (mut all, mut added) =
        (keys.chunks_exact(width).peekable(), added_keys.chunks_exact(width).peekable());
    let mut before = 0;
    loop {
        let order = match (all.peek(), added.peek()) {
            (Some(present), Some(key)) => present.cmp(key),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => return merged,
        };
        let key = match order {
            Ordering::Less => all.next(),
            Ordering::Greater => {
                // Nothing is copied before the first new key.
                merged.get_or_insert_with(|| keys[..before].to_vec());
                added.next()
            }
            Ordering::Equal => {
                added.next();
                all.next()
            }
        };
        before += width;
        if let (Some(merged), Some(key)) = (&mut merged, key) {
            merged.extend_from_slice(key);
        }
    }
}

/// The magic bytes of the file: name and version.
const MAGIC: &[u8; 8] = b"zvflist2";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stages::slice::SliceData;
    use crate::stages::step_output::file;

    #[test]
    fn ascending_lists_are_merged() {
        type Case<'a> = (&'a [i64], &'a [i64], Option<&'a [i64]>);
        #[rustfmt::skip]
        let table: [Case<'_>; 7] = [
            (&[], &[], None),
            (&[], &[1, 5], Some(&[1, 5])),
            (&[1, 5, 2, 0], &[2, 0], None),
            (&[1, 5, 2, 0], &[], None),
            (&[1, 5, 2, 0], &[0, 9, 2, 0], Some(&[0, 9, 1, 5, 2, 0])),
            (&[1, 5, 2, 0], &[1, 4, 1, 6], Some(&[1, 4, 1, 5, 1, 6, 2, 0])),
            (&[1, 5], &[2, -3], Some(&[1, 5, 2, -3])),
        ];
        for (keys, added, merged) in table {
            assert_eq!(merge(keys, added, 2).as_deref(), merged, "{keys:?} and {added:?}");
        }
    }

    #[test]
    fn a_file_that_is_damaged_or_of_other_slices_is_not_taken() {
        let lists = MergedLists {
            rank: 2,
            keys: vec![-1, 2, 3, 4],
            rows: vec![5, u64::MAX],
            entries: 3,
            identity: 9,
        };
        let bytes = lists.encode();
        assert_eq!(MergedLists::parse(&bytes, 9), Some(lists));
        assert_eq!(MergedLists::parse(&bytes, 8), None);
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert_eq!(MergedLists::parse(&damaged, 9), None, "byte {at}");
            assert_eq!(MergedLists::parse(&bytes[..at], 9), None, "{at} bytes");
        }
    }

    #[test]
    fn lists_that_lack_a_chunk_of_a_slice_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let stem = folder.path().join("slice");
        let entry = |key: i64| [key.to_le_bytes(), [0; 8], [0; 8]].concat();
        fs::write(file(&stem, "chunks"), [entry(1), entry(5)].concat()).unwrap();
        let mut slice = Slice { data: SliceData::Files(stem), ..Slice::default() };
        let mut lists =
            MergedLists { identity: 0, rank: 1, keys: vec![1], rows: Vec::new(), entries: 0 };
        let table = lists.table().unwrap();
        assert_eq!(
            lists.number_chunks(&table, &mut [Source::new(&mut slice)]).unwrap_err().sentence(),
            "lists of chunks: expected only chunks of the merged lists, found chunk [5]"
        );
    }
}
