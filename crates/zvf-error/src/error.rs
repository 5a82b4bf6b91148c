//! The error type: how an error is built and printed.
//!
//! ```text
//! Truncated in 0/vertices/c/3/1/0 at 16..104, object: expected 104 bytes, found 40 (object 7); the object is …
//! class        key                  span      what              expected        found  object   advice
//! ```
//!
//! An error is cheap to clone, because single flight returns one fault to every waiting caller;
//! clones share the cause. The error of a backend is the [`source`](std::error::Error::source) and
//! is not printed, because it may hold addresses and secrets. For an error of the operating system,
//! the kind and the number are printed.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt::{self, Display};
use std::io;
use std::sync::Arc;

use zvf_format::key::ChunkKey;
use zvf_format::{Class, Expected, FormatError, Part};
use zvf_metadata::MetadataError;

/// An error of any layer: the problem, its location, the expected and found values, and advice.
///
/// ```
/// use zvf_error::Error;
/// use zvf_format::Class;
///
/// let error = Error::limit("keys", 10, 11);
/// assert_eq!((error.class(), error.is_retryable()), (Class::LimitExceeded, false));
/// assert!(error.to_string().starts_with("LimitExceeded, keys: expected at most 10, found 11; "));
/// ```
#[derive(Clone)]
pub struct Error(Box<ErrorParts>);

#[derive(Clone, Debug)]
struct ErrorParts {
    class: Class,
    op: Option<&'static str>,
    what: Cow<'static, str>, // empty where the text says it all
    text: Cow<'static, str>, // words behind it
    expected: Option<String>,
    found: Option<String>,
    part: Option<Cow<'static, str>>, // the structure or the file format: stands for the key where none is known
    key: Option<Box<str>>,
    array: Option<Box<str>>,
    span: Option<(u64, u64)>,
    chunk: Option<ChunkKey>,
    object: Option<i64>,
    hint: Option<Cow<'static, str>>,
    cause: Option<Arc<dyn StdError + Send + Sync>>,
    says_cause: bool,
    is_line: bool, // the text is all that is printed before the advice
}

impl Error {
    /// Creates the error for an invalid value; `what` names it as the specification does.
    pub fn new(
        class: Class,
        what: impl Into<Cow<'static, str>>,
        expected: impl Display,
        found: impl Display,
    ) -> Self {
        let mut error = Self::custom(class, "");
        error.0.what = what.into();
        error.0.expected = Some(expected.to_string());
        error.0.found = Some(found.to_string());
        error.with_class_hint()
    }

    /// Creates an error from a message that already contains advice.
    pub fn custom(class: Class, text: impl Into<Cow<'static, str>>) -> Self {
        Self(Box::new(ErrorParts {
            class,
            op: None,
            what: "".into(),
            text: text.into(),
            expected: None,
            found: None,
            part: None,
            key: None,
            array: None,
            span: None,
            chunk: None,
            object: None,
            hint: None,
            cause: None,
            says_cause: false,
            is_line: false,
        }))
    }

    /// Creates an error from an error of another type; `line` is the whole message, with the
    /// class in front.
    pub fn from_line(class: Class, line: impl Into<Cow<'static, str>>) -> Self {
        let mut error = Self::custom(class, line);
        error.0.is_line = true;
        error
    }

    /// Creates an error with the message of `cause`.
    pub fn from_cause(class: Class, cause: impl StdError + Send + Sync + 'static) -> Self {
        Self::custom(class, cause.to_string()).with_said_cause(cause)
    }

    /// Creates the error for a value above a limit.
    pub fn limit(what: impl Into<Cow<'static, str>>, cap: u64, found: u64) -> Self {
        Self::new(Class::LimitExceeded, what, Expected::AtMost(cap.into()), found)
    }

    /// Creates the error for an object of another version than the requested one.
    pub fn replaced() -> Self {
        Self::custom(Class::FileChanged, "the object was replaced while it was being read")
    }

    /// Creates the error for something that must exist but does not; `because` names what refers to
    /// it.
    pub fn missing(key: impl Display, because: &'static str) -> Self {
        Self::custom(Class::NotFound, format!("{because}, but it does not exist")).at_key(key)
    }

