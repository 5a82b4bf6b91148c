//! The Python reference: installed, made to write stores, and asked one request at a time.

use std::cell::RefCell;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::rc::Rc;

use anyhow::{Context, bail, ensure};
use serde_json::Value;

use crate::contest::{self, Contender, Role};
use crate::parts::Bench;
use crate::parts::work::Work;
#[cfg(feature = "remote")]
use crate::server::Server;

const PACKAGE: &str = "zarr-vectors==0.9.2";
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/peers/reference.py");

/// A virtual environment that holds the reference.
#[derive(Debug)]
pub(crate) struct Environment {
    python: PathBuf,
}

impl Environment {
    /// Installs the reference below `folder`, unless it is there.
    pub(crate) fn installed(folder: &Path) -> anyhow::Result<Self> {
        Self::of(folder, "reference", &[PACKAGE])
    }

    /// Installs packages below `folder`, unless they are there.
    pub(crate) fn of(folder: &Path, name: &str, packages: &[&str]) -> anyhow::Result<Self> {
        let environment = folder.join(name);
        let python = environment.join("bin/python");
        let (ready, wanted) = (environment.join("ready"), packages.join("\n"));
        if std::fs::read_to_string(&ready).ok().is_none_or(|found| found != wanted) {
            std::fs::create_dir_all(folder)?;
            run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&environment))?;
            let pip = &mut Command::new(&python);
            let output = pip.args(["-m", "pip", "install", "--quiet"]).args(packages).output()?;
            let said = String::from_utf8_lossy(&output.stderr);
            let said = said.lines().rfind(|line| line.starts_with("ERROR")).unwrap_or("it failed");
            ensure!(output.status.success(), "pip install {}: {said}", packages.join(" "));
            std::fs::write(&ready, wanted)?;
        }
        Ok(Self { python: std::path::absolute(python)? })
    }

    /// The interpreter in it.
    pub(crate) fn python(&self) -> &Path {
        &self.python
    }

    /// Writes the stores of the workloads, those that are missing.
    pub(crate) fn make(&self, stores: &Path, scale: f64) -> anyhow::Result<()> {
        let mut command = Command::new(&self.python);
        run(command.arg(SCRIPT).arg("make").arg(stores).arg(scale.to_string()))
    }
}

fn run(command: &mut Command) -> anyhow::Result<()> {
    let status = command.status().with_context(|| format!("cannot start {command:?}"))?;
    ensure!(status.success(), "{command:?} failed: {status}");
    Ok(())
}

/// The reference as one of the contenders, started when it is first wanted; or why it is not here.
pub(crate) struct Reference {
    peer: Rc<RefCell<Result<Peer, String>>>,
}

impl Reference {
    /// That of a run.
    pub(crate) fn of(bench: &Bench) -> Self {
        let start = || Peer::start(&Environment::installed(&bench.folder)?, &bench.folder);
        let peer = if bench.alone {
            Err("not asked".to_owned())
        } else {
            start().map_err(|error| format!("{error:#}"))
        };
        Self { peer: Rc::new(RefCell::new(peer)) }
    }

    /// It, doing what a request says.
    pub(crate) fn contender(&mut self, request: Value) -> Contender<'static> {
        asking(NAME, Role::Reference, &self.peer, request)
    }

    /// The same, and what it asked of a server.
    #[cfg(feature = "remote")]
    pub(crate) fn counted<'a>(&mut self, request: Value, server: &'a Server) -> Contender<'a> {
        if let Err(why) = &*self.peer.borrow() {
            return Contender::absent(NAME, Role::Reference, why);
        }
        let peer = Rc::clone(&self.peer);
        Contender::new(NAME, Role::Reference, move || match &mut *peer.borrow_mut() {
            Ok(peer) => {
                server.reset();
                let turn = peer.ask(&request)?;
                let cost = server.cost();
                Ok(contest::Turn { seconds: turn.seconds, count: turn.count, cost })
            }
            Err(why) => bail!("{why}"),
        })
    }
}

const NAME: &str = "zarr-vectors 0.9.2";

/// Another contender, by its script; or why it is not here.
pub(crate) struct Other {
    name: &'static str,
    peer: Rc<RefCell<Result<Peer, String>>>,
}

impl Other {
    /// Installs what it needs, and starts it over a folder in which it keeps its files.
    pub(crate) fn new(
        bench: &Bench,
        name: &'static str,
        script: &str,
        packages: &[&str],
        folder: &Path,
    ) -> Self {
        let start = || -> anyhow::Result<Peer> {
            let environment = Environment::of(&bench.folder, script, packages)?;
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("peers/{script}.py"));
            ensure!(path.exists(), "nobody wrote how to ask it");
            Peer::spawn(Command::new(&environment.python).arg(path).arg(folder))
        };
        let peer = if bench.alone {
            Err("not asked".to_owned())
        } else {
            start().map_err(|error| format!("{error:#}"))
        };
        Self { name, peer: Rc::new(RefCell::new(peer)) }
    }

    /// It, doing what a request says.
    pub(crate) fn contender(&self, request: Value) -> Contender<'static> {
        asking(self.name, Role::Peer, &self.peer, request)
    }
}

/// A peer, doing what a request says.
fn asking(
    name: &str,
    role: Role,
    peer: &Rc<RefCell<Result<Peer, String>>>,
    request: Value,
) -> Contender<'static> {
    if let Err(why) = &*peer.borrow() {
        return Contender::absent(name, role, why);
    }
    let peer = Rc::clone(peer);
    Contender::new(name, role, move || match &mut *peer.borrow_mut() {
        Ok(peer) => {
            let turn = peer.ask(&request)?;
            Ok(contest::Turn { count: turn.count, ..contest::Turn::of(turn.seconds) })
        }
        Err(why) => bail!("{why}"),
    })
}

/// A running process of the reference.
#[derive(Debug)]
pub(crate) struct Peer {
    process: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
}

/// What one piece of work took, and how many rows it gave.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    pub(crate) seconds: f64,
    /// Nothing where nothing is counted.
    pub(crate) count: Option<u64>,
}

impl Peer {
    /// Starts it over the stores in a folder.
    pub(crate) fn start(environment: &Environment, stores: &Path) -> anyhow::Result<Self> {
        Self::spawn(Command::new(&environment.python).arg(SCRIPT).arg("serve").arg(stores))
    }

    /// Starts a process that answers line by line.
    fn spawn(command: &mut Command) -> anyhow::Result<Self> {
        // Their scripts lie among the sources.
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let requests = process.stdin.take().context("no way to ask the reference")?;
        let answers =
            BufReader::new(process.stdout.take().context("no way to hear the reference")?);
        Ok(Self { process, requests, answers })
    }

    /// Has it do one piece of work.
    pub(crate) fn run(&mut self, work: &Work) -> anyhow::Result<Turn> {
        self.ask(&work.request()).with_context(|| work.name)
    }

    /// Has it do what a request says.
    pub(crate) fn ask(&mut self, request: &Value) -> anyhow::Result<Turn> {
        writeln!(self.requests, "{request}")?;
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        let answer: Value = serde_json::from_str(&line).context("the reference stopped")?;
        match answer["seconds"].as_f64() {
            Some(seconds) => Ok(Turn { seconds, count: answer["count"].as_u64() }),
            None => bail!("the reference says {}", answer["error"]),
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        drop(self.process.kill()); // it may have ended already
        drop(self.process.wait());
    }
}
