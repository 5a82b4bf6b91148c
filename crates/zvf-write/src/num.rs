//! Conversions between integer widths, so that no other module needs a cast.

/// A length of something in memory; `usize` is at most 64 bits wide on every target of Rust.
pub(crate) fn to_u64(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

/// A length that was compared with memory; larger than any allocation where it does not fit.
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

/// The largest whole number not above `x`; 0 for what is negative or no number.
#[expect(clippy::as_conversions, reason = "a cast that saturates is what is asked for")]
pub(crate) const fn floor_u64(x: f64) -> u64 {
    x as u64
}

/// Bytes of a list of numbers.
pub(crate) fn bytes_of(numbers: &[i64]) -> Vec<u8> {
    numbers.iter().flat_map(|n| n.to_le_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_edges_survive() {
        assert_eq!((to_u64(usize::MAX), to_usize(u64::MAX)), (usize::MAX as u64, usize::MAX));
        assert_eq!((to_u32(usize::MAX), usize_from_u32(u32::MAX)), (u32::MAX, u32::MAX as usize));
        assert_eq!((to_i64(u64::MAX), to_f64(1 << 53)), (i64::MAX, 9_007_199_254_740_992.0));
        assert_eq!(
            (floor_u64(-1.0), floor_u64(f64::NAN), floor_u64(2.9), floor_u64(1e300)),
            (0, 0, 2, u64::MAX)
        );
        assert_eq!(bytes_of(&[1, -1])[6..10], [0, 0, 255, 255]);
    }
}
