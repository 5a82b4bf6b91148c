//! A scheduler and executors in separate processes, which end with the test or example that uses
//! them.
#![expect(dead_code, reason = "tests and examples use different parts")]

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// A cluster on loopback.
#[derive(Debug)]
pub(crate) struct Cluster {
    scheduler: Child,
    executors: Vec<Executor>,
    port: u16,
    cores: usize,
    folder: TempDir,
}

#[derive(Debug)]
struct Executor {
    process: Child,
    work_dir: PathBuf,
    metrics: u16,
}

impl Cluster {
    /// Starts a scheduler with a short executor timeout and `executors` executors that run `cores`
    /// partitions at once.
    pub(crate) fn start(executors: usize, cores: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let port = free_port();
        let scheduler = start_scheduler(port, executors, folder.path());
        let mut cluster = Self { scheduler, executors: Vec::new(), port, cores, folder };
        cluster.wait_for("/healthz");
        for _ in 0..executors {
            cluster.add_executor();
        }
        cluster.wait_until_ready();
        cluster
    }

    /// Waits until the scheduler knows as many executors as the cluster was started with.
    pub(crate) fn wait_until_ready(&mut self) {
        self.wait_for("/readyz");
    }

    /// Kills the scheduler like `kill -9`.
    pub(crate) fn kill_scheduler(&mut self) {
        self.scheduler.kill().unwrap();
        self.scheduler.wait().unwrap();
    }

    /// Starts the scheduler again after it was killed.
    pub(crate) fn restart_scheduler(&mut self) {
        let living = self
            .executors
            .iter_mut()
            .filter_map(|executor| executor.process.try_wait().unwrap().is_none().then_some(()));
        self.scheduler = start_scheduler(self.port, living.count(), self.folder.path());
    }

    /// Returns the address of the scheduler.
    pub(crate) fn url(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub(crate) fn add_executor(&mut self) {
        let name = format!("executor{}", self.executors.len());
        let work_dir = self.folder.path().join(&name);
        std::fs::create_dir(&work_dir).unwrap();
        let (listen, control) = (format!("127.0.0.1:{}", free_port()), free_port().to_string());
        let (scheduler, folder) = (self.url(), work_dir.display().to_string());
        let (cores, metrics) = (self.cores.to_string(), free_port());
        let figures = format!("127.0.0.1:{metrics}");
        let args = [
            "--metrics",
            &figures,
            "executor",
            "--scheduler",
            &scheduler,
            "--listen",
            &listen,
            "--control-port",
            &control,
            "--cores",
            &cores,
            "--heartbeat",
            "1",
            "--work-dir",
            &folder,
        ];
        let process = spawn(&args, &self.folder.path().join(format!("{name}.log")));
        self.executors.push(Executor { process, work_dir, metrics });
    }

    /// Kills the executor that has lived longest.
    pub(crate) fn kill_any_executor(&mut self) -> usize {
        let is_alive = |executor: &mut Executor| executor.process.try_wait().unwrap().is_none();
        let number = self.executors.iter_mut().position(is_alive).unwrap();
        self.kill_executor(number);
        number
    }

    /// Kills an executor like `kill -9`.
    pub(crate) fn kill_executor(&mut self, number: usize) {
        let process = &mut self.executors[number].process;
        process.kill().unwrap();
        process.wait().unwrap();
    }

    /// Returns whether an executor has written results of a stage.
    pub(crate) fn has_worked(&self, number: usize) -> bool {
        has_files(&self.executors[number].work_dir)
    }

    /// Waits until the scheduler answers `page` with status 200.
    fn wait_for(&mut self, page: &str) {
        let start = Instant::now();
        while !get(self.port, page).is_some_and(|reply| reply.starts_with("HTTP/1.1 200")) {
            let status = self.scheduler.try_wait().unwrap();
            assert!(status.is_none() && start.elapsed() < TIMEOUT, "{page}: {}", self.logs());
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Returns the bytes that each executor has read from stores.
    pub(crate) fn bytes_read(&self) -> Vec<u64> {
        let read = |executor: &Executor| {
            let page = get(executor.metrics, "/metrics").unwrap();
            let (_, value) = page.rsplit_once("zvf_bytes_read_total ").unwrap();
            value.trim().parse().unwrap()
        };
        self.executors.iter().map(read).collect()
    }

    /// Returns the logs of all processes.
    pub(crate) fn logs(&self) -> String {
        let mut text = String::new();
        for entry in std::fs::read_dir(self.folder.path()).unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() {
                text +=
                    &format!("{}:\n{}", path.display(), std::fs::read_to_string(&path).unwrap());
            }
        }
        text
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let processes = self.executors.iter_mut().map(|executor| &mut executor.process);
        for process in processes.chain([&mut self.scheduler]) {
            // Killing fails if the process has already ended.
            drop(process.kill());
            drop(process.wait());
        }
    }
}

/// Returns the answer of a process; `None` where there is none.
pub(crate) fn get(port: u16, page: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    let request = format!("GET {page} HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n");
    let mut text = String::new();
    stream.write_all(request.as_bytes()).and_then(|()| stream.read_to_string(&mut text)).ok()?;
    Some(text)
}

fn has_files(folder: &Path) -> bool {
    std::fs::read_dir(folder).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        if path.is_dir() { has_files(&path) } else { true }
    })
}

fn start_scheduler(port: u16, executors: usize, folder: &Path) -> Child {
    let (listen, count) = (format!("127.0.0.1:{port}"), executors.to_string());
    let timeout = EXECUTOR_TIMEOUT.as_secs().to_string();
    let args = ["scheduler", "--listen", &listen, "--executor-timeout", &timeout];
    spawn(&[&args[..], &["--min-executors", &count]].concat(), &folder.join("scheduler.log"))
}

fn spawn(args: &[&str], log: &Path) -> Child {
    let log = std::fs::File::create(log).unwrap();
    // Tests and examples are in folders beside the program.
    let own = std::env::current_exe().unwrap();
    let mut command = Command::new(own.ancestors().nth(2).unwrap().join("zvf-cluster"));
    command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap()
}

/// Returns a port that was free a moment ago.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// How long an executor may be silent.
pub(crate) const EXECUTOR_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout for everything that a test waits for.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(120);
