//! Tests of readers beside edits: each answer is that of one commit.

use std::path::Path;

use archives::{Unpacked, inline};
use serde_json::json;
use zvf_format::Class;
use zvf_query::{Query, Reader};
use zvf_store::{OpenOptions, Store};

use super::{GC, run, shift};
use crate::{Collect, Editor, Place, gc, log, undo};

fn open(path: &Path) -> Reader {
    Reader::new(inline(Store::open(path.to_str().unwrap(), OpenOptions::default())).unwrap())
}

/// Returns the positions of every vertex, with its object.
fn rows(reader: &Reader) -> Vec<String> {
    let answer = inline(reader.run(&Query::all())).unwrap();
    let positions = answer.batch.positions();
    let objects = format!("{:?}", answer.batch.vertex_objects());
    let axis = |row: usize| (0..3).map(move |axis| positions.float(row, axis));
    let rows = (0..answer.batch.len()).map(|row| format!("{:?}", axis(row).collect::<Vec<_>>()));
    rows.chain([objects]).collect()
}

#[test]
fn a_handle_answers_as_of_its_opening_while_others_commit() {
    let store = Unpacked::new("sl3_streamlines");
    let cold = open(store.path());
    let warm = open(store.path());
    let before = rows(&warm);
    run(store.path(), &[json!({"op": "object.remove", "objects": [0]})]).unwrap();
    run(store.path(), &[shift(1)]).unwrap();
    assert_eq!(rows(&warm), before, "what was read and what was not are of one commit");
    assert_eq!(rows(&cold), before);
    let newer = Reader::new(inline(warm.store().follow_commits()).unwrap().unwrap());
    let after = rows(&newer);
    assert!(after != before && after == rows(&open(store.path())));
    assert_eq!(newer.store().journal_head(), Some(2));
    assert!(inline(newer.store().follow_commits()).unwrap().is_none());
    // A server looks in this way.
    run(store.path(), &[shift(2)]).unwrap();
    assert!(inline(newer.store().revalidate()).unwrap().is_some());
    assert_eq!(rows(&newer), after);
    // What is not kept any more cannot be read, and is never mixed.
    let last = open(store.path());
    undo(store.path(), crate::Undo::Last(1), &Default::default()).unwrap();
    gc(store.path(), Collect { keep: 0, ..GC }).unwrap();
    let query = Query::all();
    assert_eq!(inline(last.run(&query)).unwrap_err().class(), Class::FileChanged);
}

#[test]
fn a_half_applied_commit_is_read_whole_and_nothing_is_written() {
    let store = Unpacked::new("sl3_streamlines");
    let before = archives::tree(store.path());
    run(store.path(), &[json!({"op": "object.remove", "objects": [0]}), shift(1)]).unwrap();
    let (whole, applied) = (rows(&open(store.path())), archives::tree(store.path()));
    archives::unapply_half(store.path(), &before);
    let above = store.path().parent().unwrap();
    let half = archives::tree(above);
    // Somebody applies it, or is stopped meanwhile: readers do not wait.
    let lock = store.path().with_file_name("sl3_streamlines.zarrvectors.zvf/lock");
    let lock = std::fs::File::open(lock).unwrap();
    lock.lock().unwrap();
    let reader = open(store.path());
    assert_eq!((rows(&reader), reader.store().journal_head()), (whole.clone(), Some(1)));
    assert!(archives::tree(above) == half);
    drop(lock);
    crate::settle(&Place::from(store.path())).unwrap();
    assert!(archives::tree(store.path()) == applied);
    assert_eq!(rows(&reader), whole);
}

#[cfg(unix)]
#[test]
fn a_store_under_a_link_has_the_journal_of_its_folder() {
    let store = Unpacked::new("sl3_streamlines");
    let link = store.path().with_file_name("link.zarrvectors");
    std::os::unix::fs::symlink(store.path(), &link).unwrap();
    run(&link, &[shift(0)]).unwrap();
    run(store.path(), &[shift(1)]).unwrap();
    for path in [link.as_path(), store.path()] {
        assert_eq!(log(path, None).unwrap().len(), 2);
        assert_eq!(open(path).store().journal_head(), Some(2));
    }
    assert!(!store.path().with_file_name("link.zarrvectors.zvf").exists());
}

#[cfg(unix)]
#[test]
fn a_journal_beside_a_link_is_reported() {
    let store = Unpacked::new("sl3_streamlines");
    let link = store.path().with_file_name("link.zarrvectors");
    std::os::unix::fs::symlink(store.path(), &link).unwrap();
    run(store.path(), &[shift(0)]).unwrap();
    let journal = |name: &str| store.path().with_file_name(format!("{name}.zarrvectors.zvf"));
    // Where earlier versions had it.
    std::fs::rename(journal("sl3_streamlines"), journal("link")).unwrap();
    let opened = inline(Store::open(link.to_str().unwrap(), OpenOptions::default()));
    let read = opened.unwrap_err();
    let edited = Editor::open(&link, Path::new("."), Default::default()).unwrap_err();
    for (class, text) in [(read.class(), read.to_string()), (edited.class, edited.to_string())] {
        assert_eq!(class, Class::Conflict, "{text}");
        assert!(text.contains("rename it to") && text.contains("link.zarrvectors.zvf"), "{text}");
    }
    std::fs::rename(journal("link"), journal("sl3_streamlines")).unwrap();
    assert_eq!(open(&link).store().journal_head(), Some(1));
}
