//! Layouts that no archive has: shards of the older families, flat arrays, unusual encodings of
//! numbers.

use std::sync::Arc;

use object_store::ObjectStoreExt as _;
use object_store::path::Path;
use serde_json::{Value, json};
use zvf_error::Result;
use zvf_format::Class;
use zvf_store::{Caching, Cells, OpenOptions, Store};

use archives::{files, in_memory};

type Files = Vec<(String, Vec<u8>)>;

async fn open(files: &Files) -> Store {
    let (memory, root) = (in_memory(files).await, Path::default());
    Store::from_object_store(memory, &root, OpenOptions::default()).await.unwrap()
}

async fn vertices(files: &Files) -> Cells {
    open(files).await.level(0).await.unwrap().required_cells("vertices").await.unwrap()
}

fn doc(files: &Files, path: &str) -> Value {
    let (_, bytes) = files.iter().find(|(p, _)| p == path).unwrap();
    serde_json::from_slice(bytes).unwrap()
}

fn put(files: &mut Files, path: &str, bytes: impl Into<Vec<u8>>) {
    files.retain(|(p, _)| p != path);
    files.push((path.to_owned(), bytes.into()));
}

/// Returns the document of an array in one chunk, with `codecs` around its items.
fn array(data_type: &Value, shape: &[u64], chunk: &[u64], codecs: &Value) -> Vec<u8> {
    let is_text = data_type == "variable_length_bytes" || data_type["name"] == "fixed_length_utf32";
    let fill = if is_text { json!("") } else { json!(0) };
    json!({
        "zarr_format": 3, "node_type": "array", "shape": shape, "data_type": data_type,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunk}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": fill, "codecs": codecs, "attributes": {},
    })
    .to_string()
    .into()
}

/// Packs all payloads below `group` into two shards, as 0.7 does, and declares that in the root.
fn pack(files: &mut Files, group: &str) {
    let start = format!("{group}/");
    let mut payloads: Vec<(String, Vec<u8>)> = Vec::new();
    for (path, bytes) in files.iter() {
        let Some(relative_path) = path.strip_prefix(&start) else { continue };
        if let Some(key) = relative_path.strip_suffix("/c/0") {
            payloads.push((key.to_owned(), bytes.clone()));
        }
    }
    files.retain(|(path, _)| !path.starts_with(&start) || *path == format!("{group}/zarr.json"));
    payloads.sort();
    let half = payloads.len() / 2;
    for (number, payloads) in [&payloads[..half], &payloads[half..]].into_iter().enumerate() {
        let (mut body, mut index) = (Vec::new(), serde_json::Map::new());
        for (key, payload) in payloads {
            index.insert(key.clone(), json!([body.len(), payload.len()]));
            body.extend(payload);
        }
        let len = body.len() as u64;
        let text = array(&json!("uint8"), &[len], &[len], &json!([{"name": "bytes"}]));
        let mut document: Value = serde_json::from_slice(&text).unwrap();
        document["attributes"] = json!({"shard_index": index});
        let shard = format!("{group}/__shard_{number:06}");
        put(files, &format!("{shard}/zarr.json"), document.to_string());
        put(files, &format!("{shard}/c/0"), body);
    }
    let mut root = doc(files, "zarr.json");
    root["attributes"]["shard_layout"] = json!("octree");
    root["attributes"]["shard_size"] = json!(64);
    put(files, "zarr.json", root.to_string());
}

#[tokio::test]
async fn shards_of_the_older_families_read_like_the_arrays_they_replace() {
    let unpacked = files("v070_pc3");
    let mut packed = unpacked.clone();
    pack(&mut packed, "0/vertices");
    let [unpacked, packed] = [open(&unpacked).await, open(&packed).await];
    for name in ["vertices", "vertex_fragments"] {
        let old = unpacked.level(0).await.unwrap().required_cells(name).await.unwrap();
        let new = packed.level(0).await.unwrap().required_cells(name).await.unwrap();
        let table = old.presence().await.unwrap();
        assert_eq!(table, new.presence().await.unwrap(), "{name}");
        assert!(table.len() > 3);
        for key in table.iter() {
            let [a, b] = [old.read(&key, Caching::Keep).await, new.read(&key, Caching::Keep).await];
            assert_eq!(a.unwrap().unwrap(), b.unwrap().unwrap(), "{name} {key}");
        }
    }
}

