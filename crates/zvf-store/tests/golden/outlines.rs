//! Arrays of many chunks: opening reads no presence list, and a handle keeps the list of its
//! version.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use zvf_error::{Error, Result};
use zvf_format::Class;
use zvf_format::key::ChunkKey;
use zvf_metadata::{ArrayDoc, Node};
use zvf_store::{Caching, OpenOptions, Store};

use super::snapshot::copy_to;

const ARRAYS: [&str; 2] = ["vertices", "vertex_fragments"];
/// The number of chunks along an axis.
const SIDE: i64 = 200;

/// Returns the document of an array of the small store, with so many chunks that the list is nearly
/// all of it.
fn long_document(store: &Path, array: &str) -> String {
    let text = fs::read(document(store, array)).unwrap();
    let mut doc = ArrayDoc::parse(&text).unwrap();
    doc.shape = vec![SIDE.unsigned_abs(); 2];
    let key = |at: i64| format!("{}.{}", at / SIDE - 1, at % SIDE);
    doc.nonempty_chunks = Some((0..SIDE * SIDE).map(key).collect());
    let text = doc.print();
    assert!(text.len() > 256 << 10);
    text
}

fn document(store: &Path, array: &str) -> PathBuf {
    store.join("0").join(array).join("zarr.json")
}

/// Creates the small store with documents that declare many chunks.
fn long_store(dir: &Path) -> PathBuf {
    let store = copy_to(dir, "long");
    for array in ARRAYS {
        fs::write(document(&store, array), long_document(&store, array)).unwrap();
    }
    store
}

async fn open(path: &Path) -> Result<Store> {
    Store::open(path.to_str().unwrap(), OpenOptions::default()).await
}

/// Replaces a document with another file of the same name.
fn replace(document: &Path, text: &str) {
    let new = document.with_file_name(".tmp-1");
    fs::write(&new, text).unwrap();
    fs::rename(&new, document).unwrap();
}

#[tokio::test]
async fn revalidation_reads_no_unused_list() {
    let dir = tempfile::tempdir().unwrap();
    let path = long_store(dir.path());
    let store = open(&path).await.unwrap();
    store.level(0).await.unwrap().required_cells("vertices").await.unwrap();
    assert!(store.revalidate().await.unwrap().is_none());
    assert!(store.io_stats().bytes_read < 80 << 10, "{:?}", store.io_stats());
    // A rewritten file counts as changed, even with the same contents.
    let text = long_document(&path, "vertices");
    fs::write(document(&path, "vertices"), &text).unwrap();
    assert!(store.revalidate().await.is_ok_and(|revalidated| revalidated.is_some()));
    let changed = text.replacen("-1.0", "-2.0", 1);
    let reopened = open(&path).await.unwrap();
    reopened.level(0).await.unwrap().required_cells("vertices").await.unwrap();
    replace(&document(&path, "vertices"), &changed);
    assert!(reopened.revalidate().await.unwrap().is_some());
}

#[tokio::test]
async fn opening_reads_no_presence_list_and_equal_ones_share_a_table() {
    let dir = tempfile::tempdir().unwrap();
    let path = long_store(dir.path());
    let store = open(&path).await.unwrap();
    let level = store.level(0).await.unwrap();
    let mut tables = Vec::new();
    for array in ARRAYS {
        let cells = level.required_cells(array).await.unwrap();
        assert_eq!(cells.grid().map(|grid| grid.shape()), Some(&[SIDE.unsigned_abs(); 2][..]));
        assert!(!cells.attributes().contains_key("nonempty_chunks"));
        tables.push(cells);
    }
    assert_eq!(tables[0].attributes()["dtype"], "float32");
    let opened = store.io_stats();
    assert!(opened.bytes_read < 80 << 10, "{opened:?}");
    // The list is read to find an absent cell without a request for it.
    let outside = "500.0".parse::<ChunkKey>().unwrap();
    assert_eq!(tables[0].read(&outside, Caching::Once).await.unwrap(), None);
    let vertices = tables[0].presence().await.unwrap();
    assert_eq!(vertices.len() as i64, SIDE * SIDE);
    assert!(Arc::ptr_eq(&vertices, &tables[1].presence().await.unwrap()));
    let read = store.io_stats();
    assert!(read.bytes_read > 512 << 10, "{read:?}");
    // Each list is read once.
    tables[0].presence().await.unwrap();
    let Some(Node::Array(doc)) =
        store.nodes().node("0/vertices").await.unwrap().as_deref().cloned()
    else {
        panic!("an array")
    };
    assert_eq!(doc.nonempty_chunks.unwrap().len() as i64, SIDE * SIDE);
    assert_eq!(store.io_stats(), read);
    let first = tables[0].read(&"-1.0".parse::<ChunkKey>().unwrap(), Caching::Once).await.unwrap();
    assert!(first.is_some());
    let listed = "7.7".parse::<ChunkKey>().unwrap();
    let error = tables[0].read(&listed, Caching::Once).await.unwrap_err();
    assert_eq!(error.class(), Class::NotFound, "{error}");
}

