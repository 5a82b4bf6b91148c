//! Thins chains: the ends are kept, and no dropped vertex is farther from the result than a
//! tolerance.
//!
//! An object is simplified as a whole, whatever chunks it crosses, so the result does not depend on
//! the chunk grid. The result consists of original vertices with their values.

use rayon::prelude::*;
use zvf_error::Result;
use zvf_format::num::{saturating_usize, usize_from_u32};
use zvf_model::{Batch, Parts};

use super::largest_error::{ErrorLocation, LargestError};
use super::{Coarsened, Rules, Segment, keep_heads};
use crate::columns::Points;
use crate::rows::{NONE, row_number};

/// How vertices of a chain are dropped.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ChainThinning {
    /// As long as the line stays within this distance.
    Within(f64),
    /// All except every nth and the last.
    Every(u64),
    /// No vertices are dropped.
    Not,
}

/// Returns the thinned chains.
pub(crate) fn simplify_chains(
    batch: &Batch,
    thin: ChainThinning,
    rules: &Rules,
) -> Result<Coarsened> {
    let at = Points::from_column(batch.positions());
    let parts: Vec<_> = batch.parts().iter().collect();
    let thinned: Vec<(Vec<u32>, f64)> = parts
        .par_iter()
        .map(|part| {
            let rows: Vec<u32> = part.rows.clone().map(row_number).collect();
            match thin {
                ChainThinning::Within(tolerance) => douglas_peucker(&at, &rows, tolerance),
                ChainThinning::Every(stride) => keep_every_nth(&at, &rows, stride),
                ChainThinning::Not => (rows, 0.0),
            }
        })
        .collect();
    let (mut vertex_map, mut heads) = (vec![NONE; batch.len()], Vec::new());
    let (mut offsets, mut objects, mut farthest) = (vec![0], Vec::new(), LargestError::default());
    for (part, (stay, error)) in parts.iter().zip(&thinned) {
        let at = Some(ErrorLocation::Object(part.object.0));
        farthest.include(&LargestError { error: *error, at });
        let mut stay = stay.iter().copied().peekable();
        for row in part.rows.clone() {
            if let Some(head) = stay.next_if(|head| usize_from_u32(*head) == row) {
                heads.push(head);
            }
            vertex_map[row] = row_number(heads.len() - 1); // the first of a chain always stays
        }
        offsets.push(heads.len());
        objects.push(part.object);
    }
    // The parts already give the owners.
    let made = keep_heads(&batch.clone().without_objects(), heads, vertex_map, rules)?;
    let batch = made.batch.with_parts(Parts::new(offsets, objects)?)?;
    Ok(Coarsened { batch, farthest, ..made })
}

/// Returns the kept rows of a chain (Douglas-Peucker), so that no dropped one is farther than
/// `tolerance` from the segment that replaces it; and the largest distance.
pub(crate) fn douglas_peucker(at: &Points, rows: &[u32], tolerance: f64) -> (Vec<u32>, f64) {
    let Some(last) = rows.len().checked_sub(1) else { return (Vec::new(), 0.0) };
    let point = |i: usize| at.point(rows[i]);
    let mut stays = vec![false; rows.len()];
    (stays[0], stays[last]) = (true, true);
    let (mut spans, mut worst) = (vec![(0_usize, last)], 0.0_f64);
    while let Some((from, to)) = spans.pop() {
        let (mut far, mut split) = (0.0, from);
        let segment = Segment::new(point(from), point(to));
        for i in from + 1..to {
            let distance_sq = segment.distance_sq(point(i));
            if distance_sq > far {
                (far, split) = (distance_sq, i);
            }
        }
        let far = f64::sqrt(far);
        if far > tolerance {
            stays[split] = true;
            spans.extend([(from, split), (split, to)]);
        } else {
            worst = worst.max(far);
        }
    }
    let rows = rows.iter().zip(stays).filter(|(_, stay)| *stay).map(|(row, _)| *row);
    (rows.collect(), worst)
}

