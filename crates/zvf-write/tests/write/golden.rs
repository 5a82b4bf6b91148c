//! With `compat`, cells are byte-identical to those that the reference writes correctly.

use std::collections::BTreeMap;

use serde_json::Value as Json;
use zvf_format::grid::ChunkShape;
use zvf_metadata::Dtype;
use zvf_model::{Batch, Categories, Column, Elements, Field, Kind, ObjectId, Parts, Value};
use zvf_store::{Caching, OpenOptions, Store};
use zvf_write::{Schema, WriteOptions};

/// An array of NumPy: its type, its shape, its bytes.
fn npy(bytes: &[u8]) -> (Dtype, Vec<usize>, Vec<u8>) {
    let length = usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    let header = std::str::from_utf8(&bytes[10..10 + length]).unwrap();
    let descr = header.split("'descr': '").nth(1).unwrap().split('\'').next().unwrap();
    let shape = header.split("'shape': (").nth(1).unwrap().split(')').next().unwrap();
    let shape = shape.split(',').filter_map(|n| n.trim().parse().ok()).collect();
    assert!(header.contains("'fortran_order': False"));
    (descr.parse::<Dtype>().unwrap(), shape, bytes[10 + length..].to_vec())
}

fn column(bytes: &[u8]) -> Column {
    let (dtype, shape, bytes) = npy(bytes);
    let width: usize = shape[1..].iter().product();
    Column::new(dtype, width as u32, bytes.into()).unwrap()
}

fn numbers(column: &Column) -> Vec<i64> {
    let places = (0..column.len()).flat_map(|r| (0..column.width() as usize).map(move |c| (r, c)));
    places.map(|(r, c)| column.float(r, c).unwrap() as i64).collect()
}

/// Texts, some of them missing, as codes.
fn texts(name: &str, bytes: &[u8]) -> Field {
    let values: Vec<Option<String>> = serde_json::from_slice(bytes).unwrap();
    let mut distinct: Vec<&String> = values.iter().flatten().collect();
    distinct.sort();
    distinct.dedup();
    let missing = values.iter().any(Option::is_none);
    let dtype = (if missing { "int8" } else { "uint8" }).parse::<Dtype>().unwrap();
    let code = |value: &Option<String>| {
        let code = value.as_ref().and_then(|text| distinct.binary_search(&text).ok());
        code.map_or(0xff, |code| code as u8)
    };
    let codes: Vec<u8> = values.iter().map(code).collect();
    let categories = distinct.iter().map(|text| Value::from(text.as_str())).collect();
    let categories = Categories::new(categories, missing.then_some(-1));
    Field::new(name, Column::new(dtype, 1, codes.into()).unwrap()).with_categories(categories)
}

/// Returns the input of the store `id`, as one batch.
fn batch(id: &str, kind: Kind) -> Batch {
    let inputs: BTreeMap<String, Vec<u8>> = archives::inputs(id).into_iter().collect();
    let positions = inputs.get("positions.npy").or_else(|| inputs.get("polyline_vertices.npy"));
    let mut batch = Batch::new(kind, column(positions.expect("positions")));
    for (file, bytes) in &inputs {
        let Some(name) = file.strip_prefix("attribute_") else { continue };
        let field = match name.split_once('.').unwrap() {
            (name, "npy") => Field::new(name, column(bytes)),
            (name, _) => texts(name, bytes),
        };
        batch = batch.with_field(field).unwrap();
    }
    if let Some(offsets) = inputs.get("polyline_offsets.npy") {
        let mut offsets: Vec<usize> =
            numbers(&column(offsets)).into_iter().map(|n| n as usize).collect();
        if *offsets.last().unwrap() != batch.len() {
            offsets.push(batch.len());
        }
        let ids = (0..).map(ObjectId).take(offsets.len() - 1).collect();
        batch = batch.with_parts(Parts::new(offsets, ids).unwrap()).unwrap();
    }
    if let Some(ids) = inputs.get("object_ids.npy") {
        let ids = numbers(&column(ids)).into_iter().map(|id| Some(ObjectId(id))).collect();
        batch = batch.with_vertex_objects(ids).unwrap();
    }
    if let Some(rows) = inputs.get("edges.npy").or_else(|| inputs.get("faces.npy")) {
        let rows = column(rows);
        let ends = numbers(&rows).into_iter().map(|n| n as usize).collect();
        let mut elements = Elements::new(rows.width() as usize, ends).unwrap();
        for (file, bytes) in &inputs {
            if let Some(name) = file.strip_prefix("link_attribute_") {
                let field = Field::new(name.strip_suffix(".npy").unwrap(), column(bytes));
                elements = elements.with_field(field).unwrap();
            }
        }
        batch = batch.with_elements(elements).unwrap();
    }
    batch
}

