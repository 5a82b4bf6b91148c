//! A store being built in a directory of this machine, until it gets its name.
//!
//! ```text
//! PARENT/NAME                        the store, once it is whole
//! PARENT/.NAME.zvf-build-ID/         scratch of one build
//!     lock                           locked for as long as its owner lives
//!     store/...                      the store, under its final names
//!     old/...                        what was replaced, where names cannot change places in one step
//! ```
//!
//! Publishing: sync everything, give `store` the name NAME, sync PARENT. Until then nothing of the store
//! is to be seen, and afterwards all of it; replacing lets the two change places instead. A build that
//! finds scratch of its own NAME whose lock is free removes it: its owner is dead. Where it finds `old`
//! and no NAME, that owner died between two renames, and the old store gets its name back first.
//!
//! Not here: what a store holds ([`super`]), and single calls ([`super::disk`]).

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions as FileOptions, TryLockError};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use zvf_format::{Class, Expected};

use super::disk::Disk;
use crate::error::{Op, StoreError};
use crate::key::Key;

/// The scratch of one build.
#[derive(Debug)]
pub(crate) struct Folder {
    disk: Disk,
    target: PathBuf,
    parent: PathBuf,
    scratch: PathBuf,
    store: PathBuf,
    held: File,         // the directory, open since before the first write
    _lock: File,        // locked
    made: Vec<PathBuf>, // directories above the store that were not there before
    replace: bool,
    sync: bool,
    done: AtomicBool,
}

impl Folder {
    /// Scratch beside `target`, after what the dead left was removed.
    pub(crate) fn begin(
        target: &Path,
        disk: Disk,
        replace: bool,
        sync: bool,
    ) -> Result<Self, StoreError> {
        let target = resolved(target).map_err(write)?;
        let (Some(parent), Some(name)) = (target.parent(), target.file_name()) else {
            let expected = Expected::Rule("a path that ends with a name");
            let (class, found) = (Class::InvalidArgument, target.to_string_lossy());
            return Err(StoreError::refused(class, Op::Open, "path", expected, &*found));
        };
        let (parent, prefix) = (parent.to_owned(), scratch_prefix(name));
        let made = disk.make_dirs(&parent).map_err(write)?;
        clean(&disk, &parent, &prefix, &target).map_err(write)?;
        check_target(&target, replace)?;
        let (scratch, lock) = own_scratch(&disk, &parent, &prefix).map_err(write)?;
        let store = scratch.join(STORE);
        let begun = disk.make_dir(&store).and_then(|()| open_dir(&store)).map_err(write);
        let held = begun.inspect_err(|_| drop(fs::remove_dir_all(&scratch)))?;
        let done = AtomicBool::new(false);
        Ok(Self {
            disk,
            target,
            parent,
            scratch,
            store,
            held,
            _lock: lock,
            made,
            replace,
            sync,
            done,
        })
    }

    /// Writes the object under `key`, which must not be there yet.
    pub(crate) fn put(&self, key: &Key, parts: &[Bytes]) -> Result<(), StoreError> {
        let written = self.disk.create(&self.store.join(key.as_str()), parts);
        written.map_err(|error| write(error).with_key(key))
    }

    /// Writes the root document, in place of one that was written before.
    pub(crate) fn put_root(&self, key: &Key, text: &Bytes) -> Result<(), StoreError> {
        let removed = self.disk.remove(&self.store.join(key.as_str()));
        removed.map_err(|error| write(error).with_key(key))?;
        self.put(key, std::slice::from_ref(text))
    }

    /// Where the store lies until it is published.
    pub(crate) fn path(&self) -> &Path {
        &self.store
    }

    /// Takes over the files of the store that is replaced, all but its root document and what lies in or
    /// below a key that `leave` holds for. Tells the documents among them.
    pub(crate) fn keep(&self, leave: &dyn Fn(&Key) -> bool) -> Result<Vec<Key>, StoreError> {
        let leave = |key: &Key| key.as_str() == DOCUMENT || leave(key);
        self.link_all(&self.target, &self.store, &leave)
    }

    /// Gives the files of the node at `key` and of all below it second names in `folder`, which is made.
    pub(crate) fn lend(&self, key: &Key, folder: &Path) -> Result<(), StoreError> {
        let place = |error| write(error).with_key(key);
        self.disk.make_dir(folder).map_err(place)?;
        self.link_all(&self.store.join(key.as_str()), folder, &|_| false)?;
        if self.sync {
            self.disk.sync_all(&self.held, folder).map_err(place)?;
        }
        Ok(())
    }

