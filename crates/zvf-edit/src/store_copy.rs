//! A temporary copy of a store, for changes that one commit takes over.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use zvf_publish::{Disk, KeyedFolder};

use crate::changes::Changes;
use crate::error::{EditError, Result};
use crate::journal::{Journal, need_listed};
use crate::stamp::new_txid;

/// A copy of a store in a temporary folder.
#[derive(Debug)]
pub(crate) struct StoreCopy {
    pub(crate) path: PathBuf,
    /// Removes the folder with the copy.
    _scratch: Scratch,
    /// The files that are hard links to those of the store, with their inode.
    linked: BTreeMap<String, u64>,
}

impl StoreCopy {
    /// Copies the store with `changes` applied.
    pub(crate) fn copy_store_with(journal: &Journal, changes: &Changes) -> Result<Self> {
        let scratch = Scratch::new(journal);
        let name = journal.place.folder().and_then(Path::file_name);
        let path = scratch.path.join(name.unwrap_or("store.zarrvectors".as_ref()));
        let mut copy = Self { path, _scratch: scratch, linked: BTreeMap::new() };
        let to = copy.folder();
        for key in journal.store.walk("")? {
            if changes.contains_key(&key) {
                continue;
            }
            match journal.store.folder() {
                Some(from) => {
                    let inode = link_or_copy(&from.path(&key), &to.path(&key))?;
                    copy.linked.extend(inode.map(|inode| (key, inode)));
                }
                None => write_file(&to.path(&key), &need_listed(&key, journal.store.get(&key)?)?)?,
            }
        }
        for (key, bytes) in changes {
            if let Some(bytes) = bytes {
                write_file(&to.path(key), bytes)?;
            }
        }
        Ok(copy)
    }

    fn folder(&self) -> KeyedFolder {
        KeyedFolder::new(Disk::default(), self.path.clone())
    }

    /// Compares the copy with the store. Returns the changes, and the bytes of the store under their keys.
    pub(crate) fn list_differences(
        &self,
        journal: &Journal,
    ) -> Result<(Changes, HashMap<String, Option<Bytes>>)> {
        let copy = self.folder();
        let list = |keys: Vec<String>| -> BTreeSet<String> { keys.into_iter().collect() };
        let (before, after) = (list(journal.store.walk("")?), list(copy.walk("")?));
        let (mut changes, mut stored) = (Changes::new(), HashMap::new());
        let mut size = CommitSize::default();
        for key in before.union(&after) {
            if after.contains(key) && self.is_linked(key) {
                continue;
            }
            let (old, new) = (journal.store.get(key)?, copy.get(key)?);
            if old == new {
                continue;
            }
            size.add([old.as_ref(), new.as_ref()])?;
            stored.insert(key.clone(), old);
            changes.insert(key.clone(), new);
        }
        Ok((changes, stored))
    }

    /// Returns whether a file is still the hard link to that of the store.
    fn is_linked(&self, key: &str) -> bool {
        let inode = self.linked.get(key);
        inode.is_some() && inode.copied() == inode_of(&self.path.join(key))
    }
}

/// The bytes of the changes of a commit, old and new, all of which are in memory.
#[derive(Debug, Default)]
pub(crate) struct CommitSize(usize);

impl CommitSize {
    /// Adds the old and new bytes of a key. Refuses more than one commit may hold.
    pub(crate) fn add(&mut self, bytes: [Option<&Bytes>; 2]) -> Result<()> {
        self.0 += bytes.into_iter().flatten().map(Bytes::len).sum::<usize>();
        if self.0 <= MAX_COMMIT_BYTES {
            return Ok(());
        }
        Err(EditError::new(
            zvf_format::Class::LimitExceeded,
            format!(
                "more than {} GiB differ, too much for one commit; write to a new store instead",
                MAX_COMMIT_BYTES >> 30
            ),
        ))
    }
}

/// A temporary folder, removed on drop.
#[derive(Debug)]
pub(crate) struct Scratch {
    pub(crate) path: PathBuf,
}

impl Scratch {
    /// Chooses a name beside the staged files of the journal, or in the temporary folder. Creates nothing yet.
    pub(crate) fn new(journal: &Journal) -> Self {
        let path = match journal.side.folder() {
            Some(side) => side.path(&format!("txn/rewrite-{}", new_txid())),
            None => std::env::temp_dir().join(format!("zvf-rewrite-{}", new_txid())),
        };
        Self { path }
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

/// Maximum bytes of a commit in memory, old and new.
const MAX_COMMIT_BYTES: usize = 8 << 30;
