//! Routed batches, and gathering the rows of one chunk from them.
//!
//! A [`RoutedBatch`] contains an unchanged batch and the order of its rows by chunk. A chunk then
//! consists of a piece of each routed batch that has rows of it, in the order of the batches, which
//! is input order. Within the chunk, rows are sorted stably by *group*, which corresponds to a
//! fragment: a bin, an object or a run of a chain.
//!
//! Not here: the meaning of groups (`types`), and storing cells.

use zvf_format::num::{saturating_usize, to_u64, usize_from_u32};
use zvf_model::Column;

use crate::route::Segment;

/// A batch with its rows ordered by chunk.
#[derive(Debug)]
pub(crate) struct RoutedBatch {
    /// The positions of the vertices.
    pub(crate) positions: Column,
    /// The attributes of the vertices.
    pub(crate) fields: Vec<Column>,
    /// The group of each vertex; empty if all are in one group.
    pub(crate) groups: Vec<u64>,
    /// The running numbers of the vertices over all batches.
    pub(crate) numbers: Numbers,
    /// Row numbers, chunk by chunk.
    pub(crate) rows: Vec<u32>,
    /// The segment of each chunk in `rows`, ascending by chunk.
    pub(crate) segments: Vec<Segment>,
}

/// Running numbers of vertices.
#[derive(Debug)]
pub(crate) enum Numbers {
    /// Consecutive numbers from this one.
    From(u64),
    /// One number per row, if they were spilled.
    Listed(Vec<u64>),
}

impl Numbers {
    fn get(&self, row: u32) -> u64 {
        match self {
            Self::From(first) => first + u64::from(row),
            Self::Listed(numbers) => numbers[usize_from_u32(row)],
        }
    }
}

impl RoutedBatch {
    /// Returns the approximate number of bytes in memory.
    pub(crate) fn bytes(&self) -> u64 {
        let columns = self.fields.iter().chain([&self.positions]).map(|c| to_u64(c.bytes().len()));
        let beside = to_u64(self.groups.len()) * 8;
        let rows = to_u64(self.rows.len()) * 4;
        let segments = to_u64(self.segments.len()) * 24;
        beside + rows + segments + columns.sum::<u64>()
    }

    /// Returns the piece for one of its segments.
    pub(crate) fn piece(&self, segment: usize) -> ChunkPiece<'_> {
        let Segment { start, count, .. } = self.segments[segment];
        let start = usize_from_u32(start);
        ChunkPiece { batch: self, rows: &self.rows[start..start + usize_from_u32(count)] }
    }
}

/// The rows of one chunk in a routed batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChunkPiece<'a> {
    /// The batch.
    pub(crate) batch: &'a RoutedBatch,
    /// Its rows.
    pub(crate) rows: &'a [u32],
}

impl ChunkPiece<'_> {
    fn group(&self, row: u32) -> u64 {
        let groups = &self.batch.groups;
        if groups.is_empty() { 0 } else { groups[usize_from_u32(row)] }
    }
}

/// The rows of one chunk.
#[derive(Default)]
pub(crate) struct ChunkRows {
    /// Positions, row by row.
    pub(crate) positions: Vec<u8>,
    /// One buffer per field of the batches.
    pub(crate) fields: Vec<Vec<u8>>,
    /// The groups, ascending, each with its rows.
    pub(crate) groups: Vec<Group>,
    /// The running number of each row, if requested.
    pub(crate) numbers: Vec<u64>,
}

/// Consecutive rows of one group.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Group {
    /// The number of the group.
    pub(crate) group: u64,
    /// Its first row.
    pub(crate) start: u64,
    /// Its number of rows.
    pub(crate) count: u64,
}

