//! `/api/...`: the JSON documents of the command, and answers to queries as they are read.
//!
//! Work on a store runs on the thread pool for blocking work, because reading local files blocks;
//! at most [`Limits::max_queries`](crate::Limits::max_queries) run at once, each with a deadline.

use std::collections::HashSet;
use std::sync::Arc;

use hyper::header::{HeaderMap, HeaderValue};
use serde_json::json;
use zvf::inspect::{GroupView, ObjectView, StoreSummary};
use zvf::question;
use zvf::{LevelId, LevelReader, QueryPlan, Reader};

use zvf::Error;

use crate::answer::{Answer, json_answer};
use crate::api_request::{ApiRequest, resolve_groups};
use crate::picture;
use crate::query_fields::{parse_ids, parse_kind, parse_query};
use crate::refusal::Refusal;
use crate::state::AppState;
use crate::stores::ServedStore;
use crate::target::is_safe_segment;
use crate::transfer;
use crate::work::run_blocking;

/// Answers `/api/stores`.
pub(crate) fn list_stores(state: &AppState, headers: &HeaderMap) -> Answer {
    json_answer(
        &json!(state.stores.iter().map(|store| describe(store)).collect::<Vec<_>>()),
        headers,
    )
}

/// Returns the addresses of a store on this server.
pub(crate) fn describe(store: &ServedStore) -> serde_json::Value {
    let name = &store.name;
    let data = if store.is_file() { format!("/data/{name}") } else { format!("/data/{name}/") };
    let page = page_address(store);
    json!({"name": name, "page": page, "data": data, "api": format!("/api/{name}/"), "packed": store.is_file()})
}

/// Returns the address of the viewer with this store. A question mark marks a store in one file;
/// names need no escaping.
pub(crate) fn page_address(store: &ServedStore) -> String {
    format!("/view/#!{{%22store%22:{}}}", quoted_address(store))
}

fn quoted_address(store: &ServedStore) -> String {
    let end = if store.is_file() { "?pack.tet" } else { "/" };
    format!("%22../data/{}{end}%22", store.name)
}

/// Returns the address of the viewer with all these stores.
pub(crate) fn joint_page_address(stores: &[Arc<ServedStore>]) -> String {
    let stores = stores.iter().take(MAX_JOINT_STORES);
    let all: Vec<String> = stores.map(|store| quoted_address(store)).collect();
    format!("/view/#!{{%22store%22:[{}]}}", all.join(","))
}

/// The largest number of stores in one view.
const MAX_JOINT_STORES: usize = 8;

/// Answers `/api/<name>/...`.
pub(crate) async fn answer_api(
    state: &Arc<AppState>,
    request: ApiRequest,
) -> Result<Answer, Refusal> {
    let Ok(permit) = Arc::clone(&state.queries).try_acquire_owned() else {
        return Err(Refusal::service_unavailable("too many queries are being answered; try again"));
    };
    let running = (permit, state.metrics.start_query());
    let path: Vec<&str> = request.path.iter().map(String::as_str).collect();
    match path[..] {
        ["query"] => return transfer::answer_query(state, running, request).await,
        ["render"] => return picture::answer_picture(state, running, request).await,
        _ => {}
    }
    let (limits, headers) = (state.limits.clone(), request.headers.clone());
    // Lists of as many objects may lack others.
    let most = match path[..] {
        ["object"] => limits.max_objects,
        ["search"] => limits.max_objects.min(MAX_FOUND),
        _ => usize::MAX,
    };
    let document =
        run_blocking(state, running, async move {
            let ApiRequest { store, path, fields, .. } = request;
            let path: Vec<&str> = path.iter().map(String::as_str).collect();
            let max_objects = limits.max_objects;
            match path[..] {
                ["info"] => read_info(&store, &fields).await,
                ["object"] => read_objects(&store, None, &fields, max_objects).await,
                ["object", ids] => read_objects(&store, Some(ids), &fields, max_objects).await,
                ["group"] => read_groups(&store, None, &fields, max_objects).await,
                ["group", group] => read_groups(&store, Some(group), &fields, max_objects).await,
                ["search"] => search_objects(&store, &fields, most).await,
                ["keys"] => list_keys(&store, &fields).await,
                ["plan"] => {
                    let parsed = parse_query(fields, limits.max_rows, &[])?;
                    let (reader, parsed) = resolve_groups(&store, parsed).await?;
                    let plan = reader.plan(&parsed.query).await;
                    Ok(plan_document(&plan.map_err(|error| store.refuse(&error))?))
                }
                _ => Err(Refusal::not_found("no such address below /api")
                    .with_hint("see /api/openapi.json")),
            }
        });
    let document = document.await?;
    let mut answer = json_answer(&document, &headers);
    if document.as_array().is_some_and(|all| all.len() >= most) {
        let note = format!("at most {most} objects are listed: there may be more");
        answer.headers_mut().extend(HeaderValue::try_from(note).map(|note| (transfer::NOTE, note)));
    }
    Ok(answer)
}

