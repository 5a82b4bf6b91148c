//! Transactions: one commit each, conflicts, history.

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

/// The bytes of all keys but for the root, where marks of history are.
async fn contents(address: &str) -> BTreeMap<String, String> {
    let versions = Store::versions(address, &options()).unwrap().unwrap();
    let backend = versions.open(&versions.latest().await.unwrap()).await.unwrap();
    let objects = zvf_store::Objects::new(backend.store, &backend.prefix, &options());
    let mut all = BTreeMap::new();
    for (key, _) in objects.list("").await.unwrap() {
        let bytes = objects.read(&key).await.unwrap().unwrap();
        all.insert(key, format!("{bytes:?}"));
    }
    all.remove("zarr.json");
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn edits_give_what_they_give_in_a_folder_in_one_commit() {
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
        let one = run(&Place::from(folder.path()), &script).unwrap();
        let own = place(&repository, "");
        let other = run(&own, &script).unwrap();
        assert_eq!((&one["head"], &other["head"]), (&json!(1), &json!(2)), "{id}");
        for part in ["vertices", "links", "objects", "keys", "chunks"] {
            assert_eq!(one["commits"][0][part], other["commits"][0][part], "{id}: {part}");
        }
        let version = repository.versions("").latest().await.unwrap();
        assert_eq!(other["commits"][0]["txid"], json!(version), "{id}");
        let history = repository.versions("").history(&version).await.unwrap();
        assert_eq!(history.len(), 3, "{id}: the repository, the store and one commit");
        let mut files = archives::tree(folder.path());
        files.remove("zarr.json");
        let files: BTreeMap<String, String> = files
            .into_iter()
            .map(|(key, bytes)| (key, format!("{:?}", bytes::Bytes::from(bytes))))
            .collect();
        let own = contents(&repository.address("")).await;
        let keys: BTreeSet<&String> = files.keys().chain(own.keys()).collect();
        let differ: Vec<_> =
            keys.into_iter().filter(|key| files.get(*key) != own.get(*key)).collect();
        // It says since which commit it is stale, and the repository began with one more.
        let expected: &[&str] = if id == "gr3_pyramid" { &["1/zarr.json"] } else { &[] };
        assert_eq!(differ, expected, "{id}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_transactions_on_one_version_the_second_is_a_conflict() {
    let repository = Repository::with_store("ln3_basic").await;
    let own = place(&repository, "");
    let (mut one, mut other) = (editor(&own), editor(&own));
    one.line(1, &move_object(0)).unwrap();
    other.line(1, &move_object(1)).unwrap();
    one.finish().unwrap();
    let after_one =
        (answer(&repository.address("")).await, contents(&repository.address("")).await);
    let error = other.finish().unwrap_err();
    assert_eq!(error.class, Class::Conflict, "{error}");
    assert!(error.message.contains("somebody committed meanwhile"), "{error}");
    let now = (answer(&repository.address("")).await, contents(&repository.address("")).await);
    assert_eq!(now, after_one, "nothing of it is visible");
    assert_eq!(zvf_edit::log(&own, None).unwrap().len(), 2);
    run(&own, &[move_object(1)]).unwrap();
    assert_eq!(zvf_edit::log(&own, None).unwrap().len(), 3, "done again it takes");
}

#[tokio::test(flavor = "multi_thread")]
async fn writers_at_the_same_time_lose_nothing() {
    let repository = Repository::with_store("ln3_basic").await;
    let count = 4;
    let writers = (0..count).map(|id| {
        let own = place(&repository, "");
        tokio::task::spawn_blocking(move || {
            loop {
                match run(&own, &[move_object(id)]) {
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
    let plain = Reader::new(folder.open().await).run(&Query::all()).await.unwrap();
    assert_eq!(answer(&repository.address("")).await, format!("{:?}", plain.batch));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_dropped_leaves_nothing_and_readers_keep_their_version() {
    let repository = Repository::with_store("ln3_basic").await;
    let own = place(&repository, "");
    let before = answer(&repository.address("")).await;
    let reader = Reader::new(Store::open(&repository.address(""), options()).await.unwrap());
    let mut dropped = editor(&own);
    dropped.line(1, &move_object(0)).unwrap();
    drop(dropped);
    assert_eq!(answer(&repository.address("")).await, before);
    run(&own, &[move_object(0)]).unwrap();
    assert_ne!(answer(&repository.address("")).await, before);
    let kept = reader.run(&Query::all()).await.unwrap();
    assert_eq!(format!("{:?}", kept.batch), before, "opened before the commit");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_undo_diff_and_checkout_are_those_of_the_branch() {
    let repository = Repository::with_store("ln3_basic").await;
    let own = place(&repository, "");
    let first = contents(&repository.address("")).await;
    let version = repository.versions("").latest().await.unwrap();
    let options = CommitOptions { message: Some("moved".to_owned()), ..CommitOptions::default() };
    let mut script = Editor::open(&own, Path::new("."), options).unwrap();
    script.line(1, &move_object(0)).unwrap();
    script.finish().unwrap();
    let second = contents(&repository.address("")).await;
    let log = zvf_edit::log(&own, None).unwrap();
    let heads: Vec<_> = log.iter().map(|entry| (&entry["head"], &entry["message"])).collect();
    assert_eq!(heads, [(&json!(2), &json!("moved")), (&json!(1), &json!("first"))]);
    assert_eq!(log[0]["objects"]["changed"], json!([0]));
    assert_eq!(log[1]["txid"], json!(version));
    let shown = zvf_edit::show(&own, 2).unwrap();
    assert_eq!(shown["operations"][0]["op"], "vertex.move");
    assert!(shown["keys"].as_array().is_some_and(|keys| keys.len() > 1), "{shown}");
    let side = |query: &str, head| Side { place: place(&repository, query), head };
    let old = format!("snapshot={version}");
    for (one, other) in [(side(&old, None), side("", None)), (side("", Some(1)), side("", Some(2)))]
    {
        let report = zvf_edit::diff(&one, &other).unwrap();
        assert_eq!(report["objects"]["changed"][0]["id"], json!(0));
    }
    let undone = zvf_edit::undo(&own, Undo::Last(1), &CommitOptions::default()).unwrap();
    assert_eq!(undone["head"], json!(3));
    assert_eq!(contents(&repository.address("")).await, first);
    let error = zvf_edit::undo(&own, Undo::To(0), &CommitOptions::default()).unwrap_err();
    assert!(error.message.contains("there was no store yet"), "{error}");
    let out = archives::scratch();
    let copy = out.path().join("copy.zarrvectors");
    zvf_edit::checkout(&own, 2, &copy).unwrap();
    let mut files = archives::tree(&copy);
    files.remove("zarr.json");
    let files: BTreeMap<String, String> = files
        .into_iter()
        .map(|(key, bytes)| (key, format!("{:?}", bytes::Bytes::from(bytes))))
        .collect();
    assert_eq!(files, second);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_that_never_changes_is_refused_before_any_work() {
    let repository = Repository::with_store("ln3_basic").await;
    let version = repository.versions("").latest().await.unwrap();
    let own = place(&repository, &format!("snapshot={version}"));
    let error = run(&own, &[move_object(0)]).unwrap_err();
    assert_eq!(error.class, Class::Unsupported);
    assert!(error.message.contains("never changes; edit a branch"), "{error}");
    let grace = std::time::Duration::ZERO;
    let (vacuum, renumber, dry_run) = (false, false, true);
    let what = zvf_edit::Collect { grace, keep: 0, vacuum, renumber, dry_run };
    let error = zvf_edit::gc(place(&repository, ""), what).unwrap_err();
    assert!(error.message.contains("garbage_collect"), "{error}");
}
