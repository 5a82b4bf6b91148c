//! Stores that change while they are open, and the memory limits of reads.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use archives::faults::{Fault, FaultStore};
use archives::{files, in_memory};
use serde_json::{Value, json};
use zvf_format::Class;
use zvf_format::key::ChunkKey;
use zvf_publish::Disk;
use zvf_store::{Caching, OpenOptions, Store};

/// Copies the small store to its own folder, under this name.
pub(crate) fn copy_to(dir: &Path, name: &str) -> PathBuf {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/three.zarrvectors");
    let to = dir.join(name);
    archives::copy(&from, &to).unwrap();
    to
}

async fn first_cell(store: &Store) -> Result<Vec<u8>, Class> {
    let key = "-1.0".parse::<ChunkKey>().unwrap();
    let cells = store.level(0).await.map_err(|error| error.class())?;
    let cells = cells.required_cells("vertices").await.map_err(|error| error.class())?;
    let cell = cells.read(&key, Caching::Once).await.map_err(|error| error.class())?;
    Ok(cell.map(|bytes| bytes.to_vec()).unwrap_or_default())
}

/// Writes a cell of one vertex.
fn change_first_cell(store: &Path, payload: [u8; 8]) {
    let framed = [&[1, 0, 0, 0, 8, 0, 0, 0], &payload[..]].concat();
    fs::write(store.join("0/vertices/c/0/0"), framed).unwrap();
}

#[tokio::test]
async fn a_folder_that_is_replaced_is_noticed_and_never_mixed() {
    let dir = tempfile::tempdir().unwrap();
    let path = copy_to(dir.path(), "store");
    let replacement = copy_to(dir.path(), "other");
    change_first_cell(&replacement, [7; 8]);
    let address = path.to_str().unwrap();
    let store = Store::open(address, OpenOptions::default()).await.unwrap();
    let old = first_cell(&store).await.unwrap();
    assert!(!store.is_replaced() && store.revalidate().await.unwrap().is_none());

    if !Disk::default().exchange(&path, &replacement).unwrap() {
        fs::rename(&path, dir.path().join("aside")).unwrap();
        fs::rename(&replacement, &path).unwrap();
        fs::rename(dir.path().join("aside"), &replacement).unwrap();
    }
    // The documents are byte-identical, but the cells differ.
    assert!(store.is_replaced());
    assert_eq!(first_cell(&store).await.unwrap(), old, "the old one is whole still");
    let revalidated = store.revalidate().await.unwrap().unwrap();
    assert_eq!(first_cell(&revalidated).await.unwrap(), [7; 8]);
    assert!(revalidated.revalidate().await.unwrap().is_none());

    // The replaced store is removed, so a missing file does not mean an absent cell.
    fs::remove_file(replacement.join("0/vertices/c/0/0")).unwrap();
    assert_eq!(first_cell(&store).await, Err(Class::FileChanged));
    let error = store.nodes().objects("").await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "FileChanged, the store was replaced while it was being read: open it again, or run the \
         command again"
    );
    fs::remove_dir_all(&replacement).unwrap();
    let error = store.level(3).await.unwrap_err();
    assert_eq!(error.class(), Class::FileChanged, "{error}");
    let revalidated = store.revalidate().await.unwrap().unwrap();
    assert_eq!(first_cell(&revalidated).await.unwrap(), [7; 8]);
}

#[tokio::test]
async fn a_moved_folder_stays_readable() {
    let dir = tempfile::tempdir().unwrap();
    let path = copy_to(dir.path(), "store");
    let store = Store::open(path.to_str().unwrap(), OpenOptions::default()).await.unwrap();
    fs::rename(&path, dir.path().join("moved")).unwrap();
    assert!(first_cell(&store).await.is_ok());
    assert_eq!(store.level(3).await.unwrap_err().class(), Class::NotFound);
    assert!(!store.nodes().objects("").await.unwrap().is_empty());
}

#[tokio::test]
async fn a_document_that_is_replaced_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let path = copy_to(dir.path(), "store");
    let store = Store::open(path.to_str().unwrap(), OpenOptions::default()).await.unwrap();
    let document = path.join("zarr.json");
    let text = fs::read(&document).unwrap();
    for text in [text.clone(), [&text[..], b"\n"].concat()] {
        let new = path.join(".tmp-1");
        fs::write(&new, text).unwrap();
        fs::rename(&new, &document).unwrap();
        assert!(store.revalidate().await.unwrap().is_some());
    }
}

