//! Links between levels: each vertex has one parent, and the parent links back to it.

use std::collections::{BTreeMap, BTreeSet};

use zvf_format::key::ChunkKey;
use zvf_metadata::CrossLevelStorage;
use zvf_model::{Batch, Elements, Kind, LevelId, LevelLink, ObjectId, Value, VertexRow};
use zvf_pyramid::Options;
use zvf_query::{LOCATION_FIELD, Query, Reader};

use crate::fixtures::{build, floats, open, sheet, store, values, walks, with_objects};

fn graph() -> Batch {
    let at = (0..400).flat_map(|i| [f64::from(i / 20) + 0.2, f64::from(i % 20) + 0.3, 1.0]);
    let right = (0..400_usize).filter(|i| i % 20 < 19).flat_map(|i| [i, i + 1]);
    let edges = right.chain((0..380).flat_map(|i| [i, i + 20])).collect();
    let edges = Elements::new(2, edges).unwrap();
    Batch::new(Kind::Graph, floats(at, 3)).with_elements(edges).unwrap()
}

pub(crate) fn skeleton() -> Batch {
    let at = (0..200).flat_map(|i| [f64::from(i) * 0.2, (f64::from(i) * 0.1).sin(), 0.5]);
    let edges = (1..200).flat_map(|i| [i, i - 1]).collect();
    let skeleton = Batch::new(Kind::Skeleton, floats(at, 3));
    let skeleton = skeleton.with_vertex_objects(vec![Some(ObjectId(4)); 200]).unwrap();
    skeleton.with_elements(Elements::new(2, edges).unwrap()).unwrap()
}

pub(crate) fn points() -> Batch {
    let at = (0..1500).map(|i| f64::from(i * 7919 % 30011) / 300.11);
    Batch::new(Kind::PointCloud, floats(at, 3))
}

/// Returns the vertices of a level, or of a kind of it, with their positions.
pub(crate) async fn rows(
    reader: &Reader,
    kind: Option<Kind>,
    level: u32,
) -> Vec<(VertexRow, Vec<f64>)> {
    let query = Query::all().at_level(LevelId(level)).with_places();
    let (opened, query) = match kind {
        Some(kind) => (reader.level_of_kind(LevelId(level), kind).await, query.of_kind(kind)),
        None => (reader.level(LevelId(level)).await, query),
    };
    let keys: Vec<ChunkKey> = opened.unwrap().chunks().await.unwrap().iter().collect();
    let batch = reader.run(&query).await.unwrap().batch;
    let (locations, at) =
        (batch.field(LOCATION_FIELD).unwrap().column.clone(), values(batch.positions()));
    let row = |row: usize| {
        let Value::UInt(location) = locations.value(row, 0) else { panic!("no location") };
        let at = at[row * 3..row * 3 + 3].to_vec();
        (VertexRow { chunk: keys[(location >> 32) as usize], row: location & 0xffff_ffff }, at)
    };
    (0..batch.len()).map(row).collect()
}

type Key = (Vec<i64>, u64);

fn key(row: &VertexRow) -> Key {
    (row.chunk.components().to_vec(), row.row)
}

fn pairs(links: &[LevelLink]) -> BTreeSet<(Key, Key)> {
    links.iter().map(|link| (key(&link.row), key(&link.linked_row))).collect()
}

