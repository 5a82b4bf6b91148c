//! Tests of refreshing coarser levels, renumbering, checks of the journal, and garbage collection.

use std::collections::BTreeMap;
use std::path::Path;

use archives::Unpacked;
use serde_json::{Value as Json, json};
use zvf_format::Class;
use zvf_metadata::CrossLevelStorage;
#[cfg(feature = "reference")]
use zvf_pyramid::{LevelContent, Reference, build_reference};
use zvf_pyramid::{Method, Options, Strategy, build};
use zvf_store::BuildOptions;

use super::{GC, assert_fails, begin, move_all, positions, run, tree};
use crate::levels::read_stale;
use crate::medium::block_on;
use crate::options::{CommitOptions, Refresh};
use crate::{Collect, Rewrite, Undo, check_journal, gc, refresh, undo};

fn build_options() -> BuildOptions {
    BuildOptions { replace: true, sync: false, ..BuildOptions::default() }
}

fn address(store: &Path) -> String {
    store.to_string_lossy().into_owned()
}

/// Rebuilds all levels of a store in one commit, as `zvf pyramid` does.
fn build_anew(store: &Path, make: impl FnOnce(&str)) {
    let rewrite = Rewrite::begin(store).unwrap().unwrap();
    make(&address(rewrite.path()));
    let report = rewrite.commit("pyramid", &CommitOptions::default()).unwrap();
    assert_eq!(report["changed"], true, "{report}");
}

/// Moves all vertices, so that chunks are added and removed.
fn edit(store: &Path) {
    run(store, &[move_all(store, 9.5)]).unwrap();
}

/// Reads all files but the documents, in which an edit stays visible.
fn cells(store: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = tree(store);
    files.retain(|key, _| !key.ends_with("zarr.json"));
    files
}

#[test]
fn refreshed_levels_equal_rebuilt_levels() {
    let sized =
        |method, size| Options { method: Some(method), size: Some(size), ..Options::default() };
    let two_levels =
        |options: Options| Options { links: CrossLevelStorage::Explicit, depth: -1, ..options };
    let usual = Options::default;
    let sparse = Options { method: Some(Method::Decimate), sparsity: 2.0, seed: 7, ..usual() };
    let (by_length, grown) = (sized(Method::Cluster, 4.0), Some(3.0));
    let by_length = Options { strategy: Strategy::Length, sparsity: 1.5, ..by_length };
    for (id, options) in [
        ("pl2_negative", two_levels(sized(Method::Simplify, 0.7))),
        ("sl3_streamlines", sparse),
        ("sk3_trees", Options { prune: Some(0.5), ..sized(Method::Simplify, 3.0) }),
        ("gr3_links", two_levels(sized(Method::Cluster, 80.0))),
        ("ms3_tri", Options { method: Some(Method::Collapse), ..usual() }),
        ("pc3_objects", Options { growth: grown, ..by_length }),
        ("pc2_bins", Options { method: Some(Method::Subset), ..usual() }),
    ] {
        let options = Options { levels: Some(2), ..options };
        let (store, twin) = (Unpacked::new(id), Unpacked::new(id));
        let build_options = build_options();
        let levels = block_on(build(&address(store.path()), &options, &build_options, |_level| {}));
        assert!(!levels.unwrap().is_empty(), "{id}");
        let add_group = |store: &Path| _ = run(store, &[json!({"op": "group.add"})]).unwrap();
        for edit in [&add_group as &dyn Fn(&Path), &edit] {
            edit(store.path());
            let report = refresh(store.path(), Refresh::Stale, &CommitOptions::default());
            let report = report.unwrap_or_else(|error| panic!("{id}: {error}"));
            let commit = &report["commits"][0];
            let is_same = commit["levels_rebuilt"].to_string().contains("would be the same as");
            assert!(is_same || commit["levels_refreshed"][0] == 1, "{id}: {report}");
            edit(twin.path());
            build_anew(twin.path(), |copy| {
                block_on(build(copy, &options, &build_options, |_level| {})).unwrap();
            });
            let (found, expected) = (cells(store.path()), cells(twin.path()));
            let mut keys = found.keys().chain(expected.keys());
            let differing = keys.find(|key| found.get(*key) != expected.get(*key));
            assert_eq!(differing, None, "{id}");
        }
        // A second refresh changes nothing.
        let second_report =
            refresh(store.path(), Refresh::Stale, &CommitOptions::default()).unwrap();
        assert_eq!(second_report["changed"], false, "{id}: {second_report}");
        undo(store.path(), Undo::Last(4), &CommitOptions::default()).unwrap();
    }
}

