//! The smallest box around positions.

use std::ops::{Add, Sub};

use crate::Column;

/// The smallest box around all positions so far.
///
/// ```
/// use zvf_metadata::Dtype;
/// use zvf_model::{Column, Extent};
///
/// let bytes = [1.0_f32, 5.0, -2.0, 7.0].map(f32::to_le_bytes).concat();
/// let mut extent = Extent::new(2);
/// assert_eq!(extent.corners(), None);
/// assert_eq!(extent.add(&Column::new(Dtype::FLOAT32, 2, bytes.into())?), None);
/// assert_eq!(extent.corners(), Some([vec![-2.0, 5.0], vec![1.0, 7.0]]));
/// # Ok::<(), zvf_model::BadColumn>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Extent {
    low: Vec<f64>,  // infinite while there is none
    high: Vec<f64>, // likewise
}

impl Extent {
    /// Returns the extent of no positions with this many axes.
    pub fn new(axes: usize) -> Self {
        Self { low: vec![f64::INFINITY; axes], high: vec![f64::NEG_INFINITY; axes] }
    }

    /// Adds positions up to the first coordinate that is not finite, and returns its row and the
    /// coordinate.
    pub fn add(&mut self, positions: &Column) -> Option<(usize, f64)> {
        if let Some(values) = positions.as_slice::<f32>() {
            self.add_blocks(values)
        } else if let Some(values) = positions.as_slice::<f64>() {
            self.add_blocks(values)
        } else {
            self.add_rows(&positions.floats())
        }
    }

    /// Returns its lower and its upper corner; `None` without positions.
    pub fn corners(&self) -> Option<[Vec<f64>; 2]> {
        let some = self.low.iter().chain(&self.high).all(|x| x.is_finite());
        some.then(|| [self.low.clone(), self.high.clone()])
    }

    /// Returns the corners of the smallest box around two boxes.
    pub fn union([mut low, mut high]: [Vec<f64>; 2], [l, h]: [Vec<f64>; 2]) -> [Vec<f64>; 2] {
        low.iter_mut().zip(l).for_each(|(to, x)| *to = to.min(x));
        high.iter_mut().zip(h).for_each(|(to, x)| *to = to.max(x));
        [low, high]
    }

    /// Adds rows, several at a time where whole rows fill the lanes, and one by one in a block that
    /// has a coordinate that is not finite.
    #[expect(
        clippy::eq_op,
        reason = "a number without itself is 0 where it is finite, and NaN elsewhere"
    )]
    fn add_blocks<T>(&mut self, values: &[T]) -> Option<(usize, f64)>
    where
        T: Copy + Default + PartialOrd + Into<f64> + Add<Output = T> + Sub<Output = T>,
    {
        let axes = self.low.len();
        if LANES.checked_rem(axes) != Some(0) {
            return self.add_rows(values);
        }
        for (number, block) in values.chunks(BLOCK_ROWS * axes).enumerate() {
            let mut first = [T::default(); LANES];
            first.iter_mut().zip(block.iter().take(axes).cycle()).for_each(|(to, x)| *to = *x);
            let (full, rest) = block.as_chunks::<LANES>();
            let (mut min, mut max, mut sums) = (first, first, [T::default(); LANES]);
            // The last rows are filled up with the first row.
            let mut tail = first;
            tail.iter_mut().zip(rest).for_each(|(to, x)| *to = *x);
            // One loop each, so that the compiler vectorizes them.
            for rows in full.iter().chain(std::iter::once(&tail)) {
                min.iter_mut().zip(rows).for_each(|(to, x)| *to = if *x < *to { *x } else { *to });
                max.iter_mut().zip(rows).for_each(|(to, x)| *to = if *x > *to { *x } else { *to });
                sums.iter_mut().zip(rows).for_each(|(to, x)| *to = *to + (*x - *x)); // 0 of finite ones
            }
            if sums.iter().any(|sum| *sum != T::default()) {
                return self.add_rows(block).map(|(row, x)| (number * BLOCK_ROWS + row, x));
            }
            self.add_rows(&min);
            self.add_rows(&max);
        }
        None
    }

    /// Adds rows one by one.
    fn add_rows<T: Copy + Into<f64>>(&mut self, values: &[T]) -> Option<(usize, f64)> {
        for (row, position) in values.chunks_exact(self.low.len().max(1)).enumerate() {
            for ((low, high), x) in self.low.iter_mut().zip(&mut self.high).zip(position) {
                let x = (*x).into();
                if !x.is_finite() {
                    return Some((row, x));
                }
                (*low, *high) = (low.min(x), high.max(x));
            }
        }
        None
    }
}

/// Numbers that are compared at once: whole rows of 1, 2, 3, 4 or 6 coordinates.
const LANES: usize = 12;
/// Number of rows that are processed together: small compared with a processor's caches.
const BLOCK_ROWS: usize = 1024;

#[cfg(test)]
mod tests {
    use zvf_metadata::Dtype;

    use super::*;

    /// Returns rows whose first coordinate counts from 0. `outlier` replaces one coordinate.
    fn rows(count: usize, axes: usize, outlier: Option<(usize, usize, f64)>) -> [Column; 2] {
        let position = |row: usize| (0..axes).map(move |axis| [row as f64, -2.0, 0.5][axis % 3]);
        let mut numbers: Vec<f64> = (0..count).flat_map(position).collect();
        if let Some((row, axis, x)) = outlier {
            numbers[row * axes + axis] = x;
        }
        let single: Vec<u8> = numbers.iter().flat_map(|x| (*x as f32).to_le_bytes()).collect();
        let double: Vec<u8> = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
        [
            Column::new(Dtype::FLOAT32, axes as u32, single.into()).unwrap(),
            Column::new(Dtype::FLOAT64, axes as u32, double.into()).unwrap(),
        ]
    }

    #[test]
    fn a_box_holds_all_rows() {
        let found = |column: &Column| {
            let mut extent = Extent::new(column.width() as usize);
            let invalid = extent.add(column);
            (extent.low, extent.high, invalid.map(|(row, x)| (row, x.to_string())))
        };
        for (count, axes) in
            [1, 3, 4, 5, 1023, 1024, 1025, 2050].into_iter().flat_map(|n| [(n, 3), (n, 4), (n, 5)])
        {
            for column in rows(count, axes, None) {
                let last = (count - 1) as f64;
                let low = [0.0, -2.0, 0.5, 0.0, -2.0][..axes].to_vec();
                let high = [last, -2.0, 0.5, last, -2.0][..axes].to_vec();
                assert_eq!(found(&column), (low, high, None), "{count} of {axes}");
            }
            for column in rows(count, axes, Some((count - 1, 1, 7.0))) {
                let (_, high, _) = found(&column);
                assert_eq!(high[1], 7.0, "{count} of {axes}");
            }
            for (x, text) in [(f64::NAN, "NaN"), (f64::NEG_INFINITY, "-inf")] {
                for (row, axis) in [(0, 2), (count / 2, 0), (count - 1, 1)] {
                    for column in rows(count, axes, Some((row, axis, x))) {
                        let expected = Some((row, text.to_owned()));
                        assert_eq!(found(&column).2, expected, "{count} of {axes}");
                    }
                }
            }
        }
        assert_eq!(Extent::new(3).add(&Column::empty(Dtype::FLOAT32, 3).unwrap()), None);
        let bytes = "uint8".parse().unwrap();
        let mut extent = Extent::new(1);
        assert_eq!(extent.add(&Column::new(bytes, 1, vec![9, 4].into()).unwrap()), None);
        assert_eq!(extent.corners(), Some([vec![4.0], vec![9.0]]));
    }
}
