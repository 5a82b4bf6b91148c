//! Stores of a few objects, with hand-made records.

use std::path::Path;

use object_store::memory::InMemory;
use object_store::{ObjectStore, ObjectStoreExt as _};
use serde_json::json;

use zvf_error::Result;

use zvf_format::num::to_u64;

use super::*;
use crate::budget::Budget;
use crate::source::Backend;

type Change<'a> = (&'a str, Option<&'a str>, Option<&'a str>);

/// Returns the files of a commit: staged bytes and the record.
fn commit(seq: u64, changes: &[Change<'_>]) -> Vec<(String, Vec<u8>)> {
    let mut staged = [Vec::new(), Vec::new()];
    let mut span = |side: usize, text: Option<&str>| {
        let span = StagedSpan::of(text?.as_bytes(), to_u64(staged[side].len()));
        staged[side].extend(text?.as_bytes());
        Some(span)
    };
    let keys: Vec<RecordKey> = changes
        .iter()
        .map(|(name, old, new)| RecordKey {
            key: key(name),
            new: span(0, *new),
            old: span(1, *old),
        })
        .collect();
    let record = CommitRecord::encode(&json!({"txid": format!("t{seq}"), "keys": keys}), &[]);
    let [new, old] = staged;
    vec![
        (format!("txn/t{seq}/new"), new),
        (format!("txn/t{seq}/old"), old),
        (format!("log/{seq:020}"), record.to_vec()),
    ]
}

fn key(name: &str) -> Key {
    Key::root().join(name).unwrap()
}

async fn read(source: &Origin, get: Get) -> Result<Option<String>, Class> {
    match source.read_many(&[get]).await.pop().unwrap() {
        Ok(found) => Ok(found.map(|found| String::from_utf8(found.bytes.to_vec()).unwrap())),
        Err(error) => Err(error.class()),
    }
}

async fn text(source: &Origin, name: &str) -> Result<Option<String>, Class> {
    read(source, Get::object(key(name))).await
}

fn some(text: &str) -> Result<Option<String>, Class> {
    Ok(Some(text.to_owned()))
}

/// A store of three objects, and a journal beside it.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        folder.put("s", &[("a".into(), b"one".to_vec()), ("b".into(), b"two".to_vec())]);
        folder.put("s", &[("d/e".into(), b"three".to_vec())]);
        folder
    }

    fn put(&self, below: &str, files: &[(String, Vec<u8>)]) {
        archives::write(&self.0.path().join(below), files);
    }

    fn remove(&self, name: &str) {
        std::fs::remove_file(self.0.path().join(name)).unwrap();
    }

    async fn open(&self) -> Result<Origin> {
        let path: &Path = &self.0.path().join("s");
        let options = OpenOptions::default();
        Origin::folder(path, &Budget::new(&options))?.at_head(false, &options).await
    }
}

/// Changes `a`, removes `b`, moves `d/e` to `f/g`.
const CHANGES: [Change<'static>; 4] = [
    ("a", Some("one"), Some("ONE!")),
    ("b", Some("two"), None),
    ("d/e", Some("three"), None),
    ("f/g", None, Some("three")),
];

async fn check_changed(source: &Origin) {
    for (name, _, new) in CHANGES {
        assert_eq!(text(source, name).await, Ok(new.map(str::to_owned)), "{name}");
    }
    let listed = source.list(&Key::root()).await.unwrap();
    assert_eq!(listed, [(key("a"), 4), (key("f/g"), 5)]);
    let children = source.children(&Key::root()).await.unwrap();
    let names: Vec<_> = children.iter().map(|child| (child.name.as_str(), child.is_dir)).collect();
    assert_eq!(names, [("a", false), ("f", true)]);
    assert_eq!(read(source, Get::range(key("a"), 1, 2)).await, some("NE"));
    assert_eq!(read(source, Get::suffix(key("a"), 2)).await, some("E!"));
    assert_eq!(read(source, Get::range(key("a"), 1, 9)).await, Err(Class::Truncated));
}

