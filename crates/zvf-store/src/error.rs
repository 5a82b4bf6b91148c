//! What can go wrong between a name and its bytes.
//!
//! One type, [`StoreError`]: the class, what was being done ([`Op`]), to which object, at which bytes,
//! and what was expected and found. The lower crates know the byte; this layer adds the path. A copy
//! shares the cause, because single flight returns one fault to every caller that waited for it.
//!
//! Printed, it is one line: `Truncated in 0/vertices/c/3/1/0 at 16..104, object: expected 104 bytes,
//! found 40; the object is cut short: …`. What a backend reports is linked as the [`source`](std::error::Error::source) and is
//! not shown, because it may hold addresses and secrets. Of what the operating system said the kind and the number are shown;
//! it is the source where it says more, and [`StoreError::io_error`] in any case.
//!
//! Not here: the classes themselves, their exit codes and advice (`zvf_format::Class`).

use std::error::Error;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use zvf_format::{Class, Diagnose, Diagnosis, Expected, FormatError, Found};
use zvf_metadata::MetadataError;
use zvf_publish::PublishError;

use crate::key::Key;

/// A fault of the store layer: what, where, expected and found.
///
/// ```
/// use zvf_format::Class;
/// use zvf_store::Key;
///
/// let error = Key::root().child("a/b").unwrap_err();
/// assert_eq!(error.class(), Class::InvalidKey);
/// assert!(!error.is_retryable());
/// ```
#[derive(Clone)]
pub struct StoreError(Box<Inner>);

impl StoreError {
    /// Returns the error for a value that is not what it must be: `what` names it, as the specification does.
    #[must_use]
    pub fn invalid_value(
        class: Class,
        op: Op,
        what: &'static str,
        expected: Expected,
        found: impl Into<Seen>,
    ) -> Self {
        Self::new(op, Fault::Refused { class, what, expected, found: found.into() })
    }

    /// Returns the error for more than a cap allows.
    #[must_use]
    pub fn limit(op: Op, what: &'static str, limit: u64, found: u64) -> Self {
        let (expected, found) = (Expected::AtMost(limit.into()), Found::from(found));
        Self::invalid_value(Class::LimitExceeded, op, what, expected, found)
    }

    /// Returns the error for something that must be there and is not: `because` names what promised it.
    #[must_use]
    pub fn missing(key: &Key, because: &'static str) -> Self {
        Self::new(Op::Read, Fault::Absent { because }).with_key(key)
    }

    /// Returns the error for a feature this build does not have: `what` is its kind, `name` the one that was met.
    #[must_use]
    pub fn unsupported(op: Op, what: &'static str, name: impl Into<Seen>) -> Self {
        Self::new(op, Fault::Unsupported { what, name: name.into() })
    }

    /// Returns an error in words: what, where, expected, found, and what to do.
    #[must_use]
    pub fn custom(class: Class, op: Op, text: impl Into<String>) -> Self {
        Self::new(op, Fault::Words { class, text: text.into() })
    }

    /// Returns the error for a compressed stream that the codec `name` refused.
    #[must_use]
    pub fn codec(
        class: Class,
        name: &'static str,
        source: impl Error + Send + Sync + 'static,
    ) -> Self {
        Self::new(Op::Decode, Fault::Codec { class, name, source: Box::new(source) })
    }

    /// Returns the error for the operating system's answer.
    #[must_use]
    pub fn io(op: Op, source: io::Error) -> Self {
        Self::new(op, Fault::Io { class: io_class(&source), error: source })
    }

    /// Returns the error for what was written and is visible, where it is not known whether it stays so.
    fn durability_unknown(source: io::Error) -> Self {
        Self::new(Op::Publish, Fault::Io { class: Class::CommitUnknown, error: source })
    }

    /// Returns the error for what publishing in a directory of this machine refuses.
    fn from_publish(class: Class, error: PublishError) -> Self {
        Self::new(Op::Publish, Fault::Publish { class, error })
    }

    /// Returns the same fault, of a request that may have been carried out.
    pub(crate) fn commit_unknown(error: Self) -> Self {
        Self::new(Op::Publish, Fault::Unknown { source: Box::new(error) })
    }