#[cfg(feature = "reference")]
#[test]
fn refreshed_reference_levels_keep_their_objects() {
    for content in [LevelContent::AsReference, LevelContent::Full] {
        check_reference_levels(content);
    }
}

#[cfg(feature = "reference")]
fn check_reference_levels(content: LevelContent) {
    let factors = vec![(2.0, 2.0), (2.0, 1.0)];
    let reference = Reference { factors, seed: 3, content, ..Reference::default() };
    let (store, twin) = (Unpacked::new("pl2_negative"), Unpacked::new("pl2_negative"));
    block_on(build_reference(&address(store.path()), &reference, &build_options())).unwrap();
    edit(store.path());
    refresh(store.path(), Refresh::Stale, &CommitOptions::default()).unwrap();
    edit(twin.path());
    build_anew(twin.path(), |copy| {
        block_on(build_reference(copy, &reference, &build_options())).unwrap();
    });
    assert_eq!(cells(store.path()), cells(twin.path()));
    let has_attributes =
        cells(store.path()).keys().any(|key| key.starts_with("2/vertex_attributes/"));
    assert_eq!(has_attributes, content == LevelContent::Full);
    // A new object is added to the levels.
    let line = json!({"op": "object.add", "positions": [[1, 2], [3, 4]]});
    run(store.path(), &[line]).unwrap();
    refresh(store.path(), Refresh::Stale, &CommitOptions::default()).unwrap();
    let manifests = |level: u32| {
        let snap = begin(store.path()).snap;
        let path = format!("{level}/object_index/manifests");
        crate::row_array::RowArray::open(&snap, &path).unwrap().unwrap().rows.now
    };
    let (all, coarser) = (manifests(0), manifests(1));
    assert_eq!(all.len(), coarser.len());
    let count = |rows: &[bytes::Bytes]| rows.iter().filter(|row| row.len() > 4).count();
    assert!(count(&coarser) < count(&all), "some were left out");
    assert!(coarser.last().unwrap().len() > 4, "the one that came is there");
}

#[test]
fn fragments_of_coarser_levels_lose_removed_owners() {
    for id in ["gr3_links", "sk3_trees"] {
        let store = Unpacked::new(id);
        let options = Options { levels: Some(1), size: Some(80.0), ..Options::default() };
        block_on(build(&address(store.path()), &options, &build_options(), |_level| {})).unwrap();
        let owners = || {
            let snap = begin(store.path()).snap;
            let path = "1/fragment_attributes/object_id";
            let column = crate::arrays::CellArray::open(&snap, path).unwrap().expect("it is there");
            let cells = column.chunks().into_iter().map(|chunk| column.read(&chunk).unwrap());
            let bytes: Vec<u8> = cells.flatten().flatten().collect();
            let rows = bytes.chunks_exact(8).map(|row| i64::from_le_bytes(row.try_into().unwrap()));
            rows.collect::<Vec<_>>()
        };
        let before = owners();
        let removed = before.iter().copied().max().unwrap();
        assert!(removed >= 0, "{id}: {before:?}");
        run(store.path(), &[json!({"op": "object.remove", "objects": [removed]})]).unwrap();
        let expected: Vec<i64> =
            before.iter().map(|owner| if *owner == removed { -1 } else { *owner }).collect();
        assert_eq!(owners(), expected, "{id}");
    }
}

