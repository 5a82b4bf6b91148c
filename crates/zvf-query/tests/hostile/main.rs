//! Stores with false metadata, read by every kind of query: each query is answered or rejected,
//! with memory in proportion to the stored bytes and not to the claimed sizes.

#[path = "../answers/fixtures.rs"]
#[expect(dead_code, reason = "other tests make more of it")]
mod fixtures;

use fixtures::{Data, Files, Fixture, fragments, framed, store};
use futures_util::StreamExt as _;
use object_store::path::Path;
use peak_alloc::PeakAlloc;
use serde_json::{Value, json};
use tokio::runtime::Builder;
use zvf_format::Class;
use zvf_format::fragment::FragmentIndexBuilder;
use zvf_format::manifest::ManifestBuilder;
use zvf_model::{Bounds, Kind, LevelId, ObjectId};
use zvf_query::{Mode, Order, Query, Reader, UnknownIds};
use zvf_store::{OpenOptions, Store};

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

/// Limits the additional memory of a query to a store of a few kilobytes.
const MAX_BYTES: usize = 48 << 20;

/// Returns a store with every kind of data: 24 vertices in six chunks, two objects, a group of
/// both.
fn full_store(kind: Kind) -> Files {
    let points = (0..24).map(|i| vec![i as f32, (i % 5) as f32]).collect();
    let mut data = Data::new(kind, 4.0, points);
    data = data.objects(vec![(0..14).collect(), (14..24).collect()]);
    data.groups = vec![vec![0, 1], vec![1]];
    data.elements = match kind {
        Kind::Mesh => (2..24).map(|i| vec![i - 2, i - 1, i]).collect(),
        Kind::Graph | Kind::Skeleton => (1..24).map(|i| vec![i, i - 1]).collect(),
        _ => Vec::new(),
    };
    store(&[data])
}

fn queries() -> Vec<Query> {
    let bounds = Bounds::new(&[2.5, -1.0], &[17.0, 9.0]).unwrap();
    let filtered = |text: &str| Query::all().filter(text.parse().unwrap());
    let mut all = vec![
        Query::all(),
        Query::all().limit(3),
        Query::all().order(Order::Storage),
        Query::all().order(Order::Objects),
        Query::all().with_owners().with_places(),
        Query::all().allow_missing(),
        Query::all().of_objects([0, 1, 77, 1 << 62].map(ObjectId)),
        Query::all().of_objects([ObjectId(1)]).unknown_ids(UnknownIds::Error),
        Query::all().in_groups([0, 1]),
        filtered("v > 3 and x < 20"),
        filtered("fragment.code >= 0"),
        filtered("object.size > 2"),
        filtered("group.name = 'g0'"),
        filtered("y >= 1"),
        filtered("label != 'a' and link.w > 1"),
        Query::all().in_region(bounds).filter("v > 3".parse().unwrap()),
        Query::all().in_region(bounds).with_owners(),
    ];
    all.extend(Mode::ALL.iter().map(|&mode| Query::all().in_region(bounds).mode(mode)));
    all
}

/// Runs every kind of query and returns the number of answered ones.
async fn run_queries(reader: &Reader) -> usize {
    let mut answered = 0;
    for query in queries() {
        answered += usize::from(reader.run(&query).await.is_ok());
        answered += usize::from(reader.plan(&query).await.is_ok());
        answered += usize::from(reader.count(&query).await.is_ok());
        let mut batches = reader.stream(query);
        while let Some(batch) = batches.next().await {
            answered += usize::from(batch.is_ok());
        }
    }
    answered += usize::from(reader.statistics(LevelId(0), None).await.is_ok());
    for id in [0, 1, 5] {
        answered += usize::from(reader.object_rows(LevelId(0), ObjectId(id)).await.is_ok());
    }
    answered
}

