//! What can go wrong between bytes and rows.
//!
//! The store says which object could not be read, the format which byte is wrong; this layer adds the
//! array and the chunk, and finds the faults that only show when two arrays are put side by side.

use std::fmt;

use zvf_format::key::ChunkKey;
use zvf_format::{Class, Diagnose, Diagnosis, Expected, FormatError, Found};
use zvf_metadata::MetadataError;
use zvf_store::StoreError;

use crate::{BadCode, BadColumn, ObjectId};

/// A level that cannot be read as what it claims to be.
///
/// Small and cheap to clone, so that one fault can be handed to all who wait for it.
#[derive(Clone, Debug)]
pub struct ModelError(Box<Inner>);

#[derive(Clone, Debug)]
struct Inner {
    array: Option<String>, // path below the root of the store
    chunk: Option<ChunkKey>,
    object: Option<ObjectId>,
    fault: Fault,
}

#[derive(Clone, Debug)]
enum Fault {
    Store(StoreError),
    Format(FormatError),
    Metadata(MetadataError),
    Column(BadColumn),
    Code(BadCode),
    Refused { class: Class, what: &'static str, expected: Expected, found: Found },
}

impl ModelError {
    /// Creates the error about something that contradicts something else, or is not there.
    #[must_use]
    pub fn invalid_value(
        class: Class,
        what: &'static str,
        expected: Expected,
        found: impl Into<Found>,
    ) -> Self {
        Self::from(Fault::Refused { class, what, expected, found: found.into() })
    }

    /// Returns the same, in the array at `path`.
    #[must_use]
    pub fn with_array(mut self, path: impl fmt::Display) -> Self {
        self.0.array.get_or_insert_with(|| path.to_string());
        self
    }

    /// Returns the same, in a chunk.
    #[must_use]
    pub fn with_chunk(mut self, chunk: &ChunkKey) -> Self {
        self.0.chunk.get_or_insert(*chunk);
        self
    }

    /// Returns the same, met while following an object.
    #[must_use]
    pub fn with_object(mut self, object: ObjectId) -> Self {
        self.0.object.get_or_insert(object);
        self
    }

    /// Returns the kind of fault, by its stable name.
    #[must_use]
    pub fn class(&self) -> Class {
        self.diagnosis().class
    }

    /// Returns the array it is in, as a path below the root of the store.
    #[must_use]
    pub fn array(&self) -> Option<&str> {
        match (&self.0.array, &self.0.fault) {
            (Some(path), _) => Some(path),
            (None, Fault::Store(error)) => error.key(),
            (None, _) => None,
        }
    }

    /// Returns the chunk it is in.
    #[must_use]
    pub fn chunk(&self) -> Option<&ChunkKey> {
        self.0.chunk.as_ref()
    }

    /// Returns the object that led there.
    #[must_use]
    pub fn object(&self) -> Option<ObjectId> {
        self.0.object
    }

    /// Returns what to do about it.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        self.diagnosis().hint
    }

    /// Returns what must be there, as a phrase, where that is known.
    #[must_use]
    pub fn expected(&self) -> Option<String> {
        self.diagnosis().expected.map(ToString::to_string)
    }

    /// Returns what is there instead, as a phrase, where that is known.
    #[must_use]
    pub fn found(&self) -> Option<String> {
        self.diagnosis().found.map(ToString::to_string)
    }

    /// Returns the error of the store, when it is one.
    #[must_use]
    pub fn as_store(&self) -> Option<&StoreError> {
        match &self.0.fault {
            Fault::Store(error) => Some(error),
            Fault::Format(_)
            | Fault::Metadata(_)
            | Fault::Column(_)
            | Fault::Code(_)
            | Fault::Refused { .. } => None,
        }
    }
}