    /// Takes over the files in `folder` as those of the node at `key`. Tells the documents among them.
    pub(crate) fn adopt(&self, folder: &Path, key: &Key) -> Result<Vec<Key>, StoreError> {
        let to = self.store.join(key.as_str());
        self.disk.make_dirs(&to).map_err(|error| write(error).with_key(key))?;
        let documents = self.link_all(folder, &to, &|_| false)?;
        documents.iter().map(|document| key.below(document.as_str())).collect()
    }

    /// Removes the files of the node at `key` and of all below it.
    pub(crate) fn remove(&self, key: &Key) -> Result<(), StoreError> {
        let removed = self.disk.remove_all(&self.store.join(key.as_str()));
        removed.map_err(|error| write(error).with_key(key))
    }

    /// Gives all files below `from` second names below `to`, but for those that `leave` holds for. Tells the
    /// documents among them.
    fn link_all(
        &self,
        from: &Path,
        to: &Path,
        leave: &dyn Fn(&Key) -> bool,
    ) -> Result<Vec<Key>, StoreError> {
        let (mut folders, mut documents) = (vec![Key::root()], Vec::new());
        while let Some(folder) = folders.pop() {
            let place = |error| write(error).with_key(&folder);
            if !folder.is_root() {
                self.disk.make_dir(&to.join(folder.as_str())).map_err(place)?;
            }
            for entry in fs::read_dir(from.join(folder.as_str())).map_err(place)? {
                let entry = entry.map_err(place)?;
                let key = folder.child(&entry.file_name().to_string_lossy())?;
                if leave(&key) {
                    continue;
                }
                // Only a link has to be looked behind.
                let kind = entry.file_type().map_err(place)?;
                if kind.is_dir() || (kind.is_symlink() && entry.path().is_dir()) {
                    folders.push(key);
                    continue;
                }
                let link = self.disk.link(&entry.path(), &to.join(key.as_str()));
                link.map_err(|error| write(error).with_key(&key))?;
                if entry.file_name() == DOCUMENT {
                    documents.push(key);
                }
            }
        }
        Ok(documents)
    }

    /// Makes the store visible under its name, whole and synced.
    pub(crate) fn publish(&self) -> Result<(), StoreError> {
        let publish = |error| StoreError::io(Op::Publish, error);
        if self.sync {
            self.disk.sync_all(&self.held, &self.store).map_err(publish)?;
        }
        if self.replace && self.target.exists() {
            self.swap().map_err(publish)?;
        } else {
            self.disk.rename(&self.store, &self.target).map_err(publish)?;
        }
        self.done.store(true, Ordering::Relaxed);
        if self.sync {
            self.disk.sync_dir(&self.parent).map_err(StoreError::unsure)?;
            self.disk.sync_dir(&self.scratch).map_err(StoreError::unsure)?;
            for above in self.made.iter().filter_map(|made| made.parent()) {
                self.disk.sync_dir(above).map_err(StoreError::unsure)?;
            }
        }
        // The store is there; whatever is left is scratch that the next build removes.
        drop(self.disk.remove_all(&self.scratch));
        Ok(())
    }

    /// Whether the store has got its name.
    pub(crate) fn is_published(&self) -> bool {
        self.done.load(Ordering::Relaxed) && self.target.join(DOCUMENT).exists()
    }

    /// Puts the new store where the old one is.
    fn swap(&self) -> io::Result<()> {
        if self.disk.exchange(&self.store, &self.target)? {
            return Ok(());
        }
        let old = self.scratch.join(OLD);
        self.disk.rename(&self.target, &old)?;
        // From here to the next line there is no store of that name; `clean` puts the old one back.
        self.disk.rename(&self.store, &self.target).or_else(|error| {
            self.disk.rename(&old, &self.target)?;
            Err(error)
        })
    }

    /// Removes what was written, and the directories that were made for it, unless it is published.
    pub(crate) fn abandon(&self) {
        if self.done.swap(true, Ordering::Relaxed) {
            return;
        }
        drop(self.disk.remove_all(&self.scratch));
        for made in self.made.iter().rev() {
            drop(fs::remove_dir(made)); // refused when someone else uses it by now
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        self.abandon();
    }
}

/// The path with its directory spelled out, and through a link where it is one.
pub(super) fn resolved(target: &Path) -> io::Result<PathBuf> {
    match fs::canonicalize(target) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => std::path::absolute(target),
        found => found,
    }
}

pub(super) fn scratch_prefix(name: &std::ffi::OsStr) -> OsString {
    let mut prefix = OsString::from(".");
    prefix.push(name);
    prefix.push(".zvf-build-");
    prefix
}

