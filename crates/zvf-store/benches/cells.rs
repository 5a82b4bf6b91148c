//! All cells of an array against the same files read by hand, and a few bytes of each.
//!
//! `by hand` opens, stats, reads and closes each file on one thread, into fresh memory.

mod plain;

use std::fs;
use std::hint::black_box;
use std::path::{Path, PathBuf};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use tempfile::TempDir;
use tokio::runtime::Builder;
use zvf_format::key::ChunkKey;
use zvf_store::{Caching, OpenOptions, Store};

use crate::plain::{by_hand, inline};

/// A copy of the example store whose vertices are `cells` cells of `size` bytes, in a row.
fn store(dir: &Path, cells: usize, size: usize, codec: Option<&str>) -> Vec<PathBuf> {
    let three = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/three.zarrvectors");
    fs::create_dir_all(dir.join("0/vertices/c")).unwrap();
    for path in ["zarr.json", "0/zarr.json", "0/vertices/zarr.json"] {
        let mut text = fs::read_to_string(three.join(path)).unwrap();
        let keys: Vec<String> = (-1..cells as i64 - 1).map(|x| format!("\"{x}.0\"")).collect();
        text = text.replace(r#""-1.0", "0.0", "1.0""#, &keys.join(", "));
        text = text.replace(r#""shape": [3, 1]"#, &format!(r#""shape": [{cells}, 1]"#));
        if let Some(codec) = codec {
            let vlen = r#"{"name": "vlen-bytes", "configuration": {}}"#;
            text = text.replace(vlen, &format!(r#"{vlen}, {{"name": "{codec}"}}"#));
        }
        fs::write(dir.join(path), text).unwrap();
    }
    let mut state = 1_u32;
    (0..cells)
        .map(|i| {
            let mut cell = [1_u32.to_le_bytes(), (size as u32).to_le_bytes()].concat();
            cell.extend((0..size).map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 28) as u8 // four bits of eight: ordinary data shrinks
            }));
            if codec.is_some() {
                cell = zstd::bulk::compress(&cell, 1).unwrap();
            }
            let path = dir.join(format!("0/vertices/c/{i}/0"));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, cell).unwrap();
            path
        })
        .collect()
}

fn scans(c: &mut Criterion) {
    for (cells, size, codec) in [
        (2000, 2 << 10, None),
        (1000, 24 << 10, None),
        (200, 256 << 10, None),
        (1000, 24 << 10, Some("zstd")),
    ] {
        let dir = TempDir::new().unwrap();
        let paths = store(dir.path(), cells, size, codec);
        let store =
            inline(Store::open(dir.path().to_str().unwrap(), OpenOptions::default())).unwrap();
        let vertices = inline(inline(store.level(0)).unwrap().required_cells("vertices")).unwrap();
        let keys: Vec<ChunkKey> = inline(vertices.presence()).unwrap().iter().collect();
        let many = Builder::new_multi_thread().worker_threads(2).build().unwrap();
        let sum = |payloads: Vec<Result<Option<bytes::Bytes>, _>>| -> usize {
            payloads
                .into_iter()
                .map(|p: Result<_, zvf_store::StoreError>| p.unwrap().unwrap().len())
                .sum()
        };

        let codec = codec.unwrap_or("plain");
        let mut group = c.benchmark_group(format!("{cells} cells of {} KiB, {codec}", size >> 10));
        group.throughput(Throughput::Bytes((cells * size) as u64));
        let id = BenchmarkId::from_parameter;
        group.bench_function(id("by hand"), |b| b.iter(|| black_box(by_hand(&paths))));
        group.bench_function(id("inline"), |b| {
            b.iter(|| black_box(sum(inline(vertices.read_many(&keys, Caching::Once)))));
        });
        group.bench_function(id("runtime of two"), |b| {
            b.iter(|| black_box(sum(many.block_on(vertices.read_many(&keys, Caching::Once)))));
        });
        let asks: Vec<_> = keys.iter().map(|key| (*key, vec![64..128, 1024..1088])).collect();
        store.clear_cache();
        group.bench_function(id("two parts of each"), |b| {
            b.iter(|| black_box(inline(vertices.read_parts(&asks)).len()));
        });
        group.finish();
    }
}

criterion_group!(benches, scans);
criterion_main!(benches);
