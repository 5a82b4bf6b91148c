//! Errors of reading and writing files.
//!
//! A write error states what cannot be written and what to do instead. A read error states the
//! location in the file: a line and a column of text, or a byte offset.

use std::fmt::{self, Display};
use std::io;

use zvf_error::{Error, Result};
use zvf_format::Class;
use zvf_model::BadCode;

/// A place in an input, which makes the errors of what is wrong there.
#[derive(Clone, Copy, Debug)]
pub struct Spot<P> {
    format: &'static str,
    place: P,
    hint: Option<&'static str>,
}

impl<P: Display> Spot<P> {
    /// Creates a place in a file of `format`.
    pub const fn new(format: &'static str, place: P) -> Self {
        Self { format, place, hint: None }
    }

    /// Adds advice to the errors.
    pub fn hint(self, hint: impl Into<Option<&'static str>>) -> Self {
        Self { hint: hint.into(), ..self }
    }

    /// Creates the error for a malformed input, or for contents that zvf does not support.
    pub fn error(&self, class: Class, expected: impl Display, found: impl Display) -> Error {
        let error = Error::new(class, self.place.to_string(), expected, found);
        error.with_part(self.format).with_hint(self.hint).with_op("convert")
    }

    /// Creates the error for a fault here.
    pub fn fault(self, fault: ByteFault) -> Error {
        self.hint(fault.hint).error(fault.class, fault.expected, fault.found)
    }

    /// Returns the error as a result.
    pub fn refuse<T>(
        &self,
        class: Class,
        expected: impl Display,
        found: impl Display,
    ) -> Result<T> {
        Err(self.error(class, expected, found))
    }

    /// Returns the error unless `holds`.
    pub fn ensure(
        &self,
        holds: bool,
        class: Class,
        expected: impl Display,
        found: impl Display,
    ) -> Result<()> {
        if holds { Ok(()) } else { self.refuse(class, expected, found) }
    }

    /// Returns the value, or the error if there is none.
    pub fn need<T>(
        &self,
        value: Option<T>,
        class: Class,
        expected: impl Display,
        found: impl Display,
    ) -> Result<T> {
        value.ok_or_else(|| self.error(class, expected, found))
    }
}

/// Creates the error for a value that `format` has no type for, with advice to the user.
pub fn cannot_hold(format: &str, what: impl Display, advice: &str) -> Error {
    worded_error(Class::Unsupported, format!("{format} cannot hold {what}: {advice}"))
}

/// Creates the error for a batch whose columns differ from those of earlier batches.
pub fn other_columns(expected: impl Display, found: impl Display) -> Error {
    let text = format!("a batch has other columns than the first: {found} instead of {expected}");
    worded_error(Class::InvalidArgument, text)
}

/// Creates the error for a stored code that has no category.
pub fn bad_code(column: &str, code: BadCode) -> Error {
    let text = format!("cannot decode the categories of {column:?}: {code}");
    worded_error(Class::OutOfBounds, text).with_said_cause(code)
}

/// Creates an error from a message.
pub fn worded_error(class: Class, text: String) -> Error {
    Error::custom(class, text).with_op("convert")
}

/// Creates the error for bytes that cannot be read. Errors of archive members, which are verified
/// and decompressed below [`io::Read`], and of store answers stay unchanged.
pub fn read_failed(cause: io::Error) -> Error {
    let cause = match cause.downcast::<Error>() {
        Ok(error) => return error,
        Err(cause) => cause,
    };
    let class = match cause.kind() {
        io::ErrorKind::NotFound => Class::NotFound,
        io::ErrorKind::PermissionDenied => Class::PermissionDenied,
        io::ErrorKind::InvalidData => Class::Checksum,
        io::ErrorKind::InvalidInput => Class::Codec,
        _ => Class::Io,
    };
    Error::custom(class, "cannot read").because(cause).with_op("convert")
}

/// A fault in bytes whose place in the file the caller knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ByteFault {
    /// The class of the error.
    pub class: Class,
    /// Bytes from the start of what was read.
    pub at: usize,
    /// What was expected.
    pub expected: String,
    /// What was found.
    pub found: String,
    /// Advice to the user.
    pub hint: Option<&'static str>,
}

impl ByteFault {
    /// Creates a fault at the start of what was read.
    pub fn new(class: Class, expected: impl Display, found: impl Display) -> Self {
        let (expected, found) = (expected.to_string(), found.to_string());
        Self { class, at: 0, expected, found, hint: None }
    }

    /// Returns the fault unless `holds`.
    pub fn ensure(
        holds: bool,
        class: Class,
        expected: impl Display,
        found: impl Display,
    ) -> Result<(), Self> {
        if holds { Ok(()) } else { Err(Self::new(class, expected, found)) }
    }
}

/// A location in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FilePlace {
    /// A line of text, from 1.
    Line(u64),
    /// A value in a line of text.
    Column {
        /// The line, from 1.
        line: u64,
        /// The name of the column.
        column: String,
    },
    /// A byte offset from the start.
    Byte(u64),
}

impl Display for FilePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(line) => write!(f, "line {line}"),
            Self::Column { line, column } => write!(f, "line {line}, column {column:?}"),
            Self::Byte(byte) => write!(f, "byte {byte}"),
        }
    }
}
