//! A folder that several processes build, in any number of runs, until one of them publishes it.
//!
//! ```text
//! PARENT/NAME            the target
//! WORK/                  the caller's folder, on the same file system; it outlives every process
//!     store/...          the folder, under its final names
//!     store.id           the identity of that directory, once it is complete; after the exchange
//!                        `store` is the old one
//!     old/...            the old folder, where names cannot be exchanged in one step
//! ```
//!
//! There are no locks. A file is written under a temporary name and then renamed over its final
//! one: repeating the same work, concurrently or later, writes the same bytes to the same place.
//! Those names are random, because process ids are not unique across machines or containers. A
//! second publication detects the result of the first, at whatever point that was killed.
//!
//! Publishing holds the lock of the target. The folder must be on the file system of the target.
//!
//! Folders of a single process are in [`crate::StagingDir`].

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use zvf_format::Class;

use crate::disk::Disk;
use crate::error::PublishError;
use crate::identity::{TargetIdentity, node};
use crate::keyed::KeyedFolder;
use crate::leftover::remove_leftovers;
use crate::name::{SCRATCH_STORE, resolve_new};
use crate::permissions;
use crate::staging::{StagingOptions, check_unchanged, exchange, open_dir, read_replaced};
use crate::target::TargetLock;
use crate::tree::carry_over;

/// One process's view of the shared folder. Dropping it removes nothing.
#[derive(Debug)]
pub struct SharedStagingDir {
    store: KeyedFolder,
    target: PathBuf,
    work: PathBuf,
    held: File, // the folder, open since before the first write of this process
    options: StagingOptions,
    identity: Option<TargetIdentity>, // of the target, when this process joined
}

impl SharedStagingDir {
    /// Joins the build of `target` in the folder `work`. Unless it is already published, `check` is
    /// called with the target, which must then not change until it is replaced.
    ///
    /// # Errors
    ///
    /// The error of `check`; [`PublishError::Refused`] when `work` is on another file system than
    /// the target, or its name is too long; otherwise when a folder cannot be written.
    pub fn join<E: From<PublishError>>(
        target: &Path,
        work: &Path,
        disk: Disk,
        options: StagingOptions,
        check: impl FnOnce(&Path) -> Result<(), E>,
    ) -> Result<Self, E> {
        let target = resolve_new(target)?;
        let store = KeyedFolder::new(disk, work.join(SCRATCH_STORE));
        let published = is_published(store.disk(), &target, work, options.marker)?;
        let identity = read_replaced(&target, options.marker).map_err(PublishError::from)?;
        if !published {
            check(&target)?;
            store.disk().make_dirs(store.root()).map_err(PublishError::from)?;
            check_device(work, &target)?;
        }
        let held = open_dir(work).map_err(PublishError::from)?;
        Ok(Self { store, target, work: work.to_owned(), held, options, identity })
    }

