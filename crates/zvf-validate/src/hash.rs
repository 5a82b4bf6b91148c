//! A hash of numbers for comparing sums of records in any order.

use zvf_format::num::mix_bits;

/// Returns the hash of a sequence, by [`mix_bits`].
pub(crate) fn hash_all(numbers: impl IntoIterator<Item = u64>) -> u64 {
    numbers.into_iter().fold(0x5851_f42d_4c95_7f2d, |hash, n| mix_bits(hash ^ n))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_and_every_number_matter() {
        assert_ne!(mix_bits(0), mix_bits(1));
        assert_ne!(hash_all([1, 2]), hash_all([2, 1]));
        assert_ne!(hash_all([0]), hash_all([0, 0]));
    }
}
