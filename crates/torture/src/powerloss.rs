//! `powerloss`: every state that a loss of power may leave while a store is built or replaced.
//!
//! A recording disk writes down what a build does. From that a model makes disks: after any call the power
//! may go, and then
//!
//! * bytes of a file that were not synced are there, or cut at a multiple of 512, or not there;
//! * names that were not synced are there or not, each for itself and in any order;
//! * what was synced is there.
//!
//! Each disk must show the old store or the new one, whole, and nothing else; once publishing has returned,
//! the new one. Where there is no name at all, the next build must bring the old store back. The control
//! leaves one sync out: then some disk must show something else, or the sync would be there for nothing.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use zvf_store::internals::{Call, Disk, build_on};

use crate::random::Random;
use crate::{Report, build};

/// Every state that a loss of power may leave.
#[derive(Debug, clap::Args)]
pub(crate) struct Powerloss {
    /// How many states are looked at.
    #[arg(long, default_value_t = 100_000)]
    states: u64,
    /// The same seed makes the same states.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

impl Powerloss {
    pub(crate) fn run(self) -> anyhow::Result<Report> {
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        let mut report = Report { name: "powerloss", seed: self.seed, ..Report::default() };
        let mut random = Random::new(self.seed);
        let scripts = [
            runtime.block_on(Script::record(false, true))?,
            runtime.block_on(Script::record(true, true))?,
            runtime.block_on(Script::record(true, false))?,
        ];
        let each = self.states / 3;
        for script in &scripts {
            for _ in 0..each {
                let crash = random.below(script.calls.len() + 1);
                report.count(runtime.block_on(script.check(crash, None, &mut random)));
            }
        }
        // The control: without one of the syncs, something else must show.
        for script in &scripts {
            for without in script.syncs() {
                let mut seen = false;
                for _ in 0..each.clamp(1, 4000) {
                    let crash = random.below(script.calls.len() + 1);
                    let found = runtime.block_on(script.check(crash, Some(without), &mut random));
                    seen |= found.is_err();
                }
                let missed = || Err(format!("{}: call {without} is not missed", script.name));
                report.count(if seen { Ok(()) } else { missed() });
            }
        }
        Ok(report)
    }
}

/// What one build did, and what it may leave.
struct Script {
    name: &'static str,
    before: Tree,
    after: Tree,
    calls: Vec<Call>,
    ops: Vec<Op>,
    model: Model, // before the first call
    parent: PathBuf,
}

/// The files of a store by their path; none when there is no store.
type Tree = Option<BTreeMap<PathBuf, Bytes>>;
type Inode = usize;

/// One step of a call, on directories and files and not on paths.
struct Op {
    call: usize,
    change: Change,
}

enum Change {
    /// Names that change together: in each directory, a name means this from now on.
    Names(Vec<(Inode, String, Option<Inode>)>),
    /// A file has these bytes.
    Bytes(Inode, Bytes),
}

/// A disk: directories with their names, files with their bytes.
#[derive(Clone, Default)]
struct Model {
    dirs: BTreeMap<Inode, BTreeMap<String, Inode>>,
    files: BTreeMap<Inode, Bytes>,
}

impl Script {
    /// Builds generation 2, over generation 1 when there is to be something to replace.
    async fn record(replace: bool, exchange: bool) -> anyhow::Result<Self> {
        let here = tempfile::tempdir()?;
        let parent = here.path().canonicalize()?;
        let target = parent.join(NAME);
        if replace {
            let disk = Disk::recording();
            build::build(build_on(disk, &target, build::options(true)).await?, 1, CELLS).await?;
        }
        let before = tree(&target);
        let mut model = Model::default();
        model.dirs.insert(ROOT, BTreeMap::new());
        let mut next = ROOT + 1;
        model.take(&parent, ROOT, &mut next)?;
        let disk = Disk::recording();
        let disk = if exchange { disk } else { disk.without_exchange() };
        let begun = build_on(disk.clone(), &target, build::options(true)).await?;
        build::build(begun, 2, CELLS).await?;
        let calls = disk.calls();
        let mut ideal = model.clone();
        let mut ops = Vec::new();
        for (number, call) in calls.iter().enumerate() {
            for change in ideal.changes(call, &parent, &mut next) {
                ideal.apply(&change);
                ops.push(Op { call: number, change });
            }
        }
        let name = match (replace, exchange) {
            (false, _) => "new store",
            (true, true) => "replaced store",
            (true, false) => "replaced store, in two steps",
        };
        let after = tree(&target);
        anyhow::ensure!(ideal.tree() == after, "{name}: the model is not what happened");
        Ok(Self { name, before, after, calls, ops, model, parent })
    }

