//! Selected rows in the order of the answer, and gathering of their columns.
//!
//! Gathering copies each row once, from the buffer it was read into to its position in the answer;
//! above a megabyte, several threads do it. A single piece is not copied if it is at least half of
//! the buffer.

use std::ops::Range;

use zvf_error::{Error, Result};
use zvf_format::fragment::Fragment;
use zvf_format::num::{index_u32, saturating_u32, to_u64, usize_from_u32};
use zvf_format::{Class, Expected};
use zvf_metadata::Dtype;
use zvf_model::Column;

use super::answer_memory::AnswerMemory;
use super::loaded_rows::LoadedRows;

/// Consecutive rows of one chunk.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Piece {
    /// The number of the chunk in the query.
    pub(crate) cell: u32,
    pub(crate) start: u32,
    pub(crate) len: u32,
    /// The fragment that contains the rows; 0 if it is not requested.
    pub(crate) fragment: u32,
}

impl Piece {
    pub(crate) const fn end(&self) -> u32 {
        self.start + self.len
    }
}

/// Rows of several chunks, in order.
#[derive(Clone, Default)]
pub(crate) struct Pieces {
    pub(crate) list: Vec<Piece>,
    /// The number of rows, saturating at `usize::MAX` for larger claims of fragments, to be
    /// compared with the limits.
    pub(crate) rows: usize,
}

impl Pieces {
    /// Appends rows.
    pub(crate) fn push(&mut self, piece: Piece) {
        if piece.len == 0 {
            return;
        }
        self.rows = self.rows.saturating_add(usize_from_u32(piece.len));
        match self.list.last_mut() {
            Some(last)
                if last.end() == piece.start
                    && (last.cell, last.fragment) == (piece.cell, piece.fragment) =>
            {
                last.len += piece.len;
            }
            _ => self.list.push(piece),
        }
    }

    /// Adds the rows of a fragment of a chunk.
    pub(crate) fn push_fragment(&mut self, rows: Fragment<'_>, cell: u32, fragment: u32) {
        let mut push = |start: u64, len: u64| {
            // Rows that pass `check_extent` fit. Mapped bytes may have changed since: no piece ends
            // past `u32::MAX`.
            let start = saturating_u32(start);
            let len = saturating_u32(len).min(u32::MAX - start);
            self.push(Piece { cell, start, len, fragment });
        };
        match rows {
            Fragment::Range { start, count } => push(start, count),
            Fragment::Rows(_) => rows.rows().for_each(|row| push(row, 1)),
        }
    }

    /// Returns one past the last row.
    pub(crate) fn end(&self) -> u64 {
        self.list.iter().map(|piece| u64::from(piece.end())).max().unwrap_or(0)
    }

    /// Retains the rows of fragments that pass `test`.
    pub(crate) fn retain(&mut self, test: impl Fn(u32) -> bool) {
        self.list.retain(|piece| test(piece.fragment));
        self.rows = self.list.iter().map(|piece| usize_from_u32(piece.len)).sum(); // of one chunk
    }

    /// Appends rows as a separate piece.
    pub(crate) fn push_apart(&mut self, piece: Piece) {
        if piece.len > 0 {
            self.rows = self.rows.saturating_add(usize_from_u32(piece.len));
            self.list.push(piece);
        }
    }

    /// Adds all rows of `others`.
    pub(crate) fn extend(&mut self, others: Self) {
        if self.list.is_empty() {
            *self = others;
        } else {
            self.rows = self.rows.saturating_add(others.rows);
            self.list.extend(others.list);
        }
    }

    /// Appends all rows of `others`, whose chunks are renumbered from `first` on.
    pub(crate) fn extend_from(&mut self, others: Self, first: u32) {
        for piece in others.list {
            self.push_apart(Piece { cell: piece.cell + first, ..piece });
        }
    }

    /// Keeps the first `rows`.
    pub(crate) fn truncate(&mut self, rows: usize) {
        if self.rows <= rows {
            return;
        }
        // From the front: the number of rows after them may overflow.
        let mut left = rows;
        for piece in &mut self.list {
            let len = usize_from_u32(piece.len).min(left);
            piece.len = index_u32(len);
            left -= len;
        }
        self.list.retain(|piece| piece.len > 0);
        self.rows = rows;
    }

    /// Copies the rows from `loaded`, indexed by chunk number, into a column of this type.
    ///
    /// # Errors
    ///
    /// When a row is not in `loaded`: a fragment or a link refers to one past the end.
    pub(crate) fn gather(&self, loaded: &[LoadedRows], dtype: Dtype, width: u32) -> Result<Column> {
        let mut gathered = ColumnAssembler::new(dtype, width, self.rows)?;
        if let [piece] = self.list.as_slice()
            && let Some(slice) =
                loaded.get(usize_from_u32(piece.cell)).and_then(|loaded| share_rows(loaded, piece))
            && (slice.dtype(), slice.width()) == (gathered.empty.dtype(), width)
        {
            return Ok(slice);
        }
        gathered.add(self, loaded)?;
        gathered.finish()
    }
}

