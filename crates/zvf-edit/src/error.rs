//! The error type of edits, with the class that determines the exit code of the command.

use std::error::Error;
use std::fmt::Display;
use std::io;
use std::sync::Arc;

use zvf_error::{error_text, io_class};
use zvf_format::{Class, FormatError};
use zvf_metadata::MetadataError;
use zvf_publish::PublishError;

/// The error of an edit.
///
/// Where it wraps another error, the message contains the text of that error, [`cause`](Self::cause) is that error, and
/// [`source`](Error::source) is its source.
///
/// ```
/// use std::error::Error as _;
/// use std::io;
///
/// use zvf_edit::EditError;
///
/// let full = io::Error::new(io::ErrorKind::StorageFull, "the disk is full");
/// let error = EditError::from(full);
/// assert_eq!(error.to_string(), "NoSpace: the disk is full");
/// assert!(error.cause().is_some_and(|cause| cause.is::<io::Error>()));
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EditError {
    /// The class of the error.
    pub class: Class,
    /// The message in one line: what, where, expected, found, and what to do.
    pub message: String,
    /// The line of the script, from 1.
    pub line: Option<u64>,
    /// The operation on that line.
    pub op: Option<String>,
    /// The conflicting items of a conflict.
    pub conflicts: Vec<String>,
    cause: Option<Arc<dyn Error + Send + Sync>>,
}

/// Compares all fields but the cause.
impl PartialEq for EditError {
    fn eq(&self, other: &Self) -> bool {
        let Self { class, message, line, op, conflicts, cause: _ } = self;
        (class, message, line, op, conflicts)
            == (&other.class, &other.message, &other.line, &other.op, &other.conflicts)
    }
}

impl Eq for EditError {}

/// The result of an edit.
pub(crate) type Result<T, E = EditError> = std::result::Result<T, E>;

/// Places of errors.
pub(crate) trait At<T> {
    /// Puts an array or file in front of the message of an error.
    fn at(self, place: &str) -> Result<T>;
}

impl<T, E: Into<EditError>> At<T> for Result<T, E> {
    fn at(self, place: &str) -> Result<T> {
        self.map_err(|error| error.into().with_place(place))
    }
}

/// Turns an absent value into an error.
pub(crate) trait OrFail<T>: Sized {
    /// Fails with an error of a class without a value.
    fn or_fail(self, class: Class, text: impl FnOnce() -> String) -> Result<T>;

    /// Refuses an argument without a value.
    fn or_refused(self, text: impl FnOnce() -> String) -> Result<T> {
        self.or_fail(Class::InvalidArgument, text)
    }

    /// Refuses what this build does not support without a value.
    fn or_unsupported(self, text: impl FnOnce() -> String) -> Result<T> {
        self.or_fail(Class::Unsupported, text)
    }
}

impl<T> OrFail<T> for Option<T> {
    fn or_fail(self, class: Class, text: impl FnOnce() -> String) -> Result<T> {
        self.ok_or_else(|| EditError::new(class, text()))
    }
}

/// Fails with an error of a class.
pub(crate) fn fail<T>(class: Class, text: impl Into<String>) -> Result<T> {
    Err(EditError::new(class, text))
}

/// Refuses what this build does not support.
pub(crate) fn unsupported<T>(text: impl Into<String>) -> Result<T> {
    Err(EditError::unsupported(text))
}

/// Refuses an argument.
pub(crate) fn refused<T>(text: impl Into<String>) -> Result<T> {
    Err(EditError::invalid(text))
}

/// Refuses an argument where `is_wrong`.
pub(crate) fn refuse_if(is_wrong: bool, text: &str) -> Result<()> {
    if is_wrong { refused(text) } else { Ok(()) }
}

impl EditError {
    /// Creates an error of a class.
    pub fn new(class: Class, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { class, message, line: None, op: None, conflicts: Vec::new(), cause: None }
    }

    /// Returns the error with `cause`, whose text the message contains.
    #[must_use]
    pub fn with_cause(self, cause: impl Error + Send + Sync + 'static) -> Self {
        Self { cause: Some(Arc::new(cause)), ..self }
    }

    /// Returns the error that this one wraps.
    pub fn cause(&self) -> Option<&(dyn Error + Send + Sync + 'static)> {
        self.cause.as_deref()
    }

