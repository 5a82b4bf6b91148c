//! Validation of whole stores: all five levels, beside the reference's own, in turns.
//!
//! ```text
//! reference    its validator at level 5, in a process that is already there
//! zvf          the store opened and validated, in this process
//! plain        every file of the store, read with one call each into fresh memory
//! peak         the most memory that the command holds, in a process of its own
//! ```
//!
//! Nothing is kept from one turn to the next on our side. Both sides must say the same of the store.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, ensure};
use futures_executor::block_on;
use serde_json::json;
use zvf_store::{OpenOptions, Store};
use zvf_validate::{Observer, Options, Report, validate};

use crate::clock::repeated;
use crate::limit;
use crate::peer::{Environment, Peer};
use crate::report::median;

/// A store of the workloads, and what it is.
const STORES: [(&str, &str); 2] =
    [("2 million points, two attributes", "attributes"), ("20 000 streamlines", "streamlines")];

/// Validates every store whose name contains `filter`, in turns with the reference.
pub(crate) fn run(
    environment: &Environment,
    stores: &Path,
    turns: usize,
    filter: Option<&str>,
) -> anyhow::Result<()> {
    let mut peer = Peer::start(environment, stores)?;
    println!(
        "| validated, levels 1 to 5 | reference | zvf | ratio | plain reads | times these | peak |"
    );
    println!("| --- | ---: | ---: | ---: | ---: | ---: | ---: |");
    for (name, store) in STORES {
        if filter.is_some_and(|part| !name.contains(part)) {
            continue;
        }
        let path = stores.join(format!("{store}.zarrvectors"));
        let request = json!({"work": "validate", "store": store, "level": 5});
        let (sound, report) = (peer.ask(&request)?.count == Some(1), ours(&path)?);
        ensure!(sound == report.is_clean(), "{name}: they say {sound}, we {:?}", report.findings);
        let files = files(&path)?;
        let mut times = [const { Vec::new() }; 3];
        for _ in 0..turns {
            times[0].push(peer.ask(&request)?.seconds);
            times[1].push(repeated(|| ours(&path).map(drop))?);
            times[2].push(limit::read(&files)?);
        }
        let [theirs, own, plain] = times.map(median);
        let peak = peak(&path)? as f64 / f64::from(1 << 20);
        println!(
            "| {name} | {:.1} ms | {:.1} ms | {:.1} | {:.1} ms | {:.2} | {peak:.0} MiB |",
            theirs * 1e3,
            own * 1e3,
            theirs / own,
            plain * 1e3,
            own / plain,
        );
    }
    Ok(())
}

/// Our side alone, for a profiler.
pub(crate) fn profile(stores: &Path, turns: usize, filter: Option<&str>) -> anyhow::Result<()> {
    for (name, store) in STORES {
        if filter.is_some_and(|part| !name.contains(part)) {
            continue;
        }
        let path = stores.join(format!("{store}.zarrvectors"));
        let times: Result<Vec<f64>, _> =
            (0..turns).map(|_| repeated(|| ours(&path).map(drop))).collect();
        println!("{name}: median {:.1} ms", median(times?) * 1e3);
    }
    Ok(())
}

fn ours(path: &Path) -> anyhow::Result<Report> {
    let path = path.to_str().context("a folder whose name is not UTF-8")?;
    let store = block_on(Store::open(path, OpenOptions::default()))?;
    Ok(block_on(validate(&store, &Options::default(), &Observer::default()))?)
}

/// Every file below a folder.
fn files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let (mut files, mut open) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                open.push(entry.path());
            } else {
                files.push(entry.path());
            }
        }
    }
    Ok(files)
}

/// The most bytes that `zvf validate` holds, as the system counts them.
fn peak(store: &Path) -> anyhow::Result<u64> {
    let command = std::env::current_exe()?.with_file_name("zvf");
    ensure!(command.exists(), "there is no {}: build zvf-cli", command.display());
    let mut command = Command::new(command);
    let child = command.args([OsStr::new("validate"), OsStr::new("-q"), store.as_os_str()]);
    let mut child = child.stdout(Stdio::null()).spawn()?;
    let mut most = 0;
    loop {
        most = most.max(held(&child).unwrap_or(0));
        if let Some(status) = child.try_wait()? {
            ensure!(status.success(), "zvf validate: {status}");
            return Ok(most);
        }
        std::thread::sleep(std::time::Duration::from_micros(100));
    }
}

/// The most bytes that a process held so far; nothing once it ended, or on another system.
pub(crate) fn held(child: &Child) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}
