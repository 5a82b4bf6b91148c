//! Blocks, ranges and whole chunks: decoded results, and refusals.

use super::*;
use crate::chunk::Chunk;

const CAP: u64 = 1 << 16;

/// Returns a Blosc2 chunk of one block of 8 bytes, LZ4, with these stored bytes.
fn chunk(block: &[u8]) -> Vec<u8> {
    let cbytes = u8::try_from(36 + block.len()).unwrap();
    let mut chunk = vec![5, 1, 0x35, 1, 8, 0, 0, 0, 8, 0, 0, 0, cbytes, 0, 0, 0];
    chunk.extend([0; 6]);
    chunk.extend([1, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    chunk.extend([36, 0, 0, 0]);
    chunk.extend(block);
    chunk
}

#[test]
#[rustfmt::skip]
fn streams() {
    for (block, decoded) in [
        (&b"\x08\0\0\0as it is"[..], b"as it is"),
        (b"\0\0\0\0", &[0; 8]),
        (b"\x9f\xff\xff\xff\x01", b"aaaaaaaa"),
        (b"\x09\0\0\0\x80lz4 here", b"lz4 here"),
        (b"\x08\0\0\0as it is and more", b"as it is"), // the next block need not follow at once
    ] {
        assert_eq!(Chunk::parse(&chunk(block)).unwrap().decode_all(8).unwrap(), decoded);
    }
}

#[test]
#[rustfmt::skip]
fn each_check_of_a_stream_has_its_message() {
    for (block, message) in [
        (&b"\x08\0\0"[..], "Truncated in block 0 of blosc chunk, stream length at byte 36: expected 4 bytes, found 3"),
        (b"\x08\0\0\0too few", "Truncated in block 0 of blosc chunk, stream at byte 40: expected 8 bytes, found 7"),
        (b"\xff\xff\xff\xff", "Truncated in block 0 of blosc chunk, token at byte 40: expected 1 bytes, found 0"),
        (b"\xff\xff\xff\xff\x02", "BadTag in block 0 of blosc chunk, token at byte 40: expected bit 0 set, found 2"),
        (b"\0\xff\xff\xff\x01", "OutOfBounds in block 0 of blosc chunk, stream length at byte 36: expected at least -255, found -256"),
        (b"\x02\0\0\0\xf0\xff", "Codec in block 0 of blosc chunk, stream at byte 40: expected data of the codec, found damaged data"),
        (b"\x05\0\0\0\x40abcd", "CountMismatch in block 0 of blosc chunk, decoded bytes at byte 40: expected 8, found 4"),
    ] {
        let bytes = chunk(block);
        let error = Chunk::parse(&bytes).unwrap().decode_all(CAP).unwrap_err();
        assert_eq!(error.to_string(), message);
        assert_eq!((error.block(), error.offset().is_some()), (Some(0), true));
    }
}

#[test]
fn blosc_1_knows_no_runs() {
    for n in [&b"\0\0\0\0"[..], b"\xff\xff\xff\xff\x01"] {
        let mut bytes = vec![2, 1, 0x30, 1, 8, 0, 0, 0, 8, 0, 0, 0, 20 + n.len() as u8, 0, 0, 0];
        bytes.extend([20, 0, 0, 0]);
        bytes.extend(n);
        let error = Chunk::parse(&bytes).unwrap().decode_all(CAP).unwrap_err();
        let found = i32::from_le_bytes(n[..4].try_into().unwrap());
        let message = "OutOfBounds in block 0 of blosc chunk, stream length at byte 20";
        assert_eq!(error.to_string(), format!("{message}: expected at least 1, found {found}"));
    }
}

#[test]
fn two_streams_of_a_split_block() {
    let mut bytes = chunk(b"\x04\0\0\0aceg\x04\0\0\0bdfh");
    (bytes[2], bytes[3], bytes[16]) = (0x25, 2, 1);
    assert_eq!(Chunk::parse(&bytes).unwrap().decode_all(CAP).unwrap(), b"abcdefgh");
}

#[test]
fn filters_are_undone_from_the_last_slot() {
    // Shuffled, then delta; undone the other way round, delta first.
    let mut bytes = chunk(b"\x08\0\0\0\x01\x01\x01\x01\x01\x01\x01\x01");
    (bytes[3], bytes[16], bytes[17]) = (2, 1, 3);
    // Delta of two bytes: 1 1, 0 0, 1 1, 0 0; then the lanes 1 1 0 0 and 1 1 0 0 are joined.
    let decoded = Chunk::parse(&bytes).unwrap().decode_all(CAP).unwrap();
    assert_eq!(decoded, [1, 1, 1, 1, 0, 0, 0, 0]);
    bytes[16..18].reverse();
    // Joined first: all 1, then delta.
    let decoded = Chunk::parse(&bytes).unwrap().decode_all(CAP).unwrap();
    assert_eq!(decoded, [1, 1, 0, 0, 1, 1, 0, 0]);
}

#[test]
fn byte_delta_wants_the_size_of_an_item() {
    let mut bytes = chunk(b"\x08\0\0\0\x01\x01\x01\x01\x01\x01\x01\x01");
    bytes[16] = 35;
    let parsed = Chunk::parse(&bytes).unwrap();
    for (item_size, decoded) in [
        (0, [1, 2, 3, 4, 5, 6, 7, 8]), // not known: that of the chunk
        (1, [1, 2, 3, 4, 5, 6, 7, 8]),
        (2, [1, 2, 3, 4, 1, 2, 3, 4]),
        (8, [1; 8]),
    ] {
        let mut decoder = Decoder::new(CAP).with_item_size(item_size);
        assert_eq!(decoder.decode_all(parsed.layout(), &parsed.stored_parts()).unwrap(), decoded);
    }
    bytes[24] = 4; // the chunk says so itself
    let parsed = Chunk::parse(&bytes).unwrap();
    let mut decoder = Decoder::new(CAP).with_item_size(8);
    let decoded = decoder.decode_all(parsed.layout(), &parsed.stored_parts()).unwrap();
    assert_eq!(decoded, [1, 2, 1, 2, 1, 2, 1, 2]);
}

#[test]
fn bitshuffle_of_blosc_1_skips_ragged_blocks() {
    // Twelve items of one byte: Blosc2 turns the first eight, Blosc 1 none.
    let block = b"\x0c\0\0\0\x55\x66\x78\x80\0\0\0\0tail";
    let mut blosc2 = chunk(block);
    (blosc2[4], blosc2[8], blosc2[16]) = (12, 12, 2);
    let decoded = Chunk::parse(&blosc2).unwrap().decode_all(CAP).unwrap();
    assert_eq!(decoded, b"\x01\x02\x03\x04\x05\x06\x07\x08tail");
    let mut blosc1 = vec![2, 1, 0x34, 1, 12, 0, 0, 0, 12, 0, 0, 0, 36, 0, 0, 0, 20, 0, 0, 0];
    blosc1.extend(block);
    assert_eq!(Chunk::parse(&blosc1).unwrap().decode_all(CAP).unwrap(), &block[4..]);
}

#[test]
#[rustfmt::skip]
fn each_check_of_a_request_has_its_message() {
    let bytes = chunk(b"\x08\0\0\0as it is");
    let parsed = Chunk::parse(&bytes).unwrap();
    let (layout, stored) = (parsed.layout(), parsed.stored_parts());
    let mut decoder = Decoder::new(CAP);
    let (start, stop) = (5, 4);
    let mut dictionary = chunk(b"\x04\0\0\0dict\0\0\0\0");
    (dictionary[31], dictionary[32]) = (1, 44);
    let with_dictionary = Layout::parse(&dictionary).unwrap();
    for (found, message) in [
        (decoder.decode_range(layout, &stored, 0..9).map(|_| ()), "InvalidArgument in request for a blosc chunk, end of range: expected at most 8, found 9"),
        (decoder.decode_range(layout, &stored, start..stop).map(|_| ()), "InvalidArgument in request for a blosc chunk, start of range: expected at most 4, found 5"),
        (Decoder::new(3).decode_range(layout, &stored, 0..4).map(|_| ()), "LimitExceeded in request for a blosc chunk, decoded bytes: expected at most 3, found 4"),
        (Decoder::new(7).decode_range(layout, &stored, 0..4).map(|_| ()), "LimitExceeded in request for a blosc chunk, block bytes: expected at most 7, found 8"),
        (decoder.decode_into(layout, &stored, 0..4, &mut [0; 5]), "InvalidArgument in request for a blosc chunk, length of output: expected 4, found 5"),
        (decoder.decode_into(layout, &StoredParts::new(vec![(0, &bytes[..40])]), 0..4, &mut [0; 4]), "InvalidArgument in request for a blosc chunk, stored bytes: expected 12 bytes, found a span that was not given"),
    ] {
        assert_eq!(found.unwrap_err().to_string(), message);
    }
    assert_eq!(
        Chunk::parse(&bytes[..47]).unwrap_err().to_string(),
        "Truncated in blosc chunk, chunk at byte 0: expected 48 bytes, found 47"
    );
    let mut varying = bytes;
    (varying[0], varying[8], varying[30]) = (6, 1, 1);
    assert_eq!(
        Chunk::parse(&varying).unwrap_err().to_string(),
        "Unsupported in blosc chunk: blocks of varying length"
    );
    assert_eq!(decoder.decode_range(&with_dictionary, &StoredParts::new(vec![(0, &dictionary)]), 0..8).unwrap(), [0; 8]);
}

#[test]
fn nothing_asked_for_takes_nothing() {
    let bytes = chunk(b"\x08\0\0\0as it is");
    let layout = Layout::parse(&bytes[..36]).unwrap();
    let nothing = StoredParts::new(vec![]);
    assert!(nothing.is_empty());
    assert!(layout.spans_needed(4..4).is_empty() && layout.spans_needed(8..9).is_empty());
    let mut raw = chunk(b"as it is");
    (raw[2], raw[12]) = (0x37, 40);
    raw.drain(32..36);
    assert!(Chunk::parse(&raw).unwrap().layout().spans_needed(4..4).is_empty());
    assert_eq!(Decoder::new(0).decode_range(&layout, &nothing, 4..4), Ok(vec![]));
}
