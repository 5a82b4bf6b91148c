//! Pseudo-random numbers that are reproducible from a seed (splitmix64).

use std::time::UNIX_EPOCH;

/// Returns a new seed.
pub fn seed_from_time() -> u64 {
    UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs())
}

/// A pseudo-random generator.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Creates a generator: the same seed gives the same numbers.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next number.
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// Returns a number of at least 0 and below 1.
    pub const fn next_unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns a number below `n`, which is not 0.
    pub const fn next_below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    /// Returns a random item.
    pub fn choose<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.next_below(items.len())]
    }

    /// Damages `blob` in place. One change in four is followed by another.
    pub fn damage(&mut self, blob: &mut Vec<u8>) {
        loop {
            self.damage_once(blob);
            if self.next_below(4) != 0 {
                return;
            }
        }
    }

    fn damage_once(&mut self, blob: &mut Vec<u8>) {
        if blob.is_empty() {
            blob.extend_from_slice(&self.next().to_le_bytes());
            return;
        }
        // Most fields are in headers.
        let anywhere = self.next_below(blob.len());
        let at = if self.next_below(2) == 0 { anywhere } else { anywhere % HEADER_BYTES };
        match self.next_below(10) {
            0 => blob[at] ^= 1 << self.next_below(8),
            1 => blob[at] = self.choose(&BYTES),
            2 => overwrite(blob, at & !3, &self.choose(&NUMBERS).to_le_bytes()[..4]),
            3 => overwrite(blob, at & !7, &self.choose(&NUMBERS).to_le_bytes()),
            4 => overwrite(blob, at, &self.choose(&NUMBERS).to_le_bytes()),
            5 => overwrite(blob, at & !7, &self.choose(&NUMBERS).swap_bytes().to_le_bytes()),
            6 => blob.truncate(at),
            7 => {
                let n = self.next_below(17);
                let fill = self.choose(&BYTES);
                blob.splice(at..at, std::iter::repeat_n(fill, n));
            }
            8 => {
                let n = self.next_below(17).min(blob.len() - at);
                blob.drain(at..at + n);
            }
            _ => {
                // Copies a piece to another place.
                let n = self.next_below(33).min(blob.len() - at);
                let piece = blob[at..at + n].to_vec();
                let to = self.next_below(blob.len());
                overwrite(blob, to, &piece);
            }
        }
    }
}

/// Writes `bytes` at `at`, as far as they fit.
fn overwrite(blob: &mut [u8], at: usize, bytes: &[u8]) {
    let n = bytes.len().min(blob.len() - at);
    blob[at..at + n].copy_from_slice(&bytes[..n]);
}

/// The size of the beginning that half of the damages hit.
const HEADER_BYTES: usize = 512;

const BYTES: [u8; 8] = [0x00, 0x01, 0x02, 0x7f, 0x80, 0x90, 0xd2, 0xff];

/// Numbers at which something overflows, wraps or changes its sign.
const NUMBERS: [u64; 16] = [
    0,
    1,
    2,
    3,
    8,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x1_0000_0000,
    0x1fff_ffff_ffff_ffff,
    0x2000_0000_0000_0000,
    0x7fff_ffff_ffff_fffe,
    0x7fff_ffff_ffff_ffff,
    0x8000_0000_0000_0000,
    0xffff_ffff_ffff_fffe,
    0xffff_ffff_ffff_ffff,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers() {
        let numbers = |seed| {
            let mut random = Random::new(seed);
            [random.next(), random.next(), random.next()]
        };
        assert_eq!(numbers(7), numbers(7));
        assert_ne!(numbers(7), numbers(8));
        assert_ne!(numbers(0), [0; 3]);
    }

    #[test]
    fn damage_reaches_every_byte_and_length() {
        let mut random = Random::new(1);
        let (mut changed, mut longer, mut shorter) = ([false; 40], false, false);
        for _ in 0..10_000 {
            let mut blob = vec![0xa5; 40];
            random.damage(&mut blob);
            (longer, shorter) = (longer || blob.len() > 40, shorter || blob.len() < 40);
            for (changed, byte) in changed.iter_mut().zip(&blob) {
                *changed |= *byte != 0xa5;
            }
        }
        assert!(longer && shorter && changed.iter().all(|changed| *changed));
    }
}
