//! Stores whose objects are changed or truncated under an open handle: no read returns a value that
//! was not written.

use std::ops::Range;
use std::sync::Arc;

use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt as _};
use serde_json::json;
use zvf_format::Class;
use zvf_format::key::ChunkKey;
use zvf_format::shard::encode_index;
use zvf_metadata::{
    ArrayDoc, Axis, CodecSpec, DataType, Dtype, FillValue, GroupDoc, Root, ZarrVectors,
};

use crate::{Build, BuildOptions, CellPlan, OpenOptions, Store};

/// Creates a store at "a" with the arrays that `fill` adds to its level.
async fn store(memory: &Arc<dyn ObjectStore>, fill: impl FnOnce(&Build)) -> Store {
    let options = BuildOptions { sync: false, ..BuildOptions::default() };
    let build = Build::in_object_store(Arc::clone(memory), "a", options).await.unwrap();
    let level = json!({"zarr_vectors_level": {"level": 0, "vertex_count": 1, "arrays_present": ["vertices"]}});
    build.group("0", &GroupDoc::new(level.as_object().unwrap().clone())).await.unwrap();
    let plan = CellPlan { shard: Some(vec![2]), ..CellPlan::new(vec![0], vec![3]) };
    let cells = build.cells("0/vertices", plan).unwrap();
    cells.put(&ChunkKey::new(&[0]).unwrap(), b"payload".as_slice().into()).unwrap();
    cells.finish(|_| ()).await.unwrap();
    fill(&build);
    let block = ZarrVectors::new(vec![10.0], [vec![0.0], vec![39.0]]);
    let mut root = Root::new(block, Axis::spatial(1).unwrap());
    root.multiscales[0].datasets.push(zvf_metadata::Dataset::new("0", vec![1.0], vec![5.0]));
    build.publish(&root).await.unwrap();
    let options = OpenOptions::default();
    Store::from_object_store(Arc::clone(memory), &"a".into(), options).await.unwrap()
}

/// Adds four chunks of 64 numbers in one shard, two of them stored, uncompressed.
fn numbers(build: &Build) {
    let mut doc =
        ArrayDoc::new(vec![256], vec![256], DataType::number("uint16".parse::<Dtype>().unwrap()));
    doc.fill_value = FillValue::uint(7);
    doc.codecs = vec![CodecSpec::sharding(vec![64], vec![CodecSpec::bytes()])];
    let array = build.verbatim_array("0/object_attributes/x", doc.print().into()).unwrap();
    for (chunk, byte) in [(0, 1), (3, 2)] {
        array.put_items(&[chunk], vec![byte; 128].into()).unwrap();
    }
    array.finish().unwrap();
}

#[tokio::test]
async fn rows_of_a_deleted_shard_are_not_filled_in() {
    let memory: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let store = store(&memory, numbers).await;
    let rows = store.nodes().dense("0/object_attributes/x").await.unwrap().unwrap();
    assert_eq!(rows.rows(0..1).await.unwrap(), [1, 1].as_slice());
    assert_eq!(
        rows.rows(64..65).await.unwrap(),
        [7, 0].as_slice(),
        "a chunk that was never stored"
    );
    memory.delete(&Path::from("a/0/object_attributes/x/c/0")).await.unwrap();
    let error = rows.rows(192..193).await.unwrap_err();
    assert_eq!((error.class(), error.key()), (Class::NotFound, Some("0/object_attributes/x/c/0")));
}

#[tokio::test]
async fn a_span_that_is_shorter_than_a_frame_has_no_size() {
    let memory: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let store = store(&memory, |_| ()).await;
    let shard = [b"abc".to_vec(), encode_index(&[Some(0..3), None], true).unwrap()].concat();
    memory.put(&Path::from("a/0/vertices/c/0"), shard.into()).await.unwrap();
    let cells = store.level(0).await.unwrap().required_cells("vertices").await.unwrap();
    let key = ChunkKey::new(&[0]).unwrap();
    let size = cells.sizes(&[key]).await.remove(0).unwrap_err();
    let part = cells.read_parts(&[(key, single_range(0..1))]).await.remove(0).unwrap_err();
    assert_eq!(size.class(), Class::OutOfBounds);
    assert_eq!((size.class(), size.span()), (part.class(), part.span()));
}

#[tokio::test]
async fn parts_of_a_deleted_shard_are_faults() {
    let memory: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let store = store(&memory, |_| ()).await;
    let cells = store.level(0).await.unwrap().required_cells("vertices").await.unwrap();
    let key = ChunkKey::new(&[0]).unwrap();
    let part = cells.read_parts(&[(key, single_range(1..3))]).await.remove(0).unwrap().unwrap();
    assert_eq!(part, [b"ay".as_slice()]);
    memory.delete(&Path::from("a/0/vertices/c/0")).await.unwrap();
    let error = cells.read_parts(&[(key, single_range(1..3))]).await.remove(0).unwrap_err();
    assert_eq!((error.class(), error.key()), (Class::NotFound, Some("0/vertices/c/0")));
}

#[tokio::test]
async fn frames_in_a_shard_are_read_once_for_each_version() {
    let memory: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let store = store(&memory, |_| ()).await;
    let cells = store.level(0).await.unwrap().required_cells("vertices").await.unwrap();
    let key = ChunkKey::new(&[0]).unwrap();
    let mut read = Vec::new();
    cells.sizes(&[key]).await.remove(0).unwrap(); // the index of the shard
    for _ in 0..2 {
        let before = store.io_stats().bytes_read;
        let part = cells.read_parts(&[(key, single_range(1..3))]).await.remove(0).unwrap().unwrap();
        assert_eq!(part, [b"ay".as_slice()]);
        read.push(store.io_stats().bytes_read - before);
    }
    // Eight bytes of frame, one byte before the part, and the part; then only the part.
    assert_eq!(read, [11, 2]);
    let past = cells.read_parts(&[(key, single_range(5..8))]).await.remove(0).unwrap_err();
    assert_eq!(past.class(), Class::OutOfBounds);
    // Another version of the shard, with a smaller frame size, is not read with the frame of the
    // old one.
    let path = Path::from("a/0/vertices/c/0");
    let mut shard = memory.get(&path).await.unwrap().bytes().await.unwrap().to_vec();
    shard[4] = 2;
    memory.put(&path, shard.into()).await.unwrap();
    let error = cells.read_parts(&[(key, single_range(1..3))]).await.remove(0).unwrap_err();
    assert_eq!(error.class(), Class::FileChanged);
}

/// Returns a list of one range of bytes.
fn single_range(range: Range<u64>) -> Vec<Range<u64>> {
    std::iter::once(range).collect()
}