#[tokio::test]
async fn a_span_past_its_shard_is_refused() {
    let mut files = files("v070_pc3");
    pack(&mut files, "0/vertices");
    let path = "0/vertices/__shard_000000/zarr.json";
    let mut document = doc(&files, path);
    let index = document["attributes"]["shard_index"].as_object_mut().unwrap();
    let key = index.keys().next().unwrap().clone();
    index[&key] = json!([0, 1_000_000_000]);
    put(&mut files, path, document.to_string());
    let cells = vertices(&files).await;
    let key = key.parse::<zvf_format::key::ChunkKey>().unwrap();
    let error = cells.read(&key, Caching::Keep).await.unwrap_err();
    let text = error.to_string();
    assert!(
        text.starts_with("OutOfBounds in 0/vertices/__shard_000000, end of a span in shard_index"),
        "{text}"
    );
}

#[tokio::test]
async fn a_shard_that_does_not_say_what_it_holds_is_a_fault() {
    let mut files = files("v070_pc3");
    pack(&mut files, "0/vertices");
    let path = "0/vertices/__shard_000000/zarr.json";
    let sound = doc(&files, path);
    for (span, class) in [
        (json!([0, "x", 4]), Class::BadTag),
        (json!([0, 4, 4]), Class::BadTag),
        (json!({"0": 4}), Class::BadTag),
        (Value::Null, Class::NotFound), // there is no document
    ] {
        let mut files = files.clone();
        let mut document = sound.clone();
        for value in document["attributes"]["shard_index"].as_object_mut().unwrap().values_mut() {
            *value = span.clone();
        }
        match class {
            Class::NotFound => files.retain(|(name, _)| name != path),
            _ => put(&mut files, path, document.to_string()),
        }
        let cells = vertices(&files).await;
        assert_eq!(cells.presence().await.unwrap_err().class(), class, "{span}");
    }
}

#[tokio::test]
async fn a_small_array_without_a_chunk_is_all_zero_and_one_without_bytes_is_absent() {
    let mut files = files("v070_pc3");
    let path = files
        .iter()
        .find_map(|(p, _)| p.strip_suffix("/c/0").filter(|p| p.starts_with("0/vertices/")));
    let path = path.unwrap().to_owned();
    files.retain(|(p, _)| *p != format!("{path}/c/0"));
    let len = doc(&files, &format!("{path}/zarr.json"))["shape"][0].as_u64().unwrap();
    put(
        &mut files,
        "0/vertices/77.0.0/zarr.json",
        array(&json!("uint8"), &[0], &[1], &json!([{"name": "bytes"}])),
    );
    put(
        &mut files,
        "0/vertices/78.0.0/zarr.json",
        array(&json!("uint8"), &[1 << 40], &[1 << 40], &json!([{"name": "bytes"}])),
    );
    let cells = vertices(&files).await;
    let read = async |key: &str| {
        cells.read(&key.parse::<zvf_format::key::ChunkKey>().unwrap(), Caching::Keep).await
    };
    let zeros = read(path.rsplit('/').next().unwrap()).await.unwrap().unwrap();
    assert_eq!(zeros, vec![0; len as usize]);
    assert_eq!(read("77.0.0").await.unwrap(), None);
    assert_eq!(read("79.0.0").await.unwrap(), None);
    assert_eq!(
        read("78.0.0").await.unwrap_err().to_string(),
        "LimitExceeded in 0/vertices/78.0.0, bytes of one chunk: expected at most 100663296, \
         found 1099511627776; more than the limit allows: request less, or raise the limit",
    );
}

#[tokio::test]
async fn an_array_that_was_listed_must_be_there() {
    let files = files("v070_pc3");
    let memory = in_memory(&files).await;
    let (backend, root) = (Arc::clone(&memory), Path::default());
    let store = Store::from_object_store(backend, &root, OpenOptions::default()).await.unwrap();
    let cells = store.level(0).await.unwrap().required_cells("vertices").await.unwrap();
    let key = cells.presence().await.unwrap().get(0).unwrap();
    let document = format!("0/vertices/{key}/zarr.json");
    memory.delete(&document.as_str().into()).await.unwrap();
    assert_eq!(
        cells.read(&key, Caching::Keep).await.unwrap_err().to_string(),
        format!("NotFound in 0/vertices/{key}, a listing showed this array, but it does not exist"),
    );
}

