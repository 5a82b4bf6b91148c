//! Points in cells, where chunks hold cells or cells hold chunks, with much memory and little.

use zvf_model::{Batch, Kind, ObjectId};
use zvf_pyramid::Options;

use crate::fixtures::{build, floats, level, store, values};

/// Returns each point as its object, its count and its position, sorted.
fn describe(batch: &Batch) -> Vec<(i64, u64, Vec<u64>)> {
    let at = values(batch.positions());
    let counts = values(&batch.field("count").unwrap().column);
    let owners = batch.vertex_objects().unwrap();
    let describe_row = |row: usize| {
        let bits = at[row * 3..row * 3 + 3].iter().map(|x| x.to_bits()).collect();
        (owners[row].unwrap().0, counts[row] as u64, bits)
    };
    let mut rows: Vec<_> = (0..batch.len()).map(describe_row).collect();
    rows.sort();
    rows
}

#[tokio::test(flavor = "multi_thread")]
async fn cells_do_not_depend_on_the_memory_limit() {
    let at: Vec<f64> = (0..18_000).map(|i| f64::from(i * 7919 % 30011) / 300.11 - 40.0).collect();
    let owners = (0..6000).map(|i| Some(ObjectId(i % 3))).collect();
    let points = Batch::new(Kind::PointCloud, floats(at, 3)).with_vertex_objects(owners).unwrap();
    for (size, edge) in [(4.0, 10.0 / 3.0), (10.0, 10.0), (37.0, 30.0)] {
        let mut results = Vec::new();
        for memory in [512 << 20, 1 << 17] {
            let (_dir, address) = store(10.0, &points, |_| {}).await;
            let options =
                Options { levels: Some(1), size: Some(size), memory, ..Options::default() };
            build(&address, &options).await;
            results.push(describe(&level(&address, 1).await));
        }
        assert_eq!(results[0], results[1], "{size}");
        assert_eq!(results[0].iter().map(|(_, count, _)| count).sum::<u64>(), 6000);
        // There is one point for each object and cell, as means are inside their cells.
        let cell = |(object, _, at): &(i64, u64, Vec<u64>)| {
            let at = at.iter().map(|x| (f64::from_bits(*x) / edge).floor() as i64);
            (*object, at.collect::<Vec<_>>())
        };
        let mut cells: Vec<_> = results[0].iter().map(cell).collect();
        cells.sort();
        cells.dedup();
        assert_eq!(cells.len(), results[0].len(), "{size}");
    }
}
