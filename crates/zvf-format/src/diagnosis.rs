//! Class, place, expected, found and hint of any error, in the terms that all layers share.
//!
//! An error type has one function for it, [`Diagnose::diagnosis`]: for an error of its own layer it fills a [`Diagnosis`],
//! for one from the layer below it returns that one's. So each layer describes only its own errors, and callers ask one type.
//!
//! An error that has a source does not repeat it: its message and those of its causes become one line by [`join_causes`].
//! Causes whose words may hold addresses and secrets are left out of a diagnosis and linked as sources only.
//!
//! Not here: the line of text (`zvf::Error`), and exit codes.

#[cfg(feature = "alloc")]
use alloc::string::{String, ToString as _};
use core::error::Error;
use core::fmt::Display;

use crate::error::{Class, FormatError, Hint};
use crate::key::ChunkKey;

/// An error that knows what it is. Errors of programs above this crate may implement it, too.
pub trait Diagnose: Error {
    /// Says what it is, where, what was expected and found, and what to do.
    fn diagnosis(&self) -> Diagnosis<'_>;
}

/// What an error is, borrowed from it.
///
/// ```
/// use zvf_format::{Class, Diagnose, Diagnosis, Expected, FormatError, Part};
///
/// let (expected, found) = (Expected::Bytes(32), 16);
/// let error = FormatError::new(Class::Truncated, Part::Manifest, "rows", 24, expected, found);
/// let Diagnosis { class, span, hint, .. } = error.diagnosis();
/// assert_eq!((class, span), (Class::Truncated, Some((24, 24))));
/// assert!(hint.is_some_and(|hint| hint.contains("copy it again")));
/// ```
#[derive(Clone, Copy)]
pub struct Diagnosis<'a> {
    /// The kind of fault, by its stable name.
    pub class: Class,
    /// What was being done: `read`, `parse`, `query`, `write` and so on.
    pub op: &'static str,
    /// The object or array, as a path below the root of the store.
    pub key: Option<&'a str>,
    /// The chunk it was met in, where [`text`](Self::text) does not say it.
    pub chunk: Option<&'a ChunkKey>,
    /// The bytes of the object that are meant, first and one past the last.
    pub span: Option<(u64, u64)>,
    /// What must be there.
    pub expected: Option<&'a dyn Display>,
    /// What is there instead.
    pub found: Option<&'a dyn Display>,
    /// What to do about it.
    pub hint: Option<&'static str>,
    /// A name that is none of those there are, and those, with commas between them.
    pub unknown: Option<(&'a str, &'a str)>,
    /// The message of the error where it arose.
    pub text: &'a dyn Display,
    /// What caused it and is not in the message, where its words may be shown.
    pub cause: Option<&'a (dyn Error + 'static)>,
    /// Whether the message begins with the class.
    pub says_class: bool,
}

impl<'a> Diagnosis<'a> {
    /// Describes an error of which no more is known, whose message does not name the class.
    #[must_use]
    pub const fn new(class: Class, op: &'static str, text: &'a dyn Display) -> Self {
        Self {
            class,
            op,
            key: None,
            chunk: None,
            span: None,
            expected: None,
            found: None,
            hint: None,
            unknown: None,
            text,
            cause: None,
            says_class: false,
        }
    }

    /// Describes the same as [`new`](Self::new), of an error whose message begins with the class.
    #[must_use]
    pub const fn naming_class(class: Class, op: &'static str, text: &'a dyn Display) -> Self {
        Self { says_class: true, ..Self::new(class, op, text) }
    }

    /// Adds what must be there and what is there.
    #[must_use]
    pub const fn with_values(self, expected: &'a dyn Display, found: &'a dyn Display) -> Self {
        Self { expected: Some(expected), found: Some(found), ..self }
    }

    /// Adds what caused it, whose words may be shown.
    #[must_use]
    pub fn with_cause(self, cause: &'a (dyn Error + 'static)) -> Self {
        Self { cause: Some(cause), ..self }
    }

    /// Sets the advice.
    #[must_use]
    pub const fn with_hint(self, hint: Option<Hint>) -> Self {
        let hint = match hint {
            Some(hint) => Some(hint.text()),
            None => None,
        };
        Self { hint, ..self }
    }
}

impl core::fmt::Debug for Diagnosis<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}: {}", self.class, self.text)
    }
}

impl Diagnose for FormatError {
    fn diagnosis(&self) -> Diagnosis<'_> {
        Diagnosis {
            span: Some((self.offset, self.offset)),
            ..Diagnosis::naming_class(self.class, "parse", self)
        }
        .with_values(&self.expected, &self.found)
        .with_hint(self.hint())
    }
}

/// Joins a message and those of `cause` and all its sources by ": " into one line, without a message that the one before it
/// holds already.
///
/// ```
/// use std::error::Error;
/// use zvf_format::join_causes;
///
/// let broken = std::io::Error::from(std::io::ErrorKind::BrokenPipe);
/// assert_eq!(join_causes("cannot write", Some(&broken)), "cannot write: broken pipe");
/// // What this error says is what its source says.
/// let wrapped = std::io::Error::other(broken);
/// assert_eq!(join_causes(&wrapped, wrapped.source()), "broken pipe");
/// ```
#[cfg(feature = "alloc")]
#[must_use]
pub fn join_causes(message: impl Display, cause: Option<&(dyn Error + 'static)>) -> String {
    let mut line = message.to_string();
    let mut before = line.clone();
    let mut next = cause;
    while let Some(error) = next {
        let text = error.to_string();
        if !before.contains(&text) {
            line.push_str(": ");
            line.push_str(&text);
            before = text;
        }
        next = error.source();
    }
    line
}
