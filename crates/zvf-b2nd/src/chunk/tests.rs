//! Chunk headers: round trips of every field, and one row per check.

use std::string::ToString;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;

/// 16 bytes of Blosc 1: 1000 bytes of 4-byte items in blocks of 512, zstd and shuffle.
const BLOSC1: [u8; 16] = *b"\x02\x01\x81\x04\xe8\x03\0\0\x00\x02\0\0\x40\x01\0\0";
/// 32 bytes of Blosc2: 64 bytes of 4-byte items in blocks of 16, lz4, shuffle in slot 0, not split.
#[rustfmt::skip]
const BLOSC2: [u8; 32] = *b"\x05\x01\x35\x04\x40\0\0\0\x10\0\0\0\x60\0\0\0\x01\0\0\0\0\0\x01\0\0\0\0\0\0\0\0\0";

/// Returns `base` with replaced bytes from `at` on.
fn replaced(base: &[u8], at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut chunk = base.to_vec();
    chunk[at..at + bytes.len()].copy_from_slice(bytes);
    chunk
}

#[test]
fn ids_of_filters_round_trip() {
    for (id, filter) in [
        (0, Filter::None),
        (1, Filter::Shuffle),
        (2, Filter::Bitshuffle),
        (3, Filter::Delta),
        (4, Filter::TruncatePrecision),
        (35, Filter::ByteDelta),
        (36, Filter::TruncateIntegers),
        (34, Filter::Unknown(34)),
    ] {
        assert_eq!((Filter::from_id(id), filter.id()), (filter, id));
    }
}

#[test]
fn a_header_of_16_bytes() {
    let header = ChunkHeader::parse_strict(&BLOSC1).unwrap();
    assert_eq!((header.header_len(), header.nbytes(), header.cbytes()), (16, 1000, 320));
    assert_eq!((header.codec(), header.body()), (BloscCodec::Zstd, Body::Blocks));
    assert_eq!((header.block_count(), header.table()), (2, 16..24));
    assert_eq!([0, 1, 2].map(|j| header.block_len(j)), [Some(512), Some(488), None]);
    assert_eq!([0, 1, 2].map(|j| header.streams(j)), [4, 1, 1]);
    assert_eq!(header.filters()[5].filter, Filter::Shuffle);
    assert_eq!(header.encode(), BLOSC1);
}

#[test]
fn a_header_of_32_bytes() {
    let header = ChunkHeader::parse_strict(&BLOSC2).unwrap();
    assert_eq!((header.header_len(), header.block_count(), header.table()), (32, 4, 32..48));
    assert_eq!((header.streams(0), header.has_dictionary()), (1, false));
    let shuffle = FilterSlot { filter: Filter::Shuffle, meta: 0 };
    let none = FilterSlot::default();
    assert_eq!(header.filters(), [shuffle, none, none, none, none, none]);
    assert_eq!(header.fields().extended.unwrap().compressor, 1);
    assert_eq!(header.encode(), BLOSC2);
}

#[test]
#[rustfmt::skip]
fn codecs() {
    for (base, flags, codec) in [
        (&BLOSC1[..], 0x01, BloscCodec::BloscLz),
        (&BLOSC1, 0x21, BloscCodec::Lz4),
        (&BLOSC1, 0x41, BloscCodec::Snappy),
        (&BLOSC1, 0x61, BloscCodec::Zlib),
        (&BLOSC1, 0x81, BloscCodec::Zstd),
        (&BLOSC2, 0x15, BloscCodec::BloscLz),
        (&BLOSC2, 0xd5, BloscCodec::Lz4), // byte 22
    ] {
        assert_eq!(ChunkHeader::parse(&replaced(base, 2, &[flags])).unwrap().codec(), codec);
    }
    for (number, codec) in [(0, BloscCodec::BloscLz), (2, BloscCodec::Lz4), (4, BloscCodec::Zlib), (5, BloscCodec::Zstd), (3, BloscCodec::Reserved(3)), (38, BloscCodec::Other(38))] {
        assert_eq!(BloscCodec::from_number(number), codec);
    }
}

