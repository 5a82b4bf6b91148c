//! Tests of scripts on stores of every kind.

mod exact;
mod killed;
mod levels;
mod limits;
mod partial;
mod races;
mod readers;
mod unknown;
mod vacuum;
#[cfg(unix)]
mod whole_stores;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use archives::Unpacked;
use bytes::Bytes;
use serde_json::{Value as Json, json};
use zvf_format::Class;

use crate::changes::Changes;
use crate::error::EditError;
use crate::history::hold_for_reading;
use crate::journal::Journal;
use crate::options::CommitOptions;
use crate::stamp::new_txid;
use crate::transaction::Transaction;
use crate::{Collect, Editor, Place, Undo, log, undo};

/// Removes everything that is unused, and keeps what undoes ten commits.
const GC: Collect =
    Collect { grace: Duration::ZERO, keep: 10, vacuum: false, renumber: false, dry_run: false };

impl FromIterator<(String, Option<Bytes>)> for Changes {
    fn from_iter<I: IntoIterator<Item = (String, Option<Bytes>)>>(all: I) -> Self {
        let mut changes = Self::default();
        all.into_iter().for_each(|(key, bytes)| changes.insert(key, bytes));
        changes
    }
}

fn open(store: &Path) -> Arc<Journal> {
    Arc::new(Journal::open(&Place::from(store)).unwrap())
}

fn begin_on(journal: &Arc<Journal>) -> Transaction {
    Transaction::begin(journal).unwrap()
}

pub(crate) fn begin(store: &Path) -> Transaction {
    begin_on(&open(store))
}

fn move_all(store: &Path, by: f64) -> Json {
    let axes = begin(store).kinds[0].axes;
    json!({"op": "vertex.move", "vertices": {"all": true}, "by": vec![by; axes]})
}

/// Moves all vertices of an object.
fn shift(object: i64) -> Json {
    json!({"op": "vertex.move", "vertices": {"object": object}, "by": [9.0, 9.0, 9.0]})
}

/// Runs a script of one transaction.
fn run(store: impl Into<Place>, lines: &[Json]) -> Result<Json, EditError> {
    let mut editor = Editor::open(store, Path::new("."), CommitOptions::default())?;
    for (n, line) in lines.iter().enumerate() {
        editor.line(n as u64 + 1, &line.to_string())?;
    }
    editor.finish()?;
    Ok(editor.report(None))
}

/// Merges the store `from` into another one.
fn join(into: &Path, from: &Path) -> Result<Json, EditError> {
    let options = CommitOptions::default();
    crate::merge(into, &[from.into()], crate::MergeIds::Shift, false, &options)
}

/// Positions of vertices: those of objects by id, `None` for the other vertices.
pub(crate) type Positions = BTreeMap<Option<i64>, Vec<Vec<f64>>>;

/// Reads the positions of every object, and of vertices without one. Positions of kinds without order are sorted.
pub(crate) fn positions(store: &Path) -> Positions {
    positions_of(begin(store))
}

fn positions_of(mut transaction: Transaction) -> Positions {
    let geometry = &mut transaction.kinds[0];
    let mut found = Positions::new();
    for v in geometry.all_vertices().unwrap() {
        let id = geometry.object_id(geometry.vertex[v].owner);
        found.entry(id).or_default().push(geometry.position(v));
    }
    if !geometry.kind.is_chain() {
        found.values_mut().for_each(|list| list.sort_by(|a, b| a.partial_cmp(b).unwrap()));
    }
    found
}

fn tree(store: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = archives::tree(store);
    files.remove("zarr.json"); // the next id and the mark of the journal stay
    files
}

/// Reads the document of a node of a store.
fn document(store: &Path, node: &str) -> Json {
    serde_json::from_slice(&std::fs::read(store.join(node).join("zarr.json")).unwrap()).unwrap()
}

/// Changes the document of a node of a store.
fn change_document(store: &Path, node: &str, change: impl FnOnce(&mut Json)) {
    let mut doc = document(store, node);
    change(&mut doc);
    std::fs::write(store.join(node).join("zarr.json"), doc.to_string()).unwrap();
}

