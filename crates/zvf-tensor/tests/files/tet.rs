//! `.tet` files of other writers, opened in every way. And `.tet` files that we write.

use std::fs;
use std::io::Cursor;
use std::path::Path;
use std::sync::Arc;

use object_store::ObjectStoreExt as _;
use object_store::memory::InMemory;
use proptest::prelude::*;
use serde_json::Value;
use zvf_format::Class;
use zvf_store::{OpenOptions, RangedFile};
use zvf_tensor::{
    AtomicTensorFile, Bound, Compression, Cut, Memory, Metadata, NewTensor, Slice, Tensor,
    TensorAbout, TensorFile, TetWriter, Weight,
};
use zvf_tet::TensorDtype;

use super::{check_refused, json, memory, testdata};

fn parse_cut(axis: &Value) -> Cut {
    let at = |key: &str| Some(Bound::Index(axis[key].as_u64().unwrap()));
    Cut { start: at("start"), stop: at("stop"), step: axis["step"].as_u64() }
}

/// Opens the file in memory, by ranges of a file and of an object, and mapped.
async fn open_all_ways(path: &Path) -> Vec<TensorFile> {
    let bytes = fs::read(path).unwrap();
    let options = OpenOptions::default();
    let store = Arc::new(InMemory::new());
    store.put(&"a/b.tet".into(), bytes.clone().into()).await.unwrap();
    let mut files = vec![
        TensorFile::from_bytes(bytes.into()).unwrap(),
        TensorFile::open(path.to_str().unwrap(), &options).await.unwrap(),
        TensorFile::from_object_store(store, &"a/b.tet".into(), &options).await.unwrap(),
    ];
    if cfg!(all(unix, feature = "map")) {
        files.extend(mapped(path));
    }
    files
}

#[cfg(all(unix, feature = "map"))]
fn mapped(path: &Path) -> Option<TensorFile> {
    // A private copy: the file of the test may be written to.
    let dir = tempfile::tempdir().unwrap();
    let copy = dir.path().join("copy.tet");
    fs::copy(path, &copy).unwrap();
    assert!(TensorFile::map_if_immutable(&copy).unwrap().is_none());
    let mut permissions = fs::metadata(&copy).unwrap().permissions();
    permissions.set_readonly(true);
    fs::set_permissions(&copy, permissions).unwrap();
    // Not every file system can guarantee that no other process has the file open.
    TensorFile::map_if_immutable(&copy).unwrap()
}

#[cfg(not(all(unix, feature = "map")))]
fn mapped(_path: &Path) -> Option<TensorFile> {
    None
}

#[tokio::test]
async fn a_file_is_the_same_however_it_is_opened() {
    for fixture in json("tet/manifest.json")["files"].as_array().unwrap() {
        let name = fixture["file"].as_str().unwrap();
        let files = open_all_ways(&testdata("tet").join(name)).await;
        for file in &files {
            let expected = fixture["datasets"].as_array().unwrap();
            assert_eq!(file.tensors().len(), expected.len(), "{name}");
            for ((tensor, first), facts) in file.tensors().zip(files[0].tensors()).zip(expected) {
                check_tensor(name, (&tensor, &first), facts).await;
            }
            let faults = file.verify(true, &memory()).await.unwrap();
            assert!(faults.iter().all(|fault| fault.weight == Weight::Note), "{name}: {faults:?}");
        }
    }
}

async fn check_tensor(file: &str, (tensor, first): (&Tensor<'_>, &Tensor<'_>), expected: &Value) {
    let name = format!("{file} {}", tensor.name());
    let all = tensor.slice(&Slice::all(), &memory()).await.unwrap();
    assert_eq!(all, first.slice(&Slice::all(), &memory()).await.unwrap(), "{name}");
    assert_eq!(all.shape(), tensor.shape(), "{name}");

    let resident = tensor.dense_view(&Slice::all()).unwrap();
    if let Some(view) = &resident {
        assert_eq!(expected["payload_stream_is_row_major"], true, "{name}");
        assert_eq!(view.bytes(), all.bytes(), "{name}");
        assert!(view.is_unchanged());
    }
    if let Some(stream) = tensor.byte_stream(&Slice::all()).unwrap() {
        assert_eq!(expected["payloads_contiguous_raw"], true, "{name}");
        let sorted = |bytes: &[u8]| {
            let mut bytes = bytes.to_vec();
            bytes.sort_unstable();
            bytes
        };
        assert_eq!(sorted(stream.bytes()), sorted(all.bytes()), "{name}");
        assert_eq!(resident.is_some(), expected["payload_stream_is_row_major"] == true, "{name}");
    }
    for slice in expected["slices"].as_array().unwrap() {
        let selection = slice["selection"].as_array().unwrap().iter().map(parse_cut).collect();
        let selection = Slice::new(selection);
        let part = tensor.slice(&selection, &memory()).await.unwrap();
        assert_eq!(part, first.slice(&selection, &memory()).await.unwrap(), "{name} {selection:?}");
        if let Some(view) = tensor.dense_view(&selection).unwrap() {
            assert_eq!(view.bytes(), part.bytes(), "{name} {selection:?}");
        }
        if let Some(view) = tensor.strided_view(&selection).unwrap() {
            let size = tensor.element().unwrap().size();
            let walked = walk(view.bytes(), view.shape(), view.strides().unwrap(), size);
            assert_eq!(walked, part.bytes()[..], "{name} {selection:?}");
        }
    }
}

