//! Other software: installed into a disposable folder, started, and ended with this program.
//!
//! Everything is installed beside the output of cargo, in `target/peers`, and reused. Nothing
//! outside is changed; a failed installation is an error that the caller reports.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::Value;

/// Creates a Python virtual environment with these packages, once.
pub(crate) fn install_python(name: &str, packages: &[&str]) -> anyhow::Result<PathBuf> {
    let folder = create_peers_folder()?.join(name);
    let (done, python) = (folder.join("installed"), folder.join("bin/python"));
    let requirements = packages.join("\n");
    if fs::read_to_string(&done).is_ok_and(|found| found == requirements) {
        return Ok(python);
    }
    run_command(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder))?;
    run_command(Command::new(&python).args(["-m", "pip", "install", "--quiet"]).args(packages))?;
    fs::write(done, requirements)?;
    Ok(python)
}

/// Returns a command that runs a script of this crate with zarr-vectors.
pub(crate) fn reference_script(name: &str) -> anyhow::Result<Command> {
    let mut command = Command::new(install_python("reference-0.9.2", &["zarr-vectors==0.9.2"])?);
    command.arg(script_path(name));
    Ok(command)
}

/// Installs a Node package, once. Returns the folder of its commands.
pub(crate) fn install_node_package(package: &str) -> anyhow::Result<PathBuf> {
    let folder = create_peers_folder()?.join(format!("node-{package}"));
    let commands = folder.join("node_modules/.bin");
    if !commands.join(package).exists() {
        fs::create_dir_all(&folder)?;
        let npm = &mut Command::new("npm");
        run_command(
            npm.args(["install", "--silent", "--no-fund", "--prefix"]).arg(&folder).arg(package),
        )?;
    }
    Ok(commands)
}

/// Returns a Debian program: the installed one, or else one unpacked from its package, once.
pub(crate) fn find_debian_program(package: &str, program: &str) -> anyhow::Result<PathBuf> {
    let installed = Path::new("/").join(program);
    if installed.exists() {
        return Ok(installed);
    }
    let folder = create_peers_folder()?.join(format!("debian-{package}"));
    let unpacked = folder.join(program);
    if !unpacked.exists() {
        fs::create_dir_all(&folder)?;
        run_command(Command::new("apt-get").args(["download", package]).current_dir(&folder))?;
        let names = fs::read_dir(&folder)?.filter_map(Result::ok).map(|entry| entry.path());
        let package = names.into_iter().find(|path| path.extension().is_some_and(|e| e == "deb"));
        let package = package.context("apt-get downloaded nothing")?;
        run_command(Command::new("dpkg").arg("--extract").arg(package).arg(&folder))?;
    }
    Ok(unpacked)
}

/// Returns a program on PATH.
pub(crate) fn find_on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|path| path.is_file())
}

/// Builds a program of a package with cargo, once; a long build is made only if `build` allows it.
pub(crate) fn build_with_cargo(
    [package, version, features, program]: [&str; 4],
    build: bool,
) -> anyhow::Result<PathBuf> {
    let folder = create_peers_folder()?.join(format!("cargo-{package}-{version}"));
    let program = folder.join("bin").join(program);
    if !program.exists() {
        ensure!(build, "{package} is not installed; --with-{package} builds it, in minutes");
        let cargo = &mut Command::new("cargo");
        let cargo = cargo.args(["install", "--quiet", "--locked", "--no-default-features"]);
        let cargo = cargo.args(["--features", features, "--version", version, "--root"]);
        // A short build matters more than a fast program.
        let cargo = cargo.arg(&folder).args(["--config", "profile.release.opt-level=1", package]);
        run_command(cargo.env("CARGO_TARGET_DIR", folder.join("target")))?;
    }
    Ok(program)
}

/// Builds the program that calls the library of tetration with cargo, once, in minutes.
pub(crate) fn build_tetration_library() -> anyhow::Result<PathBuf> {
    let target = create_peers_folder()?.join("tetration-peer");
    let cargo = &mut Command::new("cargo");
    let cargo = cargo.args(["build", "--quiet", "--release", "--locked", "--manifest-path"]);
    run_command(cargo.arg(TETRATION).env("CARGO_TARGET_DIR", &target))?;
    Ok(target.join("release/tetration-peer"))
}

/// Returns the path of a script of this crate.
pub(crate) fn script_path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("peers").join(name)
}

/// Returns the folder for all installations.
pub(crate) fn create_peers_folder() -> anyhow::Result<PathBuf> {
    let program = std::env::current_exe()?; // target/<profile>/conformance
    let folder = program.ancestors().nth(2).context("a program without a folder")?.join("peers");
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

/// Runs a command to its end; its last message is the error.
pub(crate) fn run_command(command: &mut Command) -> anyhow::Result<String> {
    let shown = command.get_program().to_string_lossy().into_owned();
    let output =
        command.stdin(Stdio::null()).output().with_context(|| format!("cannot start {shown}"))?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    let last = complaint.lines().last().unwrap_or_default();
    ensure!(output.status.success(), "{shown} ended with {}: {last}", output.status);
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A process that answers each line with a line.
#[derive(Debug)]
pub(crate) struct Talk {
    process: Child,
    asks: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Talk {
    /// Starts the process.
    pub(crate) fn start(command: &mut Command) -> anyhow::Result<Self> {
        let shown = command.get_program().to_string_lossy().into_owned();
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().with_context(|| format!("cannot start {shown}"))?;
        let asks = process.stdin.take().context("no way to ask")?;
        let answers = BufReader::new(process.stdout.take().context("no way to hear")?);
        Ok(Self { process, asks, answers })
    }

    /// Writes a line and reads the response line.
    pub(crate) fn ask(&mut self, ask: &Value) -> anyhow::Result<Value> {
        writeln!(self.asks, "{ask}")?;
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        serde_json::from_str(&line).with_context(|| format!("no answer to {ask}"))
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// A server on loopback that ends with this value.
#[derive(Debug)]
pub(crate) struct Server {
    process: Child,
}

impl Server {
    /// Starts a server and waits until it accepts connections.
    pub(crate) fn start<S: AsRef<OsStr>>(
        program: impl AsRef<OsStr>,
        port: u16,
        words: impl IntoIterator<Item = S>,
    ) -> anyhow::Result<Self> {
        let shown = program.as_ref().to_string_lossy().into_owned();
        let process = command_killed_with_parent(program.as_ref())
            .args(words)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot start {shown}"))?;
        let mut server = Self { process };
        let begun = Instant::now();
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            ensure!(begun.elapsed() < PATIENCE, "{shown} does not listen after {PATIENCE:?}");
            let ended = server.process.try_wait()?;
            ensure!(ended.is_none(), "{shown} ended with {}", ended.unwrap_or_default());
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// Returns a command that always ends with this program, if the system supports that.
fn command_killed_with_parent(program: &OsStr) -> Command {
    let Some(setpriv) = find_on_path("setpriv") else { return Command::new(program) };
    let mut command = Command::new(setpriv);
    command.args(["--pdeathsig", "KILL", "--"]).arg(program);
    command
}

/// Returns a free port.
pub(crate) fn find_free_port() -> anyhow::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

const PATIENCE: Duration = Duration::from_secs(60);

/// The manifest of the tetration program, which is in the benchmark crate.
const TETRATION: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../bench/peers/tetration/Cargo.toml");