/// Writes files of a store.
fn write_files(store: &Path, files: impl IntoIterator<Item = (String, impl AsRef<[u8]>)>) {
    for (key, bytes) in files {
        let path = store.join(key);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
}

fn write_changes(store: &Path, changes: &Changes) {
    let bytes = |(key, bytes): (String, Option<Bytes>)| (key, bytes.unwrap());
    write_files(store, changes.read_all().unwrap().into_iter().map(bytes));
}

/// Checks the class of the error of what has to fail.
#[track_caller]
fn assert_fails<T: std::fmt::Debug>(result: Result<T, EditError>, class: Class) {
    let error = result.unwrap_err();
    assert_eq!(error.class, class, "{error}");
}

const STORES: [&str; 10] = [
    "pl2_negative",
    "sl3_streamlines",
    "sl3_sharded_blosc",
    "ln3_basic",
    "gr3_links",
    "sk3_trees",
    "ms3_tri",
    "pc2_bins",
    "pc3_basic",
    "pc3_objects",
];

#[test]
fn a_move_and_its_inverse_restore_positions() {
    for id in STORES {
        let store = Unpacked::new(id);
        let before = positions(store.path());
        let shift = |by| run(store.path(), &[move_all(store.path(), by)]).unwrap();
        assert_eq!(shift(17.25)["head"], 1, "{id}");
        assert_ne!(positions(store.path()), before, "{id}");
        assert_eq!(shift(-17.25)["head"], 2, "{id}");
        let ordered = !["gr", "sk", "ms", "pc"].contains(&&id[..2]);
        assert_near(&positions(store.path()), &before, ordered, id);
    }
}

/// Checks that positions are equal up to the rounding of a sum and a difference in `float32`.
fn assert_near(found: &Positions, expected: &Positions, ordered: bool, id: &str) {
    let is_near = |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-4);
    assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>(), "{id}");
    for (object, expected) in expected {
        let mut remaining = found[object].clone();
        assert_eq!(remaining.len(), expected.len(), "{id}: {object:?}");
        for position in expected {
            // Two positions that differ only by rounding may have swapped.
            let near = remaining.iter().position(|found| is_near(found, position));
            let nearest = remaining.remove(near.filter(|_| !ordered).unwrap_or(0));
            assert!(
                is_near(&nearest, position),
                "{id}: {object:?}: {nearest:?}, expected {position:?}"
            );
        }
    }
}

#[test]
fn stored_width_overrides_declared_width() {
    let store = Unpacked::new("ms3_tri"); // its normals declare one value in a row, and have three
    let width = || {
        let transaction = begin(store.path());
        let columns = &transaction.kinds[0].columns;
        let widths: Vec<_> =
            columns.iter().map(|column| (column.name.clone(), column.ty.width)).collect();
        widths
    };
    let expected = [("intensity".to_owned(), 1), ("normal".to_owned(), 3)];
    assert_eq!(width(), expected);
    let vertices = json!({"object": 0});
    let set = |value: Json| json!({"op": "vertex.set", "vertices": vertices, "values": {"normal": value}});
    assert_fails(run(store.path(), &[set(json!(0.5))]), Class::InvalidArgument);
    let expect =
        |value: Json| json!({"op": "expect", "vertices": vertices, "values": {"normal": value}});
    run(store.path(), &[set(json!([0.25, 0.5, -1.0]))]).unwrap();
    run(store.path(), &[expect(json!([0.25, 0.5, -1.0]))]).unwrap();
    assert_fails(run(store.path(), &[expect(json!([0.25, 0.5, 1.0]))]), Class::ExpectationFailed);
    assert_eq!(width(), expected);
}

