//! Hand-written chunks, every refusal, and round trips of all settings.

use proptest::prelude::*;
use zvf_b2nd::Body;

use super::super::tests::ALL;
use super::*;
use crate::Chunk;

fn encode(plain: &[u8], settings: &Blosc2Settings) -> Vec<u8> {
    Encoder::default().encode_blosc2(plain, settings).unwrap()
}

fn filters(list: &[(Filter, u8)]) -> [FilterSlot; FILTER_SLOTS] {
    let mut slots = [FilterSlot::default(); FILTER_SLOTS];
    for (slot, (filter, meta)) in slots.iter_mut().zip(list) {
        *slot = FilterSlot { filter: *filter, meta: *meta };
    }
    slots
}

/// Returns LZ4 over blocks of 16 bytes without filters.
fn plain_settings() -> Blosc2Settings {
    Blosc2Settings {
        compressor: Compressor::Lz4,
        filters: filters(&[]),
        typesize: 4,
        block_size: 16,
        ..Blosc2Settings::default()
    }
}

const HEAD: &[u8] = b"\x01\0\0\0\0\0\x01\0\0\0\0\0\0\0\0\0";

#[test]
fn blocks_typed_by_hand() {
    // Items 3 4 8 9 / 0 / 13 14 18 19 / 0, as in the specification, and another block of zeros.
    let settings = Blosc2Settings { filters: filters(&[(Filter::Shuffle, 0)]), ..plain_settings() };
    let items = [3, 4, 8, 9, 0, 0, 0, 0, 13, 14, 18, 19, 0, 0, 0, 0, 0, 0, 0, 0_u32];
    let plain: Vec<u8> = items.iter().flat_map(|item| item.to_le_bytes()).collect();
    let expected = [
        &b"\x05\x01\x35\x04\x50\0\0\0\x10\0\0\0\x68\0\0\0"[..],
        HEAD,
        b"\x34\0\0\0\x48\0\0\0\x4c\0\0\0\x60\0\0\0\x64\0\0\0",
        b"\x10\0\0\0\x03\x04\x08\x09\0\0\0\0\0\0\0\0\0\0\0\0",
        b"\0\0\0\0",
        b"\x10\0\0\0\x0d\x0e\x12\x13\0\0\0\0\0\0\0\0\0\0\0\0",
        b"\0\0\0\0\0\0\0\0",
    ];
    let chunk = encode(&plain, &settings);
    assert_eq!(chunk, expected.concat());
    assert_eq!(Chunk::parse(&chunk).unwrap().decode_all(80).unwrap(), plain);
    // With the last block left out nothing is gained, and the filter is listed without effect.
    let raw = encode(&plain[..64], &settings);
    assert_eq!(raw[..16], *b"\x05\x01\x27\x04\x40\0\0\0\x10\0\0\0\x60\0\0\0");
    assert_eq!((&raw[16..32], &raw[32..]), (HEAD, &plain[..64]));
}

#[test]
fn runs_and_raw_copies() {
    // Block 0 is noise, block 1 all fives, block 2 is short and all zero.
    let noise = *b"abcdefghijklmnop";
    let plain = [&noise[..], &[5; 16], &[0; 8]].concat();
    // 44 of header and table, 20, 5 and 4: no gain over 72.
    let chunk = encode(&plain, &plain_settings());
    assert_eq!(chunk[..16], *b"\x05\x01\x27\x04\x28\0\0\0\x10\0\0\0\x48\0\0\0");
    assert_eq!(chunk[32..], plain);

    let longer = [&plain[..], &[0; 24]].concat();
    let expected = [
        &b"\x05\x01\x35\x04\x40\0\0\0\x10\0\0\0\x51\0\0\0"[..],
        b"\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\0\0",
        b"\x30\0\0\0\x44\0\0\0\x49\0\0\0\x4d\0\0\0",
        b"\x10\0\0\0",
        &noise,
        b"\xfb\xff\xff\xff\x01",
        b"\0\0\0\0\0\0\0\0",
    ];
    assert_eq!(encode(&longer, &plain_settings()), expected.concat());
}

