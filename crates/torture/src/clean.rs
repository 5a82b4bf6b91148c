//! `clean`: each command that writes is killed at a random moment, then `zvf clean` removes what it left.
//!
//! After that only the former files lie next to the target, the target is the old or the new one, and the same command
//! makes the same as without a kill.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::Report;
use crate::commands::{Case, Rounds, prepare_cases, start_command};
use crate::rerun::{FaultFreeRun, list_names, read_tree, restore};
use archives::random::Random;

/// Kills each command that writes, and cleans up.
pub(crate) fn run(rounds: &Rounds) -> anyhow::Result<Report> {
    let scratch = tempfile::tempdir()?;
    let (zvf, mut random, mut report) = rounds.begin("clean")?;
    let place = scratch.path().join("place");
    let mut left = 0_u64;
    let all = prepare_cases(&zvf, scratch.path(), &place, SIZE)?;
    // The unfinished build of an ingest is removed as well.
    for case in all.iter().filter(|case| rounds.has(&case.name) && case.name != "ingest-finish") {
        let fault_free = FaultFreeRun::prepare(&zvf, case, &place)?;
        for round in 0..rounds.loops.unwrap_or(50) {
            let checked = run_case(&zvf, case, &fault_free, &place, &mut random, &mut left)?;
            report.count(checked.map_err(|error| format!("{}, {round}: {error}", case.name)));
        }
    }
    report.print_note(&format!("{left} of {} left something behind", report.n));
    Ok(report)
}

fn run_case(
    zvf: &Path,
    case: &Case,
    fault_free: &FaultFreeRun,
    place: &Path,
    random: &mut Random,
    left: &mut u64,
) -> anyhow::Result<Result<(), String>> {
    restore(case, place)?;
    let before = list_names(place)?;
    let target = place.join(case.target);
    let mut child = start_command(zvf, &case.words)?;
    let max_micros = u64::try_from(fault_free.published.as_micros())? + AFTER_MICROS;
    std::thread::sleep(Duration::from_micros(random.next() % max_micros));
    child.kill()?;
    child.wait()?;
    *left +=
        u64::from(list_names(place)?.iter().any(|name| !fault_free.allows_name(&before, name)));
    let words = ["clean", "-q", "--all"];
    let cleaned = Command::new(zvf).args(words).arg(&target).output()?;
    if !cleaned.status.success() {
        let words = String::from_utf8_lossy(&cleaned.stderr).into_owned();
        return Ok(Err(format!("clean ended with {}: {}", cleaned.status, words.trim())));
    }
    let found = list_names(place)?;
    if let Some(name) = found.iter().find(|name| !fault_free.allows_name(&before, name)) {
        return Ok(Err(format!("{name} remains after clean")));
    }
    let found_tree = read_tree(&target);
    let is_whole =
        found_tree == fault_free.before || found_tree.as_ref() == Some(&fault_free.after);
    if !is_whole && !case.is_stepwise {
        return Ok(Err("after clean neither the old nor the new exists".to_owned()));
    }
    fault_free.rerun(zvf, case, found_tree.as_ref(), &target)
}

/// How long after publication a command is still killed.
const AFTER_MICROS: u64 = 10_000;
/// The number of points of the stores.
const SIZE: u64 = 20_000;
