//! Clips edges and faces at the boundary of a region, and interpolates values.

use zvf_error::Result;
use zvf_format::num::{saturating_usize, usize_from_u32};
use zvf_metadata::{Dtype, DtypeKind};
use zvf_model::{Column, Value, push_number};

use super::chain::Spot;
use super::loaded_rows::LoadedRows;
use super::pieces::missing_row_error;
use crate::error::BadQuery;
use crate::region::Region;

/// A vertex interpolated from stored ones. The weights add up to 1.
#[derive(Clone)]
pub(crate) struct Blend {
    pub(crate) weights: Vec<(Spot, f64)>, // not empty
}

impl Blend {
    /// Returns the stored vertex if all of the weight is on one.
    pub(crate) fn stored_place(&self) -> Option<Spot> {
        match self.weights.as_slice() {
            [(place, _)] => Some(*place),
            _ => None,
        }
    }

    fn new(shares: impl Iterator<Item = (Spot, f64)>) -> Self {
        Self { weights: shares.filter(|(_, share)| *share != 0.0).collect() }
    }
}

/// Adds the parts of an edge that are in the region, as pairs.
pub(crate) fn clip_edge(
    region: &Region,
    ends: &[Spot],
    points: &[&[f64]],
    out: &mut Vec<Vec<Blend>>,
) {
    let ([a, b], [from, to]) = (ends, points) else { return };
    let mut parts = Vec::new();
    region.clip_segment(from, to, &mut parts);
    for (start, stop) in parts {
        if start < stop {
            let at = |t: f64| Blend::new([(*a, 1.0 - t), (*b, t)].into_iter());
            out.push(vec![at(start), at(stop)]);
        }
    }
}

/// Adds the parts of a face that are in the region, as triangles.
///
/// # Errors
///
/// When the region is a ball.
pub(crate) fn clip_face(
    region: &Region,
    ends: &[Spot],
    points: &[&[f64]],
    out: &mut Vec<Vec<Blend>>,
) -> Result<()> {
    for piece in region.clip_face(points).map_err(BadQuery::Region)? {
        let corner =
            |corner: &crate::region::Corner| Blend::new(ends.iter().copied().zip(corner.shares));
        let corners: Vec<Blend> = piece.iter().map(corner).collect();
        let [first, rest @ ..] = corners.as_slice() else { continue };
        for pair in rest.windows(2) {
            let mut triangle = vec![first.clone()];
            triangle.extend_from_slice(pair);
            out.push(triangle);
        }
    }
    Ok(())
}

/// Returns the values of a column at vertices between stored ones, given the weight of each stored
/// vertex: floats and `positions` are interpolated, others taken from the vertex with the largest
/// weight.
pub(crate) fn interpolate_column<S: IntoIterator<Item = (Spot, f64)>>(
    vertices: impl Iterator<Item = S>,
    loaded: &[LoadedRows],
    (dtype, width): (Dtype, u32),
    positions: bool,
) -> Result<Column> {
    let dtype = Column::empty(dtype, width)?.dtype();
    let (mut bytes, mut rows) = (Vec::new(), Vec::new());
    for shares in vertices {
        rows.clear();
        for (place, share) in shares {
            let row = loaded[usize_from_u32(place.cell)].bytes(place.row, 1);
            rows.push((row.ok_or_else(missing_row_error)?, share));
        }
        if positions || dtype.kind == DtypeKind::Float {
            mix(&rows, &mut bytes, dtype);
        } else {
            let nearest = rows.iter().max_by(|(_, a), (_, b)| a.total_cmp(b));
            nearest.into_iter().for_each(|(row, _)| bytes.extend_from_slice(row));
        }
    }
    Ok(Column::new(dtype, width, bytes.into())?)
}

/// Appends the weighted mean of some rows; exact if they are equal.
fn mix(rows: &[(&[u8], f64)], out: &mut Vec<u8>, dtype: Dtype) {
    let [(first, _), others @ ..] = rows else { return };
    let size = saturating_usize(dtype.size);
    for at in (0..first.len()).step_by(size) {
        let number = |row: &[u8]| Value::decode(dtype, &row[at..at + size]).as_f64();
        let base = number(first).unwrap_or(f64::NAN);
        let others = others.iter().filter(|(row, _)| number(row) != number(first)); // infinite ones
        let gap = |(row, share): &(&[u8], f64)| (number(row).unwrap_or(f64::NAN) - base) * share;
        push_number(out, dtype, base + others.map(gap).sum::<f64>());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_mixed_in_their_type() {
        for (dtype, ends, expected) in [
            ("float16", [0.0, 10.0], 2.5),
            ("float64", [f64::INFINITY; 2], f64::INFINITY),
            ("int32", [0.0, 10.0], 3.0),
        ] {
            let (dtype, mut bytes) = (dtype.parse::<Dtype>().unwrap(), Vec::new());
            [7.0, ends[0], 7.0, ends[1]].iter().for_each(|x| push_number(&mut bytes, dtype, *x));
            let (a, b) = bytes.split_at(bytes.len() / 2);
            let mut mixed = Vec::new();
            mix(&[(a, 0.75), (b, 0.25)], &mut mixed, dtype);
            assert_eq!(Column::new(dtype, 2, mixed.into()).unwrap().floats(), [7.0, expected]);
        }
    }
}
