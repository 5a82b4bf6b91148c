//! Stores of other software, rearranged: the same answers, and the same bytes after rearranging
//! back.

use std::sync::Arc;

use archives::{Unpacked, files, ids, in_memory};
use bytes::Bytes;
use object_store::memory::InMemory;
use serde_json::json;
use zvf_error::Result;
use zvf_format::Class;
use zvf_format::key::ChunkKey;
use zvf_metadata::{GroupDoc, LayoutFamily, Node};
use zvf_store::{
    Arrange, BloscSettings, Build, BuildOptions, Caching, CellPlan, CodecPipeline, OpenOptions,
    RearrangeCounts, Rearrangement, Store,
};

use crate::uploads::root;
use crate::walk::{Found, Kind, arrays};

/// Reads everything in an array; a cell follows its key.
pub(crate) async fn contents(store: &Store, found: &Found) -> Result<Vec<Option<Vec<u8>>>> {
    let nodes = store.nodes();
    Ok(match found.kind {
        Kind::Cells => {
            let (level, name) = found.path.split_once('/').unwrap();
            let cells = store.level(level.parse().unwrap()).await?.required_cells(name).await?;
            let keys: Vec<_> = cells.presence().await?.iter().collect();
            let payloads = cells.read_many(&keys, Caching::Once).await;
            let named = |(key, payload): (&ChunkKey, Result<Option<Bytes>>)| {
                Ok(payload?.map(|payload| [key.to_string().as_bytes(), &payload].concat()))
            };
            keys.iter().zip(payloads).map(named).collect::<Result<_>>()?
        }
        Kind::Rows => {
            let rows = nodes.rows(&found.path).await?.unwrap();
            let all = rows.range(0..rows.count().await?).await?;
            all.into_iter().map(|row| Some(row.to_vec())).collect()
        }
        Kind::Dense => {
            vec![Some(nodes.dense(&found.path).await?.unwrap().read_all().await?.to_vec())]
        }
    })
}

/// Returns the document at `path` without the fields that a rearrangement may change.
async fn stable_document(store: &Store, path: &str) -> String {
    match store.nodes().node(path).await.unwrap().as_deref() {
        Some(Node::Array(doc)) => {
            let mut doc = doc.clone();
            (doc.codecs, doc.nonempty_chunks) = (Vec::new(), None);
            doc.chunk_shape = Vec::new();
            doc.print()
        }
        Some(Node::Group(doc)) => {
            let mut doc = doc.clone();
            doc.extras.shift_remove("consolidated_metadata");
            if let Some(block) = doc.attributes.get_mut("zarr_vectors") {
                block.as_object_mut().unwrap().shift_remove("shard_shape"); // as the arrays are
            }
            doc.print()
        }
        None => panic!("no node {path}"),
    }
}

async fn apply(
    plan: &Rearrangement,
    store: &Store,
    to: &Arc<InMemory>,
    at: &str,
) -> RearrangeCounts {
    let options = BuildOptions::default();
    let backend: Arc<dyn object_store::ObjectStore> = to.clone();
    let build = Build::in_object_store(backend, at, options).await.unwrap();
    let mut last = RearrangeCounts::default();
    let total = plan.apply(store, build, |progress| last = *progress).await.unwrap();
    assert!(last.cells <= total.cells);
    total
}

async fn open_at(from: &Arc<InMemory>, at: &str) -> Store {
    Store::from_object_store(from.clone(), &at.into(), OpenOptions::default()).await.unwrap()
}

#[test]
fn every_store_answers_the_same_in_any_arrangement() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.unwrap().block_on(async {
        let plans = [
            ("shards", Rearrangement { shards: Arrange::Shards(vec![2]), codecs: None }),
            ("cells", Rearrangement { shards: Arrange::Cells, codecs: None }),
            (
                "zstd",
                Rearrangement {
                    shards: Arrange::Keep,
                    codecs: Some(CodecPipeline::zstd(1).with_crc32c()),
                },
            ),
            (
                "both",
                Rearrangement {
                    shards: Arrange::Shards(vec![3]),
                    codecs: Some(CodecPipeline::blosc(BloscSettings {
                        block_size: 4096,
                        ..Default::default()
                    })),
                },
            ),
        ];
        let mut count = 0;
        for (turn, id) in ids().into_iter().enumerate() {
            let files = files(&id);
            let store = Unpacked::from_files(&files);
            let store = store.open().await;
            if store.family() != LayoutFamily::C {
                continue;
            }
            let memory = Arc::new(InMemory::new());
            // Each store gets one arrangement, and every arrangement is applied to every kind of
            // store.
            for (name, plan) in plans.iter().cycle().skip(turn).take(1) {
                apply(plan, &store, &memory, name).await;
                let rearranged = open_at(&memory, name).await;
                for found in arrays(&files, true) {
                    let old = contents(&store, &found).await.unwrap();
                    let new = contents(&rearranged, &found).await.unwrap();
                    assert!(old == new, "{id} {name} {}", found.path);
                    count += 1;
                }
                for (path, _) in &files {
                    let Some(path) = path.strip_suffix("zarr.json") else { continue };
                    let path = path.trim_end_matches('/');
                    let expected = stable_document(&store, path).await;
                    assert_eq!(expected, stable_document(&rearranged, path).await, "{id} {name}");
                }
            }
        }
        assert!(count > 1000, "{count} arrays");
    });
}

