//! Profiles work: it is repeated while `perf` records.
//!
//! ```text
//! attach    `perf record` listens to this process, its threads and its children while a command of
//!           its own runs; the command says when it does, and ends with its input
//! record    the work is done until it was done once and the time is over, however long one turn takes
//! report    `perf report` counts the samples of each process and function
//! ```
//!
//! The script that makes the page explains the profile in words.

use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use archives::peers::Process;
use serde::Serialize;

/// The samples of `perf`: the share of each process and function.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Samples {
    /// This process, which only waits while a child works.
    process: u32,
    /// The lines of `perf report`: a share, the process, whether it is in the kernel, and the
    /// function.
    report: Vec<String>,
}

/// Returns the samples, or why there are none.
pub(crate) fn profile_work<T>(
    time: Duration,
    run: &mut dyn FnMut() -> anyhow::Result<T>,
) -> Result<Samples, String> {
    let mut listened = || {
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("perf.data");
        record(&file, time, run)?;
        read_report(&file)
    };
    let report = listened().map_err(|error: anyhow::Error| format!("no profile: {error:#}"))?;
    Ok(Samples { process: std::process::id(), report })
}

/// Runs the work while `perf` records.
fn record<T>(
    file: &Path,
    time: Duration,
    run: &mut dyn FnMut() -> anyhow::Result<T>,
) -> anyhow::Result<()> {
    let mut perf = Command::new("perf");
    perf.args(["record", "--quiet", "--freq", "997", "--pid", &list_processes(), "--output"]);
    perf.arg(file).args(["--", "sh", "-c", "echo; exec cat"]);
    perf.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut listener = Process(perf.spawn().context("perf")?);
    let ready = listener.0.stdout.take().context("no output")?.read_exact(&mut [0]);
    ready.context("perf record does not listen")?;
    let begun = Instant::now();
    loop {
        run()?;
        if begun.elapsed() >= time {
            break;
        }
    }
    drop(listener.0.stdin.take());
    let status = listener.0.wait()?;
    ensure!(status.success(), "perf record: {status}");
    Ok(())
}

/// Lists this process and its children, separated by commas. `perf` follows children that start
/// later by itself.
fn list_processes() -> String {
    let this_process = std::process::id();
    let mut all = vec![this_process.to_string()];
    for task in fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
        let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        all.extend(children.split_whitespace().map(str::to_owned));
    }
    all.join(",")
}

/// The first lines of `perf report`.
fn read_report(file: &Path) -> anyhow::Result<Vec<String>> {
    let mut perf = Command::new("perf");
    perf.args(["report", "--stdio", "--quiet", "--no-children", "--sort", "pid,symbol"]);
    perf.args(["--field-separator", "\t", "--input"]).arg(file);
    let output = perf.output().context("perf")?;
    ensure!(output.status.success(), "perf report: {}", output.status);
    let text = String::from_utf8_lossy(&output.stdout);
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty()).take(LINES);
    let lines: Vec<String> = lines.map(str::to_owned).collect();
    ensure!(!lines.is_empty(), "perf took no samples");
    Ok(lines)
}

/// The number of kept lines of a report; later ones are negligible.
const LINES: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    /// Long work that a separate command does.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_command_is_heard_from_its_start() {
        let mut runs = 0;
        let profile = profile_work(Duration::ZERO, &mut || {
            runs += 1;
            let count = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";
            ensure!(Command::new("sh").args(["-c", count]).status()?.success(), "sh");
            Ok(())
        });
        // If `perf` is not permitted, there is a reason, and the work may not have run.
        match profile {
            Ok(_) => assert_eq!(runs, 1),
            Err(why) => assert!(why.starts_with("no profile: "), "{why}"),
        }
    }
}
