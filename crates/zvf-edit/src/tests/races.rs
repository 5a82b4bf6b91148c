//! Tests of writers at once on an object store.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use archives::faults::{Conditions, Fault, FaultStore};
use bytes::Bytes;
use futures_util::TryStreamExt as _;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt as _};
use serde_json::{Value as Json, json};
use zvf_format::Class;
use zvf_store::{OpenOptions, Store};

use super::{GC, begin_on, run, shift};
use crate::commit::commit;
use crate::epoch::Epoch;
use crate::error::EditError;
use crate::journal::Journal;
use crate::medium::block_on;
use crate::options::CommitOptions;
use crate::{Place, Undo, gc, log, undo};

/// The names and contents of the objects of a backend.
type Objects = Vec<(String, Bytes)>;

fn backend() -> Arc<FaultStore> {
    backend_with("sl3_streamlines")
}

/// Creates an archived store in memory, whose requests can fail.
pub(super) fn backend_with(id: &str) -> Arc<FaultStore> {
    let backend = Arc::new(FaultStore::new());
    for (name, bytes) in archives::files(id) {
        block_on(backend.insert(&format!("data/a.zv/{name}"), &bytes));
    }
    backend
}

pub(super) fn place(backend: &Arc<FaultStore>) -> Place {
    let backend = Arc::clone(backend) as Arc<dyn ObjectStore>;
    Place::in_object_store(backend, "data/a.zv".into(), &OpenOptions::default())
}

pub(super) fn edit(place: &Place, line: &Json) -> Result<Json, EditError> {
    run(place, std::slice::from_ref(line))
}

fn read_all(backend: &FaultStore) -> Objects {
    let listed: Vec<ObjectMeta> = block_on(backend.list(None).try_collect()).unwrap();
    let read = |meta: ObjectMeta| {
        let reply = block_on(backend.get(&meta.location)).unwrap();
        (meta.location.to_string(), block_on(reply.bytes()).unwrap())
    };
    listed.into_iter().map(read).collect()
}

fn insert_all<'a>(backend: &FaultStore, objects: impl IntoIterator<Item = &'a (String, Bytes)>) {
    objects.into_iter().for_each(|(name, bytes)| block_on(backend.insert(name, bytes)));
}

#[test]
fn a_writer_that_begins_again_conflicts_with_every_commit_before_its_own() {
    let set = |value: f64| json!({"op": "vertex.set", "vertices": {"object": 0}, "values": {"fa": value}});
    let record = format!("data/a.zv.zvf/log/{:020}", 2);
    let (first, second) = {
        let backend = backend();
        edit(&place(&backend), &shift(1)).unwrap();
        let first = read_all(&backend);
        edit(&place(&backend), &set(0.5)).unwrap();
        (first, read_all(&backend))
    };
    let new_record = second.iter().find(|(name, _)| *name == record).unwrap().1.clone();
    let staged = |(name, _): &&(String, Bytes)| name.starts_with("data/a.zv.zvf/txn/");
    // A writer of object 0 loses to the first commit; the second, of the same object, is made
    // before a request.
    let lose = |nth: Option<usize>| {
        let backend = backend();
        let journal = Arc::new(Journal::open(&place(&backend)).unwrap());
        let mut writer = begin_on(&journal);
        writer.apply(&set(0.25)).unwrap();
        insert_all(&backend, &first);
        insert_all(&backend, second.iter().filter(staged));
        backend.forget();
        if let Some(nth) = nth {
            backend.plan(nth, Fault::Changed(new_record.clone()));
        }
        let done = commit(&journal, writer, &CommitOptions::default());
        (done.map(|done| done.report.unwrap()["head"].clone()), backend.requests())
    };
    let (head, requests) = lose(None);
    assert_eq!(head.unwrap(), 2);
    let of_record: Vec<usize> =
        (0..requests.len()).filter(|nth| requests[*nth].path == record).collect();
    let put = of_record.iter().position(|nth| requests[*nth].what == "put").unwrap();
    for nth in of_record.iter().take(put + 1).copied() {
        let (done, requests) = lose(Some(nth));
        let error = done.expect_err(&format!("{:?}", requests[nth]));
        assert_eq!((error.class, error.conflicts), (Class::Conflict, vec!["object:0".to_owned()]));
    }
}

