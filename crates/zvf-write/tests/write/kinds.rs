//! Several kinds in one store: each is read back independently of the others.

use proptest::prelude::*;
use zvf_metadata::LinkStore;
use zvf_model::{Batch, Elements, Kind, LevelId, LevelReader, Members, ObjectId, Parts, Value};
use zvf_query::{Query, Reader};
use zvf_store::CodecPipeline;
use zvf_write::{Schema, TaskPlan, WriteOptions, WriteTasks};

use crate::given::{Given, begin, floats, objects, open, run, schema as single, write};
use crate::round_trip::any_of;

/// Geometry of several kinds on the same axes; no two objects have one id.
fn any_mixture() -> impl Strategy<Value = Vec<Given>> {
    let kinds = Just(Kind::ALL.to_vec()).prop_shuffle();
    (kinds, 2_usize..=4, 1_usize..=3).prop_flat_map(|(kinds, several, axes)| {
        let strategies: Vec<_> =
            kinds.into_iter().take(several).map(|kind| any_of(kind, axes)).collect();
        strategies.prop_map(|mut all| {
            for (kind, geometry) in (0..).zip(&mut all) {
                for (n, (id, _)) in (0..).zip(&mut geometry.parts) {
                    *id = kind * 1000 - 500 + n * 7;
                }
            }
            all
        })
    })
}

/// One schema for all of them.
fn schema(all: &[Given]) -> Schema {
    let other_kinds = all[1..].iter().map(|geometry| geometry.kind);
    other_kinds.fold(all[0].schema(8.0), |schema, kind| schema.with_kind(kind).unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn every_kind_reads_back(
        all in any_mixture(),
        size in 1_usize..70,
        memory in prop::sample::select(vec![0_u64, 1 << 20]),
        compat: bool,
        sharded: bool,
    ) {
        let scratch = tempfile::tempdir().unwrap();
        let scratch_folder = Some(scratch.path().to_owned());
        let options = WriteOptions { memory, compat, scratch: scratch_folder, ..WriteOptions::default() };
        let mut schema = schema(&all);
        if sharded {
            let shard = vec![2; all[0].axes];
            schema = schema.with_codecs(CodecPipeline::zstd(1)).with_shard_shape(&shard).unwrap();
        }
        run(async {
            let (store, report) = write(&all, schema, options, size).await.unwrap();
            assert_eq!(report.kinds.len(), all.len());
            assert_eq!(report.vertices, all.iter().map(|g| g.positions.len() as u64).sum::<u64>());
            for geometry in &all {
                geometry.check_read(store.clone()).await;
            }
            let level = LevelReader::open(&open(store).await, LevelId(0)).await.unwrap();
            let mut kinds: Vec<Kind> = level.kinds().iter().copied().chain(level.extra_kinds()).collect();
            let mut expected: Vec<Kind> = all.iter().map(|geometry| geometry.kind).collect();
            kinds.sort_unstable();
            expected.sort_unstable();
            assert_eq!(kinds, expected);
        });
        prop_assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0);
    }

    #[test]
    fn bytes_do_not_depend_on_threads_or_batches(all in any_mixture(), size in 1_usize..70) {
        let pool = |n| rayon::ThreadPoolBuilder::new().num_threads(n).build().unwrap();
        let (single_thread, five_threads) = (pool(1), pool(5));
        let bytes = |pool: &rayon::ThreadPool, size, memory| {
            let options = WriteOptions { memory, ..WriteOptions::default() };
            pool.install(|| run(async {
                objects(&write(&all, schema(&all), options, size).await.unwrap().0).await
            }))
        };
        let expected = bytes(&single_thread, usize::MAX, 1 << 20);
        prop_assert_eq!(&bytes(&five_threads, size, 1 << 20), &expected);
        prop_assert_eq!(&bytes(&single_thread, size, 0), &expected);
    }
}

fn mixed(first: Kind, other_kinds: &[Kind]) -> Schema {
    other_kinds.iter().fold(single(first), |schema, kind| schema.with_kind(*kind).unwrap())
}

