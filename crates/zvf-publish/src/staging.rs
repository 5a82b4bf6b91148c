//! A folder under construction, until it is renamed.
//!
//! ```text
//! PARENT/NAME                        the target
//! PARENT/.NAME.zvf-build-ID/         scratch of one process
//!     lock                           locked until its owner ends
//!     store/...                      the folder, under its final names
//!     old/...                        the old folder, where two names cannot be exchanged in one step
//! ```
//!
//! Publishing syncs everything, renames `store` to NAME and syncs PARENT. Before that nothing is
//! visible, and afterwards everything; a replacement exchanges the two names instead. If `old`
//! exists and NAME does not, a process died between two renames: the next process that takes the
//! target's lock renames the old folder back.
//!
//! A folder that is only added to stays where it is (see `addition`).
//!
//! The caller provides the contents of the folder; single calls are in [`Disk`].

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;

use crate::addition::{self, Addition};
use crate::disk::{Disk, found, untaken};
use crate::error::PublishError;
use crate::gate::CommitGate;
use crate::identity::TargetIdentity;
use crate::lock::FileLock;
use crate::name::{
    SCRATCH, SCRATCH_LOCK, SCRATCH_OLD, SCRATCH_STORE, is_store, need_sibling, resolve_target,
    unique_id,
};
use crate::permissions;
use crate::target::TargetLock;
use crate::tree::{carry_over, link_tree};

/// How a folder is published.
#[derive(Clone, Debug)]
pub struct StagingOptions {
    /// The marker file of such a folder: a folder without it is not replaced.
    pub marker: &'static str,
    /// Whether it is a store: a store replaces only stores, and nothing else replaces one.
    pub is_store: bool,
    /// Whether an existing folder is replaced.
    pub replace: bool,
    /// Whether an existing file is also replaced.
    pub replace_file: bool,
    /// Whether the new files are added to the existing folder, whose other files stay in place: the
    /// marker file is replaced last. Requires `replace`.
    pub adds: bool,
    /// Whether publishing waits until everything would survive a power failure.
    pub sync: bool,
    /// Entered right before anything becomes visible.
    pub gate: CommitGate,
    /// Returns files in such a folder that do not belong to it. They are not removed with it but carried over.
    pub find_foreign: fn(&Path) -> io::Result<Vec<PathBuf>>,
}

impl StagingOptions {
    /// Returns the options for a new folder with `marker`, synced, without replacing.
    pub fn new(marker: &'static str) -> Self {
        Self {
            marker,
            is_store: false,
            replace: false,
            replace_file: false,
            adds: false,
            sync: true,
            gate: CommitGate::default(),
            find_foreign: |_| Ok(Vec::new()),
        }
    }

    /// Refuses a name that is taken, unless the existing folder may be replaced.
    ///
    /// # Errors
    ///
    /// [`PublishError::Taken`], and [`PublishError::Refused`] for what is no such folder.
    pub fn check_target(&self, target: &Path) -> Result<(), PublishError> {
        let Some(about) = found(fs::symlink_metadata(target))? else { return Ok(()) };
        if !about.is_dir() {
            if about.is_file() && self.replace && self.replace_file {
                return Ok(());
            }
            return Err(PublishError::name_taken(target));
        }
        if fs::read_dir(target)?.next().is_none() {
            return Ok(());
        }
        if !self.replace {
            return Err(PublishError::name_taken(target));
        }
        // A mistyped name must not replace another folder.
        if !target.join(self.marker).is_file() {
            let (rule, found) = ("a store: nothing else is replaced", "a directory without");
            return Err(PublishError::not_replaceable(rule, &format!("{found} {}", self.marker)));
        }
        let (rule, found) = match (self.adds || self.is_store, self.adds || is_store(target)) {
            (true, false) => ("a store: nothing else is replaced", "another folder of Zarr"),
            (false, true) => ("no store: only a store replaces one", "a store"),
            _ => return Ok(()),
        };
        Err(PublishError::not_replaceable(rule, found))
    }
}

