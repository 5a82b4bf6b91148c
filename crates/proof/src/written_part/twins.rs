//! A store of zarr-vectors, rewritten from the same input.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use object_store::memory::InMemory;
use serde_json::Value as Json;
use zvf_format::grid::ChunkShape;
use zvf_metadata::{Dtype, Node};
use zvf_model::{Batch, Column, Elements, Field, Kind, LevelReader, ObjectId, Parts};
use zvf_store::{Caching, OpenOptions, Store};
use zvf_write::{Schema, WriteOptions, Writer};

use crate::npy;
use crate::report::Report;

/// Writes the store, and compares it cell by cell and manifest by manifest.
pub(super) async fn compare_twin(
    report: &mut Report,
    folder: &Path,
    about: &Json,
) -> anyhow::Result<()> {
    let path = folder.join("store.zarrvectors");
    let theirs = Store::open(&path.to_string_lossy(), OpenOptions::default()).await?;
    let level = LevelReader::open(&theirs, zvf_model::LevelId(0)).await?;
    let kind = level.kinds().first().copied().context("a store of no kind")?;
    let memory: Arc<InMemory> = Arc::default();
    let options = WriteOptions { compat: true, ..WriteOptions::default() };
    let writer =
        Writer::in_object_store(memory.clone(), "twin", copy_schema(&level, kind)?, options);
    let mut writer = writer.await?;
    let batch = read_batch(folder, about, &level, kind)?;
    let finished = tokio::task::spawn_blocking(move || -> anyhow::Result<()> {
        writer.push(&batch)?;
        tokio::runtime::Handle::current().block_on(writer.finish())?;
        Ok(())
    });
    finished.await??;
    let ours = Store::from_object_store(memory, &"twin".into(), OpenOptions::default()).await?;
    for path in list_arrays(&theirs).await? {
        // zarr-vectors stores fragment numbers instead of rows.
        if kind == Kind::Line && path.starts_with("links") {
            report.skip("links of lines: those of the reference name fragments");
            continue;
        }
        let (expected, found) =
            (read_cells(&theirs, &path).await?, read_cells(&ours, &path).await?);
        let keys = |cells: &[(String, Vec<u8>)]| -> Vec<String> {
            cells.iter().map(|(key, _)| key.clone()).collect()
        };
        if keys(&expected) != keys(&found) {
            report.fail(&path, format!("{} cells instead of {}", found.len(), expected.len()));
            continue;
        }
        for ((key, expected), (_, found)) in expected.iter().zip(&found) {
            let why = || format!("{} bytes instead of {}", found.len(), expected.len());
            report.check(&format!("{path}/{key}"), expected == found, why());
        }
    }
    let [expected, found] = [read_manifests(&theirs).await?, read_manifests(&ours).await?];
    if expected.len() == found.len() {
        for (row, (expected, found)) in expected.iter().zip(&found).enumerate() {
            report.check(&format!("manifest {row}"), expected == found, "other bytes");
        }
    } else {
        report.fail("manifests", format!("{} instead of {}", found.len(), expected.len()));
    }
    Ok(())
}

/// Returns the schema of the zarr-vectors store.
fn copy_schema(level: &LevelReader, kind: Kind) -> anyhow::Result<Schema> {
    let root = level.store().root();
    let chunk = ChunkShape::new(&root.zarr_vectors.chunk_shape)?;
    let mut schema = Schema::new(kind, root.axes().to_vec(), chunk)?;
    if let Some(bins) = &root.zarr_vectors.base_bin_shape {
        schema = schema.with_bins(bins)?;
    }
    if let Some((name, values)) = level.bin_attribute() {
        schema = schema.with_bin_attribute(name, values)?;
    }
    Ok(schema)
}