/// The cells of an array, by key.
async fn cells(store: &Store, path: &str) -> BTreeMap<String, Vec<u8>> {
    let level = store.level(0).await.unwrap();
    let Some(cells) = level.cells(path).await.unwrap() else { return BTreeMap::new() };
    let keys: Vec<_> = cells.presence().await.unwrap().iter().collect();
    let payloads = cells.read_many(&keys, Caching::Once).await;
    let pairs = keys.iter().zip(payloads);
    pairs.map(|(key, payload)| (key.to_string(), payload.unwrap().unwrap().to_vec())).collect()
}

#[tokio::test]
async fn cells_are_those_of_the_reference() {
    for (id, kind, excluded) in [
        ("pc3_basic", Kind::PointCloud, &[][..]),
        ("pc2_bins", Kind::PointCloud, &[]),
        ("pc3_bins_attrs", Kind::PointCloud, &[]),
        // Numbers are stored in our byte order, not in the caller's.
        ("pc3_attr_dtypes", Kind::PointCloud, &["vertex_attributes/big"]),
        ("pc3_objects", Kind::PointCloud, &[]),
        ("pc3_sparse_ids", Kind::PointCloud, &[]),
        ("pc3_point_objects", Kind::PointCloud, &[]),
        ("pc3_negative_aniso", Kind::PointCloud, &[]),
        ("pc3_boundary", Kind::PointCloud, &[]),
        ("pc3_f64_large", Kind::PointCloud, &[]),
        ("pc3_f16", Kind::PointCloud, &[]),
        ("pc3_int32", Kind::PointCloud, &[]),
        ("pc3_wide_grid", Kind::PointCloud, &[]),
        ("pc4_basic", Kind::PointCloud, &[]),
        ("pl2_negative", Kind::Polyline, &[]),
        ("pl4_f64", Kind::Polyline, &[]),
        ("sl3_streamlines", Kind::Streamline, &[]),
        ("sl3_vector_attr", Kind::Streamline, &[]),
        // The reference stores fragments instead of rows; its input lacks the attributes.
        ("ln3_basic", Kind::Line, &["links", "vertex_attributes"]),
        ("gr3_links", Kind::Graph, &[]),
        ("gr2_f64", Kind::Graph, &[]),
        ("gr3_local_wide", Kind::Graph, &[]),
        ("ms2_tri", Kind::Mesh, &[]),
        ("ms3_tri", Kind::Mesh, &[]),
        ("ms3_quad", Kind::Mesh, &[]),
        ("ms3_random_faces", Kind::Mesh, &[]),
    ] {
        let golden = archives::in_memory(&archives::files(id)).await;
        let golden =
            Store::from_object_store(golden, &"".into(), OpenOptions::default()).await.unwrap();
        let block = &golden.root().zarr_vectors;
        let chunk = ChunkShape::new(&block.chunk_shape).unwrap();
        let mut schema = Schema::new(kind, golden.root().axes().to_vec(), chunk).unwrap();
        if let Some(bins) = &block.base_bin_shape {
            schema = schema.with_bins(bins).unwrap();
        }
        let options = WriteOptions { compat: true, ..WriteOptions::default() };
        let (memory, mut writer) = crate::given::begin_with(schema, options).await;
        writer.push(&batch(id, kind)).unwrap();
        writer.finish().await.unwrap();
        let own_store = crate::given::open(memory).await;
        let mut compared = 0;
        for (path, document) in archives::files(id) {
            let document: Json = match path.strip_suffix("/zarr.json") {
                Some(_) => serde_json::from_slice(&document).unwrap(),
                None => continue,
            };
            let path = path.strip_suffix("/zarr.json").unwrap().strip_prefix("0/").unwrap_or("");
            if document["attributes"]["nonempty_chunks"].is_array()
                && !excluded.iter().any(|prefix| path.starts_with(prefix))
            {
                let (expected, found) = (cells(&golden, path).await, cells(&own_store, path).await);
                assert!(found == expected, "{id}: {path}");
                compared += 1;
            }
        }
        assert!(compared >= 2, "{id}: {compared} arrays");
    }
}