/// Returns each row whose position is a multiple of `stride`, and the last.
fn keep_every_nth(at: &Points, rows: &[u32], stride: u64) -> (Vec<u32>, f64) {
    let last = rows.len().saturating_sub(1);
    let stride = saturating_usize(stride.max(1)); // beyond the chain, only its ends stay
    let stays = |i: &usize| i.is_multiple_of(stride) || *i == last;
    let stay: Vec<usize> = (0..rows.len()).filter(stays).collect();
    let point = |i: usize| at.point(rows[i]);
    let mut worst = 0.0_f64;
    for [from, to] in stay.array_windows() {
        let segment = Segment::new(point(*from), point(*to));
        worst = (*from..*to).map(|i| segment.distance_sq(point(i))).fold(worst, f64::max);
    }
    (stay.into_iter().map(|i| rows[i]).collect(), worst.sqrt())
}

#[cfg(test)]
mod tests {
    use zvf_metadata::Dtype;
    use zvf_model::{Field, Kind, ObjectId};

    use super::*;
    use crate::columns::column;
    use crate::rule::Aggregation;

    fn zigzag() -> Batch {
        let at = [0.0, 0.0, 1.0, 0.1, 2.0, -0.1, 3.0, 5.0, 4.0, 0.0, 9.0, 9.0, 9.0, 8.0];
        let positions = column("float64".parse::<Dtype>().unwrap(), 2, &at).unwrap();
        let parts = Parts::new(vec![0, 5, 7], vec![ObjectId(3), ObjectId(8)]).unwrap();
        let t = column(Dtype::FLOAT32, 1, &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
        let batch = Batch::new(Kind::Polyline, positions).with_parts(parts).unwrap();
        batch.with_field(Field::new("t", t)).unwrap()
    }

    fn simplify(thin: ChainThinning, named: &[(String, Aggregation)]) -> Coarsened {
        let rules = Rules { named: named.to_vec(), weight: "count".to_owned() };
        simplify_chains(&zigzag(), thin, &rules).unwrap()
    }

    fn values(coarsened: &Coarsened) -> Vec<f64> {
        coarsened.batch.field("t").unwrap().column.floats()
    }

    #[test]
    fn removes_vertices_within_the_tolerance() {
        for (thin, expected) in [
            (ChainThinning::Not, &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0][..]),
            (ChainThinning::Within(0.0), &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
            (ChainThinning::Within(0.5), &[0.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
            (ChainThinning::Within(10.0), &[0.0, 4.0, 5.0, 6.0]),
            (ChainThinning::Every(3), &[0.0, 3.0, 4.0, 5.0, 6.0]),
        ] {
            let coarsened = simplify(thin, &[]);
            assert_eq!(values(&coarsened), expected, "{thin:?}");
            assert_eq!(coarsened.batch.parts().objects(), [ObjectId(3), ObjectId(8)]);
        }
        let error = simplify(ChainThinning::Within(10.0), &[]).farthest.error;
        assert!((error - 5.0).abs() < 1e-9, "{error}");
        assert!(simplify(ChainThinning::Every(3), &[]).farthest.error > 1.0);
    }

    #[test]
    fn rules_aggregate_removed_vertices() {
        let sums = [("t".to_owned(), Aggregation::Sum)];
        assert_eq!(values(&simplify(ChainThinning::Within(10.0), &sums)), [6.0, 4.0, 5.0, 6.0]);
    }

    #[test]
    fn distances_are_measured_to_segments() {
        let at = Points { axes: 1, values: vec![0.0, 9.0, 4.0] };
        assert_eq!(douglas_peucker(&at, &[0, 1, 2], 4.9), (vec![0, 1, 2], 0.0));
        assert_eq!(douglas_peucker(&at, &[0, 1, 2], 5.0), (vec![0, 2], 5.0));
        assert_eq!(douglas_peucker(&at, &[1], 5.0), (vec![1], 0.0));
        assert_eq!(douglas_peucker(&at, &[], 5.0), (vec![], 0.0));
    }
}
