//! Rebuilds of stores with additive levels: no data of level 0 is lost.

use std::fs;
use std::path::Path;

use tempfile::TempDir;
use zvf_metadata::Capability;
use zvf_model::{Batch, Kind, LevelId, LevelReader};
use zvf_pyramid::{Method, Options, PyramidPlan, Strategy};

use crate::additive::{additive_options, batch_of_kind, elements, read_increment, vertices};
use crate::fixtures::{build, level, open, refusal, store, walks, with_objects};

/// Returns a batch of each kind with 24 objects, and points without objects.
fn kinds() -> Vec<(Batch, Options)> {
    let keep = |strategy| Options { method: Some(Method::Keep), strategy, ..additive_options(2) };
    let mut cases = vec![
        (walks(24, 50), keep(Strategy::Groups)),
        (walks(24, 50), keep(Strategy::Largest("mass".to_owned()))),
    ];
    for kind in [Kind::PointCloud, Kind::Graph, Kind::Mesh, Kind::Skeleton] {
        cases.push((batch_of_kind(kind, Some(24)), keep(Strategy::Random)));
    }
    let options = Options { sparsity: 1.0, ..additive_options(3) };
    cases.push((batch_of_kind(Kind::PointCloud, None), options));
    cases
}

async fn stored(batch: &Batch) -> (TempDir, String) {
    if batch.vertex_objects().is_none() && batch.parts().is_empty() {
        return store(8.0, batch, |_| {}).await;
    }
    store(8.0, batch, with_objects(24)).await
}

/// Describes the objects and groups of level 0.
async fn describe(address: &str) -> Vec<String> {
    let level = LevelReader::open(&open(address).await, LevelId(0)).await.unwrap();
    let Some(index) = level.objects().await.unwrap() else { return Vec::new() };
    let ids = index.ids(0..index.slots()).await.unwrap();
    let mass = level.object_attribute("mass").await.unwrap().unwrap();
    let mass = mass.range(0..index.slots()).await.unwrap();
    let groups = level.groups().await.unwrap().unwrap();
    let mut lines = vec![format!("{ids:?}"), format!("{:?}", mass.column().as_slice::<f32>())];
    for (at, members) in groups.members(&[0]).await.unwrap().iter().enumerate() {
        lines.push(format!("{:?} {members:?}", groups.name(at as u64)));
    }
    lines
}

/// Asserts that a store has no additive levels.
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
async fn building_no_levels_restores_level_0() {
    for (batch, options) in kinds() {
        for memory in [512 << 20, 1 << 14] {
            let (dir, address) = stored(&batch).await;
            let (before, before_objects) = (level(&address, 0).await, describe(&address).await);
            let built = build(&address, &options).await;
            let context = format!("{}, {memory}", batch.kind());
            assert!(built.len() > 2, "{context}");
            let no_levels = Options { levels: Some(0), memory, ..Options::default() };
            let rebuilt = build(&address, &no_levels).await;
            let [report] = rebuilt.as_slice() else { panic!("{context}") };
            assert_eq!((report.level, report.vertices), (0, batch.len() as u64), "{context}");
            let sum = |f: fn(&zvf_pyramid::LevelReport) -> u64| built.iter().map(f).sum::<u64>();
            assert_eq!(report.objects, sum(|r| r.objects), "{context}");
            assert_eq!(report.elements, sum(|r| r.elements), "{context}");
            is_plain(&address, &[0]).await;
            let after = level(&address, 0).await;
            assert_eq!(vertices(&after), vertices(&before), "{context}");
            assert_eq!(elements(&after), elements(&before), "{context}");
            assert_eq!(describe(&address).await, before_objects, "{context}");
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "{context}");
        }
    }
}

