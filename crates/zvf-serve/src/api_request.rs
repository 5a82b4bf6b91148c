//! A request to `/api`, and its query with the names of groups resolved.

use std::sync::Arc;

use hyper::HeaderMap;
use zvf::format::Class;
use zvf::question::find_groups;
use zvf::{LevelId, LevelRule, Reader};

use crate::query_fields::ParsedQuery;
use crate::refusal::Refusal;
use crate::stores::ServedStore;

/// A request below the name of a store.
pub(crate) struct ApiRequest {
    pub(crate) store: Arc<ServedStore>,
    pub(crate) path: Vec<String>,
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) headers: HeaderMap,
    pub(crate) is_head: bool,
}

/// Returns a query with its groups as numbers, and the reader that answers it.
pub(crate) async fn resolve_groups(
    store: &ServedStore,
    mut parsed: ParsedQuery,
) -> Result<(Reader, ParsedQuery), Refusal> {
    let reader = store.reader().await?;
    if parsed.groups.is_empty() {
        return Ok((reader, parsed));
    }
    let numbers: Option<Vec<u64>> = parsed.groups.iter().map(|name| name.parse().ok()).collect();
    let numbers = match numbers {
        Some(numbers) => numbers,
        None => group_numbers(store, &reader, &parsed).await?,
    };
    parsed.query = parsed.query.in_groups(numbers);
    Ok((reader, parsed))
}

async fn group_numbers(
    store: &ServedStore,
    reader: &Reader,
    parsed: &ParsedQuery,
) -> Result<Vec<u64>, Refusal> {
    let level = if let LevelRule::Number(level) = parsed.query.level { level } else { LevelId(0) };
    let opened = match parsed.query.kind {
        Some(kind) => reader.level_of_kind(level, kind).await,
        None => reader.level(level).await,
    };
    let opened = opened.map_err(|error| store.refuse(&error))?;
    find_groups(&opened, &parsed.groups).await.map_err(|error| match error.class() {
        Class::InvalidArgument => Refusal::not_found(error.message()),
        _ => store.refuse(&error),
    })
}
