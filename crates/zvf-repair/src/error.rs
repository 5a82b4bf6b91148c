//! Errors specific to repair.

use std::fmt::Display;
use std::io;

use zvf_error::Error;
use zvf_format::Class;

/// Returns the error for an object that changed since the plan was made.
pub(crate) fn changed_error(path: impl Display) -> Error {
    refuse(Class::Conflict, "it changed after the repairs were planned").at_key(path)
}

/// Returns the error for a backend without conditional replacement.
pub(crate) fn no_conditional_put_error(path: impl Display) -> Error {
    refuse(Class::Unsupported, "the backend does not replace objects conditionally").at_key(path)
}

/// Returns the error for a store with a journal, which a repair would bypass.
pub(crate) fn has_journal_error() -> Error {
    let text = "the store has a journal: repair it by \"zvf repair\", which commits what it does";
    refuse(Class::InvalidArgument, text)
}

/// Returns the error for a store without a sibling path.
pub(crate) fn nothing_beside_error() -> Error {
    let text = "a store that is a whole bucket has no place next to it for the replaced objects";
    refuse(Class::InvalidArgument, text)
}

/// Returns the error for a file that could not be read or written.
pub(crate) fn io_error(path: &str) -> impl FnOnce(io::Error) -> Error {
    move |cause| refuse(Class::Io, "the file cannot be read or written").because(cause).at_key(path)
}

fn refuse(class: Class, text: &'static str) -> Error {
    Error::custom(class, text).with_op("repair")
}
