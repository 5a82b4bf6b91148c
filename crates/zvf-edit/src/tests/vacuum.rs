//! Tests of vacuum on waste as other tools leave it, in many chunks: rows in no fragment, fragments of no object, empty
//! rows at the end of the index, and fragments that several objects share.

use std::collections::{BTreeSet, HashSet};
use std::path::Path;
use std::sync::Arc;

use archives::Unpacked;
use bytes::Bytes;
use object_store::ObjectStore;
use object_store::memory::InMemory;
use serde_json::{Value as Json, json};
use zvf_format::Class;
use zvf_format::fragment::{FragmentIndex, FragmentIndexBuilder};
use zvf_store::OpenOptions;

use super::{
    Positions, STORES, assert_fails, begin, positions, run, shift, write_changes, write_files,
};
use crate::arrays::Chunk;
use crate::changes::Changes;
use crate::geometry::Geometry;
use crate::indexes::manifest_bytes;
use crate::numbers::End;
use crate::{
    CommitOptions, Place, Undo, VacuumShare, finish_vacuum, is_vacuumed, plan_vacuum, run_vacuum,
    undo, vacuum,
};

/// Writes waste into a store without a journal: a row in no fragment at the end of every second chunk; every third object
/// and the last two are removed; the third has the fragments of the first.
fn put_waste(store: &Path) {
    let mut transaction = begin(store);
    let mut changes = Changes::default();
    let is_sole = !store.join("1").exists();
    for geometry in &mut transaction.kinds {
        add_rows(geometry, &mut changes);
        remove_objects(geometry, is_sole, &mut changes);
    }
    write_changes(store, &changes);
}

fn add_rows(geometry: &mut Geometry, changes: &mut Changes) {
    let position = geometry.axes * geometry.scalar.size();
    for chunk in geometry.vertices.chunks().into_iter().step_by(2) {
        let columns =
            geometry.columns.iter_mut().map(|column| (&mut column.array, column.ty.size()));
        for (array, size) in columns.chain([(&mut geometry.vertices, position)]) {
            let mut bytes = array.read_stored(&chunk).unwrap().unwrap().to_vec();
            bytes.extend_from_within(..size);
            array.put_chunk(&chunk, bytes);
        }
    }
    geometry.vertices.flush(changes).unwrap();
    for column in &mut geometry.columns {
        column.array.flush(changes).unwrap();
    }
}

fn remove_objects(geometry: &mut Geometry, is_sole: bool, changes: &mut Changes) {
    if !geometry.has_objects {
        return;
    }
    let objects = &mut geometry.objects;
    let empty = manifest_bytes(objects.rank, []).unwrap();
    let rows = objects.manifests.rows.change();
    let count = rows.len();
    for (number, row) in rows.iter_mut().enumerate() {
        if number % 3 == 1 || is_sole && count > 4 && number + 2 >= count {
            *row = empty.clone();
        }
    }
    if count > 4 {
        rows[2] = rows[0].clone();
    }
    objects.manifests.flush(changes, 16384).unwrap();
}

/// Returns the chunks with waste: a fragment without an object, or a row in no fragment.
fn find_waste(geometry: &mut Geometry) -> BTreeSet<Chunk> {
    let mut found = BTreeSet::new();
    let size = geometry.axes * geometry.scalar.size();
    let chunks = geometry.all_chunks();
    let owners = geometry.owners_in(&chunks.iter().copied().collect()).unwrap();
    for number in chunks {
        let key = geometry.chunk_keys[number].clone();
        let rows = geometry.vertices.read_stored(&key).unwrap().unwrap().len() / size;
        let blob = geometry.fragments.read_stored(&key).unwrap().unwrap_or_default();
        let mut rows_of_fragments = HashSet::new();
        for (at, fragment) in FragmentIndex::parse(&blob).unwrap().iter().enumerate() {
            rows_of_fragments.extend(fragment.rows());
            if geometry.has_objects && !owners.contains_key(&(number, at as u32)) {
                found.insert(key.clone());
            }
        }
        if rows_of_fragments.len() != rows {
            found.insert(key);
        }
    }
    found
}

/// Reads the positions of the vertices of objects, or of all vertices where there are no objects.
fn kept_positions(store: &Path) -> Positions {
    let mut found = positions(store);
    if begin(store).kinds[0].has_objects {
        found.remove(&None);
    }
    found
}

