//! A server of stores as clients see it: the command `zvf serve` over loopback connections.
//!
//! ```text
//! http      every rule of the server, with requests that violate it and the status each must get
//! slow      clients that send or read nothing, while good ones are answered
//! load      ranges of 64 KiB at the highest rate
//! soak      all of it for a long time, while memory and descriptors are watched
//! ```
//!
//! The store lies next to a file whose contents must not appear in any answer, and links lead from
//! the store to it.

mod client;
pub(crate) mod http;
pub(crate) mod load;
pub(crate) mod slow;
pub(crate) mod soak;

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Stdio};

use anyhow::{Context as _, ensure};
use archives::peers::Process;
use client::Answer;
pub(crate) use client::Client;

use crate::Report;

/// A running server, which ends on drop.
pub(crate) struct Server {
    process: Process,
    pub(crate) address: SocketAddr,
}

impl Server {
    /// Reads the address that a server prints when it listens.
    pub(crate) fn new(child: Child) -> anyhow::Result<Self> {
        let mut process = Process(child);
        let mut line = String::new();
        let out = process.0.stdout.take().context("the server has an output")?;
        BufReader::new(out).read_line(&mut line)?;
        let reply: serde_json::Value =
            serde_json::from_str(&line).with_context(|| format!("the server said {line:?}"))?;
        let url = reply["url"].as_str().unwrap_or_default();
        let address = url.trim_start_matches("http://").trim_end_matches('/').parse();
        Ok(Self { process, address: address.with_context(|| format!("{url} is no address"))? })
    }
}

/// A server of a store.
struct Served {
    server: Server,
    place: tempfile::TempDir,
}

impl Served {
    /// Serves a store called `three` with these options.
    fn start(report: &Report, options: &str) -> anyhow::Result<Self> {
        let place = tempfile::tempdir()?;
        let store = place.path().join("three.zarrvectors");
        write_store(&store)?;
        std::fs::write(place.path().join("canary"), CANARY)?;
        let line = format!("serve {} --json --bind 127.0.0.1:0 {options}", store.display());
        let child = report.zvf(place.path())?.command(&line).stderr(Stdio::null()).spawn()?;
        Ok(Self { server: Server::new(child)?, place })
    }

    fn connect(&self) -> anyhow::Result<Client> {
        Client::connect(self.server.address)
    }

    /// Sends bytes unchanged and reads until the server closes.
    fn send(&self, request: &[u8]) -> anyhow::Result<Answer> {
        self.connect()?.exchange(request)
    }

    /// Checks that an answer contains no secrets.
    fn check_secrets(&self, answer: &Answer) -> anyhow::Result<()> {
        let place = self.place.path().to_string_lossy();
        for secret in [CANARY, &place, "backtrace", "panicked"] {
            ensure!(answer.count(secret) == 0, "the answer holds {secret:?}");
        }
        Ok(())
    }
}

/// Writes a store of points, with files next to it and links that lead out of it.
fn write_store(store: &Path) -> anyhow::Result<()> {
    archives::write(store, &archives::files("pc3_basic"));
    let large: Vec<u8> = (0..LARGE_BYTES).map(|n| n.to_le_bytes()[0]).collect();
    std::fs::write(store.join("large"), large)?;
    std::fs::write(store.join(".tmp-1"), "half written")?;
    std::fs::create_dir_all(store.join("folder/.tmp-2"))?;
    std::fs::write(store.join("folder/.tmp-2/x"), "half written")?;
    std::fs::write(store.join("a,b"), "a comma")?;
    std::os::unix::fs::symlink("../canary", store.join("link"))?;
    std::os::unix::fs::symlink("..", store.join("up"))?;
    std::os::unix::fs::symlink("/", store.join("slash"))?;
    Ok(())
}

/// The contents of the file next to the store.
const CANARY: &str = "CANARY-7f3a9c21-never-in-an-answer";
/// The size of the large file from which ranges are read.
const LARGE_BYTES: u64 = 8 << 20;
