//! Request targets: path segments that are safe as names, and the fields of the query string.
//!
//! A path is percent-decoded once and then split. Each segment must match `[A-Za-z0-9_.+-]{1,255}` (lists of ids also
//! have commas, and names of precomputed objects `@` and `:`, which no key of a file has) and be neither `.` nor `..`
//! nor begin with `.tmp-`; there are at most 32. Keys of files come only from this parser, so that no spelling of a
//! path leads out of a store.

use crate::limits::{MAX_PATH_SEGMENTS, MAX_SEGMENT_BYTES};
use crate::refusal::Refusal;

/// Returns the segments of a path; `/a/b/` has two.
pub(crate) fn parse_path(raw: &str) -> Result<Vec<String>, Refusal> {
    let decoded = decode(raw, false)?;
    let Some(relative) = decoded.strip_prefix('/') else {
        return Err(Refusal::bad_request("the path does not begin with a slash"));
    };
    let relative = relative.strip_suffix('/').unwrap_or(relative);
    if relative.is_empty() {
        return if decoded.len() <= 1 { Ok(Vec::new()) } else { Err(bad_segment("")) };
    }
    let mut segments = Vec::new();
    for segment in relative.split('/') {
        if segments.len() == MAX_PATH_SEGMENTS {
            let message = format!("the path has more than {MAX_PATH_SEGMENTS} segments");
            return Err(Refusal::bad_request(message));
        }
        if !is_safe_segment(segment) {
            return Err(bad_segment(segment));
        }
        segments.push(segment.to_owned());
    }
    Ok(segments)
}

/// Returns whether a segment is a safe name: not hidden, and without `..`.
pub(crate) fn is_safe_segment(segment: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_.+,@:-".contains(&byte);
    (1..=MAX_SEGMENT_BYTES).contains(&segment.len())
        && segment.bytes().all(allowed)
        && segment != "."
        && segment != ".."
        && !segment.starts_with(".tmp-")
}

/// Refuses segments that no file of a store has, unless their further characters are in `more`.
pub(crate) fn check_key(segments: &[&str], more: &[char]) -> Result<(), Refusal> {
    let is_strange = |c: char| [',', '@', ':'].contains(&c) && !more.contains(&c);
    match segments.iter().find(|segment| segment.contains(is_strange)) {
        Some(segment) => Err(bad_segment(segment)),
        None => Ok(()),
    }
}

fn bad_segment(segment: &str) -> Refusal {
    let shown: String = segment.chars().take(SHOWN_CHARS).flat_map(char::escape_default).collect();
    Refusal::new(
        hyper::StatusCode::BAD_REQUEST,
        "InvalidKey",
        format!("{shown:?} is not a segment of a path: use letters, digits and _ . + -"),
    )
}

/// Returns the fields of a query string, in order.
pub(crate) fn parse_fields(raw: &str, max_fields: usize) -> Result<Vec<(String, String)>, Refusal> {
    let mut fields = Vec::new();
    for part in raw.split('&').filter(|part| !part.is_empty()) {
        if fields.len() == max_fields {
            return Err(Refusal::bad_request(format!(
                "the query has more than {max_fields} fields"
            )));
        }
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        fields.push((decode(name, true)?, decode(value, true)?));
    }
    Ok(fields)
}

/// Percent-decodes once; with `plus_is_space`, as in query strings, `+` is a space.
fn decode(raw: &str, plus_is_space: bool) -> Result<String, Refusal> {
    let mut bytes = Vec::with_capacity(raw.len());
    let mut rest = raw.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digits = rest.next().and_then(hex_digit).zip(rest.next().and_then(hex_digit));
                let Some((high, low)) = digits else {
                    return Err(Refusal::bad_request(
                        "a % is not followed by two hexadecimal digits",
                    ));
                };
                high << 4 | low
            }
            b'+' if plus_is_space => b' ',
            byte => byte,
        });
    }
    String::from_utf8(bytes).map_err(|_error| Refusal::bad_request("the target is not UTF-8"))
}

fn hex_digit(byte: u8) -> Option<u8> {
    u8::try_from(char::from(byte).to_digit(16)?).ok()
}

/// The largest number of characters of a bad segment in a message.
const SHOWN_CHARS: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_paths_after_decoding_them_once() {
        assert_eq!(parse_path("/").unwrap(), Vec::<String>::new());
        assert_eq!(parse_path("/data/a/0/c/0").unwrap(), ["data", "a", "0", "c", "0"]);
        assert_eq!(parse_path("/data/a%2F0/").unwrap(), ["data", "a", "0"]);
        assert_eq!(parse_path("/a%2bb").unwrap(), ["a+b"]);
    }

    #[test]
    fn refuses_segments_that_leave_the_root() {
        let refused = "|a|//|/a//b|/..|/a/../b|/a/%2e%2e/b|/a/..%2fb|/.|/%2e|/a%00|/a%25b|/.tmp-1|\
            /a b|/a%|/a%2|/a%zz|/a\\b|/a%5cb|/%ff|/é|/~root|/a*|///";
        for raw in refused.split('|') {
            assert!(parse_path(raw).is_err(), "{raw}");
        }
        assert!(parse_path(&format!("/{}", "a".repeat(255))).is_ok());
        assert!(parse_path(&format!("/{}", "a".repeat(256))).is_err());
        assert!(parse_path(&"/a".repeat(32)).is_ok());
        assert!(parse_path(&"/a".repeat(33)).is_err());
    }

    #[test]
    fn keys_accept_listed_characters_only() {
        assert!(check_key(&["0", "c"], &[]).is_ok());
        for key in ["a,b", "a@b", "a:b"] {
            assert_eq!(check_key(&["0", key], &[]).unwrap_err().status, 400, "{key}");
        }
        assert!(check_key(&["7,9"], &[',']).is_ok());
        assert!(check_key(&["mesh@2", "7:0"], &['@', ':']).is_ok());
        assert!(check_key(&["mesh@2", "7,9"], &['@', ':']).is_err());
    }

    #[test]
    fn splits_fields_and_counts_them() {
        let fields = parse_fields("a=1&b=x%20y+z&c&&d=%3D", 4).unwrap();
        let expected = [("a", "1"), ("b", "x y z"), ("c", ""), ("d", "=")];
        assert_eq!(fields, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert!(parse_fields("a&b&c", 2).is_err());
        assert!(parse_fields("a=%f", 2).is_err());
    }
}
