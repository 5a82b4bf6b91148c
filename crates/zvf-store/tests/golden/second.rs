//! What this crate writes, read by a reader that shares no code with it: zarrs, with C Blosc below.
//!
//! Stores that other software wrote are rearranged under every codec, and each array is opened by zarrs
//! from the bytes that were put. Cells lie in row order of the grid there, and absent ones are empty.
//! Blosc is asked for items of one byte: zarrs drops what is left over after the last whole item.

use std::sync::Arc;

use archives::{files, ids, in_memory};
use futures_util::TryStreamExt as _;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt as _};
use zarrs::array::{Array, ArrayBytes};
use zarrs::storage::store::MemoryStore;
use zarrs::storage::{StoreKey, WritableStorageTraits as _};
use zvf_metadata::LayoutFamily;
use zvf_store::{
    Arrange, BloscSettings, Build, BuildOptions, Caching, CodecPipeline, OpenOptions,
    Rearrangement, Store,
};

use crate::rearranged::contents;
use crate::walk::{Found, Kind, arrays};

/// Everything under `root`, as files.
async fn list_files(memory: &InMemory, root: &str) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    for meta in memory.list(Some(&Path::from(root))).try_collect::<Vec<_>>().await.unwrap() {
        let bytes = memory.get(&meta.location).await.unwrap().bytes().await.unwrap();
        let below = meta.location.as_ref().strip_prefix(root).unwrap();
        files.push((below.trim_start_matches('/').to_owned(), bytes.to_vec()));
    }
    files
}

/// What zarrs finds in the array: items of any length one by one, others together.
fn items(storage: &Arc<MemoryStore>, found: &Found) -> Vec<Vec<u8>> {
    let array = Array::open(storage.clone(), &format!("/{}", found.path)).unwrap();
    let all = array.subset_all();
    match found.kind {
        Kind::Cells | Kind::Rows => array.retrieve_array_subset::<Vec<Vec<u8>>>(&all).unwrap(),
        Kind::Dense => {
            let bytes = array.retrieve_array_subset::<ArrayBytes<'_>>(&all).unwrap();
            vec![bytes.into_fixed().unwrap().into_owned()]
        }
    }
}

/// What this crate finds there, in the same form.
async fn ours(store: &Store, found: &Found) -> Vec<Vec<u8>> {
    if found.kind != Kind::Cells {
        return contents(store, found).await.into_iter().map(Option::unwrap).collect();
    }
    let (level, name) = found.path.split_once('/').unwrap();
    let level = store.level(level.parse().unwrap()).await.unwrap();
    let cells = level.cells(name).await.unwrap().unwrap();
    let keys: Vec<_> = cells.presence().await.unwrap().iter().collect();
    let payloads = cells.read_many(&keys, Caching::Once).await;
    payloads.into_iter().map(|payload| payload.unwrap().unwrap().to_vec()).collect()
}

#[test]
fn zarrs_reads_what_is_written_under_every_codec() {
    let plans = [
        ("none", Arrange::Cells, CodecPipeline::none()),
        ("zstd", Arrange::Shards(vec![2]), CodecPipeline::zstd(3).with_crc32c()),
        ("gzip", Arrange::Cells, CodecPipeline::gzip(6)),
        (
            "blosc",
            Arrange::Shards(vec![3]),
            CodecPipeline::blosc(BloscSettings { typesize: 1, ..Default::default() }),
        ),
    ]
    .map(|(name, shards, codecs)| (name, Rearrangement { shards, codecs: Some(codecs) }));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut count = 0;
    // Each under one codec; every codec meets every kind of store.
    for (id, (name, plan)) in ids().into_iter().step_by(3).zip(plans.iter().cycle()) {
        count += runtime.block_on(agree(&id, name, plan));
    }
    assert!(count > 300, "{count} arrays");
}

/// How many arrays of the store were compared after `plan`.
async fn agree(id: &str, name: &str, plan: &Rearrangement) -> usize {
    let files = files(id);
    let options = OpenOptions::default;
    let store = Store::from_object_store(in_memory(&files).await, &"".into(), options()).await;
    let store = store.unwrap();
    if store.family() != LayoutFamily::C {
        return 0; // only the newest layout is written
    }
    let memory = Arc::new(InMemory::new());
    let backend: Arc<dyn ObjectStore> = memory.clone();
    let build = Build::in_object_store(backend, "out", BuildOptions::default()).await.unwrap();
    plan.apply(&store, build, |_| {}).await.unwrap();
    let written = list_files(&memory, "out").await;
    let storage = Arc::new(MemoryStore::new());
    for (key, bytes) in &written {
        storage.set(&StoreKey::new(key).unwrap(), bytes.clone().into()).unwrap();
    }
    let again = Store::from_object_store(memory, &"out".into(), options()).await.unwrap();
    let found = arrays(&written, true);
    for found in &found {
        let mut theirs = items(&storage, found);
        let mut ours = ours(&again, found).await;
        if found.kind == Kind::Cells {
            ours.retain(|cell| !cell.is_empty());
            theirs.retain(|cell| !cell.is_empty());
        }
        assert!(ours == theirs, "{id} {name} {}", found.path);
    }
    found.len()
}