#[tokio::test]
async fn a_commit_is_read_whole_however_much_of_it_is_applied() {
    let folder = Folder::new();
    folder.put("s.zvf", &commit(1, &CHANGES));
    check_changed(&folder.open().await.unwrap()).await;
    folder.put("s", &[("f/g".into(), b"three".to_vec()), ("a".into(), b"ONE!".to_vec())]);
    let half = folder.open().await.unwrap();
    check_changed(&half).await;
    folder.remove("s/b");
    folder.remove("s/d/e");
    folder.put("s.zvf", &[("done/00000000000000000001".into(), Vec::new())]);
    check_changed(&half).await;
    let applied = folder.open().await.unwrap();
    assert_eq!(text(&applied, "a").await, some("ONE!"));
    assert_eq!(applied.journaled().unwrap().head(), 1);
}

#[tokio::test]
async fn a_handle_stays_at_its_commit() {
    let folder = Folder::new();
    let before = folder.open().await.unwrap();
    assert_eq!(text(&before, "a").await, some("one"));
    assert!(!before.journaled().unwrap().is_behind().await.unwrap());
    folder.put("s.zvf", &commit(1, &CHANGES));
    folder.put("s", &[("a".into(), b"ONE!".to_vec()), ("f/g".into(), b"three".to_vec())]);
    folder.remove("s/b");
    folder.put(
        "s.zvf",
        &commit(2, &[("a", Some("ONE!"), Some("TWO")), ("f/g", Some("three"), None)]),
    );
    folder.put("s", &[("a".into(), b"TWO".to_vec())]);
    for (name, old, _) in CHANGES {
        assert_eq!(text(&before, name).await, Ok(old.map(str::to_owned)), "{name}");
    }
    let children = before.children(&Key::root()).await.unwrap();
    assert_eq!(children.len(), 3, "{children:?}");
    assert!(before.journaled().unwrap().is_behind().await.unwrap());
    assert_eq!(text(&folder.open().await.unwrap(), "a").await, some("TWO"));
    // Data that `gc` removed can no longer be read.
    std::fs::remove_dir_all(folder.0.path().join("s.zvf/txn/t1")).unwrap();
    assert_eq!(text(&before, "a").await, Err(Class::FileChanged));
}

#[tokio::test]
async fn bytes_of_another_program_are_not_mixed_with_a_pending_commit() {
    let folder = Folder::new();
    folder.put("s.zvf", &commit(1, &CHANGES));
    folder.put("s", &[("a".into(), b"???".to_vec())]);
    let source = folder.open().await.unwrap();
    assert_eq!(text(&source, "a").await, Err(Class::Conflict));
    assert_eq!(text(&source, "f/g").await, some("three"));
}

#[tokio::test]
async fn a_damaged_record_is_refused() {
    let folder = Folder::new();
    let mut files = commit(1, &CHANGES);
    files[2].1[9] ^= 1;
    folder.put("s.zvf", &files);
    assert_eq!(folder.open().await.unwrap_err().class(), Class::Checksum);
}

#[tokio::test]
async fn objects_that_a_slow_writer_put_back_are_read_from_the_staged_ones() {
    let memory = Arc::new(InMemory::new());
    let put = async |name: String, bytes: Vec<u8>| {
        memory.put(&name.as_str().into(), bytes.into()).await.unwrap();
    };
    for (name, bytes) in commit(1, &CHANGES) {
        put(format!("x/s.zvf/{name}"), bytes).await;
    }
    put("x/s.zvf/done/00000000000000000001".into(), Vec::new()).await;
    for (name, bytes) in [("a", "ONE!"), ("b", "two"), ("f/g", "three")] {
        put(format!("x/s/{name}"), bytes.into()).await;
    }
    let options = OpenOptions::default();
    let store: Arc<dyn ObjectStore> = memory.clone();
    let remote = || {
        let backend = Backend::new(Arc::clone(&store), "x/s".into());
        Origin::Remote(Remote::new(backend, Budget::new(&options), &options))
    };
    let source = remote().at_head(true, &options).await.unwrap();
    check_changed(&source).await;
    put("x/s/a".into(), b"one".to_vec()).await;
    check_changed(&source).await;
    assert_eq!(text(&remote().at_head(false, &options).await.unwrap(), "a").await, some("one"));
}