    /// Creates the error for a missing feature of this build; `what` is its kind, and `name` the
    /// requested one.
    pub fn unsupported(what: &'static str, name: &str) -> Self {
        let name = quote(name);
        let mut error =
            Self::custom(Class::Unsupported, format!(" {name}: this build cannot read it"));
        error.0.what = what.into();
        error.0.found = Some(name);
        error
    }

    /// Creates the error for a compressed stream that the codec `name` refused.
    pub fn codec(
        class: Class,
        name: &'static str,
        source: impl StdError + Send + Sync + 'static,
    ) -> Self {
        let mut error = Self::custom(class, ": the stream does not decode");
        error.0.what = name.into();
        error.with_op("decode").with_class_hint().with_cause(source)
    }

    /// Creates the error for a fault that the operating system reported.
    pub fn io(op: &'static str, source: io::Error) -> Self {
        let class = io_class(source.kind());
        let text = match source.raw_os_error() {
            _ if source.kind() == io::ErrorKind::NotFound => NO_SUCH_FILE.to_owned(),
            Some(code) => format!("{} (os error {code})", source.kind()),
            None => source.kind().to_string(),
        };
        let has_own_text =
            source.raw_os_error().is_none() && source.to_string() != source.kind().to_string();
        let mut error = Self::custom(class, text).with_op(op).with_class_hint().with_cause(source);
        error.0.says_cause = !has_own_text;
        error
    }

    /// Creates the error for a scratch folder that cannot be used.
    pub fn scratch(cause: io::Error) -> Self {
        let class = io_class(cause.kind());
        Self::custom(class, "cannot use the scratch folder").with_op("write").because(cause)
    }

    /// Returns the error with another class.
    #[must_use]
    pub fn with_class(mut self, class: Class) -> Self {
        self.0.class = class;
        self
    }

    /// Returns the error with this operation instead of the default of its class.
    #[must_use]
    pub fn with_op(mut self, op: &'static str) -> Self {
        self.0.op = Some(op);
        self
    }

    /// Returns the error with the structure or file format that was read.
    #[must_use]
    pub fn with_part(mut self, part: impl Into<Cow<'static, str>>) -> Self {
        self.0.part = Some(part.into());
        self
    }

