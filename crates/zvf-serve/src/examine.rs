//! What the server makes of the bytes of a request before it looks at any store: for the search of inputs that break it.

use crate::head::scan_head;
use crate::limits::Limits;
use crate::question::{parse_body, parse_question};
use crate::target::{check_key, parse_fields, parse_path};

/// The segments of the path of a request, if the server would look at it.
#[doc(hidden)]
#[must_use]
pub fn examine_request(bytes: &[u8]) -> Option<Vec<String>> {
    let limits = Limits::default();
    let head = scan_head(bytes, 0, &limits).ok()??;
    let line = bytes.get(..head.bytes)?.split(|byte| *byte == b'\r').next()?;
    let target = std::str::from_utf8(line).ok()?.split(' ').nth(1)?;
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let segments = parse_path(path).ok()?;
    let fields = parse_fields(query, limits.max_query_fields).ok()?;
    // A question that is refused is an answer too.
    let _asked = parse_question(fields, limits.max_rows, &[]);
    let names: Vec<&str> = segments.iter().map(String::as_str).collect();
    check_key(&names, &[]).ok()?;
    Some(segments)
}

/// Whether a body is a question that the server would ask.
#[doc(hidden)]
#[must_use]
pub fn examine_body(bytes: &[u8]) -> bool {
    let limits = Limits::default();
    let fields = parse_body(bytes).ok().filter(|fields| fields.len() <= limits.max_query_fields);
    fields.is_some_and(|fields| parse_question(fields, limits.max_rows, &["format"]).is_ok())
}
