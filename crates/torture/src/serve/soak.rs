//! `torture soak`: all tests at once for a long time, while the memory and the descriptors of the server are measured.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

use super::Served;
use super::http::list_cases;
use super::load::repeat_exchanges;
use crate::Report;
use archives::peers::read_figure;
use archives::random::Random;

/// Good and bad requests for a long time.
#[derive(clap::Args)]
pub(crate) struct Soak {
    /// The duration in seconds; the first third is the warm-up.
    #[arg(long, default_value_t = 1800)]
    secs: u64,
    /// Fail where the memory of the server grows faster, in KiB per ten minutes.
    #[arg(long, default_value_t = 1024)]
    slope_kib: u64,
}

/// The measurements of the server: seconds, KiB of resident memory, and descriptors.
type Sample = [f64; 3];

impl Soak {
    pub(crate) fn run(self, report: &mut Report) -> anyhow::Result<()> {
        let served = Served::start(report, "")?;
        let (time, begin, cases) = (Duration::from_secs(self.secs), Instant::now(), list_cases());
        let samples = std::thread::scope(|scope| {
            let samples = scope.spawn(|| collect_samples(&served, begin, time));
            repeat_exchanges(CLIENTS, time, report, || {
                Ok(|random: &mut Random| {
                    let case = &cases[random.next_below(cases.len())];
                    let found = served.send(&case.request).context(case.rule.clone())?.status;
                    ensure!(found == Some(case.status), "{}: {found:?}", case.rule);
                    served.send(QUERY).map(drop)
                })
            });
            samples.join().expect("nothing panics")
        });
        self.check_growth(&samples?, report);
        Ok(())
    }

    /// Checks that after a third of the time neither memory nor descriptors grow.
    fn check_growth(&self, samples: &[Sample], report: &mut Report) {
        let is_warm = |sample: &&Sample| sample[0] * 3.0 >= self.secs as f64;
        let warm: Vec<Sample> = samples.iter().filter(is_warm).copied().collect();
        let slope = slope_in_ten_minutes(&warm);
        let [[_, _, first], [_, kib, last]] =
            [warm.first(), warm.last()].map(|sample| sample.copied().unwrap_or_default());
        report.print_note(&format!(
            "{} samples, {kib:.0} KiB at the end, {slope:.0} KiB in ten minutes, descriptors {first} to {last}",
            warm.len(),
        ));
        let is_flat = warm.len() > 2 && slope <= self.slope_kib as f64;
        report.check(is_flat, || format!("{slope:.0} KiB in ten minutes"));
        // Clients connect and disconnect between two samples; a leak exceeds their number.
        let has_leaked = last > first + 2.0 * CLIENTS as f64 + 8.0;
        report.check(!has_leaked, || "descriptors grow".to_owned());
    }
}

/// Measures the server repeatedly.
fn collect_samples(served: &Served, begin: Instant, time: Duration) -> anyhow::Result<Vec<Sample>> {
    let process = served.server.process.0.id();
    let mut samples = Vec::new();
    while begin.elapsed() < time {
        std::thread::sleep((time / 60).clamp(Duration::from_millis(100), Duration::from_secs(10)));
        let resident = read_figure(process, "status", "VmRSS:");
        let resident = resident.context("the system says how large a process is")?;
        let descriptors = std::fs::read_dir(format!("/proc/{process}/fd"))?.count();
        samples.push([begin.elapsed().as_secs_f64(), resident as f64, descriptors as f64]);
    }
    Ok(samples)
}

/// Returns the slope of the least-squares line through all samples of the memory.
fn slope_in_ten_minutes(samples: &[Sample]) -> f64 {
    let n = samples.len() as f64;
    let [x, y] = [0, 1].map(|at| samples.iter().map(|sample| sample[at]).sum::<f64>() / n);
    let along: f64 = samples.iter().map(|sample| (sample[0] - x) * (sample[1] - y)).sum();
    let across: f64 = samples.iter().map(|sample| (sample[0] - x).powi(2)).sum();
    if across > 0.0 { along / across * 600.0 } else { 0.0 }
}

/// The number of concurrent clients.
const CLIENTS: usize = 4;
/// A query with a long answer.
const QUERY: &[u8] =
    b"GET /api/three/query?format=csv HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
