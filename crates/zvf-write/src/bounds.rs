//! Tests of positions against the declared bounds.

use rayon::prelude::*;
use zvf_format::num::{nearest_f32, usize_from_u32};
use zvf_metadata::{Dtype, DtypeKind};
use zvf_model::{Bounds, Column};

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
        test_rows(&positions.floats(), axes, &low, &high)
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
        (DtypeKind::Float, 4) => f64::from(nearest_f32(x)),
        _ => x,
    }
}

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
    }
}
