//! Conversions between numbers, so that no other module needs a cast.

/// A length of something in memory.
pub(crate) fn to_u64(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

/// A number of 32 bits in memory: `usize` has as many or more on every target this crate builds for.
pub(crate) fn usize_from_u32(n: u32) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

/// A count as a float, rounded where it is above 2^53.
#[expect(clippy::as_conversions, reason = "counts only steer how large things are drawn")]
pub(crate) const fn to_f64(n: u64) -> f64 {
    n as f64
}

/// The nearest float of half the size.
#[expect(clippy::as_conversions, reason = "rounding is what is asked for")]
pub(crate) const fn to_f32(x: f64) -> f32 {
    x as f32
}

/// The largest whole number not above `x`, the nearest there is where that does not fit, 0 for NaN.
#[expect(clippy::as_conversions, reason = "a cast that saturates is what is asked for")]
pub(crate) fn floor(x: f64) -> i64 {
    x.floor() as i64
}

/// A pixel's place as a float; pictures are far below 2^53 pixels wide.
#[expect(clippy::as_conversions, reason = "exact for every place in a picture")]
pub(crate) const fn signed_to_f64(x: i64) -> f64 {
    x as f64
}

/// The nearest byte, 0 for NaN.
#[expect(clippy::as_conversions, reason = "a cast that saturates is what is asked for")]
pub(crate) fn byte(x: f64) -> u8 {
    x.round() as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_the_nearest_that_does() {
        assert_eq!([floor(-0.5), floor(f64::NAN), floor(1e300)], [-1, 0, i64::MAX]);
        assert_eq!([byte(-3.0), byte(254.5), byte(1e9), byte(f64::NAN)], [0, 255, 255, 0]);
        assert_eq!((to_f32(0.1), signed_to_f64(-7), to_f64(3)), (0.1_f32, -7.0, 3.0));
        assert_eq!((to_u64(5), usize_from_u32(5)), (5, 5));
    }
}
