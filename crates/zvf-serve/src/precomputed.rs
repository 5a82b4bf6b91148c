//! `/precomputed/<name>/...`: a store in Neuroglancer's precomputed formats, generated on request; and `/v/zvf/`, the
//! client from a folder, on the same origin.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use hyper::StatusCode;
use hyper::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderMap, HeaderValue};
use serde_json::{Value as Json, json};
use zvf::format::Class;

use crate::access::PUBLIC_CLIENT;
use crate::answer::{Answer, json_answer, text_answer};
use crate::data::{answer_file, bytes_answer};
use crate::refusal::Refusal;
use crate::state::AppState;
use crate::stores::ServedStore;
use crate::work::run_blocking;

/// Answers a request for an object of a store, or for the list of its folders.
pub(crate) async fn answer_precomputed(
    state: &Arc<AppState>,
    store: Arc<ServedStore>,
    path: Vec<String>,
    headers: &HeaderMap,
    is_head: bool,
) -> Result<Answer, Refusal> {
    // Viewers request many objects at once: they wait for each other, up to the request timeout.
    let wait = Arc::clone(&state.queries).acquire_owned();
    let Ok(Ok(permit)) = tokio::time::timeout(state.limits.request_timeout, wait).await else {
        return Err(Refusal::service_unavailable("too many objects are in progress; try again"));
    };
    let held = (permit, state.metrics.start_query());
    if path.is_empty() {
        let listed = run_blocking(state, held, async move { list_layers(&store).await }).await?;
        return Ok(json_answer(&listed, headers));
    }
    let is_info = path.last().is_some_and(|name| name == "info");
    let name = path.join("/");
    let made = run_blocking(state, held, async move {
        let served = store.precomputed_store().await?;
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        served.object(path[0], &path[1..]).await.map_err(|error| refuse(&store, error))
    });
    let Some(bytes) = made.await? else {
        return Err(Refusal::not_found("there is no such object").with_key(name));
    };
    if is_info {
        return Ok(text_answer("application/json", bytes.to_vec(), headers));
    }
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    let etag = format!("\"{:x}-{:x}\"", bytes.len(), hasher.finish());
    Ok(bytes_answer(bytes, &etag, "application/octet-stream", headers, is_head))
}

/// Lists the folders of a store.
async fn list_layers(store: &ServedStore) -> Result<Json, Refusal> {
    let served = store.precomputed_store().await?;
    let layers = served.layers().await.map_err(|error| refuse(store, error))?;
    let names: Vec<_> = layers.iter().map(|layer| layer.name.as_str()).collect();
    Ok(json!({"name": store.name, "layers": names}))
}

/// Converts an error of a store, or a limit of the formats.
fn refuse(store: &ServedStore, error: zvf::Error) -> Refusal {
    match (error.op(), error.class()) {
        ("convert", Class::LimitExceeded) => Refusal::too_large(error.to_string()),
        ("convert", _) => Refusal::new(StatusCode::NOT_FOUND, "Unsupported", error.to_string()),
        _ => store.refuse(&error),
    }
}

/// Returns the address at which the client shows a store: in the folder `/v/zvf/` where there is one, else at the
/// public one.
pub(crate) fn view_address(root: &str, has_client: bool, view: &Json) -> String {
    let client = if has_client { format!("{root}/v/zvf/") } else { PUBLIC_CLIENT.to_owned() };
    let mut address = format!("{client}#!");
    for byte in view.to_string().bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~:/,".contains(&byte) {
            address.push(char::from(byte));
        } else {
            address.push_str(&format!("%{byte:02X}"));
        }
    }
    address
}

/// Answers `/v/zvf/...` from the folder of the client.
pub(crate) async fn answer_client(
    state: &AppState,
    key: Vec<String>,
    headers: &HeaderMap,
    is_head: bool,
) -> Result<Answer, Refusal> {
    let Some(client) = &state.client else {
        return Err(Refusal::not_found("this server has no Neuroglancer client")
            .with_hint("start it with --neuroglancer FOLDER"));
    };
    let key = if key.is_empty() { vec!["index.html".to_owned()] } else { key };
    let extension = key.last().and_then(|name| name.rsplit_once('.')).map_or("", |(_, end)| end);
    let content_type = match extension {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "wasm" => "application/wasm",
        "json" => "application/json",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        _ => "application/octet-stream",
    };
    let mut sent = answer_file(client, key, headers, is_head).await?;
    let headers = sent.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(CLIENT_POLICY));
    Ok(sent)
}

/// The content policy of the client: it compiles shader controls with `eval`, and starts workers from blobs.
const CLIENT_POLICY: &str = "default-src 'self'; script-src 'self' 'wasm-unsafe-eval' 'unsafe-eval'; worker-src 'self' blob:; \
     style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; connect-src 'self'; base-uri 'none'; \
     form-action 'none'; frame-ancestors 'self'";
