//! How fast points find their chunk and bin, and link records their cell.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use zvf_format::grid::{Bins, ChunkShape};

/// The same numbers on every run, spread over 0..1.
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

criterion_group!(benches, points);
criterion_main!(benches);
