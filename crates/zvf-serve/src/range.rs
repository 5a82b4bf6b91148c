//! The `Range` header: one range of bytes of a file of known length.

use std::ops::Range;

/// The requested part of a file.
#[derive(Debug, PartialEq)]
pub(crate) enum Ranged {
    /// The whole file: there is no such header, or its unit is not bytes.
    Whole,
    /// These bytes of it.
    Part(Range<u64>),
    /// Bytes beyond the file, or more than one range.
    Unsatisfiable,
}

/// Parses `header` for a file of `len` bytes. A malformed header is ignored, as HTTP requires.
pub(crate) fn parse_range(header: Option<&str>, len: u64) -> Ranged {
    let (unit, set) = header.and_then(|text| text.trim().split_once('=')).unwrap_or_default();
    if !unit.eq_ignore_ascii_case("bytes") {
        return Ranged::Whole;
    }
    if set.contains(',') {
        return Ranged::Unsatisfiable;
    }
    let Some((first, last)) = set.trim().split_once('-') else { return Ranged::Whole };
    let range = match (first, last) {
        ("", "") => return Ranged::Whole,
        ("", suffix) => parse_position(suffix).map(|suffix| len.saturating_sub(suffix)..len),
        (first, "") => parse_position(first).map(|first| first..len),
        (first, last) => match (parse_position(first), parse_position(last)) {
            (Some(first), Some(last)) if first > last => None,
            // The last byte may lie beyond the end of the file: HTTP truncates the range there.
            (Some(first), Some(last)) => Some(first..last.saturating_add(1).min(len)),
            _ => None,
        },
    };
    match range {
        None => Ranged::Whole,
        Some(range) if range.start < range.end => Ranged::Part(range),
        Some(_) => Ranged::Unsatisfiable,
    }
}

/// Parses a position of digits; values above `u64::MAX` are clamped, since no file is that long.
fn parse_position(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_a_single_range() {
        for (header, expected) in [
            ("bytes=0-9", Ranged::Part(0..10)),
            ("bytes=5-", Ranged::Part(5..100)),
            ("bytes=-3", Ranged::Part(97..100)),
            ("bytes=-300", Ranged::Part(0..100)),
            ("bytes=90-200", Ranged::Part(90..100)),
            ("bytes=99-99", Ranged::Part(99..100)),
            ("bytes=0-18446744073709551615", Ranged::Part(0..100)),
            ("bytes=0-99999999999999999999999", Ranged::Part(0..100)),
            ("bytes=100-", Ranged::Unsatisfiable),
            ("bytes=-0", Ranged::Unsatisfiable),
            ("bytes=99999999999999999999999-", Ranged::Unsatisfiable),
            ("bytes=0-1,3-4", Ranged::Unsatisfiable),
            ("bytes=9-0", Ranged::Whole),
            ("bytes=-", Ranged::Whole),
            ("bytes=a-b", Ranged::Whole),
            ("bytes=+1-2", Ranged::Whole),
            ("items=0-1", Ranged::Whole),
            ("bytes", Ranged::Whole),
        ] {
            assert_eq!(parse_range(Some(header), 100), expected, "{header}");
        }
        assert_eq!(parse_range(None, 100), Ranged::Whole);
        assert_eq!(parse_range(Some("bytes=0-"), 0), Ranged::Unsatisfiable);
    }
}
