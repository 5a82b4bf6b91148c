//! All writers of local files, each as one call that uses a [`Disk`] of the test.
//!
//! ```text
//! create, pyramid, recompress, migrate, unpack    a store, new or in place of one
//! pack                                            a file
//! repair                                          documents of a store, one by one
//! ```

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use archives::Unpacked;
use bytes::Bytes;
use zvf_format::grid::ChunkShape;
use zvf_metadata::{Axis, Dtype};
use zvf_model::{Batch, Column, Kind};
use zvf_publish::{AtomicFile, CommitGate, Disk, FileOptions};
use zvf_store::{Arrange, Build, BuildOptions, CodecPipeline, OpenOptions, Rearrangement, Store};
use zvf_write::{Schema, WriteOptions, Writer};

/// The files of the target by their path, or one file with an empty path; `None` where nothing exists.
pub(crate) type Tree = Option<BTreeMap<PathBuf, Bytes>>;

/// The name of the target.
pub(crate) const NAME: &str = "a.zv";

/// A writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Task {
    Create,
    CreateOver,
    Pyramid,
    Recompress,
    Migrate,
    Unpack,
    Pack,
    PackOver,
    Repair,
}

impl Task {
    pub(crate) const ALL: [Self; 9] = [
        Self::Create,
        Self::CreateOver,
        Self::Pyramid,
        Self::Recompress,
        Self::Migrate,
        Self::Unpack,
        Self::Pack,
        Self::PackOver,
        Self::Repair,
    ];

    /// Creates the initial files of the task.
    pub(crate) async fn prepare(self, target: &Path) -> anyhow::Result<()> {
        match self {
            Self::Create | Self::Migrate | Self::Unpack | Self::Pack => {}
            Self::CreateOver => create_store(target, 7, &Disk::default()).await?,
            Self::PackOver => std::fs::write(target, b"an older pack")?,
            Self::Pyramid | Self::Recompress | Self::Repair => {
                let mut files = archives::files("pc3_basic");
                for (name, bytes) in &mut files {
                    *bytes = damage_count(self, name, std::mem::take(bytes));
                }
                archives::write(target, &files);
            }
        }
        Ok(())
    }

    /// Runs the task, with every call going through `disk`.
    pub(crate) async fn perform(self, target: &Path, disk: &Disk) -> anyhow::Result<()> {
        let address = target.to_str().unwrap_or_default();
        let options =
            |replace| BuildOptions { replace, disk: disk.clone(), ..BuildOptions::default() };
        let open = || Store::open(address, OpenOptions::default());
        match self {
            Self::Create | Self::CreateOver => create_store(target, 11, disk).await?,
            Self::Pyramid => {
                let levels = zvf_pyramid::Options { levels: Some(2), ..Default::default() };
                zvf_pyramid::build(address, &levels, &options(true), |_| ()).await?;
            }
            Self::Recompress => {
                let plan =
                    Rearrangement { shards: Arrange::Keep, codecs: Some(CodecPipeline::zstd(1)) };
                let store = open().await?;
                plan.apply(&store, Build::begin(address, options(true)).await?, |_| ()).await?;
            }
            Self::Migrate => {
                let old = Unpacked::new("v070_gr3");
                let plan = zvf_migrate::Plan::build(&old.open().await).await?;
                let build = Build::begin(address, options(false)).await?;
                plan.apply(&zvf_migrate::Migration::default(), build, |_| ()).await?;
            }
            Self::Unpack => {
                let old = Unpacked::new("pc3_basic");
                let build = Build::begin(address, options(false)).await?;
                zvf_tensor::unpack(&old.open().await, build, |_| ()).await?;
            }
            Self::Pack | Self::PackOver => {
                let replace = self == Self::PackOver;
                let file = FileOptions { replace, ..FileOptions::default() };
                let file = AtomicFile::create(disk, target, file)?;
                let (old, options) =
                    (Unpacked::new("pc3_basic"), zvf_tensor::PackOptions::default());
                let (mut file, _) =
                    zvf_tensor::pack(&old.open().await, file, &options, |_| ()).await?;
                file.flush()?;
                file.publish()?;
            }
            Self::Repair => {
                let plan = zvf_repair::plan(&open().await?, NAME, false).await?;
                ensure!(!plan.is_empty(), "nothing to repair");
                zvf_repair::apply_local_on(disk, target, &plan, &CommitGate::default())?;
            }
        }
        Ok(())
    }
}

/// Returns the target: the files of a folder, or one file.
pub(crate) fn read_target(target: &Path) -> anyhow::Result<Tree> {
    if target.is_file() {
        let bytes = std::fs::read(target)?.into();
        return Ok(Some(BTreeMap::from([(PathBuf::new(), bytes)])));
    }
    if !target.exists() {
        return Ok(None);
    }
    let files = archives::tree(target).into_iter();
    Ok(Some(files.map(|(path, bytes)| (path.into(), bytes.into())).collect()))
}

/// Changes a count to a wrong value, for a repair.
fn damage_count(task: Task, name: &str, bytes: Vec<u8>) -> Vec<u8> {
    if task != Task::Repair || name != "0/zarr.json" {
        return bytes;
    }
    let mut document: serde_json::Value = serde_json::from_slice(&bytes).unwrap_or_default();
    document["attributes"]["zarr_vectors_level"]["vertex_count"] = 7.into();
    document.to_string().into_bytes()
}

/// Creates a store of `count` points.
async fn create_store(target: &Path, count: u8, disk: &Disk) -> anyhow::Result<()> {
    let shape = ChunkShape::new(&[2.0; 2])?;
    let axes = Axis::spatial(2).context("two axes")?;
    let schema = Schema::new(Kind::PointCloud, axes, shape)?;
    let build = BuildOptions { replace: true, disk: disk.clone(), ..BuildOptions::default() };
    let options = WriteOptions { build, ..WriteOptions::default() };
    let mut writer = Writer::create(target.to_str().unwrap_or_default(), schema, options).await?;
    let at = (0..count).flat_map(|i| [f32::from(i), f32::from(i % 3)]).flat_map(f32::to_le_bytes);
    let positions = Column::new(Dtype::FLOAT32, 2, at.collect::<Vec<u8>>().into())?;
    writer.push(&Batch::new(Kind::PointCloud, positions))?;
    writer.finish().await?;
    Ok(())
}