#[test]
#[rustfmt::skip]
fn filters_of_16_byte_headers() {
    for (flags, slots) in [
        (0x80, [Filter::None, Filter::None]),
        (0x81, [Filter::None, Filter::Shuffle]),
        (0x84, [Filter::None, Filter::Bitshuffle]),
        (0x88, [Filter::Delta, Filter::None]),
        (0x89, [Filter::Delta, Filter::Shuffle]),
    ] {
        let header = ChunkHeader::parse(&replaced(&BLOSC1, 2, &[flags])).unwrap();
        assert_eq!([4, 5].map(|slot: usize| header.filters()[slot].filter), slots);
        assert_eq!(header.needs_first_block(), slots[0] == Filter::Delta);
    }
}

#[test]
fn filters_of_32_byte_headers() {
    let ids = [1, 2, 3, 4, 35, 36];
    let mut chunk = replaced(&BLOSC2, 16, &ids);
    chunk[24..30].copy_from_slice(&[9, 8, 7, 6, 5, 4]);
    let slots = ChunkHeader::parse(&chunk).unwrap().filters();
    let expected = [
        Filter::Shuffle,
        Filter::Bitshuffle,
        Filter::Delta,
        Filter::TruncatePrecision,
        Filter::ByteDelta,
        Filter::TruncateIntegers,
    ];
    assert_eq!(slots.map(|slot| slot.filter), expected);
    assert_eq!(slots.map(|slot| slot.meta), [9, 8, 7, 6, 5, 4]);

    chunk[0] = 3; // the last slot was unused
    let slots = ChunkHeader::parse(&chunk).unwrap().filters();
    assert_eq!(slots[4].filter, Filter::ByteDelta);
    assert_eq!(slots[5], FilterSlot::default());
}

#[test]
fn blosc_1_splits_by_size_too() {
    // (typesize, blocksize) and whether a block is split when bit 4 is clear.
    for (typesize, blocksize, split) in
        [(4_u8, 512_u16, true), (4, 508, false), (16, 2048, true), (17, 2176, false)]
    {
        let size = blocksize.to_le_bytes();
        let mut chunk = replaced(&BLOSC1, 3, &[typesize, 0, 0x20, 0, 0, size[0], size[1], 0, 0]);
        let streams = if split { u32::from(typesize) } else { 1 };
        assert_eq!(ChunkHeader::parse(&chunk).unwrap().streams(0), streams);
        chunk[2] |= 0x10;
        assert_eq!(ChunkHeader::parse(&chunk).unwrap().streams(0), 1);
        // The same sizes in Blosc2 are split.
        let mut chunk =
            replaced(&BLOSC2, 2, &[0x25, typesize, 0, 0x20, 0, 0, size[0], size[1], 0, 0]);
        chunk[13] = 4; // space for the table
        assert_eq!(ChunkHeader::parse(&chunk).unwrap().streams(0), u32::from(typesize));
    }
}

#[test]
#[rustfmt::skip]
fn bodies() {
    for (flags, cbytes, blosc2_flags, body) in [
        (0x35, 96, 0x00, Body::Blocks),
        (0x37, 96, 0x00, Body::Raw),
        (0x37, 32, 0x10, Body::Special(Special::Zeros)), // takes precedence over raw
        (0x35, 32, 0x20, Body::Special(Special::Nan)),
        (0x35, 36, 0x30, Body::Special(Special::Value(4))),
        (0x35, 96, 0x30, Body::Special(Special::Value(64))),
        (0x35, 32, 0x40, Body::Special(Special::Unwritten)),
    ] {
        let mut chunk = replaced(&BLOSC2, 2, &[flags]);
        (chunk[12], chunk[31]) = (cbytes, blosc2_flags);
        let header = ChunkHeader::parse_strict(&chunk).unwrap();
        assert_eq!(header.body(), body);
        assert_eq!(header.table().is_empty(), body != Body::Blocks);
    }
}

#[test]
fn a_codec_or_filter_that_is_not_used_is_not_checked() {
    let mut raw = replaced(&BLOSC2, 2, &[0x57]); // codec 2
    raw[16] = 200;
    let header = ChunkHeader::parse(&raw).unwrap();
    assert_eq!(
        (header.codec(), header.filters()[0].filter),
        (BloscCodec::Reserved(2), Filter::Unknown(200))
    );
    assert!(!header.needs_first_block());
}

