//! Files over HTTP, each answer late by the same time; requests and bytes are counted.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, ensure};

use crate::contest::Cost;

/// A server on loopback; it ends with the process.
#[derive(Debug)]
pub(crate) struct Server {
    root: PathBuf,
    at: SocketAddr,
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    requests: AtomicU64,
    bytes: AtomicU64,
}

impl Server {
    /// Serves what is below `root`.
    pub(crate) fn start(root: &Path, late: Duration) -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let (at, counts) = (listener.local_addr()?, Arc::<Counts>::default());
        let server = Self { root: root.to_owned(), at, counts: Arc::clone(&counts) };
        let root = root.to_owned();
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (root, counts) = (root.clone(), Arc::clone(&counts));
                // An answer of two small writes would wait for the other side's acknowledgement.
                let _ = stream.set_nodelay(true);
                thread::spawn(move || {
                    let mut lines = BufReader::new(&stream);
                    while answer(&mut lines, &stream, &root, late, &counts).is_some() {}
                });
            }
        });
        Ok(server)
    }

    /// Its URL.
    pub(crate) fn address(&self) -> String {
        format!("http://{}", self.at)
    }

    /// Begins to count anew.
    pub(crate) fn reset(&self) {
        self.counts.requests.store(0, Ordering::SeqCst);
        self.counts.bytes.store(0, Ordering::SeqCst);
    }

    /// What was asked since.
    pub(crate) fn cost(&self) -> Cost {
        let [requests, bytes] = [&self.counts.requests, &self.counts.bytes];
        let [requests, bytes] = [requests, bytes].map(|count| Some(count.load(Ordering::SeqCst)));
        Cost { requests, bytes, memory: None }
    }

    /// Asks for one file below the root, on a connection of its own.
    pub(crate) fn get(&self, file: &Path) -> anyhow::Result<Vec<u8>> {
        let path = file.strip_prefix(&self.root).context("not below the root")?.display();
        let mut stream = TcpStream::connect(self.at)?;
        write!(stream, "GET /{path} HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n")?;
        stream.shutdown(std::net::Shutdown::Write)?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        ensure!(answer.starts_with(b"HTTP/1.1 200"), "{path} was not served");
        Ok(answer)
    }
}

/// Answers one request; nothing when there is no more.
fn answer(
    lines: &mut impl std::io::BufRead,
    mut stream: &TcpStream,
    root: &Path,
    late: Duration,
    counts: &Counts,
) -> Option<()> {
    let mut lines = lines.lines().map_while(Result::ok);
    let request = lines.next()?;
    let mut range = None;
    for line in lines.by_ref().take_while(|line| !line.is_empty()) {
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("range: bytes=") {
            range = Some(value.to_owned());
        }
    }
    let path = request.split(' ').nth(1)?.trim_start_matches('/').to_owned();
    thread::sleep(late);
    counts.requests.fetch_add(1, Ordering::SeqCst);
    let Ok(bytes) = fs::read(root.join(path)) else {
        return stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n").ok();
    };
    let total = bytes.len();
    let (start, end) = match range.as_deref().and_then(|range| range.split_once('-')) {
        None => (0, total),
        Some(("", last)) => (total.saturating_sub(last.parse().ok()?), total),
        Some((start, "")) => (start.parse().ok()?, total),
        Some((start, end)) => (start.parse().ok()?, total.min(end.parse::<usize>().ok()? + 1)),
    };
    let status = if range.is_some() { "206 Partial Content" } else { "200 OK" };
    let mut out = format!(
        "HTTP/1.1 {status}\r\nContent-Length: {}\r\nContent-Range: bytes {start}-{}/{total}\r\n\
         ETag: \"{total}\"\r\nLast-Modified: Mon, 05 Jan 2026 10:00:00 GMT\r\n\r\n",
        end - start,
        end.saturating_sub(1)
    )
    .into_bytes();
    if !request.starts_with("HEAD") {
        out.extend(bytes.get(start..end)?);
        counts.bytes.fetch_add((end - start) as u64, Ordering::SeqCst);
    }
    stream.write_all(&out).ok()
}
