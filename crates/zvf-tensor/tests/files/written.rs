//! Block arrays that we write: read back fully and in parts, edited, extended, in every form.

use std::fs;
use std::io::Cursor;
use std::path::Path;

use proptest::prelude::*;
use zvf_b2nd::{Filter, FilterSlot};
use zvf_blosc::{Blosc2Settings, Compressor};
use zvf_format::Class;
use zvf_store::{OpenOptions, RangedFile};
use zvf_tensor::{BlockArray, BlockEdit, BlockFile, BlockWriter, Constant, NewBlocks, Slice};

use super::{check_refused, memory, testdata};

async fn at(path: &Path) -> BlockArray {
    BlockArray::open(path.to_str().unwrap(), &OpenOptions::default()).await.unwrap()
}

async fn all(array: &BlockArray) -> Vec<u8> {
    array.slice(&Slice::all(), &memory()).await.unwrap().bytes().to_vec()
}

fn count(shape: &[u64]) -> usize {
    shape.iter().product::<u64>() as usize
}

/// Returns compressible numbers of `item` bytes each.
fn items(n: usize, item: usize) -> Vec<u8> {
    let bytes = |i: usize| i.to_le_bytes().into_iter().chain(std::iter::repeat(0));
    (0..n).flat_map(|i| bytes(i).take(item)).collect()
}

/// Returns the places of the items of a box, one by one.
fn places(shape: &[u64], start: &[u64], stop: &[u64]) -> impl Iterator<Item = usize> {
    (0..count(shape)).filter(|place| {
        let mut remainder = *place as u64;
        (0..shape.len()).rev().all(|axis| {
            let at = remainder % shape[axis];
            remainder /= shape[axis];
            (start[axis]..stop[axis]).contains(&at)
        })
    })
}

/// Returns the items of a box.
fn naive(bytes: &[u8], item: usize, shape: &[u64], start: &[u64], stop: &[u64]) -> Vec<u8> {
    let items = places(shape, start, stop);
    items.flat_map(|place| &bytes[place * item..(place + 1) * item]).copied().collect()
}

/// Writes the items of a box.
fn overlay(bytes: &mut [u8], item: usize, shape: &[u64], start: &[u64], stop: &[u64], new: &[u8]) {
    for (place, new) in places(shape, start, stop).zip(new.chunks_exact(item)) {
        bytes[place * item..(place + 1) * item].copy_from_slice(new);
    }
}

#[derive(Clone, Debug)]
struct Case {
    shape: Vec<u64>,
    chunk: Vec<u64>,
    block: Vec<u64>,
    low: Vec<u64>,
    high: Vec<u64>,
    item: u32,
    coding: Blosc2Settings,
    sparse: bool,
}

fn coding() -> impl Strategy<Value = Blosc2Settings> {
    use Compressor::{BloscLz, Lz4, Lz4Hc, Zlib, Zstd};
    let filters = prop::sample::select(vec![
        vec![],
        vec![Filter::Shuffle],
        vec![Filter::Bitshuffle],
        vec![Filter::Delta, Filter::Shuffle],
        vec![Filter::Shuffle, Filter::ByteDelta],
    ]);
    let compressor = prop::sample::select(vec![BloscLz, Lz4, Lz4Hc, Zlib, Zstd]);
    (filters, compressor, 0_u8..8, any::<bool>()).prop_map(|(list, compressor, level, split)| {
        let mut coding = Blosc2Settings { compressor, level, split, ..Blosc2Settings::default() };
        coding.filters = Default::default();
        for (slot, filter) in coding.filters.iter_mut().zip(list) {
            *slot = FilterSlot { filter, meta: 0 };
        }
        coding
    })
}

