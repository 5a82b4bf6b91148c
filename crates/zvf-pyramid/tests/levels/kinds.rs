//! Stores of several kinds: each kind has the levels of a store of that kind.

use std::path::Path;

use archives::tree;
use tempfile::TempDir;
use zvf_metadata::CrossLevelStorage;
use zvf_model::{Batch, Field, Kind, LevelId, Members, ObjectId, VertexRow};
use zvf_pyramid::{KindOptions, LevelReport, Method, Options, PyramidPlan};
use zvf_query::{Query, Reader};
use zvf_write::Writer;

use crate::fixtures::{
    build, floats, list_findings, open, refusal, schema, sheet, store, values, walks, write,
};
use crate::going_on::build_and_kill;
use crate::lineage::{self, points, skeleton};

const KINDS: [Kind; 4] = [Kind::Mesh, Kind::PointCloud, Kind::Polyline, Kind::Skeleton];
const WALKS: i64 = 6;

/// Returns a batch of each kind; all objects have different ids.
fn batches() -> [Batch; 4] {
    let sheet = sheet(16);
    let owners = vec![Some(ObjectId(50)); sheet.len()];
    let sheet = sheet.with_vertex_objects(owners).unwrap();
    [
        sheet,
        points(),
        walks(WALKS as usize, 60),
        skeleton().with_vertex_objects(vec![Some(ObjectId(40)); 200]).unwrap(),
    ]
}

/// Writes the batches to one store, with an attribute of walks and a group of objects of three kinds.
pub(super) async fn mixed_store() -> (TempDir, String) {
    let other_kinds = [Kind::Polyline, Kind::Skeleton, Kind::Mesh];
    let schema = schema(Kind::PointCloud, 3, 10.0);
    let schema =
        other_kinds.into_iter().fold(schema, |schema, kind| schema.with_kind(kind).unwrap());
    let fill = |writer: &mut Writer| {
        let ids: Vec<ObjectId> = (0..WALKS).map(ObjectId).collect();
        let mass = Field::new("mass", floats((0..WALKS).map(|id| id as f64), 1));
        writer.kind(Kind::Polyline).unwrap().object_fields(&ids, &[mass]).unwrap();
        batches().iter().for_each(|batch| writer.push(batch).unwrap());
        writer.group(Some("some"), Members::Ids([1, 5, 40, 50].map(ObjectId).to_vec()));
    };
    write(schema, fill).await
}

async fn read_kind(address: &str, kind: Kind, level: u32) -> Batch {
    let reader = Reader::new(open(address).await);
    let query = Query::all().of_kind(kind).at_level(LevelId(level)).with_owners();
    reader.run(&query).await.unwrap().batch
}

/// Describes a batch as text for comparisons.
fn describe(batch: &Batch) -> String {
    let fields: Vec<_> =
        batch.fields().iter().map(|f| (f.name.to_string(), values(&f.column))).collect();
    let rows = batch.elements().map(|elements| elements.rows().to_vec());
    let parts: Vec<_> = batch.parts().iter().map(|part| (part.rows, part.object.0)).collect();
    format!(
        "{:?} {fields:?} {rows:?} {parts:?} {:?}",
        values(batch.positions()),
        batch.vertex_objects()
    )
}

/// Builds levels of the mixed store, and compares them with those of each kind in a separate store.
async fn assert_same_as_single_kinds(address: &str, options: &Options) -> Vec<LevelReport> {
    let reports = build(address, options).await;
    for (kind, batch) in KINDS.into_iter().zip(batches()) {
        let (_dir, single) = store(10.0, &batch, |_| {}).await;
        let expected_reports = build(&single, options).await;
        for (report, expected_report) in reports.iter().zip(&expected_reports) {
            let level = expected_report.level;
            let actual = read_kind(address, kind, level).await;
            let expected = read_kind(&single, kind, level).await;
            assert_eq!(describe(&actual), describe(&expected), "{kind} at level {level}");
            let (_, report) = report.kinds.iter().find(|(other, _)| *other == kind).unwrap();
            let summary = |report: &LevelReport| {
                (report.vertices, report.objects, report.elements, report.error)
            };
            assert_eq!(summary(report), summary(expected_report), "{kind} at level {level}");
            assert_eq!(report.vertices, actual.len() as u64);
            assert!(report.bytes > 0 && report.vertices < batch.len() as u64);
        }
        let untouched = describe(&read_kind(address, kind, 0).await);
        assert_eq!(untouched, describe(&read_kind(&single, kind, 0).await), "{kind}");
    }
    reports
}

