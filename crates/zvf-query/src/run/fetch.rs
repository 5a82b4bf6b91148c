//! Reads rows of chunks: ranges of rows where that saves bytes, else whole chunks.

use std::ops::Range;

use futures_util::join;
use zvf_error::Result;
use zvf_format::key::ChunkKey;
use zvf_format::num::{saturating_u32, to_u64, usize_from_u32};
use zvf_model::{AttributeReader, Column, LevelReader};
use zvf_store::{Caching, Partial};

use super::Context;
use crate::select::loaded_rows::LoadedRows;
use crate::select::pieces::{Piece, Pieces, coalesce_ranges, missing_row_error};

/// The rows to read of one chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    Nothing,
    Whole,
    Ranges(Vec<Range<u64>>),
}

/// The array whose rows are read.
#[derive(Clone, Copy, Debug)]
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

    /// Chooses what to read of a chunk of about `rows` rows, of which `needed` in `ranges` are needed.
    pub(crate) fn plan_need(
        self,
        rows: u64,
        needed: u64,
        ranges: impl FnOnce(u32) -> Vec<Range<u64>>,
    ) -> Need {
        if needed == 0 {
            return Need::Nothing;
        }
        let saved = rows.saturating_sub(needed).saturating_mul(self.stride()); // estimates, to be compared
        if self.part_cost() == Partial::Whole || saved < MIN_SAVED_BYTES {
            return Need::Whole;
        }
        let gap = RANGE_COST_BYTES.checked_div(self.stride()).unwrap_or(0); // rows without bytes have no gap
        let ranges = ranges(saturating_u32(gap)); // at most `RANGE_COST_BYTES`
        let read: u64 = ranges.iter().map(|rows| rows.end - rows.start).sum(); // of rows of 32 bits
        // Estimates, only compared.
        let ranges_cost = RANGE_COST_BYTES.saturating_mul(to_u64(ranges.len()));
        let cost = read.saturating_mul(self.stride()).saturating_add(ranges_cost);
        let whole = rows.saturating_mul(self.stride());
        if cost < whole { Need::Ranges(ranges) } else { Need::Whole }
    }
}

impl Context {
    /// Reads the rows of the chunks `keys` that `needs` lists.
    pub(crate) async fn read(
        &self,
        source: RowSource<'_>,
        keys: &[ChunkKey],
        needs: Vec<Need>,
        caching: Caching,
    ) -> Result<Vec<LoadedRows>> {
        let mut whole = Vec::with_capacity(keys.len());
        let mut ranged = Vec::new();
        let mut kinds = Vec::with_capacity(keys.len());
        for (key, need) in keys.iter().zip(needs) {
            kinds.push(match need {
                Need::Nothing => ReadKind::Nothing,
                Need::Whole => {
                    whole.push(*key);
                    ReadKind::Whole
                }
                Need::Ranges(ranges) => {
                    ranged.push((*key, ranges));
                    ReadKind::Ranges
                }
            });
        }
        let (columns, parts) = join!(source.read_all(&whole, caching), source.read_ranges(&ranged));
        let (mut columns, mut parts) = (columns.into_iter(), parts.into_iter().zip(ranged));
        let mut loaded = Vec::with_capacity(keys.len());
        for kind in kinds {
            loaded.push(match kind {
                ReadKind::Nothing => LoadedRows::Nothing,
                ReadKind::Whole => {
                    let column = columns.next().ok_or_else(missing_row_error)?;
                    self.allow_missing(column)?.map_or(LoadedRows::Nothing, LoadedRows::Whole)
                }
                ReadKind::Ranges => {
                    let (columns, (_, ranges)) = parts.next().ok_or_else(missing_row_error)?;
                    self.allow_missing(columns)?
                        .map_or(LoadedRows::Nothing, |columns| hold_ranges(columns, &ranges))
                }
            });
        }
        Ok(loaded)
    }

    /// Reads the rows of `pieces` from the chunks `keys`, which have about `rows` rows each.
    pub(crate) async fn read_pieces(
        &self,
        source: RowSource<'_>,
        keys: &[ChunkKey],
        rows: &[u64],
        pieces: &Pieces,
        caching: Caching,
    ) -> Result<Vec<LoadedRows>> {
        self.read(source, keys, plan_needs(source, rows, pieces), caching).await
    }
}

/// How a chunk is read.
enum ReadKind {
    Nothing,
    Whole,
    Ranges,
}

/// Plans what to read of each chunk for `pieces`; the chunks have about `rows` rows.
pub(crate) fn plan_needs(source: RowSource<'_>, rows: &[u64], pieces: &Pieces) -> Vec<Need> {
    let mut counts = vec![0_u64; rows.len()];
    for piece in &pieces.list {
        if let Some(count) = counts.get_mut(usize_from_u32(piece.cell)) {
            *count += u64::from(piece.len);
        }
    }
    plan_needs_by_count(source, rows, &counts, pieces)
}

/// Plans what to read of each chunk for `pieces`, of which `counts` rows are in each chunk.
pub(crate) fn plan_needs_by_count(
    source: RowSource<'_>,
    rows: &[u64],
    counts: &[u64],
    pieces: &Pieces,
) -> Vec<Need> {
    let mut by_cell: Option<Vec<Vec<Piece>>> = None; // only where ranges are read at all
    let mut scratch = Vec::new();
    let needs = rows.iter().zip(counts).enumerate().map(|(cell, (cell_rows, count))| {
        source.plan_need(*cell_rows, *count, |gap| {
            let by_cell = by_cell.get_or_insert_with(|| group_by_cell(pieces, rows.len()));
            coalesce_ranges(by_cell[cell].iter(), gap, &mut scratch)
        })
    });
    needs.collect()
}

/// Groups pieces by chunk.
fn group_by_cell(pieces: &Pieces, cells: usize) -> Vec<Vec<Piece>> {
    let mut by_cell = vec![Vec::new(); cells];
    for piece in &pieces.list {
        if let Some(cell_pieces) = by_cell.get_mut(usize_from_u32(piece.cell)) {
            cell_pieces.push(*piece);
        }
    }
    by_cell
}

/// Holds columns by the first rows of their ranges.
fn hold_ranges(columns: Vec<Column>, ranges: &[Range<u64>]) -> LoadedRows {
    let firsts = ranges.iter().map(|range| saturating_u32(range.start)); // ranges of rows of 32 bits
    LoadedRows::Parts(firsts.zip(columns).collect())
}

/// Minimum saving from which ranges of a chunk are considered.
const MIN_SAVED_BYTES: u64 = 16 << 10;
/// Cost of a range in bytes; ranges with smaller gaps are coalesced.
const RANGE_COST_BYTES: u64 = 4 << 10;
