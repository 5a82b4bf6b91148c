//! Whole frames: valid ones, refusals, and ranges.

use std::string::ToString;
use std::vec::Vec;

use super::super::fixed::FrameFields;
use super::super::offsets::{ChunkFile, ChunkOffsets, ChunkPlace, encode_offsets};
use super::super::partition::Partition;
use super::*;

/// An array of 7 four-byte items in chunks of 4 and blocks of 2, the first chunk stored in 48
/// bytes.
struct Parts {
    fields: FrameFields,
    name: &'static str,
    content: Vec<u8>,
    places: Vec<ChunkPlace>,
}

/// The length of these headers, and the ends of data and offsets chunk.
const HEADER: u64 = 146;
const DATA_END: u64 = HEADER + 48;
const OFFSETS_END: u64 = DATA_END + 48;

fn parts() -> Parts {
    let geometry = BlockGeometry::new(Partition::new(&[7], &[4], &[2]).unwrap(), 4).unwrap();
    Parts {
        fields: FrameFields { frame_len: OFFSETS_END + 35, ..FrameFields::array(&geometry, 48) },
        name: "b2nd",
        content: Metalayer::b2nd(*geometry, "<i4").unwrap().encode(),
        places: [ChunkPlace::Frame(HEADER), ChunkPlace::Zeros].to_vec(),
    }
}

impl Parts {
    fn bytes(&self) -> Vec<u8> {
        let header = FrameHeader::encode(&self.fields, &[(self.name, &self.content)]).unwrap();
        let offsets = encode_offsets(0, &[]).unwrap();
        assert_eq!((header.len() as u64, offsets.len()), (HEADER, 32));
        let offsets = encode_offsets(146, &self.places).unwrap();
        let chunk = b"\x05\x01\x07\x04\x10\0\0\0\x08\0\0\0\x30\0\0\0".as_slice();
        let trailer = FrameTrailer::encode(&[]).unwrap();
        [&header, chunk, &[0; 16], b"aaaabbbbccccdddd", &offsets, &trailer].concat()
    }

    fn open(&self) -> Result<(), FormatError> {
        let bytes = self.bytes();
        Frame::open_whole(Container::File(self.fields.frame_len), &bytes).map(|_| ())
    }
}

#[test]
fn the_ranges_to_fetch() {
    let bytes = parts().bytes();
    let container = Container::File(bytes.len() as u64);
    let frame = Frame::open_whole(container, &bytes).unwrap();
    assert_eq!(frame.offsets_head(), Some(DATA_END..DATA_END + 32));
    assert_eq!(frame.trailer_range(), OFFSETS_END..OFFSETS_END + 35);
    let head = ChunkHeader::parse(&bytes[DATA_END as usize..]).unwrap();
    assert_eq!(frame.offsets_range(&head), Ok(DATA_END..OFFSETS_END));
    assert_eq!(frame.offset_entry(&head, 1), Some(DATA_END + 40..DATA_END + 48));
    assert_eq!(frame.offset_entry(&head, 2), None);
    let places =
        ChunkOffsets::parse(&frame, &bytes[DATA_END as usize + 32..OFFSETS_END as usize]).unwrap();
    assert_eq!(places.place(0), Some(ChunkPlace::Frame(HEADER)));
    assert_eq!(frame.place([0; 8]), Ok(ChunkPlace::Frame(HEADER)));
    assert_eq!((places.place(2), places.len(), places.is_empty()), (None, 2, false));

    let chunk_room = frame.room(HEADER);
    assert_eq!((chunk_room, frame.chunk_front(chunk_room), frame.chunk_front(40)), (48, 44, 40));
    let chunk = ChunkHeader::parse(&bytes[HEADER as usize..]).unwrap();
    assert_eq!(frame.check_chunk(&chunk, chunk_room), Ok(()));
}

#[test]
fn a_compressed_offsets_chunk_has_no_entries_to_fetch() {
    let bytes = parts().bytes();
    let frame = Frame::open_whole(Container::File(bytes.len() as u64), &bytes).unwrap();
    let mut head = bytes[DATA_END as usize..DATA_END as usize + 32].to_vec();
    head[2] = 0x15;
    assert_eq!(frame.offset_entry(&ChunkHeader::parse(&head).unwrap(), 0), None);
}