    /// Returns the fault behind a request that may have been carried out, where nothing depends on whether it was.
    pub(crate) fn into_cause(self) -> Self {
        if let Fault::Unknown { source } = self.fault() { Self::clone(source) } else { self }
    }

    /// Returns the error for an object that is not the one that was read before, or whose bytes do not fit what was
    /// announced.
    pub(crate) fn from_change(change: Change) -> Self {
        Self::new(Op::Read, Fault::Changed { change })
    }

    /// Returns the error for a backend's fault, classified by the layer that knows the backend.
    pub(crate) fn backend(
        class: Class,
        op: Op,
        answer: BackendAnswer,
        source: object_store::Error,
    ) -> Self {
        Self::new(op, Fault::Backend { class, answer, source: Some(source) })
    }

    /// Returns the error for no answer within `after`.
    pub(crate) fn timeout(op: Op, what: &'static str, after: Duration) -> Self {
        let answer = BackendAnswer::Nothing { what, after };
        Self::new(op, Fault::Backend { class: Class::Timeout, answer, source: None })
    }

    fn fault(&self) -> &Fault {
        &self.0.fault
    }

    fn new(op: Op, fault: Fault) -> Self {
        Self(Box::new(Inner { op, key: None, span: None, fault: Arc::new(fault) }))
    }

    /// Returns the same fault, of the object under `key`, unless it already names one.
    #[must_use]
    pub fn with_key(mut self, key: &Key) -> Self {
        if self.0.key.is_none() && !key.is_root() {
            self.0.key = Some(key.clone());
        }
        self
    }

    /// Returns the same fault, at bytes `start..end` of the object, unless it already names some.
    #[must_use]
    pub fn with_span(mut self, start: u64, end: u64) -> Self {
        if self.0.span.is_none() {
            self.0.span = Some((start, end));
        }
        self
    }

    /// Returns the kind of fault.
    #[must_use]
    pub fn class(&self) -> Class {
        self.diagnosis().class
    }

    /// Returns what was being done.
    #[must_use]
    pub fn op(&self) -> Op {
        self.0.op
    }

    /// Returns the object, relative to the root of the store.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        self.0.key.as_ref().map(Key::as_str)
    }

    /// Returns the bytes of the object that were being read, first and one past the last.
    #[must_use]
    pub fn span(&self) -> Option<(u64, u64)> {
        self.0.span
    }

    /// Returns what the fault is about: a field, a path into a document, a count. None where there is no more to
    /// say than the key.
    #[must_use]
    pub fn subject(&self) -> Option<&str> {
        match self.fault() {
            Fault::Format(source) => Some(source.field),
            Fault::Metadata(source) => Some(&source.path),
            Fault::Refused { what, .. } | Fault::Unsupported { what, .. } => Some(what),
            Fault::Codec { name, .. } => Some(name),
            Fault::Publish { .. } => Some("store"),
            Fault::Absent { .. }
            | Fault::Io { .. }
            | Fault::Backend { .. }
            | Fault::Unknown { .. }
            | Fault::Words { .. }
            | Fault::Changed { .. } => None,
        }
    }

    /// Returns what must be there, as a phrase, where that is known.
    #[must_use]
    pub fn expected(&self) -> Option<String> {
        self.diagnosis().expected.map(ToString::to_string)
    }

    /// Returns what is there instead, as a phrase, where that is known.
    #[must_use]
    pub fn found(&self) -> Option<String> {
        self.diagnosis().found.map(ToString::to_string)
    }

    /// Returns what to do about it.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        self.diagnosis().hint
    }

    /// Returns whether the same request may succeed later without anything being changed.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        self.class().is_retryable()
    }

    /// Returns what the operating system answered, where that is the fault.
    ///
    /// ```
    /// use std::io::ErrorKind;
    /// use zvf_store::{Op, StoreError};
    ///
    /// let error = StoreError::io(Op::Read, ErrorKind::TimedOut.into());
    /// assert_eq!(error.io_error().map(std::io::Error::kind), Some(ErrorKind::TimedOut));
    /// ```
    #[must_use]
    pub fn io_error(&self) -> Option<&io::Error> {
        if let Fault::Io { error, .. } = self.fault() { Some(error) } else { None }
    }

    /// Returns the fault of a document, where that is what it is.
    #[must_use]
    pub fn metadata(&self) -> Option<&MetadataError> {
        if let Fault::Metadata(source) = self.fault() { Some(source) } else { None }
    }

    /// Returns the fault of the bytes, where the format layer found it.
    #[must_use]
    pub fn format(&self) -> Option<&FormatError> {
        if let Fault::Format(source) = self.fault() { Some(source) } else { None }
    }
}

