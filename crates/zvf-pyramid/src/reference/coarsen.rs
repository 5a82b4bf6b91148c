//! One level from the one below: bins, means, and the bins that objects pass.
//!
//! Bins are numbered as the reference numbers them: by their coordinates, each taken as the bytes that it
//! is in memory. Any order would do; this one makes outputs equal.
//!
//! Not here: which objects are kept, and how a level is stored.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use rayon::prelude::*;
use zvf_format::grid::ChunkShape;
use zvf_format::key::ChunkKey;

use crate::PyramidError;
use crate::num::{floor, place, to_f32, to_f64, to_u32, to_u64};

/// A level as far as the reference looks at it.
#[derive(Clone, Debug, Default)]
pub(super) struct Level {
    /// Chunks, ascending.
    pub(super) keys: Vec<ChunkKey>,
    /// The first row of each chunk, and the end of the last.
    pub(super) starts: Vec<usize>,
    /// Coordinates, row by row.
    pub(super) positions: Vec<f32>,
    /// Where the references of each object start, and where those of the last end.
    pub(super) offsets: Vec<usize>,
    /// Rows, object by object, in the order of its manifest.
    pub(super) references: Vec<u32>,
    /// The id of each object; none where the level has no index, and all is one object.
    pub(super) ids: Option<Vec<i64>>,
    /// Size of a bin.
    pub(super) bin: Vec<f64>,
    /// Size of a chunk.
    pub(super) chunk: Vec<f64>,
}

impl Level {
    /// How many axes there are.
    pub(super) const fn axes(&self) -> usize {
        self.chunk.len()
    }

    /// How many vertices.
    pub(super) fn rows(&self) -> usize {
        self.starts.last().copied().unwrap_or(0)
    }

