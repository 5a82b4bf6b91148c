//! Benchmarks the assignment of points to chunks and bins, and of link records to cells.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use zvf_format::grid::{Bins, ChunkShape};
use zvf_format::key::ChunkKey;
use zvf_format::link::{
    Body, Endpoint, LinkCell, LinkInteger, LinkPolicy, LinkStorage, Permutation, RowShape,
};

/// Returns the same numbers on every run, spread over 0..1.
fn unit(mut state: u64) -> impl Iterator<Item = f32> {
    std::iter::from_fn(move || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let bits = u16::try_from(state >> 48).unwrap_or(0);
        Some(f32::from(bits) / 65536.0)
    })
}

fn points(c: &mut Criterion) {
    const N: usize = 10_000_000;
    let mut numbers = unit(1);
    let positions: Vec<[f32; 3]> = (0..N)
        .map(|_| std::array::from_fn(|_| numbers.next().unwrap_or(0.0) * 2000.0 - 1000.0))
        .collect();
    let wide: Vec<[f64; 3]> = positions.iter().map(|at| at.map(f64::from)).collect();
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
    let mut numbers = unit(2);
    let mut below = |n: f32| (numbers.next().unwrap_or(0.0) * n) as usize;
    let chunks: Vec<ChunkKey> =
        (0..1000).map(|i| ChunkKey::new(&[i / 100, i / 10 % 10, i % 10 - 5]).unwrap()).collect();
    // Faces whose corners lie in the same chunk or the next two.
    let faces: Vec<[Endpoint<'_>; 3]> = (0..N)
        .map(|_| {
            let first = below(997.0);
            let mut end =
                || Endpoint { chunk: &chunks[first + below(3.0)], row: below(5e4) as u64 };
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
