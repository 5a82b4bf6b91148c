//! Builds one level from the one below: bins, means, and the bins that objects pass through.
//!
//! Bins are numbered as in the reference: sorted by their coordinates, compared as their bytes in
//! memory. Any order would do; this one makes the output equal.
//!
//! Not here: which objects are kept, and how a level is stored.

use std::ops::Range;

use rayon::prelude::*;
use rustc_hash::FxHashMap;
use zvf_error::Result;
use zvf_format::grid::ChunkShape;
use zvf_format::key::ChunkKey;
use zvf_format::num::{
    f64_from_u64, index_u32, nearest_f32, saturating_floor_i64, to_u64, usize_from_u32,
};

/// The parts of a level that the reference uses.
#[derive(Clone, Debug, Default)]
pub(super) struct ReferenceLevel {
    /// Chunks, ascending.
    pub(super) keys: Vec<ChunkKey>,
    /// The first row of each chunk, and the end of the last.
    pub(super) starts: Vec<usize>,
    /// Coordinates, row by row.
    pub(super) positions: Vec<f32>,
    /// The start of the references of each object, and the end of the last.
    pub(super) offsets: Vec<usize>,
    /// Rows, object by object, in the order of the manifest.
    pub(super) references: Vec<u32>,
    /// The id of each object; none if the level has no index and is a single object.
    pub(super) ids: Option<Vec<i64>>,
    /// Size of a bin.
    pub(super) bin: Vec<f64>,
    /// Size of a chunk.
    pub(super) chunk: Vec<f64>,
}

impl ReferenceLevel {
    /// Returns the number of axes.
    pub(super) const fn axes(&self) -> usize {
        self.chunk.len()
    }

    /// Returns the number of vertices.
    pub(super) fn rows(&self) -> usize {
        self.starts.last().copied().unwrap_or(0)
    }

