//! Old stores and the results of their migration.

#[path = "../../zvf-tensor/tests/files/contents.rs"]
mod contents;

use std::sync::Arc;

use archives::Unpacked;
use object_store::memory::InMemory;
use tempfile::TempDir;
use zvf_format::key::Delta;
use zvf_migrate::{Migration, MigrationPlan};
use zvf_model::{Kind, LevelId, LevelReader, Parametric, Value};
use zvf_store::{Build, BuildOptions, Caching, CodecPipeline, OpenOptions, Store};
use zvf_validate::{Checks, Observer, validate_at};

use contents::contents;

/// Returns the archived stores of old formats.
fn old_ids() -> Vec<String> {
    archives::ids().into_iter().filter(|id| id.starts_with("v0")).collect()
}

/// Migrates `old` into a folder.
async fn migrate(old: &Store, migration: &Migration) -> (TempDir, Store) {
    let dir = archives::scratch();
    let address = dir.path().join("new.zarrvectors");
    let address = address.to_str().unwrap();
    let build = Build::begin(address, BuildOptions { sync: false, ..BuildOptions::default() });
    let plan = MigrationPlan::build(old).await.unwrap();
    plan.apply(migration, build.await.unwrap(), |_| ()).await.unwrap();
    let store = Store::open(address, OpenOptions::default()).await.unwrap();
    (dir, store)
}

/// Returns the findings of a validator for the store in `dir`.
async fn findings(dir: &TempDir) -> Vec<String> {
    let address = dir.path().join("new.zarrvectors");
    let (options, observer) = (Checks::default(), Observer::default());
    let address = address.to_str().unwrap();
    let report = validate_at(address, OpenOptions::default(), &options, &observer).await.unwrap();
    report.findings.iter().map(ToString::to_string).collect()
}

