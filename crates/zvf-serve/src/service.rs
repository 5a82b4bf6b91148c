//! Routing: limits on the head, access control, routes, and the access record.
//!
//! ```text
//! /                         the stores, with a picture of each
//! /view/                    the viewer
//! /data/<name>/<key>        files, whole or by range        /data/<name>   a store that is one file
//! /api/stores               names and addresses
//! /precomputed/<name>/...   objects of Neuroglancer's formats       /v/zvf/        its client, out of a folder
//! /api/<name>/info          and object, group, plan, query, render: see api
//! /api/openapi.json         the description of /api
//! /metrics, /healthz        counters for Prometheus; whether the server runs
//! ```

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use hyper::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, CONNECTION, HeaderMap, HeaderValue, LOCATION, ORIGIN,
    SET_COOKIE, TRANSFER_ENCODING, VARY,
};
use hyper::{Method, Request, StatusCode};
use zvf::format::num::to_u64;

use crate::access::check_host;
use crate::answer::{Answer, count_sent, empty_body, full_body, new_answer, refuse, text_answer};
use crate::api::{answer_api, list_stores};
use crate::api_request::ApiRequest;
use crate::data::{answer_file, answer_pending};
use crate::limits::Limits;
use crate::page;
use crate::precomputed::{answer_client, answer_precomputed};
use crate::query_fields::parse_body;
use crate::refusal::Refusal;
use crate::state::{AccessLog, AccessRecord, AppState};
use crate::stores::ServedStore;
use crate::target::{check_key, parse_fields, parse_path};
use crate::viewer::answer_viewer;

/// Answers one request; errors are answers too.
pub(crate) async fn answer_request(
    state: Arc<AppState>,
    peer: IpAddr,
    request: Request<Incoming>,
) -> Answer {
    let (time, start) = (SystemTime::now(), Instant::now());
    let method = request.method().clone();
    let path: String = request.uri().path().chars().take(MAX_LOGGED_PATH_CHARS).collect();
    let origin = state.access.allowed_origin(request.headers()).map(str::to_owned);
    let asks_origin = request.headers().contains_key(ORIGIN);
    let client = state.access.forwarded_client(peer, request.headers());
    let peer = client.unwrap_or(peer);
    let most = state.limits.max_connections_per_peer;
    let counted = client.map(|client| state.clients.admit(client, usize::MAX, most));
    let answer = match counted {
        Some(None) => Err(Refusal::service_unavailable("too many requests at once; try again")),
        _ => dispatch(&state, request).await,
    };
    let mut answer = match answer {
        Ok(answer) => answer,
        Err(refusal) => {
            let mut refused = refuse(&refusal);
            if CLOSING.contains(&refusal.status) {
                refused.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            refused
        }
    };
    if asks_origin || !state.access.origins.is_empty() {
        allow_origin(answer.headers_mut(), origin.as_deref());
    }
    let (status, seconds) = (answer.status().as_u16(), start.elapsed());
    state.metrics.record_answer(status, seconds);
    answer.map(|body| {
        count_sent(body, move |bytes| {
            drop(counted);
            state.metrics.record_sent(bytes);
            if let Some(AccessLog(record)) = &state.log {
                let (method, seconds) = (method.to_string(), seconds.as_secs_f64());
                record(&AccessRecord { time, peer, method, path, status, bytes, seconds });
            }
        })
    })
}

fn allow_origin(headers: &mut HeaderMap, origin: Option<&str>) {
    headers.append(VARY, HeaderValue::from_static("Origin"));
    if let Some(origin) = origin.and_then(|origin| HeaderValue::from_str(origin).ok()) {
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED));
    }
}

