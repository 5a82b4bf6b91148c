//! Refused requests: a status, and a document with the reason.
//!
//! The document has the class, the key and the hint of the error, and never a path of this machine: the address of a
//! store is replaced by the store's name ([`Refusal::from_error`]).

use hyper::StatusCode;
use hyper::header::{ALLOW, HeaderName, RETRY_AFTER, WWW_AUTHENTICATE};
use serde_json::json;
use zvf::format::Class;

/// Why a request is refused.
#[derive(Debug, Default)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    class: String,
    message: String,
    key: Option<String>,
    hint: Option<String>,
    header: Option<(HeaderName, &'static str)>,
}

impl Refusal {
    pub(crate) fn new(status: StatusCode, class: &str, message: impl Into<String>) -> Self {
        let (class, message) = (class.to_owned(), message.into());
        Self { status, class, message, ..Self::default() }
    }

    /// Returns 400: the request itself is wrong.
    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "InvalidArgument", message)
    }

    /// Returns 404: nothing has this name.
    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "NotFound", message)
    }

    /// Refuses what is larger than a limit allows.
    pub(crate) fn too_large(message: impl Into<String>) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "LimitExceeded", message)
    }

    /// Refuses what this client may not ask.
    pub(crate) fn forbidden(message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "PermissionDenied", message)
    }

    /// Returns the fault of this server, about which the client can do nothing.
    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "Io", message)
    }

    /// Returns 405: only the methods in `allowed` are supported.
    pub(crate) fn method_not_allowed(allowed: &'static str) -> Self {
        let message = format!("this address takes {allowed}");
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "InvalidArgument", message)
            .with_header(ALLOW, allowed)
    }

    /// Returns 401: the token is missing or wrong.
    pub(crate) fn unauthorized() -> Self {
        let message = "this server wants a token: send `Authorization: Bearer TOKEN`";
        Self::new(StatusCode::UNAUTHORIZED, "PermissionDenied", message)
            .with_header(WWW_AUTHENTICATE, "Bearer")
    }

    /// Returns 503: the server is at its limit.
    pub(crate) fn service_unavailable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "LimitExceeded", message)
            .with_header(RETRY_AFTER, "1")
    }

    fn with_header(self, name: HeaderName, value: &'static str) -> Self {
        Self { header: Some((name, value)), ..self }
    }

    pub(crate) fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    pub(crate) fn with_key(self, key: impl Into<String>) -> Self {
        Self { key: Some(key.into()), ..self }
    }

    /// Converts an error of a store, with `address` of this machine replaced by `name`.
    pub(crate) fn from_error(error: &zvf::Error, address: &str, name: &str) -> Self {
        let hide = |text: &str| text.replace(address, name);
        let mut message = format!("{} of {name}", error.op());
        // The message of such an error is all there is, and contains no local path.
        if error.class() == Class::InvalidArgument && error.expected().is_none() {
            message = hide(&error.message());
        }
        if let Some(expected) = error.expected() {
            message.push_str(&format!(", expected {}", hide(expected)));
        }
        if let Some(found) = error.found() {
            message.push_str(&format!(", found {}", hide(found)));
        }
        Self {
            status: status(error.class()),
            class: error.class().to_string(),
            message,
            key: error.key().map(hide),
            hint: error.hint().map(hide),
            ..Self::default()
        }
    }

    /// Returns the document.
    pub(crate) fn document(&self) -> Vec<u8> {
        let mut error = json!({"class": self.class, "message": self.message});
        for (name, text) in [("key", &self.key), ("hint", &self.hint)] {
            if let Some(text) = text {
                error[name] = text.clone().into();
            }
        }
        json!({"status": self.status.as_u16(), "error": error}).to_string().into_bytes()
    }

    /// Returns the header that belongs to this status.
    pub(crate) fn header(&self) -> Option<(HeaderName, &'static str)> {
        self.header.clone()
    }
}

/// Returns the status of a class of errors.
fn status(class: Class) -> StatusCode {
    match class {
        Class::NotFound => StatusCode::NOT_FOUND,
        Class::InvalidArgument | Class::InvalidKey => StatusCode::BAD_REQUEST,
        Class::LimitExceeded => StatusCode::PAYLOAD_TOO_LARGE,
        Class::PermissionDenied | Class::Unauthenticated => StatusCode::FORBIDDEN,
        Class::Throttled => StatusCode::SERVICE_UNAVAILABLE,
        Class::Timeout => StatusCode::GATEWAY_TIMEOUT,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}
