//! Stores whose levels add to each other, built again: nothing of what level 0 showed is lost.

use std::fs;
use std::path::Path;

use zvf_metadata::Capability;
use zvf_model::{Batch, Kind, LevelId, LevelReader};
use zvf_pyramid::{Method, Options, PyramidPlan, Strategy};

use crate::additive::{adding, elements, of_kind, own, vertices};
use crate::made::{build, level, open, quick, store, walks, with_objects};

/// All kinds, with 24 objects each; and points of none.
fn kinds() -> Vec<(Batch, Options)> {
    let keep = |strategy| Options { method: Some(Method::Keep), strategy, ..adding(2) };
    let mut all = vec![
        (walks(24, 50), keep(Strategy::Groups)),
        (walks(24, 50), keep(Strategy::Largest("mass".to_owned()))),
    ];
    for kind in [Kind::PointCloud, Kind::Graph, Kind::Mesh, Kind::Skeleton] {
        all.push((of_kind(kind, Some(24)), keep(Strategy::Random)));
    }
    all.push((of_kind(Kind::PointCloud, None), Options { sparsity: 1.0, ..adding(3) }));
    all
}

async fn stored(path: &Path, batch: &Batch) -> String {
    if batch.vertex_objects().is_none() && batch.parts().is_empty() {
        return store(path, 8.0, batch, |_| {}).await;
    }
    store(path, 8.0, batch, with_objects(24)).await
}

/// What is said of objects and groups at level 0.
async fn describe(address: &str) -> Vec<String> {
    let level = LevelReader::open(&open(address).await, LevelId(0)).await.unwrap();
    let Some(index) = level.objects().await.unwrap() else { return Vec::new() };
    let ids = index.ids(0..index.slots()).await.unwrap();
    let mass = level.object_attribute("mass").await.unwrap().unwrap();
    let mass = mass.range(0..index.slots()).await.unwrap();
    let groups = level.groups().await.unwrap().unwrap();
    let mut all = vec![format!("{ids:?}"), format!("{:?}", mass.column().as_slice::<f32>())];
    for (at, members) in groups.members(&[0]).await.unwrap().iter().enumerate() {
        all.push(format!("{:?} {members:?}", groups.name(at as u64)));
    }
    all
}

