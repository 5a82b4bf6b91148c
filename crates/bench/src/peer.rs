//! The Python reference: installed, made to write stores, and asked one request at a time.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, bail, ensure};
use serde_json::Value;

use crate::work::Work;

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
        let environment = folder.join("reference");
        let python = environment.join("bin/python");
        let ready = environment.join("ready");
        if !ready.exists() {
            std::fs::create_dir_all(folder)?;
            run(Command::new("python3").args(["-m", "venv"]).arg(&environment))?;
            run(Command::new(&python).args(["-m", "pip", "install", "--quiet", PACKAGE]))?;
            std::fs::write(&ready, PACKAGE)?;
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
    pub(crate) count: u64,
}

impl Peer {
    /// Starts it over the stores in a folder.
    pub(crate) fn start(environment: &Environment, stores: &Path) -> anyhow::Result<Self> {
        let mut command = Command::new(&environment.python);
        command.arg(SCRIPT).arg("serve").arg(stores);
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
        match (answer["seconds"].as_f64(), answer["count"].as_u64()) {
            (Some(seconds), Some(count)) => Ok(Turn { seconds, count }),
            _ => bail!("the reference says {}", answer["error"]),
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        drop(self.process.kill()); // it may have ended already
        drop(self.process.wait());
    }
}
