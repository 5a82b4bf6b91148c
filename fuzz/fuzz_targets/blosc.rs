//! Chunks of Blosc: any bytes decode within their bound, and what is encoded is decoded.
#![no_main]

use libfuzzer_sys::fuzz_target;
use zvf_b2nd::{Filter, FilterSlot};
use zvf_blosc::{Blosc2Settings, Chunk, Compressor, Encoder};

fuzz_target!(|input: ([u8; 6], &[u8])| {
    let (choice, bytes) = input;
    if let Ok(chunk) = Chunk::parse(bytes)
        && let Ok(all) = chunk.decode_all(CAP)
    {
        let end = all.len() as u64;
        let part = chunk.decode_range(end / 2..end, CAP).unwrap();
        assert!(all.ends_with(&part), "a part is a part of all");
    }
    use Compressor::{BloscLz, Lz4, Lz4Hc, Zlib, Zstd};
    let filters =
        [Filter::None, Filter::Shuffle, Filter::Bitshuffle, Filter::Delta, Filter::ByteDelta];
    let [compressor, level, one, two, typesize, block] = choice.map(usize::from);
    let mut settings = Blosc2Settings {
        compressor: [BloscLz, Lz4, Lz4Hc, Zlib, Zstd][compressor % 5],
        level: (level % 6) as u8,
        typesize: (typesize % 17 + 1) as u8,
        block_size: (block * 7 + 1) as u32,
        split: compressor & 8 != 0,
        ..Blosc2Settings::default()
    };
    settings.filters = Default::default();
    for (slot, filter) in settings.filters.iter_mut().zip([one, two]) {
        *slot = FilterSlot { filter: filters[filter % filters.len()], meta: 0 };
    }
    let chunk = Encoder::default().encode_blosc2(bytes, &settings).unwrap();
    assert_eq!(Chunk::parse(&chunk).unwrap().decode_all(CAP).unwrap(), bytes);
});

/// More than any input here decodes to on purpose.
const CAP: u64 = 1 << 24;
