//! The memory of a query depends on the budget, not on the data.

#[path = "../answers/fixtures.rs"]
#[expect(dead_code, reason = "other tests make more of it")]
mod fixtures;

use archives::Unpacked;
use fixtures::{Data, Files, store};
use futures_util::StreamExt as _;
use peak_alloc::PeakAlloc;
use tokio::runtime::Builder;
use zvf_format::fragment::FragmentIndexBuilder;
use zvf_model::Kind;
use zvf_query::{Columns, Query, Reader};
use zvf_store::{OpenOptions, Store};

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

const CHUNKS: usize = 96;
const ROWS: usize = 64 << 10;
const BUDGET: u64 = 8 << 20;

/// Fills the chunks of `data` with many more vertices on a line, each joined to the next.
fn enlarge_chunks(data: &Data) -> Files {
    let mut builder = FragmentIndexBuilder::new();
    builder.push_range(0, ROWS as u64).unwrap();
    let fragments = builder.encode();
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
        *cell =
            [&1_u32.to_le_bytes()[..], &(payload.len() as u32).to_le_bytes(), &payload].concat();
    }
    files
}

/// Streams ten times more data than the budget allows with less memory than the budget.
#[test]
fn streams_stay_within_the_budget() {
    for kind in [Kind::PointCloud, Kind::Polyline, Kind::Graph, Kind::Skeleton] {
        let points = (0..2 * CHUNKS).map(|i| vec![4.0 * i as f32, 0.0]).collect();
        let mut data = Data::new(kind, 8.0, points);
        if kind != Kind::PointCloud {
            data = data.objects((0..CHUNKS).map(|i| vec![2 * i, 2 * i + 1]).collect());
        }
        if kind.has_links() {
            data.elements = (0..CHUNKS).map(|i| vec![2 * i, 2 * i + 1]).collect();
        }
        let dir = Unpacked::from_files(&enlarge_chunks(&data));
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let options =
            OpenOptions { budget_bytes: BUDGET, cache_bytes: BUDGET / 4, ..OpenOptions::default() };
        let store = runtime.block_on(Store::open(dir.path().to_str().unwrap(), options)).unwrap();
        let reader = Reader::new(store);
        let before = HEAP.current_usage();
        HEAP.reset_peak_usage();
        let query = Query::all().columns(Columns::None);
        let (rows, bytes) = runtime.block_on(async {
            let (mut batches, mut rows, mut bytes) = (reader.stream(query), 0, 0);
            while let Some(batch) = batches.next().await {
                let batch = batch.unwrap();
                rows += batch.len();
                bytes += batch.positions().bytes().len();
                bytes += batch.elements().map_or(0, |edges| edges.rows().len() * 16);
            }
            (rows, bytes)
        });
        let peak = HEAP.peak_usage() - before;
        assert_eq!(rows, CHUNKS * ROWS, "{kind}");
        assert!(bytes as u64 > 5 * BUDGET, "{kind}: {bytes} bytes");
        assert!(peak as u64 <= BUDGET, "{kind}: {peak} bytes at once of {bytes}");
    }
}