impl From<FormatError> for StoreError {
    fn from(source: FormatError) -> Self {
        Self::new(Op::Parse, Fault::Format(source))
    }
}

impl From<MetadataError> for StoreError {
    fn from(source: MetadataError) -> Self {
        Self::new(Op::Parse, Fault::Metadata(Box::new(source)))
    }
}

impl From<PublishError> for StoreError {
    #[expect(clippy::wildcard_enum_match_arm, reason = "`publish_class` knows all the others")]
    fn from(error: PublishError) -> Self {
        match error {
            PublishError::Io(source) => Self::io(Op::Write, source),
            PublishError::IoAt { path, source } => {
                let error = Self::io(Op::Write, source);
                match Key::root().join(&path) {
                    Ok(key) => error.with_key(&key),
                    Err(_not_a_key) => error,
                }
            }
            PublishError::Unknown(source) => Self::durability_unknown(source),
            PublishError::NoName(found) => {
                let expected = Expected::Rule("a path that ends with a name");
                Self::invalid_value(
                    Class::InvalidArgument,
                    Op::Open,
                    "path",
                    expected,
                    found.as_str(),
                )
            }
            other => Self::from_publish(publish_class(&other), other),
        }
    }
}

/// Returns the class of a fault of publishing.
fn publish_class(error: &PublishError) -> Class {
    if matches!(
        error,
        PublishError::Busy { .. }
            | PublishError::Changed { .. }
            | PublishError::StrayJournal { .. }
    ) {
        Class::Conflict
    } else if matches!(error, PublishError::Cancelled) {
        Class::Cancelled
    } else if matches!(error, PublishError::Taken { .. }) {
        Class::AlreadyExists
    } else {
        Class::InvalidArgument
    }
}

impl Diagnose for StoreError {
    fn diagnosis(&self) -> Diagnosis<'_> {
        let diagnose = |class: Class| Diagnosis::new(class, "", self).with_hint(class.hint());
        let fault = match self.fault() {
            Fault::Format(source) => source.diagnosis(),
            Fault::Metadata(source) => source.diagnosis(),
            Fault::Refused { class, expected, found, .. } => {
                diagnose(*class).with_values(expected, found)
            }
            Fault::Codec { class, .. } | Fault::Io { class, .. } | Fault::Backend { class, .. } => {
                diagnose(*class)
            }
            Fault::Publish { class, .. } => diagnose(*class),
            // The words say what to do.
            Fault::Words { class, .. } => Diagnosis::new(*class, "", self),
            Fault::Absent { .. } => diagnose(Class::NotFound),
            Fault::Unknown { .. } => diagnose(Class::CommitUnknown),
            Fault::Unsupported { name, .. } => {
                Diagnosis { found: Some(name), ..diagnose(Class::Unsupported) }
            }
            Fault::Changed { change: Change::Length { expected, found } } => {
                diagnose(Class::FileChanged).with_values(expected, found)
            }
            Fault::Changed { .. } => diagnose(Class::FileChanged),
        };
        let (op, key, span) = (self.op().name(), self.key(), self.span());
        Diagnosis { op, key, span, text: self, says_class: true, ..fault }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.class())?;
        if let Some(key) = self.key() {
            write!(f, " in {key}")?;
        }
        if let Some((start, end)) = self.span() {
            write!(f, " at {start}..{end}")?;
        }
        write!(f, ", {}", self.fault())?;
        match self.hint() {
            Some(hint) => write!(f, "; {hint}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for StoreError {
    /// Returns what caused it and says more than the message.
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self.io_error() {
            Some(error) if has_own_text(error) => Some(error),
            Some(_) => None,
            None => self.fault().source(),
        }
    }
}

