//! Presence and payloads compared with zarr-vectors.

use serde_json::Value;
use sha2::{Digest as _, Sha256};
use zvf_format::key::ChunkKey;
use zvf_store::{Caching, OpenOptions, Store};

use archives::{files, ids, in_memory, json};

fn key(value: &Value) -> ChunkKey {
    let components: Vec<i64> =
        value.as_array().unwrap().iter().map(|n| n.as_i64().unwrap()).collect();
    ChunkKey::new(&components).unwrap()
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test]
async fn every_level_of_every_store_has_its_chunks() {
    let (mut levels, mut cells) = (0, 0);
    for id in ids() {
        let expected = json(&format!("{id}.expected.json"));
        let (memory, root) = (in_memory(&files(&id)).await, "".into());
        let options = OpenOptions::default();
        let store = Store::from_object_store(memory, &root, options).await.unwrap();
        assert_eq!(store.version().to_string(), expected["format"].as_str().unwrap(), "{id}");
        for (number, expected) in expected["reference"]["levels"].as_object().unwrap() {
            let context = format!("{id} level {number}");
            let level = store.level(number.parse().unwrap()).await.unwrap();
            assert_eq!(level.meta().vertex_count, expected["meta"]["vertex_count"], "{context}");
            let vertices = level.required_cells("vertices").await.unwrap();
            let grid = vertices.grid().map(|grid| serde_json::json!(grid.shape()));
            assert_eq!(grid.as_ref(), expected["grid"].get("shape"), "{context}");
            let table = vertices.presence().await.unwrap();
            assert_eq!(table.len(), expected["chunk_count"], "{context}");
            if let Some(chunks) = expected["chunks"].as_array() {
                let chunks: Vec<ChunkKey> = chunks.iter().map(key).collect();
                assert_eq!(table.iter().collect::<Vec<_>>(), chunks, "{context}");
            }
            let item = vertices.attributes()["dtype"].as_str().unwrap();
            let row = item.parse::<zvf_metadata::Dtype>().unwrap().size as usize
                * store.root().axes().len();
            for expected in expected["cells"].as_array().into_iter().flatten() {
                let key = key(&expected["chunk"]);
                let payload = vertices.read(&key, Caching::Keep).await.unwrap().unwrap();
                if !expected["buffer_sha256"].is_null() {
                    assert_eq!(sha256(&payload), expected["buffer_sha256"], "{context} {key}");
                }
                if vertices.attributes()["encoding"] != "draco" {
                    assert_eq!(payload.len() / row, expected["rows"], "{context} {key}");
                }
                assert_eq!(vertices.read_raw(&key).await.unwrap().unwrap(), payload);
                cells += 1;
            }
            levels += 1;
        }
    }
    assert!(levels >= 98 && cells > 700, "{levels} levels, {cells} cells");
}
