//! Errors in encoding an object; a missing object is not an error.

use std::borrow::Cow;

use zvf_error::{Error, Result};
use zvf_format::Class;

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
