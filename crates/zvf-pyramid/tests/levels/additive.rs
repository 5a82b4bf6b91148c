//! Additive levels: together they hold all data of the store exactly once, and reads combine them.

use std::collections::BTreeSet;

use zvf_metadata::{Capability, CrossLevelStorage, Token};
use zvf_model::{Batch, Column, Elements, Field, Kind, LevelId, LevelReader, ObjectId};
use zvf_pyramid::{Aggregation, Method, Options, Strategy};
use zvf_query::{LevelRule, Query, Reader};

use crate::fixtures::{build, floats, level, open, refusal, store, values, walks, with_objects};

pub(crate) fn additive_options(levels: u32) -> Options {
    Options { additive: true, levels: Some(levels), sparsity: 2.0, seed: 3, ..Options::default() }
}

/// Returns points with or without objects, graphs and meshes with a ring for each object, or trees.
pub(crate) fn batch_of_kind(kind: Kind, objects: Option<i64>) -> Batch {
    let per_object = 40;
    let rows = objects.unwrap_or(50) as usize * per_object;
    let at = (0..rows).flat_map(|i| [(i % 61) as f64, (i / 61) as f64 * 1.5, (i % 7) as f64]);
    let mut batch = Batch::new(kind, floats(at, 3))
        .with_field(Field::new("n", floats((0..rows).map(|i| i as f64), 1)))
        .unwrap();
    if objects.is_some() {
        let owner = |i: usize| Some(ObjectId((i / per_object) as i64));
        batch = batch.with_vertex_objects((0..rows).map(owner).collect()).unwrap();
    }
    let ends = |i: usize| {
        let (first, next) = (i - i % per_object, (i + 1) % per_object);
        match kind {
            Kind::Skeleton if next == 0 => vec![],
            Kind::Skeleton => vec![i, i + 1],
            Kind::Mesh => vec![first, i, first + next],
            _ => vec![i, first + next],
        }
    };
    if kind.has_links() {
        let rows = (0..rows).flat_map(ends).collect();
        let width = if kind == Kind::Mesh { 3 } else { 2 };
        batch = batch.with_elements(Elements::new(width, rows).unwrap()).unwrap();
    }
    batch
}

/// Returns the vertices of a batch with their owners and attributes, sorted.
pub(crate) fn vertices(batch: &Batch) -> Vec<Vec<u64>> {
    let columns: Vec<&Column> = std::iter::once(batch.positions())
        .chain(batch.fields().iter().map(|field| &field.column))
        .collect();
    let owners = batch.vertex_objects();
    let row = |row: usize| {
        let owner = owners.and_then(|owners| owners[row]).map_or(u64::MAX, |id| id.0 as u64);
        let bits = columns.iter().flat_map(|column| {
            (0..column.width() as usize).map(move |c| column.float(row, c).unwrap().to_bits())
        });
        std::iter::once(owner).chain(bits).collect::<Vec<u64>>()
    };
    let mut rows: Vec<Vec<u64>> = (0..batch.len()).map(row).collect();
    rows.sort();
    rows
}

/// Returns edges or faces as the positions of their vertices, sorted.
pub(crate) fn elements(batch: &Batch) -> Vec<Vec<[u64; 3]>> {
    let at = values(batch.positions());
    let corner = |row: &usize| {
        let start = row * 3;
        [at[start].to_bits(), at[start + 1].to_bits(), at[start + 2].to_bits()]
    };
    let mut sorted: Vec<Vec<[u64; 3]>> = batch
        .elements()
        .map(|elements| elements.iter().map(|rows| rows.iter().map(corner).collect()).collect())
        .unwrap_or_default();
    sorted.sort();
    sorted
}

/// Reads only the rows that a level adds.
pub(crate) async fn read_increment(address: &str, number: u32) -> Batch {
    let reader = Reader::new(open(address).await);
    let query = Query::all().at_level(LevelId(number)).with_owners().increment_only();
    reader.run(&query).await.unwrap().batch
}

