//! Levels that are made one by one are those that a build makes.

use std::fs;
use std::path::{Path, PathBuf};

use zvf_format::Class;
use zvf_metadata::CrossLevelStorage;
use zvf_pyramid::{
    KeptLevel, LevelReport, Options, belongs_to_levels, build_beside, build_level,
    build_with_levels,
};
use zvf_store::{OpenOptions, Store};

use crate::going_on::tree;
use crate::made::{build, quick, sheet, store, walks, with_objects};

async fn open(address: &str, options: &Options) -> Store {
    Store::open(address, options.limit_reading(OpenOptions::default())).await.unwrap()
}

/// Makes levels from 1 on, each twice at once, until there is no more; those that are kept.
async fn make_each(address: &str, options: &Options, place: &Path) -> Vec<KeptLevel> {
    let store = open(address, options).await;
    let mut kept: Vec<KeptLevel> = Vec::new();
    for level in 1_u32.. {
        let own = [0, 1].map(|run| place.join(format!("{level}-{run}")));
        let how = quick();
        let (one, two) = tokio::join!(
            build_level((&store, &own[0]), options, &how, &kept, level),
            build_level((&store, &own[1]), options, &how, &kept, level)
        );
        let (one, two) = (one.unwrap(), two.unwrap());
        assert_eq!(one, two, "the same, whoever makes it");
        let Some(report) = one else { break };
        assert_eq!(report.level, level);
        let [first, second] = own.map(|folder| KeptLevel { level, folder });
        assert!(first.is_whole().unwrap() && second.is_whole().unwrap());
        let names = fs::read_dir(&second.folder).unwrap().map(|entry| entry.unwrap().file_name());
        assert!(
            names.into_iter().all(|name| name.to_str().unwrap().starts_with(&level.to_string()))
        );
        kept.push(second);
    }
    kept
}

