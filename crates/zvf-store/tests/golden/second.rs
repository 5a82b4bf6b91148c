//! Output of this crate, read by an independent reader: zarrs with C Blosc.
//!
//! Stores written by other software are rearranged with every codec, and zarrs opens each array
//! from the written bytes. In zarrs cells are in row order of the grid, and absent ones are empty.
//! Blosc uses items of one byte, because zarrs drops the bytes after the last complete item.

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

/// Returns all objects under `root` as files.
async fn list_files(memory: &InMemory, root: &str) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    for meta in memory.list(Some(&Path::from(root))).try_collect::<Vec<_>>().await.unwrap() {
        let bytes = memory.get(&meta.location).await.unwrap().bytes().await.unwrap();
        let relative_path = meta.location.as_ref().strip_prefix(root).unwrap();
        files.push((relative_path.trim_start_matches('/').to_owned(), bytes.to_vec()));
    }
    files
}

/// Returns the items that zarrs reads: variable-length items separately, others concatenated.
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

/// Returns the items that this crate reads, in the same form.
async fn read_own_items(store: &Store, found: &Found) -> Vec<Vec<u8>> {
    if found.kind != Kind::Cells {
        let all = contents(store, found).await.unwrap();
        return all.into_iter().map(Option::unwrap).collect();
    }
    let (level, name) = found.path.split_once('/').unwrap();
    let level = store.level(level.parse().unwrap()).await.unwrap();
    let cells = level.cells(name).await.unwrap().unwrap();
    let keys: Vec<_> = cells.presence().await.unwrap().iter().collect();
    let payloads = cells.read_many(&keys, Caching::Once).await;
    payloads.into_iter().map(|payload| payload.unwrap().unwrap().to_vec()).collect()
}

#[test]
fn zarrs_reads_stores_of_every_codec() {
    let plans = [
        ("none", Arrange::Cells, CodecPipeline::empty()),
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
    // Each store with one codec; every codec is applied to every kind of store.
    for (id, (name, plan)) in ids().into_iter().step_by(3).zip(plans.iter().cycle()) {
        count += runtime.block_on(agree(&id, name, plan));
    }
    assert!(count > 300, "{count} arrays");
}

/// Rearranges the store with `plan` and returns the number of compared arrays.
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
    let reopened = Store::from_object_store(memory, &"out".into(), options()).await.unwrap();
    let found = arrays(&written, true);
    for found in &found {
        let mut zarrs_items = items(&storage, found);
        let mut own_items = read_own_items(&reopened, found).await;
        if found.kind == Kind::Cells {
            own_items.retain(|cell| !cell.is_empty());
            zarrs_items.retain(|cell| !cell.is_empty());
        }
        assert!(own_items == zarrs_items, "{id} {name} {}", found.path);
    }
    found.len()
}
