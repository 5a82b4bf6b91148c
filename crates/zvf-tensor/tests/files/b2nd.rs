//! Caterva and B2ND arrays of other writers, opened in every way.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use object_store::ObjectStoreExt as _;
use object_store::memory::InMemory;
use zvf_format::Class;
use zvf_store::{OpenOptions, RangedFile};
use zvf_tensor::{BlockArray, Memory, Slice};

use super::{json, memory, numbers, testdata};

/// Opens the array by path, as an object, and a single file also in memory and inside a larger
/// file.
async fn open_all_ways(path: &Path) -> Vec<BlockArray> {
    let options = OpenOptions::default();
    let store = Arc::new(InMemory::new());
    let mut arrays = vec![BlockArray::open(path.to_str().unwrap(), &options).await.unwrap()];
    if path.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            let entry = entry.unwrap();
            let name = format!("a/b/{}", entry.file_name().to_str().unwrap());
            store.put(&name.into(), fs::read(entry.path()).unwrap().into()).await.unwrap();
        }
    } else {
        let bytes = fs::read(path).unwrap();
        store.put(&"a/b".into(), bytes.clone().into()).await.unwrap();
        let memory = RangedFile::from_bytes(bytes.clone().into());
        arrays.push(BlockArray::from_file(memory).await.unwrap());
        let larger = [b"front".as_slice(), &bytes, b"and more"].concat();
        let larger = RangedFile::from_bytes(larger.into());
        arrays.push(BlockArray::open_embedded(larger, 5).await.unwrap());
    }
    arrays.push(BlockArray::from_object_store(store, &"a/b".into(), &options).await.unwrap());
    arrays
}

#[tokio::test]
async fn an_array_is_the_same_however_it_is_opened() {
    for expected in json("caterva/manifest.json")["arrays"].as_array().unwrap() {
        let name = expected["name"].as_str().unwrap();
        let path = testdata("caterva").join(expected["path"].as_str().unwrap());
        let bounds = expected["slices"].as_array().unwrap().iter();
        let bounds = bounds.map(|slice| (numbers(&slice["start"]), numbers(&slice["stop"])));
        let slices = bounds.map(|(start, stop)| Slice::from_bounds(&start, &stop));
        let slices: Vec<Slice> = slices.chain([Slice::all()]).collect();
        let arrays = open_all_ways(&path).await;
        for array in &arrays {
            for slice in &slices {
                let part = array.slice(slice, &memory()).await.unwrap();
                let first = arrays[0].slice(slice, &memory()).await.unwrap();
                assert_eq!(part, first, "{name} {slice:?}");
            }
            assert_eq!(array.dtype(), arrays[0].dtype(), "{name}");
            assert_eq!(expected["itemsize"], array.item_size(), "{name}");
            for (key, content) in expected["vlmetalayers"].as_object().unwrap() {
                let found = array.user_metadata(1 << 20).await.unwrap();
                let found = found.iter().find(|(name, _)| name == key.as_bytes()).unwrap();
                let hex: String = found.1.iter().map(|byte| format!("{byte:02x}")).collect();
                assert_eq!(content["decoded_hex"], hex, "{name} {key}");
            }
            let other_metalayers = expected["other_metalayers"].as_object().unwrap();
            assert_eq!(array.metalayers().unwrap().len(), other_metalayers.len(), "{name}");
        }
    }
}

#[tokio::test]
async fn a_remote_slice_fetches_only_its_blocks() {
    let path = testdata("caterva/frames/b2_seed_2d_i4.b2nd");
    let array = BlockArray::open(path.to_str().unwrap(), &OpenOptions::default()).await.unwrap();
    let stepped = array.slice(&"1:7:2,1:4".parse().unwrap(), &memory()).await.unwrap();
    let items: Vec<i32> =
        stepped.bytes().as_chunks().0.iter().map(|b| i32::from_le_bytes(*b)).collect();
    assert_eq!((stepped.shape(), items), (&[3, 3][..], vec![6, 7, 8, 16, 17, 18, 26, 27, 28]));
    let empty = array.slice(&Slice::from_bounds(&[3, 2], &[3, 5]), &memory()).await.unwrap();
    assert_eq!((empty.shape(), empty.bytes().len()), (&[0, 3][..], 0));
    let large = array.slice(&Slice::all(), &Memory::from_bytes(139)).await.unwrap_err();
    assert_eq!(large.class(), Class::LimitExceeded);
    assert_eq!(large.to_string().lines().count(), 1);
    let outside = array.slice(&"0:8,:".parse().unwrap(), &memory()).await.unwrap_err();
    assert_eq!(outside.class(), Class::InvalidArgument);
    let missing = BlockArray::open("/nowhere/a.b2nd", &OpenOptions::default()).await.unwrap_err();
    assert_eq!(missing.class(), Class::NotFound);
}
