//! The spatial index of points: grids of cells, coarse ones first; a cell consists of chunks of a
//! level.
//!
//! ```text
//! few rows          all of level 0; a hash of each row determines its grid: a grid has an eighth of the next
//! additive levels,  one grid a level, with the rows of that level; coarse points of other levels repeat
//! or many rows      fine ones, and the property `zvf_level` distinguishes them
//! ```
//!
//! If a cell would hold too many rows, cells are halved along each axis, in this grid and in all
//! finer ones, and the rows of a chunk are divided by position.
//!
//! Viewers add up the contents of all grids and draw a prefix of a distant cell, so each cell is
//! ordered by a hash. All grids have the same lower corner and extent: a multiple of the coarsest
//! cells. The id of a point consists of the level of its chunk, the rank of that chunk in the
//! level, and its row, so it is found without a search.

use std::collections::HashMap;
use std::sync::Arc;

use zvf_error::Result;
use zvf_format::key::ChunkKey;
use zvf_format::num::{
    f64_from_i64, f64_from_u64, mix_bits, saturating_floor_i64, to_u64, trunc_u64,
};
use zvf_model::{Column, LevelReader};
use zvf_store::{Caching, KeyTable};

use super::error::{check_size, unsupported_error};
use super::space::{can_halve, check_place, chunk_sizes, coordinate, has_cell};

/// All grids of a cloud of points.
#[derive(Debug)]
pub(crate) struct PointIndex {
    pub(crate) grids: Vec<PointGrid>,
    /// The lower corner, in the unit of the store.
    pub(crate) low: Vec<f64>,
    /// Whether levels are additive: then each stores different points.
    is_additive: bool,
}

/// One grid, and the source of its points.
#[derive(Debug)]
pub(crate) struct PointGrid {
    pub(crate) level: LevelReader,
    pub(crate) chunks: Arc<KeyTable>,
    /// Cells along each axis.
    pub(crate) shape: Vec<u64>,
    /// The size of a cell.
    pub(crate) cell: Vec<f64>,
    /// The approximate maximum number of points in a cell.
    pub(crate) limit: u64,
    /// The number of the level in records.
    pub(crate) level_byte: u8,
    first: Vec<i64>,  // key of the chunk in the lower corner
    factor: Vec<i64>, // chunks per cell along each axis
    split: i64,       // cells per chunk along each axis; then a cell is inside of one chunk
    halvings: u32,
    share: Share,
}

/// The share of a chunk's rows that a grid has: that of grid `number` of `count`, the coarsest
/// being 0.
#[derive(Clone, Copy, Debug)]
struct Share {
    number: u32,
    count: u32,
}

impl Share {
    fn has(self, id: u64) -> bool {
        let zeros = mix_bits(id).trailing_zeros() / 3;
        self.number == self.count - 1 - zeros.min(self.count - 1)
    }

    /// Estimates the number of rows in the share, out of `rows`.
    fn expected(self, rows: u64) -> u64 {
        let back = f64::from(self.count - 1 - self.number);
        let share = if self.number == 0 { 1.0 } else { 7.0 / 8.0 } / 8_f64.powf(back);
        let mean = f64_from_u64(rows) * share;
        let bound = (mean + 4.0 * mean.sqrt()).ceil();
        if self.count == 1 { rows } else { trunc_u64(bound) }
    }

    /// Returns the most rows of this share in one of the cells.
    fn largest(self, cells: &HashMap<Vec<i64>, u64>) -> u64 {
        self.expected(cells.values().copied().max().unwrap_or(0)).max(1)
    }
}

impl PointIndex {
    /// Creates the index of a cloud with these levels, the finest first.
    ///
    /// Cells of more rows than `max_cell_rows` are halved.
    pub(crate) async fn new(levels: &[LevelReader], max_cell_rows: u64) -> Result<Self> {
        let finest = &levels[0];
        let chunks = finest.chunks().await?;
        let counts = count_rows(finest, &chunks).await?;
        let rows: u64 = counts.iter().map(|(_, rows)| rows).sum();
        let is_additive =
            levels.len() > 1 && levels.iter().any(|level| level.node().meta().is_additive());
        if (is_additive || rows > MAX_EXACT_ROWS)
            && levels.len() > 1
            && let Some(index) = Self::from_levels(levels, max_cell_rows).await?
        {
            return Ok(Self { is_additive, ..index });
        }
        Self::from_shares(finest, rows, max_cell_rows).await
    }