/// Collects the elements of a strided view, one by one.
fn walk(bytes: &[u8], shape: &[u64], strides: &[u64], size: u64) -> Vec<u8> {
    let mut offsets = vec![0];
    for (n, stride) in shape.iter().zip(strides) {
        offsets = offsets.iter().flat_map(|at| (0..*n).map(move |i| at + i * stride)).collect();
    }
    offsets.iter().flat_map(|&at| bytes[at as usize..(at + size) as usize].to_vec()).collect()
}

#[tokio::test]
async fn a_damaged_payload_is_found_where_it_is_read() {
    for case in json("tet/reject.json")["cases"].as_array().unwrap() {
        if case["expect"] != "reject-read" {
            continue;
        }
        let name = case["file"].as_str().unwrap();
        let file =
            TensorFile::from_bytes(fs::read(testdata("tet").join(name)).unwrap().into()).unwrap();
        let faults = file.verify(true, &memory()).await.unwrap();
        let errors = faults.iter().filter(|fault| fault.weight == Weight::Error);
        assert_eq!(errors.map(|fault| fault.rule).collect::<Vec<_>>(), ["R1"], "{name}");
        let mut failed = 0;
        for tensor in file.tensors() {
            failed += usize::from(tensor.slice(&Slice::all(), &memory()).await.is_err());
        }
        assert!(failed > 0, "{name}");
    }
}

#[tokio::test]
async fn labels_and_limits() {
    let path = testdata("tet/session_meta.tet");
    let file = TensorFile::open(path.to_str().unwrap(), &OpenOptions::default()).await.unwrap();
    let temp = file.tensor("temp").unwrap();
    assert_eq!(file.metadata().tensor("temp").unwrap().attrs["units"], "m");
    let labelled: Slice = "@L1:@L3,0:2".parse().unwrap();
    let by_number: Slice = "1:3,0:2".parse().unwrap();
    let read = async |slice: &Slice| temp.slice(slice, &memory()).await.unwrap();
    assert_eq!(read(&labelled).await, read(&by_number).await);
    let unknown = "@L9:,0:2".parse().unwrap();
    assert_eq!(
        temp.slice(&unknown, &memory()).await.unwrap_err().to_string(),
        "InvalidArgument, dataset temp: slice: expected a label of the axis, found \"L9\""
    );
    let small = temp.slice(&Slice::all(), &Memory::from_bytes(7)).await.unwrap_err();
    assert_eq!(small.class(), Class::LimitExceeded);
    assert!(small.to_string().contains("expected at most 7"), "{small}");
    assert_eq!(file.tensor("none").unwrap_err().class(), Class::NotFound);
}

#[tokio::test]
async fn a_remote_slice_fetches_only_its_runs() {
    let tensor = NewTensor::new("big", TensorDtype::U8, &[1000, 1000], &[100, 1000]).unwrap();
    let mut writer =
        TetWriter::new(Cursor::new(Vec::new()), vec![tensor], Default::default()).unwrap();
    let elements: Vec<u8> = (0..1_000_000_u32).map(|n| (n % 253) as u8).collect();
    writer.put_tensor(&elements).unwrap();
    let bytes = writer.finish(None).unwrap().into_inner();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("big.tet");
    fs::write(&path, &bytes).unwrap();
    let file = TensorFile::open(path.to_str().unwrap(), &OpenOptions::default()).await.unwrap();
    let before = file.bytes().io_stats().bytes_read;
    let part: Slice = "150:152,10:20".parse().unwrap();
    let part = file.tensor("big").unwrap().slice(&part, &memory()).await.unwrap();
    assert_eq!(part.bytes()[..10], elements[150_010..150_020]);
    assert_eq!(part.bytes()[10..], elements[151_010..151_020]);
    let read = file.bytes().io_stats().bytes_read - before;
    assert!(read < 5000, "{read}");
}

