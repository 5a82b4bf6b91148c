//! Conversions between numbers, so that no other module needs a cast.

/// A length of something in memory; `usize` is at most 64 bits wide on every target of Rust.
pub(crate) fn to_u64(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

/// A place in memory that was compared with what is there; past the end of anything where it does not fit.
pub(crate) fn to_usize(n: u64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

/// A place in a list of at most 2^32 items, which its owner guarantees.
pub(crate) fn to_u32(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// A place in memory: `usize` has 32 bits or more on every target this crate builds for.
pub(crate) fn usize_from_u32(n: u32) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

/// A count as a number that may be compared with negative ones; none of ours reaches 2^63.
pub(crate) fn to_i64(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// The nearest float.
#[expect(clippy::as_conversions, reason = "rounding a large integer is what is asked for")]
pub(crate) const fn to_f64(n: u64) -> f64 {
    n as f64
}

/// The nearest float of half the size.
#[expect(clippy::as_conversions, reason = "rounding is what is asked for")]
pub(crate) const fn to_f32(x: f64) -> f32 {
    x as f32
}

/// The largest whole number not above `x`, the nearest there is where that does not fit, 0 for NaN. A call
/// of `f64::floor` takes several times as long where the machine is not known to have an instruction for it.
#[expect(clippy::as_conversions, reason = "a cast that saturates is what is asked for")]
pub(crate) const fn floor(x: f64) -> i64 {
    let whole = x as i64;
    if whole as f64 > x { whole.saturating_sub(1) } else { whole }
}

/// The nearest whole number that is not negative.
pub(crate) fn round_u64(x: f64) -> u64 {
    u64::try_from(floor(x + 0.5)).unwrap_or(0)
}

/// The nearest whole number, the even one of two that are as near.
pub(crate) fn round_even(x: f64) -> i64 {
    floor(x.round_ties_even())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_edges_survive() {
        assert_eq!((to_u64(usize::MAX), to_usize(u64::MAX)), (usize::MAX as u64, usize::MAX));
        assert_eq!((to_u32(usize::MAX), usize_from_u32(u32::MAX)), (u32::MAX, u32::MAX as usize));
        assert_eq!((to_i64(u64::MAX), to_f64(1 << 53)), (i64::MAX, 9_007_199_254_740_992.0));
        for (x, whole) in [
            (-0.5, -1),
            (-2.0, -2),
            (2.9, 2),
            (f64::NAN, 0),
            (1e300, i64::MAX),
            (9_223_372_036_854_775_808.0, i64::MAX),
            (-1e300, i64::MIN),
            (-9_223_372_036_854_775_808.0, i64::MIN),
            (-9_007_199_254_740_993.0, -9_007_199_254_740_992),
        ] {
            assert_eq!(floor(x), whole, "{x}");
        }
        assert_eq!((round_u64(-3.0), round_u64(2.5), to_f32(0.1)), (0, 3, 0.1));
        assert_eq!([0.5, 1.5, 2.5, -0.5].map(round_even), [0, 2, 2, 0]);
    }
}
