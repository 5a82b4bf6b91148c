//! Counts the keys of printed lists without parsing them value by value.
//!
//! ```text
//! ["0.0", "0.1",\n "10.0"     digits, dots and signs between quotes, a comma after each
//! ```
//!
//! Such a list is well-formed JSON once `]` is appended. Documents that list every cell contain
//! megabytes of keys.

/// Counts the keys in `list`, if it is a bracket followed only by printed keys.
///
/// Every byte is checked against its neighbours without a branch, so that the compiler vectorizes
/// the loop. By induction from the bracket: a quote after a gap opens a key, the quote after the
/// key closes it, and a comma follows.
pub fn count_printed_keys(list: &[u8]) -> Option<usize> {
    let is = |one: u8, other: u8| u8::from(one == other);
    let mut odd = 0;
    let (before, at, after) = (list, list.get(1..)?, list.get(2..)?);
    for ((&before, &at), &after) in before.iter().zip(at).zip(after) {
        let word = is_key_byte(before) | is(before, b'"');
        let opens = (word ^ 1) & is_key_byte(after);
        let closes = is_key_byte(before) & is(after, b',');
        let well = (is_key_byte(at) & word)
            | (is(at, b'"') & (opens | closes))
            | (is(at, b',') & is(before, b'"'))
            | ((is(at, b' ') | is(at, b'\n')) & (word ^ 1));
        odd |= well ^ 1;
    }
    let ends = matches!(list, [.., key, b'"'] if is_key_byte(*key) == 1);
    // The sum of a run fits in a byte, so a run is added up in bytes.
    let quotes = |run: &[u8]| run.iter().fold(0_u8, |sum, b| sum.wrapping_add(is(*b, b'"')));
    let quotes: usize = list.chunks(RUN).map(|run| usize::from(quotes(run))).sum();
    if odd == 0 && ends { Some(quotes / 2) } else { None }
}

/// Returns 1 if `byte` may be part of a key, or else 0: digits, dot and sign, and the slash between
/// them.
fn is_key_byte(byte: u8) -> u8 {
    u8::from(matches!(byte, b'-'..=b'9'))
}

/// The longest run whose count fits in a byte.
const RUN: usize = 255;
