//! Killed builds: finished levels are not built again, and the result is that of an uninterrupted build.

use std::collections::BTreeMap;
use std::fs;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};

use archives::tree;
use futures_util::FutureExt as _;
use tempfile::TempDir;
use zvf_metadata::CrossLevelStorage;
use zvf_pyramid::{LevelReport, Options, PyramidEvent, PyramidNotice};

use crate::fixtures::{build, store, unsynced, walks, with_objects};

/// A name, and a function that damages the checkpoint.
type Damage = (&'static str, fn(&str));

/// Builds, and panics after `level_count` levels: like a kill, this runs no cleanup.
pub(crate) async fn build_and_kill(address: &str, options: &Options, level_count: usize) {
    let mut built_levels = 0;
    let on_event = |event: PyramidEvent<'_>| {
        built_levels += usize::from(matches!(event, PyramidEvent::Level(_)));
        assert!(built_levels < level_count, "killed");
    };
    let build_options = unsynced();
    let build = zvf_pyramid::build(address, options, &build_options, on_event);
    AssertUnwindSafe(build).catch_unwind().await.unwrap_err();
}

fn checkpoint(address: &str) -> PathBuf {
    Path::new(address).with_file_name(".store.zarrvectors.zvf-pyramid")
}

/// Writes a store with additive levels of `walks`.
async fn additive_store() -> (TempDir, String) {
    let (dir, address) = store(8.0, &walks(8, 60), with_objects(8)).await;
    build(&address, &recipes()[1]).await;
    (dir, address)
}

/// A build that first restores level 0 is continued like any other.
#[tokio::test(flavor = "multi_thread")]
async fn a_killed_rebuild_continues_after_level_0() {
    let [linked, additive] = recipes();
    let no_levels = Options { levels: Some(0), ..Options::default() };
    for options in [linked, Options { seed: 5, ..additive }, no_levels] {
        let (_first_dir, expected) = additive_store().await;
        let (dir, address) = additive_store().await;
        let (reports, before) = (build(&expected, &options).await, tree(Path::new(&address)));
        assert_eq!(reports[0].level, 0);
        for after in 1..=reports.len() {
            build_and_kill(&address, &options, after).await;
            assert_eq!(tree(Path::new(&address)), before, "the store is as it was");
            assert!(checkpoint(&address).join(format!("{}.json", after - 1)).exists());
        }
        assert_eq!(build(&address, &options).await, reports);
        assert_eq!(tree(Path::new(&address)), tree(Path::new(&expected)));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left");
    }
}