/// What was being done when it went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Op {
    /// Checking a name.
    Name,
    /// Finding and opening the store.
    Open,
    /// Reading an object or part of one.
    Read,
    /// Listing objects.
    List,
    /// Decoding a codec chain.
    Decode,
    /// Reading a document or a structure.
    Parse,
    /// Applying a codec chain.
    Encode,
    /// Writing an object.
    Write,
    /// Making what was written visible.
    Publish,
}

impl Op {
    /// Returns its name in a message.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Open => "open",
            Self::Read => "read",
            Self::List => "list",
            Self::Decode => "decode",
            Self::Parse => "parse",
            Self::Encode => "encode",
            Self::Write => "write",
            Self::Publish => "publish",
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What was found: a value, or a short text quoted from the store or the request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Seen {
    /// A value that the format layer can print.
    Value(Found),
    /// A quotation, cut after 61 characters.
    Text(Box<str>),
}

impl From<Found> for Seen {
    fn from(found: Found) -> Self {
        Self::Value(found)
    }
}

impl From<&str> for Seen {
    fn from(text: &str) -> Self {
        match text.char_indices().nth(MAX_QUOTED_CHARS) {
            Some((end, _)) => Self::Text([&text[..end], "..."].concat().into()),
            None => Self::Text(text.into()),
        }
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value(found) => found.fmt(f),
            Self::Text(text) => write!(f, "{text:?}"),
        }
    }
}

/// A number of bytes, in words.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ByteCount(u64);

impl fmt::Display for ByteCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0)
    }
}

/// How an object differs from what was announced.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change {
    /// Another version answered than the one asked for.
    Version,
    /// The reply has another length than the request.
    Length { expected: ByteCount, found: ByteCount },
    /// Another store lies under the name by now, and what is left of the opened one cannot be trusted.
    #[cfg(feature = "local")]
    Store,
}

impl Change {
    /// Returns the change that shows in a reply of `found` bytes where `expected` were asked for.
    pub(crate) const fn length(expected: u64, found: u64) -> Self {
        Self::Length { expected: ByteCount(expected), found: ByteCount(found) }
    }
}

/// What a backend answered.
#[derive(Clone, Copy, Debug)]
pub(crate) enum BackendAnswer {
    /// An HTTP status.
    Status(u16),
    /// Nothing, for this long.
    Nothing { what: &'static str, after: Duration },
    /// That it will not.
    Refusal,
    /// That there is no bucket of that name.
    NoBucket,
    /// That its settings do not fit.
    #[cfg(feature = "net")]
    Setup,
    /// The connection could not be made or broke.
    Connection,
    /// Something else, in its own words: see the source.
    Other,
}

impl fmt::Display for BackendAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status) => write!(f, "the store answered {status}"),
            Self::Nothing { what, after } => write!(f, "no {what} within {after:?}"),
            Self::Refusal => f.write_str("the store refuses"),
            Self::NoBucket => f.write_str("the bucket or container does not exist"),
            #[cfg(feature = "net")]
            Self::Setup => f.write_str("the settings of the store do not fit"),
            Self::Connection => f.write_str("the connection failed"),
            Self::Other => f.write_str("the store failed"),
        }
    }
}

#[derive(Clone, Debug)]
struct Inner {
    op: Op,
    key: Option<Key>,
    span: Option<(u64, u64)>,
    fault: Arc<Fault>,
}

