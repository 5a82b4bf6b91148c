//! A model of a disk: directories, files, and the changes of each call.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::ensure;
use archives::random::Random;
use bytes::Bytes;
use zvf_publish::{Call, Disk};

use crate::Report;
use crate::trees::{Tree, read_tree, write_tree};

pub(crate) type Inode = usize;

/// One change, and the call that made it.
struct Op {
    call: usize,
    change: Change,
}

/// Which syncs are omitted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Omitted {
    Bytes,
    Names,
    Call(usize),
}

/// Which syncs take effect: a stricter disk than the real one shows what a writer relies on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Counted {
    /// Those of everything, including the parent folder of the store.
    AllAndParent,
    /// Those of single files and folders.
    Single,
    Every,
}

/// The recorded calls of one writer, and what each changes.
pub(crate) struct Recording {
    pub(crate) calls: Vec<Call>,
    /// The visible states, from before the first call to after the last.
    pub(crate) states: Vec<Option<Tree>>,
    /// The disk after the last call, without any loss.
    pub(crate) ideal: Model,
    before: Model,
    ops: Vec<Op>,
    synced: Vec<Option<Inode>>, // for each call, the file or directory that it syncs
    counted: Counted,
}

impl Recording {
    /// Records what `write` does on a disk with a target.
    pub(crate) fn record(
        what: &str,
        counted: Counted,
        disk: Disk,
        prepare: impl FnOnce(&Path) -> anyhow::Result<()>,
        write: impl FnOnce(&Path, &Disk) -> anyhow::Result<()>,
    ) -> anyhow::Result<Self> {
        let scratch = archives::scratch();
        let parent = scratch.path().canonicalize()?;
        let target = parent.join(NAME);
        prepare(&target)?;
        let mut before = Model::default();
        before.dirs.insert(ROOT, BTreeMap::new());
        before.load_directory(&parent, ROOT, &mut (ROOT + 1))?;
        write(&target, &disk)?;
        let recording = Self::new(before, disk.calls(), &parent, counted);
        let is_same = recording.ideal.tree() == read_tree(&target);
        ensure!(is_same, "{what}: the model is not what happened");
        Ok(recording)
    }

    fn new(before: Model, calls: Vec<Call>, parent: &Path, counted: Counted) -> Self {
        let known = before.dirs.keys().chain(before.files.keys()).max();
        let mut next = known.map_or(ROOT, |inode| *inode) + 1;
        let (mut ideal, mut ops, mut synced) = (before.clone(), Vec::new(), Vec::new());
        let mut states = vec![ideal.tree()];
        for (number, call) in calls.iter().enumerate() {
            synced.push(match call {
                Call::SyncFile(path) | Call::SyncDir(path) => Some(ideal.find_inode(path, parent)),
                _ => None,
            });
            for change in ideal.list_changes(call, parent, &mut next) {
                ideal.apply(&change);
                ops.push(Op { call: number, change });
            }
            // The journal of an edit tells which states are allowed, so its many files are not
            // compared by state.
            let tree = (counted != Counted::Single).then(|| ideal.tree());
            states.extend(tree.filter(|tree| states.last() != Some(tree)));
        }
        Self { calls, states, ideal, before, ops, synced, counted }
    }

    /// Returns what the controls omit: everything of a kind, or single calls that sync everything, or
    /// the names in the parent folder.
    fn controls(&self) -> Vec<Omitted> {
        let is_counted = |number: &usize| match &self.calls[*number] {
            Call::SyncAll => true,
            Call::SyncDir(_) => self.synced[*number] == Some(ROOT),
            _ => false,
        };
        match self.counted {
            Counted::AllAndParent => {
                (0..self.calls.len()).filter(is_counted).map(Omitted::Call).collect()
            }
            _ => vec![Omitted::Bytes, Omitted::Names],
        }
    }

    /// Chooses the call before which the power fails.
    pub(crate) fn choose_crash(&self, random: &mut Random) -> usize {
        random.next_below(self.calls.len() + 1)
    }

    /// Returns whether the writer had synced everything when the power failed: afterwards it only
    /// removes scratch files.
    pub(crate) fn has_returned(&self, crash: usize) -> bool {
        let last_sync = self.calls.iter().rposition(|call| matches!(call, Call::SyncDir(_)));
        crash > last_sync.unwrap_or(usize::MAX)
    }

    /// Returns a disk after the power failed before call `crash`.
    pub(crate) fn lose_power(
        &self,
        crash: usize,
        omitted: Option<Omitted>,
        random: &mut Random,
    ) -> Model {
        let mut disk = self.before.clone();
        let likely = random.next_below(4); // disks of which much is lost, and of which little is
        for op in self.ops.iter().filter(|op| op.call < crash) {
            if self.is_synced(op, crash, omitted) || random.next_below(4) > likely {
                disk.apply(&op.change);
            } else if let Change::Bytes(file, bytes) = &op.change {
                let cut = random.next_below(bytes.len() / SECTOR + 1) * SECTOR;
                disk.files.insert(*file, bytes.slice(..cut));
            }
        }
        disk
    }

