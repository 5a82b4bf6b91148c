//! The uniform view of everything that can go wrong, whichever layer it comes from.
//!
//! Each layer says its own part (the format the byte, the store the object, the model the array, the
//! query the question); here all of it has one shape, so that a program matches on [`Error::class`]
//! and a person reads one line: what, where, expected, found, and what to do about it.
//!
//! ```text
//! Truncated in 0/vertices/c/3/1/0 at 16..104, object: expected 104 bytes, found 40; the object is …
//! class        key                  span      what      expected   found            hint
//! ```
//!
//! Not here: how a command prints it and ends.

use std::borrow::Cow;
use std::fmt;

use zvf_format::{Class, Diagnose, join_causes};
use zvf_store::StoreError;

use crate::closest_name::find_closest_name;

/// A fault of any layer.
///
/// ```
/// use zvf::format::Class;
///
/// let error = zvf::Error::from(zvf::Key::root().child("a/b").unwrap_err());
/// assert_eq!((error.class(), error.op()), (Class::InvalidKey, "name"));
/// assert!(!error.to_string().contains('\n'));
/// ```
pub struct Error(Box<Inner>);

#[derive(Debug)]
struct Inner {
    class: Class,
    op: &'static str,
    key: Option<String>,
    span: Option<(u64, u64)>,
    text: String, // without the hint
    expected: Option<String>,
    found: Option<String>,
    hint: Option<Cow<'static, str>>,
    layer: Option<Box<dyn std::error::Error + Send + Sync>>,
    says_causes: bool, // what caused the error of the layer is in `text`
}

impl Error {
    /// Returns the kind of fault, by its stable name.
    #[must_use]
    pub fn class(&self) -> Class {
        self.0.class
    }

    /// Returns what was being done: `open`, `read`, `list`, `parse`, `decode`, `name`, `query`, `convert`,
    /// `write`, `render`, `repair` or `wait`.
    #[must_use]
    pub fn op(&self) -> &'static str {
        self.0.op
    }

    /// Returns the object or array, as a path below the root of the store.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        self.0.key.as_deref()
    }

    /// Returns the bytes of the object that are meant, first and one past the last.
    #[must_use]
    pub fn span(&self) -> Option<(u64, u64)> {
        self.0.span
    }

    /// Returns what must be there, where that is known.
    #[must_use]
    pub fn expected(&self) -> Option<&str> {
        self.0.expected.as_deref()
    }

    /// Returns what is there instead, where that is known.
    #[must_use]
    pub fn found(&self) -> Option<&str> {
        self.0.found.as_deref()
    }

    /// Returns what to do about it.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }

    /// Returns the error of the layer that it comes from, to be downcast: [`StoreError`](zvf_store::StoreError),
    /// `QueryError`, ...
    #[must_use]
    pub fn layer(&self) -> Option<&(dyn std::error::Error + Send + Sync + 'static)> {
        self.0.layer.as_deref()
    }

    /// Returns whether the same request may succeed later without anything being changed.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        self.class().is_retryable()
    }

    /// Adds advice that the layers below could not give, unless there is some.
    #[must_use]
    pub(crate) fn or_hint(mut self, hint: impl FnOnce() -> Option<String>) -> Self {
        if self.0.hint.is_none() {
            self.0.hint = hint().map(Cow::Owned);
        }
        self
    }

    /// Returns the error for a request that says something it cannot mean.
    pub(crate) fn bad_request(what: &'static str, expected: &'static str, found: &str) -> Self {
        let expected = zvf_format::Expected::Rule(expected);
        let class = Class::InvalidArgument;
        StoreError::invalid_value(class, zvf_store::Op::Name, what, expected, found).into()
    }

    /// Returns a fault in words: what, where, expected, found, and what to do.
    #[cfg(feature = "validate")]
    pub(crate) fn custom(class: Class, op: &'static str, text: String) -> Self {
        Self::new(class, op, text)
    }

    /// Returns the error for work that its progress callback stopped.
    #[cfg(any(feature = "validate", all(feature = "convert", feature = "write")))]
    pub(crate) fn stopped_error() -> Self {
        Self::new(Class::Cancelled, "write", "Cancelled, stopped".to_owned())
    }

    /// Returns the error for two files of one input whose columns are not the same.
    #[cfg(all(feature = "convert", feature = "write"))]
    pub(crate) fn other_columns_error(expected: &str, found: &str) -> Self {
        let class = Class::InvalidArgument;
        let text = format!("{class}, the input: expected {expected}, found {found}");
        let mut error = Self::new(class, "convert", text);
        error.0.hint = Some("state the types of columns that were guessed".into());
        error
    }

    /// Adds the file that the fault is in.
    #[cfg(all(feature = "convert", feature = "write"))]
    pub(crate) fn in_file(mut self, file: &std::path::Path) -> Self {
        self.0.text = format!("{}: {}", file.display(), self.0.text);
        self
    }

    /// Returns the error for a vertex that lies nowhere.
    #[cfg(all(feature = "convert", feature = "write"))]
    pub(crate) fn not_finite_error(vertex: u64, found: &str) -> Self {
        let class = Class::InvalidArgument;
        let text = format!("{class}, vertex {vertex}: expected finite coordinates, found {found}");
        Self::new(class, "convert", text)
    }

    /// Returns the error for a file that held another number of vertices when it was looked at.
    #[cfg(all(feature = "convert", feature = "write"))]
    pub(crate) fn changed_count_error(file: &str, expected: u64, found: u64) -> Self {
        let class = Class::FileChanged;
        let text =
            format!("{class}, {file}: expected {expected} vertices as before, found {found}");
        Self::new(class, "convert", text)
    }

    /// Returns the error for a file that is not what it was when the plan was made.
    #[cfg(all(feature = "convert", feature = "write"))]
    pub(crate) fn changed_file_error(file: &str) -> Self {
        let class = Class::FileChanged;
        let text = format!("{class}, {file}: expected the file as it was planned, found another");
        let mut error = Self::new(class, "convert", text);
        error.0.hint = Some("plan again".into());
        error
    }

    /// Returns the error for a call that would wait for a network on a thread that drives other tasks.
    pub(crate) fn would_block_error() -> Self {
        let mut error = Self::new(
            Class::InvalidArgument,
            "wait",
            "InvalidArgument, a blocking call on a remote store inside an async runtime".to_owned(),
        );
        error.0.hint = Some("use the async functions there, or a thread of its own".into());
        error
    }

    /// Returns the error for a blocking API without its runtime.
    pub(crate) fn no_runtime_error(source: std::io::Error) -> Self {
        let text = format!("Io, the runtime for remote stores does not start: {}", source.kind());
        let mut error = Self::new(Class::Io, "open", text);
        error.0.layer = Some(source.into());
        error
    }

    fn new(class: Class, op: &'static str, text: String) -> Self {
        Self(Box::new(Inner {
            class,
            op,
            key: None,
            span: None,
            text,
            expected: None,
            found: None,
            hint: None,
            layer: None,
            says_causes: false,
        }))
    }
}

