//! All writers of local files, with a loss of power at any moment.
//!
//! ```text
//! create, pyramid, recompress, migrate, unpack    a store is the old one or the new one
//! pack                                            the same for a file
//! repair                                          each document likewise, in the order of the plan
//! ```
//!
//! The allowed states follow from the recorded calls: the visible state after each call on a disk that loses nothing.
//! The controls leave out every sync of bytes, or every sync of names.

use std::collections::BTreeMap;

use tokio::runtime::Runtime;
use zvf_publish::{Call, Disk};

use super::model::{Change, Inode, Model, NAME, Op, ROOT, Tree};
use crate::Report;
use crate::tasks::{self, Task};
use archives::random::Random;

/// Tests `states` disks for each writer, and the controls.
pub(super) fn check_writers(
    states: u64,
    random: &mut Random,
    report: &mut Report,
    runtime: &Runtime,
) -> anyhow::Result<()> {
    for task in Task::ALL {
        let script = runtime.block_on(Script::record(task))?;
        for _ in 0..states {
            report.count(script.check(None, random));
        }
        for control in [OmittedSyncs::Bytes, OmittedSyncs::Names] {
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
enum OmittedSyncs {
    Bytes,
    Names,
}

/// The calls of one task, and the states it may leave.
struct Script {
    task: Task,
    calls: Vec<Call>,
    ops: Vec<Op>,
    synced: Vec<Option<Inode>>, // for each call, the file or directory that it syncs
    model: Model,               // before the first call
    allowed: Vec<Tree>,
    after: Tree,
}

impl Script {
    async fn record(task: Task) -> anyhow::Result<Self> {
        let scratch = archives::scratch();
        let parent = scratch.path().canonicalize()?;
        let target = parent.join(NAME);
        task.prepare(&target).await?;
        let (mut model, mut next) = (Model::default(), ROOT + 1);
        model.dirs.insert(ROOT, BTreeMap::new());
        model.load_directory(&parent, ROOT, &mut next)?;
        let disk = Disk::with_recording();
        task.perform(&target, &disk).await?;
        let calls = disk.calls();
        let (mut ideal, mut ops, mut synced) = (model.clone(), Vec::new(), Vec::new());
        let mut allowed = vec![ideal.tree()];
        for (number, call) in calls.iter().enumerate() {
            synced.push(match call {
                Call::SyncFile(path) | Call::SyncDir(path) => Some(ideal.find_inode(path, &parent)),
                _ => None,
            });
            for change in ideal.list_changes(call, &parent, &mut next) {
                ideal.apply(&change);
                ops.push(Op { call: number, change });
            }
            let tree = ideal.tree();
            if allowed.last() != Some(&tree) {
                allowed.push(tree);
            }
        }
        let after = ideal.tree();
        anyhow::ensure!(
            after == tasks::read_target(&target)?,
            "{task:?}: the model is not what happened"
        );
        anyhow::ensure!(allowed.len() > 1, "{task:?}: nothing was recorded");
        Ok(Self { task, calls, ops, synced, model, allowed, after })
    }

    /// Checks one disk after the loss of power.
    fn check(&self, control: Option<OmittedSyncs>, random: &mut Random) -> Result<(), String> {
        let crash = random.next_below(self.calls.len() + 1);
        let likely = random.next_below(4); // disks of which much is lost, and of which little is
        let mut disk = self.model.clone();
        for op in self.ops.iter().filter(|op| op.call < crash) {
            if self.is_synced(op, crash, control) || random.next_below(4) > likely {
                disk.apply(&op.change);
            } else if let Change::Bytes(file, bytes) = &op.change {
                let cut = random.next_below(bytes.len() / SECTOR + 1) * SECTOR;
                disk.files.insert(*file, bytes.slice(..cut));
            }
        }
        let found = disk.tree();
        let failure =
            |what: &str| Err(format!("{:?}, power lost before call {crash}: {what}", self.task));
        let last_sync = self.calls.iter().rposition(|call| matches!(call, Call::SyncDir(_)));
        if crash > last_sync.unwrap_or(usize::MAX) && found != self.after {
            return failure("it had returned, and its output is missing");
        }
        if !self.allowed.contains(&found) {
            return failure("neither the old state nor the new one");
        }
        Ok(())
    }

    /// Returns whether the effect of `op` survives a crash before call `crash`.
    fn is_synced(&self, op: &Op, crash: usize, control: Option<OmittedSyncs>) -> bool {
        (op.call..crash).any(|number| match (&self.calls[number], &op.change) {
            (Call::SyncAll, Change::Bytes(..) | Change::Names(_)) => {
                control != Some(OmittedSyncs::Bytes)
            }
            (Call::SyncFile(_), Change::Bytes(file, _)) => {
                control != Some(OmittedSyncs::Bytes) && self.synced[number] == Some(*file)
            }
            // A name moved between directories is in the second one.
            (Call::SyncDir(_), Change::Names(names)) => {
                control != Some(OmittedSyncs::Names)
                    && names.last().is_some_and(|(dir, ..)| self.synced[number] == Some(*dir))
            }
            _ => false,
        })
    }
}

/// The number of disks after which a control must have shown a failure.
const CONTROL_STATES: u64 = 4000;
/// The unit of atomic writes of a disk.
const SECTOR: usize = 512;
