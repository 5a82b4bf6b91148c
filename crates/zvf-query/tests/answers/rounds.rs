//! The number of sequential network round trips of a query.
//!
//! Every request takes the same time on a clock that otherwise stands still, so the elapsed time
//! gives the number of round trips.

use std::sync::Arc;
use std::time::Duration;

use archives::faults::{Fault, FaultStore};
use object_store::path::Path;
use tokio::time::Instant;
use zvf_model::{Bounds, LevelId, LevelReader};
use zvf_query::{Columns, Query, Reader};
use zvf_store::{OpenOptions, Store};

const ROUND: Duration = Duration::from_millis(20);

async fn behind_a_network(id: &str) -> Arc<FaultStore> {
    let faults = FaultStore::new();
    for (path, bytes) in archives::files(id) {
        faults.insert(&path, &bytes).await;
    }
    faults.always(Some(Fault::Delay(ROUND)));
    Arc::new(faults)
}

/// Returns the round trips of opening and a box query, those of the same query repeated, and the
/// requests.
async fn rounds(id: &str) -> ([u128; 2], Vec<String>) {
    let faults = behind_a_network(id).await;
    let start = Instant::now();
    let store =
        Store::from_object_store(faults.clone(), &Path::default(), OpenOptions::default()).await;
    let reader = Reader::new(store.unwrap());
    let query = Query::all().in_region(Bounds::new(&[-1e3; 3], &[1e3; 3]).unwrap());
    let query = query.columns(Columns::None).uncached();
    let first = reader.run(&query).await.unwrap();
    let first_time = start.elapsed();
    let second = reader.run(&query).await.unwrap();
    assert!(!first.batch.is_empty(), "{id}");
    assert_eq!(first.batch.positions(), second.batch.positions(), "{id}");
    let times = [first_time, start.elapsed() - first_time];
    let requests = faults.requests().into_iter().map(|request| request.path).collect();
    (times.map(|time| time.as_millis() / ROUND.as_millis()), requests)
}

#[tokio::test(start_paused = true)]
async fn a_box_takes_few_rounds() {
    for (id, expected) in [
        ("pc3_basic", [3, 1]),   // documents; fragments; vertices
        ("pc3_sharded", [4, 1]), // documents; indexes of shards; fragments; vertices
    ] {
        let (found, requests) = rounds(id).await;
        assert_eq!(found, expected, "{id}: {requests:#?}");
    }
}

#[tokio::test(start_paused = true)]
async fn attributes_are_opened_together() {
    let (mut rounds, mut requests) = (Vec::new(), Vec::new());
    for columns in [Columns::None, Columns::All] {
        let faults = behind_a_network("pc3_attr_dtypes").await;
        let options = OpenOptions::default();
        let store = Store::from_object_store(faults.clone(), &Path::default(), options).await;
        let query = Query::all().columns(columns);
        let start = Instant::now();
        Reader::new(store.unwrap()).run(&query).await.unwrap();
        rounds.push(start.elapsed().as_millis() / ROUND.as_millis());
        requests = faults.requests();
    }
    assert!(rounds[1] <= rounds[0] + 3, "{rounds:?}: {requests:#?}"); // names, documents, values
}

#[tokio::test(start_paused = true)]
async fn the_index_of_objects_is_scanned_once() {
    let faults = behind_a_network("sl3_streamlines").await;
    let options = OpenOptions { cache_bytes: 0, ..OpenOptions::default() };
    let store = Store::from_object_store(faults.clone(), &Path::default(), options).await;
    // A table of owners never fits in one byte.
    let level = LevelReader::open_within(&store.unwrap(), LevelId(0), 1).await.unwrap();
    let near = |_: &[i64], _: &[i64]| true;
    for key in level.chunks().await.unwrap().iter() {
        level.owners(&[key], Some(&near)).await.unwrap();
    }
    let requests = faults.requests();
    let scans = requests.iter().filter(|r| r.path.contains("object_index/manifests/c/0"));
    assert_eq!(scans.count(), 1);
}
