//! LZ4 and shuffle of Blosc beside a decoder in safe code and the definition: with the feature `fast-codecs` they are
//! C and vectors.
#![no_main]

use libfuzzer_sys::fuzz_target;
use zvf_blosc::{Chunk, Decoder};

fuzz_target!(|input: (u8, u16, &[u8])| {
    let (width, len, data) = input;
    let (width, len) = (usize::from(width % 20 + 1), usize::from(len));
    // As long as what is decoded it would be taken for the bytes as they are.
    if data.is_empty() || data.len() >= len {
        return;
    }
    let bytes = chunk(width as u8, len, data);
    let chunk = Chunk::parse(&bytes).expect("a header without faults");
    let range = 0..len as u64;
    let mut found = [0x00, 0xaa].map(|before| vec![before; len]);
    let ours = found.each_mut().map(|out| {
        Decoder::new(1 << 16)
            .decode_into(chunk.layout(), &chunk.stored_parts(), range.clone(), out)
            .is_ok()
    });
    assert_eq!(ours[0], ours[1], "decoded whatever was there before");
    assert!(!ours[0] || found[0] == found[1], "nothing of what was there before is left");

    let mut shuffled = vec![0; len];
    let theirs = lz4_flex::block::decompress_into(data, &mut shuffled);
    if theirs.is_ok_and(|n| n == len) {
        assert!(ours[0], "what safe code reads is read");
        assert_eq!(found[0], unshuffled(width, &shuffled));
    }
    if ours[0] {
        let mut decoder = Decoder::new(1 << 16);
        let opened = decoder
            .open_range(chunk.layout(), &chunk.stored_parts(), range)
            .expect("decoded before");
        let at = usize::from(data[0]).min(len);
        let mut part = vec![0; (len - at).min(usize::from(data[data.len() - 1]))];
        assert!(opened.copy(at, &mut part));
        assert_eq!(part, found[0][at..at + part.len()]);
    }
});

/// A chunk of Blosc 1 with one block of `len` bytes, shuffled, of which `data` is the LZ4 block.
fn chunk(width: u8, len: usize, data: &[u8]) -> Vec<u8> {
    let mut bytes = vec![2, 1, 0x31, width];
    for field in [len, len, data.len() + 24, 20, data.len()] {
        bytes.extend((field as u32).to_le_bytes());
    }
    bytes.extend(data);
    bytes
}

/// Byte `j` of item `i` is byte `i` of lane `j`; what is no whole item stays.
fn unshuffled(width: usize, lanes: &[u8]) -> Vec<u8> {
    let n = lanes.len() / width;
    let place = |at: usize| if at / width < n { at % width * n + at / width } else { at };
    (0..lanes.len()).map(|at| lanes[place(at)]).collect()
}