/// Development layouts of 0.8 are refused with their name, never read as empty.
#[tokio::test]
async fn development_layouts_are_named() {
    for layout in ["partitioned_v1", "sharded_v1"] {
        let mut files = files("v080_gr3_edges");
        let group = json!({
            "zarr_format": 3, "node_type": "group",
            "attributes": {"zv_array": "cross_chunk_links", "layout": layout},
        });
        put(&mut files, "0/cross_chunk_links/0/zarr.json", group.to_string());
        let level = open(&files).await.level(0).await.unwrap();
        assert_eq!(
            level.cells("cross_chunk_links/0").await.unwrap_err().to_string(),
            format!(
                "Unsupported in 0/cross_chunk_links/0, layout \"{layout}\": this build cannot read it"
            ),
        );
    }
}

/// Numbers of an array of 3 x 2, stored by every combination of the codecs.
#[tokio::test]
async fn numbers_are_decoded_as_little_endian_in_order() {
    let (little, big_endian) = (json!({"endian": "little"}), json!({"endian": "big"}));
    let bytes = |endian: &Value| json!({"name": "bytes", "configuration": endian});
    let transposed = json!({"name": "transpose", "configuration": {"order": [1, 0]}});
    let zstd = json!({"name": "zstd", "configuration": {"level": 0}});
    let crc = json!({"name": "crc32c"});
    let sharded = |location: &str, index: Value| {
        json!([{"name": "sharding_indexed", "configuration": {
            "chunk_shape": [1, 2], "codecs": [bytes(&little)], "index_codecs": index,
            "index_location": location}}])
    };
    let numbers = |list: &[u16]| list.iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<u8>>();
    let swapped = |list: &[u16]| list.iter().flat_map(|n| n.to_be_bytes()).collect::<Vec<u8>>();
    let spans = |list: &[u64]| list.iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<u8>>();
    let none = u64::MAX;
    let end = [numbers(&[1, 2, 5, 6]), spans(&[0, 4, none, none, 4, 4])].concat();
    let mut start = [spans(&[52, 4, none, none, 56, 4])].concat();
    start.extend(crc32c::crc32c(&start).to_le_bytes());
    start.extend(numbers(&[1, 2, 5, 6]));
    let items = [1, 2, 3, 4, 5, 6];
    type Made<'a> = (&'a str, &'a [u64], Value, Vec<(&'a str, Vec<u8>)>, [u16; 6]);
    #[rustfmt::skip]
    let table: [Made<'_>; 8] = [
        ("plain", &[3, 2], json!([bytes(&little)]), vec![("0/0", numbers(&items))], items),
        ("nothing stored", &[3, 2], json!([bytes(&little)]), vec![], [0; 6]),
        ("big", &[3, 2], json!([bytes(&big_endian)]), vec![("0/0", swapped(&items))], items),
        ("transposed", &[3, 2], json!([transposed, bytes(&little)]), vec![("0/0", numbers(&[1, 3, 5, 2, 4, 6]))], items),
        ("compressed", &[4, 2], json!([bytes(&little), zstd, crc]),
         vec![("0/0", { let mut stored = zstd::bulk::compress(&numbers(&[1, 2, 3, 4, 5, 6, 9, 9]), 1).unwrap();
                        stored.extend(crc32c::crc32c(&stored).to_le_bytes()); stored })], items),
        ("cut both ways", &[2, 1], json!([bytes(&little)]),
         vec![("0/0", numbers(&[1, 3])), ("0/1", numbers(&[2, 4])), ("1/1", numbers(&[6, 9]))], [1, 2, 3, 4, 0, 6]),
        ("in a shard", &[3, 2], sharded("end", json!([bytes(&little)])), vec![("0/0", end)], [1, 2, 0, 0, 5, 6]),
        ("index in front", &[3, 2], sharded("start", json!([bytes(&little), {"name": "crc32c"}])), vec![("0/0", start)], [1, 2, 0, 0, 5, 6]),
    ];
    for (name, chunk, codecs, chunks, expected) in table {
        let mut files = files("pc3_single_vertex");
        put(&mut files, "0/made/zarr.json", array(&json!("uint16"), &[3, 2], chunk, &codecs));
        for (path, bytes) in chunks {
            put(&mut files, &format!("0/made/c/{path}"), bytes);
        }
        let loaded =
            open(&files).await.level(0).await.unwrap().dense("made").await.unwrap().unwrap();
        assert_eq!(loaded.rows(1..2).await.unwrap(), numbers(&expected[2..4]), "{name}, one row");
        assert_eq!(loaded.read_all().await.unwrap(), numbers(&expected), "{name}");
        assert_eq!(
            loaded.rows(2..3).await.unwrap(),
            numbers(&expected[4..]),
            "{name}, another row"
        );
        let taken = loaded.take(&[2, 0, 2]).await.unwrap();
        let rows = [&expected[4..], &expected[..2], &expected[4..]].concat();
        assert_eq!(taken, numbers(&rows), "{name}, taken");
    }
    // The flat form of 0.6.
    let mut files = files("v060_gr3");
    let (length, says) = (&[12], json!({"dtype": ">u2", "shape": [3, 2]}));
    let group = json!({"zarr_format": 3, "node_type": "group", "attributes": says});
    put(&mut files, "0/made/zarr.json", group.to_string());
    let flat = array(&json!("uint8"), length, length, &json!([bytes(&little)]));
    put(&mut files, "0/made/data/zarr.json", flat);
    put(&mut files, "0/made/data/c/0", swapped(&items));
    let loaded = open(&files).await.level(0).await.unwrap().dense("made").await.unwrap().unwrap();
    assert_eq!(loaded.rows(1..3).await.unwrap(), numbers(&items[2..]));
}

