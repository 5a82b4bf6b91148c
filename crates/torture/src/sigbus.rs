//! `sigbus`: mapped files that are truncated, grow again or change in place while they are read.
//!
//! Only files that nobody can write to are mapped, so each file first gets its permission back: the following changes
//! violate the condition of the map on purpose. Every read returns the bytes at the time of mapping, or `FileChanged`;
//! the process survives, and so do the maps of other files.

use std::fs::{self, OpenOptions, Permissions};
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail, ensure};
use zvf_format::Class;
use zvf_map::{MappedFile, install_sigbus_handler};

use crate::Report;
use archives::random::Random;

/// Truncate mapped files while they are read.
#[derive(clap::Args)]
pub(crate) struct Sigbus {
    /// The number of truncated files.
    #[arg(long, default_value_t = 200)]
    n: u64,
}

impl Sigbus {
    pub(crate) fn run(self, report: &mut Report) -> anyhow::Result<()> {
        install_sigbus_handler()?;
        let dir = tempfile::tempdir()?;
        let mut random = report.random();
        // Files beyond the limit of watches are read without a map, without an error.
        let bystander = dir.path().join("bystander");
        write_read_only(&bystander, 1 << 20, 9)?;
        let still = MappedFile::map_if_immutable(&bystander)?;
        let still = still.ok_or_else(|| {
            anyhow!("nothing is mapped here: {} gives no leases", dir.path().display())
        })?;
        let mut refused = 0;
        for n in 0..self.n {
            let path = dir.path().join(n.to_string());
            let checked = damage_during_read(&path, &mut random, &mut refused);
            report.count(checked.with_context(|| n.to_string()));
            fs::remove_file(&path)?;
            let bytes = still.read(0, still.len())?;
            let is_whole = bytes.iter().all(|byte| *byte == 9);
            report.check(is_whole, || format!("{n}: another file was hit"));
        }
        ensure!(self.n < 20 || refused > 0, "no read met a file that had changed");
        Ok(())
    }
}

/// Writes a read-only file of `len` bytes `byte`.
fn write_read_only(path: &Path, len: usize, byte: u8) -> std::io::Result<()> {
    fs::write(path, vec![byte; len])?;
    fs::set_permissions(path, Permissions::from_mode(0o444))
}

/// Damages one file on one thread while another reads it.
fn damage_during_read(path: &Path, random: &mut Random, refused: &mut u64) -> anyhow::Result<()> {
    let len = 4096 * (1 + random.next_below(256)) + random.next_below(4096);
    write_read_only(path, len, 7)?;
    let file = MappedFile::map_if_immutable(path)?;
    let file = file.context("it was not mapped")?;
    fs::set_permissions(path, Permissions::from_mode(0o644))?;
    let writer = OpenOptions::new().write(true).open(path)?;
    let (damage, cut) = (random.next_below(3), random.next_below(len));
    let reads: Vec<(u64, u64)> = (0..64)
        .map(|_| {
            let start = random.next_below(len);
            (start as u64, random.next_below(len - start) as u64)
        })
        .collect();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            if damage != 0 {
                // The clock of a file system ticks every few milliseconds, and the size does not differ here.
                std::thread::sleep(TICKS);
            }
            drop(match damage {
                0 => writer.set_len(cut as u64),
                1 => writer.set_len(0).and_then(|()| writer.set_len(len as u64)),
                _ => writer.write_at(&[8], cut as u64).map(drop),
            });
            done.store(true, Ordering::Release);
        });
        let mut after = 0;
        for &(start, bytes) in reads.iter().cycle() {
            let was_done = done.load(Ordering::Acquire);
            after += usize::from(was_done);
            if after > reads.len() {
                break;
            }
            match file.read(start, bytes) {
                Ok(read) if read.iter().any(|byte| *byte != 7) => {
                    bail!("{bytes} bytes at {start} are of another version");
                }
                Ok(_) if was_done => {
                    bail!("{bytes} bytes at {start} of a file that is gone");
                }
                Ok(_) => {}
                Err(error) if error.class() == Class::FileChanged => *refused += 1,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    })
}

/// Longer than a tick of the clock of any file system.
const TICKS: Duration = Duration::from_millis(20);
