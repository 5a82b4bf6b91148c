//! Tests of what copies, replaces or restores a whole store beside other processes.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use archives::Unpacked;
use serde_json::{Value as Json, json};
use zvf_format::Class;
use zvf_store::record::CommitRecord;

use super::{
    GC, assert_fails, begin, begin_on, change_document, document, join, move_all, open, positions,
    run, tree, write_changes, write_files,
};
use crate::changes::Changes;
use crate::commit::commit;
use crate::options::CommitOptions;
use crate::place::journal_folder;
use crate::{Division, Rewrite, Undo, checkout, commit_levels, find_commit, gc, log, split, undo};

#[test]
fn gc_leaves_the_copy_of_a_rewrite() {
    let store = Unpacked::new("pl2_negative");
    run(store.path(), &[move_all(store.path(), 2.5)]).unwrap();
    let before = tree(store.path());
    let rewrite = Rewrite::begin(store.path()).unwrap().unwrap();
    let report = gc(store.path(), GC).unwrap();
    assert_eq!(
        (&report["removed"]["files"], &report["notices"][0]["code"]),
        (&json!(0), &json!("in_use"))
    );
    assert!(rewrite.path().join("zarr.json").is_file());
    let report = rewrite.commit("rewrite", &CommitOptions::default()).unwrap();
    assert_eq!(report["changed"], false, "{report}");
    assert_eq!(tree(store.path()), before);
    // The lock goes with the copy.
    assert_eq!(gc(store.path(), GC).unwrap()["notices"], json!([]));
}

#[test]
fn a_copy_that_lost_files_is_not_committed() {
    let store = Unpacked::new("pc3_pyramid_explicit");
    run(store.path(), &[move_all(store.path(), 2.5)]).unwrap();
    fs::write(store.path().join("0/vertices/c/9"), "one of several cells").unwrap();
    let before = tree(store.path());
    for (operation, all_lost) in [
        ("pyramid", &["", "zarr.json", "0/vertices/c", "0/vertices/c/9"][..]),
        ("shard", &["", "0/vertices/c", "0/vertices/zarr.json", "1", "0/links/+1"]),
        ("repair", &["0/vertices/c/9", "1/vertices/zarr.json"]),
    ] {
        for lost in all_lost {
            let rewrite = Rewrite::begin(store.path()).unwrap().unwrap();
            let path = rewrite.path().join(lost);
            fs::remove_dir_all(&path).or_else(|_file| fs::remove_file(&path)).unwrap();
            let error = rewrite.commit(operation, &CommitOptions::default()).unwrap_err();
            assert_eq!(error.class, Class::FileChanged, "{operation}, {lost}: {error}");
            assert_eq!(tree(store.path()), before, "{operation}, {lost}");
        }
    }
    let operation = json!({"op": "pyramid"});
    let levels = store.path().with_file_name("levels");
    let options = CommitOptions::default();
    assert_fails(
        commit_levels(store.path(), (1, &operation), &levels, &options),
        Class::FileChanged,
    );
}

#[test]
fn a_merge_takes_over_what_groups_have() {
    let column = |name: &str, dtype: &str| {
        let scope = "group";
        json!({"op": "column.add", "scope": scope, "name": name, "dtype": dtype, "unit": "mm"})
    };
    let group = |name: &str, values: Json| json!({"op": "group.add", "name": name, "members": [], "values": values});
    let [into, from, other] = [(); 3].map(|()| Unpacked::new("pl2_negative"));
    run(into.path(), &[column("w", "float64"), group("both", json!({"w": 0.5}))]).unwrap();
    let lines = [
        column("only", "int16"),
        column("w", "float32"),
        group("both", json!({"only": 7})),
        group("new", json!({"only": 8, "w": 2.5})),
    ];
    run(from.path(), &lines).unwrap();
    join(into.path(), from.path()).unwrap();
    let merged = begin(into.path());
    let value = |name: &str, group: &str| {
        let columns = &merged.groups.columns;
        let column = columns.iter().find(|column| column.name == name).unwrap();
        let row = column.array.row(merged.groups.find_group(&json!(group)).unwrap());
        (!column.is_missing(row)).then(|| crate::scalar::row_json(&column.ty, row))
    };
    let found = [("w", "both"), ("w", "new"), ("only", "both"), ("only", "new")];
    let found = found.map(|(name, group)| value(name, group).unwrap());
    assert_eq!(json!(found), json!([0.5, 2.5, 7, 8]));
    let attrs = merged.groups.columns.iter().find(|column| column.name == "only");
    assert_eq!(attrs.unwrap().array.stored.doc["attributes"]["unit"], "mm");

    run(other.path(), &[column("w", "float64"), group("both", json!({"w": 3}))]).unwrap();
    let error = join(into.path(), other.path()).unwrap_err();
    assert!(error.message.contains("group \"both\": w is 3.0, expected 0.5"), "{error}");

    let add = json!({"op": "column.add", "scope": "fragment", "name": "q", "dtype": "float32"});
    run(from.path(), &[add]).unwrap();
    let message = join(into.path(), from.path()).unwrap_err().message;
    assert!(message.contains("columns of fragments are not joined"), "{message}");
}

