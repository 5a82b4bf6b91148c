//! Numbers in cells: the extent of positions, and category codes.
//!
//! A cell is read once, row by row, in its stored type. The extent ignores numbers that are not
//! finite.

use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;
use zvf_format::num::{to_u64, usize_from_u32};
use zvf_metadata::{Dtype, DtypeKind};
use zvf_model::Column;

/// The largest number of axes of a store.
const MAX_AXES: usize = 8;

/// The smallest box around the rows of a cell.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Extent {
    #[serde(with = "as_bits")]
    pub(crate) low: [f64; MAX_AXES],
    #[serde(with = "as_bits")]
    pub(crate) high: [f64; MAX_AXES],
    /// Whether a number is not finite.
    pub(crate) odd: bool,
}

/// Numbers as bits, because JSON cannot represent those that are not finite.
mod as_bits {
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    use super::MAX_AXES;

    pub(super) fn serialize<S: Serializer>(x: &[f64; MAX_AXES], s: S) -> Result<S::Ok, S::Error> {
        x.map(f64::to_bits).serialize(s)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        d: D,
    ) -> Result<[f64; MAX_AXES], D::Error> {
        Ok(<[u64; MAX_AXES]>::deserialize(d)?.map(f64::from_bits))
    }
}

impl Extent {
    const EMPTY: Self =
        Self { low: [f64::INFINITY; MAX_AXES], high: [f64::NEG_INFINITY; MAX_AXES], odd: false };

    /// Returns the smallest box around rows of positions.
    pub(crate) fn of(rows: &Column) -> Self {
        let quick = compute_extent(rows, false);
        if quick.odd { compute_extent(rows, true) } else { quick }
    }

    /// Returns the smallest box around both.
    pub(crate) fn union(mut self, other: &Self) -> Self {
        for (low, other) in self.low.iter_mut().zip(&other.low) {
            *low = low.min(*other);
        }
        for (high, other) in self.high.iter_mut().zip(&other.high) {
            *high = high.max(*other);
        }
        self.odd |= other.odd;
        self
    }

    /// Returns whether the extent lies in the box from `low` to `high`, within a tolerance on each axis.
    pub(crate) fn is_in(&self, low: &[f64], high: &[f64]) -> bool {
        let mut found = tolerated(low, high).zip(self.low.iter().zip(&self.high));
        found.all(|(limits, (low, high))| low >= limits.start() && high <= limits.end())
    }
}

impl Default for Extent {
    fn default() -> Self {
        Self::EMPTY
    }
}

/// Returns what is accepted on each axis of a box: writers round differently and store fewer digits.
fn tolerated(low: &[f64], high: &[f64]) -> impl Iterator<Item = RangeInclusive<f64>> {
    low.iter().zip(high).map(|(low, high)| {
        let tolerance = RELATIVE_TOLERANCE + low.abs().max(high.abs()) * FLOAT32_TOLERANCE;
        low - tolerance..=high + tolerance
    })
}

/// Tolerance of coordinates near 0.
const RELATIVE_TOLERANCE: f64 = 1e-4;
/// Two units in the last place of 32-bit floats.
const FLOAT32_TOLERANCE: f64 = 2.4e-7;

/// The storage of positions.
#[derive(Clone, Copy)]
pub(crate) struct Positions {
    pub(crate) dtype: Dtype,
    pub(crate) axes: u32,
}

/// Returns how many rows have a number that is not finite, and where the first such number starts.
pub(crate) fn count_non_finite(rows: &Column) -> Option<(u64, u64)> {
    let axes = usize_from_u32(rows.width());
    let odd = (0..rows.len()).filter_map(|row| {
        let is_odd = |axis: &usize| !rows.float(row, *axis).is_some_and(f64::is_finite);
        let axis = (0..axes).find(is_odd)?;
        Some(row * rows.stride() + axis * (rows.stride() / axes))
    });
    let first = odd.clone().next()?;
    Some((to_u64(odd.count()), to_u64(first)))
}

/// Returns the first position of rows with `extent` that is not between two corners, with its
/// offset.
pub(crate) fn find_outside(
    rows: &Column,
    extent: &Extent,
    low: &[f64],
    high: &[f64],
) -> Option<(u64, Vec<f64>)> {
    if extent.is_in(low, high) {
        return None;
    }
    let limits: Vec<_> = tolerated(low, high).collect();
    for row in 0..rows.len() {
        let axes = 0..usize_from_u32(rows.width());
        let position: Vec<f64> = axes.map(|axis| rows.float(row, axis)).collect::<Option<_>>()?;
        // Numbers that are not finite are another finding.
        let mut axes = position.iter().zip(&limits);
        if !axes.all(|(x, limits)| !x.is_finite() || limits.contains(x)) {
            return Some((to_u64(row * rows.stride()), position));
        }
    }
    None
}

fn compute_extent(rows: &Column, careful: bool) -> Extent {
    match (rows.dtype().kind, rows.dtype().size) {
        (DtypeKind::Float, 4) => walk::<4>(rows, careful, |n| f32::from_le_bytes(n).into()),
        (DtypeKind::Float, 8) => walk::<8>(rows, careful, f64::from_le_bytes),
        _ => walk_any(rows, careful),
    }
}