    /// Returns a grid for each level, if their chunks nest.
    async fn from_levels(levels: &[LevelReader], max_cell_rows: u64) -> Result<Option<Self>> {
        let Some(coarsest) = levels.last().map(chunk_sizes) else { return Ok(None) };
        let mut nested = Vec::new();
        let (mut from, mut to) = (vec![i64::MAX; coarsest.len()], vec![i64::MIN; coarsest.len()]);
        for level in levels.iter().rev() {
            let sizes = chunk_sizes(level);
            let Some(ratio) = whole_ratios(&coarsest, &sizes) else { return Ok(None) };
            let chunks = level.chunks().await?;
            let ends = extent(&chunks, sizes.len())?;
            let axes = from.iter_mut().zip(&mut to).zip(&ends).zip(&ratio);
            for (((from, to), (low, high)), ratio) in axes {
                (*from, *to) =
                    ((*from).min(low.div_euclid(*ratio)), (*to).max(high.div_euclid(*ratio)));
            }
            nested.push((level.clone(), chunks, sizes, ratio));
        }
        let mut grids = Vec::new();
        for (level, chunks, sizes, ratio) in nested {
            let (mut first, mut shape) = (Vec::new(), Vec::new());
            for ((from, to), ratio) in from.iter().zip(&to).zip(&ratio) {
                let [from, to, ratio] = [from, to, ratio].map(|n| i128::from(*n));
                let low = check_place(from * ratio)?;
                first.push(low);
                shape.push(check_place((to + 1) * ratio)? - low);
            }
            let factor = vec![1; sizes.len()];
            let (parts, share) = ((sizes, shape, first, factor), Share { number: 0, count: 1 });
            PointGrid::add(&mut grids, (level, chunks), parts, share, max_cell_rows).await?;
        }
        let low = from.iter().zip(&coarsest).map(|(from, size)| f64_from_i64(*from) * size);
        Ok(Some(Self { low: low.collect(), grids, is_additive: false }))
    }

    /// Returns grids that share the rows of one level.
    async fn from_shares(level: &LevelReader, rows: u64, max_cell_rows: u64) -> Result<Self> {
        let mut count = 1_u32;
        while count < MAX_SHARES && rows >> (3 * (count - 1)) > ROWS_OF_COARSEST {
            count += 1;
        }
        let sizes = chunk_sizes(level);
        let chunks = level.chunks().await?;
        let coarsest = 1_i64 << (count - 1);
        let ends = extent(&chunks, sizes.len())?;
        let from: Vec<i64> = ends.iter().map(|(low, _)| low.div_euclid(coarsest)).collect();
        let coarse: Vec<i64> = ends
            .iter()
            .zip(&from)
            .map(|((_, high), from)| high.div_euclid(coarsest) - from + 1)
            .collect();
        let mut grids = Vec::new();
        for number in 0..count {
            let factor = 1_i64 << (count - 1 - number);
            let shape = coarse.iter().map(|cells| cells * coarsest / factor).collect();
            let first = from.iter().map(|from| from * coarsest).collect();
            let parts = (sizes.clone(), shape, first, vec![factor; sizes.len()]);
            let (share, source) = (Share { number, count }, (level.clone(), Arc::clone(&chunks)));
            PointGrid::add(&mut grids, source, parts, share, max_cell_rows).await?;
        }
        let low = from.iter().zip(&sizes).map(|(from, size)| f64_from_i64(from * coarsest) * size);
        Ok(Self { low: low.collect(), grids, is_additive: false })
    }

    /// Returns the upper corner.
    pub(crate) fn high(&self) -> Vec<f64> {
        let Some(grid) = self.grids.first() else { return self.low.clone() };
        let sides = self.low.iter().zip(&grid.cell).zip(&grid.shape);
        sides.map(|((low, cell), cells)| low + cell * f64_from_u64(*cells)).collect()
    }