fn case() -> impl Strategy<Value = Case> {
    let axis = (1_u64..8, 1_u64..6, 1_u64..5, 0_u64..8, 0_u64..8);
    let sizes = prop::sample::select(vec![1_u32, 2, 4, 7, 8, 300]);
    (prop::collection::vec(axis, 0..6), sizes, coding(), any::<bool>()).prop_map(
        |(axes, item, coding, sparse)| {
            let column =
                |field: fn(&(u64, u64, u64, u64, u64)) -> u64| axes.iter().map(field).collect();
            Case {
                shape: column(|a| a.0),
                chunk: column(|a| a.1),
                block: column(|a| a.2.min(a.1)),
                low: column(|a| a.3.min(a.0)),
                high: column(|a| a.4.max(a.3).min(a.0)),
                item,
                coding,
                sparse,
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn written_arrays_are_read_and_edited(case in case()) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(written(&case));
    }
}

async fn written(case: &Case) {
    let Case { shape, chunk, block, low, high, item, coding, sparse } = case;
    let size = *item as usize;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("array");
    let new =
        NewBlocks::new(shape, chunk, block, *item).unwrap().with_dtype("|V1").with_coding(*coding);
    let mut content = items(count(shape), size);

    let mut file = BlockFile::create(&path, new.clone(), *sparse, false).unwrap();
    file.writer().put_array(&content).unwrap();
    file.publish().unwrap();
    let array = at(&path).await;
    assert_eq!((array.is_sparse(), all(&array).await), (*sparse, content.clone()));
    let slice = if shape.is_empty() { Slice::all() } else { Slice::from_bounds(low, high) };
    let part = array.slice(&slice, &memory()).await.unwrap();
    assert_eq!(part.bytes()[..], naive(&content, size, shape, low, high));

    // Chunk by chunk the bytes are the same.
    if !sparse {
        let mut writer = BlockWriter::frame(Cursor::new(Vec::new()), new).unwrap();
        while let Some((start, stop)) = writer.next_box() {
            writer.put_chunk(&naive(&content, size, shape, &start, &stop)).unwrap();
        }
        assert_eq!(writer.finish().unwrap().into_inner(), fs::read(&path).unwrap());
    }

    // A slice is edited, then every axis extended.
    let mut edit = BlockEdit::open(&path).await.unwrap();
    let new_bytes: Vec<u8> = part.bytes().iter().map(|byte| !byte).collect();
    edit.write(&slice, new_bytes.clone()).unwrap();
    let edited = edit.commit(&memory()).await.unwrap();
    assert!(edited.rewritten <= array.count_touched(&slice).unwrap().0);
    overlay(&mut content, size, shape, low, high, &new_bytes);
    assert_eq!(all(&at(&path).await).await, content);

    let mut edit = BlockEdit::open(&path).await.unwrap();
    let mut longer = content.clone();
    for axis in 0..shape.len() {
        let before = edit.shape().to_vec();
        let mut layer = before.clone();
        layer[axis] = 2;
        let new = items(count(&layer), size);
        edit.append(axis, new.clone()).unwrap();
        let mut grown = vec![0; count(edit.shape()) * size];
        overlay(&mut grown, size, edit.shape(), &vec![0; before.len()], &before, &longer);
        let mut start = vec![0; before.len()];
        start[axis] = before[axis];
        let stop = edit.shape().to_vec();
        overlay(&mut grown, size, &stop, &start, &stop, &new);
        longer = grown;
    }
    let shape = edit.shape().to_vec();
    edit.commit(&memory()).await.unwrap();
    let array = at(&path).await;
    assert_eq!((array.shape(), all(&array).await), (&shape[..], longer));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left beside it");
}

/// Slices large enough for several threads: from blocks that fill consecutive parts of the result,
/// and from those whose parts interleave. Some are read twice, with reused buffers.
#[tokio::test]
async fn many_blocks_are_read_in_parallel() {
    let (shape, dir) = ([48, 64, 64], tempfile::tempdir().unwrap());
    let content = items(count(&shape), 4);
    for (name, chunk, block) in
        [("rows", [16, 64, 64], [2, 32, 64]), ("cubes", [32, 32, 32], [16, 16, 16])]
    {
        let path = dir.path().join(name);
        let shuffle = Blosc2Settings { compressor: Compressor::Lz4, ..Blosc2Settings::default() };
        let new = NewBlocks::new(&shape, &chunk, &block, 4).unwrap().with_coding(shuffle);
        let mut file = BlockFile::create(&path, new, false, false).unwrap();
        file.writer().put_array(&content).unwrap();
        file.publish().unwrap();
        let array = at(&path).await;
        for (low, high) in [
            ([0, 0, 0], [48, 64, 64]),
            ([0, 9, 0], [48, 10, 64]),
            ([0, 0, 33], [48, 64, 34]),
            ([5, 3, 7], [45, 63, 60]),
            ([17, 0, 0], [18, 64, 64]),
            ([0, 0, 0], [48, 64, 64]),
        ] {
            let part = array.slice(&Slice::from_bounds(&low, &high), &memory()).await.unwrap();
            assert_eq!(part.bytes()[..], naive(&content, 4, &shape, &low, &high), "{name} {low:?}");
        }
    }
}

#[tokio::test]
async fn edits_of_foreign_arrays_keep_other_items() {
    let frames = testdata("caterva/frames");
    let dir = tempfile::tempdir().unwrap();
    for name in [
        "b2_seed_2d_i4.b2nd",
        "b2_delta_shuffle_2d_i4.b2nd",
        "b2_bytedelta_2d_f4.b2nd",
        "b2_lz4dict_2d_i4.b2nd",
        "b2_itemsize300_1d.b2nd",
        "b2_struct_1d.b2nd",
        "cat_usermeta_2d_u1.caterva",
        "cat_rewritten_2d_i4.caterva",
        "cat_sparse_lz4hc_3d_u4.caterva",
    ] {
        let path = dir.path().join(name);
        fs::copy(frames.join(name), &path).unwrap();
        let before = at(&path).await;
        let (shape, dtype) = (before.shape().to_vec(), before.dtype().map(str::to_owned));
        let (size, mut content) = (before.item_size() as usize, all(&before).await);
        let user = before.user_metadata(1 << 20).await.unwrap();
        let layers = before.metalayers().unwrap();

        let last: Vec<u64> = shape.iter().map(|extent| extent - 1).collect();
        let item = vec![0x55; size];
        let mut edit = BlockEdit::open(&path).await.unwrap();
        edit.write(&Slice::from_bounds(&last, &shape), item.clone()).unwrap();
        let edited = edit.commit(&memory()).await.unwrap();
        assert_eq!(edited.rewritten, 1, "{name}");
        overlay(&mut content, size, &shape, &last, &shape, &item);
        let after = at(&path).await;
        assert_eq!(all(&after).await, content, "{name}");
        assert_eq!((after.dtype(), after.shape()), (dtype.as_deref(), &shape[..]));
        assert_eq!(after.user_metadata(1 << 20).await.unwrap(), user);
        assert_eq!(after.metalayers().unwrap(), layers);
        // Open readers continue with the old array.
        assert_ne!(all(&before).await, content);
    }
}

#[tokio::test]
async fn constants_and_metadata_are_written() {
    let dir = tempfile::tempdir().unwrap();
    let new = NewBlocks::new(&[30, 20], &[10, 10], &[5, 10], 8).unwrap().with_dtype("<f8");
    let new = new.with_metalayer("mine", b"anything".as_slice());
    let new = new.with_user_metadata("units", b"\xa2mm").unwrap();
    let new = new.with_user_metadata("empty", b"").unwrap();
    for (name, constant, item) in [
        ("zeros", Constant::Zeros, [0; 8]),
        ("nan", Constant::Nan, f64::from_bits(0x7ff8_0000_0000_0000).to_le_bytes()),
        ("full", Constant::Item(3.25_f64.to_le_bytes().into()), 3.25_f64.to_le_bytes()),
    ] {
        for sparse in [false, true] {
            let path = dir.path().join(format!("{name}-{sparse}"));
            let mut file = BlockFile::create(&path, new.clone(), sparse, false).unwrap();
            file.writer().fill(&constant).unwrap();
            file.publish().unwrap();
            let array = at(&path).await;
            assert_eq!(all(&array).await, item.repeat(600), "{name}");
            let layers = array.metalayers().unwrap();
            assert_eq!(layers, [(b"mine".to_vec(), b"anything".as_slice().into())]);
            let user = array.user_metadata(100).await.unwrap();
            let expected: [(&[u8], &[u8]); 2] = [(b"units", b"\xa2mm"), (b"empty", b"")];
            assert_eq!(user, expected.map(|(name, content)| (name.to_vec(), content.to_vec())));
            let mut edit = BlockEdit::open(&path).await.unwrap();
            edit.write(&"0:1,0:1".parse().unwrap(), vec![1; 8]).unwrap();
            assert_eq!(edit.commit(&memory()).await.unwrap().kept, 5);
            assert_eq!(all(&at(&path).await).await[8..], item.repeat(599));
        }
    }
    let empty = NewBlocks::new(&[0, 5], &[1, 5], &[1, 5], 4).unwrap().with_dtype("<i4");
    let writer = BlockWriter::frame(Cursor::new(Vec::new()), empty).unwrap();
    let bytes = writer.finish().unwrap().into_inner();
    let array = BlockArray::from_file(RangedFile::from_bytes(bytes.into())).await.unwrap();
    assert_eq!((array.shape(), all(&array).await), (&[0, 5][..], Vec::new()));
}

#[tokio::test]
async fn each_check_has_its_message() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a");
    let new = NewBlocks::new(&[4], &[2], &[2], 2).unwrap();
    let mut writer = BlockWriter::frame(Cursor::new(Vec::new()), new.clone()).unwrap();
    check_refused(writer.put_chunk(b"abc"), "bytes of a chunk: expected 4, found 3");
    check_refused(writer.put_array(b"abc"), "bytes of an array: expected 8, found 3");
    let message = "NaN: expected items of 4 or 8 bytes, found \"others\"";
    check_refused(writer.fill(&Constant::Nan), message);
    let short = Constant::Item(vec![1]);
    check_refused(writer.fill(&short), "bytes of an item: expected 2, found 1");
    writer.put_chunk(b"abcd").unwrap();
    let message = "array: expected one without chunks yet, found \"some\"";
    check_refused(writer.put_array(b"abcdefgh"), message);
    check_refused(writer.finish(), "chunks: expected 2, found 1");
    let mut full_writer = BlockWriter::frame(Cursor::new(Vec::new()), new.clone()).unwrap();
    full_writer.put_array(b"abcdefgh").unwrap();
    let message = "chunk: expected one of the array that is not written, found \"another\"";
    check_refused(full_writer.put_chunk(b"abcd"), message);

    let mut file = BlockFile::create(&path, new.clone(), false, false).unwrap();
    file.writer().put_array(b"abcdefgh").unwrap();
    file.publish().unwrap();
    for sparse in [false, true] {
        let error = BlockFile::create(&path, new.clone(), sparse, false).unwrap_err();
        assert_eq!(error.class(), Class::AlreadyExists);
    }
    let mut edit = BlockEdit::open(&path).await.unwrap();
    for (slice, message) in [
        ("0:4:2", "step: expected 1, to write, found \"another\""),
        ("0:5", "slice: expected one inside of the array, found \"another\""),
        ("0:3", "bytes of a slice: expected 6, found 4"),
    ] {
        check_refused(edit.write(&slice.parse().unwrap(), b"abcd".as_slice()), message);
    }
    for (axis, items) in [(1, b"ab".as_slice()), (0, b"abc")] {
        let message = "append: expected an axis of the array, and whole layers of it, found \"something else\"";
        check_refused(edit.append(axis, items), message);
    }
    assert_eq!(
        BlockEdit::open(&dir.path().join("none")).await.unwrap_err().class(),
        Class::NotFound
    );
}
