//! `rerun`, `clean` and `kill9 --what create|overwrite`: each command that writes is killed and run
//! again.
//!
//! ```text
//! rerun    killed once, at most 20 ms before or after the publication, or that long after it was observed
//! clean    killed once at any moment; then `zvf clean` removes what it left
//! kill9    killed up to four times at any moment, each time on what the last one left
//! ```
//!
//! A command first runs undisturbed, which shows when its target changes. After each kill the
//! target is the old or the new one. Running the same command again gives the same result as
//! without a kill, with nothing next to it, or reports that the target exists if nothing may be
//! replaced.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use archives::peers::Process;

use crate::Report;
use crate::commands::{Case, Rounds, Zvf, prepare_cases, says_changed};
use crate::trees::{Expected, list_names, read_tree};
use archives::random::Random;

/// How a command is killed.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Kill {
    AroundPublication,
    ThenClean,
    Often,
}

/// The result of an undisturbed command.
pub(crate) struct FaultFreeRun {
    pub(crate) expected: Expected,
    /// The time from the start of the command to the change of its target.
    published: Duration,
    pub(crate) time: Duration,
    /// Whether its report says that it changed something.
    pub(crate) reports: bool,
}

/// Kills each command that writes, and runs it again.
pub(crate) fn run(rounds: &Rounds, kill: Kill, report: &mut Report) -> anyhow::Result<()> {
    let loops = rounds.loops.unwrap_or(if kill == Kill::ThenClean { 50 } else { 100 });
    let is_selected = |case: &Case| {
        case.is_selected(rounds.what.as_deref())
            && (kill != Kill::ThenClean || case.name != "ingest-finish")
    };
    let scratch = tempfile::tempdir()?;
    run_cases(report, kill, scratch.path(), (SIZE, loops), is_selected)
}

/// Kills each selected command `loops` times, on inputs of this size.
pub(crate) fn run_cases(
    report: &mut Report,
    kill: Kill,
    scratch: &Path,
    (size, loops): (u64, u64),
    is_selected: impl Fn(&Case) -> bool,
) -> anyhow::Result<()> {
    let (zvf, mut random) = (report.zvf(&scratch.join("place"))?, report.random());
    let mut left = 0_u64;
    let mut all = prepare_cases(&zvf, size)?;
    if let Some(mesh) = all.iter().find(|case| case.name == "create-mesh" && kill == Kill::Often) {
        let line = format!("{} --shard none --memory-limit 1MiB", mesh.line);
        all.push(Case { name: "create-mesh-out-of-core".to_owned(), line, ..mesh.clone() });
    }
    all.retain(is_selected);
    run_rounds(report, &zvf, &all, loops, |fault_free, case| {
        let kills = if kill == Kill::Often { 1 + random.next_below(4) } else { 1 };
        (0..kills).try_for_each(|_| fault_free.kill(&zvf, case, kill, &mut random, &mut left))?;
        fault_free.finish(&zvf, case)
    })?;
    report.print_note(&format!("{left} kills left something behind"));
    Ok(())
}

/// Counts rounds of each case, each on its initial files, after one without a disturbance.
pub(crate) fn run_rounds(
    report: &mut Report,
    zvf: &Zvf,
    cases: &[Case],
    loops: u64,
    mut run_round: impl FnMut(&FaultFreeRun, &Case) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    for case in cases {
        let fault_free = FaultFreeRun::prepare(zvf, case)?;
        report.part(&case.name, |report| {
            for round in 0..loops {
                zvf.restore(case)?;
                let ran = run_round(&fault_free, case);
                report.count(ran.with_context(|| format!("{}, {round}", case.name)));
            }
            Ok(())
        })?;
    }
    Ok(())
}

impl FaultFreeRun {
    /// Returns a name in the place that exists neither in `before` nor after a run without a fault.
    pub(crate) fn find_leftover(
        &self,
        zvf: &Zvf,
        before: &[String],
    ) -> anyhow::Result<Option<String>> {
        let mut names = list_names(&zvf.place)?.into_iter();
        Ok(names.find(|name| !before.contains(name) && !self.expected.names.contains(name)))
    }