/// Returns the input of zarr-vectors as one batch.
fn read_batch(
    folder: &Path,
    about: &Json,
    level: &LevelReader,
    kind: Kind,
) -> anyhow::Result<Batch> {
    let positions = npy::read_floats(&folder.join("positions.npy"))?;
    let column = column_of_type(&positions.values, level.dtype(), positions.width)?;
    let mut batch = Batch::new(kind, column);
    let columns = about["columns"].as_array().into_iter().flatten().filter_map(Json::as_str);
    let binned = level.bin_attribute().map(|(name, _)| name.to_owned());
    for name in columns.map(str::to_owned).chain(binned) {
        let values = npy::read_floats(&folder.join(format!("{name}.npy")))?.values;
        // This is the name of integers in all stores of the peer.
        let dtype = (if name == "n" { "int32" } else { "float32" }).parse::<Dtype>()?;
        batch = batch.with_field(Field::new(name, column_of_type(&values, dtype, 1)?))?;
    }
    let numbers = |name: &str| {
        let path = folder.join(name);
        path.exists().then(|| npy::read_ints(&path)).transpose()
    };
    if let Some(owners) = numbers("objects.npy")? {
        let owners = owners.values.into_iter().map(|id| Some(ObjectId(id)));
        batch = batch.with_vertex_objects(owners.collect())?;
    }
    if let Some(parts) = numbers("parts.npy")? {
        let offsets: Vec<usize> = parts.values.iter().map(|at| *at as usize).collect();
        let ids = (0..offsets.len() as i64 - 1).map(ObjectId).collect();
        batch = batch.with_parts(Parts::new(offsets, ids)?)?;
    }
    if let Some(ends) = numbers("ends.npy")? {
        let rows = ends.values.iter().map(|at| *at as usize).collect();
        batch = batch.with_elements(Elements::new(ends.width, rows)?)?;
    }
    Ok(batch)
}

/// Returns numbers in the type of the input.
fn column_of_type(values: &[f64], dtype: Dtype, width: usize) -> anyhow::Result<Column> {
    let bytes: Vec<u8> = match dtype.to_string().as_str() {
        "float64" => values.iter().flat_map(|x| x.to_le_bytes()).collect(),
        "float32" => values.iter().flat_map(|x| (*x as f32).to_le_bytes()).collect(),
        "int32" => values.iter().flat_map(|x| (*x as i32).to_le_bytes()).collect(),
        dtype => anyhow::bail!("no numbers of type {dtype} are written"),
    };
    Ok(Column::new(dtype, width as u32, bytes.into())?)
}

/// Returns the arrays over the chunk grid of level 0, without links to other levels: they are not
/// part of the input.
async fn list_arrays(store: &Store) -> anyhow::Result<Vec<String>> {
    let mut arrays = Vec::new();
    for (key, _) in store.nodes().objects("0").await? {
        let Some(path) = key.as_str().strip_suffix("/zarr.json") else { continue };
        let Some(Node::Array(doc)) = store.nodes().node(path).await?.as_deref().cloned() else {
            continue;
        };
        let below = path.strip_prefix("0/").unwrap_or(path);
        let other_level = below.starts_with("links/") && !below.starts_with("links/0/");
        if doc.nonempty_chunks.is_some() && !other_level {
            arrays.push(below.to_owned());
        }
    }
    Ok(arrays)
}

/// Returns the cells of an array, by key.
async fn read_cells(store: &Store, path: &str) -> anyhow::Result<Vec<(String, Vec<u8>)>> {
    let Some(cells) = store.level(0).await?.cells(path).await? else { return Ok(Vec::new()) };
    let keys: Vec<_> = cells.presence().await?.iter().collect();
    let payloads = cells.read_many(&keys, Caching::Once).await;
    let pairs = keys.iter().zip(payloads).map(|(key, payload)| {
        Ok((key.to_string(), payload?.context("a cell that is listed")?.to_vec()))
    });
    pairs.collect()
}

/// Returns the manifests of objects, by row.
async fn read_manifests(store: &Store) -> anyhow::Result<Vec<Vec<u8>>> {
    let rows = store.level(0).await?.rows("object_index/manifests").await?;
    let Some(rows) = rows else { return Ok(Vec::new()) };
    let all = rows.range(0..rows.count().await?).await?;
    Ok(all.into_iter().map(|row| row.to_vec()).collect())
}
