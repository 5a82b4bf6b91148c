//! The rows of one slice: of which chunks it has any, and where they are.
//!
//! A slice in memory has the batches as they were given, and gives the pieces of a chunk away as they are. Of others:
//!
//! A large input has hundreds of slices, each with rows of most chunks: all of their lists together may be larger than
//! the memory. Of each list (`NAME.chunks`, ascending) every 64th chunk is held; the entries between are read when
//! they are asked for. Rows are read for many chunks at once, those that lie side by side in one piece.
//!
//! Not here: what the bytes of rows are (`known`).

use std::fs::File;
use std::io::{BufReader, Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;

use bytes::Bytes;
use zvf_format::num::{saturating_u32_from_usize, to_u64, usize_from_u32};

use super::file::open;
use super::slice::{HeldRows, Slice, SliceData};
use super::stored::file;
use crate::WriteError;
use crate::chunks::ChunkTable;
use crate::run::Piece;

/// Where the rows of a slice are.
#[derive(Debug)]
pub(super) enum Source {
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

/// Rows in a file, as far as their list is held.
#[derive(Debug)]
pub(super) struct FileSource {
    rows: PathBuf,
    chunks: PathBuf,
    marks: Vec<u32>, // the chunk of every `MARKED`th entry of the list
    pub(super) codes: Vec<Option<Vec<u32>>>, // of each column of texts, those that they have in all slices
    pub(super) goes_on: Option<u32>, // the chunk whose last run its first vertices go on with
}

/// Where the rows of a chunk are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) start: u64,
    pub(super) rows: u32,
    pub(super) runs: u32,
}

/// The rows of a chunk, as they were spilled.
#[derive(Clone, Debug)]
pub(super) struct LoadedSpan {
    pub(super) chunk: u32,
    pub(super) span: Span,
    pub(super) bytes: Bytes,
}

impl Source {
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
                marks: Vec::new(),
                codes: Vec::new(),
                goes_on: None,
            }),
        }
    }

    /// Calls `each` with the key and the place of each chunk that has rows, ascending.
    pub(super) fn each_span(
        &self,
        rank: usize,
        mut each: impl FnMut(&[i64], Span) -> Result<(), WriteError>,
    ) -> Result<(), WriteError> {
        match self {
            Self::Held(held) => held.chunks.iter().try_for_each(|chunk| {
                let pieces = held.rows.pieces(*chunk);
                let rows: usize = pieces.iter().map(|piece| piece.rows.len()).sum();
                let runs = held.rows.chains.owners(*chunk).len();
                // More rows than 32 bits count are refused when the cell is written.
                let [rows, runs] = [rows, runs].map(saturating_u32_from_usize);
                each(held.rows.table.components(*chunk), Span { start: 0, rows, runs })
            }),
            Self::File(source) => source.each_span(rank, each),
        }
    }

    /// Learns the numbers in the level of its chunks, ascending. Returns the marks of a list in a file.
    pub(super) fn number(&mut self, chunks: &[u32], all: usize) -> Vec<u32> {
        match self {
            Self::Held(held) => {
                held.numbers = vec![u32::MAX; all];
                for (number, held_number) in chunks.iter().zip(&held.chunks) {
                    if let Some(to) = held.numbers.get_mut(usize_from_u32(*number)) {
                        *to = *held_number;
                    }
                }
                Vec::new()
            }
            Self::File(source) => {
                source.marks = chunks.iter().step_by(MARKED).copied().collect();
                source.marks.clone()
            }
        }
    }

    /// Sets the marks of a list in a file, as [`number`](Self::number) returned them.
    pub(super) fn set_marks(&mut self, marks: Vec<u32>) {
        if let Self::File(source) = self {
            source.marks = marks;
        }
    }
}

impl HeldSource {
    /// The rows of a chunk of the level, in the order given, and the objects of its runs.
    pub(super) fn chunk(&self, number: u32) -> (Vec<Piece<'_>>, &[i64]) {
        let held_number = self.numbers.get(usize_from_u32(number)).copied().unwrap_or(u32::MAX);
        (self.rows.pieces(held_number), self.rows.chains.owners(held_number))
    }
}

