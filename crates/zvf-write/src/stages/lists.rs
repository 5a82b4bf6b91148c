//! The merged chunk lists of all slices: the existing keys, and the number of rows of each.
//!
//! A large input has hundreds of slices that contain most chunks each, and as many tasks that need
//! the merged lists. The first task stores them in a file, so that the others do not read hundreds
//! of lists again:
//!
//! ```text
//! chunks      key, i64 a component | rows, u64      ascending by key
//! entries     u64      how many the lists have together
//! checksum    u32      CRC-32C of everything before
//! ```
//!
//! Little-endian. The file is a cache, whose name tells the slices ([`identify`]): if it is missing
//! or damaged, it is rebuilt.

use std::cmp::Ordering;
use std::fs;
use std::path::Path;

use zvf_error::{Error, Result};
use zvf_format::num::{to_u64, usize_from_u32};

use super::file::Output;
use super::slice::Slice;
use super::source::Stored;
use crate::chunks::ChunkTable;
use crate::stop::StopFlag;

/// The merged lists.
#[derive(Debug, PartialEq)]
pub(super) struct MergedLists {
    rank: usize,    // not 0
    keys: Vec<i64>, // `rank` for each chunk, ascending
    /// The number of rows of each chunk.
    pub(super) rows: Vec<u64>,
    /// The total number of entries of the lists.
    pub(super) entries: u64,
}

impl MergedLists {
    /// Reads the lists that another task merged into the file at `path`; if there is none, merges
    /// them and writes the file. Without a path, they are merged.
    pub(super) fn load(
        rank: usize,
        sources: &mut [Stored],
        (path, stop): (Option<&Path>, &StopFlag),
    ) -> Result<(Self, ChunkTable)> {
        let stored = path.and_then(|path| Self::parse(&fs::read(path).ok()?, rank));
        if let Some(lists) = stored {
            let table = lists.table()?;
            return Ok((lists, table));
        }
        let keys = merge_keys(rank, sources)?;
        let mut lists = Self { rank, keys, rows: Vec::new(), entries: 0 };
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
        for key in self.keys.chunks_exact(self.rank) {
            table.number(key)?;
        }
        Ok(table)
    }

    /// Assigns the chunk numbers of each source, and counts the rows of each chunk.
    fn number_chunks(&mut self, table: &ChunkTable, sources: &mut [Stored]) -> Result<()> {
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
        let mut bytes = Vec::with_capacity((self.keys.len() + self.rows.len()) * 8 + 12);
        for (key, rows) in self.keys.chunks_exact(self.rank).zip(&self.rows) {
            bytes.extend(key.iter().flat_map(|n| n.to_le_bytes()));
            bytes.extend(rows.to_le_bytes());
        }
        bytes.extend(self.entries.to_le_bytes());
        let checksum = crc32c::crc32c(&bytes);
        bytes.extend(checksum.to_le_bytes());
        bytes
    }

    /// Parses the lists of a file; `None` if it is damaged.
    fn parse(bytes: &[u8], rank: usize) -> Option<Self> {
        let (bytes, checksum) = bytes.split_last_chunk::<4>()?;
        if u32::from_le_bytes(*checksum) != crc32c::crc32c(bytes) {
            return None;
        }
        let (bytes, entries) = bytes.split_last_chunk::<8>()?;
        let (keys, rows, entries) = (Vec::new(), Vec::new(), u64::from_le_bytes(*entries));
        let mut lists = Self { rank, keys, rows, entries };
        for chunk in bytes.as_chunks::<8>().0.chunks_exact(rank + 1) {
            let (key, rows) = chunk.split_at(rank);
            lists.keys.extend(key.iter().map(|n| i64::from_le_bytes(*n)));
            lists.rows.extend(rows.iter().map(|n| u64::from_le_bytes(*n)));
        }
        Some(lists)
    }
}

/// Returns a checksum of the files of all slices, by their names, lengths and checksums.
pub(super) fn identify(slices: &[Slice]) -> Result<u32> {
    let mut checksum = 0;
    for slice in slices {
        let text =
            serde_json::to_vec(&slice.files).map_err(|error| Error::scratch(error.into()))?;
        checksum = crc32c::crc32c_append(checksum, &text);
    }
    Ok(checksum)
}

/// Returns the keys of all chunks, ascending.
fn merge_keys(rank: usize, sources: &[Stored]) -> Result<Vec<i64>> {
    let (mut keys, mut source_keys) = (Vec::new(), Vec::new());
    for source in sources {
        source_keys.clear();
        source.for_each_span(rank, |key, _| {
            source_keys.extend_from_slice(key);
            Ok(())
        })?;
        if let Some(merged) = merge(&keys, &source_keys, rank) {
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
    fn a_file_that_is_damaged_is_not_taken() {
        let (keys, rows) = (vec![-1, 2, 3, 4], vec![5, u64::MAX]);
        let lists = MergedLists { rank: 2, keys, rows, entries: 3 };
        let bytes = lists.encode();
        assert_eq!(MergedLists::parse(&bytes, 2), Some(lists));
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert_eq!(MergedLists::parse(&damaged, 2), None, "byte {at}");
            assert_eq!(MergedLists::parse(&bytes[..at], 2), None, "{at} bytes");
        }
    }

    #[test]
    fn lists_that_lack_a_chunk_of_a_slice_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let stem = folder.path().join("slice");
        let entry = |key: i64| [key.to_le_bytes(), [0; 8], [0; 8]].concat();
        fs::write(file(&stem, "chunks"), [entry(1), entry(5)].concat()).unwrap();
        let mut slice = Slice { data: SliceData::Files(stem), ..Slice::default() };
        let mut lists = MergedLists { rank: 1, keys: vec![1], rows: Vec::new(), entries: 0 };
        let table = lists.table().unwrap();
        assert_eq!(
            lists.number_chunks(&table, &mut [Stored::new(&mut slice)]).unwrap_err().sentence(),
            "lists of chunks: expected only chunks of the merged lists, found chunk [5]"
        );
    }
}
