//! Reading rows of chunks: whole where most of a chunk is wanted or ranges cost as much, else by range.

use std::ops::Range;

use futures_util::join;
use zvf_format::key::ChunkKey;
use zvf_format::num::{saturating_u32, to_u64, usize_from_u32};
use zvf_model::{AttributeReader, Column, LevelReader, ModelError};
use zvf_store::{Caching, Partial};

use super::Context;
use crate::error::QueryError;
use crate::select::held::Held;
use crate::select::pieces::{Piece, Pieces, ranges};

/// What is wanted of one chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    Nothing,
    Whole,
    Ranges(Vec<Range<u64>>),
}

/// Which rows are read.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Of<'a> {
    Positions(&'a LevelReader),
    Attribute(&'a AttributeReader),
}

impl Of<'_> {
    fn partial(self) -> Partial {
        match self {
            Self::Positions(level) => level.partial(),
            Self::Attribute(attribute) => attribute.partial(),
        }
    }

    fn stride(self) -> u64 {
        match self {
            // Only compared: what is too large fails when it is read.
            Self::Positions(level) => level.dtype().size.saturating_mul(to_u64(level.axes())),
            Self::Attribute(attribute) => {
                attribute.dtype().size.saturating_mul(attribute.width().into())
            }
        }
    }

    async fn read_all(
        self,
        keys: &[ChunkKey],
        caching: Caching,
    ) -> Vec<Result<Column, ModelError>> {
        match self {
            _ if keys.is_empty() => Vec::new(),
            Self::Positions(level) => level.positions(keys, caching).await,
            Self::Attribute(attribute) => attribute.values(keys, caching).await,
        }
    }

    async fn read_ranges(
        self,
        asks: &[(ChunkKey, Vec<Range<u64>>)],
    ) -> Vec<Result<Vec<Column>, ModelError>> {
        match self {
            _ if asks.is_empty() => Vec::new(),
            Self::Positions(level) => level.position_rows(asks).await,
            Self::Attribute(attribute) => attribute.value_rows(asks).await,
        }
    }

    /// What to read of a chunk of about `rows` rows, of which `wanted` are wanted, in `ranges`.
    pub(crate) fn need(
        self,
        rows: u64,
        wanted: u64,
        ranges: impl FnOnce(u32) -> Vec<Range<u64>>,
    ) -> Need {
        if wanted == 0 {
            return Need::Nothing;
        }
        let saved = rows.saturating_sub(wanted).saturating_mul(self.stride()); // estimates, to be compared
        if self.partial() == Partial::Whole || saved < MIN_SAVED_BYTES {
            return Need::Whole;
        }
        let gap = RANGE_COST_BYTES.checked_div(self.stride()).unwrap_or(0); // rows without bytes have no gap
        let ranges = ranges(saturating_u32(gap));
        let read = ranges.iter().fold(0_u64, |sum, rows| {
            sum.saturating_add(rows.end.saturating_sub(rows.start).saturating_mul(self.stride()))
        });
        // Estimates, only compared.
        let cost = read.saturating_add(RANGE_COST_BYTES.saturating_mul(to_u64(ranges.len())));
        let whole = rows.saturating_mul(self.stride());
        if cost < whole { Need::Ranges(ranges) } else { Need::Whole }
    }
}

impl Context {
    /// The rows that `needs` asks of the chunks `keys`.
    pub(crate) async fn read(
        &self,
        of: Of<'_>,
        keys: &[ChunkKey],
        needs: Vec<Need>,
        caching: Caching,
    ) -> Result<Vec<Held>, QueryError> {
        let mut whole = Vec::with_capacity(keys.len());
        let mut some = Vec::new();
        let mut places = Vec::with_capacity(keys.len());
        for (key, need) in keys.iter().zip(needs) {
            places.push(match need {
                Need::Nothing => Kind::Nothing,
                Need::Whole => {
                    whole.push(*key);
                    Kind::Whole
                }
                Need::Ranges(ranges) => {
                    some.push((*key, ranges));
                    Kind::Some
                }
            });
        }
        let (columns, parts) = join!(of.read_all(&whole, caching), of.read_ranges(&some));
        let (mut columns, mut parts) = (columns.into_iter(), parts.into_iter().zip(some));
        let mut held = Vec::with_capacity(keys.len());
        for place in places {
            held.push(match place {
                Kind::Nothing => Held::Nothing,
                Kind::Whole => match columns.next() {
                    Some(column) => self.allow_missing(column)?.map_or(Held::Nothing, Held::Whole),
                    None => Held::Nothing,
                },
                Kind::Some => match parts.next() {
                    Some((columns, (_, ranges))) => self
                        .allow_missing(columns)?
                        .map_or(Held::Nothing, |columns| by_range(columns, &ranges)),
                    None => Held::Nothing,
                },
            });
        }
        Ok(held)
    }

    /// The rows of `pieces`, of chunks `keys` that have about `rows` rows each.
    pub(crate) async fn read_pieces(
        &self,
        of: Of<'_>,
        keys: &[ChunkKey],
        rows: &[u64],
        pieces: &Pieces,
        caching: Caching,
    ) -> Result<Vec<Held>, QueryError> {
        self.read(of, keys, plan_needs(of, rows, pieces), caching).await
    }
}

enum Kind {
    Nothing,
    Whole,
    Some,
}

/// What `pieces` need of each chunk, which has about so many `rows`.
pub(crate) fn plan_needs(of: Of<'_>, rows: &[u64], pieces: &Pieces) -> Vec<Need> {
    let mut wanted = vec![0_u64; rows.len()];
    for piece in &pieces.list {
        if let Some(wanted) = wanted.get_mut(usize_from_u32(piece.cell)) {
            *wanted += u64::from(piece.len);
        }
    }
    plan_wanted_needs(of, rows, &wanted, pieces)
}

/// The same, where it is known how many rows of each chunk are `wanted`.
pub(crate) fn plan_wanted_needs(
    of: Of<'_>,
    rows: &[u64],
    wanted: &[u64],
    pieces: &Pieces,
) -> Vec<Need> {
    let mut by_cell: Option<Vec<Vec<Piece>>> = None; // only where ranges are read at all
    let mut scratch = Vec::new();
    let each = rows.iter().zip(wanted).enumerate().map(|(cell, (of_cell, wanted))| {
        of.need(*of_cell, *wanted, |gap| {
            let by_cell = by_cell.get_or_insert_with(|| sorted(pieces, rows.len()));
            let own = by_cell.get(cell).map(Vec::as_slice).unwrap_or_default();
            ranges(own.iter(), gap, &mut scratch)
        })
    });
    each.collect()
}

/// The pieces of each of so many chunks.
fn sorted(pieces: &Pieces, cells: usize) -> Vec<Vec<Piece>> {
    let mut by_cell = vec![Vec::new(); cells];
    for piece in &pieces.list {
        if let Some(own) = by_cell.get_mut(usize_from_u32(piece.cell)) {
            own.push(*piece);
        }
    }
    by_cell
}

fn by_range(columns: Vec<Column>, ranges: &[Range<u64>]) -> Held {
    let firsts = ranges.iter().map(|range| saturating_u32(range.start)); // ranges of rows of 32 bits
    Held::Parts(firsts.zip(columns).collect())
}

/// Ranges are thought of only where they can save so many bytes of the chunk.
const MIN_SAVED_BYTES: u64 = 16 << 10;
/// One more range costs about as much as so many bytes, so that ranges closer than this are one.
const RANGE_COST_BYTES: u64 = 4 << 10;
