//! Blobs of one structure each: decoded as a reader would, and encoded again where they are sound.

use archives::hostile::Kind;
use zvf_b2nd::{BlockTable, ChunkHeader, Metalayer, MetalayerName};
use zvf_format::link::{Body, LinkCell, LinkInteger, RowShape, encode};
use zvf_format::shard::{IndexLocation, ShardIndex, encode_index};
use zvf_format::vlen::VlenCell;

/// Decodes as a reader would, in both modes. Nothing may panic, and strict accepts nothing that
/// default refuses.
pub(crate) fn decode(kind: &Kind, blob: &[u8]) {
    let steps = |strict| kind.decode(blob, strict).and_then(|()| kind.decode_payloads(blob));
    let (default, strict) = (steps(false), steps(true));
    assert!(default.is_ok() || strict.is_err(), "strict accepts what default refuses");
}

/// An object manifest, for each number of axes that is usual.
pub(crate) fn manifest(blob: &[u8]) {
    for axes in 1..=4 {
        let grid = vec![4; usize::try_from(axes).unwrap()];
        decode(&Kind::Manifest { axes, level: Some((grid, 8)) }, blob);
    }
}

/// A ragged blob, for several widths of a row.
pub(crate) fn ragged(blob: &[u8]) {
    for (itemsize, ncols) in [(8, 2), (8, 3), (4, 2), (1, 1)] {
        decode(&Kind::Ragged { itemsize, ncols }, blob);
    }
}

/// The chunk index of a `.tet` file, in a small file and in the largest there can be.
pub(crate) fn tidx(blob: &[u8]) {
    for file_len in [4096, u64::MAX] {
        decode(&Kind::Tidx { file_len }, blob);
    }
}

/// Framed byte strings, as many as the blob says.
pub(crate) fn vlen(blob: &[u8]) {
    let count = blob.first_chunk().map_or(0, |count| u32::from_le_bytes(*count));
    decode(&Kind::Vlen { cells: count.into() }, blob);
    if let Ok(cell) = VlenCell::parse(blob) {
        let span = VlenCell::payload_span(blob, blob.len() as u64).unwrap();
        assert_eq!(cell.payload(), &blob[span.start as usize..span.end as usize]);
    }
}

/// Link rows of one cell, flat and inline, for several shapes of a row.
pub(crate) fn link_cell(blob: &[u8]) {
    let shapes = [
        (LinkInteger::I64, 2, true),
        (LinkInteger::I64, 3, true),
        (LinkInteger::I32, 2, false),
        (LinkInteger::U8, 8, true),
    ];
    for (element, width, has_perm) in shapes {
        let shape = RowShape::new(element, width, has_perm).unwrap();
        for body in [Body::Flat, Body::Inline] {
            let rows = Some(vec![10; width]);
            decode(&Kind::LinkCell { body, shape, rows }, blob);
        }
        if let Ok(cell) = LinkCell::parse(blob, Body::Flat, shape) {
            let records: Vec<_> = cell.records().collect();
            assert_eq!(encode(&[&records], Body::Flat, shape).unwrap(), blob);
        }
    }
}

/// The index of a shard, with and without its checksum, for every number of cells that fits.
pub(crate) fn shard_index(blob: &[u8]) {
    let cells = blob.len() as u64 / 16;
    for checksum in [false, true] {
        let Ok(index) = ShardIndex::parse(blob, cells, checksum) else { continue };
        let spans: Vec<_> = index.iter().collect();
        assert_eq!(encode_index(&spans, checksum).unwrap(), blob);
        for location in [IndexLocation::Start, IndexLocation::End] {
            let _ = index.check_spans(4096, location);
        }
    }
}

/// Metalayers, and what lies around them: frame, chunk header, block table.
pub(crate) fn caterva(blob: &[u8]) {
    decode(&Kind::Frame, blob);
    for name in [MetalayerName::Caterva, MetalayerName::B2nd] {
        decode(&Kind::Metalayer(name), blob);
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
}
