//! Splits a level into blocks of chunks that fit in memory, which are written one after the other
//! and joined again.
//!
//! ```text
//! blocks    the chunks, halved along their longest side until few enough vertices are left
//! a block   its vertices; edges and faces with an end in it, and so the ends that lie in other blocks
//! fixed     both ends of what goes from one block to another: they stay what and where they are
//! joining   such edges and faces are written with the last of their blocks, by the running numbers that
//!           their ends got; an end is remembered until then
//! ```
//!
//! So the result is connected exactly as the source was. Blocks leave seams of fixed vertices; the
//! seams of the next level lie elsewhere.

use std::collections::HashMap;

use zvf_error::Result;
use zvf_format::key::ChunkKey;
use zvf_format::num::{
    f64_from_i64, f64_from_u64, index_u32, round_half_up_u64, saturating_usize, to_u64,
    usize_from_u32,
};
use zvf_model::{Batch, Bounds, Column, Elements, Kind, LevelReader};
use zvf_query::region::Region;

use crate::batches::{gather_fields, select_rows};
use crate::columns::counts;
use crate::error::{inconsistent_error, unsupported_error};
use crate::levels::widen;
use crate::links::LineageWriter;
use crate::rows::{NONE, chunk_of_place, lookup, positions_in, row_number};
use crate::shape::Coarsened;

/// The blocks of a level.
#[derive(Debug)]
pub(crate) struct Blocks {
    boxes: Vec<[Vec<i64>; 2]>, // lowest and highest chunk
    block_of_chunk: Vec<u32>,  // by the place of the chunk in the level
    sizes: Vec<f64>,           // of a chunk
}

impl Blocks {
    /// Builds blocks of at most `max_rows` vertices, or of one unit: a unit has this many chunks on
    /// each axis.
    pub(crate) async fn build(level: &LevelReader, max_rows: u64, units: &[i64]) -> Result<Self> {
        let (keys, rows) = count_rows(level).await?;
        let sizes = level.chunk_shape().sizes().to_vec();
        Ok(Self::new(&keys, &rows, (sizes, units), max_rows))
    }

    fn new(
        keys: &[ChunkKey],
        rows: &[u64],
        (sizes, units): (Vec<f64>, &[i64]),
        max_rows: u64,
    ) -> Self {
        let mut blocks = Self { boxes: Vec::new(), block_of_chunk: vec![0; keys.len()], sizes };
        let mut open = vec![(0..keys.len()).collect::<Vec<usize>>()];
        while let Some(mut chunks) = open.pop() {
            let Some(corners) = corners(keys, &chunks) else { break }; // there are no chunks
            // The row counts of a damaged store may overflow; the sum is only compared with
            // `max_rows`.
            let count = chunks.iter().map(|at| rows[*at]).fold(0, u64::saturating_add);
            let (axis, length) = longest_side(&corners, units);
            if count <= max_rows || length == 0 {
                let number = index_u32(blocks.boxes.len());
                for at in chunks {
                    blocks.block_of_chunk[at] = number;
                }
                blocks.boxes.push(corners);
                continue;
            }
            let along = |at: &usize| keys[*at].components()[axis].div_euclid(units[axis]);
            chunks.sort_by_key(along);
            let end = median_cut(&chunks, rows, count, along);
            let rest = chunks.split_off(end);
            open.extend([rest, chunks]);
        }
        blocks
    }

    pub(crate) const fn len(&self) -> usize {
        self.boxes.len()
    }

    /// Returns the region of block `number`, slightly enlarged because chunks are computed from
    /// rounded numbers.
    pub(crate) fn region(&self, number: usize) -> Result<Region> {
        region(&self.boxes[number], &self.sizes, STRAY_TOLERANCE_CHUNKS)
    }

    /// Returns a region that meets the chunks of block `number` and no others.
    pub(crate) fn chunks(&self, number: usize) -> Result<Region> {
        chunks_between(&self.boxes[number], &self.sizes)
    }

