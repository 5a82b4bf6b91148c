//! Errors of reading and writing files.
//!
//! An error of writing names what cannot be written and what to do instead. An error of reading names the place in the
//! file: a line and a column of text, or a byte.

use std::fmt;
use std::io;
use std::path::PathBuf;

use zvf_error::Error;
use zvf_format::Class;
use zvf_model::BadCode;

/// An error of reading or writing a file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConvertError {
    /// The bytes could not be written.
    #[error("cannot write")]
    Io(#[from] io::Error),
    /// A stored code has no category.
    #[error("cannot decode the categories of {column:?}: {code}")]
    Category {
        /// The column of the code.
        column: String,
        /// The code.
        code: BadCode,
    },
    /// A value that the format has no type for.
    #[error("{format} cannot hold {what}: {advice}")]
    NoType {
        /// The format.
        format: &'static str,
        /// The value that it cannot hold.
        what: String,
        /// Advice to the user.
        advice: &'static str,
    },
    /// A batch whose columns are not those of the batches before it.
    #[error("a batch has other columns than the first: {found} instead of {expected}")]
    Columns {
        /// The columns of the first batch.
        expected: String,
        /// The columns of this one.
        found: String,
    },
    /// The bytes could not be read.
    #[error("cannot read")]
    Read(#[source] io::Error),
    /// Neither the name nor the first bytes of a file determine its format.
    #[error(
        "cannot tell the format of {}: name it with --format, or end its name with one of {}",
        .path.as_ref().map_or_else(|| "the stream".to_owned(), |path| path.display().to_string()),
        crate::Format::list_readable()
    )]
    NoFormat {
        /// The file, or `None` for a stream.
        path: Option<PathBuf>,
    },
    /// A format that this build lacks.
    #[error("{0}")]
    LacksFormat(crate::format::MissingFormat),
    /// A format that can be written but not read.
    #[error(
        "{format} is written and not read: the formats that are read are {}",
        crate::Format::list_readable()
    )]
    NotRead {
        /// The format.
        format: &'static str,
    },
    /// A format that can be read but not written.
    #[error("{format} is read and not written: the formats that are written are {written}")]
    NotWritten {
        /// The format.
        format: &'static str,
        /// The formats that can be written.
        written: String,
    },
    /// A malformed file, or one with contents that zvf does not support.
    #[error(transparent)]
    Input(#[from] Box<BadInput>),
}

impl ConvertError {
    /// Returns the stable class of the error.
    #[must_use]
    pub fn class(&self) -> Class {
        match self {
            Self::Io(error) => find_class(&WRITE_FAULTS, error),
            Self::Category { .. } => Class::OutOfBounds,
            Self::LacksFormat(_)
            | Self::NoType { .. }
            | Self::NotRead { .. }
            | Self::NotWritten { .. } => Class::Unsupported,
            Self::Columns { .. } | Self::NoFormat { .. } => Class::InvalidArgument,
            Self::Read(error) => find_class(&READ_FAULTS, error),
            Self::Input(bad) => bad.class,
        }
    }
}

impl From<ConvertError> for Error {
    fn from(error: ConvertError) -> Self {
        let (class, text) = (error.class(), error.to_string());
        let made = match error {
            ConvertError::Io(cause) | ConvertError::Read(cause) => {
                Self::custom(class, text).because(cause)
            }
            ConvertError::Input(bad) => {
                let made = Self::new(class, bad.place.to_string(), &bad.expected, &bad.found);
                made.with_part(bad.format).with_hint(bad.hint).with_said_cause(bad)
            }
            other => Self::from_cause(class, other),
        };
        made.with_op("convert")
    }
}

fn find_class(faults: &[(io::ErrorKind, Class)], error: &io::Error) -> Class {
    let entry = faults.iter().find(|(kind, _)| *kind == error.kind());
    entry.map_or(Class::Io, |(_, class)| *class)
}

/// Classes of errors of writing.
const WRITE_FAULTS: [(io::ErrorKind, Class); 2] = [
    (io::ErrorKind::StorageFull, Class::NoSpace),
    (io::ErrorKind::PermissionDenied, Class::PermissionDenied),
];

/// Classes of errors of reading. Members of archives are verified and decompressed below [`io::Read`].
const READ_FAULTS: [(io::ErrorKind, Class); 4] = [
    (io::ErrorKind::NotFound, Class::NotFound),
    (io::ErrorKind::PermissionDenied, Class::PermissionDenied),
    (io::ErrorKind::InvalidData, Class::Checksum),
    (io::ErrorKind::InvalidInput, Class::Codec),
];

impl From<BadInput> for ConvertError {
    fn from(bad: BadInput) -> Self {
        Self::Input(Box::new(bad))
    }
}

/// A fault of a file, and its place.
///
/// ```
/// use zvf_convert::read::{self, Format, Input, ReadOptions};
///
/// let text: &[u8] = b"x,y\n1,2\n3,four\n";
/// let options = ReadOptions { positions: None, ..ReadOptions::default() };
/// let mut reader = read::open(Input::reader(text), Some(Format::Csv), &options)?;
/// let error = reader.find_map(Result::err).unwrap();
/// assert_eq!(
///     error.to_string(),
///     "Encoding in CSV, line 3, column \"y\": expected float64, found \"four\""
/// );
/// # Ok::<(), zvf_convert::ConvertError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{class} in {format}, {place}: expected {expected}, found {found}{}", HintText(*.hint))]
pub struct BadInput {
    /// The stable class of the fault.
    pub class: Class,
    /// The format that the file is read as.
    pub format: &'static str,
    /// The place in the file.
    pub place: Place,
    /// What the format or the options require there.
    pub expected: String,
    /// What the file has there.
    pub found: String,
    /// Advice to the user.
    pub hint: Option<&'static str>,
}

impl BadInput {
    pub(crate) fn new(
        class: Class,
        format: &'static str,
        place: Place,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> Self {
        let (expected, found) = (expected.into(), found.into());
        Self { class, format, place, expected, found, hint: None }
    }

    pub(crate) fn with_hint(self, hint: &'static str) -> Self {
        Self { hint: Some(hint), ..self }
    }
}

struct HintText(Option<&'static str>);

impl fmt::Display for HintText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |hint| write!(f, "; {hint}"))
    }
}

/// A place in a file.
///
/// ```
/// let place = zvf_convert::Place::Column { line: 3, column: "y".into() };
/// assert_eq!(place.to_string(), "line 3, column \"y\"");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Place {
    /// A line of text, from 1.
    Line(u64),
    /// A value of a line of text.
    Column {
        /// The line, from 1.
        line: u64,
        /// The name of the column.
        column: String,
    },
    /// A byte offset from the start.
    Byte(u64),
    /// A part of the file by its name: a field of its header, an array of a set.
    Named(String),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(line) => write!(f, "line {line}"),
            Self::Column { line, column } => write!(f, "line {line}, column {column:?}"),
            Self::Byte(byte) => write!(f, "byte {byte}"),
            Self::Named(name) => f.write_str(name),
        }
    }
}
