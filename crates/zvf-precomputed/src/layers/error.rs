//! Why an object cannot be encoded.

use zvf_format::{Class, Diagnose, Diagnosis};
use zvf_model::ModelError;
use zvf_query::QueryError;

use crate::encode::{MultiLodError, TooMany};

/// Why an object cannot be encoded; a missing object is not an error.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PrecomputedError {
    /// The store cannot be queried.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// A level cannot be read.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// A mesh cannot be encoded.
    #[error("Unsupported, the mesh cannot be encoded")]
    Mesh(#[from] MultiLodError),
    /// It has more parts than the format counts.
    #[error("LimitExceeded, the object has too many parts")]
    Count(#[from] TooMany),
    /// The format cannot represent it.
    #[error("Unsupported: {0}")]
    Unsupported(String),
    /// It exceeds a limit of one object.
    #[error(
        "LimitExceeded: {what} of {found}, more than {max}; ask for a coarser level, as in mesh@2"
    )]
    TooLarge {
        /// The object.
        what: &'static str,
        /// Its size.
        found: u64,
        /// The limit.
        max: u64,
    },
}

impl PrecomputedError {
    /// Returns the kind of fault, by its stable name.
    #[must_use]
    pub fn class(&self) -> Class {
        self.diagnosis().class
    }
}

impl Diagnose for PrecomputedError {
    fn diagnosis(&self) -> Diagnosis<'_> {
        let diagnose = |class| Diagnosis::naming_class(class, "convert", self);
        match self {
            Self::Query(error) => error.diagnosis(),
            Self::Model(error) => error.diagnosis(),
            Self::Mesh(error) => diagnose(Class::Unsupported).with_cause(error),
            Self::Count(error) => diagnose(Class::LimitExceeded).with_cause(error),
            Self::Unsupported(_) => diagnose(Class::Unsupported),
            Self::TooLarge { .. } => diagnose(Class::LimitExceeded),
        }
    }
}
