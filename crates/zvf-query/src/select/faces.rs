//! Clips edges and faces at the boundary of a region, and interpolates values.

use zvf_error::Result;
use zvf_format::num::{nearest_f32, usize_from_u32};
use zvf_metadata::{Dtype, DtypeKind};
use zvf_model::Column;

use super::chain::Spot;
use super::loaded_rows::LoadedRows;
use super::pieces::missing_row_error;
use crate::error::BadQuery;
use crate::region::Region;

/// A vertex interpolated from stored ones. The weights add up to 1.
#[derive(Clone, Debug, PartialEq)]
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
/// vertex: floats are interpolated, others taken from the vertex with the largest weight.
pub(crate) fn interpolate_column<S: IntoIterator<Item = (Spot, f64)>>(
    vertices: impl Iterator<Item = S>,
    loaded: &[LoadedRows],
    dtype: Dtype,
    width: u32,
) -> Result<Column> {
    let empty = Column::empty(dtype, width)?;
    let (mut bytes, mut rows) = (Vec::new(), Vec::new());
    for shares in vertices {
        rows.clear();
        for (place, share) in shares {
            let row = loaded[usize_from_u32(place.cell)].bytes(place.row, 1);
            rows.push((row.ok_or_else(missing_row_error)?, share));
        }
        match (dtype.kind, dtype.size) {
            (DtypeKind::Float, 4) if rows.len() > 1 => mix(
                &rows,
                &mut bytes,
                |number, bytes| {
                    bytes.extend(nearest_f32(number).to_le_bytes());
                },
                |bytes| f32::from_le_bytes(*bytes).into(),
            ),
            (DtypeKind::Float, 8) if rows.len() > 1 => mix(
                &rows,
                &mut bytes,
                |number, bytes| {
                    bytes.extend(number.to_le_bytes());
                },
                |bytes| f64::from_le_bytes(*bytes),
            ),
            _ => {
                let nearest = rows.iter().max_by(|(_, a), (_, b)| a.total_cmp(b));
                nearest.into_iter().for_each(|(row, _)| bytes.extend_from_slice(row));
            }
        }
    }
    Ok(Column::new(empty.dtype(), width, bytes.into())?)
}

/// Appends the weighted mean of some rows; exact if they are equal.
fn mix<const N: usize>(
    rows: &[(&[u8], f64)],
    out: &mut Vec<u8>,
    push: impl Fn(f64, &mut Vec<u8>),
    number: impl Fn(&[u8; N]) -> f64,
) {
    let [(first, _), others @ ..] = rows else { return };
    for (at, base) in first.as_chunks::<N>().0.iter().enumerate() {
        let base = number(base);
        let more =
            others.iter().map(|(row, share)| (number(&row.as_chunks().0[at]) - base) * share);
        push(base + more.sum::<f64>(), out);
    }
}