/// A folder under construction. Dropped before it is published, it leaves nothing.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// use zvf_publish::{Disk, StagingDir, StagingOptions, TargetLock};
///
/// let target = dir.path().join("a.zarrvectors");
/// let lock = TargetLock::acquire(&Disk::default(), &target)?;
/// let staging = StagingDir::begin(lock, StagingOptions::new("zarr.json"))?;
/// staging.put("zarr.json", &["{}".into()])?;
/// assert!(!target.exists());
/// staging.publish()?;
/// drop(staging);
/// assert_eq!(std::fs::read(target.join("zarr.json"))?, b"{}");
/// assert_eq!(std::fs::read_dir(dir.path())?.count(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct StagingDir {
    scratch: PathBuf,
    store: PathBuf,
    held: File,         // the directory, open since before the first write
    _scratch: FileLock, // marks the scratch as in use
    lock: TargetLock,
    options: StagingOptions,
    identity: Option<TargetIdentity>, // of the replaced target, at the beginning
    done: AtomicBool,
}

impl StagingDir {
    /// Creates a scratch folder next to the target of `lock`.
    ///
    /// # Errors
    ///
    /// As [`StagingOptions::check_target`]; otherwise when the folder cannot be written.
    pub fn begin(lock: TargetLock, options: StagingOptions) -> Result<Self, PublishError> {
        options.check_target(lock.target())?;
        let identity = read_replaced(lock.target(), options.marker)?;
        let (scratch, scratch_lock) = make_scratch(lock.disk(), lock.target())?;
        let store = scratch.join(SCRATCH_STORE);
        let begun = lock.disk().make_dir(&store).and_then(|()| open_dir(&store));
        let held = begun.inspect_err(|_| drop(fs::remove_dir_all(&scratch)))?;
        let done = AtomicBool::new(false);
        Ok(Self { scratch, store, held, _scratch: scratch_lock, lock, options, identity, done })
    }

    /// Returns the path of the folder until it is published.
    pub fn path(&self) -> &Path {
        &self.store
    }

    /// Returns the lock of the target.
    pub const fn lock(&self) -> &TargetLock {
        &self.lock
    }

    /// Returns the identity of the target to be replaced, at the beginning.
    pub const fn identity(&self) -> Option<&TargetIdentity> {
        self.identity.as_ref()
    }

    /// Returns whether it is added to an existing folder, whose other files stay in place.
    pub const fn is_addition(&self) -> bool {
        self.options.adds && self.identity.is_some()
    }

