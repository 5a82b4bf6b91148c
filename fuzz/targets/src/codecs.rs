//! Codecs of chunks, and the tensors that are made of them.

use zvf_b2nd::{Filter, FilterSlot};
use zvf_blosc::{Blosc2Settings, Chunk, Compressor, Decoder, Encoder};
use zvf_store::RangedFile;
use zvf_tensor::{BlockArray, Memory, Slice, TensorFile};

use crate::Choices;

/// Chunks of Blosc: any bytes decode within their bound, and what is encoded is decoded.
pub(crate) fn blosc(input: &[u8]) {
    let mut choices = Choices(input);
    let (choice, bytes) = (choices.bytes::<6>(), choices.0);
    if let Ok(chunk) = Chunk::parse(bytes)
        && let Ok(all) = chunk.decode_all(CAP)
    {
        let end = all.len() as u64;
        let part = chunk.decode_range(end / 2..end, CAP).unwrap();
        assert!(all.ends_with(&part), "a part is a part of all");
    }
    use Compressor::{BloscLz, Lz4, Lz4Hc, Zlib, Zstd};
    let filters =
        [Filter::None, Filter::Shuffle, Filter::Bitshuffle, Filter::Delta, Filter::ByteDelta];
    let [compressor, level, one, two, typesize, block] = choice.map(usize::from);
    let mut settings = Blosc2Settings {
        compressor: [BloscLz, Lz4, Lz4Hc, Zlib, Zstd][compressor % 5],
        level: (level % 6) as u8,
        typesize: (typesize % 17 + 1) as u8,
        block_size: (block * 7 + 1) as u32,
        split: compressor & 8 != 0,
        ..Blosc2Settings::default()
    };
    settings.filters = Default::default();
    for (slot, filter) in settings.filters.iter_mut().zip([one, two]) {
        *slot = FilterSlot { filter: filters[filter % filters.len()], meta: 0 };
    }
    let chunk = Encoder::default().encode_blosc2(bytes, &settings).unwrap();
    assert_eq!(Chunk::parse(&chunk).unwrap().decode_all(CAP).unwrap(), bytes);
}

/// LZ4 and shuffle of Blosc beside a decoder in safe code and the definition: with the feature
/// `fast-codecs` they are C and vectors.
pub(crate) fn fast_codecs(input: &[u8]) {
    let mut choices = Choices(input);
    let (width, len) = (choices.byte(), u16::from_le_bytes(choices.bytes()));
    let data = choices.0;
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
}

/// A `.tet` file as the library opens it: every tensor read whole and in part, everything verified.
pub(crate) fn tensors(blob: &[u8]) {
    let Ok(file) = TensorFile::from_bytes(blob.to_vec().into()) else { return };
    let memory = Memory::from_bytes(1 << 24);
    archives::inline(async {
        drop(file.verify(true, &memory).await);
        for tensor in file.tensors().take(8) {
            let Ok(all) = tensor.slice(&Slice::all(), &memory).await else { continue };
            if let Some(view) = tensor.dense_view(&Slice::all()).unwrap() {
                assert_eq!(view.bytes(), all.bytes(), "a view is what a slice is");
            }
            let last: Vec<u64> = tensor.shape().iter().map(|n| n.saturating_sub(1)).collect();
            if let Ok(item) =
                tensor.slice(&Slice::from_bounds(&last, tensor.shape()), &memory).await
            {
                assert!(all.bytes().ends_with(item.bytes()), "the last element is the last");
            }
        }
    });
}

/// A frame of Caterva or B2ND as the library opens it: read whole and in part.
pub(crate) fn blocks(blob: &[u8]) {
    let memory = Memory::from_bytes(1 << 24);
    archives::inline(async {
        let file = RangedFile::from_bytes(blob.to_vec().into());
        let Ok(array) = BlockArray::from_file(file).await else { return };
        drop(array.user_metadata(1 << 20).await);
        let Ok(all) = array.slice(&Slice::all(), &memory).await else { return };
        let last: Vec<u64> = array.shape().iter().map(|n| n.saturating_sub(1)).collect();
        if !last.is_empty() && !all.bytes().is_empty() {
            let item = array.slice(&Slice::from_bounds(&last, array.shape()), &memory).await;
            // All blocks were sound a moment ago.
            assert!(all.bytes().ends_with(item.unwrap().bytes()), "the last item is the last");
        }
    });
}

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

/// More than any input here decodes to on purpose.
const CAP: u64 = 1 << 24;
