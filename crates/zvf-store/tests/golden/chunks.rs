//! Presence and payloads against what the reference found.

use serde_json::Value;
use sha2::{Digest as _, Sha256};
use zvf_format::key::ChunkKey;
use zvf_store::Caching;

use crate::archive::{Unpacked, ids, inline, json};

fn key(value: &Value) -> ChunkKey {
    let components: Vec<i64> =
        value.as_array().unwrap().iter().map(|n| n.as_i64().unwrap()).collect();
    ChunkKey::new(&components).unwrap()
}

pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn every_level_of_every_store_has_its_chunks() {
    let (mut levels, mut cells) = (0, 0);
    for id in ids() {
        let expected = json(&format!("{id}.expected.json"));
        let unpacked = Unpacked::new(&id);
        let store = inline(unpacked.open());
        assert_eq!(store.version().to_string(), expected["format"].as_str().unwrap(), "{id}");
        for (number, expected) in expected["reference"]["levels"].as_object().unwrap() {
            let told = format!("{id} level {number}");
            let level = inline(store.level(number.parse().unwrap())).unwrap();
            assert_eq!(level.meta().vertex_count, expected["meta"]["vertex_count"], "{told}");
            let vertices = inline(level.required_cells("vertices")).unwrap();
            let table = inline(vertices.presence()).unwrap();
            assert_eq!(table.len(), expected["chunk_count"], "{told}");
            if let Some(chunks) = expected["chunks"].as_array() {
                let chunks: Vec<ChunkKey> = chunks.iter().map(key).collect();
                assert_eq!(table.iter().collect::<Vec<_>>(), chunks, "{told}");
            }
            let item = vertices.attributes()["dtype"].as_str().unwrap();
            let row = zvf_format::metadata::Dtype::parse(item).unwrap().size as usize
                * store.root().axes().len();
            for expected in expected["cells"].as_array().into_iter().flatten() {
                let key = key(&expected["chunk"]);
                let payload = inline(vertices.read(&key, Caching::Keep)).unwrap().unwrap();
                if !expected["buffer_sha256"].is_null() {
                    assert_eq!(sha256(&payload), expected["buffer_sha256"], "{told} {key}");
                }
                if vertices.attributes()["encoding"] != "draco" {
                    assert_eq!(payload.len() / row, expected["rows"], "{told} {key}");
                }
                assert_eq!(inline(vertices.raw(&key)).unwrap().unwrap(), payload);
                cells += 1;
            }
            levels += 1;
        }
    }
    assert!(levels >= 98 && cells > 700, "{levels} levels, {cells} cells");
}