    /// Runs a command undisturbed.
    pub(crate) fn prepare(zvf: &Zvf, case: &Case) -> anyhow::Result<Self> {
        zvf.restore(case)?;
        let target = zvf.place.join(case.target);
        let before = read_tree(&target);
        let (start, old) = (Instant::now(), publication_mark(&target));
        let mut child = zvf.start(&case.line)?;
        let mut published = None;
        while child.try_wait()?.is_none() {
            if published.is_none() && publication_mark(&target) != old {
                published = Some(start.elapsed());
            }
            std::thread::sleep(STEP);
        }
        let (time, ended) = (start.elapsed(), child.wait_with_output()?);
        let text = String::from_utf8_lossy(&ended.stderr);
        ensure!(ended.status.success(), "{} in peace: {} {text}", case.name, ended.status);
        let (published, reports) = (published.unwrap_or(time), says_changed(&ended));
        let after = read_tree(&target).with_context(|| format!("{} made nothing", case.name))?;
        let (names, is_stepwise) = (list_names(&zvf.place)?, case.is_stepwise);
        let expected = Expected { before, after, names, is_stepwise };
        Ok(Self { expected, published, time, reports })
    }

    /// Runs a command and kills it; the target is then the old or the new one.
    fn kill(
        &self,
        zvf: &Zvf,
        case: &Case,
        kill: Kill,
        random: &mut Random,
        left: &mut u64,
    ) -> anyhow::Result<()> {
        let target = zvf.place.join(case.target);
        let before = list_names(&zvf.place)?;
        let (start, old) = (Instant::now(), publication_mark(&target));
        let mut child = Process(zvf.start(&case.line)?);
        let shift = Duration::from_micros(random.next() % AROUND_MICROS);
        let moment = match random.next_below(3) {
            _ if kill != Kill::AroundPublication => {
                let micros = self.time.as_micros() as u64 + AROUND_MICROS / 2;
                Some(Duration::from_micros(random.next() % micros))
            }
            0 => Some(self.published.saturating_sub(shift)),
            1 => Some(self.published + shift),
            _ => None,
        };
        if let Some(moment) = moment {
            std::thread::sleep(moment.saturating_sub(start.elapsed()));
        } else {
            while publication_mark(&target) == old && child.0.try_wait()?.is_none() {
                std::thread::sleep(STEP);
            }
            std::thread::sleep(shift);
        }
        drop(child);
        *left += u64::from(self.find_leftover(zvf, &before)?.is_some());
        let clean = || zvf.run(&format!("clean -q --all {}", case.target));
        if kill == Kill::ThenClean {
            clean()?;
            let leftover = self.find_leftover(zvf, &before)?;
            ensure!(leftover.is_none(), "{leftover:?} remains after clean");
        }
        if self.expected.check_whole(&target).is_err() {
            clean()?; // names that were added and not committed, which no document mentions
        }
        self.expected.check_whole(&target).context("killed")
    }

    /// Runs the command to its end after a kill.
    pub(crate) fn finish(&self, zvf: &Zvf, case: &Case) -> anyhow::Result<()> {
        let target = zvf.place.join(case.target);
        let is_made = read_tree(&target).as_ref() == Some(&self.expected.after);
        let output = zvf.ask(&case.line)?;
        let code = output.status.code();
        let is_done = is_made && code.is_some() && code == case.done_code;
        let text = String::from_utf8_lossy(&output.stderr);
        ensure!(code == Some(0) || is_done, "run again, it ended with {code:?}: {text}");
        self.expected.check_made(&target, !case.is_stepwise)
    }
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

/// The largest distance of a kill from the moment of publication.
const AROUND_MICROS: u64 = 20_000;
/// The interval between looks at the target.
const STEP: Duration = Duration::from_micros(200);
/// The number of points of the stores.
const SIZE: u64 = 20_000;
