//! Routes rows to chunks: finds the chunk of every position, and groups rows by chunk.
//!
//! One pass over the positions finds the chunk (and the bin) of each row; a second, stable pass
//! sorts the row numbers by chunk. No row is moved: it is copied once, from the batch into its
//! cell.
//!
//! Not here: the arithmetic (`zvf_format::grid`).

use rayon::prelude::*;
use rustc_hash::FxHashMap;
use zvf_error::{Error, Result};
use zvf_format::grid::Bins;
use zvf_format::num::{index_u32, saturating_u32, saturating_usize, to_u64, usize_from_u32};
use zvf_model::{Column, NativeType};

use crate::chunks::{ChunkTable, widen};

/// The chunk number of every row, and its bin.
#[derive(Default)]
pub(crate) struct Routes {
    /// Chunk numbers.
    pub(crate) numbers: Vec<u32>,
    /// The flat bin index of each row; empty if bins were not requested.
    pub(crate) bins: Vec<u64>,
}

/// Finds the chunk of each position: by its bin, which is then also returned, or by its
/// coordinates. `leading` are components before the spatial ones, one per row, or empty.
pub(crate) fn route(
    positions: &Column,
    leading: &[i64],
    bins: &Bins,
    by_bin: bool,
    table: &mut ChunkTable,
) -> Result<Routes> {
    if let Some(values) = positions.as_slice::<f32>() {
        return axes(values, leading, bins, by_bin, table);
    }
    if let Some(values) = positions.as_slice::<f64>() {
        return axes(values, leading, bins, by_bin, table);
    }
    axes(&positions.floats(), leading, bins, by_bin, table)
}

fn axes<T: NativeType + Into<f64> + Sync>(
    values: &[T],
    leading: &[i64],
    bins: &Bins,
    by_bin: bool,
    table: &mut ChunkTable,
) -> Result<Routes> {
    match bins.chunk_shape().axes() {
        1 => assign::<T, 1>(values, leading, bins, by_bin, table),
        2 => assign::<T, 2>(values, leading, bins, by_bin, table),
        3 => assign::<T, 3>(values, leading, bins, by_bin, table),
        4 => assign::<T, 4>(values, leading, bins, by_bin, table),
        5 => assign::<T, 5>(values, leading, bins, by_bin, table),
        6 => assign::<T, 6>(values, leading, bins, by_bin, table),
        7 => assign::<T, 7>(values, leading, bins, by_bin, table),
        _ => assign::<T, 8>(values, leading, bins, by_bin, table),
    }
}

/// Finds the chunk of each row. Chunk keys are several times as large as positions, so they are
/// computed for a batch of rows at a time, in a reused buffer, and converted to numbers there.
fn assign<T: NativeType + Into<f64> + Sync, const D: usize>(
    values: &[T],
    leading: &[i64],
    bins: &Bins,
    by_bin: bool,
    table: &mut ChunkTable,
) -> Result<Routes> {
    let (rows, _) = values.as_chunks::<D>();
    let mut numbers = Vec::with_capacity(rows.len());
    let mut in_bins = vec![0; if by_bin { rows.len() } else { 0 }];
    let mut keys = vec![[0; D]; rows.len().min(ROUTE_BATCH_ROWS)];
    let (mut leading, mut flat) =
        (leading.chunks(ROUTE_BATCH_ROWS), in_bins.chunks_mut(ROUTE_BATCH_ROWS));
    for rows in rows.chunks(ROUTE_BATCH_ROWS) {
        let keys = &mut keys[..rows.len()];
        let blocks = rows.par_chunks(BLOCK).zip(keys.par_chunks_mut(BLOCK));
        if let Some(flat) = flat.next() {
            let blocks = blocks.zip(flat.par_chunks_mut(BLOCK));
            blocks.try_for_each(|((rows, keys), bin)| bins.assign(rows, keys, bin))?;
        } else {
            blocks.try_for_each(|(rows, keys)| bins.chunk_shape().assign(rows, keys))?;
        }
        match leading.next() {
            None => number(keys.as_flattened(), table, &mut numbers)?,
            Some(leading) => {
                let keys = leading.iter().zip(&*keys);
                let keys = keys.flat_map(|(bin, key)| [bin].into_iter().chain(key)).copied();
                number(&keys.collect::<Vec<_>>(), table, &mut numbers)?;
            }
        }
    }
    Ok(Routes { numbers, bins: in_bins })
}

