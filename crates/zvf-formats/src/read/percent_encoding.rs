//! Percent-encoding, of URIs and of names in VTK files.

/// Decodes `%20` and similar sequences. A percent sign without two hexadecimal digits stays
/// unchanged.
pub fn decode_percent(text: &str) -> String {
    percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned()
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
