//! Reading by branch, tag and snapshot.

use std::collections::BTreeMap;

use bytes::Bytes;
use zvf_format::Class;
use zvf_query::{Query, Reader};
use zvf_store::Store;

use crate::{Repository, note, objects, options, streamed};

/// Returns a document with `mark` as an additional attribute.
fn marked(document: &Bytes, mark: &str) -> Bytes {
    let mut document: serde_json::Value = serde_json::from_slice(document).unwrap();
    document["attributes"]["mark"] = mark.into();
    serde_json::to_vec(&document).unwrap().into()
}

async fn mark(address: &str) -> String {
    let store = Store::open(address, options()).await.unwrap();
    let document: serde_json::Value = serde_json::from_slice(&store.root_json()).unwrap();
    document["attributes"]["mark"].as_str().unwrap_or("none").to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_archived_store_reads_like_its_folder() {
    let mut count = 0;
    for id in archives::ids() {
        let source = objects(&id);
        let repository = Repository::empty();
        if let Err(error) = repository.versions("").create(streamed(&source), note("first")).await {
            // Some archived stores contain files that are not part of a store.
            assert_eq!(error.class(), Class::Unsupported, "{id}: {error}");
            assert!(error.to_string().contains("icechunk cannot hold"), "{id}: {error}");
            continue;
        }
        let store = Store::open(&repository.address(""), options()).await.unwrap();
        let listed: BTreeMap<String, u64> = store
            .nodes()
            .objects("")
            .await
            .unwrap()
            .into_iter()
            .map(|(key, size)| (key.to_string(), size))
            .collect();
        let expected: BTreeMap<String, u64> =
            source.iter().map(|(key, bytes)| (key.clone(), bytes.len() as u64)).collect();
        assert_eq!(listed, expected, "{id}");
        let folder = archives::Unpacked::new(&id);
        let (left, right) = (Reader::new(folder.open().await), Reader::new(store));
        let (left, right) = (left.run(&Query::all()).await, right.run(&Query::all()).await);
        let text = |answer: &Result<_, _>| format!("{answer:?}");
        match (&left, &right) {
            (Ok(left), Ok(right)) => {
                assert_eq!(format!("{:?}", left.batch), format!("{:?}", right.batch), "{id}");
                count += 1;
            }
            (Err(left), Err(right)) => assert_eq!(left.to_string(), right.to_string(), "{id}"),
            _ => panic!("{id}: {} differs from {}", text(&left), text(&right)),
        }
    }
    assert!(count > 30, "{count} stores");
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_branches_tags_and_snapshots_and_keeps_open_handles() {
    let repository = Repository::with_store("ln3_basic").await;
    let first = repository.versions("").latest_version().await.unwrap();
    let native = repository.as_icechunk().await;
    let id = icechunk::format::SnapshotId::try_from(first.as_str()).unwrap();
    native.create_tag("v1", &id).await.unwrap();
    native.create_branch("fix/one", &id).await.unwrap();
    let document = &objects("ln3_basic")["zarr.json"];
    let store = Store::open(&repository.address(""), options()).await.unwrap();
    for (branch, word) in [("main", "a"), ("fix/one", "b")] {
        let changes = [("zarr.json".to_owned(), Some(marked(document, word)))].into();
        let versions = repository.versions(&format!("branch={branch}"));
        versions.commit(&first, changes, note(word)).await.unwrap();
    }
    for (query, expected) in [
        ("", "a"),
        ("branch=main", "a"),
        ("branch=fix/one", "b"),
        ("branch=fix%2Fone", "b"),
        ("tag=v1", "none"),
        (&*format!("snapshot={first}"), "none"),
    ] {
        assert_eq!(mark(&repository.address(query)).await, expected, "{query}");
    }
    assert!(store.revalidate().await.unwrap().is_none(), "the handle keeps its snapshot");
    let answer = Reader::new(store).run(&Query::all()).await.unwrap();
    assert!(!answer.batch.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_may_be_a_group_of_a_repository() {
    let repository = Repository::empty();
    let versions = repository.versions("path=all/brain");
    versions.create(streamed(&objects("ln3_basic")), note("first")).await.unwrap();
    let store = Store::open(&repository.address("path=all/brain"), options()).await.unwrap();
    assert_eq!(store.level_numbers(), [0]);
    assert!(
        store.nodes().objects("").await.unwrap().iter().any(|(key, _)| key.as_str() == "zarr.json")
    );
    let error = Store::open(&repository.address("path=all/heart"), options()).await.unwrap_err();
    assert_eq!((error.class(), error.key()), (Class::NotFound, Some("zarr.json")));
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_versions_are_named_with_the_existing_ones() {
    let repository = Repository::with_store("ln3_basic").await;
    let first = repository.versions("").latest_version().await.unwrap();
    let letter = if first.starts_with('A') { "B" } else { "A" };
    let unknown = format!("snapshot={letter}{}", &first[1..]);
    for (query, class, message) in [
        (
            "branch=x",
            Class::NotFound,
            "expected a branch of the repository, found \"x\"; it has main",
        ),
        ("tag=x", Class::NotFound, "expected a tag of the repository, found \"x\"; it has none"),
        ("snapshot=x", Class::InvalidArgument, "expected the id of a snapshot"),
        (&*unknown, Class::NotFound, "expected a snapshot of the repository, found"),
    ] {
        let error = Store::open(&repository.address(query), options()).await.unwrap_err();
        assert_eq!(error.class(), class, "{error}");
        assert!(error.to_string().contains(message), "{error}");
    }
    let empty = Repository::empty();
    let error = Store::open(&empty.address(""), options()).await.unwrap_err();
    assert_eq!(error.class(), Class::NotFound);
    assert!(error.to_string().contains("expected an icechunk repository, found none"), "{error}");
    assert!(archives::tree(empty.folder.path()).is_empty(), "opening creates no files");
}

#[tokio::test(flavor = "multi_thread")]
async fn single_objects_are_never_written() {
    let repository = Repository::with_store("ln3_basic").await;
    let address = repository.address("");
    let error = Store::backend(&address, &options()).unwrap_err();
    assert_eq!(error.class(), Class::Unsupported);
    assert!(error.to_string().contains("changed by commits only"), "{error}");
    let build = zvf_store::BuildOptions { store: options(), ..Default::default() };
    let error = zvf_store::Build::begin(&address, build).await.unwrap_err();
    assert_eq!(error.class(), Class::Unsupported);
    let without_hook = zvf_store::OpenOptions::default();
    let error = Store::open(&address, without_hook).await.unwrap_err();
    assert!(error.to_string().contains("needs the feature icechunk"), "{error}");
    let error = zvf_store::RangedFile::open(&address, &options()).await.unwrap_err();
    assert_eq!(error.class(), Class::NotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_a_single_array_of_a_repository() {
    let repository = Repository::with_store("ln3_basic").await;
    let folder = archives::Unpacked::new("ln3_basic");
    let name = "0/object_attributes/len";
    let path = folder.path().join(name).to_string_lossy().into_owned();
    let address = repository.address(&format!("path={name}"));
    let expected = zvf_store::LoneArray::open(&path, &options()).await.unwrap();
    let actual = zvf_store::LoneArray::open(&address, &options()).await.unwrap();
    let index = [vec![0]];
    let chunk = expected.chunks(&index).await.unwrap();
    assert!(chunk[0].is_some());
    assert_eq!(chunk, actual.chunks(&index).await.unwrap());
}
