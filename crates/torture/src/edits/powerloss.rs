//! `powerloss` of edits: every state that a loss of power may leave of a commit in a folder.
//!
//! The next writer opens each state; it must find the old store or the new one, and the new one once the commit was
//! acknowledged. The controls leave out the syncs of bytes, or those of names.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use zvf_edit::Place;
use zvf_publish::{Call, Disk};

use super::{NAME, STORES, Subject, apply_committed, read_tree, unpack_store};
use crate::Report;
use crate::powerloss::model::{Change, Inode, Model, Op, ROOT};
use archives::random::Random;

/// Tests `states` disks of each store, and the controls.
pub(crate) fn run(states: u64, random: &mut Random, report: &mut Report) -> anyhow::Result<()> {
    for id in STORES {
        let script = Script::record(Subject::new(id)?)?;
        for _ in 0..states {
            report.count(script.check(None, random));
        }
        for control in [OmittedSyncs::Bytes, OmittedSyncs::Names] {
            let seen = (0..CONTROL_STATES).any(|_| script.check(Some(control), random).is_err());
            let missed = || Err(format!("{id}: without syncs of {control:?} nothing was missed"));
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

/// The recorded calls of one edit.
struct Script {
    subject: Subject,
    calls: Vec<Call>,
    ops: Vec<Op>,
    synced: Vec<Option<Inode>>, // for each call, the file or directory that it syncs
    model: Model,               // before the first call
    returned: usize,            // calls after which the edit is acknowledged
}

impl Script {
    fn record(subject: Subject) -> anyhow::Result<Self> {
        let scratch = archives::scratch();
        let parent = scratch.path().canonicalize()?;
        let target = parent.join(NAME);
        unpack_store(subject.id, &target)?;
        let (mut model, mut next) = (Model::default(), ROOT + 1);
        model.dirs.insert(ROOT, BTreeMap::new());
        model.load_directory(&parent, ROOT, &mut next)?;
        let disk = Disk::with_recording();
        let place = Place::from(target.as_path()).with_disk(disk.clone());
        let edited = subject.edit(&place);
        anyhow::ensure!(edited.is_ok(), "{}: {edited:?}", subject.id);
        let calls = disk.calls();
        let (mut ideal, mut ops, mut synced) = (model.clone(), Vec::new(), Vec::new());
        for (number, call) in calls.iter().enumerate() {
            synced.push(match call {
                Call::SyncFile(path) | Call::SyncDir(path) => Some(ideal.find_inode(path, &parent)),
                _ => None,
            });
            for change in ideal.list_changes(call, &parent, &mut next) {
                ideal.apply(&change);
                ops.push(Op { call: number, change });
            }
        }
        let made = ideal.tree().unwrap_or_default();
        let same = made.len() == subject.after.len()
            && made.iter().all(|(path, bytes)| {
                subject
                    .after
                    .get(&*path.to_string_lossy())
                    .is_some_and(|expected| expected == bytes)
            });
        anyhow::ensure!(same, "{}: the model is not what happened", subject.id);
        let returned = calls.len();
        Ok(Self { subject, calls, ops, synced, model, returned })
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
        let with_crash = |error: String| format!("power lost before call {crash}: {error}");
        let scratch = archives::scratch();
        write_model(&disk, scratch.path()).map_err(|error| with_crash(error.to_string()))?;
        let target = scratch.path().join(NAME);
        let place = Place::from(target.as_path()).with_disk(Disk::with_recording());
        apply_committed(&place).map_err(with_crash)?;
        let found = read_tree(&target);
        let acknowledged = crash >= self.returned;
        let outcome = match acknowledged {
            true => Ok(serde_json::Value::Null),
            false => Err(zvf_edit::EditError::new(zvf_format::Class::CommitUnknown, "no power")),
        };
        self.subject.check_state(&outcome, &found).map_err(with_crash)?;
        if random.next_below(8) == 0 {
            self.subject.check_editable(&place, &found).map_err(with_crash)?;
        }
        Ok(())
    }

    /// Returns whether the effect of `op` survives a crash before call `crash`.
    fn is_synced(&self, op: &Op, crash: usize, control: Option<OmittedSyncs>) -> bool {
        (op.call..crash).any(|number| match (&self.calls[number], &op.change) {
            (Call::SyncFile(_), Change::Bytes(file, _)) => {
                control != Some(OmittedSyncs::Bytes) && self.synced[number] == Some(*file)
            }
            (Call::SyncDir(_), Change::Names(names)) => {
                control != Some(OmittedSyncs::Names)
                    && names.last().is_some_and(|(dir, ..)| self.synced[number] == Some(*dir))
            }
            _ => false,
        })
    }
}

/// Writes the contents of the model below `parent`.
fn write_model(model: &Model, parent: &Path) -> anyhow::Result<()> {
    let mut made: Vec<(PathBuf, bytes::Bytes)> = Vec::new();
    model.walk_files(ROOT, parent, &mut |path, bytes| made.push((path, bytes)));
    for (path, bytes) in made {
        fs::create_dir_all(path.parent().unwrap_or(parent))?;
        fs::write(path, bytes)?;
    }
    Ok(())
}

/// The number of disks after which a control must have shown a failure.
const CONTROL_STATES: u64 = 4000;
/// The unit of atomic writes of a disk.
const SECTOR: usize = 512;