    /// Writes the file `path`, replacing that of an earlier run.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    pub fn put(&self, path: &str, parts: &[Bytes]) -> Result<(), PublishError> {
        self.store.mark_parts(path, parts).map_err(PublishError::with_path(path))
    }

    /// Returns the path of the folder until it is published.
    pub fn path(&self) -> PathBuf {
        self.store.root().to_owned()
    }

    /// Returns whether the folder was renamed to the target.
    ///
    /// # Errors
    ///
    /// When it cannot be read; [`PublishError::Busy`] while another process changes the target.
    pub fn is_published(&self) -> Result<bool, PublishError> {
        is_published(self.disk(), &self.target, &self.work, self.options.marker)
    }

    /// Returns whether the file `path` was written.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub fn has(&self, path: &str) -> io::Result<bool> {
        self.store.exists(path)
    }

    /// Waits until everything that this process wrote would survive a power failure.
    ///
    /// # Errors
    ///
    /// When it cannot be synced.
    pub fn flush(&self) -> Result<(), PublishError> {
        if !self.options.sync {
            return Ok(());
        }
        Ok(self.disk().sync_all(&self.held, self.store.root())?)
    }

    /// Writes the marker file, and makes the folder visible under its name, complete and synced. An
    /// interrupted publication is completed.
    ///
    /// # Errors
    ///
    /// As [`StagingDir::publish`](crate::StagingDir::publish), and [`PublishError::Busy`] while another process changes
    /// the target.
    pub fn publish(&self, marker: Bytes) -> Result<(), PublishError> {
        if !self.is_published()? {
            self.put(self.options.marker, &[marker])?;
            self.exchange()?;
        }
        if self.options.sync
            && let Some(parent) = self.target.parent()
        {
            self.disk().sync_dir(parent).map_err(PublishError::Unknown)?;
            self.disk().sync_dir(&self.work).map_err(PublishError::Unknown)?;
        }
        // It is published; leftovers of single-process builds are no longer needed.
        drop(remove_leftovers(self.disk(), &self.target));
        Ok(())
    }

    fn disk(&self) -> &Disk {
        self.store.disk()
    }

    fn exchange(&self) -> Result<(), PublishError> {
        let lock = TargetLock::acquire(self.disk(), &self.target)?;
        if Self::is_made_in(&self.target, &self.work, self.options.marker)? {
            return Ok(()); // another process of this build was faster
        }
        self.options.check_target(lock.target())?;
        let (store, old, marker) = (self.path(), self.work.join(OLD), self.options.marker);
        clear_names(&store)?;
        if self.identity.is_some() {
            let foreign = (self.options.find_foreign)(&self.target)?;
            carry_over(self.disk(), (&self.target, &store), marker, &foreign)?;
            permissions::copy_tree(&self.target, &store, marker)?;
        }
        self.disk().remove(&self.work.join(ID))?;
        self.disk().create(&self.work.join(ID), &[identify(&store, marker)?.into()])?;
        if self.options.sync {
            self.disk().sync_all(&self.held, &self.work)?;
        }
        // As late as possible: an edit of the target may have started a journal since.
        check_unchanged(self.identity, read_replaced(&self.target, marker)?)?;
        let commit = || exchange(self.disk(), &store, &self.target, &old, self.identity);
        self.options.gate.pass(commit).map(drop)
    }

    /// Returns whether the folder built in `work` has the name `target`. Nothing is repaired.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub fn is_made_in(target: &Path, work: &Path, marker: &str) -> io::Result<bool> {
        let Ok(recorded) = fs::read_to_string(work.join(ID)) else { return Ok(false) };
        Ok(target.join(marker).exists() && identify(target, marker)? == recorded)
    }

    /// Returns whether the folder was finished in `work` and is now neither there nor at `target`:
    /// it was published, and then removed or replaced. A folder with its name in `work` is a
    /// different one.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub fn is_gone(target: &Path, work: &Path, marker: &str) -> io::Result<bool> {
        let Ok(recorded) = fs::read_to_string(work.join(ID)) else { return Ok(false) };
        // Names are exchanged only after that file was synced: a truncated one is from before.
        let Some(number) = directory_of(&recorded) else { return Ok(false) };
        let store = work.join(SCRATCH_STORE);
        // The same power failure may have affected the marker.
        let is_kept = store.is_dir() && directory_number(&store)? == number;
        Ok(!is_kept && !Self::is_made_in(target, work, marker)?)
    }
}

/// Refuses a folder on another file system than the target: renaming would fail.
fn check_device(work: &Path, target: &Path) -> Result<(), PublishError> {
    let above = target.ancestors().skip(1).find(|above| above.exists());
    match above {
        Some(above) if node(&work.join(SCRATCH_STORE))?.0 != node(above)?.0 => {
            // Nothing has been written yet.
            drop(fs::remove_dir(work.join(SCRATCH_STORE)));
            drop(fs::remove_dir(work));
            let rule = "work folder: expected one on the file system of the target";
            let text = format!("{rule}, found another file system");
            Err(PublishError::Refused(Class::InvalidArgument, text))
        }
        _ => Ok(()),
    }
}

