//! Stores of every kind as precomputed objects, decoded again and compared with the answers of the
//! reader.

#![cfg(feature = "store")]

use std::collections::BTreeMap;

use serde_json::Value as Json;
use zvf_model::{Kind, LevelId};
use zvf_precomputed::{LayerForm, Precomputed};
use zvf_query::{Columns, Query, Reader};

const STORES: [&str; 19] = [
    "pc3_basic",
    "pc3_attr_dtypes",
    "pc3_pyramid_explicit",
    "pc3_by_attribute",
    "pc3_negative_aniso",
    "pc3_f64_large",
    "pc3_sharded",
    "pc2_bins",
    "pc4_basic",
    "ln3_basic",
    "pl2_negative",
    "sl3_pyramid",
    "sl3_vector_attr",
    "gr3_pyramid",
    "sk3_trees",
    "ms3_pyramid",
    "ms3_quad",
    "ms2_tri",
    "composite",
];

/// A store, and its precomputed objects.
struct ServedStore {
    _files: archives::Unpacked,
    reader: Reader,
    served: Precomputed,
}

impl ServedStore {
    async fn open(id: &str) -> Self {
        let files = archives::Unpacked::new(id);
        let reader = Reader::new(files.open().await);
        Self { _files: files, served: Precomputed::new(reader.clone()), reader }
    }

    /// Sets other limits.
    fn with(mut self, limit: fn(Precomputed) -> Precomputed) -> Self {
        self.served = limit(Precomputed::new(self.reader.clone()));
        self
    }

    async fn get(&self, layer: &str, key: &str) -> Option<Vec<u8>> {
        let key: Vec<&str> = key.split('/').collect();
        self.served.object(layer, &key).await.unwrap().map(|bytes| bytes.to_vec())
    }

    async fn info(&self, layer: &str, key: &str) -> Json {
        serde_json::from_slice(&self.get(layer, key).await.unwrap()).unwrap()
    }
}

