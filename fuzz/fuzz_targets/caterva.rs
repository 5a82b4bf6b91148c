//! Metalayers, and what lies around them: frame, chunk header, block table.
#![no_main]

use hostile::Kind;
use libfuzzer_sys::fuzz_target;
use zvf_b2nd::{BlockTable, ChunkHeader, Metalayer, MetalayerName};

fuzz_target!(|blob: &[u8]| {
    zvf_fuzz::decode(&Kind::Frame, blob);
    for name in [MetalayerName::Caterva, MetalayerName::B2nd] {
        zvf_fuzz::decode(&Kind::Metalayer(name), blob);
        if let Ok(metalayer) = Metalayer::parse(name, blob) {
            let again = metalayer.encode();
            assert_eq!(Metalayer::parse(name, &again).unwrap(), metalayer);
        }
    }
    if let Ok(header) = ChunkHeader::parse(blob)
        && let Ok(table) = BlockTable::parse(&header, blob)
    {
        for block in 0..header.block_count().min(1000) {
            // Raw copies and repeated values have no table.
            let Some(span) = table.span(block) else { break };
            assert!(span.start <= span.end && span.end <= header.cbytes().into());
        }
    }
});
