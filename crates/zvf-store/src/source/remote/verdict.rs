//! The meaning of a backend's error: its class, and whether a retry may help.
//!
//! ```text
//! 401, 407         Unauthenticated        408, 504     Timeout, again
//! 403              PermissionDenied       429          Throttled, again, after the pause asked for
//! 404, 410         NotFound               501, 505     Unsupported
//! 412              FileChanged            507          NoSpace
//! 416              OutOfBounds            other 5xx    Unavailable, again
//! any other        InvalidArgument        no status    by the transport: again
//! ```
//!
//! A failure inside the transport (a reset, a cut body, a timeout) is transient. An unclassified
//! error is `Io`, and is also retried a few times, which is harmless because these requests only
//! read.

use std::error::Error;
use std::io::{self, ErrorKind};
use std::time::Duration;

use object_store::Error as StoreFault;
use zvf_format::Class;

use crate::error::BackendAnswer;

/// The classification of one error of a backend.
#[derive(Clone, Copy)]
pub(super) struct Verdict {
    pub(super) class: Class,
    pub(super) answer: BackendAnswer,
    /// Whether the same request may be retried.
    pub(super) again: bool,
    /// The pause before a retry that the store requests.
    pub(super) after: Option<Duration>,
}

impl Verdict {
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "the causes of the others say what they are"
    )]
    pub(super) fn classify(error: &StoreFault) -> Self {
        if is_missing_bucket(error) {
            return Self::permanent_error(Class::NotFound, BackendAnswer::NoBucket);
        }
        let class = match error {
            StoreFault::NotFound { .. } => Class::NotFound,
            StoreFault::PermissionDenied { .. } => Class::PermissionDenied,
            StoreFault::Unauthenticated { .. } => Class::Unauthenticated,
            StoreFault::Precondition { .. } | StoreFault::NotModified { .. } => Class::FileChanged,
            StoreFault::AlreadyExists { .. } => Class::AlreadyExists,
            StoreFault::NotSupported { .. } | StoreFault::NotImplemented { .. } => {
                Class::Unsupported
            }
            StoreFault::InvalidPath { .. } => Class::InvalidKey,
            StoreFault::UnknownConfigurationKey { .. } => Class::InvalidArgument,
            _ => return Self::from_cause(error),
        };
        Self::permanent_error(class, BackendAnswer::Refusal)
    }

    /// Classifies an error that its backend did not classify, by its causes.
    fn from_cause(error: &(dyn Error + 'static)) -> Self {
        let mut cause = Some(error);
        while let Some(error) = cause {
            #[cfg(feature = "_net")]
            if let Some(refusal) = error.downcast_ref::<super::refusal::Refusal>() {
                return Self { after: refusal.after, ..Self::from_status(refusal.status) };
            }
            #[cfg(feature = "_net")]
            if let Some(fault) = error.downcast_ref::<object_store::client::HttpError>() {
                // Our own refusals are wrapped in one of these.
                if !fault.source().is_some_and(<dyn Error>::is::<super::refusal::Refusal>) {
                    return Self::from_transport(fault.kind());
                }
            }
            if let Some(fault) = error.downcast_ref::<io::Error>() {
                return Self::from_io(fault);
            }
            cause = error.source();
        }
        match status_in(error) {
            Some(status) => Self::from_status(status),
            None => Self::transient_error(Class::Io, BackendAnswer::Other),
        }
    }

    fn from_status(status: u16) -> Self {
        let answer = BackendAnswer::Status(status);
        match status {
            401 | 407 => Self::permanent_error(Class::Unauthenticated, answer),
            403 => Self::permanent_error(Class::PermissionDenied, answer),
            404 | 410 => Self::permanent_error(Class::NotFound, answer),
            412 => Self::permanent_error(Class::FileChanged, answer),
            416 => Self::permanent_error(Class::OutOfBounds, answer),
            408 | 504 => Self::transient_error(Class::Timeout, answer),
            429 => Self::transient_error(Class::Throttled, answer),
            501 | 505 => Self::permanent_error(Class::Unsupported, answer),
            507 => Self::permanent_error(Class::NoSpace, answer),
            500..=599 => Self::transient_error(Class::Unavailable, answer),
            _ => Self::permanent_error(Class::InvalidArgument, answer),
        }
    }

    #[cfg(feature = "_net")]
    fn from_transport(kind: object_store::client::HttpErrorKind) -> Self {
        if matches!(kind, object_store::client::HttpErrorKind::Timeout) {
            Self::transient_error(Class::Timeout, BackendAnswer::Connection)
        } else {
            Self::transient_error(Class::Unavailable, BackendAnswer::Connection)
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "any other fault may pass")]
    fn from_io(error: &io::Error) -> Self {
        match error.kind() {
            ErrorKind::NotFound => Self::permanent_error(Class::NotFound, BackendAnswer::Refusal),
            ErrorKind::PermissionDenied => {
                Self::permanent_error(Class::PermissionDenied, BackendAnswer::Refusal)
            }
            ErrorKind::TimedOut => Self::transient_error(Class::Timeout, BackendAnswer::Connection),
            ErrorKind::ConnectionReset
            | ErrorKind::ConnectionAborted
            | ErrorKind::ConnectionRefused
            | ErrorKind::NotConnected
            | ErrorKind::BrokenPipe
            | ErrorKind::UnexpectedEof => {
                Self::transient_error(Class::Unavailable, BackendAnswer::Connection)
            }
            _ => Self::transient_error(Class::Io, BackendAnswer::Other),
        }
    }

    fn transient_error(class: Class, answer: BackendAnswer) -> Self {
        Self { class, answer, again: true, after: None }
    }

    fn permanent_error(class: Class, answer: BackendAnswer) -> Self {
        Self { class, answer, again: false, after: None }
    }
}

