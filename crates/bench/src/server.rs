//! An HTTP file server with a fixed latency; it counts requests and bytes.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use archives::http::{Exchange, request, serve_files};

use crate::row::{Cost, Turn};

/// A server on loopback, which ends with the process.
pub(crate) struct Server {
    root: PathBuf,
    at: SocketAddr,
    /// The requests and bytes since they were last taken.
    counts: Arc<[AtomicU64; 2]>,
}

impl Server {
    /// Serves the files below `root`.
    pub(crate) fn start(root: &Path, late: Duration) -> anyhow::Result<Self> {
        let counts = Arc::<[AtomicU64; 2]>::default();
        let seen = Arc::clone(&counts);
        let at = serve_files(root.to_owned(), move |exchange| match exchange {
            Exchange::Asked(_) => {
                thread::sleep(late);
                seen[0].fetch_add(1, Ordering::SeqCst);
            }
            Exchange::Sent(bytes) => drop(seen[1].fetch_add(bytes as u64, Ordering::SeqCst)),
        })?;
        Ok(Self { root: root.to_owned(), at, counts })
    }

    /// Returns the URL of a file or folder below the root.
    pub(crate) fn address(&self, path: &Path) -> anyhow::Result<String> {
        let path = path.strip_prefix(&self.root).context("not below the root")?;
        Ok(format!("http://{}/{}", self.at, path.display()))
    }

    /// Returns the requests and bytes since the last call.
    pub(crate) fn take_cost(&self) -> Cost {
        let [requests, bytes] = self.counts.each_ref().map(|count| count.swap(0, Ordering::SeqCst));
        Cost::of_reads(requests, bytes)
    }

    /// Measures work that returns a count, with its requests.
    pub(crate) fn measure(
        &self,
        work: impl FnOnce() -> anyhow::Result<Option<u64>>,
    ) -> anyhow::Result<Turn> {
        self.take_cost();
        let (turn, count) = Turn::measure(work)?;
        Ok(Turn { count, ..turn }.with_cost(self.take_cost()))
    }

    /// Requests one file below the root on a separate connection.
    pub(crate) fn get(&self, file: &Path) -> anyhow::Result<()> {
        let path = file.strip_prefix(&self.root).context("not below the root")?.display();
        let answer = request(self.at, "GET", &path.to_string())?;
        ensure!(answer.starts_with(b"HTTP/1.1 200"), "{path} was not served");
        Ok(())
    }
}
