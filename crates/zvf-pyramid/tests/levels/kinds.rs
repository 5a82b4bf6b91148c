//! Stores of several kinds: each kind has levels, as if it were alone.

use std::path::Path;

use zvf_format::grid::ChunkShape;
use zvf_format::key::ChunkKey;
use zvf_metadata::{Axis, CrossLevelStorage};
use zvf_model::{Batch, Field, Kind, LevelId, Members, ObjectId, Value, VertexRow};
use zvf_pyramid::{LevelReport, Method, OfKind, Options, PyramidPlan};
use zvf_query::{LOCATION_FIELD, Query, Reader};
use zvf_validate::{Observer, validate};
use zvf_write::{Schema, WriteOptions, Writer};

use crate::going_on::{killed, tree};
use crate::lineage::{points, skeleton};
use crate::made::{build, floats, open, quick, sheet, store, values, walks};

const KINDS: [Kind; 4] = [Kind::Mesh, Kind::PointCloud, Kind::Polyline, Kind::Skeleton];
const WALKS: i64 = 6;

/// One batch of each kind; the objects of all have different ids.
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

/// All of them in one store, with an attribute of walks and a group of objects of three kinds.
pub(super) async fn mixture(folder: &Path) -> String {
    let address = folder.join("store.zarrvectors").to_str().unwrap().to_owned();
    let chunk = ChunkShape::new(&[10.0; 3]).unwrap();
    let schema = Schema::new(Kind::PointCloud, Axis::spatial(3).unwrap(), chunk).unwrap();
    let others = [Kind::Polyline, Kind::Skeleton, Kind::Mesh];
    let schema = others.into_iter().fold(schema, |schema, kind| schema.and(kind).unwrap());
    let mut options = WriteOptions::default();
    options.build.sync = false;
    let mut writer = Writer::create(&address, schema, options).await.unwrap();
    let ids: Vec<ObjectId> = (0..WALKS).map(ObjectId).collect();
    let mass = Field::new("mass", floats((0..WALKS).map(|id| id as f64), 1));
    writer.kind(Kind::Polyline).unwrap().object_fields(&ids, &[mass]).unwrap();
    for batch in batches() {
        writer.push(&batch).unwrap();
    }
    writer.group(Some("some"), Members::Ids([1, 5, 40, 50].map(ObjectId).to_vec()));
    writer.finish().await.unwrap();
    address
}

async fn of_kind(address: &str, kind: Kind, level: u32) -> Batch {
    let reader = Reader::new(open(address).await);
    let query = Query::all().of_kind(kind).at_level(LevelId(level)).with_owners();
    reader.run(&query).await.unwrap().batch
}

/// What a batch says, to be compared.
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

/// Builds levels of the mixture, and compares them with those of each kind in a store of its own.
async fn as_if_alone(address: &str, options: &Options) -> Vec<LevelReport> {
    let reports = build(address, options).await;
    for (kind, batch) in KINDS.into_iter().zip(batches()) {
        let dir = archives::scratch();
        let alone = store(dir.path(), 10.0, &batch, |_| {}).await;
        let own = build(&alone, options).await;
        for (report, own) in reports.iter().zip(&own) {
            let found = of_kind(address, kind, own.level).await;
            let wanted = of_kind(&alone, kind, own.level).await;
            assert_eq!(describe(&found), describe(&wanted), "{kind} at level {}", own.level);
            let (_, report) = report.kinds.iter().find(|(other, _)| *other == kind).unwrap();
            let same = |report: &LevelReport| {
                (report.vertices, report.objects, report.elements, report.error)
            };
            assert_eq!(same(report), same(own), "{kind} at level {}", own.level);
            assert_eq!(report.vertices, found.len() as u64);
            assert!(report.bytes > 0 && report.vertices < batch.len() as u64);
        }
        let untouched = describe(&of_kind(address, kind, 0).await);
        assert_eq!(untouched, describe(&of_kind(&alone, kind, 0).await), "{kind}");
    }
    reports
}

