//! What can go wrong between geometry and cells.
//!
//! The caller's faults (columns that do not go together, a vertex outside the bounds, a tree with two
//! roots) are told apart from those of the store and of the scratch folder. After any error the store
//! is as if nothing had been written: nothing of it was visible yet.

use std::io;

use thiserror::Error;
use zvf_format::num::to_u64;
use zvf_format::{Class, Diagnose, Diagnosis, FormatError};
use zvf_metadata::MetadataError;
use zvf_model::{BadBatch, BadCode, BadColumn, Kind, ModelError, ObjectId};
use zvf_store::StoreError;

/// Geometry that cannot be written, or a place it cannot be written to.
///
/// ```
/// use zvf_format::Class;
/// use zvf_model::ObjectId;
/// use zvf_write::WriteError;
///
/// let error = WriteError::Roots { object: ObjectId(3), roots: 2 };
/// assert_eq!(error.class(), Class::InvalidArgument);
/// assert_eq!(
///     error.to_string(),
///     "object 3 of a skeleton must be one tree, found 2 vertices without a parent",
/// );
/// ```
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The store could not be written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A number does not fit the format: a coordinate without a chunk, a blob that is too large.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// A document could not be made.
    #[error(transparent)]
    Metadata(#[from] MetadataError),
    /// A store that is copied could not be read.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// Columns that do not go together.
    #[error(transparent)]
    Batch(#[from] BadBatch),
    /// Bytes that are no column.
    #[error(transparent)]
    Column(#[from] BadColumn),
    /// A code that is none of the categories.
    #[error("{name}: {code}")]
    Code {
        /// The attribute.
        name: String,
        /// The code.
        code: BadCode,
    },
    /// The scratch folder could not be used.
    #[error("cannot use the scratch folder")]
    Scratch(#[source] io::Error),
    /// A setting that makes no sense.
    #[error("{what}: expected {expected}, found {found}")]
    Setting {
        /// What was set.
        what: &'static str,
        /// What it may be.
        expected: String,
        /// What it is.
        found: String,
    },
    /// A batch that is not what this writer takes.
    #[error("a batch of {kind}: {what} must be {expected}, found {found}")]
    Unfit {
        /// What is being written.
        kind: Kind,
        /// The part of the batch.
        what: String,
        /// What it must be.
        expected: String,
        /// What it is.
        found: String,
    },
    /// Vertices outside the declared bounds.
    #[error(
        "{points} of {total} vertices lie outside the bounds, the first is vertex {first} at {at:?}; \
         leave them out or let the bounds grow, if that is wanted"
    )]
    Outside {
        /// How many.
        points: u64,
        /// Of how many in the batch.
        total: u64,
        /// The number of the first, counted over all batches.
        first: u64,
        /// Where it is.
        at: Vec<f64>,
    },
    /// A skeleton's object that is no tree.
    #[error(
        "object {object} of a skeleton must be one tree, found {roots} vertices without a parent"
    )]
    Roots {
        /// The object.
        object: ObjectId,
        /// Vertices without a parent.
        roots: u64,
    },
    /// An object that was given as two kinds of geometry.
    #[error(
        "object {object} is both a {} and a {}: ids are those of all kinds together",
        kinds[0], kinds[1]
    )]
    TwoKinds {
        /// The object.
        object: ObjectId,
        /// What it is.
        kinds: [Kind; 2],
    },
    /// A skeleton's vertex with two parents, or none that leads to a root.
    #[error("vertex {vertex} of a skeleton {fault}")]
    Parent {
        /// The vertex, counted over all batches.
        vertex: u64,
        /// What is wrong with it.
        fault: &'static str,
    },
    /// An element that names a vertex that was not given.
    #[error("element {element} names vertex {vertex} of {vertices}")]
    NoSuchVertex {
        /// The element, counted over all batches.
        element: u64,
        /// The vertex it names.
        vertex: u64,
        /// How many vertices there are.
        vertices: u64,
    },
    /// Someone set [`WriteOptions::stop`](crate::WriteOptions::stop).
    #[error("stopped before the store was whole")]
    Stopped,
    /// What one step of a build left is not what another one needs.
    #[error("{task}: expected {expected}, found {found}")]
    Task {
        /// The step, or the file that it wrote.
        task: String,
        /// What was to be there.
        expected: String,
        /// What is there.
        found: String,
    },
    /// A step came before the steps that it needs were done, or while another process keeps it out: the same later succeeds.
    #[error("{task}: expected {expected}, found {found}")]
    TooEarly {
        /// The step, or the folder that is in use.
        task: String,
        /// What was to be done before.
        expected: String,
        /// What is not done, or who is at work.
        found: String,
    },
    /// Cells that a step wrote and that are not where it put them.
    #[error("{array}: expected every cell that was written, found {} not there", .chunks.len())]
    Lost {
        /// The array.
        array: String,
        /// The keys of their chunks.
        chunks: Vec<Box<str>>,
    },
    /// More than can be held in memory or counted.
    #[error("{what}: {found} is more than {max}")]
    TooMuch {
        /// What there is too much of.
        what: &'static str,
        /// The most there can be.
        max: u64,
        /// How much there is.
        found: u64,
    },
}

