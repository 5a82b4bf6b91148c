//! Reads rows of chunks: ranges of rows if that saves bytes, otherwise whole chunks.

use std::ops::Range;

use futures_util::join;
use zvf_error::{Error, Result};
use zvf_format::key::ChunkKey;
use zvf_format::num::{saturating_u32, to_u64, usize_from_u32};
use zvf_format::{Class, Expected};
use zvf_model::{AttributeReader, Column, LevelReader};
use zvf_store::{Caching, Partial};

use super::Context;
use crate::select::loaded_rows::LoadedRows;
use crate::select::pieces::{Piece, Pieces, coalesce_ranges, missing_row_error};
use crate::select::runs::ROWS_END;

/// Chunks that are read together; pieces refer to them by index.
pub(crate) struct Chunks {
    pub(crate) keys: Vec<ChunkKey>,
    /// The approximate number of rows of each: the extent of its fragments.
    pub(crate) rows: Vec<u64>,
    /// Whether the bytes are cached.
    pub(crate) caching: Caching,
}

impl Chunks {
    /// Refuses rows past the end of chunks that are loaded whole. Ranges that were read exist, and
    /// pieces that are not loaded were not requested.
    pub(crate) fn check_pieces(&self, pieces: &[Piece], positions: &[LoadedRows]) -> Result<()> {
        pieces.iter().try_for_each(|piece| {
            let cell = usize_from_u32(piece.cell);
            match &positions[cell] {
                LoadedRows::Whole(column) => {
                    check_end(&self.keys[cell], piece.end().into(), to_u64(column.len()))
                }
                LoadedRows::Nothing | LoadedRows::Parts(_) => Ok(()),
            }
        })
    }
}

/// Refuses fragments of a chunk that end past its `rows`.
pub(crate) fn check_end(key: &ChunkKey, end: u64, rows: u64) -> Result<()> {
    if end <= rows {
        return Ok(());
    }
    let error = Error::new(Class::OutOfBounds, ROWS_END, Expected::AtMost(rows.into()), end);
    Err(error.at_chunk(key))
}

/// The rows to read of one chunk.
#[derive(PartialEq)]
pub(crate) enum Need {
    Nothing,
    Whole,
    Ranges(Vec<Range<u64>>),
}

/// The array whose rows are read.
#[derive(Clone, Copy)]
pub(crate) enum RowSource<'a> {
    Positions(&'a LevelReader),
    Attribute(&'a AttributeReader),
}

impl RowSource<'_> {
    fn part_cost(self) -> Partial {
        match self {
            Self::Positions(level) => level.part_cost(),
            Self::Attribute(attribute) => attribute.part_cost(),
        }
    }

    fn stride(self) -> u64 {
        let (size, width) = match self {
            Self::Positions(level) => (level.dtype().size, to_u64(level.axes())),
            Self::Attribute(attribute) => (attribute.dtype().size, attribute.width().into()),
        };
        size.saturating_mul(width) // only compared: what is too large fails when it is read
    }

    async fn read_all(self, keys: &[ChunkKey], caching: Caching) -> Vec<Result<Column>> {
        match self {
            _ if keys.is_empty() => Vec::new(),
            Self::Positions(level) => level.positions(keys, caching).await,
            Self::Attribute(attribute) => attribute.values(keys, caching).await,
        }
    }

    async fn read_ranges(self, asks: &[(ChunkKey, Vec<Range<u64>>)]) -> Vec<Result<Vec<Column>>> {
        match self {
            _ if asks.is_empty() => Vec::new(),
            Self::Positions(level) => level.position_rows(asks).await,
            Self::Attribute(attribute) => attribute.value_rows(asks).await,
        }
    }

    /// Decides what to read for `pieces` of each of the chunks, which have about `rows` rows.
    pub(crate) fn plan_needs(self, rows: &[u64], pieces: &[Piece]) -> Vec<Need> {
        let mut counts = vec![0_u64; rows.len()];
        pieces.iter().for_each(|piece| counts[usize_from_u32(piece.cell)] += u64::from(piece.len));
        let saves = |cell: usize| {
            // Estimates that are only compared.
            let saved = rows[cell].saturating_sub(counts[cell]).saturating_mul(self.stride());
            self.part_cost() != Partial::Whole && saved >= MIN_SAVED_BYTES
        };
        // Grouped by chunk only where ranges are read at all.
        let mut by_cell = vec![Vec::new(); rows.len()];
        if (0..rows.len()).any(saves) {
            pieces.iter().for_each(|piece| by_cell[usize_from_u32(piece.cell)].push(*piece));
        }
        let gap = RANGE_COST_BYTES.checked_div(self.stride()).unwrap_or(0); // rows without bytes have no gap
        let mut scratch = Vec::new();
        let need = |cell: usize| match counts[cell] {
            0 => Need::Nothing,
            _ if !saves(cell) => Need::Whole,
            _ => {
                let gap = saturating_u32(gap); // at most `RANGE_COST_BYTES`
                let ranges = coalesce_ranges(by_cell[cell].iter(), gap, &mut scratch);
                let read: u64 = ranges.iter().map(|rows| rows.end - rows.start).sum(); // of rows of 32 bits
                // Estimates, only compared.
                let ranges_cost = RANGE_COST_BYTES.saturating_mul(to_u64(ranges.len()));
                let cost = read.saturating_mul(self.stride()).saturating_add(ranges_cost);
                let whole = rows[cell].saturating_mul(self.stride());
                if cost < whole { Need::Ranges(ranges) } else { Need::Whole }
            }
        };
        (0..rows.len()).map(need).collect()
    }
}