#[test]
fn a_renamed_column_of_fragments_keeps_the_values_that_are_not_set() {
    let store = Unpacked::new("sl3_streamlines");
    let mut column = json!({"op": "column.add", "scope": "fragment", "name": "a"});
    (column["dtype"], column["fill"]) = (json!("float32"), json!(1.5));
    run(store.path(), &[column]).unwrap();
    let rename = json!({"op": "column.rename", "scope": "fragment", "name": "a", "to": "b"});
    let set = json!({"op": "fragment.set", "object": 0, "index": 0, "values": {"b": 7.0}});
    run(store.path(), &[rename, set]).unwrap();
    let transaction = begin(store.path());
    let mut columns = transaction.kinds[0].fragment_columns.iter();
    let array = &columns.find(|column| column.name == "b").unwrap().array;
    let cell = |chunk| array.read_stored(chunk).unwrap().unwrap();
    let values =
        array.chunks().iter().map(|chunk| cell(chunk).to_vec()).collect::<Vec<_>>().concat();
    let values = values.as_chunks().0.iter().map(|value| f32::from_le_bytes(*value));
    assert_eq!(values.clone().filter(|value| *value == 7.0).count(), 1);
    assert!(values.clone().all(|value| [1.5, 7.0].contains(&value)), "{values:?}");
}

#[test]
fn undo_restores_all_files() {
    for id in STORES {
        let store = Unpacked::new(id);
        let before = tree(store.path());
        run(store.path(), &[move_all(store.path(), -31.5)]).unwrap();
        assert_ne!(tree(store.path()), before, "{id}");
        undo(store.path(), Undo::Last(1), &CommitOptions::default()).unwrap();
        assert!(tree(store.path()) == before, "{id}");
        assert_eq!(log(store.path(), None).unwrap().len(), 2);
    }
}

#[test]
fn new_fragments_remove_the_claim_of_grouped_links() {
    for id in ["gr3_links", "ms3_tri"] {
        let store = Unpacked::new(id);
        let claim = "fragment_link_groups";
        change_document(store.path(), "0", |level| {
            level["attributes"]["zarr_vectors_level"][claim] = json!(true);
        });
        let line = json!({"op": "object.add", "positions": [[1, 2, 3]]});
        assert_eq!(run(store.path(), &[line]).unwrap()["head"], 1, "{id}");
        let level = document(store.path(), "0");
        assert_ne!(level["attributes"]["zarr_vectors_level"][claim], true, "{id}: {level}");
    }
}

#[test]
fn keeps_an_absent_link_count_absent() {
    let link = json!({"op": "link.remove", "touching": {"object": 0, "index": [0]}});
    for stated in [true, false] {
        let store = Unpacked::new("gr3_links");
        let read = || document(store.path(), "0/links/0");
        let before = read()["attributes"]["num_links"].as_i64().unwrap();
        assert!(before > 1);
        if !stated {
            change_document(store.path(), "0/links/0", |family| {
                let attributes = family["attributes"].as_object_mut().unwrap();
                attributes.retain(|name, _| !name.starts_with("num_"));
            });
        }
        let report = run(store.path(), std::slice::from_ref(&link)).unwrap();
        let removed = report["commits"][0]["links"]["removed"].as_i64().unwrap();
        assert!(removed > 0, "{report}");
        let found = read()["attributes"].get("num_links").cloned();
        assert_eq!(found, stated.then(|| json!(before - removed)));
    }
}

#[test]
fn a_link_is_not_there_where_there_are_no_links_at_all() {
    let store = Unpacked::new("gr3_links");
    let mut transaction = begin(store.path());
    transaction.kinds[0].take_links();
    let ends = [0, 1].map(|n| json!({"object": 0, "index": n}));
    let error = transaction.apply(&json!({"op": "link.remove", "links": [ends]})).unwrap_err();
    assert!(error.message.contains("no link joins these vertices"), "{error}");
}

#[test]
fn refuses_an_impossible_link_count() {
    let store = Unpacked::new("gr3_links");
    change_document(store.path(), "0/links/0", |doc| doc["attributes"]["num_links"] = json!(0));
    let before = tree(store.path());
    let link = json!({"op": "link.remove", "touching": {"object": 0, "index": [0]}});
    assert_fails(run(store.path(), &[link]), Class::CountMismatch);
    assert_eq!(tree(store.path()), before);
}