    /// Writes the file `path`, which must not exist yet.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    pub fn put(&self, path: &str, parts: &[Bytes]) -> Result<(), PublishError> {
        self.disk().create(&self.store.join(path), parts).map_err(PublishError::with_path(path))
    }

    /// Writes the file `path`, replacing one that was written before.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    pub fn put_again(&self, path: &str, bytes: &Bytes) -> Result<(), PublishError> {
        self.disk().remove(&self.store.join(path)).map_err(PublishError::with_path(path))?;
        self.put(path, std::slice::from_ref(bytes))
    }

    /// Carries over the files of the replaced folder, except the marker and files in or below a path for which `leave`
    /// returns true. Returns the paths of files with the marker's name.
    ///
    /// # Errors
    ///
    /// When a file can be neither linked nor copied.
    pub fn carry_over(&self, leave: &dyn Fn(&str) -> bool) -> Result<Vec<String>, PublishError> {
        let marker = self.options.marker;
        let leave = |path: &str| path == marker || leave(path);
        link_tree(self.disk(), self.lock.target(), &self.store, marker, &leave)
    }

    /// Carries over these files of the replaced folder, under their paths, which must be free.
    ///
    /// # Errors
    ///
    /// When a file can be neither linked nor copied.
    pub fn carry_over_files(&self, paths: &[String]) -> Result<(), PublishError> {
        for path in paths {
            let (from, to) = (self.lock.target().join(path), self.store.join(path));
            let made = self.disk().make_dirs(to.parent().unwrap_or(&self.store));
            let linked = made.and_then(|_new| self.disk().link_target(&from, &to));
            linked.map_err(PublishError::with_path(path))?;
        }
        Ok(())
    }

    /// Removes the folder `path` with its contents.
    ///
    /// # Errors
    ///
    /// When it cannot be removed.
    pub fn remove(&self, path: &str) -> Result<(), PublishError> {
        self.disk().remove_all(&self.store.join(path)).map_err(PublishError::with_path(path))
    }

    /// Creates hard links to the files below `path` in the new `folder`.
    ///
    /// # Errors
    ///
    /// When a file can be neither linked nor copied.
    pub fn hard_link_to(&self, path: &str, folder: &Path) -> Result<(), PublishError> {
        let disk = self.disk();
        disk.make_dir(folder).map_err(PublishError::with_path(path))?;
        link_tree(disk, &self.store.join(path), folder, self.options.marker, &|_| false)?;
        if self.options.sync {
            disk.sync_all(&self.held, folder).map_err(PublishError::with_path(path))?;
        }
        Ok(())
    }

    /// Links the files in `folder` to names below `path`. Returns the paths, below `path`, of files with the marker's
    /// name.
    ///
    /// # Errors
    ///
    /// When a file can be neither linked nor copied.
    pub fn hard_link_from(&self, folder: &Path, path: &str) -> Result<Vec<String>, PublishError> {
        let to = self.store.join(path);
        self.disk().make_dirs(&to).map_err(PublishError::with_path(path))?;
        link_tree(self.disk(), folder, &to, self.options.marker, &|_| false)
    }

    /// Makes the folder visible under its name, complete and synced.
    ///
    /// # Errors
    ///
    /// [`PublishError::Changed`] when the target changed since the beginning;
    /// [`PublishError::Cancelled`] when a stop was requested; [`PublishError::Unknown`] when it is
    /// visible but may not survive a power failure; otherwise when the system refuses. Except for
    /// `Unknown`, the target is unchanged.
    pub fn publish(&self) -> Result<(), PublishError> {
        let (target, disk) = (self.lock.target(), self.disk());
        self.check_unchanged()?;
        if self.is_addition() {
            return self.publish_added();
        }
        if target.is_dir() {
            let foreign = (self.options.find_foreign)(target)?;
            carry_over(disk, (target, &self.store), self.options.marker, &foreign)?;
            permissions::copy_tree(target, &self.store, self.options.marker)?;
        }
        if self.options.sync {
            disk.sync_all(&self.held, &self.store)?;
            // Syncing may take long. Programs that edit a store without its lock may have committed
            // meanwhile.
            self.check_unchanged()?;
        }
        let old = self.scratch.join(SCRATCH_OLD);
        let replaced = self.options.gate.pass(|| {
            let replaced = exchange(disk, &self.store, target, &old, self.identity);
            // Where the outcome is unknown, the scratch may hold the only copy of the old folder.
            let is_kept = matches!(&replaced, Ok(_) | Err(PublishError::Unknown(_)));
            self.done.store(is_kept, Ordering::SeqCst);
            replaced
        })?;
        if self.options.sync {
            disk.sync_dir(self.lock.parent()).map_err(PublishError::Unknown)?;
            disk.sync_dir(&self.scratch).map_err(PublishError::Unknown)?;
            for above in self.lock.created_dirs().iter().filter_map(|made| made.parent()) {
                disk.sync_dir(above).map_err(PublishError::Unknown)?;
            }
        }
        if let Some(old) = replaced.filter(|old| old.is_dir()) {
            // Files that were added at the last moment are not removed with it.
            let foreign = (self.options.find_foreign)(&old).map_err(PublishError::Unknown)?;
            let carried = carry_over(disk, (&old, target), self.options.marker, &foreign);
            carried.map_err(|error| PublishError::Unknown(io::Error::other(error)))?;
        }
        // The folder is published; the rest is scratch that the next process removes.
        drop(disk.remove_all(&self.scratch));
        Ok(())
    }

    /// Refuses a target that changed since the beginning.
    fn check_unchanged(&self) -> Result<(), PublishError> {
        let now = read_replaced(self.lock.target(), self.options.marker)?;
        check_unchanged(self.identity, now)
    }

    /// Adds the new files to the target, and replaces its marker file.
    fn publish_added(&self) -> Result<(), PublishError> {
        let (target, disk, marker) = (self.lock.target(), self.disk(), self.options.marker);
        permissions::copy_tree(target, &self.store, marker)?;
        let addition = Addition::write_list(disk, (&self.scratch, &self.store), target, marker)?;
        if self.options.sync {
            disk.sync_all(&self.held, &self.scratch)?;
            disk.sync_dir(self.lock.parent())?; // the next one finds the list by the name of the scratch
        }
        self.options.gate.pass(|| {
            let committed =
                self.check_unchanged().and_then(|()| addition.commit(disk, self.options.sync));
            let is_kept = match &committed {
                Ok(()) | Err(PublishError::Unknown(_)) => true,
                // The scratch folder stays with its list where the names stay: the next process
                // that takes the lock tries again.
                Err(_) => addition::undo(disk, &self.scratch, target).is_err(),
            };
            self.done.store(is_kept, Ordering::SeqCst);
            committed
        })?;
        if self.options.sync {
            disk.sync_dir(target).map_err(PublishError::Unknown)?;
        }
        // The folder is published; the rest is scratch that the next process removes.
        drop(disk.remove_all(&self.scratch));
        Ok(())
    }

    /// Returns whether the folder was renamed to the target.
    pub fn is_published(&self) -> bool {
        self.done.load(Ordering::SeqCst) && self.lock.target().join(self.options.marker).exists()
    }

    /// Removes the scratch, unless the folder is published.
    pub fn abandon(&self) {
        if self.done.swap(true, Ordering::SeqCst) {
            return;
        }
        for _ in 0..REMOVE_TRIES {
            // Cancelled work may still write its last file.
            if self.disk().remove_all(&self.scratch).is_ok() || !self.scratch.exists() {
                return;
            }
        }
    }

    fn disk(&self) -> &Disk {
        self.lock.disk()
    }
}