    /// Returns a grid for each level with different points: the finest one, and the others if
    /// levels are additive.
    pub(crate) fn own_levels(&self) -> Vec<&PointGrid> {
        let mut grids: Vec<&PointGrid> = Vec::new();
        for grid in self.grids.iter().rev() {
            let is_known = grids.iter().any(|listed| listed.level_byte == grid.level_byte);
            if !is_known && (grids.is_empty() || self.is_additive) {
                grids.push(grid);
            }
        }
        grids
    }

    /// Returns the chunk and the row of an id, and the grid of its level.
    pub(crate) fn locate(&self, id: u64) -> Option<(&PointGrid, ChunkKey, u64)> {
        let (level, chunk, row) = split_id(id);
        let grid = self.grids.iter().find(|grid| u64::from(grid.level.level().0) == level)?;
        Some((grid, grid.chunks.get(usize::try_from(chunk).ok()?)?, row))
    }
}

/// Cell sizes, cells along each axis, the first chunk, chunks per cell.
type Parts = (Vec<f64>, Vec<i64>, Vec<i64>, Vec<i64>);

impl PointGrid {
    /// Adds a grid to the coarser ones, with cells halved as often as theirs.
    async fn add(
        grids: &mut Vec<Self>,
        (level, chunks): (LevelReader, Arc<KeyTable>),
        (sizes, shape, first, factor): Parts,
        share: Share,
        max_cell_rows: u64,
    ) -> Result<()> {
        let number = level.level().0;
        check_size("a number of chunks", to_u64(chunks.len()), MAX_CHUNKS)?;
        check_size("a number of a level", number.into(), u8::MAX.into())?;
        let level_byte = number.to_le_bytes()[0];
        let cell = sizes.iter().zip(&factor).map(|(size, n)| size * f64_from_i64(*n)).collect();
        let shape = shape.into_iter().map(|n| n.max(1).cast_unsigned()).collect();
        let mut grid = Self {
            level,
            chunks,
            shape,
            cell,
            limit: 1,
            level_byte,
            first,
            factor,
            split: 1,
            halvings: 0,
            share,
        };
        for _ in 0..grids.last().map_or(0, |coarser| coarser.halvings) {
            if !grid.can_halve() {
                let what = "cells of a coarse level that are too far out for those of a fine one";
                return Err(unsupported_error(what.to_owned()));
            }
            grid.halve();
        }
        grid.fit(max_cell_rows).await?;
        grids.push(grid);
        Ok(())
    }

    /// Halves cells until none holds too many rows; cells that cannot be divided stay.
    async fn fit(&mut self, max_cell_rows: u64) -> Result<()> {
        let counts = count_rows(&self.level, &self.chunks).await?;
        let crowded = counts.iter().max_by_key(|(_, rows)| *rows);
        let positions = match crowded {
            Some((key, rows)) if self.share.expected(*rows) > max_cell_rows => {
                let read = self.level.positions(std::slice::from_ref(key), Caching::Once).await;
                read.into_iter().next().transpose()?.map(|all| (key, all))
            }
            _ => None,
        };
        loop {
            self.limit = match &positions {
                Some((key, positions)) if self.split > 1 => self.count_parts(key, positions),
                _ => self.count_cells(&counts),
            };
            let has_parts = self.factor.iter().all(|n| n % 2 == 0)
                || (positions.is_some() && self.split < MAX_SPLIT);
            if self.limit <= max_cell_rows || !has_parts || !self.can_halve() {
                return Ok(());
            }
            self.halve();
        }
    }

    /// Returns whether the numbers of all cells remain small enough when cells are halved.
    fn can_halve(&self) -> bool {
        let mut axes = self.first.iter().zip(&self.factor).zip(&self.shape);
        axes.all(|((first, factor), cells)| can_halve(first / factor * self.split, *cells))
    }

    /// Halves cells along each axis: into fewer chunks, or into parts of a chunk.
    fn halve(&mut self) {
        if self.factor.iter().all(|n| n % 2 == 0) {
            self.factor.iter_mut().for_each(|n| *n /= 2);
        } else {
            self.split *= 2;
        }
        self.shape.iter_mut().for_each(|n| *n *= 2);
        self.cell.iter_mut().for_each(|size| *size /= 2.0);
        self.halvings += 1;
    }

