//! A few kilobytes that decode to half a gigabyte are refused within the memory budget of the
//! handle.

use std::io::Write as _;
use std::sync::Arc;

use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStoreExt as _, PutPayload};
use peak_alloc::PeakAlloc;
use zvf_format::Class;
use zvf_store::{Caching, OpenOptions, Store};

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

const THREE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/three.zarrvectors");
const BUDGET: u64 = 48 << 20;

/// Opens the example store with `codec` on its vertices, all chunks of which are `stored`.
async fn store(codec: &str, stored: &[u8]) -> Store {
    let memory = InMemory::new();
    for path in ["zarr.json", "0/zarr.json", "0/vertices/zarr.json"] {
        let text = std::fs::read_to_string(format!("{THREE}/{path}")).unwrap();
        let vlen = r#"{"name": "vlen-bytes", "configuration": {}}"#;
        let text = text.replace(vlen, &format!("{vlen}, {codec}"));
        memory.put(&path.into(), PutPayload::from(text)).await.unwrap();
    }
    for chunk in ["0/vertices/c/0/0", "0/vertices/c/1/0", "0/vertices/c/2/0"] {
        memory.put(&chunk.into(), PutPayload::from(stored.to_vec())).await.unwrap();
    }
    let options =
        OpenOptions { budget_bytes: BUDGET, cache_bytes: 8 << 20, ..OpenOptions::default() };
    Store::from_object_store(Arc::new(memory), &Path::default(), options).await.unwrap()
}

/// Writes half a gigabyte of zeros to an encoder in pieces.
fn zeros<W: std::io::Write>(mut encoder: W) -> W {
    let piece = vec![0; 1 << 20];
    (0..512).for_each(|_| encoder.write_all(&piece).unwrap());
    encoder
}

#[tokio::test(flavor = "multi_thread")]
async fn bombs_stay_within_the_budget() {
    let zstd = zeros(zstd::Encoder::new(Vec::new(), 1).unwrap()).finish().unwrap();
    let gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let gzip = zeros(gzip).finish().unwrap();
    let two_layers = {
        let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
        encoder.write_all(&zstd).unwrap();
        encoder.finish().unwrap()
    };
    let crc = [zstd.as_slice(), &crc32c::crc32c(&zstd).to_le_bytes()].concat();
    // One block of half a gigabyte, encoded in four bytes.
    let blosc = b"\x02\x01\x10\x01\0\0\0\x20\0\0\0\x20\x18\0\0\0\x14\0\0\0\0\0\0\0";
    let (zstd_name, crc_name) = (r#"{"name": "zstd"}"#, r#"{"name": "crc32c"}"#);
    for (codec, stored) in [
        (zstd_name.to_owned(), zstd.as_slice()),
        (r#"{"name": "gzip"}"#.to_owned(), &gzip),
        (format!("{zstd_name}, {zstd_name}"), &two_layers),
        (format!("{zstd_name}, {crc_name}"), &crc),
        (r#"{"name": "blosc"}"#.to_owned(), blosc),
    ] {
        let store = store(&codec, stored).await;
        let vertices = store.level(0).await.unwrap().required_cells("vertices").await.unwrap();
        let keys: Vec<_> = vertices.presence().await.unwrap().iter().collect();
        let before = HEAP.current_usage();
        HEAP.reset_peak_usage();
        for payload in vertices.read_many(&keys, Caching::Keep).await {
            assert_eq!(payload.unwrap_err().class(), Class::LimitExceeded, "{codec}");
        }
        let peak = (HEAP.peak_usage() - before) as u64;
        assert!(peak < BUDGET, "{codec}: {peak} bytes");
    }
}