    /// Returns the number of objects.
    pub(super) const fn objects(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// Returns the rows that object `row` refers to; none if there is no such object.
    pub(super) fn object(&self, row: usize) -> &[u32] {
        match self.offsets.get(row..).and_then(<[usize]>::first_chunk::<2>) {
            Some([start, end]) => &self.references[*start..*end],
            None => &[],
        }
    }

    /// Returns the layout of rows in chunks, without vertices and objects.
    pub(super) fn without_contents(self) -> Self {
        let Self { keys, starts, bin, chunk, .. } = self;
        Self { keys, starts, bin, chunk, ..Self::default() }
    }

    /// Returns the rows of the chunk with this index.
    pub(super) fn rows_of_chunk(&self, chunk: usize) -> Range<usize> {
        self.starts[chunk]..self.starts[chunk + 1]
    }

    /// Returns the index of the chunk that a row lies in, and the row within it.
    pub(super) fn locate(&self, row: u32) -> (usize, u64) {
        let row = usize_from_u32(row);
        // The first chunk starts at row 0.
        let chunk = self.starts.partition_point(|start| *start <= row) - 1;
        (chunk, to_u64(row - self.starts[chunk]))
    }
}

/// Returns the level with bins of size `bin` and chunks of size `chunk`, of the objects
/// `kept_objects`; and for each row of `source` the row of its bin, or [`NONE`] where no kept
/// object is in that bin.
pub(super) fn coarsen(
    source: &ReferenceLevel,
    kept_objects: &[usize],
    bin: Vec<f64>,
    chunk: Vec<f64>,
) -> Result<(ReferenceLevel, Vec<u32>)> {
    let (bin_of_row, bins) = assign_bins(source, &bin);
    let (means, paths) = rayon::join(
        || sum_bins(source, kept_objects, &bin_of_row, bins.len()),
        || trace_objects(source, kept_objects, &bin_of_row),
    );
    let (mut level, row_of) = lay_out_means(&bins, &means, &chunk)?;
    let place_of = |number: &u32| row_of[usize_from_u32(*number)];
    let mut coarse_rows = bin_of_row; // reuses the memory
    coarse_rows.par_iter_mut().for_each(|number| *number = place_of(number));
    (level.bin, level.chunk) = (bin, chunk);
    if source.ids.is_none() {
        // The order of the rows is unknown, so the level is one object of all its rows.
        level.references = (0..index_u32(level.rows())).collect();
        level.offsets = vec![0, level.references.len()];
        return Ok((level, coarse_rows));
    }
    level.offsets.push(0);
    let mut kept_objects = kept_objects.iter().zip(paths.iter().flatten()).peekable();
    for row in 0..source.objects() {
        if let Some((_, bins)) = kept_objects.next_if(|(object, _)| **object == row) {
            level.references.extend(bins.iter().map(place_of));
        }
        level.offsets.push(level.references.len());
    }
    level.ids.clone_from(&source.ids);
    Ok((level, coarse_rows))
}

/// Returns the number of the bin of each row, and the bins.
fn assign_bins(source: &ReferenceLevel, size: &[f64]) -> (Vec<u32>, Vec<Bin>) {
    let axes = source.axes().max(1);
    let mut bin_of_row = vec![NONE; source.rows()];
    let parts = bin_of_row.par_chunks_mut(ROWS).zip(source.positions.par_chunks(ROWS * axes));
    let parts: Vec<Vec<Bin>> = parts
        .map(|(part, positions)| {
            let mut numbers = BinNumbers::default();
            for (to, at) in part.iter_mut().zip(positions.chunks_exact(axes)) {
                *to = numbers.number(bin_of(at, size));
            }
            numbers.bins
        })
        .collect();
    let mut all = BinNumbers::default();
    let number = |bins: Vec<Bin>| bins.into_iter().map(|bin| all.number(bin)).collect();
    let numbers: Vec<Vec<u32>> = parts.into_iter().map(number).collect();
    bin_of_row.par_chunks_mut(ROWS).zip(&numbers).for_each(|(part, numbers)| {
        part.iter_mut().for_each(|to| *to = numbers[usize_from_u32(*to)]);
    });
    (bin_of_row, all.bins)
}

/// Bins, numbered in the order of their first rows.
#[derive(Debug, Default)]
struct BinNumbers {
    numbers: FxHashMap<Bin, u32>,
    bins: Vec<Bin>,
    last: u32,
}

impl BinNumbers {
    fn number(&mut self, bin: Bin) -> u32 {
        if self.bins.get(usize_from_u32(self.last)) != Some(&bin) {
            let next = index_u32(self.bins.len()); // no more than rows
            self.last = *self.numbers.entry(bin).or_insert(next);
            if self.last == next {
                self.bins.push(bin);
            }
        }
        self.last
    }
}

/// Returns the sums, by bin and axis, and the counts of the vertices of each bin: object by object,
/// because another order would change the last bits.
fn sum_bins(
    source: &ReferenceLevel,
    kept_objects: &[usize],
    bin_of_row: &[u32],
    bins: usize,
) -> (Vec<f64>, Vec<u64>) {
    let axes = source.axes();
    let (mut sums, mut counts) = (vec![0.0; bins * axes], vec![0_u64; bins]);
    for reference in kept_objects.iter().flat_map(|row| source.object(*row)) {
        let at = usize_from_u32(*reference);
        let number = usize_from_u32(bin_of_row[at]);
        counts[number] += 1;
        let to = &mut sums[number * axes..][..axes];
        let from = &source.positions[at * axes..][..axes];
        to.iter_mut().zip(from).for_each(|(sum, x)| *sum += f64::from(*x));
    }
    (sums, counts)
}

/// Returns the bins that each of `kept_objects` passes through, without consecutive repeats, in
/// batches of objects.
fn trace_objects(
    source: &ReferenceLevel,
    kept_objects: &[usize],
    bin_of_row: &[u32],
) -> Vec<Vec<Vec<u32>>> {
    if source.ids.is_none() {
        return Vec::new();
    }
    let bins = |row: &usize| {
        let bin = |row: &u32| bin_of_row[usize_from_u32(*row)];
        let mut bins: Vec<u32> = source.object(*row).iter().map(bin).collect();
        bins.dedup();
        bins.shrink_to_fit();
        bins
    };
    kept_objects.par_chunks(OBJECTS).map(|some| some.iter().map(bins).collect()).collect()
}

/// A mean: its chunk, the sort key and the number of its bin, and its position.
type ChunkMean = (ChunkKey, [u64; AXES], usize, [f32; AXES]);

/// Lays out the means as rows of chunks, and returns the row of each; none for an empty bin.
fn lay_out_means(
    bins: &[Bin],
    (sums, counts): &(Vec<f64>, Vec<u64>),
    chunk: &[f64],
) -> Result<(ReferenceLevel, Vec<u32>)> {
    let axes = chunk.len();
    let shape = ChunkShape::new(chunk)?;
    let occupied = counts.par_iter().enumerate().filter(|(_, count)| **count > 0);
    let rows: Result<Vec<ChunkMean>> = occupied
        .map(|(number, count)| {
            let (mut at, mut wide) = ([0.0; AXES], [0.0; AXES]);
            let sums = &sums[number * axes..][..axes];
            for ((at, wide), sum) in at.iter_mut().zip(&mut wide).zip(sums) {
                *at = nearest_f32(sum / f64_from_u64(*count));
                *wide = f64::from(*at);
            }
            Ok((shape.chunk_of(&wide[..axes])?, memory_words(bins[number]), number, at))
        })
        .collect();
    let mut rows = rows?;
    rows.par_sort_unstable_by(|a, b| {
        a.0.components().cmp(b.0.components()).then_with(|| a.1.cmp(&b.1))
    });
    let (mut level, mut row_of) = (ReferenceLevel::default(), vec![NONE; counts.len()]);
    for (row, (key, _, number, at)) in rows.iter().enumerate() {
        if level.keys.last() != Some(key) {
            level.keys.push(*key);
            level.starts.push(row);
        }
        level.positions.extend(at.iter().take(axes));
        row_of[*number] = index_u32(row);
    }
    level.starts.push(rows.len());
    Ok((level, row_of))
}

/// The coordinates of a bin, padded with zeros.
type Bin = [i64; AXES];

/// Returns the bin of size `size` that contains `position`.
fn bin_of(position: &[f32], size: &[f64]) -> Bin {
    let mut bin = [0; AXES];
    for (to, (x, size)) in bin.iter_mut().zip(position.iter().zip(size)) {
        *to = saturating_floor_i64(f64::from(*x) / size);
    }
    bin
}

/// Returns the sort key of a bin: the bytes as they lie in memory.
fn memory_words(bin: Bin) -> [u64; AXES] {
    bin.map(|at| at.cast_unsigned().swap_bytes())
}

/// No row.
pub(super) const NONE: u32 = u32::MAX;
/// The largest number of axes that is supported here.
pub(super) const AXES: usize = 8;
/// Rows whose bins are computed together.
const ROWS: usize = 65_536;
/// Objects that are traced together.
const OBJECTS: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn sort_numbers(numbers: &[i64]) -> Vec<i64> {
        let bin = |at: &i64| [*at, 0, 0, 0, 0, 0, 0, 0];
        let mut bins: Vec<Bin> = numbers.iter().map(bin).collect();
        bins.sort_by_key(|bin| memory_words(*bin));
        bins.into_iter().map(|bin| bin[0]).collect()
    }

