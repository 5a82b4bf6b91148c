//! Errors of tensor files.
//!
//! The layers below state what, where, expected and found; this one adds the dataset. Names are printed with control
//! characters escaped.

use std::error::Error;
use std::fmt;

use zvf_blosc::BloscError;
use zvf_format::{Class, Diagnose, Diagnosis, Expected, FormatError};
use zvf_store::{Op, Seen, StoreError};
use zvf_tet::{EscapedName, TetRule};

/// A fault of a container, of a file, or of a request.
///
/// ```
/// use zvf_tensor::{Slice, TensorError};
///
/// let error: TensorError = "1:x".parse::<Slice>().unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "InvalidArgument, slice: expected start:stop:step for each axis, found \"x\"",
/// );
/// ```
#[derive(Clone, Debug)]
pub struct TensorError(Box<Inner>);

#[derive(Clone, Debug)]
struct Inner {
    dataset: Option<Box<str>>,
    fault: Fault,
}

#[derive(Clone, Debug)]
enum Fault {
    Store(StoreError),
    Blosc(BloscError),
}

impl TensorError {
    /// Returns the kind of fault.
    #[must_use]
    pub fn class(&self) -> Class {
        self.diagnosis().class
    }

    /// Returns the dataset, as its name is stored.
    #[must_use]
    pub fn dataset(&self) -> Option<&str> {
        self.0.dataset.as_deref()
    }

    /// Returns the violated rule of the `.tet` format, if it is one.
    #[must_use]
    pub fn rule(&self) -> Option<TetRule> {
        self.store().and_then(StoreError::format).and_then(TetRule::from_error)
    }

    /// Returns the fault of the layer that reads files.
    #[must_use]
    pub fn store(&self) -> Option<&StoreError> {
        match &self.0.fault {
            Fault::Store(source) => Some(source),
            Fault::Blosc(_) => None,
        }
    }

    /// Adds the dataset, unless the error has one.
    pub(crate) fn with_dataset(mut self, dataset: &str) -> Self {
        self.0.dataset.get_or_insert_with(|| dataset.into());
        self
    }

    /// Creates an error about an invalid request.
    pub(crate) fn request(what: &'static str, rule: &'static str, found: impl Into<Seen>) -> Self {
        Self::invalid_value(Class::InvalidArgument, what, Expected::Rule(rule), found)
    }

    /// Creates an error about a wrong value.
    pub(crate) fn invalid_value(
        class: Class,
        what: &'static str,
        expected: Expected,
        found: impl Into<Seen>,
    ) -> Self {
        StoreError::invalid_value(class, Op::Parse, what, expected, found).into()
    }
}

impl From<StoreError> for TensorError {
    fn from(source: StoreError) -> Self {
        Self(Box::new(Inner { dataset: None, fault: Fault::Store(source) }))
    }
}

impl From<FormatError> for TensorError {
    fn from(source: FormatError) -> Self {
        StoreError::from(source).into()
    }
}

impl From<BloscError> for TensorError {
    fn from(source: BloscError) -> Self {
        Self(Box::new(Inner { dataset: None, fault: Fault::Blosc(source) }))
    }
}

impl fmt::Display for TensorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(dataset) = &self.0.dataset {
            write!(f, "dataset {}: ", EscapedName(dataset))?;
        }
        match &self.0.fault {
            Fault::Store(source) => source.fmt(f),
            Fault::Blosc(source) => source.fmt(f),
        }
    }
}

impl Diagnose for TensorError {
    fn diagnosis(&self) -> Diagnosis<'_> {
        let fault = match &self.0.fault {
            Fault::Store(source) => source.diagnosis(),
            Fault::Blosc(source) => Diagnosis { op: "tensor", hint: None, ..source.diagnosis() },
        };
        match &self.0.dataset {
            Some(_) => Diagnosis { op: "tensor", text: self, ..fault },
            None => fault,
        }
    }
}

impl Error for TensorError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.0.fault {
            Fault::Store(source) => source.source(),
            Fault::Blosc(source) => source.source(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datasets_are_named_once_and_escaped() {
        let error =
            TensorError::request("slice", "one", "two").with_dataset("a\nb").with_dataset("c");
        assert_eq!(
            error.to_string(),
            "dataset a\\nb: InvalidArgument, slice: expected one, found \"two\""
        );
        assert_eq!((error.dataset(), error.class()), (Some("a\nb"), Class::InvalidArgument));
        assert!(error.rule().is_none() && error.source().is_none());
    }
}
