//! Errors between a level and a coarser one.
//!
//! What the store, the level or the writer has to say is passed on as it is; of our own there is only a
//! setting that means nothing, and a store that cannot have such levels.

use std::fmt::Display;

use zvf_error::Error;
use zvf_format::Class;

/// Returns the error for a setting that means nothing, or nothing for this store.
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

/// Returns the error for numbers that the steps of a build gave each other and that do not go together: a fault of this
/// program, found before anything is published.
pub(crate) fn inconsistent_error(
    what: &'static str,
    expected: impl Display,
    found: impl Display,
) -> Error {
    let error = Error::new(Class::CountMismatch, what, expected, found);
    error.with_op("write").with_hint("nothing was changed")
}
