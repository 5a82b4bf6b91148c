//! A hash of numbers for comparing sums of records in any order.

/// Returns bits that depend on every bit of `n`: the finalizer of a splittable generator.
pub(crate) const fn splitmix64(n: u64) -> u64 {
    let n = n.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}

/// Returns the hash of a sequence, by [`splitmix64`].
pub(crate) fn splitmix64_all(numbers: impl IntoIterator<Item = u64>) -> u64 {
    numbers.into_iter().fold(0x5851_f42d_4c95_7f2d, |hash, n| splitmix64(hash ^ n))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_and_every_number_matter() {
        assert_ne!(splitmix64(0), splitmix64(1));
        assert_ne!(splitmix64_all([1, 2]), splitmix64_all([2, 1]));
        assert_ne!(splitmix64_all([0]), splitmix64_all([0, 0]));
    }
}
