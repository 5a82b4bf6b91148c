//! Applies changed keys in one writable session.
//!
//! The order is: chunks to remove, documents from the root down, chunks, nodes to remove. So each
//! chunk is set after the document of its array, and no node is removed while a kept node is below
//! it.

use std::collections::BTreeMap;

use bytes::Bytes;
use futures_util::stream::{self, FuturesUnordered, StreamExt as _, TryStreamExt as _};
use icechunk::Store;
use serde_json::Value as Json;
use zvf_error::{Error, Result};
use zvf_format::Class;
use zvf_store::ObjectStream;

use crate::fault;
use crate::key::{DOCUMENT, Key};

/// New bytes by key; `None` removes the key.
pub(crate) type Changes = BTreeMap<String, Option<Bytes>>;

/// Refuses a key that no repository can hold, and a chunk without bytes.
pub(crate) fn check(address: &str, key: &str, bytes: Option<&Bytes>) -> Result<()> {
    let is_good = match Key::parse(key) {
        None => false,
        Some(Key::Chunk(..)) => bytes.is_none_or(|bytes| !bytes.is_empty()),
        Some(Key::Document(_)) => true,
    };
    if is_good {
        return Ok(());
    }
    let text = format!(
        "{address}: {key}: expected zarr.json or a chunk below \"c/\" that has bytes, found something else, which icechunk cannot hold; remove it from the store first"
    );
    Err(Error::custom(Class::Unsupported, text))
}

/// Applies changes in the session of `store`.
pub(crate) async fn apply(address: &str, store: &Store, changes: &Changes) -> Result<()> {
    let done = apply_in_order(store, Sorted::new(changes)).await;
    done.map_err(|error| fault::store_error(address, "write", &error))
}

async fn apply_in_order(store: &Store, changes: Sorted) -> Result<(), icechunk::store::StoreError> {
    for key in &changes.gone_chunks {
        store.delete(key).await?;
    }
    for (key, bytes) in changes.documents {
        make_room(store, &key, &bytes).await?;
        store.set(&key, bytes).await?;
    }
    let puts = changes.chunks.into_iter().map(|(key, bytes)| {
        let store = store.clone();
        async move { store.set(&key, bytes).await }
    });
    stream::iter(puts).buffer_unordered(AT_ONCE).try_collect::<Vec<()>>().await?;
    for key in &changes.gone_nodes {
        store.delete(key).await?;
    }
    Ok(())
}

/// Puts objects into the session of `store` as they arrive.
pub(crate) async fn put_all(address: &str, store: &Store, objects: ObjectStream<'_>) -> Result<()> {
    let faulted = |error: icechunk::store::StoreError| fault::store_error(address, "write", &error);
    let mut objects = objects;
    let mut chunks = FuturesUnordered::new();
    while let Some((key, bytes)) = objects.try_next().await? {
        check(address, &key, Some(&bytes))?;
        if let Some(Key::Document(_)) = Key::parse(&key) {
            store.set(&key, bytes).await.map_err(faulted)?;
            continue;
        }
        let store = store.clone();
        chunks.push(async move { store.set(&key, bytes).await });
        if chunks.len() == AT_ONCE {
            chunks.next().await.transpose().map_err(faulted)?;
        }
    }
    chunks.try_collect::<Vec<()>>().await.map(drop).map_err(faulted)
}

/// Changes in the order in which they are applied.
#[derive(Default)]
struct Sorted {
    gone_chunks: Vec<String>,
    /// From the root down.
    documents: Vec<(String, Bytes)>,
    chunks: Vec<(String, Bytes)>,
    /// From the leaves up.
    gone_nodes: Vec<String>,
}

impl Sorted {
    fn new(changes: &Changes) -> Self {
        let mut sorted = Self::default();
        for (key, bytes) in changes {
            let is_document = key.rsplit('/').next() == Some(DOCUMENT);
            match (is_document, bytes.clone()) {
                (true, Some(bytes)) => sorted.documents.push((key.clone(), bytes)),
                (true, None) => sorted.gone_nodes.push(key.clone()),
                (false, Some(bytes)) => sorted.chunks.push((key.clone(), bytes)),
                (false, None) => sorted.gone_chunks.push(key.clone()),
            }
        }
        let depth = |key: &str| key.matches('/').count();
        sorted.documents.sort_by_key(|(key, _)| depth(key));
        sorted.gone_nodes.sort_by_key(|key| std::cmp::Reverse(depth(key)));
        sorted
    }
}

/// Removes a group where an array will be created, and the other way round.
async fn make_room(
    store: &Store,
    key: &str,
    bytes: &Bytes,
) -> Result<(), icechunk::store::StoreError> {
    if !store.exists(key).await? {
        return Ok(());
    }
    let kind = |bytes: &Bytes| -> Json {
        let document: Json = serde_json::from_slice(bytes).unwrap_or_default(); // what is no document is refused when it is set
        document["node_type"].clone()
    };
    let old = store.get(key, &icechunk::format::ByteRange::ALL).await?;
    if kind(&old) != kind(bytes) {
        store.delete(key).await?;
    }
    Ok(())
}

/// The number of chunks written concurrently.
const AT_ONCE: usize = 16;