impl Drop for StagingDir {
    fn drop(&mut self) {
        self.abandon();
    }
}

/// Returns the identity of the replaced target; an empty directory counts as none.
pub(crate) fn read_replaced(target: &Path, marker: &str) -> io::Result<Option<TargetIdentity>> {
    match fs::read_dir(target).map(|mut entries| entries.next().is_none()) {
        Ok(true) => Ok(None),
        _ => TargetIdentity::read(target, marker),
    }
}

/// Refuses a target that changed since the beginning.
pub(crate) fn check_unchanged(
    before: Option<TargetIdentity>,
    now: Option<TargetIdentity>,
) -> Result<(), PublishError> {
    let found = match (before, now) {
        _ if before == now => return Ok(()),
        (None, _) => {
            let name = "a target that was created meanwhile".to_owned();
            return Err(PublishError::Taken { name });
        }
        (Some(_), None) => "nothing",
        (Some(before), Some(now)) if before.is_same_node(&now) => "one that was changed meanwhile",
        (Some(_), Some(_)) => "another one",
    };
    Err(PublishError::Changed { found: found.to_owned() })
}

/// Renames `new` to the target. Returns the current path of the replaced target.
///
/// The replaced target is compared with `identity`: a different one gets its name back.
///
/// # Errors
///
/// [`PublishError::Unknown`] where the target is not as it was: a rename that fails may be done.
pub(crate) fn exchange(
    disk: &Disk,
    new: &Path,
    target: &Path,
    old: &Path,
    identity: Option<TargetIdentity>,
) -> Result<Option<PathBuf>, PublishError> {
    exchange_steps(disk, new, target, old, identity).map_err(|error| match (&error, identity) {
        (PublishError::Changed { .. }, _) => error, // the different one has its name back
        (_, Some(identity)) if identity.is_at(target) => error,
        (_, None) if new.exists() => error,
        _ => PublishError::Unknown(io::Error::other(error)),
    })
}

