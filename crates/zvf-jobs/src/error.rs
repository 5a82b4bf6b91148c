//! Errors that only this crate creates. All are the error type of the crates below, which prints
//! one line: what, where, expected, found, and what to do.
//!
//! Not here: how a command prints an error and exits.

use std::fmt::Display;

use zvf_error::{Error, quote};
use zvf_format::Class;

/// Returns the error for an invalid request.
pub(crate) fn bad_request_error(what: &'static str, expected: impl Display, found: &str) -> Error {
    Error::new(Class::InvalidArgument, what, expected, quote(found)).with_op("name")
}

/// Returns the error for work that its progress callback stopped.
pub(crate) fn stopped_error() -> Error {
    Error::custom(Class::Cancelled, "stopped")
}

/// Returns the error for two files of one input with different columns.
pub(crate) fn other_columns_error(expected: &str, found: &str) -> Error {
    let error = Error::new(Class::InvalidArgument, "the input", expected, found);
    error.with_op("convert").with_hint("state the types of columns that were guessed")
}

/// Returns the error for a vertex with a coordinate that is not finite.
pub(crate) fn not_finite_error(vertex: u64, found: &str) -> Error {
    let (what, expected) = (format!("vertex {vertex}"), "finite coordinates");
    Error::new(Class::InvalidArgument, what, expected, found).with_op("convert")
}

/// Returns the error for a file whose number of vertices differs from that of the scan.
pub(crate) fn changed_count_error(file: &str, expected: u64, found: u64) -> Error {
    let expected = format!("{expected} vertices as before");
    Error::new(Class::FileChanged, file.to_owned(), expected, found).with_op("convert")
}

/// Returns the error for a file that changed since the plan.
pub(crate) fn changed_file_error(file: &str) -> Error {
    let expected = "the file as it was planned";
    let error = Error::new(Class::FileChanged, file.to_owned(), expected, "another");
    error.with_op("convert").with_hint("plan again")
}