    /// Creates an error for an invalid argument.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(Class::InvalidArgument, message)
    }

    /// Creates an error for something that this build does not support.
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::new(Class::Unsupported, message)
    }

    /// Creates an error for an expectation of a script that does not hold.
    pub fn expectation(message: impl Into<String>) -> Self {
        Self::new(Class::ExpectationFailed, message)
    }

    /// Creates an error for items that another writer changed as well.
    pub fn conflict(message: impl Into<String>, conflicts: Vec<String>) -> Self {
        Self { conflicts, ..Self::new(Class::Conflict, message) }
    }

    /// Returns the message with the line of the script, but without the class.
    pub fn text(&self) -> String {
        let mut text = self.line.map_or_else(String::new, |line| format!("line {line}"));
        text.extend(self.op.iter().map(|op| format!(" ({op})")));
        text.extend([if text.is_empty() { "" } else { ": " }, &self.message]);
        if !self.conflicts.is_empty() {
            text.push_str(&format!(" [{}]", self.conflicts.join(", ")));
        }
        text
    }

    /// Returns the error as reports contain it.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        serde_json::json!({
            "line": self.line, "op": self.op, "class": self.class.name(), "message": self.message,
            "conflicts": self.conflicts,
        })
    }

    /// Returns the error with the line of the script, unless it has one.
    #[must_use]
    pub fn with_line(mut self, line: u64, op: Option<&str>) -> Self {
        if self.line.is_none() {
            self.line = Some(line);
            self.op = op.map(str::to_owned);
        }
        self
    }

    /// Returns the error with an array or file in front of the message.
    #[must_use]
    pub fn with_place(mut self, place: &str) -> Self {
        self.message = format!("{place}: {}", self.message);
        self
    }
}

impl Display for EditError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.class, self.text())
    }
}

impl Error for EditError {
    /// Returns the source of the wrapped error, whose own text is in the message.
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.cause.as_deref()?.source()
    }
}

impl From<EditError> for zvf_error::Error {
    fn from(error: EditError) -> Self {
        Self::from_line(error.class, error.to_string()).with_op("edit").with_said_cause(error)
    }
}

impl From<FormatError> for EditError {
    fn from(error: FormatError) -> Self {
        Self::new(error.class, zvf_error::Error::from(error).message()).with_cause(error)
    }
}

impl From<MetadataError> for EditError {
    fn from(error: MetadataError) -> Self {
        Self::new(error.class(), error.to_string()).with_cause(error)
    }
}

impl From<zvf_error::Error> for EditError {
    fn from(error: zvf_error::Error) -> Self {
        Self::new(error.class(), error.message()).with_cause(error)
    }
}

impl From<PublishError> for EditError {
    fn from(error: PublishError) -> Self {
        zvf_error::Error::from(error).into()
    }
}

impl From<serde_json::Error> for EditError {
    fn from(error: serde_json::Error) -> Self {
        Self::new(Class::Encoding, error.to_string()).with_cause(error)
    }
}

/// Creates an error for a key that was changed without the journal.
pub(crate) fn foreign_change_error(key: &str) -> EditError {
    EditError::conflict(
        format!(
            "{key} is not what the last commit wrote: something that does not know the journal changed the store; look at it, then edit with --accept-foreign to go on from what is there"
        ),
        vec![format!("foreign:{key}")],
    )
}

/// Returns the error of a column that has no value for absent, and is not among the `given` ones.
pub(crate) fn missing_value_error(given: &str, name: &str, ty: &str) -> EditError {
    EditError::invalid(format!("{given}: column {name:?} of type {ty} must be given"))
}

/// Returns the error of a column that the things named do not have.
pub(crate) fn missing_column_error(things: impl Display, name: &str) -> EditError {
    EditError::invalid(format!("{things} have no column {name:?}"))
}

/// Returns the error of a commit that is not there.
pub(crate) fn missing_commit_error(head: u64, last: u64) -> EditError {
    let text = format!("there is no commit {head}; the last is {last}");
    EditError::new(Class::NotFound, text)
}

/// Creates an error for a journal whose store was replaced.
pub(crate) fn replaced_store_error(name: &str) -> EditError {
    let text = format!(
        "{name} does not say that it has a journal, but {name}.zvf is there: the store was replaced by something that does not know journals; move {name}.zvf away to begin a new history"
    );
    EditError::new(Class::Conflict, text)
}

impl From<io::Error> for EditError {
    fn from(error: io::Error) -> Self {
        Self::new(io_class(error.kind()), error_text(&error)).with_cause(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Refused(io::Error);

    impl Display for Refused {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("the server refuses")
        }
    }

    impl Error for Refused {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&self.0)
        }
    }

    #[test]
    fn causes_are_linked_once() {
        let deepest = io::Error::other("the key has expired");
        let error = EditError::from(io::Error::other(Refused(deepest))).with_place("0/vertices");
        let error = error.with_line(3, Some("move"));
        assert_eq!(error.to_string(), "Io: line 3 (move): 0/vertices: the server refuses");
        let (mut chain, mut next) = (Vec::new(), error.source());
        while let Some(cause) = next {
            chain.push(cause.to_string());
            next = cause.source();
        }
        assert_eq!(chain, ["the key has expired"]);
        assert!(error.cause().is_some_and(|cause| cause.is::<io::Error>()));
    }

    #[test]
    fn wraps_store_errors_unchanged() {
        let inside = zvf_error::Error::io("read", io::ErrorKind::NotFound.into());
        let message = inside.message();
        let error = EditError::from(inside);
        assert_eq!(error.message, message);
        assert!(error.cause().is_some_and(|cause| cause.is::<zvf_error::Error>()));
        assert_eq!(error, EditError::new(error.class, message));
        assert_ne!(error, EditError::new(error.class, "other words"));
    }
}
