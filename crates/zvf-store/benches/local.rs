//! Many small files: what a batch costs beyond one open, fstat, read and close each.
//!
//! `by hand` is that, file after file on one thread, into fresh memory that is not cleared first. The
//! others are the batches of this crate, with and without a runtime.

mod plain;

use std::fs;
use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use tempfile::TempDir;
use tokio::runtime::Builder;
use zvf_store::Key;
use zvf_store::internals::Reader;

use crate::plain::{by_hand, inline};

fn small_files(c: &mut Criterion) {
    for (files, size) in [(1, 8 << 10), (50, 8 << 10), (2000, 8 << 10), (500, 128 << 10)] {
        let dir = TempDir::new().unwrap();
        let root = dir.path().join("level/vertices/c");
        fs::create_dir_all(&root).unwrap();
        let names: Vec<String> = (0..files).map(|i| i.to_string()).collect();
        names.iter().for_each(|name| fs::write(root.join(name), vec![1; size]).unwrap());
        let paths: Vec<_> = names.iter().map(|name| root.join(name)).collect();
        let under = Key::root().join("level/vertices/c").unwrap();
        let keys: Vec<_> = names.iter().map(|name| under.child(name).unwrap()).collect();
        let reader = Reader::open_local(dir.path()).unwrap();
        let one = Builder::new_current_thread().build().unwrap();
        let many = Builder::new_multi_thread().worker_threads(2).build().unwrap();

        let mut group = c.benchmark_group(format!("{files} files of {} KiB", size >> 10));
        group.throughput(Throughput::Bytes((files * size) as u64));
        let id = BenchmarkId::from_parameter;
        group.bench_function(id("by hand"), |b| b.iter(|| black_box(by_hand(&paths))));
        group.bench_function(id("inline"), |b| b.iter(|| inline(reader.read_all(&keys)).unwrap()));
        group.bench_function(id("one-thread runtime"), |b| {
            b.iter(|| one.block_on(reader.read_all(&keys)).unwrap());
        });
        group.bench_function(id("runtime of two"), |b| {
            b.iter(|| many.block_on(reader.read_all(&keys)).unwrap());
        });
        group.finish();
    }
}

criterion_group!(benches, small_files);
criterion_main!(benches);
