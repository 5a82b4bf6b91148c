//! `powerloss`: every state that a power loss may leave while a store is built or replaced.
//!
//! A recording disk logs the calls of a build. A model creates disks from them: the power may fail after any call, and
//! then
//!
//! * unsynced bytes of a file are present, or cut at a multiple of 512, or absent;
//! * unsynced names are present or absent, each by itself and in any order;
//! * synced data is present.
//!
//! Each disk must hold the complete old store or the complete new one, and nothing else; after
//! publishing has returned, the new one. If the name is missing, the next build must restore the
//! old store.
//!
//! A store is built by one process, or by several that share a folder. In the latter case the last
//! step is repeated after the crash, without the work that was not synced: the result must be the
//! complete new store. The control omits one sync: then some disk must hold something else,
//! otherwise that sync would be unnecessary.
//!
//! For everything else that writes, the allowed states follow from the recorded calls: the visible
//! state after each call on a disk that loses nothing. The controls omit every sync of bytes, or
//! every sync of names.

pub(crate) mod model;

use std::fs;
use std::path::Path;

use anyhow::{Context as _, ensure};
use clap::ValueEnum as _;
use zvf_publish::Disk;
use zvf_store::{Build, BuildOptions};

use self::model::{Counted, Inode, Model, NAME, Omitted, Recording};
use crate::tasks::Task;
use crate::trees::{Tree, read_tree};
use crate::{Report, block_on, build, generations};
use archives::random::Random;

/// Test every state that a loss of power may leave.
#[derive(clap::Args)]
pub(crate) struct Powerloss {
    /// The number of states to test.
    #[arg(long, default_value_t = 100_000)]
    states: u64,
    /// Only edits.
    #[arg(long)]
    edits: bool,
}

impl Powerloss {
    pub(crate) fn run(self, report: &mut Report) -> anyhow::Result<()> {
        let mut random = report.random();
        if self.edits {
            return crate::edits::powerloss::run(self.states / 5, &mut random, report);
        }
        let mut scripts = Vec::new();
        for shared in [false, true] {
            for kind in [PublishKind::New, PublishKind::Replaced, PublishKind::InTwoSteps] {
                scripts.push(Script::record(kind, shared)?);
            }
        }
        let states = self.states / 6;
        for script in &scripts {
            script.recording.check(states, &script.name(), report, |omitted| {
                script.check(omitted, &mut random)
            });
        }
        check_writers(states, &mut random, report)
    }
}

/// Whether there is an old store, and how names are exchanged.
#[derive(Clone, Copy, Debug, PartialEq)]
enum PublishKind {
    New,
    Replaced,
    InTwoSteps,
}

impl PublishKind {
    fn disk(self) -> Disk {
        let disk = Disk::with_recording();
        if self == Self::InTwoSteps { disk.without_exchange() } else { disk }
    }
}

/// The calls of one build, and the states it may leave.
struct Script {
    kind: PublishKind,
    recording: Recording,
    shared: Option<SharedBuild>,
}

/// Additional data if several processes built the store.
struct SharedBuild {
    store: Inode,       // the directory of the new store
    identity: String,   // its recorded identity
    waited: Vec<usize>, // the calls after which each process ended
}

impl Script {
    /// Builds generation 2, over generation 1 if there must be something to replace.
    fn record(kind: PublishKind, shared: bool) -> anyhow::Result<Self> {
        let prepare = |target: &Path| match kind {
            PublishKind::New => Ok(()),
            _ => block_on(build_store(&Disk::with_recording(), target, 1)),
        };
        let (mut waited, mut identity) = (Vec::new(), String::new());
        let write = |target: &Path, disk: &Disk| {
            if !shared {
                return block_on(build_store(disk, target, 2));
            }
            block_on(async {
                for share in SHARES {
                    let joined = join_build(disk, target).await?;
                    generations::write_share(&joined, 2, share, CELLS).await?;
                    waited.push(disk.calls().len());
                }
                generations::publish_shared(join_build(disk, target).await?, 2, CELLS).await
            })?;
            identity = fs::read_to_string(target.with_file_name(WORK).join(ID))?;
            Ok(())
        };
        let (what, counted) = (format!("{kind:?}"), Counted::AllAndParent);
        let recording = Recording::record(&what, counted, kind.disk(), prepare, write)?;
        let store = recording.ideal.find_inode(NAME.as_ref(), "".as_ref());
        let shared = shared.then_some(SharedBuild { store, identity, waited });
        Ok(Self { kind, recording, shared })
    }

    fn name(&self) -> String {
        let shared = if self.shared.is_some() { "several processes" } else { "one process" };
        format!("{:?} by {shared}", self.kind)
    }

    /// Checks one disk after a power loss, with one sync omitted.
    fn check(&self, omitted: Option<Omitted>, random: &mut Random) -> anyhow::Result<()> {
        let crash = self.recording.choose_crash(random);
        let checked = self.check_disk(crash, omitted, random);
        checked.with_context(|| format!("{}, power lost before call {crash}", self.name()))
    }

