//! Strips: datasets whose payloads are their bytes in order, readable by byte range.
//!
//! A dataset is a strip if its chunks split only the first axis; then any run of rows is a run of
//! bytes. Contiguous raw chunks are one span of the file, and a part of it is a slice.
//!
//! Not here: which bytes belong to which cell.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::ops::Range;

use bytes::{Bytes, BytesMut};
use zvf_error::{Error, Result};
use zvf_format::num::{saturating_usize, to_u64};
use zvf_format::{Class, Expected};
use zvf_tet::{Row, Span, TensorCodec};

use super::{TetDataset, TetFile, fetch};

/// The bytes of one dataset, in order.
#[derive(Debug)]
pub(crate) struct Strip {
    len: u64,
    form: Form,
}

#[derive(Debug)]
enum Form {
    /// All bytes are contiguous in the file.
    Span(u64),
    /// Chunks of equal size, except for the last.
    Chunks { step: NonZeroU64, rows: Vec<Row> },
}

impl Strip {
    /// An empty strip.
    pub(crate) const EMPTY: Self = Self { len: 0, form: Form::Span(0) };

    /// Opens the bytes of `dataset`; `None` if its chunks split another axis.
    pub(crate) fn open(file: &TetFile, dataset: &TetDataset) -> Result<Option<Self>> {
        let geometry = dataset.geometry()?;
        if geometry.is_empty() {
            return Ok(Some(Self::EMPTY));
        }
        if geometry.counts().iter().skip(1).any(|count| *count != 1) {
            return Ok(None);
        }
        let lookup = file.lookup(dataset)?;
        let plan = lookup.select_all()?;
        let len = geometry.byte_len();
        if let Some(Span { offset, .. }) = plan.dense_span() {
            return Ok(Some(Self { len, form: Form::Span(offset) }));
        }
        let mut rows = Vec::new();
        for touched in plan.tiles() {
            rows.push(*touched?.row());
        }
        let step = rows.first().and_then(|row| NonZeroU64::new(row.raw_byte_len()));
        let step = step.unwrap_or(NonZeroU64::MIN); // chunks without bytes hold no part
        Ok(Some(Self { len, form: Form::Chunks { step, rows } }))
    }

    /// Returns the number of bytes.
    pub(crate) const fn len(&self) -> u64 {
        self.len
    }

    /// Returns the bytes `range` without a copy.
    pub(crate) fn resident_bytes(&self, file: &TetFile, range: &Range<u64>) -> Option<Bytes> {
        let Form::Span(offset) = self.form else { return None };
        let len = range.end.checked_sub(range.start).filter(|_| range.end <= self.len)?;
        file.resident_bytes(Span { offset: offset.checked_add(range.start)?, len })
    }

    /// Returns whether parts are returned without a copy.
    pub(crate) fn is_resident(&self, file: &TetFile) -> bool {
        matches!(self.form, Form::Span(_)) && file.bytes().resident_bytes().is_some()
    }

    /// Returns whether a part can be read without the rest.
    pub(crate) const fn reads_ranges(&self) -> bool {
        matches!(self.form, Form::Span(_))
    }

    /// Reads the bytes of each of `ranges`, in order; decodes chunks of at most `max_bytes` bytes.
    pub(crate) async fn read_many(
        &self,
        file: &TetFile,
        ranges: &[Range<u64>],
        max_bytes: u64,
    ) -> Vec<Result<Bytes>> {
        let inside = |range: &Range<u64>| range.start <= range.end && range.end <= self.len;
        match &self.form {
            Form::Span(offset) => {
                let shifted = |range: &Range<u64>| {
                    let start = offset.checked_add(range.start).filter(|_| inside(range))?;
                    Some(start..offset.checked_add(range.end)?)
                };
                let asks: Vec<Range<u64>> = ranges.iter().filter_map(shifted).collect();
                let mut answers = file.bytes().read_many(&asks).await.into_iter();
                let answer = |range: &Range<u64>| match shifted(range) {
                    Some(_) => answers.next().expect("every range inside has an answer"),
                    None => Err(self.out_of_bounds_error(range)),
                };
                ranges.iter().map(answer).collect()
            }
            Form::Chunks { step, rows } => {
                let place = |at: u64| saturating_usize(at / *step); // beyond all chunks where it does not fit
                let mut touched: Vec<usize> = Vec::new();
                for range in ranges.iter().filter(|range| inside(range) && !range.is_empty()) {
                    touched.extend(place(range.start)..=place(range.end.saturating_sub(1)));
                }
                let chunks = read_chunks(file, rows, touched, max_bytes).await;
                let answer = |range: &Range<u64>| match inside(range) {
                    true => assemble(range, *step, &chunks)
                        .and_then(|found| found.ok_or_else(|| missing_bytes_error(range))),
                    false => Err(self.out_of_bounds_error(range)),
                };
                ranges.iter().map(answer).collect()
            }
        }
    }