    #[test]
    fn bins_are_numbered_by_their_bytes() {
        let actual = sort_numbers(&[0, 1, 2, 255, 256, 257, 511, 512, 513]);
        assert_eq!(actual, [0, 256, 512, 1, 257, 513, 2, 255, 511]);
        assert_eq!(sort_numbers(&[-1, -2, -257, -258]), [-258, -2, -257, -1]);
        let pairs = [[0, 5], [256, 0], [1, 2], [-1, 3]];
        let bins = pairs.map(|[x, y]| [x, y, 0, 0, 0, 0, 0, 0]);
        assert!(bins.is_sorted_by_key(|bin| memory_words(*bin)));
    }

    #[test]
    fn bins_have_negative_numbers_below_zero() {
        let bin = bin_of(&[-0.5, 0.0, 3.9, 4.0], &[2.0; 4]);
        assert_eq!(bin[..4], [-1, 0, 1, 2]);
    }

    /// Returns three polylines in chunks of 8 and bins of 2.
    fn example() -> ReferenceLevel {
        let keys = [[0, 0], [1, 0], [1, 1]].map(|key| ChunkKey::new(&key).unwrap());
        #[rustfmt::skip]
        let positions = vec![
            1.0, 1.0, 1.5, 1.0, 3.0, 1.0, 5.0, 1.0, // the first four of A
            1.0, 3.0, 1.5, 1.5, 3.5, 1.5, 3.5, 5.0, // B
            9.0, 1.0,                               // the last of A
            12.0, 12.0, 13.0, 13.0,                 // C
        ];
        ReferenceLevel {
            keys: keys.to_vec(),
            starts: vec![0, 8, 9, 11],
            positions,
            offsets: vec![0, 5, 9, 11],
            references: vec![0, 1, 2, 3, 8, 4, 5, 6, 7, 9, 10],
            ids: Some(vec![0, 1, 2]),
            bin: vec![2.0, 2.0],
            chunk: vec![8.0, 8.0],
        }
    }

