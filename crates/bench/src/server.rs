//! An HTTP file server with a fixed latency; it counts requests and bytes.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use archives::http::{Exchange, serve_files};

use crate::row::Cost;

/// A server on loopback, which ends with the process.
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
    /// Serves the files below `root`.
    pub(crate) fn start(root: &Path, late: Duration) -> anyhow::Result<Self> {
        let counts = Arc::<Counts>::default();
        let seen = Arc::clone(&counts);
        let at = serve_files(root.to_owned(), move |exchange| match exchange {
            Exchange::Asked(_) => {
                thread::sleep(late);
                seen.requests.fetch_add(1, Ordering::SeqCst);
            }
            Exchange::Sent(bytes) => {
                seen.bytes.fetch_add(bytes as u64, Ordering::SeqCst);
            }
        })?;
        Ok(Self { root: root.to_owned(), at, counts })
    }

    /// Returns its URL.
    pub(crate) fn address(&self) -> String {
        format!("http://{}", self.at)
    }

    /// Resets the counters.
    pub(crate) fn reset(&self) {
        self.counts.requests.store(0, Ordering::SeqCst);
        self.counts.bytes.store(0, Ordering::SeqCst);
    }

    /// Returns the requests and bytes since the last reset.
    pub(crate) fn cost(&self) -> Cost {
        let [requests, bytes] = [&self.counts.requests, &self.counts.bytes];
        let [requests, bytes] = [requests, bytes].map(|count| Some(count.load(Ordering::SeqCst)));
        Cost { requests, bytes, ..Cost::default() }
    }

    /// Requests one file below the root on a separate connection.
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
