//! Everything that writes to a disk, with the power going at any moment.
//!
//! ```text
//! create, pyramid, recompress, migrate, unpack    a store is what it was, or what it was to become
//! pack                                            the same of a file
//! repair                                          each document likewise, in the order of the plan
//! ```
//!
//! What a disk may show follows from the recorded calls themselves: what was to be seen after each call of a disk that
//! loses nothing. The controls leave out every sync of the bytes, or every sync of the names.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use archives::Unpacked;
use tokio::runtime::Runtime;
use zvf_format::grid::ChunkShape;
use zvf_metadata::{Axis, Dtype};
use zvf_model::{Batch, Column, Kind};
use zvf_publish::{AtomicFile, Call, CommitGate, Disk, FileOptions};
use zvf_store::{Arrange, Build, BuildOptions, CodecPipeline, OpenOptions, Rearrangement, Store};
use zvf_write::{Schema, WriteOptions, Writer};

use super::model::{Change, Inode, Model, NAME, Op, ROOT, Tree};
use crate::Report;
use crate::random::Random;

/// Something that writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Task {
    Create,
    CreateOver,
    Pyramid,
    Recompress,
    Migrate,
    Unpack,
    Pack,
    PackOver,
    Repair,
}

/// Looks at `states` disks for each of them, and at the controls.
pub(super) fn check(
    states: u64,
    random: &mut Random,
    report: &mut Report,
    runtime: &Runtime,
) -> anyhow::Result<()> {
    for task in ALL {
        let script = runtime.block_on(Script::record(task))?;
        for _ in 0..states {
            report.count(script.check(None, random));
        }
        for control in [Left::Bytes, Left::Names] {
            let missed =
                || Err(format!("{task:?}: without syncs of {control:?} nothing was missed"));
            let seen = (0..CONTROL_STATES).any(|_| script.check(Some(control), random).is_err());
            report.count(if seen { Ok(()) } else { missed() });
        }
    }
    Ok(())
}

/// Which syncs are left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    Bytes,
    Names,
}

/// What one task did, and what it may leave.
struct Script {
    task: Task,
    calls: Vec<Call>,
    ops: Vec<Op>,
    synced: Vec<Option<Inode>>, // of each call, the file or directory that it syncs
    model: Model,               // before the first call
    allowed: Vec<Tree>,
    after: Tree,
}

impl Script {
    async fn record(task: Task) -> anyhow::Result<Self> {
        let here = archives::scratch();
        let parent = here.path().canonicalize()?;
        let target = parent.join(NAME);
        prepare(task, &target).await?;
        let (mut model, mut next) = (Model::default(), ROOT + 1);
        model.dirs.insert(ROOT, BTreeMap::new());
        model.take(&parent, ROOT, &mut next)?;
        let disk = Disk::recording();
        perform(task, &target, &disk).await?;
        let calls = disk.calls();
        let (mut ideal, mut ops, mut synced) = (model.clone(), Vec::new(), Vec::new());
        let mut allowed = vec![ideal.tree()];
        for (number, call) in calls.iter().enumerate() {
            synced.push(match call {
                Call::SyncFile(path) | Call::SyncDir(path) => Some(ideal.find(path, &parent)),
                _ => None,
            });
            for change in ideal.changes(call, &parent, &mut next) {
                ideal.apply(&change);
                ops.push(Op { call: number, change });
            }
            let tree = ideal.tree();
            if allowed.last() != Some(&tree) {
                allowed.push(tree);
            }
        }
        let after = ideal.tree();
        anyhow::ensure!(after == found(&target)?, "{task:?}: the model is not what happened");
        anyhow::ensure!(allowed.len() > 1, "{task:?}: nothing was recorded");
        Ok(Self { task, calls, ops, synced, model, allowed, after })
    }

    /// One disk after the power went.
    fn check(&self, control: Option<Left>, random: &mut Random) -> Result<(), String> {
        let crash = random.below(self.calls.len() + 1);
        let likely = random.below(4); // disks of which much is lost, and of which little is
        let mut disk = self.model.clone();
        for op in self.ops.iter().filter(|op| op.call < crash) {
            if self.is_synced(op, crash, control) || random.below(4) > likely {
                disk.apply(&op.change);
            } else if let Change::Bytes(file, bytes) = &op.change {
                let cut = random.below(bytes.len() / SECTOR + 1) * SECTOR;
                disk.files.insert(*file, bytes.slice(..cut));
            }
        }
        let found = disk.tree();
        let told =
            |what: &str| Err(format!("{:?}, power lost before call {crash}: {what}", self.task));
        let last_sync = self.calls.iter().rposition(|call| matches!(call, Call::SyncDir(_)));
        if crash > last_sync.unwrap_or(usize::MAX) && found != self.after {
            return told("it had returned, and what it wrote is not there");
        }
        if !self.allowed.contains(&found) {
            return told("neither what was there nor what was to be there");
        }
        Ok(())
    }

    /// Whether what `op` did outlives a crash before call `crash`.
    fn is_synced(&self, op: &Op, crash: usize, control: Option<Left>) -> bool {
        (op.call..crash).any(|number| match (&self.calls[number], &op.change) {
            (Call::SyncAll, Change::Bytes(..) | Change::Names(_)) => control != Some(Left::Bytes),
            (Call::SyncFile(_), Change::Bytes(file, _)) => {
                control != Some(Left::Bytes) && self.synced[number] == Some(*file)
            }
            // A name that goes from one directory to another is where the second one is.
            (Call::SyncDir(_), Change::Names(names)) => {
                control != Some(Left::Names)
                    && names.last().is_some_and(|(dir, ..)| self.synced[number] == Some(*dir))
            }
            _ => false,
        })
    }
}