/// Returns whether the bucket or container itself is missing, judging by the error texts of the
/// services.
pub(super) fn is_missing_bucket(error: &StoreFault) -> bool {
    // A listing has no path that could be missing, so its backend does not classify the error.
    let (StoreFault::NotFound { source, .. } | StoreFault::Generic { source, .. }) = error else {
        return false;
    };
    let text = source.to_string();
    MISSING_BUCKET.iter().any(|words| text.contains(words))
}

/// S3 and compatible services, Google Cloud Storage, Azure.
const MISSING_BUCKET: [&str; 3] = ["NoSuchBucket", "bucket does not exist", "ContainerNotFound"];

/// Returns the HTTP status that an error of a foreign backend has only in its text.
fn status_in(error: &(dyn Error + 'static)) -> Option<u16> {
    let text = error.to_string();
    let (_, after) = text.split_once("status code: ")?;
    after.get(..3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generic_error(source: impl Into<Box<dyn Error + Send + Sync>>) -> StoreFault {
        StoreFault::Generic { store: "test", source: source.into() }
    }

    #[test]
    fn every_status_has_its_class() {
        for (status, class, is_retried) in [
            (400, Class::InvalidArgument, false),
            (401, Class::Unauthenticated, false),
            (403, Class::PermissionDenied, false),
            (404, Class::NotFound, false),
            (407, Class::Unauthenticated, false),
            (408, Class::Timeout, true),
            (410, Class::NotFound, false),
            (412, Class::FileChanged, false),
            (416, Class::OutOfBounds, false),
            (429, Class::Throttled, true),
            (500, Class::Unavailable, true),
            (501, Class::Unsupported, false),
            (503, Class::Unavailable, true),
            (504, Class::Timeout, true),
            (505, Class::Unsupported, false),
            (507, Class::NoSpace, false),
            (599, Class::Unavailable, true),
            (302, Class::InvalidArgument, false),
        ] {
            let text = format!("Server returned non-2xx status code: {status} Word: body");
            let verdict = Verdict::classify(&generic_error(text));
            assert_eq!((verdict.class, verdict.again), (class, is_retried), "{status}");
            assert_eq!(verdict.answer.to_string(), format!("the store answered {status}"));
        }
    }

    #[test]
    fn a_missing_bucket_is_not_a_missing_object() {
        let missing = |body: &str| {
            let text = format!("Server returned non-2xx status code: 404 Not Found: {body}");
            StoreFault::NotFound { path: "root/a".into(), source: text.into() }
        };
        for (body, answer) in [
            ("<Error><Code>NoSuchBucket</Code></Error>", "the bucket or container does not exist"),
            ("The specified bucket does not exist.", "the bucket or container does not exist"),
            ("<Code>ContainerNotFound</Code>", "the bucket or container does not exist"),
            ("<Code>NoSuchKey</Code>", "the store refuses"),
            ("", "the store refuses"),
        ] {
            let verdict = Verdict::classify(&missing(body));
            assert_eq!((verdict.class, verdict.again), (Class::NotFound, false), "{body}");
            assert_eq!(verdict.answer.to_string(), answer, "{body}");
        }
        let listed = "status code: 404 Not Found: <Error><Code>NoSuchBucket</Code></Error>";
        let verdict = Verdict::classify(&generic_error(listed));
        assert_eq!(verdict.class, Class::NotFound);
        assert_eq!(verdict.answer.to_string(), "the bucket or container does not exist");
    }

    #[test]
    fn errors_without_a_status_are_judged_by_their_cause() {
        let io = |kind: ErrorKind| generic_error(io::Error::from(kind));
        let (path, source) = (|| String::from("k"), || "why".into());
        for (error, class, is_retried) in [
            (StoreFault::NotFound { path: path(), source: source() }, Class::NotFound, false),
            (
                StoreFault::PermissionDenied { path: path(), source: source() },
                Class::PermissionDenied,
                false,
            ),
            (
                StoreFault::Unauthenticated { path: path(), source: source() },
                Class::Unauthenticated,
                false,
            ),
            (
                StoreFault::Precondition { path: path(), source: source() },
                Class::FileChanged,
                false,
            ),
            (StoreFault::NotModified { path: path(), source: source() }, Class::FileChanged, false),
            (
                StoreFault::AlreadyExists { path: path(), source: source() },
                Class::AlreadyExists,
                false,
            ),
            (StoreFault::NotSupported { source: source() }, Class::Unsupported, false),
            (
                StoreFault::UnknownConfigurationKey { store: "s", key: path() },
                Class::InvalidArgument,
                false,
            ),
            (io(ErrorKind::NotFound), Class::NotFound, false),
            (io(ErrorKind::PermissionDenied), Class::PermissionDenied, false),
            (io(ErrorKind::TimedOut), Class::Timeout, true),
            (io(ErrorKind::ConnectionReset), Class::Unavailable, true),
            (io(ErrorKind::ConnectionRefused), Class::Unavailable, true),
            (io(ErrorKind::UnexpectedEof), Class::Unavailable, true),
            (io(ErrorKind::Other), Class::Io, true),
            (generic_error("something"), Class::Io, true),
            (generic_error("status code: no number"), Class::Io, true),
        ] {
            let verdict = Verdict::classify(&error);
            assert_eq!((verdict.class, verdict.again), (class, is_retried), "{error}");
        }
    }
}
