//! Coarsens points: one for each non-empty cell, at the weighted mean; or a random subset.
//!
//! Random subsets are nested: every point of a level is in all finer levels. Whether a point is
//! kept depends only on the seed, the level and its running number.

use std::hash::Hash;
use std::ops::Range;

use rayon::prelude::*;
use zvf_error::Result;
use zvf_format::num::{
    f64_from_u64, floor_i64, mix_bits, saturating_usize, to_u64, usize_from_u32,
};
use zvf_model::{Batch, ObjectId};

use super::largest_error::LargestError;
use super::lattice::{Lattice, Unit};
use super::{Coarsened, Rules, keep_heads, merge_to_means};
use crate::clusters::Numbers;
use crate::columns::Points;
use crate::rows::{NONE, positions_in, row_number};

/// Returns one point for each object and cell. All points of a cell must be in one batch.
pub(crate) fn cluster_points(batch: &Batch, lattice: &Lattice, rules: &Rules) -> Result<Coarsened> {
    let at = Points::from_column(batch.positions());
    let numbers = number_clusters(&at, lattice, batch.vertex_objects());
    merge_to_means(batch, &at, numbers, rules)
}

/// Returns the cluster of each row, and the number of clusters.
fn number_clusters(
    at: &Points,
    lattice: &Lattice,
    objects: Option<&[Option<ObjectId>]>,
) -> (Vec<u32>, usize) {
    let axes = at.axes.max(1);
    // Points of a chunk are consecutive, so there are few runs, and units can be numbered
    // separately.
    let runs: Vec<(Unit, Range<usize>)> = at
        .values
        .par_chunks(BLOCK_ROWS * axes)
        .enumerate()
        .flat_map_iter(|(number, at)| runs(number, at, axes, lattice))
        .collect();
    let mut numbers = Numbers::new();
    let mut units: Vec<(Unit, Vec<Range<usize>>)> = Vec::new();
    for (unit, rows) in runs {
        match units.get_mut(usize_from_u32(numbers.intern(unit))) {
            Some((_, unit_rows)) => unit_rows.push(rows),
            None => units.push((unit, vec![rows])),
        }
    }
    let number_unit = |(unit, runs): &(Unit, Vec<Range<usize>>)| {
        let rows = runs.iter().cloned().flatten();
        let cells = rows.clone().map(|row| lattice.cell(unit, at.point(row_number(row))));
        match objects {
            Some(objects) => number_by_first_use(rows.map(|row| objects[row]).zip(cells)),
            None if lattice.cells()
                <= to_u64(runs.iter().map(Range::len).sum::<usize>())
                    * MAX_TABLE_CELLS_PER_POINT =>
            {
                // The number of cells is small enough for a table.
                number_by_table(cells, saturating_usize(lattice.cells()))
            }
            None => number_by_first_use(cells),
        }
    };
    let unit_numbers: Vec<(Vec<u32>, u32)> = units.par_iter().map(number_unit).collect();
    let (mut cluster_of_row, mut first) = (vec![NONE; at.values.len() / axes], 0_u32);
    for ((_, runs), (numbers, count)) in units.into_iter().zip(unit_numbers) {
        let mut numbers = numbers.into_iter();
        for rows in runs {
            let to = &mut cluster_of_row[rows];
            to.iter_mut().zip(&mut numbers).for_each(|(to, n)| *to = first + n);
        }
        first += count;
    }
    (cluster_of_row, usize_from_u32(first))
}

/// Returns runs of consecutive rows in the same unit, of a block of rows.
fn runs(number: usize, at: &[f64], axes: usize, lattice: &Lattice) -> Vec<(Unit, Range<usize>)> {
    let mut found: Vec<(Unit, Range<usize>)> = Vec::new();
    for (row, position) in (number * BLOCK_ROWS..).zip(at.chunks_exact(axes)) {
        let (unit, end) = (lattice.unit(position), row + 1);
        match found.last_mut() {
            Some((last, rows)) if *last == unit => rows.end = end,
            _ => found.push((unit, row..end)),
        }
    }
    found
}

/// Numbers keys in the order of first appearance; also returns how many there are.
fn number_by_first_use<K: Hash + Eq>(keys: impl Iterator<Item = K>) -> (Vec<u32>, u32) {
    let mut numbers = Numbers::new();
    let key_numbers = keys.map(|key| numbers.intern(key)).collect();
    (key_numbers, row_number(numbers.len()))
}

/// Does the same for numbers below `count`, with a table instead of a search.
fn number_by_table(keys: impl Iterator<Item = u64>, count: usize) -> (Vec<u32>, u32) {
    let (mut table, mut next) = (vec![NONE; count], 0_u32);
    let mut number = |key: u64| {
        let entry = &mut table[saturating_usize(key)];
        if *entry == NONE {
            *entry = next;
            next += 1;
        }
        *entry
    };
    let key_numbers = keys.map(&mut number).collect();
    (key_numbers, next)
}