    /// Returns the error with this advice, or none, instead of the advice of its class.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<Option<&'static str>>) -> Self {
        self.0.hint = hint.into().map(Cow::Borrowed);
        self
    }

    /// Returns the error with the advice of its class.
    #[must_use]
    pub fn with_class_hint(mut self) -> Self {
        self.0.hint = self.class().hint().map(|hint| hint.text().into());
        self
    }

    /// Returns the error with advice that lower layers could not give, unless it already has some.
    #[must_use]
    pub fn or_hint(mut self, hint: impl FnOnce() -> Option<String>) -> Self {
        self.0.hint = self.0.hint.or_else(|| hint().map(Cow::Owned));
        self
    }

    /// Returns the error with a cause that the message does not show.
    #[must_use]
    pub fn with_cause(mut self, cause: impl StdError + Send + Sync + 'static) -> Self {
        self.0.cause = Some(Arc::new(cause));
        self
    }

    /// Returns the error with a cause that the message already contains.
    #[must_use]
    pub fn with_said_cause(mut self, cause: impl StdError + Send + Sync + 'static) -> Self {
        self.0.says_cause = true;
        self.with_cause(cause)
    }

    /// Returns the error with a cause; its message and those of its sources are appended.
    #[must_use]
    pub fn because(mut self, cause: impl StdError + Send + Sync + 'static) -> Self {
        self.0.text = join_causes(&self.0.text, Some(&cause)).into();
        self.with_said_cause(cause)
    }

    /// Returns the error with a prefix, such as a file or a dataset, unless the message already has
    /// it.
    #[must_use]
    pub fn within(mut self, place: impl Display) -> Self {
        let words = if self.0.what.is_empty() { &mut self.0.text } else { &mut self.0.what };
        let place = format!("{place}: ");
        if !words.starts_with(&place) {
            *words = (place + words).into();
        }
        self
    }

    /// Returns the error with the object that it occurred in, as a path below the root of the
    /// store, unless it already names one.
    #[must_use]
    pub fn at_key(mut self, key: impl Display) -> Self {
        if self.0.key.is_none() {
            let key = key.to_string();
            self.0.key = (!key.is_empty()).then(|| key.into());
        }
        self
    }

    /// Returns the error with the array that it occurred in, which is printed if no object is
    /// known, unless it already names one.
    #[must_use]
    pub fn at_array(mut self, path: impl Display) -> Self {
        self.0.array.get_or_insert_with(|| path.to_string().into());
        self
    }

    /// Returns the error with the bytes `start..end` of the object, unless it already names some.
    #[must_use]
    pub fn at_span(mut self, start: u64, end: u64) -> Self {
        self.0.span.get_or_insert((start, end));
        self
    }

    /// Returns the error with the chunk that it occurred in, unless it already names one.
    #[must_use]
    pub fn at_chunk(mut self, chunk: &ChunkKey) -> Self {
        self.0.chunk.get_or_insert(*chunk);
        self
    }

    /// Returns the error with the id of the object that was being read, unless it already names
    /// one.
    #[must_use]
    pub fn at_object(mut self, object: i64) -> Self {
        self.0.object.get_or_insert(object);
        self
    }

    /// Returns the class, by its stable name.
    pub fn class(&self) -> Class {
        self.0.class
    }

    /// Returns the operation: `open`, `read`, `list`, `parse`, `decode`, `encode`, `name`, `query`,
    /// `convert`, `write`, `publish`, `render`, `repair` or `wait`.
    pub fn op(&self) -> &'static str {
        self.0.op.unwrap_or_else(|| op_of(self.class()))
    }

    /// Returns the message without the class, as a person reads it.
    ///
    /// ```
    /// let error = zvf_error::Error::missing("0/zarr.json", "level 0 is listed").with_hint("copy it");
    /// assert_eq!(error.message(), "in 0/zarr.json, level 0 is listed, but it does not exist; copy it");
    /// ```
    pub fn message(&self) -> String {
        let line = self.to_string();
        let message = line.strip_prefix(self.class().name()).unwrap_or(&line);
        message.trim_start_matches([',', ':', ' ']).to_owned()
    }

    /// Returns the message without class, location and advice.
    ///
    /// ```
    /// let error = zvf_error::Error::limit("keys", 10, 11);
    /// assert_eq!(error.sentence(), "keys: expected at most 10, found 11");
    /// ```
    pub fn sentence(&self) -> String {
        let ErrorParts { what, text, expected, found, .. } = &*self.0;
        match (expected, found) {
            (Some(expected), Some(found)) => {
                format!("{what}{text}: expected {expected}, found {found}")
            }
            _ => format!("{what}{text}"),
        }
    }

    /// Returns the subject of the error: a field, a path into a document, a count. `None` if the
    /// location says it all.
    pub fn what(&self) -> Option<&str> {
        (!self.0.what.is_empty()).then_some(&self.0.what)
    }

    /// Returns the expected value as a phrase, if known.
    pub fn expected(&self) -> Option<&str> {
        self.0.expected.as_deref()
    }

    /// Returns the found value as a phrase, if known.
    pub fn found(&self) -> Option<&str> {
        self.0.found.as_deref()
    }

    /// Returns the object or array, as a path below the root of the store.
    pub fn key(&self) -> Option<&str> {
        self.0.key.as_deref().or(self.0.array.as_deref())
    }

    /// Returns the array as a path below the root of the store, or the object if no array is known.
    pub fn array(&self) -> Option<&str> {
        self.0.array.as_deref().or(self.0.key.as_deref())
    }

    /// Returns the affected bytes of the object: the first, and one past the last.
    pub fn span(&self) -> Option<(u64, u64)> {
        self.0.span
    }

    /// Returns the chunk that it occurred in.
    pub fn chunk(&self) -> Option<&ChunkKey> {
        self.0.chunk.as_ref()
    }

    /// Returns the id of the object that was being read.
    pub fn object(&self) -> Option<i64> {
        self.0.object
    }

    /// Returns the advice.
    pub fn hint(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }

    /// Returns whether the same request may succeed later although nothing else changes.
    pub fn is_retryable(&self) -> bool {
        self.class().is_retryable()
    }

    /// Returns the cause, whether or not the message contains it.
    pub fn cause(&self) -> Option<&(dyn StdError + Send + Sync + 'static)> {
        self.0.cause.as_deref()
    }

    /// Returns the cause if it is a `T`.
    ///
    /// ```
    /// use std::io::{Error, ErrorKind};
    ///
    /// let error = zvf_error::Error::io("read", ErrorKind::TimedOut.into());
    /// assert_eq!(error.cause_as().map(Error::kind), Some(ErrorKind::TimedOut));
    /// ```
    pub fn cause_as<T: StdError + 'static>(&self) -> Option<&T> {
        self.cause()?.downcast_ref()
    }
}

