//! `diskfull`: disks of every size, from one that holds nothing to one that holds everything.
//!
//! Each is an in-memory file system of that size. First the old store is built, if there is room;
//! then a larger one replaces it. Either that succeeds, or the error is `NoSpace`, the old store is
//! complete, and nothing is left next to it. The same is tested for every command that writes, from
//! a disk that has room for the initial files to one on which the command succeeds. Mounting
//! requires root.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail, ensure};
use zvf_error::Result;
use zvf_format::Class;
use zvf_store::Build;

use crate::commands::{Case, Zvf, prepare_cases};
use crate::rerun::FaultFreeRun;
use crate::trees::{Tree, list_names, read_tree};
use crate::{Report, block_on, build, generations};

/// Test disks of every size.
#[derive(clap::Args)]
pub(crate) struct Diskfull {
    /// The smallest disk, in KiB.
    #[arg(long, default_value_t = 64)]
    from: u64,
    /// The largest disk, in KiB.
    #[arg(long, default_value_t = 8192)]
    to: u64,
    /// The step between sizes, in KiB.
    #[arg(long, default_value_t = 64)]
    step: u64,
    /// Only edits.
    #[arg(long)]
    edits: bool,
    /// Disks for each command.
    #[arg(long, default_value_t = 16)]
    disks: u64,
    /// Only commands with this in their names, without the library.
    #[arg(long)]
    what: Option<String>,
}

impl Diskfull {
    pub(crate) fn run(self, report: &mut Report) -> anyhow::Result<()> {
        if self.what.is_none() {
            let (scratch, step) = (tempfile::tempdir()?, usize::try_from(self.step.max(1))?);
            let sizes = (self.from..=self.to).step_by(step);
            let [full, successes] =
                try_disks(report, scratch.path(), sizes, || match self.edits {
                    true => crate::edits::diskfull::fill_disk(scratch.path()),
                    false => block_on(replace_store(scratch.path())),
                })?;
            ensure!(full > 0 && successes > 0, "all disks too large, or all too small");
        }
        if !self.edits {
            self.test_commands(report)?;
        }
        Ok(())
    }

    fn test_commands(&self, report: &mut Report) -> anyhow::Result<()> {
        let scratch = tempfile::tempdir()?;
        let zvf = report.zvf(&scratch.path().join("place"))?;
        let mut all_full = 0;
        let cases = prepare_cases(&zvf, SIZE)?;
        for case in cases.iter().filter(|case| case.is_selected(self.what.as_deref())) {
            let fault_free = FaultFreeRun::prepare(&zvf, case)?;
            zvf.empty_place()?;
            let (smallest, largest) = disk_sizes(case, &fault_free);
            let size = |disk| smallest + (largest - smallest) * disk / self.disks.max(1);
            let sizes = (0..=self.disks).map(size);
            let [full, successes] = try_disks(report, &zvf.place, sizes, || {
                run_command(&zvf, case, &fault_free).with_context(|| case.name.clone())
            })?;
            // Commands that only rename files fit on any disk that holds these.
            all_full += full;
            let failure = || format!("{}: {full} disks too small, {successes} not", case.name);
            report.check(successes > 0, failure);
        }
        ensure!(all_full > 0 || report.n == 0, "no disk was too small for any command");
        Ok(())
    }
}

/// Works on disks of these sizes, in KiB, mounted at a place; returns how often it was refused and
/// how often it succeeded.
fn try_disks(
    report: &mut Report,
    place: &Path,
    sizes: impl Iterator<Item = u64>,
    work: impl Fn() -> anyhow::Result<[u64; 2]>,
) -> anyhow::Result<[u64; 2]> {
    let mut all = [0; 2];
    for size in sizes {
        let mounted = Mounted::mount(place, size)?;
        let worked = work();
        drop(mounted);
        if let Ok([refused, done]) = worked {
            all = [all[0] + refused, all[1] + done];
        }
        report.count(worked.map(drop).with_context(|| format!("{size} KiB")));
    }
    Ok(all)
}