#[test]
fn constants_typed_by_hand() {
    let settings = Blosc2Settings { typesize: 8, block_size: 64, ..plain_settings() };
    let value = 3.25_f64.to_le_bytes();
    let full = encode(&value.repeat(64), &settings);
    assert_eq!(full[..16], *b"\x05\x01\x25\x08\0\x02\0\0\x40\0\0\0\x28\0\0\0");
    assert_eq!((full[31], &full[32..]), (0x30, &value[..]));
    let zeros = encode(&[0; 512], &settings);
    assert_eq!((zeros.len(), zeros[31]), (32, 0x10));
    let nan = constant_chunk(Special::Nan, &[], 512, &settings).unwrap();
    assert_eq!((nan.len(), nan[31]), (32, 0x20));
    assert_eq!(
        Chunk::parse(&nan).unwrap().decode_range(0..8, 8).unwrap(),
        0x7ff8_0000_0000_0000_u64.to_le_bytes()
    );
    let unwritten = constant_chunk(Special::Unwritten, &[], 512, &settings).unwrap();
    assert_eq!((unwritten.len(), unwritten[31]), (32, 0x40));
    let error = constant_chunk(Special::Value(3), b"abc", 512, &settings).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Misaligned in blosc chunk, nbytes at byte 4: expected a multiple of 3, found 512"
    );
    // One item is no repetition; an empty chunk is a raw copy of nothing.
    assert_eq!(encode(&value, &settings)[31], 0);
    assert_eq!(encode(&[], &settings).len(), 32);
}

#[test]
fn a_split_block_is_a_stream_for_each_byte() {
    let items: Vec<u8> = (0..64_u32).flat_map(|i| (0x0102_0300 + i).to_le_bytes()).collect();
    let settings = Blosc2Settings {
        filters: filters(&[(Filter::Shuffle, 0)]),
        block_size: 256,
        split: true,
        ..plain_settings()
    };
    let chunk = encode(&items, &settings);
    assert_eq!(chunk[2], 0x25, "split");
    let lowest: Vec<u8> = (0..64).collect();
    let streams = [
        &64_i32.to_le_bytes()[..],
        &lowest,
        b"\xfd\xff\xff\xff\x01\xfe\xff\xff\xff\x01\xff\xff\xff\xff\x01",
    ];
    assert_eq!(chunk[36..], streams.concat());
    assert_eq!(Chunk::parse(&chunk).unwrap().decode_all(256).unwrap(), items);
    // Streams of fewer than 32 bytes are not written.
    let small = Blosc2Settings { block_size: 124, ..settings };
    assert_eq!(encode(&items, &small)[2] & ONE_STREAM, ONE_STREAM);
}

#[test]
fn cut_precision_is_what_is_read() {
    let floats: Vec<u8> = (0..300).flat_map(|i| (i as f32 * 0.3).to_le_bytes()).collect();
    let cut = Filter::TruncatePrecision;
    let settings = Blosc2Settings {
        filters: filters(&[(cut, 8), (Filter::Delta, 0), (Filter::Shuffle, 0)]),
        block_size: 256,
        ..plain_settings()
    };
    let mut expected = floats.clone();
    assert!(filter::cut_precision(4, 8, &mut expected));
    assert_ne!(expected, floats);
    for level in [0, 5] {
        let chunk = encode(&floats, &Blosc2Settings { level, ..settings });
        assert_eq!(Chunk::parse(&chunk).unwrap().decode_all(1 << 20).unwrap(), expected);
    }
}

#[test]
fn byte_delta_says_its_lanes() {
    let settings = Blosc2Settings {
        filters: filters(&[(Filter::ByteDelta, 0), (Filter::ByteDelta, 3)]),
        typesize: 1,
        block_size: 300,
        ..plain_settings()
    };
    let plain: Vec<u8> = (0..3000_u32).map(|i| (i / 300 + i % 7) as u8).collect();
    let chunk = encode(&plain, &settings);
    assert_eq!(chunk[16..18], [35, 35]);
    assert_eq!(chunk[24..26], [1, 3]);
    // Also for a reader that knows a larger item size.
    let parsed = Chunk::parse(&chunk).unwrap();
    let mut decoder = crate::Decoder::new(3000).with_item_size(300);
    assert_eq!(decoder.decode_all(parsed.layout(), &parsed.stored_parts()).unwrap(), plain);
}

