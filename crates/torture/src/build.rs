//! Small stores, and how they are rewritten.

use std::path::Path;

use zvf_error::Result;
use zvf_format::grid::ChunkShape;
use zvf_metadata::{Axis, Dtype};
use zvf_model::{Batch, Column, Kind};
use zvf_store::{Arrange, Build, BuildOptions, CodecPipeline, OpenOptions, Rearrangement, Store};
use zvf_write::{Schema, Writer};

use crate::generations;

/// Rewrites a store with other codecs.
pub(crate) async fn recompress(store: &Store, build: Build) -> Result<()> {
    let codecs = Some(CodecPipeline::zstd(1));
    let plan = Rearrangement { shards: Arrange::Keep, codecs };
    plan.apply(store, build, |_| ()).await.map(drop)
}

/// Migrates a store of an older version.
pub(crate) async fn migrate(store: &Store, build: Build) -> Result<()> {
    let plan = zvf_migrate::MigrationPlan::build(store).await?;
    plan.apply(&zvf_migrate::Migration::default(), build, |_| ()).await.map(drop)
}

pub(crate) fn make_schema() -> Result<Schema> {
    let axes = Axis::spatial(2).unwrap_or_default();
    Schema::new(Kind::PointCloud, axes, ChunkShape::new(&[2.0; 2])?)
}

/// Writes `count` points with a writer of the schema above.
pub(crate) async fn write_points(mut writer: Writer, count: u16) -> Result<()> {
    let at = (0..count).flat_map(|i| [f32::from(i), f32::from(i % 3)]).flat_map(f32::to_le_bytes);
    let positions = Column::new(Dtype::FLOAT32, 2, at.collect::<Vec<u8>>().into())?;
    writer.push(&Batch::new(Kind::PointCloud, positions))?;
    writer.finish().await.map(drop)
}

pub(crate) fn build_options(sync: bool) -> BuildOptions {
    BuildOptions { replace: true, sync, ..BuildOptions::default() }
}

/// Reads the whole store at `path` and returns its generation.
pub(crate) async fn read_generation(path: &Path, cells: i64) -> anyhow::Result<u64> {
    generations::read(&open(path).await?, cells).await
}

pub(crate) async fn open(path: &Path) -> Result<Store> {
    Store::open(&path.to_string_lossy(), OpenOptions::default()).await
}
