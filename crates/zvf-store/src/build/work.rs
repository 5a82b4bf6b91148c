//! A store in a directory of this machine that several processes build, each some of it, in any number
//! of goes, until one of them publishes it.
//!
//! ```text
//! PARENT/NAME            the store, once it is whole
//! WORK/                  the caller's folder, on the same file system; it outlives every process
//!     store/...          the store, under its final names
//!     store.id           which directory that is and what its root document is, as soon as nothing is
//!                        missing; when it has changed places with an old store, `store` is that
//!     old/...            what was replaced, where names cannot change places in one step
//! ```
//!
//! Nobody locks anything. A file is written under a name of its own and then renamed over its final one:
//! who does the same work again, at the same time or later, puts the same bytes in the same place. Those
//! names are random: processes on many machines, or in many containers, often have the same number. Who
//! publishes twice finds out what the first had done, whatever moment it was killed at.
//!
//! Not here: builds that one process does alone ([`super::folder`]), and which process does what.

use std::fs::{self, File};
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use zvf_format::{Class, Expected};

use super::disk::Disk;
use super::folder::{check_target, clean_beside, open_dir, resolved, write};
use crate::error::{Op, StoreError};
use crate::key::Key;

/// One process's view of the common folder.
#[derive(Debug)]
pub(crate) struct Work {
    disk: Disk,
    target: PathBuf,
    work: PathBuf,
    held: File, // the folder, open since before the first write of this process
    replace: bool,
    sync: bool,
}

impl Work {
    /// Takes part in building `target` in `work`.
    pub(crate) fn join(
        target: &Path,
        work: &Path,
        disk: Disk,
        replace: bool,
        sync: bool,
    ) -> Result<Self, StoreError> {
        let target = resolved(target).map_err(write)?;
        if is_gone(&target, work).map_err(write)? {
            let rule = "the one of the plan: remove the folder of the plan to begin anew";
            let (class, expected) = (Class::FileChanged, Expected::Rule(rule));
            let found = "another: it was published, and removed or replaced since";
            return Err(StoreError::refused(class, Op::Open, "store of tasks", expected, found));
        }
        if !is_published(&disk, &target, work).map_err(write)? {
            check_target(&target, replace)?;
            disk.make_dirs(&work.join(STORE)).map_err(write)?;
        }
        let held = open_dir(work).map_err(write)?;
        Ok(Self { disk, target, work: work.to_owned(), held, replace, sync })
    }

    /// Writes the object under `key`, in place of what an earlier go wrote there.
    pub(crate) fn put(&self, key: &Key, parts: &[Bytes]) -> Result<(), StoreError> {
        let path = self.work.join(STORE).join(key.as_str());
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let fresh = path.with_file_name(format!(".tmp-{:016x}-{number}", process()));
        let written = self.disk.create(&fresh, parts);
        let written = written.and_then(|()| self.disk.rename(&fresh, &path));
        written.map_err(|error| {
            drop(fs::remove_file(&fresh));
            write(error).with_key(key)
        })
    }

    /// Whether the store has got its name.
    pub(crate) fn is_published(&self) -> io::Result<bool> {
        is_published(&self.disk, &self.target, &self.work)
    }

    /// Whether the object under `key` was written.
    pub(crate) fn has(&self, key: &Key) -> io::Result<bool> {
        fs::exists(self.work.join(STORE).join(key.as_str()))
    }

    /// Waits until what this process wrote would survive a loss of power.
    pub(crate) fn settle(&self) -> Result<(), StoreError> {
        if !self.sync {
            return Ok(());
        }
        self.disk.sync_all(&self.held, &self.work.join(STORE)).map_err(write)
    }

    /// Writes the last object and makes the store visible under its name, whole and synced. Where an
    /// earlier go had come so far, nothing is left to do.
    pub(crate) fn publish(&self, key: &Key, root: Bytes) -> Result<(), StoreError> {
        let publish = |error| StoreError::io(Op::Publish, error);
        if !self.is_published().map_err(publish)? {
            self.put(key, &[root])?;
            self.exchange().map_err(publish)?;
        }
        if self.sync
            && let Some(parent) = self.target.parent()
        {
            self.disk.sync_dir(parent).map_err(StoreError::unsure)?;
            self.disk.sync_dir(&self.work).map_err(StoreError::unsure)?;
        }
        // The store is there; what builds in one process left is theirs no more.
        drop(clean_beside(&self.disk, &self.target));
        Ok(())
    }