/// Compares each additive level with the same level of a plain pyramid, for every kind.
#[tokio::test(flavor = "multi_thread")]
async fn additive_levels_show_what_plain_levels_hold() {
    for (batch, strategy) in [
        (walks(24, 50), Strategy::Groups),
        (walks(24, 50), Strategy::Largest("mass".to_owned())),
        (batch_of_kind(Kind::PointCloud, Some(24)), Strategy::Random),
        (batch_of_kind(Kind::Graph, Some(24)), Strategy::Coverage),
        (batch_of_kind(Kind::Mesh, Some(24)), Strategy::Random),
        (batch_of_kind(Kind::Skeleton, Some(24)), Strategy::Random),
    ] {
        let case = format!("{}, {strategy}", batch.kind());
        let (_expected_dir, expected) = store(8.0, &batch, with_objects(24)).await;
        let (_dir, actual) = store(8.0, &batch, with_objects(24)).await;
        let options = Options { strategy, method: Some(Method::Keep), ..additive_options(2) };
        let plain_options = Options { additive: false, ..options.clone() };
        let (plain_reports, reports) =
            (build(&expected, &plain_options).await, build(&actual, &options).await);
        let counts: Vec<u64> = reports.iter().map(|report| report.vertices).collect();
        assert_eq!((plain_reports.len(), counts.len()), (2, 3), "{case}");
        assert_eq!(counts.iter().sum::<u64>(), batch.len() as u64, "{case}");
        let sum = |f: fn(&zvf_pyramid::LevelReport) -> u64| reports.iter().map(f).sum::<u64>();
        assert_eq!((sum(|r| r.objects), sum(|r| r.elements)), (24, elements(&batch).len() as u64));
        for number in 0..=2 {
            let (left, right) = (level(&expected, number).await, level(&actual, number).await);
            assert_eq!(vertices(&left), vertices(&right), "{case}, level {number}");
            assert_eq!(elements(&left), elements(&right), "{case}, level {number}");
            let increment = read_increment(&actual, number).await;
            assert_eq!(increment.len() as u64, counts[number as usize], "{case}, level {number}");
            assert!(!increment.is_empty(), "{case}, level {number}");
        }
        let (left, right) = (level(&actual, 0).await, level(&expected, 0).await);
        assert_eq!(vertices(&left), vertices(&right), "{case}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn object_attributes_and_groups_are_kept() {
    let (_dir, address) = store(8.0, &walks(12, 50), |writer| {
        with_objects(12)(writer);
        writer.declare_objects(&[ObjectId(77)]); // without geometry
    })
    .await;
    let group = || Query::all().in_groups([0]).with_owners();
    let before = Reader::new(open(&address).await).run(&group()).await.unwrap().batch;
    build(&address, &additive_options(2)).await;
    let store = open(&address).await;
    let root = &store.root().zarr_vectors;
    assert_eq!(root.required_capabilities, [Token::Known(Capability::AdditiveLevels)]);
    assert!(root.has(Capability::AdditiveLevels) && !root.has(Capability::PreservedObjectIds));
    let after = Reader::new(store.clone()).run(&group()).await.unwrap().batch;
    assert_eq!(vertices(&before), vertices(&after));
    let (mut present_ids, mut masses) = (Vec::new(), 0.0);
    for number in 0..=2 {
        let level = LevelReader::open(&store, LevelId(number)).await.unwrap();
        let meta = level.node().meta();
        assert_eq!((meta.is_additive(), meta.preserves_object_ids), (number < 2, false));
        assert_eq!(level.groups().await.unwrap().unwrap().name(0).as_deref(), Some("few"));
        let index = level.objects().await.unwrap().unwrap();
        let ids = index.ids(0..index.slots()).await.unwrap();
        let ids: Vec<i64> = ids.into_iter().map(|id| id.0).collect();
        assert_eq!(ids, (0..12).chain([77]).collect::<Vec<i64>>(), "a row for each object");
        let mut row = 0;
        let note = |manifest: &zvf_model::ObjectManifest| {
            present_ids.extend((!manifest.is_empty()).then_some(ids[row]));
            row += 1;
            Ok(())
        };
        index.scan(note).await.unwrap();
        let mass = level.object_attribute("mass").await.unwrap().unwrap();
        let mass = mass.range(0..index.slots()).await.unwrap();
        let present = (0..index.slots() as usize).filter(|row| mass.is_present(*row));
        masses += present.map(|row| mass.column().float(row, 0).unwrap()).sum::<f64>();
    }
    present_ids.sort_unstable();
    assert_eq!(present_ids, (0..12).collect::<Vec<i64>>(), "each object is at one level");
    assert_eq!(masses, 660.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn subsets_of_points_are_nested_and_complete() {
    let batch = batch_of_kind(Kind::PointCloud, None);
    let (_dir, address) = store(8.0, &batch, |_| {}).await;
    let before = vertices(&level(&address, 0).await);
    let options = Options { sparsity: 1.0, keep: Some(0.3), ..additive_options(3) };
    let counts: Vec<usize> =
        build(&address, &options).await.iter().map(|report| report.vertices as usize).collect();
    assert_eq!((counts.len(), counts.iter().sum::<usize>()), (4, 2000));
    let mut visible = vertices(&level(&address, 0).await);
    assert_eq!(visible, before);
    for (number, added) in (1..).zip(&counts) {
        if number > 3 {
            break;
        }
        let coarser = vertices(&level(&address, number).await);
        let finer: BTreeSet<_> = visible.iter().collect();
        assert!(coarser.iter().all(|row| finer.contains(row)), "level {number}");
        assert_eq!(coarser.len() + added, visible.len(), "level {number}");
        let share = coarser.len() as f64 / visible.len() as f64;
        assert!((0.2..0.4).contains(&share), "level {number}: {share}");
        visible = coarser;
    }
    // A level rule counts the visible vertices of a level, not those that it adds.
    let reader = Reader::new(open(&address).await);
    for number in 0..=3 {
        let visible = counts[number..].iter().sum::<usize>() as u64;
        let query = Query::all().level(LevelRule::MaxVertices(visible));
        let answer = reader.run(&query).await.unwrap();
        assert_eq!((answer.level, answer.batch.len() as u64), (LevelId(number as u32), visible));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_single_object_gets_no_additive_levels() {
    for batch in [walks(1, 50), batch_of_kind(Kind::PointCloud, Some(1))] {
        let (_dir, address) = store(8.0, &batch, |_| {}).await;
        assert_eq!(build(&address, &additive_options(3)).await, []);
        let root = open(&address).await.root().clone();
        assert_eq!(root.zarr_vectors.required_capabilities, []);
        assert_eq!(level(&address, 0).await.len(), batch.len());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unsupported_additive_levels_are_refused_with_a_reason() {
    let owned = batch_of_kind(Kind::PointCloud, Some(6));
    let mut shared = owned.vertex_objects().unwrap().to_vec();
    shared[7] = None;
    let partly_owned = owned.clone().with_vertex_objects(shared).unwrap();
    let graph = batch_of_kind(Kind::Graph, Some(6));
    let mut joined = graph.elements().unwrap().rows().to_vec();
    joined.extend([3, 100]); // of two objects
    let joined = graph.clone().with_elements(Elements::new(2, joined).unwrap()).unwrap();
    let no_change = |_: &mut Options| {};
    type Change = fn(&mut Options);
    let cases: [(&Batch, Change, &str); 11] = [
        (
            &batch_of_kind(Kind::Mesh, Some(6)),
            |o| o.method = Some(Method::Collapse),
            "levels that add to each other: expected keep or subset, which leave what they keep as it \
             is, found collapse",
        ),
        (
            &owned,
            |o| o.method = Some(Method::Subset),
            "levels that add to each other: expected keep for points of objects, which would be at \
             several levels, found subset",
        ),
        (
            &graph,
            |o| o.method = Some(Method::Subset),
            "levels that add to each other: expected points, or objects, each of which is at one level, \
             found subset",
        ),
        (
            &batch_of_kind(Kind::PointCloud, None),
            |o| o.method = Some(Method::Keep),
            "levels that add to each other: expected objects, each of which is at one level, found keep",
        ),
        (
            &batch_of_kind(Kind::PointCloud, None),
            no_change,
            "levels that add to each other: expected objects, to keep some of them, found subset",
        ),
        (
            &owned,
            |o| o.links = CrossLevelStorage::Explicit,
            "links between levels: expected none where levels add to each other: a vertex is at one of \
             them, found some",
        ),
        (
            &owned,
            |o| o.renumber = true,
            "ids of objects: expected the same at all levels that add to each other, found new ones",
        ),
        (
            &owned,
            |o| o.rules = vec![("n".to_owned(), Aggregation::Max)],
            "rule of an attribute: expected none where levels add to each other: values stay as they \
             are, found max for n",
        ),
        (
            &partly_owned,
            no_change,
            "vertices: expected each in one object: other vertices would be lost or doubled, found 239 \
             of 240",
        ),
        (
            &joined,
            no_change,
            "edges and faces: expected each in one object: others would be lost, found 240 of 241",
        ),
        (
            &owned,
            |o| o.method = Some(Method::Simplify),
            "levels that add to each other: expected keep or subset, which leave what they keep as it \
             is, found simplify",
        ),
    ];
    for (batch, change, message) in cases {
        let (dir, address) = store(8.0, batch, |_| {}).await;
        let mut options = additive_options(2);
        change(&mut options);
        let error = refusal(&address, &options).await;
        assert_eq!(error.sentence(), message);
        assert_eq!(level(&address, 0).await.len(), batch.len());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "{message}");
    }
}