/// The files that are not the same in both stores.
fn differing(one: &str, other: &str) -> Vec<PathBuf> {
    let (one, other) = (tree(Path::new(one)), tree(Path::new(other)));
    let names = one.keys().chain(other.keys());
    let mut names: Vec<_> = names.filter(|name| one.get(*name) != other.get(*name)).collect();
    names.sort();
    names.dedup();
    names.into_iter().cloned().collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn levels_made_one_by_one_are_those_of_a_build() {
    let links = CrossLevelStorage::Explicit;
    let linked =
        Options { levels: Some(3), size: Some(0.1), links, depth: -1, ..Options::default() };
    let until = Options { size: Some(0.1), until: 20, sparsity: 2.0, ..Options::default() };
    for options in [linked, until] {
        let dirs = [archives::scratch(), archives::scratch()];
        let whole = store(dirs[0].path(), 8.0, &walks(8, 60), with_objects(8)).await;
        let address = store(dirs[1].path(), 8.0, &walks(8, 60), with_objects(8)).await;
        let place = dirs[1].path().join("work");
        let before = tree(Path::new(&address));
        let kept = make_each(&address, &options, &place).await;
        assert!(kept.len() > 1, "{}", kept.len());
        assert_eq!(tree(Path::new(&address)), before, "the store is as it was");
        let reports: Vec<LevelReport> = build(&whole, &options).await;
        let on_event = |_: zvf_pyramid::PyramidEvent<'_>| {};
        let last = (address.as_str(), place.join("last"));
        assert!(!kept[0].is_in(&address).unwrap());
        let made = build_with_levels((last.0, &last.1), &options, &quick(), &kept, on_event)
            .await
            .unwrap();
        assert_eq!(differing(&address, &whole), Vec::<PathBuf>::new());
        assert_eq!(made, reports);
        assert!(kept.iter().take(made.len()).all(|kept| kept.is_in(&address).unwrap()));
        assert!(!last.1.exists());
        assert!(
            kept.iter().all(|kept| kept.is_whole().unwrap()),
            "they stay until somebody removes them"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn meshes_are_made_level_by_level_too() {
    let options = Options { levels: Some(2), ..Options::default() };
    let dirs = [archives::scratch(), archives::scratch()];
    let whole = store(dirs[0].path(), 4.0, &sheet(24), |_| {}).await;
    let address = store(dirs[1].path(), 4.0, &sheet(24), |_| {}).await;
    let place = dirs[1].path().join("work");
    let mut kept = make_each(&address, &options, &place).await;
    assert_eq!(kept.len(), 2);
    // One that is not whole is made again, and one that is missing too.
    let damaged = kept[0].folder.join("1/zarr.json");
    fs::write(damaged, "{}").unwrap();
    assert!(!kept[0].is_whole().unwrap());
    kept.truncate(1);
    let (last, how) = (place.join("last"), quick());
    let mut discarded = 0;
    let on_event = |event: zvf_pyramid::PyramidEvent<'_>| {
        discarded += usize::from(matches!(event, zvf_pyramid::PyramidEvent::Notice(_)));
    };
    build_with_levels((&address, &last), &options, &how, &kept, on_event).await.unwrap();
    assert_eq!(discarded, 1);
    build(&whole, &options).await;
    assert_eq!(differing(&address, &whole), Vec::<PathBuf>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn levels_that_add_to_each_other_are_refused() {
    let dir = archives::scratch();
    let address = store(dir.path(), 8.0, &walks(8, 60), with_objects(8)).await;
    let options = Options { levels: Some(2), additive: true, ..Options::default() };
    for additive in [true, false] {
        let work = dir.path().join("work");
        let source = open(&address, &options).await;
        let options = Options { additive, ..options.clone() };
        let refused = build_level((&source, &work), &options, &quick(), &[], 1).await;
        assert_eq!(refused.unwrap_err().class(), Class::Unsupported);
        let on_event = |_: zvf_pyramid::PyramidEvent<'_>| {};
        let refused = build_beside((&source, &work), &options, &quick(), &[], on_event).await;
        assert_eq!(refused.unwrap_err().class(), Class::Unsupported);
        if additive {
            build(&address, &options).await;
        }
    }
}

/// Puts what was built beside a store into it, as a commit does.
fn put(built: &Path, address: &str) {
    for name in tree(Path::new(address)).into_keys() {
        if belongs_to_levels(name.to_str().unwrap()) {
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
async fn levels_built_beside_a_store_are_those_of_a_build() {
    let links = CrossLevelStorage::Explicit;
    let linked =
        Options { levels: Some(3), size: Some(0.1), links, depth: -1, ..Options::default() };
    let unlinked = Options { levels: Some(1), size: Some(0.2), ..Options::default() };
    let none = Options { levels: Some(0), ..Options::default() };
    let dirs = [archives::scratch(), archives::scratch()];
    let whole = store(dirs[0].path(), 8.0, &walks(8, 60), with_objects(8)).await;
    let address = store(dirs[1].path(), 8.0, &walks(8, 60), with_objects(8)).await;
    let place = dirs[1].path().join("work");
    // Levels that are there are replaced, and their links with them.
    for (run, options) in [linked, unlinked, none].into_iter().enumerate() {
        let kept = make_each(&address, &options, &place.join(run.to_string())).await;
        let reports: Vec<LevelReport> = build(&whole, &options).await;
        for kept in [&kept[..], &[]] {
            let before = tree(Path::new(&address));
            let source = open(&address, &options).await;
            let folder = place.join(format!("{run}-{}", kept.len()));
            let on_event = |_: zvf_pyramid::PyramidEvent<'_>| {};
            let (built, made) =
                build_beside((&source, &folder), &options, &quick(), kept, on_event).await.unwrap();
            assert_eq!(made, reports);
            assert!(!built.join("0/vertices/c").exists(), "no cell of level 0 is copied");
            assert_eq!(tree(Path::new(&address)), before, "the store is as it was");
            if kept.is_empty() {
                put(&built, &address);
                assert_eq!(differing(&address, &whole), Vec::<PathBuf>::new());
            }
        }
    }
}