/// An error of any layer, with the message of the layer where it arose.
impl<E: Diagnose + Send + Sync + 'static> From<E> for Error {
    fn from(source: E) -> Self {
        let fault = source.diagnosis();
        let text = without_hint(&fault.text.to_string(), fault.hint);
        let mut text = if fault.says_class { text } else { format!("{}, {text}", fault.class) };
        if let Some(chunk) = fault.chunk {
            text.push_str(&format!(" (chunk {chunk})"));
        }
        let text = join_causes(text, fault.cause);
        let near =
            fault.unknown.and_then(|(name, names)| find_closest_name(name, names.split(", ")));
        let near = near.map(|near| Cow::Owned(format!("did you mean {near:?}?")));
        let mut error = Self::new(fault.class, fault.op, text);
        error.0.key = fault.key.map(str::to_owned);
        error.0.span = fault.span;
        error.0.expected = fault.expected.map(ToString::to_string);
        error.0.found = fault.found.map(ToString::to_string);
        error.0.hint = near.or(fault.hint.map(Cow::Borrowed));
        error.0.says_causes = fault.cause.is_some();
        error.0.layer = Some(Box::new(source));
        error
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.text)?;
        match &self.0.hint {
            Some(hint) => write!(f, "; {hint}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Error {
    /// Returns what caused it and is not shown: the words of a backend, which may hold addresses and secrets. The error of
    /// the layer is [`Error::layer`].
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        if self.0.says_causes {
            return None;
        }
        self.0.layer.as_deref()?.source()
    }
}

/// Returns the line of a layer that says its hint at the end, without it.
fn without_hint(text: &str, hint: Option<&str>) -> String {
    let cut = hint.and_then(|hint| text.strip_suffix(hint)?.strip_suffix("; "));
    cut.unwrap_or(text).to_owned()
}

#[cfg(test)]
mod tests {
    use zvf_format::key::ChunkKey;
    use zvf_format::{Expected, FormatError, Part};
    use zvf_model::ModelError;
    use zvf_store::{Key, Op};

    use super::*;

