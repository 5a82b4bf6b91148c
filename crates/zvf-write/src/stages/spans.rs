//! The locations of the rows of each chunk in all slices, in writing order.
//!
//! A large input has hundreds of slices, each with rows of most chunks: all their lists together
//! may be larger than memory, and the chunks of one shard are far apart in each list. So the
//! entries of all lists are sorted once into a file in which the chunks that are written together
//! are contiguous:
//!
//! ```text
//! place     u32    of the chunk in the order of writing
//! slice     u32
//! start     u64    where its rows begin among those of the slice
//! rows      u32
//! runs      u32
//! ```
//!
//! Big-endian, so that byte order is the order of the file. The file name identifies the slices;
//! the writing order follows from these and from the plan. A file that is missing or too short is
//! rebuilt.

use std::fs;
use std::path::{Path, PathBuf};

use zvf_error::Result;
use zvf_format::num::{index_u32, to_u64, usize_from_u32};

use super::sorted::{
    Destination, ExternalSorter, KWayMerge, number_u32, number_u64, sort_key_u32, sort_key_u64,
};
use super::source::{Span, Stored};
use super::step_output::StepOutput;
use crate::WriteOptions;
use crate::chunks::{ChunkTable, Order};
use crate::error::task_error;
use crate::stop::StopFlag;

/// The locations of the rows of all chunks, in a file.
#[derive(Debug)]
pub(super) struct SpanIndex {
    stored: StepOutput,
    slices: usize,
    stop: StopFlag,
}

impl SpanIndex {
    /// Opens the file of these sources, whose lists have so many entries together, or creates it.
    pub(super) fn load(
        path: PathBuf,
        (entries, sources): (u64, &[Stored]),
        (table, order): (&ChunkTable, &Order),
        options: &WriteOptions,
    ) -> Result<Self> {
        let bytes = entries.saturating_mul(to_u64(ENTRY)); // no file is that large
        if fs::metadata(&path).ok().is_none_or(|found| found.len() != bytes) {
            sort_spans(&path, sources, (table, order), options)?;
        }
        Ok(Self {
            stored: StepOutput::File(path),
            slices: sources.len(),
            stop: options.stop_flag(),
        })
    }

    /// Reads the locations of the rows of these chunks, which are consecutive in writing order, in
    /// each slice.
    pub(super) fn find(&self, order: &Order, chunks: &[u32]) -> Result<Vec<Vec<(u32, Span)>>> {
        let mut found = vec![Vec::new(); self.slices];
        let Some(first) = chunks.first().map(|chunk| order.place(*chunk)) else {
            return Ok(found);
        };
        let mut entries = KWayMerge::from([&self.stored], ENTRY, &sort_key_u32(first), &self.stop)?;
        while let Some(entry) = entries.head() {
            let (place, slice) = (number_u32(entry, 0), number_u32(entry, 4));
            let at = place.checked_sub(first).map(usize_from_u32);
            let (Some(at), Some(spans)) = (at, found.get_mut(usize_from_u32(slice))) else {
                return Err(task_error(
                    "rows of chunks",
                    format!("place {first} or later, in one of {} slices", self.slices),
                    format!("place {place} in slice {slice}"),
                ));
            };
            let Some(chunk) = chunks.get(at) else { break };
            let span = Span {
                start: number_u64(&entry[8..]),
                rows: number_u32(entry, 16),
                runs: number_u32(entry, 20),
            };
            spans.push((*chunk, span));
            entries.advance()?;
        }
        Ok(found)
    }
}

fn sort_spans(
    path: &Path,
    sources: &[Stored],
    (table, order): (&ChunkTable, &Order),
    options: &WriteOptions,
) -> Result<()> {
    let (place, stop) = (Destination::File(path.to_owned()), options.stop_flag());
    let mut sorter = ExternalSorter::new(place, ENTRY, options.memory / MEMORY_SHARE, &stop);
    for (number, source) in sources.iter().enumerate() {
        let (slice, mut next) = (sort_key_u32(index_u32(number)), 0);
        source.for_each_span(table.rank(), |key, span| {
            let chunk = table.find_from(next, key)?;
            next = chunk + 1;
            sorter.push(&[
                &sort_key_u32(order.place(chunk)),
                &slice,
                &sort_key_u64(span.start),
                &sort_key_u32(span.rows),
                &sort_key_u32(span.runs),
            ])
        })?;
    }
    sorter.finish().map(drop)
}