/// Reads the links between kept vertices: the positions of their ends, and their values.
fn links(store: &Path) -> Vec<(Vec<String>, Vec<Vec<u8>>)> {
    let mut found = Vec::new();
    for geometry in &mut begin(store).kinds {
        geometry.load_all().unwrap();
        let chunks = geometry.all_chunks();
        let keys = chunks.iter().map(|chunk| geometry.chunk_keys[*chunk].clone());
        let keys = keys.collect();
        let mut family = geometry.take_links();
        let mut vertex = |chunk: &Chunk, row: u64| geometry.vertex_at(chunk, row).map(End::Vertex);
        family.load_cells_naming(&keys, &|_| true, &mut vertex).unwrap();
        for number in family.records.numbers() {
            let ends = family.records.ends(number).iter().map(|end| match end {
                End::Vertex(v) => *v,
                end => panic!("{end:?}"),
            });
            let ends: Vec<u32> = ends.collect();
            let is_kept = |v: &u32| !geometry.has_objects || geometry.vertex[*v].owner != u32::MAX;
            if ends.iter().all(is_kept) {
                let ends = ends.iter().map(|v| format!("{:?}", geometry.position(*v)));
                found.push((ends.collect(), family.records.values(number)));
            }
        }
    }
    found.sort();
    found
}

/// Counts the rows of all chunks, and reads the count that the level declares, for each kind.
fn counts(store: &Path) -> Vec<(usize, Option<u64>)> {
    let count = |geometry: &mut Geometry| {
        let size = geometry.axes * geometry.scalar.size();
        let chunks = geometry.vertices.chunks();
        let bytes = chunks.iter().map(|chunk| geometry.vertices.read_stored(chunk));
        let bytes: usize = bytes.map(|bytes| bytes.unwrap().unwrap().len()).sum();
        let level = &geometry.doc["attributes"]["zarr_vectors_level"];
        (bytes / size, level["vertex_count"].as_u64())
    };
    begin(store).kinds.iter_mut().map(count).collect()
}

#[test]
fn vacuum_removes_only_waste() {
    for id in STORES.into_iter().chain(["sl3_pyramid"]) {
        let store = Unpacked::new(id);
        put_waste(store.path());
        let (before, linked) = (kept_positions(store.path()), links(store.path()));
        let waste_chunks = find_waste(&mut begin(store.path()).kinds[0]);
        assert!(waste_chunks.len() > 1, "{id}: {waste_chunks:?}");
        let report = vacuum(store.path(), false).unwrap();
        assert_eq!(report["head"], 1, "{id}");
        assert!(report["commits"][0]["chunks"].as_u64() >= Some(waste_chunks.len() as u64), "{id}");
        assert_eq!(kept_positions(store.path()), before, "{id}");
        assert_eq!(links(store.path()), linked, "{id}");
        assert_eq!(find_waste(&mut begin(store.path()).kinds[0]), BTreeSet::new(), "{id}");
        for (rows, declared) in counts(store.path()) {
            assert_eq!(Some(rows as u64), declared, "{id}");
        }
        let transaction = begin(store.path());
        let objects = &transaction.kinds[0].objects;
        let last = objects.numbers().last().map(|last| objects.exists(last));
        assert!(last != Some(false) || id == "sl3_pyramid", "{id}: an empty row");
        assert_eq!(vacuum(store.path(), false).unwrap()["changed"], false, "{id}");
    }
}

#[test]
fn vacuum_counts_the_links_that_go_with_rows_of_no_object() {
    for id in ["gr3_links", "sl3_streamlines"] {
        let store = Unpacked::new(id);
        put_waste(store.path());
        let stated = || {
            let transaction = begin(store.path());
            let family = &transaction.kinds[0].links;
            family.doc["attributes"]["num_links"].as_u64().unwrap()
        };
        let place = Place::from(store.path()).with_memory_limit(30_000); // not all chunks at once
        let (before, report) = (stated(), vacuum(place, false).unwrap());
        let removed = before - stated();
        assert!(removed > 0, "{id}: {report}");
        assert_eq!(report["commits"][0]["links"]["removed"], removed, "{id}: {report}");
        let text = format!("\"{removed} links went with");
        assert!(report["notices"].to_string().contains(&text), "{id}: {report}");
        assert_eq!(vacuum(store.path(), false).unwrap()["notices"], json!([]), "{id}");
    }
}