fn recipes() -> [Options; 2] {
    let links = CrossLevelStorage::Explicit;
    let linked =
        Options { levels: Some(3), size: Some(0.1), links, depth: -1, ..Options::default() };
    let additive = Options { levels: Some(2), additive: true, sparsity: 2.0, ..Options::default() };
    [linked, additive]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_build_is_continued() {
    for options in recipes() {
        let (_first_dir, expected) = store(8.0, &walks(8, 60), with_objects(8)).await;
        let (dir, address) = store(8.0, &walks(8, 60), with_objects(8)).await;
        let (reports, before) = (build(&expected, &options).await, tree(Path::new(&address)));
        for after in 1..=reports.len() {
            build_and_kill(&address, &options, after).await;
            assert_eq!(tree(Path::new(&address)), before, "the store is as it was");
            let level = reports[after - 1].level;
            assert!(checkpoint(&address).join(format!("{level}.json")).exists());
        }
        assert_eq!(build(&address, &options).await, reports);
        assert_eq!(tree(Path::new(&address)), tree(Path::new(&expected)));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn checkpoints_are_reused_for_the_same_recipe_and_store() {
    let [options, _] = recipes();
    let (_dir, address) = store(8.0, &walks(8, 60), with_objects(8)).await;
    let mark = |level: u32| {
        let record = checkpoint(&address).join(format!("{level}.json"));
        let text = fs::read_to_string(&record).unwrap().replace("\"objects\":8", "\"objects\":800");
        fs::write(record, text).unwrap();
    };
    let objects = async |options: &Options| {
        let reports = build(&address, options).await;
        reports.iter().map(|report| report.objects).collect::<Vec<u64>>()
    };
    build_and_kill(&address, &options, 2).await;
    mark(1);
    assert_eq!(objects(&options).await, [800, 8, 8], "levels 1 and 2 are reused");

    let other_options = Options { seed: 1, ..options.clone() };
    build_and_kill(&address, &options, 2).await;
    mark(1);
    assert_eq!(objects(&other_options).await, [8, 8, 8], "another recipe");

    build_and_kill(&address, &options, 2).await;
    mark(1);
    fs::remove_dir_all(&address).unwrap();
    let (_other_dir, other) = store(8.0, &walks(8, 60), with_objects(8)).await;
    fs::rename(other, &address).unwrap();
    assert_eq!(objects(&options).await, [8, 8, 8], "another store of that name");

    build_and_kill(&address, &options, 2).await;
    mark(1);
    fs::remove_file(checkpoint(&address).join("2.json")).unwrap(); // killed while it was saved
    assert_eq!(objects(&options).await, [800, 8, 8]);
}

/// Builds, and returns the reports and notices.
pub(crate) async fn collect_notices(
    address: &str,
    options: &Options,
) -> (Vec<LevelReport>, Vec<PyramidNotice>) {
    let mut notices = Vec::new();
    let on_event = |event: PyramidEvent<'_>| {
        if let PyramidEvent::Notice(notice) = event {
            notices.push(notice);
        }
    };
    let result = zvf_pyramid::build(address, options, &unsynced(), on_event).await;
    (result.unwrap(), notices)
}

/// Returns the files of the saved level 1 without its record.
fn cells(address: &str) -> Vec<PathBuf> {
    let level = checkpoint(address).join("1");
    tree(&level).into_keys().map(|file| level.join(file)).collect()
}

/// Returns whether the codec `crc32c` wrote this cell.
fn ends_with_checksum(bytes: &[u8]) -> bool {
    let Some((payload, checksum)) = bytes.split_last_chunk() else { return false };
    !payload.is_empty() && crc32c::crc32c(payload) == u32::from_le_bytes(*checksum)
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_checkpoints_are_rebuilt() {
    let [options, _] = recipes();
    let (_first_dir, expected) = store(8.0, &walks(8, 60), with_objects(8)).await;
    build(&expected, &options).await;
    let damages: [Damage; 9] = [
        ("vertices gone", |at| fs::remove_dir_all(checkpoint(at).join("1/vertices")).unwrap()),
        ("one file gone", |at| fs::remove_file(&cells(at)[3]).unwrap()),
        ("all files gone", |at| fs::remove_dir_all(checkpoint(at).join("1")).unwrap()),
        ("one byte off", |at| {
            let cell = cells(at).into_iter().rfind(|file| file.is_file()).unwrap();
            let mut bytes = fs::read(&cell).unwrap();
            *bytes.last_mut().unwrap() ^= 1;
            fs::remove_file(&cell).unwrap();
            fs::write(cell, bytes).unwrap();
        }),
        ("another payload with its checksum", |at| {
            let (cell, bytes) = cells(at)
                .into_iter()
                .map(|cell| (cell.clone(), fs::read(cell).unwrap()))
                .find(|(_, bytes)| ends_with_checksum(bytes))
                .unwrap();
            let mut tampered = bytes.clone();
            let payload = bytes.len() - 4;
            tampered[0] ^= 1;
            let checksum = crc32c::crc32c(&tampered[..payload]).to_le_bytes();
            tampered[payload..].copy_from_slice(&checksum);
            assert_eq!(
                crc32c::crc32c(&tampered),
                crc32c::crc32c(&bytes),
                "the CRC over payload and checksum is the same"
            );
            fs::remove_file(&cell).unwrap();
            fs::write(cell, tampered).unwrap();
        }),
        ("another file", |at| fs::write(checkpoint(at).join("1/more"), "").unwrap()),
        ("pairs cut short", |at| {
            let pairs = checkpoint(at).join("1.polyline.pairs");
            let bytes = fs::read(&pairs).unwrap();
            fs::write(pairs, &bytes[..bytes.len() - 16]).unwrap();
        }),
        ("nothing", |_| ()),
        ("half a record", |at| fs::write(checkpoint(at).join("1.json"), "{\"report\":").unwrap()),
    ];
    for (name, damage) in damages {
        let (_dir, address) = store(8.0, &walks(8, 60), with_objects(8)).await;
        build_and_kill(&address, &options, 2).await;
        damage(&address);
        let (_, notices) = collect_notices(&address, &options).await;
        let is_damaged = name != "nothing";
        let expected_notice = is_damaged.then_some(PyramidNotice::Discarded { level: 1 });
        assert_eq!(notices, Vec::from_iter(expected_notice), "{name}");
        assert_eq!(tree(Path::new(&address)), tree(Path::new(&expected)), "{name}");
    }
}

/// A kill between publishing and the end of the cleanup leaves complete levels, and the remaining
/// checkpoint is not reused.
#[tokio::test(flavor = "multi_thread")]
async fn half_removed_checkpoints_are_not_reused() {
    let [options, _] = recipes();
    let (_dir, address) = store(8.0, &walks(8, 60), with_objects(8)).await;
    build_and_kill(&address, &options, 2).await;
    let record = checkpoint(&address).join("1.json");
    let text = fs::read_to_string(&record).unwrap().replace("\"objects\":8", "\"objects\":800");
    fs::write(record, text).unwrap();
    fs::remove_file(checkpoint(&address).join("recipe")).unwrap(); // goes first
    let (reports, notices) = collect_notices(&address, &options).await;
    assert_eq!(reports.iter().map(|report| report.objects).collect::<Vec<u64>>(), [8, 8, 8]);
    assert_eq!(notices, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn levels_that_do_not_shrink_are_not_built() {
    let (_dir, address) = store(8.0, &walks(2, 10), with_objects(2)).await;
    let before = tree(Path::new(&address));
    for (size, growth, levels) in [(1e-9, None, 0), (1e-9, Some(1.0), 0), (0.5, Some(1.0), 1)] {
        let options = Options { levels: Some(4), size: Some(size), growth, ..Options::default() };
        let (reports, notices) = collect_notices(&address, &options).await;
        assert_eq!(reports.len(), levels, "{size}");
        let vertices = reports.last().map_or(20, |report| report.vertices);
        let level = levels as u32 + 1;
        assert_eq!(notices, [PyramidNotice::NothingShrinks { level, vertices }], "{size}");
        if levels == 0 {
            let after = tree(Path::new(&address));
            let without_root =
                |tree: &BTreeMap<String, Vec<u8>>| tree.keys().cloned().collect::<Vec<String>>();
            assert_eq!(without_root(&after), without_root(&before), "no level is left");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_concurrent_build_writes_no_checkpoint() {
    let [options, _] = recipes();
    let (_dir, address) = store(8.0, &walks(4, 60), with_objects(4)).await;
    fs::create_dir(checkpoint(&address)).unwrap();
    let lock = fs::File::create(checkpoint(&address).join("lock")).unwrap();
    lock.lock().unwrap();
    assert_eq!(build(&address, &options).await.len(), 3);
    let count = fs::read_dir(checkpoint(&address)).unwrap().count();
    assert_eq!(count, 1, "the folder holds only the lock of the other process");
}
