//! Errors of building coarser levels.
//!
//! Errors of the store, a level or the writer are passed on unchanged. The only errors of this
//! crate are invalid settings, stores that cannot have such levels, and inconsistencies.

use std::fmt::Display;

use zvf_error::Error;
use zvf_format::Class;

/// Returns the error for a setting that is invalid, in general or for this store.
pub(crate) fn setting_error(
    what: &'static str,
    expected: impl Display,
    found: impl Display,
) -> Error {
    Error::new(Class::InvalidArgument, what, expected, found).with_op("write")
}

/// Returns the error for a store that cannot have such levels.
pub(crate) fn unsupported_error(
    what: &'static str,
    expected: impl Display,
    found: impl Display,
) -> Error {
    Error::new(Class::Unsupported, what, expected, found).with_op("write")
}

/// Returns the error for contradictory numbers from different steps of a build: a bug in this
/// program, found before anything is published.
pub(crate) fn inconsistent_error(
    what: &'static str,
    expected: impl Display,
    found: impl Display,
) -> Error {
    let error = Error::new(Class::CountMismatch, what, expected, found);
    error.with_op("write").with_hint("nothing was changed")
}
