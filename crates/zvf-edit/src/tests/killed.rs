//! Tests of what killed writers leave in folders, and of bytes of programs that do not know the
//! journal.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use archives::Unpacked;
use bytes::Bytes;
use serde_json::json;
use zvf_format::Class;
use zvf_publish::Disk;
use zvf_store::{OpenOptions, Store};

use super::{GC, assert_fails, change_document, document, open, run, shift, tree, write_files};
use crate::changes::{Blob, Changes};
use crate::journal::Journal;
use crate::options::CommitOptions;
use crate::{Collect, EditError, Editor, Place, Undo, checkout, gc, log, undo};

/// Returns the folders below a folder.
fn folders(root: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let mut rest = vec![root.to_owned()];
    while let Some(folder) = rest.pop() {
        for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_dir() {
                rest.push(entry.path());
                found.insert(entry.path());
            }
        }
    }
    found
}

/// Commits new bytes of keys as record `seq`, and applies nothing.
fn commit_pending(journal: &Journal, seq: u64, changes: &[(&str, Option<&'static str>)]) {
    let changes: Changes =
        changes.iter().map(|(key, bytes)| ((*key).to_owned(), bytes.map(Bytes::from))).collect();
    let keys = changes.keys.keys();
    let before = keys.map(|key| (key.clone(), journal.store.get(key).unwrap())).collect();
    let txid = format!("t{seq}");
    let staged = journal.stage(&txid, &changes, &before).unwrap();
    let body = json!({"seq": seq, "txid": txid, "keys": staged.keys});
    assert!(journal.append(seq, (&body, &[]), &staged).unwrap());
}

fn accepting() -> CommitOptions {
    CommitOptions { accept_foreign: true, ..CommitOptions::default() }
}

#[test]
fn foreign_bytes_that_are_accepted_are_the_old_ones_of_the_commit() {
    let store = Unpacked::new("sl3_streamlines");
    let journal = open(store.path());
    run(store.path(), &[json!({"op": "object.remove", "objects": [0]})]).unwrap();
    let keys = ["0/zarr.json", "0/vertices/zarr.json"];
    commit_pending(&journal, 2, &[(keys[0], Some("{}")), (keys[1], None)]);
    let foreign = ["of another program", "of another one"];
    for (key, bytes) in keys.into_iter().zip(foreign) {
        std::fs::write(store.path().join(key), bytes).unwrap();
    }
    let open = |options| Editor::open(store.path(), Path::new("."), options).map(drop);
    assert_eq!(open(CommitOptions::default()).unwrap_err().class, Class::Conflict);
    open(accepting()).unwrap();
    assert_eq!(std::fs::read(store.path().join(keys[0])).unwrap(), b"{}");
    assert!(!store.path().join(keys[1]).exists());
    let record = journal.read_record(2).unwrap().unwrap();
    let old = journal.read_before(&record).unwrap();
    let is_held = |blob: &Blob| matches!(blob, Blob::Held(_));
    assert!(old.values().flatten().all(is_held), "a file for each key would stay open");
    for (key, bytes) in keys.into_iter().zip(foreign) {
        let found = old[key].as_ref().unwrap().read().unwrap();
        assert_eq!(found, bytes.as_bytes(), "{key}");
    }
    // They were kept before anything was written, so that whoever goes on needs no leave for it.
    let done = journal.side.folder().unwrap().path(&format!("done/{:020}", 2));
    std::fs::remove_file(done).unwrap();
    for (key, bytes) in keys.into_iter().zip(foreign) {
        std::fs::write(store.path().join(key), bytes).unwrap();
    }
    open(CommitOptions::default()).unwrap();
    assert_eq!(std::fs::read(store.path().join(keys[0])).unwrap(), b"{}");
}

#[test]
fn bytes_that_are_accepted_raise_the_mark_of_an_earlier_version() {
    let store = Unpacked::new("sl3_streamlines");
    let key = store.path().join("0/more");
    let mark = || document(store.path(), "")["attributes"]["zvf"]["journal"].clone();
    change_document(store.path(), "", |doc| doc["attributes"]["zvf"]["journal"] = json!(1));
    std::fs::write(&key, "old").unwrap();
    let journal = open(store.path());
    commit_pending(&journal, 1, &[("0/more", Some("new"))]);
    let open = |options| Editor::open(store.path(), Path::new("."), options).map(drop);
    std::fs::write(&key, "of another program").unwrap();
    open(CommitOptions::default()).unwrap_err();
    assert_eq!((mark(), journal.head().unwrap()), (json!(1), 1));
    open(accepting()).unwrap();
    assert_eq!((mark(), journal.head().unwrap()), (json!(2), 2));
    assert_eq!(std::fs::read(&key).unwrap(), b"new");
    // Once is enough, and it does not hinder the undoing of the commit before it.
    open(accepting()).unwrap();
    assert_eq!(journal.head().unwrap(), 2);
    undo(store.path(), Undo::Last(1), &CommitOptions::default()).unwrap();
    assert_eq!(std::fs::read(&key).unwrap(), b"of another program");
    assert_eq!(mark(), json!(2));
}

#[test]
fn a_commit_that_did_not_happen_leaves_no_folders() {
    let store = Unpacked::new("sl3_streamlines");
    let journal = open(store.path());
    let before = folders(store.path());
    let changes = [("0/new/column/c/0".to_owned(), Some(Bytes::from("bytes")))];
    let staged = journal.stage("t", &changes.into_iter().collect(), &Changes::default()).unwrap();
    assert_eq!(folders(store.path()), before);
    // As when the process is killed.
    std::mem::forget(staged);
    assert!(!journal.side.exists("log").unwrap());
    let now = Collect { keep: u64::MAX, ..GC };
    // An empty folder of an earlier version goes as well.
    std::fs::create_dir_all(store.path().join("0/old/column")).unwrap();
    gc(store.path(), now).unwrap();
    assert_eq!(folders(store.path()), before);
}

#[test]
fn a_commit_that_is_applied_twice_leaves_the_folders_of_one_that_is_applied_once() {
    let changes = [("0/zarr.json", Some("{}")), ("9/a/zarr.json", None), ("9/b/c/0", None)];
    let subject = || {
        let store = Unpacked::new("sl3_streamlines");
        write_files(store.path(), changes[1..].iter().map(|(key, _)| (key.to_string(), "old")));
        let marked = json!({"zvf": {"journal": 2}});
        change_document(store.path(), "", |doc| doc["attributes"] = marked);
        commit_pending(&open(store.path()), 1, &changes);
        store
    };
    let once = subject();
    // The lock of the first commit, whose writer was killed.
    let name = once.path().file_name().unwrap().to_string_lossy();
    let lock = once.path().with_file_name(format!(".{name}.zvf-lock"));
    std::fs::write(&lock, "").unwrap();
    open(once.path()).apply_all_pending().unwrap();
    assert!(!once.path().join("9").exists() && !lock.exists());
    for is_late in [false, true] {
        for nth in 0.. {
            let store = subject();
            let disk = Disk::default().with_failure_at(nth, 5, is_late);
            let place = Place::from(store.path()).with_disk(disk.clone());
            let failed = Journal::open(&place).unwrap().apply_all_pending().is_err();
            open(store.path()).apply_all_pending().unwrap();
            assert!(tree(store.path()) == tree(once.path()), "call {nth}");
            assert!(!store.path().join("9").exists(), "call {nth}");
            if !failed && disk.call_count() <= nth {
                break;
            }
        }
    }
}

/// Runs `work` on fresh stores, and refuses the nth call of each as the system refuses who may not
/// write. Yields the results until no call is left to refuse.
fn refuse_each_call(
    make: impl Fn() -> Unpacked,
    work: impl Fn(Place, &Path) -> Result<(), EditError>,
) -> impl Iterator<Item = Result<(), EditError>> {
    let mut calls = 0..usize::MAX;
    std::iter::from_fn(move || {
        let (nth, store) = (calls.next()?, make());
        let disk = Disk::default().with_failure_at(nth, 13, false);
        let done = work(Place::from(store.path()).with_disk(disk.clone()), store.path());
        if disk.call_count() <= nth {
            calls = 0..0;
        }
        Some(done)
    })
}

#[test]
fn a_first_edit_by_who_may_not_write_is_no_conflict() {
    let make = || Unpacked::new("sl3_streamlines");
    let done = refuse_each_call(make, |place, _| {
        let mut editor = Editor::open(place, Path::new("."), CommitOptions::default())?;
        editor.line(1, &json!({"op": "object.remove", "objects": [0]}).to_string())?;
        editor.finish()
    });
    let errors: Vec<EditError> = done.filter_map(Result::err).collect();
    assert!(errors.iter().any(|error| error.class == Class::PermissionDenied), "{errors:?}");
    assert!(errors.iter().all(|error| error.class != Class::Conflict), "{errors:?}");
}

#[test]
fn a_copy_by_who_may_not_apply_a_commit_is_refused_with_the_remedy() {
    let half_applied = || {
        let store = Unpacked::new("sl3_streamlines");
        let before = archives::tree(store.path());
        run(store.path(), &[json!({"op": "object.remove", "objects": [0]})]).unwrap();
        archives::unapply_half(store.path(), &before);
        store
    };
    let mut done = refuse_each_call(half_applied, |place, store| {
        checkout(place, 1, &store.with_file_name("copy")).map(|_report| ())
    });
    assert!(done.any(|done| {
        let text = done.err().map(|error| error.text()).unwrap_or_default();
        text.contains("a commit is not applied yet") && text.contains("sl3_streamlines")
    }));
}

#[test]
fn a_later_commit_that_is_applied_stands_where_the_mark_of_an_earlier_one_is_lost() {
    let store = Unpacked::new("sl3_streamlines");
    let before = tree(store.path());
    run(store.path(), &[json!({"op": "object.remove", "objects": [0]})]).unwrap();
    undo(store.path(), Undo::Last(1), &CommitOptions::default()).unwrap();
    let journal = open(store.path());
    let done = journal.side.folder().unwrap().path(&format!("done/{:020}", 1));
    std::fs::remove_file(done).unwrap();
    journal.apply_all_pending().unwrap();
    assert!(tree(store.path()) == before);
}

#[test]
fn a_missing_record_is_refused_where_it_is_needed() {
    let store = Unpacked::new("sl3_streamlines");
    for id in 0..3 {
        run(store.path(), &[shift(id)]).unwrap();
    }
    let journal = open(store.path());
    let read = |may_begin_later| {
        let records = journal.read_records(&[1, 2, 3], may_begin_later);
        records.map(|records| records.iter().map(|record| record.seq).collect::<Vec<_>>())
    };
    let remove = |seq: u64| {
        let log = journal.side.folder().unwrap().path(&format!("log/{seq:020}"));
        std::fs::remove_file(log).unwrap();
    };
    assert_eq!(read(false).unwrap(), [1, 2, 3]);
    remove(1);
    assert_eq!(read(false).unwrap_err().class, Class::FileChanged);
    assert_eq!(read(true).unwrap(), [2, 3]);
    remove(3);
    assert_eq!(read(true).unwrap_err().class, Class::FileChanged);
    remove(2);
    assert_eq!(read(true).unwrap_err().class, Class::FileChanged);
}

#[test]
fn numbers_that_none_can_follow_are_refused() {
    let store = Unpacked::new("sl3_streamlines");
    let line = json!({"op": "object.remove", "objects": [0]});
    run(store.path(), std::slice::from_ref(&line)).unwrap();
    let side = &open(store.path()).side;
    std::fs::write(side.folder().unwrap().path(&format!("log/{}", u64::MAX)), "").unwrap();
    assert_eq!(run(store.path(), &[line]).unwrap_err().class, Class::OutOfBounds);
    assert_eq!(log(store.path(), None).unwrap_err().class, Class::OutOfBounds);
}

#[test]
fn journals_of_earlier_versions_are_continued_and_those_of_later_ones_refused() {
    let store = Unpacked::new("sl3_streamlines");
    let remove = |id: i64| json!({"op": "object.remove", "objects": [id]});
    run(store.path(), &[remove(0)]).unwrap();
    let path = store.path().join("zarr.json");
    let mark = || document(store.path(), "")["attributes"]["zvf"]["journal"].clone();
    let set_mark = |from: &str, to: &str| {
        let text = std::fs::read_to_string(&path).unwrap();
        let mark = |number: &str| format!("\"journal\":{number}");
        assert!(text.contains(&mark(from)), "{text}");
        std::fs::write(&path, text.replace(&mark(from), &mark(to))).unwrap();
    };
    assert_eq!(mark(), 2);
    set_mark("2", "3");
    assert_fails(run(store.path(), &[remove(1)]), Class::Unsupported);
    assert_fails(undo(store.path(), Undo::Last(1), &CommitOptions::default()), Class::Unsupported);
    // Readers do not know what its records mean either.
    let read =
        || archives::inline(Store::open(store.path().to_str().unwrap(), OpenOptions::default()));
    let error = read().unwrap_err();
    assert_eq!(error.class(), Class::Unsupported, "{error}");
    assert!(error.to_string().ends_with("a newer zvf wrote it: use that one"), "{error}");
    // As an earlier version left it.
    set_mark("3", "1");
    let open = || Editor::open(store.path(), Path::new("."), CommitOptions::default()).map(drop);
    open().unwrap();
    set_mark("1", "2");
    read().unwrap();
    undo(store.path(), Undo::Last(1), &CommitOptions::default()).unwrap();
    assert_eq!(
        (run(store.path(), &[remove(1)]).unwrap()["head"].clone(), mark()),
        (json!(3), json!(2))
    );
}

#[test]
fn where_files_have_no_locks_stores_are_read_and_not_edited() {
    let store = Unpacked::new("sl3_streamlines");
    let line = json!({"op": "object.remove", "objects": [0]});
    run(store.path(), std::slice::from_ref(&line)).unwrap();
    let place = Place::from(store.path()).with_disk(Disk::default().without_locks());
    let held = crate::history::hold_for_reading(&place).unwrap();
    assert!(held.is_none(), "what is read has to be compared with the log");
    let before = tree(store.path());
    assert_fails(undo(&place, Undo::Last(1), &CommitOptions::default()), Class::Unsupported);
    assert!(tree(store.path()) == before && log(store.path(), None).unwrap().len() == 1);
}
