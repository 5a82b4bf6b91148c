//! The head of a request as bytes, checked before the HTTP layer reads it.
//!
//! ```text
//! METHOD SP TARGET SP HTTP/1.1 CRLF        the line: at most 8 KiB, a target of visible ASCII without a fragment
//! NAME ":" VALUE CRLF ...  CRLF            the headers: at most 16 KiB and 64; no folded lines, no space before the colon
//! ```
//!
//! Servers and proxies that parse the same bytes differently can disagree about where a request ends (request
//! smuggling). So there is one interpretation here: lines end with CR LF, at most one length is stated, and transfer
//! encodings are refused. Accepted heads are well-formed for the layer above, and the length of the body is known
//! ([`Head::body_bytes`]).
//!
//! Timeouts and refusals on the wire are in [`crate::stream`], access control in [`crate::access`].

use hyper::StatusCode;

use crate::limits::Limits;
use crate::refusal::Refusal;

/// A complete, well-formed head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// Its length in bytes, including the empty line.
    pub(crate) bytes: usize,
    /// The length of the body in bytes.
    pub(crate) body_bytes: u64,
}

impl Head {
    /// Returns the length of head and body in bytes.
    pub(crate) const fn request_bytes(self) -> u64 {
        self.body_bytes.saturating_add(self.bytes as u64) // the body is limited, but maybe by the largest number
    }
}

/// Searches a head at the start of `bytes`; the first `scanned` bytes were scanned before.
///
/// Returns `None` while the head is incomplete.
pub(crate) fn scan_head(
    bytes: &[u8],
    scanned: usize,
    limits: &Limits,
) -> Result<Option<Head>, Refusal> {
    if bytes.first().is_some_and(|first| !is_token(*first)) {
        return Err(refuse_malformed("the request does not begin with a method"));
    }
    let from = scanned.saturating_sub(END.len());
    check_line_ends(bytes, from)?;
    let line = find(bytes, b"\r\n", 0);
    if line.unwrap_or(bytes.len()) > limits.max_request_line_bytes {
        let status = StatusCode::URI_TOO_LONG;
        return Err(Refusal::new(status, "LimitExceeded", "the request line is too long"));
    }
    let Some(line) = line else { return Ok(None) };
    let end = find(bytes, END, from.max(line));
    // None where the empty line follows at once, or nothing came after the request line.
    let header_bytes = end.unwrap_or(bytes.len()).saturating_sub(line + 2);
    if header_bytes > limits.max_header_bytes {
        return Err(too_many_headers());
    }
    let Some(end) = end else { return Ok(None) };
    let is_old = check_request_line(bytes.get(..line).unwrap_or_default())?;
    let headers = bytes.get(line + 2..end).unwrap_or_default();
    let body_bytes = check_headers(headers, is_old, limits)?;
    Ok(Some(Head { bytes: end + END.len(), body_bytes }))
}

/// Checks that every line ends with CR LF, and that neither occurs alone.
fn check_line_ends(bytes: &[u8], from: usize) -> Result<(), Refusal> {
    for (at, byte) in bytes.iter().enumerate().skip(from) {
        let is_alone = match byte {
            b'\n' => at == 0 || bytes.get(at - 1) != Some(&b'\r'),
            b'\r' => bytes.get(at + 1).is_some_and(|next| *next != b'\n'),
            0 => true,
            _ => false,
        };
        if is_alone {
            return Err(refuse_malformed("lines of a head end with CR LF"));
        }
        if bytes.get(..=at).is_some_and(|head| head.ends_with(END)) {
            break; // the body follows
        }
    }
    Ok(())
}

