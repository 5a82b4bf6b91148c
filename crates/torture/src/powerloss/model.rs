//! A disk as a model: directories, files, and what each call changes.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use zvf_store::internals::Call;

/// The files of a store by their path; `None` when there is no store.
pub(crate) type Tree = Option<BTreeMap<PathBuf, Bytes>>;
pub(crate) type Inode = usize;

/// One step of a call, on directories and files instead of paths.
pub(crate) struct Op {
    pub(crate) call: usize,
    pub(crate) change: Change,
}

pub(crate) enum Change {
    /// Names that change together: in each directory, a name gets this meaning.
    Names(Vec<(Inode, String, Option<Inode>)>),
    /// A file has these bytes.
    Bytes(Inode, Bytes),
}

/// A disk: directories with their names, files with their bytes.
#[derive(Clone, Default)]
pub(crate) struct Model {
    pub(crate) dirs: BTreeMap<Inode, BTreeMap<String, Inode>>,
    pub(crate) files: BTreeMap<Inode, Bytes>,
}

impl Model {
    /// Adds the contents of the directory `path`.
    pub(crate) fn load_directory(
        &mut self,
        path: &Path,
        dir: Inode,
        next: &mut Inode,
    ) -> anyhow::Result<()> {
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            let inode = *next;
            *next += 1;
            let name = entry.file_name().to_string_lossy().into_owned();
            self.dirs.entry(dir).or_default().insert(name, inode);
            if entry.file_type()?.is_dir() {
                self.dirs.insert(inode, BTreeMap::new());
                self.load_directory(&entry.path(), inode, next)?;
            } else {
                self.files.insert(inode, fs::read(entry.path())?.into());
            }
        }
        Ok(())
    }

    /// Returns the changes that `call` makes on this disk, step by step.
    pub(crate) fn list_changes(
        &mut self,
        call: &Call,
        parent: &Path,
        next: &mut Inode,
    ) -> Vec<Change> {
        let name =
            |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let dir =
            |model: &Self, path: &Path| model.find_inode(path.parent().unwrap_or(parent), parent);
        let mut fresh = || {
            *next += 1;
            *next - 1
        };
        match call {
            Call::MakeDir(path) => {
                let inode = fresh();
                self.dirs.insert(inode, BTreeMap::new());
                vec![Change::Names(vec![(dir(self, path), name(path), Some(inode))])]
            }
            Call::Create(path, bytes) => {
                let inode = fresh();
                self.files.insert(inode, Bytes::new());
                let names = vec![(dir(self, path), name(path), Some(inode))];
                vec![Change::Names(names), Change::Bytes(inode, bytes.clone())]
            }
            Call::Remove(path) => {
                vec![Change::Names(vec![(dir(self, path), name(path), None)])]
            }
            Call::Rename(from, to) => {
                let inode = self.find_inode(from, parent);
                vec![Change::Names(vec![
                    (dir(self, from), name(from), None),
                    (dir(self, to), name(to), Some(inode)),
                ])]
            }
            Call::Exchange(left, right) => {
                let (first, second) =
                    (self.find_inode(left, parent), self.find_inode(right, parent));
                vec![Change::Names(vec![
                    (dir(self, left), name(left), Some(second)),
                    (dir(self, right), name(right), Some(first)),
                ])]
            }
            Call::RemoveAll(path) => {
                let mut changes = Vec::new();
                self.push_removals(self.find_inode(path, parent), &mut changes);
                changes.push(Change::Names(vec![(dir(self, path), name(path), None)]));
                changes
            }
            _ => Vec::new(),
        }
    }

    pub(crate) fn push_removals(&self, dir: Inode, changes: &mut Vec<Change>) {
        for (name, inode) in self.dirs.get(&dir).into_iter().flatten() {
            self.push_removals(*inode, changes);
            changes.push(Change::Names(vec![(dir, name.clone(), None)]));
        }
    }

    pub(crate) fn apply(&mut self, change: &Change) {
        match change {
            Change::Names(names) => {
                for (dir, name, inode) in names {
                    let entries = self.dirs.entry(*dir).or_default();
                    match inode {
                        Some(inode) => drop(entries.insert(name.clone(), *inode)),
                        None => drop(entries.remove(name)),
                    }
                }
                for (_, _, inode) in names {
                    let Some(inode) = inode else { continue };
                    // A directory or file whose name survives exists, if only empty.
                    if !self.files.contains_key(inode) {
                        self.dirs.entry(*inode).or_default();
                    }
                }
            }
            Change::Bytes(file, bytes) => drop(self.files.insert(*file, bytes.clone())),
        }
    }

    pub(crate) fn find_inode(&self, path: &Path, parent: &Path) -> Inode {
        let below = path.strip_prefix(parent).unwrap_or(Path::new(""));
        below.components().fold(ROOT, |at, name| {
            let name = name.as_os_str().to_string_lossy();
            self.dirs.get(&at).and_then(|dir| dir.get(&*name)).copied().unwrap_or(LOST)
        })
    }

    /// Returns the store on this disk.
    pub(crate) fn tree(&self) -> Tree {
        let store = *self.dirs.get(&ROOT)?.get(NAME)?;
        let mut files = BTreeMap::new();
        self.walk_files(store, Path::new(""), &mut |path, bytes| drop(files.insert(path, bytes)));
        Some(files)
    }

    pub(crate) fn walk_files(
        &self,
        at: Inode,
        path: &Path,
        found: &mut impl FnMut(PathBuf, Bytes),
    ) {
        if let Some(bytes) = self.files.get(&at) {
            found(path.to_owned(), bytes.clone());
        }
        for (name, inode) in self.dirs.get(&at).into_iter().flatten() {
            self.walk_files(*inode, &path.join(name), found);
        }
    }
}

/// Returns the files below `path`.
pub(crate) fn read_tree(path: &Path) -> Tree {
    let mut model = Model::default();
    model.dirs.insert(ROOT, BTreeMap::new());
    let mut next = ROOT + 1;
    model.load_directory(path, ROOT, &mut next).ok()?;
    let mut files = BTreeMap::new();
    model.walk_files(ROOT, Path::new(""), &mut |path, bytes| drop(files.insert(path, bytes)));
    Some(files)
}

/// The store.
pub(crate) const NAME: &str = "a.zv";
/// The directory that the store is in.
pub(crate) const ROOT: Inode = 0;
/// The inode without a name.
const LOST: Inode = usize::MAX;