fn u32_at(bytes: &[u8], at: usize) -> usize {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

#[tokio::test]
async fn every_kind_of_store_is_served_completely() {
    let mut counts = BTreeMap::new();
    for id in STORES {
        let store = ServedStore::open(id).await;
        for layer in store.served.layers().await.unwrap() {
            let count = match layer.form {
                LayerForm::Annotations if layer.kind == Kind::PointCloud => {
                    check_points(id, &store).await
                }
                LayerForm::Annotations => check_chains(id, &store, &layer.name, layer.kind).await,
                LayerForm::Skeletons => check_skeletons(id, &store, &layer.name, layer.kind).await,
                LayerForm::Meshes => check_meshes(id, &store).await,
                other => panic!("{id}: {other:?} is no usual folder"),
            };
            assert!(count > 0, "{id}: nothing in {}", layer.name);
            *counts.entry(layer.kind.token()).or_insert(0) += count;
            assert!(store.get(&layer.name, "nothing").await.is_none(), "{id}");
            assert!(store.get(&format!("{}@99", layer.name), "info").await.is_none(), "{id}");
        }
        let layers = store.served.layers().await.unwrap();
        assert!(layers.len() < 8);
        let volume = store.served.object("info", &[]).await.unwrap();
        let has_segments = layers.iter().any(|layer| layer.form != LayerForm::Annotations);
        assert_eq!(volume.is_some(), has_segments, "{id}");
        if let Some(volume) = volume {
            let volume: Json = serde_json::from_slice(&volume).unwrap();
            for name in ["mesh", "skeletons"] {
                let folder = volume[name].as_str();
                let exists = |folder| layers.iter().any(|layer| layer.name == folder);
                assert!(folder.is_none_or(exists), "{id}: {volume}");
            }
            assert!(volume["scales"][0]["size"][0].as_u64().unwrap() > 0, "{id}: {volume}");
        }
        let view = store.served.view_state("http://localhost/precomputed/x").await.unwrap();
        assert!(!view["layers"].as_array().unwrap().is_empty(), "{id}");
    }
    assert!(counts.len() >= 6, "{counts:?}");
}

#[tokio::test]
async fn large_cells_are_split() {
    for id in ["pc3_basic", "pc3_pyramid_explicit", "pc3_negative_aniso", "pc4_basic"] {
        let large = ServedStore::open(id).await;
        let small = ServedStore::open(id).await.with(|served| served.with_max_cell_rows(4));
        assert_eq!(check_points(id, &large).await, check_points(id, &small).await, "{id}");
        let last = |info: Json| info["spatial"].as_array().unwrap().last().unwrap().clone();
        let [large, small] = [&large, &small].map(|store| store.info("point_cloud", "info"));
        let (large, small) = (last(large.await), last(small.await));
        assert!(
            numbers(&small["grid_shape"])[0] > numbers(&large["grid_shape"])[0],
            "{id}: {small}"
        );
        assert!(
            small["limit"].as_u64().unwrap() <= large["limit"].as_u64().unwrap(),
            "{id}: {small}"
        );
    }
    let lines = ServedStore::open("ln3_basic").await.with(|served| served.with_max_cell_rows(4));
    assert!(check_chains("ln3_basic", &lines, "line", Kind::Line).await > 0);
}

#[tokio::test]
async fn a_row_in_no_fragment_is_no_point() {
    let scratch = archives::scratch();
    let path = scratch.path().join("three.zarrvectors");
    let three = concat!(env!("CARGO_MANIFEST_DIR"), "/../zvf-store/testdata/three.zarrvectors");
    archives::copy(three.as_ref(), &path).unwrap();
    // The index of a chunk with one row, which names none.
    let index = zvf_format::fragment::FragmentIndexBuilder::new().encode();
    let length = u32::try_from(index.len()).unwrap().to_le_bytes();
    let cell = [&1_u32.to_le_bytes(), &length, &index[..]].concat();
    std::fs::write(path.join("0/vertex_fragments/c/1/0"), cell).unwrap();
    let store = zvf_store::Store::open(path.to_str().unwrap(), Default::default()).await.unwrap();
    let reader = Reader::new(store);
    let served = Precomputed::new(reader.clone());
    assert_eq!(reader.count(&Query::all()).await.unwrap().vertices, 2);
    let info = served.object("point_cloud", &["info"]).await.unwrap().unwrap();
    let info: Json = serde_json::from_slice(&info).unwrap();
    let (mut listed, mut asked) = (0, 0);
    let shape = numbers(&info["spatial"][0]["grid_shape"]).into_iter().map(|n| n as u64);
    for cell in cells(&shape.collect::<Vec<u64>>()) {
        let list = served.object("point_cloud", &["spatial0", &cell]).await.unwrap();
        listed += list.map_or(0, |list| split_list(&list).len());
    }
    for chunk in 0..3_u64 {
        let id = (chunk << 24).to_string();
        let found = served.object("point_cloud", &["by_id", &id]).await.unwrap();
        asked += usize::from(found.is_some());
    }
    assert_eq!((listed, asked), (2, 2));
}

#[tokio::test]
async fn annotations_name_their_objects_and_groups() {
    let mut counts = BTreeMap::new();
    for id in archives::ids() {
        let files = archives::Unpacked::new(&id);
        let served = Precomputed::new(Reader::new(files.open().await));
        for layer in served.layers().await.into_iter().flatten() {
            if layer.form == LayerForm::Annotations {
                let info = served.object(&layer.name, &["info"]).await.unwrap().unwrap();
                let info: Json = serde_json::from_slice(&info).unwrap();
                for relation in info["relationships"].as_array().unwrap() {
                    let name = format!("{} {}", layer.name, relation["id"].as_str().unwrap());
                    *counts.entry(name).or_insert(0) += 1;
                }
            }
        }
    }
    assert!(counts.len() >= 3, "{counts:?}");
}

#[tokio::test]
async fn large_meshes_are_cut_into_an_octree() {
    for id in ["ms3_pyramid", "ms3_quad"] {
        let split = ServedStore::open(id).await.with(|served| served.with_max_whole_faces(0));
        let unsplit = ServedStore::open(id).await;
        let mut fragments = 0;
        for segment in segments(&split, "mesh").await {
            let Some(manifest) = split.get("mesh", &format!("{segment}.index")).await else {
                continue;
            };
            let data = split.get("mesh", &segment).await.unwrap();
            let lods = u32_at(&manifest, 24);
            let (mut at, mut bytes) = (28 + 20 * lods, 0);
            for lod in 0..lods {
                let count = u32_at(&manifest, 28 + 16 * lods + 4 * lod);
                for number in 0..count {
                    let size = u32_at(&manifest, at + 12 * count + 4 * number);
                    if size > 0 {
                        let read = zvf_draco::decode(
                            &data[bytes..bytes + size],
                            &zvf_draco::Caps::default(),
                        );
                        assert!(!read.unwrap().faces.unwrap().is_empty(), "{id} {segment}");
                    }
                    bytes += size;
                }
                at += 16 * count;
                fragments += count;
            }
            assert_eq!((at, bytes), (manifest.len(), data.len()), "{id} {segment}");
        }
        assert!(fragments > segments(&unsplit, "mesh").await.len(), "{id}: {fragments} fragments");
    }
}

/// Splits a list of points into ids and records.
fn split_list(list: &[u8]) -> Vec<(u64, Vec<u8>)> {
    let count = u64_at(list, 0) as usize;
    let bytes = list.len() - 8 - 8 * count;
    assert_eq!(bytes % count, 0, "records of one size");
    let size = bytes / count;
    let ids = &list[8 + bytes..];
    (0..count).map(|at| (u64_at(ids, 8 * at), list[8 + size * at..][..size].to_vec())).collect()
}

/// Checks that an annotation by its id has the record of its cell, followed by the ids of each
/// relationship, whose lists contain it.
async fn check_by_id(id: &str, store: &ServedStore, layer: &str, (number, record): (u64, &[u8])) {
    let found = store.get(layer, &format!("by_id/{number}")).await.unwrap();
    assert_eq!(&found[..record.len()], record, "{id}, {layer} {number}");
    let mut at = record.len();
    for relation in store.info(layer, "info").await["relationships"].as_array().unwrap() {
        let (count, name) = (u32_at(&found, at), relation["key"].as_str().unwrap());
        let ids: Vec<u64> = (0..count).map(|n| u64_at(&found, at + 4 + 8 * n)).collect();
        at += 4 + 8 * count;
        // Lists are long, and all annotations of an object have the same kind, so only every tenth
        // annotation is checked.
        for related in ids.iter().filter(|_| number % 10 == 0) {
            let list = store.get(layer, &format!("{name}/{related}")).await.unwrap();
            let listed = split_list(&list).into_iter().find(|(listed_id, _)| *listed_id == number);
            assert_eq!(listed.unwrap().1, record, "{id}, {layer} {number}, {name} {related}");
        }
    }
    assert_eq!(at, found.len(), "{id}, {layer} {number}");
}

/// Returns all keys of cells of a grid.
fn cells(shape: &[u64]) -> Vec<String> {
    let mut all = vec![String::new()];
    for axis in shape {
        all =
            all.iter().flat_map(|head| (0..*axis).map(move |at| format!("{head}_{at}"))).collect();
    }
    all.iter().map(|name| name.trim_start_matches('_').to_owned()).collect()
}

fn numbers(json: &Json) -> Vec<f64> {
    json.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
}

async fn check_points(id: &str, store: &ServedStore) -> usize {
    let info = store.info("point_cloud", "info").await;
    let rank = info["dimensions"].as_object().unwrap().len();
    let (low, high) = (numbers(&info["lower_bound"]), numbers(&info["upper_bound"]));
    let mut found = BTreeMap::new();
    for (number, grid) in info["spatial"].as_array().unwrap().iter().enumerate() {
        let shape: Vec<u64> = numbers(&grid["grid_shape"]).iter().map(|n| *n as u64).collect();
        let size = numbers(&grid["chunk_size"]);
        for axis in 0..rank {
            let extent = high[axis] - low[axis];
            assert!((size[axis] * shape[axis] as f64 - extent).abs() <= extent * 1e-9, "{id}");
        }
        for cell in cells(&shape) {
            let Some(list) = store.get("point_cloud", &format!("spatial{number}/{cell}")).await
            else {
                continue;
            };
            let at: Vec<f64> = cell.split('_').map(|at| at.parse().unwrap()).collect();
            for (point, record) in split_list(&list) {
                for axis in 0..rank {
                    let x =
                        f64::from(f32::from_le_bytes(record[4 * axis..][..4].try_into().unwrap()));
                    let start = low[axis] + at[axis] * size[axis];
                    let slack = x.abs().max(size[axis]) * 1e-6;
                    assert!(
                        x >= start - slack && x <= start + size[axis] + slack,
                        "{id}: {x} in {cell}"
                    );
                }
                check_by_id(id, store, "point_cloud", (point, &record)).await;
                assert!(found.insert(point, record).is_none(), "{id}: {point} twice");
            }
        }
    }
    let level = store.reader.level(LevelId(0)).await.unwrap();
    let is_additive =
        level.store().level_numbers().len() > 1 && info["spatial"].as_array().unwrap().len() > 1;
    let query = Query::all().of_kind(Kind::PointCloud).columns(Columns::None);
    let all = store.reader.run(&query).await.unwrap().batch;
    if !is_additive {
        assert_eq!(found.len(), all.len(), "{id}");
    }
    // The same positions; their order may differ.
    let place = |record: &Vec<u8>| record[..4 * rank].to_vec();
    let mut expected = BTreeMap::<Vec<u8>, usize>::new();
    for row in 0..all.len() {
        let xs = (0..rank)
            .flat_map(|axis| (all.positions().float(row, axis).unwrap() as f32).to_le_bytes());
        *expected.entry(xs.collect()).or_default() += 1;
    }
    let exact = found.iter().filter(|(point, _)| *point >> 56 == 0);
    let mut places = BTreeMap::<Vec<u8>, usize>::new();
    exact.for_each(|(_, record)| *places.entry(place(record)).or_default() += 1);
    if !is_additive && store.reader.store().root().zarr_vectors.coordinate_offset.is_none() {
        assert_eq!(places, expected, "{id}");
    }
    found.len()
}

async fn check_chains(id: &str, store: &ServedStore, layer: &str, kind: Kind) -> usize {
    let info = store.info(layer, "info").await;
    let shape: Vec<u64> =
        numbers(&info["spatial"][0]["grid_shape"]).iter().map(|n| *n as u64).collect();
    let mut found = BTreeMap::new();
    for cell in cells(&shape) {
        let Some(list) = store.get(layer, &format!("spatial0/{cell}")).await else { continue };
        for (line, record) in split_list(&list) {
            check_by_id(id, store, layer, (line, &record)).await;
            found.insert(line, record);
        }
    }
    let query = Query::all().of_kind(kind).columns(Columns::None);
    let batch = store.reader.run(&query).await.unwrap().batch;
    let objects: std::collections::BTreeSet<u64> =
        batch.parts().objects().iter().map(|object| object.0 as u64).collect();
    assert_eq!(found.into_keys().collect::<std::collections::BTreeSet<_>>(), objects, "{id}");
    objects.len()
}

/// Returns the ids of segments.
async fn segments(store: &ServedStore, layer: &str) -> Vec<String> {
    let info = store.info(layer, "segment_properties/info").await;
    let inline = &info["inline"];
    let ids: Vec<String> = inline["ids"]
        .as_array()
        .unwrap()
        .iter()
        .map(|id| id.as_str().unwrap().to_owned())
        .collect();
    for property in inline["properties"].as_array().unwrap() {
        assert_eq!(property["values"].as_array().unwrap().len(), ids.len(), "{property}");
    }
    ids
}

async fn answer(store: &ServedStore, kind: Kind, id: &str) -> zvf_model::Batch {
    let level = store.reader.level_of_kind(LevelId(0), kind).await.unwrap();
    let query = match level.objects().await.unwrap() {
        Some(_) => Query::all().of_objects([zvf_model::ObjectId(id.parse().unwrap())]),
        None => Query::all(),
    };
    store.reader.run(&query.of_kind(kind)).await.unwrap().batch
}

async fn check_skeletons(id: &str, store: &ServedStore, layer: &str, kind: Kind) -> usize {
    let info = store.info(layer, "info").await;
    let widths: usize = info["vertex_attributes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|attribute| {
            let bytes = match attribute["data_type"].as_str().unwrap() {
                "uint8" | "int8" => 1,
                "uint16" | "int16" => 2,
                _ => 4,
            };
            bytes * attribute["num_components"].as_u64().unwrap() as usize
        })
        .sum();
    let ids = segments(store, layer).await;
    let mut count = 0;
    for segment in &ids {
        let batch = answer(store, kind, segment).await;
        let Some(bytes) = store.get(layer, segment).await else {
            assert!(batch.is_empty(), "{id}: {segment} is not there");
            continue;
        };
        let (vertices, edges) = (u32_at(&bytes, 0), u32_at(&bytes, 4));
        assert_eq!(bytes.len(), 8 + vertices * (12 + widths) + 8 * edges, "{id} {segment}");
        assert_eq!(vertices, batch.len(), "{id} {segment}");
        let expected = batch.elements().map_or_else(
            || batch.parts().iter().map(|part| part.rows.len().saturating_sub(1)).sum(),
            |elements| elements.len(),
        );
        assert_eq!(edges, expected, "{id} {segment}");
        for at in 0..2 * edges {
            assert!(u32_at(&bytes, 8 + 12 * vertices + 4 * at) < vertices, "{id} {segment}");
        }
        count += vertices;
    }
    assert!(store.get(layer, "18446744073709551615").await.is_none(), "{id}");
    count
}

