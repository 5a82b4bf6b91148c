//! Every Caterva and B2ND fixture, opened from ranges and compared with its manifest.
//!
//! Compressed offsets chunks are taken from the manifest, because this crate has no codecs; the
//! crate with the codecs repeats this with all values.

use std::fs;
use std::ops::Range;
use std::path::PathBuf;

use serde_json::Value;
use zvf_b2nd::{
    BloscCodec, Body, ChunkHeader, ChunkOffsets, ChunkPlace, Container, FixedHeader, Frame,
    FrameHeader, FrameKind, FrameTrailer, Metalayer, MetalayerName, Partition, Special,
    encode_offsets,
};
use zvf_format::{Class, FormatError, Hint};

#[test]
fn every_frame_agrees_with_the_manifest() {
    let manifest = manifest();
    let arrays = manifest["arrays"].as_array().unwrap();
    assert_eq!(arrays.len(), 50);
    for array in arrays {
        let name = array["name"].as_str().unwrap();
        let files = Files::read(array);
        let frame = files.open().unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(frame.header().lints().is_empty(), "{name}: {:?}", frame.header().lints());
        check_header(&frame, &array["frame"]);
        check_metalayer(&frame, array);
        check_trailer(&frame, &files, array);
        let offsets = offsets(&frame, &files, array);
        let places = ChunkOffsets::parse(&frame, &offsets).unwrap();
        check_chunks(&frame, &files, &places, array);
        check_slices(&frame, array);
        check_encoders(&frame, &files, &places);
    }
}

#[test]
fn every_frame_opens_inside_a_larger_file() {
    for array in manifest()["arrays"].as_array().unwrap() {
        let files = Files::read(array);
        let mut longer = files.frame.clone();
        longer.extend(b"other things");
        let len = longer.len() as u64;
        let embedded = Frame::open_whole(Container::Embedded(len), &longer);
        let as_file = Frame::open_whole(Container::File(len), &longer);
        let sparse = matches!(files.container, Container::Directory(_));
        assert_eq!(embedded.is_ok(), !sparse, "{}", array["name"]);
        assert_eq!(as_file.unwrap_err().class, Class::Trailing);
    }
}

#[test]
#[rustfmt::skip]
fn corrupt_metalayers_are_refused() {
    for (file, classes) in [
        ("good", &[][..]),
        ("good_one_axis", &[]),
        ("good_eight_axes", &[]),
        ("good_empty_axis", &[]),
        ("version_1", &[Class::UnsupportedVersion]),
        ("ndim_low", &[Class::CountMismatch]),
        ("ndim_high", &[Class::CountMismatch]),
        ("chunk_axes_short", &[Class::CountMismatch]),
        ("block_axes_long", &[Class::CountMismatch]),
        ("dim_tag_swapped", &[Class::BadTag, Class::Truncated]),
        ("little_endian", &[Class::Overflow, Class::LimitExceeded]),
        ("shape_i64_min", &[Class::Negative]),
        ("trailing", &[Class::Trailing]),
    ] {
        let blob = read(&format!("hostile/{file}.bin"));
        for parse in [Metalayer::parse, Metalayer::parse_strict] {
            match parse(MetalayerName::Caterva, &blob) {
                Ok(metalayer) => {
                    assert!(classes.is_empty(), "{file} is accepted");
                    assert_eq!(metalayer.encode(), blob);
                }
                Err(error) => {
                    assert!(classes.contains(&error.class), "{file}: {error}");
                    assert_eq!(error.hint() == Some(Hint::ByteOrder), file == "little_endian");
                }
            }
        }
    }
    let valid = read("hostile/good.bin");
    for len in 0..valid.len() {
        let error = Metalayer::parse(MetalayerName::Caterva, &valid[..len]).unwrap_err();
        assert_eq!(error.class, Class::Truncated, "{len}: {error}");
    }
    for bit in 0..valid.len() * 8 {
        let mut flipped = valid.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        if let Ok(metalayer) = Metalayer::parse(MetalayerName::Caterva, &flipped) {
            assert_eq!(metalayer.encode(), flipped);
        }
    }
}

