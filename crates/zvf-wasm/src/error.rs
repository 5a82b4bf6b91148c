//! Errors as JavaScript sees them: class, key, message, hint.

use serde_json::{Value, json};
use zvf_error::Error;
use zvf_format::Class;

/// Returns the error for a request that makes no sense.
pub(crate) fn request_error(text: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::custom(Class::InvalidArgument, text).with_op("query")
}

/// Returns an error as a document.
pub fn error_to_json(error: &Error) -> Value {
    let key = match (error.array(), error.chunk()) {
        (Some(array), Some(chunk)) => {
            Some(format!("{array}/c/{}", chunk.to_string().replace('.', "/")))
        }
        (array, _) => array.map(str::to_owned),
    };
    json!({
        "class": error.class().to_string(),
        "key": key,
        "message": error.to_string(),
        "hint": error.hint(),
    })
}