    /// Returns the block of each place.
    pub(crate) fn owners(&self, places: &[u64]) -> Result<Vec<u32>> {
        let owner = |place: &u64| {
            let chunk = chunk_of_place(*place);
            let block = self.block_of_chunk.get(usize_from_u32(chunk)).copied();
            block.ok_or_else(|| {
                let expected = format!("less than {}", self.block_of_chunk.len());
                inconsistent_error("chunk that a vertex lies in", expected, chunk)
            })
        };
        places.iter().map(owner).collect()
    }
}

/// Returns a region that meets the chunks from the first to the last corner and no others.
pub(crate) fn chunks_between(corners: &[Vec<i64>; 2], sizes: &[f64]) -> Result<Region> {
    region(corners, sizes, -STRAY_TOLERANCE_CHUNKS)
}

/// Returns the box of these chunks, enlarged on each side by a number of chunks.
fn region([low, high]: &[Vec<i64>; 2], sizes: &[f64], by: f64) -> Result<Region> {
    let end = |at: &i64, size: &f64, more: f64| (f64_from_i64(*at) + more) * size;
    let low: Vec<f64> = low.iter().zip(sizes).map(|(at, s)| end(at, s, -by)).collect();
    let high: Vec<f64> = high.iter().zip(sizes).map(|(at, s)| end(at, s, 1.0 + by)).collect();
    let bounds = Bounds::new(&low, &high);
    let bounds = bounds.map_err(|why| unsupported_error("chunks", "finite", why))?;
    Ok(bounds.into())
}

/// Returns the chunks of a level, and how many rows each has, by counting them.
pub(crate) async fn count_rows(level: &LevelReader) -> Result<(Vec<ChunkKey>, Vec<u64>)> {
    let keys: Vec<ChunkKey> = level.chunks().await?.iter().collect();
    let mut rows = Vec::with_capacity(keys.len());
    for keys in keys.chunks(COUNT_BATCH_CHUNKS) {
        for count in level.row_counts(keys).await {
            rows.push(count?);
        }
    }
    Ok((keys, rows))
}

fn corners(keys: &[ChunkKey], chunks: &[usize]) -> Option<[Vec<i64>; 2]> {
    let first = keys[*chunks.first()?].components();
    let mut corners = [first.to_vec(), first.to_vec()];
    chunks.iter().for_each(|at| widen(&mut corners, &keys[*at]));
    Some(corners)
}

/// Returns the longest side, and how many units longer than one unit it is.
fn longest_side([low, high]: &[Vec<i64>; 2], units: &[i64]) -> (usize, i64) {
    // A side that overflows is still the longest.
    let sides =
        low.iter().zip(high).zip(units).map(|((low, high), unit)| {
            high.div_euclid(*unit).saturating_sub(low.div_euclid(*unit))
        });
    let sides = sides.enumerate();
    // Without axes there is nothing to cut.
    sides.max_by_key(|(axis, side)| (*side, std::cmp::Reverse(*axis))).unwrap_or_default()
}

/// Returns the cut between two coordinates that puts about half of the rows before it.
fn median_cut(chunks: &[usize], rows: &[u64], count: u64, along: impl Fn(&usize) -> i64) -> usize {
    let (mut rows_before, mut best, mut least_apart) = (0_u64, 0_usize, u64::MAX);
    for (at, [before, after]) in chunks.array_windows::<2>().enumerate() {
        // Only compared, like the count.
        rows_before = rows_before.saturating_add(rows[*before]);
        let apart = rows_before.saturating_mul(2).abs_diff(count);
        if along(before) != along(after) && apart < least_apart {
            (best, least_apart) = (at + 1, apart);
        }
    }
    // The longest side has two units or more, so there is always a cut.
    best.max(1)
}

/// A coarsened block and its source vertices.
pub(crate) struct Block {
    pub(crate) number: usize,
    pub(crate) made: Coarsened,
    pub(crate) places: Vec<u64>,
    pub(crate) owners: Vec<u32>,
    pub(crate) fixed: Vec<bool>,
}