fn check_header(frame: &Frame<'_>, expected: &Value) {
    let fields = frame.header().fields();
    for (field, found) in [
        ("header_len", u64::from(fields.header_len)),
        ("frame_len", fields.frame_len),
        ("general_flags", fields.general_flags.into()),
        ("frame_type", (fields.kind == FrameKind::Sparse).into()),
        ("codec_flags", fields.codec_flags.into()),
        ("other_flags", fields.other_flags.into()),
        ("uncompressed_size", fields.uncompressed_size),
        ("compressed_size", fields.compressed_size),
        ("type_size", fields.type_size.into()),
        ("block_size", fields.block_size.into()),
        ("chunk_size", fields.chunk_size.into()),
        ("nchunks", frame.geometry().chunk_count()),
    ] {
        assert_eq!(Some(found), expected[field].as_u64(), "{field}");
    }
    assert_eq!(expected["has_vlmetalayers"], fields.has_vlmetalayers);
    assert_eq!(numbers(&expected["filters"]), fields.filters.map(u64::from));
    assert_eq!(numbers(&expected["filters_meta"]), fields.filter_metas.map(u64::from));
    let trailer = frame.trailer_range();
    assert_eq!(expected["trailer_len"], trailer.end - trailer.start);
}

fn check_metalayer(frame: &Frame<'_>, array: &Value) {
    let (metalayer, fields) = (frame.metalayer(), &array["fields"]);
    assert_eq!(array["metalayer"], metalayer.name().text());
    assert_eq!(array["metalayer_hex"], hex(&metalayer.encode()));
    let partition = metalayer.partition();
    assert_eq!(numbers(&fields["shape"]), partition.shape().as_slice());
    assert_eq!(numbers(&fields["chunkshape"]), partition.chunkshape().as_slice());
    assert_eq!(numbers(&fields["blockshape"]), partition.blockshape().as_slice());
    assert_eq!(fields["dtype"].as_str(), metalayer.dtype_text());
    assert!(metalayer.lints().is_empty());
    assert_eq!(array["itemsize"], frame.geometry().item_size());
    for (name, content) in array["other_metalayers"].as_object().unwrap() {
        assert_eq!(*content, hex(frame.header().metalayer(name).unwrap().content));
    }
}

fn check_trailer(frame: &Frame<'_>, files: &Files, array: &Value) {
    let bytes = slice(&files.frame, frame.trailer_range());
    let trailer = FrameTrailer::parse_strict(bytes).unwrap();
    let expected = array["vlmetalayers"].as_object().unwrap();
    assert_eq!(trailer.entries().count(), expected.len());
    let mut entries = Vec::new();
    for (name, content) in expected {
        let entry = trailer.entry(name).unwrap();
        assert_eq!(content["raw_hex"], hex(entry.content));
        entries.push((name.as_str(), entry.content));
    }
    assert_eq!(FrameTrailer::encode(&entries).unwrap(), bytes);
}

fn check_chunks(frame: &Frame<'_>, files: &Files, places: &ChunkOffsets<'_>, array: &Value) {
    for (number, expected) in (0..).zip(array["chunks"].as_array().unwrap()) {
        let place = places.place(number).unwrap();
        let Some(chunk) = files.chunk(frame, place) else {
            let special_name = expected["special"].as_str().unwrap();
            let name = if place == ChunkPlace::Zeros { "zeros" } else { "nans" };
            assert_eq!(special_name, name, "{place:?}");
            continue;
        };
        let header = ChunkHeader::parse_strict(chunk).unwrap();
        frame.check_chunk(&header, chunk.len() as u64).unwrap();
        check_chunk(&header, expected);
        assert_eq!(header.encode(), &chunk[..32]);
        let front = frame.chunk_front(chunk.len() as u64);
        let table = zvf_b2nd::BlockTable::parse(&header, slice(chunk, 0..front)).unwrap();
        let sorted = table.sorted_spans();
        for j in 0..=header.block_count() {
            assert_eq!(table.span(j), sorted.get(j));
        }
    }
}

