//! Levels as the reference builds them: how other levels replace them, and which stores are refused.

use std::path::Path;

use zvf_metadata::CrossLevelStorage;
use zvf_pyramid::{LevelContent, Options, Reference, build_reference};

use crate::additive::additive_options;
use crate::fixtures::{build, open, refusal, store, unsynced, walks, with_objects};
use crate::replacing::files;

#[tokio::test(flavor = "multi_thread")]
async fn building_removes_the_levels_and_links_of_the_reference() {
    let (dir, address) = store(16.0, &walks(6, 100), with_objects(6)).await;
    let before = files(Path::new(&address));
    let factors = vec![(2.0, 1.0), (2.0, 1.0), (2.0, 2.0)];
    let reference = Reference { factors, depth: -1, ..Reference::default() };
    let reports = build_reference(&address, &reference, &unsynced()).await.unwrap();
    assert_eq!(reports.len(), 3);
    let linked = open(&address).await;
    assert_eq!(linked.level_numbers(), [0, 1, 2, 3]);
    assert!(linked.nodes().group("0/links/+3").await.unwrap().is_some());
    assert!(linked.nodes().group("3/links/-2").await.unwrap().is_some());

    build(&address, &Options { levels: Some(1), size: Some(0.1), ..Options::default() }).await;
    let store = open(&address).await;
    assert_eq!(
        (store.level_numbers(), store.list_levels().await.unwrap()),
        (vec![0, 1], vec![0, 1])
    );
    assert!(store.nodes().group("0/links/+1").await.unwrap().is_none());
    let root = store.root();
    let storage = root.zarr_vectors.cross_level_storage().known_word();
    assert_eq!(storage, Some(CrossLevelStorage::None));
    let capabilities = &root.zarr_vectors.format_capabilities;
    let names: Vec<&str> = capabilities.iter().map(|token| token.as_str()).collect();
    assert_eq!(names, ["preserved_object_ids"]);

    build(&address, &Options { until: 1_000_000, ..Options::default() }).await;
    assert_eq!(files(Path::new(&address)), before);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1); // no scratch
}

#[tokio::test(flavor = "multi_thread")]
async fn stores_that_the_reference_would_damage_are_refused() {
    let (_dir, address) = crate::kinds::mixed_store().await;
    let before = files(Path::new(&address));
    let reference = Reference { factors: vec![(2.0, 1.0)], ..Reference::default() };
    let error = build_reference(&address, &reference, &unsynced()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "Unsupported, kinds of geometry: expected one: the reference makes levels of the first and loses the others, \
         found point_cloud"
    );
    assert_eq!(files(Path::new(&address)), before);

    let (_dir, address) = store(8.0, &walks(12, 50), with_objects(12)).await;
    build(&address, &additive_options(1)).await;
    let error = build_reference(&address, &Reference::default(), &unsynced()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "Unsupported, level 0: expected one that is read alone: put it together first, by building 0 levels that \
         are not the reference's, found one that adds to the next"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn draco_vertices_are_not_linked() {
    let dir = archives::scratch();
    let address = archives::unpack_cached(dir.path(), "ms3_draco").display().to_string();
    let before = files(Path::new(&address));
    let expected = "Unsupported, vertices of level 0: expected the order that links between chunks mean, or levels would lose these: \
                   write what can be read as a new store first, with zvf convert, found Draco streams with an order \
                   of their own";
    for content in [LevelContent::AsReference, LevelContent::Full] {
        let factors = vec![(1.5, 1.0), (2.0, 1.0)];
        let reference = Reference { factors, content, ..Reference::default() };
        let error = build_reference(&address, &reference, &unsynced()).await.unwrap_err();
        assert_eq!(error.to_string(), expected);
        assert_eq!(files(Path::new(&address)), before);
    }
    let options = Options { levels: Some(1), ..Options::default() };
    let error = refusal(&address, &options).await;
    assert_eq!(error.to_string(), expected);
    assert_eq!(files(Path::new(&address)), before);
}
