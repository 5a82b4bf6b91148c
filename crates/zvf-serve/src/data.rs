//! `/data/<name>/<key>`: the files of a store, whole or by range, exactly as stored.

use std::io;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream;
use http_body_util::{BodyExt, StreamBody};
use hyper::StatusCode;
use hyper::body::Frame;
use hyper::header::{
    ACCEPT_RANGES, CONTENT_LENGTH, CONTENT_RANGE, ETAG, HeaderMap, HeaderName, HeaderValue,
    IF_MATCH, IF_NONE_MATCH, IF_RANGE, RANGE,
};
use object_store::path::Path as ObjectPath;
use object_store::{GetOptions, GetRange, GetResult, ObjectStoreExt as _};
use zvf::format::num::{saturating_usize, to_u64};

use crate::answer::{Answer, AnswerBody, empty_body, full_body, new_answer};
use crate::files::{LocalFile, LocalRoot};
use crate::range::{Ranged, parse_range};
use crate::refusal::Refusal;

/// The source of the bytes of a store.
#[derive(Debug)]
pub(crate) enum Bytestore {
    /// On this machine.
    Local(LocalRoot),
    /// In an object store, below a prefix; keys and credentials are not sent to clients.
    Remote { objects: std::sync::Arc<dyn object_store::ObjectStore>, prefix: ObjectPath },
}

/// Answers a request for a file. With `head` only the headers are sent.
pub(crate) async fn answer_file(
    bytes: &std::sync::Arc<Bytestore>,
    key: Vec<String>,
    request: &HeaderMap,
    head: bool,
) -> Result<Answer, Refusal> {
    if key.iter().any(|segment| segment.contains(',')) {
        return Err(refuse_absent(&key));
    }
    match &**bytes {
        Bytestore::Local(_) => answer_local(std::sync::Arc::clone(bytes), key, request, head).await,
        Bytestore::Remote { objects, prefix } => {
            answer_remote(&**objects, prefix, &key, request, head).await
        }
    }
}

/// Answers a request for a file with the bytes of a commit that has not been applied yet.
pub(crate) fn answer_pending(
    key: &[String],
    bytes: Option<Bytes>,
    request: &HeaderMap,
    head: bool,
) -> Result<Answer, Refusal> {
    let bytes = bytes.ok_or_else(|| refuse_absent(key))?;
    let etag = format!("\"{:x}\"", zvf::publish::hash_bytes(&bytes));
    Ok(bytes_answer(bytes, &etag, content_type(key), request, head))
}

/// Answers a request for bytes in memory.
pub(crate) fn bytes_answer(
    bytes: Bytes,
    etag: &str,
    kind: &'static str,
    request: &HeaderMap,
    head: bool,
) -> Answer {
    let len = to_u64(bytes.len());
    let sent = choose_sent_part(request, etag, len);
    let range = saturating_usize(sent.range.start)..saturating_usize(sent.range.end);
    let body = if head { empty_body() } else { full_body(bytes.slice(range)) };
    file_answer(&sent, kind, etag, len, body)
}

/// The part of a file that is sent.
struct Sent {
    status: StatusCode,
    range: std::ops::Range<u64>,
}

