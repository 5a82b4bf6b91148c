//! Why a command line failed.

use zvf::format::Class;

/// Why a command line failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The kind of fault.
    pub class: Class,
    /// The line that the command prints on standard error.
    pub message: String,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}