    fn check_disk(
        &self,
        crash: usize,
        omitted: Option<Omitted>,
        random: &mut Random,
    ) -> anyhow::Result<()> {
        let disk = self.recording.lose_power(crash, omitted, random);
        let (found, returned) = (disk.tree(), self.recording.has_returned(crash));
        let (before, after) = (&self.recording.states[0], self.recording.states.last());
        ensure!(!returned || Some(&found) == after, "published, and missing");
        let is_complete = Some(&found) == after || found == *before;
        ensure!(found.is_none() || is_complete, "neither the old store nor the new one");
        let (recovered, expected) = match &self.shared {
            // Repeating the step takes long: only sometimes.
            Some(shared) if !returned && (!is_complete || random.next_below(4) == 0) => {
                (block_on(shared.finish_after_crash(&disk, crash, self.kind))?, after)
            }
            None if !is_complete => (block_on(recover_store(&disk))?, Some(before)),
            _ => return Ok(()),
        };
        ensure!(Some(&recovered) == expected, "what came back is something else");
        Ok(())
    }
}

impl SharedBuild {
    /// Returns the store after the processes whose work was not synced ran again, followed by the
    /// last step.
    async fn finish_after_crash(
        &self,
        model: &Model,
        crash: usize,
        kind: PublishKind,
    ) -> anyhow::Result<Option<Tree>> {
        let scratch = archives::scratch();
        let parent = scratch.path().canonicalize()?;
        let target = parent.join(NAME);
        model.write(&parent);
        // The inode, which identifies a directory, has another number on this disk.
        let id = parent.join(WORK).join(ID);
        if fs::read_to_string(&id).is_ok_and(|text| text == self.identity) {
            let places = [target.clone(), parent.join(WORK).join("store")];
            let place = places.iter().find(|place| model.find_inode(place, &parent) == self.store);
            let number = place.map_or(Ok("0".to_owned()), |place| directory_number(place))?;
            let sum = self.identity.split_once(' ').map_or("", |(_number, sum)| sum);
            fs::write(&id, format!("{number} {sum}"))?;
        }
        let disk = kind.disk();
        for (share, waited) in SHARES.into_iter().zip(&self.waited) {
            if crash < *waited {
                let joined = join_build(&disk, &target).await?;
                if !joined.is_published().await? {
                    generations::write_share(&joined, 2, share, CELLS).await?;
                }
            }
        }
        generations::publish_shared(join_build(&disk, &target).await?, 2, CELLS).await?;
        Ok(read_tree(&target))
    }
}

/// Builds and publishes generation `g`.
async fn build_store(disk: &Disk, target: &Path, g: u64) -> anyhow::Result<()> {
    Ok(generations::build(begin_build(disk, target).await?, g, CELLS).await?)
}

async fn begin_build(disk: &Disk, target: &Path) -> zvf_error::Result<Build> {
    Build::begin(target.to_str().unwrap(), options_on(disk)).await
}

async fn join_build(disk: &Disk, target: &Path) -> zvf_error::Result<Build> {
    let work = target.with_file_name(WORK);
    Build::join(target.to_str().unwrap(), &work, options_on(disk)).await
}

fn options_on(disk: &Disk) -> BuildOptions {
    BuildOptions { disk: disk.clone(), ..build::build_options(true) }
}

/// Returns the store after the next build started on this disk and was abandoned.
async fn recover_store(model: &Model) -> anyhow::Result<Option<Tree>> {
    let scratch = archives::scratch();
    model.write(scratch.path());
    let target = scratch.path().join(NAME);
    drop(begin_build(&Disk::with_recording(), &target).await?);
    Ok(read_tree(&target))
}

fn directory_number(path: &Path) -> std::io::Result<String> {
    use std::os::unix::fs::MetadataExt as _;
    Ok(fs::metadata(path)?.ino().to_string())
}

/// Tests `states` disks of each writer, and the controls.
fn check_writers(states: u64, random: &mut Random, report: &mut Report) -> anyhow::Result<()> {
    for &task in Task::value_variants() {
        let what = format!("{task:?}");
        let prepare = |target: &Path| block_on(task.prepare(target));
        let write = |target: &Path, disk: &Disk| block_on(task.perform(target, disk));
        let recording =
            Recording::record(&what, Counted::Every, Disk::with_recording(), prepare, write)?;
        ensure!(recording.states.len() > 1, "{what}: nothing was recorded");
        recording.check(states, &what, report, |omitted| {
            check_writer(&recording, omitted, random).with_context(|| what.clone())
        });
    }
    Ok(())
}

/// Checks one disk after the power loss.
fn check_writer(
    recording: &Recording,
    omitted: Option<Omitted>,
    random: &mut Random,
) -> anyhow::Result<()> {
    let crash = recording.choose_crash(random);
    let found = recording.lose_power(crash, omitted, random).tree();
    let is_after = recording.states.last() == Some(&found);
    ensure!(
        is_after || !recording.has_returned(crash),
        "power lost before call {crash}: it had returned, and its output is missing"
    );
    ensure!(
        recording.states.contains(&found),
        "power lost before call {crash}: neither the old state nor the new one"
    );
    Ok(())
}

/// The folder that several processes share, and the file in it that records their progress.
const WORK: &str = "work";
const ID: &str = "store.id";
/// The number of cells of a store; each is four files or a part of one.
const CELLS: i64 = 6;
/// The cells that each process writes; no shard is divided.
const SHARES: [std::ops::Range<i64>; 2] = [0..4, 4..CELLS];
