//! A folder of Neuroglancer: an `info`, and one object of it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use zvf_convert::read::{Format, Input};

fuzz_target!(|blob: &[u8]| {
    // A folder of its own for each process that searches; its files are overwritten by each input.
    let folder = std::env::temp_dir().join(format!("zvf-fuzz-{}.precomputed", std::process::id()));
    std::fs::create_dir_all(folder.join("by_id")).expect("a folder for temporary files");
    let Some((which, body)) = blob.split_first() else { return };
    let (info, object): (&[u8], &[u8]) = match which % 4 {
        0 => (SKELETONS, body),
        1 => (ANNOTATIONS, body),
        2 => (SHARDED, body),
        _ => (body, b""),
    };
    for (name, bytes) in [("info", info), ("1", object), ("by_id/1", object), ("0.shard", object)] {
        std::fs::write(folder.join(name), bytes).expect("a folder for temporary files");
    }
    zvf_fuzz::read(Input::path(&folder), Format::Precomputed);
});

const SKELETONS: &[u8] =
    br#"{"@type":"neuroglancer_skeletons","transform":[2,0,0,0,0,1,0,0,0,0,1,0],
    "vertex_attributes":[{"id":"radius","data_type":"float32","num_components":1}]}"#;
const SHARDED: &[u8] = br#"{"@type":"neuroglancer_skeletons","vertex_attributes":[],
    "sharding":{"@type":"neuroglancer_uint64_sharded_v1","preshift_bits":0,"hash":"identity",
    "minishard_bits":1,"shard_bits":0,"data_encoding":"gzip"}}"#;
const ANNOTATIONS: &[u8] =
    br#"{"@type":"neuroglancer_annotations_v1","dimensions":{"x":[1e-9,"m"],"y":[1e-9,"m"]},
    "annotation_type":"polyline","properties":[{"id":"a","type":"uint16"}],
    "relationships":[{"id":"r","key":"rel"}],"by_id":{"key":"by_id"},"spatial":[]}"#;
