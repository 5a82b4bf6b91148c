//! Chunk offsets: stored, special and wrong entries.

use std::string::ToString;
use std::vec::Vec;

use super::super::{
    BlockGeometry, Container, FrameFields, FrameHeader, FrameTrailer, Metalayer, Partition,
};
use super::*;

/// Parses `decoded` for a frame with `chunks` chunks of `item_size`-byte items and 100 bytes of
/// data.
fn parse(chunks: u64, item_size: u32, decoded: &[u8]) -> Result<Vec<ChunkPlace>, FormatError> {
    let geometry =
        BlockGeometry::new(Partition::new(&[chunks], &[1], &[1]).unwrap(), item_size).unwrap();
    let content = Metalayer::b2nd(*geometry, "?").unwrap().encode();
    let fields = FrameFields { frame_len: 400, ..FrameFields::array(&geometry, 100) };
    let header = FrameHeader::encode(&fields, &[("b2nd", &content)]).unwrap();
    let tail = &FrameTrailer::encode(&[]).unwrap()[12..];
    let frame = Frame::open(Container::File(400), &header, tail).unwrap();
    assert_eq!(frame.header().fields().header_len, 144);
    let offsets = ChunkOffsets::parse(&frame, decoded)?;
    Ok((0..chunks).map(|number| offsets.place(number).unwrap()).collect())
}

#[rustfmt::skip]
const GOLDEN: [(ChunkPlace, [u8; 8]); 5] = [
    (ChunkPlace::Frame(144 + 96), [96, 0, 0, 0, 0, 0, 0, 0]),
    (ChunkPlace::Frame(144), [0, 0, 0, 0, 0, 0, 0, 0]),
    (ChunkPlace::Zeros, [0, 0, 0, 0, 0, 0, 0, 0x81]),
    (ChunkPlace::Nan, [0, 0, 0, 0, 0, 0, 0, 0x82]),
    (ChunkPlace::Unwritten, [0, 0, 0, 0, 0, 0, 0, 0x84]),
];

#[test]
fn golden_bytes_both_ways() {
    let (places, entries) = (GOLDEN.map(|row| row.0), GOLDEN.map(|row| row.1).concat());
    assert_eq!(parse(5, 4, &entries).unwrap(), places);
    let header = b"\x05\x01\x07\x08\x28\0\0\0\x28\0\0\0\x48\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
    assert_eq!(encode_offsets(144, &places).unwrap(), [&header[..], &entries].concat());
    let file = encode_offsets(144, &[ChunkPlace::File(ChunkFile(258))]).unwrap();
    assert_eq!(file[32..], [2, 1, 0, 0, 0, 0, 0, 0]);
}

#[test]
#[rustfmt::skip]
fn each_check_has_its_message() {
    let zero = [0; 8];
    for (item_size, decoded, message) in [
        (4, zero.to_vec(), "Truncated in frame offsets, entries at byte 0: expected 16 bytes, found 8"),
        (4, [0; 24].to_vec(), "Trailing in frame offsets, bytes after the end at byte 16: expected 0, found 8"),
        (4, [zero, [100, 0, 0, 0, 0, 0, 0, 0]].concat(), "OutOfBounds in frame offsets, entry at byte 8: expected at most 99, found 100"),
        (4, [zero, [0, 0, 0, 0, 0, 0, 0, 0x80]].concat(), "BadTag in frame offsets, entry at byte 8: expected a position, or 81, 82 or 84 in the highest byte, found -9223372036854775808"),
        (4, [zero, [1, 0, 0, 0, 0, 0, 0, 0x81]].concat(), "BadTag in frame offsets, entry at byte 8: expected a position, or 81, 82 or 84 in the highest byte, found -9151314442816847871"),
        (2, [zero, [0, 0, 0, 0, 0, 0, 0, 0x82]].concat(), "BadTag in frame offsets, entry at byte 8: expected no NaN, as items are not of 4 or 8 bytes, found -9079256848778919936"),
    ] {
        assert_eq!(parse(2, item_size, &decoded).unwrap_err().to_string(), message);
    }
    assert_eq!(
        encode_offsets(144, &[ChunkPlace::Zeros, ChunkPlace::Frame(143)]).unwrap_err().to_string(),
        "OutOfBounds in frame offsets, entry at byte 40: expected 144 to 9223372036854775807, found 143"
    );
}