impl Block {
    /// Returns which vertices of a batch must not change: those of other blocks, and those that an
    /// edge or face joins to them.
    pub(crate) fn find_fixed(batch: &Batch, owners: &[u32], block: usize) -> Vec<bool> {
        let is_owned = |row: usize| usize_from_u32(owners[row]) == block;
        let mut fixed: Vec<bool> = (0..batch.len()).map(|row| !is_owned(row)).collect();
        for element in batch.elements().into_iter().flat_map(Elements::iter) {
            if !element.iter().all(|row| is_owned(*row)) {
                element.iter().for_each(|row| fixed[*row] = true);
            }
        }
        fixed
    }

    /// Returns the owner of each coarse vertex, and the place of the fixed vertex it represents, if
    /// any.
    fn find_places(&self) -> (Vec<u32>, Vec<u64>) {
        let count = self.made.batch.len();
        let (mut owners, mut places) = (vec![NONE; count], vec![u64::MAX; count]);
        let sources = self.places.iter().zip(&self.owners);
        let vertices = self.made.vertex_map.iter().zip(&self.fixed).zip(sources);
        for ((row, fixed), (place, owner)) in vertices.filter(|((row, _), _)| **row != NONE) {
            let row = usize_from_u32(*row);
            // Others may have become one with a fixed vertex, which stays where it is.
            if *fixed || owners[row] == NONE {
                (owners[row], places[row]) = (*owner, *place);
            }
        }
        (owners, places)
    }
}

/// The running numbers of endpoints that later blocks refer to.
#[derive(Debug, Default)]
pub(crate) struct BlockStitcher {
    numbers: HashMap<u64, (u64, u32)>, // by place: the number, and the last block that needs it
    taken: u64,
}

impl BlockStitcher {
    /// Adds the result of a block and the links that join it to earlier blocks.
    pub(crate) fn take(&mut self, block: &Block, lineage: &mut LineageWriter) -> Result<()> {
        let (owners, places_of) = block.find_places();
        let (made, places, block) = (&block.made, &block.places, index_u32(block.number));
        let rows: Vec<u32> = (0..row_number(made.batch.len()))
            .filter(|row| owners[usize_from_u32(*row)] == block)
            .collect();
        let number = positions_in(&rows, made.batch.len());
        let block_part = Coarsened {
            batch: select_rows(&made.batch, &rows)?,
            vertex_map: made.vertex_map.iter().map(|row| lookup(&number, *row)).collect(),
            farthest: made.farthest.clone(),
        };
        self.taken += to_u64(block_part.vertex_map.iter().filter(|row| **row != NONE).count());
        let first = lineage.take(&block_part, places)?;
        let Some(elements) = made.batch.elements() else { return Ok(()) };
        let (mut sewn, mut ends) = (Vec::new(), Vec::new());
        for (element, rows) in (0_u32..).zip(elements.iter()) {
            let owners = || rows.iter().map(|row| owners[*row]);
            let last = owners().fold(0, u32::max);
            if !owners().any(|owner| owner == block) || owners().all(|owner| owner == block) {
                continue;
            }
            for row in rows.iter().filter(|row| last > block && number[**row] != NONE) {
                let number = first + u64::from(number[*row]);
                let entry = self.numbers.entry(places_of[*row]).or_insert((number, last));
                entry.1 = entry.1.max(last);
            }
            if last == block {
                for row in rows {
                    ends.push(match number[*row] {
                        NONE => self.number(places_of[*row])?,
                        at => first + u64::from(at),
                    });
                }
                sewn.push(element);
            }
        }
        lineage.elements += to_u64(sewn.len());
        self.numbers.retain(|_, (_, until)| *until > block);
        push(lineage, elements, &sewn, &ends)
    }

    fn number(&self, place: u64) -> Result<u64> {
        let number = self.numbers.get(&place).map(|(number, _)| *number);
        let expected = "ends that are in a block before";
        number.ok_or_else(|| unsupported_error("edges between blocks", expected, "another"))
    }

    /// Fails if a vertex was lost or doubled.
    pub(crate) fn check(&self, vertices: u64, all: bool) -> Result<()> {
        if all && self.taken != vertices {
            let (what, expected) = ("vertices of the blocks", "all of the level");
            return Err(unsupported_error(what, expected, format!("{} of {vertices}", self.taken)));
        }
        Ok(())
    }
}

