//! Benchmarks parsing, iteration and look-up of fragment indexes and manifests.
//!
//! Indexes of 64, 4096 and 262 144 fragments: all ranges (the usual chunk), or one third lists.
//! Throughput of parsing is in bytes, of everything else in fragments, references or look-ups.

use std::hint::black_box;

use archives::random::Random;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use zvf_format::fragment::{Fragment, FragmentIndex, FragmentIndexBuilder, RankTable};
use zvf_format::manifest::{Manifest, ManifestBuilder};
use zvf_format::shard::crc32c;

criterion_group!(benches, fragments, manifests, checksums);
criterion_main!(benches);

fn fragments(c: &mut Criterion) {
    for (kind, every) in [("ranges", u64::MAX), ("mixed", 3)] {
        let mut group = c.benchmark_group(format!("fragment/{kind}"));
        for n in [64, 4096, 262_144] {
            let blob = index(n, every);
            group.throughput(Throughput::Bytes(blob.len() as u64));
            group.bench_function(BenchmarkId::new("parse", n), |b| {
                b.iter(|| FragmentIndex::parse(black_box(&blob)).unwrap().is_empty());
            });

            let view = FragmentIndex::parse(&blob).unwrap();
            let table = RankTable::new(&view);
            group.throughput(Throughput::Elements(n));
            group.bench_function(BenchmarkId::new("walk", n), |b| {
                b.iter(|| black_box(&view).iter().map(|f| reach(&f)).fold(0, u64::wrapping_add));
            });
            group.bench_function(BenchmarkId::new("check rows", n), |b| {
                b.iter(|| black_box(&view).check_rows(u64::MAX));
            });

            let picks = picks(n);
            group.throughput(Throughput::Elements(picks.len() as u64));
            group.bench_function(BenchmarkId::new("get", n), |b| {
                b.iter(|| picks.iter().filter_map(|f| view.get(*f)).map(|f| reach(&f)).max());
            });
            group.bench_function(BenchmarkId::new("get by table", n), |b| {
                b.iter(|| {
                    picks.iter().filter_map(|f| table.get(&view, *f)).map(|f| reach(&f)).max()
                });
            });
        }
        group.finish();
    }
}

fn manifests(c: &mut Criterion) {
    let mut group = c.benchmark_group("manifest");
    for (kind, run) in [("singles", 1), ("ranges", 8)] {
        let blob = manifest(1000, run);
        group.throughput(Throughput::Bytes(blob.len() as u64));
        group.bench_function(BenchmarkId::new("parse", kind), |b| {
            b.iter(|| Manifest::parse(black_box(&blob), 3).unwrap().sid_ndim());
        });
        let view = Manifest::parse(&blob, 3).unwrap();
        group.throughput(Throughput::Elements(1000 * run));
        group.bench_function(BenchmarkId::new("walk", kind), |b| {
            b.iter(|| {
                let references = black_box(&view).references();
                references.fold(0, |sum: u64, r| sum.wrapping_add(r.fragment))
            });
        });
    }
    group.finish();
}

fn checksums(c: &mut Criterion) {
    let bytes: Vec<u8> = (0..=255).cycle().take(1 << 16).collect();
    let mut group = c.benchmark_group("crc32c");
    group.throughput(Throughput::Bytes(bytes.len() as u64));
    group.bench_function("64 KiB", |b| b.iter(|| crc32c(black_box(&bytes))));
    group.finish();
}

/// Makes an index of `n` fragments; each `every`th is a list of four rows, the others are ranges.
fn index(n: u64, every: u64) -> Vec<u8> {
    let mut builder = FragmentIndexBuilder::new();
    for f in 0..n {
        if f % every == every - 1 {
            builder.push_rows(&[4 * f, 4 * f + 2, 4 * f + 1, 4 * f + 3]).unwrap();
        } else {
            builder.push_range(4 * f, 4).unwrap();
        }
    }
    builder.encode()
}

/// Makes a manifest of `blocks` blocks, each in its own chunk, with `run` fragments.
fn manifest(blocks: i64, run: u64) -> Vec<u8> {
    let mut builder = ManifestBuilder::new(3).unwrap();
    for block in 0..blocks {
        let fragments: Vec<u64> = (0..run).collect();
        builder.push_fragments(&[block, 2, 3], &fragments).unwrap();
    }
    builder.encode()
}

/// Returns a thousand fragment numbers in random order.
fn picks(n: u64) -> Vec<u64> {
    let mut random = Random::new(1);
    (0..1000).map(|_| random.next() % n).collect()
}

/// Returns a number that depends on the whole stored form of a fragment.
fn reach(fragment: &Fragment<'_>) -> u64 {
    match fragment {
        Fragment::Range { start, count } => start.wrapping_add(*count),
        Fragment::Rows(rows) => rows.last().map_or(0, |row| row.get().cast_unsigned()),
    }
}