    fn exchange(&self) -> io::Result<()> {
        let (store, old) = (self.work.join(STORE), self.work.join(OLD));
        clear_names(&store)?;
        self.disk.remove(&self.work.join(ID))?;
        self.disk.create(&self.work.join(ID), &[identity(&store)?.into()])?;
        if self.sync {
            self.disk.sync_all(&self.held, &self.work)?;
        }
        if !(self.replace && self.target.join(ROOT).exists()) {
            return self.disk.rename(&store, &self.target);
        }
        if self.disk.exchange(&store, &self.target)? {
            return Ok(());
        }
        self.disk.rename(&self.target, &old)?;
        self.disk.rename(&store, &self.target).or_else(|error| {
            self.disk.rename(&old, &self.target)?;
            Err(error)
        })
    }
}

/// Whether the store that was built in `work` has got its name. What a dead process left half way is put in
/// order.
fn is_published(disk: &Disk, target: &Path, work: &Path) -> io::Result<bool> {
    let store = work.join(STORE);
    let between = work.join(ID).exists() && work.join(OLD).exists() && store.exists();
    if between && !target.join(ROOT).exists() {
        disk.rename(&store, target)?; // killed between two renames
        return Ok(true);
    }
    is_built_in(target, work)
}

/// The same, without putting anything in order.
pub(super) fn is_built_in(target: &Path, work: &Path) -> io::Result<bool> {
    let Ok(known) = fs::read_to_string(work.join(ID)) else { return Ok(false) };
    Ok(target.join(ROOT).exists() && identity(target)? == known)
}

/// Whether a store was finished in `work` and is neither there any more nor at `target`: it was published,
/// and then removed or replaced. What lies in `work` under its name is another one.
pub(super) fn is_gone(target: &Path, work: &Path) -> io::Result<bool> {
    let Ok(known) = fs::read_to_string(work.join(ID)) else { return Ok(false) };
    let store = work.join(STORE);
    let kept = store.join(ROOT).exists() && identity(&store)? == known;
    Ok(!kept && !is_built_in(target, work)?)
}

/// Removes names of files that dead processes did not finish.
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

/// What tells one store from another, whatever its name and whichever machine asks: the number of its
/// directory, which the next directory may get when it is removed, and its root document.
#[cfg(unix)]
fn identity(path: &Path) -> io::Result<String> {
    use std::os::unix::fs::MetadataExt as _;
    let root = crc32c::crc32c(&fs::read(path.join(ROOT))?);
    Ok(format!("{} {root:08x}", fs::metadata(path)?.ino()))
}

/// Elsewhere directories have no number, and names do not change places in one step.
#[cfg(not(unix))]
fn identity(path: &Path) -> io::Result<String> {
    Ok(format!("{:08x}", crc32c::crc32c(&fs::read(path.join(ROOT))?)))
}

/// What tells this process from all others that write here.
fn process() -> u64 {
    static NUMBER: OnceLock<u64> = OnceLock::new();
    *NUMBER.get_or_init(|| RandomState::new().hash_one(std::process::id()))
}

const STORE: &str = "store";
const ID: &str = "store.id";
const OLD: &str = "old";
const ROOT: &str = "zarr.json";
static COUNTER: AtomicU64 = AtomicU64::new(0);

#[cfg(test)]
mod tests {
    use super::*;

    struct Place(tempfile::TempDir);

    impl Place {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        fn at(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        fn join(&self, replace: bool) -> Result<Work, StoreError> {
            Work::join(&self.at("a.zv"), &self.at("work"), Disk::default(), replace, true)
        }
    }

    fn put(work: &Work, key: &str, bytes: &'static [u8]) {
        work.put(&Key::root().below(key).unwrap(), &[Bytes::from_static(bytes)]).unwrap();
    }

    fn publish(work: &Work, root: &'static [u8]) {
        let key = Key::root().below("zarr.json").unwrap();
        work.publish(&key, Bytes::from_static(root)).unwrap();
    }

