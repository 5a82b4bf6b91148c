//! A file under construction, until it is renamed.
//!
//! ```text
//! .NAME.zvf-new-ID beside NAME -> written -> synced -> renamed -> the folder synced
//! ```
//!
//! A symbolic link stays, and leads to the new file. A dropped file is removed; the file of a
//! killed process is removed by the next one that creates a file of that name.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::disk::Disk;
use crate::error::PublishError;
use crate::gate::CommitGate;
use crate::identity::TargetIdentity;
use crate::leftover::remove_leftovers;
use crate::lock::{FileLock, is_same};
use crate::name::{NEW_FILE, need_sibling, resolve_new, unique_id};
use crate::permissions;
use crate::staging::check_unchanged;
use crate::target::TargetLock;

/// How a file is published.
#[derive(Clone, Debug)]
pub struct FileOptions {
    /// Whether an existing file is replaced.
    pub replace: bool,
    /// Whether a file that changed since the beginning is also replaced: for output that does not
    /// depend on the old file.
    pub replace_changed: bool,
    /// Whether publishing waits until the file would survive a power failure.
    pub sync: bool,
    /// Entered right before the file becomes visible.
    pub gate: CommitGate,
}

impl Default for FileOptions {
    fn default() -> Self {
        Self { replace: false, replace_changed: false, sync: true, gate: CommitGate::default() }
    }
}

/// A file under construction.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("a.tet");
/// use std::io::Write as _;
/// use zvf_publish::{AtomicFile, Disk, FileOptions};
///
/// let mut new = AtomicFile::create(&Disk::default(), &path, FileOptions::default())?;
/// new.file().write_all(b"all of it")?;
/// assert!(!path.exists());
/// new.publish()?;
/// assert_eq!(std::fs::read(&path)?, b"all of it");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct AtomicFile {
    disk: Disk,
    file: File,
    temporary: PathBuf,
    _lock: FileLock, // marks the file as in use
    path: PathBuf,
    options: FileOptions,
    identity: Option<TargetIdentity>,
    published: bool,
}

impl AtomicFile {
    /// Begins the file at `path`.
    ///
    /// # Errors
    ///
    /// [`PublishError::Taken`] when the name is taken and must not be replaced, or is not a file;
    /// [`PublishError::Refused`] when the name is too long or inside of a store; otherwise when the
    /// folder cannot be written.
    pub fn create(disk: &Disk, path: &Path, options: FileOptions) -> Result<Self, PublishError> {
        let path = resolve_new(path)?;
        // Leftovers that cannot be removed do no harm. Those of a process that was killed after it
        // published the file go, too.
        drop(remove_leftovers(disk, &path));
        check_target(&path, options.replace)?;
        let identity = TargetIdentity::read(&path, "")?;
        let (temporary, file, lock) = loop {
            let name = format!("{NEW_FILE}-{}", unique_id());
            let temporary = need_sibling(&path, &name)?;
            let file = disk.open_new(&temporary, identity.is_some())?;
            match FileLock::try_acquire(disk, &temporary) {
                Ok(Some(lock)) if is_same(&file, &temporary)? => break (temporary, file, lock),
                // Before it was locked, another process could mistake it for a leftover and remove
                // it.
                Ok(_) => drop(fs::remove_file(&temporary)),
                Err(error) => {
                    drop(fs::remove_file(&temporary));
                    return Err(error.into());
                }
            }
        };
        let disk = disk.clone();
        Ok(Self { disk, file, temporary, _lock: lock, path, options, identity, published: false })
    }

    /// Returns the file to write to.
    pub const fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Syncs the file and renames it to its path.
    ///
    /// # Errors
    ///
    /// [`PublishError::Taken`] when the name was taken meanwhile; [`PublishError::Changed`] when
    /// the replaced file changed meanwhile; [`PublishError::Busy`] while another process changes
    /// it; [`PublishError::Cancelled`] when a stop was requested; [`PublishError::Unknown`] when it
    /// is visible but may not survive a power failure; otherwise when it cannot be synced or
    /// renamed.
    pub fn publish(mut self) -> Result<(), PublishError> {
        let disk = self.disk.clone();
        if self.identity.is_some() {
            permissions::copy_node(&self.path, &self.temporary)?;
        }
        disk.finish(&self.file, &self.temporary, self.options.sync)?;
        let lock = TargetLock::acquire(&disk, &self.path)?;
        let found = TargetIdentity::read(&self.path, "")?;
        if !(self.options.replace && self.options.replace_changed) {
            check_unchanged(self.identity, found)?;
        }
        self.options.gate.pass(|| {
            let renamed = if found.is_some() {
                disk.rename(&self.temporary, &self.path)
            } else {
                disk.rename_new(&self.temporary, &self.path)
            };
            // A rename that fails may be done.
            renamed.map_err(|error| match is_same(&self.file, &self.path) {
                Ok(false) => error.into(),
                Ok(true) | Err(_) => PublishError::Unknown(error),
            })
        })?;
        self.published = true;
        if self.options.sync {
            disk.sync_dir(lock.parent()).map_err(PublishError::Unknown)?;
        }
        Ok(())
    }
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        if !self.published {
            // A file that cannot be removed remains under a name that nobody reads.
            drop(fs::remove_file(&self.temporary));
        }
    }
}

