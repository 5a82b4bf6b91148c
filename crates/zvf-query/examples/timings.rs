//! Times of the questions that matter, on stores in a folder given.
//!
//! `cargo run --release --example timings -- FOLDER` looks for `points`, `attributes`, `objects`,
//! `streamlines`, `mesh` and `graph` in it, and prints the median of each question on a warm handle
//! that keeps no cells.

use std::path::Path;
use std::time::Instant;

use zvf_model::{Bounds, ObjectId};
use zvf_query::{Answer, Columns, Query, QueryError, Reader};
use zvf_store::{OpenOptions, Store};

/// A small generator, so that runs can be compared.
struct Random(u64);

impl Random {
    fn next(&mut self) -> f64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn boxes(&mut self, bounds: &[Vec<f64>], share: f64, n: usize) -> Vec<Bounds> {
        let axes = bounds[0].len();
        let side = share.powf(1.0 / axes as f64);
        let mut one = || {
            let (mut low, mut high) = (vec![], vec![]);
            for axis in 0..axes {
                let extent = bounds[1][axis] - bounds[0][axis];
                let from = bounds[0][axis] + self.next() * extent * (1.0 - side);
                low.push(from);
                high.push(from + extent * side);
            }
            Bounds::new(&low, &high).unwrap()
        };
        (0..n).map(|_| one()).collect()
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args().nth(1).ok_or("a folder of stores")?;
    let only = std::env::args().nth(2);
    for name in ["points", "attributes", "objects", "streamlines", "mesh", "graph"] {
        let path = Path::new(&folder).join(format!("{name}.zarrvectors"));
        if path.is_dir() && only.as_deref().is_none_or(|only| only == name) {
            store(name, &path)?;
        }
    }
    Ok(())
}

fn store(name: &str, path: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let store =
        inline(Store::open(path.to_str().ok_or("a path in UTF-8")?, OpenOptions::default()))?;
    let corners = &store.root().zarr_vectors.bounds;
    let bounds: Vec<Vec<f64>> = vec![corners[0].clone(), corners[1].clone()];
    let reader = Reader::new(store);
    let mut random = Random(7);
    let start = Instant::now();
    let all = inline(reader.run(&Query::all().columns(Columns::None).uncached()))?;
    println!("{name}: first whole read, {} vertices, {:.2?}", all.batch.len(), start.elapsed());
    ask(&reader, &format!("{name}: box of 1/1000"), &boxes(&mut random, &bounds, 0.001, 40))?;
    if name == "attributes" {
        let queries = boxes(&mut random, &bounds, 0.01, 200);
        ask(&reader, &format!("{name}: box of 1 %"), &queries)?;
        ask(&reader, &format!("{name}: full scan"), &vec![Query::all().uncached(); 12])?;
    }
    if name == "objects" || name == "streamlines" {
        let n = all.batch.parts().len().max(1);
        let n = if name == "objects" { 10_000 } else { n };
        let mut id = || ObjectId((random.next() * n as f64) as i64);
        let ones: Vec<Query> = (0..60).map(|_| Query::objects([id()]).uncached()).collect();
        ask(&reader, &format!("{name}: one object"), &ones)?;
        let many: Vec<Query> =
            (0..5).map(|_| Query::objects((0..2000).map(|_| id())).uncached()).collect();
        ask(&reader, &format!("{name}: 2000 objects"), &many)?;
    }
    Ok(())
}

fn boxes(random: &mut Random, bounds: &[Vec<f64>], share: f64, n: usize) -> Vec<Query> {
    let boxes = random.boxes(bounds, share, n).into_iter();
    boxes.map(|bounds| Query::within(bounds).uncached()).collect()
}

fn ask(reader: &Reader, what: &str, queries: &[Query]) -> Result<(), QueryError> {
    let mut last: Option<Answer> = None;
    for query in queries {
        last = Some(inline(reader.run(query))?); // warm
    }
    let (mut times, mut rows) = (Vec::new(), 0);
    for query in queries {
        let start = Instant::now();
        let answer = inline(reader.run(query))?;
        times.push(start.elapsed());
        rows += answer.batch.len();
        last = Some(answer);
    }
    times.sort();
    let mean: std::time::Duration = times.iter().sum::<std::time::Duration>() / times.len() as u32;
    let rows = rows / queries.len();
    print!("{what}: median {:.3?}, mean {mean:.3?}, {rows} vertices", times[times.len() / 2]);
    println!("; last {}", last.unwrap().figures);
    Ok(())
}

/// A local read never waits, so that no runtime is needed.
fn inline<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    loop {
        if let std::task::Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
    }
}