impl fmt::Display for ModelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { array, chunk, object, fault } = &*self.0;
        match fault {
            Fault::Store(error) => write!(f, "{error}")?,
            Fault::Format(error) => write!(f, "{error}")?,
            Fault::Metadata(error) => write!(f, "{error}")?,
            Fault::Column(error) => write!(f, "{}: {error}", self.class())?,
            Fault::Code(error) => write!(f, "{}: {error}", self.class())?,
            Fault::Refused { class, what, expected, found } => {
                write!(f, "{class}: {what}: expected {expected}, found {found}")?;
            }
        }
        let mut opening = " (in ";
        if let Some(array) = array {
            write!(f, "{opening}{array}")?;
            opening = ", ";
        }
        if let Some(chunk) = chunk {
            write!(f, "{opening}chunk {chunk}")?;
            opening = ", ";
        }
        if let Some(object) = object {
            write!(f, "{opening}object {object}")?;
            opening = ", ";
        }
        if opening == ", " { f.write_str(")") } else { Ok(()) }
    }
}

impl Diagnose for ModelError {
    fn diagnosis(&self) -> Diagnosis<'_> {
        let Inner { array, chunk, fault, .. } = &*self.0;
        let diagnose = |class: Class| Diagnosis::new(class, "parse", self).with_hint(class.hint());
        let diagnosis = match fault {
            // Its line has the place of the bytes, and so goes before ours.
            Fault::Store(error) => {
                let fault = error.diagnosis();
                let key = fault.key.or(array.as_deref());
                return Diagnosis { key, chunk: chunk.as_ref(), ..fault };
            }
            // The byte is that of a part of an object.
            Fault::Format(error) => Diagnosis { span: None, ..error.diagnosis() },
            Fault::Metadata(error) => error.diagnosis(),
            Fault::Column(_) => diagnose(Class::CountMismatch),
            Fault::Code(_) => diagnose(Class::OutOfBounds),
            Fault::Refused { class, expected, found, .. } => {
                diagnose(*class).with_values(expected, found)
            }
        };
        Diagnosis { key: array.as_deref(), text: self, says_class: true, ..diagnosis }
    }
}

impl std::error::Error for ModelError {
    /// Returns the source of the error inside: `Display` shows that error already.
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.0.fault {
            Fault::Store(error) => error.source(),
            Fault::Format(_)
            | Fault::Metadata(_)
            | Fault::Column(_)
            | Fault::Code(_)
            | Fault::Refused { .. } => None,
        }
    }
}

impl From<Fault> for ModelError {
    fn from(fault: Fault) -> Self {
        Self(Box::new(Inner { array: None, chunk: None, object: None, fault }))
    }
}

impl From<StoreError> for ModelError {
    fn from(error: StoreError) -> Self {
        Fault::Store(error).into()
    }
}

impl From<FormatError> for ModelError {
    fn from(error: FormatError) -> Self {
        Fault::Format(error).into()
    }
}

impl From<MetadataError> for ModelError {
    fn from(error: MetadataError) -> Self {
        Fault::Metadata(error).into()
    }
}

impl From<BadColumn> for ModelError {
    fn from(error: BadColumn) -> Self {
        Fault::Column(error).into()
    }
}

impl From<BadCode> for ModelError {
    fn from(error: BadCode) -> Self {
        Fault::Code(error).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_fault_and_location_once() {
        let error = ModelError::invalid_value(
            Class::CountMismatch,
            "rows of an attribute",
            Expected::Exactly(12),
            11_u8,
        );
        let chunk = "0.-1".parse::<ChunkKey>().unwrap();
        let error = error.with_array("0/vertex_attributes/label").with_chunk(&chunk);
        assert_eq!(
            error.clone().with_array("elsewhere").to_string(),
            "CountMismatch: rows of an attribute: expected 12, found 11 \
             (in 0/vertex_attributes/label, chunk 0.-1)"
        );
        let followed =
            ModelError::from(BadCode { code: Some(9), categories: 2 }).with_object(ObjectId(-3));
        assert_eq!(
            followed.to_string(),
            "OutOfBounds: code 9 is none of 2 categories (in object -3)"
        );
        assert_eq!((followed.object(), followed.chunk()), (Some(ObjectId(-3)), None));
        assert_eq!(
            (error.class(), error.array()),
            (Class::CountMismatch, Some("0/vertex_attributes/label"))
        );
    }
}
