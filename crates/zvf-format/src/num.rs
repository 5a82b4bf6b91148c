//! The only place with `as`: conversions between integer widths, and from float to integer.
//!
//! Each cast is justified where it stands and tested at its edges; everything else in the crate calls
//! these. Conversions that can lose something return `Option`.

#![expect(clippy::as_conversions, reason = "this module is where the casts are")]

/// A count or length of things in memory. `usize` is at most 64 bits wide on every target of Rust.
pub const fn to_u64(n: usize) -> u64 {
    n as u64
}

/// An index below 2^32. No target this crate builds for has a `usize` of 16 bits (asserted below).
pub const fn to_usize(n: u32) -> usize {
    n as usize
}

const _: () = assert!(usize::BITS >= u32::BITS, "zvf-format needs pointers of 32 bits or more");

/// An offset that was already compared with the bytes present, and so fits; `None` otherwise.
pub const fn index(n: u64) -> Option<usize> {
    let small = n as usize;
    if small as u64 == n { Some(small) } else { None }
}

/// The largest integer not above `x`, or `None` where that is no `i64`: NaN, infinities, and what
/// lies outside [-2^63, 2^63). Both bounds are exact in `f64`, and inside them the cast is exact.
pub fn floor_i64(x: f64) -> Option<i64> {
    const LOW: f64 = -9_223_372_036_854_775_808.0;
    const HIGH: f64 = 9_223_372_036_854_775_808.0;
    if !(LOW..HIGH).contains(&x) {
        return None;
    }
    let towards_zero = x as i64;
    if towards_zero as f64 > x { towards_zero.checked_sub(1) } else { Some(towards_zero) }
}

/// The nearest `f64`: exact below 2^53, rounded to even above, never infinite.
pub const fn to_f64(n: i64) -> f64 {
    n as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_at_the_edges() {
        assert_eq!(to_u64(usize::MAX), u64::try_from(usize::MAX).unwrap());
        assert_eq!(to_usize(u32::MAX), usize::try_from(u32::MAX).unwrap());
        assert_eq!(index(0), Some(0));
        assert_eq!(index(u64::MAX), usize::try_from(u64::MAX).ok());
        assert_eq!(index(1 << 32), usize::try_from(1_u64 << 32).ok());
    }

    #[test]
    fn floors_at_the_edges() {
        for (x, floor) in [
            (0.0, Some(0)),
            (-0.0, Some(0)),
            (0.9, Some(0)),
            (-0.1, Some(-1)),
            (-1.0, Some(-1)),
            (f64::MIN_POSITIVE, Some(0)),
            (-f64::MIN_POSITIVE, Some(-1)),
            (9_223_372_036_854_774_784.0, Some(9_223_372_036_854_774_784)),
            (9_223_372_036_854_775_808.0, None),
            (-9_223_372_036_854_775_808.0, Some(i64::MIN)),
            (-9_223_372_036_854_777_856.0, None),
            (1e300, None),
            (-1e300, None),
            (f64::INFINITY, None),
            (f64::NEG_INFINITY, None),
            (f64::NAN, None),
        ] {
            assert_eq!(floor_i64(x), floor, "{x}");
        }
        assert_eq!(to_f64(i64::MIN), -9_223_372_036_854_775_808.0);
        assert_eq!(to_f64(i64::MAX), 9_223_372_036_854_775_808.0);
    }
}
