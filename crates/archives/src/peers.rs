//! Other software: installed or built into disposable folders, started, and ended with this
//! program.
//!
//! Nothing outside these folders is changed; what is there is reused.

use std::fmt::Display;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use serde_json::Value;

/// Creates a Python virtual environment with these packages in `folder`, once; returns its
/// interpreter.
///
/// # Errors
///
/// When the environment cannot be made, or pip fails.
pub fn install_python(folder: &Path, packages: &[&str]) -> anyhow::Result<PathBuf> {
    let (python, ready) = (folder.join("bin/python"), folder.join("ready"));
    let requirements = packages.join("\n");
    if fs::read_to_string(&ready).ok().is_none_or(|found| found != requirements) {
        // Otherwise the target of the link would be emptied.
        ensure!(
            !folder.is_symlink(),
            "{} is a symbolic link: expected a folder that may be emptied for packages; remove the link",
            folder.display()
        );
        run_command(Command::new("python3").args(["-m", "venv", "--clear"]).arg(folder))?;
        let pip = &mut Command::new(&python);
        run_command(pip.args(["-m", "pip", "install", "--quiet"]).args(packages))
            .with_context(|| format!("pip install {}", packages.join(" ")))?;
        fs::write(ready, requirements)?;
    }
    Ok(std::path::absolute(python)?)
}

/// Builds the program of a crate beside the benchmark, which is outside the workspace, into
/// `target`; returns it.
///
/// # Errors
///
/// When cargo fails.
pub fn build_peer(name: &str, target: &Path) -> anyhow::Result<PathBuf> {
    let manifest = format!("{}/../bench/peers/{name}/Cargo.toml", env!("CARGO_MANIFEST_DIR"));
    let target = std::path::absolute(target)?;
    let cargo = &mut Command::new("cargo");
    cargo.args(["build", "--quiet", "--release", "--locked", "--manifest-path", &manifest]);
    run_command(cargo.env("CARGO_TARGET_DIR", &target))
        .with_context(|| format!("cannot build {name}"))?;
    Ok(target.join(format!("release/{name}-peer")))
}

/// Runs a command to its end, and returns its output; its first message of an error, or else its
/// last one, is the error.
///
/// # Errors
///
/// When the command cannot be started, or fails.
pub fn run_command(command: &mut Command) -> anyhow::Result<String> {
    let shown = command.get_program().to_string_lossy().into_owned();
    let output =
        command.stdin(Stdio::null()).output().with_context(|| format!("cannot start {shown}"))?;
    let messages = String::from_utf8_lossy(&output.stderr);
    let first = messages.lines().find(|line| line.to_lowercase().starts_with("error"));
    let message = first.or_else(|| messages.lines().last()).unwrap_or_default();
    ensure!(output.status.success(), "{shown} ended with {}: {message}", output.status);
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns a port of this machine that was free a moment ago.
///
/// # Errors
///
/// When the system gives none.
pub fn find_free_port() -> anyhow::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// Returns the number after a name in a file of the system about a process, if it is there.
pub fn read_figure(process: impl Display, file: &str, name: &str) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/{file}")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Looks again and again until there is an answer; `None` when there is none in time.
///
/// # Errors
///
/// When looking fails.
pub fn wait_for<T>(
    limit: Duration,
    mut look: impl FnMut() -> anyhow::Result<Option<T>>,
) -> anyhow::Result<Option<T>> {
    let begin = Instant::now();
    while begin.elapsed() < limit {
        if let Some(found) = look()? {
            return Ok(Some(found));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(None)
}

/// A process that is killed on drop.
#[derive(Debug)]
pub struct Process(pub Child);

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.0.kill()); // it may have ended already
        drop(self.0.wait());
    }
}

/// A process that answers each line of JSON with one.
#[derive(Debug)]
pub struct Talk {
    process: Process,
    asks: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Talk {
    /// Starts the process.
    ///
    /// # Errors
    ///
    /// When it cannot be started.
    pub fn start(command: &mut Command) -> anyhow::Result<Self> {
        // Scripts are in the source tree.
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let shown = || format!("cannot start {}", command.get_program().display());
        let mut process = Process(started.with_context(shown)?);
        let asks = process.0.stdin.take().context("no way to ask it")?;
        let answers = BufReader::new(process.0.stdout.take().context("no way to hear it")?);
        Ok(Self { process, asks, answers })
    }

    /// Returns the id of the process.
    pub fn id(&self) -> u32 {
        self.process.0.id()
    }

    /// Writes a line, and reads the line of the answer.
    ///
    /// # Errors
    ///
    /// When the process has ended, or answers something else.
    pub fn ask(&mut self, ask: &Value) -> anyhow::Result<Value> {
        writeln!(self.asks, "{ask}")?;
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        serde_json::from_str(&line).with_context(|| format!("no answer to {ask}"))
    }
}
