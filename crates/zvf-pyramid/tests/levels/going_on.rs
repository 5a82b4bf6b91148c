//! What a killed build had made is not made again; what comes out is as if nobody had been killed.

use std::collections::BTreeMap;
use std::fs;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};

use futures_util::FutureExt as _;
use zvf_metadata::CrossLevelStorage;
use zvf_pyramid::{LevelReport, Options, PyramidEvent, PyramidNotice};

use crate::made::{quick, store, walks, with_objects};

/// What is done to saved progress, by its name.
type Damage = (&'static str, fn(&str));

/// Builds, and stops as a kill does after so many levels: nothing is put in order.
pub(crate) async fn killed(address: &str, options: &Options, after: usize) {
    let mut made = 0;
    let on_level = |_: &LevelReport| {
        made += 1;
        assert!(made < after, "killed");
    };
    let how = quick();
    let build = zvf_pyramid::build(address, options, &how, on_level);
    AssertUnwindSafe(build).catch_unwind().await.unwrap_err();
}

async fn build(address: &str, options: &Options) -> Vec<LevelReport> {
    zvf_pyramid::build(address, options, &quick(), |_| {}).await.unwrap()
}

pub(crate) fn tree(at: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![at.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                files.insert(path.strip_prefix(at).unwrap().to_owned(), fs::read(&path).unwrap());
            }
        }
    }
    files
}

fn checkpoint(address: &str) -> PathBuf {
    Path::new(address).with_file_name(".store.zarrvectors.zvf-pyramid")
}

/// A store whose levels add to each other, made of `walks`.
async fn adding(path: &Path) -> String {
    let address = store(path, 8.0, &walks(8, 60), with_objects(8)).await;
    build(&address, &recipes()[1]).await;
    address
}

/// A build that first puts level 0 together is like any other.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_put_together_is_not_put_together_again() {
    let [linked, adding_again] = recipes();
    let none = Options { levels: Some(0), ..Options::default() };
    for options in [linked, Options { seed: 5, ..adding_again }, none] {
        let dirs = [archives::scratch(), archives::scratch()];
        let (whole, address) = (adding(dirs[0].path()).await, adding(dirs[1].path()).await);
        let (reports, before) = (build(&whole, &options).await, tree(Path::new(&address)));
        assert_eq!(reports[0].level, 0);
        for after in 1..=reports.len() {
            killed(&address, &options, after).await;
            assert_eq!(tree(Path::new(&address)), before, "the store is as it was");
            assert!(checkpoint(&address).join(format!("{}.json", after - 1)).exists());
        }
        assert_eq!(build(&address, &options).await, reports);
        assert_eq!(tree(Path::new(&address)), tree(Path::new(&whole)));
        assert_eq!(fs::read_dir(dirs[1].path()).unwrap().count(), 1, "nothing is left");
    }
}

