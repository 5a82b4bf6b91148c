//! Counters of a server, in the text form of Prometheus.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::connection::{InProgress, RequestInProgress};

/// The counters of a server.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    by_status: [AtomicU64; 5], // 1xx to 5xx
    sent_bytes: AtomicU64,
    open_connections: AtomicU64,
    refused_connections: AtomicU64,
    running_queries: InProgress,
    seconds_buckets: [AtomicU64; BUCKETS_MS.len()],
    answered: AtomicU64,
    answer_micros: AtomicU64,
}

impl Metrics {
    /// Counts an answer and the time until its first byte.
    pub(crate) fn record_answer(&self, status: u16, time: Duration) {
        if let Some(count) = self.by_status.get(usize::from(status / 100).wrapping_sub(1)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        let ms = time.as_millis();
        for (limit, bucket) in BUCKETS_MS.iter().zip(&self.seconds_buckets) {
            if ms <= u128::from(*limit) {
                bucket.fetch_add(1, Ordering::Relaxed);
            }
        }
        self.answered.fetch_add(1, Ordering::Relaxed);
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX); // enough for 580,000 years
        self.answer_micros.fetch_add(micros, Ordering::Relaxed);
    }

    pub(crate) fn record_sent(&self, bytes: u64) {
        self.sent_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn record_refused_connection(&self) {
        self.refused_connections.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn set_connections(&self, open: usize) {
        self.open_connections.store(open as u64, Ordering::Relaxed);
    }

    /// Counts a query as running until the guard is dropped.
    pub(crate) fn start_query(&self) -> RequestInProgress {
        self.running_queries.begin()
    }

    /// Returns the text for Prometheus.
    pub(crate) fn to_text(&self) -> String {
        let mut text = String::new();
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let mut add = |line: std::fmt::Arguments<'_>| {
            // Writing to a string does not fail.
            let _ = text.write_fmt(line);
            text.push('\n');
        };
        add(format_args!("# TYPE zvf_requests_total counter"));
        for (class, count) in (1..).zip(&self.by_status) {
            add(format_args!("zvf_requests_total{{status=\"{class}xx\"}} {}", read(count)));
        }
        add(format_args!("# TYPE zvf_answer_seconds histogram"));
        for (limit, count) in BUCKETS_MS.iter().zip(&self.seconds_buckets) {
            let seconds = f64::from(*limit) / 1000.0;
            add(format_args!("zvf_answer_seconds_bucket{{le=\"{seconds}\"}} {}", read(count)));
        }
        let answered = read(&self.answered);
        let seconds = Duration::from_micros(read(&self.answer_micros)).as_secs_f64();
        add(format_args!("zvf_answer_seconds_bucket{{le=\"+Inf\"}} {answered}"));
        add(format_args!("zvf_answer_seconds_sum {seconds}"));
        add(format_args!("zvf_answer_seconds_count {answered}"));
        for (name, kind, count) in [
            ("zvf_sent_bytes_total", "counter", read(&self.sent_bytes)),
            ("zvf_connections", "gauge", read(&self.open_connections)),
            ("zvf_connections_refused_total", "counter", read(&self.refused_connections)),
            ("zvf_queries_running", "gauge", self.running_queries.count()),
        ] {
            add(format_args!("# TYPE {name} {kind}\n{name} {count}"));
        }
        text
    }
}

/// The upper bounds of the buckets of answer times, in milliseconds.
const BUCKETS_MS: [u32; 9] = [1, 3, 10, 30, 100, 300, 1000, 3000, 10_000];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_by_status_and_time() {
        let metrics = Metrics::default();
        metrics.record_answer(200, Duration::from_millis(2));
        metrics.record_answer(404, Duration::from_millis(200));
        let running = metrics.start_query();
        let text = metrics.to_text();
        for line in [
            "zvf_requests_total{status=\"2xx\"} 1",
            "zvf_requests_total{status=\"4xx\"} 1",
            "zvf_answer_seconds_bucket{le=\"0.003\"} 1",
            "zvf_answer_seconds_bucket{le=\"0.3\"} 2",
            "zvf_answer_seconds_count 2",
            "zvf_queries_running 1",
        ] {
            assert!(text.lines().any(|text_line| text_line == line), "{line} in {text}");
        }
        drop(running);
        assert!(metrics.to_text().contains("zvf_queries_running 0"));
    }
}
