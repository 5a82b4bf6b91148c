//! Converts padded UTF-8 to padded UTF-32, the form in which NumPy stores fixed-length text.

/// Converts items of `size` bytes of padded UTF-8 to items of as many characters of padded UTF-32.
/// The error is the number of the first item that is not text.
pub(super) fn widen_text(items: &[u8], size: usize) -> Result<Vec<u8>, usize> {
    let mut out = Vec::with_capacity(items.len().saturating_mul(4)); // the caller compared it with the cap
    for (at, item) in items.chunks_exact(size.max(1)).enumerate() {
        let text = match item.iter().rposition(|byte| *byte != 0) {
            Some(last) => item.get(..=last),
            None => Some(&[][..]),
        };
        let text = text.and_then(|text| std::str::from_utf8(text).ok()).ok_or(at)?;
        let padded = text.chars().map(u32::from).chain(std::iter::repeat(0)).take(size);
        out.extend(padded.flat_map(u32::to_le_bytes));
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padded_bytes_become_padded_characters() {
        let wide = |text: &str, size: usize| {
            let mut wide: Vec<u8> = text.chars().flat_map(|c| u32::from(c).to_le_bytes()).collect();
            wide.resize(size * 4, 0);
            wide
        };
        for (items, size, expected) in [
            (&b""[..], 3, Ok(Vec::new())),
            (b"ab\0\0\0\0xyz", 3, Ok([wide("ab", 3), wide("", 3), wide("xyz", 3)].concat())),
            ("é\0".as_bytes(), 3, Ok(wide("é", 3))),
            (b"a\0b\0", 4, Ok(wide("a\0b", 4))),
            (b"ok\xff\0", 2, Err(1)),
        ] {
            assert_eq!(widen_text(items, size), expected, "{items:?}");
        }
    }
}
