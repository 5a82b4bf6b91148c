//! What can go wrong between a level and a coarser one.
//!
//! What the store, the level or the writer has to say is passed on as it is; of our own there is only a
//! setting that means nothing, and a store that cannot have such levels.

use thiserror::Error;
use zvf_format::{Class, Diagnose, Diagnosis, FormatError};
use zvf_metadata::MetadataError;
use zvf_model::{BadBatch, BadColumn, ModelError};
use zvf_query::QueryError;
use zvf_store::StoreError;
use zvf_write::WriteError;

/// Levels that were not made.
///
/// ```
/// use zvf_format::Class;
/// use zvf_pyramid::PyramidError;
///
/// let error = PyramidError::Setting { what: "growth", expected: "more than 1", found: "0.5".into() };
/// assert_eq!(error.class(), Class::InvalidArgument);
/// assert_eq!(error.to_string(), "growth: expected more than 1, found 0.5");
/// ```
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PyramidError {
    /// A setting that means nothing, or nothing for this store.
    #[error("{what}: expected {expected}, found {found}")]
    Setting {
        /// The setting.
        what: &'static str,
        /// What it may be.
        expected: &'static str,
        /// What it is.
        found: String,
    },
    /// A store that cannot have such levels.
    #[error("{what}: expected {expected}, found {found}")]
    Unsupported {
        /// What it is about.
        what: &'static str,
        /// What the store would have to be.
        expected: &'static str,
        /// What it is.
        found: String,
    },
    /// Numbers that the steps of a build gave each other and that do not go together: a fault of this
    /// program, found before anything is published.
    #[error("{what}: expected {expected}, found {found}; nothing was changed")]
    Inconsistent {
        /// What the numbers count or name.
        what: &'static str,
        /// What one step found.
        expected: String,
        /// What another one found.
        found: String,
    },
    /// A fault of the store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A fault of a level.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// A fault of a question to a level.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// A fault of writing a level.
    #[error(transparent)]
    Write(#[from] WriteError),
}

impl PyramidError {
    pub(crate) fn setting(
        what: &'static str,
        expected: &'static str,
        found: impl ToString,
    ) -> Self {
        Self::Setting { what, expected, found: found.to_string() }
    }

    pub(crate) fn unsupported(
        what: &'static str,
        expected: &'static str,
        found: impl ToString,
    ) -> Self {
        Self::Unsupported { what, expected, found: found.to_string() }
    }

    pub(crate) fn inconsistent(
        what: &'static str,
        expected: impl ToString,
        found: impl ToString,
    ) -> Self {
        Self::Inconsistent { what, expected: expected.to_string(), found: found.to_string() }
    }

    /// Returns the kind of fault, by its stable name.
    #[must_use]
    pub fn class(&self) -> Class {
        self.diagnosis().class
    }
}

impl Diagnose for PyramidError {
    fn diagnosis(&self) -> Diagnosis<'_> {
        let diagnose = |class| Diagnosis::new(class, "write", self);
        match self {
            Self::Setting { expected, found, .. } => {
                diagnose(Class::InvalidArgument).with_values(expected, found)
            }
            Self::Unsupported { expected, found, .. } => {
                diagnose(Class::Unsupported).with_values(expected, found)
            }
            Self::Inconsistent { expected, found, .. } => {
                diagnose(Class::CountMismatch).with_values(expected, found)
            }
            Self::Store(error) => error.diagnosis(),
            Self::Model(error) => error.diagnosis(),
            Self::Query(error) => error.diagnosis(),
            Self::Write(error) => error.diagnosis(),
        }
    }
}

impl From<FormatError> for PyramidError {
    fn from(error: FormatError) -> Self {
        Self::Model(error.into())
    }
}

impl From<MetadataError> for PyramidError {
    fn from(error: MetadataError) -> Self {
        Self::Model(error.into())
    }
}

impl From<BadColumn> for PyramidError {
    fn from(error: BadColumn) -> Self {
        Self::Model(error.into())
    }
}

impl From<BadBatch> for PyramidError {
    fn from(error: BadBatch) -> Self {
        Self::Query(error.into())
    }
}
