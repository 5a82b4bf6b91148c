//! Any order of calls gives the same bytes.

use super::*;

/// Returns the cells of one array.
fn cells() -> impl Strategy<Value = std::collections::BTreeMap<(i64, i64), Vec<u8>>> {
    prop::collection::btree_map(
        (-5_i64..5, -5_i64..5),
        prop::collection::vec(any::<u8>(), 0..40),
        0..30,
    )
}

fn chains() -> impl Strategy<Value = CodecPipeline> {
    prop::sample::select(vec![
        CodecPipeline::empty(),
        CodecPipeline::zstd(0),
        CodecPipeline::zstd(3).with_crc32c(),
        CodecPipeline::gzip(5),
        CodecPipeline::empty().with_crc32c(),
    ])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The bytes do not depend on the order and threads of the cells, and the reader finds the
    /// cells.
    #[test]
    fn cells_in_any_order_give_the_same_bytes(
        cells in cells(),
        codecs in chains(),
        shard in prop::option::of((1_u64..4, 1_u64..4)),
        shuffle: u64,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let dir = tempfile::tempdir().unwrap();
            let mut trees = Vec::new();
            for (name, turn) in [("one", 0), ("two", shuffle)] {
                let at = dir.path().join(name);
                let build = begin(&at).await.unwrap();
                small(&build, b"x").await;
                let mut order: Vec<_> = cells.iter().collect();
                order.sort_by_key(|((x, y), _)| ((x * 31 + y * 17) as u64).wrapping_mul(turn | 1));
                let shard = shard.map(|(a, b)| vec![a, b]);
                let plan = CellPlan::new(vec![-5, -5], vec![4, 4]);
                let plan = CellPlan { codecs: codecs.clone(), shard, ..plan };
                let sink = build.cells("0/vertex_attributes/a", plan).unwrap();
                let half = order.len() / 2;
                std::thread::scope(|scope| {
                    for part in [&order[..half], &order[half..]] {
                        let sink = sink.clone();
                        scope.spawn(move || for ((x, y), payload) in part {
                            let key = ChunkKey::new(&[*x, *y]).unwrap();
                            sink.put(&key, Bytes::copy_from_slice(payload)).unwrap();
                        });
                    }
                });
                sink.finish(|_| ()).await.unwrap();
                build.publish(&root()).await.unwrap();
                trees.push(tree(&at));
            }
            assert_eq!(trees[0], trees[1]);

            let address = dir.path().join("one");
            let store = Store::open(address.to_str().unwrap(), OpenOptions::default()).await.unwrap();
            let level = store.level(0).await.unwrap();
            let read = level.required_cells("vertex_attributes/a").await.unwrap();
            let filled = cells.iter().filter(|(_, payload)| !payload.is_empty());
            assert_eq!(read.presence().await.unwrap().len(), filled.clone().count());
            for ((x, y), payload) in filled {
                let key = ChunkKey::new(&[*x, *y]).unwrap();
                let found = read.read(&key, Caching::Once).await.unwrap().unwrap();
                assert_eq!(found, payload);
            }
        });
    }
}
