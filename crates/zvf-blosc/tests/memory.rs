//! The peak memory of decoding a broken chunk, whatever the chunk claims.
//!
//! One test, so that nothing else allocates in this process.

use std::fs;

use peak_alloc::PeakAlloc;
use zvf_blosc::Chunk;

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

/// More than any of the chunks decodes to.
const CAP: u64 = 80_000;
/// The state of zlib, and errors.
const STATE: usize = 64 << 10;

#[test]
fn claims_are_not_believed() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/caterva/blosc1");
    let mut decoded = 0;
    for file in fs::read_dir(folder).unwrap() {
        let bytes = fs::read(file.unwrap().path()).unwrap();
        let allowed = STATE + 4 * usize::try_from(CAP).unwrap() + 4 * bytes.len();
        for at in 0..24 {
            for byte in [0, 1, 0x7f, 0x80, 0xff] {
                let mut broken = bytes.clone();
                broken[at] = byte;
                let before = HEAP.current_usage();
                HEAP.reset_peak_usage();
                if let Ok(chunk) = Chunk::parse(&broken) {
                    decoded += usize::from(chunk.decode_all(CAP).is_ok());
                    let _part = chunk.decode_range(0..1, CAP);
                }
                let peak = HEAP.peak_usage() - before;
                assert!(peak <= allowed, "{peak} bytes for byte {at} = {byte}");
            }
        }
    }
    assert!(decoded > 100);
}