#[test]
fn vacuum_rewrites_only_chunks_with_waste() {
    let store = Unpacked::new("sl3_streamlines");
    put_waste(store.path());
    let waste_chunks = find_waste(&mut begin(store.path()).kinds[0]);
    let chunks = begin(store.path()).kinds[0].vertices.chunks();
    let cell = |chunk: &Chunk| -> Bytes {
        let transaction = begin(store.path());
        let geometry = &transaction.kinds[0];
        geometry.vertices.read_stored(chunk).unwrap().unwrap_or_default()
    };
    let before: Vec<Bytes> = chunks.iter().map(cell).collect();
    vacuum(store.path(), false).unwrap();
    for (chunk, before) in chunks.iter().zip(before) {
        assert_eq!(cell(chunk) != before, waste_chunks.contains(chunk), "{chunk:?}");
    }
    assert!(waste_chunks.len() < chunks.len(), "every chunk has waste");
}

/// Two fragments share a row, and one of them has no object: the other keeps the row, and so do links.
#[test]
fn vacuum_keeps_shared_rows_of_fragments_with_an_object() {
    for id in ["sl3_streamlines", "gr3_links"] {
        let store = Unpacked::new(id);
        let mut transaction = begin(store.path());
        let geometry = &mut transaction.kinds[0];
        let chunks = geometry.all_chunks();
        let owners = geometry.owners_in(&chunks.iter().copied().collect()).unwrap();
        let shared_chunk = chunks.into_iter().find_map(|chunk| {
            let [first, second] = [0, 1].map(|fragment| owners.get(&(chunk, fragment)));
            Some((chunk, first?[0], second?[0])).filter(|(_, first, second)| first != second)
        });
        let (chunk, removed, _) = shared_chunk.unwrap();
        let key = geometry.chunk_keys[chunk].clone();
        let blob = geometry.fragments.read_stored(&key).unwrap().unwrap();
        let old = FragmentIndex::parse(&blob).unwrap();
        let mut rows: Vec<Vec<u64>> =
            old.iter().map(|fragment| fragment.rows().collect()).collect();
        let shared = rows[0][0];
        rows[1].insert(0, shared);
        let mut index = FragmentIndexBuilder::new();
        rows.iter().for_each(|rows| index.push_rows(rows).unwrap());
        geometry.fragments.put_chunk(&key, index.encode());
        let mut changes = Changes::default();
        geometry.fragments.flush(&mut changes).unwrap();
        let objects = &mut geometry.objects;
        let empty = manifest_bytes(objects.rank, []).unwrap();
        objects.manifests.rows.change()[removed as usize] = empty;
        objects.manifests.flush(&mut changes, 16384).unwrap();
        write_changes(store.path(), &changes);
        let before = kept_positions(store.path());
        assert_eq!(vacuum(store.path(), false).unwrap()["head"], 1, "{id}");
        assert_eq!(kept_positions(store.path()), before, "{id}");
        assert_eq!(find_waste(&mut begin(store.path()).kinds[0]), BTreeSet::new(), "{id}");
    }
}

const PLAN: &str = "0123456789abcdef";

/// Runs the tasks of all shares, each twice to check that the results are equal.
fn run_all(place: &Place, head: u64, shares: &[VacuumShare]) -> Vec<(VacuumShare, Bytes)> {
    let run = |share: &VacuumShare| {
        let bytes = run_vacuum(place, head, share).unwrap();
        assert_eq!(run_vacuum(place, head, share).unwrap(), bytes);
        (share.clone(), bytes)
    };
    shares.iter().map(run).collect()
}

/// Removes the fields of a report that differ between commits.
fn report_of(mut report: Json) -> Json {
    report["store"] = Json::Null;
    report["commits"][0]["txid"] = Json::Null;
    report
}

/// Returns stores of all kinds, with shards, with coarser levels, and with two kinds.
fn stores_with_waste() -> Vec<(String, Unpacked)> {
    let files_of_two_kinds =
        archives::files_with_extra_kind("sl3_streamlines", "graph", "gr3_links", 1000);
    let several = Unpacked::new("sl3_streamlines");
    write_files(several.path(), files_of_two_kinds);
    let more_ids = ["sl3_pyramid", "pc3_sharded", "pc3_fragment_attrs", "gr3_pyramid"];
    let stores = STORES.into_iter().chain(more_ids).map(|id| (id.to_owned(), Unpacked::new(id)));
    let stores: Vec<_> = stores.chain([("several".to_owned(), several)]).collect();
    stores.iter().for_each(|(_, store)| put_waste(store.path()));
    stores
}