    /// Estimates the largest number of rows of a cell made of chunks.
    fn count_cells(&self, counts: &[(ChunkKey, u64)]) -> u64 {
        let mut cells = HashMap::<Vec<i64>, u64>::new();
        for (key, rows) in counts {
            let of_cell =
                spatial_components(key, self.cell.len()).iter().zip(&self.first).zip(&self.factor);
            let cell = of_cell.map(|((at, first), n)| (at - first).div_euclid(*n)).collect();
            *cells.entry(cell).or_default() += rows;
        }
        self.share.largest(&cells)
    }

    /// Returns the largest number of rows of a part of a chunk.
    fn count_parts(&self, key: &ChunkKey, positions: &Column) -> u64 {
        let mut parts = HashMap::<Vec<i64>, u64>::new();
        for row in 0..positions.len() {
            *parts.entry(self.part_of(key, positions, row)).or_default() += 1;
        }
        self.share.largest(&parts)
    }

    /// Returns the part of its chunk that contains a row; rounding and bins may put it slightly
    /// outside.
    fn part_of(&self, key: &ChunkKey, positions: &Column, row: usize) -> Vec<i64> {
        let along = |(axis, (at, size)): (usize, (&i64, &f64))| {
            let start = f64_from_i64(at * self.split);
            let place = coordinate(positions, row, axis) / size - start;
            saturating_floor_i64(place).clamp(0, self.split - 1)
        };
        spatial_components(key, self.cell.len())
            .iter()
            .zip(&self.cell)
            .enumerate()
            .map(along)
            .collect()
    }

    /// Returns whether a row of the chunk `key`, to which `cell` belongs, is in that cell.
    pub(crate) fn has_row(
        &self,
        cell: &[u64],
        key: &ChunkKey,
        positions: &Column,
        row: usize,
    ) -> bool {
        self.split == 1
            || self
                .part_of(key, positions, row)
                .iter()
                .zip(cell)
                .all(|(part, at)| *part == at.cast_signed() % self.split)
    }

    /// Returns the existing chunks of a cell.
    pub(crate) fn chunks_of(&self, cell: &[u64]) -> Vec<ChunkKey> {
        if !has_cell(&self.shape, cell) {
            return Vec::new();
        }
        let sides = cell.iter().zip(&self.first).zip(&self.factor);
        let sides: Vec<_> = sides
            .map(|((at, first), n)| {
                let start = first + at.cast_signed() / self.split * n;
                start..start + n
            })
            .collect();
        let is_inside = |key: &ChunkKey| {
            spatial_components(key, sides.len())
                .iter()
                .zip(&sides)
                .all(|(at, side)| side.contains(at))
        };
        self.chunks.iter().filter(is_inside).collect()
    }

    /// Returns whether the point with this id, which is in its level, is in this grid.
    pub(crate) fn has(&self, id: u64) -> bool {
        self.share.has(id)
    }

    /// Returns the id of a row of its level, whichever grid it is in.
    ///
    /// # Errors
    ///
    /// When the row would have the id of another one: the chunk has more rows than it states.
    pub(crate) fn point_id(&self, chunk: u64, row: u64) -> Result<u64> {
        check_size("a chunk", row + 1, MAX_ROWS_OF_CHUNK)?;
        Ok(u64::from(self.level_byte) << 56 | chunk << 24 | row)
    }
}

const fn split_id(id: u64) -> (u64, u64, u64) {
    (id >> 56, (id >> 24) & (MAX_CHUNKS - 1), id & (MAX_ROWS_OF_CHUNK - 1))
}

/// Returns the number of rows of each chunk, which is at most [`MAX_ROWS_OF_CHUNK`].
async fn count_rows(level: &LevelReader, chunks: &KeyTable) -> Result<Vec<(ChunkKey, u64)>> {
    let keys: Vec<ChunkKey> = chunks.iter().collect();
    let mut counts = Vec::with_capacity(keys.len());
    for (key, rows) in keys.iter().zip(level.row_counts(&keys).await) {
        let rows = rows?;
        check_size("a chunk", rows, MAX_ROWS_OF_CHUNK)?;
        counts.push((*key, rows));
    }
    Ok(counts)
}

