//! Transactions: one commit each, conflicts and history.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Value as Json, json};
use zvf_edit::{CommitOptions, EditError, Editor, Place, Side, Undo};
use zvf_format::Class;
use zvf_query::{Query, Reader};
use zvf_store::Store;

use crate::{Repository, options};

fn place(repository: &Repository, query: &str) -> Place {
    Place::open(&repository.address(query), &options()).unwrap()
}

fn editor(place: &Place) -> Editor {
    Editor::open(place, Path::new("."), CommitOptions::default()).unwrap()
}

fn move_object(id: i64) -> String {
    json!({"op": "vertex.move", "vertices": {"object": id}, "by": [1.5, 0.0, 0.0]}).to_string()
}

fn run(place: &Place, lines: &[String]) -> Result<Json, EditError> {
    let mut editor = Editor::open(place, Path::new("."), CommitOptions::default())?;
    for (n, line) in lines.iter().enumerate() {
        editor.line(n as u64 + 1, line)?;
    }
    editor.finish()?;
    Ok(editor.report(None))
}

async fn answer(address: &str) -> String {
    let store = Store::open(address, options()).await.unwrap();
    format!("{:?}", Reader::new(store).run(&Query::all()).await.unwrap().batch)
}

/// Returns the bytes of all keys except the root document, which records the history.
async fn contents(address: &str) -> BTreeMap<String, String> {
    let versions = Store::versions(address, &options()).unwrap().unwrap();
    let backend = versions.open(&versions.latest_version().await.unwrap()).await.unwrap();
    let objects = zvf_store::Objects::new(backend.store, &backend.prefix, &options());
    let mut contents = BTreeMap::new();
    for (key, _) in objects.list("").await.unwrap() {
        let bytes = objects.read(&key).await.unwrap().unwrap();
        contents.insert(key, format!("{bytes:?}"));
    }
    contents.remove("zarr.json");
    contents
}