    /// How many objects.
    pub(super) const fn objects(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// The rows that object `row` refers to.
    pub(super) fn object(&self, row: usize) -> &[u32] {
        let end = self.offsets.get(row.saturating_add(1)).copied().unwrap_or(0);
        let start = self.offsets.get(row).copied().unwrap_or(end);
        self.references.get(start..end).unwrap_or(&[])
    }

    /// The chunk a row lies in, by its place, and the row in it.
    pub(super) fn locate(&self, row: u32) -> (usize, u64) {
        let row = place(row);
        let chunk = self.starts.partition_point(|start| *start <= row).saturating_sub(1);
        let start = self.starts.get(chunk).copied().unwrap_or(0);
        (chunk, to_u64(row.saturating_sub(start)))
    }
}

/// The vertices of a bin, while they come.
#[derive(Clone, Debug)]
struct Mean {
    bin: Bin,
    sums: [f64; AXES],
    count: u64,
}

/// The level whose bins are `bin` and whose chunks are `chunk`, of the objects `kept`; and for each row of
/// `source` the row of its bin, [`NONE`] where no kept object is in that.
pub(super) fn coarsen(
    source: &Level,
    kept: &[usize],
    bin: Vec<f64>,
    chunk: Vec<f64>,
) -> Result<(Level, Vec<u32>), PyramidError> {
    let axes = source.axes();
    let bins: Vec<Bin> =
        source.positions.par_chunks_exact(axes.max(1)).map(|at| Bin::of(at, &bin)).collect();
    let mut numbers: HashMap<Bin, u32, Fast> = HashMap::default();
    let mut means: Vec<Mean> = Vec::new();
    let (mut passed, mut ends) = (Vec::new(), Vec::with_capacity(kept.len()));
    for row in kept {
        let mut last = NONE;
        for reference in source.object(*row) {
            let at = place(*reference);
            let Some(own) = bins.get(at) else { continue };
            let next = to_u32(means.len());
            let number = *numbers.entry(*own).or_insert(next);
            if number == next {
                means.push(Mean { bin: *own, sums: [0.0; AXES], count: 0 });
            }
            if let Some(mean) = means.get_mut(place(number)) {
                let start = at.saturating_mul(axes);
                let from = source.positions.get(start..start.saturating_add(axes)).unwrap_or(&[]);
                mean.sums.iter_mut().zip(from).for_each(|(sum, x)| *sum += f64::from(*x));
                mean.count = mean.count.saturating_add(1);
            }
            if number != last {
                passed.push(number);
            }
            last = number;
        }
        ends.push(passed.len());
    }
    let (mut level, row_of) = laid_out(&means, axes, &chunk)?;
    let place_of = |number: &u32| row_of.get(place(*number)).copied().unwrap_or(NONE);
    let parent = bins.par_iter().map(|bin| numbers.get(bin).map_or(NONE, place_of)).collect();
    if source.ids.is_none() {
        // Nothing says what was passed in which order: the level is one object of all its rows.
        let references: Vec<u32> = (0..to_u32(means.len())).collect();
        let offsets = vec![0, references.len()];
        return Ok((Level { references, offsets, bin, chunk, ..level }, parent));
    }
    let (mut offsets, mut start, mut of) = (vec![0], 0_usize, kept.iter().zip(ends).peekable());
    for row in 0..source.objects() {
        if let Some((_, end)) = of.next_if(|(kept, _)| **kept == row) {
            let own = passed.get(start..end).unwrap_or(&[]);
            level.references.extend(own.iter().map(place_of));
            start = end;
        }
        offsets.push(level.references.len());
    }
    let ids = source.ids.clone();
    Ok((Level { offsets, ids, bin, chunk, ..level }, parent))
}

/// The means as rows of chunks, and the row of each.
fn laid_out(means: &[Mean], axes: usize, chunk: &[f64]) -> Result<(Level, Vec<u32>), PyramidError> {
    let shape = ChunkShape::new(chunk)?;
    let rows: Result<Vec<(ChunkKey, Vec<f32>)>, PyramidError> = means
        .par_iter()
        .map(|mean| {
            let count = to_f64(mean.count);
            let at: Vec<f32> = mean.sums.iter().take(axes).map(|sum| to_f32(sum / count)).collect();
            let wide: Vec<f64> = at.iter().map(|x| f64::from(*x)).collect();
            Ok((shape.chunk_of(&wide)?, at))
        })
        .collect();
    let rows = rows?;
    let mut order: Vec<usize> = (0..means.len()).collect();
    order.par_sort_unstable_by(|a, b| {
        let key = |at: &usize| rows.get(*at).map(|(key, _)| key.components());
        let bin = |at: &usize| means.get(*at).map(|mean| mean.bin);
        key(a).cmp(&key(b)).then_with(|| bin(a).cmp(&bin(b)))
    });
    let (mut level, mut row_of) = (Level::default(), vec![NONE; means.len()]);
    for (row, number) in order.into_iter().enumerate() {
        let Some((key, at)) = rows.get(number) else { continue };
        if level.keys.last() != Some(key) {
            level.keys.push(*key);
            level.starts.push(row);
        }
        level.positions.extend(at);
        if let Some(to) = row_of.get_mut(number) {
            *to = to_u32(row);
        }
    }
    level.starts.push(means.len());
    Ok((level, row_of))
}

/// The coordinates of a bin; zeros behind the last axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bin([i64; AXES]);

impl Bin {
    /// The bin of size `size` that `position` lies in.
    pub(super) fn of(position: &[f32], size: &[f64]) -> Self {
        let mut bin = [0; AXES];
        for (to, (x, size)) in bin.iter_mut().zip(position.iter().zip(size)) {
            *to = floor(f64::from(*x) / size);
        }
        Self(bin)
    }

