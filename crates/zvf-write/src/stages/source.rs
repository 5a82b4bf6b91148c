//! The rows of one slice: its chunks, and their locations.
//!
//! A slice in memory has the unchanged batches, and returns the pieces of a chunk without a copy.
//! From a slice in files, rows are read for many chunks at once, and contiguous ones together.
//!
//! Not here: finding the rows of some chunks in the slices (`spans`), and interpreting their bytes
//! (`merged_slices`).

use std::fs::File;
use std::io::{BufReader, Read as _};
use std::path::PathBuf;

use bytes::Bytes;
use zvf_error::{Error, Result};
use zvf_format::num::{saturating_u32, to_u64, usize_from_u32};

use super::file::open;
use super::slice::{HeldRows, Slice, SliceData};
use super::step_output::file;
use crate::error::{count_u32, task_error};
use crate::routed::ChunkPiece;
use crate::types::chain::Run;

/// The location of the rows of a slice.
#[derive(Debug)]
pub(super) enum Stored {
    Held(HeldSource),
    File(FileSource),
}

/// Rows in memory, of the only slice.
#[derive(Debug)]
pub(super) struct HeldSource {
    pub(super) rows: HeldRows,
    chunks: Vec<u32>,  // its numbers of those that have rows, in numeric order
    numbers: Vec<u32>, // for each chunk of the level its number here
}

/// Rows in a file.
#[derive(Debug)]
pub(super) struct FileSource {
    rows: PathBuf,
    chunks: PathBuf,
    pub(super) codes: Vec<Option<Vec<u32>>>, // of each column of texts, those that they have in all slices
    pub(super) goes_on: Option<u32>, // the chunk whose last run its first vertices go on with
}

/// The location of the rows of a chunk.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Span {
    pub(super) start: u64,
    pub(super) rows: u32,
    pub(super) runs: u32,
}

/// The spilled rows of a chunk.
#[derive(Clone, Debug)]
pub(super) struct LoadedSpan {
    pub(super) chunk: u32,
    pub(super) span: Span,
    pub(super) bytes: Bytes,
}

impl Stored {
    /// Takes the rows of a slice.
    pub(super) fn new(slice: &mut Slice) -> Self {
        match &mut slice.data {
            SliceData::Held(held) => {
                let rows = std::mem::take(&mut held.rows);
                Self::Held(HeldSource { chunks: rows.chunks(), numbers: Vec::new(), rows })
            }
            SliceData::Files(stem) => Self::File(FileSource {
                rows: file(stem, "rows"),
                chunks: file(stem, "chunks"),
                codes: Vec::new(),
                goes_on: None,
            }),
        }
    }

    /// Calls `visit` with the key and the location of each non-empty chunk, ascending.
    pub(super) fn for_each_span(
        &self,
        rank: usize,
        mut visit: impl FnMut(&[i64], Span) -> Result<()>,
    ) -> Result<()> {
        match self {
            Self::Held(held) => held.chunks.iter().try_for_each(|chunk| {
                let pieces = held.rows.pieces(*chunk);
                let rows: usize = pieces.iter().map(|piece| piece.rows.len()).sum();
                let rows = count_u32("rows of a chunk", rows)?;
                let runs = count_u32("runs of a chunk", held.rows.chains.runs_of(*chunk).len())?;
                visit(held.rows.table.components(*chunk), Span { start: 0, rows, runs })
            }),
            Self::File(source) => source.for_each_span(rank, visit),
        }
    }

    /// Sets the level-wide numbers of its chunks, ascending.
    pub(super) fn number(&mut self, chunks: &[u32], all: usize) {
        let Self::Held(held) = self else { return };
        held.numbers = vec![u32::MAX; all];
        for (number, held_number) in chunks.iter().zip(&held.chunks) {
            held.numbers[usize_from_u32(*number)] = *held_number;
        }
    }
}

impl HeldSource {
    /// Returns the rows of a chunk of the level in input order, and its runs.
    pub(super) fn chunk(&self, number: u32) -> (Vec<ChunkPiece<'_>>, &[Run]) {
        let held_number = self.numbers[usize_from_u32(number)];
        (self.rows.pieces(held_number), self.rows.chains.runs_of(held_number))
    }
}

impl FileSource {
    /// Reads the rows of these chunks; `size` returns the number of bytes of each.
    pub(super) fn read(
        &self,
        mut spans: Vec<(u32, Span)>,
        size: impl Fn(Span) -> usize,
    ) -> Result<Vec<LoadedSpan>> {
        let mut loaded = Vec::with_capacity(spans.len());
        if spans.is_empty() {
            return Ok(loaded);
        }
        spans.sort_unstable_by_key(|(_, span)| span.start);
        let file = open(&self.rows)?;
        let length = file.metadata().map_err(Error::scratch)?.len();
        let ends_inside = |span: Span| {
            span.start.checked_add(to_u64(size(span))).is_some_and(|end| end <= length)
        };
        if let Some((_, span)) = spans.iter().find(|(_, span)| !ends_inside(*span)) {
            return Err(task_error(
                "rows of a slice",
                format!("{length} bytes of them"),
                format!("{} rows from byte {} on", span.rows, span.start),
            ));
        }
        let adjoin = |(_, a): &(u32, Span), (_, b): &(u32, Span)| {
            a.start.checked_add(to_u64(size(*a))) == Some(b.start)
        };
        for run in spans.chunk_by(adjoin) {
            let total: usize = run.iter().map(|(_, span)| size(*span)).sum();
            let mut bytes = vec![0; total];
            read_at(&file, &mut bytes, run[0].1.start).map_err(Error::scratch)?;
            let mut bytes = Bytes::from(bytes);
            for (chunk, span) in run {
                let bytes = bytes.split_to(size(*span));
                loaded.push(LoadedSpan { chunk: *chunk, span: *span, bytes });
            }
        }
        Ok(loaded)
    }