#[test]
fn blocks_of_varying_length() {
    let mut chunk = replaced(&BLOSC2, 0, &[6]);
    (chunk[8], chunk[30]) = (5, 1);
    let header = ChunkHeader::parse_strict(&chunk).unwrap();
    assert!(header.has_varying_blocks());
    assert_eq!((header.block_count(), header.table(), header.blocksize()), (5, 32..52, 0));
    assert_eq!((header.block_len(0), header.streams(0)), (None, 1));
}

#[test]
#[rustfmt::skip]
fn each_check_has_its_message() {
    for (base, patches, message) in [
        (&BLOSC2[..0], &[][..], "Truncated in blosc chunk, version at byte 0: expected 4 bytes, found 0"),
        (&BLOSC2[..6], &[], "Truncated in blosc chunk, nbytes at byte 4: expected 4 bytes, found 2"),
        (&BLOSC2[..31], &[], "Truncated in blosc chunk, flags 2 at byte 30: expected 2 bytes, found 1"),
        (&BLOSC2, &[(0, 1)], "UnsupportedVersion in blosc chunk, version at byte 0: expected 2 to 6, found 1"),
        (&BLOSC2, &[(0, 7)], "UnsupportedVersion in blosc chunk, version at byte 0: expected 2 to 6, found 7"),
        (&BLOSC2, &[(0, 2)], "UnsupportedFlags in blosc chunk, flags at byte 2: expected shuffle and bitshuffle together just before 32-byte headers, found 53"),
        (&BLOSC2, &[(30, 1)], "UnsupportedFlags in blosc chunk, flags 2 at byte 30: expected at most 0, found 1"),
        (&BLOSC2, &[(0, 6), (30, 3)], "UnsupportedFlags in blosc chunk, flags 2 at byte 30: expected at most 1, found 3"),
        (&BLOSC2, &[(0, 6), (30, 1), (31, 0x10)], "UnsupportedFlags in blosc chunk, flags 2 at byte 30: expected blocks, where they have lengths of their own, found 1"),
        (&BLOSC2, &[(31, 0x08)], "UnsupportedFlags in blosc chunk, blosc2 flags at byte 31: expected neither lazy nor instrumented, found 8"),
        (&BLOSC2, &[(31, 0x80)], "UnsupportedFlags in blosc chunk, blosc2 flags at byte 31: expected neither lazy nor instrumented, found 128"),
        (&BLOSC2, &[(3, 0)], "BadShape in blosc chunk, typesize at byte 3: expected at least 1, found 0"),
        (&BLOSC2, &[(7, 0x80)], "Negative in blosc chunk, nbytes at byte 4: expected at least 0, found -2147483584"),
        (&BLOSC2, &[(8, 0)], "BadShape in blosc chunk, blocksize at byte 8: expected at least 1, found 0"),
        (&BLOSC2, &[(11, 0x80)], "Negative in blosc chunk, blocksize at byte 8: expected at least 1, found -2147483632"),
        (&BLOSC2, &[(12, 31)], "OutOfBounds in blosc chunk, cbytes at byte 12: expected at least 32, found 31"),
        (&BLOSC2, &[(15, 0x80)], "Negative in blosc chunk, cbytes at byte 12: expected at least 32, found -2147483552"),
        (&BLOSC1, &[(12, 15), (13, 0)], "OutOfBounds in blosc chunk, cbytes at byte 12: expected at least 16, found 15"),
        (&BLOSC2, &[(31, 0x50)], "BadTag in blosc chunk, special value at byte 31: expected 0 to 4, found 5"),
        (&BLOSC2, &[(3, 2), (31, 0x20)], "BadTag in blosc chunk, typesize at byte 3: expected 4 or 8, as NaN is a float, found 2"),
        (&BLOSC2, &[(12, 32), (31, 0x30)], "OutOfBounds in blosc chunk, cbytes at byte 12: expected at least 33, found 32"),
        (&BLOSC2, &[(12, 35), (31, 0x30)], "Misaligned in blosc chunk, nbytes at byte 4: expected a multiple of 3, found 64"),
        (&BLOSC2, &[(2, 0x37), (12, 95)], "CountMismatch in blosc chunk, cbytes at byte 12: expected 96, found 95"),
        (&BLOSC2, &[(12, 47)], "OutOfBounds in blosc chunk, cbytes at byte 12: expected at least 48, found 47"),
        (&BLOSC2, &[(12, 51), (31, 1)], "OutOfBounds in blosc chunk, cbytes at byte 12: expected at least 52, found 51"),
        (&BLOSC2, &[(2, 0x55)], "BadTag in blosc chunk, codec at byte 2: expected a codec in use, found 2"),
        (&BLOSC2, &[(2, 0xf5)], "BadTag in blosc chunk, codec at byte 2: expected a codec in use, found 7"),
        (&BLOSC2, &[(2, 0xd5), (22, 3)], "BadTag in blosc chunk, codec at byte 2: expected a codec in use, found 3"),
        (&BLOSC2, &[(18, 200)], "BadTag in blosc chunk, filter at byte 18: expected a filter in use, found 200"),
        (&BLOSC2, &[(16, 34)], "BadTag in blosc chunk, filter at byte 16: expected a filter in use, found 34"),
        (&BLOSC2, &[(2, 0x25), (3, 3)], "Misaligned in blosc chunk, blocksize at byte 8: expected a multiple of 3, found 16"),
    ] {
        let mut chunk = base.to_vec();
        for (at, byte) in patches {
            chunk[*at as usize] = *byte;
        }
        assert_eq!(ChunkHeader::parse(&chunk).unwrap_err().to_string(), message);
    }
    let mut fields = *ChunkHeader::parse(&BLOSC2).unwrap().fields();
    fields.extended = None;
    assert_eq!(ChunkHeader::new(fields).unwrap_err().class, Class::UnsupportedFlags);
}