/// Parses a flag; without a value it is set.
fn parse_flag(name: &str, value: &str) -> Result<bool, Refusal> {
    match value {
        "" | "1" | "true" => Ok(true),
        "0" | "false" => Ok(false),
        _ => Err(unknown_field(name)),
    }
}

fn unknown_field(name: &str) -> Refusal {
    Refusal::bad_request(format!("there is no field {name:?} with this value"))
}

async fn read_info(
    store: &ServedStore,
    fields: &[(String, String)],
) -> Result<serde_json::Value, Refusal> {
    let mut with_sizes = false;
    for (name, value) in fields {
        match name.as_str() {
            "sizes" => with_sizes = parse_flag(name, value)?,
            _ => return Err(unknown_field(name)),
        }
    }
    let reader = store.reader().await?;
    let refuse = |error| store.refuse(&error);
    let mut summary = StoreSummary::read(reader.store()).await.map_err(refuse)?;
    if with_sizes {
        summary = summary.with_stored(reader.store()).await.map_err(refuse)?;
    }
    let mut document =
        serde_json::to_value(&summary).map_err(|error| Refusal::bad_request(error.to_string()))?;
    if let Some(document) = document.as_object_mut() {
        // The address is private to this machine.
        document.remove("address");
        document.insert("served_as".to_owned(), store.name.clone().into());
    }
    Ok(document)
}

/// Opens the levels that may contain an object: one per kind.
async fn open_kinds(
    store: &ServedStore,
    reader: &Reader,
    fields: &[(String, String)],
) -> Result<Vec<LevelReader>, Refusal> {
    let (mut number, mut kind) = (0, None);
    for (name, value) in fields {
        match name.as_str() {
            "level" => {
                number = value
                    .parse()
                    .map_err(|_error| Refusal::bad_request("level: expected a number"))?;
            }
            "kind" => kind = Some(parse_kind(value)?),
            _ => return Err(Refusal::bad_request(format!("there is no field {name:?}"))),
        }
    }
    let refuse = |error: Error| store.refuse(&error);
    let first = reader.level(LevelId(number)).await.map_err(refuse)?;
    question::open_kinds(&first, kind).await.map_err(refuse)
}

async fn read_objects(
    store: &ServedStore,
    ids: Option<&str>,
    fields: &[(String, String)],
    max_objects: usize,
) -> Result<serde_json::Value, Refusal> {
    let reader = store.reader().await?;
    let levels = open_kinds(store, &reader, fields).await?;
    let ids = ids.map(parse_ids).transpose()?;
    if ids.as_ref().is_some_and(|ids| ids.len() > max_objects) {
        return Err(Refusal::bad_request(format!(
            "more than {max_objects} objects in one request"
        )));
    }
    let refuse = |error: Error| store.refuse(&error);
    let mut views = Vec::new();
    for level in &levels {
        let Some(index) = level.objects().await.map_err(&refuse)? else {
            continue;
        };
        let (rows, max_references): (Vec<u64>, usize) = match &ids {
            None => ((0..index.slots()).take(max_objects - views.len()).collect(), 0),
            Some(ids) => {
                let rows = index.find(ids).await.map_err(&refuse)?;
                (rows.into_iter().flatten().collect(), max_objects)
            }
        };
        if !rows.is_empty() {
            let found = ObjectView::read_rows(level, &rows, max_references).await;
            views.extend(found.map_err(refuse)?);
        }
    }
    let found_ids: HashSet<i64> = views.iter().map(|view| view.id).collect();
    if let Some(absent) = ids.iter().flatten().find(|id| !found_ids.contains(&id.0)) {
        return Err(Refusal::not_found(format!("there is no object {}", absent.0)));
    }
    serde_json::to_value(&views).map_err(|error| Refusal::bad_request(error.to_string()))
}