/// Returns the first and the last chunk along each axis; their numbers are within the limit of
/// [`check_place`].
///
/// # Errors
///
/// When a chunk number is larger, or a key lacks an axis.
pub(crate) fn extent(chunks: &KeyTable, axes: usize) -> Result<Vec<(i64, i64)>> {
    if chunks.rank() < axes {
        let what = format!("chunks have {axes} axes, and their keys {}", chunks.rank());
        return Err(unsupported_error(what));
    }
    let mut ends = vec![(i64::MAX, i64::MIN); axes];
    for row in chunks.rows() {
        for (at, (low, high)) in row[row.len() - axes..].iter().zip(&mut ends) {
            (*low, *high) = ((*low).min(*at), (*high).max(*at));
        }
    }
    if chunks.is_empty() {
        return Ok(vec![(0, 0); axes]);
    }
    for (low, high) in &ends {
        check_place((*low).into())?;
        check_place((*high).into())?;
    }
    Ok(ends)
}

/// Returns the chunk numbers along the axes, without the bin of an attribute; [`extent`] checked
/// that the key has them.
fn spatial_components(key: &ChunkKey, axes: usize) -> &[i64] {
    &key.components()[key.rank() - axes..]
}

/// Returns the ratios of the large to the small sizes, if they are integers.
fn whole_ratios(large: &[f64], small: &[f64]) -> Option<Vec<i64>> {
    if large.len() != small.len() {
        return None;
    }
    let ratio = |(large, small): (&f64, &f64)| {
        zvf_format::grid::whole_ratio(*large, *small).filter(|ratio| *ratio < 1_000_000)
    };
    large.iter().zip(small).map(ratio).collect()
}

/// The number of rows up to which a cloud needs no coarser levels.
const MAX_EXACT_ROWS: u64 = 2_000_000;
/// The largest number of rows of the coarsest grid, unless there are too many grids.
const ROWS_OF_COARSEST: u64 = 5000;
const MAX_SHARES: u32 = 5;
/// The largest number of cells of a chunk along an axis.
const MAX_SPLIT: i64 = 64;
/// The limit of the chunk rank in an id.
const MAX_CHUNKS: u64 = 1 << 32;
const MAX_ROWS_OF_CHUNK: u64 = 1 << 24;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_is_in_one_share_and_coarse_ones_have_an_eighth() {
        let shares = [0, 1, 2].map(|number| Share { number, count: 3 });
        let mut found = [0_u64; 3];
        for id in 0..64_000 {
            let shares_of_row: Vec<usize> = (0..3).filter(|n| shares[*n].has(id)).collect();
            assert_eq!(shares_of_row.len(), 1, "{id}");
            found[shares_of_row[0]] += 1;
        }
        assert!((800..1200).contains(&found[0]), "{found:?}");
        assert!((6500..7500).contains(&found[1]), "{found:?}");
        for (share, found) in shares.iter().zip(found) {
            assert!(share.expected(64_000) >= found, "{share:?} has {found}");
        }
    }

    #[test]
    fn nesting_of_sizes_is_detected() {
        assert_eq!(whole_ratios(&[8.0, 4.0], &[2.0, 4.0]), Some(vec![4, 1]));
        assert_eq!(whole_ratios(&[0.3], &[0.1]), Some(vec![3]));
        assert_eq!(whole_ratios(&[5.0], &[2.0]), None);
        assert_eq!(whole_ratios(&[1.0], &[2.0]), None);
        assert_eq!(whole_ratios(&[1.0, 1.0], &[1.0]), None);
    }

    #[test]
    fn chunks_have_numbers_that_viewers_can_compute_with() {
        let table = |keys: &[&[i64]]| {
            let keys = keys.iter().map(|key| ChunkKey::new(key).unwrap());
            KeyTable::new(2, keys).unwrap()
        };
        let chunks = table(&[&[7, -3], &[7, 5]]);
        assert_eq!(extent(&chunks, 1).unwrap(), [(-3, 5)]);
        assert_eq!(extent(&chunks, 2).unwrap(), [(7, 7), (-3, 5)]);
        assert_eq!(extent(&table(&[]), 2).unwrap(), [(0, 0); 2]);
        assert!(extent(&chunks, 3).is_err());
        for far in [i64::MIN, i64::MAX, 1 << 53] {
            let error = extent(&table(&[&[0, 0], &[0, far]]), 2).unwrap_err().to_string();
            assert!(error.contains("numbers within 2^52"), "{error}");
        }
    }
}