/// Bytes of an entry.
const ENTRY: usize = 24;
/// The reciprocal of the fraction of the memory that is used while entries are sorted.
const MEMORY_SHARE: u64 = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stages::lists::MergedLists;
    use crate::stages::slice::{Slice, SliceData};
    use crate::stages::step_output::file;

    /// Returns a slice with these chunks of one axis, whose rows are two bytes each.
    fn slice(folder: &Path, number: usize, chunks: &[(i64, u32)]) -> Slice {
        let stem = folder.join(format!("slice-{number}"));
        let (mut list, mut rows) = (Vec::new(), Vec::new());
        for (key, count) in chunks {
            list.extend(key.to_le_bytes());
            list.extend(to_u64(rows.len()).to_le_bytes());
            list.extend([count.to_le_bytes(), 7_u32.to_le_bytes()].concat());
            rows.extend((0..*count).flat_map(|n| [*key as u8, n as u8 + number as u8 * 100]));
        }
        fs::write(file(&stem, "chunks"), list).unwrap();
        fs::write(file(&stem, "rows"), rows).unwrap();
        Slice { data: SliceData::Files(stem), ..Slice::default() }
    }

    #[test]
    fn rows_of_chunks_that_are_written_together_are_found_in_each_slice() {
        let folder = tempfile::tempdir().unwrap();
        // One slice has every third chunk, one every fifth, and one has none.
        let chunks = |step: i64| -> Vec<(i64, u32)> {
            (0..600 / step).map(|n| (n * step - 90, n as u32 % 4 + 1)).collect()
        };
        let all = [chunks(3), chunks(5), Vec::new()];
        let mut slices: Vec<Slice> =
            (0..).zip(&all).map(|(n, chunks)| slice(folder.path(), n, chunks)).collect();
        let mut sources: Vec<Stored> = slices.iter_mut().map(Stored::new).collect();
        let options = WriteOptions::default();
        let stop = options.stop_flag();
        let path = folder.path().join("spans");
        let (lists, table) = MergedLists::load(1, &mut sources, (None, &stop)).unwrap();
        assert_eq!(lists.entries, 200 + 120);
        let order = table.order(&[-90], Some(&[32]));
        let load = || {
            let of = (lists.entries, sources.as_slice());
            SpanIndex::load(path.clone(), of, (&table, &order), &options)
        };
        let index = load().unwrap();
        let size = |span: Span| span.rows as usize * 2;
        for window in order.chunks.chunks(37) {
            let found = index.find(&order, window).unwrap();
            for (number, (spans, source)) in found.into_iter().zip(&sources).enumerate() {
                let Stored::File(source) = source else { panic!("a file") };
                let loaded = source.read(spans, size).unwrap();
                let mut found: Vec<(i64, u32)> =
                    loaded.iter().map(|k| (table.components(k.chunk)[0], k.span.rows)).collect();
                found.sort_unstable();
                let keys: Vec<i64> = window.iter().map(|at| table.components(*at)[0]).collect();
                let expected: Vec<(i64, u32)> =
                    all[number].iter().filter(|c| keys.contains(&c.0)).copied().collect();
                assert_eq!(found, expected, "slice {number}");
                for loaded in &loaded {
                    assert_eq!(loaded.span.runs, 7);
                    let key = table.components(loaded.chunk)[0] as u8;
                    let is_own = |(row, n): (&[u8], u8)| row == [key, n + number as u8 * 100];
                    assert!(loaded.bytes.chunks(2).zip(0..).all(is_own));
                }
            }
        }
        assert_eq!(index.find(&order, &[]).unwrap(), vec![Vec::new(); 3]);
    }

    #[test]
    fn a_file_that_is_too_short_is_made_again() {
        let folder = tempfile::tempdir().unwrap();
        let mut slices = [slice(folder.path(), 0, &[(0, 2), (1, 1)])];
        let mut sources: Vec<Stored> = slices.iter_mut().map(Stored::new).collect();
        let options = WriteOptions::default();
        let stop = options.stop_flag();
        let (lists, table) = MergedLists::load(1, &mut sources, (None, &stop)).unwrap();
        let (order, path) = (table.order(&[0], None), folder.path().join("spans"));
        let load = || {
            let of = (lists.entries, sources.as_slice());
            SpanIndex::load(path.clone(), of, (&table, &order), &options)
        };
        let StepOutput::File(path) = load().unwrap().stored else { panic!("a file") };
        let whole = fs::read(&path).unwrap();
        assert_eq!(whole.len(), 2 * ENTRY);
        fs::write(&path, &whole[..ENTRY]).unwrap();
        load().unwrap();
        assert_eq!(fs::read(&path).unwrap(), whole);
    }

    #[test]
    fn a_list_with_a_chunk_of_no_number_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let sources = [Stored::new(&mut slice(folder.path(), 0, &[(0, 2), (1, 1)]))];
        let mut table = ChunkTable::new(1);
        table.number(&[0]).unwrap();
        let (order, path) = (table.order(&[0], None), folder.path().join("spans"));
        let sorted = sort_spans(&path, &sources, (&table, &order), &WriteOptions::default());
        assert_eq!(
            sorted.unwrap_err().sentence(),
            "lists of chunks: expected only chunks of the merged lists, found chunk [1]"
        );
    }

    #[test]
    fn an_entry_of_no_slice_or_of_an_earlier_place_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("spans");
        let mut table = ChunkTable::new(1);
        for key in 0..3 {
            table.number(&[key]).unwrap();
        }
        let order = table.order(&[0], None);
        let stop = WriteOptions::default().stop_flag();
        let index = SpanIndex { stored: StepOutput::File(path.clone()), slices: 1, stop };
        let entry = |place: u8, slice: u8| {
            let mut entry = [0; ENTRY];
            (entry[3], entry[7]) = (place, slice);
            entry
        };
        for (entries, found) in [
            ([entry(1, 0), entry(1, 0), entry(2, 1)], "place 2 in slice 1"),
            ([entry(1, 0), entry(1, 0), entry(0, 0)], "place 0 in slice 0"), // not sorted
        ] {
            fs::write(&path, entries.concat()).unwrap();
            let expected = "rows of chunks: expected place 1 or later, in one of 1 slices";
            let error = index.find(&order, &order.chunks[1..]).unwrap_err();
            assert_eq!(error.sentence(), format!("{expected}, found {found}"));
        }
    }
}
