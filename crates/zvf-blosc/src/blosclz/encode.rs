//! Encodes BloscLZ data: a match is used if the last occurrence of the same four bytes is near
//! enough.
//!
//! ```text
//! table    hash of the next four bytes -> their last position
//! match    those four and equal bytes after them; otherwise skip one byte, and more the longer nothing was found
//! ```
//!
//! Data ends with literals, which the stock decoder requires. The output is deterministic.

use zvf_format::num;

use super::{FAR, LONG, LOW};
use crate::prefix::common_prefix_len;

/// The last position of four bytes, kept between blocks.
#[derive(Default)]
pub(crate) struct Table(Vec<u32>); // one more than the position, 0 for none

impl Table {
    /// Appends the data of `plain` to `out`, and returns its length; `None` when it exceeds
    /// `max_bytes`, or `plain` is too short to compress.
    pub(crate) fn encode(
        &mut self,
        plain: &[u8],
        max_bytes: usize,
        out: &mut Vec<u8>,
    ) -> Option<usize> {
        let last = plain.len().checked_sub(TAIL)?;
        let start = out.len();
        self.0.clear();
        self.0.resize(SLOTS, 0);
        let (mut at, mut literal) = (0_usize, 0_usize);
        while at < last {
            match self.find(plain, at) {
                Some((distance, len)) => {
                    literals(plain.get(literal..at)?, out);
                    push_match(distance, len, out)?;
                    at = at.checked_add(len)?;
                    literal = at;
                    if out.len().checked_sub(start)? > max_bytes {
                        return None;
                    }
                }
                None => {
                    at = at.checked_add(at.checked_sub(literal)? >> PATIENCE)?.checked_add(1)?
                }
            }
        }
        literals(plain.get(literal..)?, out);
        out.len().checked_sub(start).filter(|len| *len <= max_bytes)
    }

    /// Returns distance and length of a match at `at`, which ends before the literals at the end.
    fn find(&mut self, plain: &[u8], at: usize) -> Option<(usize, usize)> {
        let four = plain.get(at..)?.first_chunk::<4>()?;
        let hash = u32::from_le_bytes(*four).wrapping_mul(GOLDEN_RATIO) >> SHIFT;
        let slot = self.0.get_mut(num::usize_from_u32(hash))?;
        let place = u32::try_from(at).ok()?.checked_add(1)?;
        let before = num::usize_from_u32(core::mem::replace(slot, place)).checked_sub(1)?;
        let distance = at.checked_sub(before)?;
        let (old, new) = (plain.get(before..)?, plain.get(at..plain.len().checked_sub(ENDING)?)?);
        let len = common_prefix_len(old, new);
        let worth = if distance <= NEAR { SHORTEST } else { SHORTEST_FAR };
        (len >= worth && distance <= FARTHEST).then_some((distance, len))
    }
}

fn literals(bytes: &[u8], out: &mut Vec<u8>) {
    for run in bytes.chunks(RUN) {
        let control = u8::try_from(run.len().saturating_sub(1)).unwrap_or(LOW); // at most that
        out.push(control);
        out.extend_from_slice(run);
    }
}

/// Appends a match of at least three bytes.
fn push_match(distance: usize, len: usize, out: &mut Vec<u8>) -> Option<()> {
    let code = len.checked_sub(2)?;
    let (high, low, far) = match distance.checked_sub(FAR) {
        Some(far) => (LOW, u8::MAX, Some(u16::try_from(far).ok()?)),
        None => {
            let [low, high] = u16::try_from(distance.checked_sub(1)?).ok()?.to_le_bytes();
            (high, low, None)
        }
    };
    match u8::try_from(code).ok().filter(|code| *code < LONG) {
        Some(code) => out.push(code << 5 | high),
        None => {
            out.push(LONG << 5 | high);
            let mut more = code.checked_sub(LONG.into())?;
            while let Some(rest) = more.checked_sub(u8::MAX.into()) {
                out.push(u8::MAX);
                more = rest;
            }
            out.push(u8::try_from(more).ok()?);
        }
    }
    out.push(low);
    out.extend(far.map(u16::to_be_bytes).into_iter().flatten());
    Some(())
}