#[tokio::test(flavor = "multi_thread")]
async fn edits_equal_those_of_a_folder_and_are_one_commit() {
    for id in [
        "ln3_basic",
        "gr3_links",
        "sk3_trees",
        "ms3_tri",
        "pc3_objects",
        "gr3_pyramid",
        "sl3_streamlines",
    ] {
        let repository = Repository::with_store(id).await;
        let folder = archives::Unpacked::new(id);
        let script = [
            json!({"op": "vertex.move", "vertices": {"all": true}, "by": [17.25, 0.0, 0.0]})
                .to_string(),
            json!({"op": "object.remove", "objects": [0]}).to_string(),
        ];
        let local = run(&Place::from(folder.path()), &script).unwrap();
        let target = place(&repository, "");
        let report = run(&target, &script).unwrap();
        assert_eq!((&local["head"], &report["head"]), (&json!(1), &json!(2)), "{id}");
        for field in ["vertices", "links", "objects", "keys", "chunks"] {
            assert_eq!(local["commits"][0][field], report["commits"][0][field], "{id}: {field}");
        }
        let version = repository.versions("").latest_version().await.unwrap();
        assert_eq!(report["commits"][0]["txid"], json!(version), "{id}");
        let history = repository.versions("").history(&version).await.unwrap();
        assert_eq!(history.len(), 3, "{id}: the repository, the store and one commit");
        let mut files = archives::tree(folder.path());
        files.remove("zarr.json");
        let files: BTreeMap<String, String> = files
            .into_iter()
            .map(|(key, bytes)| (key, format!("{:?}", bytes::Bytes::from(bytes))))
            .collect();
        let actual = contents(&repository.address("")).await;
        let keys: BTreeSet<&String> = files.keys().chain(actual.keys()).collect();
        let differing: Vec<_> =
            keys.into_iter().filter(|key| files.get(*key) != actual.get(*key)).collect();
        // The level records since which commit it is stale, and the repository has one more commit.
        let expected: &[&str] = if id == "gr3_pyramid" { &["1/zarr.json"] } else { &[] };
        assert_eq!(differing, expected, "{id}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_second_transaction_on_one_version_is_a_conflict() {
    let repository = Repository::with_store("ln3_basic").await;
    let target = place(&repository, "");
    let (mut first, mut second) = (editor(&target), editor(&target));
    first.line(1, &move_object(0)).unwrap();
    second.line(1, &move_object(1)).unwrap();
    first.finish().unwrap();
    let committed =
        (answer(&repository.address("")).await, contents(&repository.address("")).await);
    let error = second.finish().unwrap_err();
    assert_eq!(error.class, Class::Conflict, "{error}");
    assert!(error.message.contains("somebody committed meanwhile"), "{error}");
    let current = (answer(&repository.address("")).await, contents(&repository.address("")).await);
    assert_eq!(current, committed, "the second transaction changes nothing");
    assert_eq!(zvf_edit::log(&target, None).unwrap().len(), 2);
    run(&target, &[move_object(1)]).unwrap();
    assert_eq!(zvf_edit::log(&target, None).unwrap().len(), 3, "a retry is committed");
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_writers_lose_no_edits() {
    let repository = Repository::with_store("ln3_basic").await;
    let count = 4;
    let writers = (0..count).map(|id| {
        let target = place(&repository, "");
        tokio::task::spawn_blocking(move || {
            loop {
                match run(&target, &[move_object(id)]) {
                    Ok(_) => return,
                    Err(error) => assert_eq!(error.class, Class::Conflict, "{error}"),
                }
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    let folder = archives::Unpacked::new("ln3_basic");
    for id in 0..count {
        run(&Place::from(folder.path()), &[move_object(id)]).unwrap();
    }
    assert_eq!(zvf_edit::log(place(&repository, ""), None).unwrap().len(), count as usize + 1);
    let expected = Reader::new(folder.open().await).run(&Query::all()).await.unwrap();
    assert_eq!(answer(&repository.address("")).await, format!("{:?}", expected.batch));
}

#[tokio::test(flavor = "multi_thread")]
async fn dropped_transactions_change_nothing_and_readers_keep_their_version() {
    let repository = Repository::with_store("ln3_basic").await;
    let target = place(&repository, "");
    let before = answer(&repository.address("")).await;
    let reader = Reader::new(Store::open(&repository.address(""), options()).await.unwrap());
    let mut dropped = editor(&target);
    dropped.line(1, &move_object(0)).unwrap();
    drop(dropped);
    assert_eq!(answer(&repository.address("")).await, before);
    run(&target, &[move_object(0)]).unwrap();
    assert_ne!(answer(&repository.address("")).await, before);
    let answer = reader.run(&Query::all()).await.unwrap();
    assert_eq!(format!("{:?}", answer.batch), before, "the reader keeps its version");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_undo_diff_and_checkout_are_those_of_the_branch() {
    let repository = Repository::with_store("ln3_basic").await;
    let target = place(&repository, "");
    let first = contents(&repository.address("")).await;
    let version = repository.versions("").latest_version().await.unwrap();
    let options = CommitOptions { message: Some("moved".to_owned()), ..CommitOptions::default() };
    let mut script = Editor::open(&target, Path::new("."), options).unwrap();
    script.line(1, &move_object(0)).unwrap();
    script.finish().unwrap();
    let second = contents(&repository.address("")).await;
    let log = zvf_edit::log(&target, None).unwrap();
    let heads: Vec<_> = log.iter().map(|entry| (&entry["head"], &entry["message"])).collect();
    assert_eq!(heads, [(&json!(2), &json!("moved")), (&json!(1), &json!("first"))]);
    assert_eq!(log[0]["objects"]["changed"], json!([0]));
    assert_eq!(log[1]["txid"], json!(version));
    let commit = zvf_edit::show(&target, 2).unwrap();
    assert_eq!(commit["operations"][0]["op"], "vertex.move");
    assert!(commit["keys"].as_array().is_some_and(|keys| keys.len() > 1), "{commit}");
    let side = |query: &str, head| Side { place: place(&repository, query), head };
    let snapshot = format!("snapshot={version}");
    for (left, right) in
        [(side(&snapshot, None), side("", None)), (side("", Some(1)), side("", Some(2)))]
    {
        let report = zvf_edit::diff(&left, &right).unwrap();
        assert_eq!(report["objects"]["changed"][0]["id"], json!(0));
    }
    let undone = zvf_edit::undo(&target, Undo::Last(1), &CommitOptions::default()).unwrap();
    assert_eq!(undone["head"], json!(3));
    assert_eq!(contents(&repository.address("")).await, first);
    let error = zvf_edit::undo(&target, Undo::To(0), &CommitOptions::default()).unwrap_err();
    assert!(error.message.contains("there was no store yet"), "{error}");
    let out = archives::scratch();
    let copy = out.path().join("copy.zarrvectors");
    zvf_edit::checkout(&target, 2, &copy).unwrap();
    let mut files = archives::tree(&copy);
    files.remove("zarr.json");
    let files: BTreeMap<String, String> = files
        .into_iter()
        .map(|(key, bytes)| (key, format!("{:?}", bytes::Bytes::from(bytes))))
        .collect();
    assert_eq!(files, second);
}

#[tokio::test(flavor = "multi_thread")]
async fn immutable_versions_are_refused_before_any_work() {
    let repository = Repository::with_store("ln3_basic").await;
    let version = repository.versions("").latest_version().await.unwrap();
    let target = place(&repository, &format!("snapshot={version}"));
    let error = run(&target, &[move_object(0)]).unwrap_err();
    assert_eq!(error.class, Class::Unsupported);
    assert!(error.message.contains("never changes; edit a branch"), "{error}");
    let grace = std::time::Duration::ZERO;
    let (vacuum, renumber, dry_run) = (false, false, true);
    let collect = zvf_edit::Collect { grace, keep: 0, vacuum, renumber, dry_run };
    let error = zvf_edit::gc(place(&repository, ""), collect).unwrap_err();
    assert!(error.message.contains("garbage_collect"), "{error}");
}