/// `cargo xtask conformance` compares the answers of the migrated stores with those of the old ones.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_store_is_migrated_alike_with_and_without_shards() {
    let ids = old_ids();
    assert!(ids.len() >= 15, "{ids:?}");
    for id in ids {
        let unpacked = Unpacked::new(&id);
        let old = unpacked.open().await;
        let (dir, new) = migrate(&old, &Migration::default()).await;
        assert_eq!(new.version().to_string(), "0.9.2", "{id}");
        assert_eq!(findings(&dir).await, Vec::<String>::new(), "{id}");
        let (shard, codecs) = (Some(vec![2]), CodecPipeline::zstd(3));
        let sharded = Migration { name: "named.zarr".to_owned(), shard, codecs };
        let (dir, other) = migrate(&old, &sharded).await;
        assert_eq!(findings(&dir).await, Vec::<String>::new(), "{id}");
        let expected = contents(&new).await;
        assert!(expected.len() > 2 && contents(&other).await == expected, "{id}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn from_memory_to_memory() {
    let memory = archives::in_memory(&archives::files("v070_pc3_objects_pyramid")).await;
    let old = Store::from_object_store(memory, &"".into(), OpenOptions::default()).await.unwrap();
    let to: Arc<InMemory> = Arc::default();
    let options = BuildOptions::default();
    let build = Build::in_object_store(to.clone(), "a/b", options).await.unwrap();
    let mut last_cells = 0;
    let plan = MigrationPlan::build(&old).await.unwrap();
    let report =
        plan.apply(&Migration::default(), build, |step| last_cells = step.cells).await.unwrap();
    assert_eq!((report.levels, report.objects, report.cells), (3, 60, last_cells));
    let new = Store::from_object_store(to, &"a/b".into(), OpenOptions::default()).await.unwrap();
    let (_dir, in_folder) = migrate(&old, &Migration::default()).await;
    assert!(contents(&new).await == contents(&in_folder).await);
}

#[tokio::test]
async fn groups_of_parametric_objects_are_migrated() {
    let unpacked = Unpacked::new("suites/parametric06");
    let (_dir, new) = migrate(&unpacked.open().await, &Migration::default()).await;
    let groups = Parametric::open(&new).await.unwrap().unwrap().groups().await.unwrap().unwrap();
    let members = groups.members(&[0, 1]).await.unwrap();
    let ids: Vec<Vec<bool>> = members
        .iter()
        .map(|group| (0..3).map(|id| group.contains(zvf_model::ObjectId(id))).collect())
        .collect();
    assert_eq!(ids, [[true, true, false], [false, false, true]]);
}

#[tokio::test]
async fn foreign_nodes_are_copied() {
    let mut files = archives::files("v060_sl3_pyramid");
    let group = br#"{"zarr_format": 3, "node_type": "group", "attributes": {"mine": [1, 2]}}"#;
    files.push(("notes/zarr.json".to_owned(), group.to_vec()));
    files.push(("notes/text".to_owned(), b"as it is".to_vec()));
    files.push(("0/mine/zarr.json".to_owned(), group.to_vec()));
    files.push(("headers/trk/zarr.json".to_owned(), group.to_vec()));
    let unpacked = Unpacked::from_files(&files);
    let old = unpacked.open().await;
    let (dir, new) = migrate(&old, &Migration::default()).await;
    for path in ["notes", "0/mine", "headers/trk"] {
        let doc = new.nodes().group(path).await.unwrap().unwrap();
        assert_eq!(doc.attributes["mine"][1], 2, "{path}");
    }
    let text = std::fs::read(dir.path().join("new.zarrvectors/notes/text")).unwrap();
    assert_eq!(text, b"as it is");
    let plan = MigrationPlan::build(&old).await.unwrap();
    let changes: Vec<_> = plan.changes().map(|change| (change.path, change.after)).collect();
    assert_eq!(changes[0], ("", "0.9.2"));
    for change in [
        ("0/links/0", "bridges that follow from the manifests"),
        ("0/links/+1", "records by offsets"),
        ("0/mine", "the same"),
        ("1/object_attributes/mean", "values, with a fill value for the others"),
        ("headers/trk", "the same"),
    ] {
        assert!(changes.contains(&change), "{change:?} in {changes:?}");
    }
}

/// Returns the files of a small array of bytes, as 0.6 and 0.7 write them.
fn tiny(path: &str, bytes: Vec<u8>) -> [(String, Vec<u8>); 2] {
    let doc = format!(
        r#"{{"shape": [{0}], "data_type": "uint8", "chunk_grid": {{"name": "regular", "configuration":
        {{"chunk_shape": [{0}]}}}}, "chunk_key_encoding": {{"name": "default", "configuration":
        {{"separator": "/"}}}}, "fill_value": 0, "codecs": [{{"name": "bytes"}}], "attributes": {{}},
        "zarr_format": 3, "node_type": "array", "storage_transformers": []}}"#,
        bytes.len()
    );
    [(format!("{path}/zarr.json"), doc.into_bytes()), (format!("{path}/c/0"), bytes)]
}

