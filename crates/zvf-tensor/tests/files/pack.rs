//! Every archived store is packed, queried and unpacked.

use std::io::Cursor;
use std::sync::Arc;

use archives::Unpacked as Archived;
use object_store::ObjectStoreExt as _;
use object_store::memory::InMemory;
use zvf_store::{Build, BuildOptions, OpenOptions, RangedFile, Store};
use zvf_tensor::{Compression, PackOptions, TensorFile, Weight, pack, unpack};

use super::contents::contents;

async fn packed(store: &Store, options: &PackOptions) -> Vec<u8> {
    let cursor = Cursor::new(Vec::new());
    let (cursor, _) = pack(store, cursor, options, |_| ()).await.unwrap();
    cursor.into_inner()
}

async fn opened(bytes: &[u8]) -> Store {
    let file = RangedFile::from_bytes(bytes.to_vec().into());
    Store::open_pack(file, OpenOptions::default()).await.unwrap()
}

/// Asserts that two stores have the same contents: documents byte for byte, arrays by value.
async fn assert_same(id: &str, left: &Store, right: &Store) {
    let (documents, right_documents) =
        (left.nodes().documents().await.unwrap(), right.nodes().documents().await.unwrap());
    assert_eq!(documents.len(), right_documents.len(), "{id}");
    for ((key, text), (other_key, other_text)) in documents.iter().zip(&right_documents) {
        assert_eq!(key, other_key, "{id}");
        assert_eq!(text.trim_ascii(), other_text.trim_ascii(), "{id} {key}");
    }
    assert!(contents(left).await == contents(right).await, "{id}");
}

#[tokio::test]
async fn every_archived_store_is_unpacked() {
    for (n, id) in archives::ids().into_iter().enumerate() {
        let archived = Archived::new(&id);
        let store = archived.open().await;
        let options = match n % 2 {
            0 => PackOptions::default(),
            _ => PackOptions::default().with_compression(Compression::Zstd(3)),
        };
        let bytes = packed(&store, &options).await;
        let file = TensorFile::from_bytes(bytes.clone().into()).unwrap();
        let faults = file.verify(true, &super::memory()).await.unwrap();
        assert!(faults.iter().all(|f| f.weight == Weight::Note), "{id}: {faults:?}");

        let pack = opened(&bytes).await;
        assert_same(&id, &store, &pack).await;
        let dir = archives::scratch();
        let address = dir.path().join("again").to_str().unwrap().to_owned();
        let build = Build::begin(&address, BuildOptions { sync: false, ..Default::default() });
        unpack(&pack, build.await.unwrap(), |_| ()).await.unwrap_or_else(|e| panic!("{id}: {e}"));
        let unpacked = Store::open(&address, OpenOptions::default()).await.unwrap();
        assert_same(&id, &store, &unpacked).await;
    }
}

#[tokio::test]
async fn packing_is_deterministic() {
    let archived = Archived::new("pc3_objects");
    let store = archived.open().await;
    let options = PackOptions::default();
    assert_eq!(packed(&store, &options).await, packed(&store, &options).await);
}

#[tokio::test]
async fn packs_are_read_by_range_and_by_name() {
    let archived = Archived::new("pc3_objects");
    let store = archived.open().await;
    let bytes = packed(&store, &PackOptions::default()).await;
    let memory = Arc::new(InMemory::new());
    memory.put(&"x/scan.tet".into(), bytes.clone().into()).await.unwrap();
    let options = OpenOptions::default();
    let remote =
        Store::from_object_store(memory, &"x/scan.tet".into(), options.clone()).await.unwrap();
    assert_same("far", &store, &remote).await;

    let dir = archives::scratch();
    let path = dir.path().join("scan.tet");
    std::fs::write(&path, &bytes).unwrap();
    let local = Store::open(path.to_str().unwrap(), options.clone()).await.unwrap();
    assert_same("near", &store, &local).await;
    assert_eq!(Store::pack_at(path.to_str().unwrap()), Some(path.clone()));
    assert_eq!(Store::pack_at(dir.path().to_str().unwrap()), None);
    let level = local.level(0).await.unwrap();
    let cells = level.required_cells("vertices").await.unwrap();
    let keys: Vec<_> = cells.presence().await.unwrap().iter().collect();
    for (key, size) in keys.iter().zip(cells.sizes(&keys).await) {
        let cell = cells.read_raw(key).await.unwrap().unwrap();
        assert_eq!(size.unwrap(), Some(cell.len() as u64));
        let reads = [(*key, vec![4..8, 0..4])];
        let parts = cells.read_parts(&reads).await.remove(0).unwrap().unwrap();
        assert_eq!(parts, [cell.slice(4..8), cell.slice(0..4)]);
    }
    #[cfg(all(unix, feature = "map"))]
    {
        for readonly in [false, true] {
            let mut permissions = std::fs::metadata(&path).unwrap().permissions();
            permissions.set_readonly(readonly);
            std::fs::set_permissions(&path, permissions).unwrap();
            let opened = Store::open_mapped_if_immutable(&path, options.clone()).await.unwrap();
            assert_same("read or mapped", &store, &opened).await;
            opened.check_maps().unwrap();
        }
    }
}

#[tokio::test]
async fn invalid_packs_are_refused() {
    let bytes = std::fs::read(
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/tet/empty.tet"),
    );
    let file = RangedFile::from_bytes(bytes.unwrap().into());
    let error = Store::open_pack(file, OpenOptions::default()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "BadTag in pack, documents at byte 0: expected a dataset zvf/store.json, found a file that is no pack"
    );
}