#[test]
fn a_merge_says_which_members_are_no_objects() {
    let [into, from] = [(); 2].map(|()| Unpacked::new("sl3_streamlines"));
    let journal = open(from.path());
    let mut source = begin_on(&journal);
    source.groups.set_member(0, 4711, true);
    commit(&journal, source, &CommitOptions::default()).unwrap();
    let report = join(into.path(), from.path()).unwrap();
    let text = report["notices"].to_string();
    assert!(text.contains(": 1 member of groups left out: no object has such an id"), "{text}");
}

#[test]
fn a_merge_names_a_link_to_a_row_of_no_fragment() {
    let [into, from] = [(); 2].map(|()| Unpacked::new("ms3_tri"));
    let mut source = begin(from.path());
    let kind = &mut source.kinds[0];
    kind.load_all().unwrap();
    kind.load_all_links().unwrap();
    let end = kind.links.records.vertices(0).next().unwrap();
    let (chunk, row) = kind.vertex[end].home;
    let key = kind.chunk_keys[chunk].clone();
    let mut index = zvf_format::fragment::FragmentIndexBuilder::new();
    index.push_range(0, u64::from(row)).unwrap();
    kind.fragments.put_chunk(&key, index.encode());
    // One that the index has not is in no fragment, as a program that only writes links may
    // leave it.
    let mut changes = Changes::default();
    source.kinds[0].fragments.flush(&mut changes).unwrap();
    write_changes(from.path(), &changes);
    let error = run(from.path(), &[move_all(from.path(), 1000.0)]).unwrap_err();
    assert!(error.message.contains("is in no fragment"), "{error}");
    let error = join(into.path(), from.path()).unwrap_err();
    assert!(error.message.contains("is in no fragment"), "{error}");
    assert!(error.class == Class::OutOfBounds && log(into.path(), None).unwrap().is_empty());
}

#[test]
fn what_is_stored_without_a_document_is_no_absent_column() {
    let store = Unpacked::new("sl3_streamlines");
    let columns = archives::tree(store.path()).into_keys().filter(|key| {
        key.contains("_attributes/") && key.ends_with("/zarr.json") && key.split('/').count() == 4
    });
    let columns: Vec<String> = columns.collect();
    assert!(columns.len() > 1, "{columns:?}");
    for document in columns {
        let store = Unpacked::new("sl3_streamlines");
        let document = store.path().join(document);
        fs::remove_file(&document).unwrap();
        let begin_again = || crate::transaction::Transaction::begin(&open(store.path()));
        assert_fails(begin_again(), Class::NotFound);
        // An empty folder is what is left of a removed one.
        fs::remove_dir_all(document.with_file_name("c")).unwrap();
        begin_again().unwrap();
    }
}

#[test]
fn a_file_that_is_a_relative_link_is_no_change() {
    let store = Unpacked::new("pl2_negative");
    run(store.path(), &[move_all(store.path(), 2.5)]).unwrap();
    let document = store.path().join("0/vertices/zarr.json");
    fs::rename(&document, store.path().with_file_name("aside")).unwrap();
    symlink("../../../aside", document).unwrap();
    let before = tree(store.path());
    let rewrite = Rewrite::begin(store.path()).unwrap().unwrap();
    let report = rewrite.commit("repair", &CommitOptions::default()).unwrap();
    assert_eq!(report["changed"], false, "{report}");
    assert_eq!(tree(store.path()), before);
}

#[test]
fn a_commit_that_does_not_say_what_it_wrote_conflicts_with_others() {
    let store = Unpacked::new("pl2_negative");
    run(store.path(), &[move_all(store.path(), 2.5)]).unwrap();
    let journal = open(store.path());
    let mut transaction = begin_on(&journal);
    transaction.apply(&json!({"op": "object.remove", "objects": [0]})).unwrap();
    let staged = journal.stage("other", &Changes::default(), &Changes::default()).unwrap();
    let body = json!({"seq": 2, "txid": "other", "epoch": null, "report": {}, "keys": []});
    assert!(journal.append(2, (&body, &[]), &staged).unwrap());
    let error = commit(&journal, transaction, &CommitOptions::default()).unwrap_err();
    assert_eq!((error.class, &*error.conflicts), (Class::Conflict, &["*".to_owned()][..]));
}

