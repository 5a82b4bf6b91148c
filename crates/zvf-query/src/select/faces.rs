//! Edges and faces cut at the boundary of a region, and the values at the cuts.

use zvf_error::{Error, Result};
use zvf_format::num::usize_from_u32;
use zvf_metadata::{Dtype, DtypeKind};
use zvf_model::Column;

use super::chain::Place;
use super::loaded_rows::LoadedRows;
use crate::error::BadQuery;
use crate::region::Region;

/// A vertex interpolated from stored ones. The weights add up to 1.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Blend {
    pub(crate) weights: Vec<(Place, f64)>, // not empty
}

impl Blend {
    /// Returns the stored vertex if all of the weight is on one.
    pub(crate) fn stored_place(&self) -> Option<Place> {
        match self.weights.as_slice() {
            [(place, _)] => Some(*place),
            _ => None,
        }
    }

    fn new(shares: impl Iterator<Item = (Place, f64)>) -> Self {
        Self { weights: shares.filter(|(_, share)| *share != 0.0).collect() }
    }
}

/// Adds the parts of an edge that are in the region, as pairs.
pub(crate) fn clip_edge(
    region: &Region,
    ends: &[Place],
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
    ends: &[Place],
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

/// Returns the values of a column at some cuts: floats interpolated, others from the vertex with the largest share.
pub(crate) fn blend_column(
    cuts: &[Blend],
    loaded: &[LoadedRows],
    dtype: Dtype,
    width: u32,
) -> Result<Column> {
    let empty = Column::empty(dtype, width)?;
    let mut bytes = Vec::with_capacity(cuts.len() * empty.stride());
    for cut in cuts {
        let mut rows = Vec::with_capacity(cut.weights.len());
        for (place, share) in &cut.weights {
            let row = loaded
                .get(usize_from_u32(place.cell))
                .and_then(|loaded| loaded.slice(place.row, 1));
            rows.push((row.ok_or_else(super::pieces::missing_row_error)?, *share));
        }
        blend(&mut bytes, empty.dtype(), width, &rows);
    }
    Column::new(empty.dtype(), width, bytes.into()).map_err(Error::from)
}

fn blend(out: &mut Vec<u8>, dtype: Dtype, width: u32, rows: &[(Column, f64)]) {
    let sum = |c: usize| -> f64 {
        rows.iter().map(|(row, share)| row.float(0, c).unwrap_or(f64::NAN) * share).sum()
    };
    match (dtype.kind, dtype.size) {
        (DtypeKind::Float, 4) => (0..usize_from_u32(width)).for_each(|c| {
            out.extend_from_slice(&zvf_format::num::nearest_f32(sum(c)).to_le_bytes())
        }),
        (DtypeKind::Float, 8) => {
            (0..usize_from_u32(width)).for_each(|c| out.extend_from_slice(&sum(c).to_le_bytes()));
        }
        _ => {
            let nearest = rows.iter().max_by(|(_, a), (_, b)| a.total_cmp(b));
            if let Some((row, _)) = nearest {
                out.extend_from_slice(row.row(0));
            }
        }
    }
}
