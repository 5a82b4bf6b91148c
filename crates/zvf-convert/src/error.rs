//! Why a file cannot be written, or cannot be read.
//!
//! What cannot be written is described by what it is and what to do instead. A file that cannot be read is
//! described by where in it: a line and a column of text, or a byte.

use std::fmt;
use std::io;
use std::path::PathBuf;

use thiserror::Error;
use zvf_format::{Class, Diagnose, Diagnosis};
use zvf_model::BadCode;

/// A file that could not be written or read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ConvertError {
    /// The bytes could not be written.
    #[error("cannot write")]
    Io(#[from] io::Error),
    /// A stored code stands for nothing.
    #[error("cannot decode the categories of {column:?}: {code}")]
    Category {
        /// The column it is in.
        column: String,
        /// What is wrong with it.
        code: BadCode,
    },
    /// A value that the format has no type for.
    #[error("{format} cannot hold {what}: {advice}")]
    NoType {
        /// The format.
        format: &'static str,
        /// What it would have to hold.
        what: String,
        /// What to do instead.
        advice: &'static str,
    },
    /// A batch whose columns are not those of the batches before it.
    #[error("a batch has other columns than the first: {found} instead of {wanted}")]
    Columns {
        /// The columns of the first batch.
        wanted: String,
        /// The columns of this one.
        found: String,
    },
    /// The bytes could not be read.
    #[error("cannot read")]
    Read(#[source] io::Error),
    /// Neither the name nor the first bytes of a file tell what it is.
    #[error(
        "cannot tell the format of {}: name it with --format, or end its name with one of {}",
        .path.as_ref().map_or_else(|| "the stream".to_owned(), |path| path.display().to_string()),
        crate::Format::readable()
    )]
    NoFormat {
        /// The file, where it is one.
        path: Option<PathBuf>,
    },
    /// A format that can be written and not read.
    #[error(
        "{format} is written and not read: the formats that are read are {}",
        crate::Format::readable()
    )]
    NotRead {
        /// The format.
        format: &'static str,
    },
    /// A format that can be read and not written.
    #[error("{format} is read and not written: the formats that are written are {known}")]
    NotWritten {
        /// The format.
        format: &'static str,
        /// Those that are written.
        known: String,
    },
    /// A file that is not what it claims to be, or holds what geometry does not.
    #[error(transparent)]
    Input(#[from] Box<BadInput>),
}

impl ConvertError {
    /// The kind of fault, by its stable name.
    #[must_use]
    pub fn class(&self) -> Class {
        self.diagnosis().class
    }
}

impl Diagnose for ConvertError {
    fn diagnosis(&self) -> Diagnosis<'_> {
        let own = |class| Diagnosis::new(class, "convert", self);
        match self {
            Self::Io(error) => own(find_class(&WRITE_FAULTS, error)).with_cause(error),
            Self::Category { .. } => own(Class::OutOfBounds),
            Self::NoType { .. } | Self::NotRead { .. } | Self::NotWritten { .. } => {
                own(Class::Unsupported)
            }
            Self::Columns { .. } | Self::NoFormat { .. } => own(Class::InvalidArgument),
            Self::Read(error) => own(find_class(&READ_FAULTS, error)).with_cause(error),
            Self::Input(bad) => Diagnosis {
                hint: bad.hint,
                ..Diagnosis::naming_class(bad.class, "convert", bad)
                    .with_values(&bad.expected, &bad.found)
            },
        }
    }
}

fn find_class(faults: &[(io::ErrorKind, Class)], error: &io::Error) -> Class {
    let known = faults.iter().find(|(kind, _)| *kind == error.kind());
    known.map_or(Class::Io, |(_, class)| *class)
}

/// What cannot be written, and why.
const WRITE_FAULTS: [(io::ErrorKind, Class); 2] = [
    (io::ErrorKind::StorageFull, Class::NoSpace),
    (io::ErrorKind::PermissionDenied, Class::PermissionDenied),
];

/// What cannot be read, and why; members of archives are checked and unpacked below [`io::Read`].
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

/// What is wrong with a file, and where.
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
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{class} in {format}, {place}: expected {expected}, found {found}{}", HintText(*.hint))]
pub struct BadInput {
    /// The kind of fault, by its stable name.
    pub class: Class,
    /// The format the file is read as.
    pub format: &'static str,
    /// Where in it.
    pub place: Place,
    /// What the format, or what was asked for, wants there.
    pub expected: String,
    /// What is there instead.
    pub found: String,
    /// What to do about it.
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
    /// So many bytes from the start.
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
