//! Keeps the `Retry-After` of a failed reply.
//!
//! The backends of `object_store` drop the headers of a failed reply, and with them `Retry-After`. This
//! connector stands between them and the network, and turns a reply that asks to come back later into
//! an error that still carries both.

use std::fmt;
use std::time::Duration;

use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
};
use object_store::{ClientOptions, HeaderMap};

/// A reply that asks to retry later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::source) struct Refusal {
    pub(super) status: u16,
    /// `Retry-After`, when it counts seconds.
    pub(super) after: Option<Duration>,
}

impl Refusal {
    /// Returns the refusal that a reply is, if it is one that the sender may repeat or that has no body to tell
    /// more.
    fn from_response(status: u16, headers: &HeaderMap) -> Option<Self> {
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

/// Connects as `object_store` does, with clients that are [shared](super::clients), and listens to refusals.
#[derive(Debug, Default)]
pub(in crate::source) struct Connector;

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(Listening(super::clients::connect(options)?)))
    }
}

#[derive(Debug)]
struct Listening(HttpClient);

#[async_trait::async_trait]
impl HttpService for Listening {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let response = self.0.execute(request).await?;
        match Refusal::from_response(response.status().as_u16(), response.headers()) {
            Some(refusal) => Err(HttpError::new(HttpErrorKind::Unknown, refusal)),
            None => Ok(response),
        }
    }
}

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