impl FileSource {
    /// The rows of these chunks, ascending; `size` says how many bytes there are of each.
    pub(super) fn read(
        &self,
        table: &ChunkTable,
        chunks: &[u32],
        size: impl Fn(Span) -> usize,
    ) -> Result<Vec<LoadedSpan>, WriteError> {
        let spans = self.spans(table, chunks)?;
        let mut loaded = Vec::with_capacity(spans.len());
        if spans.is_empty() {
            return Ok(loaded);
        }
        let file = open(&self.rows)?;
        let adjoin = |(_, a): &(u32, Span), (_, b): &(u32, Span)| {
            a.start.checked_add(to_u64(size(*a))) == Some(b.start)
        };
        for run in spans.chunk_by(adjoin) {
            let total: usize = run.iter().map(|(_, span)| size(*span)).sum();
            let start = run.first().map_or(0, |(_, span)| span.start); // runs are not empty
            let mut bytes = vec![0; total];
            read_at(&file, &mut bytes, start).map_err(WriteError::Scratch)?;
            let mut bytes = Bytes::from(bytes);
            for (chunk, span) in run {
                let bytes = bytes.split_to(size(*span));
                loaded.push(LoadedSpan { chunk: *chunk, span: *span, bytes });
            }
        }
        Ok(loaded)
    }

    /// Reads the list of chunks: calls `each` with the key and the place of each, ascending.
    fn each_span(
        &self,
        rank: usize,
        mut each: impl FnMut(&[i64], Span) -> Result<(), WriteError>,
    ) -> Result<(), WriteError> {
        let mut file = BufReader::with_capacity(1 << 16, open(&self.chunks)?);
        let (mut entry, mut key) = (vec![0; width(rank)], Vec::with_capacity(rank));
        loop {
            match file.read_exact(&mut entry) {
                Ok(()) => {}
                Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(()),
                Err(error) => return Err(WriteError::Scratch(error)),
            }
            key.clear();
            key.extend(words(&entry, rank));
            each(&key, span(&entry, rank))?;
        }
    }

    /// Where the rows of these chunks are, ascending, as far as there are any.
    fn spans(
        &self,
        table: &ChunkTable,
        mut remaining: &[u32],
    ) -> Result<Vec<(u32, Span)>, WriteError> {
        let mut found = Vec::new();
        let Some(lowest) = self.marks.first() else { return Ok(found) };
        let width = width(table.rank());
        let mut file = open(&self.chunks)?;
        let mut block = Vec::new();
        remaining = skip_below(remaining, *lowest);
        while let Some(first) = remaining.first() {
            // The first mark is not above it.
            let next = self.marks.partition_point(|mark| mark <= first);
            let start = to_u64(next.saturating_sub(1)) * to_u64(MARKED * width);
            file.seek(SeekFrom::Start(start)).map_err(WriteError::Scratch)?;
            block.clear();
            let mut entries = (&mut file).take(to_u64(MARKED * width));
            entries.read_to_end(&mut block).map_err(WriteError::Scratch)?;
            let later = self.marks.get(next).map_or(&[][..], |mark| skip_below(remaining, *mark));
            let in_block = remaining.get(..remaining.len() - later.len()).unwrap_or(remaining);
            let mut entries = block.chunks_exact(width).peekable();
            for chunk in in_block {
                let key = table.components(*chunk);
                let order = |entry: &[u8]| words(entry, key.len()).cmp(key.iter().copied());
                while entries.next_if(|entry| order(entry).is_lt()).is_some() {}
                if let Some(entry) = entries.next_if(|entry| order(entry).is_eq()) {
                    found.push((*chunk, span(entry, key.len())));
                }
            }
            remaining = later;
        }
        Ok(found)
    }
}

/// Fills `bytes` from byte `start` of a file on, in one call where the system has one.
fn read_at(file: &File, bytes: &mut [u8], start: u64) -> std::io::Result<()> {
    #[cfg(unix)]
    return std::os::unix::fs::FileExt::read_exact_at(file, bytes, start);
    #[cfg(not(unix))]
    {
        let mut file = file;
        file.seek(SeekFrom::Start(start))?;
        file.read_exact(bytes)
    }
}