/// Number of rows that one thread routes together.
const BLOCK: usize = 1 << 14;

/// Number of rows that are routed in one pass, so that their keys stay in the CPU cache.
const ROUTE_BATCH_ROWS: usize = BLOCK << 3;

/// The rows of one chunk in a batch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Segment {
    /// The chunk's number.
    pub(crate) chunk: u32,
    /// The position of its first row among the sorted rows.
    pub(crate) start: u32,
    /// The number of rows.
    pub(crate) count: u32,
}

/// Appends the chunk number of each row, given the components of all keys: `table.rank()` per row.
fn number(keys: &[i64], table: &mut ChunkTable, numbers: &mut Vec<u32>) -> Result<()> {
    let rank = table.rank();
    let rows = keys.chunks_exact(rank);
    let Some(lines) = Lines::from_chunks(keys, rank) else {
        for key in rows {
            numbers.push(table.number(key)?);
        }
        return Ok(());
    };
    let mut cell_numbers = match lines.cell_numbers(rows.len()) {
        CellNumbers::Dense(mut cell_numbers) => {
            return lines.number_dense(keys, &mut cell_numbers, table, numbers);
        }
        CellNumbers::Sparse(cell_numbers) => cell_numbers,
    };
    let mut last = (u64::MAX, 0); // no cell has this line
    for key in rows {
        let line = lines.flat_index(key);
        if line != last.0 {
            let number = match cell_numbers.get(&line).copied() {
                Some(number) => number,
                None => table.number(key)?,
            };
            last = (line, *cell_numbers.entry(line).or_insert(number));
        }
        numbers.push(last.1);
    }
    Ok(())
}

/// Returns the rows sorted by chunk, and the segment of each chunk. Rows of a chunk keep their
/// order in `order`.
pub(crate) fn counting_sort(
    numbers: &[u32],
    order: impl Iterator<Item = u32> + Clone,
    chunks: usize,
) -> (Vec<u32>, Vec<Segment>) {
    if chunks / 4 > numbers.len() {
        return sparse_sort(numbers, order);
    }
    let mut counts = vec![0_u32; chunks];
    for number in numbers {
        counts[usize_from_u32(*number)] += 1;
    }
    let (mut segments, mut next) = (Vec::new(), 0_u32);
    for (chunk, count) in (0_u32..).zip(&mut counts) {
        if *count > 0 {
            segments.push(Segment { chunk, start: next, count: *count });
        }
        let start = next;
        next += *count;
        *count = start;
    }
    let mut rows = vec![0; numbers.len()];
    for row in order {
        let at = &mut counts[usize_from_u32(numbers[usize_from_u32(row)])];
        rows[usize_from_u32(*at)] = row;
        *at += 1;
    }
    (rows, segments)
}

/// The same for few rows in many chunks.
fn sparse_sort(numbers: &[u32], order: impl Iterator<Item = u32>) -> (Vec<u32>, Vec<Segment>) {
    let chunk_of = |row: &u32| numbers[usize_from_u32(*row)];
    let mut rows: Vec<u32> = order.collect();
    rows.sort_by_key(chunk_of);
    let mut start = 0_u32;
    let segments = rows.chunk_by(|a, b| chunk_of(a) == chunk_of(b)).map(|rows| {
        let segment = Segment { chunk: chunk_of(&rows[0]), start, count: index_u32(rows.len()) };
        start += segment.count;
        segment
    });
    let segments = segments.collect();
    (rows, segments)
}