#[test]
fn without_both_conditions_there_is_a_single_writer() {
    let ignored = Conditions { if_match: false, ..Conditions::default() };
    let not_supported = Conditions { has_if_match: false, ..Conditions::default() };
    for conditions in [ignored, not_supported] {
        let backend = backend();
        backend.set_conditions(conditions);
        let error = edit(&place(&backend), &shift(0)).unwrap_err();
        assert_eq!(error.class, Class::Unsupported, "{conditions:?}: {error}");
        let place = place(&backend).with_single_writer();
        assert_eq!(edit(&place, &shift(0)).unwrap()["notices"], json!([]), "{conditions:?}");
        assert_eq!(edit(&place, &shift(0)).unwrap()["head"], 2, "{conditions:?}");
    }
}

#[test]
fn one_writer_at_most_takes_an_epoch() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let _inside = runtime.enter();
    let taken: Vec<usize> = (0..30)
        .map(|_| {
            let backend = backend();
            backend.ignore_conditions(true);
            backend.always(Some(Fault::Delay(std::time::Duration::from_millis(3))));
            let place = place(&backend);
            let take = || {
                let journal = Journal::open(&place).unwrap();
                runtime.block_on(async { Epoch::take(&journal.side) })
            };
            let epochs = std::thread::scope(|scope| {
                let threads = [scope.spawn(take), scope.spawn(take)];
                threads.map(|thread| thread.join().unwrap())
            });
            epochs.iter().flatten().count()
        })
        .collect();
    assert!(taken.iter().all(|count| *count <= 1), "{taken:?}");
}

/// A backend in memory, whose objects are as old as they are.
#[test]
fn gc_keeps_the_files_of_a_commit_under_way() {
    let backend: Arc<dyn ObjectStore> = Arc::new(object_store::memory::InMemory::new());
    for (name, bytes) in archives::files("sl3_streamlines") {
        block_on(backend.put(&format!("data/a.zv/{name}").into(), Bytes::from(bytes).into()))
            .unwrap();
    }
    let place = Place::in_object_store(backend, "data/a.zv".into(), &OpenOptions::default());
    edit(&place, &shift(1)).unwrap();
    let journal = Arc::new(Journal::open(&place).unwrap());
    let mut writer = begin_on(&journal);
    writer.apply(&shift(0)).unwrap();
    let plan = writer.plan(&CommitOptions::default()).unwrap();
    let staged = journal.stage("t", &plan.changes, &plan.before).unwrap();
    assert_eq!(gc(&place, GC).unwrap()["removed"]["files"], 0);
    let body = json!({"seq": 2, "txid": "t", "keys": staged.keys, "report": plan.report});
    assert!(journal.append(2, (&body, &[]), &staged).unwrap());
    edit(&place, &shift(1)).unwrap();
    undo(&place, Undo::Last(2), &CommitOptions::default()).unwrap();
    assert_eq!(log(&place, None).unwrap().len(), 4);
}

#[test]
fn a_late_put_after_an_undo_is_not_read() {
    let backend = backend();
    let place = place(&backend);
    edit(&place, &shift(0)).unwrap();
    let moved = read_all(&backend);
    undo(&place, Undo::Last(1), &CommitOptions::default()).unwrap();
    for n in 0..12 {
        let line = json!({"op": "group.add", "name": format!("g{n}"), "members": [1]});
        edit(&place, &line).unwrap();
    }
    let read = || {
        let journal = Arc::new(Journal::open(&place).unwrap());
        let mut transaction = begin_on(&journal);
        let geometry = &mut transaction.kinds[0];
        let all = geometry.all_vertices().unwrap();
        all.into_iter().map(|v| geometry.position(v)).collect::<Vec<_>>()
    };
    let before = read();
    // A put of the first commit arrives: the version that it was to replace is there again.
    let is_vertices = |(name, _): &&(String, Bytes)| name.starts_with("data/a.zv/0/vertices/c/");
    insert_all(&backend, moved.iter().filter(is_vertices));
    assert_eq!(read(), before);
}

