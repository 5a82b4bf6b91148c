//! Commands as processes: their output, their cost, and many of them at once.

use std::fs;
use std::ops::Range;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::Context as _;
use rayon::iter::{IndexedParallelIterator as _, IntoParallelIterator as _, ParallelIterator as _};

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

impl ProcessRun {
    pub(super) fn turn(&self) -> Turn {
        self.stats.turn(self.seconds)
    }
}

/// Runs a command to its end. Its output goes to files, so that no pipe fills up meanwhile.
pub(super) fn run_command(command: &mut Command) -> anyhow::Result<ProcessRun> {
    let folder = tempfile::tempdir()?;
    let [stdout, faults] = ["said", "faults"].map(|name| folder.path().join(name));
    command.stdin(Stdio::null()).stdout(fs::File::create(&stdout)?);
    match watch_command(command.stderr(fs::File::create(&faults)?)) {
        Ok((seconds, stats)) => {
            Ok(ProcessRun { seconds, stats, stdout: fs::read_to_string(stdout)? })
        }
        Err(error) => Err(error.context(fs::read_to_string(faults)?.trim().to_owned())),
    }
}

/// Runs the commands that `command` makes for each of `numbers`, `at_once` at a time. Calls, bytes
/// and processor time are sums; memory is the largest.
pub(super) fn run_tasks(
    numbers: Range<usize>,
    at_once: usize,
    command: impl Fn(usize) -> Command + Sync,
) -> anyhow::Result<ProcessRun> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(at_once).build()?;
    let begun = Instant::now();
    let each = numbers.into_par_iter().with_max_len(1).map(|number| {
        let done = run_command(&mut command(number)).with_context(|| format!("task {number}"));
        anyhow::Ok(done?.stats)
    });
    let both = |left, right| Ok(combine_stats(left, &right, u64::max));
    let stats = pool.install(|| each.try_reduce(ProcessStats::default, both))?;
    Ok(ProcessRun { seconds: begun.elapsed().as_secs_f64(), stats, stdout: String::new() })
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
pub(super) fn watch_processes(processes: &[u32]) -> anyhow::Result<Vec<Watch>> {
    let begun = |process: &u32| {
        Watch::begin(*process).context("the system does not say what a process takes")
    };
    processes.iter().map(begun).collect()
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
        run_tasks(0..7, 3, |number| shell_command(&format!("touch {path}/{number}"))).unwrap();
        assert_eq!(fs::read_dir(&path).unwrap().count(), 7);
        let error = run_tasks(0..7, 2, |number| shell_command(&format!("[ {number} -lt 5 ]")));
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
