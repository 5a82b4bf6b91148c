//! The size of shards.

use super::*;

#[tokio::test]
async fn shards_are_held_within_the_budget() {
    let dir = tempfile::tempdir().unwrap();
    let store = OpenOptions { budget_bytes: 4096, cache_bytes: 0, ..OpenOptions::default() };
    let options = BuildOptions { store, ..options() };
    let build = Build::begin(dir.path().join("a").to_str().unwrap(), options).await.unwrap();
    let plan = CellPlan { shard: Some(vec![4]), ..CellPlan::new(vec![0], vec![99]) };
    let cells = build.cells("0/x", plan).unwrap();
    let put = |i: i64| cells.put(&ChunkKey::new(&[i]).unwrap(), vec![7; 992].into());
    for i in [0, 1, 2, 3] {
        put(i).unwrap();
    }
    assert_eq!(build.held_bytes(), 4000);
    assert_eq!(put(4).unwrap_err().class(), Class::LimitExceeded);
    cells.close_shard(&key("2")).unwrap();
    assert_eq!(build.held_bytes(), 0);
    put(4).unwrap();
    assert_eq!(put(1).unwrap_err().class(), Class::Duplicate);
}

#[tokio::test]
async fn the_largest_shard_is_read_with_the_usual_memory() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().join("a");
    let build = begin(&at).await.unwrap();
    let plan =
        CellPlan { shard: Some(vec![1 << 10; 2]), ..CellPlan::new(vec![0, 0], vec![2047, 9]) };
    let cells = build.cells("0/vertices", plan).unwrap();
    let payloads = [("0.0", b"first"), ("1023.9", b"other"), ("1024.0", b"third")];
    for (at, payload) in payloads {
        cells.put(&key(at), payload.as_slice().into()).unwrap();
    }
    cells.finish(|_| ()).await.unwrap();
    let too_large =
        CellPlan { shard: Some(vec![1 << 10, 1025]), ..CellPlan::new(vec![0; 2], vec![9; 2]) };
    check_refused(
        build.cells("0/x", too_large),
        "InvalidArgument in 0/x, shards of 1024 x 1025 cells: expected at most 1048576 cells in one, \
         found 1049600: readers hold the index of all cells of a shard; 1024 x 513 would do",
    );
    level(&build, 3).await;
    build.publish(&root()).await.unwrap();

    let store = Store::open(at.to_str().unwrap(), OpenOptions::default()).await.unwrap();
    let cells = store.level(0).await.unwrap().required_cells("vertices").await.unwrap();
    let keys = payloads.map(|(at, _)| key(at));
    for (found, (_, payload)) in
        cells.read_many(&keys, Caching::Keep).await.into_iter().zip(payloads)
    {
        assert_eq!(found.unwrap().unwrap(), payload.as_slice());
    }
}

/// A store with shards as older versions of zvf wrote them.
#[tokio::test]
async fn larger_shards_are_read_and_not_written_again() {
    let memory: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let begin =
        |prefix: &'static str| Build::in_object_store(Arc::clone(&memory), prefix, options());
    let build = begin("old").await.unwrap();
    small(&build, b"abc").await;
    let mut doc =
        ArrayDoc::new(vec![4096, 512], vec![4096, 512], DataType::variable_length_bytes());
    doc.codecs = vec![CodecSpec::sharding(vec![1, 1], vec![CodecSpec::vlen_bytes()])];
    doc.attributes.insert("nonempty_chunks".to_owned(), json!(["7.0"]));
    let array = build.verbatim_array("0/vertex_attributes/x", doc.print().into()).unwrap();
    array.put_rows(&[7, 0], &[b"old".as_slice().into()]).unwrap();
    array.finish().unwrap();
    build.publish(&root()).await.unwrap();

    let store =
        Store::from_object_store(Arc::clone(&memory), &"old".into(), OpenOptions::default())
            .await
            .unwrap();
    let level = store.level(0).await.unwrap();
    let cells = level.required_cells("vertex_attributes/x").await.unwrap();
    assert_eq!(cells.read(&key("7.0"), Caching::Once).await.unwrap().unwrap(), b"old".as_slice());
    let keep = Rearrangement { codecs: Some(CodecPipeline::zstd(1)), ..Rearrangement::default() };
    check_refused(
        keep.apply(&store, begin("kept").await.unwrap(), |_| ()).await,
        "InvalidArgument in 0/vertex_attributes/x, shards of 4096 x 512 cells: expected at most 1048576 cells in one, found 2097152: \
         readers hold the index of all cells of a shard; 2048 x 512 would do in zvf rewrite --shard, which writes the \
         store with smaller ones",
    );
    let smaller = Rearrangement { shards: Arrange::Shards(vec![8]), codecs: None };
    smaller.apply(&store, begin("new").await.unwrap(), |_| ()).await.unwrap();
    let store =
        Store::from_object_store(memory, &"new".into(), OpenOptions::default()).await.unwrap();
    let level = store.level(0).await.unwrap();
    let cells = level.required_cells("vertex_attributes/x").await.unwrap();
    assert_eq!(cells.read(&key("7.0"), Caching::Once).await.unwrap().unwrap(), b"old".as_slice());
}
