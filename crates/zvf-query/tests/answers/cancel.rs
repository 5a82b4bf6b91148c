//! Queries that are dropped, or not polled for a while, hold nothing that other queries wait for.

use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use archives::faults::{Fault, FaultStore};
use futures_util::StreamExt as _;
use object_store::path::Path;
use tokio::runtime::Builder;
use tokio::time::timeout;
use zvf_model::{Bounds, Kind};
use zvf_query::{Columns, Mode, Query, Reader};
use zvf_store::Store;

use crate::fixtures::{Data, Files, low_memory, store};

/// Returns vertices 0 to `n - 1`, 8 per chunk, in objects of 16 or with an edge from each vertex to
/// the next.
fn line(kind: Kind, n: usize) -> Files {
    let mut data = Data::new(kind, 8.0, (0..n).map(|i| vec![i as f32, 0.0]).collect());
    if kind.has_links() {
        data = data.one_object();
        data.elements = (1..n).map(|i| vec![i, i - 1]).collect();
    } else if kind != Kind::PointCloud {
        data = data.objects((0..n / 16).map(|i| (16 * i..16 * (i + 1)).collect()).collect());
    }
    store(&[data])
}

const KINDS: [Kind; 5] =
    [Kind::PointCloud, Kind::Polyline, Kind::Graph, Kind::Skeleton, Kind::Mesh];

/// Opens a reader that allows one request at a time, each with a delay.
async fn slow_reader(files: &Files) -> Reader {
    let faults = FaultStore::new();
    for (path, bytes) in files {
        faults.insert(path, bytes).await;
    }
    faults.always(Some(Fault::Delay(Duration::from_millis(5))));
    let store = Store::from_object_store(Arc::new(faults), &Path::default(), low_memory()).await;
    Reader::new(store.unwrap())
}

/// The test clock advances when every task is idle, so a query that hangs reaches its timeout.
const FOR_EVER: Duration = Duration::from_secs(3600);

async fn vertices(reader: &Reader, query: &Query, label: &str) -> usize {
    let answer = timeout(FOR_EVER, reader.run(query)).await;
    answer.unwrap_or_else(|_| panic!("{label} hangs")).unwrap().batch.len()
}