/// Gathers the rows of a chunk from its pieces.
pub(crate) fn gather(pieces: &[ChunkPiece<'_>], wants_numbers: bool) -> ChunkRows {
    let (groups, sorted) = groups_of(pieces);
    if sorted {
        return ChunkRows { groups, ..gather_as_given(pieces, wants_numbers) };
    }
    let places = pieces.iter().zip(0_u32..);
    let mut places: Vec<(u64, u32, u32)> = places
        .flat_map(|(piece, at)| piece.rows.iter().map(move |row| (piece.group(*row), at, *row)))
        .collect();
    places.sort_by_key(|(group, ..)| *group);
    if let [only] = pieces {
        // A single batch, as if the input came at once.
        let order: Vec<u32> = places.iter().map(|(.., row)| *row).collect();
        let sorted_piece = ChunkPiece { batch: only.batch, rows: &order };
        return ChunkRows { groups, ..gather_as_given(&[sorted_piece], wants_numbers) };
    }
    let batch = |piece: u32| pieces[usize_from_u32(piece)].batch;
    let scattered = |get_column: &dyn Fn(&RoutedBatch) -> &Column| {
        let mut out = Vec::new();
        for (_, piece, row) in &places {
            out.extend_from_slice(row_of(get_column(batch(*piece)), *row));
        }
        out
    };
    let columns = pieces.first().map_or(0, |piece| piece.batch.fields.len());
    let mut rows = ChunkRows { groups, ..ChunkRows::default() };
    rows.positions = scattered(&|batch| &batch.positions);
    rows.fields = (0..columns).map(|c| scattered(&|batch| &batch.fields[c])).collect();
    if wants_numbers {
        let number = |(_, piece, row): &(u64, u32, u32)| batch(*piece).numbers.get(*row);
        rows.numbers = places.iter().map(number).collect();
    }
    rows
}

/// Returns the running number of the first row of each group, when rows keep their input order.
pub(crate) fn first_numbers(pieces: &[ChunkPiece<'_>], groups: &[Group]) -> Vec<u64> {
    let (mut pieces, mut before) = (pieces.iter().peekable(), 0_u64);
    let firsts = groups.iter().filter_map(|group| {
        while let Some(past) = pieces.next_if(|p| before + to_u64(p.rows.len()) <= group.start) {
            before += to_u64(past.rows.len());
        }
        let at = saturating_usize(group.start - before); // within the piece
        pieces.peek().and_then(|piece| Some(piece.batch.numbers.get(*piece.rows.get(at)?)))
    });
    firsts.collect()
}

/// Gathers the rows of a chunk in input order, without their groups.
pub(crate) fn gather_as_given(pieces: &[ChunkPiece<'_>], wants_numbers: bool) -> ChunkRows {
    let fields = pieces.first().map_or(0, |piece| piece.batch.fields.len()); // no rows, no columns
    let field = |c: usize| column(pieces.iter().map(move |p| (&p.batch.fields[c], p.rows)));
    ChunkRows {
        positions: column(pieces.iter().map(|p| (&p.batch.positions, p.rows))),
        fields: (0..fields).map(field).collect(),
        numbers: numbers_as_given(if wants_numbers { pieces } else { &[] }).collect(),
        groups: Vec::new(),
    }
}

/// Returns the group of each row of a chunk, in input order.
pub(crate) fn groups_as_given(pieces: &[ChunkPiece<'_>]) -> impl Iterator<Item = u64> {
    pieces.iter().flat_map(|piece| piece.rows.iter().map(move |row| piece.group(*row)))
}

/// Returns the running number of each row of a chunk, in input order.
pub(crate) fn numbers_as_given(pieces: &[ChunkPiece<'_>]) -> impl Iterator<Item = u64> {
    pieces.iter().flat_map(|piece| piece.rows.iter().map(move |row| piece.batch.numbers.get(*row)))
}

/// Returns the groups of all rows in order, and whether the rows are already in that order.
fn groups_of(pieces: &[ChunkPiece<'_>]) -> (Vec<Group>, bool) {
    let count = pieces.iter().map(|piece| piece.rows.len()).sum::<usize>();
    if count > 0 && pieces.iter().all(|piece| piece.batch.groups.is_empty()) {
        return (vec![Group { group: 0, start: 0, count: to_u64(count) }], true);
    }
    let keys = pieces.iter().flat_map(|piece| piece.rows.iter().map(|row| piece.group(*row)));
    let groups: Vec<u64> = keys.collect();
    let sorted = groups.is_sorted();
    (group_runs(&groups, sorted), sorted)
}

fn group_runs(groups: &[u64], sorted: bool) -> Vec<Group> {
    let mut sorted_groups;
    let groups = if sorted {
        groups
    } else {
        sorted_groups = groups.to_vec();
        sorted_groups.sort_unstable();
        sorted_groups.as_slice()
    };
    let mut start = 0_u64;
    let runs = groups.chunk_by(|a, b| a == b).map(|run| {
        let count = to_u64(run.len());
        let group = Group { group: run[0], start, count };
        start += count;
        group
    });
    runs.collect()
}

/// Copies rows of columns of one type, each row once.
fn column<'a>(parts: impl Iterator<Item = (&'a Column, &'a [u32])> + Clone) -> Vec<u8> {
    let total = parts.clone().map(|(column, rows)| rows.len() * column.stride());
    let mut out = Vec::with_capacity(total.sum::<usize>());
    for (column, rows) in parts {
        match column.stride() {
            1 => gather_fixed::<1>(column, rows, &mut out),
            2 => gather_fixed::<2>(column, rows, &mut out),
            4 => gather_fixed::<4>(column, rows, &mut out),
            8 => gather_fixed::<8>(column, rows, &mut out),
            12 => gather_fixed::<12>(column, rows, &mut out),
            16 => gather_fixed::<16>(column, rows, &mut out),
            24 => gather_fixed::<24>(column, rows, &mut out),
            _ => {
                for row in rows {
                    out.extend_from_slice(row_of(column, *row));
                }
            }
        }
    }
    out
}

fn gather_fixed<const N: usize>(column: &Column, rows: &[u32], out: &mut Vec<u8>) {
    let (all, _) = column.bytes().as_chunks::<N>();
    if let (Some(first), Some(last)) = (rows.first(), rows.last()) {
        // Input that is ordered by chunk is copied as a whole.
        let (first, last) = (usize_from_u32(*first), usize_from_u32(*last));
        // Descending rows are not sorted.
        let ascending = last.saturating_sub(first) < rows.len() && rows.is_sorted_by(|a, b| a < b);
        if let Some(run) = all.get(first..=last).filter(|_| ascending) {
            out.extend_from_slice(run.as_flattened());
            return;
        }
    }
    // Copies row by row into reserved memory: pushing bytes one by one takes several times as long.
    let start = out.len();
    out.resize(start + rows.len() * N, 0);
    let (room, _) = out[start..].as_chunks_mut::<N>();
    for (to, row) in room.iter_mut().zip(rows) {
        *to = all[usize_from_u32(*row)];
    }
}

/// Returns an existing row.
fn row_of(column: &Column, row: u32) -> &[u8] {
    let start = usize_from_u32(row) * column.stride();
    &column.bytes()[start..start + column.stride()]
}

/// Returns the rows of `column` listed in `keep`.
pub(crate) fn select_rows(col: &Column, keep: &[u32]) -> Result<Column, zvf_model::BadColumn> {
    let bytes = column([(col, keep)].into_iter());
    Column::new(col.dtype(), col.width(), bytes.into())
}

#[cfg(test)]
mod tests {
    use zvf_metadata::Dtype;

    use super::*;
    use zvf_format::num::index_u32;

    fn routed_batch(values: &[u8], groups: &[u64], rows: &[u32], first: u64) -> RoutedBatch {
        let byte = "uint8".parse::<Dtype>().unwrap();
        let column = |bytes: Vec<u8>| Column::new(byte, 1, bytes.into()).unwrap();
        let count = index_u32(rows.len());
        RoutedBatch {
            positions: column(values.to_vec()),
            fields: vec![column(values.iter().map(|v| v + 100).collect())],
            groups: groups.to_vec(),
            numbers: Numbers::From(first),
            rows: rows.to_vec(),
            segments: vec![Segment { chunk: 0, start: 0, count }],
        }
    }

    #[test]
    fn rows_are_sorted_by_group_in_stable_order() {
        let a = routed_batch(&[1, 2, 3], &[5, 1, 5], &[0, 1, 2], 0);
        let b = routed_batch(&[4, 5], &[1, 5], &[1, 0], 3);
        let rows = gather(&[a.piece(0), b.piece(0)], true);
        assert_eq!(rows.positions, [2, 4, 1, 3, 5]);
        assert_eq!(rows.fields, [[102, 104, 101, 103, 105]]);
        assert_eq!(rows.numbers, [1, 3, 0, 2, 4]);
        let group = |group, start, count| Group { group, start, count };
        assert_eq!(rows.groups, [group(1, 0, 2), group(5, 2, 3)]);
        let gathered = gather(&[a.piece(0)], false);
        assert_eq!(
            (gathered.positions, gathered.fields),
            (vec![2, 1, 3], vec![vec![102, 101, 103]])
        );
    }

    #[test]
    fn rows_may_be_copied_more_than_once() {
        let a = routed_batch(&[1, 2, 3], &[], &[], 0);
        assert_eq!(select_rows(&a.positions, &[0, 0, 2]).unwrap().bytes()[..], [1, 1, 3]);
        assert_eq!(select_rows(&a.positions, &[1, 2]).unwrap().bytes()[..], [2, 3]);
        assert_eq!(select_rows(&a.positions, &[2, 1]).unwrap().bytes()[..], [3, 2]);
    }

    #[test]
    fn rows_without_groups_are_copied_in_order() {
        let a = routed_batch(&[1, 2, 3], &[], &[1, 2], 7);
        let rows = gather(&[a.piece(0)], true);
        assert_eq!((rows.positions, rows.numbers), (vec![2, 3], vec![8, 9]));
        assert_eq!(rows.groups, [Group { group: 0, start: 0, count: 2 }]);
        assert!(gather(&[], false).groups.is_empty());
    }

    #[test]
    fn the_first_number_of_each_run_is_found() {
        let a = routed_batch(&[1, 2, 3], &[0, 0, 1], &[0, 1, 2], 7);
        let b = routed_batch(&[4, 5], &[1, 2], &[0, 1], 20);
        let pieces = [a.piece(0), b.piece(0)];
        let rows = gather(&pieces, false);
        assert_eq!(first_numbers(&pieces, &rows.groups), [7, 9, 21]);
    }

    #[test]
    #[should_panic(expected = "out of range")]
    fn a_piece_longer_than_its_batch_stops_the_program() {
        let mut a = routed_batch(&[1, 2, 3], &[], &[0], 0);
        a.segments[0].count = 2;
        assert_eq!(a.piece(0).rows, [0]);
    }

    #[test]
    #[should_panic(expected = "index out of bounds")]
    fn a_row_that_its_column_does_not_have_stops_the_program() {
        let a = routed_batch(&[1, 2, 3], &[], &[0, 3], 0);
        gather(&[a.piece(0)], false);
    }

    #[test]
    #[should_panic(expected = "out of range")]
    fn a_row_that_a_column_of_another_width_does_not_have_stops_the_program() {
        let byte = "uint8".parse::<Dtype>().unwrap();
        gather_as_given(
            &[ChunkPiece {
                batch: &RoutedBatch {
                    positions: Column::new(byte, 3, vec![1, 2, 3].into()).unwrap(),
                    ..routed_batch(&[], &[], &[0, 1], 0)
                },
                rows: &[0, 1],
            }],
            false,
        );
    }
}
