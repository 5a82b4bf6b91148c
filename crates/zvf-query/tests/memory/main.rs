//! The memory of a query depends on the budget, not on the data.

#[path = "../answers/fixtures.rs"]
#[expect(dead_code, reason = "other tests make more of it")]
mod fixtures;

use std::sync::{Mutex, MutexGuard, PoisonError};

use archives::Unpacked;
use fixtures::{Data, Files, fragments, framed, replace, store};
use futures_util::StreamExt as _;
use peak_alloc::PeakAlloc;
use serde_json::{Value, json};
use tokio::runtime::Builder;
use zvf_format::Class;
use zvf_format::manifest::ManifestBuilder;
use zvf_model::{Bounds, Kind, ObjectId};
use zvf_query::{Columns, Query, Reader};
use zvf_store::{OpenOptions, Store};

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

const CHUNKS: usize = 96;
const ROWS: usize = 64 << 10;
const BUDGET: u64 = 8 << 20;

/// Fills the chunks of `data` with many more vertices on a line, each linked to the next.
fn enlarge_chunks(data: &Data) -> Files {
    let fragments = fragments(&[(0, ROWS as u64)]);
    let mut files = store(std::slice::from_ref(data));
    files.retain(|(path, _)| !path.contains("_attributes/"));
    for (path, cell) in &mut files {
        let Some((array, place)) = path.split_once("/c/") else { continue };
        let chunk: usize = place.split('/').next().unwrap().parse().unwrap();
        let payload: Vec<u8> = match array {
            "0/vertices" => (0..ROWS)
                .flat_map(|row| [8.0 * chunk as f32 + row as f32 / ROWS as f32, 0.0])
                .flat_map(f32::to_le_bytes)
                .collect(),
            "0/vertex_fragments" => fragments.clone(),
            "0/links/0/0.0" => {
                (1..ROWS as i64).flat_map(|row| [row - 1, row]).flat_map(i64::to_le_bytes).collect()
            }
            _ => continue,
        };
        *cell = framed(&[payload]);
    }
    files
}

/// Waits until no other test makes or reads a store, because all tests share one heap.
fn alone() -> MutexGuard<'static, ()> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the result of `ask` for a store of these files, and the peak memory meanwhile.
fn peak_of<T>(files: &Files, ask: impl AsyncFnOnce(Reader) -> T) -> (T, usize) {
    let dir = Unpacked::from_files(files);
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let options =
        OpenOptions { budget_bytes: BUDGET, cache_bytes: BUDGET / 4, ..OpenOptions::default() };
    let store = runtime.block_on(Store::open(dir.path().to_str().unwrap(), options)).unwrap();
    let reader = Reader::new(store);
    let before = HEAP.current_usage();
    HEAP.reset_peak_usage();
    let answer = runtime.block_on(ask(reader));
    (answer, HEAP.peak_usage() - before)
}

/// Returns chains of two vertices, one in each chunk.
fn chains() -> Data {
    let points = (0..2 * CHUNKS).map(|i| vec![4.0 * i as f32, 0.0]).collect();
    let data = Data::new(Kind::Polyline, 8.0, points);
    data.objects((0..CHUNKS).map(|i| vec![2 * i, 2 * i + 1]).collect())
}

#[test]
fn a_region_on_lines_holds_some_of_its_chunks() {
    let _alone = alone();
    // A quarter of the chunks, which hold nothing at this height.
    let region = Bounds::new(&[0.0, 2.0], &[8.0 * 23.0 + 1.0, 3.0]).unwrap();
    let query = Query::all().columns(Columns::None).in_region(region);
    let (rows, peak) = peak_of(&enlarge_chunks(&chains()), async |reader| {
        reader.run(&query).await.unwrap().batch.len()
    });
    assert_eq!(rows, 0);
    assert!(peak as u64 <= BUDGET, "{peak} bytes at once");
}

#[test]
fn a_stream_begins_without_the_numbers_of_all_objects() {
    let _alone = alone();
    const OBJECTS: u64 = 2_000_000;
    let mut files = store(&[chains()]);
    for (path, bytes) in &mut files {
        let mut doc: Value = match path.as_str() {
            "0/object_index/zarr.json"
            | "0/object_index/manifests/zarr.json"
            | "0/object_index/object_ids/zarr.json" => serde_json::from_slice(bytes).unwrap(),
            _ => continue,
        };
        if path == "0/object_index/zarr.json" {
            doc["attributes"]["num_objects"] = OBJECTS.into();
        } else {
            doc["shape"] = json!([OBJECTS]); // no cell but the first is there
            doc["fill_value"] = if path.ends_with("ids/zarr.json") { json!(-1) } else { json!("") };
        }
        *bytes = doc.to_string().into_bytes();
    }
    let (rows, peak) = peak_of(&files, async |reader| {
        reader.stream(Query::all()).next().await.unwrap().unwrap().len()
    });
    assert_eq!(rows, 2 * CHUNKS);
    assert!(peak as u64 <= BUDGET, "{peak} bytes at once");
}

#[test]
fn fragments_of_an_object_count_against_the_budget() {
    let _alone = alone();
    let mut files = store(&[chains()]);
    replace(&mut files, "0/vertex_fragments/c/0/0", &[fragments(&vec![(0, 0); 100_000])]);
    let mut manifest = ManifestBuilder::new(2).unwrap();
    (0..40).for_each(|_| manifest.push_range(&[0, 0], 0, 100_000).unwrap());
    let manifests = vec![manifest.encode(); CHUNKS];
    replace(&mut files, "0/object_index/manifests/c/0", &manifests);
    let query = Query::all().of_objects([ObjectId(0)]);
    let (answer, peak) = peak_of(&files, async |reader| reader.run(&query).await);
    let is_refused = answer.is_err_and(|error| error.class() == Class::LimitExceeded);
    assert!(is_refused || peak as u64 <= BUDGET, "{peak} bytes at once");
}

/// Streams ten times more data than the budget allows with less memory than the budget.
#[test]
fn streams_stay_within_the_budget() {
    let _alone = alone();
    for kind in [Kind::PointCloud, Kind::Polyline, Kind::Graph, Kind::Skeleton] {
        let mut data = Data { kind, ..chains() };
        if kind.has_links() {
            data.elements = data.objects.clone();
        }
        if kind == Kind::PointCloud {
            data = data.objects(Vec::new());
        }
        let query = Query::all().columns(Columns::None);
        let ((rows, bytes), peak) = peak_of(&enlarge_chunks(&data), async |reader| {
            let (mut batches, mut rows, mut bytes) = (reader.stream(query), 0, 0);
            while let Some(batch) = batches.next().await {
                let batch = batch.unwrap();
                rows += batch.len();
                bytes += batch.positions().bytes().len();
                bytes += batch.elements().map_or(0, |edges| edges.rows().len() * 16);
            }
            (rows, bytes)
        });
        assert_eq!(rows, CHUNKS * ROWS, "{kind}");
        assert!(bytes as u64 > 5 * BUDGET, "{kind}: {bytes} bytes");
        assert!(peak as u64 <= BUDGET, "{kind}: {peak} bytes at once of {bytes}");
    }
}
