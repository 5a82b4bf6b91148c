//! Points: one for each cell that has any, at their weighted mean; or a random part of them.
//!
//! The random part is nested: what a level has, all finer levels have. Whether a point stays depends on
//! the seed, the level and its running number, and on nothing else.

use zvf_model::Batch;

use super::{Made, Rules, merged, objects_of};
use crate::PyramidError;
use crate::clusters::{Clusters, NONE, Numbers};
use crate::columns::{column, floats, gathered};
use crate::num::{floor, place, to_f64, to_u32};

/// One point for each object and cell.
pub(crate) fn clustered(batch: &Batch, cell: f64, rules: &Rules) -> Result<Made, PyramidError> {
    let axes = place(batch.positions().width());
    let at = floats(batch.positions());
    let objects = batch.vertex_objects();
    let (mut numbers, mut of) = (Numbers::new(), Vec::with_capacity(batch.len()));
    for (row, position) in at.chunks_exact(axes.max(1)).enumerate() {
        let object = objects.and_then(|objects| objects.get(row).copied().flatten());
        of.push(numbers.of((object, cell_of(position, cell))));
    }
    let clusters = Clusters::new(&of, numbers.len());
    let weights = rules.weights(batch);
    let centers = clusters.centers(&at, axes, weights.as_deref());
    let error = clusters.farthest(&at, &centers, axes);
    let positions = column(batch.positions().dtype(), batch.positions().width(), &centers)?;
    Ok(Made { batch: merged(batch, &clusters, positions, rules, true)?, of, error })
}

/// The cell of size `cell` that a position lies in; zeros behind the last axis.
pub(super) fn cell_of(position: &[f64], cell: f64) -> [i64; 8] {
    let mut key = [0; 8];
    key.iter_mut().zip(position).for_each(|(to, x)| *to = floor(x / cell));
    key
}

/// The rows of a batch that stay, of those that are `kept`; the first one has the running number `first`.
/// What does not stay has nothing that stands for it.
pub(crate) fn subset(
    batch: &Batch,
    keep: f64,
    (seed, level, first): (u64, u32, u64),
    kept: &dyn Fn(usize) -> bool,
    rules: &Rules,
) -> Result<Made, PyramidError> {
    let stays = |row: &u32| {
        stays(first.wrapping_add((*row).into()), keep, seed, level) && kept(place(*row))
    };
    let rows: Vec<u32> = (0..to_u32(batch.len())).filter(stays).collect();
    let mut of = vec![NONE; batch.len()];
    for (cluster, row) in (0_u32..).zip(&rows) {
        if let Some(to) = of.get_mut(place(*row)) {
            *to = cluster;
        }
    }
    let clusters = Clusters::new(&of, rows.len());
    let mut made = Batch::new(batch.kind(), gathered(batch.positions(), &rows));
    for field in rules.vertex_fields(batch, &clusters, false)? {
        made = made.with_field(field)?;
    }
    if let Some(objects) = batch.vertex_objects() {
        made = made.with_vertex_objects(objects_of(objects, &rows))?;
    }
    Ok(Made { batch: made, of, error: f64::INFINITY })
}

/// Whether the point with this running number stays at a level that keeps this share.
pub(crate) fn stays(number: u64, keep: f64, seed: u64, level: u32) -> bool {
    share(seed ^ u64::from(level).rotate_right(16) ^ scattered(number)) < keep
}

/// A number from 0 to 1, 1 left out, that looks random.
fn share(bits: u64) -> f64 {
    to_f64(scattered(bits) >> 11) / to_f64(1 << 53)
}

/// Bits mixed, so that neighbours have nothing to do with each other.
const fn scattered(bits: u64) -> u64 {
    let bits = bits.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use zvf_format::metadata::Dtype;
    use zvf_model::{Field, Kind, ObjectId};

    use super::*;

    fn rules() -> Rules {
        Rules { named: Vec::new(), weight: "count".to_owned() }
    }

    fn points(values: &[f64]) -> Batch {
        Batch::new(Kind::PointCloud, column(Dtype::FLOAT32, 2, values).unwrap())
    }

    #[test]
    fn means_are_weighted_by_what_points_stand_for() {
        let batch = points(&[0.0, 0.0, 1.0, 1.0, -0.5, 3.0]);
        let one = clustered(&batch, 2.0, &rules()).unwrap();
        assert_eq!(floats(one.batch.positions()), [0.5, 0.5, -0.5, 3.0]);
        assert_eq!(floats(&one.batch.field("count").unwrap().column), [2.0, 1.0]);
        assert!((one.error - 0.5_f64.sqrt()).abs() < 1e-12);
        let two = clustered(&one.batch, 100.0, &rules()).unwrap();
        assert_eq!(floats(two.batch.positions()), [0.5, 0.5, -0.5, 3.0]);
        let batch = points(&[0.0, 0.0, 6.0, 3.0]);
        let weights = column(Dtype::parse("uint64").unwrap(), 1, &[2.0, 1.0]).unwrap();
        let batch = batch.with_field(Field::new("count", weights)).unwrap();
        let three = clustered(&batch, 100.0, &rules()).unwrap();
        assert_eq!(floats(three.batch.positions()), [2.0, 1.0]);
        assert_eq!(floats(&three.batch.field("count").unwrap().column), [3.0]);
    }

    #[test]
    fn objects_are_not_mixed() {
        let owners = [Some(ObjectId(4)), None, Some(ObjectId(4))];
        let batch = points(&[0.0; 6]).with_vertex_objects(owners.to_vec()).unwrap();
        let made = clustered(&batch, 1.0, &rules()).unwrap().batch;
        assert_eq!(made.vertex_objects().unwrap(), [Some(ObjectId(4)), None]);
    }

    #[test]
    fn a_part_does_not_depend_on_how_points_are_batched() {
        let all: Vec<f64> = (0..2000).map(f64::from).collect();
        let keep = |batch: &Batch, first| {
            floats(
                subset(batch, 0.25, (7, 1, first), &|_| true, &rules()).unwrap().batch.positions(),
            )
        };
        let whole = keep(&points(&all), 0);
        let halves = [keep(&points(&all[..900]), 0), keep(&points(&all[900..]), 450)].concat();
        assert_eq!(whole, halves);
        assert!((400..600).contains(&whole.len()), "{}", whole.len());
        assert!(whole.is_sorted());
    }
}