#[test]
fn a_store_whose_root_a_commit_removed_comes_back() {
    let store = Unpacked::new("pl2_negative");
    run(store.path(), &[move_all(store.path(), 2.5)]).unwrap();
    let before = tree(store.path());
    let journal = open(store.path());
    let keys = journal.store.walk("").unwrap();
    let changes: Changes = keys.iter().map(|key| (key.clone(), None)).collect();
    let old: Changes =
        keys.iter().map(|key| (key.clone(), journal.store.get(key).unwrap())).collect();
    let staged = journal.stage("all", &changes, &old).unwrap();
    let body = json!({"seq": 2, "txid": "all", "epoch": null, "report": {}, "keys": staged.keys});
    assert!(journal.append(2, (&body, &[]), &staged).unwrap());
    let record = CommitRecord::new(2, "all", staged.keys.clone());
    journal.apply_record(record, staged).unwrap();
    assert!(!store.path().join("zarr.json").exists());
    assert_fails(
        run(store.path(), &[move_all(Unpacked::new("pl2_negative").path(), 2.5)]),
        Class::NotFound,
    );
    undo(store.path(), Undo::Last(1), &CommitOptions::default()).unwrap();
    assert_eq!(tree(store.path()), before);
    run(store.path(), &[move_all(store.path(), 2.5)]).unwrap();
}

#[test]
fn a_first_edit_is_made_on_the_store_that_is_there_when_it_commits() {
    let store = Unpacked::new("pl2_negative");
    let expected = positions(store.path()).len();
    let journal = open(store.path());
    let mut transaction = begin_on(&journal);
    transaction.apply(&json!({"op": "object.remove", "objects": [0]})).unwrap();
    // A command replaces the store, whose root then says something else.
    let aside = store.path().with_file_name("aside");
    fs::rename(store.path(), &aside).unwrap();
    write_files(store.path(), archives::tree(&aside));
    change_document(store.path(), "", |doc| doc["attributes"]["note"] = json!("replaced"));
    let committed = commit(&journal, transaction, &CommitOptions::default()).unwrap();
    assert_eq!(committed.notices, Vec::<Json>::new());
    assert_eq!(document(store.path(), "")["attributes"]["note"], "replaced");
    assert_eq!(positions(store.path()).len(), expected - 1);
    assert_eq!(log(store.path(), None).unwrap().len(), 1);
}

#[test]
fn bytes_of_a_store_and_of_its_replacement_are_not_mixed() {
    let (store, other) = (Unpacked::new("pl2_negative"), Unpacked::new("sl3_streamlines"));
    let journal = open(store.path());
    let snap = begin_on(&journal).snap;
    fs::rename(store.path(), store.path().with_file_name("aside")).unwrap();
    let read = || [snap.get("0/vertices/c/0/0").map(drop), snap.list("0").map(drop)];
    let gone = read();
    fs::rename(other.path(), store.path()).unwrap();
    for found in gone.into_iter().chain(read()) {
        assert_eq!(found.unwrap_err().class, Class::Conflict);
    }
}

#[test]
fn gc_waits_for_whoever_applies_a_commit() {
    let store = Unpacked::new("pl2_negative");
    run(store.path(), &[move_all(store.path(), 2.5)]).unwrap();
    let temp = store.path().join("0/.tmp-4711-1");
    let applying = open(store.path()).lock(true, Duration::ZERO).unwrap().unwrap();
    fs::write(&temp, "about to be renamed").unwrap();
    std::thread::scope(|scope| {
        let collected = scope.spawn(|| gc(store.path(), GC).unwrap());
        std::thread::sleep(Duration::from_millis(300));
        assert!(temp.exists());
        drop(applying);
        assert_eq!(collected.join().unwrap()["removed"]["files"], 1);
    });
}

#[test]
fn a_log_with_nothing_but_a_temporary_file_is_no_journal() {
    let store = Unpacked::new("pl2_negative");
    let journal = open(store.path());
    let log = journal_folder(store.path()).unwrap().join("log");
    fs::create_dir_all(&log).unwrap();
    fs::write(log.join(".tmp-4711-1"), "killed").unwrap();
    assert!(journal.lock_for_first().unwrap().is_some());
    run(store.path(), &[move_all(store.path(), 2.5)]).unwrap();
    assert!(journal.lock_for_first().unwrap().is_none());
}