/// The second half of the line: what was expected and what is there.
#[derive(Debug, thiserror::Error)]
enum Fault {
    #[error("{} {} at byte {}: expected {}, found {}", .0.part, .0.field, .0.offset, .0.expected, .0.found)]
    Format(FormatError),
    #[error("{}", metadata_text(.0))]
    Metadata(Box<MetadataError>),
    #[error("{what}: expected {expected}, found {found}")]
    Refused { class: Class, what: &'static str, expected: Expected, found: Seen },
    #[error("{because} and it is not there")]
    Absent { because: &'static str },
    #[error("{what} {name}: this build cannot read it")]
    Unsupported { what: &'static str, name: Seen },
    #[error("{name}: the stream does not decode")]
    Codec { class: Class, name: &'static str, source: Box<dyn Error + Send + Sync> },
    #[error("{}", io_text(.error))]
    Io { class: Class, error: io::Error },
    #[error("{answer}")]
    Backend { class: Class, answer: BackendAnswer, source: Option<object_store::Error> },
    #[error("{text}")]
    Words { class: Class, text: String },
    #[error("store: {error}")]
    Publish { class: Class, error: PublishError },
    #[error("the store was asked to publish and did not say whether it did")]
    Unknown { source: Box<StoreError> },
    #[error("{}", change_text(.change))]
    Changed { change: Change },
}

/// Returns the class of an answer of the operating system.
fn io_class(error: &io::Error) -> Class {
    use io::ErrorKind as Kind;
    let kind = error.kind();
    if matches!(kind, Kind::NotFound) {
        Class::NotFound
    } else if matches!(kind, Kind::PermissionDenied | Kind::ReadOnlyFilesystem) {
        Class::PermissionDenied
    } else if matches!(kind, Kind::AlreadyExists | Kind::DirectoryNotEmpty) {
        Class::AlreadyExists
    } else if matches!(kind, Kind::StorageFull | Kind::QuotaExceeded) {
        Class::NoSpace
    } else if matches!(kind, Kind::TimedOut) {
        Class::Timeout
    } else if matches!(kind, Kind::OutOfMemory) {
        Class::LimitExceeded
    } else if matches!(kind, Kind::InvalidFilename) {
        Class::InvalidKey
    } else {
        Class::Io
    }
}

/// Returns what a document says wrongly; the class stands in front of it.
fn metadata_text(error: &MetadataError) -> String {
    let text = error.to_string();
    let class = format!("{} in ", error.class());
    text.strip_prefix(&class).map_or(text.clone(), str::to_owned)
}

fn io_text(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(code) => format!("{} (os error {code})", error.kind()),
        None => error.kind().to_string(),
    }
}

/// Returns whether an error has words besides its kind and its number.
fn has_own_text(error: &io::Error) -> bool {
    error.raw_os_error().is_none() && error.to_string() != error.kind().to_string()
}

fn change_text(change: &Change) -> String {
    match change {
        Change::Version => "the object was replaced while it was being read".to_owned(),
        #[cfg(feature = "local")]
        Change::Store => {
            "the store was replaced while it was being read: open it again, or run the command again"
                .to_owned()
        }
        Change::Length { expected, found } => {
            format!("reply: expected {expected}, found {}", found.0)
        }
    }
}

/// Characters of a quotation.
const MAX_QUOTED_CHARS: usize = 61;

#[cfg(test)]
mod tests {
    use super::*;
    use zvf_format::Part;
    use zvf_metadata::Root;

    fn key() -> Key {
        Key::root().join("0/vertices/c/3/1/0").unwrap()
    }

    #[test]
    fn each_fault_is_one_line() {
        let backend = || object_store::Error::NotImplemented {
            operation: "x".into(),
            implementer: "y".into(),
        };
        let truncated = FormatError::new(
            Class::Truncated,
            Part::FragmentIndex,
            "ranges",
            16,
            Expected::Bytes(88),
            40_u8,
        );
        let found = "x".repeat(100);
        #[rustfmt::skip]
        let table: Vec<(StoreError, &str, Class, bool)> = vec![
            (StoreError::from(truncated).with_key(&key()).with_span(16, 104),
                "Truncated in 0/vertices/c/3/1/0 at 16..104, fragment index ranges at byte 16: expected 88 bytes, found 40; the object is cut short: copy it again, or run \"zvf repair --plan\"", Class::Truncated, false),
            (StoreError::from(Root::parse(b"[").unwrap_err()).with_key(&key()),
                "Truncated in 0/vertices/c/3/1/0, metadata, ", Class::Truncated, false),
            (StoreError::invalid_value(Class::BadTag, Op::Open, "version", Expected::Rule("0.6 to 0.9.2"), found.as_str()),
                "BadTag, version: expected 0.6 to 0.9.2, found \"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...\"", Class::BadTag, false),
            (StoreError::invalid_value(Class::BadShape, Op::Parse, "rank", Expected::Exactly(3), Found::from(2_u8)),
                "BadShape, rank: expected 3, found 2", Class::BadShape, false),
            (StoreError::limit(Op::List, "keys", 10, 11),
                "LimitExceeded, keys: expected at most 10, found 11; more than the limit allows: ask for less, or raise the limit", Class::LimitExceeded, false),
            (StoreError::missing(&key(), "the array lists this chunk"),
                "NotFound in 0/vertices/c/3/1/0, the array lists this chunk and it is not there", Class::NotFound, false),
            (StoreError::unsupported(Op::Decode, "codec", "draco"),
                "Unsupported, codec \"draco\": this build cannot read it", Class::Unsupported, false),
            (StoreError::codec(Class::Codec, "zstd", io::Error::other("bad block")),
                "Codec, zstd: the stream does not decode; the stored bytes are damaged: restore this object from a copy", Class::Codec, false),
            (StoreError::io(Op::Read, io::Error::from_raw_os_error(5)).with_key(&Key::root()),
                "Io, ", Class::Io, true),
            (StoreError::from_change(Change::Version),
                "FileChanged, the object was replaced while it was being read", Class::FileChanged, false),
            (StoreError::from_change(Change::length(5, 4)),
                "FileChanged, reply: expected 5 bytes, found 4", Class::FileChanged, false),
            (StoreError::backend(Class::Throttled, Op::Read, BackendAnswer::Status(429), backend()),
                "Throttled, the store answered 429", Class::Throttled, true),
            (StoreError::backend(Class::Unavailable, Op::Read, BackendAnswer::Connection, backend()),
                "Unavailable, the connection failed", Class::Unavailable, true),
            (StoreError::timeout(Op::Read, "first byte", Duration::from_secs(5)),
                "Timeout, no first byte within 5s", Class::Timeout, true),
        ];
        for (error, text, class, retryable) in table {
            let line = error.to_string();
            // Messages of the system or of the document are not repeated here.
            assert!(
                if text.ends_with(", ") { line.starts_with(text) } else { line == text },
                "{line}"
            );
            assert!(!line.contains('\n'));
            assert_eq!((error.class(), error.is_retryable()), (class, retryable), "{line}");
        }
    }

    #[test]
    fn errors_keep_their_first_location() {
        let error = StoreError::limit(Op::Read, "bytes", 1, 2).with_key(&key()).with_span(1, 2);
        let error = error.with_key(&Key::root().child("other").unwrap()).with_span(5, 6);
        assert_eq!((error.key(), error.span()), (Some("0/vertices/c/3/1/0"), Some((1, 2))));
        assert_eq!((error.op(), error.op().to_string()), (Op::Read, "read".to_owned()));
        assert_eq!(error.hint(), Some(zvf_format::Hint::RaiseLimit.text()));
        assert!(error.format().is_none() && error.source().is_none());
    }

    #[test]
    fn sources_do_not_repeat_the_message() {
        let io = |error| StoreError::io(Op::Read, error);
        for error in [io(io::Error::from_raw_os_error(13)), io(io::ErrorKind::TimedOut.into())] {
            assert!(error.source().is_none() && error.io_error().is_some(), "{error}");
        }
        let error = io(io::Error::other("the disk is on fire"));
        assert_eq!(error.to_string(), "Io, other error");
        assert_eq!(error.source().unwrap().to_string(), "the disk is on fire");
    }

    #[test]
    fn copies_share_the_cause() {
        let error = StoreError::io(Op::Read, io::Error::from_raw_os_error(5));
        let copy = error.clone().with_key(&key());
        assert!(error.key().is_none() && copy.key().is_some());
        assert_eq!(copy.io_error().unwrap().raw_os_error(), Some(5));
        assert!(std::ptr::eq(copy.io_error().unwrap(), error.io_error().unwrap()));
        assert!(size_of::<StoreError>() == size_of::<usize>());
    }
}
