//! A store in a directory of this machine that several processes build, each some of it, in any number
//! of goes, until one of them publishes it.
//!
//! ```text
//! PARENT/NAME            the store, once it is whole
//! WORK/                  the caller's folder, on the same file system; it outlives every process
//!     store/...          the store, under its final names
//!     store.id           which directory that is, as soon as nothing is missing
//!     whole/...          the same when it is to change places with an old store; then that
//!     old/...            what was replaced, where names cannot change places in one step
//! ```
//!
//! Nobody locks anything. A file is written under a name of its own and then renamed over its final one:
//! who does the same work again, at the same time or later, puts the same bytes in the same place. Who
//! publishes twice finds out what the first had done, whatever moment it was killed at.
//!
//! Not here: builds that one process does alone ([`super::folder`]), and which process does what.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;

use super::disk::Disk;
use super::folder::{check_target, open_dir, resolved, write};
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
        if !is_published(&target, work).map_err(write)? {
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
        let name = format!(".tmp-{}-{number}", std::process::id());
        let fresh = path.with_file_name(name);
        let written = match self.disk.create(&fresh, parts) {
            // One that a dead process of the same number left.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                fs::remove_file(&fresh).and_then(|()| self.disk.create(&fresh, parts))
            }
            written => written,
        };
        let written = written.and_then(|()| self.disk.rename(&fresh, &path));
        written.map_err(|error| {
            drop(fs::remove_file(&fresh));
            write(error).with_key(key)
        })
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
        if !is_published(&self.target, &self.work).map_err(publish)? {
            self.put(key, &[root])?;
            self.settle()?;
            self.exchange().map_err(publish)?;
        }
        if self.sync
            && let Some(parent) = self.target.parent()
        {
            self.disk.sync_dir(parent).map_err(StoreError::unsure)?;
            self.disk.sync_dir(&self.work).map_err(StoreError::unsure)?;
        }
        Ok(())
    }

    fn exchange(&self) -> io::Result<()> {
        let (store, whole) = (self.work.join(STORE), self.work.join(WHOLE));
        clear_names(&store)?;
        fs::write(self.work.join(ID), identity(&store)?)?;
        if self.sync {
            File::open(self.work.join(ID))?.sync_all()?;
            self.disk.sync_dir(&self.work)?;
        }
        if !(self.replace && self.target.join(ROOT).exists()) {
            return self.disk.rename(&store, &self.target);
        }
        self.disk.rename(&store, &whole)?;
        if self.disk.exchange(&whole, &self.target)? {
            return Ok(());
        }
        self.disk.rename(&self.target, &self.work.join(OLD))?;
        self.disk.rename(&whole, &self.target)
    }
}

/// Whether the store that was built in `work` has got its name. What a dead process left half way is put in
/// order.
pub(crate) fn is_published(target: &Path, work: &Path) -> io::Result<bool> {
    let (store, whole, old) = (work.join(STORE), work.join(WHOLE), work.join(OLD));
    let Ok(known) = fs::read_to_string(work.join(ID)) else { return Ok(false) };
    let there = target.join(ROOT).exists();
    if there && identity(target)? == known && !known.is_empty() {
        return Ok(true);
    }
    if !whole.exists() {
        return Ok(there && known.is_empty() && !store.exists());
    }
    if !there && old.exists() {
        fs::rename(&whole, target)?; // killed between two renames
        return Ok(true);
    }
    if there && old.exists() {
        return Ok(true);
    }
    if store.exists() {
        fs::remove_dir_all(&store)?; // begun anew by who did not know
    }
    fs::rename(&whole, &store)?;
    Ok(false)
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

/// What tells one directory from another, whatever its name.
#[cfg(unix)]
fn identity(path: &Path) -> io::Result<String> {
    use std::os::unix::fs::MetadataExt as _;
    let about = fs::metadata(path)?;
    Ok(format!("{}-{}", about.dev(), about.ino()))
}

/// Elsewhere nothing does, and names do not change places in one step: which of them are there tells enough.
#[cfg(not(unix))]
fn identity(_path: &Path) -> io::Result<String> {
    Ok(String::new())
}

const STORE: &str = "store";
const WHOLE: &str = "whole";
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
        assert!(!is_published(&place.at("a.zv"), &place.at("work")).unwrap());
        publish(&other, b"{}");
        publish(&other, b"{}");
        publish(&place.join(false).unwrap(), b"{}");
        assert_eq!(fs::read(place.at("a.zv/0/c/1")).unwrap(), b"same");
        assert!(!place.at("a.zv/0/c/.tmp-9-9").exists());
        assert!(is_published(&place.at("a.zv"), &place.at("work")).unwrap());
    }

    #[test]
    fn a_store_is_replaced_once_whatever_moment_it_is_killed_at() {
        let place = Place::new();
        fs::create_dir(place.at("a.zv")).unwrap();
        fs::write(place.at("a.zv/zarr.json"), "old").unwrap();
        let error = place.join(false).unwrap_err().to_string();
        assert!(error.starts_with("AlreadyExists, store: expected a name that is free"), "{error}");
        assert!(!is_published(&place.at("a.zv"), &place.at("work")).unwrap(), "it is another one");
        let work = place.join(true).unwrap();
        put(&work, "0/c/0", b"cell");
        fs::write(place.at("work/store/zarr.json"), "new").unwrap();
        // Killed after `store` became `whole`, and before the names changed places.
        fs::rename(place.at("work/store"), place.at("work/whole")).unwrap();
        fs::write(place.at("work/store.id"), identity(&place.at("work/whole")).unwrap()).unwrap();
        let work = place.join(true).unwrap();
        assert_eq!(fs::read(place.at("a.zv/zarr.json")).unwrap(), b"old");
        publish(&work, b"new");
        assert_eq!(fs::read(place.at("a.zv/zarr.json")).unwrap(), b"new");
        // Killed right after; the next go must not change them back.
        publish(&place.join(true).unwrap(), b"newest");
        assert_eq!(fs::read(place.at("a.zv/zarr.json")).unwrap(), b"new");
    }

    #[test]
    #[cfg(unix)]
    fn two_renames_are_finished_by_the_next() {
        let place = Place::new();
        fs::create_dir_all(place.at("work/old")).unwrap();
        fs::create_dir(place.at("work/whole")).unwrap();
        fs::write(place.at("work/whole/zarr.json"), "new").unwrap();
        fs::write(place.at("work/store.id"), identity(&place.at("work/whole")).unwrap()).unwrap();
        assert!(is_published(&place.at("a.zv"), &place.at("work")).unwrap());
        assert_eq!(fs::read(place.at("a.zv/zarr.json")).unwrap(), b"new");
    }
}