/// Returns the ranges of rows that `pieces` of one chunk need, ascending. Ranges with a gap of at
/// most `gap` rows are merged.
pub(crate) fn coalesce_ranges<'a>(
    pieces: impl Iterator<Item = &'a Piece>,
    gap: u32,
    scratch: &mut Vec<(u32, u32)>,
) -> Vec<Range<u64>> {
    scratch.clear();
    scratch.extend(pieces.map(|piece| (piece.start, piece.end())));
    if !scratch.is_sorted() {
        scratch.sort_unstable();
    }
    let mut joined: Vec<Range<u64>> = Vec::new();
    for &(start, end) in scratch.iter() {
        match joined.last_mut() {
            Some(last) if u64::from(start) <= last.end + u64::from(gap) => {
                last.end = last.end.max(end.into());
            }
            _ => joined.push(start.into()..end.into()),
        }
    }
    joined
}

/// A column that is assembled from several reads.
pub(crate) struct ColumnAssembler {
    empty: Column, // has the type and the width
    memory: AnswerMemory,
    filled: usize,
}

impl ColumnAssembler {
    /// Reserves memory for at most `max_rows` rows.
    pub(crate) fn new(dtype: Dtype, width: u32, max_rows: usize) -> Result<Self> {
        let empty = Column::empty(dtype, width)?;
        let max_bytes = max_rows.checked_mul(empty.stride()).ok_or_else(too_long_error)?;
        Ok(Self { empty, memory: AnswerMemory::reserve(max_bytes), filled: 0 })
    }

    /// Adds the rows of `pieces`, from `loaded`.
    pub(crate) fn add(&mut self, pieces: &Pieces, loaded: &[LoadedRows]) -> Result<()> {
        let stride = self.empty.stride();
        let bytes = pieces.rows.checked_mul(stride);
        let end =
            bytes.and_then(|bytes| self.filled.checked_add(bytes)).ok_or_else(too_long_error)?;
        // Looks up columns that are loaded whole once per chunk, not once per piece.
        let rows: Vec<Rows<'_>> = loaded.iter().map(|loaded| Rows::new(loaded, stride)).collect();
        let out = self.memory.slice_to_fill(self.filled, end).ok_or_else(too_long_error)?;
        fill(&pieces.list, &rows, stride, out)?;
        self.filled = end;
        Ok(())
    }

    /// Returns the rows that were added.
    pub(crate) fn finish(self) -> Result<Column> {
        let bytes = self.memory.into_bytes(self.filled);
        Column::new(self.empty.dtype(), self.empty.width(), bytes).map_err(Error::from)
    }
}

fn too_long_error() -> Error {
    Error::new(
        Class::LimitExceeded,
        "bytes of an answer",
        Expected::AtMost(to_u64(usize::MAX).into()),
        "more",
    )
}

/// Returns the rows without a copy if they are at least half of the column that they would keep alive.
fn share_rows(loaded: &LoadedRows, piece: &Piece) -> Option<Column> {
    let (column, _) = loaded.column(piece.start)?;
    // Only compared with a length in memory.
    let is_large = usize_from_u32(piece.len).saturating_mul(2) >= column.len();
    if is_large { loaded.slice(piece.start, piece.len) } else { None }
}

/// The rows of one chunk, prepared for copying.
enum Rows<'a> {
    /// The bytes of all rows from the first one on.
    Whole(&'a [u8]),
    /// Others.
    Parts(&'a LoadedRows),
}

impl<'a> Rows<'a> {
    fn new(loaded: &'a LoadedRows, stride: usize) -> Self {
        match loaded {
            LoadedRows::Whole(column) if column.stride() == stride => Self::Whole(column.bytes()),
            LoadedRows::Nothing | LoadedRows::Whole(_) | LoadedRows::Parts(_) => {
                Self::Parts(loaded)
            }
        }
    }

    /// Returns the bytes of the rows of a piece.
    fn bytes(&self, piece: &Piece, stride: usize) -> Option<&'a [u8]> {
        match self {
            Self::Whole(bytes) => {
                let [start, len] =
                    [piece.start, piece.len].map(|rows| usize_from_u32(rows).checked_mul(stride));
                let start = start?;
                bytes.get(start..start.checked_add(len?)?)
            }
            Self::Parts(loaded) => loaded.bytes(piece.start, piece.len),
        }
    }
}