impl From<FormatError> for Error {
    fn from(error: FormatError) -> Self {
        let mut made = Self::new(error.class, error.field, error.expected, error.found);
        made.0.text = format!(" at byte {}", error.offset).into();
        made.0.hint = error.hint().map(|hint| hint.text().into());
        made.with_part(error.part.name()).with_op("parse").with_said_cause(error)
    }
}

impl From<MetadataError> for Error {
    fn from(error: MetadataError) -> Self {
        let FormatError { class, offset, expected, found, .. } = *error.error;
        let mut made = Self::new(class, error.path.clone(), expected, found);
        if offset > 0 {
            made.0.text = format!(" at byte {offset}").into();
        }
        if !error.text.is_empty() {
            made.0.found = Some(error.text.clone());
        }
        made.0.hint = error.hint().map(|hint| hint.text().into());
        made.with_part(Part::Metadata.name()).with_op("parse").with_said_cause(error)
    }
}

impl From<io::Error> for Error {
    /// Converts an error of writing. For errors of reading, use [`Error::io`].
    fn from(cause: io::Error) -> Self {
        Self::custom(io_class(cause.kind()), "cannot write").with_op("write").because(cause)
    }
}

impl Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ErrorParts { class, part, span, chunk, object, hint, is_line, .. } = &*self.0;
        if !is_line {
            write!(f, "{class}")?;
            if let Some(place) = self.key().or(part.as_deref()) {
                write!(f, " in {place}")?;
            }
            if let Some((start, end)) = span {
                write!(f, " at {start}..{end}")?;
            }
            f.write_str(", ")?;
            if let (Some(_), Some(part)) = (self.key(), part) {
                let is_document = part == Part::Metadata.name();
                write!(f, "{part}{} ", if is_document { "," } else { "" })?;
            }
        }
        f.write_str(&self.sentence())?;
        match (chunk, object) {
            (Some(chunk), Some(object)) => write!(f, " (chunk {chunk}, object {object})")?,
            (Some(chunk), None) => write!(f, " (chunk {chunk})")?,
            (None, Some(object)) => write!(f, " (object {object})")?,
            (None, None) => {}
        }
        hint.as_ref().map_or(Ok(()), |hint| write!(f, "; {hint}"))
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl StdError for Error {
    /// Returns a cause that the message does not show. A cause that the message shows is not
    /// returned, because the message also contains its sources.
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        if self.0.says_cause { None } else { self.cause().map(|cause| cause as _) }
    }
}

/// Returns a text of the store or of a request in quotes, on one line, truncated after 61
/// characters.
pub fn quote(text: &str) -> String {
    match text.char_indices().nth(MAX_QUOTED_CHARS) {
        Some((end, _)) => format!("{:?}", [&text[..end], "..."].concat()),
        None => format!("{text:?}"),
    }
}