/// Some writers leave the number of vertices at 0, and readers do not rely on it.
#[test]
fn keeps_an_unmaintained_vertex_count_at_0() {
    let store = Unpacked::new("pl2_negative");
    let count = "/attributes/zarr_vectors_level/vertex_count";
    change_document(store.path(), "0", |level| *level.pointer_mut(count).unwrap() = json!(0));
    let id = positions(store.path()).into_keys().flatten().next().unwrap();
    run(store.path(), &[json!({"op": "object.remove", "objects": [id]})]).unwrap();
    assert_eq!(document(store.path(), "0").pointer(count), Some(&json!(0)));
}

#[test]
fn refuses_an_index_with_fewer_rows_than_objects() {
    let store = Unpacked::new("pl2_negative");
    change_document(store.path(), "0/object_index", |index| {
        let count = index["attributes"]["num_objects"].as_u64().unwrap();
        index["attributes"]["num_objects"] = json!(count + 1);
    });
    let line = json!({"op": "vertex.move", "vertices": {"all": true}, "by": [1.0, 1.0]});
    assert_fails(run(store.path(), &[line]), Class::CountMismatch);
}

#[test]
fn a_transaction_without_change_commits_nothing() {
    for id in STORES {
        let store = Unpacked::new(id);
        let before = archives::tree(store.path());
        let report = run(store.path(), &[move_all(store.path(), 0.0)]).unwrap();
        assert_eq!((&report["head"], &report["changed"]), (&json!(0), &json!(false)), "{id}");
        assert!(archives::tree(store.path()) == before, "{id}");
    }
}

#[test]
fn faults_have_a_class_and_a_line_and_change_nothing() {
    let store = Unpacked::new("sl3_streamlines");
    let before = archives::tree(store.path());
    #[rustfmt::skip]
    let cases = [
        (json!({"op": "vertex.spin"}), Class::InvalidArgument),
        (json!({"op": "vertex.move", "vertices": {"object": 0}}), Class::InvalidArgument),
        (json!({"op": "vertex.move", "vertices": {"object": 0}, "by": [1]}), Class::InvalidArgument),
        (json!({"op": "vertex.move", "vertices": {"object": 987_654}, "by": [1, 1, 1]}), Class::InvalidArgument),
        (json!({"op": "object.remove", "objects": [0], "force": true}), Class::InvalidArgument),
        (json!({"op": "expect", "object": 0, "exists": false}), Class::ExpectationFailed),
        (json!({"op": "vertex.set", "vertices": {"all": true, "count": 1}, "values": {}}), Class::ExpectationFailed),
        (json!({"op": "append", "file": "none.csv"}), Class::NotFound),
        (json!({"op": "commit"}), Class::InvalidArgument),
    ];
    for (line, class) in cases {
        let error =
            run(store.path(), &[json!({"op": "object.remove", "objects": [1]}), line.clone()])
                .unwrap_err();
        assert_eq!((error.class, error.line), (class, Some(2)), "{line}");
        assert!(archives::tree(store.path()) == before, "{line}");
    }
}

#[test]
fn writers_conflict_only_on_the_same_object() {
    let store = Unpacked::new("sl3_streamlines");
    let journal = open(store.path());
    let before = positions(store.path());
    let mut writers: Vec<Transaction> = (0..3).map(|_| begin_on(&journal)).collect();
    for (writer, object) in writers.iter_mut().zip([0, 1, 0]) {
        writer.apply(&shift(object)).unwrap();
    }
    let mut outcomes = writers
        .into_iter()
        .map(|writer| crate::commit::commit(&journal, writer, &CommitOptions::default()));
    assert_eq!(outcomes.next().unwrap().unwrap().report.unwrap()["head"], 1);
    assert_eq!(outcomes.next().unwrap().unwrap().report.unwrap()["head"], 2);
    let error = outcomes.next().unwrap().unwrap_err();
    assert_eq!((error.class, error.conflicts), (Class::Conflict, vec!["object:0".to_owned()]));
    let after = positions(store.path());
    let changed: Vec<i64> =
        before.iter().filter(|(id, list)| after[id] != **list).filter_map(|(id, _)| *id).collect();
    assert_eq!(changed, [0, 1]);
}