    #[test]
    fn errors_of_every_layer_are_one_line_of_the_same_form() {
        let format = || {
            let (expected, found) = (Expected::Bytes(88), 40_u8);
            FormatError::new(Class::Truncated, Part::FragmentIndex, "ranges", 24, expected, found)
        };
        let key = Key::root().join("0/vertices").unwrap();
        let store = StoreError::from(format()).with_key(&key).with_span(16, 40);
        let chunk = "3.1".parse::<ChunkKey>().unwrap();
        let model = ModelError::from(store.clone()).with_array("0/vertices").with_chunk(&chunk);
        let hint = "the object is cut short: copy it again, or run \"zvf repair --plan\"";
        for (error, text) in [
            (
                Error::from(store),
                "Truncated in 0/vertices at 16..40, fragment index ranges at byte 24: expected 88 \
                 bytes, found 40; ",
            ),
            (
                Error::from(model),
                "Truncated in 0/vertices at 16..40, fragment index ranges at byte 24: expected 88 \
                 bytes, found 40 (chunk 3.1); ",
            ),
            (
                Error::from(format()),
                "Truncated in fragment index, ranges at byte 24: expected 88 bytes, found 40; ",
            ),
        ] {
            assert_eq!(error.to_string(), format!("{text}{hint}"));
            assert_eq!(
                (error.class(), error.expected(), error.found()),
                (Class::Truncated, Some("88 bytes"), Some("40"))
            );
            assert_eq!(error.hint(), Some(hint));
            assert!(error.layer().is_some() && std::error::Error::source(&error).is_none());
        }
    }

    #[cfg(feature = "pyramid")]
    #[test]
    fn a_wrapped_error_keeps_message_and_class() {
        let key = Key::root().join("0/zarr.json").unwrap();
        let store = || StoreError::io(Op::Read, std::io::ErrorKind::TimedOut.into()).with_key(&key);
        let direct = Error::from(store());
        let write = zvf_write::WriteError::from(ModelError::from(store()));
        let wrapped = Error::from(zvf_pyramid::PyramidError::from(write));
        for error in [&direct, &wrapped] {
            assert_eq!(
                (error.class(), error.op(), error.key()),
                (direct.class(), "read", Some("0/zarr.json"))
            );
            assert_eq!(error.to_string(), direct.to_string());
            assert!(std::error::Error::source(error).is_none(), "the message says it");
        }
        assert!(wrapped.layer().unwrap().is::<zvf_pyramid::PyramidError>());
        let setting = zvf_pyramid::PyramidError::Setting {
            what: "growth",
            expected: "more than 1",
            found: "0.5".to_owned(),
        };
        let error = Error::from(setting);
        assert_eq!(error.to_string(), "InvalidArgument, growth: expected more than 1, found 0.5");
        assert_eq!((error.expected(), error.found()), (Some("more than 1"), Some("0.5")));
    }

    #[test]
    fn errors_report_their_location() {
        let key = Key::root().join("0/vertices/c/0/0").unwrap();
        let error = Error::from(StoreError::missing(&key, "the array records this chunk"));
        assert_eq!(
            (error.key(), error.span(), error.hint()),
            (Some("0/vertices/c/0/0"), None, None)
        );
        assert_eq!(
            (error.class(), error.op(), error.is_retryable()),
            (Class::NotFound, "read", false)
        );
        let slow = StoreError::io(Op::Read, std::io::ErrorKind::TimedOut.into());
        assert!(Error::from(slow).is_retryable());
        let wide = Error::from(zvf_model::Bounds::new(&[2.0], &[1.0]).unwrap_err());
        assert_eq!((wide.class(), wide.op()), (Class::InvalidArgument, "query"));
    }

    #[cfg(feature = "render")]
    #[test]
    fn a_cause_is_shown_once_and_can_be_reached() {
        use std::error::Error as _;

        let disk_error = || std::io::Error::other("the paper is used up");
        let error = Error::from(zvf_render::RenderError::from(disk_error()));
        assert_eq!(error.to_string(), "Io, the picture cannot be written: the paper is used up");
        assert!(error.source().is_none());
        assert!(error.layer().unwrap().source().unwrap().is::<std::io::Error>());
        // The message of a backend may hold secrets: it is linked and not printed.
        let error = Error::from(StoreError::io(Op::Read, std::io::Error::other("secret")));
        assert_eq!(error.to_string(), "Io, other error");
        assert_eq!(error.source().unwrap().to_string(), "secret");
    }

    #[cfg(feature = "query")]
    #[test]
    fn an_unknown_column_suggests_the_nearest_one() {
        let query_error = zvf_query::BadQuery::NoSuchColumn {
            scope: "vertex",
            name: "intensty".into(),
            available: "color, intensity".into(),
        };
        assert_eq!(
            Error::from(zvf_query::QueryError::from(query_error)).to_string(),
            "InvalidArgument, there is no vertex attribute \"intensty\": there is color, \
             intensity; did you mean \"intensity\"?"
        );
    }
}
