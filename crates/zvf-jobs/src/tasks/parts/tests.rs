//! Parts for an object store in memory.

use std::sync::Arc;

use futures_util::TryStreamExt as _;
use object_store::memory::InMemory;
use object_store::{ObjectMeta, ObjectStore as _, ObjectStoreExt as _};
use tempfile::TempDir;

use super::*;

/// Returns a bucket, and the folder of a result in it.
fn remote() -> (Arc<InMemory>, PartsFolder) {
    let store = Arc::new(InMemory::new());
    let shared = Arc::<InMemory>::clone(&store);
    let objects = Objects::new(shared, &"deep".into(), &OpenOptions::default());
    let (output, staging) = ("out".to_owned(), ".out.zvf-task".to_owned());
    let folder = PartsFolder::Remote { objects, output, staging };
    (store, folder)
}

async fn keys(store: &InMemory) -> Vec<String> {
    let all: Vec<ObjectMeta> = store.list(None).try_collect().await.unwrap();
    let mut keys: Vec<_> = all.into_iter().map(|object| object.location.to_string()).collect();
    keys.sort();
    keys
}

/// Returns more bytes than one request to a store has.
fn long_content() -> Vec<u8> {
    vec![7; (16 << 20) + 1]
}

/// Writes a part of two files, a long and a short one.
async fn write(folder: &PartsFolder, name: &str, scratch: &TempDir) -> (PartRun, WrittenPart) {
    let run = folder.begin(name, Some(scratch.path())).unwrap();
    fs::create_dir_all(run.path().join("in")).unwrap();
    fs::write(run.path().join("in/long [1] #~%"), long_content()).unwrap();
    fs::write(run.path().join("short"), "x").unwrap();
    let written = folder.keep(&run).await.unwrap();
    (run, written)
}

#[tokio::test]
async fn parts_are_uploaded_and_copied_by_the_store() {
    let scratch = tempfile::tempdir().unwrap();
    let (store, folder) = remote();
    folder.check_free().await.unwrap();
    let mut parts = Vec::new();
    for name in ["part-00000.x", "part-00001.x"] {
        let (run, written) = write(&folder, name, &scratch).await;
        folder.end(run, true).await.unwrap();
        let found = folder.find(&written).await.unwrap().unwrap();
        assert_eq!(found, FoundPart::Waiting(written.id.clone()));
        parts.push((found, written));
    }
    assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0, "nothing stays here");
    // A second run of the second part is ignored.
    let (late_run, late_part) = write(&folder, "part-00001.x", &scratch).await;
    folder.end(late_run, false).await.unwrap();
    assert_eq!(folder.find(&late_part).await.unwrap(), None);
    assert!(keys(&store).await.iter().all(|key| key.starts_with("deep/.out.zvf-task/runs/")));
    folder.publish(&parts[..1]).await.unwrap(); // a last step that was killed
    folder.publish(&parts).await.unwrap();
    folder.remove_staging().await.unwrap();
    let expected = ["0", "1"].map(|number| {
        ["in/long [1] #~%", "short"].map(|file| format!("deep/out/part-0000{number}.x/{file}"))
    });
    assert_eq!(keys(&store).await, expected.concat());
    let key = ObjectPath::parse("deep/out/part-00000.x/in/long [1] #~%").unwrap();
    let stored = store.get(&key).await.unwrap();
    assert_eq!(stored.bytes().await.unwrap(), long_content());
    for (_, part) in &parts {
        assert_eq!(folder.find(part).await.unwrap(), Some(FoundPart::Published));
    }
    assert_eq!(folder.check_free().await.unwrap_err().class(), Class::AlreadyExists);
}

#[tokio::test]
async fn foreign_objects_are_not_overwritten() {
    let scratch = tempfile::tempdir().unwrap();
    let (store, folder) = remote();
    let (run, written) = write(&folder, "part-00000.x", &scratch).await;
    folder.end(run, true).await.unwrap();
    let found = folder.find(&written).await.unwrap().unwrap();
    store.put(&"deep/out/part-00000.x/short".into(), "mine".into()).await.unwrap();
    store.put(&"deep/out/other".into(), "mine".into()).await.unwrap();
    let error = folder.publish(&[(found, written.clone())]).await.unwrap_err();
    assert_eq!(error.class(), Class::AlreadyExists);
    // A truncated or missing object is no part.
    let truncated_path =
        ObjectPath::from(format!("deep/.out.zvf-task/{}/part-00000.x/short", written.id));
    store.put(&truncated_path, "".into()).await.unwrap();
    assert_eq!(folder.find(&written).await.unwrap(), None);
    folder.remove_staging().await.unwrap();
    assert_eq!(keys(&store).await, ["deep/out/other", "deep/out/part-00000.x/short"]);
}

#[test]
fn results_have_names() {
    let open = |output: &str| PartsFolder::open(output, &OpenOptions::default());
    for output in ["memory:", "/", ".."] {
        let refused = open(output).unwrap_err();
        assert_eq!(refused.class(), Class::InvalidArgument, "{output}");
    }
    let PartsFolder::Remote { staging, output, .. } = open("memory:///a/b/out").unwrap() else {
        panic!("a folder of this machine");
    };
    assert_eq!((staging.as_str(), output.as_str()), (".out.zvf-task", "out"));
    let PartsFolder::Local { staging, .. } = open("file:///data/out/").unwrap() else {
        panic!("an object store");
    };
    assert_eq!(staging, Path::new("/data/.out.zvf-task"));
}
