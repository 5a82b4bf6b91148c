//! Why a command line failed.

use zvf::format::Class;

/// Why a command line failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// The kind of fault.
    pub class: Class,
    /// The line that the command prints on standard error.
    pub message: String,
}

impl Failure {
    /// Creates the error for invalid arguments.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { class: Class::InvalidArgument, message: message.into() }
    }
}
