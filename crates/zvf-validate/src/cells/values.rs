//! Numbers in cells: the extent of positions, and category codes.
//!
//! A cell is read once, row by row, in its stored type. The extent ignores numbers that are not
//! finite. Row numbers that overflow are beyond every cell, so such a row does not exist.

use half::f16;
use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;
use zvf_format::num::{f64_from_i64, f64_from_u64, saturating_usize, to_u64};
use zvf_metadata::{Dtype, DtypeKind};

/// The largest number of axes of a store.
pub(crate) const MAX_AXES: usize = 8;

/// The smallest box around the rows of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Positions {
    pub(crate) dtype: Dtype,
    pub(crate) axes: usize,
}

impl Positions {
    /// Returns the bytes of a row.
    pub(crate) fn row_bytes(&self) -> u64 {
        self.dtype.size.saturating_mul(to_u64(self.axes))
    }

    /// Returns the smallest box around the rows in `bytes`.
    pub(crate) fn extent(&self, bytes: &[u8]) -> Extent {
        let quick = self.compute_extent(bytes, false);
        if quick.odd { self.compute_extent(bytes, true) } else { quick }
    }

    /// Returns how many rows have a number that is not finite, and where the first such number
    /// starts.
    pub(crate) fn count_non_finite(&self, bytes: &[u8]) -> Option<(u64, u64)> {
        let (row, size) =
            (saturating_usize(self.row_bytes()).max(1), saturating_usize(self.dtype.size).max(1));
        let (mut count, mut first) = (0_u64, None);
        for (at, row) in (0_u64..).step_by(row).zip(bytes.chunks_exact(row)) {
            let numbers = (at..).step_by(size).zip(row.chunks_exact(size));
            if let Some((at, _)) = numbers
                .into_iter()
                .find(|(_, n)| number(n, self.dtype).is_none_or(|n| !n.is_finite()))
            {
                count += 1;
                first = first.or(Some(at));
            }
        }
        first.map(|first| (count, first))
    }

    /// Returns the first position of rows with `extent` that is not between two corners, with its
    /// offset.
    pub(crate) fn find_outside(
        &self,
        extent: &Extent,
        bytes: &[u8],
        low: &[f64],
        high: &[f64],
    ) -> Option<(u64, Vec<f64>)> {
        if extent.is_in(low, high) {
            return None;
        }
        let limits: Vec<_> = tolerated(low, high).collect();
        let (row, size) =
            (saturating_usize(self.row_bytes()).max(1), saturating_usize(self.dtype.size).max(1));
        for (at, row) in (0_u64..).step_by(row).zip(bytes.chunks_exact(row)) {
            let position: Option<Vec<f64>> =
                row.chunks_exact(size).map(|n| number(n, self.dtype)).collect();
            let position = position?;
            // Numbers that are not finite are another finding.
            let mut axes = position.iter().zip(&limits);
            if !axes.all(|(x, limits)| !x.is_finite() || limits.contains(x)) {
                return Some((at, position));
            }
        }
        None
    }

    fn compute_extent(&self, bytes: &[u8], careful: bool) -> Extent {
        let Self { axes, dtype } = *self;
        match (dtype.kind, dtype.size, dtype.big_endian) {
            (DtypeKind::Float, 4, false) => {
                walk::<4>(bytes, axes, careful, |n| f32::from_le_bytes(n).into())
            }
            (DtypeKind::Float, 8, false) => walk::<8>(bytes, axes, careful, f64::from_le_bytes),
            _ => {
                let size = saturating_usize(dtype.size).max(1);
                let read = |n: &[u8]| number(n, dtype).unwrap_or(f64::NAN);
                walk_any(bytes, size, axes, careful, read)
            }
        }
    }
}

fn walk<const N: usize>(
    bytes: &[u8],
    axes: usize,
    careful: bool,
    read: impl Fn([u8; N]) -> f64,
) -> Extent {
    match axes {
        2 => walk_rows::<N, 2>(bytes, careful, read),
        3 => walk_rows::<N, 3>(bytes, careful, read),
        _ => {
            let read = |n: &[u8]| n.first_chunk().map_or(f64::NAN, |n| read(*n)); // of N bytes
            walk_any(bytes, N, axes, careful, read)
        }
    }
}

/// Like [`walk`], for rows whose length the compiler knows.
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

