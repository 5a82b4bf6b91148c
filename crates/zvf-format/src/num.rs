//! The only module with number conversions, for this crate and all above it, and a hash of numbers.
//!
//! A name states the target and the treatment of a number that does not fit: `checked_` returns
//! `None`, `saturating_` the nearest number of the target type, and without either only the last
//! bits of a float can be lost. `index_` is for numbers whose limit was checked before, and panics
//! otherwise. Each cast is justified beside it and tested at its edges; other modules have none.
//!
//! Not here: parsing.

#![expect(clippy::as_conversions, reason = "this module is where the casts are")]

/// Converts a count or length of items in memory. `usize` is at most 64 bits wide on every target
/// of Rust.
pub const fn to_u64(n: usize) -> u64 {
    n as u64
}

/// Converts an index below 2^32. No target this crate builds for has a `usize` of 16 bits (asserted
/// below).
pub const fn usize_from_u32(n: u32) -> usize {
    n as usize
}

const _: () = assert!(usize::BITS >= u32::BITS, "zvf-format needs pointers of 32 bits or more");

/// Converts an offset that was already compared with the bytes present and therefore fits; `None`
/// otherwise.
pub const fn checked_usize(n: u64) -> Option<usize> {
    let small = n as usize;
    if small as u64 == n { Some(small) } else { None }
}

/// Returns the largest integer not above `x`, or `None` if that does not fit in `i64`: for NaN,
/// infinities, and values outside [-2^63, 2^63). Both bounds are exact in `f64`, and inside them
/// the cast is exact.
pub fn floor_i64(x: f64) -> Option<i64> {
    const LOW: f64 = -9_223_372_036_854_775_808.0;
    const HIGH: f64 = 9_223_372_036_854_775_808.0;
    if !(LOW..HIGH).contains(&x) {
        return None;
    }
    let towards_zero = x as i64;
    if towards_zero as f64 > x { towards_zero.checked_sub(1) } else { Some(towards_zero) }
}

/// Returns the product of all `factors`, 1 of none, or `None` if it or one on the way there does not
/// fit in 64 bits.
pub fn checked_product(factors: &[u64]) -> Option<u64> {
    factors.iter().try_fold(1_u64, |all, &n| all.checked_mul(n))
}

/// Returns the number of items of an array, or `None` if it does not fit in 64 bits. An extent of 0
/// makes it 0, whatever the others are.
pub fn count_items(shape: &[u64]) -> Option<u64> {
    if shape.contains(&0) { Some(0) } else { checked_product(shape) }
}

/// Returns the nearest `f64`: exact below 2^53, rounded to even above, never infinite.
pub const fn f64_from_i64(n: i64) -> f64 {
    n as f64
}

/// Returns the number, or `usize::MAX`: larger than any allocation, for lengths that are compared
/// with memory or a cap.
pub const fn saturating_usize(n: u64) -> usize {
    match checked_usize(n) {
        Some(n) => n,
        None => usize::MAX,
    }
}

/// Returns the number, or `u32::MAX`.
pub const fn saturating_u32(n: u64) -> u32 {
    let small = n as u32;
    if small as u64 == n { small } else { u32::MAX }
}

/// Returns the number, or `u32::MAX`: the place in a list of fewer than 2^32 items, which its owner
/// guarantees.
pub const fn saturating_u32_from_usize(n: usize) -> u32 {
    saturating_u32(to_u64(n))
}

/// Converts the place of an item in a list whose owner keeps it below 2^32 items.
///
/// # Panics
///
/// If the place is larger: a clamped index would name another item.
pub const fn index_u32(place: usize) -> u32 {
    let small = place as u32;
    assert!(small as usize == place, "a list has more items than its limit");
    small
}

/// Returns the number, or `i64::MAX`: a count that is compared with numbers that may be negative.
pub const fn saturating_i64(n: u64) -> i64 {
    if n > i64::MAX as u64 { i64::MAX } else { n as i64 }
}

/// Returns the nearest `f64`: exact below 2^53, rounded to even above.
pub const fn f64_from_u64(n: u64) -> f64 {
    n as f64
}

/// Returns the nearest `f32`; infinite if `x` is too large.
pub const fn nearest_f32(x: f64) -> f32 {
    x as f32
}

/// Returns the smallest `f32` that is not below `x`.
pub fn ceil_f32(x: f64) -> f32 {
    let near = x as f32;
    if f64::from(near) < x { near.next_up() } else { near }
}

/// Returns the largest `f32` that is not above `x`.
pub fn floor_f32(x: f64) -> f32 {
    let near = x as f32;
    if f64::from(near) > x { near.next_down() } else { near }
}

