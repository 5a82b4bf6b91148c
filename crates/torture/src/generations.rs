//! Stores that record their generation in every part.
//!
//! Every cell of generation `g` holds a payload derived from `g` and its key, and the root document
//! states `g`. So any store that is read back must be exactly one generation.

use std::ops::Range;

use anyhow::{Context as _, ensure};
use bytes::Bytes;
use zvf_error::{Error, Result};
use zvf_format::key::ChunkKey;
use zvf_metadata::{Axis, Dataset, GroupDoc, Root, ZarrVectors};
use zvf_store::{Build, Caching, CellPlan, CellSink, CodecPipeline, Key, RowPlan, Store};

/// Builds the store of generation `g`, and publishes it.
pub(crate) async fn build(build: Build, g: u64, cells: i64) -> Result<()> {
    for (path, plan) in make_plans(cells) {
        put_cells(&build, path, plan, g, 0..cells)?.finish(|_| ()).await?;
    }
    write_metadata(build, g, cells).await
}

/// Does the work of one of several processes: writes some of the cells, and waits until they are synced.
pub(crate) async fn write_share(build: &Build, g: u64, part: Range<i64>, cells: i64) -> Result<()> {
    for (path, plan) in make_plans(cells) {
        put_cells(build, path, plan, g, part.clone())?.finish_part()?;
    }
    build.flush().await
}

/// Publishes what several processes wrote, if it is complete.
pub(crate) async fn publish_shared(build: Build, g: u64, cells: i64) -> Result<()> {
    if build.is_published().await? {
        return Ok(());
    }
    let keys: Vec<Box<str>> = (0..cells).map(|cell| cell.to_string().into()).collect();
    for (path, plan) in make_plans(cells) {
        let sink = build.cells(path, plan)?;
        let missing = sink.find_missing(&keys).await?;
        if let Some(key) = missing.first() {
            return Err(Error::missing(&Key::root().join(path)?, "the processes that wrote it")
                .at_key(&Key::root().child(key)?));
        }
        sink.record_external(&keys)?;
        sink.finish(|_| ()).await?;
    }
    write_metadata(build, g, cells).await
}

/// Reads the whole of `store` and returns its generation.
pub(crate) async fn read(store: &Store, cells: i64) -> anyhow::Result<u64> {
    let g = store.root().zarr_vectors.reduction_factor.unwrap_or(-1);
    let g = u64::try_from(g).context("no generation in the root")?;
    let level = store.level(0).await?;
    for path in ["vertices", "vertex_attributes/sharded"] {
        let array = level.required_cells(path).await?;
        let present = array.presence().await?.len();
        ensure!(
            present == usize::try_from(cells).unwrap_or(0),
            "generation {g}: {present} of {cells} cells in {path}"
        );
        for cell in 0..cells {
            let key = ChunkKey::new(&[cell])?;
            let found = array.read(&key, Caching::Once).await?;
            ensure!(
                found.as_ref() == Some(&make_payload(g, cell)),
                "generation {g}: cell {cell} of {path} is not of it"
            );
        }
    }
    let rows = level.rows("groups").await?.context("no groups")?;
    let numbers: Vec<u64> = (0..u64::try_from(cells).unwrap_or(0)).collect();
    let found = rows.rows(&numbers).await?;
    let same = found.iter().zip(0..cells).all(|(row, cell)| *row == make_payload(g, cell));
    ensure!(same, "generation {g}: groups are not of it");
    Ok(g)
}

fn put_cells(
    build: &Build,
    path: &str,
    plan: CellPlan,
    g: u64,
    part: Range<i64>,
) -> Result<CellSink> {
    let sink = build.cells(path, plan)?;
    for cell in part {
        sink.put(&ChunkKey::new(&[cell])?, make_payload(g, cell))?;
    }
    Ok(sink)
}

/// Writes everything except the cells, and publishes the store.
async fn write_metadata(build: Build, g: u64, cells: i64) -> Result<()> {
    let level = serde_json::json!({"zarr_vectors_level": {"level": 0, "vertex_count": 0, "arrays_present": ["vertices"]}});
    build.group("0", &GroupDoc::new(level.as_object().cloned().expect("an object"))).await?;
    let mut rows = build.rows("0/groups", RowPlan::default())?;
    for cell in 0..cells {
        rows.push(&make_payload(g, cell))?;
    }
    rows.finish(|_| ()).await?;
    let mut block = ZarrVectors::new(vec![1.0, 1.0], [vec![0.0; 2], vec![1.0; 2]]);
    block.reduction_factor = i64::try_from(g).ok();
    let mut root = Root::new(block, Axis::spatial(2).expect("two axes have names"));
    for scale in &mut root.multiscales {
        scale.datasets.push(Dataset::new("0", vec![1.0; 2], vec![0.5; 2]));
    }
    build.publish(&root).await
}

fn make_plans(cells: i64) -> [(&'static str, CellPlan); 2] {
    let plan = CellPlan::new(vec![0], vec![cells.max(1) - 1]);
    let codecs = CodecPipeline::zstd(0).with_crc32c();
    let sharded = CellPlan { shard: Some(vec![4]), codecs, ..plan.clone() };
    [("0/vertices", plan), ("0/vertex_attributes/sharded", sharded)]
}

/// Returns the payload of cell number `cell`: a length and bytes that differ between generations and cells.
fn make_payload(g: u64, cell: i64) -> Bytes {
    let number = cell.unsigned_abs();
    let len = 8 + usize::try_from((g * 37 + number * 101) % 900).unwrap_or(0);
    let seed = (g << 32 | number).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
    seed.iter().copied().cycle().take(len).collect()
}