    /// Counts disks that must pass a check, then the controls: without a sync that counts, or without
    /// those of a kind, some disk must fail it.
    pub(crate) fn check(
        &self,
        states: u64,
        what: &str,
        report: &mut Report,
        mut check: impl FnMut(Option<Omitted>) -> anyhow::Result<()>,
    ) {
        (0..states).for_each(|_| report.count(check(None)));
        for control in self.controls() {
            let seen = (0..CONTROL_STATES).any(|_| check(Some(control)).is_err());
            let call = match control {
                Omitted::Call(number) => format!("{:?}", self.calls[number]),
                _ => "all of them".to_owned(),
            };
            let missed = || format!("{what}: nothing was missed without {control:?}, {call}");
            report.check(seen, missed);
        }
    }

    /// Returns whether the effect of `op` survives a crash before call `crash`.
    fn is_synced(&self, op: &Op, crash: usize, omitted: Option<Omitted>) -> bool {
        let calls = (op.call..crash).filter(|number| omitted != Some(Omitted::Call(*number)));
        let is_kept = |inode: Inode, number: usize| self.synced[number] == Some(inode);
        calls.into_iter().any(|number| match (&self.calls[number], &op.change) {
            (Call::SyncAll, _) => {
                self.counted != Counted::Single && omitted != Some(Omitted::Bytes)
            }
            (Call::SyncFile(_), Change::Bytes(file, _)) => {
                self.counted != Counted::AllAndParent
                    && omitted != Some(Omitted::Bytes)
                    && is_kept(*file, number)
            }
            (Call::SyncDir(_), Change::Names(names)) if self.counted == Counted::AllAndParent => {
                names.iter().any(|(dir, ..)| *dir == ROOT) && is_kept(ROOT, number)
            }
            // A name moved between directories is in the second one.
            (Call::SyncDir(_), Change::Names(names)) => {
                omitted != Some(Omitted::Names)
                    && names.last().is_some_and(|(dir, ..)| is_kept(*dir, number))
            }
            _ => false,
        })
    }
}

enum Change {
    /// Names that change together: each name in a directory gets a new target.
    Names(Vec<(Inode, String, Option<Inode>)>),
    /// A file has these bytes.
    Bytes(Inode, Bytes),
}

/// A disk: directories with their names, files with their bytes.
#[derive(Clone, Default)]
pub(crate) struct Model {
    dirs: BTreeMap<Inode, BTreeMap<String, Inode>>,
    files: BTreeMap<Inode, Bytes>,
}

impl Model {
    /// Adds the contents of the directory `path`.
    fn load_directory(&mut self, path: &Path, dir: Inode, next: &mut Inode) -> anyhow::Result<()> {
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
    fn list_changes(&mut self, call: &Call, parent: &Path, next: &mut Inode) -> Vec<Change> {
        let fresh = *next;
        let entry = |model: &Self, path: &Path, inode: Option<Inode>| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            (model.find_inode(path.parent().unwrap_or(parent), parent), name, inode)
        };
        let mut changes = Vec::new();
        let names = match call {
            Call::MakeDir(path) => {
                self.dirs.insert(fresh, BTreeMap::new());
                vec![entry(self, path, Some(fresh))]
            }
            Call::Create(path, _) => {
                self.files.insert(fresh, Bytes::new());
                vec![entry(self, path, Some(fresh))]
            }
            Call::Remove(path) => vec![entry(self, path, None)],
            Call::Rename(from, to) => {
                let inode = self.find_inode(from, parent);
                vec![entry(self, from, None), entry(self, to, Some(inode))]
            }
            Call::Exchange(left, right) => {
                let [first, second] = [left, right].map(|path| self.find_inode(path, parent));
                vec![entry(self, left, Some(second)), entry(self, right, Some(first))]
            }
            Call::RemoveAll(path) => {
                self.push_removals(self.find_inode(path, parent), &mut changes);
                vec![entry(self, path, None)]
            }
            _ => return changes,
        };
        changes.push(Change::Names(names));
        if let Call::Create(_, bytes) = call {
            changes.push(Change::Bytes(fresh, bytes.clone()));
        }
        *next += 1;
        changes
    }

    fn push_removals(&self, dir: Inode, changes: &mut Vec<Change>) {
        for (name, inode) in self.dirs.get(&dir).into_iter().flatten() {
            self.push_removals(*inode, changes);
            changes.push(Change::Names(vec![(dir, name.clone(), None)]));
        }
    }

    fn apply(&mut self, change: &Change) {
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
                    // A directory or file whose name survives exists, even if it is empty.
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

    /// Writes all files below `parent`.
    pub(crate) fn write(&self, parent: &Path) {
        write_tree(parent, &self.list_files(ROOT));
    }

    pub(crate) fn tree(&self) -> Option<Tree> {
        Some(self.list_files(*self.dirs.get(&ROOT)?.get(NAME)?))
    }

    fn list_files(&self, at: Inode) -> Tree {
        let bytes = self.files.get(&at).map(|bytes| (String::new(), bytes.to_vec()));
        let mut files = Tree::from_iter(bytes);
        for (name, inode) in self.dirs.get(&at).into_iter().flatten() {
            for (path, bytes) in self.list_files(*inode) {
                let path = if path.is_empty() { name.clone() } else { format!("{name}/{path}") };
                files.insert(path, bytes);
            }
        }
        files
    }
}

/// The store.
pub(crate) const NAME: &str = "a.zv";
/// The directory that the store is in.
const ROOT: Inode = 0;
/// The inode without a name.
const LOST: Inode = usize::MAX;
/// The number of disks after which a control must have shown a failure.
const CONTROL_STATES: u64 = 4000;
/// The unit of atomic writes of a disk.
const SECTOR: usize = 512;
