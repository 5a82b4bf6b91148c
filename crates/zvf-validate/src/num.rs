//! Conversions between numbers, so that no other module needs a cast.

/// A length of something in memory; `usize` is at most 64 bits wide on every target of Rust.
pub(crate) fn to_u64(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

/// A length that was compared with memory; larger than any allocation where it does not fit.
pub(crate) fn to_usize(n: u64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

/// A row number of a cell; the largest where it does not fit.
pub(crate) fn saturating_u32(n: u64) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// All numbers of 64 bits in `bytes`, in order; a rest that is no number is left out.
pub(crate) fn int64s(bytes: &[u8]) -> impl ExactSizeIterator<Item = i64> + '_ {
    bytes.as_chunks::<8>().0.iter().map(|number| i64::from_le_bytes(*number))
}

/// The nearest float.
#[expect(clippy::as_conversions, reason = "rounding to the nearest is what is wanted")]
pub(crate) fn float(n: i64) -> f64 {
    n as f64
}

/// The nearest float.
#[expect(clippy::as_conversions, reason = "rounding to the nearest is what is wanted")]
pub(crate) fn float_of(n: u64) -> f64 {
    n as f64
}

/// So many bytes or cells as a share says; none where it is no number.
#[expect(clippy::as_conversions, reason = "a cast from a float saturates")]
pub(crate) fn trunc_u64(x: f64) -> u64 {
    x as u64
}

/// Bits that depend on every bit of `n`: the finaliser of a splittable generator.
pub(crate) const fn mixed(n: u64) -> u64 {
    let n = n.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}

/// As [`mixed`], of a sequence.
pub(crate) fn mixed_all(numbers: impl IntoIterator<Item = u64>) -> u64 {
    numbers.into_iter().fold(0x5851_f42d_4c95_7f2d, |hash, n| mixed(hash ^ n))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_edges_survive() {
        assert_eq!(to_u64(usize::MAX), usize::MAX as u64);
        assert_eq!(to_usize(u64::MAX), usize::MAX);
        assert_eq!((saturating_u32(7), saturating_u32(u64::MAX)), (7, u32::MAX));
        assert_eq!(
            (trunc_u64(f64::NAN), trunc_u64(-1.0), trunc_u64(2.9), trunc_u64(1e300)),
            (0, 0, 2, u64::MAX)
        );
        assert_eq!(int64s(b"\xff\xff\xff\xff\xff\xff\xff\xff\x01\0").collect::<Vec<_>>(), [-1]);
        assert_eq!((float(-3), float_of(3)), (-3.0, 3.0));
    }

    #[test]
    fn order_and_every_number_matter() {
        assert_ne!(mixed(0), mixed(1));
        assert_ne!(mixed_all([1, 2]), mixed_all([2, 1]));
        assert_ne!(mixed_all([0]), mixed_all([0, 0]));
    }
}
