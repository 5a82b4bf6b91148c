//! Permutations of a record's endpoints, and their codes (Lehmer codes).
//!
//! ```text
//! code = sum over i of (how many unused values are below order[i]) * (L - 1 - i)!
//! ```
//!
//! This numbers the permutations in lexicographic order, from 0 (as given) to L! - 1 (reversed).
//! The codes of the longest, up to 8! - 1 = 40319, fit in 16 bits. A code from L! on is invalid for
//! every width: readers that take any code but 0 for a swap of two endpoints are wrong.

use crate::key::MAX_WIDTH;
use crate::used_items;

/// An order of `0..L`: place `i` holds the input position of the endpoint placed there.
///
/// ```
/// use zvf_format::link::Permutation;
///
/// let face = Permutation::new(&[1, 2, 0]).unwrap();
/// assert_eq!(face.code(), 3);
/// assert_eq!(Permutation::from_code(3, 3), Some(face));
/// assert_eq!(Permutation::from_code(7, 2), None);
/// assert_eq!(face.inverse().order(), [2, 0, 1]);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Permutation {
    order: [u8; MAX_WIDTH], // 0..len in some order; zero from `len` on
    len: u8,                // at most MAX_WIDTH
}

impl Permutation {
    /// Creates the permutation with this order, or `None` if it is not a permutation of `0..L`, or
    /// longer than [`MAX_WIDTH`].
    pub fn new(order: &[u8]) -> Option<Self> {
        let mut seen = 0_u8;
        for place in order {
            let bit = 1_u8.checked_shl((*place).into())?;
            if seen & bit != 0 || usize::from(*place) >= order.len() {
                return None;
            }
            seen |= bit;
        }
        let len = u8::try_from(order.len()).ok()?;
        Some(Self::from_inputs(len, order.iter().copied()))
    }

    /// Creates the identity permutation. A length above [`MAX_WIDTH`] is clamped.
    pub fn identity(len: u8) -> Self {
        Self::from_inputs(len, 0..len)
    }

    /// Returns the permutation of `len` places with this code, or `None` for an invalid code.
    pub fn from_code(code: u64, len: u8) -> Option<Self> {
        if usize::from(len) > MAX_WIDTH || code >= factorial(len) {
            return None;
        }
        let mut unused = 0xff_u8;
        let mut rest = code;
        let inputs = (0..len).rev().map(|behind| {
            let weight = factorial(behind); // at least 1, so neither default is taken
            let skip = rest.checked_div(weight).unwrap_or(0);
            rest = rest.checked_rem(weight).unwrap_or(0);
            let mut left = unused;
            for _ in 0..skip {
                left &= left.saturating_sub(1); // without its lowest bit
            }
            let lowest = left & left.wrapping_neg();
            unused &= !lowest;
            u8::try_from(lowest.trailing_zeros()).unwrap_or(0) // at most 8
        });
        Some(Self::from_inputs(len, inputs))
    }

    /// Returns the code of this permutation.
    pub fn code(&self) -> u16 {
        let mut unused = 0xff_u8;
        let (mut code, mut left) = (0_u16, u16::from(self.len));
        for place in self.order() {
            let bit = 1_u8.rotate_left((*place).into()); // a place is below 8
            let below = (unused & bit.wrapping_sub(1)).count_ones();
            unused &= !bit;
            let below = u16::try_from(below).unwrap_or(0); // at most 8
            code = code.saturating_mul(left).saturating_add(below); // at most 8! - 1
            left = left.saturating_sub(1);
        }
        code
    }

    /// Returns the input position of each place.
    pub fn order(&self) -> &[u8] {
        used_items(&self.order, self.len)
    }

    /// Returns the place of each input position.
    pub fn inverse(&self) -> Self {
        let mut inverse = Self { order: [0; MAX_WIDTH], len: self.len };
        for (i, place) in (0_u8..).zip(self.order()) {
            if let Some(to) = inverse.order.get_mut(usize::from(*place)) {
                *to = i;
            }
        }
        inverse
    }

    /// Returns the number of places.
    pub(super) const fn len(&self) -> u8 {
        self.len
    }

    /// Creates the permutation of `len` places from the input position of each: all of `0..len`
    /// once, optionally followed by zeros. A length above [`MAX_WIDTH`] is clamped.
    pub(super) fn from_inputs(len: u8, inputs: impl IntoIterator<Item = u8>) -> Self {
        let mut order = [0; MAX_WIDTH];
        for (to, input) in order.iter_mut().zip(inputs) {
            *to = input;
        }
        const { assert!(MAX_WIDTH == 8) };
        Self { order, len: len.min(8) }
    }
}

impl core::fmt::Debug for Permutation {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_tuple("Permutation").field(&self.order()).finish()
    }
}

/// Returns the number of permutations of `n` places, for `n` up to [`MAX_WIDTH`].
pub(super) const fn factorial(n: u8) -> u64 {
    match n {
        0 | 1 => 1,
        2 => 2,
        3 => 6,
        4 => 24,
        5 => 120,
        6 => 720,
        7 => 5040,
        _ => 40320,
    }
}
