//! Streams of every codec: whole, truncated and too long.

use super::*;

const TEXT: &[u8] = b"abcabcabcabcabcabcabcabcabcabcab"; // 32 bytes

/// Hand-written streams of the text, and its length.
#[rustfmt::skip]
const GOLDEN: [(BloscCodec, &[u8]); 3] = [
    (BloscCodec::BloscLz, b"\x02abc\xe0\x14\x02"),
    // 3 literals, then 4 + 15 + 5 from 3 before; 5 literals.
    (BloscCodec::Lz4, b"\x3fabc\x03\x00\x05\x50abcab"),
    // One stored block of 32 bytes, then the checksum.
    (BloscCodec::Zlib, b"\x78\x01\x01\x20\x00\xdf\xffabcabcabcabcabcabcabcabcabcabcab\xca\x2a\x0c\x40"),
];

fn decode(codec: BloscCodec, dictionary: &[u8], data: &[u8], len: usize) -> Option<Vec<u8>> {
    let mut codecs = CodecState::default();
    codecs.start(codec, dictionary).unwrap();
    // A state that saw damaged data must still work.
    assert_eq!(codecs.decode(b"\xff\xff\xff", &mut [0; 4]), None, "{codec:?}");
    let mut out = vec![0; len];
    let n = codecs.decode(data, &mut out)?;
    out.truncate(n);
    Some(out)
}

#[test]
fn golden() {
    for (codec, data) in GOLDEN {
        assert_eq!(decode(codec, &[], data, 32).as_deref(), Some(TEXT), "{codec:?}");
        assert_eq!(decode(codec, &[], data, 40).as_deref(), Some(TEXT), "{codec:?}");
        assert_eq!(decode(codec, &[], data, 31), None, "{codec:?} past the end");
        assert_eq!(decode(codec, &[], &data[..data.len() - 1], 32), None, "{codec:?} cut");
    }
}

#[test]
fn lz4_goes_on_from_a_dictionary() {
    // A match of 4 bytes from 4 before the start, then 5 literals.
    let data = b"\x00\x04\x00\x50 text";
    assert_eq!(decode(BloscCodec::Lz4, b"the same", data, 9).as_deref(), Some(&b"same text"[..]));
    assert_eq!(decode(BloscCodec::Lz4, b"ame", data, 9), None);
}

#[cfg(any(feature = "ruzstd", feature = "zstd"))]
#[test]
fn zstandard() {
    // Magic, a single segment of 32 bytes, one raw block that is the last.
    let mut data = b"\x28\xb5\x2f\xfd\x20\x20\x01\x01\x00".to_vec();
    data.extend(TEXT);
    assert_eq!(decode(BloscCodec::Zstd, &[], &data, 32).as_deref(), Some(TEXT));
    assert_eq!(decode(BloscCodec::Zstd, &[], &data, 31), None);
    assert_eq!(decode(BloscCodec::Zstd, &[], &data[..40], 32), None);
}

#[cfg(feature = "zstd")]
#[test]
fn zstandard_with_a_dictionary() {
    let dictionary = b"how to know the same text when it comes again";
    let text = b"the same text when it comes again: how to know";
    let mut compressor = zstd::bulk::Compressor::with_dictionary(9, dictionary).unwrap();
    let data = compressor.compress(text).unwrap();
    assert!(data.len() < text.len() - 10);
    assert_eq!(decode(BloscCodec::Zstd, dictionary, &data, text.len()).as_deref(), Some(&text[..]));

    // The dictionary of one chunk is not used for the next.
    let mut codecs = CodecState::default();
    codecs.start(BloscCodec::Zstd, dictionary).unwrap();
    codecs.start(BloscCodec::Zstd, &[]).unwrap();
    let mut out = vec![0; text.len()];
    assert_ne!(codecs.decode(&data, &mut out).map(|n| out[..n].to_vec()), Some(text.to_vec()));
}

#[test]
fn codecs_that_are_not_here() {
    for (codec, message) in [
        (BloscCodec::Snappy, "Unsupported in blosc chunk: the codec snappy"),
        (
            BloscCodec::Other(38),
            "Unsupported in blosc chunk: a codec that is not one of Blosc's own",
        ),
    ] {
        let error = CodecState::default().start(codec, &[]).unwrap_err();
        assert_eq!(error.to_string(), message);
        assert_eq!(error.class(), zvf_format::Class::Unsupported);
    }
}
