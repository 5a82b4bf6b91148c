//! Levels that are built one by one equal those of a single build.

use std::fs;
use std::path::Path;

use archives::tree;
use zvf_format::Class;
use zvf_metadata::CrossLevelStorage;
use zvf_pyramid::{
    KeptLevel, LevelReport, Options, Reuse, belongs_to_levels, build_in_folder, build_reusing,
};
use zvf_store::{OpenOptions, Store};

use crate::fixtures::{build, sheet, store, unsynced, walks, with_objects};

async fn open(address: &str, options: &Options) -> Store {
    Store::open(address, options.limit_reading(OpenOptions::default())).await.unwrap()
}

/// Builds levels from 1 on, each twice concurrently, until there are no more; returns the second of each.
async fn build_each_level(address: &str, options: &Options, work: &Path) -> Vec<KeptLevel> {
    let store = open(address, options).await;
    let mut kept: Vec<KeptLevel> = Vec::new();
    for level in 1_u32.. {
        let folders = [0, 1].map(|run| work.join(format!("{level}-{run}")));
        let build_options = unsynced();
        let finer = (&kept[..], Some(level));
        let (left, right) = tokio::join!(
            build_in_folder((&store, &folders[0]), options, &build_options, finer, |_| {}),
            build_in_folder((&store, &folders[1]), options, &build_options, finer, |_| {})
        );
        let (left, right) = (left.unwrap().1, right.unwrap().1);
        assert_eq!(left, right, "both builds give the same report");
        let [report] = &left[..] else { break };
        assert_eq!(report.level, level);
        let [first, second] = folders.map(|folder| KeptLevel { level, folder });
        assert!(first.is_whole().unwrap() && second.is_whole().unwrap());
        let names = fs::read_dir(&second.folder).unwrap().map(|entry| entry.unwrap().file_name());
        assert!(
            names.into_iter().all(|name| name.to_str().unwrap().starts_with(&level.to_string()))
        );
        kept.push(second);
    }
    kept
}