#[test]
fn a_chunk_with_a_false_length_takes_no_memory() {
    let bytes = fs::read(testdata("tet/reject/26_zstd_bomb_256mib.tet")).unwrap();
    assert!(bytes.len() < 100_000);
    let file = TensorFile::from_bytes(bytes.into()).unwrap();
    let tensor = file.tensors().next().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let (slice, memory) = (Slice::all(), memory());
    let error = runtime.block_on(tensor.slice(&slice, &memory)).unwrap_err();
    assert_eq!(error.class(), Class::CountMismatch, "{error}");
}

#[test]
fn calls_out_of_order_are_refused() {
    let single_tensor = || vec![NewTensor::new("a", TensorDtype::U16, &[3], &[2]).unwrap()];
    let begin =
        || TetWriter::new(Cursor::new(Vec::new()), single_tensor(), Default::default()).unwrap();
    check_refused(begin().put_chunk(b"abc"), "dataset a: bytes of a chunk: expected 4, found 3");
    check_refused(begin().put_tensor(b"abc"), "bytes of a tensor: expected 6, found 3");
    check_refused(begin().write(b"a"), "bytes of a chunk: expected at most 0, found 1");
    let mut open = begin();
    open.begin_chunk().unwrap();
    let message = "bytes left of a chunk: expected all bytes of a chunk, found 4";
    check_refused(open.put_chunk(b"abcd"), message);
    let mut full_writer = begin();
    full_writer.put_tensor(b"abcdef").unwrap();
    let message = "chunk: expected no more chunks, found \"one more\"";
    check_refused(full_writer.put_chunk(b""), message);
    assert!(begin().finish(None).is_err());
    assert!(NewTensor::new("a", TensorDtype::U16, &[3], &[2, 2]).is_err());
}

