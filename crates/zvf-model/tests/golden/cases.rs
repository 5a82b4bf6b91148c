//! Test cases: every level of every store, and hashes in the form of the expectations.

use serde_json::Value;
use sha2::{Digest as _, Sha256};
use zvf_format::key::ChunkKey;
use zvf_model::{LevelId, LevelReader};
use zvf_store::Store;

use archives::{Unpacked, ids, inline, json};

/// One level of one store, and its expectations.
pub(crate) struct LevelCase {
    pub(crate) name: String,
    pub(crate) store: Store,
    pub(crate) level: LevelReader,
    pub(crate) expected: Value,
    pub(crate) whole: Value,
}

/// Visits every level of every store.
pub(crate) fn every_level(mut visit: impl FnMut(&LevelCase)) {
    for id in ids() {
        let mut expected = json(&format!("{id}.expected.json"));
        let unpacked = Unpacked::new(&id);
        let store = inline(unpacked.open());
        let whole = expected.clone();
        for (number, expected) in expected["reference"]["levels"].as_object_mut().unwrap() {
            let name = format!("{id} level {number}");
            let level = LevelId(number.parse().unwrap());
            let level = inline(LevelReader::open(&store, level));
            let level = level.unwrap_or_else(|error| panic!("{name}: {error}"));
            let expected = expected.take();
            visit(&LevelCase { name, store: store.clone(), level, expected, whole: whole.clone() });
        }
    }
}

pub(crate) fn key(value: &Value) -> ChunkKey {
    let components: Vec<i64> =
        value.as_array().unwrap().iter().map(|n| n.as_i64().unwrap()).collect();
    ChunkKey::new(&components).unwrap()
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Returns the hash of rows of `stride` bytes, sorted by their bytes.
pub(crate) fn sha256_sorted(bytes: &[u8], stride: usize) -> String {
    let mut rows: Vec<&[u8]> = bytes.chunks_exact(stride).collect();
    rows.sort_unstable();
    sha256(&rows.concat())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Compares rows with an expected count and hashes.
pub(crate) fn same_rows(expected: &Value, bytes: &[u8], stride: usize, context: &str) {
    assert_eq!(bytes.len() / stride, expected["count"], "{context}: count");
    if !expected["sha256"].is_null() {
        assert_eq!(sha256(bytes), expected["sha256"], "{context}: rows in order");
    }
    assert_eq!(sha256_sorted(bytes, stride), expected["sha256_sorted"], "{context}: rows");
}

impl LevelCase {
    /// Returns the chunks of the level, in numeric order.
    pub(crate) fn chunks(&self) -> Vec<ChunkKey> {
        inline(self.level.chunks()).unwrap().iter().collect()
    }

    /// Returns whether the vertices are Draco streams with their own order, which zarr-vectors
    /// cannot read back.
    pub(crate) fn is_draco(&self) -> bool {
        self.name.starts_with("ms3_draco")
    }
}