#[tokio::test]
async fn a_fault_in_the_structure_is_a_fault_of_opening() {
    // The first level is not level 0, so a fifth document describes the vertices.
    let renamed = |path: &str| match path.strip_prefix("0/") {
        Some(suffix) => format!("1/{suffix}"),
        None => path.to_owned(),
    };
    let backend = Arc::new(FaultStore::new());
    for (path, bytes) in files("pc3_basic") {
        let bytes = match path.as_str() {
            "zarr.json" => {
                let mut root: Value = serde_json::from_slice(&bytes).unwrap();
                let text = root.to_string().replace(r#""path":"0""#, r#""path":"1""#);
                root = serde_json::from_str(&text).unwrap();
                root.to_string().into_bytes()
            }
            _ => bytes,
        };
        backend.insert(&renamed(&path), &bytes).await;
    }
    let root = object_store::path::Path::default();
    let open =
        || Store::from_object_store(Arc::clone(&backend) as _, &root, OpenOptions::default());
    assert_eq!(open().await.unwrap().level_numbers(), [1]);
    assert_eq!(backend.requests().last().unwrap().path, "1/vertices/zarr.json");
    backend.forget();
    backend.plan(4, Fault::Status(403));
    assert_eq!(open().await.unwrap_err().class(), Class::PermissionDenied);
}

/// Returns a store with a standalone array of int64 in chunks of this length, each in its stored
/// form.
async fn array(len: u64, chunk: u64, codecs: Value, chunks: Vec<Vec<u8>>, budget: u64) -> Store {
    let mut all = files("pc3_single_vertex");
    let document = json!({
        "zarr_format": 3, "node_type": "array", "shape": [len], "data_type": "int64",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [chunk]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": 5, "codecs": codecs, "attributes": {},
    });
    all.push(("0/made/zarr.json".to_owned(), document.to_string().into()));
    let chunks = chunks.into_iter().enumerate();
    all.extend(chunks.map(|(number, bytes)| (format!("0/made/c/{number}"), bytes)));
    let options = OpenOptions { budget_bytes: budget, cache_bytes: 0, ..OpenOptions::default() };
    let root = object_store::path::Path::default();
    Store::from_object_store(in_memory(&all).await, &root, options).await.unwrap()
}

#[tokio::test]
async fn chunks_of_equal_values_are_read_together() {
    let little = json!({"name": "bytes", "configuration": {"endian": "little"}});
    let zstd = json!({"name": "zstd", "configuration": {"level": 1, "checksum": false}});
    let chunk_of = |value: i64| value.to_le_bytes().repeat(16_384);
    let chunks: Vec<Vec<u8>> =
        [7, 8, 9].map(|value| zstd::bulk::compress(&chunk_of(value), 1).unwrap()).into();
    let store = array(49_152, 16_384, json!([little, zstd]), chunks, 256 << 20).await;
    let array = store.level(0).await.unwrap().dense("made").await.unwrap().unwrap();
    assert_eq!(array.read_all().await.unwrap(), [chunk_of(7), chunk_of(8), chunk_of(9)].concat());
}

#[tokio::test]
async fn a_row_of_a_chunk_beyond_the_budget_takes_only_the_row() {
    const ROWS: u64 = 2 << 20; // 16 MiB in one chunk
    let little = json!([{"name": "bytes", "configuration": {"endian": "little"}}]);
    let numbers: Vec<u8> = (0..ROWS).flat_map(u64::to_le_bytes).collect();
    // The second chunk is not stored.
    let store = array(2 * ROWS, ROWS, little, vec![numbers], 1 << 20).await;
    let array = store.level(0).await.unwrap().dense("made").await.unwrap().unwrap();
    let before = store.io_stats().bytes_read;
    let expected: Vec<u8> = [1_000_000, 3, 5].iter().flat_map(|n: &u64| n.to_le_bytes()).collect();
    assert_eq!(array.take(&[1_000_000, 3, ROWS + 9]).await.unwrap(), expected);
    assert_eq!(array.rows(77..78).await.unwrap(), 77_u64.to_le_bytes()[..]);
    assert!(store.io_stats().bytes_read - before < 1000);
    assert_eq!(array.read_all().await.unwrap_err().class(), Class::LimitExceeded);
}

#[tokio::test]
async fn each_spelling_of_chunk_keys_is_honoured() {
    let original_files = files("pc3_basic");
    let open = async |all: &[(String, Vec<u8>)]| {
        let root = object_store::path::Path::default();
        let all = in_memory(all).await;
        Store::from_object_store(all, &root, OpenOptions::default()).await.unwrap()
    };
    let cells = async |store: &Store| {
        store.level(0).await.unwrap().required_cells("vertices").await.unwrap()
    };
    let original = cells(&open(&original_files).await).await;
    let keys: Vec<ChunkKey> = original.presence().await.unwrap().iter().collect();
    let expected: Vec<_> =
        original.read_many(&keys, Caching::Once).await.into_iter().map(Result::unwrap).collect();
    for (name, separator) in [("default", "/"), ("default", "."), ("v2", "/"), ("v2", ".")] {
        let declared = |bytes: &[u8]| {
            let mut document: Value = serde_json::from_slice(bytes).unwrap();
            document["chunk_key_encoding"] =
                json!({"name": name, "configuration": {"separator": separator}});
            document.to_string().into_bytes()
        };
        let spelled = |suffix: &str| {
            let prefix = if name == "v2" { String::new() } else { format!("c{separator}") };
            format!("0/vertices/{prefix}{}", suffix.replace('/', separator))
        };
        let (mut laid_out, mut declared_only) = (Vec::new(), Vec::new());
        for (path, bytes) in &original_files {
            if path == "0/vertices/zarr.json" {
                laid_out.push((path.clone(), declared(bytes)));
                declared_only.push((path.clone(), declared(bytes)));
                continue;
            }
            let renamed = path.strip_prefix("0/vertices/c/").map(spelled);
            laid_out.push((renamed.unwrap_or_else(|| path.clone()), bytes.clone()));
            declared_only.push((path.clone(), bytes.clone()));
        }
        let store = open(&laid_out).await;
        let read = cells(&store).await;
        let found: Vec<_> =
            read.read_many(&keys, Caching::Once).await.into_iter().map(Result::unwrap).collect();
        assert_eq!(found, expected, "{name} {separator}");
        let names = store.nodes().children("0/vertices").await.unwrap().names;
        assert!(names.is_empty(), "{name} {separator}: chunks are no nodes: {names:?}");
        // Chunks whose keys differ from the declared encoding are missing, as for other readers.
        let mismatched = cells(&open(&declared_only).await).await;
        let answer = mismatched.read(&keys[0], Caching::Once).await;
        let is_default = (name, separator) == ("default", "/");
        assert_eq!(answer.is_ok(), is_default, "{name} {separator}");
    }
}