impl WriteError {
    /// Returns the kind of fault, by its stable name.
    #[must_use]
    pub fn class(&self) -> Class {
        self.diagnosis().class
    }

    /// Returns the error for a setting that makes no sense.
    pub(crate) fn setting(
        what: &'static str,
        expected: impl Into<String>,
        found: impl ToString,
    ) -> Self {
        Self::Setting { what, expected: expected.into(), found: found.to_string() }
    }

    /// Returns the error for a batch that does not fit.
    pub(crate) fn unfit(
        kind: Kind,
        what: impl Into<String>,
        expected: impl ToString,
        found: impl ToString,
    ) -> Self {
        let (expected, found) = (expected.to_string(), found.to_string());
        Self::Unfit { kind, what: what.into(), expected, found }
    }
}

impl Diagnose for WriteError {
    fn diagnosis(&self) -> Diagnosis<'_> {
        let diagnose = |class| Diagnosis::new(class, "write", self);
        match self {
            Self::Store(error) => error.diagnosis(),
            Self::Format(error) => error.diagnosis(),
            Self::Metadata(error) => error.diagnosis(),
            Self::Model(error) => error.diagnosis(),
            Self::Scratch(error) => diagnose(io_class(error.kind())).with_cause(error),
            Self::Outside { .. } | Self::NoSuchVertex { .. } => diagnose(Class::OutOfBounds),
            Self::TooMuch { .. } => diagnose(Class::LimitExceeded),
            Self::Stopped => diagnose(Class::Cancelled),
            Self::Task { expected, found, .. } => {
                diagnose(Class::CountMismatch).with_values(expected, found)
            }
            Self::TooEarly { expected, found, .. } => {
                diagnose(Class::Unavailable).with_values(expected, found)
            }
            Self::Lost { .. } => diagnose(Class::CountMismatch),
            Self::Setting { expected, found, .. } | Self::Unfit { expected, found, .. } => {
                diagnose(Class::InvalidArgument).with_values(expected, found)
            }
            Self::Batch(_)
            | Self::Column(_)
            | Self::Code { .. }
            | Self::Roots { .. }
            | Self::TwoKinds { .. }
            | Self::Parent { .. } => diagnose(Class::InvalidArgument),
        }
    }
}

/// Returns a count that is kept in 32 bits.
///
/// # Errors
///
/// `TooMuch` where it does not fit.
pub(crate) fn count_u32(what: &'static str, count: usize) -> Result<u32, WriteError> {
    let (max, found) = (u64::from(u32::MAX), to_u64(count));
    u32::try_from(count).map_err(|_too_many| WriteError::TooMuch { what, max, found })
}

/// Returns the class of what the operating system answered.
fn io_class(kind: io::ErrorKind) -> Class {
    let full = [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded];
    if full.contains(&kind) {
        Class::NoSpace
    } else if kind == io::ErrorKind::PermissionDenied {
        Class::PermissionDenied
    } else if kind == io::ErrorKind::NotFound {
        Class::NotFound
    } else {
        Class::Io
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_of_the_scratch_folder_have_classes() {
        for (kind, class) in [
            (io::ErrorKind::StorageFull, Class::NoSpace),
            (io::ErrorKind::PermissionDenied, Class::PermissionDenied),
            (io::ErrorKind::NotFound, Class::NotFound),
            (io::ErrorKind::Other, Class::Io),
        ] {
            assert_eq!(WriteError::Scratch(kind.into()).class(), class);
        }
    }
}
