//! Files that killed processes left next to a target.
//!
//! ```text
//! .NAME.zvf-build-ID/    scratch of a folder under construction: in use while its lock is held
//! .NAME.zvf-new-ID       a file under construction: in use while it is locked
//! .NAME.zvf-lock         the lock of a target: in use while it is held
//! ```
//!
//! Listing changes nothing, so that it works on read-only file systems.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::addition;
use crate::disk::{Disk, found};
use crate::lock::{FileLock, owner_path};
use crate::name::{
    NEW_FILE, SCRATCH, SCRATCH_LOCK, SCRATCH_OLD, TARGET_LOCK, hidden_sibling, resolve_target,
    sibling_prefix,
};

/// A file or folder that a process left next to a target, or is using.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StagedLeftover {
    /// Its path.
    pub path: PathBuf,
    /// Its kind.
    pub kind: LeftoverKind,
    /// Whether its owner is alive.
    pub in_use: bool,
}

/// The kind of a leftover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LeftoverKind {
    /// A folder under construction.
    Staging,
    /// A file under construction.
    File,
    /// The lock of a target.
    Lock,
}

/// Lists the leftovers next to `target`, in use or not, ordered by path.
///
/// # Errors
///
/// When the folder above `target` cannot be listed; a missing one has none.
pub fn list_leftovers(disk: &Disk, target: &Path) -> io::Result<Vec<StagedLeftover>> {
    let target = resolve_target(target)?;
    let mut found = Vec::new();
    let Some(parent) = target.parent() else { return Ok(found) };
    for (word, kind) in [(SCRATCH, LeftoverKind::Staging), (NEW_FILE, LeftoverKind::File)] {
        // A path without a name has no siblings.
        let Some(prefix) = sibling_prefix(&target, &format!("{word}-")) else { return Ok(found) };
        for path in list_prefixed(parent, prefix.as_encoded_bytes())? {
            if path.extension().is_some_and(|ending| ending == "owner")
                && path.with_extension("").exists()
            {
                continue; // removed with the lock it stands for
            }
            let is_dir = path.is_dir();
            let (kind, lock) = match kind {
                LeftoverKind::Staging if is_dir => (kind, path.join(SCRATCH_LOCK)),
                LeftoverKind::File if !is_dir => (kind, path.clone()),
                LeftoverKind::Staging | LeftoverKind::File | LeftoverKind::Lock => continue,
            };
            let in_use = FileLock::is_held(disk, &lock);
            found.push(StagedLeftover { path, kind, in_use });
        }
    }
    let lock = hidden_sibling(&target, TARGET_LOCK);
    if let Some(lock) = lock.filter(|lock| lock.exists()) {
        let in_use = FileLock::is_held(disk, &lock);
        found.push(StagedLeftover { path: lock, kind: LeftoverKind::Lock, in_use });
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

/// Removes leftovers of dead processes next to `target`, and returns their paths; an old folder
/// that was left without its name gets it back. Files in use stay, and so does everything while
/// another process changes the target.
///
/// # Errors
///
/// When the folder above `target` cannot be listed or written.
pub fn remove_leftovers(disk: &Disk, target: &Path) -> io::Result<Vec<PathBuf>> {
    let target = resolve_target(target)?;
    let before = list_leftovers(disk, &target)?;
    if before.is_empty() {
        return Ok(Vec::new());
    }
    let Some(lock) = hidden_sibling(&target, TARGET_LOCK) else { return Ok(Vec::new()) };
    let Some(held) = FileLock::try_acquire(disk, &lock)? else { return Ok(Vec::new()) };
    let held = held.remove_on_drop();
    recover_interrupted(disk, &target)?;
    drop(held);
    let gone = before.into_iter().map(|leftover| leftover.path).filter(|path| !path.exists());
    Ok(gone.collect())
}

/// For the holder of the lock of `target`, repairs what dead processes left half done: an old
/// folder that lost its name between two renames gets it back, and uncommitted additions are moved
/// out. Then removes leftovers.
pub(crate) fn recover_interrupted(disk: &Disk, target: &Path) -> io::Result<()> {
    let Some(parent) = target.parent() else { return Ok(()) };
    for leftover in list_leftovers(disk, target)? {
        match leftover.kind {
            LeftoverKind::Lock => {} // our own
            LeftoverKind::File => {
                if !leftover.in_use {
                    disk.remove(&leftover.path)?;
                    drop(fs::remove_file(owner_path(&leftover.path)));
                }
            }
            LeftoverKind::Staging => {
                let Ok(Some(_lock)) =
                    FileLock::try_acquire(disk, &leftover.path.join(SCRATCH_LOCK))
                else {
                    continue;
                };
                let old = leftover.path.join(SCRATCH_OLD);
                if old.exists() && !target.exists() {
                    disk.rename(&old, target)?;
                }
                addition::undo(disk, &leftover.path, target)?;
                // The last rename of its owner may not be synced yet, and would need the removed
                // data.
                disk.sync_dir(parent)?;
                // Another user's scratch stays until its owner removes it.
                drop(disk.remove_all(&leftover.path));
            }
        }
    }
    Ok(())
}

/// Lists the names in `parent` that begin with `prefix`.
fn list_prefixed(parent: &Path, prefix: &[u8]) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in found(fs::read_dir(parent))?.into_iter().flatten() {
        let entry = entry?;
        if entry.file_name().as_encoded_bytes().starts_with(prefix) {
            paths.push(entry.path());
        }
    }
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AtomicFile, FileOptions};

    #[test]
    fn what_the_dead_left_goes_and_what_is_alive_stays() {
        let temp_dir = tempfile::tempdir().unwrap();
        let target = temp_dir.path().join("a");
        let disk = Disk::default();
        let alive = AtomicFile::create(&disk, &target, FileOptions::default()).unwrap();
        for name in [".a.zvf-build-1/store", ".b.zvf-build-1"] {
            fs::create_dir_all(temp_dir.path().join(name)).unwrap();
        }
        for name in [".a.zvf-build-1/lock", ".a.zvf-new-1", ".a.zvf-lock", ".ab.zvf-new-1"] {
            fs::write(temp_dir.path().join(name), "").unwrap();
        }
        let found = list_leftovers(&disk, &target).unwrap();
        assert_eq!(found.len(), 4);
        assert_eq!(found.iter().filter(|leftover| leftover.in_use).count(), 1);
        let removed = remove_leftovers(&disk, &target).unwrap();
        let names = [".a.zvf-build-1", ".a.zvf-lock", ".a.zvf-new-1"];
        assert_eq!(removed, names.map(|name| temp_dir.path().canonicalize().unwrap().join(name)));
        assert_eq!(list_leftovers(&disk, &target).unwrap().len(), 1);
        drop(alive);
        assert_eq!(fs::read_dir(temp_dir.path()).unwrap().count(), 2, "another target's stays");
        assert!(list_leftovers(&disk, Path::new("no/such/folder/a")).unwrap().is_empty());
    }

    #[test]
    fn an_old_folder_gets_its_name_back() {
        let temp_dir = tempfile::tempdir().unwrap();
        let old = temp_dir.path().join(".a.zvf-build-1/old");
        fs::create_dir_all(&old).unwrap();
        fs::write(old.join("zarr.json"), "old").unwrap();
        remove_leftovers(&Disk::default(), &temp_dir.path().join("a")).unwrap();
        assert_eq!(fs::read(temp_dir.path().join("a/zarr.json")).unwrap(), b"old");
        assert_eq!(fs::read_dir(temp_dir.path()).unwrap().count(), 1);
    }
}
