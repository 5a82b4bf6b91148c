//! Old stores and what they became.

use std::sync::Arc;

use archives::Unpacked;
use object_store::memory::InMemory;
use tempfile::TempDir;
use zvf_migrate::{Migration, Plan};
use zvf_store::{Build, BuildOptions, Codecs, OpenOptions, Store};
use zvf_validate::{Observer, Options, validate_at};

use crate::{answers, parts};

/// The archived stores of old formats.
fn old_ids() -> Vec<String> {
    archives::ids().into_iter().filter(|id| id.starts_with("v0")).collect()
}

/// `old`, migrated into a folder.
async fn migrated(old: &Store, migration: &Migration) -> (TempDir, Store) {
    let dir = archives::scratch();
    let address = dir.path().join("new.zarrvectors");
    let address = address.to_str().unwrap();
    let build = Build::begin(address, BuildOptions { sync: false, ..BuildOptions::default() });
    let plan = Plan::of(old).await.unwrap();
    plan.apply(migration, build.await.unwrap(), |_| ()).await.unwrap();
    let store = Store::open(address, OpenOptions::default()).await.unwrap();
    (dir, store)
}

/// What a validator says of the store in `dir`.
async fn findings(dir: &TempDir) -> Vec<String> {
    let address = dir.path().join("new.zarrvectors");
    let (options, observer) = (Options::default(), Observer::default());
    let address = address.to_str().unwrap();
    let report = validate_at(address, OpenOptions::default(), &options, &observer).await.unwrap();
    report.findings.iter().map(ToString::to_string).collect()
}

async fn all_stores(migration: Migration) {
    let ids = old_ids();
    assert!(ids.len() >= 15, "{ids:?}");
    for id in ids {
        let unpacked = Unpacked::new(&id);
        let old = unpacked.open().await;
        let (dir, new) = migrated(&old, &migration).await;
        assert_eq!(new.version().to_string(), "0.9.2", "{id}");
        assert_eq!(findings(&dir).await, Vec::<String>::new(), "{id}");
        answers::same(&id, &old, &new).await;
        parts::same(&id, &old, &new).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plain() {
    all_stores(Migration::default()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_shards_under_a_codec() {
    let (shard, codecs) = (Some(vec![2]), Codecs::zstd(3));
    all_stores(Migration { name: "named.zarr".to_owned(), shard, codecs }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn from_memory_to_memory() {
    let memory = archives::in_memory(&archives::files("v070_pc3_objects_pyramid")).await;
    let old = Store::from_object_store(memory, &"".into(), OpenOptions::default()).await.unwrap();
    let to: Arc<InMemory> = Arc::default();
    let options = BuildOptions::default();
    let build = Build::in_object_store(to.clone(), "a/b", options).await.unwrap();
    let mut heard = 0;
    let plan = Plan::of(&old).await.unwrap();
    let done = plan.apply(&Migration::default(), build, |done| heard = done.cells).await.unwrap();
    assert_eq!((done.levels, done.objects, done.cells), (3, 60, heard));
    let new = Store::from_object_store(to, &"a/b".into(), OpenOptions::default()).await.unwrap();
    answers::same("memory", &old, &new).await;
}

#[tokio::test]
async fn what_is_not_of_the_format_comes_along() {
    let mut files = archives::files("v060_sl3_pyramid");
    let group = br#"{"zarr_format": 3, "node_type": "group", "attributes": {"mine": [1, 2]}}"#;
    files.push(("notes/zarr.json".to_owned(), group.to_vec()));
    files.push(("notes/text".to_owned(), b"as it is".to_vec()));
    files.push(("0/mine/zarr.json".to_owned(), group.to_vec()));
    files.push(("headers/trk/zarr.json".to_owned(), group.to_vec()));
    let unpacked = Unpacked::of(&files);
    let old = unpacked.open().await;
    let (dir, new) = migrated(&old, &Migration::default()).await;
    for path in ["notes", "0/mine", "headers/trk"] {
        let doc = new.group(path).await.unwrap().unwrap();
        assert_eq!(doc.attributes["mine"][1], 2, "{path}");
    }
    let text = std::fs::read(dir.path().join("new.zarrvectors/notes/text")).unwrap();
    assert_eq!(text, b"as it is");
    let plan = Plan::of(&old).await.unwrap();
    let said: Vec<_> = plan.changes().map(|change| (change.path, change.after)).collect();
    assert_eq!(said[0], ("", "0.9.2"));
    for change in [
        ("0/links/0", "bridges that follow from the manifests"),
        ("0/links/+1", "records by offsets"),
        ("0/mine", "the same"),
        ("1/object_attributes/mean", "values, with a fill value for the others"),
        ("headers/trk", "the same"),
    ] {
        assert!(said.contains(&change), "{change:?} in {said:?}");
    }
}

#[tokio::test]
async fn a_new_store_is_refused() {
    let unpacked = Unpacked::new("pc3_basic");
    let error = Plan::of(&unpacked.open().await).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "Unsupported, version: expected one before 0.9: zvf shard and zvf recompress write others \
         anew, found \"0.9.2\""
    );
}