/// Linear indexes of the cells between the lowest and highest chunk of a batch.
struct Lines {
    low: Vec<i64>,
    steps: Vec<u64>,
    cells: u64, // below 2^63
}

impl Lines {
    /// Returns `None` if there are too many cells to number.
    fn from_chunks(chunks: &[i64], rank: usize) -> Option<Self> {
        let first = chunks.get(..rank)?;
        let ends = || [first.to_vec(), first.to_vec()];
        let wider = |mut corners: [Vec<i64>; 2], rows: &[i64]| {
            rows.chunks_exact(rank).for_each(|row| widen(&mut corners, row));
            corners
        };
        let blocks = chunks.par_chunks(rank * BLOCK).fold(ends, wider);
        let both = |all, [low, high]: [Vec<i64>; 2]| wider(wider(all, &low), &high);
        let [low, high] = blocks.reduce(ends, both);
        let (mut steps, mut cells) = (vec![0; rank], 1_u64);
        for (step, (low, high)) in steps.iter_mut().zip(low.iter().zip(&high)).rev() {
            *step = cells;
            cells = cells.checked_mul(high.abs_diff(*low).checked_add(1)?)?;
        }
        (cells < 1 << 63).then_some(Self { low, steps, cells })
    }

    fn flat_index(&self, key: &[i64]) -> u64 {
        let axes = key.iter().zip(&self.low).zip(&self.steps);
        axes.fold(0, |line, ((at, low), step)| {
            line.wrapping_add(at.abs_diff(*low).wrapping_mul(*step))
        })
    }

    /// Appends the chunk number of each row, with a table entry in `cell_numbers` for every cell:
    /// linear indexes are computed on all cores, numbers are assigned in row order.
    fn number_dense(
        &self,
        chunks: &[i64],
        cell_numbers: &mut [u32],
        table: &mut ChunkTable,
        numbers: &mut Vec<u32>,
    ) -> Result<()> {
        let rank = table.rank();
        let first = numbers.len();
        let lines = chunks.par_chunks_exact(rank);
        // Each is an index into `cell_numbers`.
        numbers.par_extend(lines.map(|key| saturating_u32(self.flat_index(key))));
        for (number, key) in numbers[first..].iter_mut().zip(chunks.chunks_exact(rank)) {
            let assigned = &mut cell_numbers[usize_from_u32(*number)];
            if *assigned == u32::MAX {
                *assigned = table.number(key)?;
            }
            *number = *assigned;
        }
        Ok(())
    }

    fn cell_numbers(&self, rows: usize) -> CellNumbers {
        let dense = to_u64(rows) * 4 + 1024;
        if self.cells <= dense {
            // This number of cells fits in memory.
            return CellNumbers::Dense(vec![u32::MAX; saturating_usize(self.cells)]);
        }
        CellNumbers::Sparse(FxHashMap::default())
    }
}

/// The numbers of the cells so far: a table, or a hash map where cells are sparse.
enum CellNumbers {
    Dense(Vec<u32>),
    Sparse(FxHashMap<u64, u32>),
}

/// Refuses a batch with more rows than 32 bits can number.
pub(crate) fn check_rows(rows: usize) -> Result<()> {
    let max = u64::from(u32::MAX);
    if to_u64(rows) < max {
        return Ok(());
    }
    Err(Error::limit("rows of one batch", max, to_u64(rows)))
}

#[cfg(test)]
mod tests {
    use zvf_format::grid::ChunkShape;
    use zvf_metadata::Dtype;

    use super::*;

    fn bins(chunk: &[f64], bin: &[f64]) -> Bins {
        Bins::new(&ChunkShape::new(chunk).unwrap(), bin).unwrap()
    }

