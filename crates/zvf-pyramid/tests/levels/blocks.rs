//! Levels built in blocks: geometry that is cut between blocks is joined again.

use zvf_model::{Batch, Elements, Field, Kind, ObjectId, Parts};
use zvf_pyramid::{Aggregation, Method, Options, PyramidNotice};

use crate::fixtures::{build, floats, level, sheet, store, values};
use crate::going_on::collect_notices;
use crate::shapes::{borders, components, euler, surface_distance};

fn total_count(batch: &Batch) -> f64 {
    values(&batch.field("count").unwrap().column).iter().sum()
}

/// Returns the memory in bytes for about `vertices` vertices with their edges or faces.
pub(crate) fn memory_for(kind: Kind, vertices: u64) -> u64 {
    vertices * if kind == Kind::Mesh { 1600 } else { 800 }
}

#[tokio::test(flavor = "multi_thread")]
async fn meshes_in_blocks_keep_holes_and_the_stated_error() {
    let fine = sheet(24);
    let (_dir, address) = store(4.0, &fine, |_| {}).await;
    for method in [Method::Collapse, Method::Cluster] {
        let mut faces = fine.elements().unwrap().len();
        let size = (method == Method::Cluster).then_some(2.0);
        let (method, memory) = (Some(method), memory_for(Kind::Mesh, 120));
        let options = Options { levels: Some(2), method, size, memory, ..Options::default() };
        for report in build(&address, &options).await {
            let coarse = level(&address, report.level).await;
            assert_eq!(total_count(&coarse), fine.len() as f64, "{report}");
            assert_eq!(components(&coarse), 1, "{report}");
            let face_count = coarse.elements().unwrap().len();
            assert_eq!(face_count as u64, report.elements);
            assert!(face_count < faces * 4 / 5, "{face_count} of {faces}");
            faces = face_count;
            if method == Some(Method::Collapse) {
                assert_eq!((euler(&coarse), borders(&coarse)), (0, 2), "{report}");
                let (distance, stated) = (surface_distance(&fine, &coarse), report.error.unwrap());
                assert!(distance <= stated + 1e-5, "{distance} {stated}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn graphs_in_blocks_join_the_same_cells() {
    // A grid, and some edges between distant nodes.
    let at = (0..1600).flat_map(|i| [f64::from(i / 40) + 0.2, f64::from(i % 40) + 0.3]);
    let right = (0..1600_usize).filter(|i| i % 40 < 39).flat_map(|i| [i, i + 1]);
    let up = (0..1560).flat_map(|i| [i, i + 40]);
    let far = (0..30).flat_map(|i| [i * 7, 1599 - i * 11]);
    let rows: Vec<usize> = right.chain(up).chain(far).collect();
    let weight = floats((0..rows.len() / 2).map(|i| (i % 5) as f64), 1);
    let edges = Elements::new(2, rows).unwrap().with_field(Field::new("weight", weight)).unwrap();
    let graph = Batch::new(Kind::Graph, floats(at, 2)).with_elements(edges).unwrap();
    let mass = floats((0..1600).map(f64::from), 1);
    let graph = graph.with_field(Field::new("mass", mass)).unwrap();
    let (_dir, address) = store(5.0, &graph, |_| {}).await;
    let joined = |batch: &Batch| -> std::collections::BTreeSet<[i64; 4]> {
        // Returns the pairs of joined cells, regardless of direction.
        let at = values(batch.positions());
        let cell = |row: usize| {
            [(at[row * 2] / 2.0).floor() as i64, (at[row * 2 + 1] / 2.0).floor() as i64]
        };
        let edges = batch.elements().unwrap().rows().chunks(2);
        let ends = edges.map(|edge| {
            let (a, b) = (cell(edge[0]), cell(edge[1]));
            let (a, b) = (a.min(b), a.max(b));
            [a[0], a[1], b[0], b[1]]
        });
        ends.filter(|[a, b, c, d]| (a, b) != (c, d)).collect()
    };
    let mut sizes = Vec::new();
    for memory in [memory_for(Kind::Graph, 1_000_000), memory_for(Kind::Graph, 300)] {
        let rules = vec![("mass".to_owned(), Aggregation::Sum)];
        let options =
            Options { levels: Some(1), size: Some(2.0), rules, memory, ..Options::default() };
        let report = build(&address, &options).await.remove(0);
        let coarse = level(&address, 1).await;
        assert_eq!((components(&coarse), total_count(&coarse)), (1, 1600.0));
        assert_eq!(values(&coarse.field("mass").unwrap().column).iter().sum::<f64>(), 1_279_200.0);
        assert_eq!(joined(&coarse), joined(&graph), "{report}");
        sizes.push(coarse.len());
    }
    assert!(sizes[0] == 400 && sizes[1] > 400 && sizes[1] < 900, "{sizes:?}");
}

/// Returns combs: a stem with a long twig or a short one at every tenth vertex.
pub(crate) fn combs(count: usize) -> Batch {
    let (mut at, mut edges, mut owners) = (Vec::new(), Vec::new(), Vec::new());
    for tree in 0..count {
        let first = at.len() / 2;
        let y = tree as f64 * 30.0;
        for i in 0..50 {
            at.extend([f64::from(i), y]);
            if i > 0 {
                edges.extend([at.len() / 2 - 1, at.len() / 2 - 2]);
            }
        }
        for twig in 1..5_usize {
            let length = if twig % 2 == 0 { 8 } else { 2 };
            let mut parent = first + twig * 10;
            for i in 1..=length {
                at.extend([twig as f64 * 10.0, y + f64::from(i)]);
                edges.extend([at.len() / 2 - 1, parent]);
                parent = at.len() / 2 - 1;
            }
        }
        owners.resize(at.len() / 2, Some(ObjectId(tree as i64 * 3)));
    }
    let skeleton = Batch::new(Kind::Skeleton, floats(at, 2)).with_vertex_objects(owners).unwrap();
    skeleton.with_elements(Elements::new(2, edges).unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn skeletons_are_pruned_in_batches_of_objects() {
    let (_dir, address) = store(12.0, &combs(9), |_| {}).await;
    let mut expected: Option<Vec<f64>> = None;
    for memory in [512 << 20, memory_for(Kind::Skeleton, 100)] {
        let options = Options {
            levels: Some(1),
            size: Some(0.1),
            prune: Some(3.0),
            memory,
            ..Options::default()
        };
        let report = build(&address, &options).await.remove(0);
        let coarse = level(&address, 1).await;
        // Each comb keeps its root and tip and two forks with twigs of 8; the twigs of 2 are pruned.
        assert_eq!((coarse.len(), components(&coarse)), (9 * 6, 9));
        assert!((2.0..2.2).contains(&report.error.unwrap()), "{report}");
        let at = values(coarse.positions());
        assert_eq!(&at, expected.get_or_insert_with(|| at.clone()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn renumber_numbers_objects_from_zero() {
    let combs = combs(8);
    let group = |writer: &mut zvf_write::Writer| {
        let ids: Vec<ObjectId> = (0..8).map(|id| ObjectId(id * 3)).collect();
        writer.group(Some("all"), zvf_model::Members::Ids(ids));
    };
    let (_dir, address) = store(12.0, &combs, group).await;
    let options = Options {
        levels: Some(2),
        size: Some(0.1),
        sparsity: 2.0,
        renumber: true,
        ..Options::default()
    };
    let reports = build(&address, &options).await;
    assert_eq!(reports.iter().map(|report| report.objects).collect::<Vec<_>>(), [4, 2]);
    let store = crate::fixtures::open(&address).await;
    let mut finer_ids: Vec<i64> = (0..8).map(|id| id * 3).collect();
    for number in [1, 2] {
        let level = zvf_model::LevelReader::open(&store, zvf_model::LevelId(number)).await.unwrap();
        let index = level.objects().await.unwrap().unwrap();
        let ids: Vec<i64> =
            index.ids(0..index.slots()).await.unwrap().iter().map(|id| id.0).collect();
        assert_eq!(ids, (0..ids.len() as i64).collect::<Vec<_>>());
        assert!(!level.node().meta().preserves_object_ids);
        let sources = level.object_attribute("source_id").await.unwrap().unwrap();
        let sources = sources.range(0..index.slots()).await.unwrap();
        let sources: Vec<i64> = values(sources.column()).iter().map(|id| *id as i64).collect();
        assert!(
            sources.len() == ids.len() && sources.iter().all(|id| finer_ids.contains(id)),
            "{sources:?}"
        );
        let groups = level.groups().await.unwrap().unwrap();
        let members = groups.members(&[0]).await.unwrap().remove(0);
        assert_eq!(members, zvf_model::Members::Ids(ids.into_iter().map(ObjectId).collect()));
        finer_ids = sources;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn levels_end_at_the_byte_limit_or_without_reduction() {
    let at: Vec<f64> = (0..30_000).map(|i| f64::from(i * 7919 % 30_011) / 300.11).collect();
    let points = Batch::new(Kind::PointCloud, floats(at, 3));
    let (_dir, address) = store(25.0, &points, |_| {}).await;
    let options = Options { until_bytes: Some(20_000), ..Options::default() };
    let reports = build(&address, &options).await;
    let (last, others) = reports.split_last().unwrap();
    assert!(last.bytes <= 20_000 && others.iter().all(|level| level.bytes > 20_000), "{reports:?}");

    // No tolerance reduces lines of two vertices, so no level is built. With one longer line among them a level
    // is built, but its reduction is too small for another one.
    let (lines, with_straight) = (lines_of_two(60, 0), lines_of_two(60, 4));
    let notice = PyramidNotice::NothingShrinks { level: 1, vertices: 120 };
    for (lines, levels, expected) in
        [(lines, vec![], vec![notice]), (with_straight, vec![(1, 122)], vec![])]
    {
        let (_dir, address) = store(25.0, &lines, |_| {}).await;
        let (reports, notices) =
            collect_notices(&address, &Options { until: 10, ..Options::default() }).await;
        let actual: Vec<_> = reports.iter().map(|report| (report.level, report.vertices)).collect();
        assert_eq!((&actual, notices), (&levels, expected));
        for (number, vertices) in levels {
            assert_eq!(level(&address, number).await.len() as u64, vertices);
        }
    }
}

/// Returns `count` lines of two vertices, and a straight one with `inner_count` more vertices between its ends.
fn lines_of_two(count: usize, inner_count: usize) -> Batch {
    let mut at: Vec<f64> =
        (0..count).flat_map(|i| [1.0, i as f64 / 4.0, 1.0, 11.0, i as f64 / 4.0, 1.0]).collect();
    let mut offsets: Vec<usize> = (0..=count).map(|line| line * 2).collect();
    if inner_count > 0 {
        at.extend((0..inner_count + 2).flat_map(|i| [1.0 + 2.0 * i as f64, 20.0, 1.0]));
        offsets.push(count * 2 + inner_count + 2);
    }
    let ids = (0..offsets.len() as i64 - 1).map(ObjectId).collect();
    let lines = Batch::new(Kind::Polyline, floats(at, 3));
    lines.with_parts(Parts::new(offsets, ids).unwrap()).unwrap()
}