/// The ids of all objects of a kind.
async fn ids(reader: &Reader, kind: Kind) -> Vec<i64> {
    let level = reader.level_of_kind(LevelId(0), kind).await.unwrap();
    let Some(index) = level.objects().await.unwrap() else { return Vec::new() };
    index.ids(0..index.slots()).await.unwrap().iter().map(|id| id.0).collect()
}

#[tokio::test]
async fn objects_without_ids_are_numbered_across_kinds() {
    let kinds = [Kind::Skeleton, Kind::Line, Kind::Graph, Kind::Polyline, Kind::PointCloud];
    let (memory, mut writer) = begin(mixed(kinds[0], &kinds[1..])).await;
    let trees = |xs: &[f32]| {
        let edges = Elements::new(2, vec![1, 0]).unwrap();
        Batch::new(Kind::Skeleton, floats(xs, 1)).with_elements(edges).unwrap()
    };
    writer.push(&trees(&[1.0, 2.0, 3.0])).unwrap(); // 0 and 1
    writer.push(&Batch::new(Kind::Line, floats(&[1.0, 2.0, 3.0, 4.0], 1))).unwrap(); // 2 and 3
    writer.push(&Batch::new(Kind::Graph, floats(&[1.0, 2.0], 1))).unwrap(); // 4
    let named = Parts::new(vec![0, 2], vec![ObjectId(7)]).unwrap();
    let chain = Batch::new(Kind::Polyline, floats(&[5.0, 15.0], 1)).with_parts(named).unwrap();
    writer.push(&chain).unwrap(); // 7
    writer.push(&Batch::new(Kind::Graph, floats(&[3.0], 1))).unwrap(); // 4 again
    writer.push(&trees(&[5.0, 6.0])).unwrap(); // 8
    writer.push(&Batch::new(Kind::PointCloud, floats(&[5.0, 6.0], 1))).unwrap(); // none
    writer.kind(Kind::Polyline).unwrap().declare_objects(&[ObjectId(20)]);
    writer.push(&Batch::new(Kind::Line, floats(&[8.0, 9.0], 1))).unwrap(); // 21
    let members = vec![ObjectId(21), ObjectId(0), ObjectId(7)];
    assert_eq!(writer.group(Some("some"), Members::Ids(members)), 0);
    let report = writer.finish().await.unwrap();
    assert_eq!(
        report.to_string(),
        "18 vertices in 6 chunks, 9 objects, 1 link; skeleton: 5 vertices, 3 objects, 0 links; \
         line: 6 vertices, 3 objects, 0 links; graph: 3 vertices, 1 object, 0 links; polyline: 2 \
         vertices, 2 objects, 1 link; point_cloud: 2 vertices, 0 objects, 0 links; \
         objects are not numbered 0, 1, 2, …: zarr-vectors finds them by their ids only"
    );
    let reader = Reader::new(open(memory).await);
    let expected_ids: [&[i64]; 5] = [&[0, 1, 8], &[2, 3, 21], &[4], &[7, 20], &[]];
    for (kind, expected) in kinds.into_iter().zip(expected_ids) {
        assert_eq!(ids(&reader, kind).await, expected, "{kind}");
    }
    // A group belongs to the whole store: each kind adds its members.
    for (kind, vertices) in [(Kind::Skeleton, 2), (Kind::Line, 2), (Kind::Polyline, 2)] {
        let answer = reader.run(&Query::all().in_groups([0]).of_kind(kind)).await.unwrap();
        assert_eq!(answer.batch.len(), vertices, "{kind}");
    }
    let tree = reader.run(&Query::all().of_kind(Kind::Skeleton)).await.unwrap();
    assert_eq!(tree.batch.elements().map_or(0, Elements::len), 2);
    let first = reader.run(&Query::all()).await.unwrap();
    assert_eq!((first.batch.kind(), first.batch.len()), (Kind::Skeleton, 5));
}