/// Replaces the blobs of a cell, or the value at a JSON pointer of a document. A store without the
/// file stays as it is.
enum Change {
    Blobs(Vec<Vec<u8>>),
    Json(&'static str, Value),
}

type Changes = Vec<(String, Change)>;

fn corrupt(files: &mut Files, changes: &Changes) {
    for (path, change) in changes {
        let Some((_, bytes)) = files.iter_mut().find(|(name, _)| name == path) else { continue };
        *bytes = match change {
            Change::Blobs(blobs) => framed(blobs),
            Change::Json(pointer, value) => {
                let mut document: Value = serde_json::from_slice(bytes).unwrap();
                *document.pointer_mut(pointer).unwrap() = value.clone();
                serde_json::to_vec(&document).unwrap()
            }
        };
    }
}

fn cell(path: &str, blobs: Vec<Vec<u8>>) -> (String, Change) {
    (format!("0/{path}"), Change::Blobs(blobs))
}

/// Changes the cells of all six chunks of an array.
fn cells(array: &str, blob: &[u8]) -> Changes {
    (0..6).map(|chunk| cell(&format!("{array}/c/{chunk}/0"), vec![blob.to_vec()])).collect()
}

fn document(path: &str, pointer: &'static str, value: Value) -> (String, Change) {
    (format!("0/{path}zarr.json"), Change::Json(pointer, value))
}

fn int64s(all: &[i64]) -> Vec<u8> {
    all.iter().flat_map(|n| n.to_le_bytes()).collect()
}

/// Returns an index of one fragment with these rows.
fn listed(rows: &[u64]) -> Vec<u8> {
    let mut builder = FragmentIndexBuilder::new();
    builder.push_rows(rows).unwrap();
    builder.encode()
}

fn corruptions() -> Vec<(&'static str, Changes)> {
    let mut manifest = ManifestBuilder::new(2).unwrap();
    (0..40_000).for_each(|_| manifest.push_single(&[0, 0], 0).unwrap());
    let manifest = manifest.encode();
    let again_and_again = vec![
        cell("vertex_fragments/c/0/0", vec![listed(&[0, 2, 1, 3].repeat(500))]),
        cell("object_index/manifests/c/0", vec![manifest.clone(), manifest]),
    ];
    let ends = json!([format!("{}.{}", i64::MIN, i64::MAX), format!("{}.0", i64::MAX)]);
    let at_the_ends = ["vertices/", "vertex_fragments/"].map(|array| {
        [
            document(array, "/attributes/nonempty_chunks", ends.clone()),
            document(array, "/attributes/chunk_grid_origin", json!([i64::MIN, 0])),
            document(array, "/shape", json!([u64::MAX, u64::MAX])),
        ]
    });
    let all_ids = vec![int64s(&[0, i64::MAX]), int64s(&[i64::MIN, i64::MAX, 1])];
    let absent = cell("vertex_fragments/c/1/0", vec![listed(&[0, 1 << 40])]);
    let mut all = vec![
        ("a list of rows that are not there", vec![absent]),
        ("lists of rows named by objects again and again", again_and_again),
        ("chunks at the ends of the world", at_the_ends.into_iter().flatten().collect()),
        ("a group of all ids", vec![cell("groups/c/0", all_ids)]),
    ];
    for (name, ranges) in [
        ("a range of 2^62 rows", vec![(0, 1 << 62)]),
        ("a range of 2^63 - 2 rows", vec![(1, (1 << 63) - 2)]),
        ("a range far away", vec![(1 << 40, 1)]),
        ("a range that ends at 2^32", vec![((1 << 32) - 1, 1)]),
        ("a range of 2^31 rows", vec![(0, 1 << 31)]),
        ("two of 2^31", vec![(0, 1 << 31), (1 << 31, (1 << 31) - 2)]),
        ("one row too many", vec![(0, 5)]),
        ("the same again and again", vec![(0, 4); 20_000]),
        ("the same, and one that is too long", [vec![(0, 4); 5_000], vec![(0, 1 << 30)]].concat()),
    ] {
        all.push((name, cells("vertex_fragments", &fragments(&ranges))));
    }
    for row in [24_i64, 1 << 31, 1 << 32, 1 << 62, -1] {
        let links = [("0.0", 2), ("0.0_0.0", 3)].map(|(offsets, width)| {
            cell(&format!("links/0/{offsets}/c/0/0"), vec![int64s(&vec![row; width])])
        });
        all.push(("a link to a row that is not there", links.into()));
    }
    for count in [25_u64, 1 << 32, 1 << 62] {
        let objects = vec![
            document("object_index/", "/attributes/num_objects", json!(count)),
            document("object_index/manifests/", "/shape", json!([count])),
            document("object_index/object_ids/", "/shape", json!([count])),
        ];
        all.push(("more objects than there are", objects));
        let groups = vec![
            document("groups/", "/attributes/num_groups", json!(count)),
            document("groups/", "/shape", json!([count])),
        ];
        all.push(("more groups than there are", groups));
    }
    for count in [-1_i64, 0, 1 << 62] {
        let vertices = "/attributes/zarr_vectors_level/vertex_count";
        all.push(("another number of vertices", vec![document("", vertices, json!(count))]));
    }
    for bytes in [0, 3, 4, 20] {
        let arrays = ["vertex_attributes/v", "vertex_attributes/label", "fragment_attributes/code"];
        let values = arrays.iter().flat_map(|array| cells(array, &vec![1; bytes]));
        all.push(("values for other rows", values.collect()));
        all.push(("positions of other rows", cells("vertices", &vec![1; bytes])));
    }
    all
}

/// A manifest of a few kilobytes that lists 20,000 empty fragments a thousand times.
#[test]
fn owners_of_fragments_that_are_named_again_and_again_are_capped() {
    let mut files = full_store(Kind::PointCloud);
    let mut manifest = ManifestBuilder::new(2).unwrap();
    (0..1000).for_each(|_| manifest.push_range(&[0, 0], 0, 20_000).unwrap());
    let manifest = manifest.encode();
    let changes = vec![
        cell("vertex_fragments/c/0/0", vec![fragments(&vec![(0, 1); 20_000])]),
        cell("object_index/manifests/c/0", vec![manifest.clone(), manifest]),
    ];
    corrupt(&mut files, &changes);
    let options =
        OpenOptions { budget_bytes: 4 << 20, cache_bytes: 1 << 20, ..OpenOptions::default() };
    let fixture = Fixture::with_options(&files, options);
    let before = HEAP.current_usage();
    HEAP.reset_peak_usage();
    let query = Query::all().order(Order::Storage).with_owners();
    let error = fixture.run(&query).unwrap_err();
    let peak = HEAP.peak_usage().saturating_sub(before);
    assert_eq!(error.class(), Class::LimitExceeded, "{error}");
    assert!(peak < MAX_BYTES, "{peak} bytes: {error}");
}

#[test]
fn every_query_of_a_corrupt_store_is_answered_or_rejected() {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let kinds = [Kind::PointCloud, Kind::Polyline, Kind::Graph, Kind::Skeleton, Kind::Mesh];
    let mut greedy = Vec::new();
    for kind in kinds {
        let files = full_store(kind);
        let fixture = Fixture::from_files(&files);
        assert!(fixture.wait(run_queries(&fixture.reader)) > 50, "{kind}: without a corruption");
        drop(fixture);
        for (name, changes) in corruptions() {
            let mut files = files.clone();
            corrupt(&mut files, &changes);
            let before = HEAP.current_usage();
            HEAP.reset_peak_usage();
            runtime.block_on(async {
                let memory = archives::in_memory(&files).await;
                let root = Path::default();
                let options = OpenOptions::default();
                let Ok(store) = Store::from_object_store(memory, &root, options).await else {
                    return;
                };
                run_queries(&Reader::new(store)).await;
            });
            let peak = HEAP.peak_usage().saturating_sub(before);
            if peak > MAX_BYTES {
                greedy.push(format!("{kind}, {name}: {peak} bytes"));
            }
        }
    }
    assert!(greedy.is_empty(), "{}", greedy.join("\n"));
}
