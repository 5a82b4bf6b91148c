//! zarr-vectors and other peers: installed or built, and queried one request at a time.

use std::cell::RefCell;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::rc::Rc;
use std::time::Instant;

use anyhow::{Context, bail, ensure};
use serde_json::{Value, json};

use crate::contest::Contender;
use crate::row::{Cost, Role, Turn};
#[cfg(feature = "remote")]
use crate::server::Server;
use crate::settings::Bench;
use crate::watch::{Watch, read_stats};

pub(crate) const PACKAGE: &str = "zarr-vectors==0.9.2";
/// The faster one of its two HTTP libraries.
const HTTP: &str = "obstore>=0.3";
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/peers/reference.py");

/// A Python virtual environment of a peer.
#[derive(Debug)]
pub(crate) struct Environment {
    python: PathBuf,
}

impl Environment {
    /// Installs zarr-vectors below `folder`, unless it is installed.
    pub(crate) fn install_reference(folder: &Path) -> anyhow::Result<Self> {
        Self::install(folder, "reference", &[PACKAGE, HTTP])
    }

    /// Installs packages below `folder`, unless they are installed.
    pub(crate) fn install(folder: &Path, name: &str, packages: &[&str]) -> anyhow::Result<Self> {
        let environment = folder.join(name);
        let python = environment.join("bin/python");
        let (ready, failed) = (environment.join("ready"), environment.join("failed"));
        let requirements = packages.join("\n");
        // A failed installation is not repeated with every run.
        let failure = std::fs::read_to_string(&failed).unwrap_or_default();
        if let Some((_, why)) = failure.split_once('\0').filter(|(what, _)| *what == requirements) {
            bail!("{why} (to try again, remove {name} below the folder of the run)");
        }
        if std::fs::read_to_string(&ready).ok().is_none_or(|found| found != requirements) {
            std::fs::create_dir_all(folder)?;
            // Otherwise the target of the link would be emptied.
            ensure!(
                !environment.is_symlink(),
                "{} is a symbolic link: expected a folder that may be emptied for packages; remove the link",
                environment.display()
            );
            run_command(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&environment))?;
            let pip = &mut Command::new(&python);
            let output = pip.args(["-m", "pip", "install", "--quiet"]).args(packages).output()?;
            if !output.status.success() {
                let stderr = String::from_utf8_lossy(&output.stderr);
                let last = stderr.lines().rfind(|line| line.starts_with("ERROR"));
                let why =
                    format!("pip install {}: {}", packages.join(" "), last.unwrap_or("it failed"));
                std::fs::write(&failed, format!("{requirements}\0{why}"))?;
                bail!(why);
            }
            std::fs::write(&ready, requirements)?;
        }
        Ok(Self { python: std::path::absolute(python)? })
    }

    /// Returns its interpreter.
    pub(crate) fn python(&self) -> &Path {
        &self.python
    }

    /// Starts a script with the folder for its files.
    pub(crate) fn start_script(&self, script: &str, folder: &Path) -> anyhow::Result<Peer> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("peers/{script}.py"));
        ensure!(path.exists(), "nobody wrote how to ask it");
        Peer::spawn(Command::new(&self.python).arg(path).arg(folder))
    }

    /// Writes the missing stores of the workloads.
    pub(crate) fn make_stores(&self, stores: &Path, scale: f64) -> anyhow::Result<()> {
        let mut command = Command::new(&self.python);
        run_command(command.arg(SCRIPT).arg("make").arg(stores).arg(scale.to_string()))
    }
}

fn run_command(command: &mut Command) -> anyhow::Result<()> {
    let status = command.status().with_context(|| format!("cannot start {command:?}"))?;
    ensure!(status.success(), "{command:?} failed: {status}");
    Ok(())
}

type Shared = Rc<RefCell<Result<Peer, String>>>;

/// The name of zarr-vectors in tables.
pub(crate) const NAME: &str = "zarr-vectors 0.9.2";

/// zarr-vectors or another contender, by its script or program; or why it is absent.
pub(crate) struct Other {
    name: &'static str,
    role: Role,
    peer: Shared,
}

impl Other {
    /// Returns the zarr-vectors process that answers queries of stores.
    pub(crate) fn reference(bench: &Bench) -> Self {
        let start = || {
            let environment = Environment::install_reference(&bench.folder)?;
            let mut command = Command::new(environment.python());
            Peer::spawn(command.arg(SCRIPT).arg("serve").arg(&bench.folder))
        };
        Self::start(bench, NAME, Role::Reference, start)
    }

    /// Starts a peer, unless peers are excluded.
    pub(crate) fn start(
        bench: &Bench,
        name: &'static str,
        role: Role,
        start: impl FnOnce() -> anyhow::Result<Peer>,
    ) -> Self {
        let peer = if bench.alone || bench.only_ours || bench.own.is_some() {
            Err("not asked".to_owned())
        } else {
            start().map_err(|error| format!("{error:#}"))
        };
        Self { name, role, peer: Rc::new(RefCell::new(peer)) }
    }

    /// Installs the packages of a peer, and starts it with the folder for its files.
    pub(crate) fn new(
        bench: &Bench,
        name: &'static str,
        script: &str,
        packages: &[&str],
        folder: &Path,
    ) -> Self {
        Self::start(bench, name, Role::Peer, || {
            Environment::install(&bench.folder, script, packages)?.start_script(script, folder)
        })
    }

    /// Builds a program from its own crate, and starts it with the folder for its files.
    pub(crate) fn from_crate(
        bench: &Bench,
        name: &'static str,
        program: &str,
        folder: &Path,
    ) -> Self {
        Self::start(bench, name, Role::Peer, || {
            let mut command = Command::new(build_peer(&bench.folder, program)?);
            let threads = bench.threads.to_string();
            Peer::spawn(command.arg(folder).env("RAYON_NUM_THREADS", threads))
        })
    }

