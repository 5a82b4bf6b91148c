//! A scheduler and executors of SQL on this machine; they end when their owner is dropped.

use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail};
use archives::http::request;
use archives::peers::{Process, find_free_port, wait_for};

/// A cluster on loopback.
pub(super) struct Cluster {
    processes: Vec<Process>,
    port: u16,
}

impl Cluster {
    /// Starts a cluster with `executors` executors of one core each, and waits until it is ready.
    pub(super) fn start(program: &Path, executors: usize) -> anyhow::Result<Self> {
        let port = find_free_port()?;
        let mut cluster = Self { processes: Vec::new(), port };
        let (scheduler, count) = (cluster.address(), executors.to_string());
        cluster
            .spawn(program, &["scheduler", "--listen", &scheduler, "--min-executors", &count])?;
        cluster.wait_for_page("healthz")?;
        for _ in 0..executors {
            let listen = format!("127.0.0.1:{}", find_free_port()?);
            let control = find_free_port()?.to_string();
            let words = ["executor", "--scheduler", &scheduler, "--listen", &listen];
            let more = ["--control-port", &control, "--cores", "1", "--memory", "256"];
            cluster.spawn(program, &[&words[..], &more].concat())?;
        }
        cluster.wait_for_page("readyz")?;
        Ok(cluster)
    }

    /// Returns the address of the scheduler.
    pub(super) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Returns the ids of its processes.
    pub(super) fn processes(&self) -> Vec<u32> {
        self.processes.iter().map(|process| process.0.id()).collect()
    }

    fn spawn(&mut self, program: &Path, words: &[&str]) -> anyhow::Result<()> {
        let mut command = Command::new(program);
        command.args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.processes.push(Process(command.spawn()?));
        Ok(())
    }

    /// Waits until a page of the scheduler returns status 200.
    fn wait_for_page(&mut self, page: &str) -> anyhow::Result<()> {
        let scheduler = (Ipv4Addr::LOCALHOST, self.port).into();
        let answered = wait_for(PATIENCE, || {
            for process in &mut self.processes {
                if let Some(status) = process.0.try_wait()? {
                    bail!("a process of the cluster ended: {status}");
                }
            }
            let answer = request(scheduler, "GET", page);
            Ok(answer.is_ok_and(|answer| answer.starts_with(b"HTTP/1.1 200")).then_some(()))
        });
        answered?.with_context(|| format!("the cluster never says /{page}"))
    }
}

/// The time after which a start has failed.
const PATIENCE: Duration = Duration::from_secs(60);