    /// What the order compares: the bytes as they lie in memory.
    fn in_memory(self) -> [u64; AXES] {
        self.0.map(|at| at.cast_unsigned().swap_bytes())
    }
}

impl Ord for Bin {
    fn cmp(&self, other: &Self) -> Ordering {
        self.in_memory().cmp(&other.in_memory())
    }
}

impl PartialOrd for Bin {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl std::hash::Hash for Bin {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.iter().for_each(|at| state.write_u64(at.cast_unsigned()));
    }
}

/// Hashing of numbers that nobody chose to collide.
pub(crate) type Fast = BuildHasherDefault<Multiply>;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Multiply(u64);

impl Hasher for Multiply {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 29)
    }

    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|word| self.write_u64(u64::from_le_bytes(*word)));
        rest.iter().for_each(|byte| self.write_u64((*byte).into()));
    }

    fn write_u64(&mut self, n: u64) {
        self.0 = (self.0.rotate_left(23) ^ n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

/// No row.
pub(super) const NONE: u32 = u32::MAX;
/// Axes that a store may have here.
pub(super) const AXES: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(numbers: &[i64]) -> Vec<i64> {
        let bin = |at: &i64| Bin([*at, 0, 0, 0, 0, 0, 0, 0]);
        let mut bins: Vec<Bin> = numbers.iter().map(bin).collect();
        bins.sort();
        bins.into_iter().map(|bin| bin.0[0]).collect()
    }

    #[test]
    fn bins_are_numbered_by_their_bytes() {
        let found = sorted(&[0, 1, 2, 255, 256, 257, 511, 512, 513]);
        assert_eq!(found, [0, 256, 512, 1, 257, 513, 2, 255, 511]);
        assert_eq!(sorted(&[-1, -2, -257, -258]), [-258, -2, -257, -1]);
        let pairs = [[0, 5], [256, 0], [1, 2], [-1, 3]];
        let bins = pairs.map(|[x, y]| Bin([x, y, 0, 0, 0, 0, 0, 0]));
        assert!(bins.is_sorted());
    }

    #[test]
    fn bins_go_down_below_zero() {
        let bin = Bin::of(&[-0.5, 0.0, 3.9, 4.0], &[2.0; 4]);
        assert_eq!(bin.0[..4], [-1, 0, 1, 2]);
    }

    /// Three polylines in chunks of 8 and bins of 2.
    fn example() -> Level {
        let keys = [[0, 0], [1, 0], [1, 1]].map(|key| ChunkKey::new(&key).unwrap());
        #[rustfmt::skip]
        let positions = vec![
            1.0, 1.0, 1.5, 1.0, 3.0, 1.0, 5.0, 1.0, // the first four of A
            1.0, 3.0, 1.5, 1.5, 3.5, 1.5, 3.5, 5.0, // B
            9.0, 1.0,                               // the last of A
            12.0, 12.0, 13.0, 13.0,                 // C
        ];
        Level {
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
        let (one, parent) = coarsen(&example(), &[0, 1, 2], vec![4.0; 2], vec![8.0; 2]).unwrap();
        assert_eq!(one.starts, [0, 3, 4, 5]);
        let sixth = 11.5_f32 / 6.0;
        assert_eq!(one.positions, [sixth, 1.5, 3.5, 5.0, 5.0, 1.0, 9.0, 1.0, 12.5, 12.5]);
        assert_eq!([0, 1, 2].map(|o| one.object(o).to_vec()), [vec![0, 2, 3], vec![0, 1], vec![4]]);
        assert_eq!(parent, [0, 0, 0, 2, 0, 0, 0, 1, 3, 4, 4]);

        let (two, parent) = coarsen(&one, &[0, 1, 2], vec![8.0; 2], vec![8.0; 2]).unwrap();
        // The mean of four references to two rows.
        assert_eq!(two.positions, [3.083_333_3, 2.25, 9.0, 1.0, 12.5, 12.5]);
        assert_eq!([0, 1, 2].map(|o| two.object(o).to_vec()), [vec![0, 1], vec![0], vec![2]]);
        assert_eq!(parent, [0, 0, 0, 1, 2]);
    }

    #[test]
    fn what_is_not_kept_has_neither_bins_nor_rows() {
        let (one, parent) = coarsen(&example(), &[2], vec![4.0; 2], vec![16.0; 2]).unwrap();
        assert_eq!((one.rows(), one.keys.len(), one.objects()), (1, 1, 3));
        assert_eq!([0, 1, 2].map(|o| one.object(o).len()), [0, 0, 1]);
        assert_eq!(parent[..9], [NONE; 9]);
        assert_eq!(one.locate(0), (0, 0));
    }

    #[test]
    fn revisits_stay_and_repeats_go() {
        let mut level = example();
        (level.offsets, level.references) = (vec![0, 5], vec![0, 1, 3, 2, 0]);
        level.ids = Some(vec![7]);
        let (one, _) = coarsen(&level, &[0], vec![4.0; 2], vec![8.0; 2]).unwrap();
        assert_eq!((one.object(0), one.ids.as_deref()), (&[0, 1, 0][..], Some(&[7][..])));
        assert_eq!(one.positions[0], (1.0 + 1.5 + 3.0 + 1.0) / 4.0);
        level.ids = None;
        let (one, _) = coarsen(&level, &[0], vec![4.0; 2], vec![8.0; 2]).unwrap();
        assert_eq!((one.object(0), one.ids.as_deref()), (&[0, 1][..], None));
    }
}
