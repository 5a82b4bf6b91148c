//! Where the time of work goes: it is done again while `perf` listens.
//!
//! ```text
//! attach    `perf record` listens to this process, its threads and its children, and says when it does
//! record    the work is done until it was done once and the time is over, however long one turn takes
//! report    `perf report` counts the samples of each process and function
//! words     the share of the system with its two largest functions, and the four largest of ours
//! ```
//!
//! Work that a child does, a command or an interpreter, is described by the samples of children alone: this process then
//! only waits, and looks at what the child holds.

use std::fs::{self, File};
use std::io::{ErrorKind, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal, kill_process};

use crate::row::Turn;

/// The profile in words, or why there is none.
pub(crate) fn profile_work(
    time: Duration,
    run: &mut dyn FnMut() -> anyhow::Result<Turn>,
) -> Result<String, String> {
    let mut listened = || {
        let folder = tempfile::tempdir()?;
        record(folder.path(), time, run)?;
        let samples = read_report(&folder.path().join(FILE))?;
        anyhow::Ok(describe_shares(&select_work_samples(&samples, std::process::id())))
    };
    listened().map_err(|error| format!("no profile: {error:#}"))
}

/// Does the work while `perf` listens, which begins only when it says that it does.
fn record(
    folder: &Path,
    time: Duration,
    run: &mut dyn FnMut() -> anyhow::Result<Turn>,
) -> anyhow::Result<()> {
    let listener = Listener::attach(folder)?;
    let begun = Instant::now();
    loop {
        run()?;
        if begun.elapsed() >= time {
            return listener.stop();
        }
    }
}

/// A running `perf record`.
struct Listener(Child);

impl Listener {
    /// Starts it, and waits until it listens.
    fn attach(folder: &Path) -> anyhow::Result<Self> {
        let (control, answer) = (folder.join("control"), folder.join("answer"));
        let made = Command::new("mkfifo").args([&control, &answer]).status().context("mkfifo")?;
        ensure!(made.success(), "mkfifo: {made}");
        let mut perf = Command::new("perf");
        perf.args(["record", "--quiet", "--freq", "997", "--delay=-1", "--pid", &list_processes()]);
        perf.arg(format!("--control=fifo:{},{}", control.display(), answer.display()));
        perf.arg("--output").arg(folder.join(FILE));
        let perf = perf.stdout(Stdio::null()).stderr(Stdio::null()).spawn().context("perf")?;
        let mut listener = Self(perf);
        let [mut control, mut answer] = [open_fifo(&control)?, open_fifo(&answer)?];
        control.write_all(b"enable\n")?;
        let (begun, mut word) = (Instant::now(), [0; 4]);
        loop {
            match answer.read(&mut word) {
                Ok(_) => return Ok(listener),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.into()),
            }
            if let Some(status) = listener.0.try_wait()? {
                bail!("perf record: {status}");
            }
            ensure!(begun.elapsed() < PATIENCE, "perf record does not listen");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Has it write what it heard.
    fn stop(mut self) -> anyhow::Result<()> {
        kill_process(Pid::from_child(&self.0), Signal::INT)?;
        let begun = Instant::now();
        while self.0.try_wait()?.is_none() {
            ensure!(begun.elapsed() < PATIENCE, "perf record does not stop");
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        drop(self.0.kill()); // it may have ended already
        drop(self.0.wait());
    }
}

/// A pipe that neither waits for somebody to open its other end nor for something to read.
fn open_fifo(path: &Path) -> anyhow::Result<File> {
    Ok(rustix::fs::open(path, OFlags::RDWR | OFlags::NONBLOCK, Mode::empty())?.into())
}

/// Lists this process and its children, separated by commas. `perf` follows children that start later by itself.
fn list_processes() -> String {
    let this_process = std::process::id();
    let mut all = vec![this_process.to_string()];
    for task in fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
        let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        all.extend(children.split_whitespace().map(str::to_owned));
    }
    all.join(",")
}

/// The lines of `perf report`: a share, the process, whether it is of the system, and the function.
fn read_report(file: &Path) -> anyhow::Result<Vec<Share>> {
    let mut perf = Command::new("perf");
    perf.args(["report", "--stdio", "--quiet", "--no-children", "--sort", "pid,symbol"]);
    perf.args(["--field-separator", "\t", "--input"]).arg(file);
    let output = perf.output().context("perf")?;
    ensure!(output.status.success(), "perf report: {}", output.status);
    let text = String::from_utf8_lossy(&output.stdout);
    let shares: Vec<Share> = text.lines().filter_map(parse_share).collect();
    ensure!(!shares.is_empty(), "perf took no samples");
    Ok(shares)
}

/// What one function took in one process.
#[derive(Clone, Debug, PartialEq)]
struct Share {
    percent: f64,
    process: u32,
    in_system: bool,
    name: String,
}

/// A line: a share such as `12.34%`, a process such as `123:zvf`, and a function such as `[k] clear_page_erms`, with tabs
/// between them.
fn parse_share(line: &str) -> Option<Share> {
    let mut fields = line.trim().split('\t');
    let percent = fields.next()?.trim().trim_end_matches('%').parse().ok()?;
    let process = fields.next()?.trim().split(':').next()?.parse().ok()?;
    // Some releases have more columns, which are empty.
    let (space, name) = fields.next()?.trim().split_once(' ')?;
    Some(Share { percent, process, in_system: space != "[.]", name: shorten_name(name.trim()) })
}

/// The samples of those who worked, the same functions of several processes together, as shares of all of these samples:
/// of the children where they took a part that counts, else of the process itself.
fn select_work_samples(shares: &[Share], this_process: u32) -> Vec<Share> {
    let sum = |of_children: bool| -> f64 {
        let some = shares.iter().filter(|share| (share.process != this_process) == of_children);
        some.map(|share| share.percent).sum()
    };
    let (children, itself) = (sum(true), sum(false));
    // Others who wait to be asked wake up now and then.
    let of_children = children >= SHARE_OF_CHILDREN * (children + itself);
    let all = if of_children { children } else { itself };
    let mut work: Vec<Share> = Vec::new();
    for share in shares.iter().filter(|share| (share.process != this_process) == of_children) {
        let percent = share.percent * 100.0 / all;
        let mut entries = work.iter_mut();
        match entries.find(|entry| (entry.in_system, &entry.name) == (share.in_system, &share.name))
        {
            Some(entry) => entry.percent += percent,
            None => work.push(Share { percent, ..share.clone() }),
        }
    }
    work
}

/// The name without what the compiler adds to tell instances apart, and without generic parameters; the last three
/// parts of its path.
fn shorten_name(name: &str) -> String {
    let name = match name.rsplit_once("::h") {
        Some((name, hash)) if hash.len() == 16 => name,
        _ => name,
    };
    let (mut depth, mut bare) = (0_usize, String::new());
    for (at, letter) in name.char_indices() {
        match letter {
            '<' => depth += 1,
            '>' if !name[..at].ends_with('-') => depth = depth.saturating_sub(1),
            // A path that begins with a type in angles keeps that type.
            letter if depth == 0 || (depth == 1 && name.starts_with('<')) => bare.push(letter),
            _ => {}
        }
    }
    let parts: Vec<&str> = bare.split("::").filter(|part| !part.is_empty()).collect();
    parts[parts.len().saturating_sub(3)..].join("::")
}

fn describe_shares(shares: &[Share]) -> String {
    let largest = |in_system: bool, count: usize| {
        let mut some: Vec<&Share> =
            shares.iter().filter(|share| share.in_system == in_system).collect();
        some.sort_by(|a, b| b.percent.total_cmp(&a.percent));
        let some = some.into_iter().take(count).filter(|share| share.percent >= 1.0);
        let some: Vec<String> =
            some.map(|share| format!("`{}` {:.0} %", share.name, share.percent)).collect();
        some.join(", ")
    };
    let system: f64 =
        shares.iter().filter(|share| share.in_system).fold(0.0, |all, share| all + share.percent);
    let within = Some(largest(true, 2)).filter(|text| !text.is_empty());
    let within = within.map(|text| format!(" ({text})")).unwrap_or_default();
    let ours = Some(largest(false, 4)).filter(|text| !text.is_empty());
    let ours = ours.map(|text| format!("; {text}")).unwrap_or_default();
    format!("the system {system:.0} %{within}{ours}")
}

/// What `perf record` writes.
const FILE: &str = "perf.data";
/// Longer than `perf` takes to begin or to end.
const PATIENCE: Duration = Duration::from_secs(30);
/// Which part of all samples children have when they do the work.
const SHARE_OF_CHILDREN: f64 = 0.2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_short() {
        for (name, short) in [
            ("clear_page_erms", "clear_page_erms"),
            ("zvf_query::run::gather::rows::h0123456789abcdef", "run::gather::rows"),
            ("core::slice::sort<alloc::vec::Vec<u8>>::merge", "slice::sort::merge"),
            ("<zvf_store::Store as core::fmt::Debug>::fmt", "fmt::Debug::fmt"),
        ] {
            assert_eq!(shorten_name(name), short, "{name}");
        }
    }