    #[test]
    fn work_done_again_changes_nothing() {
        let place = Place::new();
        let (one, other) = (place.join(false).unwrap(), place.join(false).unwrap());
        put(&one, "0/c/1", b"same");
        put(&other, "0/c/1", b"same");
        fs::write(place.at("work/store/0/c/.tmp-9-9"), "half").unwrap();
        drop(one);
        assert!(!other.is_published().unwrap());
        publish(&other, b"{}");
        publish(&other, b"{}");
        publish(&place.join(false).unwrap(), b"{}");
        assert_eq!(fs::read(place.at("a.zv/0/c/1")).unwrap(), b"same");
        assert!(!place.at("a.zv/0/c/.tmp-9-9").exists());
        assert!(other.is_published().unwrap());
    }

    #[test]
    fn a_store_is_replaced_once_whatever_moment_it_is_killed_at() {
        let place = Place::new();
        fs::create_dir(place.at("a.zv")).unwrap();
        fs::write(place.at("a.zv/zarr.json"), "old").unwrap();
        let error = place.join(false).unwrap_err().to_string();
        assert!(error.starts_with("AlreadyExists, store: expected a name that is free"), "{error}");
        assert!(
            !is_published(&Disk::default(), &place.at("a.zv"), &place.at("work")).unwrap(),
            "it is another one"
        );
        let work = place.join(true).unwrap();
        put(&work, "0/c/0", b"cell");
        fs::write(place.at("work/store/zarr.json"), "new").unwrap();
        // Killed before the names changed places.
        fs::write(place.at("work/store.id"), identity(&place.at("work/store")).unwrap()).unwrap();
        let work = place.join(true).unwrap();
        assert_eq!(fs::read(place.at("a.zv/zarr.json")).unwrap(), b"old");
        publish(&work, b"new");
        assert_eq!(fs::read(place.at("a.zv/zarr.json")).unwrap(), b"new");
        // Killed right after; the next go must not change them back.
        publish(&place.join(true).unwrap(), b"newest");
        assert_eq!(fs::read(place.at("a.zv/zarr.json")).unwrap(), b"new");
        assert_eq!(fs::read(place.at("work/store/zarr.json")).unwrap(), b"old");
    }

    #[test]
    fn a_store_that_went_after_it_was_published_is_gone() {
        let place = Place::new();
        let gone = || is_gone(&place.at("a.zv"), &place.at("work")).unwrap();
        fs::create_dir(place.at("a.zv")).unwrap();
        fs::write(place.at("a.zv/zarr.json"), "old").unwrap();
        let work = place.join(true).unwrap();
        put(&work, "0/c/0", b"cell");
        assert!(!gone(), "it is being built");
        fs::write(place.at("work/store/zarr.json"), "new").unwrap();
        fs::write(place.at("work/store.id"), identity(&place.at("work/store")).unwrap()).unwrap();
        assert!(!gone(), "killed before it was published");
        publish(&work, b"new");
        assert!(!gone(), "it is published");
        fs::write(place.at("a.zv/zarr.json"), "another one in the same directory").unwrap();
        assert!(gone(), "the store that it replaced is in its place");
        assert_eq!(place.join(true).unwrap_err().class(), Class::FileChanged);
        fs::remove_dir_all(place.at("a.zv")).unwrap();
        assert!(gone());
        fs::remove_dir_all(place.at("work/store")).unwrap();
        fs::create_dir(place.at("work/store")).unwrap();
        assert!(gone(), "an empty directory, perhaps of the same number");
    }

    #[test]
    #[cfg(unix)]
    fn two_renames_are_finished_by_the_next() {
        let place = Place::new();
        fs::create_dir_all(place.at("work/old")).unwrap();
        fs::create_dir(place.at("work/store")).unwrap();
        fs::write(place.at("work/store/zarr.json"), "new").unwrap();
        fs::write(place.at("work/store.id"), identity(&place.at("work/store")).unwrap()).unwrap();
        assert!(is_published(&Disk::default(), &place.at("a.zv"), &place.at("work")).unwrap());
        assert_eq!(fs::read(place.at("a.zv/zarr.json")).unwrap(), b"new");
    }

    #[test]
    fn what_a_build_in_one_process_left_goes_too() {
        let place = Place::new();
        fs::create_dir_all(place.at(".a.zv.zvf-build-0/store")).unwrap();
        let work = place.join(false).unwrap();
        assert!(!work.has(&Key::root().below("0/c/0").unwrap()).unwrap());
        put(&work, "0/c/0", b"cell");
        assert!(work.has(&Key::root().below("0/c/0").unwrap()).unwrap());
        publish(&work, b"{}");
        assert!(!place.at(".a.zv.zvf-build-0").exists());
    }
}
