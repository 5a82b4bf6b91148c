//! Processes: what the system says of one (its reads, memory and processor time; nothing on systems
//! without `/proc`), and commands that are measured from start to end, many of them at once too.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use archives::peers::read_figure;
use rayon::iter::{IndexedParallelIterator as _, IntoParallelIterator as _, ParallelIterator as _};

use crate::row::{Cost, Turn};

/// A process, and its statistics when the watch began.
#[derive(Clone, Copy)]
pub(crate) struct Watch {
    process: u32,
    pub(crate) before: ProcessStats,
}

/// The statistics of a process, from the system.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ProcessStats {
    /// Number of read calls.
    pub(crate) calls: u64,
    /// Bytes read, from disk or from the page cache.
    pub(crate) bytes: u64,
    /// Current memory.
    pub(crate) held: u64,
    /// Peak memory since the watch began.
    pub(crate) peak: u64,
    /// Processor time, including system time and children that ended.
    pub(crate) processor: Duration,
}

impl Watch {
    /// Begins a watch and resets the peak.
    pub(crate) fn begin(process: u32) -> Option<Self> {
        fs::write(format!("/proc/{process}/clear_refs"), "5").ok()?;
        Some(Self { process, before: read_stats(process)? })
    }

    /// Returns the reads since the beginning, and the peak memory above that at the beginning.
    pub(crate) fn end(&self) -> Option<ProcessStats> {
        let now = read_stats(self.process)?;
        Some(ProcessStats {
            calls: now.calls.saturating_sub(self.before.calls),
            bytes: now.bytes.saturating_sub(self.before.bytes),
            held: now.held,
            peak: now.peak.saturating_sub(self.before.held),
            processor: now.processor.saturating_sub(self.before.processor),
        })
    }
}

impl ProcessStats {
    /// Returns the cost of a process, as the system reports it.
    pub(crate) fn turn(&self, seconds: f64) -> Turn {
        let (memory, processor) = (Some(self.peak), Some(self.processor));
        let reads = Cost::of_reads(self.calls, self.bytes);
        Turn::from_seconds(seconds).with_cost(Cost { memory, processor, ..reads })
    }

    /// Returns the statistics of two processes together; `memory` combines their peaks.
    pub(crate) fn plus(self, other: &Self, memory: fn(u64, u64) -> u64) -> Self {
        Self {
            calls: self.calls + other.calls,
            bytes: self.bytes + other.bytes,
            held: self.held + other.held,
            peak: memory(self.peak, other.peak),
            processor: self.processor + other.processor,
        }
    }
}

/// Reads the statistics of a process; `None` once it has ended.
pub(crate) fn read_stats(process: u32) -> Option<ProcessStats> {
    let kilobytes = |name| read_figure(process, "status", name).map(|number| number * 1024);
    Some(ProcessStats {
        calls: read_figure(process, "io", "syscr:")?,
        bytes: read_figure(process, "io", "rchar:")?,
        held: kilobytes("VmRSS:")?,
        peak: kilobytes("VmHWM:")?,
        processor: processor_time(process)?,
    })
}

/// Returns the processor time of a process and its children that ended; the system counts it in
/// ticks of some milliseconds.
pub(crate) fn processor_time(process: u32) -> Option<Duration> {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name of the program, in parentheses, may contain anything.
    let (_, fields) = text.rsplit_once(')')?;
    let ticks = fields.split_whitespace().skip(11).take(4);
    let ticks: u64 = ticks.map(|field| field.parse::<u64>().ok()).sum::<Option<u64>>()?;
    Some(Duration::from_millis(ticks * MILLISECONDS_OF_A_TICK))
}

/// Returns the path of a program that is built beside this one.
pub(crate) fn find_program(name: &str) -> anyhow::Result<PathBuf> {
    let path = std::env::current_exe()?.with_file_name(name);
    ensure!(path.exists(), "there is no {}: build it", path.display());
    Ok(path)
}

/// Returns the path of the command.
pub(crate) fn find_zvf() -> anyhow::Result<PathBuf> {
    find_program("zvf")
}

/// Returns a quiet command with this subcommand.
pub(crate) fn zvf_command(verb: &str) -> anyhow::Result<Command> {
    let mut command = Command::new(find_zvf()?);
    command.args([verb, "-q"]).stdout(Stdio::null());
    Ok(command)
}

/// Makes a file or a store from another one with the command, unless it is there.
pub(crate) fn make_once(
    verb: &str,
    from: &Path,
    to: PathBuf,
    options: &str,
) -> anyhow::Result<PathBuf> {
    if !to.exists() {
        let mut command = zvf_command(verb)?;
        let status = command.args([from, &to]).args(options.split_whitespace()).status()?;
        ensure!(status.success(), "{} is not made: {status}", to.display());
    }
    Ok(to)
}

