//! Why a batch cannot be written in a format.

use std::io;

use thiserror::Error;
use zvf_format::Class;
use zvf_model::BadCode;

/// A file that could not be written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ConvertError {
    /// The bytes could not be written.
    #[error("cannot write: {0}")]
    Io(#[from] io::Error),
    /// A stored code stands for nothing.
    #[error("cannot decode the categories of {column:?}: {source}")]
    Category {
        /// The column it is in.
        column: String,
        /// What is wrong with it.
        source: BadCode,
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
}

impl ConvertError {
    /// The kind of fault, by its stable name.
    #[must_use]
    pub fn class(&self) -> Class {
        match self {
            Self::Io(error) if error.kind() == io::ErrorKind::StorageFull => Class::NoSpace,
            Self::Io(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                Class::PermissionDenied
            }
            Self::Io(_) => Class::Io,
            Self::Category { .. } => Class::OutOfBounds,
            Self::NoType { .. } => Class::Unsupported,
            Self::Columns { .. } => Class::InvalidArgument,
        }
    }
}
