//! The number of network round trips of a query to a pack.
//!
//! Every request takes the same time on a clock that stops otherwise, so that the elapsed time is
//! the number of round trips.

use std::io::Cursor;
use std::sync::Arc;
use std::time::Duration;

use archives::faults::{Fault, FaultStore};
use tokio::time::Instant;
use zvf_model::{Bounds, Kind};
use zvf_query::{Columns, Query, Reader};
use zvf_store::{OpenOptions, Store};
use zvf_tensor::{PackOptions, pack};
use zvf_write::WriteOptions;

use crate::given::{Given, open};

const ROUND: Duration = Duration::from_millis(20);

/// 60 000 points in 216 cells, packed: a file of about 1.7 MB.
async fn packed_points() -> Vec<u8> {
    let coordinate = |n: usize, step: usize| ((n * step) % 6_007) as f64 / 1_001.5;
    let positions: Vec<Vec<f64>> =
        (0..60_000).map(|n| [7, 61, 523].map(|step| coordinate(n, step)).to_vec()).collect();
    let geometry = Given {
        kind: Kind::PointCloud,
        axes: 3,
        narrow: false,
        parts: vec![(0, positions.len())],
        positions,
        owned: false,
        elements: Vec::new(),
    };
    let written = geometry.write(geometry.schema(1.0), WriteOptions::default(), 10_000).await;
    let store = open(written.unwrap().0).await;
    let packed = pack(&store, Cursor::new(Vec::new()), &PackOptions::default(), |_| ()).await;
    packed.unwrap().0.into_inner()
}

#[tokio::test(start_paused = true)]
async fn a_new_handle_to_a_pack_waits_twice_for_a_box_and_once_for_the_next() {
    let bytes = packed_points().await;
    assert!(bytes.len() > 1_500_000, "{}", bytes.len());
    let faults = FaultStore::new();
    faults.insert("points.tet", &bytes).await;
    faults.always(Some(Fault::Delay(ROUND)));
    let faults = Arc::new(faults);
    let start = Instant::now();
    let options = OpenOptions::default();
    let store = Store::from_object_store(faults.clone(), &"points.tet".into(), options).await;
    let reader = Reader::new(store.unwrap());
    for expected in [2, 1] {
        let from = if expected == 2 { Duration::ZERO } else { start.elapsed() };
        let query = Query::all().in_region(Bounds::new(&[2.0; 3], &[3.5; 3]).unwrap());
        let answer = reader.run(&query.columns(Columns::None).uncached()).await.unwrap();
        assert!(!answer.batch.is_empty());
        let rounds = (start.elapsed() - from).as_millis() / ROUND.as_millis();
        assert_eq!(rounds, expected, "{:#?}", faults.requests());
    }
}