/// Returns the cell of size `cell` that contains a position, padded with zeros; `None` if a
/// coordinate of the cell overflows 64 bits.
pub(super) fn cell_of(position: &[f64], cell: f64) -> Option<[i64; 8]> {
    let mut key = [0; 8];
    for (to, x) in key.iter_mut().zip(position) {
        *to = floor_i64(x / cell)?;
    }
    Some(key)
}

/// Returns the kept rows of a batch, which `is_kept` selects by running number, starting at
/// `first`. Dropped rows have no parent.
pub(crate) fn select_subset(
    batch: &Batch,
    keep: f64,
    (seed, level, first): (u64, u32, u64),
    is_kept: &dyn Fn(usize) -> bool,
    rules: &Rules,
) -> Result<Coarsened> {
    let stays = |row: &u32| {
        is_in_subset(first.wrapping_add((*row).into()), keep, seed, level)
            && is_kept(usize_from_u32(*row))
    };
    let rows: Vec<u32> = (0..row_number(batch.len())).filter(stays).collect();
    let vertex_map = positions_in(&rows, batch.len());
    let farthest = LargestError { error: f64::INFINITY, at: None };
    Ok(Coarsened { farthest, ..keep_heads(batch, rows, vertex_map, rules)? })
}

/// Returns whether the point with this running number is kept at a level with this share.
pub(crate) fn is_in_subset(number: u64, keep: f64, seed: u64, level: u32) -> bool {
    unit_fraction(seed ^ u64::from(level).rotate_right(16) ^ mix_bits(number)) < keep
}

/// Returns a pseudo-random number in the range from 0 to 1, without 1.
fn unit_fraction(bits: u64) -> f64 {
    f64_from_u64(mix_bits(bits) >> 11) / f64_from_u64(1 << 53)
}

/// Rows that are processed together.
const BLOCK_ROWS: usize = 1 << 15;
/// A table is used up to this number of cells of a unit per point.
const MAX_TABLE_CELLS_PER_POINT: u64 = 4;

#[cfg(test)]
mod tests {
    use zvf_metadata::Dtype;
    use zvf_model::{Field, Kind};

    use super::*;
    use crate::columns::column;

    fn rules() -> Rules {
        Rules { named: Vec::new(), weight: "count".to_owned() }
    }

    fn cells(size: f64) -> Lattice {
        Lattice::new(&[100.0, 100.0], size).unwrap()
    }

    fn points(values: &[f64]) -> Batch {
        Batch::new(Kind::PointCloud, column(Dtype::FLOAT32, 2, values).unwrap())
    }

    #[test]
    fn means_are_weighted_by_counts() {
        let batch = points(&[0.0, 0.0, 1.0, 1.0, -0.5, 3.0]);
        let clustered = cluster_points(&batch, &cells(2.0), &rules()).unwrap();
        assert_eq!(clustered.batch.positions().floats(), [0.5, 0.5, -0.5, 3.0]);
        assert_eq!(clustered.batch.field("count").unwrap().column.floats(), [2.0, 1.0]);
        assert!((clustered.farthest.error - 0.5_f64.sqrt()).abs() < 1e-12);
        let clustered_again = cluster_points(&clustered.batch, &cells(100.0), &rules()).unwrap();
        assert_eq!(clustered_again.batch.positions().floats(), [0.5, 0.5, -0.5, 3.0]);
        let batch = points(&[0.0, 0.0, 6.0, 3.0]);
        let weights = column("uint64".parse::<Dtype>().unwrap(), 1, &[2.0, 1.0]).unwrap();
        let batch = batch.with_field(Field::new("count", weights)).unwrap();
        let weighted = cluster_points(&batch, &cells(100.0), &rules()).unwrap();
        assert_eq!(weighted.batch.positions().floats(), [2.0, 1.0]);
        assert_eq!(weighted.batch.field("count").unwrap().column.floats(), [3.0]);
    }

    #[test]
    fn points_of_different_objects_are_not_merged() {
        let owners = [Some(ObjectId(4)), None, Some(ObjectId(4))];
        let batch = points(&[0.0; 6]).with_vertex_objects(owners.to_vec()).unwrap();
        let clustered = cluster_points(&batch, &cells(1.0), &rules()).unwrap().batch;
        assert_eq!(clustered.vertex_objects().unwrap(), [Some(ObjectId(4)), None]);
    }

    #[test]
    fn subsets_do_not_depend_on_batches() {
        let at: Vec<f64> = (0..2000).map(f64::from).collect();
        let keep = |batch: &Batch, offset| {
            let made = select_subset(batch, 0.25, (7, 1, offset), &|_| true, &rules()).unwrap();
            made.batch.positions().floats()
        };
        let expected = keep(&points(&at), 0);
        let halves = [keep(&points(&at[..900]), 0), keep(&points(&at[900..]), 450)].concat();
        assert_eq!(expected, halves);
        assert!((400..600).contains(&expected.len()), "{}", expected.len());
        assert!(expected.is_sorted());
    }
}
