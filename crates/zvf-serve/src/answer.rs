//! Answers: bodies, and common headers.

use std::io::{self, Write as _};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Empty, Full};
use hyper::body::{Body, Frame, SizeHint};
use hyper::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE,
    HeaderMap, HeaderName, HeaderValue, VARY, X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Response, StatusCode};

use crate::refusal::Refusal;

/// The body of every answer; an error in it aborts the transfer.
pub(crate) type AnswerBody = UnsyncBoxBody<Bytes, io::Error>;

/// An answer to a request.
pub(crate) type Answer = Response<AnswerBody>;

/// Returns a body of bytes in memory.
pub(crate) fn full_body(bytes: impl Into<Bytes>) -> AnswerBody {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

pub(crate) fn empty_body() -> AnswerBody {
    Empty::new().map_err(|never| match never {}).boxed_unsync()
}

/// Returns the body together with `held`, which is dropped when the body was sent or aborted.
pub(crate) fn hold_while_sent(body: AnswerBody, held: impl Send + 'static) -> AnswerBody {
    count_sent(body, |_bytes| drop(held))
}

/// Returns the body with `record`, which is called with the number of sent bytes at the end or when
/// the transfer was aborted.
pub(crate) fn count_sent(
    body: AnswerBody,
    record: impl FnOnce(u64) + Send + 'static,
) -> AnswerBody {
    CountedBody { body, bytes: 0, record: Some(Box::new(record)) }.boxed_unsync()
}

/// A body, the number of bytes taken from it, and the function that receives their number.
struct CountedBody {
    body: AnswerBody,
    bytes: u64,
    record: Option<Box<dyn FnOnce(u64) + Send>>,
}

impl Drop for CountedBody {
    fn drop(&mut self) {
        if let Some(record) = self.record.take() {
            record(self.bytes);
        }
    }
}

impl Body for CountedBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if let Poll::Ready(Some(Ok(frame))) = &polled {
            self.bytes += frame.data_ref().map_or(0, Bytes::len) as u64;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Creates an answer with the common headers.
pub(crate) fn new_answer(
    status: StatusCode,
    content_type: &'static str,
    body: AnswerBody,
) -> Answer {
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    set_header(headers, CONTENT_TYPE, content_type);
    set_header(headers, X_CONTENT_TYPE_OPTIONS, "nosniff");
    set_header(headers, CACHE_CONTROL, "no-cache");
    set_header(headers, CONTENT_SECURITY_POLICY, POLICY);
    set_header(headers, HeaderName::from_static("referrer-policy"), "no-referrer");
    answer
}

fn set_header(headers: &mut HeaderMap, name: HeaderName, value: &'static str) {
    headers.insert(name, HeaderValue::from_static(value));
}

/// Creates a JSON answer, compressed if the client accepts that and it is smaller.
pub(crate) fn json_answer(document: &serde_json::Value, request: &HeaderMap) -> Answer {
    let mut text = document.to_string();
    text.push('\n');
    text_answer("application/json", text.into_bytes(), request)
}

/// Creates a text answer, compressed if the client accepts that and it is smaller.
pub(crate) fn text_answer(kind: &'static str, text: Vec<u8>, request: &HeaderMap) -> Answer {
    let packed = if takes_gzip(request) && text.len() >= MIN_GZIP_BYTES {
        compress_gzip(&text).ok()
    } else {
        None
    };
    let is_packed = packed.is_some();
    let mut answer = new_answer(StatusCode::OK, kind, full_body(packed.unwrap_or(text)));
    if is_packed {
        set_header(answer.headers_mut(), CONTENT_ENCODING, "gzip");
    }
    answer.headers_mut().append(VARY, HeaderValue::from_static("Accept-Encoding"));
    answer
}

/// Returns whether the client accepts gzip with a weight above zero.
pub(crate) fn takes_gzip(request: &HeaderMap) -> bool {
    let lists = request.get_all(ACCEPT_ENCODING).iter().filter_map(|list| list.to_str().ok());
    lists.flat_map(|list| list.split(',')).any(|coding| {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, "q=1"));
        let weight = weight.trim().strip_prefix("q=").and_then(|q| q.parse::<f32>().ok());
        name.trim().eq_ignore_ascii_case("gzip") && weight.is_some_and(|q| q > 0.0)
    })
}

fn compress_gzip(text: &[u8]) -> io::Result<Vec<u8>> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(text)?;
    packed.finish()
}

/// Creates the answer to a refused request.
pub(crate) fn refuse(refusal: &Refusal) -> Answer {
    let body = full_body(refusal.document());
    let mut answer = new_answer(refusal.status, "application/json", body);
    if let Some((name, value)) = refusal.header() {
        set_header(answer.headers_mut(), name, value);
    }
    answer
}

/// Returns the answer to a refused request as bytes: for requests that are not read. The connection
/// ends after it.
pub(crate) fn raw_answer(refusal: &Refusal) -> Vec<u8> {
    let document = refusal.document();
    let status = refusal.status;
    let reason = status.canonical_reason().unwrap_or_default();
    let mut bytes = format!("HTTP/1.1 {} {reason}\r\n", status.as_u16()).into_bytes();
    let mut add = |name: &str, value: &[u8]| {
        bytes.extend_from_slice(&[name.as_bytes(), b": ", value, b"\r\n"].concat());
    };
    for (name, value) in refuse(refusal).headers() {
        add(name.as_str(), value.as_bytes());
    }
    add("content-length", document.len().to_string().as_bytes());
    add("connection", b"close");
    bytes.extend_from_slice(b"\r\n");
    bytes.extend_from_slice(&document);
    bytes
}

/// The content security policy of pages of this server: only their own resources, and no scripts.
const POLICY: &str = "default-src 'none'; img-src 'self' blob: data:; style-src 'self'; connect-src 'self'; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'self'";
/// The length below which compressing a text saves no packet.
const MIN_GZIP_BYTES: usize = 1024;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn counts_what_is_taken_of_a_body_which_holds_its_resource_until_it_is_dropped() {
        let counted = Arc::new(std::sync::Mutex::new(Vec::new()));
        for taken in [true, false] {
            let counts = Arc::clone(&counted);
            let body =
                count_sent(full_body("bytes"), move |sent| counts.lock().unwrap().push(sent));
            let mut body = hold_while_sent(body, Arc::clone(&counted));
            assert_eq!((Arc::strong_count(&counted), body.size_hint().exact()), (3, Some(5)));
            if taken {
                let mut context = Context::from_waker(std::task::Waker::noop());
                assert!(Pin::new(&mut body).poll_frame(&mut context).is_ready());
            }
        }
        assert_eq!((Arc::strong_count(&counted), &**counted.lock().unwrap()), (1, &[5, 0][..]));
    }

    #[test]
    fn compresses_for_clients_that_accept_gzip() {
        let request = |list: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT_ENCODING, list.parse().unwrap());
            headers
        };
        let large = serde_json::json!(vec![1; 2000]);
        let packed = json_answer(&large, &request("br, gzip;q=0.5"));
        assert_eq!(packed.headers()[CONTENT_ENCODING], "gzip");
        assert!(packed.body().size_hint().exact().unwrap() < 200);
        for list in ["br", "gzip;q=0", "identity"] {
            assert!(
                !json_answer(&large, &request(list)).headers().contains_key(CONTENT_ENCODING),
                "{list}"
            );
        }
        let short = json_answer(&serde_json::json!({}), &request("gzip"));
        assert!(!short.headers().contains_key(CONTENT_ENCODING));
    }
}