/// Checks that a new file may get this name: anything that is not a file (a folder, a device, a pipe) is never
/// replaced.
fn check_target(path: &Path, replace: bool) -> Result<(), PublishError> {
    let Ok(about) = fs::symlink_metadata(path) else { return Ok(()) };
    let kind = about.file_type();
    if !kind.is_dir() && !kind.is_file() && !kind.is_symlink() {
        let found = "a device, pipe or socket";
        return Err(PublishError::not_replaceable("a file or nothing yet", found));
    }
    if kind.is_dir() || !replace {
        return Err(PublishError::name_taken(path));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn options(replace: bool) -> FileOptions {
        FileOptions { replace, ..FileOptions::default() }
    }

    #[test]
    fn a_rename_that_fails_after_it_was_done_leaves_the_gate_closed() {
        for (replaces, is_late) in [(false, false), (false, true), (true, false), (true, true)] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("a");
            for nth in 0.. {
                drop(fs::remove_file(&path));
                if replaces {
                    fs::write(&path, "old").unwrap();
                }
                let disk = Disk::default().with_failure_at(nth, 5, is_late);
                let options = options(true);
                let gate = options.gate.clone();
                let published = AtomicFile::create(&disk, &path, options).and_then(|mut file| {
                    file.file().write_all(b"new")?;
                    file.publish()
                });
                let is_new = fs::read(&path).is_ok_and(|bytes| bytes == b"new");
                let may_be = matches!(published, Ok(()) | Err(PublishError::Unknown(_)));
                let what = format!("call {nth}, {is_late}: {published:?}");
                assert_eq!((is_new, gate.is_entered()), (may_be, may_be), "{what}");
                if disk.call_count() <= nth {
                    break;
                }
            }
        }
    }

    #[test]
    fn a_name_is_given_once_and_only_when_whole() {
        for disk in
            [Disk::default(), Disk::default().without_exchange(), Disk::default().without_links()]
        {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("a");
            let create = |replace| AtomicFile::create(&disk, &path, options(replace));
            let mut dropped = create(false).unwrap();
            dropped.file().write_all(b"half").unwrap();
            drop(dropped);
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);

            let first = create(false).unwrap();
            let mut second = create(false).unwrap();
            second.file().write_all(b"other").unwrap();
            second.publish().unwrap();
            assert!(matches!(first.publish(), Err(PublishError::Taken { .. })));
            fs::write(dir.path().join(".a.zvf-lock"), "").unwrap(); // of a killed process
            assert!(matches!(create(false), Err(PublishError::Taken { .. })));
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);

            let late = create(true).unwrap();
            let mut new = create(true).unwrap();
            new.file().write_all(b"new").unwrap();
            assert_eq!(fs::read(&path).unwrap(), b"other");
            new.publish().unwrap();
            assert!(matches!(late.publish(), Err(PublishError::Changed { .. })));
            assert_eq!(fs::read(&path).unwrap(), b"new");
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_link_stays_and_modes_are_kept() {
        use std::os::unix::fs::{PermissionsExt as _, symlink};
        let dir = tempfile::tempdir().unwrap();
        let (path, link) = (dir.path().join("a"), dir.path().join("b"));
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o604)).unwrap();
        symlink(&path, &link).unwrap();
        let mut new = AtomicFile::create(&Disk::default(), &link, options(true)).unwrap();
        new.file().write_all(b"new").unwrap();
        new.publish().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o604);
        let socket = dir.path().join("socket");
        let _listening = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let error = AtomicFile::create(&Disk::default(), &socket, options(true)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "expected a file or nothing yet, found \"a device, pipe or socket\""
        );
    }

    #[test]
    fn nothing_is_published_after_a_stop() {
        let dir = tempfile::tempdir().unwrap();
        let with_gate = options(false);
        let gate = with_gate.gate.clone();
        let new = AtomicFile::create(&Disk::default(), &dir.path().join("a"), with_gate).unwrap();
        assert!(gate.stop());
        assert!(matches!(new.publish(), Err(PublishError::Cancelled)));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
