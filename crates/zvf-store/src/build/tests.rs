//! Stores built in folders and in memory: hand-typed bytes, exact messages of refusals, and any
//! order of calls.

use std::fs;
use std::path::Path;

use archives::tree;
use object_store::memory::InMemory;
use proptest::prelude::*;
use serde_json::json;
use zvf_error::Result;
use zvf_format::key::ChunkKey;
use zvf_metadata::{Axis, CodecSpec, DataType, Dtype, FillValue, Object, ZarrVectors};

use super::*;
use crate::{Caching, CodecPipeline, Store};

mod any_order;
mod shards;

fn root() -> Root {
    let block = ZarrVectors::new(vec![10.0, 10.0], [vec![-10.0, 0.0], vec![19.0, 9.0]]);
    let mut root = Root::new(block, Axis::spatial(2).unwrap());
    root.multiscales[0].datasets.push(zvf_metadata::Dataset::new("0", vec![1.0; 2], vec![5.0; 2]));
    root
}

fn key(text: &str) -> ChunkKey {
    text.parse::<ChunkKey>().unwrap()
}

fn options() -> BuildOptions {
    BuildOptions { sync: false, ..BuildOptions::default() }
}

fn replacing() -> BuildOptions {
    BuildOptions { replace: true, ..options() }
}

async fn begin(at: &Path) -> Result<Build> {
    Build::begin(at.to_str().unwrap(), options()).await
}

async fn level(build: &Build, vertices: u64) {
    let level = json!({"level": 0, "vertex_count": vertices, "arrays_present": ["vertices"]});
    let level = json!({"zarr_vectors_level": level});
    let level = GroupDoc::new(level.as_object().unwrap().clone());
    build.group("0", &level).await.unwrap();
}

/// Builds a small store with one array over the grid.
async fn small(build: &Build, payload: &'static [u8]) {
    level(build, 1).await;
    let cells = build.cells("0/vertices", CellPlan::new(vec![-1, 0], vec![1, 0])).unwrap();
    cells.put(&key("-1.0"), payload.into()).unwrap();
    cells.finish(|_| ()).await.unwrap();
}

/// Publishes a small store.
async fn write(at: &Path, options: BuildOptions, payload: &'static [u8]) {
    let build = Build::begin(at.to_str().unwrap(), options).await.unwrap();
    small(&build, payload).await;
    build.publish(&root()).await.unwrap();
}

