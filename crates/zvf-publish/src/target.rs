//! One lock per target, shared by everything that changes it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::disk::Disk;
use crate::error::PublishError;
use crate::leftover;
use crate::lock::{FileLock, owner_path};
use crate::name::{TARGET_LOCK, need_sibling, parent_of, resolve_new, resolve_target};

/// The right to change a target; clones share it, and dropping the last releases it.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// use zvf_publish::{Disk, PublishError, TargetLock};
///
/// let target = dir.path().join("a.zarrvectors");
/// let lock = TargetLock::acquire(&Disk::default(), &target)?;
/// let other = TargetLock::acquire(&Disk::default(), &target).unwrap_err();
/// assert!(matches!(other, PublishError::Busy { .. }));
/// drop(lock);
/// drop(TargetLock::acquire(&Disk::default(), &target)?); // it is free again
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a lock that is not held is released at once"]
pub struct TargetLock(Arc<Held>);

#[derive(Debug)]
struct Held {
    target: PathBuf,
    disk: Disk,
    made: Vec<PathBuf>,     // created directories above the target
    lock: Option<FileLock>, // `Some` until drop
}

impl TargetLock {
    /// Takes the lock of `target`. Creates missing directories above it, and removes leftovers of dead processes.
    ///
    /// # Errors
    ///
    /// [`PublishError::Busy`] while another process holds it; [`PublishError::Refused`] when
    /// the name is too long for sibling names, or inside of a store; otherwise when the directory
    /// above cannot be created, listed or written.
    pub fn acquire(disk: &Disk, target: &Path) -> Result<Self, PublishError> {
        let target = resolve_new(target)?;
        let made = disk.make_dirs(parent_of(&target)?)?;
        let path = need_sibling(&target, TARGET_LOCK)?;
        let mut looks = 0..LOOKS;
        let lock = loop {
            let taken = FileLock::try_acquire(disk, &path);
            match taken.map_err(PublishError::with_path(&path.display().to_string()))? {
                Some(lock) => break lock.remove_on_drop(),
                // A process that only checks whether a lock is held takes it for a moment.
                None if looks.next().is_some() => std::thread::sleep(LOOK),
                None => {
                    let owner = owner_path(&path);
                    let by_file = owner.exists();
                    let lock = if by_file { owner } else { path };
                    return Err(PublishError::Busy { lock, by_file });
                }
            }
        };
        leftover::recover_interrupted(disk, &target)?;
        Ok(Self(Arc::new(Held { target, disk: disk.clone(), made, lock: Some(lock) })))
    }

    /// Returns the target, with its directory resolved.
    pub fn target(&self) -> &Path {
        &self.0.target
    }

    /// Returns whether an owner file is used, because the file system has no locks.
    pub fn is_by_file(&self) -> bool {
        self.0.lock.as_ref().is_some_and(FileLock::is_by_file)
    }

    /// Returns whether this is the lock of `target`.
    pub fn is_of(&self, target: &Path) -> bool {
        resolve_target(target).is_ok_and(|target| target == self.0.target)
    }

    pub(crate) fn disk(&self) -> &Disk {
        &self.0.disk
    }

    /// Returns the directory above the target.
    pub(crate) fn parent(&self) -> &Path {
        self.0.target.parent().unwrap_or(Path::new("."))
    }

    /// Returns the directories above the target that were created for it, outermost first.
    pub(crate) fn created_dirs(&self) -> &[PathBuf] {
        &self.0.made
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        drop(self.lock.take());
        if self.target.exists() {
            return;
        }
        // Nothing was published, so the directories that were created for it are removed too.
        for made in self.made.iter().rev() {
            drop(std::fs::remove_dir(made)); // refused when another process uses it by now
        }
    }
}

/// Number of attempts to take a held lock, and the interval between them.
const LOOKS: u32 = 5;
const LOOK: Duration = Duration::from_millis(10);