#[tokio::test]
async fn parametric_objects_are_migrated() {
    let mut files = archives::files("v060_ln3");
    for (path, attributes) in [
        (
            "parametric",
            r#"{"parametric_types": {"7": {"name": "disc", "coefficients": ["x", "r"]}}}"#,
        ),
        ("parametric/objects", r#"{"num_objects": 2, "max_row_length": 3, "dtype": "float64"}"#),
        ("parametric/names", r#"{"num_objects": 2}"#),
        ("parametric/groups", r#"{"zv_array": "groups", "num_groups": 1}"#),
        (
            "parametric/object_attributes/mass",
            r#"{"dtype": "uint8", "shape": [2], "has_present_mask": true}"#,
        ),
        ("parametric/object_attributes/round", r#"{"dtype": "bool", "shape": [2]}"#),
    ] {
        let doc =
            format!(r#"{{"zarr_format": 3, "node_type": "group", "attributes": {attributes}}}"#);
        files.push((format!("{path}/zarr.json"), doc.into_bytes()));
    }
    let floats = [7.0, 1.5, 2.5, 7.0, 3.0, f64::NAN].map(f64::to_le_bytes).concat();
    files.extend(tiny("parametric/objects/data", floats));
    files.extend(tiny("parametric/names/data", b"one\ntwo".to_vec()));
    files.extend(tiny("parametric/groups/data", 1_i64.to_le_bytes().to_vec()));
    files.extend(tiny("parametric/groups/offsets", 0_i64.to_le_bytes().to_vec()));
    files.extend(tiny("parametric/object_attributes/mass/data", vec![255, 9]));
    files.extend(tiny("parametric/object_attributes/mass/present_mask", vec![1, 0]));
    files.extend(tiny("parametric/object_attributes/round/data", vec![1, 0]));
    let unpacked = Unpacked::from_files(&files);
    let old = unpacked.open().await;
    let (dir, new) = migrate(&old, &Migration::default()).await;
    let mut answers = Vec::new();
    for store in [&old, &new] {
        let found = Parametric::open(store).await.unwrap().unwrap();
        let members = found.groups().await.unwrap().unwrap().members(&[0]).await.unwrap();
        let mass =
            found.object_attribute("mass").await.unwrap().unwrap().rows(&[0, 1]).await.unwrap();
        // Both values of a boolean occur, including the fill value of new arrays.
        let round =
            found.object_attribute("round").await.unwrap().unwrap().rows(&[0, 1]).await.unwrap();
        assert_eq!([0, 1].map(|row| round.value(row, 0)), [true, false].map(Value::Bool));
        answers.push((found.shapes().await.unwrap(), members, mass.value(0, 0), mass.value(1, 0)));
    }
    assert_eq!(answers[0], answers[1]);
    // The default value for absence occurs in this store.
    assert_eq!((&answers[1].2, &answers[1].3), (&Value::UInt(255), &Value::Null));
    assert_eq!((answers[1].0[1].name.as_str(), &answers[1].0[1].coefficients), ("two", &vec![3.0]));
    assert_eq!(findings(&dir).await, Vec::<String>::new());
}

#[tokio::test]
async fn a_new_store_is_refused() {
    let unpacked = Unpacked::new("pc3_basic");
    let error = MigrationPlan::build(&unpacked.open().await).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "Unsupported, version: expected one before 0.9: zvf rewrite --shard and zvf rewrite --codec write others \
         anew, found \"0.9.2\""
    );
}

/// Checks that bridges join the last row of a run with the first one of the next.
#[tokio::test]
async fn bridges_name_rows() {
    let unpacked = Unpacked::new("v070_sl3_pyramid");
    let old = unpacked.open().await;
    let (_dir, new) = migrate(&old, &Migration::default()).await;
    let level = LevelReader::open(&new, LevelId(0)).await.unwrap();
    assert_eq!(level.kinds(), [Kind::Streamline]);
    let family = level.links(Delta::SAME).await.unwrap().unwrap();
    let mut links = Vec::new();
    for segment in family.segments() {
        let places: Vec<usize> = (0..segment.cells().await.unwrap().len()).collect();
        for cell in segment.read(&places, Caching::Once).await {
            let cell = cell.unwrap();
            for i in (0..cell.len()).filter(|i| cell.is_leading(*i)) {
                let ends: Vec<_> = cell.endpoints(i).map(|(c, row)| format!("{c}/{row}")).collect();
                links.push(ends);
            }
        }
    }
    links.sort();
    let mut expected = Vec::new();
    let index = level.objects().await.unwrap().unwrap();
    let rows: Vec<u64> = (0..index.slots()).collect();
    for manifest in index.manifests(&rows).await.unwrap() {
        let mut before = None;
        for (chunk, fragment) in manifest.references() {
            let found = level.fragments(&[chunk]).await.pop().unwrap().unwrap();
            let rows: Vec<u64> = found.view().get(fragment).unwrap().rows().collect();
            if let Some((from, row)) = before.filter(|(from, _)| *from != chunk) {
                expected.push(vec![format!("{from}/{row}"), format!("{chunk}/{}", rows[0])]);
            }
            before = Some((chunk, *rows.last().unwrap()));
        }
    }
    expected.sort();
    assert!(links.len() > 20);
    assert_eq!(links, expected);
}