    /// Starts zarr-vectors with another script than the one for queries.
    pub(crate) fn from_reference_script(bench: &Bench, script: &str, folder: &Path) -> Self {
        Self::start(bench, NAME, Role::Reference, || {
            Environment::install_reference(&bench.folder)?.start_script(script, folder)
        })
    }

    /// Returns the contender that executes a request.
    pub(crate) fn contender(&self, request: Value) -> Contender<'static> {
        self.contender_as(self.name, self.role, request)
    }

    /// Returns the contender under another name: one process may do the work of several.
    pub(crate) fn contender_as(
        &self,
        name: &str,
        role: Role,
        request: Value,
    ) -> Contender<'static> {
        self.ask_by(name, role, move |peer| peer.ask(&request))
    }

    /// Returns the contender with the number of requests that it sent to a server.
    #[cfg(feature = "remote")]
    pub(crate) fn counted_contender<'a>(
        &self,
        request: Value,
        server: &'a Server,
    ) -> Contender<'a> {
        self.ask_by(self.name, self.role, move |peer| {
            server.reset();
            let turn = peer.ask(&request)?;
            let (asked, memory) = (server.cost(), turn.cost.memory);
            Ok(Turn { cost: Cost { memory, ..asked }, ..turn })
        })
    }

    fn ask_by<'a>(
        &self,
        name: &str,
        role: Role,
        ask: impl Fn(&mut Peer) -> anyhow::Result<Turn> + 'a,
    ) -> Contender<'a> {
        if let Err(why) = &*self.peer.borrow() {
            return Contender::new_absent(name, role, why);
        }
        let peer = Rc::clone(&self.peer);
        Contender::new(name, role, move || match &mut *peer.borrow_mut() {
            Ok(peer) => ask(peer),
            Err(why) => bail!("{why}"),
        })
    }
}

/// Returns a program of a crate below `peers`, outside the workspace, which is built unless it
/// exists.
fn build_peer(folder: &Path, name: &str) -> anyhow::Result<PathBuf> {
    let target = std::path::absolute(folder)?.join(format!("{name}-peer"));
    let manifest = format!("{}/peers/{name}/Cargo.toml", env!("CARGO_MANIFEST_DIR"));
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--quiet", "--release", "--locked", "--manifest-path", &manifest]);
    let output = cargo.env("CARGO_TARGET_DIR", &target).output().context("cannot start cargo")?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    let stderr = stderr.lines().find(|line| line.starts_with("error")).unwrap_or("it failed");
    ensure!(output.status.success(), "cannot build {name}: {stderr}");
    Ok(target.join(format!("release/{name}-peer")))
}

/// A running process with one line per request and response.
#[derive(Debug)]
pub(crate) struct Peer {
    process: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
    /// Its memory when it was ready, if known.
    held: Option<u64>,
}

impl Peer {
    /// Starts a process, and waits until its modules are loaded.
    pub(crate) fn spawn(command: &mut Command) -> anyhow::Result<Self> {
        // The scripts are in the source tree.
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let requests = process.stdin.take().context("no way to ask it")?;
        let answers = BufReader::new(process.stdout.take().context("no way to hear it")?);
        let mut peer = Self { process, requests, answers, held: None };
        peer.exchange_line(&json!({"work": "ready"}))?;
        peer.held = read_stats(peer.process.id()).map(|stats| stats.held);
        Ok(peer)
    }

    /// Executes a request.
    ///
    /// The memory is that at the start plus the peak of this request above the memory before it:
    /// remains of earlier requests do not count.
    pub(crate) fn ask(&mut self, request: &Value) -> anyhow::Result<Turn> {
        let (watch, begun) = (Watch::begin(self.process.id()), Instant::now());
        let answer = self.exchange_line(request)?;
        let Some(seconds) = answer["seconds"].as_f64() else {
            bail!("it says {}", answer["error"]);
        };
        let times = answer["times"].as_u64().unwrap_or(1).max(1);
        let stats = watch.and_then(|watch| watch.end());
        let cost = stats.map(|stats| Cost {
            requests: Some(stats.calls.div_ceil(times)),
            bytes: Some(stats.bytes / times),
            memory: self.held.map(|held| held + stats.peak),
            processor: Some(stats.processor.mul_f64(seconds / begun.elapsed().as_secs_f64())),
        });
        let cost = cost.unwrap_or_default();
        Ok(Turn { seconds, count: answer["count"].as_u64(), cost })
    }

    /// Sends a line and returns the line of the response.
    fn exchange_line(&mut self, request: &Value) -> anyhow::Result<Value> {
        writeln!(self.requests, "{request}")?;
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        serde_json::from_str(&line).context("it stopped")
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        drop(self.process.kill()); // it may have ended already
        drop(self.process.wait());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The target of a link is left unchanged.
    #[cfg(unix)]
    #[test]
    fn a_link_is_not_emptied() {
        let folder = tempfile::tempdir().unwrap();
        let elsewhere = folder.path().join("elsewhere");
        std::fs::create_dir(&elsewhere).unwrap();
        std::fs::write(elsewhere.join("kept"), "1").unwrap();
        std::os::unix::fs::symlink(&elsewhere, folder.path().join("peer")).unwrap();
        let error =
            Environment::install(folder.path(), "peer", &["nothing"]).unwrap_err().to_string();
        assert!(error.contains("peer is a symbolic link: expected a folder"), "{error}");
        assert!(elsewhere.join("kept").exists());
    }
}
