//! The random choice of the reference implementation, reproduced bit for bit.
//!
//! ```text
//! seed       any whole number; here 128 bits, cut into words of 32, the lowest first
//! pool       four words, each mixed with every other one
//! state      a linear congruential generator of 128 bits; the output is its halves, folded and turned
//! choice     k of n without putting back, sorted: Floyd's sampling, or the end of a shuffle where that is
//!            much of many
//! ```
//!
//! The library behind the reference does not guarantee this stream for ever. The test vectors below
//! check that it is still the same; a difference means that the reference changed, not that data is
//! damaged.

use zvf_format::num::{index_u32, usize_from_u32};

/// A stream of random numbers from one seed.
#[derive(Clone, Debug)]
pub(crate) struct Random {
    state: u128,
    increment: u128, // odd
    half: Option<u32>,
}

impl Random {
    /// Returns the stream of `seed`.
    pub(crate) fn new(seed: u128) -> Self {
        let [a, b, c, d] = expand_seed(seed);
        let initial = (u128::from(a) << 64) | u128::from(b);
        let sequence = (u128::from(c) << 64) | u128::from(d);
        let increment = (sequence << 1) | 1;
        let mut random = Self { state: 0, increment, half: None };
        random.step();
        random.state = random.state.wrapping_add(initial);
        random.step();
        random
    }

    fn step(&mut self) {
        self.state = self.state.wrapping_mul(PCG_MULTIPLIER).wrapping_add(self.increment);
    }

    fn next_u64(&mut self) -> u64 {
        self.step();
        let folded = low_u64(self.state >> 64) ^ low_u64(self.state);
        folded.rotate_right(rotation(self.state))
    }

    fn next_u32(&mut self) -> u32 {
        if let Some(half) = self.half.take() {
            return half;
        }
        let both = self.next_u64();
        self.half = Some(low_half(both >> 32));
        low_half(both)
    }

    /// Returns a uniformly distributed number from 0 to `max`, both included; `max` is an index of
    /// a list of objects, which has fewer than 2^32.
    fn index_up_to(&mut self, max: usize) -> usize {
        let max = index_u32(max);
        if max == 0 {
            return 0;
        }
        let count = max + 1;
        let least = (u32::MAX - max) % count;
        loop {
            let wide = u64::from(self.next_u32()) * u64::from(count);
            if low_half(wide) >= least {
                return usize_from_u32(low_half(wide >> 32));
            }
        }
    }

    /// Returns `k` of the numbers below `n`, ascending; all of them if `k` is at least `n`.
    pub(crate) fn choose(&mut self, n: usize, k: usize) -> Vec<usize> {
        if k >= n {
            return (0..n).collect();
        }
        let mut chosen = if n > SHUFFLE_MIN_COUNT && k > n / SHUFFLE_MAX_RATIO {
            self.choose_by_shuffle(n, k)
        } else {
            self.choose_by_floyd(n, k)
        };
        chosen.sort_unstable();
        chosen
    }

    /// Returns `k` of the `n` numbers, where `k < n`.
    fn choose_by_shuffle(&mut self, n: usize, k: usize) -> Vec<usize> {
        let mut all: Vec<usize> = (0..n).collect();
        let start = n - k;
        for i in (start.max(1)..n).rev() {
            all.swap(i, self.index_up_to(i));
        }
        all.split_off(start)
    }

    /// Returns `k` of the `n` numbers, where `k < n`.
    fn choose_by_floyd(&mut self, n: usize, k: usize) -> Vec<usize> {
        let mut taken = std::collections::HashSet::new();
        for j in n - k..n {
            let drawn = self.index_up_to(j);
            if !taken.insert(drawn) {
                taken.insert(j);
            }
        }
        taken.into_iter().collect()
    }
}

/// Returns a seed as four words of the generator.
fn expand_seed(seed: u128) -> [u64; 4] {
    let words: [u32; 4] = [0, 32, 64, 96].map(|shift| low_half(low_u64(seed >> shift)));
    let mut mixing = Hash { state: 0x43b0_d7e5, factor: 0x931e_8875 };
    let mut pool = words.map(|word| mixing.mix(word));
    for source in 0..4_usize {
        for target in (0..4_usize).filter(|target| *target != source) {
            let hashed = mixing.mix(pool[source]);
            pool[target] = mix_words(pool[target], hashed);
        }
    }
    let mut out = Hash { state: 0x8b51_f9dd, factor: 0x58f3_8ded };
    let [a, b, c, d] = pool;
    [[a, b], [c, d], [a, b], [c, d]].map(|[low, high]| {
        let low = u64::from(out.mix(low));
        low | u64::from(out.mix(high)) << 32
    })
}

/// A hash that changes with each use.
struct Hash {
    state: u32,
    factor: u32,
}

impl Hash {
    fn mix(&mut self, value: u32) -> u32 {
        let value = value ^ self.state;
        self.state = self.state.wrapping_mul(self.factor);
        let value = value.wrapping_mul(self.state);
        value ^ (value >> 16)
    }
}

const fn mix_words(x: u32, y: u32) -> u32 {
    let mixed = x.wrapping_mul(0xca01_f9dd).wrapping_sub(y.wrapping_mul(0x4973_f715));
    mixed ^ (mixed >> 16)
}

#[expect(clippy::as_conversions, reason = "the lower half is what is asked for")]
const fn low_u64(wide: u128) -> u64 {
    wide as u64
}

#[expect(clippy::as_conversions, reason = "the lower half is what is asked for")]
const fn low_half(wide: u64) -> u32 {
    wide as u32
}

/// Returns the highest six bits.
#[expect(clippy::as_conversions, reason = "six bits fit")]
const fn rotation(state: u128) -> u32 {
    (state >> 122) as u32
}

const PCG_MULTIPLIER: u128 = 0x2360_ED05_1FC6_5DA4_4385_DF64_9FCC_F645;
/// A larger `n` is shuffled if more than one in [`SHUFFLE_MAX_RATIO`] of the numbers is chosen.
const SHUFFLE_MIN_COUNT: usize = 10_000;
const SHUFFLE_MAX_RATIO: usize = 50;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_are_those_of_the_reference() {
        #[rustfmt::skip]
        let table: [(usize, usize, u128, &[usize]); 5] = [
            (10, 3, 0, &[5, 6, 9]),
            (3, 1, 42, &[0]),
            (200, 100, 7, &[0, 1, 5, 6, 8, 14, 15, 16]),
            (20_000, 10_000, 3, &[2, 5, 9, 10, 11, 12, 13, 17]),
            (100_000, 1500, 12_345_678_901_234, &[1, 43, 84, 132, 263, 421, 460, 462]),
        ];
        for (n, k, seed, expected) in table {
            let chosen = Random::new(seed).choose(n, k);
            assert_eq!(chosen.len(), k, "{n} {k} {seed}");
            assert_eq!(chosen[..expected.len()], *expected, "{n} {k} {seed}");
            assert!(chosen.is_sorted_by(|a, b| a < b) && chosen[chosen.len() - 1] < n);
        }
    }

    #[test]
    fn random_numbers_cover_their_bounds() {
        let mut random = Random::new(1);
        for max in [0, 1, 6, 1 << 31] {
            assert!((0..200).all(|_| random.index_up_to(max) <= max), "{max}");
        }
        assert!(
            (0..200).any(|_| random.index_up_to(1) == 1)
                && (0..200).any(|_| random.index_up_to(1) == 0)
        );
        assert_eq!(
            (random.choose(4, 4), random.choose(4, 9)),
            (vec![0, 1, 2, 3], vec![0, 1, 2, 3])
        );
    }
}
