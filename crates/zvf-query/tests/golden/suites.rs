//! Stores of the test suites of other writers, read by every kind of query.

use archives::Unpacked;
use futures_util::StreamExt as _;
use zvf_format::Class;
use zvf_model::{Bounds, LevelId};
use zvf_query::{Mode, Query, Reader};
use zvf_store::{OpenOptions, Store};

async fn open(name: &str) -> (Unpacked, Reader) {
    let unpacked = Unpacked::new(&format!("suites/{name}"));
    let path = unpacked.path().to_str().unwrap().to_owned();
    let store = Store::open(&path, OpenOptions::default()).await.unwrap();
    (unpacked, Reader::new(store))
}

/// Returns queries that select everything in different ways.
fn unfiltered_queries(axes: usize) -> Vec<Query> {
    let bounds = Bounds::new(&vec![-1e9; axes], &vec![1e9; axes]).unwrap();
    let mut all = vec![Query::all(), Query::all().with_owners()];
    all.extend(
        [Mode::Inside, Mode::Touch, Mode::Cells].map(|m| Query::all().in_region(bounds).mode(m)),
    );
    all
}

#[tokio::test]
async fn a_graph_has_the_edges_that_its_convention_implies() {
    let (_unpacked, reader) = open("graph_branches").await;
    for query in unfiltered_queries(reader.store().root().axes().len()) {
        let batch = reader.run(&query).await.unwrap().batch;
        assert_eq!(batch.elements().unwrap().len(), 6, "{query:?}");
        let mut edges = 0;
        let mut batches = reader.stream(query);
        while let Some(batch) = batches.next().await {
            edges += batch.unwrap().elements().unwrap().len();
        }
        assert_eq!(edges, 6);
    }
}

#[tokio::test]
async fn fragments_with_missing_rows_are_refused() {
    for name in ["dangling", "frag_without_vertices"] {
        let (_unpacked, reader) = open(name).await;
        for query in unfiltered_queries(reader.store().root().axes().len()) {
            let error = reader.run(&query).await.map(|answer| answer.batch.len()).unwrap_err();
            assert_eq!(error.class(), Class::OutOfBounds, "{name} {query:?} {error}");
            assert!(reader.count(&query).await.is_err(), "{name} {query:?}");
        }
    }
}

#[tokio::test]
async fn shared_rows_are_returned_once_in_every_read() {
    let (_unpacked, reader) = open("overlap").await;
    let level = reader.level(LevelId(0)).await.unwrap();
    let keys: Vec<_> = level.chunks().await.unwrap().iter().collect();
    let stored: u64 = level.row_counts(&keys).await.into_iter().map(Result::unwrap).sum();
    for query in unfiltered_queries(level.axes()) {
        let places = reader.run(&query.with_places()).await.unwrap().batch;
        let field = &places.field(zvf_query::LOCATION_FIELD).unwrap().column;
        let mut all: Vec<&[u8]> = field.rows().collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), places.len());
        assert!(places.len() as u64 <= stored);
    }
}

#[tokio::test]
async fn boxes_find_points_of_coarse_levels_outside_their_chunk() {
    let (_unpacked, reader) = open("coarse_misplaced").await;
    for number in reader.store().level_numbers().into_iter().filter(|number| *number > 0) {
        let all = reader.run(&Query::all().at_level(LevelId(number))).await.unwrap().batch;
        for row in 0..all.len() {
            let axes = all.positions().width() as usize;
            let at: Vec<f64> =
                (0..axes).map(|axis| all.positions().float(row, axis).unwrap()).collect();
            let query =
                Query::all().in_region(Bounds::new(&at, &at).unwrap()).at_level(LevelId(number));
            let found = reader.run(&query.mode(Mode::Inside)).await.unwrap().batch.len();
            assert!(found > 0, "level {number}, row {row} at {at:?}");
        }
    }
}
