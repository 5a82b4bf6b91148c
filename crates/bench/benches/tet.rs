//! Benchmarks opening a `.tet` file with many chunks, and planning a small read from it.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use zvf_tet::{
    AxisSlice, DatasetSpec, Index, MemoryBudget, TensorCodec, TensorDtype, TetLayout, TetView,
    TileGeometry,
};

/// Makes a file of 100 x 1000 raw chunks of one element each.
fn many_chunks() -> Vec<u8> {
    let geometry = TileGeometry::new(TensorDtype::F32, &[100, 1000], &[1, 1]).unwrap();
    let spec = DatasetSpec::new("a", geometry).with_alignment(4);
    let mut layout = TetLayout::new(&[spec], MemoryBudget::DEFAULT).unwrap();
    while layout.next_tile().is_some() {
        layout.place(TensorCodec::Raw, 4).unwrap();
    }
    let end = layout.payload_end();
    let mut bytes = layout.finish(false).unwrap();
    bytes.resize(usize::try_from(end).unwrap(), 0);
    bytes
}

fn tet(c: &mut Criterion) {
    let bytes = many_chunks();
    let file = TetView::parse(&bytes).unwrap();
    let block = file.superblock();
    let from = usize::try_from(block.chunk_index_offset()).unwrap();
    let index = &bytes[from..][..usize::try_from(block.chunk_index_length()).unwrap()];
    let end = file.payload_end();

    let mut group = c.benchmark_group("tet/100000 rows");
    group.throughput(Throughput::Elements(100_000));
    group.bench_function("parse index", |b| b.iter(|| Index::parse(black_box(index), end)));
    group.bench_function("validate", |b| b.iter(|| black_box(&file).validate()));
    group.bench_function("lookup", |b| b.iter(|| black_box(&file).lookup(0)));
    group.finish();

    let lookup = file.lookup(0).unwrap();
    let slice =
        [AxisSlice { start: 40, stop: 44, step: 2 }, AxisSlice { start: 500, stop: 504, step: 1 }];
    c.bench_function("tet/plan of 8 chunks in 100000", |b| {
        b.iter(|| {
            let plan = lookup.select(black_box(&slice)).unwrap();
            let copied: u64 = plan
                .tiles()
                .flat_map(|touched| touched.unwrap().runs())
                .map(|run| run.src + run.dst + run.count)
                .sum();
            copied
        });
    });
}

criterion_group!(benches, tet);
criterion_main!(benches);
