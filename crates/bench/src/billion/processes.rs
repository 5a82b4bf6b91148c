//! Commands as processes: their output, their cost, and many of them at once.

use std::fs;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::{Context as _, ensure};

use super::turn_from_stats;
use crate::pyramid::watch_command;
use crate::row::Turn;
use crate::watch::{ProcessStats, Watch};

/// The cost of a process, and its standard output.
#[derive(Debug)]
pub(super) struct ProcessRun {
    pub(super) seconds: f64,
    pub(super) stats: ProcessStats,
    pub(super) stdout: String,
}

/// Runs a command to its end. Its output goes to files, so that no pipe fills up meanwhile.
impl ProcessRun {
    pub(super) fn turn(&self) -> Turn {
        turn_from_stats(self.seconds, &self.stats)
    }
}

pub(super) fn run_command(command: &mut Command) -> anyhow::Result<ProcessRun> {
    let folder = tempfile::tempdir()?;
    let [stdout, faults] = ["said", "faults"].map(|name| folder.path().join(name));
    command.stdin(Stdio::null()).stdout(fs::File::create(&stdout)?);
    command.stderr(fs::File::create(&faults)?);
    match watch_command(command) {
        Ok((seconds, stats)) => {
            Ok(ProcessRun { seconds, stats, stdout: fs::read_to_string(stdout)? })
        }
        Err(error) => Err(error.context(fs::read_to_string(faults)?.trim().to_owned())),
    }
}

/// Runs the commands that `command` makes for each of `numbers`, `at_once` at a time. Calls, bytes
/// and processor time are sums; memory is the largest.
pub(super) fn run_tasks(
    numbers: &[usize],
    at_once: usize,
    command: impl Fn(usize) -> Command + Sync,
) -> anyhow::Result<(f64, ProcessStats)> {
    let (begun, next) = (Instant::now(), AtomicUsize::new(0));
    let all: Mutex<anyhow::Result<ProcessStats>> = Mutex::new(Ok(ProcessStats::default()));
    std::thread::scope(|scope| {
        for _ in 0..at_once.max(1) {
            scope.spawn(|| {
                while let Some(number) = numbers.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let done = run_command(&mut command(*number)).context(format!("task {number}"));
                    let Ok(mut all) = all.lock() else { return };
                    match (all.as_mut(), done) {
                        (Ok(sum), Ok(done)) => *sum = combine_stats(*sum, &done.stats, u64::max),
                        (Ok(_), Err(error)) => *all = Err(error),
                        (Err(_), _) => return,
                    }
                }
            });
        }
    });
    let all = all.into_inner().map_err(|_panic| anyhow::anyhow!("a thread panicked"))?;
    Ok((begun.elapsed().as_secs_f64(), all?))
}

/// Returns the cost of two processes together; `memory` combines their peaks.
pub(super) fn combine_stats(
    left: ProcessStats,
    right: &ProcessStats,
    memory: fn(u64, u64) -> u64,
) -> ProcessStats {
    ProcessStats {
        calls: left.calls + right.calls,
        bytes: left.bytes + right.bytes,
        held: left.held + right.held,
        peak: memory(left.peak, right.peak),
        processor: left.processor + right.processor,
    }
}

/// Returns the cost of running processes since `watches` began; the peak is the sum of their peaks.
pub(super) fn stats_since(watches: &[Watch]) -> anyhow::Result<ProcessStats> {
    let mut all = ProcessStats::default();
    for watch in watches {
        let mut stats = watch.end().context("a process of the cluster is gone")?;
        stats.peak += watch.before.held;
        all = combine_stats(all, &stats, |a, b| a + b);
    }
    Ok(all)
}

/// Begins to watch processes.
pub(super) fn watch_processes(processes: impl Iterator<Item = u32>) -> anyhow::Result<Vec<Watch>> {
    let begun =
        |process| Watch::begin(process).context("the system does not say what a process takes");
    let watches = processes.map(begun).collect::<anyhow::Result<Vec<_>>>()?;
    ensure!(!watches.is_empty(), "expected a process to watch, found none");
    Ok(watches)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell_command(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn output_is_kept_and_errors_begin_with_what_was_written_to_standard_error() {
        assert_eq!(run_command(&mut shell_command("echo 7; echo no >&2")).unwrap().stdout, "7\n");
        let error = run_command(&mut shell_command("echo no >&2; exit 3")).unwrap_err();
        assert!(format!("{error:#}").starts_with("no: "), "{error:#}");
    }

    #[test]
    fn every_number_has_its_process() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().display().to_string();
        let numbers: Vec<usize> = (0..7).collect();
        run_tasks(&numbers, 3, |number| shell_command(&format!("touch {path}/{number}"))).unwrap();
        assert_eq!(fs::read_dir(&path).unwrap().count(), 7);
        let error = run_tasks(&numbers, 2, |number| shell_command(&format!("[ {number} -lt 5 ]")));
        let message = format!("{:#}", error.unwrap_err());
        assert!(message.starts_with("task 5") || message.starts_with("task 6"), "{message}");
    }

    #[test]
    fn sums_and_the_larger_memory_are_of_several_processes() {
        let left = ProcessStats { calls: 1, bytes: 10, peak: 100, ..ProcessStats::default() };
        let right = ProcessStats { calls: 2, bytes: 20, peak: 300, ..ProcessStats::default() };
        let both = combine_stats(left, &right, u64::max);
        assert_eq!((both.calls, both.bytes, both.peak), (3, 30, 300));
        assert_eq!(combine_stats(left, &right, |a, b| a + b).peak, 400);
    }
}