/// Refuses a head that is too large, and a body that is too large or of unknown length. Without
/// coded transfers, a length is the only statement of where a request ends.
fn check_size(limits: &Limits, request: &Request<Incoming>) -> Result<(), Refusal> {
    let line = [request.method().as_str(), &request.uri().to_string(), "HTTP/1.1"].join(" ");
    if line.len() > limits.max_request_line_bytes {
        let status = StatusCode::URI_TOO_LONG;
        return Err(Refusal::new(status, "LimitExceeded", "the request line is too long"));
    }
    let lines = request.headers().iter();
    let header_bytes: usize =
        lines.map(|(name, value)| name.as_str().len() + value.len() + HEADER_LINE_BYTES).sum();
    if header_bytes > limits.max_header_bytes {
        let status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
        return Err(Refusal::new(status, "LimitExceeded", "the headers are too large"));
    }
    if request.headers().contains_key(TRANSFER_ENCODING) {
        let status = StatusCode::LENGTH_REQUIRED;
        return Err(Refusal::new(status, "InvalidArgument", "a body must state its length"));
    }
    match request.body().size_hint().lower() {
        length if length > to_u64(limits.max_body_bytes) => {
            Err(Refusal::too_large("the body is too large"))
        }
        _ => Ok(()),
    }
}

async fn dispatch(state: &Arc<AppState>, request: Request<Incoming>) -> Result<Answer, Refusal> {
    check_size(&state.limits, &request)?;
    check_host(state.bound, request.uri(), request.headers())?;
    if request.method() == Method::OPTIONS {
        return preflight(state, request.headers());
    }
    if let Some((cookie, address)) = state.access.sign_in(request.uri()) {
        let mut moved = redirect(StatusCode::SEE_OTHER, address);
        moved.headers_mut().insert(SET_COOKIE, cookie);
        return Ok(moved);
    }
    state.access.check_token(request.headers())?;
    if request.uri().path().starts_with("/api/") {
        state.access.check_site(request.headers())?;
    }
    if request.method() == Method::CONNECT {
        return Err(Refusal::method_not_allowed("GET, HEAD")); // its target is no path
    }
    let path = parse_path(request.uri().path())?;
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    match path[..] {
        ["api", _, "object", _] => check_key(&path, &[','])?,
        ["precomputed", ..] => check_key(&path, &['@', ':'])?,
        _ => check_key(&path, &[])?,
    }
    let is_query = matches!(path[..], ["api", _, "query" | "plan"]);
    let is_post = is_query && request.method() == Method::POST;
    let is_head = request.method() == Method::HEAD;
    if !is_post {
        if request.method() != Method::GET && !is_head {
            let allowed = if is_query { "GET, HEAD, POST" } else { "GET, HEAD" };
            return Err(Refusal::method_not_allowed(allowed));
        }
        if !request.body().is_end_stream() {
            return Err(Refusal::bad_request("this address takes no body"));
        }
    }
    let fields =
        parse_fields(request.uri().query().unwrap_or_default(), state.limits.max_query_fields)?;
    let headers = request.headers().clone();
    let moved = StatusCode::PERMANENT_REDIRECT;
    let file_key = |rest: &[&str]| rest.iter().map(|segment| (*segment).to_owned()).collect();
    match path[..] {
        [] => Ok(text_answer(
            "text/html; charset=utf-8",
            page::render_store_list(state).into_bytes(),
            &headers,
        )),
        // Relative addresses in the page need the slash.
        ["view"] if !request.uri().path().ends_with('/') => {
            Ok(redirect(moved, HeaderValue::from_static("/view/")))
        }
        ["view"] => answer_viewer("index.html", &headers),
        ["view", name] => answer_viewer(name, &headers),
        ["style.css"] => Ok(text_answer("text/css; charset=utf-8", page::STYLE.into(), &headers)),
        ["healthz"] => {
            Ok(new_answer(StatusCode::OK, "text/plain; charset=utf-8", full_body("ok\n")))
        }
        ["metrics"] => {
            let text = state.metrics.to_text().into_bytes();
            Ok(new_answer(StatusCode::OK, "text/plain; version=0.0.4", full_body(text)))
        }
        ["data", name, ref key @ ..] => {
            let store = find_store(state, name)?;
            if !key.is_empty() && request.uri().path().ends_with('/') {
                return Err(Refusal::not_found("this server does not list folders"));
            }
            let key: Vec<String> = file_key(key);
            match store.pending_file(&key).await? {
                Some(bytes) => answer_pending(&key, bytes, &headers, is_head),
                None => answer_file(&store.bytes, key, &headers, is_head).await,
            }
        }
        ["precomputed", name, ref key @ ..] if state.has_precomputed => {
            let store = find_store(state, name)?;
            answer_precomputed(state, store, file_key(key), &headers, is_head).await
        }
        // Relative addresses in the client need the slash.
        ["v", "zvf"] if !request.uri().path().ends_with('/') => {
            Ok(redirect(moved, HeaderValue::from_static("/v/zvf/")))
        }
        ["v", "zvf", ref key @ ..] => answer_client(state, file_key(key), &headers, is_head).await,
        ["api", "stores"] => Ok(list_stores(state, &headers)),
        ["api", "openapi.json"] => {
            Ok(text_answer("application/json", page::openapi().into(), &headers))
        }
        ["api", name, ref rest @ ..] => {
            let (store, path) = (find_store(state, name)?, file_key(rest));
            let fields = if is_post { read_fields(state, fields, request).await? } else { fields };
            answer_api(state, ApiRequest { store, path, fields, headers, is_head }).await
        }
        _ => Err(Refusal::not_found("there is nothing at this address")
            .with_hint("see / and /api/stores")),
    }
}

