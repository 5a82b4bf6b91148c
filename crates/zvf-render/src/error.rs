//! Errors that only rendering creates: invalid settings, and output that cannot be written.

use std::fmt::Display;
use std::io;

use zvf_error::Error;
use zvf_format::Class;

/// Returns the error for an invalid setting.
pub(crate) fn setting_error(
    what: &'static str,
    expected: impl Display,
    found: impl Display,
) -> Error {
    Error::new(Class::InvalidArgument, what, expected, found).with_op("render")
}

/// Returns the error for a picture that could not be written.
pub(crate) fn write_error(cause: io::Error) -> Error {
    Error::custom(Class::Io, "the picture cannot be written").with_op("render").because(cause)
}