fn walk_any(
    bytes: &[u8],
    size: usize,
    axes: usize,
    careful: bool,
    read: impl Fn(&[u8]) -> f64,
) -> Extent {
    let mut all = Extent::EMPTY;
    for row in bytes.chunks_exact(axes.saturating_mul(size).max(1)) {
        let places = all.low.iter_mut().zip(&mut all.high);
        for (n, (low, high)) in row.chunks_exact(size).zip(places) {
            widen(read(n), low, high, &mut all.odd, careful);
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

/// Reads one number; returns `None` if the type is not numeric or there are too few bytes.
pub(crate) fn number(bytes: &[u8], dtype: Dtype) -> Option<f64> {
    if dtype.kind == DtypeKind::Float {
        return Some(match dtype.size {
            2 => f16::from_bits(u16::try_from(bits(bytes, dtype)?).ok()?).to_f64(),
            4 => f32::from_bits(u32::try_from(bits(bytes, dtype)?).ok()?).into(),
            8 => f64::from_bits(bits(bytes, dtype)?),
            _ => return None,
        });
    }
    match dtype.kind {
        DtypeKind::Int => signed_value(bytes, dtype).map(f64_from_i64),
        DtypeKind::UInt | DtypeKind::Bool => bits(bytes, dtype).map(f64_from_u64),
        DtypeKind::Float | DtypeKind::Text => None,
    }
}

/// Returns the offset and value of the first code that is neither a category nor the code for
/// missing values.
pub(crate) fn bad_code(
    bytes: &[u8],
    dtype: Dtype,
    categories: u64,
    missing: Option<i64>,
) -> Option<(u64, i128)> {
    let size = saturating_usize(dtype.size).max(1);
    let good = |code: i128| {
        (code >= 0 && code < i128::from(categories))
            || missing.is_some_and(|missing| i128::from(missing) == code)
    };
    let codes = bytes.chunks_exact(size).map(|code| match dtype.kind {
        DtypeKind::Int => signed_value(code, dtype).map(i128::from),
        DtypeKind::UInt | DtypeKind::Bool => bits(code, dtype).map(i128::from),
        DtypeKind::Float | DtypeKind::Text => None,
    });
    let mut all = (0_u64..).step_by(size).zip(codes);
    all.find_map(|(at, code)| code.filter(|code| !good(*code)).map(|code| (at, code)))
}

/// Returns the bits of one item, the least significant byte first.
fn bits(bytes: &[u8], dtype: Dtype) -> Option<u64> {
    let mut ordered = [0; 8];
    let item = bytes.get(..saturating_usize(dtype.size))?;
    let places = ordered.get_mut(..item.len())?;
    places.copy_from_slice(item);
    if dtype.big_endian {
        places.reverse();
    }
    Some(u64::from_le_bytes(ordered))
}

fn signed_value(bytes: &[u8], dtype: Dtype) -> Option<i64> {
    let unused = 64_u64.checked_sub(dtype.size.checked_mul(8)?)?;
    let unused = u32::try_from(unused).ok()?;
    let high = bits(bytes, dtype)?.checked_shl(unused)?;
    high.cast_signed().checked_shr(unused)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dtype(text: &str) -> Dtype {
        text.parse::<Dtype>().unwrap()
    }

    #[test]
    fn numbers_of_every_type() {
        for (text, bytes, expected) in [
            ("int8", &b"\xff"[..], -1.0),
            ("uint8", b"\xff", 255.0),
            ("int16", b"\xfe\xff", -2.0),
            (">i2", b"\xff\xfe", -2.0),
            ("int64", b"\xff\xff\xff\xff\xff\xff\xff\xff", -1.0),
            ("float16", b"\x00\xc2", -3.0),
            (">f4", b"\xc0\x40\0\0", -3.0),
            ("float64", b"\0\0\0\0\0\0\x08\xc0", -3.0),
        ] {
            assert_eq!(number(bytes, dtype(text)), Some(expected), "{text}");
        }
        assert_eq!(number(b"\0", dtype("int16")), None);
    }

    #[test]
    fn extents_ignore_non_finite_values() {
        let rows = [[1.0_f32, -2.0], [3.0, 5.0], [f32::NAN, 9.0], [0.5, f32::INFINITY]];
        let bytes: Vec<u8> = rows.iter().flatten().flat_map(|n| n.to_le_bytes()).collect();
        let all = Positions { dtype: dtype("float32"), axes: 2 };
        let quick = all.extent(&bytes[..16]);
        assert_eq!(
            (quick.low[..2].to_vec(), quick.high[..2].to_vec()),
            (vec![1.0, -2.0], vec![3.0, 5.0])
        );
        let extent = all.extent(&bytes);
        assert!(extent.odd && extent.low[0] == 0.5 && extent.high[1] == 9.0);
        assert_eq!(all.count_non_finite(&bytes), Some((2, 16)));
        assert_eq!(all.count_non_finite(&bytes[..16]), None);
        let (at, position) =
            all.find_outside(&quick, &bytes[..16], &[0.0, -2.0], &[4.0, 4.0]).unwrap();
        assert_eq!((at, position), (8, vec![3.0, 5.0]));
        assert!(quick.is_in(&[1.0, -2.0], &[3.0, 4.999_95]));
        assert!(!quick.is_in(&[1.1, -2.0], &[3.0, 5.0]));
    }

    #[test]
    fn every_width_gives_the_same_result() {
        for (text, axes) in
            [("float32", 1), ("float64", 3), ("int16", 3), (">f8", 4), ("float16", 2)]
        {
            let all = Positions { dtype: dtype(text), axes };
            let bytes: Vec<u8> = (0..all.row_bytes() * 5).map(|n| (n % 64) as u8).collect();
            let extent = all.extent(&bytes);
            for row in bytes.chunks_exact(all.row_bytes() as usize) {
                for (axis, n) in row.chunks_exact(all.dtype.size as usize).enumerate() {
                    let n = number(n, all.dtype).unwrap();
                    assert!(n >= extent.low[axis] && n <= extent.high[axis], "{text}");
                }
            }
        }
    }

    #[test]
    fn codes_have_categories() {
        assert_eq!(bad_code(b"\x01\xff\0", dtype("int8"), 2, Some(-1)), None);
        assert_eq!(bad_code(b"\x01\xff\0", dtype("int8"), 2, None), Some((1, -1)));
        assert_eq!(bad_code(b"\x01\0\x02\0", dtype("uint16"), 2, None), Some((2, 2)));
    }
}