async fn related(reader: &Reader, from: u32, to: u32) -> Option<Vec<LevelLink>> {
    let rows: Vec<VertexRow> =
        rows(reader, None, from).await.into_iter().map(|(row, _)| row).collect();
    reader.find_related_of_kind(None, LevelId(from), LevelId(to), &rows).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_vertex_has_one_parent_that_links_back() {
    for (name, batch, size, scale) in [
        ("points", points(), 9.0, 2),
        ("walks", walks(4, 100), 0.4, 3),
        ("graph", graph(), 2.0, 2),
        ("skeleton", skeleton(), 0.1, 1),
        ("sheet", sheet(14), 1.0, 2),
    ] {
        let (_dir, address) = store(10.0, &batch, |_| {}).await;
        let size = (batch.kind() != Kind::Mesh).then_some(size);
        let options = Options {
            levels: Some(3),
            size,
            chunk_scale: scale,
            links: CrossLevelStorage::Explicit,
            depth: -1,
            ..Options::default()
        };
        let reports = build(&address, &options).await;
        let reader = Reader::new(open(&address).await);
        let mut parents_of: Vec<BTreeMap<Key, Key>> = Vec::new();
        for report in &reports {
            let fine = rows(&reader, None, report.level - 1).await;
            let coarse: BTreeMap<Key, Vec<f64>> = rows(&reader, None, report.level)
                .await
                .iter()
                .map(|(row, at)| (key(row), at.clone()))
                .collect();
            let links = related(&reader, report.level - 1, report.level).await.unwrap();
            assert_eq!(links.len(), fine.len(), "{name} {report}");
            let parents: BTreeMap<Key, Key> =
                links.iter().map(|link| (key(&link.row), key(&link.linked_row))).collect();
            assert_eq!(parents.len(), fine.len(), "{name} {report}");
            let used_parents: BTreeSet<&Key> = parents.values().collect();
            assert_eq!(
                used_parents.len(),
                coarse.len(),
                "{name} {report}: every coarse vertex has a child"
            );
            for (row, at) in &fine {
                let to = &coarse[&parents[&key(row)]];
                let distance: f64 =
                    at.iter().zip(to).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt();
                let max_distance = if name == "points" { report.error.unwrap() } else { 60.0 };
                assert!(distance <= max_distance + 1e-3, "{name} {report}: {distance}");
            }
            let children = related(&reader, report.level, report.level - 1).await.unwrap();
            let children: BTreeSet<(Key, Key)> =
                pairs(&children).into_iter().map(|(a, b)| (b, a)).collect();
            assert_eq!(children, pairs(&links), "{name} {report}");
            parents_of.push(parents);
        }
        // Links over several levels are stored and equal the composed links of each level.
        let across = pairs(&related(&reader, 0, 3).await.unwrap());
        let climbed = parents_of[0]
            .iter()
            .map(|(child, up)| (child.clone(), parents_of[2][&parents_of[1][up]].clone()));
        assert_eq!(across, climbed.collect(), "{name}");
        let store = reader.store();
        assert!(store.nodes().group("0/links/+3").await.unwrap().is_some());
        assert!(store.nodes().group("3/links/-3").await.unwrap().is_some());
        assert_eq!(store.root().zarr_vectors.cross_level_depth, Some(-1));
        let capabilities = &store.root().zarr_vectors.format_capabilities;
        assert!(capabilities.iter().any(|token| token.as_str() == "multiscale_links"), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn options_determine_the_stored_links() {
    let (_dir, address) = store(16.0, &walks(6, 100), with_objects(6)).await;
    let mut expected = None;
    for (links, depth, present, missing) in [
        (
            CrossLevelStorage::Explicit,
            1,
            &["0/links/+1", "1/links/-1", "1/links/+1"][..],
            "0/links/+2",
        ),
        (CrossLevelStorage::Implicit, 2, &["0/links/+1", "0/links/+2", "1/links/+1"], "1/links/-1"),
        (CrossLevelStorage::Explicit, 0, &[], "0/links/+1"),
        (CrossLevelStorage::None, -1, &[], "0/links/+1"),
    ] {
        let options =
            Options { levels: Some(2), size: Some(0.2), links, depth, ..Options::default() };
        build(&address, &options).await;
        let store = open(&address).await;
        for group in present {
            assert!(
                store.nodes().group(group).await.unwrap().is_some(),
                "{links:?} {depth}: {group}"
            );
        }
        assert!(
            store.nodes().group(missing).await.unwrap().is_none(),
            "{links:?} {depth}: {missing}"
        );
        let reader = Reader::new(store);
        let (up, down) = (related(&reader, 0, 2).await, related(&reader, 2, 0).await);
        if present.is_empty() {
            assert_eq!((up, down), (None, None));
            continue;
        }
        let (up, down) = (pairs(&up.unwrap()), pairs(&down.unwrap()));
        assert_eq!(up, down.into_iter().map(|(a, b)| (b, a)).collect());
        assert_eq!(
            &up,
            expected.get_or_insert_with(|| up.clone()),
            "stored and computed links are equal"
        );
        // The rows of an object link to rows of the same object.
        let rows = reader.object_rows(LevelId(0), ObjectId(3)).await.unwrap();
        let to: BTreeSet<Key> =
            reader.object_rows(LevelId(2), ObjectId(3)).await.unwrap().iter().map(key).collect();
        let links = reader
            .find_related_of_kind(None, LevelId(0), LevelId(2), &rows)
            .await
            .unwrap()
            .unwrap();
        assert_eq!((rows.len(), links.len()), (100, 100));
        assert!(links.iter().all(|link| to.contains(&key(&link.linked_row))));
    }
    let reader = Reader::new(open(&address).await);
    let error = reader.object_rows(LevelId(0), ObjectId(77)).await.unwrap_err();
    assert!(error.to_string().ends_with("there is no object 77"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn links_do_not_depend_on_the_memory_limit() {
    let (_dir, address) = store(16.0, &walks(6, 100), with_objects(6)).await;
    let mut expected = None;
    for memory in [512 << 20, 1 << 12] {
        let links = CrossLevelStorage::Explicit;
        let options =
            Options { levels: Some(2), size: Some(0.2), links, memory, ..Options::default() };
        build(&address, &options).await;
        let reader = Reader::new(open(&address).await);
        let actual = [
            pairs(&related(&reader, 0, 1).await.unwrap()),
            pairs(&related(&reader, 2, 1).await.unwrap()),
        ];
        assert_eq!(&actual, expected.get_or_insert_with(|| actual.clone()));
    }
}