#[test]
#[rustfmt::skip]
fn each_check_of_the_container_has_its_message() {
    let bytes = parts().bytes();
    let len = bytes.len() as u64;
    for (container, message) in [
        (Container::File(len - 1), "Truncated in frame header, frame_len at byte 15: expected 277 bytes, found 276"),
        (Container::File(len + 1), "Trailing in frame header, frame_len at byte 15: expected 278, found 277"),
        (Container::Embedded(len - 1), "Truncated in frame header, frame_len at byte 15: expected 277 bytes, found 276"),
        (Container::Directory(len), "BadTag in frame header, frame type at byte 26: expected a directory's frame, found one of one file"),
    ] {
        assert_eq!(Frame::open_whole(container, &bytes).unwrap_err().to_string(), message);
    }
    assert!(Frame::open_whole(Container::Embedded(len + 1), &bytes).is_ok());

    let sparse = FrameFields { kind: FrameKind::Sparse, ..parts().fields };
    let header = FrameHeader::encode(&sparse, &[("b2nd", &parts().content)]).unwrap();
    let fixed = FixedHeader::parse(&header).unwrap();
    assert_eq!(fixed.check_container(Container::Directory(len)), Ok(()));
    assert_eq!(
        fixed.check_container(Container::File(len)).unwrap_err().to_string(),
        "BadTag in frame header, frame type at byte 26: expected a frame of one file, found a directory's"
    );
}

#[test]
#[rustfmt::skip]
fn each_check_of_open_has_its_message() {
    let valid = parts();
    assert_eq!(valid.open(), Ok(()));
    for (broken, message) in [
        (Parts { fields: FrameFields { general_flags: 0x93, ..valid.fields }, ..parts() }, "UnsupportedFlags in frame header, general flags at byte 25: expected blocks of one length, as in every array, found 147"),
        (Parts { name: "b2ne", ..parts() }, "BadTag in frame header, metalayers at byte 87: expected one called b2nd or caterva, found 1"),
        (Parts { content: [b"\x98", &valid.content[1..]].concat(), ..parts() }, "BadTag in array metalayer, array header at byte 112: expected 151, found 152"),
        (Parts { fields: FrameFields { chunk_size: 18, ..valid.fields }, ..parts() }, "CountMismatch in block geometry, chunk size at byte 0: expected a multiple of 4, found 18"),
        (Parts { fields: FrameFields { uncompressed_size: 16, ..valid.fields }, ..parts() }, "CountMismatch in frame header, uncompressed_size at byte 29: expected 32, found 16"),
        (Parts { fields: FrameFields { uncompressed_size: 33, ..valid.fields }, ..parts() }, "CountMismatch in frame header, uncompressed_size at byte 29: expected 32, found 33"),
    ] {
        assert_eq!(broken.open().unwrap_err().to_string(), message);
    }
}

#[test]
#[rustfmt::skip]
fn each_check_of_the_tail_has_its_message() {
    let valid = parts().bytes();
    let len = valid.len();
    for (from_end, byte, message) in [
        (23, 0xcf, "BadTag in frame trailer, trailer length at byte 254: expected 206, found 207"),
        (19, 84, "OutOfBounds in frame trailer, trailer length at byte 254: expected at most 83, found 84"),
    ] {
        let mut bytes = valid.clone();
        bytes[len - from_end] = byte;
        let error = Frame::open_whole(Container::File(len as u64), &bytes).unwrap_err();
        assert_eq!(error.to_string(), message);
    }
    // A truncated frame whose container claims that it is complete.
    let error = Frame::open_whole(Container::File(len as u64), &valid[..len - 1]).unwrap_err();
    assert_eq!(error.to_string(), "Truncated in frame header, tail at byte 254: expected 23 bytes, found 22");
    let error = Frame::open_whole(Container::File(len as u64), &valid[..200]).unwrap_err();
    assert_eq!(error.to_string(), "Truncated in frame header, frame at byte 146: expected 108 bytes, found 54");
}