fn check_chunk(header: &ChunkHeader, expected: &Value) {
    let fields = header.fields();
    for (field, found) in [
        ("version", u64::from(fields.version)),
        ("flags", fields.flags.into()),
        ("typesize", fields.typesize.into()),
        ("nbytes", header.nbytes().into()),
        ("blocksize", header.blocksize().into()),
        ("cbytes", header.cbytes().into()),
        ("nblocks", header.block_count().into()),
        ("special", special_value(header.body())),
    ] {
        assert_eq!(Some(found), expected[field].as_u64(), "{field}");
    }
    let filters = header.fields().extended.unwrap();
    assert_eq!(numbers(&expected["filters"]), filters.filters.map(u64::from));
    assert_eq!(numbers(&expected["filters_meta"]), filters.filter_metas.map(u64::from));
    let codec = match expected["codec_format"].as_u64().unwrap() {
        0 => BloscCodec::BloscLz,
        1 => BloscCodec::Lz4,
        3 => BloscCodec::Zlib,
        4 => BloscCodec::Zstd,
        other => panic!("codec {other}"),
    };
    assert_eq!(header.codec(), codec);
    assert_eq!(expected["memcpyed"], fields.flags & 2 != 0);
    assert_eq!(expected["use_dict"], header.has_dictionary());
    if header.body() == Body::Blocks {
        let split = expected["split"].as_bool().unwrap();
        let streams = if split { fields.typesize.into() } else { 1 };
        assert_eq!(header.streams(0), streams);
    }
}

fn check_slices(frame: &Frame<'_>, array: &Value) {
    for slice in array["slices"].as_array().unwrap() {
        let (start, stop) = (numbers(&slice["start"]), numbers(&slice["stop"]));
        let selection = frame.geometry().select(&start, &stop).unwrap();
        assert_eq!(slice["nbytes"], selection.bytes());
        assert_eq!(slice["chunks_touched"], selection.chunks_touched());
        assert_eq!(slice["blocks_touched"], selection.blocks_touched());

        let (mut chunks, mut blocks, mut bytes) = (0, 0, 0);
        for chunk in selection.chunks() {
            chunks += 1;
            assert_eq!(chunk.blocks_touched(), chunk.blocks().count() as u64);
            for block in chunk.blocks() {
                blocks += 1;
                bytes += block.runs().map(|run| run.len).sum::<u64>();
            }
        }
        assert_eq!(slice["chunks_touched"], chunks);
        assert_eq!(slice["blocks_touched"], blocks);
        assert_eq!(slice["nbytes"], bytes);
    }
}

fn check_encoders(frame: &Frame<'_>, files: &Files, places: &ChunkOffsets<'_>) {
    let header = frame.header();
    let names: Vec<(String, &[u8])> = header
        .metalayers()
        .map(|entry| (String::from_utf8(entry.name.to_vec()).unwrap(), entry.content))
        .collect();
    let entries: Vec<(&str, &[u8])> = names.iter().map(|(n, c)| (n.as_str(), *c)).collect();
    let encoded = FrameHeader::encode(header.fields(), &entries).unwrap();
    assert_eq!(encoded, slice(&files.frame, header.fixed_header().header_range()));

    let all: Vec<ChunkPlace> =
        (0..places.len() as u64).map(|number| places.place(number).unwrap()).collect();
    let chunk = encode_offsets(header.fields().header_len, &all).unwrap();
    let parsed = ChunkHeader::parse_strict(&chunk).unwrap();
    assert_eq!((parsed.body(), parsed.cbytes() as usize), (Body::Raw, chunk.len()));
    let reparsed = ChunkOffsets::parse(frame, &chunk[32..]).unwrap();
    for (number, place) in (0..).zip(all) {
        assert_eq!(reparsed.place(number), Some(place));
        let entry = frame.offset_entry(&parsed, number).unwrap();
        assert_eq!(entry.start, header.fixed_header().data_end() + 32 + 8 * number);
    }
    let partition = *frame.metalayer().partition();
    let [s, c, b] = [partition.shape(), partition.chunkshape(), partition.blockshape()];
    assert_eq!(Partition::new(s.as_slice(), c.as_slice(), b.as_slice()), Ok(partition));
}