#[test]
fn a_put_is_not_sent_again_once_a_later_commit_is_there() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let create = || {
        let backend = backend();
        let conditions = Conditions { tags_are_of_bytes: true, ..Conditions::default() };
        backend.set_conditions(conditions);
        backend
    };
    let counted = create();
    runtime.block_on(async { edit(&place(&counted), &shift(0)) }).unwrap();
    let requests = counted.requests();
    let of_cells: Vec<usize> = (0..requests.len())
        .filter(|nth| requests[*nth].what == "put" && requests[*nth].path.contains("/vertices/c/"))
        .collect();
    for fault in [Fault::Reset, Fault::Status(503)] {
        let backend = create();
        let before = read_all(&backend);
        let slow = Arc::new(backend.new_client());
        slow.plan(of_cells[0], fault.clone());
        // Before it is sent again, another writer applies the commit and undoes it.
        let other = place(&backend);
        let undone = Arc::new(AtomicBool::new(false));
        let is_undone = Arc::clone(&undone);
        slow.plan_call(of_cells[0] + 1, move || {
            undo(&other, Undo::Last(1), &CommitOptions::default()).unwrap();
            is_undone.store(true, Ordering::Relaxed);
        });
        let done = runtime.block_on(async { edit(&place(&slow), &shift(0)) }).unwrap();
        assert!(undone.load(Ordering::Relaxed) && done["changed"] == true, "{fault:?}: {done}");
        let cells = |all: Objects| -> Objects {
            all.into_iter().filter(|(name, _)| name.contains("/vertices/c/")).collect()
        };
        assert!(cells(read_all(&backend)) == cells(before), "{fault:?}");
    }
}

#[test]
fn a_commit_asks_for_the_log_once_for_each_step() {
    let backend = backend();
    let place = place(&backend);
    let journal = Arc::new(Journal::open(&place).unwrap());
    let mut writer = begin_on(&journal);
    let all = json!({"op": "vertex.set", "vertices": {"all": true}, "values": {"fa": 0.5}});
    writer.apply(&all).unwrap();
    let plan = writer.plan(&CommitOptions::default()).unwrap();
    assert!(plan.changes.keys.len() > 30, "{}", plan.changes.keys.len());
    backend.forget();
    commit(&journal, writer, &CommitOptions::default()).unwrap();
    let requests = backend.requests();
    let next = format!("log/{:020}", 2);
    let looks = requests.iter().filter(|request| request.path.ends_with(&next)).count();
    assert!(looks <= 8, "{looks}");
    let is_list = |request: &archives::faults::Request| {
        request.path.starts_with("data/a.zv.zvf") && ["list", "children"].contains(&request.what)
    };
    assert!(!requests.iter().any(is_list));
}

/// Each batch of reads is followed by a look for the next commit, which is one round trip more: an
/// answer from documents that are known has one of them.
#[test]
fn an_answer_looks_for_the_next_commit_once() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let backend = backend();
    edit(&place(&backend), &shift(1)).unwrap();
    let next = format!("log/{:020}", 2);
    let looks = || {
        let requests = backend.requests();
        backend.forget();
        let looks = requests.iter().filter(|request| request.path.ends_with(&next)).count();
        (looks, requests.len())
    };
    looks();
    runtime.block_on(async {
        let objects = Arc::clone(&backend) as Arc<dyn ObjectStore>;
        let prefix = "data/a.zv".into();
        let store = Store::from_object_store(objects, &prefix, OpenOptions::default());
        let reader = zvf_query::Reader::new(store.await.unwrap());
        let opening = looks();
        let all = zvf_model::Bounds::new(&[-1e6; 3], &[1e6; 3]).unwrap();
        let query = zvf_query::Query::all().in_region(all);
        let columns = zvf_query::Columns::None;
        let query = query.columns(columns).uncached();
        assert!(!reader.run(&query).await.unwrap().batch.is_empty());
        let first = looks();
        reader.run(&query).await.unwrap();
        let second = looks();
        let found = format!("{opening:?} {first:?} {second:?}");
        // Reads that end together share a look, so that time decides on some.
        assert!(opening.0 <= 6 && first.0 <= 8 && second.0 == 1, "{found}");
    });
}
