//! Discards the output of turns: folders are moved aside, and removed when the run ends.
//!
//! A file system without a journal keeps inode numbers reserved for minutes after a removal, and
//! skips all of them for each file that it creates (ext4: 20 000 files take 17 s after the removal
//! of 60 000, and 1.2 s before it). If the stores of one turn were removed between turns, the next
//! turn would pay for it.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The discarded folders.
static DISCARDED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Moves a folder aside within its parent folder; removes it at once if it is in memory or the disk
/// is nearly full.
pub(crate) fn discard(folder: &Path) -> anyhow::Result<()> {
    let beside = folder.parent().unwrap_or_else(|| Path::new("."));
    if !has_room(beside)? {
        return Ok(fs::remove_dir_all(folder)?);
    }
    let aside = beside.join(NAME);
    fs::create_dir_all(&aside)?;
    let mut all = DISCARDED.lock().unwrap_or_else(PoisonError::into_inner);
    if !all.contains(&aside) {
        all.push(aside.clone());
    }
    for number in fs::read_dir(&aside)?.count().. {
        match fs::rename(folder, aside.join(number.to_string())) {
            // Left by a run that was stopped.
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::DirectoryNotEmpty | ErrorKind::AlreadyExists
                ) => {}
            done => return Ok(done?),
        }
    }
    Ok(())
}

/// Removes all discarded folders.
pub(crate) fn remove_discarded() -> anyhow::Result<()> {
    let mut all = DISCARDED.lock().unwrap_or_else(PoisonError::into_inner);
    for aside in all.drain(..) {
        fs::remove_dir_all(aside)?;
    }
    Ok(())
}

/// Returns whether `folder` is on a disk with enough free space.
fn has_room(folder: &Path) -> anyhow::Result<bool> {
    let found = rustix::fs::statfs(folder)?;
    let free = u64::try_from(found.f_bsize)?.saturating_mul(found.f_bavail);
    Ok(found.f_type != TMPFS && free > LEAST_FREE)
}

/// The name of the folder of discarded output.
const NAME: &str = "discarded";
/// The type of memory file systems.
const TMPFS: i64 = 0x0102_1994;
/// The number of bytes that must stay free.
const LEAST_FREE: u64 = 16 << 30;