/// A rebuild of an additive store gives the levels of the original store.
#[tokio::test(flavor = "multi_thread")]
async fn rebuilt_levels_equal_those_of_the_original_store() {
    for (batch, options) in kinds().into_iter().filter(|(_, options)| options.sparsity > 1.0) {
        let reseeded = Options { seed: 8, sparsity: 3.0, ..options.clone() };
        for target in [Options { additive: false, ..reseeded.clone() }, reseeded] {
            let (_first_dir, original) = stored(&batch).await;
            let (_dir, address) = stored(&batch).await;
            let before_objects = describe(&address).await;
            build(&address, &options).await;
            let plan = PyramidPlan::plan(&open(&address).await, &target).await.unwrap();
            assert_eq!(plan.vertices(), batch.len() as u64);
            let (expected, actual) =
                (build(&original, &target).await, build(&address, &target).await);
            let context = format!("{}, {}", batch.kind(), target.additive);
            let counts = |reports: &[zvf_pyramid::LevelReport]| {
                let count = |r: &zvf_pyramid::LevelReport| (r.level, r.vertices, r.elements);
                reports.iter().filter(|r| r.level > 0).map(count).collect::<Vec<_>>()
            };
            assert_eq!(counts(&actual), counts(&expected), "{context}");
            assert_eq!(actual[0].level, 0, "{context}");
            for number in 0..=2 {
                let left = read_increment(&original, number).await;
                let right = read_increment(&address, number).await;
                assert_eq!(vertices(&left), vertices(&right), "{context}, level {number}");
                assert_eq!(elements(&left), elements(&right), "{context}, level {number}");
            }
            if target.additive {
                assert_eq!(level(&address, 0).await.len(), batch.len(), "{context}");
            } else {
                is_plain(&address, &[0, 1, 2]).await;
                assert_eq!(describe(&address).await, before_objects, "{context}");
            }
        }
    }
}

/// Points without objects are spread by their order, which differs in a rebuild.
#[tokio::test(flavor = "multi_thread")]
async fn rebuilding_spreads_points_over_new_levels() {
    let batch = batch_of_kind(Kind::PointCloud, None);
    let (_dir, address) = stored(&batch).await;
    let before = vertices(&level(&address, 0).await);
    build(&address, &Options { sparsity: 1.0, ..additive_options(3) }).await;
    let options = Options { sparsity: 1.0, keep: Some(0.4), ..additive_options(2) };
    let counts: Vec<u64> = build(&address, &options).await.iter().map(|r| r.vertices).collect();
    assert_eq!((counts.len(), counts.iter().sum::<u64>()), (3, batch.len() as u64));
    assert_eq!(vertices(&level(&address, 0).await), before);
    assert_eq!(open(&address).await.list_levels().await.unwrap(), [0, 1, 2]);
    // If no point is kept, level 0 is restored.
    let no_points = Options { keep: Some(1e-9), ..options };
    assert_eq!(build(&address, &no_points).await.len(), 1);
    is_plain(&address, &[0]).await;
    assert_eq!(vertices(&level(&address, 0).await), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn inconsistent_additive_levels_are_refused() {
    let (dir, address) = store(8.0, &walks(12, 50), with_objects(12)).await;
    let (_donor_dir, donor) = store(8.0, &walks(12, 50), with_objects(12)).await;
    build(&address, &additive_options(1)).await;
    build(&donor, &Options { seed: 4, ..additive_options(1) }).await;
    let refused = async |message: &str| {
        let options = Options { levels: Some(0), ..Options::default() };
        let error = refusal(&address, &options).await;
        assert!(error.sentence().starts_with(message), "{error}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "{message}");
        assert_eq!(open(&address).await.level_numbers(), [0, 1], "{message}");
    };
    // Level 1 comes from another choice of objects.
    fs::remove_dir_all(Path::new(&address).join("1")).unwrap();
    fs::rename(Path::new(&donor).join("1"), Path::new(&address).join("1")).unwrap();
    refused("objects: expected each at one of the levels that add to each other, found object")
        .await;
    // An attribute that only level 0 has.
    fs::remove_dir_all(Path::new(&address).join("1/vertex_attributes/along")).unwrap();
    refused("attributes of vertices and edges: expected the same at levels that add to each other")
        .await;
}
