//! `diskfull`: a disk of every size, from one that holds nothing to one that holds all.
//!
//! Each is a file system in memory of that size. First the old store is built, while there is room for it;
//! then a larger one is to replace it. Either it does, or the answer is `NoSpace`, the old store is whole,
//! and nothing is left beside it. Mounting takes the rights for it.

use std::path::{Path, PathBuf};
use std::process::Command;

use zvf_format::Class;
use zvf_store::{Build, StoreError};

use crate::{Report, build};

/// A disk of every size.
#[derive(Debug, clap::Args)]
pub(crate) struct Diskfull {
    /// The smallest disk, in KiB.
    #[arg(long, default_value_t = 64)]
    from: u64,
    /// The largest disk, in KiB.
    #[arg(long, default_value_t = 8192)]
    to: u64,
    /// From one to the next, in KiB.
    #[arg(long, default_value_t = 64)]
    step: u64,
    /// Edits only.
    #[arg(long)]
    edits: bool,
    /// Repeated in the report; nothing here is random.
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

impl Diskfull {
    pub(crate) fn run(self) -> anyhow::Result<Report> {
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        let mut report = Report { name: "diskfull", seed: self.seed, ..Report::default() };
        let mut size = self.from;
        let (mut full, mut whole) = (0_u64, 0_u64);
        while size <= self.to {
            let disk = Mounted::new(size)?;
            let edited = crate::edits::diskfull::fill(disk.path(), size);
            if let Ok((refused, done)) = edited {
                full += refused;
                whole += done;
            }
            report.count(edited.map(drop));
            if self.edits {
                size += self.step.max(1);
                continue;
            }
            drop(disk);
            let disk = Mounted::new(size)?;
            report.count(runtime.block_on(replaced(disk.path(), size, &mut full, &mut whole)));
            size += self.step.max(1);
        }
        anyhow::ensure!(full > 0 && whole > 0, "all disks too large, or all too small");
        Ok(report)
    }
}

async fn replaced(dir: &Path, size: u64, full: &mut u64, whole: &mut u64) -> Result<(), String> {
    let store = dir.join("a.zv");
    let mut old = None;
    for (g, cells) in [(1, SMALL), (2, LARGE)] {
        let address = store.to_string_lossy().into_owned();
        let built: Result<(), StoreError> = async {
            let begun = Build::begin(&address, build::options(true)).await?;
            build::build(begun, g, cells).await
        }
        .await;
        match built {
            Ok(()) => old = Some((g, cells)),
            Err(error) if error.class() == Class::NoSpace => *full += 1,
            Err(error) => return Err(format!("{size} KiB: {error}")),
        }
        match old {
            None if store.exists() => return Err(format!("{size} KiB: a part of a store")),
            None => {}
            Some((g, cells)) => {
                let found = build::read(&store, cells).await?;
                if found != g {
                    return Err(format!("{size} KiB: generation {found} instead of {g}"));
                }
            }
        }
        let left = std::fs::read_dir(dir).map_err(|error| error.to_string())?.count();
        if left != usize::from(old.is_some()) {
            return Err(format!("{size} KiB: {left} names are left"));
        }
    }
    if old == Some((2, LARGE)) {
        *whole += 1;
    }
    Ok(())
}

/// A file system in memory, for as long as this lives.
struct Mounted(tempfile::TempDir);

impl Mounted {
    fn new(kib: u64) -> anyhow::Result<Self> {
        let here = tempfile::tempdir()?;
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={kib}k"), "tmpfs"]).arg(here.path());
        anyhow::ensure!(mount.status()?.success(), "mounting a tmpfs takes the rights for it");
        Ok(Self(here))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let path: PathBuf = self.0.path().to_owned();
        drop(Command::new("umount").arg(path).status());
    }
}

/// Cells of the old store and of the new one; a file takes a page at least.
const SMALL: i64 = 8;
const LARGE: i64 = 400;
