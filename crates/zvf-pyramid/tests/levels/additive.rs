//! Levels that add to each other: together all that there was, nothing twice, and read as others are.

use std::collections::BTreeSet;

use zvf_metadata::{Capability, CrossLevelStorage, Token};
use zvf_model::{Batch, Column, Elements, Field, Kind, LevelId, LevelReader, ObjectId};
use zvf_pyramid::{Aggregation, Method, Options, Strategy};
use zvf_query::{LevelRule, Query, Reader};

use crate::made::{build, floats, level, open, quick, store, values, walks, with_objects};

pub(crate) fn adding(levels: u32) -> Options {
    Options { additive: true, levels: Some(levels), sparsity: 2.0, seed: 3, ..Options::default() }
}

/// Points of objects, or of none; graphs of a ring for each object; trees.
pub(crate) fn of_kind(kind: Kind, objects: Option<i64>) -> Batch {
    let each = 40;
    let rows = objects.unwrap_or(50) as usize * each;
    let at = (0..rows).flat_map(|i| [(i % 61) as f64, (i / 61) as f64 * 1.5, (i % 7) as f64]);
    let mut batch = Batch::new(kind, floats(at, 3))
        .with_field(Field::new("n", floats((0..rows).map(|i| i as f64), 1)))
        .unwrap();
    if objects.is_some() {
        let owner = |i: usize| Some(ObjectId((i / each) as i64));
        batch = batch.with_vertex_objects((0..rows).map(owner).collect()).unwrap();
    }
    let ends = |i: usize| {
        let (first, next) = (i - i % each, (i + 1) % each);
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

/// The vertices of a batch with all that is said of them, in some order that is always the same.
pub(crate) fn vertices(batch: &Batch) -> Vec<Vec<u64>> {
    let columns: Vec<&Column> = std::iter::once(batch.positions())
        .chain(batch.fields().iter().map(|field| &field.column))
        .collect();
    let owners = batch.vertex_objects();
    let row = |row: usize| {
        let owner = owners.and_then(|owners| owners[row]).map_or(u64::MAX, |id| id.0 as u64);
        let own = columns.iter().flat_map(|column| {
            (0..column.width() as usize).map(move |c| column.float(row, c).unwrap().to_bits())
        });
        std::iter::once(owner).chain(own).collect::<Vec<u64>>()
    };
    let mut rows: Vec<Vec<u64>> = (0..batch.len()).map(row).collect();
    rows.sort();
    rows
}

/// Edges or faces, by the vertices they join.
pub(crate) fn elements(batch: &Batch) -> Vec<Vec<[u64; 3]>> {
    let at = values(batch.positions());
    let corner = |row: &usize| {
        let start = row * 3;
        [at[start].to_bits(), at[start + 1].to_bits(), at[start + 2].to_bits()]
    };
    let mut all: Vec<Vec<[u64; 3]>> = batch
        .elements()
        .map(|elements| elements.iter().map(|rows| rows.iter().map(corner).collect()).collect())
        .unwrap_or_default();
    all.sort();
    all
}

/// What a level has of its own.
pub(crate) async fn own(address: &str, number: u32) -> Batch {
    let reader = Reader::new(open(address).await);
    let query = Query::all().at_level(LevelId(number)).with_owners().increment_only();
    reader.run(&query).await.unwrap().batch
}

/// What is shown at each level is what levels that are read alone hold, whatever the kind.
#[tokio::test(flavor = "multi_thread")]
async fn every_level_shows_what_it_would_hold_alone() {
    for (batch, strategy) in [
        (walks(24, 50), Strategy::Groups),
        (walks(24, 50), Strategy::Largest("mass".to_owned())),
        (of_kind(Kind::PointCloud, Some(24)), Strategy::Random),
        (of_kind(Kind::Graph, Some(24)), Strategy::Coverage),
        (of_kind(Kind::Mesh, Some(24)), Strategy::Random),
        (of_kind(Kind::Skeleton, Some(24)), Strategy::Random),
    ] {
        let what = format!("{}, {strategy}", batch.kind());
        let (alone, adds) = (archives::scratch(), archives::scratch());
        let alone = store(alone.path(), 8.0, &batch, with_objects(24)).await;
        let adds = store(adds.path(), 8.0, &batch, with_objects(24)).await;
        let options = Options { strategy, method: Some(Method::Keep), ..adding(2) };
        let plain = Options { additive: false, ..options.clone() };
        let (plain, built) = (build(&alone, &plain).await, build(&adds, &options).await);
        let counts: Vec<u64> = built.iter().map(|report| report.vertices).collect();
        assert_eq!((plain.len(), counts.len()), (2, 3), "{what}");
        assert_eq!(counts.iter().sum::<u64>(), batch.len() as u64, "{what}");
        let sum = |of: fn(&zvf_pyramid::LevelReport) -> u64| built.iter().map(of).sum::<u64>();
        assert_eq!((sum(|r| r.objects), sum(|r| r.elements)), (24, elements(&batch).len() as u64));
        for number in 0..=2 {
            let (one, other) = (level(&alone, number).await, level(&adds, number).await);
            assert_eq!(vertices(&one), vertices(&other), "{what}, level {number}");
            assert_eq!(elements(&one), elements(&other), "{what}, level {number}");
            let own = own(&adds, number).await;
            assert_eq!(own.len() as u64, counts[number as usize], "{what}, level {number}");
            assert!(!own.is_empty(), "{what}, level {number}");
        }
        assert_eq!(vertices(&level(&adds, 0).await), vertices(&level(&alone, 0).await), "{what}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_said_of_objects_and_groups_stays() {
    let dir = archives::scratch();
    let address = store(dir.path(), 8.0, &walks(12, 50), |writer| {
        with_objects(12)(writer);
        writer.declare_objects(&[ObjectId(77)]); // without geometry
    })
    .await;
    let group = || Query::all().in_groups([0]).with_owners();
    let before = Reader::new(open(&address).await).run(&group()).await.unwrap().batch;
    build(&address, &adding(2)).await;
    let store = open(&address).await;
    let root = &store.root().zarr_vectors;
    assert_eq!(root.required_capabilities, [Token::Known(Capability::AdditiveLevels)]);
    assert!(root.has(Capability::AdditiveLevels) && !root.has(Capability::PreservedObjectIds));
    let after = Reader::new(store.clone()).run(&group()).await.unwrap().batch;
    assert_eq!(vertices(&before), vertices(&after));
    let (mut there, mut masses) = (Vec::new(), 0.0);
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
            there.extend((!manifest.is_empty()).then_some(ids[row]));
            row += 1;
            Ok(())
        };
        index.scan(note).await.unwrap();
        let mass = level.object_attribute("mass").await.unwrap().unwrap();
        let mass = mass.range(0..index.slots()).await.unwrap();
        let present = (0..index.slots() as usize).filter(|row| mass.is_present(*row));
        masses += present.map(|row| mass.column().float(row, 0).unwrap()).sum::<f64>();
    }
    there.sort_unstable();
    assert_eq!(there, (0..12).collect::<Vec<i64>>(), "each object is at one level");
    assert_eq!(masses, 660.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subset_of_points_is_nested_and_loses_none() {
    let dir = archives::scratch();
    let batch = of_kind(Kind::PointCloud, None);
    let address = store(dir.path(), 8.0, &batch, |_| {}).await;
    let before = vertices(&level(&address, 0).await);
    let options = Options { sparsity: 1.0, keep: Some(0.3), ..adding(3) };
    let counts: Vec<usize> =
        build(&address, &options).await.iter().map(|report| report.vertices as usize).collect();
    assert_eq!((counts.len(), counts.iter().sum::<usize>()), (4, 2000));
    let mut shown = vertices(&level(&address, 0).await);
    assert_eq!(shown, before);
    for (number, own) in (1..).zip(&counts) {
        if number > 3 {
            break;
        }
        let next = vertices(&level(&address, number).await);
        let finer: BTreeSet<_> = shown.iter().collect();
        assert!(next.iter().all(|row| finer.contains(row)), "level {number}");
        assert_eq!(next.len() + own, shown.len(), "level {number}");
        let share = next.len() as f64 / shown.len() as f64;
        assert!((0.2..0.4).contains(&share), "level {number}: {share}");
        shown = next;
    }
    // A rule goes by what a level shows, not by what it adds.
    let reader = Reader::new(open(&address).await);
    for number in 0..=3 {
        let shown = counts[number..].iter().sum::<usize>() as u64;
        let query = Query::all().level(LevelRule::MaxVertices(shown));
        let answer = reader.run(&query).await.unwrap();
        assert_eq!((answer.level, answer.batch.len() as u64), (LevelId(number as u32), shown));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_nothing_to_add_gets_no_levels() {
    for batch in [walks(1, 50), of_kind(Kind::PointCloud, Some(1))] {
        let dir = archives::scratch();
        let address = store(dir.path(), 8.0, &batch, |_| {}).await;
        assert_eq!(build(&address, &adding(3)).await, []);
        let root = open(&address).await.root().clone();
        assert_eq!(root.zarr_vectors.required_capabilities, []);
        assert_eq!(level(&address, 0).await.len(), batch.len());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_added_is_refused_with_a_reason() {
    let owned = of_kind(Kind::PointCloud, Some(6));
    let mut shared = owned.vertex_objects().unwrap().to_vec();
    shared[7] = None;
    let loose = owned.clone().with_vertex_objects(shared).unwrap();
    let graph = of_kind(Kind::Graph, Some(6));
    let mut joined = graph.elements().unwrap().rows().to_vec();
    joined.extend([3, 100]); // of two objects
    let joined = graph.clone().with_elements(Elements::new(2, joined).unwrap()).unwrap();
    let none = |_: &mut Options| {};
    type Change = fn(&mut Options);
    let cases: [(&Batch, Change, &str); 11] = [
        (
            &of_kind(Kind::Mesh, Some(6)),
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
            &of_kind(Kind::PointCloud, None),
            |o| o.method = Some(Method::Keep),
            "levels that add to each other: expected objects, each of which is at one level, found keep",
        ),
        (
            &of_kind(Kind::PointCloud, None),
            none,
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
            &loose,
            none,
            "vertices: expected each in one object: other vertices would be lost or doubled, found 239 \
             of 240",
        ),
        (
            &joined,
            none,
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
        let dir = archives::scratch();
        let address = store(dir.path(), 8.0, batch, |_| {}).await;
        let mut options = adding(2);
        change(&mut options);
        let error = zvf_pyramid::build(&address, &options, &quick(), |_| {}).await.unwrap_err();
        assert_eq!(error.to_string(), message);
        assert_eq!(level(&address, 0).await.len(), batch.len());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "{message}");
    }
}