/// Passes elements to the writer by the numbers of their ends.
fn push(
    lineage: &mut LineageWriter,
    elements: &Elements,
    some: &[u32],
    ends: &[u64],
) -> Result<()> {
    if some.is_empty() {
        return Ok(());
    }
    let numbers = counts(ends)?;
    let width = index_u32(elements.width());
    let vertices = Column::new(numbers.dtype(), width, numbers.bytes().clone())?;
    let fields = gather_fields(elements.fields(), some);
    lineage.kind_writer()?.push_elements(&vertices, &fields)
}

/// Returns how many vertices of a kind can be coarsened within `memory` bytes.
pub(crate) fn vertices_in(memory: u64, kind: Kind) -> u64 {
    // Edges and faces included; of meshes, two blocks at once and the structures that measure their
    // error.
    let bytes = match (kind, kind.has_links()) {
        (Kind::Mesh, _) => 1600,
        (_, true) => 800,
        (_, false) => 400,
    };
    memory / bytes
}

/// Returns how many objects fit in memory together if `room` vertices fit, using the mean size of
/// `objects` objects with `vertices` vertices in all.
pub(crate) fn objects_at_once(room: u64, vertices: u64, objects: usize) -> usize {
    let mean = f64_from_u64(vertices) / f64_from_u64(to_u64(objects.max(1)));
    // A result larger than any list of objects means all of them.
    saturating_usize(round_half_up_u64(f64_from_u64(room) / mean.max(1.0))).max(1)
}

/// How far outside its chunk a vertex may lie, as a fraction of the chunk.
const STRAY_TOLERANCE_CHUNKS: f64 = 1e-6;
/// Chunks that are counted in one request.
const COUNT_BATCH_CHUNKS: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_boxes_of_similar_size() {
        let keys: Vec<ChunkKey> =
            (0..32).map(|i| ChunkKey::new(&[i / 4 - 3, i % 4]).unwrap()).collect();
        let rows: Vec<u64> = (0..32).map(|i| 10 + i % 3).collect();
        let blocks = Blocks::new(&keys, &rows, (vec![2.0, 5.0], &[1, 1]), 100);
        assert_eq!(blocks.len(), 4);
        let mut counts = vec![0; 4];
        for ((key, rows), block) in keys.iter().zip(&rows).zip(&blocks.block_of_chunk) {
            let [low, high] = &blocks.boxes[*block as usize];
            let inside = |axis: usize| (low[axis]..=high[axis]).contains(&key.components()[axis]);
            assert!(inside(0) && inside(1), "{key} in {block}");
            counts[*block as usize] += rows;
        }
        assert!(counts.iter().all(|count| *count <= 100), "{counts:?}");
        let region = blocks.region(0).unwrap();
        let low: Vec<f64> = region.hull().low().to_vec();
        assert!(low[0] < -6.0 && low[0] > -6.001 && low[1] < 0.0, "{low:?}");
        let expected = [blocks.block_of_chunk[0], blocks.block_of_chunk[31]];
        assert_eq!(blocks.owners(&[0, 31 << 32]).unwrap(), expected);
        assert!(blocks.owners(&[99 << 32]).is_err());
        let len = |max_rows, units: [i64; 2]| {
            Blocks::new(&keys, &rows, (vec![2.0, 5.0], &units), max_rows).len()
        };
        assert_eq!(
            [len(1000, [1, 1]), len(1, [1, 1]), len(1, [1, 2]), len(1, [2, 9])],
            [1, 32, 16, 5]
        );
    }

    #[test]
    fn cuts_levels_whose_stated_rows_do_not_fit() {
        let keys = [0, 1, 2].map(|at| ChunkKey::new(&[at]).unwrap());
        let blocks = Blocks::new(&keys, &[u64::MAX; 3], (vec![1.0], &[1]), 100);
        assert_eq!(blocks.len(), 3);
    }
}
