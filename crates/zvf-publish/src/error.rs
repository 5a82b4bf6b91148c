//! Errors of publishing.

use std::io;
use std::path::PathBuf;

use zvf_error::{Error, quote};
use zvf_format::Class;

/// An error of publishing. It prints as one line without the class, which the layers above add, and without the message
/// of the operating system, which is its source.
///
/// ```
/// use zvf_publish::PublishError;
///
/// let error = PublishError::Changed { found: "nothing".into() };
/// assert_eq!(error.to_string(), "it changed while the command ran: found nothing");
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PublishError {
    /// The name is taken, and must not be replaced.
    #[error("{name} already exists")]
    Taken {
        /// The name.
        name: String,
    },
    /// Another process is changing the target.
    #[error(
        "another process is changing it (lock {}){}",
        .lock.file_name().unwrap_or_default().display(),
        if *.by_file { "; if that process is dead, remove the lock file" } else { "" }
    )]
    Busy {
        /// The lock.
        lock: PathBuf,
        /// Whether a lock file was used, whose owner could not be checked.
        by_file: bool,
    },
    /// The target changed since the beginning.
    #[error("it changed while the command ran: found {found}")]
    Changed {
        /// What exists there instead.
        found: String,
    },
    /// The path has no last component.
    #[error("path: expected a path that ends with a name, found {0:?}")]
    NoName(String),
    /// Another refusal: its class, and the sentence.
    #[error("{1}")]
    Refused(Class, String),
    /// A stop was requested before anything was visible.
    #[error("stopped before anything was published")]
    Cancelled,
    /// The target is or may be visible, and may not survive a power failure.
    #[error("it may be published, and may not survive a loss of power")]
    Unknown(#[source] io::Error),
    /// An error of the operating system about one file or folder.
    #[error("{path}: cannot be read or written")]
    IoAt {
        /// Its path below the folder, with `/` between names.
        path: String,
        /// The error.
        source: io::Error,
    },
    /// An error of the operating system.
    #[error("cannot read or write a file or folder")]
    Io(#[from] io::Error),
}

impl PublishError {
    /// Returns the error for a target that already exists.
    pub(crate) fn name_taken(target: &std::path::Path) -> Self {
        let name = target.file_name().unwrap_or(target.as_os_str());
        Self::Taken { name: name.display().to_string() }
    }

    /// Returns the error for something that must not be replaced.
    pub(crate) fn not_replaceable(expected: &str, found: &str) -> Self {
        Self::Refused(Class::InvalidArgument, format!("expected {expected}, found {found:?}"))
    }

    /// Returns a function for `map_err` that adds this path.
    pub(crate) fn with_path(path: &str) -> impl Fn(io::Error) -> Self + '_ {
        move |source| Self::IoAt { path: path.to_owned(), source }
    }
}

impl From<PublishError> for Error {
    fn from(error: PublishError) -> Self {
        let class = match error {
            PublishError::Io(source) => return Self::io("write", source),
            PublishError::IoAt { path, source } => return Self::io("write", source).at_key(path),
            PublishError::Unknown(source) => {
                return Self::io("publish", source).with_class(Class::CommitUnknown);
            }
            PublishError::Taken { .. } => {
                return Self::custom(Class::AlreadyExists, error.to_string()).with_op("publish");
            }
            PublishError::NoName(found) => {
                let rule = "a path that ends with a name";
                return Self::new(Class::InvalidArgument, "path", rule, quote(&found));
            }
            PublishError::Busy { .. } | PublishError::Changed { .. } => Class::Conflict,
            PublishError::Cancelled => Class::Cancelled,
            PublishError::Refused(class, _) => class,
        };
        Self::custom(class, format!("store: {error}")).with_op("publish").with_said_cause(error)
    }
}