/// Returns whether the folder built in `work` was renamed to the target. A half-finished rename of a dead process is
/// completed.
fn is_published(
    disk: &Disk,
    target: &Path,
    work: &Path,
    marker: &str,
) -> Result<bool, PublishError> {
    let store = work.join(SCRATCH_STORE);
    let between = || {
        let renamed = work.join(ID).exists() && work.join(OLD).exists() && store.exists();
        renamed && !target.join(marker).exists()
    };
    if between() {
        let _lock = TargetLock::acquire(disk, target)?;
        if between() {
            disk.rename(&store, target)?; // killed between two renames
            return Ok(true);
        }
    }
    Ok(SharedStagingDir::is_made_in(target, work, marker)?)
}

/// Removes temporary files of dead processes.
fn clear_names(below: &Path) -> io::Result<()> {
    for entry in fs::read_dir(below)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            clear_names(&entry.path())?;
        } else if entry.file_name().as_encoded_bytes().starts_with(b".tmp-") {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Returns the identity of a folder, independent of its name and of the machine: the inode of its
/// directory, which may be reused after removal, and the contents of its marker.
fn identify(path: &Path, marker: &str) -> io::Result<String> {
    let mut sum = DefaultHasher::new(); // the same in every process
    fs::read(path.join(marker))?.hash(&mut sum);
    Ok(format!("{} {:016x}", directory_number(path)?, sum.finish()))
}

/// Returns the inode in the result of [`identify`]; `None` where that was truncated.
fn directory_of(identity: &str) -> Option<u64> {
    let (number, sum) = identity.split_once(' ')?;
    if sum.len() == 16 { number.parse().ok() } else { None }
}

/// Returns the inode of a folder.
fn directory_number(path: &Path) -> io::Result<u64> {
    Ok(node(path)?.1)
}

const ID: &str = "store.id";
const OLD: &str = "old";

#[cfg(test)]
mod tests {
    use super::*;

    struct TestFolder(tempfile::TempDir);

    impl TestFolder {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        fn at(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        fn join(&self, replace: bool) -> Result<SharedStagingDir, PublishError> {
            let options = StagingOptions { replace, ..StagingOptions::new("zarr.json") };
            let check = options.clone();
            let check = |target: &Path| check.check_target(target);
            SharedStagingDir::join(
                &self.at("a.zv"),
                &self.at("work"),
                Disk::default(),
                options,
                check,
            )
        }
    }

    fn put(work: &SharedStagingDir, key: &str, bytes: &'static [u8]) {
        work.put(key, &[Bytes::from_static(bytes)]).unwrap();
    }

    fn publish(work: &SharedStagingDir, root: &'static [u8]) {
        work.publish(Bytes::from_static(root)).unwrap();
    }

    #[test]
    fn work_done_again_changes_nothing() {
        let place = TestFolder::new();
        let (first, second) = (place.join(false).unwrap(), place.join(false).unwrap());
        put(&first, "0/c/1", b"same");
        put(&second, "0/c/1", b"same");
        fs::write(place.at("work/store/0/c/.tmp-9-9"), "half").unwrap();
        drop(first);
        assert!(!second.is_published().unwrap());
        publish(&second, b"{}");
        publish(&second, b"{}");
        publish(&place.join(false).unwrap(), b"{}");
        assert_eq!(fs::read(place.at("a.zv/0/c/1")).unwrap(), b"same");
        assert!(!place.at("a.zv/0/c/.tmp-9-9").exists());
        assert!(second.is_published().unwrap());
    }

    #[test]
    fn what_a_loss_of_power_took_is_not_taken_for_published() {
        let place = TestFolder::new();
        let (target, work) = (place.at("a.zv"), place.at("work"));
        let is_gone = || SharedStagingDir::is_gone(&target, &work, "zarr.json").unwrap();
        let staging = place.join(false).unwrap();
        put(&staging, "0/c/1", b"same");
        put(&staging, "zarr.json", b"{}");
        let identity = identify(&staging.path(), "zarr.json").unwrap();
        for (id, marker) in [(identity.as_str(), None), (&identity[..9], Some("{}")), ("", None)] {
            fs::write(work.join(ID), id).unwrap();
            drop(fs::remove_file(staging.path().join("zarr.json")));
            if let Some(text) = marker {
                fs::write(staging.path().join("zarr.json"), text).unwrap();
            }
            assert!(!is_gone(), "{id:?} {marker:?}");
        }
        publish(&staging, b"{}");
        assert!(!is_gone(), "it has its name");
        fs::remove_dir_all(&target).unwrap();
        assert!(is_gone());
    }

    #[test]
    fn a_store_is_replaced_once_whatever_moment_it_is_killed_at() {
        let place = TestFolder::new();
        fs::create_dir(place.at("a.zv")).unwrap();
        fs::write(place.at("a.zv/zarr.json"), "old").unwrap();
        let error = place.join(false).unwrap_err().to_string();
        assert_eq!(error, "a.zv already exists");
        assert!(
            !is_published(&Disk::default(), &place.at("a.zv"), &place.at("work"), "zarr.json")
                .unwrap(),
            "it is another one"
        );
        let work = place.join(true).unwrap();
        put(&work, "0/c/0", b"cell");
        fs::write(place.at("work/store/zarr.json"), "new").unwrap();
        // Killed before the exchange.
        fs::write(
            place.at("work/store.id"),
            identify(&place.at("work/store"), "zarr.json").unwrap(),
        )
        .unwrap();
        let work = place.join(true).unwrap();
        assert_eq!(fs::read(place.at("a.zv/zarr.json")).unwrap(), b"old");
        publish(&work, b"new");
        assert_eq!(fs::read(place.at("a.zv/zarr.json")).unwrap(), b"new");
        // Killed right after it; the next run must not exchange them back.
        publish(&place.join(true).unwrap(), b"newest");
        assert_eq!(fs::read(place.at("a.zv/zarr.json")).unwrap(), b"new");
        assert_eq!(fs::read(place.at("work/store/zarr.json")).unwrap(), b"old");
    }

    #[test]
    #[cfg(unix)]
    fn two_renames_are_finished_by_the_next() {
        let place = TestFolder::new();
        fs::create_dir_all(place.at("work/old")).unwrap();
        fs::create_dir(place.at("work/store")).unwrap();
        fs::write(place.at("work/store/zarr.json"), "new").unwrap();
        fs::write(
            place.at("work/store.id"),
            identify(&place.at("work/store"), "zarr.json").unwrap(),
        )
        .unwrap();
        assert!(
            is_published(&Disk::default(), &place.at("a.zv"), &place.at("work"), "zarr.json")
                .unwrap()
        );
        assert_eq!(fs::read(place.at("a.zv/zarr.json")).unwrap(), b"new");
    }

    #[test]
    fn what_a_build_in_one_process_left_goes_too() {
        let place = TestFolder::new();
        fs::create_dir_all(place.at(".a.zv.zvf-build-0/store")).unwrap();
        let work = place.join(false).unwrap();
        assert!(!work.has("0/c/0").unwrap());
        put(&work, "0/c/0", b"cell");
        assert!(work.has("0/c/0").unwrap());
        publish(&work, b"{}");
        assert!(!place.at(".a.zv.zvf-build-0").exists());
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_folder_on_another_file_system_is_refused_at_once() {
        let place = TestFolder::new();
        let work = place.at("work");
        fs::create_dir_all(work.join(SCRATCH_STORE)).unwrap();
        // The file system of processes is a different one.
        let target = Path::new("/proc/self/a.zv");
        let error = check_device(&work, target).unwrap_err().to_string();
        assert!(error.ends_with("found another file system"), "{error}");
        assert!(!work.exists(), "it is left");
        fs::create_dir_all(work.join(SCRATCH_STORE)).unwrap();
        assert!(check_device(&work, &place.at("a.zv")).is_ok());
        assert!(work.exists());
    }
}
