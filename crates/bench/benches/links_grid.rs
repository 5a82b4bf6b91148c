//! Benchmarks the assignment of points to chunks and bins, and of link records to cells.

use archives::random::Random;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use zvf_format::grid::{Bins, ChunkShape};
use zvf_format::key::ChunkKey;
use zvf_format::link::{
    Body, Endpoint, LinkCell, LinkInteger, LinkPolicy, LinkStorage, Permutation, RowShape,
};

fn points(c: &mut Criterion) {
    const N: usize = 10_000_000;
    let mut random = Random::new(1);
    let wide: Vec<[f64; 3]> =
        (0..N).map(|_| [(); 3].map(|()| random.next_unit() * 2000.0 - 1000.0)).collect();
    let positions: Vec<[f32; 3]> = wide.iter().map(|at| at.map(|x| x as f32)).collect();
    let chunk = ChunkShape::new(&[100.0, 90.0, 30.0]).unwrap();
    let bins = Bins::new(&chunk, &[25.0, 30.0, 7.5]).unwrap();
    let (mut chunks, mut flat) = (vec![[0; 3]; N], vec![0; N]);

    let mut group = c.benchmark_group("points");
    group.throughput(Throughput::Elements(N as u64)).sample_size(10);
    group.bench_function("chunk and bin, f32", |b| {
        b.iter(|| bins.assign(&positions, &mut chunks, &mut flat).unwrap());
    });
    group.bench_function("chunk and bin, f64", |b| {
        b.iter(|| bins.assign(&wide, &mut chunks, &mut flat).unwrap());
    });
    group.bench_function("chunk, f32", |b| {
        b.iter(|| chunk.assign(&positions, &mut chunks).unwrap());
    });
    group.bench_function("chunk and bin one by one, f64", |b| {
        b.iter(|| wide.iter().fold(0, |sum, at| sum ^ bins.locate(at).unwrap().1));
    });
    group.finish();
}

fn links(c: &mut Criterion) {
    const N: usize = 1_000_000;
    let mut random = Random::new(2);
    let chunks: Vec<ChunkKey> =
        (0..1000).map(|i| ChunkKey::new(&[i / 100, i / 10 % 10, i % 10 - 5]).unwrap()).collect();
    // Faces whose corners lie in the same chunk or the next two.
    let faces: Vec<[Endpoint<'_>; 3]> = (0..N)
        .map(|_| {
            let first = random.next_below(997);
            let mut end = || {
                let chunk = &chunks[first + random.next_below(3)];
                Endpoint { chunk, row: random.next() % 50_000 }
            };
            [end(), end(), end()]
        })
        .collect();

    let mut group = c.benchmark_group("links");
    group.throughput(Throughput::Elements(N as u64)).sample_size(10);
    for (name, width, family) in [
        ("place edges, undirected", 2, LinkPolicy::new(2, 3).unwrap()),
        ("place faces, undirected", 3, LinkPolicy::new(3, 3).unwrap()),
        ("place faces, directed", 3, LinkPolicy::new(3, 3).unwrap().with_direction()),
        (
            "place faces, duplicate",
            3,
            LinkPolicy::new(3, 3).unwrap().with_storage(LinkStorage::Duplicate),
        ),
    ] {
        group.bench_function(name, |b| {
            b.iter(|| {
                let mut sum = 0;
                for face in &faces {
                    for copy in family.place(&face[..width]).unwrap() {
                        sum ^= copy.record().rows()[0] ^ u64::from(copy.is_intra());
                    }
                }
                sum
            });
        });
    }

    let shape = RowShape::new(LinkInteger::I64, 3, true).unwrap();
    let rows: Vec<u8> =
        (0..N as i64).flat_map(|i| [i % 6, i, i + 1, i + 2]).flat_map(i64::to_le_bytes).collect();
    group.bench_function("parse and read faces", |b| {
        b.iter(|| {
            let cell = LinkCell::parse(&rows, Body::Flat, shape).unwrap();
            cell.records().fold(0, |sum, record| sum ^ record.rows()[2])
        });
    });
    group.finish();
}

fn codes(c: &mut Criterion) {
    let mut group = c.benchmark_group("permutations");
    for width in [3, 8] {
        let codes = (1..=u64::from(width)).product::<u64>();
        group.throughput(Throughput::Elements(codes));
        group.bench_function(format!("code to order and back, {width} places"), |b| {
            b.iter(|| {
                let all = (0..codes).filter_map(|code| Permutation::from_code(code, width));
                all.map(|order| u64::from(order.code())).sum::<u64>()
            });
        });
    }
    group.finish();
}

criterion_group!(benches, links, codes, points);
criterion_main!(benches);
