//! What a turn made and nobody needs any longer: set aside, and removed when the run ends.
//!
//! A file system without a journal keeps numbers of files back for minutes after their removal, and passes over all of them for
//! each file that it makes (ext4: 20 000 files in 17 s behind the removal of 60 000, in 1.2 s before it). Removed between turns,
//! the stores of one turn would be paid for by the next.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Folders of what was set aside.
static DISCARDED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Sets a folder aside, beside where it lies; removes it at once where it takes memory, or the disk is nearly full.
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
            // Of a run that was stopped.
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

/// Removes all that was set aside.
pub(crate) fn remove_discarded() -> anyhow::Result<()> {
    let mut all = DISCARDED.lock().unwrap_or_else(PoisonError::into_inner);
    for aside in all.drain(..) {
        fs::remove_dir_all(aside)?;
    }
    Ok(())
}

/// Whether the file system of `folder` is one of a disk with room for more.
fn has_room(folder: &Path) -> anyhow::Result<bool> {
    let found = rustix::fs::statfs(folder)?;
    let free = u64::try_from(found.f_bsize)?.saturating_mul(found.f_bavail);
    Ok(found.f_type != TMPFS && free > LEAST_FREE)
}

/// The folder of what was set aside.
const NAME: &str = "discarded";
/// The type of file systems in memory.
const TMPFS: i64 = 0x0102_1994;
/// Bytes that stay free.
const LEAST_FREE: u64 = 16 << 30;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_aside_is_removed_at_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let made = folder.path().join("made");
        for _ in 0..3 {
            fs::create_dir(&made).unwrap();
            fs::write(made.join("file"), b"x").unwrap();
            discard(&made).unwrap();
            assert!(!made.exists());
        }
        remove_discarded().unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