/// What has the target's name: the files of a folder, or one file.
fn found(target: &Path) -> anyhow::Result<Tree> {
    if target.is_file() {
        let bytes = std::fs::read(target)?.into();
        return Ok(Some(BTreeMap::from([(PathBuf::new(), bytes)])));
    }
    Ok(super::model::tree(target))
}

/// Puts there what the task finds.
async fn prepare(task: Task, target: &Path) -> anyhow::Result<()> {
    match task {
        Task::Create | Task::Migrate | Task::Unpack | Task::Pack => {}
        Task::CreateOver => create(target, 7, &Disk::default()).await?,
        Task::PackOver => std::fs::write(target, b"an older pack")?,
        Task::Pyramid | Task::Recompress | Task::Repair => {
            for (name, bytes) in archives::files("pc3_basic") {
                let path = target.join(&name);
                std::fs::create_dir_all(path.parent().unwrap_or(target))?;
                std::fs::write(&path, damaged(task, &name, bytes))?;
            }
        }
    }
    Ok(())
}

/// A count that is not right, for a repair.
fn damaged(task: Task, name: &str, bytes: Vec<u8>) -> Vec<u8> {
    if task != Task::Repair || name != "0/zarr.json" {
        return bytes;
    }
    let mut document: serde_json::Value = serde_json::from_slice(&bytes).unwrap_or_default();
    document["attributes"]["zarr_vectors_level"]["vertex_count"] = 7.into();
    document.to_string().into_bytes()
}

/// Does it, with every call going through `disk`.
async fn perform(task: Task, target: &Path, disk: &Disk) -> anyhow::Result<()> {
    let address = target.to_str().unwrap_or_default();
    let options = |replace| BuildOptions { replace, disk: disk.clone(), ..BuildOptions::default() };
    let open = || Store::open(address, OpenOptions::default());
    match task {
        Task::Create | Task::CreateOver => create(target, 11, disk).await?,
        Task::Pyramid => {
            let levels = zvf_pyramid::Options { levels: Some(2), ..Default::default() };
            zvf_pyramid::build(address, &levels, &options(true), |_| ()).await?;
        }
        Task::Recompress => {
            let plan =
                Rearrangement { shards: Arrange::Keep, codecs: Some(CodecPipeline::zstd(1)) };
            let store = open().await?;
            plan.apply(&store, Build::begin(address, options(true)).await?, |_| ()).await?;
        }
        Task::Migrate => {
            let old = Unpacked::new("v070_gr3");
            let plan = zvf_migrate::Plan::build(&old.open().await).await?;
            let build = Build::begin(address, options(false)).await?;
            plan.apply(&zvf_migrate::Migration::default(), build, |_| ()).await?;
        }
        Task::Unpack => {
            let old = Unpacked::new("pc3_basic");
            let build = Build::begin(address, options(false)).await?;
            zvf_tensor::unpack(&old.open().await, build, |_| ()).await?;
        }
        Task::Pack | Task::PackOver => {
            let replace = task == Task::PackOver;
            let file = FileOptions { replace, ..FileOptions::default() };
            let file = AtomicFile::create(disk, target, file)?;
            let (old, options) = (Unpacked::new("pc3_basic"), zvf_tensor::PackOptions::default());
            let (mut file, _) = zvf_tensor::pack(&old.open().await, file, &options, |_| ()).await?;
            file.flush()?;
            file.publish()?;
        }
        Task::Repair => {
            let plan = zvf_repair::plan(&open().await?, NAME).await?;
            anyhow::ensure!(!plan.is_empty(), "nothing to repair");
            zvf_repair::apply_local_on(disk, target, &plan, &CommitGate::default())?;
        }
    }
    Ok(())
}

/// A store of `count` points.
async fn create(target: &Path, count: u8, disk: &Disk) -> anyhow::Result<()> {
    let shape = ChunkShape::new(&[2.0; 2])?;
    let axes = Axis::spatial(2).ok_or_else(|| anyhow::anyhow!("two axes"))?;
    let schema = Schema::new(Kind::PointCloud, axes, shape)?;
    let build = BuildOptions { replace: true, disk: disk.clone(), ..BuildOptions::default() };
    let options = WriteOptions { build, ..WriteOptions::default() };
    let mut writer = Writer::create(target.to_str().unwrap_or_default(), schema, options).await?;
    let at = (0..count).flat_map(|i| [f32::from(i), f32::from(i % 3)]).flat_map(f32::to_le_bytes);
    let positions = Column::new(Dtype::FLOAT32, 2, at.collect::<Vec<u8>>().into())?;
    writer.push(&Batch::new(Kind::PointCloud, positions))?;
    writer.finish().await?;
    Ok(())
}

const ALL: [Task; 9] = [
    Task::Create,
    Task::CreateOver,
    Task::Pyramid,
    Task::Recompress,
    Task::Migrate,
    Task::Unpack,
    Task::Pack,
    Task::PackOver,
    Task::Repair,
];
/// Disks that are made until a control must have shown something.
const CONTROL_STATES: u64 = 4000;
/// What a disk writes at once.
const SECTOR: usize = 512;