#[test]
fn commits_are_undone_one_by_one_and_by_id() {
    let store = Unpacked::new("pl2_negative");
    let mut states = vec![positions(store.path())];
    for _ in 0..3 {
        run(store.path(), &[move_all(store.path(), 2.5)]).unwrap();
        states.push(positions(store.path()));
    }
    let undo = |what| undo(store.path(), what, &CommitOptions::default());
    for state in [2, 1] {
        undo(Undo::Last(1)).unwrap();
        assert_eq!(positions(store.path()), states[state]);
    }
    // An undo is undone by its head.
    undo(Undo::To(4)).unwrap();
    assert_eq!(positions(store.path()), states[2]);
    run(store.path(), &[move_all(store.path(), 2.5)]).unwrap();
    let id = |head: u64| {
        let entries = log(store.path(), None).unwrap();
        let entry = entries.iter().find(|entry| entry["head"] == head).unwrap();
        find_commit(store.path(), entry["txid"].as_str().unwrap()).unwrap()
    };
    assert_eq!([id(2), id(7)], [2, 7]);
    assert_eq!(find_commit(store.path(), "none").unwrap_err().class, Class::NotFound);
    let error = undo(Undo::Commit(id(2))).unwrap_err();
    assert!(
        error.message.starts_with("commit 2 is not the last one in effect, which is 7"),
        "{error}"
    );
    for (number, state) in [(7, 2), (2, 1), (1, 0)] {
        undo(Undo::Commit(number)).unwrap();
        assert_eq!(positions(store.path()), states[state], "{number}");
    }
    let error = undo(Undo::Last(1)).unwrap_err();
    assert_eq!(error.message, "there are 0 commits to undo, not 1");
}

#[test]
fn a_checkout_is_there_once_it_is_whole() {
    let store = Unpacked::new("pl2_negative");
    let before = tree(store.path());
    run(store.path(), &[move_all(store.path(), 2.5)]).unwrap();
    let out = store.path().with_file_name("then.zarrvectors");
    let names = || fs::read_dir(out.parent().unwrap()).unwrap().count();
    let count = names();
    let unreadable = store.path().join("0/vertices/c/zzz");
    symlink("nowhere", &unreadable).unwrap();
    assert_eq!(checkout(store.path(), 0, &out).unwrap_err().class, Class::FileChanged);
    let error = split(store.path(), &out, &Division::Objects, false, false).unwrap_err();
    assert_eq!(error.class, Class::FileChanged);
    assert_eq!(names(), count, "nothing is left");
    fs::remove_file(unreadable).unwrap();
    checkout(store.path(), 0, &out).unwrap();
    assert_eq!((tree(&out), names()), (before, count + 1));
    let root = document(&out, "");
    assert!(root["attributes"]["zvf"]["journal"].is_null(), "the history stays with the original");
    fs::write(out.with_file_name(".then.zarrvectors.zvf-lock"), "").unwrap(); // of a killed process
    assert_eq!(checkout(store.path(), 0, &out).unwrap_err().class, Class::AlreadyExists);
    assert_eq!(names(), count + 1);
    let inside = store.path().join("a/b");
    for elsewhere in [&inside, Path::new("s3://bucket/then.zarrvectors")] {
        let error = checkout(store.path(), 0, elsewhere).unwrap_err();
        assert_eq!(error.class, Class::InvalidArgument);
    }
    assert!(!store.path().join("a").exists());
    run(&out, &[move_all(&out, 2.5)]).unwrap();
}

#[test]
fn the_parts_of_a_split_are_all_of_the_store_under_names_of_their_own() {
    for id in ["pl2_negative", "sk3_trees", "gr3_links", "pc3_objects"] {
        let store = Unpacked::new(id);
        let whole = positions(store.path());
        let ids: Vec<i64> = whole.keys().copied().flatten().collect();
        // Names that are one without case, and in which characters that paths do not have are
        // replaced.
        let lines = ["a/b", "a_b", "A_B", &"long".repeat(80)];
        let lines = lines.map(|name| json!({"op": "group.add", "name": name, "members": [ids[0]]}));
        run(store.path(), &lines).unwrap();
        let folder = store.path().with_file_name("parts");
        let report = split(store.path(), &folder, &Division::Groups, false, true).unwrap();
        assert!(!folder.exists());
        let made = split(store.path(), &folder, &Division::Groups, false, false).unwrap();
        assert_eq!(made["stores"], report["stores"]);
        let stores = made["stores"].as_array().unwrap();
        let names: Vec<&str> = stores.iter().filter_map(|part| part["store"].as_str()).collect();
        let expected = ["a_b.zarrvectors", "a_b-2.zarrvectors", "A_B-3.zarrvectors"];
        for (name, expected) in names[names.len() - 4..].iter().zip(expected) {
            assert_eq!(Path::new(name).file_name().unwrap(), expected);
            assert_eq!(positions(Path::new(name))[&Some(ids[0])], whole[&Some(ids[0])], "{id}");
        }
        let folder = store.path().with_file_name("objects");
        split(store.path(), &folder, &Division::Objects, false, false).unwrap();
        assert_eq!(fs::read_dir(&folder).unwrap().count(), ids.len());
        for object in ids {
            let part = positions(&folder.join(format!("{object}.zarrvectors")));
            assert_eq!(
                part.into_iter().collect::<Vec<_>>(),
                [(Some(object), whole[&Some(object)].clone())]
            );
        }
    }
}