    /// The syncs that something depends on.
    fn syncs(&self) -> Vec<usize> {
        let needed = [Call::SyncAll, Call::SyncDir(self.parent.clone())];
        let calls = self.calls.iter().enumerate().filter(|(_, call)| needed.contains(call));
        calls.map(|(number, _)| number).collect()
    }

    /// One disk after the power went before call `crash`, with call `without` left out.
    async fn check(
        &self,
        crash: usize,
        without: Option<usize>,
        random: &mut Random,
    ) -> Result<(), String> {
        let mut disk = self.model.clone();
        let likely = random.below(4); // disks of which much is lost, and of which little is
        for op in self.ops.iter().filter(|op| op.call < crash) {
            if self.is_synced(op, crash, without) || random.below(4) > likely {
                disk.apply(&op.change);
            } else if let Change::Bytes(file, bytes) = &op.change {
                let cut = random.below(bytes.len() / SECTOR + 1) * SECTOR;
                disk.files.insert(*file, bytes.slice(..cut));
            }
        }
        let found = disk.tree();
        let told =
            |what: &str| Err(format!("{}, power lost before call {crash}: {what}", self.name));
        // Publishing returns after the last sync; the removal of scratch is all that follows.
        let last_sync = self.calls.iter().rposition(|call| matches!(call, Call::SyncDir(_)));
        let returned = crash > last_sync.unwrap_or(usize::MAX);
        if found == self.after {
            return Ok(());
        }
        if returned {
            return told("published, and not there");
        }
        if found == self.before {
            return Ok(());
        }
        if found.is_some() {
            return told("neither the old store nor the new one");
        }
        match disk.recovered().await {
            Ok(tree) if tree == self.before => Ok(()),
            Ok(_) => told("the old store did not come back"),
            Err(error) => told(&error.to_string()),
        }
    }

    /// Whether what `op` did outlives a crash before call `crash`.
    fn is_synced(&self, op: &Op, crash: usize, without: Option<usize>) -> bool {
        let later = self.calls.iter().enumerate().take(crash).skip(op.call);
        later.filter(|(number, _)| Some(*number) != without).any(|(_, call)| {
            match (call, &op.change) {
                (Call::SyncAll, _) => true,
                (Call::SyncDir(dir), Change::Names(names)) => {
                    *dir == self.parent && names.iter().any(|(dir, ..)| *dir == ROOT)
                }
                _ => false,
            }
        })
    }
}

impl Model {
    /// Takes in what lies in the directory `path`.
    fn take(&mut self, path: &Path, dir: Inode, next: &mut Inode) -> anyhow::Result<()> {
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            let inode = *next;
            *next += 1;
            let name = entry.file_name().to_string_lossy().into_owned();
            self.dirs.entry(dir).or_default().insert(name, inode);
            if entry.file_type()?.is_dir() {
                self.dirs.insert(inode, BTreeMap::new());
                self.take(&entry.path(), inode, next)?;
            } else {
                self.files.insert(inode, fs::read(entry.path())?.into());
            }
        }
        Ok(())
    }

