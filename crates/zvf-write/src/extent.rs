//! The bounding box of positions, and tests against a box.

use rayon::prelude::*;
use zvf_format::num::usize_from_u32;
use zvf_metadata::{Dtype, DtypeKind};
use zvf_model::{Bounds, Column};

use crate::route::floats;

/// The bounding box of all positions so far.
#[derive(Clone, Debug)]
pub(crate) struct Extent {
    low: Vec<f64>,  // infinite while there is none
    high: Vec<f64>, // likewise
}

impl Extent {
    /// Returns an empty extent.
    pub(crate) fn new(axes: usize) -> Self {
        Self { low: vec![f64::INFINITY; axes], high: vec![f64::NEG_INFINITY; axes] }
    }

    /// Adds positions.
    pub(crate) fn add(&mut self, positions: &Column) {
        let axes = self.low.len().max(1);
        let found = if let Some(values) = positions.as_slice::<f32>() {
            corners(values, axes)
        } else if let Some(values) = positions.as_slice::<f64>() {
            corners(values, axes)
        } else {
            corners(&floats(positions), axes)
        };
        let [low, high] = found;
        self.low.iter_mut().zip(low).for_each(|(to, x)| *to = to.min(x));
        self.high.iter_mut().zip(high).for_each(|(to, x)| *to = to.max(x));
    }

    /// Returns its corners, if there were positions.
    pub(crate) fn corners(&self) -> Option<[Vec<f64>; 2]> {
        let some = self.low.iter().chain(&self.high).all(|x| x.is_finite());
        some.then(|| [self.low.clone(), self.high.clone()])
    }
}

/// Returns the corners of the union of two boxes.
pub(crate) fn union([mut low, mut high]: [Vec<f64>; 2], [l, h]: [Vec<f64>; 2]) -> [Vec<f64>; 2] {
    low.iter_mut().zip(l).for_each(|(to, x)| *to = to.min(x));
    high.iter_mut().zip(h).for_each(|(to, x)| *to = to.max(x));
    [low, high]
}

fn corners<T: Copy + Into<f64> + Sync>(values: &[T], axes: usize) -> [Vec<f64>; 2] {
    let none = || [vec![f64::INFINITY; axes], vec![f64::NEG_INFINITY; axes]];
    let blocks = values.par_chunks(axes * BLOCK).map(|block| {
        let [mut low, mut high] = none();
        for row in block.chunks_exact(axes) {
            for ((low, high), x) in low.iter_mut().zip(&mut high).zip(row) {
                let x = (*x).into();
                *low = if x < *low { x } else { *low };
                *high = if x > *high { x } else { *high };
            }
        }
        [low, high]
    });
    blocks.reduce(none, union)
}

/// Returns for each position whether it is inside `bounds`, rounded to its type; NaN is outside.
pub(crate) fn test_inside(positions: &Column, bounds: &Bounds) -> Vec<bool> {
    let dtype = positions.dtype();
    let cast = |x: &f64| round_to_type(*x, dtype);
    let low: Vec<f64> = bounds.low().iter().map(cast).collect();
    let high: Vec<f64> = bounds.high().iter().map(cast).collect();
    let axes = usize_from_u32(positions.width()).max(1);
    if let Some(values) = positions.as_slice::<f32>() {
        test_rows(values, axes, &low, &high)
    } else if let Some(values) = positions.as_slice::<f64>() {
        test_rows(values, axes, &low, &high)
    } else {
        test_rows(&floats(positions), axes, &low, &high)
    }
}

fn test_rows<T: Copy + Into<f64> + Sync>(
    values: &[T],
    axes: usize,
    low: &[f64],
    high: &[f64],
) -> Vec<bool> {
    let within = |row: &[T]| {
        let mut axes = row.iter().zip(low.iter().zip(high));
        axes.all(|(x, (low, high))| {
            let x: f64 = (*x).into();
            *low <= x && x <= *high
        })
    };
    values.par_chunks_exact(axes).map(within).collect()
}

/// Rounds a number to a type.
fn round_to_type(x: f64, dtype: Dtype) -> f64 {
    match (dtype.kind, dtype.size) {
        (DtypeKind::Float, 2) => half::f16::from_f64(x).to_f64(),
        (DtypeKind::Float, 4) => f64::from(to_f32(x)),
        _ => x,
    }
}

#[expect(clippy::as_conversions, reason = "rounding is what is asked for")]
const fn to_f32(x: f64) -> f32 {
    x as f32
}

const BLOCK: usize = 1 << 14;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_compared_in_the_type_of_positions() {
        let column = |values: &[f32]| {
            let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
            Column::new(Dtype::FLOAT32, 1, bytes.into()).unwrap()
        };
        let bounds = Bounds::new(&[-0.1], &[0.1]).unwrap();
        let found = test_inside(&column(&[0.1, -0.1, 0.100_001, f32::NAN]), &bounds);
        assert_eq!(found, [true, true, false, false]);
        let mut extent = Extent::new(1);
        assert_eq!(extent.corners(), None);
        extent.add(&column(&[2.0, f32::NAN, -3.0]));
        extent.add(&column(&[]));
        assert_eq!(extent.corners(), Some([vec![-3.0], vec![2.0]]));
    }
}
