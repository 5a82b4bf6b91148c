//! Real files of other programs, and every archived store packed and unpacked.

mod b2nd;
mod contents;
mod converted;
mod pack;
mod tet;
mod written;

use std::path::{Path, PathBuf};

use serde_json::Value;
use zvf_tensor::Memory;

fn testdata(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata").join(path)
}

fn json(path: &str) -> Value {
    serde_json::from_slice(&std::fs::read(testdata(path)).unwrap()).unwrap()
}

fn numbers(value: &Value) -> Vec<u64> {
    value.as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect()
}

fn memory() -> Memory {
    Memory::from_bytes(1 << 30)
}

/// Checks that an argument is refused with this message.
fn check_refused<T>(result: zvf_error::Result<T>, message: &str) {
    assert_eq!(result.err().unwrap().to_string(), format!("InvalidArgument, {message}"));
}
