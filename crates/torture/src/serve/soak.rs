//! `torture soak`: all tests at once for a long time, while the memory and the descriptors of the server are measured.

use std::time::{Duration, Instant};

use anyhow::Context as _;

use super::Served;
use super::cases::{Case, list_cases};
use crate::{Report, in_parallel};
use archives::peers::read_figure;
use archives::random::Random;

/// Good and bad requests for a long time.
#[derive(Debug, clap::Args)]
pub(crate) struct Soak {
    /// The duration in seconds; the first third is the warm-up.
    #[arg(long, default_value_t = 1800)]
    secs: u64,
    /// Fail where the memory of the server grows faster, in KiB per ten minutes.
    #[arg(long, default_value_t = 1024)]
    slope_kib: u64,
}

/// The measurements of the server at one time.
#[derive(Clone, Copy, Debug)]
struct Sample {
    seconds: f64,
    resident_kib: f64,
    descriptors: usize,
}

impl Soak {
    pub(crate) fn run(self, report: &mut Report) -> anyhow::Result<()> {
        let served = Served::start(report, "")?;
        let time = Duration::from_secs(self.secs);
        let start = Instant::now();
        let (samples, clients) = std::thread::scope(|scope| {
            let samples = scope.spawn(|| collect_samples(&served, start, time));
            let clients = in_parallel(CLIENTS, |number| {
                let random = Random::new(report.seed.wrapping_add(number as u64));
                send_cases(&served, random, || start.elapsed() < time)
            });
            (samples.join().expect("nothing panics"), clients)
        });
        for (count, failures) in clients {
            report.n += count;
            for failure in failures {
                report.check(false, || failure);
            }
        }
        self.check_growth(&samples?, report);
        Ok(())
    }

    /// Checks that after a third of the time neither memory nor descriptors grow.
    fn check_growth(&self, samples: &[Sample], report: &mut Report) {
        let warm: Vec<Sample> = samples
            .iter()
            .copied()
            .filter(|sample| sample.seconds * 3.0 >= self.secs as f64)
            .collect();
        let slope = slope_in_ten_minutes(&warm);
        let (first, last) = (warm.first(), warm.last());
        let open = |sample: Option<&Sample>| sample.map_or(0, |sample| sample.descriptors);
        report.print_note(&format!(
            "{} samples, {:.0} KiB at the end, {slope:.0} KiB in ten minutes, descriptors {} to {}",
            warm.len(),
            last.map_or(0.0, |sample| sample.resident_kib),
            open(first),
            open(last),
        ));
        let is_flat = warm.len() > 2 && slope <= self.slope_kib as f64;
        report.check(is_flat, || format!("{slope:.0} KiB in ten minutes"));
        // Clients connect and disconnect between two samples; a leak exceeds their number.
        let has_leaked = open(last) > open(first) + 2 * CLIENTS + 8;
        report.check(!has_leaked, || "descriptors grow".to_owned());
    }
}

/// Sends random cases, and checks that each gets its status.
fn send_cases(
    served: &Served,
    mut random: Random,
    goes_on: impl Fn() -> bool,
) -> (u64, Vec<String>) {
    let cases: Vec<Case> = list_cases();
    let (mut count, mut failures) = (0, Vec::new());
    while goes_on() && failures.len() < 5 {
        let case = &cases[random.next_below(cases.len())];
        count += 1;
        match served.send(&case.request) {
            Ok(answer) if answer.status() == Some(case.status) => {}
            Ok(answer) => failures.push(format!("{}: {:?}", case.rule, answer.status())),
            Err(error) => failures.push(format!("{}: {error:#}", case.rule)),
        }
        let _large = served.send(QUERY);
    }
    (count, failures)
}

/// Measures the server repeatedly.
fn collect_samples(served: &Served, start: Instant, time: Duration) -> anyhow::Result<Vec<Sample>> {
    let mut samples = Vec::new();
    while start.elapsed() < time {
        std::thread::sleep((time / 60).clamp(Duration::from_millis(100), Duration::from_secs(10)));
        samples.push(take_sample(served, start)?);
    }
    Ok(samples)
}

fn take_sample(served: &Served, start: Instant) -> anyhow::Result<Sample> {
    let process = served.server.process.0.id();
    let resident = read_figure(process, "status", "VmRSS:");
    Ok(Sample {
        seconds: start.elapsed().as_secs_f64(),
        resident_kib: resident.context("the system says how large a process is")? as f64,
        descriptors: std::fs::read_dir(format!("/proc/{process}/fd"))?.count(),
    })
}

/// Returns the slope of the least-squares line through all samples.
fn slope_in_ten_minutes(samples: &[Sample]) -> f64 {
    let n = samples.len() as f64;
    let mean = |value: fn(&Sample) -> f64| samples.iter().map(value).sum::<f64>() / n;
    let (x, y) = (mean(|sample| sample.seconds), mean(|sample| sample.resident_kib));
    let along: f64 =
        samples.iter().map(|sample| (sample.seconds - x) * (sample.resident_kib - y)).sum();
    let across: f64 = samples.iter().map(|sample| (sample.seconds - x).powi(2)).sum();
    if across > 0.0 { along / across * 600.0 } else { 0.0 }
}

/// The number of concurrent clients.
const CLIENTS: usize = 4;
/// A query with a long answer.
const QUERY: &[u8] =
    b"GET /api/three/query?format=csv HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
