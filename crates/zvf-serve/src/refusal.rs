//! Requests that are not answered: a status, and a document that says why.
//!
//! The document has the class, the key and the hint of the fault, and never a path of this machine: whatever names
//! the address of a store is rewritten to the store's name ([`Refusal::from_error`]).

use hyper::StatusCode;
use hyper::header::{ALLOW, HeaderName, RETRY_AFTER, WWW_AUTHENTICATE};
use serde_json::json;
use zvf::format::Class;

/// Why a request is not answered.
#[derive(Clone, Debug)]
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
        Self {
            status,
            class: class.to_owned(),
            message: message.into(),
            key: None,
            hint: None,
            header: None,
        }
    }

    /// 400: the request itself is wrong.
    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "InvalidArgument", message)
    }

    /// 404: there is nothing of this name.
    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "NotFound", message)
    }

    /// 405: another method than those in `allowed`.
    pub(crate) fn method(allowed: &'static str) -> Self {
        let refusal = Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "InvalidArgument",
            format!("this address takes {allowed}"),
        );
        Self { header: Some((ALLOW, allowed)), ..refusal }
    }

    /// 401: the token is missing or another one.
    pub(crate) fn unauthorized() -> Self {
        let refusal = Self::new(
            StatusCode::UNAUTHORIZED,
            "PermissionDenied",
            "this server wants a token: send `Authorization: Bearer TOKEN`",
        );
        Self { header: Some((WWW_AUTHENTICATE, "Bearer")), ..refusal }
    }

    /// 503: too much is being answered already.
    pub(crate) fn busy(message: impl Into<String>) -> Self {
        let refusal = Self::new(StatusCode::SERVICE_UNAVAILABLE, "LimitExceeded", message);
        Self { header: Some((RETRY_AFTER, "1")), ..refusal }
    }

    pub(crate) fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    pub(crate) fn with_key(self, key: impl Into<String>) -> Self {
        Self { key: Some(key.into()), ..self }
    }

    /// What a store answered, with `address` of this machine replaced by `name`.
    pub(crate) fn from_error(error: &zvf::Error, address: &str, name: &str) -> Self {
        let hide = |text: &str| text.replace(address, name);
        let mut message = format!("{} of {name}", error.op());
        // What a question lacks is in its words alone, and they name nothing of this machine.
        if error.class() == Class::InvalidArgument && error.expected().is_none() {
            message = hide(error.to_string().trim_start_matches("InvalidArgument, "));
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
            header: None,
        }
    }

    /// The document that is sent.
    pub(crate) fn document(&self) -> Vec<u8> {
        let mut error = json!({"class": self.class, "message": self.message});
        if let Some(error) = error.as_object_mut() {
            let key = self.key.as_ref().map(|key| ("key", key));
            let hint = self.hint.as_ref().map(|hint| ("hint", hint));
            for (name, text) in key.into_iter().chain(hint) {
                error.insert(name.to_owned(), text.clone().into());
            }
        }
        json!({"status": self.status.as_u16(), "error": error}).to_string().into_bytes()
    }

    /// The header that belongs to this status.
    pub(crate) fn header(&self) -> Option<(HeaderName, &'static str)> {
        self.header.clone()
    }
}

/// The status that stands for a class of faults.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_have_class_key_and_hint() {
        let refusal = Refusal::not_found("there is no such file")
            .with_key("0/vertices/c/0")
            .with_hint("see /api/stores");
        let document: serde_json::Value = serde_json::from_slice(&refusal.document()).unwrap();
        assert_eq!(
            document,
            json!({"status": 404, "error": {
                "class": "NotFound", "message": "there is no such file",
                "key": "0/vertices/c/0", "hint": "see /api/stores"}})
        );
    }
}