/// The cost of a process, and its standard output.
pub(crate) struct ProcessRun {
    pub(crate) seconds: f64,
    /// What the system said just before its end.
    pub(crate) stats: ProcessStats,
    pub(crate) stdout: String,
}

impl ProcessRun {
    pub(crate) fn turn(&self) -> Turn {
        self.stats.turn(self.seconds)
    }
}

/// Runs a command to its end. Its output goes to files, so that no pipe fills up meanwhile.
pub(crate) fn run_command(command: &mut Command) -> anyhow::Result<ProcessRun> {
    let folder = tempfile::tempdir()?;
    let [stdout, faults] = ["said", "faults"].map(|name| folder.path().join(name));
    command.stdin(Stdio::null()).stdout(fs::File::create(&stdout)?);
    command.stderr(fs::File::create(&faults)?);
    let begun = Instant::now();
    let mut child = command.spawn()?;
    let mut stats = ProcessStats::default();
    let status = loop {
        // The read statistics exist only while the process runs, so the last sample is slightly
        // early.
        stats = read_stats(child.id()).unwrap_or(stats);
        if let Some(status) = child.try_wait()? {
            break status;
        }
        // Sampling takes processor time, so it is rare in long runs.
        let pause = begun.elapsed() / 100;
        std::thread::sleep(pause.clamp(Duration::from_micros(200), Duration::from_millis(20)));
    };
    let seconds = begun.elapsed().as_secs_f64();
    ensure!(status.success(), "{}: {status}", fs::read_to_string(faults)?.trim());
    Ok(ProcessRun { seconds, stats, stdout: fs::read_to_string(stdout)? })
}

/// Runs a command; returns its time, its peak memory and its processor time.
pub(crate) fn measure_command(command: &mut Command) -> anyhow::Result<Turn> {
    let ProcessRun { seconds, stats, .. } = run_command(command)?;
    let memory = Some(stats.peak).filter(|peak| *peak > 0);
    let cost = Cost { memory, processor: Some(stats.processor), ..Cost::default() };
    Ok(Turn::from_seconds(seconds).with_cost(cost))
}

/// Runs the commands that `command` makes for each of `numbers`, `at_once` at a time. Calls, bytes
/// and processor time are sums; memory is the largest.
pub(crate) fn run_tasks(
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
    let both = |left: ProcessStats, right| Ok(left.plus(&right, u64::max));
    let stats = pool.install(|| each.try_reduce(ProcessStats::default, both))?;
    Ok(ProcessRun { seconds: begun.elapsed().as_secs_f64(), stats, stdout: String::new() })
}

/// Returns the cost of running processes since `watches` began; the peak is the sum of their peaks.
pub(crate) fn stats_since(watches: &[Watch]) -> anyhow::Result<ProcessStats> {
    let mut all = ProcessStats::default();
    for watch in watches {
        let mut stats = watch.end().context("a process of the cluster is gone")?;
        stats.peak += watch.before.held;
        all = all.plus(&stats, |a, b| a + b);
    }
    Ok(all)
}

/// Begins to watch processes.
pub(crate) fn watch_processes(processes: &[u32]) -> anyhow::Result<Vec<Watch>> {
    let begun = |process: &u32| {
        Watch::begin(*process).context("the system does not say what a process takes")
    };
    processes.iter().map(begun).collect()
}

/// Linux reports hundredths of a second, whatever its own clock does.
const MILLISECONDS_OF_A_TICK: u64 = 10;

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_for_a_while_and_what_is_read_are_seen() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(&file, vec![1; 50_000]).unwrap();
        // Other tests of this process may add reads and memory meanwhile, but never subtract.
        let watch = Watch::begin(std::process::id()).unwrap();
        drop(std::hint::black_box(vec![1_u8; 40 << 20]));
        drop(fs::read(&file).unwrap());
        let stats = watch.end().unwrap();
        assert!(stats.peak >= 30 << 20, "{stats:?}");
        assert!(stats.calls >= 1 && stats.bytes >= 50_000, "{stats:?}");
    }

    #[test]
    fn work_takes_time_of_processors() {
        let watch = Watch::begin(std::process::id()).unwrap();
        let mut number = 1_u64;
        // Until the tick counter moves, which it does during any computation.
        while watch.end().unwrap().processor == Duration::ZERO {
            number = std::hint::black_box(number.wrapping_mul(7));
        }
        assert!(processor_time(u32::MAX).is_none());
    }
}