#[tokio::test]
async fn invalid_mixtures_are_refused() {
    let part = |kind, id| {
        let part = Parts::new(vec![0, 2], vec![ObjectId(id)]).unwrap();
        Batch::new(kind, floats(&[1.0, 2.0], 1)).with_parts(part).unwrap()
    };
    let (_, mut writer) = begin(mixed(Kind::Graph, &[Kind::Streamline, Kind::Mesh])).await;
    assert_eq!(
        writer.kind(Kind::Line).map(|_| ()).unwrap_err().to_string(),
        "InvalidArgument, the kind: expected mesh or graph or streamline, found line"
    );
    assert_eq!(
        writer.push(&part(Kind::Line, 1)).unwrap_err().to_string(),
        "InvalidArgument, a batch of mesh: its kind: expected mesh, found line"
    );
    writer.push(&part(Kind::Streamline, 5)).unwrap();
    writer.push(&part(Kind::Graph, 5)).unwrap();
    assert_eq!(
        writer.finish().await.unwrap_err().to_string(),
        "InvalidArgument, object 5 is both a graph and a streamline: ids are unique over all kinds"
    );
}

#[test]
fn tasks_are_of_one_kind() {
    let folder = tempfile::tempdir().unwrap();
    let schema = mixed(Kind::Graph, &[Kind::Streamline]);
    let plan = TaskPlan::new(&schema, Vec::new(), 1, "".into());
    plan.create(folder.path()).unwrap();
    let refused = WriteTasks::open("a.zv", folder.path(), schema, WriteOptions::default());
    assert_eq!(
        refused.unwrap_err().to_string(),
        "InvalidArgument, kinds of a store built by tasks: expected one, found 2"
    );
}

#[tokio::test]
async fn options_of_links_apply_to_each_kind_with_links() {
    let schema = mixed(Kind::Skeleton, &[Kind::Graph, Kind::Polyline]);
    let (memory, mut writer) =
        begin(schema.with_directed_links().with_links(LinkStore::Duplicate)).await;
    let part = |kind| {
        let id = ObjectId(kind as i64);
        let part = Parts::new(vec![0, 2], vec![id]).unwrap();
        Batch::new(kind, floats(&[1.0, 12.0], 1)).with_parts(part).unwrap()
    };
    let edge = Elements::new(2, vec![1, 0]).unwrap();
    writer.push(&part(Kind::Skeleton).with_elements(edge.clone()).unwrap()).unwrap();
    writer.push(&part(Kind::Graph).with_elements(edge).unwrap()).unwrap();
    writer.push(&part(Kind::Polyline)).unwrap();
    writer.finish().await.unwrap();
    let level = LevelReader::open(&open(memory).await, LevelId(0)).await.unwrap();
    for (kind, directed, store, convention) in [
        (Kind::Skeleton, false, "canonical", "implicit_sequential_with_branches"),
        (Kind::Graph, true, "duplicate", "explicit"),
        (Kind::Polyline, false, "canonical", "implicit_sequential"),
    ] {
        let level = level.open_kind(kind).await.unwrap().unwrap();
        let family = level.node().group("links/0").await.unwrap().unwrap().attributes;
        assert_eq!((&family["directed"], &family["store"]), (&directed.into(), &store.into()));
        assert_eq!(level.links_convention().as_str(), convention, "{kind}");
    }
}

#[tokio::test]
async fn bounds_are_those_of_all_and_a_kind_may_be_empty() {
    let (memory, mut writer) = begin(mixed(Kind::Graph, &[Kind::Mesh, Kind::PointCloud])).await;
    writer.push(&Batch::new(Kind::PointCloud, floats(&[31.0, 35.0], 1))).unwrap();
    writer.push(&Batch::new(Kind::Graph, floats(&[-15.0], 1))).unwrap();
    writer.finish().await.unwrap();
    let store = open(memory).await;
    let block = &store.root().zarr_vectors;
    assert_eq!(block.bounds, [vec![-15.0], vec![35.0]]);
    let kinds: Vec<&str> = block.geometry_types.iter().map(|token| token.as_str()).collect();
    assert_eq!(kinds, ["mesh", "graph", "point_cloud"]);
    let reader = Reader::new(store);
    for (kind, rows) in [(Kind::Mesh, 0), (Kind::Graph, 1), (Kind::PointCloud, 2)] {
        let answer = reader.run(&Query::all().of_kind(kind)).await.unwrap();
        assert_eq!(answer.batch.len(), rows, "{kind}");
    }
    let graph = reader.run(&Query::all().of_kind(Kind::Graph)).await.unwrap();
    assert_eq!(graph.batch.positions().value(0, 0), Value::Float(-15.0));
}
