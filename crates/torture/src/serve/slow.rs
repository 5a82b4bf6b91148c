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
use super::load::{allow_connections, ask_ranges, percentile, to_millis};
use crate::Report;
use anyhow::{anyhow, bail};

/// Run slow clients together with good ones.
#[derive(Debug, clap::Args)]
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

/// A way to be slow.
#[derive(Clone, Copy, Debug)]
struct Way {
    name: &'static str,
    /// What it sends at first.
    first: &'static str,
    /// Whether the server waits for the rest of the head.
    in_head: bool,
}

const WAYS: [Way; 7] = [
    Way { name: "silent", first: "", in_head: true },
    Way { name: "begun", first: "GET /healthz HTTP/1.1\r\nHost: loc", in_head: true },
    Way { name: "dripped", first: "GET /healthz HTTP/1.1\r\nX: ", in_head: true },
    Way {
        name: "body",
        first: "POST /api/three/plan HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{",
        in_head: false,
    },
    Way { name: "idle", first: "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", in_head: false },
    Way {
        name: "stalled",
        first: "GET /data/three/large HTTP/1.1\r\nHost: localhost\r\n\r\n",
        in_head: false,
    },
    Way { name: "halved", first: "GET /healthz HTTP/1.1\r\nHost: loc", in_head: true },
];

/// The time limits of the server: for heads, and for everything else.
struct Times {
    short: Duration,
    long: Duration,
}

impl Slow {
    pub(crate) fn run(self, report: &mut Report) -> anyhow::Result<()> {
        let (short, long) = if self.secs >= 60 {
            (10, 30)
        } else {
            ((self.secs / 10).max(1), (self.secs / 5).max(1))
        };
        let times = Times { short: Duration::from_secs(short), long: Duration::from_secs(long) };
        let options = format!(
            "{} --first-byte-timeout {short} --header-timeout {short} --body-timeout {long} \
             --idle-timeout {long} --write-timeout {long}",
            allow_connections(self.conns + GOOD_CLIENTS)
        );
        let served = Served::start(report, &options)?;
        let idle_time = Duration::from_secs((self.secs / 6).max(1));
        let start = Instant::now();
        let alone = ask_ranges(&served, GOOD_CLIENTS, report.seed, || start.elapsed() < idle_time);
        let start = Instant::now();
        let (good, ended) = std::thread::scope(|scope| {
            let good = scope.spawn(|| {
                let time = Duration::from_secs(self.secs);
                ask_ranges(&served, GOOD_CLIENTS, report.seed + 1, || start.elapsed() < time)
            });
            (run_slow_clients(&served, self.conns, &times), good.join())
        });
        for outcome in good? {
            report.count(outcome);
        }
        let Ok(with) = ended else { bail!("a good client ended") };
        for failure in alone.failures.into_iter().chain(with.failures) {
            report.check(false, || failure);
        }
        let [before, after] = [percentile(&alone.times, 99), percentile(&with.times, 99)];
        report.print_note(&format!(
            "p99 of good clients: {:.1} ms alone, {:.1} ms",
            to_millis(before),
            to_millis(after)
        ));
        let is_even = to_millis(after) <= to_millis(before) * self.factor;
        let failure =
            || format!("p99 grows from {:.1} to {:.1} ms", to_millis(before), to_millis(after));
        report.check(is_even, failure);
        Ok(())
    }
}

/// Opens all connections, sends byte by byte where that is the way, and waits until each is closed.
fn run_slow_clients(
    served: &Served,
    conns: usize,
    times: &Times,
) -> anyhow::Result<Vec<anyhow::Result<()>>> {
    let mut open: Vec<(Way, Client, Instant)> = Vec::new();
    for number in 0..conns {
        let way = WAYS[number % WAYS.len()];
        let mut client = served.connect()?;
        client.send(way.first.as_bytes())?;
        if way.name == "halved" {
            client.stream.shutdown(Shutdown::Write)?;
        }
        client.stream.set_read_timeout(Some(Duration::from_millis(1)))?;
        open.push((way, client, Instant::now()));
    }
    let mut outcomes = Vec::new();
    while !open.is_empty() {
        std::thread::sleep(Duration::from_millis(200));
        let mut still = Vec::new();
        for (way, mut client, since) in open {
            if way.name == "dripped" {
                // Sending fails once the server has closed, which is expected.
                drop(client.send(b"a"));
            }
            let limit = if way.in_head { times.short } else { times.long };
            let is_late = since.elapsed() > limit + GRACE;
            match (is_closed(way, &mut client, is_late), is_late) {
                (true, _) => outcomes.push(Ok(())),
                (false, true) => outcomes.push(Err(anyhow!("{} stays open", way.name))),
                (false, false) => still.push((way, client, since)),
            }
        }
        open = still;
    }
    Ok(outcomes)
}

/// Returns whether the server has closed. A client that reads nothing checks only at the end: checking means reading.
fn is_closed(way: Way, client: &mut Client, is_late: bool) -> bool {
    if way.name == "stalled" && !is_late {
        return false;
    }
    let mut piece = [0; 64 << 10];
    let (mut total, start) = (0, Instant::now());
    loop {
        match client.stream.read(&mut piece) {
            Ok(0) => return way.name != "stalled" || total < super::LARGE_BYTES as usize,
            Ok(count) => total += count,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                // Bytes under way may take a moment to arrive.
                if way.name != "stalled" || start.elapsed() > GRACE {
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