    /// What `call` changes on this disk, step by step.
    fn changes(&mut self, call: &Call, parent: &Path, next: &mut Inode) -> Vec<Change> {
        let name =
            |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let dir = |model: &Self, path: &Path| model.find(path.parent().unwrap_or(parent), parent);
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
                let inode = self.find(from, parent);
                vec![Change::Names(vec![
                    (dir(self, from), name(from), None),
                    (dir(self, to), name(to), Some(inode)),
                ])]
            }
            Call::Exchange(one, other) => {
                let (first, second) = (self.find(one, parent), self.find(other, parent));
                vec![Change::Names(vec![
                    (dir(self, one), name(one), Some(second)),
                    (dir(self, other), name(other), Some(first)),
                ])]
            }
            Call::RemoveAll(path) => {
                let mut changes = Vec::new();
                self.remove(self.find(path, parent), &mut changes);
                changes.push(Change::Names(vec![(dir(self, path), name(path), None)]));
                changes
            }
            _ => Vec::new(),
        }
    }

    fn remove(&self, dir: Inode, changes: &mut Vec<Change>) {
        for (name, inode) in self.dirs.get(&dir).into_iter().flatten() {
            self.remove(*inode, changes);
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
                    // A directory or file whose name made it to the disk is there, if only empty.
                    if !self.files.contains_key(inode) {
                        self.dirs.entry(*inode).or_default();
                    }
                }
            }
            Change::Bytes(file, bytes) => drop(self.files.insert(*file, bytes.clone())),
        }
    }

    fn find(&self, path: &Path, parent: &Path) -> Inode {
        let below = path.strip_prefix(parent).unwrap_or(Path::new(""));
        below.components().fold(ROOT, |at, name| {
            let name = name.as_os_str().to_string_lossy();
            self.dirs.get(&at).and_then(|dir| dir.get(&*name)).copied().unwrap_or(LOST)
        })
    }

    /// The store as this disk has it.
    fn tree(&self) -> Tree {
        let store = *self.dirs.get(&ROOT)?.get(NAME)?;
        let mut files = BTreeMap::new();
        self.walk(store, Path::new(""), &mut |path, bytes| drop(files.insert(path, bytes)));
        Some(files)
    }

    fn walk(&self, at: Inode, path: &Path, found: &mut impl FnMut(PathBuf, Bytes)) {
        if let Some(bytes) = self.files.get(&at) {
            found(path.to_owned(), bytes.clone());
        }
        for (name, inode) in self.dirs.get(&at).into_iter().flatten() {
            self.walk(*inode, &path.join(name), found);
        }
    }

    /// The store after the next build began on this disk and gave up.
    async fn recovered(&self) -> anyhow::Result<Tree> {
        let here = tempfile::tempdir()?;
        let mut made = Vec::new();
        self.walk(ROOT, here.path(), &mut |path, bytes| made.push((path, bytes)));
        for (path, bytes) in made {
            fs::create_dir_all(path.parent().unwrap_or(here.path()))?;
            fs::write(path, bytes)?;
        }
        let target = here.path().join(NAME);
        drop(build_on(Disk::recording(), &target, build::options(true)).await?);
        Ok(tree(&target))
    }
}

/// The files below `path`.
fn tree(path: &Path) -> Tree {
    let mut model = Model::default();
    model.dirs.insert(ROOT, BTreeMap::new());
    let mut next = ROOT + 1;
    model.take(path, ROOT, &mut next).ok()?;
    let mut files = BTreeMap::new();
    model.walk(ROOT, Path::new(""), &mut |path, bytes| drop(files.insert(path, bytes)));
    Some(files)
}

const NAME: &str = "a.zv";
/// Cells of a store; each is four files or a part of one.
const CELLS: i64 = 6;
const ROOT: Inode = 0;
/// What no name means.
const LOST: Inode = usize::MAX;
/// What a disk writes at once.
const SECTOR: usize = 512;