async fn check_meshes(id: &str, store: &ServedStore) -> usize {
    let mut count = 0;
    for segment in segments(store, "mesh").await {
        let batch = answer(store, Kind::Mesh, &segment).await;
        let Some(manifest) = store.get("mesh", &format!("{segment}.index")).await else {
            assert!(batch.is_empty(), "{id}: {segment} is not there");
            continue;
        };
        let data = store.get("mesh", &segment).await.unwrap();
        let lods = u32_at(&manifest, 24);
        let first = 28 + 20 * lods;
        let counts: usize = (0..lods).map(|lod| u32_at(&manifest, 28 + 16 * lods + 4 * lod)).sum();
        let sizes: Vec<usize> =
            (0..counts).map(|at| u32_at(&manifest, first + 16 * at + 12)).collect();
        assert_eq!(manifest.len(), first + 16 * counts, "{id} {segment}");
        assert_eq!(sizes.iter().sum::<usize>(), data.len(), "{id} {segment}");
        let elements = batch.elements().unwrap();
        let Some(size) = sizes.first().copied() else {
            assert!(elements.is_empty(), "{id}: {segment} has faces");
            continue;
        };
        let decoded = zvf_draco::decode(&data[..size], &zvf_draco::Caps::default()).unwrap();
        assert_eq!(
            decoded.faces.unwrap().len(),
            elements.len() * (elements.width() - 2),
            "{id} {segment}"
        );
        assert_eq!(decoded.attributes[0].values.len(), 12 * batch.len(), "{id} {segment}");
        let legacy = store.get("mesh.legacy", &format!("{segment}:0:0")).await.unwrap();
        assert_eq!(u32_at(&legacy, 0), batch.len(), "{id} {segment}");
        count += batch.len();
    }
    count
}