#[tokio::test(flavor = "multi_thread")]
async fn levels_do_not_depend_on_the_memory_limit() {
    let options = Options { levels: Some(1), memory: 1 << 14, ..Options::default() };
    let (_dir, address) = mixed_store().await;
    let reports = assert_same_as_single_kinds(&address, &options).await;
    assert_eq!(reports.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn empty_kinds_stay_empty() {
    let schema = schema(Kind::Graph, 3, 10.0).with_kind(Kind::PointCloud).unwrap();
    let schema = schema.with_kind(Kind::Streamline).unwrap();
    let fill = |writer: &mut Writer| {
        writer.push(&points()).unwrap();
        writer.kind(Kind::Streamline).unwrap().declare_objects(&[ObjectId(3)]);
    };
    let (_dir, address) = write(schema, fill).await;
    let links = CrossLevelStorage::Explicit;
    let reports = build(&address, &Options { levels: Some(2), links, ..Options::default() }).await;
    for report in reports {
        let vertices = |at: usize| report.kinds[at].1.vertices;
        assert!(vertices(0) == 0 && vertices(1) > 0 && vertices(2) == 0, "{report}");
        let reader = Reader::new(open(&address).await);
        let kind = reader.find_kind(LevelId(report.level), ObjectId(3)).await.unwrap();
        assert_eq!(kind, Some(Kind::Streamline));
    }
    assert_sound(&address).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_kind_has_the_levels_of_a_store_of_that_kind() {
    let (_dir, address) = mixed_store().await;
    let options = Options { levels: Some(3), ..Options::default() };
    let reports = assert_same_as_single_kinds(&address, &options).await;
    assert_eq!(reports.len(), 3);
    assert_sound(&address).await;
    for report in &reports {
        let kinds: Vec<Kind> = report.kinds.iter().map(|(kind, _)| *kind).collect();
        assert_eq!(kinds, KINDS);
        let vertices = report.kinds.iter().map(|(_, part)| part.vertices).sum::<u64>();
        assert_eq!(report.vertices, vertices);
        assert_eq!(report.bytes, report.kinds.iter().map(|(_, part)| part.bytes).sum::<u64>());
        assert!(report.to_string().contains("; polyline: "), "{report}");
        let reader = Reader::new(open(&address).await).level(LevelId(report.level)).await.unwrap();
        let groups = reader.groups().await.unwrap().unwrap();
        assert_eq!(
            groups.members(&[0]).await.unwrap(),
            [Members::Ids([1, 5, 40, 50].map(ObjectId).to_vec())]
        );
        let walks = reader.open_kind(Kind::Polyline).await.unwrap().unwrap();
        let mass = walks.object_attribute("mass").await.unwrap().unwrap();
        assert_eq!(
            values(mass.range(0..6).await.unwrap().column()),
            [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
        );
        let errors = report.kinds.iter().map(|(_, part)| part.error.unwrap());
        assert_eq!(report.error, errors.reduce(f64::max));
        assert_eq!(walks.node().meta().coarsening_method, "simplify");
        assert_eq!(reader.node().meta().coarsening_method, "collapse");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_plan_has_a_line_for_each_kind_of_each_level() {
    let (_dir, address) = mixed_store().await;
    let store = open(&address).await;
    let options = Options { levels: Some(2), ..Options::default() };
    let steps = PyramidPlan::plan(&store, &options).await.unwrap().steps();
    let actual: Vec<_> =
        steps.iter().map(|step| (step.level, step.kind.unwrap(), step.method)).collect();
    let methods = [Method::Collapse, Method::Cluster, Method::Simplify, Method::Simplify];
    let expected = (1..=2).flat_map(|level| {
        KINDS.into_iter().zip(methods).map(move |(kind, method)| (level, kind, method))
    });
    assert_eq!(actual, expected.collect::<Vec<_>>());
    assert!(steps[1].to_string().starts_with("level 1, point_cloud: cluster "), "{}", steps[1]);
    let total: u64 = steps.iter().take(4).map(|step| step.below).sum();
    assert_eq!(total, batches().iter().map(|batch| batch.len() as u64).sum::<u64>());

    let mesh =
        KindOptions { method: Some(Method::Cluster), size: Some(3.0), ..KindOptions::default() };
    let walks = KindOptions { sparsity: Some(2.0), ..KindOptions::default() };
    let options = Options {
        levels: Some(1),
        method: Some(Method::Subset),
        size: Some(0.5),
        kinds: vec![(Kind::Mesh, mesh), (Kind::Polyline, walks)],
        ..Options::default()
    };
    let steps = PyramidPlan::plan(&store, &options).await.unwrap().steps();
    let actual: Vec<_> = steps.iter().map(|step| (step.method, step.size, step.sparsity)).collect();
    let expected = [
        (Method::Cluster, Some(3.0), 1.0),
        (Method::Subset, None, 1.0),
        (Method::Simplify, Some(0.5), 2.0),
        (Method::Simplify, Some(0.5), 1.0),
    ];
    assert_eq!(actual, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn tolerances_are_in_proportion_to_the_data_and_plans_come_true() {
    let (_dir, address) = store(8.0, &walks(8, 600), |_| ()).await;
    let opened = open(&address).await;
    let options = Options { until: 10, ..Options::default() };
    let steps = PyramidPlan::plan(&opened, &options).await.unwrap().steps();
    let [low, high] = &opened.root().zarr_vectors.bounds;
    let max_size = (high[0] - low[0]) / 64.0; // the walks go along the first axis
    assert!(steps.iter().all(|step| step.size.unwrap() <= max_size), "{steps:?}");
    let reports = build(&address, &options).await;
    let counts = |vertices: &dyn Fn(usize) -> u64| (0..steps.len()).map(vertices).collect();
    let found: Vec<u64> = counts(&|at| reports[at].vertices);
    let planned: Vec<u64> = counts(&|at| steps[at].vertices);
    assert_eq!(reports.len(), steps.len(), "{planned:?}, {found:?}");
    assert!(
        found.iter().zip(&planned).all(|(a, b)| a.abs_diff(*b) * 10 <= *a),
        "{planned:?}, {found:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_that_do_not_fit_a_kind_are_refused() {
    let (_dir, address) = mixed_store().await;
    let before = tree(Path::new(&address));
    let base = Options { levels: Some(1), ..Options::default() };
    let with = |kind, settings| Options { kinds: vec![(kind, settings)], ..base.clone() };
    let defaults = KindOptions::default();
    for (options, message) in [
        (with(Kind::Line, defaults), "settings of a kind: expected those of the store, found line"),
        (
            with(Kind::Mesh, KindOptions { method: Some(Method::Subset), ..defaults }),
            "method: expected points to take a subset of, found subset of mesh",
        ),
        (
            with(Kind::Mesh, KindOptions { size: Some(1.0), ..defaults }),
            "size: expected something to cluster or simplify, found collapse of mesh",
        ),
        (
            with(Kind::PointCloud, KindOptions { keep: Some(0.5), ..defaults }),
            "share to keep: expected something to take a subset of, decimate or collapse, \
             found cluster of point_cloud",
        ),
        (
            with(Kind::PointCloud, KindOptions { sparsity: Some(2.0), ..defaults }),
            "objects of the store: expected a level with objects, to keep some of them, found none",
        ),
        (
            Options { additive: true, ..base.clone() },
            "kinds of geometry: expected one, to be spread over levels, found point_cloud",
        ),
    ] {
        let error = refusal(&address, &options).await;
        assert_eq!(error.sentence(), message);
    }
    assert_eq!(tree(Path::new(&address)), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_are_chosen_per_kind_and_numbered_across_kinds() {
    let (_dir, address) = mixed_store().await;
    let options = Options { levels: Some(1), sparsity: 2.0, renumber: true, ..Options::default() };
    let [report] = &build(&address, &options).await[..] else { panic!("one level") };
    assert_sound(&address).await;
    let objects: Vec<u64> = report.kinds.iter().map(|(_, part)| part.objects).collect();
    assert_eq!(objects, [1, 0, 3, 1]);
    let reader = Reader::new(open(&address).await).level(LevelId(1)).await.unwrap();
    let mut source_ids = Vec::new(); // by new id
    for (kind, ids) in [(Kind::Mesh, 0..1), (Kind::Polyline, 1..4), (Kind::Skeleton, 4..5)] {
        let kind_reader = reader.open_kind(kind).await.unwrap().unwrap();
        let index = kind_reader.objects().await.unwrap().unwrap();
        let actual = index.ids(0..index.slots()).await.unwrap();
        assert_eq!(actual, ids.map(ObjectId).collect::<Vec<_>>(), "{kind}");
        let source = kind_reader.object_attribute("source_id").await.unwrap().unwrap();
        source_ids.extend(values(source.range(0..index.slots()).await.unwrap().column()));
    }
    assert_eq!((source_ids[0], source_ids[4]), (50.0, 40.0));
    let groups = reader.groups().await.unwrap().unwrap();
    let [Members::Ids(ids)] = &groups.members(&[0]).await.unwrap()[..] else { panic!("ids") };
    let mut members: Vec<f64> = ids.iter().map(|id| source_ids[id.0 as usize]).collect();
    members.sort_by(f64::total_cmp);
    let expected: Vec<f64> =
        [1.0, 5.0, 40.0, 50.0].into_iter().filter(|id| source_ids.contains(id)).collect();
    assert_eq!(members, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn links_join_vertices_of_the_same_kind() {
    let (_dir, address) = mixed_store().await;
    let links = CrossLevelStorage::Explicit;
    let options = Options { levels: Some(2), links, depth: -1, ..Options::default() };
    build(&address, &options).await;
    build(&address, &options).await; // links of old levels are removed
    let reader = Reader::new(open(&address).await);
    for kind in KINDS {
        let mut rows = Vec::new();
        for level in 0..=2 {
            let all = lineage::rows(&reader, Some(kind), level).await;
            rows.push(all.into_iter().map(|(row, _)| row).collect::<Vec<VertexRow>>());
        }
        for (from, to) in [(0, 1), (1, 2), (0, 2), (1, 0), (2, 0)] {
            let links = reader.find_related_of_kind(
                Some(kind),
                LevelId(from),
                LevelId(to),
                &rows[from as usize],
            );
            let links = links.await.unwrap().unwrap();
            let fine = rows[from.min(to) as usize].len();
            assert_eq!(links.len(), fine, "{kind}, from {from} to {to}");
            assert!(
                links.iter().all(|link| rows[to as usize].contains(&link.linked_row)),
                "{kind}"
            );
        }
    }
    let object_rows = reader.object_rows(LevelId(0), ObjectId(40)).await.unwrap();
    assert_eq!(object_rows.len(), 200);
    assert_sound(&address).await;
}

/// Asserts that the validator reports no errors. Warnings are allowed: a collapsed surface may exceed its
/// bounds, and a kind may be empty.
async fn assert_sound(address: &str) {
    let findings = list_findings(address).await;
    assert!(findings.iter().all(|finding| finding.starts_with("warning ")), "{findings:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_build_of_several_kinds_is_continued() {
    let links = CrossLevelStorage::Explicit;
    let options = Options { levels: Some(2), links, depth: -1, ..Options::default() };
    let (_first_dir, expected) = mixed_store().await;
    let (dir, address) = mixed_store().await;
    let (reports, before) = (build(&expected, &options).await, tree(Path::new(&address)));
    for after in 1..=reports.len() {
        build_and_kill(&address, &options, after).await;
        assert_eq!(tree(Path::new(&address)), before, "the store is as it was");
    }
    assert_eq!(build(&address, &options).await, reports);
    assert_eq!(tree(Path::new(&address)), tree(Path::new(&expected)));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left");
}