/// Returns the largest integer not above `x`, clamped to the range of `i64`; 0 for NaN.
pub const fn saturating_floor_i64(x: f64) -> i64 {
    let towards_zero = x as i64;
    if towards_zero as f64 > x { towards_zero.saturating_sub(1) } else { towards_zero }
}

/// Returns `x` without its fraction: 0 for negative numbers and NaN, `u64::MAX` for numbers that
/// are too large.
pub const fn trunc_u64(x: f64) -> u64 {
    x as u64
}

/// Returns the integer nearest to `x`, halves upwards: 0 for negative numbers and NaN.
pub fn round_half_up_u64(x: f64) -> u64 {
    u64::try_from(saturating_floor_i64(x + 0.5)).unwrap_or(0)
}

/// Returns bits that depend on every bit of `n`, so that adjacent numbers give unrelated results:
/// the finalizer of `SplitMix64`. Stored levels and files depend on it.
pub const fn mix_bits(n: u64) -> u64 {
    let n = n.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}

/// Returns an iterator over all little-endian 64-bit numbers in `bytes`, in order; trailing bytes
/// that form no number are ignored.
pub fn i64s_from_le(bytes: &[u8]) -> impl ExactSizeIterator<Item = i64> + '_ {
    bytes.as_chunks::<8>().0.iter().map(|number| i64::from_le_bytes(*number))
}

/// Returns the little-endian bytes of all `numbers`, in order.
#[cfg(feature = "alloc")]
pub fn i64s_to_le(numbers: &[i64]) -> alloc::vec::Vec<u8> {
    numbers.iter().flat_map(|n| n.to_le_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_at_the_limits() {
        assert_eq!(to_u64(usize::MAX), u64::try_from(usize::MAX).unwrap());
        assert_eq!(usize_from_u32(u32::MAX), usize::try_from(u32::MAX).unwrap());
        assert_eq!(checked_usize(0), Some(0));
        assert_eq!(checked_usize(u64::MAX), usize::try_from(u64::MAX).ok());
        assert_eq!(checked_usize(1 << 32), usize::try_from(1_u64 << 32).ok());
    }

    #[test]
    fn indexes_a_list_up_to_its_limit() {
        assert_eq!((index_u32(0), index_u32(usize_from_u32(u32::MAX))), (0, u32::MAX));
    }

    #[test]
    #[cfg(target_pointer_width = "64")]
    #[should_panic(expected = "more items than its limit")]
    fn stops_at_an_index_above_the_limit() {
        let _ = index_u32(1 << 32);
    }

    #[test]
    fn floors_at_the_limits() {
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
        assert_eq!(f64_from_i64(i64::MIN), -9_223_372_036_854_775_808.0);
        assert_eq!(f64_from_i64(i64::MAX), 9_223_372_036_854_775_808.0);
    }

    #[test]
    fn conversions_saturate() {
        assert_eq!((saturating_usize(9), saturating_usize(u64::MAX)), (9, usize::MAX));
        assert_eq!((saturating_u32(7), saturating_u32(1 << 40)), (7, u32::MAX));
        assert_eq!(saturating_u32_from_usize(usize::MAX), u32::MAX);
        assert_eq!((saturating_i64(5), saturating_i64(u64::MAX)), (5, i64::MAX));
        assert_eq!([-1.0, f64::NAN, 2.9, 1e300].map(trunc_u64), [0, 0, 2, u64::MAX]);
        assert_eq!([-3.0, f64::NAN, 2.5, 2.4].map(round_half_up_u64), [0, 0, 3, 2]);
        for (x, floor) in [
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
            assert_eq!(saturating_floor_i64(x), floor, "{x}");
        }
    }

    #[test]
    fn floats_are_rounded_up_and_down() {
        let rounded = f64::from(0.1_f32); // above 0.1
        assert_eq!((ceil_f32(0.1), f64::from(floor_f32(0.1)) < 0.1), (0.1_f32, true));
        assert_eq!((ceil_f32(rounded), floor_f32(rounded)), (0.1_f32, 0.1_f32));
        assert_eq!((ceil_f32(f64::MAX), floor_f32(f64::MAX)), (f32::INFINITY, f32::MAX));
        assert_eq!(floor_f32(f64::INFINITY), f32::INFINITY);
        assert_eq!((ceil_f32(-0.0), floor_f32(0.0)), (0.0, 0.0));
        assert_eq!((nearest_f32(0.1), f64_from_u64(1 << 53)), (0.1, 9_007_199_254_740_992.0));
    }

    #[test]
    fn numbers_of_64_bits_round_trip() {
        let bytes = b"\xff\xff\xff\xff\xff\xff\xff\xff\x01\0\0\0\0\0\0\0\x09";
        assert!(i64s_from_le(bytes).eq([-1, 1]));
        #[cfg(feature = "alloc")]
        assert_eq!(i64s_to_le(&[-1, 1]), bytes[..16]);
    }
}