#[tokio::test(flavor = "multi_thread")]
async fn little_memory_changes_nothing() {
    let dir = archives::scratch();
    let options = Options { levels: Some(1), memory: 1 << 14, ..Options::default() };
    let reports = as_if_alone(&mixture(dir.path()).await, &options).await;
    assert_eq!(reports.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_of_which_there_is_nothing_stays_so() {
    let dir = archives::scratch();
    let address = dir.path().join("store.zarrvectors").to_str().unwrap().to_owned();
    let chunk = ChunkShape::new(&[10.0; 3]).unwrap();
    let schema = Schema::new(Kind::Graph, Axis::spatial(3).unwrap(), chunk).unwrap();
    let schema = schema.and(Kind::PointCloud).unwrap().and(Kind::Streamline).unwrap();
    let mut writer = Writer::create(&address, schema, WriteOptions::default()).await.unwrap();
    writer.push(&points()).unwrap();
    writer.kind(Kind::Streamline).unwrap().declare_objects(&[ObjectId(3)]);
    writer.finish().await.unwrap();
    let links = CrossLevelStorage::Explicit;
    let reports = build(&address, &Options { levels: Some(2), links, ..Options::default() }).await;
    for report in reports {
        let of = |at: usize| report.kinds[at].1.vertices;
        assert!(of(0) == 0 && of(1) > 0 && of(2) == 0, "{report}");
        let reader = Reader::new(open(&address).await);
        let kind = reader.find_kind(LevelId(report.level), ObjectId(3)).await.unwrap();
        assert_eq!(kind, Some(Kind::Streamline));
    }
    sound(&address).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_kind_has_the_levels_it_would_have_alone() {
    let dir = archives::scratch();
    let address = mixture(dir.path()).await;
    let options = Options { levels: Some(3), ..Options::default() };
    let reports = as_if_alone(&address, &options).await;
    assert_eq!(reports.len(), 3);
    sound(&address).await;
    for report in &reports {
        let kinds: Vec<Kind> = report.kinds.iter().map(|(kind, _)| *kind).collect();
        assert_eq!(kinds, KINDS);
        assert_eq!(report.vertices, report.kinds.iter().map(|(_, own)| own.vertices).sum::<u64>());
        assert_eq!(report.bytes, report.kinds.iter().map(|(_, own)| own.bytes).sum::<u64>());
        assert!(report.to_string().contains("; polyline: "), "{report}");
        let reader = Reader::new(open(&address).await).level(LevelId(report.level)).await.unwrap();
        let groups = reader.groups().await.unwrap().unwrap();
        assert_eq!(
            groups.members(&[0]).await.unwrap(),
            [Members::Ids([1, 5, 40, 50].map(ObjectId).to_vec())]
        );
        let walks = reader.of_kind(Kind::Polyline).await.unwrap().unwrap();
        let mass = walks.object_attribute("mass").await.unwrap().unwrap();
        assert_eq!(
            values(mass.range(0..6).await.unwrap().column()),
            [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
        );
        let errors = report.kinds.iter().map(|(_, own)| own.error.unwrap());
        assert_eq!(report.error, errors.reduce(f64::max));
        assert_eq!(walks.node().meta().coarsening_method, "simplify");
        assert_eq!(reader.node().meta().coarsening_method, "collapse");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_plan_has_a_line_for_each_kind_of_each_level() {
    let dir = archives::scratch();
    let address = mixture(dir.path()).await;
    let store = open(&address).await;
    let options = Options { levels: Some(2), ..Options::default() };
    let steps = PyramidPlan::plan(&store, &options).await.unwrap().steps();
    let found: Vec<_> =
        steps.iter().map(|step| (step.level, step.kind.unwrap(), step.method)).collect();
    let methods = [Method::Collapse, Method::Cluster, Method::Simplify, Method::Simplify];
    let wanted = (1..=2).flat_map(|level| {
        KINDS.into_iter().zip(methods).map(move |(kind, method)| (level, kind, method))
    });
    assert_eq!(found, wanted.collect::<Vec<_>>());
    assert!(steps[1].to_string().starts_with("level 1, point_cloud: cluster "), "{}", steps[1]);
    let below: u64 = steps.iter().take(4).map(|step| step.below).sum();
    assert_eq!(below, batches().iter().map(|batch| batch.len() as u64).sum::<u64>());

    let mesh = OfKind { method: Some(Method::Cluster), size: Some(3.0), ..OfKind::default() };
    let walks = OfKind { sparsity: Some(2.0), ..OfKind::default() };
    let options = Options {
        levels: Some(1),
        method: Some(Method::Subset),
        size: Some(0.5),
        kinds: vec![(Kind::Mesh, mesh), (Kind::Polyline, walks)],
        ..Options::default()
    };
    let steps = PyramidPlan::plan(&store, &options).await.unwrap().steps();
    let found: Vec<_> = steps.iter().map(|step| (step.method, step.size, step.sparsity)).collect();
    let wanted = [
        (Method::Cluster, Some(3.0), 1.0),
        (Method::Subset, None, 1.0),
        (Method::Simplify, Some(0.5), 2.0),
        (Method::Simplify, Some(0.5), 1.0),
    ];
    assert_eq!(found, wanted);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_fits_no_kind_is_refused() {
    let dir = archives::scratch();
    let address = mixture(dir.path()).await;
    let before = tree(Path::new(&address));
    let usual = Options { levels: Some(1), ..Options::default() };
    let of = |kind, own| Options { kinds: vec![(kind, own)], ..usual.clone() };
    let none = OfKind::default();
    for (options, wanted) in [
        (of(Kind::Line, none), "settings of a kind: expected those of the store, found line"),
        (
            of(Kind::Mesh, OfKind { method: Some(Method::Subset), ..none }),
            "method: expected points to take a subset of, found subset of mesh",
        ),
        (
            of(Kind::Mesh, OfKind { size: Some(1.0), ..none }),
            "size: expected something to cluster or simplify, found collapse of mesh",
        ),
        (
            of(Kind::PointCloud, OfKind { keep: Some(0.5), ..none }),
            "share to keep: expected something to take a subset of, decimate or collapse, \
             found cluster of point_cloud",
        ),
        (
            of(Kind::PointCloud, OfKind { sparsity: Some(2.0), ..none }),
            "objects of the store: expected a level with objects, to keep some of them, found none",
        ),
        (
            Options { additive: true, ..usual.clone() },
            "kinds of geometry: expected one, to be spread over levels, found point_cloud",
        ),
    ] {
        let error = zvf_pyramid::build(&address, &options, &quick(), |_| {}).await.unwrap_err();
        assert_eq!(error.to_string(), wanted);
    }
    assert_eq!(tree(Path::new(&address)), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_are_chosen_kind_by_kind_and_numbered_together() {
    let dir = archives::scratch();
    let address = mixture(dir.path()).await;
    let options = Options { levels: Some(1), sparsity: 2.0, renumber: true, ..Options::default() };
    let [report] = &build(&address, &options).await[..] else { panic!("one level") };
    sound(&address).await;
    let objects: Vec<u64> = report.kinds.iter().map(|(_, own)| own.objects).collect();
    assert_eq!(objects, [1, 0, 3, 1]);
    let reader = Reader::new(open(&address).await).level(LevelId(1)).await.unwrap();
    let mut old = Vec::new(); // by new id
    for (kind, ids) in [(Kind::Mesh, 0..1), (Kind::Polyline, 1..4), (Kind::Skeleton, 4..5)] {
        let own = reader.of_kind(kind).await.unwrap().unwrap();
        let index = own.objects().await.unwrap().unwrap();
        let found = index.ids(0..index.slots()).await.unwrap();
        assert_eq!(found, ids.map(ObjectId).collect::<Vec<_>>(), "{kind}");
        let source = own.object_attribute("source_id").await.unwrap().unwrap();
        old.extend(values(source.range(0..index.slots()).await.unwrap().column()));
    }
    assert_eq!((old[0], old[4]), (50.0, 40.0));
    let groups = reader.groups().await.unwrap().unwrap();
    let [Members::Ids(ids)] = &groups.members(&[0]).await.unwrap()[..] else { panic!("ids") };
    let mut members: Vec<f64> = ids.iter().map(|id| old[id.0 as usize]).collect();
    members.sort_by(f64::total_cmp);
    let wanted: Vec<f64> =
        [1.0, 5.0, 40.0, 50.0].into_iter().filter(|id| old.contains(id)).collect();
    assert_eq!(members, wanted);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_is_linked_to_its_own() {
    let dir = archives::scratch();
    let address = mixture(dir.path()).await;
    let links = CrossLevelStorage::Explicit;
    let options = Options { levels: Some(2), links, depth: -1, ..Options::default() };
    build(&address, &options).await;
    build(&address, &options).await; // links of old levels are gone
    let reader = Reader::new(open(&address).await);
    for kind in KINDS {
        let mut rows = Vec::new();
        for level in 0..=2 {
            rows.push(rows_of(&reader, kind, level).await);
        }
        for (from, to) in [(0, 1), (1, 2), (0, 2), (1, 0), (2, 0)] {
            let links = reader.related_of_kind(
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
    let own = reader.object_rows(LevelId(0), ObjectId(40)).await.unwrap();
    assert_eq!(own.len(), 200);
    sound(&address).await;
}

/// Refuses any error of the validator. A collapsed surface may pass its bounds, and a kind may be empty:
/// these are warnings.
async fn sound(address: &str) {
    let (options, observer) = (zvf_validate::Options::default(), Observer::default());
    let report = validate(&open(address).await, &options, &observer).await.unwrap();
    let findings: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
    assert!(report.is_clean(), "{findings:#?}");
}

async fn rows_of(reader: &Reader, kind: Kind, level: u32) -> Vec<VertexRow> {
    let own = reader.level_of_kind(LevelId(level), kind).await.unwrap();
    let keys: Vec<ChunkKey> = own.chunks().await.unwrap().iter().collect();
    let query = Query::all().of_kind(kind).at_level(LevelId(level)).with_places();
    let batch = reader.run(&query).await.unwrap().batch;
    let places = batch.field(LOCATION_FIELD).unwrap().column.clone();
    let row = |row: usize| {
        let Value::UInt(place) = places.value(row, 0) else { panic!("no place") };
        VertexRow { chunk: keys[(place >> 32) as usize], row: place & 0xffff_ffff }
    };
    (0..batch.len()).map(row).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_build_of_several_kinds_goes_on_where_one_was_killed() {
    let links = CrossLevelStorage::Explicit;
    let options = Options { levels: Some(2), links, depth: -1, ..Options::default() };
    let dirs = [archives::scratch(), archives::scratch()];
    let (whole, address) = (mixture(dirs[0].path()).await, mixture(dirs[1].path()).await);
    let (reports, before) = (build(&whole, &options).await, tree(Path::new(&address)));
    for after in 1..=reports.len() {
        killed(&address, &options, after).await;
        assert_eq!(tree(Path::new(&address)), before, "the store is as it was");
    }
    assert_eq!(build(&address, &options).await, reports);
    assert_eq!(tree(Path::new(&address)), tree(Path::new(&whole)));
    assert_eq!(std::fs::read_dir(dirs[1].path()).unwrap().count(), 1, "nothing is left");
}