/// Asserts that a store has no levels that add to each other.
async fn is_plain(address: &str, levels: &[u32]) {
    let store = open(address).await;
    assert_eq!(store.level_numbers(), levels);
    assert_eq!(store.list_levels().await.unwrap(), levels);
    let root = &store.root().zarr_vectors;
    assert_eq!(root.required_capabilities, []);
    assert!(!root.has(Capability::AdditiveLevels));
    for number in levels {
        assert!(!store.level(*number).await.unwrap().meta().is_additive());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn level_0_is_put_together_again() {
    for (batch, options) in kinds() {
        for memory in [512 << 20, 1 << 14] {
            let dir = archives::scratch();
            let address = stored(dir.path(), &batch).await;
            let (before, before_objects) = (level(&address, 0).await, describe(&address).await);
            let built = build(&address, &options).await;
            let what = format!("{}, {memory}", batch.kind());
            assert!(built.len() > 2, "{what}");
            let none = Options { levels: Some(0), memory, ..Options::default() };
            let again = build(&address, &none).await;
            let [report] = again.as_slice() else { panic!("{what}") };
            assert_eq!((report.level, report.vertices), (0, batch.len() as u64), "{what}");
            let sum = |of: fn(&zvf_pyramid::LevelReport) -> u64| built.iter().map(of).sum::<u64>();
            assert_eq!(report.objects, sum(|r| r.objects), "{what}");
            assert_eq!(report.elements, sum(|r| r.elements), "{what}");
            is_plain(&address, &[0]).await;
            let after = level(&address, 0).await;
            assert_eq!(vertices(&after), vertices(&before), "{what}");
            assert_eq!(elements(&after), elements(&before), "{what}");
            assert_eq!(describe(&address).await, before_objects, "{what}");
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "{what}");
        }
    }
}

/// What is built of such a store is what is built of the one that it was made of.
#[tokio::test(flavor = "multi_thread")]
async fn levels_are_those_of_the_store_it_was_made_of() {
    for (batch, options) in kinds().into_iter().filter(|(_, options)| options.sparsity > 1.0) {
        let other = Options { seed: 8, sparsity: 3.0, ..options.clone() };
        for again in [Options { additive: false, ..other.clone() }, other] {
            let dirs = [archives::scratch(), archives::scratch()];
            let straight = stored(dirs[0].path(), &batch).await;
            let address = stored(dirs[1].path(), &batch).await;
            let before_objects = describe(&address).await;
            build(&address, &options).await;
            let plan = PyramidPlan::plan(&open(&address).await, &again).await.unwrap();
            assert_eq!(plan.vertices(), batch.len() as u64);
            let (wanted, built) = (build(&straight, &again).await, build(&address, &again).await);
            let what = format!("{}, {}", batch.kind(), again.additive);
            let counts = |of: &[zvf_pyramid::LevelReport]| {
                let count = |r: &zvf_pyramid::LevelReport| (r.level, r.vertices, r.elements);
                of.iter().filter(|r| r.level > 0).map(count).collect::<Vec<_>>()
            };
            assert_eq!(counts(&built), counts(&wanted), "{what}");
            assert_eq!(built[0].level, 0, "{what}");
            for number in 0..=2 {
                let (one, other) = (own(&straight, number).await, own(&address, number).await);
                assert_eq!(vertices(&one), vertices(&other), "{what}, level {number}");
                assert_eq!(elements(&one), elements(&other), "{what}, level {number}");
            }
            if again.additive {
                assert_eq!(level(&address, 0).await.len(), batch.len(), "{what}");
            } else {
                is_plain(&address, &[0, 1, 2]).await;
                assert_eq!(describe(&address).await, before_objects, "{what}");
            }
        }
    }
}

/// Points of no objects are spread anew by their order, which is another one.
#[tokio::test(flavor = "multi_thread")]
async fn points_are_spread_over_other_levels() {
    let dir = archives::scratch();
    let batch = of_kind(Kind::PointCloud, None);
    let address = stored(dir.path(), &batch).await;
    let before = vertices(&level(&address, 0).await);
    build(&address, &Options { sparsity: 1.0, ..adding(3) }).await;
    let again = Options { sparsity: 1.0, keep: Some(0.4), ..adding(2) };
    let counts: Vec<u64> = build(&address, &again).await.iter().map(|r| r.vertices).collect();
    assert_eq!((counts.len(), counts.iter().sum::<u64>()), (3, batch.len() as u64));
    assert_eq!(vertices(&level(&address, 0).await), before);
    assert_eq!(open(&address).await.list_levels().await.unwrap(), [0, 1, 2]);
    // Nothing to be spread is put together.
    let none = Options { keep: Some(1e-9), ..again };
    assert_eq!(build(&address, &none).await.len(), 1);
    is_plain(&address, &[0]).await;
    assert_eq!(vertices(&level(&address, 0).await), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_would_be_lost_or_doubled_is_refused() {
    let (one, two) = (archives::scratch(), archives::scratch());
    let address = store(one.path(), 8.0, &walks(12, 50), with_objects(12)).await;
    let other = store(two.path(), 8.0, &walks(12, 50), with_objects(12)).await;
    build(&address, &adding(1)).await;
    build(&other, &Options { seed: 4, ..adding(1) }).await;
    let refused = async |message: &str| {
        let none = Options { levels: Some(0), ..Options::default() };
        let error = zvf_pyramid::build(&address, &none, &quick(), |_| {}).await.unwrap_err();
        assert!(error.to_string().starts_with(message), "{error}");
        assert_eq!(fs::read_dir(one.path()).unwrap().count(), 1, "{message}");
        assert_eq!(open(&address).await.level_numbers(), [0, 1], "{message}");
    };
    // Objects of another choice at level 1.
    fs::remove_dir_all(Path::new(&address).join("1")).unwrap();
    fs::rename(Path::new(&other).join("1"), Path::new(&address).join("1")).unwrap();
    refused("objects: expected each at one of the levels that add to each other, found object")
        .await;
    // An attribute that only level 0 has.
    fs::remove_dir_all(Path::new(&address).join("1/vertex_attributes/along")).unwrap();
    refused("attributes of vertices and edges: expected the same at levels that add to each other")
        .await;
    // Level 1 of another kind of groups.
    let at = Path::new(&address).join("1/groups/zarr.json");
    let text = fs::read_to_string(&at).unwrap();
    assert!(text.contains("few"));
}
