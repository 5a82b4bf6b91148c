//! Parsing of requests without any store, for fuzzing.

use hyper::Uri;

use crate::limits::Limits;
use crate::query_fields::{parse_body, parse_query};
use crate::target::{check_key, parse_fields, parse_path};

/// Returns the segments of the path of a request, if the server would accept it.
#[doc(hidden)]
pub fn examine_request(bytes: &[u8]) -> Option<Vec<String>> {
    let limits = Limits::default();
    let target = Uri::try_from(bytes.split(|byte| *byte == b' ').nth(1)?).ok()?;
    let segments = parse_path(target.path()).ok()?;
    let fields = parse_fields(target.query().unwrap_or_default(), limits.max_query_fields).ok()?;
    // A refused query is an answer too.
    let _asked = parse_query(fields, limits.max_rows, &[]);
    let names: Vec<&str> = segments.iter().map(String::as_str).collect();
    check_key(&names, &[]).ok()?;
    Some(segments)
}

/// Returns whether a body is a query that the server would run.
#[doc(hidden)]
pub fn examine_body(bytes: &[u8]) -> bool {
    let limits = Limits::default();
    let fields = parse_body(bytes).ok().filter(|fields| fields.len() <= limits.max_query_fields);
    fields.is_some_and(|fields| parse_query(fields, limits.max_rows, &["format"]).is_ok())
}
