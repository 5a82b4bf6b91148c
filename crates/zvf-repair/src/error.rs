//! Errors of repair.

use std::io;

use zvf_format::{Class, Diagnose, Diagnosis};
use zvf_store::StoreError;

/// An error of planning or applying.
///
/// ```
/// use zvf_format::Class;
/// use zvf_repair::RepairError;
///
/// let error = RepairError::Changed { path: "0/zarr.json".into() };
/// assert_eq!(error.class(), Class::Conflict);
/// assert_eq!(error.to_string(), "Conflict in 0/zarr.json, it is no longer what the plan was made from");
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RepairError {
    /// The store could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An object changed since the plan was made.
    #[error("Conflict in {path}, it is no longer what the plan was made from")]
    Changed {
        /// The object.
        path: String,
    },
    /// The backend does not replace conditionally.
    #[error("Unsupported in {path}, the backend does not replace objects conditionally")]
    NoConditionalPut {
        /// The object.
        path: String,
    },
    /// The store has a journal, which a repair would bypass.
    #[error(
        "{}, the store has a journal: repair it by \"zvf repair\", which commits what it does",
        Class::InvalidArgument
    )]
    HasJournal,
    /// The store has no sibling path.
    #[error(
        "{}, a store that is a whole bucket has no place beside it for what is replaced",
        Class::InvalidArgument
    )]
    NothingBeside,
    /// A file could not be read or written.
    #[error("{} in {path}, the file cannot be read or written", Class::Io)]
    Io {
        /// The object.
        path: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The backend failed.
    #[error("{} in {path}, the backend failed", Class::Unavailable)]
    Backend {
        /// The object.
        path: String,
        /// Its error.
        source: object_store::Error,
    },
}

impl From<zvf_publish::PublishError> for RepairError {
    fn from(error: zvf_publish::PublishError) -> Self {
        Self::Store(error.into())
    }
}

impl Diagnose for RepairError {
    fn diagnosis(&self) -> Diagnosis<'_> {
        let diagnose = |class| Diagnosis::naming_class(class, "repair", self);
        match self {
            Self::Store(error) => error.diagnosis(),
            Self::Changed { .. } => diagnose(Class::Conflict),
            Self::NoConditionalPut { .. } => diagnose(Class::Unsupported),
            Self::NothingBeside | Self::HasJournal => diagnose(Class::InvalidArgument),
            Self::Io { source, .. } => diagnose(Class::Io).with_cause(source),
            Self::Backend { .. } => diagnose(Class::Unavailable),
        }
    }
}

impl RepairError {
    /// Returns the kind of fault.
    #[must_use]
    pub fn class(&self) -> Class {
        self.diagnosis().class
    }

    pub(crate) fn io(path: &str) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path, source }
    }
}
