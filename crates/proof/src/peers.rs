//! Other software: installed into a disposable folder, started, and ended with this program.
//!
//! Everything is installed beside the output of cargo, in `target/peers`, and reused. Nothing
//! outside is changed; a failed installation is an error that the caller reports.

use std::ffi::OsStr;
use std::fs;
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, ensure};
use archives::peers::{Process, wait_for};
pub(crate) use archives::peers::{Talk, find_free_port, run_command};

/// Creates a Python virtual environment with these packages, once.
pub(crate) fn install_python(name: &str, packages: &[&str]) -> anyhow::Result<PathBuf> {
    archives::peers::install_python(&create_peers_folder()?.join(name), packages)
}

/// Returns a command that runs a script of this crate with zarr-vectors.
pub(crate) fn reference_script(name: &str) -> anyhow::Result<Command> {
    let mut command =
        Command::new(install_python("reference-0.9.2", &["zarr-vectors==0.9.2", "DracoPy"])?);
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
    archives::peers::build_peer("tetration", &create_peers_folder()?.join("tetration-peer"))
}

/// Returns the path of a script of this crate.
pub(crate) fn script_path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("peers").join(name)
}

/// Returns the folder for all installations.
fn create_peers_folder() -> anyhow::Result<PathBuf> {
    let program = std::env::current_exe()?; // target/<profile>/conformance
    let folder = program.ancestors().nth(2).context("a program without a folder")?.join("peers");
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

/// Starts a server on loopback, and waits until it accepts connections.
pub(crate) fn start_server<S: AsRef<OsStr>>(
    program: impl AsRef<OsStr>,
    port: u16,
    words: impl IntoIterator<Item = S>,
) -> anyhow::Result<Process> {
    let shown = program.as_ref().to_string_lossy().into_owned();
    let mut command = command_killed_with_parent(program.as_ref());
    command.args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let started = command.spawn().with_context(|| format!("cannot start {shown}"))?;
    let mut server = Process(started);
    let listens = wait_for(PATIENCE, || {
        let ended = server.0.try_wait()?;
        ensure!(ended.is_none(), "{shown} ended with {}", ended.unwrap_or_default());
        Ok(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok())
    });
    listens?.with_context(|| format!("{shown} does not listen after {PATIENCE:?}"))?;
    Ok(server)
}

/// Returns a command that always ends with this program, if the system supports that.
fn command_killed_with_parent(program: &OsStr) -> Command {
    let Some(setpriv) = find_on_path("setpriv") else { return Command::new(program) };
    let mut command = Command::new(setpriv);
    command.args(["--pdeathsig", "KILL", "--"]).arg(program);
    command
}

const PATIENCE: Duration = Duration::from_secs(60);