/// The largest number of literals after one control byte.
const RUN: usize = 32;
/// The number of bytes at the end that must be literals.
const ENDING: usize = 4;
/// Shorter inputs, and bytes this near to the end, are not searched.
const TAIL: usize = 12;
/// A shorter match would not be shorter than its literals.
const SHORTEST: usize = 4;
const SHORTEST_FAR: usize = 6;
/// The farthest match with a distance of two bytes.
const NEAR: usize = FAR - 1;
/// The farthest match of stock writers, one less than they can read.
const FARTHEST: usize = FAR + 65534;
/// The search skips an extra byte after 2 to this power misses.
const PATIENCE: u32 = 6;
const SLOTS: usize = 1 << 14;
const SHIFT: u32 = 32 - 14;
const GOLDEN_RATIO: u32 = 0x9e37_79b1;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::blosclz::decode;

    fn encode(plain: &[u8]) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        let len = Table::default().encode(plain, plain.len() + 64, &mut out)?;
        assert_eq!(len, out.len());
        Some(out)
    }

    #[test]
    fn golden() {
        // One literal, a match of 35 at distance 1 (33 is 7 and 26 more), the last four unchanged.
        assert_eq!(encode(&[7; 40]).unwrap(), [0, 7, 0xe0, 26, 0, 3, 7, 7, 7, 7]);
        // A match of 300: 298 is 7, 255 and 36.
        assert_eq!(encode(&[7; 305]).unwrap(), [0, 7, 0xe0, 255, 36, 0, 3, 7, 7, 7, 7]);
        // A match of 7 at distance 8: code 5.
        let plain = b"abcdefghabcdefg!------";
        assert_eq!(encode(plain).unwrap(), b"\x07abcdefgh\xa0\x07\x06!------");
        assert_eq!(encode(b"too short"), None);
    }

    #[test]
    fn far_matches_and_the_limit() {
        for (distance, bytes) in
            [(8191, &[31, 254][..]), (8192, &[31, 255, 0, 0]), (8193, &[31, 255, 0, 1])]
        {
            let mut out = Vec::new();
            push_match(distance, 3, &mut out).unwrap();
            assert_eq!((out[0] & 31, &out[1..]), (bytes[0], &bytes[1..]), "{distance}");
        }
        let something = b"something to find".repeat(8);
        let noise = (0..5_000_u32).flat_map(|i| i.wrapping_mul(GOLDEN_RATIO).to_le_bytes());
        let far = [&something[..], &noise.collect::<Vec<_>>(), &something, b", an end"].concat();
        let mut data = Vec::new();
        Table::default().encode(&far, 2 * far.len(), &mut data).unwrap();
        let mut back = vec![0; far.len()];
        assert_eq!(decode(&data, &mut back), Some(far.len()));
        assert_eq!(back, far);
        let mut out = Vec::new();
        assert_eq!(Table::default().encode(&[7; 40], 9, &mut out), None);
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(
            pieces in prop::collection::vec((0_usize..400, any::<u8>(), any::<bool>()), 0..40)
        ) {
            let mut plain: Vec<u8> = Vec::new();
            for (n, byte, same) in pieces {
                let noise = |i: usize| (i as u8).wrapping_mul(byte | 1).rotate_left(3) ^ byte;
                plain.extend((0..n).map(|i| if same { byte } else { noise(i) }));
            }
            if let Some(data) = encode(&plain) {
                let mut back = vec![0; plain.len()];
                prop_assert_eq!(decode(&data, &mut back), Some(plain.len()));
                prop_assert_eq!(back, plain);
                prop_assert!(data[0] < 32, "the first step is literals");
            }
        }
    }
}
