//! The rules for waiting for a remote store and for retrying.
//!
//! The numbers are those of [`Timeouts`]; each pause is a random fraction of its maximum (full
//! jitter).
//!
//! A handle retries at most one request in ten, counted over the last minute; ten are always
//! allowed. This budget prevents a retry storm on a store that is down. [`super::verdict`] decides
//! which errors are transient; the clock is tokio's, so that tests can pause it.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::clock::Instant;
use crate::options::Timeouts;
use crate::sync::lock;

/// Decides on retries for all requests of one handle.
#[derive(Debug)]
pub(super) struct Retry {
    pub(super) timeouts: Timeouts,
    sent: Mutex<Window>,
    noise: AtomicU64,
}

impl Retry {
    /// Returns new retry rules; `seed` makes the pauses reproducible.
    pub(super) fn new(timeouts: Timeouts, seed: u64) -> Self {
        Self { timeouts, sent: Mutex::new(Window::default()), noise: AtomicU64::new(seed | 1) }
    }

    /// Counts a request that is about to be sent for the first time.
    pub(super) fn count_request(&self) {
        self.window(|window| window.count(Instant::now(), 1, 0));
    }

    /// Returns how long to wait before the next attempt, or `None` if there is none: too many
    /// attempts, too late (`deadline`), or too many retries of this handle. `asked` is the pause
    /// that the store requests.
    pub(super) fn next(
        &self,
        tried: u32,
        deadline: Instant,
        asked: Option<Duration>,
    ) -> Option<Duration> {
        let longest = self.timeouts.pause(tried).as_millis();
        let longest = u64::try_from(longest).unwrap_or(u64::MAX - 1); // at most a year
        let pause = Duration::from_millis(self.next_random() % (longest + 1));
        let pause = asked.map_or(pause, |asked| asked.max(pause));
        let now = Instant::now();
        let in_time = now.checked_add(pause).is_some_and(|then| then < deadline);
        (tried < self.timeouts.max_tries.get()
            && in_time
            && self.window(|window| window.retry(now)))
        .then_some(pause)
    }

    fn window<T>(&self, look: impl FnOnce(&mut Window) -> T) -> T {
        // A panic leaves valid counts in the window.
        look(&mut lock(&self.sent))
    }

    /// Returns the next number of a xorshift sequence; two racing callers may get the same one.
    fn next_random(&self) -> u64 {
        let mut x = self.noise.load(Ordering::Relaxed);
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        self.noise.store(x, Ordering::Relaxed);
        x >> 11
    }
}

/// Requests of the last minute, in slices of ten seconds, oldest first.
#[derive(Debug, Default)]
struct Window(VecDeque<Slice>);

#[derive(Debug)]
struct Slice {
    start: Instant,
    requests: u64,
    retries: u64,
}

impl Window {
    fn count(&mut self, now: Instant, requests: u64, retries: u64) {
        let is_past = |start, span| now.saturating_duration_since(start) >= span;
        while self.0.front().is_some_and(|slice| is_past(slice.start, BUDGET_WINDOW)) {
            self.0.pop_front();
        }
        match self.0.back_mut() {
            Some(slice) if !is_past(slice.start, SLICE_WIDTH) => {
                slice.requests += requests;
                slice.retries += retries;
            }
            _ => self.0.push_back(Slice { start: now, requests, retries }),
        }
    }

    /// Counts one more retry, if it is allowed.
    fn retry(&mut self, now: Instant) -> bool {
        self.count(now, 0, 0);
        let requests: u64 = self.0.iter().map(|slice| slice.requests).sum();
        let retries: u64 = self.0.iter().map(|slice| slice.retries).sum();
        let allowed = retries < MIN_RETRIES.max(requests / REQUESTS_PER_RETRY);
        if allowed {
            self.count(now, 0, 1);
        }
        allowed
    }
}

const BUDGET_WINDOW: Duration = Duration::from_secs(60);
const SLICE_WIDTH: Duration = Duration::from_secs(10);
const MIN_RETRIES: u64 = 10;
const REQUESTS_PER_RETRY: u64 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn retry(timeouts: Timeouts) -> Retry {
        Retry::new(timeouts, 7)
    }

    fn deadline() -> Instant {
        Instant::now() + Duration::from_secs(1000)
    }

    #[tokio::test(start_paused = true)]
    async fn jitter_is_full_and_obeys_the_store() {
        let retry = retry(Timeouts::BATCH);
        (0..2000).for_each(|_| retry.count_request());
        let pauses: Vec<_> = (0..100).filter_map(|_| retry.next(4, deadline(), None)).collect();
        assert_eq!(pauses.len(), 100);
        assert!(pauses.iter().all(|pause| pause.as_millis() <= 800));
        assert!(pauses.iter().any(|pause| pause.as_millis() < 100));
        assert!(pauses.iter().any(|pause| pause.as_millis() > 700));
        let retry_after = Duration::from_secs(9);
        assert_eq!(retry.next(1, deadline(), Some(retry_after)), Some(retry_after));
        let near_deadline = Instant::now() + retry_after;
        assert_eq!(retry.next(1, near_deadline, Some(retry_after)), None);
    }

    #[tokio::test(start_paused = true)]
    async fn attempts_are_limited() {
        let retry = retry(Timeouts::INTERACTIVE);
        assert!(retry.next(3, deadline(), None).is_some());
        assert!(retry.next(4, deadline(), None).is_none());
        assert!(retry.next(1, Instant::now(), None).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn one_request_in_ten_is_retried() {
        for (requests, retries) in [(0, 10), (100, 10), (109, 10), (110, 11), (1000, 100)] {
            let retry = retry(Timeouts::BATCH);
            (0..requests).for_each(|_| retry.count_request());
            let granted = (0..200).filter(|_| retry.next(1, deadline(), None).is_some()).count();
            assert_eq!(granted, retries, "{requests}");
            tokio::time::advance(Duration::from_secs(59)).await;
            assert!(retry.next(1, deadline(), None).is_none(), "{requests}");
            tokio::time::advance(Duration::from_secs(1)).await;
            assert!(retry.next(1, deadline(), None).is_some(), "{requests}");
        }
    }
}