#[test]
#[rustfmt::skip]
fn each_check_of_chunks_has_its_message() {
    let bytes = parts().bytes();
    let frame = Frame::open_whole(Container::File(bytes.len() as u64), &bytes).unwrap();
    let offsets = &bytes[DATA_END as usize..DATA_END as usize + 32];
    let patched = |base: &[u8], patches: &[(usize, u8)]| {
        let mut chunk = base.to_vec();
        for (at, byte) in patches {
            chunk[*at] = *byte;
        }
        ChunkHeader::parse(&chunk).unwrap()
    };
    for (patches, message) in [
        (&[(4, 8), (12, 40)][..], "CountMismatch in frame offsets, nbytes at byte 198: expected 16, found 8"),
        (&[(2, 5), (12, 49)], "OutOfBounds in frame offsets, cbytes at byte 206: expected at most 48, found 49"),
    ] {
        assert_eq!(frame.offsets_range(&patched(offsets, patches)).unwrap_err().to_string(), message);
    }
    let chunk = &bytes[HEADER as usize..HEADER as usize + 32];
    for (patches, room, message) in [
        (&[(4, 8), (12, 40)][..], 48, "CountMismatch in blosc chunk, nbytes at byte 4: expected 16, found 8"),
        (&[(8, 16)], 48, "CountMismatch in blosc chunk, blocksize at byte 8: expected 8, found 16"),
        (&[], 47, "OutOfBounds in blosc chunk, cbytes at byte 12: expected at most 47, found 48"),
        (&[(0, 6), (2, 5), (8, 2), (30, 1)], 48, "UnsupportedFlags in blosc chunk, flags 2 at byte 30: expected blocks of one length, as in every array, found 2"),
    ] {
        assert_eq!(frame.check_chunk(&patched(chunk, patches), room).unwrap_err().to_string(), message);
    }
    // The block size of a special value is not checked.
    let special_chunk = patched(chunk, &[(8, 16), (12, 32), (31, 0x10)]);
    assert_eq!(frame.check_chunk(&special_chunk, 48), Ok(()));
}

#[test]
fn both_metalayers_are_b2nd() {
    let geometry = BlockGeometry::new(Partition::new(&[7], &[4], &[2]).unwrap(), 4).unwrap();
    let [b2nd, caterva] = [
        Metalayer::b2nd(*geometry, "<u4").unwrap().encode(),
        Metalayer::caterva(*geometry).encode(),
    ];
    let fields = FrameFields { frame_len: 400, ..FrameFields::array(&geometry, 48) };
    let header = FrameHeader::encode(&fields, &[("caterva", &caterva), ("b2nd", &b2nd)]).unwrap();
    let tail = &FrameTrailer::encode(&[]).unwrap()[12..];
    let frame = Frame::open(Container::File(400), &header, tail).unwrap();
    assert_eq!(frame.metalayer().name(), MetalayerName::B2nd);
    let header = FrameHeader::encode(&fields, &[("caterva", &caterva)]).unwrap();
    let frame = Frame::open(Container::File(400), &header, tail).unwrap();
    assert_eq!(frame.metalayer().name(), MetalayerName::Caterva);
}

#[test]
fn chunks_of_a_sparse_frame_are_files() {
    let fields = FrameFields {
        kind: FrameKind::Sparse,
        frame_len: HEADER + 48 + 35,
        compressed_size: 1 << 40,
        ..parts().fields
    };
    let header = FrameHeader::encode(&fields, &[("b2nd", &parts().content)]).unwrap();
    let tail = &FrameTrailer::encode(&[]).unwrap()[12..];
    let frame = Frame::open(Container::Directory(fields.frame_len), &header, tail).unwrap();
    assert_eq!(frame.offsets_head(), Some(HEADER..HEADER + 32));
    let last = frame.place(u64::from(u32::MAX).to_le_bytes()).unwrap();
    assert_eq!(last, ChunkPlace::File(ChunkFile(u32::MAX)));
    assert_eq!(
        frame.place((1_u64 << 32).to_le_bytes()).unwrap_err().to_string(),
        "OutOfBounds in frame offsets, entry at byte 0: expected at most 4294967295, found 4294967296"
    );
}