    /// Reads one range.
    pub(crate) async fn read(
        &self,
        file: &TetFile,
        range: Range<u64>,
        max_bytes: u64,
    ) -> Result<Bytes> {
        let answers = self.read_many(file, std::slice::from_ref(&range), max_bytes);
        answers.await.pop().expect("one range has one answer")
    }

    fn out_of_bounds_error(&self, range: &Range<u64>) -> Error {
        Error::new(
            Class::OutOfBounds,
            "end of a part",
            Expected::AtMost(self.len.into()),
            range.end,
        )
    }
}

type Chunks = BTreeMap<usize, Result<Bytes>>;

/// Reads and decodes the `requested` chunks.
async fn read_chunks(
    file: &TetFile,
    rows: &[Row],
    mut requested: Vec<usize>,
    max_bytes: u64,
) -> Chunks {
    requested.sort_unstable();
    requested.dedup();
    let row_of = |place: &usize| Some((*place, *rows.get(*place)?));
    let placed_rows: Vec<(usize, Row)> = requested.iter().filter_map(row_of).collect();
    let ranges: Vec<_> =
        placed_rows.iter().map(|(_, row)| row.payload_offset()..row.payload_end()).collect();
    let stored = file.bytes().read_many(&ranges).await;
    let mut chunks = Chunks::new();
    let (mut places, mut packed) = (Vec::new(), Vec::new());
    for ((place, row), stored) in placed_rows.into_iter().zip(stored) {
        let capped = row.decoded_len(max_bytes).map_err(Error::from);
        match capped.and(stored) {
            Ok(stored) if row.codec() == TensorCodec::Zstd => {
                places.push(place);
                packed.push((row, stored));
            }
            other => drop(chunks.insert(place, other)),
        }
    }
    let decoded = fetch::decode_tiles(packed).await;
    chunks.extend(places.into_iter().zip(decoded));
    chunks
}

fn missing_bytes_error(range: &Range<u64>) -> Error {
    let len = range.end.saturating_sub(range.start);
    Error::new(Class::CountMismatch, "bytes of the chunks of a part", len, "fewer")
}

/// Assembles the bytes `range` from the chunks that contain them; `None` if the chunks are too
/// short.
fn assemble(range: &Range<u64>, step: NonZeroU64, chunks: &Chunks) -> Result<Option<Bytes>> {
    let mut pieces = Vec::new();
    let mut at = range.start;
    while at < range.end {
        let (place, inside) = (at / step, at % step);
        let Some(chunk) = chunks.get(&saturating_usize(place)) else { return Ok(None) };
        let chunk = chunk.as_ref().map_err(Clone::clone)?;
        // Bytes of the chunk: up to its end, the end of the step or that of the range.
        let left = range.end.saturating_sub(at);
        let to = inside.saturating_add(left).min(step.get()).min(to_u64(chunk.len()));
        let len = to.checked_sub(inside).filter(|len| *len > 0);
        let Some(end) = len.and_then(|len| at.checked_add(len)) else { return Ok(None) };
        pieces.push(chunk.slice(saturating_usize(inside)..saturating_usize(to)));
        at = end;
    }
    match pieces.as_slice() {
        [piece] => Ok(Some(piece.clone())),
        _ => {
            let mut all = BytesMut::new();
            pieces.iter().for_each(|piece| all.extend_from_slice(piece));
            Ok(Some(all.freeze()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_complete_or_faults() {
        let chunk = |bytes: &'static [u8]| Ok(Bytes::from_static(bytes));
        let chunks = Chunks::from([
            (0, chunk(b"abcd")),
            (1, chunk(b"ef")),    // as the last chunk, or cut
            (2, chunk(b"ijkl+")), // longer than a step
            (4, chunk(b"qrst")),
        ]);
        let step = NonZeroU64::new(4).unwrap();
        let table: [(Range<u64>, Option<&[u8]>); 9] = [
            (0..4, Some(b"abcd")),
            (1..3, Some(b"bc")),
            (3..6, Some(b"def")),
            (2..2, Some(b"")),
            (3..7, None),
            (6..7, None),
            (8..12, Some(b"ijkl")),
            (8..13, None),
            (12..17, None),
        ];
        for (range, expected) in table {
            let found = assemble(&range, step, &chunks).unwrap();
            assert_eq!(found.as_deref(), expected, "{range:?}");
        }
        let broken = Chunks::from([(0, Err(missing_bytes_error(&(0..1))))]);
        assert_eq!(assemble(&(0..1), step, &broken).unwrap_err().class(), Class::CountMismatch);
    }
}