    /// Reads the list of chunks: calls `visit` with the key and the location of each, ascending.
    fn for_each_span(
        &self,
        rank: usize,
        mut visit: impl FnMut(&[i64], Span) -> Result<()>,
    ) -> Result<()> {
        let mut file = BufReader::with_capacity(1 << 16, open(&self.chunks)?);
        let (mut entry, mut key) = (vec![0; width(rank)], Vec::with_capacity(rank));
        loop {
            match file.read_exact(&mut entry) {
                Ok(()) => {}
                Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(()),
                Err(error) => return Err(Error::scratch(error)),
            }
            key.clear();
            key.extend(words(&entry, rank));
            visit(&key, span(&entry, rank))?;
        }
    }
}

/// Fills `bytes` from offset `start` of a file, in one system call if possible.
fn read_at(file: &File, bytes: &mut [u8], start: u64) -> std::io::Result<()> {
    #[cfg(unix)]
    return std::os::unix::fs::FileExt::read_exact_at(file, bytes, start);
    #[cfg(not(unix))]
    {
        use std::io::{Seek as _, SeekFrom};
        let mut file = file;
        file.seek(SeekFrom::Start(start))?;
        file.read_exact(bytes)
    }
}

/// Returns the number of bytes of an entry.
const fn width(rank: usize) -> usize {
    rank * 8 + 16
}

/// Returns the first words of an entry: its key.
fn words(entry: &[u8], rank: usize) -> impl Iterator<Item = i64> {
    entry.as_chunks::<8>().0.iter().take(rank).map(|word| i64::from_le_bytes(*word))
}

/// Returns the location in an entry.
fn span(entry: &[u8], rank: usize) -> Span {
    let (words, _) = entry.as_chunks::<8>();
    let [start, counts] = [words[rank], words[rank + 1]].map(u64::from_le_bytes);
    // Both fit.
    let [rows, runs] = [counts & u64::from(u32::MAX), counts >> 32].map(saturating_u32);
    Span { start, rows, runs }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use zvf_metadata::Dtype;
    use zvf_model::Column;

    use super::*;
    use crate::route::Segment;
    use crate::routed::{Numbers, RoutedBatch};
    use crate::stages::slice::HeldSlice;

    #[test]
    fn more_rows_of_a_chunk_than_an_entry_can_state_are_refused() {
        // A segment of 2^16 rows, as many times.
        let byte = "uint8".parse::<Dtype>().unwrap();
        let batch = RoutedBatch {
            positions: Column::new(byte, 1, vec![0].into()).unwrap(),
            fields: Vec::new(),
            groups: Vec::new(),
            numbers: Numbers::From(0),
            rows: vec![0; 1 << 16],
            segments: vec![Segment { chunk: 0, start: 0, count: 1 << 16 }],
        };
        let mut rows = HeldRows {
            batches: vec![batch],
            by_chunk: vec![vec![(0, 0); 1 << 16]],
            ..HeldRows::default()
        };
        rows.table.number(&[7]).unwrap();
        let held = HeldSlice { rows, ..HeldSlice::default() };
        let mut slice = Slice { data: SliceData::Held(Box::new(held)), ..Slice::default() };
        assert_eq!(
            Stored::new(&mut slice).for_each_span(1, |_, _| Ok(())).unwrap_err().sentence(),
            "rows of a chunk: expected at most 4294967295, found 4294967296"
        );
    }

    #[test]
    fn an_entry_of_more_rows_than_its_file_has_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let source = FileSource {
            rows: folder.path().join("rows"),
            chunks: PathBuf::new(),
            codes: Vec::new(),
            goes_on: None,
        };
        fs::write(&source.rows, [1; 8]).unwrap();
        let size = |span: Span| usize_from_u32(span.rows).saturating_mul(1 << 40);
        let byte_per_row = |span: Span| usize_from_u32(span.rows);
        let span = |start, rows| (0, Span { start, rows, runs: 0 });
        let loaded = source.read(vec![span(6, 2), span(0, 6)], byte_per_row).unwrap();
        assert_eq!(loaded.iter().map(|loaded| loaded.bytes.len()).collect::<Vec<_>>(), [6, 2]);
        for (start, rows) in [(1, 8), (8, 1), (u64::MAX, 1), (0, u32::MAX)] {
            let expected = format!(
                "rows of a slice: expected 8 bytes of them, found {rows} rows from byte {start} on"
            );
            let spans = vec![span(0, 0), span(start, rows)];
            assert_eq!(source.read(spans.clone(), byte_per_row).unwrap_err().sentence(), expected);
            assert_eq!(source.read(spans, size).unwrap_err().sentence(), expected);
        }
    }
}