/// Checks method, target and version; returns whether the version has no persistent connections.
fn check_request_line(line: &[u8]) -> Result<bool, Refusal> {
    let mut words = line.split(|byte| *byte == b' ');
    let (Some(method), Some(target), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(refuse_malformed("a request line is a method, a target and a version"));
    };
    if method.is_empty() || !method.iter().copied().all(is_token) {
        return Err(refuse_malformed("the method is not a word"));
    }
    let is_visible = |byte: &u8| byte.is_ascii_graphic() && !b"\"#<>`".contains(byte);
    if target.is_empty() || !target.iter().all(is_visible) {
        return Err(refuse_malformed("a target is visible ASCII without a fragment"));
    }
    let is_absolute = target.starts_with(b"http://") || target.starts_with(b"https://");
    if !(target.starts_with(b"/") || is_absolute || target == b"*" || method == b"CONNECT") {
        return Err(refuse_malformed("a target is a path that begins with a slash"));
    }
    match version {
        b"HTTP/1.1" => Ok(false),
        b"HTTP/1.0" => Ok(true),
        [b'H', b'T', b'T', b'P', b'/', major, b'.', minor]
            if major.is_ascii_digit() && minor.is_ascii_digit() =>
        {
            let status = StatusCode::HTTP_VERSION_NOT_SUPPORTED;
            Err(Refusal::new(status, "Unsupported", "this server speaks HTTP/1.1"))
        }
        _ => Err(refuse_malformed("the version is not one of HTTP")),
    }
}

/// Checks names, values and their number; returns the length of the body.
fn check_headers(headers: &[u8], is_old: bool, limits: &Limits) -> Result<u64, Refusal> {
    let (mut count, mut length, mut is_coded) = (0_usize, None, false);
    let mut hosts = 0_usize;
    let lines = headers.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    for line in lines {
        count += 1;
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let Some(colon) = line.iter().position(|byte| *byte == b':') else {
            return Err(refuse_malformed("a header has no colon"));
        };
        let (name, value) = (line.get(..colon).unwrap_or_default(), line.get(colon + 1..));
        let value = value.unwrap_or_default().trim_ascii();
        if name.is_empty() || !name.iter().copied().all(is_token) {
            return Err(refuse_malformed(
                "the name of a header is not a word, or a header is folded",
            ));
        }
        if value.iter().any(|byte| byte.is_ascii_control() && *byte != b'\t') {
            return Err(refuse_malformed("a header holds a control character"));
        }
        if name.eq_ignore_ascii_case(b"content-length") {
            let stated = parse_length(value)?;
            if length.replace(stated).is_some() {
                return Err(refuse_malformed("the length of the body is stated twice"));
            }
        }
        is_coded |= name.eq_ignore_ascii_case(b"transfer-encoding");
        hosts += usize::from(name.eq_ignore_ascii_case(b"host"));
    }
    if count > limits.max_headers {
        return Err(too_many_headers());
    }
    if hosts > 1 || (hosts == 0 && !is_old) {
        return Err(refuse_malformed("a request names one host"));
    }
    match (is_coded, length) {
        (true, Some(_)) => Err(refuse_malformed("a length and a coded transfer are stated")),
        (true, None) => {
            let status = StatusCode::LENGTH_REQUIRED;
            Err(Refusal::new(status, "InvalidArgument", "a body must state its length"))
        }
        (false, Some(length)) if length > limits.max_body_bytes as u64 => {
            Err(Refusal::too_large("the body is too large"))
        }
        (false, length) => Ok(length.unwrap_or(0)),
    }
}

fn parse_length(value: &[u8]) -> Result<u64, Refusal> {
    let digits = std::str::from_utf8(value).ok();
    let digits = digits.filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let length = digits.and_then(|text| text.parse().ok());
    length.ok_or_else(|| refuse_malformed("the length of the body is not a number"))
}

fn refuse_malformed(message: &str) -> Refusal {
    Refusal::bad_request(message)
}

fn too_many_headers() -> Refusal {
    let status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
    Refusal::new(status, "LimitExceeded", "the headers are too large or too many")
}

/// Returns whether a byte may occur in a method or in the name of a header.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

fn find(bytes: &[u8], pattern: &[u8], from: usize) -> Option<usize> {
    let rest = bytes.get(from..)?;
    rest.windows(pattern.len()).position(|window| window == pattern).map(|at| at + from)
}

/// The end of a head.
const END: &[u8] = b"\r\n\r\n";

#[cfg(test)]
mod tests {
    use super::*;

