//! A temporary copy of a store, for changes that one commit takes over.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use zvf_publish::{Disk, KeyedFolder};

use crate::changes::Changes;
use crate::error::{Result, fail};
use crate::journal::{Guard, Journal, need_listed};
use crate::stamp::new_txid;

/// A copy of a store in a temporary folder.
#[derive(Debug)]
pub(crate) struct StoreCopy {
    pub(crate) path: PathBuf,
    /// Removes the folder with the copy.
    _scratch: Scratch,
    /// Keeps `gc` from the copy, which lies among staged files.
    _staging: Guard,
    /// The keys of the copy as it was made.
    keys: BTreeSet<String>,
    /// The files that are hard links to those of the store, with their inode.
    linked: BTreeMap<String, u64>,
}

impl StoreCopy {
    /// Copies the store with `changes` applied.
    pub(crate) fn copy_store_with(journal: &Journal, changes: &Changes) -> Result<Self> {
        let staging = journal.lock_for_staging()?;
        let scratch = Scratch::new(journal)?;
        let name = journal.place.folder().and_then(Path::file_name);
        let path = scratch.path.join(name.unwrap_or("store.zarrvectors".as_ref()));
        let (keys, linked) = (BTreeSet::new(), BTreeMap::new());
        let mut copy = Self { path, _scratch: scratch, _staging: staging, keys, linked };
        let to = copy.folder();
        for key in journal.store.walk("")? {
            if changes.keys.contains_key(&key) {
                continue;
            }
            match journal.store.folder() {
                Some(from) => {
                    let inode = link_or_copy(&from.path(&key), &to.path(&key))?;
                    copy.linked.extend(inode.map(|inode| (key.clone(), inode)));
                }
                None => write_file(&to.path(&key), &need_listed(&key, journal.store.get(&key)?)?)?,
            }
            copy.keys.insert(key);
        }
        for (key, bytes) in &changes.keys {
            if let Some(bytes) = bytes {
                write_file(&to.path(key), &bytes.read()?)?;
                copy.keys.insert(key.clone());
            }
        }
        Ok(copy)
    }

    fn folder(&self) -> KeyedFolder {
        KeyedFolder::new(Disk::default(), self.path.clone())
    }

    /// Compares the copy with the store. Returns the changes, and the bytes of the store under their keys.
    pub(crate) fn list_differences(&self, journal: &Journal) -> Result<(Changes, Changes)> {
        let copy = self.folder();
        let list = |keys: Vec<String>| -> BTreeSet<String> { keys.into_iter().collect() };
        let (before, after) = (list(journal.store.walk("")?), list(copy.walk("")?));
        self.check_is_whole(&after)?;
        let (mut changes, mut stored) = (Changes::default(), Changes::default());
        let is_other = |key: &&String| !after.contains(*key) || !self.is_linked(key);
        for key in before.union(&after).filter(is_other) {
            let (old, new) = (journal.store.get(key)?, copy.get(key)?);
            if old != new {
                stored.insert(key.clone(), old);
                changes.insert(key.clone(), new);
            }
        }
        Ok((changes, stored))
    }

    /// Compares what the copy had with what is `after` the rewrite. Levels are replaced, links between
    /// chunks go where chunks or levels change, and cells where they get other keys: no program that
    /// rewrites a store removes a document of level 0, or all cells of an array of it. Where these are
    /// gone, something else removed files of the copy.
    fn check_is_whole(&self, after: &BTreeSet<String>) -> Result<()> {
        let stays = |key: &&str| {
            let is_link = key.split('/').any(|part| part.starts_with("link"));
            let is_known = key.ends_with("zarr.json") || key.contains("/c/");
            is_known && !is_link && !zvf_pyramid::belongs_to_levels(key)
        };
        let is_lost = |key: &&str| {
            let cells = key.find("/c/").map(|at| &key[..at + 3]);
            let first = after.range(cells.unwrap_or(key).to_owned()..).next();
            !first.is_some_and(|found| cells.map_or(found == key, |cells| found.starts_with(cells)))
        };
        let mut keys = self.keys.iter().map(String::as_str).filter(stays);
        let Some(lost) = keys.find(is_lost) else { return Ok(()) };
        let copy = self.path.display();
        let text = format!(
            "{copy}, {lost}: expected what was copied, found nothing: something else removed files of the copy; try again"
        );
        fail(zvf_format::Class::FileChanged, text)
    }

    /// Returns whether a file is still the hard link to that of the store.
    fn is_linked(&self, key: &str) -> bool {
        let inode = self.linked.get(key);
        inode.is_some() && inode.copied() == inode_of(&self.path.join(key))
    }
}

/// A temporary folder, removed on drop.
#[derive(Debug)]
struct Scratch {
    path: PathBuf,
    /// A lock in the folder for temporary files, by which programs that clean it know that the
    /// files are in use.
    _held: Option<fs::File>,
}

impl Scratch {
    /// Creates the folder beside the staged files of the journal, or in the folder for temporary
    /// files.
    fn new(journal: &Journal) -> Result<Self> {
        if let Some(side) = journal.side.folder() {
            let path = side.path(&format!("txn/rewrite-{}", new_txid()));
            return Ok(Self { path, _held: None });
        }
        let path = std::env::temp_dir().join(format!("zvf-rewrite-{}", new_txid()));
        fs::create_dir(&path)?;
        let held = fs::File::open(&path).ok().filter(|folder| folder.try_lock().is_ok());
        Ok(Self { path, _held: held })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // `gc` removes what remains.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Hard-links a file, or copies it where that fails. Returns the inode of a link.
fn link_or_copy(from: &Path, to: &Path) -> Result<Option<u64>> {
    if let Some(above) = to.parent() {
        fs::create_dir_all(above)?;
    }
    match fs::hard_link(from, to) {
        Ok(()) => Ok(inode_of(to)),
        Err(_no_links) => {
            fs::copy(from, to)?;
            Ok(None)
        }
    }
}

fn write_file(path: &Path, bytes: &[u8]) -> Result<()> {
    if let Some(above) = path.parent() {
        fs::create_dir_all(above)?;
    }
    Ok(fs::write(path, bytes)?)
}

#[cfg(unix)]
fn inode_of(path: &Path) -> Option<u64> {
    use std::os::unix::fs::MetadataExt as _;
    Some(fs::metadata(path).ok()?.ino())
}

#[cfg(not(unix))]
fn inode_of(_path: &Path) -> Option<u64> {
    None
}
