//! `rerun`: each command that writes is killed around the moment of publication, and run again.
//!
//! A command first runs undisturbed, which shows when its target changes. Then it is killed at most 20 ms before or
//! after that, or that long after the change was observed. The target is then the old or the new one, and the same
//! command once more makes the same as without a kill, with nothing next to it: or it reports that the target exists,
//! where nothing is to be replaced.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

use crate::Report;
use crate::commands::{Case, Rounds, prepare_cases, start_command};
use crate::random::Random;

/// Files by their path.
pub(crate) type Tree = BTreeMap<String, Vec<u8>>;

/// The result of an undisturbed command.
pub(crate) struct FaultFreeRun {
    pub(crate) before: Option<Tree>,
    pub(crate) after: Tree,
    siblings: Vec<String>,
    /// The time from the start of the command to the change of its target.
    pub(crate) published: Duration,
}

/// Kills each command that writes around its publication, and runs it again.
pub(crate) fn run(rounds: &Rounds) -> anyhow::Result<Report> {
    let scratch = tempfile::tempdir()?;
    let (zvf, mut random, mut report) = rounds.begin("rerun")?;
    let place = scratch.path().join("place");
    let all = prepare_cases(&zvf, scratch.path(), &place, SIZE)?;
    for case in all.iter().filter(|case| rounds.has(&case.name)) {
        let fault_free = FaultFreeRun::prepare(&zvf, case, &place)?;
        for round in 0..rounds.loops.unwrap_or(100) {
            let checked = kill_and_rerun(&zvf, case, &fault_free, &place, &mut random)?;
            report.count(checked.map_err(|error| format!("{}, {round}: {error}", case.name)));
        }
    }
    Ok(report)
}

impl FaultFreeRun {
    /// Returns whether a file of this name may lie next to the target; `before` are the initial names.
    pub(crate) fn allows_name(&self, before: &[String], name: &String) -> bool {
        before.contains(name) || self.siblings.contains(name)
    }

    /// Runs the command again on the target that a killed one left.
    pub(crate) fn rerun(
        &self,
        zvf: &Path,
        case: &Case,
        found: Option<&Tree>,
        target: &Path,
    ) -> anyhow::Result<Result<(), String>> {
        let output = Command::new(zvf).args(&case.words).output()?;
        let code = output.status.code();
        let is_done = found == Some(&self.after) && code.is_some() && code == case.done_code;
        if code != Some(0) && !is_done {
            let words = String::from_utf8_lossy(&output.stderr).into_owned();
            return Ok(Err(format!("run again, it ended with {code:?}: {}", words.trim())));
        }
        let again = read_tree(target);
        if again.as_ref() != Some(&self.after) {
            let differs = find_difference(&again.unwrap_or_default(), &self.after);
            return Ok(Err(format!("run again, it made something else: {differs}")));
        }
        Ok(Ok(()))
    }

    pub(crate) fn prepare(zvf: &Path, case: &Case, place: &Path) -> anyhow::Result<Self> {
        restore(case, place)?;
        let target = place.join(case.target);
        let before = read_tree(&target);
        let (start, old) = (Instant::now(), publication_mark(&target));
        let mut child = start_command(zvf, &case.words)?;
        let mut published = None;
        let status = loop {
            if published.is_none() && publication_mark(&target) != old {
                published = Some(start.elapsed());
            }
            if let Some(status) = child.try_wait()? {
                break status;
            }
            std::thread::sleep(STEP);
        };
        ensure!(status.success(), "{} in peace: {status}", case.name);
        let published = published.unwrap_or_else(|| start.elapsed());
        let after = read_tree(&target).with_context(|| format!("{} made nothing", case.name))?;
        Ok(Self { before, after, siblings: list_names(place)?, published })
    }
}

/// Kills the command once and runs it again.
fn kill_and_rerun(
    zvf: &Path,
    case: &Case,
    fault_free: &FaultFreeRun,
    place: &Path,
    random: &mut Random,
) -> anyhow::Result<Result<(), String>> {
    restore(case, place)?;
    let target = place.join(case.target);
    let (start, old) = (Instant::now(), publication_mark(&target));
    let mut child = start_command(zvf, &case.words)?;
    let shift = Duration::from_micros(random.next() % AROUND_MICROS);
    let moment = match random.next_below(3) {
        0 => Some(fault_free.published.saturating_sub(shift)),
        1 => Some(fault_free.published + shift),
        _ => None,
    };
    if let Some(moment) = moment {
        std::thread::sleep(moment.saturating_sub(start.elapsed()));
    } else {
        while publication_mark(&target) == old && child.try_wait()?.is_none() {
            std::thread::sleep(STEP);
        }
        std::thread::sleep(shift);
    }
    child.kill()?;
    child.wait()?;
    let killed = read_tree(&target);
    // A replaced store has no name for a moment where the system cannot exchange two.
    let is_whole = killed == fault_free.before || killed.as_ref() == Some(&fault_free.after);
    if !is_whole && !case.is_stepwise {
        return Ok(Err("killed, it left neither the old nor the new".to_owned()));
    }
    if let Err(failure) = fault_free.rerun(zvf, case, killed.as_ref(), &target)? {
        return Ok(Err(failure));
    }
    let left = list_names(place)?;
    // The folders that a repair keeps are numbered.
    if left != fault_free.siblings && !case.is_stepwise {
        return Ok(Err(format!("left behind: {left:?}, in peace {:?}", fault_free.siblings)));
    }
    Ok(Ok(()))
}

/// Restores the initial files in `place`, and nothing else.
pub(crate) fn restore(case: &Case, place: &Path) -> anyhow::Result<()> {
    if place.exists() {
        fs::remove_dir_all(place)?;
    }
    let copied = Command::new("cp").arg("-a").arg(&case.before).arg(place).status()?;
    ensure!(copied.success(), "cannot copy {}", case.before.display());
    Ok(())
}

/// Returns the files at `path`, or the single file.
pub(crate) fn read_tree(path: &Path) -> Option<Tree> {
    if path.is_dir() {
        return Some(archives::tree(path));
    }
    let bytes = fs::read(path).ok()?;
    Some(BTreeMap::from([(String::new(), bytes)]))
}

/// Returns a mark that changes when something is published at `path`.
fn publication_mark(path: &Path) -> Vec<Option<(u64, i64, i64)>> {
    let about = |path: &Path| {
        let about = fs::metadata(path).ok()?;
        // A folder also changes when something is put next to the replaced entry.
        let is_file = about.is_file();
        let (seconds, nanos) = if is_file { (about.mtime(), about.mtime_nsec()) } else { (0, 0) };
        Some((about.ino(), seconds, nanos))
    };
    ["", "zarr.json", "0/zarr.json"].map(|name| about(&path.join(name))).to_vec()
}

pub(crate) fn list_names(folder: &Path) -> anyhow::Result<Vec<String>> {
    let entries = fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name().into_string()));
    let mut names: Vec<String> =
        entries.collect::<anyhow::Result<Vec<_>>>()?.into_iter().flatten().collect();
    names.sort();
    Ok(names)
}

/// Returns the first file in which two stores differ.
fn find_difference(found: &Tree, expected: &Tree) -> String {
    let names = found.keys().chain(expected.keys());
    let different = |name: &&String| found.get(*name) != expected.get(*name);
    names.into_iter().find(different).cloned().unwrap_or_default()
}

/// The largest distance of a kill from the moment of publication.
const AROUND_MICROS: u64 = 20_000;
/// The interval between looks at the target.
const STEP: Duration = Duration::from_micros(200);
/// The number of points of the stores.
const SIZE: u64 = 20_000;