fn exchange_steps(
    disk: &Disk,
    new: &Path,
    target: &Path,
    old: &Path,
    identity: Option<TargetIdentity>,
) -> Result<Option<PathBuf>, PublishError> {
    let Some(identity) = identity else {
        disk.rename(new, target)?; // refused where something was created meanwhile
        return Ok(None);
    };
    let changed = || PublishError::Changed { found: "another one".to_owned() };
    if disk.exchange(new, target)? {
        if identity.is_at(new) {
            return Ok(Some(new.to_owned()));
        }
        if !disk.exchange(new, target)? {
            return Err(io::Error::from(io::ErrorKind::Unsupported).into());
        }
        return Err(changed());
    }
    disk.rename(target, old)?;
    // Until the next rename the name does not exist; recovery renames the old folder back.
    if !identity.is_at(old) {
        disk.rename(old, target)?;
        return Err(changed());
    }
    if let Err(error) = disk.rename(new, target) {
        disk.rename(old, target)?;
        return Err(error.into());
    }
    Ok(Some(old.to_owned()))
}

/// A folder for temporary files next to a target, removed on drop. It is locked while its owner
/// lives: the folder of a killed process is a leftover of the target.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// use zvf_publish::{Disk, ScratchDir, list_leftovers};
///
/// let target = dir.path().join("a.tet");
/// let scratch = ScratchDir::create_next_to(&Disk::default(), &target)?;
/// assert!(scratch.path().is_dir() && list_leftovers(&Disk::default(), &target)?[0].in_use);
/// drop(scratch);
/// assert_eq!(std::fs::read_dir(dir.path())?.count(), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ScratchDir {
    disk: Disk,
    path: PathBuf,
    _lock: FileLock,
}

impl ScratchDir {
    /// Creates the folder, in the directory of `target`.
    ///
    /// # Errors
    ///
    /// When the target has no name, or the directory cannot be written.
    pub fn create_next_to(disk: &Disk, target: &Path) -> Result<Self, PublishError> {
        let (path, lock) = make_scratch(disk, &resolve_target(target)?)?;
        Ok(Self { disk: disk.clone(), path, _lock: lock })
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ScratchDir {
    fn drop(&mut self) {
        // If this fails, it is a leftover.
        drop(self.disk.remove_all(&self.path));
    }
}

/// Creates a locked scratch directory of this process. Only its owner may read it.
fn make_scratch(disk: &Disk, target: &Path) -> Result<(PathBuf, FileLock), PublishError> {
    loop {
        let scratch = need_sibling(target, &format!("{SCRATCH}-{}", unique_id()))?;
        if untaken(disk.make_dir(&scratch))?.is_none() {
            continue;
        }
        let locked = restrict(&scratch)
            .and_then(|()| FileLock::try_acquire(disk, &scratch.join(SCRATCH_LOCK)));
        match found(locked) {
            Ok(Some(Some(lock))) => return Ok((scratch, lock)),
            // Another process may mistake a directory without a lock for a leftover, and remove it
            // first.
            Ok(_) => {}
            Err(error) => {
                drop(fs::remove_dir_all(&scratch));
                return Err(error.into());
            }
        }
    }
}

#[cfg(unix)]
fn restrict(scratch: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(scratch, fs::Permissions::from_mode(0o700))
}

#[cfg(not(unix))]
fn restrict(_scratch: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(unix)]
pub(crate) fn open_dir(path: &Path) -> io::Result<File> {
    File::open(path)
}

/// Opens the lock instead: on other systems a directory cannot be opened like a file, and is not needed.
#[cfg(not(unix))]
pub(crate) fn open_dir(path: &Path) -> io::Result<File> {
    File::open(path.with_file_name(SCRATCH_LOCK))
}

/// Number of attempts to remove scratch while files still appear in it.
const REMOVE_TRIES: usize = 20;

#[cfg(test)]
mod tests;
