//! The expected answers of each store, as checksums.

use std::path::Path;

use serde_json::Value;
use sha2::{Digest as _, Sha256};
use zvf_model::{Bounds, LevelId};
use zvf_query::Reader;

use archives::{ids, inline, json, open, unpack_cached};

/// An open level of one store.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) id: String,
    pub(crate) reader: Reader,
    pub(crate) level: LevelId,
    /// The output of zarr-vectors.
    pub(crate) reference: Value,
}

/// Calls `visit` for every level of every store whose vertices can be read.
pub(crate) fn every_level(mut visit: impl FnMut(&Case)) {
    for id in ids() {
        let expected = json(&format!("{id}.expected.json"));
        let path = unpack_cached(Path::new(env!("CARGO_TARGET_TMPDIR")), &id);
        let reader = Reader::new(inline(open(&path)));
        for (number, reference) in expected["reference"]["levels"].as_object().unwrap() {
            if id.contains("draco") {
                continue;
            }
            let case = Case {
                name: format!("{id} level {number}"),
                id: id.clone(),
                reader: reader.clone(),
                level: LevelId(number.parse().unwrap()),
                reference: reference.clone(),
            };
            visit(&case);
        }
    }
}

/// Returns a number, which may be written as text if JSON cannot represent it.
fn number(value: &Value) -> f64 {
    match value.as_str() {
        Some("inf") => f64::INFINITY,
        Some("-inf") => f64::NEG_INFINITY,
        Some("nan") => f64::NAN,
        _ => value.as_f64().unwrap(),
    }
}

fn corner(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(number).collect()
}

/// Returns the box of an entry; `None` if it is invalid.
pub(crate) fn bounds(entry: &Value) -> Option<Bounds> {
    Bounds::new(&corner(&entry["lo"]), &corner(&entry["hi"])).ok()
}

pub(crate) fn sha(bytes: impl AsRef<[u8]>) -> String {
    Sha256::digest(bytes.as_ref()).iter().map(|byte| format!("{byte:02x}")).collect()
}