    fn scan(bytes: &[u8]) -> Result<Option<Head>, u16> {
        scan_head(bytes, 0, &Limits::default()).map_err(|refusal| refusal.status.as_u16())
    }

    #[test]
    fn finds_the_end_of_a_head() {
        let head = b"POST /api/a/query HTTP/1.1\r\nHost: a\r\nContent-Length: 12\r\n\r\n";
        let with_body = [&head[..], b"\n\0 anything"].concat();
        let expected = Head { bytes: head.len(), body_bytes: 12 };
        assert_eq!(scan(&with_body), Ok(Some(expected)));
        for end in 1..head.len() {
            assert_eq!(scan(&head[..end]), Ok(None), "{end} bytes");
            assert_eq!(
                scan_head(head, end, &Limits::default()).unwrap(),
                Some(expected),
                "after {end}"
            );
        }
        assert_eq!(scan(b"").unwrap(), None);
        assert!(scan(b"GET / HTTP/1.0\r\n\r\n").unwrap().is_some());
    }

    #[test]
    fn refuses_ambiguous_heads() {
        for (head, status) in [
            ("GET / HTTP/1.1\nHost: a\n\n", 400),
            ("GET / HTTP/1.1\r\nHost: a\r\n Folded: 1\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nHost: a\rb: c\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nHost: a\x01\r\n\r\n", 400),
            ("GET  / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
            ("GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", 400),
            ("GET /?a=\" HTTP/1.1\r\nHost: a\r\n\r\n", 400),
            ("GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n", 400),
            ("GET /a<b HTTP/1.1\r\nHost: a\r\n\r\n", 400),
            ("GET /\u{e9} HTTP/1.1\r\nHost: a\r\n\r\n", 400),
            ("GET /\r\n\r\n", 400),
            ("GET a HTTP/1.1\r\nHost: a\r\n\r\n", 400),
            ("\x16\x03\x01", 400),
            ("G(T / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
            ("GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505),
            ("GET / HTTQ/1.1\r\nHost: a\r\n\r\n", 400),
            ("GET / http/1.1\r\nHost: a\r\n\r\n", 400),
        ] {
            assert_eq!(scan(head.as_bytes()), Err(status), "{head:?}");
        }
    }

    #[test]
    fn refuses_conflicting_lengths() {
        let scan_with = |headers: &str| {
            scan(format!("POST / HTTP/1.1\r\nHost: a\r\n{headers}\r\n\r\n").as_bytes())
        };
        for (headers, status) in [
            ("Content-Length: 1\r\nContent-Length: 1", 400),
            ("Content-Length: 1\r\nContent-Length: 2", 400),
            ("Content-Length: 1, 1", 400),
            ("Content-Length: +1", 400),
            ("Content-Length: -1", 400),
            ("Content-Length: ", 400),
            ("Content-Length: 0x1", 400),
            ("Content-Length: 99999999999999999999", 400),
            ("Content-Length: 18446744073709551615", 413),
            ("Content-Length: 1048577", 413),
            ("Content-Length: 1\r\nTransfer-Encoding: chunked", 400),
            ("Transfer-Encoding: chunked\r\ncontent-length: 1", 400),
            ("Transfer-Encoding: chunked", 411),
            ("Transfer-Encoding: x, chunked", 411),
        ] {
            assert_eq!(scan_with(headers), Err(status), "{headers:?}");
        }
    }

    #[test]
    fn limits_apply_before_the_end_of_a_head() {
        let limits = Limits::default();
        let status = |text: &str| scan(text.as_bytes()).err();
        assert_eq!(
            status(&format!("GET /{}", "a".repeat(limits.max_request_line_bytes))),
            Some(414)
        );
        let line = format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "a".repeat(9000));
        assert_eq!(status(&line), Some(414));
        let long_header =
            format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}", "a".repeat(limits.max_header_bytes));
        assert_eq!(status(&long_header), Some(431));
        let headers = "X: 1\r\n".repeat(limits.max_headers);
        assert_eq!(status(&format!("GET / HTTP/1.1\r\nHost: a\r\n{headers}\r\n")), Some(431));
    }
}
