//! `rerun`: each command that writes is killed around the moment at which it publishes, and run again.
//!
//! A command runs once in peace, which shows when what is at its target changes. Then it is killed at most
//! 20 ms before or after that, or that long after the change was seen. What is at the target then is the old
//! or the new one, and the same command once more makes what it makes in peace, with nothing beside it: or it
//! says that it is there, where nothing is to be replaced.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

use crate::Report;
use crate::commands::{Case, cases, run};
use crate::random::Random;

/// Each command that writes, killed where it publishes and run again.
#[derive(Debug, clap::Args)]
pub(crate) struct Rerun {
    /// Kills of each command.
    #[arg(long, default_value_t = 100)]
    loops: u64,
    /// The commands with this in their names; all of them without it.
    #[arg(long)]
    what: Option<String>,
    /// The `zvf` command [default: the one beside this program].
    #[arg(long)]
    zvf: Option<PathBuf>,
    /// The same seed waits the same times.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Files by their path.
pub(crate) type Tree = BTreeMap<String, Vec<u8>>;

/// What a command does in peace.
pub(crate) struct Peace {
    pub(crate) before: Option<Tree>,
    pub(crate) after: Tree,
    beside: Vec<String>,
    /// From the start of the command to the change of its target.
    pub(crate) published: Duration,
}

impl Rerun {
    pub(crate) fn run(self) -> anyhow::Result<Report> {
        let scratch = tempfile::tempdir()?;
        let beside = || anyhow::Ok(std::env::current_exe()?.with_file_name("zvf"));
        let zvf = self.zvf.clone().map_or_else(beside, Ok)?;
        let mut random = Random::new(self.seed);
        let mut report = Report { name: "rerun", seed: self.seed, ..Report::default() };
        let place = scratch.path().join("place");
        let all = cases(&zvf, scratch.path(), &place, SIZE)?;
        for case in all.iter().filter(|one| self.what.as_ref().is_none_or(|w| one.name.contains(w)))
        {
            let peace = Peace::prepare(&zvf, case, &place)?;
            for round in 0..self.loops {
                let checked = one(&zvf, case, &peace, &place, &mut random)?;
                report.count(checked.map_err(|error| format!("{}, {round}: {error}", case.name)));
            }
        }
        Ok(report)
    }
}

impl Peace {
    /// Whether a file of this name may lie beside the target at any time; `before` lay there from the beginning.
    pub(crate) fn names_allowed(&self, before: &[String], name: &String) -> bool {
        before.contains(name) || self.beside.contains(name)
    }

    pub(crate) fn prepare(zvf: &Path, case: &Case, place: &Path) -> anyhow::Result<Self> {
        restore(case, place)?;
        let target = place.join(case.target);
        let before = tree(&target);
        let (start, old) = (Instant::now(), mark(&target));
        let mut child = run(zvf, &case.words)?;
        let mut published = None;
        let status = loop {
            if published.is_none() && mark(&target) != old {
                published = Some(start.elapsed());
            }
            if let Some(status) = child.try_wait()? {
                break status;
            }
            std::thread::sleep(STEP);
        };
        ensure!(status.success(), "{} in peace: {status}", case.name);
        let published = published.unwrap_or_else(|| start.elapsed());
        let after = tree(&target).with_context(|| format!("{} made nothing", case.name))?;
        Ok(Self { before, after, beside: names(place)?, published })
    }
}

/// Kills the command once and runs it again.
fn one(
    zvf: &Path,
    case: &Case,
    peace: &Peace,
    place: &Path,
    random: &mut Random,
) -> anyhow::Result<Result<(), String>> {
    restore(case, place)?;
    let target = place.join(case.target);
    let (start, old) = (Instant::now(), mark(&target));
    let mut child = run(zvf, &case.words)?;
    let shift = Duration::from_micros(random.next() % AROUND_MICROS);
    let moment = match random.below(3) {
        0 => Some(peace.published.saturating_sub(shift)),
        1 => Some(peace.published + shift),
        _ => None,
    };
    if let Some(moment) = moment {
        std::thread::sleep(moment.saturating_sub(start.elapsed()));
    } else {
        while mark(&target) == old && child.try_wait()?.is_none() {
            std::thread::sleep(STEP);
        }
        std::thread::sleep(shift);
    }
    child.kill()?;
    child.wait()?;
    let killed = tree(&target);
    // A store that is replaced has no name for a moment where the system cannot exchange two.
    let is_whole = killed == peace.before || killed.as_ref() == Some(&peace.after);
    if !is_whole && !case.is_stepwise {
        return Ok(Err("killed, it left neither the old nor the new".to_owned()));
    }
    let output = Command::new(zvf).args(&case.words).output()?;
    let code = output.status.code();
    let is_done = killed.as_ref() == Some(&peace.after) && code.is_some() && code == case.done_code;
    if code != Some(0) && !is_done {
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        return Ok(Err(format!("run again, it ended with {code:?}: {}", words.trim())));
    }
    let again = tree(&target);
    if again.as_ref() != Some(&peace.after) {
        let differs = differing(&again.unwrap_or_default(), &peace.after);
        return Ok(Err(format!("run again, it made something else: {differs}")));
    }
    let left = names(place)?;
    // What a repair keeps of the old is numbered.
    if left != peace.beside && !case.is_stepwise {
        return Ok(Err(format!("left behind: {left:?}, in peace {:?}", peace.beside)));
    }
    Ok(Ok(()))
}

/// Puts what is there before the command into `place`, and nothing else.
pub(crate) fn restore(case: &Case, place: &Path) -> anyhow::Result<()> {
    if place.exists() {
        fs::remove_dir_all(place)?;
    }
    let copied = Command::new("cp").arg("-a").arg(&case.before).arg(place).status()?;
    ensure!(copied.success(), "cannot copy {}", case.before.display());
    Ok(())
}

/// The files at `path`, or the one that is there.
pub(crate) fn tree(path: &Path) -> Option<Tree> {
    if path.is_dir() {
        return Some(archives::tree(path));
    }
    let bytes = fs::read(path).ok()?;
    Some(BTreeMap::from([(String::new(), bytes)]))
}

/// What changes when something is published at `path`.
fn mark(path: &Path) -> Vec<Option<(u64, i64, i64)>> {
    let about = |path: &Path| {
        let about = fs::metadata(path).ok()?;
        // A folder changes also when something is put beside what is replaced.
        let is_file = about.is_file();
        let (seconds, nanos) = if is_file { (about.mtime(), about.mtime_nsec()) } else { (0, 0) };
        Some((about.ino(), seconds, nanos))
    };
    ["", "zarr.json", "0/zarr.json"].map(|name| about(&path.join(name))).to_vec()
}

pub(crate) fn names(folder: &Path) -> anyhow::Result<Vec<String>> {
    let entries = fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name().into_string()));
    let mut names: Vec<String> =
        entries.collect::<anyhow::Result<Vec<_>>>()?.into_iter().flatten().collect();
    names.sort();
    Ok(names)
}

/// The first file that only one of two stores has so.
fn differing(found: &Tree, wanted: &Tree) -> String {
    let names = found.keys().chain(wanted.keys());
    let different = |name: &&String| found.get(*name) != wanted.get(*name);
    names.into_iter().find(different).cloned().unwrap_or_default()
}

/// How far from the moment of publication a command is killed.
const AROUND_MICROS: u64 = 20_000;
/// How often the target is looked at.
const STEP: Duration = Duration::from_micros(200);
/// Points of the stores.
const SIZE: u64 = 20_000;
