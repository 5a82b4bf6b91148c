//! Properties that a coarser level keeps of a finer one, for each kind.

use std::collections::{BTreeMap, BTreeSet};

use zvf_metadata::Dtype;
use zvf_model::{Batch, Column, Elements, Field, Kind, LevelId, LevelReader, ObjectId};
use zvf_pyramid::{Aggregation, Method, Options, Strategy};

use crate::fixtures::{
    build, floats, level, open, refusal, sheet, store, values, walks, with_objects,
};
use crate::shapes::{borders, components, euler, surface_distance};

#[tokio::test(flavor = "multi_thread")]
async fn points_keep_sums_counts_and_the_mean() {
    let at: Vec<f64> = (0..9000).map(|i| f64::from(i * 7919 % 30011) / 300.11).collect();
    let mass = floats((0..3000).map(f64::from), 1);
    let points = Batch::new(Kind::PointCloud, floats(at, 3));
    let points = points.with_field(Field::new("mass", mass)).unwrap();
    let (_dir, address) = store(20.0, &points, |_| {}).await;
    let rules = vec![("mass".to_owned(), Aggregation::Sum)];
    let options = Options { levels: Some(3), size: Some(10.0), rules, ..Options::default() };
    let reports = build(&address, &options).await;
    let mean = |batch: &Batch| -> Vec<f64> {
        let weights = batch.field("count").map(|field| values(&field.column));
        let (at, axes) = (values(batch.positions()), 3);
        let weight = |row: usize| weights.as_ref().map_or(1.0, |weights| weights[row]);
        (0..axes)
            .map(|c| {
                (0..batch.len()).map(|row| at[row * axes + c] * weight(row)).sum::<f64>() / 3000.0
            })
            .collect()
    };
    let fine = level(&address, 0).await;
    let mut finer_len = fine.len();
    for report in &reports {
        let coarse = level(&address, report.level).await;
        assert!(coarse.len() < finer_len && coarse.len() as u64 == report.vertices);
        assert_eq!(values(&coarse.field("count").unwrap().column).iter().sum::<f64>(), 3000.0);
        assert_eq!(values(&coarse.field("mass").unwrap().column).iter().sum::<f64>(), 4_498_500.0);
        let differences = mean(&fine).into_iter().zip(mean(&coarse)).map(|(a, b)| (a - b).abs());
        assert!(differences.fold(0.0, f64::max) < 1e-3);
        // Every point of level 0 has a point of the coarse level within its stated error.
        let (from, to) = (values(fine.positions()), values(coarse.positions()));
        let distances_sq = from.chunks(3).map(|a| {
            let distance_sq =
                |b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum::<f64>();
            to.chunks(3).map(distance_sq).fold(f64::INFINITY, f64::min)
        });
        let distance = distances_sq.fold(0.0, f64::max).sqrt();
        assert!(distance <= report.error.unwrap() + 1e-4, "{distance} {:?}", report.error);
        finer_len = coarse.len();
    }
    assert_eq!(reports.len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn subsets_of_points_are_nested() {
    let at: Vec<f64> = (0..8000).map(|i| f64::from(i * 7919 % 30011) / 300.11).collect();
    let points = Batch::new(Kind::PointCloud, floats(at, 2));
    let (_dir, address) = store(25.0, &points, |_| {}).await;
    let method = Some(Method::Subset);
    let options = Options { levels: Some(2), method, keep: Some(0.25), ..Options::default() };
    let reports = build(&address, &options).await;
    let rows = |batch: &Batch| -> BTreeSet<Vec<u8>> {
        batch.positions().rows().map(<[u8]>::to_vec).collect()
    };
    let levels = [
        rows(&level(&address, 0).await),
        rows(&level(&address, 1).await),
        rows(&level(&address, 2).await),
    ];
    assert!(levels[1].is_subset(&levels[0]) && levels[2].is_subset(&levels[1]));
    assert!(!levels[2].is_empty() && levels[2].len() < levels[1].len() && levels[1].len() < 2000);
    assert_eq!(reports[0].error, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn points_keep_their_objects() {
    let at: Vec<f64> = (0..4000).map(|i| f64::from(i * 7919 % 30011) / 300.11).collect();
    let owners = (0..2000).map(|i| Some(ObjectId(i % 5))).collect();
    let points = Batch::new(Kind::PointCloud, floats(at, 2)).with_vertex_objects(owners).unwrap();
    let (_dir, address) = store(25.0, &points, with_objects(6)).await;
    let options = Options { levels: Some(1), size: Some(20.0), ..Options::default() };
    let options =
        Options { sparsity: 2.0, strategy: Strategy::Largest("mass".to_owned()), ..options };
    let reports = build(&address, &options).await;
    let coarse = level(&address, 1).await;
    let ids: BTreeSet<i64> =
        coarse.vertex_objects().unwrap().iter().map(|o| o.unwrap().0).collect();
    assert_eq!((ids, reports[0].objects), (BTreeSet::from([2, 3, 4]), 3));
    let count: f64 = values(&coarse.field("count").unwrap().column).iter().sum();
    assert_eq!(count, 1200.0);
    let reader = LevelReader::open(&open(&address).await, LevelId(1)).await.unwrap();
    assert_eq!(reader.objects().await.unwrap().unwrap().slots(), 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn index_arrays_are_compressed_and_vertices_are_not() {
    let (_dir, address) = store(10.0, &walks(5, 100), |_| {}).await;
    build(&address, &Options { levels: Some(1), ..Options::default() }).await;
    let names = ["vertex_fragments", "fragment_attributes/object_id", "links/0/+1.0.0"];
    for (array, coded) in names.map(|name| (name, true)).into_iter().chain([("vertices", false)]) {
        let document = |level: u32| format!("{address}/{level}/{array}/zarr.json");
        let zstd = |level| std::fs::read_to_string(document(level)).unwrap().contains("zstd");
        assert_eq!((zstd(0), zstd(1)), (false, coded), "{array}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn chains_stay_within_the_stated_error() {
    let (_dir, address) = store(16.0, &walks(12, 400), with_objects(12)).await;
    let options = Options { levels: Some(3), size: Some(0.05), ..Options::default() };
    let reports = build(&address, &options).await;
    let fine = level(&address, 0).await;
    let chains = |batch: &Batch| -> BTreeMap<i64, Vec<Vec<f64>>> {
        let at = values(batch.positions());
        let points =
            |rows: std::ops::Range<usize>| rows.map(|r| at[r * 3..r * 3 + 3].to_vec()).collect();
        batch.parts().iter().map(|part| (part.object.0, points(part.rows))).collect()
    };
    let fine_chains = chains(&fine);
    let mut finer_len = fine.len();
    for report in &reports {
        let coarse = level(&address, report.level).await;
        assert!(coarse.len() < finer_len, "{report}");
        finer_len = coarse.len();
        let coarse_chains = chains(&coarse);
        assert_eq!(
            coarse_chains.keys().collect::<Vec<_>>(),
            fine_chains.keys().collect::<Vec<_>>()
        );
        for (id, chain) in &fine_chains {
            let coarse_chain = &coarse_chains[id];
            assert_eq!((chain.first(), chain.last()), (coarse_chain.first(), coarse_chain.last()));
            for point in chain {
                let distance =
                    |s: &[Vec<f64>]| crate::shapes::distance_to_segment(point, &s[0], &s[1]);
                let distance = coarse_chain.windows(2).map(distance).fold(f64::INFINITY, f64::min);
                assert!(distance <= report.error.unwrap() + 1e-4, "{distance} {report}");
            }
        }
    }
    let reader = LevelReader::open(&open(&address).await, LevelId(2)).await.unwrap();
    let mass = reader.object_attribute("mass").await.unwrap().unwrap();
    assert_eq!(mass.range(0..12).await.unwrap().column().float(7, 0), Some(70.0));
    let groups = reader.groups().await.unwrap().unwrap();
    assert_eq!((groups.len(), groups.name(0).unwrap().as_str()), (1, "few"));
    assert_eq!(reader.node().meta().geometric_error(), reports[1].error);
}

#[tokio::test(flavor = "multi_thread")]
async fn dropped_objects_keep_their_rows_and_levels_drop_more() {
    let (_dir, address) = store(16.0, &walks(20, 30), with_objects(20)).await;
    let options = Options { levels: Some(3), method: Some(Method::Keep), ..Options::default() };
    let reports = build(&address, &Options { sparsity: 2.0, ..options }).await;
    assert_eq!(reports.iter().map(|report| report.objects).collect::<Vec<_>>(), [10, 5, 3]);
    let mut finer_ids: BTreeSet<i64> = (0..20).collect();
    for report in reports {
        let coarse = level(&address, report.level).await;
        let ids: BTreeSet<i64> = coarse.parts().objects().iter().map(|id| id.0).collect();
        assert!(ids.is_subset(&finer_ids) && ids.len() as u64 == report.objects);
        assert_eq!(coarse.len() as u64, 30 * report.objects);
        let reader = LevelReader::open(&open(&address).await, LevelId(report.level)).await.unwrap();
        let index = reader.objects().await.unwrap().unwrap();
        assert_eq!(index.slots(), 20);
        let mass = reader.object_attribute("mass").await.unwrap().unwrap();
        let mass = mass.range(0..20).await.unwrap();
        for id in 0..20 {
            assert_eq!(mass.is_present(id as usize), ids.contains(&id), "{id}");
        }
        finer_ids = ids;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn graphs_keep_their_components() {
    // Forty rings of fifty nodes lie near each other and are not joined.
    let at = (0..2000).flat_map(|i| {
        let (ring, turn) = (f64::from(i / 50), f64::from(i % 50) * 0.125_66);
        [10.0 + 8.0 * turn.cos() + ring * 0.3, 10.0 + 8.0 * turn.sin(), ring * 0.2]
    });
    let edges = (0..2000).flat_map(|i| [i, i / 50 * 50 + (i + 1) % 50]).collect();
    let weight = floats((0..2000).map(|_| 1.0), 1);
    let edges = Elements::new(2, edges).unwrap().with_field(Field::new("weight", weight)).unwrap();
    let graph = Batch::new(Kind::Graph, floats(at, 3)).with_elements(edges).unwrap();
    let (_dir, address) = store(6.0, &graph, |_| {}).await;
    let options = Options { levels: Some(3), ..Options::default() };
    let reports = build(&address, &options).await;
    let mut finer_size = (2000, 2000);
    for report in reports {
        let coarse = level(&address, report.level).await;
        assert_eq!(components(&coarse), 40, "{report}");
        let size = (coarse.len(), coarse.elements().unwrap().len());
        assert!(size.0 < finer_size.0 && size.1 < finer_size.1, "{size:?}");
        assert!(coarse.elements().unwrap().fields().iter().any(|field| *field.name == *"weight"));
        finer_size = size;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn skeletons_keep_roots_forks_and_tips() {
    // Two trees have a stem with a twig at every tenth vertex.
    let (mut at, mut edges) = (Vec::new(), Vec::new());
    for tree in 0..2 {
        let first = at.len() / 3;
        for i in 0..100 {
            at.extend([f64::from(i), f64::from(tree) * 9.0 + 0.01 * f64::from(i % 3), 1.0]);
            if i > 0 {
                edges.extend([first + i as usize, first + i as usize - 1]);
            }
        }
        for twig in 1..9 {
            let mut parent = first + twig * 10;
            for i in 1..6 {
                at.extend([twig as f64 * 10.0, f64::from(tree) * 9.0 + f64::from(i) * 0.5, 2.0]);
                edges.extend([at.len() / 3 - 1, parent]);
                parent = at.len() / 3 - 1;
            }
        }
    }
    let count = at.len() / 3;
    let owners = (0..count).map(|i| Some(ObjectId(i64::from(i >= count / 2)))).collect();
    let skeleton = Batch::new(Kind::Skeleton, floats(at, 3));
    let skeleton = skeleton.with_vertex_objects(owners).unwrap();
    let skeleton = skeleton.with_elements(Elements::new(2, edges).unwrap()).unwrap();
    let (_dir, address) = store(15.0, &skeleton, |_| {}).await;
    let shape = |batch: &Batch| {
        let mut children = vec![0; batch.len()];
        let mut roots = vec![true; batch.len()];
        for edge in batch.elements().unwrap().rows().chunks(2) {
            children[edge[1]] += 1;
            roots[edge[0]] = false;
        }
        let count = |f: &dyn Fn(usize) -> bool| (0..batch.len()).filter(|row| f(*row)).count();
        (count(&|r| roots[r]), count(&|r| children[r] == 0), count(&|r| children[r] > 1))
    };
    for method in [Method::Simplify, Method::Cluster] {
        let options = Options {
            levels: Some(2),
            size: Some(0.4),
            method: Some(method),
            ..Options::default()
        };
        let reports = build(&address, &options).await;
        for report in reports {
            let coarse = level(&address, report.level).await;
            let (roots, tips, forks) = shape(&coarse);
            assert_eq!((roots, components(&coarse)), (2, 2), "{method} {report}");
            if method == Method::Simplify {
                assert_eq!((tips, forks), (18, 16), "{report}");
                assert!(coarse.len() < 80, "{report}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn meshes_keep_holes_and_borders() {
    let fine = sheet(20);
    assert_eq!((euler(&fine), borders(&fine), components(&fine)), (0, 2, 1));
    let (_dir, address) = store(9.0, &fine, |_| {}).await;
    let options = Options { levels: Some(2), ..Options::default() };
    let reports = build(&address, &options).await;
    let mut faces = fine.elements().unwrap().len();
    for report in reports {
        let coarse = level(&address, report.level).await;
        assert_eq!((euler(&coarse), borders(&coarse), components(&coarse)), (0, 2, 1), "{report}");
        let face_count = coarse.elements().unwrap().len();
        assert!(face_count < faces * 2 / 5, "{face_count} of {faces}");
        faces = face_count;
        let (distance, stated) = (surface_distance(&fine, &coarse), report.error.unwrap());
        assert!(distance <= stated + 1e-5 && stated < 4.0, "{distance} {stated}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn clustered_meshes_stay_connected() {
    let (_dir, address) = store(9.0, &sheet(30), |_| {}).await;
    let method = Some(Method::Cluster);
    let options = Options { levels: Some(1), size: Some(3.0), method, ..Options::default() };
    let reports = build(&address, &options).await;
    let coarse = level(&address, 1).await;
    assert_eq!(components(&coarse), 1);
    assert!(coarse.len() < 150 && reports[0].elements < 300, "{}", reports[0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn lines_are_dropped_by_length() {
    let at = (0..40).flat_map(|i| [f64::from(i), 0.0, f64::from(i), 1.0 + f64::from(i * 7 % 40)]);
    let lines = Batch::new(Kind::Line, floats(at, 2));
    let (_dir, address) = store(10.0, &lines, |_| {}).await;
    let options = Options { levels: Some(1), strategy: Strategy::Length, ..Options::default() };
    build(&address, &options).await;
    let coarse = level(&address, 1).await;
    let at = values(coarse.positions());
    assert_eq!(coarse.len(), 40);
    assert!(at.chunks(4).all(|line| line[3] - line[1] > 20.0), "{at:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn values_that_are_not_numbers_take_the_mode() {
    let text =
        |word: &str| -> Vec<u8> { word.chars().flat_map(|c| u32::from(c).to_le_bytes()).collect() };
    let words: Vec<u8> = ["a", "b", "b", "c"].iter().flat_map(|word| text(word)).collect();
    let column = Column::new("<U1".parse::<Dtype>().unwrap(), 1, words.into()).unwrap();
    let points = Batch::new(Kind::PointCloud, floats([1.0, 1.1, 1.2, 9.0], 1));
    let points = points.with_field(Field::new("word", column)).unwrap();
    let (_dir, address) = store(10.0, &points, |_| {}).await;
    build(&address, &Options { levels: Some(1), size: Some(2.0), ..Options::default() }).await;
    let coarse = level(&address, 1).await;
    let word = coarse.field("word").unwrap();
    let mut words: Vec<String> =
        (0..2).map(|row| word.value(row, 0).unwrap().to_string()).collect();
    words.sort();
    assert_eq!(words, ["b", "c"]);
    let rules = vec![("word".to_owned(), Aggregation::Mean)];
    let options = Options { levels: Some(1), size: Some(2.0), rules, ..Options::default() };
    let error = refusal(&address, &options).await;
    assert!(error.to_string().ends_with("found mean for word"));
    assert_eq!(level(&address, 1).await.len(), 2); // unchanged
}