fn names(at: &Path) -> Vec<String> {
    let entries = fs::read_dir(at).unwrap();
    let mut names: Vec<_> =
        entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[tokio::test]
async fn documents_and_cells_typed_by_hand() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().join("a.zarrvectors");
    let build = begin(&at).await.unwrap();
    let attributes = json!({"zv_array": "vertices", "dtype": "float32", "encoding": "raw"});
    let attributes: Object = attributes.as_object().unwrap().clone();
    let plan = CellPlan { attributes, ..CellPlan::new(vec![-1, 0], vec![1, 0]) };
    let cells = build.cells("0/vertices", plan.clone()).unwrap();
    for (at, payload) in
        [("1.0", &b"\x01"[..]), ("-1.0", b"\0\0\x40\xc0\0\0\x80\x40"), ("0.0", b"")]
    {
        cells.put(&key(at), payload.into()).unwrap();
    }
    let report = cells.finish(|_| ()).await.unwrap();
    assert_eq!(
        (report.items, report.payload_bytes, report.stored_bytes, report.objects),
        (2, 9, 25, 2)
    );

    // The shard of the example in the specification.
    let plan = CellPlan { shard: Some(vec![2, 2]), ..CellPlan::new(vec![0, 0], vec![2, 2]) };
    let cells = build.cells("0/vertex_attributes/sharded", plan).unwrap();
    let (first_cell, second_cell) =
        (b"\0\0\x40\xc0\0\0\x80\x40", [&[0, 0, 0x80, 0x3f][..]; 6].concat());
    cells.put(&key("1.0"), second_cell.into()).unwrap();
    cells.put(&key("0.0"), first_cell.as_slice().into()).unwrap();
    assert_eq!(cells.shard_key(&key("1.1")).unwrap(), key("0.0"));
    cells.close_shard(&key("0.1")).unwrap();
    let report = cells
        .finish(|attributes| drop(attributes.insert("name".into(), "sharded".into())))
        .await
        .unwrap();
    assert_eq!((report.items, report.stored_bytes, report.objects), (2, 116, 1));

    let mut groups = build
        .rows("0/groups", RowPlan { codecs: CodecPipeline::empty(), ..RowPlan::default() })
        .unwrap();
    groups.push(b"ab").unwrap();
    groups.push(b"").unwrap();
    groups.finish(|_| ()).await.unwrap();
    let plan =
        RowPlan { chunk_rows: Some(2), codecs: CodecPipeline::empty(), ..RowPlan::default() };
    let mut rows = build.rows("0/object_index/manifests", plan).unwrap();
    for row in [&b"a"[..], b"b", b"", b"", b"c"] {
        rows.push(row).unwrap();
    }
    let report = rows.finish(|_| ()).await.unwrap();
    assert_eq!((report.items, report.objects), (5, 2));

    let int16 = "int16".parse::<Dtype>().unwrap();
    let plan = DensePlan {
        columns: Some(2),
        chunk_rows: Some(2),
        fill: FillValue::int(-1),
        codecs: CodecPipeline::empty().with_crc32c(),
        ..DensePlan::new(int16)
    };
    let mut dense = build.dense("0/object_attributes/pair", plan).unwrap();
    dense.push(&[[1, 0, 2, 0], [3, 0, 4, 0], [255; 4], [255; 4], [5, 0, 6, 0]].concat()).unwrap();
    assert_eq!(dense.finish(|_| ()).await.unwrap().objects, 2);
    build.publish(&root()).await.unwrap();

    let files = tree(&at);
    let text = |name: &str| std::str::from_utf8(&files[name]).unwrap().to_owned();
    let grid =
        r#""chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}}, "#;
    let end = r#""zarr_format": 3, "node_type": "array", "storage_transformers": []}"#;
    let check_document = |name: &str, lines: &[&str]| {
        assert_eq!(text(name), [&lines[..2].concat(), grid, &lines[2..].concat(), end].concat());
    };
    check_document(
        "0/vertices/zarr.json",
        &[
            r#"{"shape": [3, 1], "data_type": "variable_length_bytes", "#,
            r#""chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1, 1]}}, "#,
            r#""fill_value": "", "codecs": [{"name": "vlen-bytes", "configuration": {}}], "#,
            r#""attributes": {"nonempty_chunks": ["-1.0", "1.0"], "chunk_grid_origin": [-1, 0], "#,
            r#""zv_array": "vertices", "dtype": "float32", "encoding": "raw"}, "#,
        ],
    );
    check_document(
        "0/vertex_attributes/sharded/zarr.json",
        &[
            r#"{"shape": [3, 3], "data_type": "variable_length_bytes", "#,
            r#""chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2, 2]}}, "#,
            r#""fill_value": "", "codecs": [{"name": "sharding_indexed", "configuration": {"#,
            r#""chunk_shape": [1, 1], "codecs": [{"name": "vlen-bytes", "configuration": {}}], "#,
            r#""index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}], "#,
            r#""index_location": "end"}}], "#,
            r#""attributes": {"nonempty_chunks": ["0.0", "1.0"], "name": "sharded"}, "#,
        ],
    );
    check_document(
        "0/object_attributes/pair/zarr.json",
        &[
            r#"{"shape": [5, 2], "data_type": "int16", "#,
            r#""chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2, 2]}}, "#,
            r#""fill_value": -1, "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}], "#,
            r#""attributes": {}, "#,
        ],
    );
    assert_eq!(
        text("0/object_attributes/zarr.json"),
        r#"{"zarr_format": 3, "node_type": "group", "attributes": {}}"#
    );
    assert_eq!(files["0/vertices/c/0/0"], b"\x01\0\0\0\x08\0\0\0\0\0\x40\xc0\0\0\x80\x40");
    assert_eq!(files["0/vertices/c/2/0"], b"\x01\0\0\0\x01\0\0\0\x01");
    let shard = &files["0/vertex_attributes/sharded/c/0/0"];
    #[rustfmt::skip]
    assert_eq!(shard[..112], [
        &b"\x01\0\0\0\x08\0\0\0"[..], first_cell, b"\x01\0\0\0\x18\0\0\0", &[0, 0, 0x80, 0x3f].repeat(6),
        b"\0\0\0\0\0\0\0\0\x10\0\0\0\0\0\0\0", &[255; 16],
        b"\x10\0\0\0\0\0\0\0\x20\0\0\0\0\0\0\0", &[255; 16],
    ].concat());
    // The checksum of the example in the specification, which has the same spans.
    assert_eq!(shard[112..], *b"\x2a\x5c\x88\x59");
    assert_eq!(files["0/groups/c/0"], b"\x02\0\0\0\x02\0\0\0ab\0\0\0\0");
    assert_eq!(files["0/object_index/manifests/c/0"], b"\x02\0\0\0\x01\0\0\0a\x01\0\0\0b");
    assert_eq!(files["0/object_index/manifests/c/2"], b"\x02\0\0\0\x01\0\0\0c\0\0\0\0");
    assert_eq!(files["0/object_attributes/pair/c/0/0"][..8], [1, 0, 2, 0, 3, 0, 4, 0]);
    assert_eq!(files["0/object_attributes/pair/c/2/0"][..8], [5, 0, 6, 0, 255, 255, 255, 255]);
    let expected = "zarr.json 0/zarr.json 0/vertices/zarr.json 0/vertices/c/0/0 0/vertices/c/2/0 \
        0/vertex_attributes/zarr.json 0/vertex_attributes/sharded/zarr.json \
        0/vertex_attributes/sharded/c/0/0 0/groups/zarr.json 0/groups/c/0 \
        0/object_index/zarr.json 0/object_index/manifests/zarr.json \
        0/object_index/manifests/c/0 0/object_index/manifests/c/2 \
        0/object_attributes/zarr.json 0/object_attributes/pair/zarr.json \
        0/object_attributes/pair/c/0/0 0/object_attributes/pair/c/2/0";
    let mut expected: Vec<&str> = expected.split(' ').collect();
    expected.sort();
    assert_eq!(files.keys().map(String::as_str).collect::<Vec<_>>(), expected);
    assert_eq!(names(dir.path()), ["a.zarrvectors"], "no scratch is left");
}