/// Returns the message of an error as a person reads it: without a class, and without the words of
/// programmers for a missing file.
pub fn error_text(error: &(dyn StdError + 'static)) -> String {
    if let Some(error) = error.downcast_ref::<Error>() {
        return error.message();
    }
    match error.downcast_ref::<io::Error>() {
        Some(io) if io.kind() == io::ErrorKind::NotFound && io.get_ref().is_none() => {
            NO_SUCH_FILE.to_owned()
        }
        _ => error.to_string(),
    }
}

/// Joins a message and those of `cause` and all its sources with ": " into one line, each as
/// [`error_text`] returns it. A message that the previous one already contains is left out.
///
/// ```
/// use std::error::Error;
/// use zvf_error::join_causes;
///
/// let broken = std::io::Error::from(std::io::ErrorKind::BrokenPipe);
/// assert_eq!(join_causes("cannot write", Some(&broken)), "cannot write: broken pipe");
/// // What this error says is what its source says.
/// let wrapped = std::io::Error::other(broken);
/// assert_eq!(join_causes(&wrapped, wrapped.source()), "broken pipe");
/// ```
pub fn join_causes(message: impl Display, cause: Option<&(dyn StdError + 'static)>) -> String {
    let mut line = message.to_string();
    let mut before = line.clone();
    let mut next = cause;
    while let Some(error) = next {
        let text = error_text(error);
        if !before.contains(&text) {
            line.push_str(": ");
            line.push_str(&text);
            before = text;
        }
        next = error.source();
    }
    line
}

/// Returns the class of an error of the operating system.
pub fn io_class(kind: io::ErrorKind) -> Class {
    use io::ErrorKind as Kind;
    #[expect(clippy::wildcard_enum_match_arm, reason = "all others are the same to callers")]
    match kind {
        Kind::NotFound => Class::NotFound,
        Kind::PermissionDenied | Kind::ReadOnlyFilesystem => Class::PermissionDenied,
        Kind::AlreadyExists | Kind::DirectoryNotEmpty => Class::AlreadyExists,
        Kind::StorageFull | Kind::QuotaExceeded => Class::NoSpace,
        Kind::TimedOut => Class::Timeout,
        Kind::OutOfMemory => Class::LimitExceeded,
        Kind::InvalidFilename => Class::InvalidKey,
        Kind::IsADirectory => Class::InvalidArgument,
        _ => Class::Io,
    }
}

/// Returns the default operation for errors of this class.
fn op_of(class: Class) -> &'static str {
    #[expect(clippy::wildcard_enum_match_arm, reason = "properties decide the others")]
    match class {
        Class::InvalidKey => "name",
        Class::LimitExceeded => "read",
        Class::Codec | Class::Checksum => "decode",
        _ if class.is_damage() => "parse",
        Class::InvalidArgument | Class::Unsupported => "open",
        Class::NotFound | Class::PermissionDenied | Class::Unauthenticated | Class::FileChanged => {
            "read"
        }
        _ if class.is_retryable() => "read",
        _ => "write",
    }
}

/// The message for a file that does not exist.
const NO_SUCH_FILE: &str = "no such file or folder";
/// Maximum length of a quoted text.
const MAX_QUOTED_CHARS: usize = 61;

#[cfg(test)]
mod tests {
    use super::*;
    use zvf_metadata::Root;

    const KEY: &str = "0/vertices/c/3/1/0";

    #[test]
    fn each_fault_is_one_line() {
        let truncated = FormatError::new(
            Class::Truncated,
            Part::FragmentIndex,
            "ranges",
            16,
            Expected::Bytes(88),
            40_u8,
        );
        let wide = Root::parse(
            br#"{"zarr_format": 3, "node_type": "group", "attributes":
            {"zarr_vectors": {"zv_version": "0.9.2", "chunk_shape": [10, "wide"]}}}"#,
        );
        let wide = wide.unwrap_err();
        let long = "x".repeat(100);
        let rows = || Error::new(Class::CountMismatch, "rows of an attribute", 12, 11);
        let chunk = "0.-1".parse::<ChunkKey>().unwrap();
        #[rustfmt::skip]
        let table: Vec<(Error, &str)> = vec![
            (Error::from(truncated).at_key(KEY).at_span(16, 104),
                "Truncated in 0/vertices/c/3/1/0 at 16..104, fragment index ranges at byte 16: expected 88 bytes, found 40; the object is truncated: copy it again, or run \"zvf repair --dry-run\""),
            (Error::from(truncated).at_chunk(&chunk),
                "Truncated in fragment index, ranges at byte 16: expected 88 bytes, found 40 (chunk 0.-1); the object is truncated: copy it again, or run \"zvf repair --dry-run\""),
            (Error::from(wide.clone()),
                "BadTag in metadata, zarr_vectors.chunk_shape[1]: expected a number, found \"wide\""),
            (Error::from(wide).at_key("zarr.json"),
                "BadTag in zarr.json, metadata, zarr_vectors.chunk_shape[1]: expected a number, found \"wide\""),
            (Error::new(Class::BadTag, "version", "0.6 to 0.9.2", quote(&long)),
                "BadTag, version: expected 0.6 to 0.9.2, found \"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...\""),
            (Error::limit("keys", 10, 11),
                "LimitExceeded, keys: expected at most 10, found 11; more than the limit allows: request less, or raise the limit"),
            (Error::missing(KEY, "the array lists this chunk"),
                "NotFound in 0/vertices/c/3/1/0, the array lists this chunk, but it does not exist"),
            (Error::unsupported("codec", "draco"),
                "Unsupported, codec \"draco\": this build cannot read it"),
            (Error::io("read", io::ErrorKind::TimedOut.into()).at_key(""), "Timeout, timed out"),
            (Error::scratch(io::ErrorKind::StorageFull.into()),
                "NoSpace, cannot use the scratch folder: no storage space"),
            (rows().at_array("0/vertex_attributes/label").at_chunk(&chunk).at_object(-3).at_array("elsewhere"),
                "CountMismatch in 0/vertex_attributes/label, rows of an attribute: expected 12, found 11 (chunk 0.-1, object -3)"),
            (rows().at_object(7).within("table.csv"),
                "CountMismatch, table.csv: rows of an attribute: expected 12, found 11 (object 7)"),
            (Error::new(Class::Encoding, "line 3, column \"y\"", "float64", quote("four")).with_part("CSV"),
                "Encoding in CSV, line 3, column \"y\": expected float64, found \"four\""),
            (Error::from_line(Class::Io, "Io at line 3 (move): it is gone").with_hint("wait"),
                "Io at line 3 (move): it is gone; wait"),
        ];
        for (error, text) in table {
            assert_eq!(error.to_string(), text);
            assert!(error.source().is_none(), "{text}");
        }
    }

    #[test]
    fn what_was_being_done_follows_from_the_class() {
        for (class, op) in [
            (Class::InvalidKey, "name"),
            (Class::Codec, "decode"),
            (Class::BadShape, "parse"),
            (Class::Unsupported, "open"),
            (Class::NotFound, "read"),
            (Class::Conflict, "write"),
        ] {
            let error = Error::custom(class, "no");
            assert_eq!((error.op(), error.with_op("list").op()), (op, "list"));
        }
    }

    #[test]
    fn sources_do_not_repeat_the_message() {
        let io = |error| Error::io("read", error);
        for error in [io(io::Error::from_raw_os_error(13)), io(io::ErrorKind::TimedOut.into())] {
            assert!(error.source().is_none() && error.cause().is_some(), "{error}");
        }
        let error = io(io::Error::other("the disk is on fire"));
        assert_eq!(error.to_string(), "Io, other error");
        assert_eq!(error.source().unwrap().to_string(), "the disk is on fire");
    }

    #[test]
    fn copies_share_the_cause() {
        let error = Error::io("read", io::Error::from_raw_os_error(5));
        let copy = error.clone().at_key(KEY);
        assert!(error.key().is_none() && copy.key().is_some());
        let cause = |error: &Error| std::ptr::from_ref(error.cause_as::<io::Error>().unwrap());
        assert_eq!(cause(&copy), cause(&error));
        assert_eq!(size_of::<Error>(), size_of::<usize>());
    }
}