/// Copies the rows of `pieces` into `out`, which has their total length.
fn fill(pieces: &[Piece], loaded: &[Rows<'_>], stride: usize, out: &mut [u8]) -> Result<()> {
    if out.len() > MIN_THREAD_BYTES && pieces.len() > 1 {
        let (first, second) = pieces.split_at(pieces.len() / 2);
        let rows: usize = first.iter().map(|piece| usize_from_u32(piece.len)).sum();
        let (left, right) = out.split_at_mut(rows * stride);
        let (a, b) = rayon::join(
            || fill(first, loaded, stride, left),
            || fill(second, loaded, stride, right),
        );
        return a.and(b);
    }
    let mut rest = out;
    for piece in pieces {
        let from = loaded.get(usize_from_u32(piece.cell));
        let from = from.and_then(|rows| rows.bytes(piece, stride));
        let from = from.ok_or_else(missing_row_error)?;
        let Some((to, more)) = rest.split_at_mut_checked(from.len()) else {
            return Err(missing_row_error());
        };
        to.copy_from_slice(from);
        rest = more;
    }
    Ok(())
}

/// Returns the error for a missing row.
pub(crate) fn missing_row_error() -> Error {
    Error::new(
        Class::OutOfBounds,
        "row of a fragment or link",
        "rows that the chunk has",
        "one past the end",
    )
}

/// Bytes that take longer to copy than a thread takes to wake up.
const MIN_THREAD_BYTES: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(cell: u32, start: u32, len: u32) -> Piece {
        Piece { cell, start, len, fragment: 0 }
    }

    fn bytes(n: Vec<u8>) -> Column {
        Column::new("uint8".parse::<Dtype>().unwrap(), 1, n.into()).unwrap()
    }

    #[test]
    fn rows_are_gathered_in_order() {
        let held_columns = [
            LoadedRows::Whole(bytes(vec![0, 1, 2, 3])),
            LoadedRows::Parts(vec![(5, bytes(vec![5, 6]))]),
        ];
        let mut pieces = Pieces::default();
        for next in [piece(1, 6, 1), piece(0, 0, 2), piece(0, 2, 1), piece(0, 3, 0)] {
            pieces.push(next);
        }
        assert_eq!((pieces.list.len(), pieces.rows), (2, 4));
        let dtype = "uint8".parse::<Dtype>().unwrap();
        assert_eq!(pieces.gather(&held_columns, dtype, 1).unwrap().bytes()[..], [6, 0, 1, 2]);
        pieces.truncate(3);
        assert_eq!(pieces.gather(&held_columns, dtype, 1).unwrap().bytes()[..], [6, 0, 1]);
        pieces.truncate(1);
        assert_eq!(pieces.gather(&held_columns, dtype, 1).unwrap().bytes()[..], [6]);
        pieces.push(piece(1, 7, 1));
        assert_eq!(
            pieces.gather(&held_columns, dtype, 1).unwrap_err().to_string(),
            "OutOfBounds, row of a fragment or link: expected rows that the chunk has, found one past the end"
        );
    }

    #[test]
    fn batches_of_rows_are_assembled() {
        let dtype = "uint8".parse::<Dtype>().unwrap();
        // Capacity for fewer rows, as many, and more.
        for capacity in [0, 4, 9] {
            let mut gathered = ColumnAssembler::new(dtype, 1, capacity).unwrap();
            let mut all = Pieces::default();
            for (first, read, next) in
                [(0, [7, 8, 9], piece(0, 1, 2)), (5, [4, 5, 6], piece(0, 0, 2))]
            {
                let mut pieces = Pieces::default();
                pieces.push(next);
                gathered.add(&pieces, &[LoadedRows::Whole(bytes(read.to_vec()))]).unwrap();
                all.extend_from(pieces, first);
            }
            assert_eq!(gathered.finish().unwrap().bytes()[..], [8, 9, 4, 5], "{capacity}");
            assert_eq!((all.rows, &all.list), (4, &vec![piece(0, 1, 2), piece(5, 0, 2)]));
        }
    }

    #[test]
    fn many_rows_are_gathered_like_few() {
        let column = bytes((0..=255).cycle().take(3 << 20).collect());
        let held_columns = [LoadedRows::Whole(column.clone())];
        let mut pieces = Pieces::default();
        let n = 3 << 20;
        for start in (0..n).step_by(7) {
            pieces.push_apart(piece(0, start, 7.min(n - start)));
        }
        assert_eq!(pieces.gather(&held_columns, column.dtype(), 1).unwrap(), column);
    }

    #[test]
    fn close_ranges_are_joined() {
        let pieces = [piece(0, 9, 2), piece(0, 0, 3), piece(0, 5, 1), piece(0, 1, 1)];
        let mut scratch = Vec::new();
        assert_eq!(coalesce_ranges(pieces.iter(), 0, &mut scratch), [0..3, 5..6, 9..11]);
        assert_eq!(coalesce_ranges(pieces.iter(), 2, &mut scratch), [0..6, 9..11]);
        assert_eq!(
            coalesce_ranges(pieces.iter(), 3, &mut scratch),
            std::iter::once(0..11).collect::<Vec<_>>()
        );
    }
}