#[test]
fn divided_vacuum_equals_a_vacuum_in_one_process() {
    for (id, store) in stores_with_waste() {
        let copy = Unpacked::new("pc3_basic");
        std::fs::remove_dir_all(copy.path()).unwrap();
        let files = archives::tree(store.path());
        let backend: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        write_files(copy.path(), files.clone());
        for (name, bytes) in &files {
            let put = object_store::ObjectStoreExt::put;
            let at = format!("data/a.zv/{name}");
            crate::medium::block_on(put(&*backend, &at.into(), bytes.clone().into())).unwrap();
        }
        let undivided_report = vacuum(store.path(), false).unwrap();
        let expected = archives::tree(store.path());
        assert!(expected != files, "{id}");

        let place = Place::from(copy.path());
        let (head, shares) = plan_vacuum(&place, 3).unwrap();
        assert_eq!((head, shares.len() > 1), (0, true), "{id}");
        let parts = run_all(&place, head, &shares);
        assert!(archives::tree(copy.path()) == files, "{id}: a task changed the store");
        assert!(!is_vacuumed(&place, (head, PLAN)).unwrap());
        let report = finish_vacuum(&place, (head, PLAN), parts).unwrap();
        assert_eq!(report_of(report), report_of(undivided_report), "{id}");
        assert!(archives::tree(copy.path()) == expected, "{id}");
        assert!(is_vacuumed(&place, (head, PLAN)).unwrap());
        assert!(!is_vacuumed(&place, (head, "another")).unwrap());

        let options = OpenOptions::default();
        let place = Place::in_object_store(Arc::clone(&backend), "data/a.zv".into(), &options);
        let (head, shares) = plan_vacuum(&place, 2).unwrap();
        let parts = run_all(&place, head, &shares);
        finish_vacuum(&place, (head, PLAN), parts).unwrap();
        for (name, bytes) in expected {
            let get = object_store::ObjectStoreExt::get;
            let at = format!("data/a.zv/{name}");
            let found =
                crate::medium::block_on(async { get(&*backend, &at.into()).await?.bytes().await });
            assert!(found.unwrap() == bytes, "{id}: {name}");
        }
    }
}

#[test]
fn vacuum_conflicts_with_a_commit_after_the_plan() {
    let store = Unpacked::new("sl3_streamlines");
    put_waste(store.path());
    let place = Place::from(store.path());
    let (head, shares) = plan_vacuum(&place, 2).unwrap();
    let parts = run_all(&place, head, &shares);
    run(store.path(), &[shift(3)]).unwrap();
    let edited = archives::tree(store.path());
    assert_fails(run_vacuum(&place, head, &shares[0]), Class::Conflict);
    assert_fails(finish_vacuum(&place, (head, PLAN), parts), Class::Conflict);
    assert!(!is_vacuumed(&place, (head, PLAN)).unwrap());
    assert!(archives::tree(store.path()) == edited);
    // A new plan succeeds; its vacuum cannot be repeated or undone.
    let (head, shares) = plan_vacuum(&place, 2).unwrap();
    let parts = run_all(&place, head, &shares);
    assert_eq!(finish_vacuum(&place, (head, PLAN), parts.clone()).unwrap()["head"], 2);
    assert_fails(finish_vacuum(&place, (head, PLAN), parts), Class::Conflict);
    assert!(is_vacuumed(&place, (head, PLAN)).unwrap());
    assert_fails(undo(store.path(), Undo::Last(1), &CommitOptions::default()), Class::Unsupported);
}

#[test]
fn refuses_bytes_of_no_task() {
    let store = Unpacked::new("sl3_streamlines");
    put_waste(store.path());
    let before = archives::tree(store.path());
    let place = Place::from(store.path());
    let (head, shares) = plan_vacuum(&place, 1).unwrap();
    let [(share, result)] = &run_all(&place, head, &shares)[..] else { panic!("one share") };
    let longer = [&result[..], &[0]].concat();
    for bytes in [&result[..result.len() - 1], &result[..7], &[], &longer] {
        let part = (share.clone(), Bytes::copy_from_slice(bytes));
        assert_fails(finish_vacuum(&place, (head, PLAN), [part]), Class::Encoding);
    }
    assert!(archives::tree(store.path()) == before);
}
