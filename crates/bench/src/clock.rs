//! How long something takes, and how much of that processors worked.

use std::fs;
use std::time::Instant;

/// Work that is over sooner is done again, until this many seconds are full: a clock and caches that
/// wake up should not decide.
pub(crate) const ENOUGH: f64 = 0.02;

/// The mean over `times` runs.
pub(crate) fn seconds(
    times: u32,
    mut work: impl FnMut() -> anyhow::Result<()>,
) -> anyhow::Result<f64> {
    let start = Instant::now();
    for _ in 0..times {
        work()?;
    }
    Ok(start.elapsed().as_secs_f64() / f64::from(times))
}

/// The mean over as many runs as fill [`ENOUGH`], all sides alike.
pub(crate) fn repeated(mut work: impl FnMut() -> anyhow::Result<()>) -> anyhow::Result<f64> {
    let start = Instant::now();
    let mut times = 0_u32;
    loop {
        work()?;
        times += 1;
        let all = start.elapsed().as_secs_f64();
        if all >= ENOUGH {
            return Ok(all / f64::from(times));
        }
    }
}

/// Seconds that processors worked for the threads of this process so far, where the system says so.
pub(crate) fn worked() -> f64 {
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let texts =
        threads.filter_map(|thread| fs::read_to_string(thread.path().join("schedstat")).ok());
    let first = |text: String| text.split(' ').next().and_then(|word| word.parse::<f64>().ok());
    texts.filter_map(first).sum::<f64>() / 1e9
}
