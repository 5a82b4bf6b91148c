//! What can go wrong between a question and its picture.
//!
//! What the store has to say is passed on as it is; of our own there are settings that mean nothing, and
//! a place for the bytes that takes them no more.

use std::io;

use thiserror::Error;
use zvf_format::{Class, Diagnose, Diagnosis};
use zvf_model::ModelError;
use zvf_query::QueryError;

/// A picture that was not made.
///
/// ```
/// use zvf_format::Class;
/// use zvf_render::{RenderError, Size};
///
/// let error = "0x5".parse::<Size>().unwrap_err();
/// assert_eq!(error.class(), Class::InvalidArgument);
/// assert_eq!(error.to_string(), "size: expected 1 to 16384 pixels a side, found 0x5");
/// ```
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RenderError {
    /// A setting that means nothing.
    #[error("{what}: expected {expected}, found {found}")]
    Setting {
        /// The setting.
        what: &'static str,
        /// What it may be.
        expected: &'static str,
        /// What it is.
        found: String,
    },
    /// A fault of a level.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// A fault of the question.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// The bytes of the picture found no place.
    #[error("the picture cannot be written")]
    Write(#[from] io::Error),
}

impl RenderError {
    pub(crate) fn setting(
        what: &'static str,
        expected: &'static str,
        found: impl ToString,
    ) -> Self {
        Self::Setting { what, expected, found: found.to_string() }
    }

    /// The kind of fault, by its stable name.
    #[must_use]
    pub fn class(&self) -> Class {
        self.diagnosis().class
    }
}

impl Diagnose for RenderError {
    fn diagnosis(&self) -> Diagnosis<'_> {
        let own = |class| Diagnosis::new(class, "render", self);
        match self {
            Self::Setting { expected, found, .. } => {
                own(Class::InvalidArgument).with_values(expected, found)
            }
            Self::Model(error) => error.diagnosis(),
            Self::Query(error) => error.diagnosis(),
            Self::Write(error) => own(Class::Io).with_cause(error),
        }
    }
}