#[tokio::test(start_paused = true)]
async fn a_query_between_two_batches_is_answered() {
    let bounds = Bounds::new(&[20.5, -1.0], &[110.0, 1.0]).unwrap();
    for kind in KINDS {
        let reader = slow_reader(&line(kind, 128)).await;
        let mut batches = reader.stream(Query::all());
        let mut vertex_count = 0;
        while let Some(batch) = batches.next().await {
            vertex_count += batch.unwrap().len();
            for query in [
                Query::all(),
                Query::all().in_region(bounds),
                Query::all().in_region(bounds).mode(Mode::Cells),
            ] {
                assert!(vertices(&reader, &query, &format!("{kind} {query:?}")).await > 0);
            }
        }
        assert!(vertex_count >= 128, "{kind} {vertex_count}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_abandoned_batch_holds_nothing() {
    for kind in KINDS {
        let reader = slow_reader(&line(kind, 128)).await;
        let mut batches = reader.stream(Query::all());
        let mut vertex_count = 0;
        loop {
            // Times out after every millisecond, and runs another query before it polls again.
            match timeout(Duration::from_millis(1), batches.next()).await {
                Ok(None) => break,
                Ok(Some(batch)) => vertex_count += batch.unwrap().len(),
                Err(_) => assert_eq!(vertices(&reader, &Query::all(), kind.token()).await, 128),
            }
        }
        assert!(vertex_count >= 128, "{kind} {vertex_count}");
    }
}

#[test]
fn local_files_are_streamed_while_other_queries_run() {
    for kind in KINDS {
        let unpacked = archives::Unpacked::from_files(&line(kind, 128));
        let run_concurrently = async || {
            let address = unpacked.path().to_str().unwrap();
            let store = Store::open(address, low_memory()).await.unwrap();
            let reader = Reader::new(store);
            let mut batches = reader.stream(Query::all());
            let mut vertex_count = 0;
            while let Some(batch) = batches.next().await {
                vertex_count += batch.unwrap().len();
                assert_eq!(reader.run(&Query::all()).await.unwrap().batch.len(), 128);
            }
            vertex_count
        };
        let inside = Builder::new_current_thread().enable_all().build().unwrap();
        assert!(inside.block_on(run_concurrently()) >= 128, "{kind} inside a runtime");
        assert!(futures_executor::block_on(run_concurrently()) >= 128, "{kind} without one");
    }
}

/// Returns the result of `future` if it is ready after `polls` polls.
async fn poll_times<T>(future: impl Future<Output = T>, polls: usize) -> Option<T> {
    let mut future = pin!(future);
    let mut remaining = polls;
    std::future::poll_fn(|context| {
        if remaining == 0 {
            return Poll::Ready(None);
        }
        remaining -= 1;
        future.as_mut().poll(context).map(Some)
    })
    .await
}

#[test]
fn only_a_long_query_of_cached_cells_yields() {
    let within = |high: f64| {
        let bounds = Bounds::new(&[-0.5, -1.0], &[high, 1.0]).unwrap();
        Query::all().in_region(bounds).columns(Columns::None)
    };
    for kind in [Kind::PointCloud, Kind::Polyline] {
        let n = 1 << 20; // rows of 8 bytes
        let mut data = Data::new(kind, 8192.0, (0..n).map(|i| vec![i as f32, 0.0]).collect());
        if kind.is_chain() {
            data =
                data.objects((0..n / 4096).map(|i| (4096 * i..4096 * (i + 1)).collect()).collect());
        }
        let fixture = data.fixture();
        let expected_few = if kind.is_chain() { 4096 } else { 100 }; // one object
        for (query, polls, rows) in [(within(1e7), 2, n), (within(99.5), 1, expected_few)] {
            let counted = fixture.wait(fixture.reader.count(&query)).unwrap(); // caches the cells
            assert_eq!(
                (counted.vertices, fixture.run(&query).unwrap().batch.len()),
                (rows as u64, rows)
            );
            let reader = &fixture.reader;
            for polls in [polls - 1, polls] {
                let answer = futures_executor::block_on(poll_times(reader.run(&query), polls));
                let counts = futures_executor::block_on(poll_times(reader.count(&query), polls));
                let expected = (polls > 0 && (polls > 1 || rows == expected_few)).then_some(rows);
                assert_eq!(
                    answer.map(|answer| answer.unwrap().batch.len()),
                    expected,
                    "{kind} {polls}"
                );
                let counts = counts.map(|counts| counts.unwrap().vertices as usize);
                assert_eq!(counts, expected, "{kind} {polls}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_query_dropped_at_any_await_leaves_nothing_behind() {
    let bounds = Bounds::new(&[4.5, -1.0], &[18.0, 1.0]).unwrap();
    let mut awaits = 0;
    for kind in KINDS {
        let files = line(kind, 32);
        for query in [Query::all().in_region(bounds), Query::all().with_owners()] {
            for polls in 1.. {
                let reader = slow_reader(&files).await;
                let free_before = reader.store().budget().free_bytes();
                let label = format!("{kind} {polls} {query:?}");
                let finished = poll_times(reader.run(&query), polls).await;
                assert_eq!(reader.store().budget().free_bytes(), free_before, "{label}");
                assert!(vertices(&reader, &query, &label).await > 0);
                if finished.is_some() {
                    break;
                }
                awaits += 1;
            }
        }
    }
    assert!(awaits > 100, "{awaits}");
}

#[tokio::test(start_paused = true)]
async fn a_stream_dropped_at_any_await_leaves_nothing_behind() {
    let mut awaits = 0;
    for kind in KINDS {
        let files = line(kind, 32);
        for step in 0.. {
            let reader = slow_reader(&files).await;
            let free_before = reader.store().budget().free_bytes();
            let label = format!("{kind} {step}");
            let mut batches = reader.stream(Query::all());
            // Tasks do the work; each of their requests takes five milliseconds.
            let read = async { while batches.next().await.is_some() {} };
            let finished = timeout(Duration::from_millis(5 * step + 2), read).await;
            drop(batches);
            assert_eq!(vertices(&reader, &Query::all(), &label).await, 32);
            // Aborted tasks have ended by now.
            assert_eq!(reader.store().budget().free_bytes(), free_before, "{label}");
            if finished.is_ok() {
                break;
            }
            awaits += 1;
        }
    }
    assert!(awaits > 50, "{awaits}");
}
