//! Lists of keys as writers print them, judged without walking through them value by value.
//!
//! ```text
//! ["0.0", "0.1",\n "10.0"     digits, dots and signs between quotes, a comma after each
//! ```
//!
//! Such a list is well-formed JSON once `]` follows. Documents that list every cell are megabytes of it.

/// Counts the keys in `list`, when it is a bracket and then nothing but keys as they are printed.
///
/// Every byte is judged by those beside it, and all of them without a jump, so that the compiler
/// judges many at once. By induction from the bracket: a quote after a gap opens, what follows is
/// the key, the quote after it closes, and what follows that is a comma.
#[must_use]
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
    // Runs whose sum fits a byte are added up as bytes.
    let quotes = |run: &[u8]| run.iter().fold(0_u8, |sum, b| sum.wrapping_add(is(*b, b'"')));
    let quotes: usize = list.chunks(RUN).map(|run| usize::from(quotes(run))).sum();
    if odd == 0 && ends { Some(quotes / 2) } else { None }
}

/// Returns whether `byte` may be part of a key, 1 or 0: digits, dot and sign, and the slash between them.
fn is_key_byte(byte: u8) -> u8 {
    u8::from(matches!(byte, b'-'..=b'9'))
}

/// Bytes of which a count fits one.
const RUN: usize = 255;
