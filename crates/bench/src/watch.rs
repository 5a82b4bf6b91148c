//! Statistics of a process: its reads, memory and processor time; none on systems without `/proc`.

use std::fs;
use std::time::Duration;

use archives::peers::read_figure;

use crate::row::{Cost, Turn};

/// A process, and its statistics when the watch began.
#[derive(Clone, Copy, Debug)]
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
}

/// Reads the statistics of a process; `None` once it has ended.
pub(crate) fn read_stats(process: u32) -> Option<ProcessStats> {
    let kilobytes = |name| read_figure(process, "status", name).map(|number| number * 1024);
    let (held, peak) = (kilobytes("VmRSS:")?, kilobytes("VmHWM:")?);
    let [calls, bytes] = ["syscr:", "rchar:"].map(|name| read_figure(process, "io", name));
    let (calls, bytes) = (calls?, bytes?);
    Some(ProcessStats { calls, bytes, held, peak, processor: processor_time(process)? })
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

    #[test]
    fn who_is_not_there_is_not_seen() {
        assert!(read_stats(u32::MAX).is_none() && Watch::begin(u32::MAX).is_none());
    }
}
