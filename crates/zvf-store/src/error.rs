//! Errors that only this layer creates: of backends, and of objects that change during a read.
//!
//! The lower crates know the byte; this layer adds the key. The error of a backend is the source and is not printed,
//! because it may hold addresses and secrets.
//!
//! Not here: the error itself (`zvf_error`), the classes, their exit codes and advice (`zvf_format::Class`).

use std::time::Duration;
use std::{fmt, io};

use zvf_error::{Error, Result};
use zvf_format::{Class, Expected};

/// Returns the error for a backend fault, classified by the layer that knows the backend.
pub(crate) fn backend_error(
    class: Class,
    op: &'static str,
    answer: BackendAnswer,
    source: object_store::Error,
) -> Error {
    Error::custom(class, answer.to_string()).with_op(op).with_class_hint().with_cause(source)
}

/// Faults of files, with what was being done.
pub(crate) trait WithOp<T> {
    fn with_op(self, op: &'static str) -> Result<T>;
}

impl<T> WithOp<T> for io::Result<T> {
    fn with_op(self, op: &'static str) -> Result<T> {
        self.map_err(|error| Error::io(op, error))
    }
}

/// Returns the error for no answer within `after`.
pub(crate) fn timeout_error(op: &'static str, what: &'static str, after: Duration) -> Error {
    Error::custom(Class::Timeout, format!("no {what} within {after:?}")).with_op(op)
}

/// Returns the same error for a request that may have been carried out.
pub(crate) fn commit_unknown_error(error: Error) -> Error {
    let text = "it is unknown whether the result was published: the store did not answer";
    Error::custom(Class::CommitUnknown, text).with_op("publish").with_cause(error)
}

/// Returns the underlying error of a request that may have been carried out, when nothing depends
/// on whether it was.
pub(crate) fn into_cause(error: Error) -> Error {
    error.cause_as::<Error>().cloned().unwrap_or(error)
}

/// Returns the error for a store that was replaced, when the rest of it cannot be trusted.
pub(crate) fn store_replaced_error() -> Error {
    let text =
        "the store was replaced while it was being read: open it again, or run the command again";
    Error::custom(Class::FileChanged, text)
}

/// Returns the error for a response of `found` bytes when `expected` were requested.
pub(crate) fn length_error(expected: u64, found: u64) -> Error {
    Error::new(Class::FileChanged, "reply", Expected::Bytes(expected), found)
}

/// The fault that a backend reported.
#[derive(Clone, Copy)]
pub(crate) enum BackendAnswer {
    /// An HTTP status.
    Status(u16),
    /// It refuses the request.
    Refusal,
    /// There is no bucket of that name.
    NoBucket,
    /// Its settings are inconsistent.
    #[cfg(feature = "_net")]
    Setup,
    /// The connection failed or broke.
    Connection,
    /// Something else, described by the source.
    Other,
}

impl fmt::Display for BackendAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status) => write!(f, "the store answered {status}"),
            Self::Refusal => f.write_str("the store refuses"),
            Self::NoBucket => f.write_str("the bucket or container does not exist"),
            #[cfg(feature = "_net")]
            Self::Setup => f.write_str("the settings of the store do not fit"),
            Self::Connection => f.write_str("the connection failed"),
            Self::Other => f.write_str("the store failed"),
        }
    }
}

/// The error for a commit that a store does not have; `head` is its last one, if it has a journal.
pub(crate) fn missing_commit_error(commit: u64, head: Option<u64>) -> Error {
    let found = match head {
        Some(head) => format!("its last one is {head}"),
        None => "it has no journal of commits".to_owned(),
    };
    Error::custom(Class::NotFound, format!("there is no commit {commit}: {found}"))
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;

    #[test]
    fn each_fault_is_one_line() {
        let backend = |class, answer| {
            let (operation, implementer) = ("x".into(), "y".into());
            let source = object_store::Error::NotImplemented { operation, implementer };
            backend_error(class, "list", answer, source)
        };
        let refused = || backend(Class::Throttled, BackendAnswer::Status(429));
        for (error, text, op, is_retryable) in [
            (
                Error::replaced(),
                "FileChanged, the object was replaced while it was being read",
                "read",
                false,
            ),
            (length_error(5, 4), "FileChanged, reply: expected 5 bytes, found 4", "read", false),
            (refused(), "Throttled, the store answered 429", "list", true),
            (
                backend(Class::Unavailable, BackendAnswer::Connection),
                "Unavailable, the connection failed",
                "list",
                true,
            ),
            (
                timeout_error("read", "first byte", Duration::from_secs(5)),
                "Timeout, no first byte within 5s",
                "read",
                true,
            ),
            (
                commit_unknown_error(refused()),
                "CommitUnknown, it is unknown whether the result was published: the store did not answer",
                "publish",
                false,
            ),
        ] {
            assert_eq!((error.to_string().as_str(), error.op()), (text, op));
            assert_eq!(error.is_retryable(), is_retryable, "{text}");
        }
        assert!(refused().source().is_some_and(|source| source.is::<object_store::Error>()));
        assert_eq!(into_cause(commit_unknown_error(refused())).class(), Class::Throttled);
        assert_eq!(into_cause(refused()).class(), Class::Throttled);
    }
}
