//! `torture slow`: clients that send nothing, or little, or read nothing, while good ones are answered.
//!
//! ```text
//! silent    a connection without a byte              dripped   a head, byte by byte
//! begun     half a head                              body      a body that never arrives
//! idle      an answer, and then nothing              stalled   a large file that nobody reads
//! halved    half a head, then the sending side is closed
//! ```
//!
//! The server must close each within its time limit, and good clients must not slow down.

use std::io::{ErrorKind, Read as _};
use std::net::Shutdown;
use std::time::{Duration, Instant};

use super::Served;
use super::client::Client;
use super::load::{allow_connections, measure_ranges, percentile_in_millis};
use crate::Report;
use anyhow::anyhow;

/// Run slow clients together with good ones.
#[derive(clap::Args)]
pub(crate) struct Slow {
    /// Concurrent slow connections.
    #[arg(long, default_value_t = 512)]
    conns: usize,
    /// The duration in seconds; the time limits of the server are its defaults where it is 60 or more, and a tenth of
    /// it below.
    #[arg(long, default_value_t = 60)]
    secs: u64,
    /// The largest allowed slow-down of good clients.
    #[arg(long, default_value_t = 2.0)]
    factor: f64,
}

/// A way to be slow: its name, what is sent at first, and whether the rest of the head is awaited.
type Way = (&'static str, &'static str, bool);

const WAYS: [Way; 7] = [
    ("silent", "", true),
    ("begun", "GET /healthz HTTP/1.1\r\nHost: loc", true),
    ("dripped", "GET /healthz HTTP/1.1\r\nX: ", true),
    (
        "body",
        "POST /api/three/plan HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{",
        false,
    ),
    ("idle", "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", false),
    ("stalled", "GET /data/three/large HTTP/1.1\r\nHost: localhost\r\n\r\n", false),
    ("halved", "GET /healthz HTTP/1.1\r\nHost: loc", true),
];

impl Slow {
    pub(crate) fn run(self, report: &mut Report) -> anyhow::Result<()> {
        let (short, long) = if self.secs >= 60 {
            (10, 30)
        } else {
            ((self.secs / 10).max(1), (self.secs / 5).max(1))
        };
        let options = format!(
            "{} --first-byte-timeout {short} --header-timeout {short} --body-timeout {long} \
             --idle-timeout {long} --write-timeout {long}",
            allow_connections(self.conns + GOOD_CLIENTS)
        );
        let served = Served::start(report, &options)?;
        let [time, alone] = [self.secs, (self.secs / 6).max(1)].map(Duration::from_secs);
        let alone = measure_ranges(&served, GOOD_CLIENTS, alone, report);
        let limits = [long, short].map(Duration::from_secs);
        let (closed, beside) = std::thread::scope(|scope| {
            let slow = scope.spawn(|| run_slow_clients(&served, self.conns, limits));
            let beside = measure_ranges(&served, GOOD_CLIENTS, time, report);
            (slow.join().expect("nothing panics"), beside)
        });
        closed?.into_iter().for_each(|closed| report.count(closed));
        let [before, after] = [&alone, &beside].map(|times| percentile_in_millis(times, 99));
        report.print_note(&format!("p99 of good clients: {before:.1} ms alone, {after:.1} ms"));
        let failure = || format!("p99 grows from {before:.1} to {after:.1} ms");
        report.check(after <= before * self.factor, failure);
        Ok(())
    }
}

/// Opens all connections, sends byte by byte where that is the way, and waits until each is closed.
fn run_slow_clients(
    served: &Served,
    conns: usize,
    limits: [Duration; 2],
) -> anyhow::Result<Vec<anyhow::Result<()>>> {
    let mut open: Vec<(Way, Client, Instant)> = Vec::new();
    for way in WAYS.into_iter().cycle().take(conns) {
        let mut client = served.connect()?;
        client.send(way.1.as_bytes())?;
        if way.0 == "halved" {
            client.stream.get_ref().shutdown(Shutdown::Write)?;
        }
        client.stream.get_ref().set_read_timeout(Some(Duration::from_millis(1)))?;
        open.push((way, client, Instant::now()));
    }
    let mut outcomes = Vec::new();
    while !open.is_empty() {
        std::thread::sleep(Duration::from_millis(200));
        open.retain_mut(|((name, _, in_head), client, since)| {
            if *name == "dripped" {
                // Sending fails once the server has closed, which is expected.
                drop(client.send(b"a"));
            }
            let is_late = since.elapsed() > limits[usize::from(*in_head)] + GRACE;
            let is_closed = is_closed(*name == "stalled", client, is_late);
            if is_closed || is_late {
                let stays = || anyhow!("{name} stays open");
                outcomes.push(if is_closed { Ok(()) } else { Err(stays()) });
            }
            !is_closed && !is_late
        });
    }
    Ok(outcomes)
}

/// Returns whether the server has closed. A client that reads nothing checks only at the end: checking means reading.
fn is_closed(is_stalled: bool, client: &mut Client, is_late: bool) -> bool {
    if is_stalled && !is_late {
        return false;
    }
    let mut piece = [0; 64 << 10];
    let (mut total, start) = (0, Instant::now());
    loop {
        match client.stream.read(&mut piece) {
            Ok(0) => return !is_stalled || total < super::LARGE_BYTES,
            Ok(count) => total += count as u64,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                // Bytes under way may take a moment to arrive.
                if !is_stalled || start.elapsed() > GRACE {
                    return false;
                }
            }
            Err(_reset) => return true,
        }
    }
}

/// The number of well-behaved clients.
const GOOD_CLIENTS: usize = 16;
/// Extra time for a loaded machine.
const GRACE: Duration = Duration::from_secs(5);
