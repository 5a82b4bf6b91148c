//! The index of a shard, with and without its checksum, for every number of cells that fits.
#![no_main]

use libfuzzer_sys::fuzz_target;
use zvf_format::shard::{IndexLocation, ShardIndex, encode_index};

fuzz_target!(|blob: &[u8]| {
    let cells = blob.len() as u64 / 16;
    for checksum in [false, true] {
        let Ok(index) = ShardIndex::parse(blob, cells, checksum) else { continue };
        let spans: Vec<_> = index.iter().collect();
        assert_eq!(encode_index(&spans, checksum).unwrap(), blob);
        for location in [IndexLocation::Start, IndexLocation::End] {
            let _ = index.check_spans(4096, location);
        }
    }
});