/// Those of `chunks`, ascending, that are not below `lowest`.
fn skip_below(chunks: &[u32], lowest: u32) -> &[u32] {
    chunks.get(chunks.partition_point(|chunk| *chunk < lowest)..).unwrap_or(&[])
}

/// Bytes of an entry.
const fn width(rank: usize) -> usize {
    rank * 8 + 16
}

/// The first words of an entry: its key.
fn words(entry: &[u8], rank: usize) -> impl Iterator<Item = i64> {
    entry.as_chunks::<8>().0.iter().take(rank).map(|word| i64::from_le_bytes(*word))
}

/// The place that an entry says.
fn span(entry: &[u8], rank: usize) -> Span {
    let rest = entry.get(rank * 8..).unwrap_or(&[]);
    let word = |at: usize| rest.get(at..).and_then(|rest| rest.first_chunk::<8>());
    let [start, counts] = [0, 8].map(|at| word(at).map_or(0, |word| u64::from_le_bytes(*word))); // both are there
    let low = |n: u64| u32::try_from(n & u64::from(u32::MAX)).unwrap_or(0); // fits
    Span { start, rows: low(counts), runs: low(counts >> 32) }
}

/// One entry of so many is held.
const MARKED: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    /// A slice with these chunks of one axis, whose rows are two bytes each.
    fn slice(folder: &std::path::Path, chunks: &[(i64, u32)]) -> Slice {
        let slice = Slice { data: SliceData::Files(folder.join("slice")), ..Slice::default() };
        let (mut list, mut rows) = (Vec::new(), Vec::new());
        for (key, count) in chunks {
            list.extend(key.to_le_bytes());
            list.extend(to_u64(rows.len()).to_le_bytes());
            list.extend([count.to_le_bytes(), 7_u32.to_le_bytes()].concat());
            rows.extend((0..*count).flat_map(|n| [*key as u8, n as u8]));
        }
        std::fs::write(folder.join("slice.chunks"), list).unwrap();
        std::fs::write(folder.join("slice.rows"), rows).unwrap();
        slice
    }

    #[test]
    fn rows_of_any_chunks_are_found() {
        let folder = tempfile::tempdir().unwrap();
        // The slice has every third chunk of all chunks.
        let chunks: Vec<(i64, u32)> = (0..200).map(|n| (n * 3 - 90, n as u32 % 4 + 1)).collect();
        let mut slice = slice(folder.path(), &chunks);
        let mut table = ChunkTable::new(1);
        for key in -95..515 {
            table.number(&[key]).unwrap();
        }
        let mut source = Source::new(&mut slice);
        let mut numbers = Vec::new();
        let span = |key: &[i64], span: Span| {
            let (key_at, rows) = chunks[numbers.len()];
            assert_eq!((key[0], span.rows, span.runs), (key_at, rows, 7));
            numbers.push(table.find(key));
            Ok(())
        };
        source.each_span(1, span).unwrap();
        let Source::File(empty) = Source::new(&mut slice) else { panic!("a file") };
        source.number(&numbers, table.len());
        let Source::File(source) = source else { panic!("a file") };
        assert_eq!((numbers.len(), source.marks.len()), (200, 4));
        let size = |span: Span| span.rows as usize * 2;
        for step in [1, 2, 7, 64, 300] {
            for first in [0, 5, 100, 609] {
                let requested: Vec<u32> = (first..610).step_by(step).collect();
                let keys = requested.iter().map(|chunk| table.components(*chunk)[0]);
                let expected: Vec<(i64, u32)> =
                    keys.filter_map(|key| chunks.iter().find(|c| c.0 == key).copied()).collect();
                let loaded = source.read(&table, &requested, size).unwrap();
                let found: Vec<(i64, u32)> =
                    loaded.iter().map(|k| (table.components(k.chunk)[0], k.span.rows)).collect();
                assert_eq!(found, expected, "from {first} by {step}");
                for LoadedSpan { chunk, bytes, .. } in &loaded {
                    let key = table.components(*chunk)[0] as u8;
                    assert!(bytes.chunks(2).zip(0..).all(|(row, n)| row == [key, n]));
                }
            }
        }
        assert!(empty.read(&table, &[1, 2], size).unwrap().is_empty());
    }
}
