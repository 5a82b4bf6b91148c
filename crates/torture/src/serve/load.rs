//! `torture load`: ranges of 64 KiB at the highest rate, on persistent connections.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::{LARGE_BYTES, Served};
use crate::{Report, in_parallel};
use anyhow::ensure;
use archives::random::Random;

/// Run many clients that read ranges of a file.
#[derive(clap::Args)]
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

impl Load {
    pub(crate) fn run(self, report: &mut Report) -> anyhow::Result<()> {
        let served = Served::start(report, &allow_connections(self.conns))?;
        let begin = Instant::now();
        let times = measure_ranges(&served, self.conns, Duration::from_secs(self.secs), report);
        let rate = times.len() as f64 / begin.elapsed().as_secs_f64();
        let [p50, p99] = [50, 99].map(|percent| percentile_in_millis(&times, percent));
        report.print_note(&format!(
            "{rate:.0} answers of {RANGE_BYTES} bytes a second, p50 {p50:.1} ms, p99 {p99:.1} ms"
        ));
        report.check(rate >= self.min_rate as f64, || format!("{rate:.0} answers a second"));
        report.check(p99 <= self.p99_ms as f64, || format!("p99 is {p99:.1} ms"));
        Ok(())
    }
}

/// Returns the options of a server for this many connections, and a few more.
pub(super) fn allow_connections(conns: usize) -> String {
    format!("--max-connections {0} --max-connections-per-peer {0}", conns + 8)
}

/// Runs clients for a time, or until one fails. Each client repeats its own exchange. Counts the
/// exchanges, and returns how long each took.
pub(super) fn repeat_exchanges<Exchange: FnMut(&mut Random) -> anyhow::Result<()>>(
    clients: usize,
    time: Duration,
    report: &mut Report,
    connect: impl Fn() -> anyhow::Result<Exchange> + Sync,
) -> Vec<Duration> {
    let (seed, begin, has_failed) = (report.seed, Instant::now(), AtomicBool::new(false));
    let clients = in_parallel(clients, |number| {
        let mut random = Random::new(seed.wrapping_mul(1000).wrapping_add(number as u64));
        let mut times = Vec::new();
        let mut repeat = || {
            let mut exchange = connect()?;
            while begin.elapsed() < time && !has_failed.load(Ordering::Relaxed) {
                let start = Instant::now();
                exchange(&mut random)?;
                times.push(start.elapsed());
            }
            Ok(())
        };
        let ended = repeat();
        has_failed.fetch_or(ended.is_err(), Ordering::Relaxed);
        (times, ended)
    });
    let mut all = Vec::new();
    for (times, ended) in clients {
        report.n += times.len() as u64;
        report.count(ended);
        all.extend(times);
    }
    all
}

/// Reads random ranges on `conns` connections.
pub(super) fn measure_ranges(
    served: &Served,
    conns: usize,
    time: Duration,
    report: &mut Report,
) -> Vec<Duration> {
    repeat_exchanges(conns, time, report, || {
        let mut client = served.connect()?;
        Ok(move |random: &mut Random| {
            let first = random.next_below((LARGE_BYTES - RANGE_BYTES) as usize);
            let last = first + RANGE_BYTES as usize - 1;
            let range = format!("Range: bytes={first}-{last}");
            let request =
                format!("GET /data/three/large HTTP/1.1\r\nHost: localhost\r\n{range}\r\n\r\n");
            let (status, bytes) = client.ask(request.as_bytes())?;
            ensure!((status, bytes) == (206, RANGE_BYTES), "status {status}, {bytes} bytes");
            Ok(())
        })
    })
}

/// Returns a percentile of the times.
pub(super) fn percentile_in_millis(times: &[Duration], percent: usize) -> f64 {
    let mut times = times.to_vec();
    times.sort_unstable();
    let at = (times.len() * percent / 100).min(times.len().saturating_sub(1));
    times.get(at).map_or(0.0, Duration::as_secs_f64) * 1000.0
}

const RANGE_BYTES: u64 = 64 << 10;