    #[test]
    fn samples_become_words() {
        let text = " 40.25%\t 7:bench\t[k] copy_page_to_iter\t-\n 9.75%\t 7:bench\t[k] clear_page\n\n \
                    30.00%\t 7:bench\t[.] memcpy\n19.60%\t 7:bench\t[.] a::b::c::d::h0123456789abcdef\n \
                    0.40%\t 7:bench\t[.] small\n# comment\n";
        let shares: Vec<Share> = text.lines().filter_map(parse_share).collect();
        assert_eq!(shares.len(), 5);
        assert_eq!(
            describe_shares(&shares),
            "the system 50 % (`copy_page_to_iter` 40 %, `clear_page` 10 %); `memcpy` 30 %, `b::c::d` 20 %"
        );
        assert_eq!(describe_shares(&shares[2..3]), "the system 0 %; `memcpy` 30 %");
    }

    #[test]
    fn work_of_children_is_described_without_who_waits_for_them() {
        let share = |process, percent, name: &str| Share {
            percent,
            process,
            in_system: name == "read",
            name: name.into(),
        };
        let mut shares =
            vec![share(1, 60.0, "read"), share(2, 15.0, "sort"), share(3, 15.0, "sort")];
        shares.push(share(2, 10.0, "read"));
        assert_eq!(
            describe_shares(&select_work_samples(&shares, 1)),
            "the system 25 % (`read` 25 %); `sort` 75 %"
        );
        // Who waits to be asked has few.
        let shares = [share(1, 45.0, "sort"), share(1, 45.0, "read"), share(9, 10.0, "wait")];
        assert_eq!(
            describe_shares(&select_work_samples(&shares, 1)),
            "the system 50 % (`read` 50 %); `sort` 50 %"
        );
    }

    /// Work that is longer than the time, done by a command of its own.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_command_is_heard_from_its_start() {
        let mut runs = 0;
        let profile = profile_work(Duration::ZERO, &mut || {
            runs += 1;
            let count = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";
            ensure!(Command::new("sh").args(["-c", count]).status()?.success(), "sh");
            Ok(Turn::from_seconds(1.0))
        });
        // Where `perf` may not listen there is a reason, and the work may not have been done.
        match profile {
            Ok(_) => assert_eq!(runs, 1),
            Err(why) => assert!(why.starts_with("no profile: "), "{why}"),
        }
    }
}
