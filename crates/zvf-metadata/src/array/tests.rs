//! Array documents of writers, and one row per check.

use std::vec;

use serde_json::json;

use super::*;
use crate::tests::fault;

fn valid_document() -> Value {
    json!({
        "shape": [4, 6], "data_type": "float32",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2, 3]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": "NaN", "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
        "attributes": {}, "zarr_format": 3, "node_type": "array", "storage_transformers": [],
    })
}

fn read(value: &Value) -> Result<ArrayDoc, MetadataError> {
    ArrayDoc::parse(print(value).as_bytes())
}

#[test]
fn sizes_are_counted_and_never_trusted() {
    let array = read(&valid_document()).unwrap();
    assert_eq!((array.rank(), array.items()), (2, Some(24)));
    assert_eq!((array.chunk_bytes(), array.inner_chunk_shape()), (Some(24), &[2, 3][..]));
    for (shape, items) in [
        (json!([1_u64 << 40, 1_u64 << 40]), None),
        (json!([u64::MAX, 1]), Some(u64::MAX)),
        (json!([u64::MAX, 0]), Some(0)),
        (json!([1e18, 2.0]), Some(2_000_000_000_000_000_000)),
    ] {
        let mut value = valid_document();
        value["shape"] = shape.clone();
        value["chunk_grid"]["configuration"]["chunk_shape"] = json!([1_u64 << 62, 1]);
        let array = read(&value).unwrap();
        assert_eq!((array.items(), array.chunk_bytes()), (items, None), "{shape}");
    }
    let none = json!({"shape": [], "data_type": "bytes", "fill_value": "", "codecs": [],
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": []}},
        "zarr_format": 3, "node_type": "array"});
    let array = read(&none).unwrap();
    assert_eq!((array.rank(), array.items(), array.chunk_bytes()), (0, Some(1), None));
}

#[test]
fn key_encodings_are_distinguished() {
    for (encoding, expected) in [
        (json!({"name": "default"}), ChunkKeyEncoding::Default),
        (json!("default"), ChunkKeyEncoding::Default),
        (
            json!({"name": "default", "configuration": {"separator": "."}}),
            ChunkKeyEncoding::DefaultDots,
        ),
        (json!({"name": "v2"}), ChunkKeyEncoding::V2Dots),
        (json!({"name": "v2", "configuration": {"separator": "/"}}), ChunkKeyEncoding::V2Slashes),
    ] {
        let mut value = valid_document();
        value["chunk_key_encoding"] = encoding;
        let array = read(&value).unwrap();
        assert_eq!(array.chunk_key_encoding, expected);
        assert_eq!(array.chunk_key_encoding.is_usual(), expected == ChunkKeyEncoding::Default);
        assert_eq!(ArrayDoc::parse(array.print().as_bytes()).unwrap(), array);
    }
}

#[test]
fn shards_have_inner_chunks() {
    let mut value = valid_document();
    value["codecs"] = json!([{"name": "sharding_indexed", "configuration": {"chunk_shape": [1, 3],
        "codecs": [], "index_codecs": []}}]);
    let array = read(&value).unwrap();
    assert_eq!(array.inner_chunk_shape(), [1, 3]);
    // Shards behind another codec cannot be read in parts.
    value["codecs"].as_array_mut().unwrap().push(json!({"name": "zstd"}));
    assert!(read(&value).unwrap().sharding().is_none());
}

#[test]
fn each_check_has_its_message() {
    let shards = |shape: Value| {
        json!([{"name": "sharding_indexed", "configuration": {"chunk_shape": shape, "codecs": [],
            "index_codecs": []}}])
    };
    for (place, replacement, message) in [
        ("/zarr_format", json!(2), "UnsupportedVersion, zarr_format: 3, found 2"),
        ("/node_type", json!("group"), "BadTag, node_type: array, found \"group\""),
        ("/shape/0", json!(-1), "Negative, shape[0]: at least 0, found -1"),
        ("/shape", json!(vec![1; 33]), "LimitExceeded, shape: at most 32, found 33"),
        (
            "/chunk_grid/name",
            json!("rectilinear"),
            "Unsupported, chunk_grid: a regular grid, found \"rectilinear\"",
        ),
        (
            "/chunk_grid/configuration/chunk_shape",
            json!([1]),
            "BadShape, chunk_grid.configuration.chunk_shape: 2, found 1",
        ),
        (
            "/chunk_grid/configuration/chunk_shape/1",
            json!(0),
            "BadShape, chunk_grid.configuration.chunk_shape[1]: at least 1, found 0",
        ),
        (
            "/chunk_key_encoding/name",
            json!("fancy"),
            "Unsupported, chunk_key_encoding: default or v2, with / or ., found \"fancy\"",
        ),
        ("/storage_transformers", json!([{}]), "Unsupported, storage_transformers: 0, found 1"),
        (
            "/fill_value",
            json!(""),
            "BadTag, fill_value: a number, NaN, Infinity or the bits of one, found \"\"",
        ),
        ("/codecs", json!({}), "BadTag, codecs: a list, found an object"),
        ("/attributes", json!(1), "BadTag, attributes: an object, found 1"),
        (
            "/codecs",
            shards(json!([1])),
            "BadShape, codecs[0].configuration.chunk_shape: 2, found 1",
        ),
        (
            "/codecs",
            shards(json!([1, 2])),
            "BadShape, codecs[0].configuration.chunk_shape[1]: a divisor of the shard, found 2",
        ),
    ] {
        let mut value = valid_document();
        *value.pointer_mut(place).unwrap() = replacement;
        assert_eq!(fault(&read(&value).unwrap_err()), message);
    }
    for key in
        ["zarr_format", "node_type", "shape", "data_type", "chunk_grid", "fill_value", "codecs"]
    {
        let mut value = valid_document();
        value.as_object_mut().unwrap().remove(key);
        let message = std::format!("BadTag, {key}: a value, found nothing");
        assert_eq!(fault(&read(&value).unwrap_err()), message);
    }
}
