//! A temporary copy of a store, for changes that one commit takes over.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use zvf_format::Class;
use zvf_metadata::{DataTypeKind, Node};
use zvf_publish::{Disk, KeyedFolder, ScratchDir};

use crate::changes::Changes;
use crate::error::{Result, fail};
use crate::journal::{Guard, Journal, need_listed};

/// A copy of a store in a temporary folder.
#[derive(Debug)]
pub(crate) struct StoreCopy {
    pub(crate) path: PathBuf,
    /// Removes the folder with the copy.
    _scratch: ScratchDir,
    /// Keeps `gc` from the copy, which lies among staged files.
    _staging: Guard,
    /// The keys of the copy as it was made, with the inode of files that are hard links to those of
    /// the store.
    keys: BTreeMap<String, Option<u64>>,
}

impl StoreCopy {
    /// Copies the store with `changes` applied.
    pub(crate) fn copy_store_with(journal: &Journal, changes: &Changes) -> Result<Self> {
        let (disk, staging) = (Disk::default(), journal.lock_for_staging()?);
        // Hard links need the file system of the store.
        let beside = match journal.side.folder() {
            Some(side) => side.path("txn/rewrite"),
            None => std::env::temp_dir().join("zvf-rewrite"),
        };
        make_folder_of(&beside)?;
        let scratch = ScratchDir::create_next_to(&disk, &beside)?;
        let name = journal.place.folder().and_then(Path::file_name);
        let path = scratch.path().join("copy").join(name.unwrap_or("store.zarrvectors".as_ref()));
        let mut copy = Self { path, _scratch: scratch, _staging: staging, keys: BTreeMap::new() };
        let to = copy.folder();
        for key in journal.store.walk("")? {
            if changes.keys.contains_key(&key) {
                continue;
            }
            let linked = match journal.store.folder() {
                Some(from) => {
                    let (from, to) = (from.path(&key), to.path(&key));
                    make_folder_of(&to)?;
                    disk.link_target(&from, &to)?;
                    inode_of(&to).filter(|inode| inode_of(&from) == Some(*inode))
                }
                None => {
                    write_file(&to.path(&key), &need_listed(&key, journal.store.get(&key)?)?)?;
                    None
                }
            };
            copy.keys.insert(key, linked);
        }
        for (key, bytes) in &changes.keys {
            if let Some(bytes) = bytes {
                write_file(&to.path(key), &bytes.read()?)?;
                copy.keys.insert(key.clone(), None);
            }
        }
        Ok(copy)
    }

    fn folder(&self) -> KeyedFolder {
        KeyedFolder::new(Disk::default(), self.path.clone())
    }

    /// Compares the copy with the store after the command `operation`. Returns the changes, and the
    /// bytes of the store under their keys.
    pub(crate) fn list_differences(
        &self,
        journal: &Journal,
        operation: &str,
    ) -> Result<(Changes, Changes)> {
        let copy = self.folder();
        let list = |keys: Vec<String>| -> BTreeSet<String> { keys.into_iter().collect() };
        let (before, after) = (list(journal.store.walk("")?), list(copy.walk("")?));
        self.check_is_whole(&after, operation)?;
        let is_other = |key: &&String| !after.contains(*key) || !self.is_linked(key);
        compare(journal, &before, before.union(&after).filter(is_other), &copy)
    }

    /// Refuses a copy that lacks documents or cells which the command does not remove, and one that
    /// lacks all cells of an array: something else removed them. Levels and links go where levels are
    /// built; rearranged cells get other keys, and empty ones go; other commands remove nothing.
    fn check_is_whole(&self, after: &BTreeSet<String>, operation: &str) -> Result<()> {
        let (levels, cells) = match operation {
            "pyramid" => (true, false),
            "rewrite" => (false, true),
            "rewrite chunks" => return Ok(()), // a new store is in the place of the copy
            _ => (false, false),
        };
        let is_known = |key: &&String| key.ends_with("zarr.json") || key.contains("/c/");
        let mut arrays: BTreeMap<&str, bool> = BTreeMap::new(); // whether cells of them may go
        let gone = self.keys.keys().filter(|key| !after.contains(*key));
        for key in gone.filter(is_known) {
            let is_link = key.split('/').any(|part| part.starts_with("link"));
            let may_go = match key.split_once("/c/") {
                _ if levels && (is_link || zvf_pyramid::belongs_to_levels(key)) => true,
                Some((array, _)) if cells => match arrays.get(array) {
                    Some(may_go) => *may_go,
                    None => *arrays.entry(array).or_insert(self.has_other_cells(array, after)?),
                },
                _ => false,
            };
            if !may_go {
                let copy = self.path.display();
                let text = format!(
                    "{copy}, {key}: expected what was copied, found nothing: something else removed files of the copy; try again"
                );
                return fail(Class::FileChanged, text);
            }
        }
        Ok(())
    }

    /// Returns whether an array of cells of any length still has cells: these get other keys.
    fn has_other_cells(&self, array: &str, after: &BTreeSet<String>) -> Result<bool> {
        let cells = format!("{array}/c/");
        let first = after.range(cells.clone()..).next();
        let Some(doc) = self.folder().get(&format!("{array}/zarr.json"))? else { return Ok(false) };
        let has_cells = first.is_some_and(|found| found.starts_with(&cells));
        let Ok(Node::Array(doc)) = Node::parse(&doc) else { return Ok(false) };
        Ok(has_cells && *doc.data_type.kind() == DataTypeKind::VariableLengthBytes)
    }

    /// Returns whether a file is still the hard link to that of the store.
    fn is_linked(&self, key: &str) -> bool {
        let inode = self.keys.get(key).copied().flatten();
        inode.is_some() && inode == inode_of(&self.path.join(key))
    }
}

/// Compares keys of the store, which has those of `stored`, with a folder. Returns the changes, and
/// the bytes of the store under their keys.
pub(crate) fn compare<'a>(
    journal: &Journal,
    stored: &BTreeSet<String>,
    keys: impl Iterator<Item = &'a String>,
    folder: &KeyedFolder,
) -> Result<(Changes, Changes)> {
    let (mut changes, mut before) = (Changes::default(), Changes::default());
    let keys: Vec<&str> = keys.map(String::as_str).collect();
    for keys in keys.chunks(COMPARED_KEYS) {
        for (key, found) in keys.iter().zip(journal.store.get_all(keys)?) {
            let (mut old, new) = (found.map(|object| object.bytes), folder.get(key)?);
            if old == new {
                continue;
            }
            if stored.contains(*key) {
                old = Some(need_listed(key, old)?);
            }
            before.insert((*key).to_owned(), old);
            changes.insert((*key).to_owned(), new);
        }
    }
    Ok((changes, before))
}

fn write_file(path: &Path, bytes: &[u8]) -> Result<()> {
    make_folder_of(path)?;
    Ok(fs::write(path, bytes)?)
}

fn make_folder_of(path: &Path) -> Result<()> {
    Ok(path.parent().map_or(Ok(()), fs::create_dir_all)?)
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

/// Keys that are read from the store together.
const COMPARED_KEYS: usize = 256;
