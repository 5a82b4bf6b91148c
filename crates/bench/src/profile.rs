//! Profiles work: it is repeated while `perf` records.
//!
//! ```text
//! attach    `perf record` listens to this process, its threads and its children, and says when it does
//! record    the work is done until it was done once and the time is over, however long one turn takes
//! report    `perf report` counts the samples of each process and function
//! ```
//!
//! The script that makes the page explains the profile in words.

use std::fs::{self, File};
use std::io::{ErrorKind, Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use archives::peers::{Process, wait_for};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal, kill_process};
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
        record(folder.path(), time, run)?;
        read_report(&folder.path().join(FILE))
    };
    let report = listened().map_err(|error: anyhow::Error| format!("no profile: {error:#}"))?;
    Ok(Samples { process: std::process::id(), report })
}

/// Runs the work while `perf` records, after `perf` reports that it is ready.
fn record<T>(
    folder: &Path,
    time: Duration,
    run: &mut dyn FnMut() -> anyhow::Result<T>,
) -> anyhow::Result<()> {
    let listener = attach(folder)?;
    let begun = Instant::now();
    loop {
        run()?;
        if begun.elapsed() >= time {
            return stop(listener);
        }
    }
}

/// Starts `perf record`, and waits until it records.
fn attach(folder: &Path) -> anyhow::Result<Process> {
    let (control, answer) = (folder.join("control"), folder.join("answer"));
    let made = Command::new("mkfifo").args([&control, &answer]).status().context("mkfifo")?;
    ensure!(made.success(), "mkfifo: {made}");
    let mut perf = Command::new("perf");
    perf.args(["record", "--quiet", "--freq", "997", "--delay=-1", "--pid", &list_processes()]);
    perf.arg(format!("--control=fifo:{},{}", control.display(), answer.display()));
    perf.arg("--output").arg(folder.join(FILE));
    let perf = perf.stdout(Stdio::null()).stderr(Stdio::null()).spawn().context("perf")?;
    let mut listener = Process(perf);
    let [mut control, mut answer] = [open_fifo(&control)?, open_fifo(&answer)?];
    control.write_all(b"enable\n")?;
    let is_ready = wait_for(PATIENCE, || {
        if let Some(status) = listener.0.try_wait()? {
            bail!("perf record: {status}");
        }
        match answer.read(&mut [0; 4]) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            read => Ok(Some(read?)),
        }
    });
    is_ready?.context("perf record does not listen")?;
    Ok(listener)
}

/// Stops recording, so that it writes its samples.
fn stop(mut listener: Process) -> anyhow::Result<()> {
    kill_process(Pid::from_child(&listener.0), Signal::INT)?;
    let ended = wait_for(PATIENCE, || Ok(listener.0.try_wait()?))?;
    ended.map(drop).context("perf record does not stop")
}

/// Opens a pipe without blocking, neither on open nor on read.
fn open_fifo(path: &Path) -> anyhow::Result<File> {
    Ok(rustix::fs::open(path, OFlags::RDWR | OFlags::NONBLOCK, Mode::empty())?.into())
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
/// The output file of `perf record`.
const FILE: &str = "perf.data";
/// Longer than `perf` takes to start or stop.
const PATIENCE: Duration = Duration::from_secs(30);

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