#[tokio::test]
async fn stores_appear_complete() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().join("x/y/a.zv");
    let build = begin(&at).await.unwrap();
    small(&build, b"abc").await;
    assert!(!at.exists());
    let error = begin(&at).await.unwrap_err();
    assert_eq!(error.class(), Class::Conflict);
    let text = "Conflict, store: another process is changing it (lock .a.zv.zvf-lock)";
    assert_eq!(error.to_string(), text);
    build.publish(&root()).await.unwrap();
    assert!(at.join("zarr.json").is_file());
    assert_eq!(begin(&at).await.unwrap_err().class(), Class::AlreadyExists);
    assert_eq!(names(at.parent().unwrap()), ["a.zv"]);
    assert_eq!(tree(&at)["0/vertices/c/0/0"][8..], *b"abc");
}

#[tokio::test]
async fn dropped_builds_leave_nothing() {
    let dir = tempfile::tempdir().unwrap();
    for abandon in [false, true] {
        let build = begin(&dir.path().join("new/a.zv")).await.unwrap();
        small(&build, b"abc").await;
        let clone = build.clone();
        if abandon {
            build.abandon().await.unwrap();
        } else {
            drop(build);
            assert!(dir.path().join("new").exists());
        }
        drop(clone);
        assert_eq!(names(dir.path()), [""; 0]);
    }
}

#[tokio::test]
async fn leftovers_of_dead_builds_are_removed_and_live_ones_kept() {
    let dir = tempfile::tempdir().unwrap();
    let dead_build = dir.path().join(".a.zv.zvf-build-0123456789abcdef");
    fs::create_dir_all(dead_build.join("store/0")).unwrap();
    fs::write(dead_build.join("lock"), "").unwrap();
    fs::create_dir(dir.path().join(".a.zv.zvf-build-without")).unwrap();
    fs::create_dir(dir.path().join(".b.zv.zvf-build-other")).unwrap();
    let living = begin(&dir.path().join("a.zv")).await.unwrap();
    assert_eq!(begin(&dir.path().join("a.zv")).await.unwrap_err().class(), Class::Conflict);
    let left = names(dir.path());
    assert_eq!(left.len(), 3, "the lock, its scratch, and another store's: {left:?}");
    assert!(left.iter().any(|name| name == ".b.zv.zvf-build-other"));
    drop(living);
    assert_eq!(names(dir.path()), [".b.zv.zvf-build-other"]);
}