async fn answer_local(
    bytes: std::sync::Arc<Bytestore>,
    key: Vec<String>,
    request: &HeaderMap,
    head: bool,
) -> Result<Answer, Refusal> {
    let request = request.clone();
    let content_type = content_type(&key);
    let opened = tokio::task::spawn_blocking(move || -> Result<_, Refusal> {
        let Bytestore::Local(root) = &*bytes else { return Err(refuse_absent(&key)) };
        let file = root.open(&key).map_err(|error| refuse_unreadable(&key, &error))?;
        let file = file.ok_or_else(|| refuse_absent(&key))?;
        let sent = choose_sent_part(&request, &file.etag, file.len);
        // Small files are read here, which saves a switch of threads.
        let first = match sent.range.end - sent.range.start {
            len if head || len > PIECE_BYTES => None,
            len => Some(
                file.read(sent.range.start, saturating_usize(len))
                    .map_err(|error| refuse_unreadable(&key, &error))?,
            ),
        };
        Ok((file, sent, first))
    });
    let opened = opened.await.map_err(|_panic| Refusal::internal("the file cannot be read"));
    let (file, sent, first) = opened??;
    let (etag, len) = (file.etag.clone(), file.len);
    let body = match first {
        _ if head => empty_body(),
        Some(bytes) => full_body(bytes),
        None => stream_file(file, sent.range.clone()),
    };
    Ok(file_answer(&sent, content_type, &etag, len, body))
}

/// Returns whether the client has the version `etag`, and wants another one only.
pub(crate) fn is_known(request: &HeaderMap, etag: &str) -> bool {
    names_version(request, &IF_NONE_MATCH, etag)
}

fn names_version(request: &HeaderMap, header: &HeaderName, etag: &str) -> bool {
    let lists = request.get_all(header).iter().filter_map(|list| list.to_str().ok());
    let mut tags = lists.flat_map(|list| list.split(',')).map(str::trim);
    // A weak tag is enough to keep a copy, but not for a condition.
    let weak = if header == IF_NONE_MATCH { "W/" } else { "" };
    tags.any(|tag| tag == "*" || tag.trim_start_matches(weak) == etag)
}

/// Decides whether a file is sent whole, in part or not at all.
fn choose_sent_part(request: &HeaderMap, etag: &str, len: u64) -> Sent {
    if request.contains_key(IF_MATCH) && !names_version(request, &IF_MATCH, etag) {
        return Sent { status: StatusCode::PRECONDITION_FAILED, range: 0..0 };
    }
    if is_known(request, etag) {
        return Sent { status: StatusCode::NOT_MODIFIED, range: 0..0 };
    }
    // A range request for another version is answered with the whole file.
    let text = |value| HeaderValue::to_str(value).ok();
    let is_current = request.get(IF_RANGE).and_then(text).is_none_or(|tag| tag == etag);
    let mut ranges = request.get_all(RANGE).iter();
    let header = ranges.next().and_then(text);
    let ranged =
        if ranges.next().is_some() { Ranged::Unsatisfiable } else { parse_range(header, len) };
    match ranged {
        Ranged::Part(range) if is_current => Sent { status: StatusCode::PARTIAL_CONTENT, range },
        Ranged::Unsatisfiable if is_current => {
            Sent { status: StatusCode::RANGE_NOT_SATISFIABLE, range: 0..0 }
        }
        _ => Sent { status: StatusCode::OK, range: 0..len },
    }
}

fn file_answer(sent: &Sent, kind: &'static str, etag: &str, len: u64, body: AnswerBody) -> Answer {
    let mut answer = new_answer(sent.status, kind, body);
    let headers = answer.headers_mut();
    let mut set = |name, text: &str| {
        // A backend tag that is not a valid header value is left out.
        if let Ok(value) = HeaderValue::from_str(text) {
            headers.insert(name, value);
        }
    };
    set(ACCEPT_RANGES, "bytes");
    set(ETAG, etag);
    let range = &sent.range;
    if sent.status == StatusCode::PARTIAL_CONTENT {
        set(CONTENT_RANGE, &format!("bytes {}-{}/{len}", range.start, range.end - 1));
    } else if sent.status == StatusCode::RANGE_NOT_SATISFIABLE {
        set(CONTENT_RANGE, &format!("bytes */{len}"));
    }
    if sent.status != StatusCode::NOT_MODIFIED {
        set(CONTENT_LENGTH, &(range.end - range.start).to_string());
    }
    answer
}