#[tokio::test]
async fn rearranging_back_gives_the_same_bytes() {
    let files = files("pc3_blosc");
    let memory = in_memory(&[]).await;
    let store = Unpacked::from_files(&files);
    let store = store.open().await;
    let sharded = Rearrangement { shards: Arrange::Shards(vec![2]), codecs: None };
    let total = apply(&sharded, &store, &memory, "there").await;
    assert!(total.arrays > 2 && total.objects < total.cells, "{total:?}");
    let unsharded = Rearrangement { shards: Arrange::Cells, codecs: None };
    apply(&unsharded, &open_at(&memory, "there").await, &memory, "back").await;
    let restored = open_at(&memory, "back").await;
    for (path, bytes) in &files {
        let Some((array, _)) = path.split_once("/c/") else { continue };
        let objects = restored.nodes().objects(array).await.unwrap();
        let found = objects.iter().find(|(key, _)| key.as_str() == path);
        assert_eq!(found.map(|(_, size)| *size), Some(bytes.len() as u64), "{path}");
    }
}

#[tokio::test]
async fn impossible_arrangements_are_named() {
    let old = Unpacked::new("v070_sl3_pyramid");
    let memory = Arc::new(InMemory::new());
    let build =
        |at: &'static str| Build::in_object_store(memory.clone(), at, BuildOptions::default());
    let plan = Rearrangement { shards: Arrange::Cells, codecs: None };
    let error = plan.apply(&old.open().await, build("a").await.unwrap(), |_| ()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "Unsupported, version: expected 0.9 or later: zvf rewrite --format-version 0.9.2 makes \
         such a store, found \"0.7.0\"",
    );
    let new = Unpacked::new("pc3_basic");
    let plan = Rearrangement { shards: Arrange::Shards(vec![2; 5]), codecs: None };
    let error = plan.apply(&new.open().await, build("b").await.unwrap(), |_| ()).await.unwrap_err();
    assert_eq!(error.class(), Class::InvalidArgument);
    assert_eq!(
        error.to_string(),
        "InvalidArgument in 0/vertex_fragments, axes of a shard: expected 3, found 5"
    );
}

#[tokio::test]
async fn an_origin_written_as_floats_is_published_and_kept() {
    let memory = Arc::new(InMemory::new());
    let options = BuildOptions::default();
    let build = Build::in_object_store(memory.clone(), "floats", options).await.unwrap();
    let level =
        json!({"zarr_vectors_level": {"level": 0, "vertex_count": 2, "arrays_present": []}});
    build.group("0", &GroupDoc::new(level.as_object().unwrap().clone())).await.unwrap();
    // There is space below the lowest cell, so the cell does not determine the origin.
    let cells = build.cells("0/vertices", CellPlan::new(vec![-2, 0], vec![1, 0])).unwrap();
    for key in ["-1.0", "1.0"] {
        let payload = key.as_bytes().into();
        cells.put(&key.parse::<ChunkKey>().unwrap(), payload).unwrap();
    }
    let as_floats = json!([-2.0, 0.0]);
    let origin = "chunk_grid_origin";
    cells.finish(|attributes| drop(attributes.insert(origin.into(), as_floats))).await.unwrap();
    build.publish(&root()).await.unwrap();
    let store = open_at(&memory, "floats").await;
    let plan = Rearrangement { shards: Arrange::Shards(vec![2]), codecs: None };
    assert_eq!(apply(&plan, &store, &memory, "sharded").await.cells, 2);
    let rearranged = open_at(&memory, "sharded").await;
    let node = rearranged.nodes().node("0/vertices").await.unwrap();
    let Some(Node::Array(doc)) = node.as_deref() else { panic!("an array") };
    assert_eq!((&doc.attributes[origin], &doc.shape[..]), (&json!([-2, 0]), &[4, 1][..]));
    let found = Found { path: "0/vertices".to_owned(), kind: Kind::Cells };
    let cells = ["-1.0-1.0", "1.01.0"].map(|cell| Some(cell.as_bytes().to_vec()));
    assert_eq!(contents(&store, &found).await.unwrap(), cells);
    assert_eq!(contents(&rearranged, &found).await.unwrap(), cells);
}