#[tokio::test]
async fn appending_makes_a_new_file() {
    let old =
        TensorFile::from_bytes(fs::read(testdata("tet/zstd_f64_3d.tet")).unwrap().into()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("new.tet");
    let mut new = AtomicTensorFile::create(&path, false).unwrap();
    let tensors = vec![NewTensor::new("more", TensorDtype::U8, &[4], &[4]).unwrap()];
    let mut writer = TetWriter::append_to(new.file(), &old, tensors).await.unwrap();
    writer.put_tensor(b"more").unwrap();
    let mut metadata = Metadata::default();
    let mut tensor_about = TensorAbout::default();
    tensor_about.set_labels("0", ["m", "o", "r", "e"]);
    metadata.datasets.insert("more".to_owned(), tensor_about);
    writer.finish(Some(&metadata)).unwrap();
    new.publish().unwrap();

    let file = TensorFile::open(path.to_str().unwrap(), &OpenOptions::default()).await.unwrap();
    assert!(file.verify(true, &memory()).await.unwrap().iter().all(|f| f.weight == Weight::Note));
    for tensor in old.tensors() {
        let before = tensor.slice(&Slice::all(), &memory()).await.unwrap();
        let after = file.tensor(tensor.name()).unwrap();
        assert_eq!(after.slice(&Slice::all(), &memory()).await.unwrap(), before);
    }
    let tail =
        file.tensor("more").unwrap().slice(&"@r:".parse().unwrap(), &memory()).await.unwrap();
    assert_eq!(tail.bytes(), &b"re"[..]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Written data is read back and sliced like the array, for all ways to store chunks.
    #[test]
    fn written_tensors_are_read_back(
        axes in prop::collection::vec((1_u64..7, 1_u64..5, 1_u64..4, any::<(u64, u64)>()), 1..5),
        element_index in 0_usize..3,
        level in 0_usize..2,
        seed: u8,
    ) {
        let element = [TensorDtype::U8, TensorDtype::I16, TensorDtype::F64][element_index];
        let compression = [Compression::None, Compression::Zstd(3)][level];
        let shape: Vec<u64> = axes.iter().map(|a| a.0).collect();
        let chunk: Vec<u64> = axes.iter().map(|a| a.1).collect();
        let count = shape.iter().product::<u64>() * element.size();
        let elements: Vec<u8> = (0..count).map(|n| (n / 7) as u8 ^ seed).collect();
        let tensor = NewTensor::new("t", element, &shape, &chunk).unwrap();
        let tensor = tensor.with_compression(compression);
        let mut writer =
            TetWriter::new(Cursor::new(Vec::new()), vec![tensor], Default::default()).unwrap();
        writer.put_tensor(&elements).unwrap();
        let bytes = writer.finish(None).unwrap().into_inner();
        prop_assert!(zvf_tet::TetView::parse_strict(&bytes).is_ok());

        let file = TensorFile::from_bytes(bytes.clone().into()).unwrap();
        let cuts: Vec<Cut> = axes.iter().map(|(extent, _, step, (a, b))| {
            let start = a % extent;
            let stop = start + 1 + b % (extent - start);
            Cut { start: Some(Bound::Index(start)), stop: Some(Bound::Index(stop)), step: Some(*step) }
        }).collect();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (tensor, memory) = (file.tensor("t").unwrap(), memory());
        let read = |slice: &Slice| runtime.block_on(tensor.slice(slice, &memory)).unwrap();
        let all = read(&Slice::all());
        prop_assert_eq!(all.bytes(), &elements);
        let slice = Slice::new(cuts.clone());
        prop_assert_eq!(read(&slice).bytes().to_vec(), naive(&elements, &shape, &cuts, element.size()));
        let _file: RangedFile = file.bytes().clone();
    }
}

fn naive(elements: &[u8], shape: &[u64], selection: &[Cut], size: u64) -> Vec<u8> {
    let mut places = vec![0_u64];
    for (axis, extent) in selection.iter().zip(shape) {
        let (Some(Bound::Index(start)), Some(Bound::Index(stop))) = (&axis.start, &axis.stop)
        else {
            unreachable!()
        };
        let indices: Vec<u64> = (*start..*stop).step_by(axis.step.unwrap() as usize).collect();
        places = places.iter().flat_map(|n| indices.iter().map(move |i| n * extent + i)).collect();
    }
    places.iter().flat_map(|n| elements[(n * size) as usize..][..size as usize].to_vec()).collect()
}

#[tokio::test]
async fn false_zone_maps_are_reported() {
    for (name, dataset, at) in
        [("cli_zarr3.tet", "grp/a", 3), ("cli_npy_f64.tet", "data", 7), ("session_meta.tet", "", 3)]
    {
        let bytes = fs::read(testdata("tet").join(name)).unwrap();
        let intact = TensorFile::from_bytes(bytes.clone().into()).unwrap();
        assert!(intact.verify(true, &memory()).await.unwrap().iter().all(|f| f.rule != "Z1"));
        let tensor =
            intact.tensor(dataset).or_else(|_| Ok::<_, ()>(intact.tensors().next().unwrap()));
        let tensor = tensor.unwrap();
        let row = *intact.container().view().unwrap().index().rows().first().unwrap();
        assert_eq!(row.dataset_id(), u64::from(tensor.id()));
        // The first element becomes far larger than the map states.
        let mut broken = bytes.clone();
        let place = row.payload_offset() as usize + at;
        broken[place] = if at == 7 { 0x7f } else { 0x7e };
        let file = TensorFile::from_bytes(broken.into()).unwrap();
        assert!(file.verify(false, &memory()).await.unwrap().iter().all(|f| f.rule != "Z1"));
        let faults = file.verify(true, &memory()).await.unwrap();
        let reported: Vec<_> = faults.iter().filter(|fault| fault.rule == "Z1").collect();
        assert_eq!((reported.len(), reported[0].weight), (1, Weight::Error), "{name} {faults:?}");
        let text = reported[0].error.to_string();
        assert!(text.contains("le: expected the "), "{text}");
        // Reads return the actual elements.
        let element = file.tensors().next().unwrap().element().unwrap();
        assert!(matches!(element, TensorDtype::F32 | TensorDtype::F64));
    }
}

#[tokio::test]
async fn a_tensor_without_elements_reads_as_empty() {
    let path = testdata("tet/reject/64_empty_dataset_no_rows.tet");
    for file in open_all_ways(&path).await {
        let (empty, all) = (file.tensor("empty").unwrap(), Slice::all());
        let read = empty.slice(&all, &memory()).await.unwrap();
        assert_eq!((read.shape(), read.bytes().len()), (empty.shape(), 0));
        assert!(empty.dense_view(&all).unwrap().is_none());
        assert!(empty.strided_view(&all).unwrap().is_none());
        assert!(empty.byte_stream(&all).unwrap().is_none());
        assert!(empty.touched_chunks(&all).unwrap().is_empty());
        assert_eq!(
            empty.dense_view(&":,:".parse().unwrap()).unwrap_err().class(),
            Class::InvalidArgument
        );
    }
}
