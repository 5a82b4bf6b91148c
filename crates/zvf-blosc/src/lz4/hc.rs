//! LZ4 blocks with a long search: among earlier positions with the same four bytes, within the
//! reach of a match and the limit of the level, it takes the one with the longest match.
//!
//! ```text
//! heads    hash of four bytes -> its last position
//! before   position           -> the previous position with the same hash
//! ```
//!
//! A match is compared with that of the next byte, which is used instead if it is longer (lazy
//! matching). The output is deterministic.

use core::iter;

use zvf_format::num;

use crate::prefix::common_prefix_len;

/// Appends a block, and returns its length; `None` for more input than an LZ4 block can have.
pub(crate) fn encode(bytes: &[u8], level: u8, out: &mut Vec<u8>) -> Option<usize> {
    u32::try_from(bytes.len()).ok().filter(|n| *n < NOWHERE)?;
    let start = out.len();
    let mut places = Places::new(bytes, patience(level));
    let (mut anchor, mut at) = (0, 0);
    // The last match begins at most here.
    let last = bytes.len().checked_sub(LAST_MATCH);
    while last.is_some_and(|last| at <= last) {
        let Some(mut found) = places.find_longest(at) else {
            at = at.saturating_add(1);
            continue;
        };
        let mut next = at.saturating_add(1);
        while last.is_some_and(|last| next <= last)
            && let Some(longer) = places.find_longest(next).filter(|later| later.len > found.len)
        {
            (at, found) = (next, longer);
            next = at.saturating_add(1);
        }
        // The bytes before the match may be equal as well.
        let back = places.count_equal_before(at, &found, anchor);
        let literals = bytes.get(anchor..at.saturating_sub(back)).unwrap_or_default();
        let len = found.len.saturating_add(back);
        sequence(literals, Some((found.distance, len)), out);
        at = at.saturating_add(found.len);
        anchor = at;
    }
    sequence(bytes.get(anchor..).unwrap_or_default(), None, out);
    Some(out.len().saturating_sub(start))
}

/// An earlier occurrence of bytes.
struct Match {
    distance: u16,
    len: usize,
}

/// The positions of four bytes.
struct Places<'a> {
    bytes: &'a [u8],
    heads: Vec<u32>,
    before: Vec<u32>, // for each known position, the previous one, or `NOWHERE`
    patience: usize,
}

impl<'a> Places<'a> {
    fn new(bytes: &'a [u8], patience: usize) -> Self {
        let heads = vec![NOWHERE; 1 << HASH_BITS];
        Self { bytes, heads, before: Vec::with_capacity(bytes.len()), patience }
    }

    /// Returns the longest match at `at`, the nearest of several.
    fn find_longest(&mut self, at: usize) -> Option<Match> {
        self.learn(at);
        let (end, mut best) = (self.bytes.len().checked_sub(LAST_LITERALS)?, None::<Match>);
        let remaining = self.bytes.get(at..end)?;
        let places = iter::successors(self.before.get(at), |place| {
            self.before.get(num::usize_from_u32(**place))
        });
        for place in places.take(self.patience) {
            let place = num::usize_from_u32(*place);
            let Some(distance) = at.checked_sub(place).and_then(|n| u16::try_from(n).ok()) else {
                break; // none, or too far, as are all before it
            };
            let len = best.as_ref().map_or(SHORTEST.saturating_sub(1), |best| best.len);
            // A match no longer than the best differs at that length, or earlier.
            let found = self.bytes.get(place..).unwrap_or_default();
            if remaining.get(len) == found.get(len) {
                let alike = common_prefix_len(remaining, found);
                if alike > len {
                    best = Some(Match { distance, len: alike });
                }
            }
        }
        best
    }

    /// Adds the positions up to and including `at`.
    fn learn(&mut self, at: usize) {
        while self.before.len() <= at {
            let place = self.before.len();
            let four = self.bytes.get(place..).and_then(|bytes| bytes.first_chunk::<4>());
            // Four bytes exist, since no match begins near the end.
            let hash = four.map_or(0, |four| u32::from_le_bytes(*four).wrapping_mul(FACTOR));
            let hash = hash >> HASH_SHIFT;
            let Some(head) = self.heads.get_mut(num::usize_from_u32(hash)) else { return };
            let place = u32::try_from(place).unwrap_or(NOWHERE); // below it, as `encode` checks
            self.before.push(core::mem::replace(head, place));
        }
    }

    /// Returns the number of equal bytes before `at`, after `anchor`, and before the match.
    fn count_equal_before(&self, at: usize, found: &Match, anchor: usize) -> usize {
        let ours = self.bytes.get(anchor..at).unwrap_or_default();
        let theirs = at.saturating_sub(found.distance.into());
        let theirs = self.bytes.get(..theirs).unwrap_or_default();
        iter::zip(ours.iter().rev(), theirs.iter().rev()).take_while(|(a, b)| a == b).count()
    }
}

/// Appends literals, followed by the distance and length of the match.
fn sequence(literals: &[u8], found: Option<(u16, usize)>, out: &mut Vec<u8>) {
    let more = found.map_or(0, |(_, len)| len.saturating_sub(SHORTEST)); // a match is not shorter
    out.push(token_half(literals.len()) << 4 | token_half(more));
    length(literals.len(), out);
    out.extend_from_slice(literals);
    if let Some((distance, _)) = found {
        out.extend_from_slice(&distance.to_le_bytes());
        length(more, out);
    }
}

/// Returns the half of the token for `n`.
fn token_half(n: usize) -> u8 {
    u8::try_from(n).unwrap_or(FULL).min(FULL)
}

/// Appends the bytes after the token when `n` does not fit in its half.
fn length(n: usize, out: &mut Vec<u8>) {
    let Some(mut rest) = n.checked_sub(FULL.into()) else { return };
    while let Some(less) = rest.checked_sub(255) {
        out.push(255);
        rest = less;
    }
    out.push(u8::try_from(rest).unwrap_or(255)); // below it
}

/// Returns the number of positions to search.
fn patience(level: u8) -> usize {
    1_usize.checked_shl(u32::from(level.min(9))).unwrap_or(1).max(4)
}

const HASH_BITS: u32 = 15;
const HASH_SHIFT: u32 = u32::BITS - HASH_BITS;
/// Spreads four bytes over the upper bits.
const FACTOR: u32 = 0x9e37_79b1;
/// No position: beyond the longest block.
const NOWHERE: u32 = u32::MAX / 2;
/// The shortest match.
const SHORTEST: usize = 4;
/// The largest value of a half of the token.
const FULL: u8 = 15;
/// Bytes at the end that are literals.
const LAST_LITERALS: usize = 5;
/// The smallest distance of the last match from the end.
const LAST_MATCH: usize = 12;