#[tokio::test]
async fn an_old_store_is_renamed_back() {
    let dir = tempfile::tempdir().unwrap();
    let old = dir.path().join(".a.zv.zvf-build-0123456789abcdef/old");
    fs::create_dir_all(&old).unwrap();
    fs::write(old.join("zarr.json"), "{}").unwrap();
    let error = begin(&dir.path().join("a.zv")).await.unwrap_err();
    assert_eq!(error.class(), Class::AlreadyExists);
    assert_eq!(names(dir.path()), ["a.zv"]);
    assert_eq!(names(&dir.path().join("a.zv")), ["zarr.json"]);
}

#[tokio::test]
async fn a_store_is_replaced_in_one_step() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().join("a.zv");
    for payload in [&b"old"[..], b"new"] {
        write(&at, replacing(), payload).await;
        assert_eq!(tree(&at)["0/vertices/c/0/0"][8..], *payload);
        assert_eq!(names(dir.path()), ["a.zv"]);
    }
    // If names cannot be exchanged atomically, replacing takes two steps.
    let disk = Disk::default().without_exchange();
    write(&at, BuildOptions { disk, ..replacing() }, b"again").await;
    assert_eq!(tree(&at)["0/vertices/c/0/0"][8..], *b"again");
    assert_eq!(names(dir.path()), ["a.zv"]);
    // Through a symbolic link, the store is replaced and not the link.
    #[cfg(unix)]
    {
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&at, &link).unwrap();
        write(&link, replacing(), b"through").await;
        assert_eq!(tree(&at)["0/vertices/c/0/0"][8..], *b"through");
        assert_eq!(names(dir.path()), ["a.zv", "link"]);
    }
}

#[tokio::test]
async fn refused_targets_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    fs::write(path("file"), "").unwrap();
    fs::create_dir_all(path("full/x")).unwrap();
    fs::create_dir_all(path("journaled.zvf/log")).unwrap();
    fs::write(path("journaled.zvf/log/1"), "").unwrap();
    fs::create_dir_all(path("gone.zvf/log")).unwrap();
    fs::write(path("gone.zvf/log/1"), "").unwrap();
    fs::create_dir_all(path("journaled.zvf/repair-1")).unwrap();
    fs::create_dir(path("journaled")).unwrap();
    fs::write(path("journaled/zarr.json"), r#"{"zarr_vectors":{}}"#).unwrap();
    fs::create_dir(path("array")).unwrap();
    fs::write(path("array/zarr.json"), r#"{"node_type":"array"}"#).unwrap();
    fs::create_dir(path("empty")).unwrap();
    for (name, replace, message) in [
        ("file", false, "AlreadyExists, file already exists".to_owned()),
        ("file", true, "AlreadyExists, file already exists".to_owned()),
        ("full", false, "AlreadyExists, full already exists".to_owned()),
        ("full", true, "InvalidArgument, store: expected a store: nothing else is replaced, found \"a directory without zarr.json\"".to_owned()),
        ("array", true, "InvalidArgument, store: expected a store: nothing else is replaced, found \"another folder of Zarr\"".to_owned()),
        ("journaled", true, "InvalidArgument, store to replace: expected one without a journal: write to another name, or move NAME.zvf away to give up its history, found NAME.zvf beside it".to_owned()),
        ("gone", false, "AlreadyExists, store: expected a name without the journal of a store that is gone: take another name, or move NAME.zvf away, found NAME.zvf beside it".to_owned()),
    ] {
        let options = BuildOptions { replace, ..options() };
        let error = Build::begin(path(name).to_str().unwrap(), options).await.unwrap_err();
        assert_eq!(error.to_string(), message, "{name}");
    }
    let error = Build::begin("/", options()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "InvalidArgument, path: expected a path that ends with a name, found \"/\""
    );
    let error = begin(&path("file/below")).await.unwrap_err();
    assert_eq!(error.class(), Class::Io);
    write(&path("empty"), options(), b"x").await;
    assert!(path("empty/zarr.json").is_file());
    let left = names(dir.path());
    assert_eq!(left, ["array", "empty", "file", "full", "gone.zvf", "journaled", "journaled.zvf"]);
}

#[tokio::test]
async fn backups_of_a_repair_do_not_block_a_build() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().join("a");
    write(&at, options(), b"old").await;
    fs::create_dir_all(dir.path().join("a.zvf/repair-1")).unwrap();
    fs::write(at.join("notes.txt"), "mine").unwrap();
    write(&at, replacing(), b"new").await;
    assert_eq!(tree(&at)["0/vertices/c/0/0"][8..], *b"new");
    assert_eq!(fs::read(at.join("notes.txt")).unwrap(), b"mine");
}