fn preflight(state: &AppState, headers: &HeaderMap) -> Result<Answer, Refusal> {
    if state.access.allowed_origin(headers).is_none() {
        return Err(Refusal::method_not_allowed("GET, HEAD"));
    }
    let mut allowed = new_answer(StatusCode::NO_CONTENT, "text/plain; charset=utf-8", empty_body());
    let headers = allowed.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, HEAD"));
    headers.insert(
        ACCESS_CONTROL_ALLOW_HEADERS,
        HeaderValue::from_static("Range, If-Match, If-None-Match, If-Range, Authorization"),
    );
    Ok(allowed)
}

fn redirect(status: StatusCode, address: HeaderValue) -> Answer {
    let mut moved = new_answer(status, "text/plain; charset=utf-8", empty_body());
    moved.headers_mut().insert(LOCATION, address);
    moved
}

fn find_store(state: &AppState, name: &str) -> Result<Arc<ServedStore>, Refusal> {
    let found = state.stores.iter().find(|store| store.name == name);
    found.cloned().ok_or_else(|| {
        Refusal::not_found("no store has this name").with_key(name).with_hint("see /api/stores")
    })
}

/// Returns the fields of the query string and those of the body.
async fn read_fields(
    state: &AppState,
    mut fields: Vec<(String, String)>,
    request: Request<Incoming>,
) -> Result<Vec<(String, String)>, Refusal> {
    let collected = request.into_body().collect();
    let body = match tokio::time::timeout(state.limits.body_timeout, collected).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(_broken)) => return Err(Refusal::bad_request("the body ends early")),
        Err(_elapsed) => {
            let status = StatusCode::REQUEST_TIMEOUT;
            return Err(Refusal::new(status, "Timeout", "the body did not come in time"));
        }
    };
    fields.extend(parse_body(&body)?);
    if fields.len() > state.limits.max_query_fields {
        return Err(Refusal::bad_request("the body has too many fields"));
    }
    Ok(fields)
}

/// Statuses after which the following bytes of the connection may not be a request.
const CLOSING: [StatusCode; 6] = [
    StatusCode::BAD_REQUEST,
    StatusCode::PAYLOAD_TOO_LARGE,
    StatusCode::URI_TOO_LONG,
    StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
    StatusCode::LENGTH_REQUIRED,
    StatusCode::REQUEST_TIMEOUT,
];
/// The bytes of a line of headers beside the name and the value: a colon, a space and the end.
const HEADER_LINE_BYTES: usize = 4;
/// Headers that pages of allowed origins may read.
const EXPOSED: &str =
    "Accept-Ranges, Content-Encoding, Content-Length, Content-Range, ETag, zvf-note";
/// The largest number of characters of a path in the access log.
const MAX_LOGGED_PATH_CHARS: usize = 1024;
