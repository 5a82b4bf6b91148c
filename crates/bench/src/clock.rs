//! How long something takes.

use std::time::Instant;

/// Work that is over sooner is done again, until this many seconds are full: a clock and caches that
/// wake up should not decide.
pub(crate) const ENOUGH: f64 = 0.02;

/// The mean over `times` runs.
pub(crate) fn measure_runs(
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
pub(crate) fn measure_repeated(
    mut work: impl FnMut() -> anyhow::Result<()>,
) -> anyhow::Result<f64> {
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

/// The middle one of some times.
pub(crate) fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
}