/// Returns the paths of files that differ between the stores.
fn differing_files(left: &str, right: &str) -> Vec<String> {
    let (left, right) = (tree(Path::new(left)), tree(Path::new(right)));
    let names = left.keys().chain(right.keys());
    let mut names: Vec<_> = names.filter(|name| left.get(*name) != right.get(*name)).collect();
    names.sort();
    names.dedup();
    names.into_iter().cloned().collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn levels_built_one_by_one_equal_those_of_a_build() {
    let links = CrossLevelStorage::Explicit;
    let linked =
        Options { levels: Some(3), size: Some(0.1), links, depth: -1, ..Options::default() };
    let until = Options { size: Some(0.1), until: 20, sparsity: 2.0, ..Options::default() };
    for options in [linked, until] {
        let (_first_dir, expected) = store(8.0, &walks(8, 60), with_objects(8)).await;
        let (dir, address) = store(8.0, &walks(8, 60), with_objects(8)).await;
        let work = dir.path().join("work");
        let before = tree(Path::new(&address));
        let kept = build_each_level(&address, &options, &work).await;
        assert!(kept.len() > 1, "{}", kept.len());
        assert_eq!(tree(Path::new(&address)), before, "the store is as it was");
        let reports: Vec<LevelReport> = build(&expected, &options).await;
        let last = work.join("last");
        assert!(!kept[0].is_in(&address).unwrap());
        let reuse = Reuse::Kept(&last, &kept);
        let actual = build_reusing(&address, &options, &unsynced(), reuse, |_| {}).await.unwrap();
        assert_eq!(differing_files(&address, &expected), [""; 0]);
        assert_eq!(actual, reports);
        assert!(kept.iter().take(actual.len()).all(|kept| kept.is_in(&address).unwrap()));
        assert!(!last.exists());
        assert!(
            kept.iter().all(|kept| kept.is_whole().unwrap()),
            "the kept levels are not removed"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_and_missing_levels_are_rebuilt() {
    let options = Options { levels: Some(2), ..Options::default() };
    let (_first_dir, expected) = store(4.0, &sheet(24), |_| {}).await;
    let (dir, address) = store(4.0, &sheet(24), |_| {}).await;
    let work = dir.path().join("work");
    let mut kept = build_each_level(&address, &options, &work).await;
    assert_eq!(kept.len(), 2);
    // A damaged level and a missing one are built again.
    let damaged = kept[0].folder.join("1/zarr.json");
    fs::write(damaged, "{}").unwrap();
    assert!(!kept[0].is_whole().unwrap());
    kept.truncate(1);
    let staging = work.join("last");
    let mut discarded = 0;
    let on_event = |event: zvf_pyramid::PyramidEvent<'_>| {
        discarded += usize::from(matches!(event, zvf_pyramid::PyramidEvent::Notice(_)));
    };
    let reuse = Reuse::Kept(&staging, &kept);
    build_reusing(&address, &options, &unsynced(), reuse, on_event).await.unwrap();
    assert_eq!(discarded, 1);
    build(&expected, &options).await;
    assert_eq!(differing_files(&address, &expected), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn additive_levels_are_refused() {
    let (dir, address) = store(8.0, &walks(8, 60), with_objects(8)).await;
    let options = Options { levels: Some(2), additive: true, ..Options::default() };
    for additive in [true, false] {
        let work = dir.path().join("work");
        let source = open(&address, &options).await;
        let options = Options { additive, ..options.clone() };
        for only in [Some(1), None] {
            let (to, how) = ((&source, work.as_path()), unsynced());
            let refused = build_in_folder(to, &options, &how, (&[], only), |_| {}).await;
            assert_eq!(refused.unwrap_err().class(), Class::Unsupported);
        }
        if additive {
            build(&address, &options).await;
        }
    }
}

/// Puts what was built beside a store into it, as a commit does.
fn put(built: &Path, address: &str) {
    for name in tree(Path::new(address)).into_keys() {
        if belongs_to_levels(&name) {
            fs::remove_file(Path::new(address).join(name)).unwrap();
        }
    }
    for (name, bytes) in tree(built) {
        let path = Path::new(address).join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn levels_built_beside_a_store_equal_those_of_a_build() {
    let links = CrossLevelStorage::Explicit;
    let linked =
        Options { levels: Some(3), size: Some(0.1), links, depth: -1, ..Options::default() };
    let unlinked = Options { levels: Some(1), size: Some(0.2), ..Options::default() };
    let none = Options { levels: Some(0), ..Options::default() };
    let (_first_dir, expected) = store(8.0, &walks(8, 60), with_objects(8)).await;
    let (dir, address) = store(8.0, &walks(8, 60), with_objects(8)).await;
    let work_folder = dir.path().join("work");
    // Levels that are there are replaced, and their links with them.
    for (run, options) in [linked, unlinked, none].into_iter().enumerate() {
        let kept = build_each_level(&address, &options, &work_folder.join(run.to_string())).await;
        let reports: Vec<LevelReport> = build(&expected, &options).await;
        for (turn, kept) in [&kept[..], &[]].into_iter().enumerate() {
            let before = tree(Path::new(&address));
            let source = open(&address, &options).await;
            let folder = work_folder.join(format!("{run}-{turn}"));
            let (to, how) = ((&source, folder.as_path()), unsynced());
            let (built, made) =
                build_in_folder(to, &options, &how, (kept, None), |_| {}).await.unwrap();
            assert_eq!(made, reports);
            assert!(!built.join("0/vertices/c").exists(), "no cell of level 0 is copied");
            assert_eq!(tree(Path::new(&address)), before, "the store is as it was");
            if kept.is_empty() {
                put(&built, &address);
                assert_eq!(differing_files(&address, &expected), [""; 0]);
            }
        }
    }
}
