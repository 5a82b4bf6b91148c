//! All writers of local files, each as one call that uses a [`Disk`] of the test.
//!
//! ```text
//! create, pyramid, recompress, migrate, unpack    a store, new or in place of one
//! pack                                            a file
//! repair                                          documents of a store, one by one
//! ```

use std::path::Path;

use anyhow::ensure;
use archives::Unpacked;
use zvf_publish::{AtomicFile, CommitGate, Disk, FileOptions};
use zvf_store::{Build, BuildOptions};
use zvf_write::{WriteOptions, Writer};

use crate::build;

/// The name of the target.
pub(crate) const NAME: &str = "a.zv";

/// A writer.
#[derive(Clone, Copy, Debug, PartialEq, clap::ValueEnum)]
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
    /// Creates the initial files of the task.
    pub(crate) async fn prepare(self, target: &Path) -> anyhow::Result<()> {
        match self {
            Self::Create | Self::Migrate | Self::Unpack | Self::Pack => {}
            Self::CreateOver => create_store(target, 7, &Disk::default()).await?,
            Self::PackOver => std::fs::write(target, b"an older pack")?,
            Self::Pyramid | Self::Recompress | Self::Repair => {
                let mut files = archives::files("pc3_basic");
                if self == Self::Repair {
                    archives::edit_document(&mut files, "0/zarr.json", |level| {
                        level["attributes"]["zarr_vectors_level"]["vertex_count"] = 7.into();
                    });
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
        let open = || build::open(target);
        match self {
            Self::Create | Self::CreateOver => create_store(target, 11, disk).await?,
            Self::Pyramid => {
                let levels = zvf_pyramid::Options { levels: Some(2), ..Default::default() };
                zvf_pyramid::build(address, &levels, &options(true), |_| ()).await?;
            }
            Self::Recompress => {
                let store = open().await?;
                build::recompress(&store, Build::begin(address, options(true)).await?).await?;
            }
            Self::Migrate => {
                let old = Unpacked::new("v070_gr3");
                let build = Build::begin(address, options(false)).await?;
                build::migrate(&old.open().await, build).await?;
            }
            Self::Unpack => {
                let old = Unpacked::new("pc3_basic");
                let build = Build::begin(address, options(false)).await?;
                zvf_tensor::unpack(&old.open().await, build, |_| ()).await?;
            }
            Self::Pack | Self::PackOver => {
                let replace = self == Self::PackOver;
                let file = FileOptions { replace, ..FileOptions::default() };
                let mut file = AtomicFile::create(disk, target, file)?;
                let (old, options) =
                    (Unpacked::new("pc3_basic"), zvf_tensor::PackOptions::default());
                zvf_tensor::pack(&old.open().await, file.file(), &options, |_| ()).await?;
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

/// Creates a store of `count` points.
async fn create_store(target: &Path, count: u16, disk: &Disk) -> anyhow::Result<()> {
    let build = BuildOptions { replace: true, disk: disk.clone(), ..BuildOptions::default() };
    let options = WriteOptions { build, ..WriteOptions::default() };
    let address = target.to_str().unwrap_or_default();
    let writer = Writer::create(address, build::make_schema()?, options).await?;
    Ok(build::write_points(writer, count).await?)
}
