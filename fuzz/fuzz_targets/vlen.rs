//! Framed byte strings, as many as the blob says.
#![no_main]

use hostile::Kind;
use libfuzzer_sys::fuzz_target;
use zvf_format::vlen::VlenCell;

fuzz_target!(|blob: &[u8]| {
    let count = blob.first_chunk().map_or(0, |count| u32::from_le_bytes(*count));
    zvf_fuzz::decode(&Kind::Vlen { cells: count.into() }, blob);
    if let Ok(cell) = VlenCell::parse(blob) {
        let span = VlenCell::payload_span(blob, blob.len() as u64).unwrap();
        assert_eq!(cell.payload(), &blob[span.start as usize..span.end as usize]);
    }
});
