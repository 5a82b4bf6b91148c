//! The requests to the backend: few, and none repeated.

use std::sync::Arc;

use archives::faults::FaultStore;
use bytes::Bytes;
use object_store::path::Path;
use zvf_store::{Caching, OpenOptions, Store};

use archives::files;

async fn counting(id: &str) -> Arc<FaultStore> {
    let store = Arc::new(FaultStore::new());
    for (path, bytes) in files(id) {
        store.insert(&path, &bytes).await;
    }
    store
}

async fn open(store: &Arc<FaultStore>) -> Store {
    let (store, root) = (Arc::clone(store), Path::default());
    Store::from_object_store(store, &root, OpenOptions::default()).await.unwrap()
}

fn list_requests(store: &FaultStore) -> Vec<String> {
    store.requests().into_iter().map(|sent| format!("{} {}", sent.what, sent.path)).collect()
}

#[tokio::test]
async fn opening_costs_four_documents_at_once() {
    for id in ["pc3_basic", "pc3_huge_sparse_grid", "sl3_pyramid", "v060_gr3", "gr3_sharded_after"]
    {
        let backend = counting(id).await;
        let store = open(&backend).await;
        let level = store.level(0).await.unwrap();
        level.required_cells("vertices").await.unwrap();
        let documents = ["", "0/", "0/vertices/", "0/vertex_fragments/"];
        let documents = documents.map(|path| format!("get {path}zarr.json"));
        assert_eq!(list_requests(&backend), documents, "{id}");
    }
}

#[tokio::test]
async fn one_handle_requests_nothing_twice() {
    let backend = counting("pc3_sharded").await;
    let store = open(&backend).await;
    let vertices = store.level(0).await.unwrap().required_cells("vertices").await.unwrap();
    let keys: Vec<_> = vertices.presence().await.unwrap().iter().collect();
    let before = backend.requests().len();
    assert_eq!(before, 4, "presence is in the document");

    // Concurrent reads on a cold handle.
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let (vertices, keys) = (vertices.clone(), keys.clone());
            tokio::spawn(async move { vertices.read_many(&keys, Caching::Keep).await })
        })
        .collect();
    for task in tasks {
        assert!(task.await.unwrap().iter().all(|payload| matches!(payload, Ok(Some(_)))));
    }
    let shards: std::collections::BTreeSet<String> =
        list_requests(&backend).split_off(before).into_iter().collect();
    let request_count = backend.requests().len() - before;
    assert_eq!(request_count, 2 * shards.len(), "an index and a body for each shard: {shards:?}");

    // A part of a cached shard needs no index request; a cached cell needs no request.
    let before = backend.requests().len();
    vertices.read_many(&keys, Caching::Keep).await;
    assert_eq!(backend.requests().len(), before);
    let parts = vertices.read_parts(&[(keys[0], vec![0..4, 8..12])]).await.remove(0).unwrap();
    assert_eq!(parts.unwrap().len(), 2);
    assert_eq!(backend.requests().len(), before + 1, "one span of the shard");
}

#[tokio::test]
async fn an_absent_chunk_takes_no_request_if_presence_is_recorded() {
    let backend = counting("pc3_huge_sparse_grid").await;
    let store = open(&backend).await;
    let vertices = store.level(0).await.unwrap().required_cells("vertices").await.unwrap();
    let absent = zvf_format::key::ChunkKey::new(&[0, 0, 0]).unwrap();
    assert_eq!(vertices.read(&absent, Caching::Keep).await.unwrap(), None);
    assert_eq!(backend.requests().len(), 4);
}

#[tokio::test]
async fn a_handle_keeps_its_version_until_revalidation() {
    let backend = counting("pc3_basic").await;
    let store = open(&backend).await;
    store.level(0).await.unwrap().required_cells("vertices").await.unwrap();
    assert!(store.revalidate().await.unwrap().is_none());
    let document =
        files("pc3_basic").into_iter().find(|(path, _)| path == "0/zarr.json").unwrap().1;
    let text = String::from_utf8(document).unwrap();
    let count = store.level(0).await.unwrap().meta().vertex_count;
    let changed = text.replace(&format!("\"vertex_count\": {count}"), "\"vertex_count\": 7");
    assert_ne!(text, changed);
    backend.insert("0/zarr.json", &Bytes::from(changed)).await;
    assert_eq!(store.level(0).await.unwrap().meta().vertex_count, count);
    let revalidated = store.revalidate().await.unwrap().unwrap();
    assert_eq!(revalidated.level(0).await.unwrap().meta().vertex_count, 7);
    assert_eq!(store.level(0).await.unwrap().meta().vertex_count, count);
}
