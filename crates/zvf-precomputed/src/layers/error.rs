//! Errors in encoding an object; a missing object is not an error.

use std::borrow::Cow;

use zvf_error::{Error, Result};
use zvf_format::Class;

use crate::encode::{MultiLodError, TooMany};

/// Returns the error for data that the format cannot represent.
pub(super) fn unsupported_error(text: impl Into<Cow<'static, str>>) -> Error {
    Error::custom(Class::Unsupported, text).with_op("convert")
}

/// Checks a size against the limit of one object.
pub(super) fn check_size(what: &str, found: u64, max: u64) -> Result<()> {
    if found <= max {
        return Ok(());
    }
    let text = format!("{what} of {found}, more than {max}; ask for a coarser level, as in mesh@2");
    Err(Error::custom(Class::LimitExceeded, text).with_op("convert"))
}

impl From<MultiLodError> for Error {
    fn from(error: MultiLodError) -> Self {
        unsupported_error("the mesh cannot be encoded").because(error)
    }
}

impl From<TooMany> for Error {
    fn from(error: TooMany) -> Self {
        let text = "the object has too many parts";
        Self::custom(Class::LimitExceeded, text).with_op("convert").because(error)
    }
}
