//! Measures durations.

use std::time::Instant;

/// Shorter work is repeated until this many seconds have passed, so that clock resolution and cold
/// caches do not decide.
pub(crate) const ENOUGH: f64 = 0.02;

/// Returns the mean duration of as many runs as fill [`ENOUGH`], for all sides alike.
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

/// Returns the median.
pub(crate) fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
}