#[test]
fn renumbers_objects_on_all_levels_and_in_groups() {
    let store = Unpacked::new("pl2_negative");
    let options = Options { levels: Some(1), size: Some(0.5), ..Options::default() };
    block_on(build(&address(store.path()), &options, &build_options(), |_level| {})).unwrap();
    let ids: Vec<i64> = positions(store.path()).into_keys().flatten().collect();
    let lines = [
        json!({"op": "group.add", "name": "last", "members": [ids[ids.len() - 1]]}),
        json!({"op": "object.remove", "objects": [ids[0]]}),
    ];
    run(store.path(), &lines).unwrap();
    let before = positions(store.path());
    let gc_options = Collect { renumber: true, ..GC };
    let dry = gc(store.path(), Collect { dry_run: true, ..gc_options }).unwrap();
    assert_eq!((&dry["head"], dry["commits"].as_array().map(Vec::len)), (&json!(1), Some(1)));
    assert_eq!(gc(store.path(), gc_options).unwrap()["head"], 2);
    let after = positions(store.path());
    let dense: Vec<Option<i64>> = (0..before.len() as i64).map(Some).collect();
    assert_eq!(after.keys().copied().collect::<Vec<_>>(), dense);
    assert_eq!(after.into_values().collect::<Vec<_>>(), before.into_values().collect::<Vec<_>>());
    let last = dense.len() as i64 - 1;
    run(store.path(), &[json!({"op": "expect", "group": "last", "members": [last]})]).unwrap();
    assert_fails(undo(store.path(), Undo::Last(1), &CommitOptions::default()), Class::Unsupported);
    // The next id follows the last one, and levels that keep ids can be rebuilt.
    let report =
        run(store.path(), &[json!({"op": "object.add", "positions": [[1, 1], [2, 2]]})]).unwrap();
    assert_eq!(report["commits"][0]["objects"]["added"], json!([last + 1]));
    refresh(store.path(), Refresh::Stale, &CommitOptions::default()).unwrap();
    assert_eq!(check_journal(store.path()).unwrap(), (4, Vec::new()));
}

#[test]
fn check_journal_finds_foreign_changes_and_damage() {
    let store = Unpacked::new("pl2_negative");
    assert_eq!(check_journal(store.path()).unwrap(), (0, Vec::new()));
    edit(store.path());
    edit(store.path());
    assert_eq!(check_journal(store.path()).unwrap(), (2, Vec::new()));
    let found = |change: &dyn Fn()| -> Vec<Json> {
        change();
        let (_, found) = check_journal(store.path()).unwrap();
        found.iter().map(|finding| json!([finding.commit, finding.class.name()])).collect()
    };
    let cell = tree(store.path()).into_keys().find(|key| key.starts_with("0/vertices/c/")).unwrap();
    let cell = store.path().join(cell);
    let original = std::fs::read(&cell).unwrap();
    assert_eq!(found(&|| std::fs::write(&cell, b"foreign").unwrap()), [json!([2, "Conflict"])]);
    std::fs::write(&cell, original).unwrap();
    let log = crate::place::journal_folder(store.path()).unwrap().join(format!("log/{:020}", 1));
    let text = std::fs::read_to_string(&log).unwrap();
    let damaged =
        found(&|| std::fs::write(&log, text.replacen("vertex.move", "vertex.mobe", 1)).unwrap());
    assert_eq!(damaged, [json!([1, "Checksum"]), json!([2, "Checksum"])]);
}

#[test]
fn stale_marks_are_read_whole_or_not() {
    let mark = json!({"boxes": [[[0, 0], [1, 1]]], "objects": [3]});
    assert_eq!(read_stale(&mark, 2).unwrap().objects, [3]);
    assert_eq!(read_stale(&mark, 3), None);
    assert_eq!(read_stale(&json!({"boxes": [[[0, null], [1, 1]]], "objects": []}), 2), None);
    assert_eq!(read_stale(&json!({"boxes": [], "objects": ["x"]}), 2), None);
}

#[test]
fn gc_removes_only_temporary_files_of_dead_writers() {
    let store = Unpacked::new("pl2_negative");
    edit(store.path());
    let temporary = store.path().join("0/.tmp-4711-3");
    let foreign = [store.path().join("0/.tmp-notes"), store.path().join("README")];
    for path in foreign.iter().chain([&temporary]) {
        std::fs::write(path, "x").unwrap();
    }
    let gc_options = Collect { grace: std::time::Duration::from_secs(3600), ..GC };
    assert_eq!(gc(store.path(), gc_options).unwrap()["removed"]["files"], 0);
    let report = gc(store.path(), GC).unwrap();
    assert_eq!(report["removed"]["files"], 1);
    assert!(!temporary.exists() && foreign.iter().all(|path| path.exists()));
}
