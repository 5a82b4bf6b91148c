//! Why something could not be published.

use std::io;
use std::path::PathBuf;

/// A fault of publishing. Displayed, it is one line without the class, which the layers above have names for, and without
/// what the operating system says: that is its source.
///
/// ```
/// use zvf_publish::PublishError;
///
/// let error = PublishError::NameTooLong { found: 252 };
/// assert_eq!(error.to_string(), "name: expected at most 251 bytes, found 252");
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PublishError {
    /// Something has the name and is not to be replaced.
    #[error("expected a name that is free, or leave to replace what is there, found {found:?}")]
    Taken {
        /// What has it.
        found: &'static str,
    },
    /// What has the name is nothing that may be replaced.
    #[error("expected {expected}, found {found:?}")]
    NotReplaceable {
        /// What may be replaced.
        expected: String,
        /// What is there.
        found: String,
    },
    /// Another process is changing the target.
    #[error(
        "expected nobody else at work on it, found another process that changes it (lock {}){}",
        .lock.file_name().unwrap_or_default().display(),
        if *.by_file { "; if that process is dead, remove the lock file" } else { "" }
    )]
    Busy {
        /// The lock.
        lock: PathBuf,
        /// Whether a file stands for the lock, whose owner could not be looked for.
        by_file: bool,
    },
    /// The target is no longer what it was at the beginning.
    #[error("expected what was there at the beginning, found {found}")]
    Changed {
        /// What is there instead.
        found: String,
    },
    /// The target's name leaves no room for the names beside it.
    #[error("name: expected at most 251 bytes, found {found}")]
    NameTooLong {
        /// Its length.
        found: usize,
    },
    /// The path ends with no name.
    #[error("path: expected a path that ends with a name, found {0:?}")]
    NoName(String),
    /// The folder of the caller is on another file system than the target.
    #[error(
        "work folder: expected one on the file system of the target, found another file system"
    )]
    OtherDevice,
    /// Somebody asked to stop before anything was visible.
    #[error("stopped before anything was published")]
    Cancelled,
    /// It is visible, and whether it stays so after a loss of power is not known.
    #[error("it was published, and whether it stays after a loss of power is not known")]
    Unknown(#[source] io::Error),
    /// What the operating system says of one file or folder of what is published.
    #[error("{path}: it cannot be read or written")]
    IoAt {
        /// Its path below the folder, with `/` between names.
        path: String,
        /// What it says.
        source: io::Error,
    },
    /// What the operating system says.
    #[error("a file or folder cannot be read or written")]
    Io(#[from] io::Error),
}

impl PublishError {
    /// For `map_err`: the fault of what has this path.
    pub(crate) fn at(path: &str) -> impl Fn(io::Error) -> Self + '_ {
        move |source| Self::IoAt { path: path.to_owned(), source }
    }
}
