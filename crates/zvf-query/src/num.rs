//! Conversions between widths, so that no other module needs a cast.

/// A length of something in memory; `usize` is at most 64 bits wide on every target of Rust.
pub(crate) fn to_u64(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

/// A length that was compared with memory or a cap; larger than any allocation where it does not fit.
pub(crate) fn to_usize(n: u64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

/// A number of 32 bits in memory.
pub(crate) fn usize_from_u32(n: u32) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

/// A length as 32 bits, or the most they hold: callers compare with a cap first.
pub(crate) fn saturating_u32(n: u64) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// The smallest `f32` that is not below `x`.
#[expect(clippy::as_conversions, reason = "rounded to the nearest, then moved where that is below")]
pub(crate) fn up_to_f32(x: f64) -> f32 {
    let near = x as f32;
    if f64::from(near) < x { near.next_up() } else { near }
}

/// The largest `f32` that is not above `x`.
#[expect(clippy::as_conversions, reason = "rounded to the nearest, then moved where that is above")]
pub(crate) fn down_to_f32(x: f64) -> f32 {
    let near = x as f32;
    if f64::from(near) > x { near.next_down() } else { near }
}

/// The nearest `f32`.
#[expect(clippy::as_conversions, reason = "rounded to the nearest, as a stored coordinate is")]
pub(crate) const fn to_f32(x: f64) -> f32 {
    x as f32
}

/// A component of a key as a float, rounded where it is beyond 2^53.
#[expect(clippy::as_conversions, reason = "the border of a chunk so far out is rounded itself")]
pub(crate) const fn float(n: i64) -> f64 {
    n as f64
}

/// A count as a float, rounded where it is above 2^53.
#[expect(clippy::as_conversions, reason = "an estimate may be rounded")]
pub(crate) const fn to_f64(n: u64) -> f64 {
    n as f64
}

/// An estimate as a count: cut to whole numbers, and to what 64 bits hold.
#[expect(clippy::as_conversions, reason = "saturates, and NaN becomes 0")]
pub(crate) const fn trunc_u64(x: f64) -> u64 {
    x as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_move_to_the_side_asked_for() {
        let tenth = f64::from(0.1_f32); // above 0.1
        assert_eq!((up_to_f32(0.1), f64::from(down_to_f32(0.1)) < 0.1), (0.1_f32, true));
        assert_eq!((up_to_f32(tenth), down_to_f32(tenth)), (0.1_f32, 0.1_f32));
        assert_eq!((up_to_f32(f64::MAX), down_to_f32(f64::MAX)), (f32::INFINITY, f32::MAX));
        assert_eq!(down_to_f32(f64::INFINITY), f32::INFINITY);
        assert_eq!((up_to_f32(-0.0), down_to_f32(0.0)), (0.0, 0.0));
    }

    #[test]
    fn widths_saturate() {
        assert_eq!(
            (saturating_u32(1 << 40), usize_from_u32(7), to_usize(9), to_u64(9)),
            (u32::MAX, 7, 9, 9)
        );
        assert_eq!((trunc_u64(-1.0), trunc_u64(f64::NAN), trunc_u64(2.9)), (0, 0, 2));
    }
}