#[tokio::test]
async fn a_store_that_changed_since_it_was_opened_is_not_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().join("a");
    let address = at.to_str().unwrap();
    write(&at, options(), b"old").await;
    let source = Store::open(address, Default::default()).await.unwrap();
    let other_build = begin(&dir.path().join("b")).await.unwrap();
    other_build.check_source(&source).unwrap();
    drop(other_build);
    let build = Build::begin(address, replacing()).await.unwrap();
    build.check_source(&source).unwrap();
    small(&build, b"new").await;
    build.publish(&root()).await.unwrap();
    let late_build = Build::begin(address, replacing()).await.unwrap();
    let error = late_build.check_source(&source).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Conflict, store: it changed while the command ran: found one that was changed meanwhile"
    );
    drop(late_build);
    // A program that ignores locks changed the store.
    let late_build = Build::begin(address, replacing()).await.unwrap();
    small(&late_build, b"newer").await;
    let mut text = fs::read(at.join("zarr.json")).unwrap();
    text.push(b' ');
    fs::write(at.join("zarr.json"), &text).unwrap();
    assert_eq!(late_build.publish(&root()).await.unwrap_err().class(), Class::Conflict);
    assert_eq!(fs::read(at.join("zarr.json")).unwrap(), text);
    assert_eq!(names(dir.path()), ["a"]);
}

#[tokio::test]
async fn a_file_replaces_a_lock_where_there_is_none() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().join("a");
    assert_eq!(begin(&dir.path().join("b")).await.unwrap().notices(), []);
    let disk = Disk::default().without_locks();
    let lockless = BuildOptions { disk, ..options() };
    let build = Build::begin(at.to_str().unwrap(), lockless.clone()).await.unwrap();
    assert_eq!(build.notices(), [Notice::NoFileLocks]);
    let busy = Build::begin(at.to_str().unwrap(), lockless).await.unwrap_err();
    assert_eq!(busy.class(), Class::Conflict);
    small(&build, b"x").await;
    build.publish(&root()).await.unwrap();
    assert_eq!(names(dir.path()), ["a"]);
}

#[tokio::test]
async fn each_check_has_its_message() {
    let dir = tempfile::tempdir().unwrap();
    let build = begin(&dir.path().join("a")).await.unwrap();
    let cells = build.cells("0/x", CellPlan::new(vec![-1, 0], vec![2, 2])).unwrap();
    let rule = "node: expected a path that nothing else has, found";
    for (path, found) in [
        ("0/x", "the same path twice"),
        ("0/x/y", "a path below an array"),
        ("0", "a path above another node"),
    ] {
        let message = format!("InvalidArgument in {path}, {rule} {found}");
        check_refused(build.rows(path, RowPlan::default()), &message);
    }
    let outside = build.rows("../x", RowPlan::default()).err().unwrap();
    assert_eq!(outside.class(), Class::InvalidKey);
    let count = "as many components as the rank, found another count";
    for (low, high, found) in [
        (&[0][..], &[1, 1][..], count),
        (&[], &[1, 1], count),
        (&[0, 1], &[1, 0], "a highest key above the lowest, found one below"),
    ] {
        let plan = CellPlan { rank: 2, low: low.into(), high: high.into(), ..CellPlan::default() };
        let message = format!("InvalidArgument in 0/p, range of keys: expected {found}");
        check_refused(build.cells("0/p", plan), &message);
    }
    let put = |text: &str| cells.put(&key(text), b"x".as_slice().into());
    check_refused(put("0"), "InvalidArgument in 0/x, components of a key: expected 2, found 1");
    check_refused(
        put("0.3"),
        "OutOfBounds in 0/x, component of a key: expected at most 2, found 3",
    );
    let low = put("-2.0").unwrap_err().to_string();
    assert!(low.starts_with("OutOfBounds in 0/x, chunk key"), "{low}");
    put("0.0").unwrap();
    check_refused(
        build.clone().publish(&root()).await,
        "InvalidArgument in 0/x, arrays: expected all of them finished, found one that is not",
    );
    let clone = cells.clone();
    cells.finish(|_| ()).await.unwrap();
    check_refused(
        clone.put(&key("1.0"), b"x".as_slice().into()),
        "InvalidArgument in 0/x, array: expected one that goes on, found a finished one",
    );
    let int = "int32".parse::<Dtype>().unwrap();
    let mut dense = build.dense("0/d", DensePlan::new(int)).unwrap();
    check_refused(
        dense.push(b"abc"),
        "BadShape in 0/d, bytes of rows: expected whole rows, found 3",
    );
    check_refused(
        build.rows("0/r", RowPlan { chunk_rows: Some(0), ..RowPlan::default() }),
        "InvalidArgument in 0/r, rows of a chunk: expected at least 1, found 0",
    );
    check_refused(
        build.dense("0/e", DensePlan { columns: Some(0), ..DensePlan::new(int) }),
        "InvalidArgument in 0/e, bytes of a chunk: expected 1 byte to 1 GiB, found 0",
    );
}