    #[test]
    fn two_levels_of_three_polylines() {
        let (first, parent) = coarsen(&example(), &[0, 1, 2], vec![4.0; 2], vec![8.0; 2]).unwrap();
        assert_eq!(first.starts, [0, 3, 4, 5]);
        let sixth = 11.5_f32 / 6.0;
        assert_eq!(first.positions, [sixth, 1.5, 3.5, 5.0, 5.0, 1.0, 9.0, 1.0, 12.5, 12.5]);
        assert_eq!(
            [0, 1, 2].map(|o| first.object(o).to_vec()),
            [vec![0, 2, 3], vec![0, 1], vec![4]]
        );
        assert_eq!(parent, [0, 0, 0, 2, 0, 0, 0, 1, 3, 4, 4]);

        let (second, parent) = coarsen(&first, &[0, 1, 2], vec![8.0; 2], vec![8.0; 2]).unwrap();
        // The mean of four references to two rows.
        assert_eq!(second.positions, [3.083_333_3, 2.25, 9.0, 1.0, 12.5, 12.5]);
        assert_eq!([0, 1, 2].map(|o| second.object(o).to_vec()), [vec![0, 1], vec![0], vec![2]]);
        assert_eq!(parent, [0, 0, 0, 1, 2]);
    }

    #[test]
    fn dropped_objects_have_neither_bins_nor_rows() {
        let (coarse, parent) = coarsen(&example(), &[2], vec![4.0; 2], vec![16.0; 2]).unwrap();
        assert_eq!((coarse.rows(), coarse.keys.len(), coarse.objects()), (1, 1, 3));
        assert_eq!([0, 1, 2].map(|o| coarse.object(o).len()), [0, 0, 1]);
        assert_eq!(parent[..9], [NONE; 9]);
        assert_eq!(coarse.locate(0), (0, 0));
    }

    #[test]
    fn revisits_are_kept_and_repeats_removed() {
        let mut level = example();
        (level.offsets, level.references) = (vec![0, 5], vec![0, 1, 3, 2, 0]);
        level.ids = Some(vec![7]);
        let (coarse, _) = coarsen(&level, &[0], vec![4.0; 2], vec![8.0; 2]).unwrap();
        assert_eq!((coarse.object(0), coarse.ids.as_deref()), (&[0, 1, 0][..], Some(&[7][..])));
        assert_eq!(coarse.positions[0], (1.0 + 1.5 + 3.0 + 1.0) / 4.0);
        level.ids = None;
        let (coarse, _) = coarsen(&level, &[0], vec![4.0; 2], vec![8.0; 2]).unwrap();
        assert_eq!((coarse.object(0), coarse.ids.as_deref()), (&[0, 1][..], None));
    }
}