fn walk<const N: usize>(rows: &Column, careful: bool, read: impl Fn([u8; N]) -> f64) -> Extent {
    match rows.width() {
        2 => walk_rows::<N, 2>(rows.bytes(), careful, read),
        3 => walk_rows::<N, 3>(rows.bytes(), careful, read),
        4 => walk_rows::<N, 4>(rows.bytes(), careful, read),
        _ => walk_any(rows, careful),
    }
}

/// Like [`walk_any`], for rows whose length the compiler knows.
fn walk_rows<const N: usize, const D: usize>(
    bytes: &[u8],
    careful: bool,
    read: impl Fn([u8; N]) -> f64,
) -> Extent {
    let (mut low, mut high) = ([f64::INFINITY; D], [f64::NEG_INFINITY; D]);
    let mut odd = false;
    for row in bytes.as_chunks::<N>().0.as_chunks::<D>().0 {
        for (n, (low, high)) in row.iter().zip(low.iter_mut().zip(&mut high)) {
            widen(read(*n), low, high, &mut odd, careful);
        }
    }
    let mut all = Extent { odd, ..Extent::EMPTY };
    for (to, from) in all.low.iter_mut().zip(low) {
        *to = from;
    }
    for (to, from) in all.high.iter_mut().zip(high) {
        *to = from;
    }
    all
}

fn walk_any(rows: &Column, careful: bool) -> Extent {
    let mut all = Extent::EMPTY;
    for row in 0..rows.len() {
        let places = all.low.iter_mut().zip(&mut all.high).enumerate();
        for (axis, (low, high)) in places.take(usize_from_u32(rows.width())) {
            widen(rows.float(row, axis).unwrap_or(f64::NAN), low, high, &mut all.odd, careful);
        }
    }
    all
}

#[inline]
fn widen(n: f64, low: &mut f64, high: &mut f64, odd: &mut bool, careful: bool) {
    *odd |= !n.is_finite();
    if careful && !n.is_finite() {
        return;
    }
    // A comparison with NaN is false.
    if n < *low {
        *low = n;
    }
    if n > *high {
        *high = n;
    }
}

/// Returns the offset and value of the first code that is neither a category nor the code for
/// missing values.
pub(crate) fn bad_code(
    codes: &Column,
    categories: u64,
    missing: Option<i64>,
) -> Option<(u64, i128)> {
    let is_good = |code: i128| {
        (code >= 0 && code < i128::from(categories)) || missing.map(i128::from) == Some(code)
    };
    let bad = |row: usize| Some((row, codes.value(row, 0).as_i128().filter(|n| !is_good(*n))?));
    let (row, code) = (0..codes.len()).find_map(bad)?;
    Some((to_u64(row * codes.stride()), code))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(dtype: &str, width: u32, bytes: &[u8]) -> Column {
        Column::new(dtype.parse().unwrap(), width, bytes.to_vec().into()).unwrap()
    }

    #[test]
    fn extents_ignore_non_finite_values() {
        let rows = [[1.0_f32, -2.0], [3.0, 5.0], [f32::NAN, 9.0], [0.5, f32::INFINITY]];
        let bytes: Vec<u8> = rows.iter().flatten().flat_map(|n| n.to_le_bytes()).collect();
        let all = column("float32", 2, &bytes);
        let first = all.slice(0..2);
        let quick = Extent::of(&first);
        assert_eq!(
            (quick.low[..2].to_vec(), quick.high[..2].to_vec()),
            (vec![1.0, -2.0], vec![3.0, 5.0])
        );
        let extent = Extent::of(&all);
        assert!(extent.odd && extent.low[0] == 0.5 && extent.high[1] == 9.0);
        assert_eq!(count_non_finite(&all), Some((2, 16)));
        assert_eq!(count_non_finite(&first), None);
        let outside = find_outside(&first, &quick, &[0.0, -2.0], &[4.0, 4.0]);
        assert_eq!(outside, Some((8, vec![3.0, 5.0])));
        assert!(quick.is_in(&[1.0, -2.0], &[3.0, 4.999_95]));
        assert!(!quick.is_in(&[1.1, -2.0], &[3.0, 5.0]));
    }

    #[test]
    fn every_width_gives_the_same_result() {
        for (text, axes) in
            [("float32", 1), ("float64", 3), ("int16", 3), (">f8", 4), ("float16", 2)]
        {
            let size = text.parse::<Dtype>().unwrap().size as u32;
            let bytes: Vec<u8> = (0..size * axes * 5).map(|n| (n % 64) as u8).collect();
            let rows = column(text, axes, &bytes);
            let extent = Extent::of(&rows);
            for (row, axis) in (0..rows.len()).flat_map(|row| (0..axes).map(move |at| (row, at))) {
                let n = rows.float(row, axis as usize).unwrap();
                assert!((extent.low[axis as usize]..=extent.high[axis as usize]).contains(&n));
            }
        }
    }

    #[test]
    fn codes_have_categories() {
        let codes = column("int8", 1, b"\x01\xff\0");
        assert_eq!(bad_code(&codes, 2, Some(-1)), None);
        assert_eq!(bad_code(&codes, 2, None), Some((1, -1)));
        assert_eq!(bad_code(&column("uint16", 1, b"\x01\0\x02\0"), 2, None), Some((2, 2)));
    }
}
