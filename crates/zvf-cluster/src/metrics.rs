//! The counters of a process, served at `GET /metrics` in the text format of Prometheus.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ballista_core::JobId;
use ballista_core::error::Result as BallistaResult;
use ballista_scheduler::metrics::SchedulerMetricsCollector;
use datafusion::error::Result;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use zvf_datafusion::to_u64;

/// A number that is shown.
pub(crate) struct Figure {
    name: &'static str,
    help: &'static str,
    value: AtomicU64,
}

impl Figure {
    const fn new(name: &'static str, help: &'static str) -> Self {
        Self { name, help, value: AtomicU64::new(0) }
    }

    pub(crate) fn add(&self, count: usize) {
        self.value.fetch_add(to_u64(count), Ordering::Relaxed);
    }

    pub(crate) fn set(&self, value: u64) {
        self.value.store(value, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.value.load(Ordering::Relaxed)
    }
}

pub(crate) static EXECUTORS: Figure =
    Figure::new("executors", "Executors that the scheduler knows.");
pub(crate) static CORES: Figure = Figure::new("cores", "Partitions that they run at once.");
static WAITING: Figure = Figure::new("tasks_waiting", "Tasks that wait for an executor.");
static STATEMENTS: Figure = Figure::new("statements_total", "Statements that were planned.");
static ANSWERED: Figure = Figure::new("statements_answered_total", "Statements with an answer.");
static FAILED: Figure = Figure::new("statements_failed_total", "Statements with an error.");
static CANCELLED: Figure =
    Figure::new("statements_cancelled_total", "Statements that were ended by a client or a loss.");
pub(crate) static TASKS: Figure = Figure::new("tasks_total", "Tasks that this executor has run.");
pub(crate) static BYTES: Figure =
    Figure::new("bytes_read_total", "Bytes that tasks have read from stores.");
static ALL: [&Figure; 9] =
    [&EXECUTORS, &CORES, &WAITING, &STATEMENTS, &ANSWERED, &FAILED, &CANCELLED, &TASKS, &BYTES];

/// Counts the statements of a scheduler, and says in its log what became of each.
pub(crate) struct Statements;

impl SchedulerMetricsCollector for Statements {
    fn record_submitted(&self, job: &JobId, queued: u64, submitted: u64) {
        STATEMENTS.add(1);
        log::info!("statement {job}: planned in {} ms", submitted.saturating_sub(queued));
    }

    fn record_completed(&self, job: &JobId, queued: u64, completed: u64) {
        ANSWERED.add(1);
        log::info!("statement {job}: answered after {} ms", completed.saturating_sub(queued));
    }

    fn record_failed(&self, job: &JobId, queued: u64, failed: u64) {
        FAILED.add(1);
        log::info!("statement {job}: failed after {} ms", failed.saturating_sub(queued));
    }

    fn record_cancelled(&self, job: &JobId) {
        CANCELLED.add(1);
        log::info!("statement {job}: cancelled");
    }

    fn set_pending_tasks_queue_size(&self, tasks: u64) {
        WAITING.set(tasks);
    }

    fn gather_metrics(&self) -> BallistaResult<Option<(Vec<u8>, String)>> {
        Ok(None)
    }
}

/// Answers `GET /metrics` at `address` until the process ends.
///
/// # Errors
///
/// When it cannot listen.
pub async fn serve_metrics(address: SocketAddr) -> Result<()> {
    let listener = TcpListener::bind(address).await?;
    loop {
        let (stream, _peer) = listener.accept().await?;
        // A client that sends nothing, or is gone, loses its answer only.
        tokio::spawn(tokio::time::timeout(Duration::from_secs(10), answer(stream)));
    }
}

async fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    let (mut head, mut length) = ([0; 4096], 0);
    while !head[..length].windows(4).any(|bytes| bytes == b"\r\n\r\n") && length < head.len() {
        match stream.read(&mut head[length..]).await? {
            0 => return Ok(()),
            count => length += count,
        }
    }
    let mut body = String::new();
    for Figure { name, help, value } in ALL {
        let kind = if name.ends_with("_total") { "counter" } else { "gauge" };
        let value = value.load(Ordering::Relaxed);
        // Writing to a string does not fail.
        let _ = write!(
            body,
            "# HELP zvf_{name} {help}\n# TYPE zvf_{name} {kind}\nzvf_{name} {value}\n"
        );
    }
    let status = match head.starts_with(b"GET /metrics ") {
        true => "200 OK\r\nContent-Type: text/plain; version=0.0.4",
        false => {
            body.clear();
            "404 Not Found"
        }
    };
    let length = body.len();
    let reply =
        format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}");
    stream.write_all(reply.as_bytes()).await
}
