//! What can go wrong with an edit: one type, with the class that the command's exit code follows from.

use std::io;

use zvf_format::{Class, Diagnose, Diagnosis, FormatError};
use zvf_store::StoreError;

/// Why an edit was not made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EditError {
    /// The kind of fault, by its stable name.
    pub class: Class,
    /// What, where, expected, found, and what to do; one line.
    pub message: String,
    /// The line of the script that is to blame, from 1.
    pub line: Option<u64>,
    /// The operation on that line.
    pub op: Option<String>,
    /// What collided, for a conflict.
    pub conflicts: Vec<String>,
}

/// The answer of everything here that can fail.
pub type Result<T> = std::result::Result<T, EditError>;

impl EditError {
    /// A fault of a class, in words.
    pub fn new(class: Class, message: impl Into<String>) -> Self {
        Self { class, message: message.into(), line: None, op: None, conflicts: Vec::new() }
    }

    /// A request that makes no sense.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(Class::InvalidArgument, message)
    }

    /// Something that this build does not do.
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::new(Class::Unsupported, message)
    }

    /// A check of the script that does not hold.
    pub fn expectation(message: impl Into<String>) -> Self {
        Self::new(Class::ExpectationFailed, message)
    }

    /// Another writer changed the same items.
    pub fn conflict(message: impl Into<String>, conflicts: Vec<String>) -> Self {
        Self { conflicts, ..Self::new(Class::Conflict, message) }
    }

    /// The fault as reports have it.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        serde_json::json!({
            "line": self.line, "op": self.op, "class": self.class.name(), "message": self.message,
            "conflicts": self.conflicts,
        })
    }

    /// The same fault, at a line of the script.
    #[must_use]
    pub fn at(mut self, line: u64, op: Option<&str>) -> Self {
        if self.line.is_none() {
            self.line = Some(line);
            self.op = op.map(str::to_owned);
        }
        self
    }

    /// The same fault, with the array or file it is in.
    #[must_use]
    pub fn with_place(mut self, place: &str) -> Self {
        self.message = format!("{place}: {}", self.message);
        self
    }
}

impl std::fmt::Display for EditError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.class)?;
        if let Some(line) = self.line {
            write!(f, " at line {line}")?;
        }
        if let Some(op) = &self.op {
            write!(f, " ({op})")?;
        }
        write!(f, ": {}", self.message)?;
        if !self.conflicts.is_empty() {
            write!(f, " [{}]", self.conflicts.join(", "))?;
        }
        Ok(())
    }
}

impl std::error::Error for EditError {}

impl Diagnose for EditError {
    fn diagnosis(&self) -> Diagnosis<'_> {
        Diagnosis::naming_class(self.class, "edit", self)
    }
}

impl From<FormatError> for EditError {
    fn from(error: FormatError) -> Self {
        Self::new(error.class, error.to_string())
    }
}

impl From<StoreError> for EditError {
    fn from(error: StoreError) -> Self {
        Self::new(error.class(), error.to_string())
    }
}

impl From<serde_json::Error> for EditError {
    fn from(error: serde_json::Error) -> Self {
        Self::new(Class::Encoding, error.to_string())
    }
}

/// The class of a fault of the operating system.
pub(crate) fn io_class(error: &io::Error) -> Class {
    use io::ErrorKind;
    let known = [
        (ErrorKind::NotFound, Class::NotFound),
        (ErrorKind::AlreadyExists, Class::AlreadyExists),
        (ErrorKind::PermissionDenied, Class::PermissionDenied),
        (ErrorKind::ReadOnlyFilesystem, Class::PermissionDenied),
        (ErrorKind::StorageFull, Class::NoSpace),
        (ErrorKind::QuotaExceeded, Class::NoSpace),
    ];
    let found = known.into_iter().find(|(kind, _)| *kind == error.kind());
    found.map_or(Class::Io, |(_, class)| class)
}

impl From<io::Error> for EditError {
    fn from(error: io::Error) -> Self {
        Self::new(io_class(&error), error.to_string())
    }
}