#[tokio::test]
async fn a_handle_keeps_its_first_list() {
    let dir = tempfile::tempdir().unwrap();
    let path = long_store(dir.path());
    let document = document(&path, "vertices");
    let text = fs::read_to_string(&document).unwrap();
    for removed in [false, true] {
        replace(&document, &text);
        let store = open(&path).await.unwrap();
        assert!(store.revalidate().await.unwrap().is_none(), "nothing changed");
        let store = open(&path).await.unwrap();
        replace(&document, &text.replacen("\"100.100\", ", "", 1));
        if removed {
            fs::remove_file(&document).unwrap();
        }
        let cells = store.level(0).await.unwrap().required_cells("vertices").await.unwrap();
        let key = "100.100".parse::<ChunkKey>().unwrap();
        assert!(cells.presence().await.unwrap().find(&key).is_some(), "{removed}");
        let revalidated = store.revalidate().await.unwrap().unwrap();
        let cells = revalidated.nodes().cells("0/vertices").await.unwrap();
        assert_eq!(cells.is_none(), removed);
        if let Some(cells) = cells {
            assert_eq!(cells.presence().await.unwrap().find(&key), None);
        }
    }
    // A write into the same file is detected.
    replace(&document, &text);
    let store = open(&path).await.unwrap();
    fs::write(&document, text.replacen("\"100.100\", ", "", 1)).unwrap();
    let cells = store.level(0).await.unwrap().required_cells("vertices").await.unwrap();
    let error = cells.presence().await.unwrap_err();
    assert_eq!(error.class(), Class::FileChanged, "{error}");
    assert!(error.to_string().contains("0/vertices/zarr.json"), "{error}");
    assert!(store.revalidate().await.unwrap().is_some());
}

#[tokio::test]
async fn documents_broken_in_the_middle_are_refused_with_the_same_message() {
    let dir = tempfile::tempdir().unwrap();
    let path = long_store(dir.path());
    let document = document(&path, "vertices");
    let text = fs::read_to_string(&document).unwrap();
    let key = "\"100.100\"";
    for broken in
        ["100", "[1]", "\"a\": 1", "\"100.100", "\"100.100\" \"1.1\"", "]", "\"\\x\"", "\"\u{1}\""]
    {
        replace(&document, &text.replacen(key, broken, 1));
        let full_error = Node::parse(&fs::read(&document).unwrap()).unwrap_err();
        let store = open(&path).await.unwrap();
        let cells = store.level(0).await.unwrap().required_cells("vertices").await.unwrap();
        let error = cells.presence().await.unwrap_err();
        let expected = Error::from(full_error.clone()).class();
        assert_eq!(error.class(), expected, "{broken}: {error}");
        let message = full_error.to_string();
        let (_, suffix) = message.split_once(' ').unwrap();
        let (_, suffix) = suffix.split_once(", ").unwrap();
        assert!(error.to_string().ends_with(suffix), "{broken}: {error}, and {message}");
        // A second read and other methods report the same.
        assert_eq!(
            store.nodes().node("0/vertices").await.unwrap_err().to_string(),
            error.to_string()
        );
        let read = cells.read(&"0.0".parse::<ChunkKey>().unwrap(), Caching::Once).await;
        assert_eq!(read.unwrap_err().to_string(), error.to_string());
    }
    // Keys are still checked later.
    for (broken, class) in [
        ("\"x\"", Class::InvalidKey),
        ("\"1\"", Class::BadShape),
        ("\"1000.1\"", Class::OutOfBounds),
    ] {
        replace(&document, &text.replacen(key, broken, 1));
        let store = open(&path).await.unwrap();
        let cells = store.level(0).await.unwrap().required_cells("vertices").await.unwrap();
        let error = cells.presence().await.unwrap_err();
        assert_eq!(error.class(), class, "{broken}: {error}");
    }
    // The document has the end of a list and the start of another; the outline skips the text
    // between them.
    replace(&document, &text.replacen(&format!("{key}, "), "\"7.7\"], \"hidden\": [", 1));
    let store = open(&path).await.unwrap();
    let cells = store.level(0).await.unwrap().required_cells("vertices").await.unwrap();
    assert_eq!(
        cells.presence().await.unwrap_err().to_string(),
        "BadTag in 0/vertices/zarr.json, nonempty_chunks: expected one list of keys, without anything \
         between them, found other values amid them"
    );
}