/// A directory of this build's own, locked.
fn own_scratch(disk: &Disk, parent: &Path, prefix: &OsString) -> io::Result<(PathBuf, File)> {
    loop {
        let id = RandomState::new().hash_one(std::process::id());
        let mut name = prefix.clone();
        name.push(format!("{id:016x}"));
        let scratch = parent.join(name);
        match disk.make_dir(&scratch) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            made => made?,
        }
        // Another build may take a directory without a lock for a dead one's, and be faster.
        match lock(&scratch, true) {
            Ok(Some(lock)) => return Ok((scratch, lock)),
            Ok(None) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                drop(fs::remove_dir_all(&scratch));
                return Err(error);
            }
        }
    }
}

/// The lock in `scratch`, unless someone else has it or the directory is gone.
fn lock(scratch: &Path, fresh: bool) -> io::Result<Option<File>> {
    let path = scratch.join(LOCK);
    let mut options = FileOptions::new();
    options.read(true).write(true);
    let opened = if fresh { options.create_new(true) } else { options.create(true) }.open(&path);
    let file = match opened {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(None),
        opened => opened?,
    };
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(None),
        Err(TryLockError::Error(error)) => return Err(error),
    }
    // It may have been removed between the two calls.
    Ok(path.exists().then_some(file))
}

/// Directories in `parent` whose names begin with `prefix`.
pub(super) fn scratches(parent: &Path, prefix: &OsString) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(parent)? {
        let entry = entry?;
        let ours = entry.file_name().as_encoded_bytes().starts_with(prefix.as_encoded_bytes());
        if ours && entry.file_type()?.is_dir() {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

/// [`clean`] for the store at `target`.
pub(super) fn clean_beside(disk: &Disk, target: &Path) -> io::Result<Vec<PathBuf>> {
    match (target.parent(), target.file_name()) {
        (Some(parent), Some(name)) => clean(disk, parent, &scratch_prefix(name), target),
        _ => Ok(Vec::new()),
    }
}

/// Removes the scratch of builds whose owners are dead, and tells which; puts an old store back that one of
/// them left without a name.
fn clean(disk: &Disk, parent: &Path, prefix: &OsString, target: &Path) -> io::Result<Vec<PathBuf>> {
    let mut removed = Vec::new();
    for scratch in scratches(parent, prefix)? {
        let Ok(Some(_lock)) = lock(&scratch, false) else { continue };
        let old = scratch.join(OLD);
        if old.exists() && !target.exists() {
            disk.rename(&old, target)?;
        }
        // What its owner renamed last may not be on the disk yet, and needs what is removed here.
        disk.sync_dir(parent)?;
        if disk.remove_all(&scratch).is_ok() {
            removed.push(scratch);
        }
    }
    Ok(removed)
}

/// Refuses a name that is taken.
pub(super) fn check_target(target: &Path, replace: bool) -> Result<(), StoreError> {
    let about = match fs::symlink_metadata(target) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        about => about.map_err(write)?,
    };
    let taken = |found| {
        let expected = Expected::Rule("a name that is free, or leave to replace what is there");
        Err(StoreError::refused(Class::AlreadyExists, Op::Open, "store", expected, found))
    };
    if !about.is_dir() {
        return taken("a file");
    }
    let mut entries = fs::read_dir(target).map_err(write)?;
    if entries.next().is_none() {
        return Ok(());
    }
    if !replace {
        return taken("a directory that is not empty");
    }
    // What is replaced is what a mistyped name points to.
    if !target.join("zarr.json").is_file() {
        let expected = Expected::Rule("a store: nothing else is replaced");
        let (class, found) = (Class::InvalidArgument, "a directory without zarr.json");
        return Err(StoreError::refused(class, Op::Open, "store", expected, found));
    }
    let mut journal = target.as_os_str().to_owned();
    journal.push(".zvf");
    if Path::new(&journal).exists() {
        let expected =
            Expected::Rule("one without a journal: its edits would be applied to the new one");
        let (class, found) = (Class::InvalidArgument, "NAME.zvf beside it");
        return Err(StoreError::refused(class, Op::Open, "store to replace", expected, found));
    }
    Ok(())
}

#[cfg(unix)]
pub(super) fn open_dir(path: &Path) -> io::Result<File> {
    File::open(path)
}

/// Elsewhere a directory cannot be held open like a file; nothing is asked of it there.
#[cfg(not(unix))]
pub(super) fn open_dir(path: &Path) -> io::Result<File> {
    File::open(path.with_file_name(LOCK))
}

pub(super) fn write(error: io::Error) -> StoreError {
    StoreError::io(Op::Write, error)
}

const DOCUMENT: &str = "zarr.json";
pub(super) const LOCK: &str = "lock";
const STORE: &str = "store";
const OLD: &str = "old";