#[test]
#[rustfmt::skip]
fn each_lint_has_its_message() {
    for (patches, message) in [
        (&[(1, 2)][..], "NonCanonical in blosc chunk, codec version at byte 1: expected 1, found 2"),
        (&[(8, 65)], "NonCanonical in blosc chunk, blocksize at byte 8: expected at most 64, found 65"),
        (&[(31, 0x10)], "NonCanonical in blosc chunk, cbytes at byte 12: expected 32, found 96"),
        (&[(31, 0x02)], "NonCanonical in blosc chunk, reserved flags at byte 31: expected 0, found 2"),
    ] {
        let mut chunk = BLOSC2;
        for (at, byte) in patches {
            chunk[*at as usize] = *byte;
        }
        assert!(ChunkHeader::parse(&chunk).is_ok());
        assert_eq!(ChunkHeader::parse_strict(&chunk).unwrap_err().to_string(), message);
    }
}

#[test]
fn a_blocksize_above_nbytes_is_clipped() {
    let header = ChunkHeader::parse(&replaced(&BLOSC2, 8, &[65])).unwrap();
    assert_eq!((header.blocksize(), header.block_count()), (64, 1));
    let empty = replaced(&BLOSC1, 4, &[0, 0, 0, 0, 1, 0]);
    let header = ChunkHeader::parse_strict(&empty).unwrap();
    assert_eq!((header.nbytes(), header.block_count(), header.block_len(0)), (0, 0, None));
}

proptest! {
    /// Accepted headers keep their invariants, and are written unchanged.
    #[test]
    fn any_header(mut chunk: [u8; 32], version in 2_u8..7, small: bool, at in 16_usize..32, byte: u8) {
        chunk[0] = version;
        if small {
            // Nearly valid: possible sizes, and one odd byte after them.
            chunk[4..16].copy_from_slice(&BLOSC2[4..16]);
            chunk[16..].fill(0);
            chunk[at] = byte;
        }
        if let Ok(header) = ChunkHeader::parse(&chunk) {
            let len = header.header_len() as usize;
            prop_assert_eq!(header.encode(), &chunk[..len]);
            prop_assert_eq!(ChunkHeader::parse(&chunk[..len]), Ok(header));
            prop_assert!(header.table().end <= u64::from(header.cbytes()));
            if !header.has_varying_blocks() && header.block_count() < 1000 {
                let blocks = (0..header.block_count()).map(|j| header.block_len(j).unwrap());
                prop_assert_eq!(blocks.sum::<u32>(), header.nbytes());
            }
        }
    }
}