    #[test]
    fn types_of_positions_route_alike() {
        let bins = bins(&[10.0, 10.0], &[5.0, 5.0]);
        let wide = [-1.0_f64, 0.0, 10.0, 19.0].map(f64::to_le_bytes).concat();
        let narrow = [-1.0_f32, 0.0, 10.0, 19.0].map(f32::to_le_bytes).concat();
        let int16_bytes = [-1_i16, 0, 10, 19].map(i16::to_le_bytes).concat();
        for (dtype, bytes) in [("float64", wide), ("float32", narrow), ("int16", int16_bytes)] {
            let column = Column::new(dtype.parse::<Dtype>().unwrap(), 2, bytes.into()).unwrap();
            let mut table = ChunkTable::new(2);
            let routes = route(&column, &[], &bins, true, &mut table).unwrap();
            assert_eq!((routes.numbers, routes.bins), (vec![0, 1], vec![2, 1]), "{dtype}");
            assert_eq!((table.components(0), table.components(1)), (&[-1, 0][..], &[1, 1][..]));
            let by_position = route(&column, &[], &bins, false, &mut table).unwrap();
            assert_eq!((by_position.numbers, by_position.bins), (vec![0, 1], vec![]), "{dtype}");
            let mut table = ChunkTable::new(3);
            let by_key = route(&column, &[4, 9], &bins, false, &mut table).unwrap();
            assert_eq!(
                (by_key.numbers, table.components(1)),
                (vec![0, 1], &[9, 1, 1][..]),
                "{dtype}"
            );
        }
    }

    #[test]
    fn chunks_are_numbered_in_order_of_their_first_row() {
        let rows = 2 * ROUTE_BATCH_ROWS + BLOCK + 5;
        let key = |row: usize| [(row * row % 7) as i64 - 3, (row / BLOCK) as i64];
        let at: Vec<u8> =
            (0..rows).flat_map(key).flat_map(|at| (at as f32 * 10.0 + 1.0).to_le_bytes()).collect();
        let positions = Column::new("float32".parse::<Dtype>().unwrap(), 2, at.into()).unwrap();
        let mut keys: Vec<[i64; 2]> = Vec::new();
        let expected: Vec<u32> = (0..rows)
            .map(|row| {
                let position = keys.iter().position(|candidate| *candidate == key(row));
                position.unwrap_or_else(|| {
                    keys.push(key(row));
                    keys.len() - 1
                }) as u32
            })
            .collect();
        let mut table = ChunkTable::new(2);
        let bins = bins(&[10.0, 10.0], &[10.0, 10.0]);
        assert_eq!(route(&positions, &[], &bins, false, &mut table).unwrap().numbers, expected);
        assert_eq!(table.components(1), keys[1]);
    }

    #[test]
    fn rows_of_a_chunk_keep_their_order() {
        let mut table = ChunkTable::new(1);
        let mut numbers = Vec::new();
        number(&[7, -2, 7, 1 << 40, -2], &mut table, &mut numbers).unwrap();
        assert_eq!(numbers, [0, 1, 0, 2, 1]);
        let (rows, segments) = counting_sort(&numbers, 0..5, table.len());
        assert_eq!(rows, [0, 2, 1, 4, 3]);
        let (chunk, start, count) = (1, 2, 2);
        assert_eq!(segments[1], Segment { chunk, start, count });
        assert_eq!(counting_sort(&numbers, (0..5).rev(), table.len()).0, [2, 0, 4, 1, 3]);
        assert_eq!(counting_sort(&numbers, 0..5, 1000), (rows, segments));
        // Cells whose linear index overflows.
        let mut large_table = ChunkTable::new(2);
        let mut numbers = Vec::new();
        number(&[i64::MIN, i64::MIN, i64::MAX, i64::MAX], &mut large_table, &mut numbers).unwrap();
        assert_eq!((numbers, large_table.len()), (vec![0, 1], 2));
    }
}
