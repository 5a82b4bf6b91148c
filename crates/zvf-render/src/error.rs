//! Errors of rendering.
//!
//! Errors of the store are passed on; the crate adds invalid settings and output that cannot be written.

use std::io;

use thiserror::Error;
use zvf_format::{Class, Diagnose, Diagnosis};
use zvf_model::ModelError;
use zvf_query::QueryError;

/// A picture that was not rendered.
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
    /// An invalid setting.
    #[error("{what}: expected {expected}, found {found}")]
    Setting {
        /// The setting.
        what: &'static str,
        /// The expected values.
        expected: &'static str,
        /// The given value.
        found: String,
    },
    /// A fault of a level.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// A fault of the query.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// The picture could not be written.
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

    /// Returns the kind of fault, by its stable name.
    #[must_use]
    pub fn class(&self) -> Class {
        self.diagnosis().class
    }
}

impl Diagnose for RenderError {
    fn diagnosis(&self) -> Diagnosis<'_> {
        let diagnose = |class| Diagnosis::new(class, "render", self);
        match self {
            Self::Setting { expected, found, .. } => {
                diagnose(Class::InvalidArgument).with_values(expected, found)
            }
            Self::Model(error) => error.diagnosis(),
            Self::Query(error) => error.diagnosis(),
            Self::Write(error) => diagnose(Class::Io).with_cause(error),
        }
    }
}
