//! `torture load`: ranges of 64 KiB at the highest rate, on persistent connections.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::{LARGE_BYTES, Served};
use crate::{Report, in_parallel};
use anyhow::ensure;
use archives::random::Random;

/// Run many clients that read ranges of a file.
#[derive(Debug, clap::Args)]
pub(crate) struct Load {
    /// Concurrent connections.
    #[arg(long, default_value_t = 64)]
    conns: usize,
    /// Seconds.
    #[arg(long, default_value_t = 60)]
    secs: u64,
    /// Fail below this number of answers per second.
    #[arg(long, default_value_t = 5000)]
    min_rate: u64,
    /// Fail where the 99th percentile of the latency is longer, in milliseconds.
    #[arg(long, default_value_t = 50)]
    p99_ms: u64,
}

/// The measurements of one client.
#[derive(Debug, Default)]
pub(super) struct Measurements {
    pub(super) times: Vec<Duration>,
    pub(super) failures: Vec<String>,
}

impl Load {
    pub(crate) fn run(self, report: &mut Report) -> anyhow::Result<()> {
        let served = Served::start(report, &allow_connections(self.conns))?;
        let time = Duration::from_secs(self.secs);
        let start = Instant::now();
        let measured = ask_ranges(&served, self.conns, report.seed, || start.elapsed() < time);
        let seconds = start.elapsed().as_secs_f64();
        let rate = measured.times.len() as f64 / seconds;
        let p99 = percentile(&measured.times, 99);
        report.n = measured.times.len() as u64;
        for failure in measured.failures {
            report.check(false, || failure);
        }
        report.print_note(&format!(
            "{rate:.0} answers of {RANGE_BYTES} bytes a second, p50 {:.1} ms, p99 {:.1} ms",
            to_millis(percentile(&measured.times, 50)),
            to_millis(p99)
        ));
        let is_fast = rate >= self.min_rate as f64;
        report.check(is_fast, || format!("{rate:.0} answers a second"));
        let is_even = p99 <= Duration::from_millis(self.p99_ms);
        report.check(is_even, || format!("p99 is {:.1} ms", to_millis(p99)));
        Ok(())
    }
}

/// Returns the options of a server for this many connections, and a few more.
pub(super) fn allow_connections(conns: usize) -> String {
    format!("--max-connections {0} --max-connections-per-peer {0}", conns + 8)
}

/// Reads ranges on `conns` connections while `goes_on` returns true.
pub(super) fn ask_ranges(
    served: &Served,
    conns: usize,
    seed: u64,
    goes_on: impl Fn() -> bool + Sync,
) -> Measurements {
    let has_failed = AtomicBool::new(false);
    let clients = in_parallel(conns, |number| {
        let mut measured = Measurements::default();
        let mut random = Random::new(seed.wrapping_mul(1000).wrapping_add(number as u64));
        let goes_on = || goes_on() && !has_failed.load(Ordering::Relaxed);
        if let Err(error) = ask_on_connection(served, &mut random, goes_on, &mut measured) {
            measured.failures.push(format!("{error:#}"));
            has_failed.store(true, Ordering::Relaxed);
        }
        measured
    });
    let mut all = Measurements::default();
    for measured in clients {
        all.times.extend(measured.times);
        all.failures.extend(measured.failures);
    }
    all
}

fn ask_on_connection(
    served: &Served,
    random: &mut Random,
    goes_on: impl Fn() -> bool,
    measured: &mut Measurements,
) -> anyhow::Result<()> {
    let mut client = served.connect()?;
    while goes_on() {
        let first = random.next_below(LARGE_BYTES as usize - RANGE_BYTES);
        let last = first + RANGE_BYTES - 1;
        let request = format!(
            "GET /data/three/large HTTP/1.1\r\nHost: localhost\r\nRange: bytes={first}-{last}\r\n\r\n"
        );
        let start = Instant::now();
        let (status, bytes) = client.ask(request.as_bytes())?;
        measured.times.push(start.elapsed());
        ensure!((status, bytes) == (206, RANGE_BYTES), "status {status}, {bytes} bytes");
    }
    Ok(())
}

/// Returns a percentile of the times.
pub(super) fn percentile(times: &[Duration], percent: usize) -> Duration {
    let mut times = times.to_vec();
    times.sort_unstable();
    let at = (times.len() * percent / 100).min(times.len().saturating_sub(1));
    times.get(at).copied().unwrap_or_default()
}

pub(super) fn to_millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

const RANGE_BYTES: usize = 64 << 10;