fn recipes() -> [Options; 2] {
    let links = CrossLevelStorage::Explicit;
    let linked =
        Options { levels: Some(3), size: Some(0.1), links, depth: -1, ..Options::default() };
    let adding = Options { levels: Some(2), additive: true, sparsity: 2.0, ..Options::default() };
    [linked, adding]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_build_goes_on_where_one_was_killed() {
    for options in recipes() {
        let dirs = [archives::scratch(), archives::scratch()];
        let whole = store(dirs[0].path(), 8.0, &walks(8, 60), with_objects(8)).await;
        let address = store(dirs[1].path(), 8.0, &walks(8, 60), with_objects(8)).await;
        let (reports, before) = (build(&whole, &options).await, tree(Path::new(&address)));
        for after in 1..=reports.len() {
            killed(&address, &options, after).await;
            assert_eq!(tree(Path::new(&address)), before, "the store is as it was");
            let last = reports[after - 1].level;
            assert!(checkpoint(&address).join(format!("{last}.json")).exists());
        }
        assert_eq!(build(&address, &options).await, reports);
        assert_eq!(tree(Path::new(&address)), tree(Path::new(&whole)));
        assert_eq!(fs::read_dir(dirs[1].path()).unwrap().count(), 1, "nothing is left");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_what_the_same_recipe_made_is_taken_over() {
    let [options, _] = recipes();
    let dir = archives::scratch();
    let address = store(dir.path(), 8.0, &walks(8, 60), with_objects(8)).await;
    let mark = |level: u32| {
        let record = checkpoint(&address).join(format!("{level}.json"));
        let text = fs::read_to_string(&record).unwrap().replace("\"objects\":8", "\"objects\":800");
        fs::write(record, text).unwrap();
    };
    let objects = async |options: &Options| {
        let reports = build(&address, options).await;
        reports.iter().map(|report| report.objects).collect::<Vec<u64>>()
    };
    killed(&address, &options, 2).await;
    mark(1);
    assert_eq!(objects(&options).await, [800, 8, 8], "level 1 is taken over, level 2 too");

    let other = Options { seed: 1, ..options.clone() };
    killed(&address, &options, 2).await;
    mark(1);
    assert_eq!(objects(&other).await, [8, 8, 8], "another recipe");

    killed(&address, &options, 2).await;
    mark(1);
    fs::remove_dir_all(&address).unwrap();
    let again = store(dir.path(), 8.0, &walks(8, 60), with_objects(8)).await;
    assert_eq!(again, address);
    assert_eq!(objects(&options).await, [8, 8, 8], "another store of that name");

    killed(&address, &options, 2).await;
    mark(1);
    fs::remove_file(checkpoint(&address).join("2.json")).unwrap(); // killed while it was put aside
    assert_eq!(objects(&options).await, [800, 8, 8]);
}

/// Builds, and tells what was noticed.
pub(crate) async fn noticed(
    address: &str,
    options: &Options,
) -> (Vec<LevelReport>, Vec<PyramidNotice>) {
    let mut notices = Vec::new();
    let on_event = |event: PyramidEvent<'_>| {
        if let PyramidEvent::Notice(notice) = event {
            notices.push(notice);
        }
    };
    let built = zvf_pyramid::build_with_notices(address, options, &quick(), on_event).await;
    (built.unwrap(), notices)
}

/// The files of level 1 that was put aside, without its record.
fn cells(address: &str) -> Vec<PathBuf> {
    let level = checkpoint(address).join("1");
    tree(&level).into_keys().map(|file| level.join(file)).collect()
}

/// Whether a cell is one that the codec `crc32c` wrote.
fn ends_with_checksum(bytes: &[u8]) -> bool {
    let Some((payload, sum)) = bytes.split_last_chunk() else { return false };
    !payload.is_empty() && crc32c::crc32c(payload) == u32::from_le_bytes(*sum)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_saved_and_is_damaged_is_made_again() {
    let [options, _] = recipes();
    let dirs = [archives::scratch(), archives::scratch()];
    let whole = store(dirs[0].path(), 8.0, &walks(8, 60), with_objects(8)).await;
    build(&whole, &options).await;
    let damages: [Damage; 8] = [
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
            let mut other = bytes.clone();
            let payload = bytes.len() - 4;
            other[0] ^= 1;
            let sum = crc32c::crc32c(&other[..payload]).to_le_bytes();
            other[payload..].copy_from_slice(&sum);
            assert_eq!(crc32c::crc32c(&other), crc32c::crc32c(&bytes), "what a CRC cannot tell");
            fs::remove_file(&cell).unwrap();
            fs::write(cell, other).unwrap();
        }),
        ("another file", |at| fs::write(checkpoint(at).join("1/more"), "").unwrap()),
        ("pairs cut short", |at| {
            let pairs = checkpoint(at).join("1.polyline.pairs");
            let bytes = fs::read(&pairs).unwrap();
            fs::write(pairs, &bytes[..bytes.len() - 16]).unwrap();
        }),
        ("half a record", |at| fs::write(checkpoint(at).join("1.json"), "{\"report\":").unwrap()),
    ];
    for (name, damage) in damages {
        let dir = archives::scratch();
        let address = store(dir.path(), 8.0, &walks(8, 60), with_objects(8)).await;
        killed(&address, &options, 2).await;
        damage(&address);
        let (_, notices) = noticed(&address, &options).await;
        assert_eq!(notices, [PyramidNotice::Discarded { level: 1 }], "{name}");
        assert_eq!(tree(Path::new(&address)), tree(Path::new(&whole)), "{name}");
    }
}

/// A kill between publishing and the end of cleaning up: the levels that are there are sound, and what is
/// left beside them is not taken for progress.
#[tokio::test(flavor = "multi_thread")]
async fn half_removed_progress_is_not_taken_over() {
    let [options, _] = recipes();
    let dir = archives::scratch();
    let address = store(dir.path(), 8.0, &walks(8, 60), with_objects(8)).await;
    killed(&address, &options, 2).await;
    let record = checkpoint(&address).join("1.json");
    let text = fs::read_to_string(&record).unwrap().replace("\"objects\":8", "\"objects\":800");
    fs::write(record, text).unwrap();
    fs::remove_file(checkpoint(&address).join("recipe")).unwrap(); // goes first
    let (reports, notices) = noticed(&address, &options).await;
    assert_eq!(reports.iter().map(|report| report.objects).collect::<Vec<u64>>(), [8, 8, 8]);
    assert_eq!(notices, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn levels_that_do_not_shrink_are_not_built() {
    let dir = archives::scratch();
    let address = store(dir.path(), 8.0, &walks(2, 10), with_objects(2)).await;
    let before = tree(Path::new(&address));
    for (size, growth, levels) in [(1e-9, None, 0), (1e-9, Some(1.0), 0), (0.5, Some(1.0), 1)] {
        let options = Options { levels: Some(4), size: Some(size), growth, ..Options::default() };
        let (reports, notices) = noticed(&address, &options).await;
        assert_eq!(reports.len(), levels, "{size}");
        let vertices = reports.last().map_or(20, |report| report.vertices);
        let level = levels as u32 + 1;
        assert_eq!(notices, [PyramidNotice::NothingShrinks { level, vertices }], "{size}");
        if levels == 0 {
            let now = tree(Path::new(&address));
            let without_root =
                |tree: &BTreeMap<PathBuf, Vec<u8>>| tree.keys().cloned().collect::<Vec<PathBuf>>();
            assert_eq!(without_root(&now), without_root(&before), "no level is left");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_comes_second_puts_nothing_aside() {
    let [options, _] = recipes();
    let dir = archives::scratch();
    let address = store(dir.path(), 8.0, &walks(4, 60), with_objects(4)).await;
    fs::create_dir(checkpoint(&address)).unwrap();
    let lock = fs::File::create(checkpoint(&address).join("lock")).unwrap();
    lock.lock().unwrap();
    assert_eq!(build(&address, &options).await.len(), 3);
    assert_eq!(fs::read_dir(checkpoint(&address)).unwrap().count(), 1, "that of another process");
}