impl Context {
    /// Reads the rows of `chunks` that `needs` lists.
    pub(crate) async fn read(
        &self,
        source: RowSource<'_>,
        chunks: &Chunks,
        needs: Vec<Need>,
    ) -> Result<Vec<LoadedRows>> {
        let (mut whole, mut ranged) = (Vec::new(), Vec::new());
        for (key, need) in chunks.keys.iter().zip(&needs) {
            match need {
                Need::Nothing => {}
                Need::Whole => whole.push(*key),
                Need::Ranges(ranges) => ranged.push((*key, ranges.clone())),
            }
        }
        let (columns, parts) =
            join!(source.read_all(&whole, chunks.caching), source.read_ranges(&ranged));
        let (mut columns, mut parts) = (columns.into_iter(), parts.into_iter());
        let loaded = |need| {
            let found = match need {
                Need::Nothing => None,
                Need::Whole => {
                    let column = columns.next().ok_or_else(missing_row_error)?;
                    self.allow_missing(column)?.map(LoadedRows::Whole)
                }
                Need::Ranges(ranges) => {
                    let columns = parts.next().ok_or_else(missing_row_error)?;
                    let firsts = ranges.iter().map(|range| saturating_u32(range.start)); // of 32 bits
                    let columns = self.allow_missing(columns)?;
                    columns.map(|columns| LoadedRows::Parts(firsts.zip(columns).collect()))
                }
            };
            Ok(found.unwrap_or(LoadedRows::Nothing))
        };
        needs.into_iter().map(loaded).collect()
    }

    /// Reads the rows of `pieces` from `chunks`.
    pub(crate) async fn read_pieces(
        &self,
        source: RowSource<'_>,
        chunks: &Chunks,
        pieces: &Pieces,
    ) -> Result<Vec<LoadedRows>> {
        self.read(source, chunks, source.plan_needs(&chunks.rows, &pieces.list)).await
    }

    /// Reads the returned attributes of vertices for the rows of `pieces`.
    pub(super) async fn columns(
        &self,
        chunks: &Chunks,
        pieces: &Pieces,
    ) -> Result<Vec<Vec<LoadedRows>>> {
        let vertex = self.columns.vertex.iter();
        let reads =
            vertex.map(|field| self.read_pieces(RowSource::Attribute(field), chunks, pieces));
        futures_util::future::join_all(reads).await.into_iter().collect()
    }
}

/// Minimum saving from which ranges of a chunk are considered.
const MIN_SAVED_BYTES: u64 = 16 << 10;
/// Cost of a range in bytes; ranges with smaller gaps are coalesced.
const RANGE_COST_BYTES: u64 = 4 << 10;

/// Divides `all` into groups of at most this many bytes, or of one item, each with its bytes.
pub(super) fn groups<T>(
    all: &[T],
    bytes: impl Iterator<Item = u64>,
    max_bytes: u64,
) -> impl Iterator<Item = (&[T], u64)> {
    let (mut parts, mut sum): (Vec<(usize, u64)>, _) = (Vec::new(), 0_u64);
    for (at, bytes) in bytes.enumerate() {
        sum = sum.saturating_add(bytes); // compared with the budget
        if at == 0 || sum > max_bytes {
            parts.push((at, 0));
            sum = bytes;
        }
        if let Some((_, part_bytes)) = parts.last_mut() {
            *part_bytes = sum;
        }
    }
    let ends: Vec<usize> = parts.iter().skip(1).map(|part| part.0).chain([all.len()]).collect();
    parts.into_iter().zip(ends).map(|((start, bytes), end)| (&all[start..end], bytes))
}
