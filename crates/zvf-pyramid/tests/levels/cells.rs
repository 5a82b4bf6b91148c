//! Points in cells, whether chunks hold cells or cells chunks, and however little of them is held at once.

use zvf_model::{Batch, Kind, ObjectId};
use zvf_pyramid::Options;

use crate::made::{build, floats, level, store, values};

/// Each point as its object, what it stands for, and where it is, sorted.
fn describe(batch: &Batch) -> Vec<(i64, u64, Vec<u64>)> {
    let at = values(batch.positions());
    let counts = values(&batch.field("count").unwrap().column);
    let owners = batch.vertex_objects().unwrap();
    let one = |row: usize| {
        let place = at[row * 3..row * 3 + 3].iter().map(|x| x.to_bits()).collect();
        (owners[row].unwrap().0, counts[row] as u64, place)
    };
    let mut all: Vec<_> = (0..batch.len()).map(one).collect();
    all.sort();
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn cells_are_whole_however_little_is_held() {
    let at: Vec<f64> = (0..18_000).map(|i| f64::from(i * 7919 % 30011) / 300.11 - 40.0).collect();
    let owners = (0..6000).map(|i| Some(ObjectId(i % 3))).collect();
    let points = Batch::new(Kind::PointCloud, floats(at, 3)).with_vertex_objects(owners).unwrap();
    for (size, edge) in [(4.0, 10.0 / 3.0), (10.0, 10.0), (37.0, 30.0)] {
        let mut found = Vec::new();
        for memory in [512 << 20, 1 << 17] {
            let dir = archives::scratch();
            let address = store(dir.path(), 10.0, &points, |_| {}).await;
            let options =
                Options { levels: Some(1), size: Some(size), memory, ..Options::default() };
            build(&address, &options).await;
            found.push(describe(&level(&address, 1).await));
        }
        assert_eq!(found[0], found[1], "{size}");
        assert_eq!(found[0].iter().map(|(_, count, _)| count).sum::<u64>(), 6000);
        // One for each object and cell: means are inside their cells.
        let cell = |(object, _, at): &(i64, u64, Vec<u64>)| {
            let at = at.iter().map(|x| (f64::from_bits(*x) / edge).floor() as i64);
            (*object, at.collect::<Vec<_>>())
        };
        let mut cells: Vec<_> = found[0].iter().map(cell).collect();
        cells.sort();
        cells.dedup();
        assert_eq!(cells.len(), found[0].len(), "{size}");
    }
}