/// Searches objects by their id, or by the value of an attribute.
async fn search_objects(
    store: &ServedStore,
    fields: &[(String, String)],
    max_objects: usize,
) -> Result<serde_json::Value, Refusal> {
    let text = match fields {
        [(name, text)] if name == "q" => text,
        _ => return Err(Refusal::bad_request("search takes one field, q")),
    };
    let found = store.reader().await?.search(text, max_objects).await;
    let describe = |found: zvf::FoundObject| {
        let kind = found.kind.to_string();
        json!({"kind": kind, "id": found.object.0, "attribute": found.attribute})
    };
    Ok(found.map_err(|error| store.refuse(&error))?.into_iter().map(describe).collect())
}

/// The largest number of objects in the result of a search.
const MAX_FOUND: usize = 1000;

/// Lists the objects below a prefix with their sizes, for the viewer when a store does not list its
/// own chunks. Without `deep`, only those directly below it, and the folders. The names are null if
/// the backend cannot list.
async fn list_keys(
    store: &ServedStore,
    fields: &[(String, String)],
) -> Result<serde_json::Value, Refusal> {
    let (mut prefix, mut deep) = ("", false);
    for (name, value) in fields {
        match name.as_str() {
            "prefix" if value.is_empty() || value.split('/').all(is_safe_segment) => prefix = value,
            "deep" => deep = parse_flag(name, value)?,
            _ => return Err(unknown_field(name)),
        }
    }
    let reader = store.reader().await?;
    let refuse = |error: Error| store.refuse(&error);
    if !reader.store().can_list() {
        return Ok(json!({"keys": null, "sizes": null, "folders": null}));
    }
    // Objects that `/data` does not send are not listed either.
    let is_sent = |name: &str| name.split('/').all(is_safe_segment);
    if !deep {
        let mut found = reader.store().nodes().entries(prefix).await.map_err(refuse)?;
        found.files.retain(|name| is_sent(name));
        found.folders.retain(|name| is_sent(name));
        return Ok(json!({"keys": found.files, "sizes": null, "folders": found.folders}));
    }
    let mut found = reader.store().nodes().objects(prefix).await.map_err(refuse)?;
    found.retain(|(key, _)| is_sent(key.as_str()));
    if found.len() > MAX_KEYS {
        let message = format!("more than {MAX_KEYS} objects lie below the prefix");
        return Err(Refusal::too_large(message).with_hint(
            "\"zvf rewrite --format-version 0.9.2\" writes a store that lists its chunks itself",
        ));
    }
    let sizes: Vec<u64> = found.iter().map(|(_, size)| *size).collect();
    let below = |key: zvf::Key| {
        let key = key.as_str();
        key.strip_prefix(prefix).unwrap_or(key).trim_start_matches('/').to_owned()
    };
    let keys: Vec<String> = found.into_iter().map(|(key, _)| below(key)).collect();
    Ok(json!({"keys": keys, "sizes": sizes, "folders": []}))
}

/// The largest number of listed objects.
const MAX_KEYS: usize = 200_000;

async fn read_groups(
    store: &ServedStore,
    group: Option<&str>,
    fields: &[(String, String)],
    max_ids: usize,
) -> Result<serde_json::Value, Refusal> {
    let reader = store.reader().await?;
    let mut views = Vec::new();
    for level in open_kinds(store, &reader, fields).await? {
        let found = GroupView::read(&level, None, max_ids).await;
        views.extend(found.map_err(|error| store.refuse(&error))?);
    }
    if let Some(requested) = group {
        views.retain(|view| view.name == requested || view.group.to_string() == requested);
        if views.is_empty() {
            return Err(Refusal::not_found(format!("there is no group {requested:?}")));
        }
    }
    serde_json::to_value(&views).map_err(|error| Refusal::bad_request(error.to_string()))
}

fn plan_document(plan: &QueryPlan) -> serde_json::Value {
    let mut document = json!(plan);
    if let Some(fields) = document.as_object_mut() {
        fields.remove("rows_before");
    }
    document
}
