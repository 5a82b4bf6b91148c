//! Adds the location of an error to results as they are passed up.

use std::fmt::Display;

use zvf_format::key::ChunkKey;

use crate::{Error, Result};

/// Adds a location to the error of a result, unless the error already has one of that kind.
///
/// ```
/// use zvf_error::{Error, Locate as _};
/// use zvf_format::Class;
///
/// let inner = Err::<(), _>(Error::new(Class::Truncated, "object", "104 bytes", 40)).at_span(16, 104);
/// let error = inner.at_key("0/vertices/c/3").at_key("0/vertices").unwrap_err();
/// assert_eq!((error.key(), error.span()), (Some("0/vertices/c/3"), Some((16, 104))));
/// ```
#[expect(clippy::missing_errors_doc, reason = "said once for all")]
pub trait Locate<T>: Sized {
    /// Adds the object, as a path below the root of the store.
    ///
    /// # Errors
    ///
    /// The error of the result, as for all methods here.
    fn at_key(self, key: impl Display) -> Result<T>;

    /// Adds the array, which is printed if no object is known.
    fn at_array(self, path: impl Display) -> Result<T>;

    /// Adds the bytes of the object: the first, and one past the last.
    fn at_span(self, start: u64, end: u64) -> Result<T>;

    /// Adds the chunk.
    fn at_chunk(self, chunk: &ChunkKey) -> Result<T>;

    /// Adds the id of the object of the store.
    fn at_object(self, object: i64) -> Result<T>;
}

impl<T, E: Into<Error>> Locate<T> for Result<T, E> {
    fn at_key(self, key: impl Display) -> Result<T> {
        self.map_err(|error| error.into().at_key(key))
    }

    fn at_array(self, path: impl Display) -> Result<T> {
        self.map_err(|error| error.into().at_array(path))
    }

    fn at_span(self, start: u64, end: u64) -> Result<T> {
        self.map_err(|error| error.into().at_span(start, end))
    }

    fn at_chunk(self, chunk: &ChunkKey) -> Result<T> {
        self.map_err(|error| error.into().at_chunk(chunk))
    }

    fn at_object(self, object: i64) -> Result<T> {
        self.map_err(|error| error.into().at_object(object))
    }
}
