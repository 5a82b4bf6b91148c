//! Numbers in names: two ways to write one, each with exactly one text per value.
//!
//! ```text
//! plain    3  0  -12       chunk keys and cell keys
//! signed   +3  0  -12      offsets: a sign unless zero
//! ```
//!
//! Two names are compared as text without printing them: up to the first number that differs they
//! are equal, so that number and the byte after it decide.

use core::cmp::Ordering;

use crate::error::{Class, Expected, FormatError, Part};
use crate::num;

/// Splits `text` at separators. Yields each word with the byte it starts at.
pub(super) fn split_words(text: &str, separator: u8) -> impl Iterator<Item = (u64, &str)> {
    let mut at = 0_u64;
    text.split(char::from(separator)).map(move |word| {
        let start = at;
        at = at.saturating_add(num::to_u64(word.len())).saturating_add(1);
        (start, word)
    })
}

/// Parses a number with an optional minus sign and no leading zeros.
pub(super) fn parse_plain(part: Part, at: u64, word: &str) -> Result<i64, FormatError> {
    let (sign, digits) = split_sign(word);
    match sign {
        Some(b'+') => Err(refuse(part, at, "a number without plus", "a plus")),
        sign => parse_digits(part, at, sign == Some(b'-'), digits),
    }
}

/// Parses a number with a sign, or a zero without.
pub(super) fn parse_signed(part: Part, at: u64, word: &str) -> Result<i64, FormatError> {
    match split_sign(word) {
        (None, "0") => Ok(0),
        (None, _) => Err(refuse(part, at, "0, or a number with its sign", "no sign")),
        (Some(_), "0") => Err(refuse(part, at, "0 without a sign", "a sign")),
        (Some(sign), digits) => parse_digits(part, at, sign == b'-', digits),
    }
}

/// Splits a word into its sign and the rest.
pub(super) fn split_sign(word: &str) -> (Option<u8>, &str) {
    match word.split_at_checked(1) {
        Some(("+", rest)) => (Some(b'+'), rest),
        Some(("-", rest)) => (Some(b'-'), rest),
        _ => (None, word),
    }
}

/// Compares two plain names with `.` between their numbers.
pub(super) fn cmp_plain(a: &[i64], b: &[i64]) -> Ordering {
    fn tokens(numbers: &[i64]) -> impl Iterator<Item = Token> {
        (1..).zip(numbers).map(move |(next, &number)| {
            let behind = if next == numbers.len() { None } else { Some(b'.') };
            Token { plus: false, number, behind }
        })
    }
    cmp_tokens(tokens(a), tokens(b))
}

/// A number in a name, and the byte after it unless the name ends there.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct Token {
    pub(super) plus: bool,
    pub(super) number: i64,
    pub(super) behind: Option<u8>,
}

/// Compares two names as text.
pub(super) fn cmp_tokens(
    a: impl Iterator<Item = Token>,
    mut b: impl Iterator<Item = Token>,
) -> Ordering {
    for mine in a {
        match b.next() {
            None => return Ordering::Greater,
            Some(other) if other == mine => {}
            Some(other) => {
                let (mine, other) = (Text::from_token(mine), Text::from_token(other));
                return mine.as_bytes().cmp(other.as_bytes());
            }
        }
    }
    if b.next().is_some() { Ordering::Less } else { Ordering::Equal }
}

/// The bytes of one token, filled from the back.
struct Text {
    bytes: [u8; LONGEST],
    start: usize,
}

impl Text {
    fn from_token(token: Token) -> Self {
        let mut text = Self { bytes: [0; LONGEST], start: LONGEST };
        if let Some(behind) = token.behind {
            text.put(behind);
        }
        let mut left = token.number.unsigned_abs();
        loop {
            let [digit, ..] = (left % 10).to_le_bytes();
            text.put(b'0' | digit);
            left /= 10;
            if left == 0 {
                break;
            }
        }
        if token.number < 0 {
            text.put(b'-');
        } else if token.plus && token.number > 0 {
            text.put(b'+');
        }
        text
    }

    fn put(&mut self, byte: u8) {
        self.start = self.start.saturating_sub(1); // there is room for the longest
        if let Some(free) = self.bytes.get_mut(self.start) {
            *free = byte;
        }
    }

    fn as_bytes(&self) -> &[u8] {
        self.bytes.get(self.start..).unwrap_or_default()
    }
}

/// Room for a sign, the 19 digits of 2^63, and the byte after them.
const LONGEST: usize = 21;

fn parse_digits(part: Part, at: u64, negative: bool, digits: &str) -> Result<i64, FormatError> {
    match digits.as_bytes() {
        [] => Err(refuse(part, at, "a decimal number", "no digits")),
        [b'0'] if negative => Err(refuse(part, at, "0", "-0")),
        [b'0', _, ..] => Err(refuse(part, at, "no zero before other digits", "a zero")),
        _ => parse_magnitude(part, at, negative, digits),
    }
}

/// Parses digits, leading zeros included.
pub(super) fn parse_magnitude(
    part: Part,
    at: u64,
    negative: bool,
    digits: &str,
) -> Result<i64, FormatError> {
    let mut value = Some(0_i64); // counted downwards when negative, as -2^63 has no opposite
    for byte in digits.bytes() {
        let digit = match byte {
            b'0'..=b'9' => i64::from(byte.saturating_sub(b'0')),
            _ => return Err(refuse(part, at, "a decimal number", "another character")),
        };
        value = value.and_then(|value| {
            let tens = value.checked_mul(10)?;
            if negative { tens.checked_sub(digit) } else { tens.checked_add(digit) }
        });
    }
    value.ok_or_else(|| {
        let expected = Expected::Rule("a number of 64 bits");
        FormatError::new(Class::Overflow, part, "component", at, expected, "a longer one")
    })
}

fn refuse(part: Part, at: u64, rule: &'static str, found: &'static str) -> FormatError {
    FormatError::new(Class::InvalidKey, part, "component", at, Expected::Rule(rule), found)
}
