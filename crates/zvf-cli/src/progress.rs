//! Progress on standard error: one line that is redrawn on a terminal, or lines of JSON. A program that embeds the
//! command receives it by a [`ProgressHook`].

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write as _};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::json;

use crate::table::{count, format_count};

/// Called with the number of items done, and the total if that is known.
#[derive(Clone)]
pub(crate) struct ProgressHook(Arc<dyn Fn(u64, Option<u64>) + Send + Sync>);

impl ProgressHook {
    /// Calls `hook`, from any thread.
    pub(crate) fn new(hook: impl Fn(u64, Option<u64>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(hook))
    }
}

/// Progress of one task, shown until it is dropped.
pub(crate) struct Progress {
    task: &'static str,
    started: Instant,
    phase: Mutex<(String, Instant)>, // the measured phase and its start
    bar: ProgressBar,
    hook: Option<ProgressHook>,
    next_json: Option<Mutex<Instant>>, // when the next line of JSON may be written
}

impl Progress {
    /// Starts a task. Without a terminal and without JSON nothing is shown; `hook` is called in any case.
    pub(crate) fn start(
        task: &'static str,
        quiet: bool,
        json: bool,
        hook: Option<ProgressHook>,
    ) -> Self {
        let shown = !quiet && !json && io::stderr().is_terminal();
        let target =
            if shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(None, target)
            .with_style(ProgressStyle::default_spinner())
            .with_message(task);
        if shown {
            bar.enable_steady_tick(TICK);
        }
        let started = Instant::now();
        let next_json = (json && !quiet).then(|| Mutex::new(started + JSON_DELAY));
        let phase = Mutex::new((String::new(), started));
        Self { task, started, phase, bar, hook, next_json }
    }

    /// Reports `message`.
    pub(crate) fn set(&self, message: String) {
        self.write_json(&message, None);
        self.bar.set_message(message);
    }

    /// Reports `done` items, of an unknown total, after `prefix`.
    pub(crate) fn count(&self, prefix: &str, done: u64, thing: &str) {
        self.call_hook(done, None);
        self.set(format!("{prefix}{}", format_count(done, thing)));
    }

    /// Reports `done` of `total` items as `message`.
    pub(crate) fn share(&self, done: u64, total: u64, message: String) {
        self.call_hook(done, Some(total));
        self.set(message);
    }

    fn call_hook(&self, done: u64, total: Option<u64>) {
        if let Some(hook) = &self.hook {
            (hook.0)(done, total);
        }
    }

    /// Reports `done` of `total` items, with the time that is left at this speed.
    pub(crate) fn advance(&self, prefix: &str, done: u64, total: u64, things: &str) {
        self.call_hook(done, Some(total));
        let mut phase = self.phase.lock().unwrap_or_else(PoisonError::into_inner);
        if phase.0 != prefix {
            *phase = (prefix.to_owned(), Instant::now());
        }
        let left = seconds_left(phase.1.elapsed(), done, total);
        drop(phase);
        self.write_json(prefix, Some((done, total, left)));
        let mut message = format!("{prefix}{} of {} {things}", count(done), count(total));
        if let Some(left) = left {
            let _ = write!(message, ", {} left", clock(left)); // writing to a string does not fail
        }
        self.bar.set_message(message);
    }

    fn write_json(&self, message: &str, share: Option<(u64, u64, Option<u64>)>) {
        let Some(next) = &self.next_json else { return };
        let now = Instant::now();
        let mut next = next.lock().unwrap_or_else(PoisonError::into_inner);
        if now < *next {
            return;
        }
        *next = now + JSON_INTERVAL;
        let line = json!({
            "type": "progress",
            "task": self.task,
            "message": message.trim_end_matches(": "),
            "done": share.map(|(done, _, _)| done),
            "total": share.map(|(_, total, _)| total),
            "seconds": self.started.elapsed().as_secs_f64(),
            "seconds_left": share.and_then(|(_, _, left)| left),
        });
        // Progress that cannot be written is ignored.
        let _ = writeln!(io::stderr().lock(), "{line}");
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Returns the seconds until `total`, when `done` took `elapsed`; `None` while that is too little to extrapolate.
fn seconds_left(elapsed: Duration, done: u64, total: u64) -> Option<u64> {
    if done == 0 || total < done || elapsed < JSON_INTERVAL {
        return None;
    }
    let left = u128::from(total - done).checked_mul(elapsed.as_millis())?;
    u64::try_from(left / u128::from(done) / 1000).ok()
}

/// Formats seconds: 45 s, 3 min, 2 h 10 min.
fn clock(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        _ => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}

const TICK: Duration = Duration::from_millis(200);
/// The time before the first line of JSON: short commands report no progress.
const JSON_DELAY: Duration = Duration::from_secs(5);
/// The time between two lines of JSON, and before a speed is extrapolated.
const JSON_INTERVAL: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_the_time_left_from_the_speed() {
        let seconds = Duration::from_secs;
        assert_eq!(seconds_left(seconds(10), 25, 100), Some(30));
        assert_eq!(seconds_left(seconds(10), 100, 100), Some(0));
        assert_eq!(seconds_left(seconds(10), 0, 100), None);
        assert_eq!(seconds_left(seconds(10), 101, 100), None);
        assert_eq!(seconds_left(Duration::from_millis(1), 25, 100), None);
        for (n, text) in [(45, "45 s"), (200, "3 min"), (7800, "2 h 10 min")] {
            assert_eq!(clock(n), text);
        }
    }
}
