//! Percent-encoding, of URIs and of names in VTK files.

/// Decodes `%20` and similar sequences. A percent sign without two hexadecimal digits stays
/// unchanged.
pub fn decode_percent(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let digits =
            after.get(..2).filter(|two| *first == b'%' && two.iter().all(u8::is_ascii_hexdigit));
        let digits = digits.and_then(|two| std::str::from_utf8(two).ok());
        let code = digits.and_then(|two| u8::from_str_radix(two, 16).ok());
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decodes_two_hexadecimal_digits() {
        for (text, expected) in [
            ("two%20words%C3%A4", "two words\u{e4}"),
            ("100%", "100%"),
            ("%2", "%2"),
            ("%zz%41", "%zzA"),
            ("%\u{e4}x", "%\u{e4}x"),
            ("%+1", "%+1"),
        ] {
            assert_eq!(decode_percent(text), expected);
        }
    }
}