#[test]
fn every_refusal_has_its_words() {
    let plain = plain_settings();
    let cut = Filter::TruncatePrecision;
    let what = "InvalidArgument in request for a blosc chunk,";
    for (settings, message) in [
        (Blosc2Settings { level: 10, ..plain }, "level: expected at most 9, found 10"),
        (Blosc2Settings { typesize: 0, ..plain }, "typesize: expected at least 1, found 0"),
        (Blosc2Settings { block_size: 0, ..plain }, "block size: expected at least 1, found 0"),
        (
            Blosc2Settings { filters: filters(&[(Filter::Delta, 0), (cut, 9)]), ..plain },
            "precision: expected cut by the first filter, once, found another place",
        ),
        (
            Blosc2Settings { filters: filters(&[(cut, 24)]), ..plain },
            "precision: expected 1 bit or more of the mantissa of floats of 4 or 8 bytes, found others",
        ),
    ] {
        let error = Encoder::default().encode_blosc2(b"abcd", &settings).unwrap_err();
        assert_eq!(error.to_string(), format!("{what} {message}"));
    }
    for filter in [Filter::TruncateIntegers, Filter::Unknown(32)] {
        let settings = Blosc2Settings { filters: filters(&[(filter, 0)]), ..plain };
        let error = Encoder::default().encode_blosc2(b"abcd", &settings).unwrap_err();
        assert_eq!(error.to_string(), "Unsupported in blosc chunk: writing this filter");
    }
}

/// Returns bytes that are partly equal, partly small numbers, partly noise.
fn mixed() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        (1_usize..600, any::<u8>()).prop_map(|(n, byte)| vec![byte; n]),
        (1_usize..300, any::<u16>())
            .prop_map(|(n, from)| (0..n).flat_map(|i| (from as usize + i).to_le_bytes()).collect()),
        prop::collection::vec(any::<u8>(), 1..300),
    ];
    prop::collection::vec(piece, 0..6).prop_map(|pieces| pieces.concat())
}

fn any_filters() -> impl Strategy<Value = [FilterSlot; FILTER_SLOTS]> {
    let filter = prop::sample::select(vec![
        Filter::None,
        Filter::Shuffle,
        Filter::Bitshuffle,
        Filter::Delta,
        Filter::ByteDelta,
    ]);
    prop::collection::vec((filter, 0_u8..9), 0..7).prop_map(|list| {
        let takes_meta = |filter| matches!(filter, Filter::Shuffle | Filter::ByteDelta);
        let list: Vec<_> =
            list.into_iter().map(|(f, meta)| (f, if takes_meta(f) { meta } else { 0 })).collect();
        filters(&list)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn every_chunk_is_decoded(
        plain in mixed(),
        compressor in prop::sample::select(ALL.to_vec()),
        filters in any_filters(),
        level in 0_u8..8,
        typesize in 1_u8..20,
        block_size in 1_u32..1500,
        split: bool,
        start: prop::sample::Index,
    ) {
        let settings = Blosc2Settings { compressor, level, filters, typesize, block_size, split };
        let bytes = encode(&plain, &settings);
        prop_assert!(bytes.len() <= plain.len() + HEADER);
        let chunk = Chunk::parse(&bytes).unwrap();
        prop_assert_eq!(chunk.header().cbytes() as usize, bytes.len());
        prop_assert!(chunk.header().lints().is_empty());
        prop_assert_eq!(chunk.decode_all(plain.len() as u64).unwrap(), plain.as_slice());
        if chunk.header().body() == Body::Blocks && !plain.is_empty() {
            let from = start.index(plain.len());
            let part = chunk.decode_range(from as u64..plain.len() as u64, 1 << 20).unwrap();
            prop_assert_eq!(&part[..], &plain[from..]);
        }
        prop_assert_eq!(encode(&plain, &settings), bytes);
    }
}