fn check_refused<T>(result: Result<T>, message: &str) {
    assert_eq!(result.err().unwrap().to_string(), message);
}

#[tokio::test]
async fn a_write_that_failed_is_never_published() {
    let dir = tempfile::tempdir().unwrap();
    let build = begin(&dir.path().join("a")).await.unwrap();
    small(&build, b"x").await;
    let cells = build.cells("0/y", CellPlan::new(vec![0], vec![1])).unwrap();
    cells.put(&key("1"), b"x".as_slice().into()).unwrap();
    assert_eq!(
        cells.put(&key("1"), b"y".as_slice().into()).unwrap_err().class(),
        Class::AlreadyExists
    );
    drop(cells.finish(|_| ()).await);
    assert_eq!(build.publish(&root()).await.unwrap_err().class(), Class::AlreadyExists);
    assert_eq!(names(dir.path()), [""; 0]);
}

#[tokio::test]
async fn object_stores_are_not_replaced_and_not_mixed() {
    let memory: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let begin = |prefix: &'static str, options| {
        Build::in_object_store(Arc::clone(&memory), prefix, options)
    };
    let build = begin("a/b", options()).await.unwrap();
    small(&build, b"abc").await;
    build.publish(&root()).await.unwrap();
    let (prefix, memory) = ("a/b".into(), Arc::clone(&memory));
    let store = Store::from_object_store(memory, &prefix, OpenOptions::default()).await;
    let vertices = store.unwrap().level(0).await.unwrap();
    let vertices = vertices.required_cells("vertices").await.unwrap();
    assert_eq!(vertices.read(&key("-1.0"), Caching::Once).await.unwrap().unwrap(), "abc");
    check_refused(
        begin("a/b", options()).await,
        "AlreadyExists, store: expected a prefix with nothing below it, found objects",
    );
    check_refused(
        begin("a/c", replacing()).await,
        "Unsupported, place: expected a new prefix: an object store cannot replace a store in one step, found the old one",
    );
}

#[tokio::test]
async fn objects_that_another_process_wrote_must_be_there() {
    let dir = tempfile::tempdir().unwrap();
    let (address, work) = (dir.path().join("a.zv"), dir.path().join("work"));
    let address = address.to_str().unwrap();
    let join = || Build::join(address, &work, BuildOptions::default());
    for (path, shard, object) in [("0/a", None, "c/1/0"), ("0/b", Some(vec![2, 2]), "c/0/0")] {
        let plan = CellPlan { shard, ..CellPlan::new(vec![0, 0], vec![3, 3]) };
        let first = join().await.unwrap();
        let cells = first.cells(path, plan.clone()).unwrap();
        for key in ["1.0", "0.1", "3.3"] {
            cells.put(&key.parse::<ChunkKey>().unwrap(), Bytes::from_static(b"cell")).unwrap();
        }
        let (_, keys) = cells.finish_part().unwrap();
        first.flush().await.unwrap();
        let last = join().await.unwrap();
        let cells = last.cells(path, plan).unwrap();
        assert_eq!(cells.find_missing(&keys).await.unwrap(), [] as [Box<str>; 0]);
        fs::remove_file(work.join("store").join(path).join(object)).unwrap();
        let expected: &[&str] = if path == "0/a" { &["1.0"] } else { &["0.1", "1.0"] };
        let missing = cells.find_missing(&keys).await.unwrap();
        assert_eq!(missing.iter().map(|key| &**key).collect::<Vec<_>>(), expected, "{path}");
        assert!(cells.find_missing(&["4.0".into()]).await.is_err(), "no key of the array");
    }
}
