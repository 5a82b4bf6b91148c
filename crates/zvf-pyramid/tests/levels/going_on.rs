//! What a killed build had made is not made again; what comes out is as if nobody had been killed.

use std::collections::BTreeMap;
use std::fs;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};

use futures_util::FutureExt as _;
use zvf_metadata::CrossLevelStorage;
use zvf_pyramid::{LevelReport, Options};

use crate::made::{quick, store, walks, with_objects};

/// Builds, and stops as a kill does after so many levels: nothing is put in order.
pub(crate) async fn killed(address: &str, options: &Options, after: usize) {
    let mut made = 0;
    let told = |_: &LevelReport| {
        made += 1;
        assert!(made < after, "killed");
    };
    let how = quick();
    let build = zvf_pyramid::build(address, options, &how, told);
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

fn aside(address: &str) -> PathBuf {
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
        let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let (whole, address) = (adding(dirs[0].path()).await, adding(dirs[1].path()).await);
        let (reports, before) = (build(&whole, &options).await, tree(Path::new(&address)));
        assert_eq!(reports[0].level, 0);
        for after in 1..=reports.len() {
            killed(&address, &options, after).await;
            assert_eq!(tree(Path::new(&address)), before, "the store is as it was");
            assert!(aside(&address).join(format!("{}.json", after - 1)).exists());
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
        let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let whole = store(dirs[0].path(), 8.0, &walks(8, 60), with_objects(8)).await;
        let address = store(dirs[1].path(), 8.0, &walks(8, 60), with_objects(8)).await;
        let (reports, before) = (build(&whole, &options).await, tree(Path::new(&address)));
        for after in 1..=reports.len() {
            killed(&address, &options, after).await;
            assert_eq!(tree(Path::new(&address)), before, "the store is as it was");
            let last = reports[after - 1].level;
            assert!(aside(&address).join(format!("{last}.json")).exists());
        }
        assert_eq!(build(&address, &options).await, reports);
        assert_eq!(tree(Path::new(&address)), tree(Path::new(&whole)));
        assert_eq!(fs::read_dir(dirs[1].path()).unwrap().count(), 1, "nothing is left");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_what_the_same_recipe_made_is_taken_over() {
    let [options, _] = recipes();
    let dir = tempfile::tempdir().unwrap();
    let address = store(dir.path(), 8.0, &walks(8, 60), with_objects(8)).await;
    let mark = |level: u32| {
        let told = aside(&address).join(format!("{level}.json"));
        let text = fs::read_to_string(&told).unwrap().replace("\"objects\":8", "\"objects\":800");
        fs::write(told, text).unwrap();
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
    fs::remove_file(aside(&address).join("2.json")).unwrap(); // killed while it was put aside
    assert_eq!(objects(&options).await, [800, 8, 8]);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_comes_second_puts_nothing_aside() {
    let [options, _] = recipes();
    let dir = tempfile::tempdir().unwrap();
    let address = store(dir.path(), 8.0, &walks(4, 60), with_objects(4)).await;
    fs::create_dir(aside(&address)).unwrap();
    let lock = fs::File::create(aside(&address).join("lock")).unwrap();
    lock.lock().unwrap();
    assert_eq!(build(&address, &options).await.len(), 3);
    assert_eq!(fs::read_dir(aside(&address)).unwrap().count(), 1, "that of another process");
}