/// Streams the bytes of a range, piece by piece.
fn stream_file(file: LocalFile, range: std::ops::Range<u64>) -> AnswerBody {
    let pieces = stream::try_unfold((file, range), |(file, range)| async move {
        if range.is_empty() {
            return Ok::<_, io::Error>(None);
        }
        let len = PIECE_BYTES.min(range.end - range.start);
        let reader = file.clone();
        let start = range.start;
        let read = tokio::task::spawn_blocking(move || reader.read(start, saturating_usize(len)));
        let piece = read.await.map_err(io::Error::other)??;
        Ok(Some((Frame::data(Bytes::from(piece)), (file, start + len..range.end))))
    });
    BodyExt::boxed_unsync(StreamBody::new(pieces))
}

async fn answer_remote(
    objects: &dyn object_store::ObjectStore,
    prefix: &ObjectPath,
    key: &[String],
    request: &HeaderMap,
    head: bool,
) -> Result<Answer, Refusal> {
    let path = key.iter().fold(prefix.clone(), |path, segment| path.join(segment.as_str()));
    let meta = objects.head(&path).await.map_err(|error| remote_fault(key, &error))?;
    let etag = meta.e_tag.clone().filter(|tag| tag.starts_with('"')).unwrap_or_else(|| {
        format!("\"{:x}-{:x}\"", meta.size, meta.last_modified.timestamp_micros())
    });
    let sent = choose_sent_part(request, &etag, meta.size);
    let body = if head || sent.range.is_empty() {
        empty_body()
    } else {
        let options = GetOptions {
            range: Some(GetRange::Bounded(sent.range.clone())),
            // Only the version whose length was announced.
            if_match: meta.e_tag.clone(),
            ..GetOptions::default()
        };
        let found =
            objects.get_opts(&path, options).await.map_err(|error| remote_fault(key, &error))?;
        stream_object(found)
    };
    Ok(file_answer(&sent, content_type(key), &etag, meta.size, body))
}

fn stream_object(found: GetResult) -> AnswerBody {
    let pieces = found.into_stream().map(|piece| piece.map(Frame::data).map_err(io::Error::other));
    BodyExt::boxed_unsync(StreamBody::new(pieces))
}

fn remote_fault(key: &[String], error: &object_store::Error) -> Refusal {
    let name = key.join("/");
    // The message of the backend may contain addresses and keys, so only the class of the error is
    // sent.
    match error {
        object_store::Error::NotFound { .. } => refuse_absent(key),
        object_store::Error::PermissionDenied { .. }
        | object_store::Error::Unauthenticated { .. } => Refusal::new(
            StatusCode::BAD_GATEWAY,
            "PermissionDenied",
            "the backend refuses this server",
        )
        .with_key(name),
        _ => Refusal::new(StatusCode::BAD_GATEWAY, "Unavailable", "the backend did not answer")
            .with_key(name),
    }
}

fn refuse_absent(key: &[String]) -> Refusal {
    let name = key.join("/");
    let message =
        if name.is_empty() { "this server does not list folders" } else { "there is no such file" };
    Refusal::not_found(message).with_key(name)
}

fn refuse_unreadable(key: &[String], error: &io::Error) -> Refusal {
    let (status, class) = match error.kind() {
        io::ErrorKind::PermissionDenied => (StatusCode::FORBIDDEN, "PermissionDenied"),
        io::ErrorKind::UnexpectedEof => (StatusCode::INTERNAL_SERVER_ERROR, "FileChanged"),
        _ => (StatusCode::INTERNAL_SERVER_ERROR, "Io"),
    };
    Refusal::new(status, class, "the file cannot be read").with_key(key.join("/"))
}

fn content_type(key: &[String]) -> &'static str {
    match key.last().and_then(|name| name.rsplit_once('.')) {
        Some((_, "json")) => "application/json",
        _ => "application/octet-stream",
    }
}

/// Number of bytes that are read and sent at a time.
const PIECE_BYTES: u64 = 256 << 10;