#[test]
fn next_reader_applies_pending_commits() {
    let store = Unpacked::new("sl3_streamlines");
    let journal = open(store.path());
    let mut writer = begin_on(&journal);
    writer.apply(&json!({"op": "object.remove", "objects": [0]})).unwrap();
    let plan = writer.plan(&CommitOptions::default()).unwrap();
    let txid = new_txid();
    let staged = journal.stage(&txid, &plan.changes, &plan.before).unwrap();
    // A writer that dies here has no effect.
    assert!(positions(store.path()).contains_key(&Some(0)));
    let body = json!({"seq": 1, "txid": txid, "keys": staged.keys, "report": plan.report});
    assert!(journal.append(1, (&body, &[]), &staged).unwrap());
    drop(staged);
    // A writer that dies here has committed.
    assert_eq!(journal.list_pending().unwrap(), [1]);
    drop(hold_for_reading(store.path()).unwrap());
    assert!(journal.list_pending().unwrap().is_empty());
    assert!(!positions(store.path()).contains_key(&Some(0)));
    // Applying the record again changes nothing.
    let before = archives::tree(store.path());
    std::fs::remove_file(journal.side.folder().unwrap().path("done/00000000000000000001")).unwrap();
    journal.apply_all_pending().unwrap();
    assert!(archives::tree(store.path()) == before);
}

#[test]
fn a_name_stays_with_its_vertices_through_later_commits() {
    let store = Unpacked::new("pc3_basic");
    let mut transaction = begin(store.path());
    let geometry = &mut transaction.kinds[0];
    let first = geometry.all_vertices().unwrap()[0];
    let (at, chunk) = (geometry.position(first), &geometry.chunk_keys[0]);
    let near = |by: f64| Vec::from_iter(at.iter().map(|x| x + by / 256.0));
    let (same, _) = geometry.locate(&near(1.0)).unwrap();
    assert_eq!(&same, chunk);
    let add = |by: f64| json!({"op": "vertex.add", "positions": [near(by)], "as": by.to_string()});
    let to = |name: &str, by: f64| json!({"op": "vertex.move", "vertices": {"ref": name}, "to": near(by)});
    let [begins, ends] = ["begin", "commit"].map(|op| json!({"op": op}));
    // The rows behind the one that is removed get other numbers, and another vertex the old one.
    let removal = json!({"op": "vertex.remove", "vertices": {"chunk": chunk, "row": 0}});
    let between = vec![removal, add(0.5)];
    let everything = vec![move_all(store.path(), 0.125)];
    for (is_by_other, between, is_kept) in [
        (false, &between, true),
        (true, &between, true),
        (false, &everything, true),
        (true, &everything, false),
    ] {
        let (store, expected) = (Unpacked::new("pc3_basic"), Unpacked::new("pc3_basic"));
        let mut editor =
            Editor::open(store.path(), Path::new("."), CommitOptions::default()).unwrap();
        let mut step = |lines: &[Json]| {
            let whole =
                [std::slice::from_ref(&begins), lines, std::slice::from_ref(&ends)].concat();
            whole.iter().try_for_each(|line| editor.line(1, &line.to_string()).map(drop))
        };
        step(&[add(0.25)]).unwrap();
        match is_by_other {
            true => drop(run(store.path(), between).unwrap()),
            false => step(between).unwrap(),
        }
        let done = step(&[to("0.25", 0.75)]);
        if !is_kept {
            assert_fails(done, Class::Conflict);
            continue;
        }
        done.unwrap();
        let lines = [&[add(0.25)], &between[..], &[to("0.25", 0.75)]].concat();
        run(expected.path(), &lines).unwrap();
        assert_eq!(positions(store.path()), positions(expected.path()), "{is_by_other}");
    }
}