/// Returns the decoded offsets chunk.
fn offsets(frame: &Frame<'_>, files: &Files, array: &Value) -> Vec<u8> {
    let listed: Vec<u8> = array["frame"]["offsets"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|offset| offset.as_i64().unwrap().to_le_bytes())
        .collect();
    let Some(head) = frame.offsets_head() else { return listed };
    let head = ChunkHeader::parse(slice(&files.frame, head)).unwrap();
    let range = frame.offsets_range(&head).unwrap();
    assert_eq!(range.end, frame.trailer_range().start);
    let body = &slice(&files.frame, range)[head.header_len() as usize..];
    match head.body() {
        Body::Raw => assert_eq!(body, listed),
        Body::Special(Special::Value(8)) => assert_eq!(body.repeat(listed.len() / 8), listed),
        _ => {}
    }
    listed
}

struct Files {
    frame: Vec<u8>,
    chunks: Option<PathBuf>, // the directory of a sparse frame
    container: Container,
}

impl Files {
    fn read(array: &Value) -> Self {
        let path = array["path"].as_str().unwrap();
        let chunks = (array["storage"] != "contiguous").then(|| root().join(path));
        let frame = match &chunks {
            Some(directory) => fs::read(directory.join("chunks.b2frame")).unwrap(),
            None => read(path),
        };
        let len = frame.len() as u64;
        let container =
            if chunks.is_some() { Container::Directory(len) } else { Container::File(len) };
        Self { frame, chunks, container }
    }

    /// Opens the frame like a reader of ranges.
    fn open(&self) -> Result<Frame<'_>, FormatError> {
        let fixed = FixedHeader::parse(&self.frame[..FixedHeader::LEN])?;
        fixed.check_container(self.container)?;
        let header = slice(&self.frame, fixed.header_range());
        let opened = Frame::open(self.container, header, slice(&self.frame, fixed.tail_range()))?;
        assert!(Frame::open_whole(self.container, &self.frame).is_ok());
        Ok(opened)
    }

    /// Returns the bytes of a chunk and the following bytes of its room.
    fn chunk(&self, frame: &Frame<'_>, place: ChunkPlace) -> Option<&[u8]> {
        match place {
            ChunkPlace::Frame(at) => Some(slice(&self.frame, at..at + frame.room(at))),
            ChunkPlace::File(file) => {
                let path = self.chunks.as_ref().unwrap().join(file.to_string());
                Some(fs::read(path).unwrap().leak())
            }
            ChunkPlace::Zeros | ChunkPlace::Nan | ChunkPlace::Unwritten => None,
        }
    }
}

fn special_value(body: Body) -> u64 {
    match body {
        Body::Special(Special::Zeros) => 1,
        Body::Special(Special::Nan) => 2,
        Body::Special(Special::Value(_)) => 3,
        Body::Special(Special::Unwritten) => 4,
        _ => 0,
    }
}

fn numbers(list: &Value) -> Vec<u64> {
    list.as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect()
}

fn slice(bytes: &[u8], range: Range<u64>) -> &[u8] {
    &bytes[range.start as usize..range.end as usize]
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn manifest() -> Value {
    serde_json::from_slice(&read("manifest.json")).unwrap()
}

fn read(path: &str) -> Vec<u8> {
    fs::read(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn root() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/caterva"))
}
