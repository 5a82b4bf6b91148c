//! zarr-vectors and other peers: installed or built, and queried one request at a time.

use std::cell::{LazyCell, RefCell};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use std::time::Instant;

use anyhow::{bail, ensure};
use archives::peers::{Talk, build_peer, install_python, run_command};
use serde_json::{Value, json};

use crate::contest::Contender;
use crate::process::{Watch, read_stats};
use crate::row::{Cost, Role, Turn};
use crate::settings::Bench;

pub(crate) const PACKAGE: &str = "zarr-vectors==0.9.2";
/// The faster one of its two HTTP libraries.
const HTTP: &str = "obstore>=0.3";
const SCRIPT: &str = "reference";

/// Installs zarr-vectors below `folder`, unless it is installed; returns its interpreter.
pub(crate) fn install_reference(folder: &Path) -> anyhow::Result<PathBuf> {
    install_python(&folder.join("reference"), &[PACKAGE, HTTP])
}

/// Returns the folder of the stores that zarr-vectors writes, and writes the missing ones.
pub(crate) fn make_reference_stores(bench: &Bench) -> anyhow::Result<PathBuf> {
    let stores = bench.stores_folder();
    if bench.own.is_none() {
        let mut make = Command::new(install_reference(&bench.folder)?);
        run_command(
            make.arg(script(SCRIPT)).arg("make").arg(&stores).arg(bench.scale.to_string()),
        )?;
    }
    Ok(stores)
}

/// The name of zarr-vectors in tables.
pub(crate) const NAME: &str = "zarr-vectors 0.9.2";

/// Returns the path of a script of this crate.
pub(crate) fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("peers/{name}.py"))
}

/// zarr-vectors or another contender, by its script or program: it is installed and started when it
/// is first asked. Where it cannot be, this is why the contender is absent.
pub(crate) struct Other<'a> {
    name: &'static str,
    role: Role,
    peer: Rc<RefCell<Started<'a>>>,
}

type Started<'a> = LazyCell<anyhow::Result<Peer>, Box<dyn FnOnce() -> anyhow::Result<Peer> + 'a>>;

impl<'a> Other<'a> {
    /// Returns a peer that starts like this, unless peers are excluded.
    pub(crate) fn start(
        bench: &'a Bench,
        name: &'static str,
        role: Role,
        start: impl FnOnce() -> anyhow::Result<Peer> + 'a,
    ) -> Self {
        let start = move || {
            ensure!(!bench.alone && bench.own.is_none(), "not asked");
            start()
        };
        Self { name, role, peer: Rc::new(RefCell::new(LazyCell::new(Box::new(start)))) }
    }

    /// Returns the zarr-vectors process that answers queries of stores.
    pub(crate) fn reference(bench: &'a Bench) -> Self {
        Self::start(bench, NAME, Role::Reference, || {
            let python = install_reference(&bench.folder)?;
            Peer::spawn(Command::new(python).arg(script(SCRIPT)).arg("serve").arg(&bench.folder))
        })
    }

    /// Returns a peer with the packages of its script, and a folder for its files.
    pub(crate) fn new(
        bench: &'a Bench,
        name: &'static str,
        script: &'a str,
        packages: &'a [&str],
        folder: &'a Path,
    ) -> Self {
        Self::start(bench, name, Role::Peer, move || {
            Peer::script(&install_python(&bench.folder.join(script), packages)?, script, folder)
        })
    }

    /// Returns a peer whose program is built from its own crate, and a folder for its files.
    pub(crate) fn from_crate(
        bench: &'a Bench,
        name: &'static str,
        program: &'a str,
        folder: &'a Path,
    ) -> Self {
        Self::start(bench, name, Role::Peer, move || {
            let program = build_peer(program, &bench.folder.join(format!("{program}-peer")))?;
            let threads = bench.threads.to_string();
            Peer::spawn(Command::new(program).arg(folder).env("RAYON_NUM_THREADS", threads))
        })
    }

    /// Returns the contender that executes a request.
    pub(crate) fn contender(&self, request: Value) -> Contender<'a> {
        self.contender_as(self.name, self.role, request)
    }

    /// Returns the contender under another name: one process may do the work of several.
    pub(crate) fn contender_as(&self, name: &str, role: Role, request: Value) -> Contender<'a> {
        let peer = Rc::clone(&self.peer);
        Contender::new(name, role, move || match &mut **peer.borrow_mut() {
            Ok(peer) => peer.ask(&request),
            Err(why) => bail!("{why:#}"),
        })
    }
}

/// A running process with one line per request and response.
pub(crate) struct Peer {
    talk: Talk,
    /// Its memory when it was ready, if known.
    held: Option<u64>,
}

impl Peer {
    /// Starts a script with the folder for its files.
    pub(crate) fn script(python: &Path, script: &str, folder: &Path) -> anyhow::Result<Self> {
        let path = self::script(script);
        ensure!(path.exists(), "nobody wrote how to ask it");
        Self::spawn(Command::new(python).arg(path).arg(folder))
    }

    /// Starts a process, and waits until its modules are loaded.
    pub(crate) fn spawn(command: &mut Command) -> anyhow::Result<Self> {
        let mut talk = Talk::start(command)?;
        talk.ask(&json!({"work": "ready"}))?;
        let held = read_stats(talk.id()).map(|stats| stats.held);
        Ok(Self { talk, held })
    }

    /// Executes a request.
    ///
    /// The memory is that at the start plus the peak of this request above the memory before it:
    /// remains of earlier requests do not count.
    fn ask(&mut self, request: &Value) -> anyhow::Result<Turn> {
        let (watch, begun) = (Watch::begin(self.talk.id()), Instant::now());
        let answer = self.talk.ask(request)?;
        let Some(seconds) = answer["seconds"].as_f64() else {
            bail!("it says {}", answer["error"]);
        };
        let times = answer["times"].as_u64().unwrap_or(1).max(1);
        let stats = watch.and_then(|watch| watch.end());
        let cost = stats.map(|stats| Cost {
            memory: self.held.map(|held| held + stats.peak),
            processor: Some(stats.processor.mul_f64(seconds / begun.elapsed().as_secs_f64())),
            ..Cost::of_reads(stats.calls.div_ceil(times), stats.bytes / times)
        });
        let cost = cost.unwrap_or_default();
        Ok(Turn { seconds, count: answer["count"].as_u64(), cost })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// The target of a link is left unchanged.
    #[cfg(unix)]
    #[test]
    fn a_link_is_not_emptied() {
        let folder = tempfile::tempdir().unwrap();
        let elsewhere = folder.path().join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        fs::write(elsewhere.join("kept"), "1").unwrap();
        std::os::unix::fs::symlink(&elsewhere, folder.path().join("peer")).unwrap();
        let error =
            install_python(&folder.path().join("peer"), &["nothing"]).unwrap_err().to_string();
        assert!(error.contains("peer is a symbolic link: expected a folder"), "{error}");
        assert!(elsewhere.join("kept").exists());
    }
}