/// Returns the size of a disk that barely holds the initial files, and of one on which the command succeeds, in KiB.
fn disk_sizes(case: &Case, fault_free: &FaultFreeRun) -> (u64, u64) {
    let pages = |tree: &Tree| tree.values().map(|bytes| (bytes.len() as u64).div_ceil(PAGE)).sum();
    let [before, after]: [u64; 2] =
        [pages(&archives::tree(&case.before)), pages(&fault_free.expected.after)];
    let least = (before + SPARE_PAGES) * PAGE / 1024;
    (least, least + 4 * after * PAGE / 1024 + 8192)
}

/// Runs the command on the disk at the place; returns whether it was refused or succeeded, or what is
/// wrong.
fn run_command(zvf: &Zvf, case: &Case, fault_free: &FaultFreeRun) -> anyhow::Result<[u64; 2]> {
    let files = case.before.join(".");
    let copied = Command::new("cp").arg("-a").args([&files, &zvf.place]).status()?;
    ensure!(copied.success(), "the disk has no room for the initial files");
    let before = list_names(&zvf.place)?;
    let ended = zvf.ask(&case.line)?;
    let found_tree = read_tree(&zvf.place.join(case.target));
    let words = String::from_utf8_lossy(&ended.stderr).trim().to_owned();
    let code = ended.status.code();
    if code == Some(0) {
        let is_made = found_tree.as_ref() == Some(&fault_free.expected.after);
        ensure!(is_made, "it made something else");
        return Ok([0, 1]);
    }
    ensure!(code == Some(NO_SPACE), "it ended with {code:?}: {words}");
    ensure!(
        found_tree == fault_free.expected.before || case.is_stepwise,
        "it ended with {code:?}, and the old one is gone: {words}"
    );
    // Completed levels are kept for the next run.
    match fault_free.find_leftover(zvf, &before)? {
        Some(name) => bail!("{name} remains: {words}"),
        None => Ok([1, 0]),
    }
}

/// Builds a store, and a larger one in its place; returns how many were refused, and whether the
/// second one is there.
async fn replace_store(dir: &Path) -> anyhow::Result<[u64; 2]> {
    let store = dir.join("a.zv");
    let (mut old, mut full) = (None, 0);
    for (g, cells) in [(1, SMALL), (2, LARGE)] {
        let address = store.to_string_lossy().into_owned();
        let built: Result<()> = async {
            let begun = Build::begin(&address, build::build_options(true)).await?;
            generations::build(begun, g, cells).await
        }
        .await;
        match built {
            Ok(()) => old = Some((g, cells)),
            Err(error) if error.class() == Class::NoSpace => full += 1,
            Err(error) => bail!("{error}"),
        }
        match old {
            None if store.exists() => bail!("a part of a store"),
            None => {}
            Some((g, cells)) => {
                let found = build::read_generation(&store, cells).await?;
                ensure!(found == g, "generation {found} instead of {g}");
            }
        }
        let left = std::fs::read_dir(dir)?.count();
        ensure!(left == usize::from(old.is_some()), "{left} names remain");
    }
    Ok([full, u64::from(old == Some((2, LARGE)))])
}

/// An in-memory file system, mounted at a folder until drop.
struct Mounted(PathBuf);

impl Mounted {
    fn mount(folder: &Path, kib: u64) -> anyhow::Result<Self> {
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={kib}k"), "tmpfs"]).arg(folder);
        ensure!(mount.status()?.success(), "mounting a tmpfs requires root");
        Ok(Self(folder.to_owned()))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        drop(Command::new("umount").arg(&self.0).status());
    }
}

/// The cells of the old and the new store; a file takes at least a page.
const SMALL: i64 = 8;
const LARGE: i64 = 400;
/// The points of the stores of commands.
const SIZE: u64 = 20_000;
/// Pages for folders.
const SPARE_PAGES: u64 = 8;
/// The size of a page in bytes.
const PAGE: u64 = 4096;
/// The exit code of `zvf` when the disk is full.
const NO_SPACE: i32 = 4;