#[tokio::test]
async fn foreign_arrays_are_refused() {
    let little = json!({"name": "bytes", "configuration": {"endian": "little"}});
    let vlen = json!({"name": "vlen-bytes"});
    let (u16s, vlens) = (json!("uint16"), json!("variable_length_bytes"));
    let huge =
        json!({"name": "fixed_length_utf32", "configuration": {"length_bytes": 1_u64 << 62}});
    #[rustfmt::skip]
    let table: [(&str, Vec<u8>, &str); 10] = [
        ("dense", array(&huge, &[3], &[3], &json!([little])),
         "LimitExceeded in 0/made, bytes of an item: expected at most 100663296, found 4611686018427387904; \
          more than the limit allows: request less, or raise the limit"),
        ("dense", array(&u16s, &[3], &[3], &json!([])),
         "Unsupported in 0/made, codec from items to bytes \"none\": this build cannot read it"),
        ("dense", array(&u16s, &[3], &[3], &json!([{"name": "transpose", "configuration": {"order": [1]}}, little])),
         "BadShape in 0/made, order of transpose: expected each axis once, found 1"),
        ("dense", array(&u16s, &[3], &[3], &json!([vlen])),
         "Unsupported in 0/made, codec of numbers \"vlen-bytes\": this build cannot read it"),
        ("dense", array(&u16s, &[1 << 40], &[1], &json!([little])),
         "LimitExceeded in 0/made, bytes of rows: expected at most 100663296, found 2199023255552; \
          more than the limit allows: request less, or raise the limit"),
        ("dense", array(&u16s, &[8_000_000], &[1], &json!([little])),
         "LimitExceeded in 0/made, chunks of one read: expected at most 1048576, found 18446744073709551615; \
          more than the limit allows: request less, or raise the limit"),
        ("dense", array(&vlens, &[3], &[3], &json!([vlen])),
         "BadTag in 0/made, data_type of a standalone array: expected items of one size, found another data type"),
        ("rows", array(&vlens, &[3, 3], &[3, 3], &json!([vlen])),
         "BadShape in 0/made, axes of an array of rows: expected 1, found 2"),
        ("rows", array(&vlens, &[3], &[3], &json!([little])),
         "Unsupported in 0/made, codec of rows \"bytes\": this build cannot read it"),
        ("cells", array(&vlens, &[3, 3], &[2, 2], &json!([vlen])),
         "BadShape in 0/made, chunk_shape of cells: expected 1 along each axis, found several cells in one chunk"),
    ];
    for (kind, document, message) in table {
        let mut files = files("pc3_single_vertex");
        put(&mut files, "0/made/zarr.json", document);
        let level = open(&files).await.level(0).await.unwrap();
        let read = async || -> Result<()> {
            match kind {
                "dense" => drop(level.dense("made").await?.unwrap().read_all().await?),
                "rows" => drop(level.rows("made").await?.unwrap().range(0..3).await?),
                _ => drop(level.cells("made").await?.unwrap().presence().await?),
            }
            Ok(())
        };
        assert_eq!(read().await.unwrap_err().to_string(), message);
    }
    let mut files = files("pc3_single_vertex");
    put(&mut files, "0/made/zarr.json", array(&u16s, &[3], &[3], &json!([little])));
    put(&mut files, "0/made/c/0", [0; 5]);
    let loaded = open(&files).await.level(0).await.unwrap().dense("made").await.unwrap().unwrap();
    let error = loaded.read_all().await.unwrap_err();
    assert_eq!(error.class(), Class::CountMismatch);
    assert_eq!(error.to_string(), "CountMismatch in 0/made/c/0, bytes: expected 6, found 5");
}
