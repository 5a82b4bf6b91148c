//! Keeps the `Retry-After` header of a failed response.
//!
//! The backends of `object_store` drop the headers of a failed response, including `Retry-After`.
//! The [clients](super::clients) sit between them and the network, and turn such a response into an
//! error that contains both status and header.

use std::fmt;
use std::time::Duration;

use object_store::HeaderMap;

/// A response that asks to retry later.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Refusal {
    pub(super) status: u16,
    /// The value of `Retry-After`, if it is a number of seconds.
    pub(super) after: Option<Duration>,
}

impl Refusal {
    /// Returns the refusal for a response, if it may be retried or has no body with more
    /// information.
    pub(super) fn from_response(status: u16, headers: &HeaderMap) -> Option<Self> {
        let after = headers.get("retry-after").and_then(|value| value.to_str().ok()?.parse().ok());
        matches!(status, 408 | 416 | 429 | 500..)
            .then(|| Self { status, after: after.map(Duration::from_secs) })
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the server answered {}", self.status)
    }
}

impl std::error::Error for Refusal {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_retryable_refusals_are_kept() {
        for (status, header, expected) in [
            (200, None, None),
            (206, Some("5"), None),
            (404, None, None),
            (403, None, None),
            (412, None, None),
            (408, None, Some(None)),
            (416, None, Some(None)),
            (429, Some("5"), Some(Some(5))),
            (503, Some("120"), Some(Some(120))),
            (503, Some("Fri, 31 Dec 1999 23:59:59 GMT"), Some(None)),
            (599, Some("-1"), Some(None)),
        ] {
            let mut headers = HeaderMap::new();
            if let Some(value) = header {
                headers.insert("retry-after", value.parse().unwrap());
            }
            let expected = expected.map(|after: Option<u64>| Refusal {
                status,
                after: after.map(Duration::from_secs),
            });
            assert_eq!(Refusal::from_response(status, &headers), expected, "{status} {header:?}");
        }
    }
}
